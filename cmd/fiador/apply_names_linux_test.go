//go:build amd64 || arm64

package main

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// TestApplyForARunner: no name of a pack and no line of its files is a command to the
// runner that reads the output of a workflow. This holds for shown files and for
// conflicts.
func TestApplyForARunner(t *testing.T) {
	t.Parallel()
	s := stage{newBench(t), ""}
	s.pack = filepath.Join(s.dir, "pack")
	const lines = `##[group]a\n::add-mask::x\n##vso[task.setvariable variable=PATH]evil\n##teamcity[x]\n`
	intent := put(t, s.dir, "intent.json", `{"goal":"Write","constraints":["now"],"actions":[
		{"kind":"write","path":"out/##[stop-commands]x","content":"`+lines+`"},{"kind":"write","path":"out/##[add-matcher]m","content":"a\u0000b"},
		{"kind":"write","path":"out/##vso[task.prepend]y","content":"a\u0000b"}]}`)
	if _, stderr, code := s.run(t, "run", intent, "--policy", "dev", "--mode", "execute-sandbox", "--pack", s.pack); code != cli.ExitAccepted {
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
			{free, cli.ExitAccepted, "\n+++ \"b/out/\\043\\043[stop-commands]x\"\n"},
			{filepath.Dir(taken), cli.ExitRejected, `conflict: out/#\u0023vso[task.prepend]y: `},
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
	t.Parallel()
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
		code := cli.Run(t.Context(), append([]string{"apply", s.pack, "--to", dir}, c.args...), cli.System{
			Stdin: os.Stdin, Stdout: &failsAt{text: c.fails}, Stderr: &stderr, Env: func(name string) string { return env[name] },
			Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home}, Now: time.Now, Rand: rand.Reader, Busy: cli.NewBusy(),
		}, commands)
		changed := shot(t, dir) != before
		if code != cli.ExitError || changed != c.applied || !strings.HasPrefix(stderr.String(), "fiador: "+c.stands+"\n{") || !strings.Contains(stderr.String(), "standard output could not be written") {
			t.Errorf("%s: exit status %d, changed %v: %s", c.fails, code, changed, stderr.String())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
