package contract

// The exit codes that have one meaning (code execution contract, "Exit Code
// Interpretation"), and the one that is ours among those of a tool.
const (
	ExitSuccess       = 0
	ExitForbidden     = 125 // what the command did is forbidden by evidence or limits
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

// What to do about an exit code.
const (
	ActionContinue       = "continue"
	ActionHandle         = "log_and_handle"
	ActionEscalate       = "escalate"
	ActionCheckAllowlist = "check_allowlist"
	ActionLogSignal      = "log_signal"
	ActionRaiseMemory    = "raise_memory_or_fail"
	ActionExtendTimeout  = "extend_timeout_or_fail"
)

// ActionHint is an action as people are told to do it, or empty where there is nothing to
// do.
func ActionHint(action string) string {
	switch action {
	case ActionHandle:
		return "see what the command printed; fiador explain says what a reason means"
	case ActionEscalate:
		return "ask who owns the file to make it executable, or name another command"
	case ActionCheckAllowlist:
		return "check the name against the allowlist, and that the command is installed where the sandbox looks"
	case ActionLogSignal:
		return "find out who sent the signal"
	case ActionRaiseMemory:
		return "give it more memory, or let it fail"
	case ActionExtendTimeout:
		return "give it more time, or let it fail"
	}
	return ""
}

// ExitRange is a row of the table of exit codes: from First to Last, both
// included.
type ExitRange struct {
	First, Last     int
	Meaning, Action string
}

// ExitCodes is the table of exit codes (code execution contract, "Exit Code
// Interpretation"). Where two rows hold, the later one counts.
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

// Interpretation is what an exit code means.
type Interpretation struct {
	Code    int
	Meaning string // a Meaning constant
	Action  string // an Action constant
	Signal  int    // from 128 on the code minus 128, else 0
}

// Interpret says what an exit code from 0 to 255 means. For any other number
// Meaning and Action are empty.
//
// It is the meaning by the number alone, which a command chooses: one that
// returns 137 itself was not out of memory. Where the evidence has a cause, the
// cause counts.
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
