package contract

import (
	"strconv"
)

// The exit codes that have one meaning (code execution contract, "Exit Code
// Interpretation"), and ExitForbidden, which this program adds among the codes of a
// tool.
const (
	ExitSuccess       = 0
	ExitForbidden     = 125 // evidence or limits forbid what the command did
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitSignal        = 128 // plus the number of the signal
	ExitOOM           = 137
	ExitTimeout       = 143
)

// The meanings of an exit code.
const (
	MeaningSuccess          = "success"
	MeaningToolError        = "tool_error"
	MeaningPermissionDenied = "permission_denied"
	MeaningNotFound         = "not_found"
	MeaningSignal           = "signal"
	MeaningOOM              = "oom"
	MeaningTimeout          = "timeout"
)

// The actions for an exit code.
const (
	ActionContinue       = "continue"
	ActionHandle         = "log_and_handle"
	ActionEscalate       = "escalate"
	ActionCheckAllowlist = "check_allowlist"
	ActionLogSignal      = "log_signal"
	ActionRaiseMemory    = "raise_memory_or_fail"
	ActionExtendTimeout  = "extend_timeout_or_fail"
)

// ActionHint words an action for people. It is empty if there is nothing to do.
func ActionHint(action string) string {
	return map[string]string{
		ActionHandle:         "see what the command printed; fiador explain says what a reason means",
		ActionEscalate:       "ask who owns the file to make it executable, or name another command",
		ActionCheckAllowlist: "check the name against the allowlist, and that the command is installed where the sandbox looks",
		ActionLogSignal:      "find out who sent the signal",
		ActionRaiseMemory:    "give it more memory, or let it fail",
		ActionExtendTimeout:  "give it more time, or let it fail",
	}[action]
}

// ExitRange is a row of the table of exit codes. The row holds from First to Last, both
// included.
type ExitRange struct {
	First, Last     int
	Meaning, Action string
}

// ExitCodes returns the table of exit codes (code execution contract, "Exit Code
// Interpretation"). If two rows hold, the later row counts.
func ExitCodes() []ExitRange {
	return []ExitRange{
		{ExitSuccess, ExitSuccess, MeaningSuccess, ActionContinue},
		{1, 125, MeaningToolError, ActionHandle},
		{ExitNotExecutable, ExitNotExecutable, MeaningPermissionDenied, ActionEscalate},
		{ExitNotFound, ExitNotFound, MeaningNotFound, ActionCheckAllowlist},
		{ExitSignal, 255, MeaningSignal, ActionLogSignal},
		{ExitOOM, ExitOOM, MeaningOOM, ActionRaiseMemory},
		{ExitTimeout, ExitTimeout, MeaningTimeout, ActionExtendTimeout},
	}
}

// Interpretation is the meaning of an exit code.
type Interpretation struct {
	Code    int
	Meaning string // a Meaning constant
	Action  string // an Action constant
	Signal  int    // for a code from 128 on, the code minus 128; else 0
}

// Interpret returns the meaning of an exit code from 0 to 255. For any other number
// Meaning and Action are empty.
//
// The meaning follows from the number alone, and a command chooses its number: a
// command that returns 137 itself was not out of memory. If the evidence has a cause,
// the cause counts.
func Interpret(code int) Interpretation {
	in := Interpretation{Code: code}
	for _, r := range ExitCodes() {
		if code >= r.First && code <= r.Last {
			in.Meaning, in.Action = r.Meaning, r.Action
		}
	}
	if in.Meaning != "" && code >= ExitSignal {
		in.Signal = code - ExitSignal
	}
	return in
}

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
