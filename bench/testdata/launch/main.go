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
	before := busy()
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	after := busy()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"wall_ns":   wall.Nanoseconds(),
		"cpu_ns":    cpu.Nanoseconds(),
		"others_ns": max(0, after-before-cpu).Nanoseconds(),
		"peak_kib":  usage.Maxrss,
		"exit":      int64(cmd.ProcessState.ExitCode()),
	})
}

// busy is the time that all cores have worked since the start of the machine, in
// steps of 10 ms (proc_stat(5)); 0 where it is not told.
func busy() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if _, err := fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+softirq+steal) * 10 * time.Millisecond
}
