//go:build amd64 || arm64

package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/rehearsal"
)

// oddNames are names that a diff may garble: with text that git reads as the end of a
// name, quotes, invisible characters, and commands of a runner.
var oddNames = []string{
	"a b", "a b/a b", "x b/x", " lead", "trail ", "dir /x", "dir / x ", " ", "a\u3000b\u00a0c", "\u00a0/x\u3000", "tab\tx", "\ttab\t", "line\nend", "q\"uote", "\"", `back\slash`,
	`\`, `\303`, "ü/日本", "❤\ufe0f", "\u202e\u2028", "\x01\x1b[2J\x7f", "\xff\xc3(", "##[stop-commands]x", "##vso[task.setvariable]x", "a#\u00a0", "::error::x", "'$`;*", "\U000e0100", "-rf", "a/b/a b",
}

// TestDiffNames: git applies a diff to exactly the file of the diff, whatever its name is.
// No header of the diff is a command of a runner.
func TestDiffNames(t *testing.T) {
	needGit(t)
	plainFile, program := &patch.FileState{}, &patch.FileState{Executable: true}
	for _, c := range []struct {
		what          string
		from, to      *patch.FileState
		before, after string
	}{
		{"made", nil, plainFile, "", "new\n"}, {"made empty", nil, program, "", ""}, {"changed", plainFile, plainFile, "old\n", "new\n"},
		{"made a program", plainFile, program, "old\n", "old\n"}, {"deleted", plainFile, nil, "old\n", ""}, {"deleted empty", plainFile, nil, "", ""},
	} {
		for _, name := range oddNames {
			dir := t.TempDir()
			at := filepath.Join(dir, name)
			if c.from != nil {
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				writeFileAt(t, at, []byte(c.before))
			}
			text := string(diffPrinter{}.text(patch.Step{Path: name, Before: c.from, After: c.to}, []byte(c.before), []byte(c.after)))
			head, _, _ := strings.Cut(text, "\n@@")
			if strings.Contains(head, "##[") || strings.Contains(head, "##vso[") || strings.ContainsAny(head, "\x1b\u202e\u2028\u3000") {
				t.Errorf("%s %q: %q", c.what, name, head)
			}
			cmd := exec.Command("git", "apply")
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(text)
			cmd.Env = rehearsal.Env("PATH="+os.Getenv("PATH"), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s %q: %v: %s\n%s", c.what, name, err, out, text)
				continue
			}
			var want string
			if c.to != nil {
				want = mode(c.to) + " " + name + " " + c.after
			}
			if got := onlyFile(t, dir); got != want {
				t.Errorf("%s %q: git makes %q, and not %q, of\n%s", c.what, name, got, want, text)
			}
		}
	}
}

// onlyFile returns mode, name and content of the only file beneath a folder.
func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		file := &patch.FileState{Executable: info.Mode()&0o100 != 0}
		list = append(list, mode(file)+" "+strings.TrimPrefix(path, dir+"/")+" "+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " and ")
}

// TestApplyForARunner: no name of a pack and no line of its files is a command to the
// runner that reads the output of a workflow. This holds for shown files and for
// conflicts.
func TestApplyForARunner(t *testing.T) {
	s := stage{newBench(t), ""}
	s.pack = filepath.Join(s.dir, "pack")
	const lines = `##[group]a\n::add-mask::x\n##vso[task.setvariable variable=PATH]evil\n##teamcity[x]\n`
	intent := put(t, s.dir, "intent.json", `{"goal":"Write","constraints":["now"],"actions":[
		{"kind":"write","path":"out/##[stop-commands]x","content":"`+lines+`"},{"kind":"write","path":"out/##[add-matcher]m","content":"a\u0000b"},
		{"kind":"write","path":"out/##vso[task.prepend]y","content":"a\u0000b"}]}`)
	if _, stderr, code := s.run(t, "run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--pack", s.pack); code != exitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	free, taken := filepath.Join(s.dir, "free"), filepath.Join(s.dir, "taken", "out")
	for _, dir := range []string{free, taken} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"##[stop-commands]x", "##[add-matcher]m", "##vso[task.prepend]y"} {
		put(t, taken, name, "other\n ::error::x\n")
	}
	for _, env := range []string{"GITHUB_ACTIONS=true", "TF_BUILD=True", "TEAMCITY_VERSION=2025.1"} {
		for _, c := range []struct {
			to   string
			code int
			want string
		}{
			{free, exitAccepted, "\n+++ \"b/out/\\043\\043[stop-commands]x\"\n"},
			{filepath.Dir(taken), exitRejected, `conflict: out/#\u0023vso[task.prepend]y: `},
		} {
			cmd, stdout, stderr := s.command(t, "apply", s.pack, "--to", c.to, "--dry-run")
			cmd.Env = append(cmd.Env, env)
			code := status(t, cmd.Run())
			said := stdout.String() + stderr.String()
			if code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("%s, %s: exit status %d: %s", env, c.to, code, said)
			}
			for line := range strings.Lines(said) {
				if strings.HasPrefix(strings.TrimSpace(line), "::") || regexp.MustCompile(`##\w*\[`).MatchString(line) {
					t.Errorf("%s: %q", env, line)
				}
			}
		}
	}
}

// failsAt is a standard output. From the first write with a given text on, all writes
// fail.
type failsAt struct {
	text   string
	failed bool
}

func (w *failsAt) Write(b []byte) (int, error) {
	if w.failed = w.failed || bytes.Contains(b, []byte(w.text)); w.failed {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// TestApplyUnsaid: when standard output fails, standard error reports the state that was
// reached.
func TestApplyUnsaid(t *testing.T) {
	needGit(t)
	s := newStage(t)
	for _, c := range []struct {
		fails, stands string
		applied       bool
		args          []string
	}{
		{"diff --git", "nothing was changed", false, nil},
		{"7 files: ", "nothing was changed", false, nil},
		{"applied to ", "applied all the same: every file is in place", true, nil},
		{"applied to ", "applied all the same: every file is in place, on branch new", true, []string{"--git-branch", "new"}},
	} {
		dir := filepath.Join(s.dir, "tree")
		if s.tree(t, dir); c.args != nil {
			s.repository(t, dir)
		}
		before := shot(t, dir)
		env := map[string]string{"HOME": s.home, "PATH": os.Getenv("PATH")}
		var stderr bytes.Buffer
		code := run(t.Context(), append([]string{"apply", s.pack, "--to", dir}, c.args...), system{
			stdin: os.Stdin, stdout: &failsAt{text: c.fails}, stderr: &stderr, env: func(name string) string { return env[name] },
			environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home}, now: time.Now, rand: rand.Reader, busy: newOccupied(),
		}, commands)
		changed := shot(t, dir) != before
		if code != exitError || changed != c.applied || !strings.HasPrefix(stderr.String(), "fiador: "+c.stands+"\n{") || !strings.Contains(stderr.String(), "standard output could not be written") {
			t.Errorf("%s: exit status %d, changed %v: %s", c.fails, code, changed, stderr.String())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
