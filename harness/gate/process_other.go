//go:build !unix

package gate

import (
	"os"
	"syscall"
)

var ownGroup *syscall.SysProcAttr

// terminate does nothing: kill follows.
func terminate(*os.Process) {}

func kill(p *os.Process) { _ = p.Kill() }
