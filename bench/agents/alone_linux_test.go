package agents

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"
)

// aloneVar marks a process of the tests that has a network of its own.
const aloneVar = "FIADOR_AGENTS_ALONE"

// alone runs this program again in a network that has loopback and nothing else, and returns
// its exit status. It returns false where it is that program, or where the machine allows no
// such network: then the clients' settings alone keep them offline.
func alone() (int, bool) {
	if os.Getenv(aloneVar) != "" {
		if err := loopback(); err != nil {
			fmt.Fprintln(os.Stderr, "loopback:", err)
			return 1, true
		}
		return 0, false
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), aloneVar+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "no network of its own for the clients:", err)
		return 0, false
	}
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), true
}

// loopback brings up the interface lo.
func loopback() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP}
	copy(request.name[:], "lo")
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); e != 0 {
		return e
	}
	return nil
}
