// Command crowd starts so many processes of one command at once, waits for all of them,
// and prints how long that took and what each of them printed, as JSON.
//
//	crowd COUNT COMMAND [ARGUMENT...]
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

func main() {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(2)
	}
	outputs, faults := make([]string, count), make([]error, count)
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range count {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			cmd := exec.Command(os.Args[2], os.Args[3:]...)
			cmd.Stderr = os.Stderr
			ready.Done()
			<-begin
			out, err := cmd.Output()
			outputs[i], faults[i] = string(out), err
		}()
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	done.Wait()
	wall := time.Since(start)
	failed := 0
	for _, err := range faults {
		if err != nil {
			fmt.Fprintln(os.Stderr, "crowd:", err)
			failed++
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"wall_ns": wall.Nanoseconds(), "failed": failed, "outputs": outputs,
	})
}
