package applycmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
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
				if err := os.WriteFile(at, []byte(c.before), 0o644); err != nil {
					t.Fatal(err)
				}
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
