//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/command"
)

// readInit tries to read the memory of the init, and its open files.
const readInit = `
import ctypes, os
init = os.getppid()
libc = ctypes.CDLL(None, use_errno=True)
def tries(what, f):
    try:
        if f(): print("read", what)
    except OSError: pass
for name in ("mem", "environ", "maps", "auxv"):
    tries(name, lambda: open("/proc/%d/%s" % (init, name), "rb").read(1) is not None)
tries("fd", lambda: os.listdir("/proc/%d/fd" % init) is not None)
class Vec(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
ours, theirs = Vec(ctypes.cast(ctypes.create_string_buffer(8), ctypes.c_void_p), 8), Vec(0x400000, 8)
tries("vm", lambda: libc.process_vm_readv(init, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) >= 0)
tries("ptrace", lambda: libc.ptrace(16, init, None, None) >= 0)
fds = []
for fd in range(64):
    try:
        os.fstat(fd)
        fds.append(fd)
    except OSError: pass
print(os.environ.get("TOKEN"), os.environ.get("LANG"), fds[:3])
`

// TestSecrets: one command has its secret variables, and no command before it or behind it. A
// secret replaces a variable of its name. No command can read the init.
func TestSecrets(t *testing.T) {
	temp := t.TempDir()
	// Root's commands without a view of their own must reach the folder.
	if err := errors.Join(os.Chmod(filepath.Dir(temp), 0o755), os.Chmod(temp, 0o755)); err != nil {
		t.Fatal(err)
	}
	h := NewHost(temp)
	defer h.Close()
	const spy = `(setsid sh -c 'while :; do cat /proc/[0-9]*/environ /proc/[0-9]*/fd/* >>$TMPDIR/seen; done' &) >/dev/null 2>&1; sleep 0.1`
	for _, tier := range []Isolation{Full, Confined} {
		for _, l := range []Limits{limits(), {MemoryMB: 200, CPUCores: 1, MaxChildren: 10, OutputFiles: 10, OutputBytes: 1 << 20}} {
			python := Action{Argv: []string{"/usr/bin/python3", "-c", readInit}, Env: []string{"TOKEN=public"}}
			s, err := h.Start(t.Context(), Request{Write: Staged, Limits: l, Least: tier, Most: tier, Actions: []Action{
				{Argv: []string{"sh", "-c", spy}}, python, python, {Argv: []string{"sh", "-c", "cat $TMPDIR/seen /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"}},
			}})
			if err != nil {
				t.Skipf("%s isolation cannot be had here: %v", tier, err)
			}
			var seen []string
			for i := range 4 {
				var secrets []string
				if i == 1 {
					secrets = []string{"TOKEN=open sesame", "EMPTY="}
				}
				res, err := command.Run(t.Context(), s.Command(i, actionTime, nil, secrets...), command.Spec{Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 1 << 20}})
				if err != nil || i < 3 && res.ExitCode() != 0 {
					t.Fatalf("%s: command %d: %v, %d %s", tier, i, err, res.ExitCode(), res.Stderr.Bytes)
				}
				seen = append(seen, string(res.Stdout.Bytes))
			}
			const rest = " C.UTF-8 [0, 1, 2]\n"
			if !slices.Equal(seen[:3], []string{"", "open sesame" + rest, "public" + rest}) || strings.Contains(seen[3], "sesame") || strings.Contains(seen[3], "LANG=") != (tier == Full) { // in confined no command reads its own environment in /proc
				t.Errorf("%s: %q", tier, seen)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
