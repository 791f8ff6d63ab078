package policy

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"
)

const (
	dataBytes = 1 << 30   // limit of the process's data in bytes while a policy is at work
	dataMore  = 512 << 20 // bytes that the process may always take beyond its present data
)

// dataLimit is the limit of the process's data. All policies at work share it.
var dataLimit struct {
	sync.Mutex
	users int
	undo  func()
}

// limitData bounds the data of the process until the caller calls undo. If the process
// takes memory faster than the watchdog polls, the limit ends it with status 2. If
// there are several users at a time, the last undo restores the old limit.
func limitData() (undo func()) {
	d := &dataLimit
	d.Lock()
	defer d.Unlock()
	if d.users++; d.users == 1 {
		d.undo = setDataLimit()
	}
	return func() {
		d.Lock()
		defer d.Unlock()
		if d.users--; d.users == 0 {
			d.undo()
		}
	}
}

// setDataLimit sets the limit, unless a lower limit is in force. The function that it
// returns restores the old limit.
func setDataLimit() (undo func()) {
	var old syscall.Rlimit
	none := func() {}
	if syscall.Getrlimit(syscall.RLIMIT_DATA, &old) != nil {
		return none
	}
	limit := max(dataBytes, ownData()+dataMore)
	if old.Cur <= limit {
		return none
	}
	if syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: old.Max}) != nil {
		return none
	}
	return func() { _ = syscall.Setrlimit(syscall.RLIMIT_DATA, &old) }
}

// ownData returns the memory of the process that the limit counts, or 0 if it is
// unknown.
func ownData() uint64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(text)
	if len(fields) < 6 {
		return 0
	}
	pages, _ := strconv.ParseUint(string(fields[5]), 10, 64)
	return pages * uint64(os.Getpagesize())
}
