package policy

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"
)

const (
	dataBytes = 1 << 30   // of data that a process may have while a policy is at work
	dataMore  = 512 << 20 // that it may take at least
)

// dataLimit is the limit of the process's data, which all policies at work share.
var dataLimit struct {
	sync.Mutex
	users int
	undo  func()
}

// limitData bounds the data of the process until the function that it returns is called:
// what takes memory faster than the watchdog looks ends the process, with status 2. Of
// several at the same time the last one puts the old limit back.
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

// setDataLimit sets the limit, unless there is a lower one, and returns what puts the old
// one back.
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

// ownData is the memory of the process that the limit counts, as far as it is known.
func ownData() uint64 {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(text)
	if len(fields) < 6 {
		return 0
	}
	pages, _ := strconv.ParseUint(string(fields[5]), 10, 64)
	return pages * uint64(os.Getpagesize())
}
