//go:build linux && (amd64 || arm64)

package initproc

import (
	"runtime"
	"syscall"
	"unsafe"

	"github.com/fiador/fiador/harness/sandbox/wire"
)

const (
	lastFD   = 3 // the input of the last step
	resultFD = 4 // for the error of the last step; closed when the command is executed
)

// final is the input of the last step before a command.
type final struct {
	Confine Confine
	Path    string
	Argv    []string
	Env     []string
}

func codeFinal(c *wire.Coder, f *final) {
	codeConfine(c, &f.Confine)
	wire.Text(c, &f.Path)
	wire.List(c, &f.Argv, wire.Text[string])
	wire.List(c, &f.Env, wire.Text[string])
}

// startLast starts this program again inside; the new process then becomes the command. A
// pid of -1 with an error means that it could not give up what it must.
func (in *initial) startLast(path string, a Action, attr *syscall.ProcAttr) (int, error) {
	input := &wire.Coder{}
	codeFinal(input, &final{in.plan.Confine, path, a.Argv, a.Env})
	name, _ := cstr("last")
	told, err := call(sysMemfdCreate, uintptr(unsafe.Pointer(name)), 1)
	if err != nil {
		return -1, err
	}
	defer syscall.Close(told)
	if err := writeAll(told, input.B); err != nil {
		return -1, err
	}
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return -1, err
	}
	defer syscall.Close(p[0])
	attr.Files, attr.Env = append(attr.Files, uintptr(told), uintptr(p[1])), nil
	pid, err := syscall.ForkExec("/proc/self/exe", []string{NameLast}, attr)
	syscall.Close(p[1])
	if err != nil {
		return -1, err
	}
	var said [5]byte
	n, err := syscall.Read(p[0], said[:])
	switch {
	case err != nil:
		return -1, err
	case n == 0:
		return pid, nil
	case n < len(said):
		return -1, syscall.EIO
	case said[0] != lastExec:
		pid = -1
	}
	return pid, syscall.Errno(wire.Get(said[1:]))
}

// The step that failed, as the last step reports it.
const (
	lastGiveUp = 'g'
	lastExec   = 'x'
)

// last gives up the rights of Confine and becomes the command.
func last() int {
	runtime.LockOSThread()
	fail := func(what byte, err error) int {
		said := [5]byte{what}
		wire.Put(said[1:], uint64(number(err)))
		_, _ = syscall.Write(resultFD, said[:])
		return statusNoSetup
	}
	syscall.CloseOnExec(resultFD)
	var f final
	b, err := readAll(lastFD)
	if err := inOrder(
		func() error { return err },
		func() error { return wire.Decode(b, &f, codeFinal) },
		f.Confine.giveUp,
	); err != nil {
		return fail(lastGiveUp, err)
	}
	return fail(lastExec, syscall.Exec(f.Path, f.Argv, f.Env))
}
