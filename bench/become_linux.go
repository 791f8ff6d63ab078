package main

import (
	"os/exec"
	"syscall"
)

// become has a command run as another user.
func become(cmd *exec.Cmd, id int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
}
