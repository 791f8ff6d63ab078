//go:build !linux

package main

import (
	"errors"
	"os/exec"
)

func ownNetwork() error { return errors.New("Linux alone has network namespaces") }

func grouped(*exec.Cmd) {}

func endGroup(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
