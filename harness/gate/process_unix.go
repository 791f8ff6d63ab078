//go:build unix

package gate

import (
	"os"
	"syscall"
)

// ownGroup gives a server a process group of its own.
var ownGroup = &syscall.SysProcAttr{Setpgid: true}

func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
