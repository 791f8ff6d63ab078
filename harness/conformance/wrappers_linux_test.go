package conformance

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrappers: a wrapper finds the binary at the documented places, never runs a
// wrapper instead, and reports a missing binary.
func TestWrappers(t *testing.T) {
	shell, err := os.ReadFile("../../docs/wrappers/safe-run.sh")
	if err != nil {
		t.Fatal(err)
	}
	snake, err := os.ReadFile("../../docs/wrappers/safe_run.py")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(tool)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		name, interpreter string
		text              []byte
	}{{"safe-run.sh", found(t, "sh"), shell}, {"safe_run.py", python(t), snake}} {
		t.Run(w.name, func(t *testing.T) {
			if w.interpreter == "" {
				t.Skip("python3 is not installed")
			}
			dir := folder(t)
			put := func(name string, text []byte) string {
				path := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), writeProgram(path, string(text), 0o755)); err != nil {
					t.Fatal(err)
				}
				return path
			}
			alone := put("alone/"+w.name, w.text)
			beside := put("beside/"+w.name, w.text)
			put("beside/safe-run", binary)
			itself := put("itself/safe-run", w.text)
			put("shell/safe-run", shell)
			put("snake/safe-run", snake)
			path := func(names ...string) string {
				var list []string
				for _, n := range names {
					list = append(list, filepath.Join(dir, n))
				}
				return "PATH=" + strings.Join(append(list, "/usr/bin", "/bin"), ":")
			}
			const version, none = "safe-run 0", "no safe-run binary for contract M0-v0.1.0"
			for _, c := range []struct {
				why, wrapper string
				env          []string
				code         int
				says         string
			}{
				{"the binary is named", alone, []string{path(), "SAFE_RUN_BIN=" + tool}, 0, version},
				{"the binary is named from here", alone, []string{path(), "SAFE_RUN_BIN=beside/safe-run"}, 0, version},
				{"what is named is not there", beside, []string{path("beside"), "SAFE_RUN_BIN=missing"}, 127, none},
				{"what is named is a folder", beside, []string{path("beside"), "SAFE_RUN_BIN=" + dir}, 127, none},
				{"what is named is a wrapper", beside, []string{path("beside"), "SAFE_RUN_BIN=" + itself}, 127, none},
				{"the binary lies beside", beside, []string{path()}, 0, version},
				{"the binary is in PATH", alone, []string{path("beside")}, 0, version},
				{"wrappers are in PATH before the binary", itself, []string{path("itself", "snake", "shell", "beside")}, 0, version},
				{"only wrappers are in PATH", itself, []string{path("itself", "shell", "snake")}, 127, none},
				{"PATH is empty", alone, []string{"PATH="}, 127, none},
			} {
				cmd := exec.Command(w.interpreter, c.wrapper, "--version")
				cmd.Dir, cmd.Env = dir, c.env
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != c.code || !strings.Contains(out.String(), c.says) {
					t.Errorf("%s: %v, %s", c.why, err, &out)
				}
			}
			help, err := exec.Command(w.interpreter, alone, "--wrapper-help").Output()
			if err != nil || !strings.Contains(string(help), "contract M0-v0.1.0") || !strings.Contains(strings.Split(string(w.text), "\n")[1], "contract M0-v0.1.0") {
				t.Errorf("the contract is not declared: %v, %s", err, help)
			}
		})
	}
}

// TestWrappersLint: shellcheck finds nothing.
func TestWrappersLint(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("shellcheck is not installed")
	}
	if out, err := exec.Command("shellcheck", "../../docs/wrappers/safe-run.sh").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
