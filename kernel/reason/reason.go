// Package reason owns the vocabulary of decision.reasons: how a reason is written and
// read, what it means, and which exit code it stands for. A reason is an id, and for some
// ids a number, a path or a JSON Pointer behind a space.
package reason

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/pathname"
)

// The ids of the reasons that reject an execution, or the run of a work item.
const (
	CallFailed       = "CALL_FAILED"        // and the pointer of the action
	CallOutput       = "CALL_OUTPUT"        // and the pointer of the action
	CallRefused      = "CALL_REFUSED"       // and the pointer of the action
	CallTimeout      = "CALL_TIMEOUT"       // and the pointer of the action
	Duplicate        = "DUPLICATE"          // nothing
	Exit             = "EXIT"               // and the exit code
	InputMissing     = "INPUT_MISSING"      // and the path
	MaxDelta         = "MAX_DELTA"          // nothing
	MaxFiles         = "MAX_FILES"          // nothing
	MaxToolOps       = "MAX_TOOL_OPS"       // nothing
	NotAllowed       = "NOT_ALLOWED"        // and the path
	NotExecutable    = "NOT_EXECUTABLE"     // nothing
	NotFound         = "NOT_FOUND"          // nothing
	OOM              = "OOM"                // nothing
	OutputKind       = "OUTPUT_KIND"        // and the path
	OutputLimit      = "OUTPUT_LIMIT"       // nothing
	OutputMissing    = "OUTPUT_MISSING"     // and the path, or a pointer into the request
	OutputName       = "OUTPUT_NAME"        // and the path
	Protected        = "PROTECTED"          // and the path
	Signal           = "SIGNAL"             // and the number
	StateDrift       = "STATE_DRIFT"        // nothing
	StreamLimit      = "STREAM_LIMIT"       // and the pointer of the action
	Test             = "TEST"               // and the exit code of the test
	Timeout          = "TIMEOUT"            // nothing
	Trace            = "TRACE"              // nothing
	WriteOutsideRoot = "WRITE_OUTSIDE_ROOT" // and the path
)

// Reason is one reason that rejects an execution.
type Reason struct {
	ID      string
	Subject string // the number, the path or the pointer; empty where there is none
}

// String returns the reason as documents write it.
func (r Reason) String() string {
	if r.Subject == "" {
		return r.ID
	}
	return r.ID + " " + r.Subject
}

// Exited returns the reason of a command that ended with an exit code.
func Exited(code int) Reason { return Reason{Exit, strconv.Itoa(code)} }

// Signalled returns the reason of a command that a signal ended.
func Signalled(number int) Reason { return Reason{Signal, strconv.Itoa(number)} }

// Tested returns the reason of a test that failed with an exit code.
func Tested(code int) Reason { return Reason{Test, strconv.Itoa(code)} }

// Outside returns the reason of a path that must not be written or removed.
func Outside(path string) Reason { return Reason{WriteOutsideRoot, path} }

// Kind returns the reason of an output path that is not a regular file.
func Kind(path string) Reason { return Reason{OutputKind, path} }

// Missing returns the reason of a declared output that does not exist. output is its
// path, or the pointer to the member of a request that declares it.
func Missing(output string) Reason { return Reason{OutputMissing, output} }

// Limit returns the reason of more files or bytes than are allowed.
func Limit() Reason { return Reason{ID: OutputLimit} }

// StreamCut returns the reason of a run action with a truncated stream.
func StreamCut(action int) Reason { return Reason{StreamLimit, actionAt(action)} }

// Answer returns the reason of a call whose answer cannot be used.
func Answer(action int) Reason { return Reason{CallOutput, actionAt(action)} }

// Unanswered returns the reason of a call that no process of the sandbox ended, and that has
// no answer because the service or the tool failed.
func Unanswered(action int) Reason { return Reason{CallFailed, actionAt(action)} }

// Late returns the reason of a call without a process of its own that took too long.
func Late(action int) Reason { return Reason{CallTimeout, actionAt(action)} }

// Refused returns the reason of a call whose program, server or address is not one that its
// adapter demands or allows.
func Refused(action int) Reason { return Reason{CallRefused, actionAt(action)} }

func actionAt(action int) string { return "/actions/" + strconv.Itoa(action) }

// Quoted returns a path as a reason shows it if the path would not print, or could be
// mistaken for something else. The path is cut, quoted and escaped to ASCII.
func Quoted(path string) string { return strconv.QuoteToASCII(canon.Cut(path)) }

// Path returns a path as a reason shows it. One that would not print, or that could be mistaken
// for something else, is quoted.
func Path(path string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if pathname.Inspect(path).Fault == "" && !strings.HasPrefix(path, `"`) && !strings.ContainsFunc(path, hidden) {
		return path
	}
	return Quoted(path)
}

// Finding returns the reason of a rule's denial or question: ID POINTER. The pointer of
// the whole intent is empty, and the space stays.
func Finding(id, pointer string) string { return id + " " + pointer }

// ParseFinding reads the reason of a rule's denial or question. It does not check
// whether a rule has the id.
func ParseFinding(text string) (id, pointer string, ok bool) {
	id, pointer, ok = strings.Cut(text, " ")
	return id, pointer, ok && (pointer == "" || pointer[0] == '/')
}

// ID returns the id of a reason of any kind.
func ID(text string) string {
	id, _, _ := strings.Cut(text, " ")
	return id
}

// Brief returns a reason of any kind without text of the intent: the id, and the number
// of an exit code or a signal.
func Brief(text string) string {
	if id := ID(text); id != Exit && id != Signal && id != Test {
		return id
	}
	return strings.TrimSuffix(text, " ")
}

// Parse reads a reason that rejects an execution. The error continues a sentence that
// begins with the text.
func Parse(text string) (Reason, error) {
	id, subject, more := strings.Cut(text, " ")
	r := Reason{id, subject}
	switch id {
	case OOM, Timeout, NotFound, NotExecutable, Duplicate, MaxDelta, MaxFiles, MaxToolOps, StateDrift, Trace:
		if more {
			return r, errors.New("is not " + id + " as a result has it")
		}
	case Exit, Signal, Test:
		n, most := r.Number(), 255
		if id == Signal {
			most = 127
		}
		if n < 1 || n > most || strconv.Itoa(n) != subject {
			return r, errors.New("is not " + id + " as a result has it")
		}
	case OutputLimit:
		if more {
			return r, errors.New("is followed by nothing in a result")
		}
	case StreamLimit, CallFailed, CallOutput, CallRefused, CallTimeout:
		if n := r.Action(); n < 0 || subject != actionAt(n) {
			return r, errors.New("does not name an action")
		}
	case OutputMissing, OutputKind, OutputName, WriteOutsideRoot, InputMissing, NotAllowed, Protected:
		if more && subject == "" {
			return r, errors.New("has no path")
		}
	default:
		return r, errors.New("is no reason for which an execution is rejected")
	}
	return r, nil
}

// Number returns the exit code or the number of the signal, and 0 for other reasons.
func (r Reason) Number() int {
	n, err := strconv.Atoi(r.Subject)
	if err != nil {
		return 0
	}
	return n
}

// Action returns the position of the action that a reason names, and -1 for a reason that
// names none.
func (r Reason) Action() int {
	n, err := strconv.Atoi(strings.TrimPrefix(r.Subject, "/actions/"))
	if err != nil {
		return -1
	}
	return n
}

// Ends says whether a reason tells how the command ended.
func (r Reason) Ends() bool {
	return slices.Contains([]string{OOM, Timeout, NotFound, NotExecutable, Signal, Exit, Test}, r.ID)
}

// ExitCode returns the exit code that a reason stands for. For the zero value it is 0.
func (r Reason) ExitCode() int {
	switch r.ID {
	case "":
		return contract.ExitSuccess
	case Exit, Test:
		return r.Number()
	case Signal:
		return contract.ExitSignal + r.Number()
	}
	fixed := map[string]int{
		OOM: contract.ExitOOM, Timeout: contract.ExitTimeout, CallTimeout: contract.ExitTimeout, NotFound: contract.ExitNotFound, NotExecutable: contract.ExitNotExecutable,
	}
	return cmp.Or(fixed[r.ID], contract.ExitForbidden)
}
