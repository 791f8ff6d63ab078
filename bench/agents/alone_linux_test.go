package agents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// aloneVar names the one folder that a process of the tests can write to.
const aloneVar = "FIADOR_AGENTS_ALONE"

// alone runs this program again in a network that has loopback and nothing else, and on file
// systems that are read-only but for one folder of temporary files. It returns the exit status.
// It returns false in that program, and where the machine allows no such thing: then the
// clients' settings alone keep the clients offline and in their own HOMEs.
func alone() (int, bool) {
	if dir := os.Getenv(aloneVar); dir != "" {
		if err := loopback(); err != nil {
			fmt.Fprintln(os.Stderr, "loopback:", err)
			return 1, true
		}
		if err := readOnly(dir); err != nil {
			fmt.Fprintln(os.Stderr, "read-only file systems:", err)
			return 1, true
		}
		return 0, false
	}
	dir, err := os.MkdirTemp("", "agents")
	if err == nil {
		defer os.RemoveAll(dir)
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no folder for the clients:", err)
		return 1, true
	}
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool {
		return strings.HasPrefix(arg, "-test.testlogfile=") // for the cache of go test; it cannot be written
	})
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), aloneVar+"="+dir, "TMPDIR="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "no network and no mounts of their own for the clients:", err)
		return 0, false
	}
	cmd.Wait()
	return cmd.ProcessState.ExitCode(), true
}

// readOnly makes all file systems read-only, but a folder, the cache of the Go command, which
// the tests need, and those of the kernel.
func readOnly(dir string) error {
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	writable := []string{dir, strings.TrimSpace(string(cache))}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, path := range writable {
		if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	for _, path := range append(writable, "/proc", "/sys", "/dev") {
		if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// TestAlone: the clients, which have the rights of this process, can write to no home folder
// and to no folder of the machine's settings.
func TestAlone(t *testing.T) {
	if os.Getenv(aloneVar) == "" {
		t.Skip("this machine gives the tests no mounts of their own")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{home, "/", "/etc", "/tmp", "/var/tmp"} {
		f, err := os.CreateTemp(dir, "agents")
		if err == nil {
			f.Close()
			os.Remove(f.Name())
			t.Errorf("%s can be written to", dir)
		}
	}
	write(t, filepath.Join(t.TempDir(), "file"), "this one can")
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
