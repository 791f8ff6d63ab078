package rehearsal

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"unsafe"
)

// Terminal opens a pseudo-terminal: the side of the program, and the far side, where a
// person types and reads. Both are closed at the end of the test. Where there is no
// pseudo-terminal, the test is skipped.
func Terminal(t testing.TB) (program, far *os.File) {
	t.Helper()
	far, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { far.Close() })
	var unlock, number int32
	for _, call := range []struct {
		request uintptr
		arg     *int32
	}{{syscall.TIOCSPTLCK, &unlock}, {syscall.TIOCGPTN, &number}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, far.Fd(), call.request, uintptr(unsafe.Pointer(call.arg))); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program, far
}

// Resize gives a pseudo-terminal a number of columns.
func Resize(t testing.TB, program *os.File, columns uint16) {
	t.Helper()
	size := [4]uint16{24, columns}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, program.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); errno != 0 {
		t.Fatal(errno)
	}
}
