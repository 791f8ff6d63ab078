//go:build linux && (amd64 || arm64)

package initproc

import (
	"bytes"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/fiador/fiador/harness/sandbox/wire"
)

const (
	lastFD   = 3 // the input of the last step
	resultFD = 4 // for the error of the last step; closed when the command is executed
	secretFD = 5 // the secrets of the command, if it has any
)

// final is the input of the last step before a command.
type final struct {
	Confine Confine
	Path    string
	Argv    []string
	Env     []string
	Secret  bool // the process gets secrets
}

func codeFinal(c *wire.Coder, f *final) {
	codeConfine(c, &f.Confine)
	wire.Text(c, &f.Path)
	wire.List(c, &f.Argv, wire.Text[string])
	wire.List(c, &f.Env, wire.Text[string])
	wire.Bool(c, &f.Secret)
}

// reveal adds the secrets to the environment. A secret replaces a variable of its name.
func (f *final) reveal() error {
	if !f.Secret {
		return nil
	}
	b, err := readAll(secretFD)
	if err != nil {
		return err
	}
	var secrets []string
	if err := wire.Decode(b, &secrets, codeSecrets); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, s := range secrets {
		known[name(s)] = true
	}
	for _, e := range f.Env {
		if !known[name(e)] {
			secrets = append(secrets, e)
		}
	}
	f.Env = secrets
	return nil
}

// name returns the name of a variable, "NAME=value".
func name(variable string) string {
	before, _, _ := bytes.Cut([]byte(variable), []byte("="))
	return string(before)
}

// startLast starts this program again inside; the new process then becomes the command. A
// pid of -1 with an error means that it could not give up what it must.
func (in *initial) startLast(path string, a Action, attr *syscall.ProcAttr, secrets []int) (int, error) {
	input := &wire.Coder{}
	codeFinal(input, &final{in.plan.Confine, path, a.Argv, a.Env, len(secrets) > 0})
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
	for _, fd := range secrets {
		attr.Files = append(attr.Files, uintptr(fd))
	}
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
	var become func() error
	b, err := readAll(lastFD)
	if err := inOrder(
		func() error { return err },
		func() error { return wire.Decode(b, &f, codeFinal) },
		f.reveal,
		func() (err error) { become, err = f.prepare(); return err },
		f.Confine.giveUp,
	); err != nil {
		return fail(lastGiveUp, err)
	}
	return fail(lastExec, become())
}

// prepare returns the function that becomes the command. That function takes no memory: the
// limits that this process has then may be too small for the runtime to get any.
func (f *final) prepare() (func() error, error) {
	path, err := syscall.BytePtrFromString(f.Path)
	if err != nil {
		return nil, err
	}
	argv, err := syscall.SlicePtrFromStrings(f.Argv)
	if err != nil {
		return nil, err
	}
	env, err := syscall.SlicePtrFromStrings(f.Env)
	if err != nil {
		return nil, err
	}
	return func() error {
		_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		return errno
	}, nil
}
