package policy

import (
	"fmt"
	"os"
	"runtime/metrics"
	"sync"
	"syscall"
)

const (
	dataBytes = 1 << 30   // limit of the process's data in bytes while a policy is at work
	dataMore  = 512 << 20 // bytes that the process may always take beyond its present data
	dataStep  = 64 << 20  // growth of the runtime's memory in bytes after which the system is asked again
)

// dataLimit is the limit of the process's data. All policies at work share it.
var dataLimit struct {
	sync.Mutex
	users      int
	lowered    bool
	old        syscall.Rlimit // before it was lowered
	own, taken uint64         // at the last question to the system: the process's data, the runtime's memory
}

// limitData bounds the data of the process until the caller calls undo, unless a lower
// limit is in force. If the process takes memory faster than the watchdog polls, the limit
// ends it with status 2. If there are several users at a time, the last undo restores the
// old limit.
func limitData() (undo func()) {
	d := &dataLimit
	d.Lock()
	defer d.Unlock()
	if d.users++; d.users == 1 {
		limit := max(dataBytes, ownData()+dataMore)
		d.lowered = syscall.Getrlimit(syscall.RLIMIT_DATA, &d.old) == nil && d.old.Cur > limit &&
			syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: d.old.Max}) == nil
	}
	return func() {
		d.Lock()
		defer d.Unlock()
		if d.users--; d.users == 0 && d.lowered {
			_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &d.old)
		}
	}
}

// ownData returns the memory of the process that the limit counts, or little if the
// system does not say. The caller has locked dataLimit. A question to the system takes
// longer than all else that an evaluation does with the limit, so ownData asks again only
// when the runtime has taken dataStep more. Until then it adds what the runtime has taken;
// other memory may have grown too, by less than dataMore.
func ownData() uint64 {
	d := &dataLimit
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(s)
	taken := s[0].Value.Uint64()
	if d.own == 0 || taken > d.taken+dataStep {
		d.own, d.taken = systemData(), taken
	}
	return d.own + taken - d.taken
}

// systemData asks the system for the process's data in bytes. It returns 0 if the system
// does not say.
func systemData() uint64 {
	var skip, pages uint64
	text, _ := os.ReadFile("/proc/self/statm")
	_, _ = fmt.Sscan(string(text), &skip, &skip, &skip, &skip, &skip, &pages)
	return pages * uint64(os.Getpagesize())
}
