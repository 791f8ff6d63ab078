// Command launch runs the command that its arguments name once and prints what
// that took, as JSON. It is small because Linux counts the memory of the process
// that starts a program into the peak of that program.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"wall_ns":  wall.Nanoseconds(),
		"cpu_ns":   (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Nanoseconds(),
		"peak_kib": usage.Maxrss,
		"exit":     int64(cmd.ProcessState.ExitCode()),
	})
}
