// Command spawn forks, executes the command that its arguments name, by its path, and
// ends as it does: what starting a command costs a Go program that does nothing else.
// The command has this process's own standard input, output and error.
package main

import (
	"os"
	"syscall"
)

func main() {
	pid, err := syscall.ForkExec(os.Args[1], os.Args[1:], &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		os.Stderr.WriteString("spawn: " + os.Args[1] + ": " + err.Error() + "\n")
		os.Exit(2)
	}
	var status syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &status, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil || !status.Exited() {
		os.Exit(2)
	}
	os.Exit(status.ExitStatus())
}
