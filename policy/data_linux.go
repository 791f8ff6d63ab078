package policy

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

const (
	dataBytes = 1 << 30   // of data that a process may have while a policy is at work
	dataMore  = 512 << 20 // that it may take at least
)

// limitData bounds the data of the process and returns what puts the old limit back:
// what takes memory faster than the watchdog looks ends the process, with status 2.
// Of several at the same time the first to set the limit removes it.
func limitData() (undo func()) {
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
