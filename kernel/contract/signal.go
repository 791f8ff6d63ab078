package contract

import "strconv"

// signals are the common names of the first signals of Linux, by number from 1 on. The
// entry is empty where a signal has no common name.
var signals = [...]string{"HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "", "SEGV", "", "PIPE", "ALRM", "TERM"}

// SignalName returns the name of a signal of Linux without SIG, or its number if it has
// no common name.
func SignalName(n int) string {
	if n >= 1 && n <= len(signals) && signals[n-1] != "" {
		return "SIG" + signals[n-1]
	}
	return "SIG" + strconv.Itoa(n)
}
