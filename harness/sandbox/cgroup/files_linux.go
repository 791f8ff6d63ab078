//go:build linux && (amd64 || arm64)

package cgroup

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fileSystem changes a cgroup file system. Its errors are or wrap errno values.
type fileSystem interface {
	mkdir(folder string) error
	rmdir(folder string) error
	write(file, value string) error
}

// kernelTree is the kernel's cgroup file system.
type kernelTree struct{}

// mkdir makes a folder that only its owner can open. Nobody else can then take the lock that
// protects the folder from Sweep.
func (kernelTree) mkdir(folder string) error { return unix.Mkdir(folder, 0o700) }

func (kernelTree) rmdir(folder string) error { return unix.Rmdir(folder) }

// write repeats calls that a signal interrupts. Memory limits of v1 return EINTR, and the Go
// runtime sends signals of its own.
func (kernelTree) write(file, value string) error {
	fd, err := uninterrupted(func() (int, error) { return unix.Open(file, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = uninterrupted(func() (int, error) { return unix.Write(fd, []byte(value)) })
	return err
}

func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return n, err
		}
	}
}

// foldersFrom lists a folder and all folders below it, parents before children.
func foldersFrom(folder string) []string {
	var list []string
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// readPIDs lists the processes of a cgroup, without those of cgroups below it. A process of
// another pid namespace appears as 0 with v2 and not at all with v1.
func readPIDs(folder string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var list []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		list = append(list, pid)
	}
	return list, nil
}

// readFields returns the words of a file, and none for a file that cannot be read.
func readFields(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Fields(string(text))
}

func readNumber(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// readKey returns the number after a key in a file of key-value pairs, or 0.
func readKey(file, key string) int64 {
	fields := readFields(file)
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == key {
			n, _ := strconv.ParseInt(fields[i+1], 10, 64)
			return n
		}
	}
	return 0
}
