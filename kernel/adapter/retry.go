package adapter

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// ErrorRules say what is done after a failed attempt.
type ErrorRules struct {
	Retry    Retry     `json:"retry"`
	Fallback *Fallback `json:"fallback"` // nil: none
}

// Retry is the schedule of the attempts of one adapter.
type Retry struct {
	MaxAttempts    int   `json:"max_attempts"` // 1 to 10; 0 is 1
	BackoffMS      int   `json:"backoff_ms"`
	RetryableCodes []int `json:"retryable_codes"` // exit, HTTP or JSON-RPC codes
}

// MaxWaitMS is the longest wait between two attempts, in milliseconds.
const MaxWaitMS = 30_000

// Attempts returns how often the call may be tried.
func (r Retry) Attempts() int { return max(1, r.MaxAttempts) }

// Wait returns the wait after the attempt n, counted from 1, in milliseconds: backoff_ms,
// twice as much after each further attempt, and at most MaxWaitMS.
func (r Retry) Wait(n int) int {
	wait := min(r.BackoffMS, MaxWaitMS)
	for i := 1; i < n && wait > 0 && wait < MaxWaitMS; i++ {
		wait = min(2*wait, MaxWaitMS)
	}
	return max(0, wait)
}

// Retryable says whether an attempt that ended with a code may be followed by another one.
func (r Retry) Retryable(code int) bool { return slices.Contains(r.RetryableCodes, code) }

// RetryConnection says whether a request that may not have arrived may be sent again:
// whether its method promises that twice does what once does.
func RetryConnection(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "PUT", "DELETE"}, method)
}

// Fallback names the adapter to use after the last attempt of this one.
type Fallback struct {
	AdapterID string `json:"adapter_id"`
	Condition string `json:"condition"` // words of conditions, with one space between them
}

// The failures of a call that a fallback can be for.
const (
	FailExit          = "nonzero"        // a command ended with a code that is not 0
	FailTimeout       = "timeout"        // the deadline passed
	FailUnavailable   = "unavailable"    // nothing answered, or nothing could be started
	FailClient        = "status_4xx"     // an HTTP status
	FailServer        = "status_5xx"     // an HTTP status
	FailTool          = "tool_error"     // the tool said that it failed
	FailOutput        = "invalid_output" // the answer is not what the output transforms read
	FailRefused       = "refused"        // this program refused to go on; no fallback is for it
	anyFailure        = "any"
	maxFallbacks      = 3
	fallbackAt        = "/errors/fallback"
	fallbackCondition = fallbackAt + "/condition"
)

var conditions = []string{anyFailure, FailExit, FailTimeout, FailUnavailable, FailClient, FailServer, FailTool, FailOutput}

// After says whether the fallback is for a failure, one of the Fail constants.
func (f *Fallback) After(failure string) bool {
	if f == nil || !slices.Contains(conditions, failure) || failure == anyFailure {
		return false
	}
	words := strings.Split(f.Condition, " ")
	return slices.Contains(words, anyFailure) || slices.Contains(words, failure)
}

func (a *Adapter) fallbackFault() error {
	f := a.Errors.Fallback
	if f == nil {
		return nil
	}
	if f.AdapterID == a.AdapterID {
		return fault(fallbackAt+"/adapter_id", "an adapter is its own fallback", "name another adapter of the tool")
	}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(f.Condition, " ") {
		if !slices.Contains(conditions, word) || seen[word] {
			return fault(fallbackCondition, "the condition "+canon.Quote(f.Condition)+" has the word "+canon.Quote(word), "use words of "+strings.Join(conditions, ", ")+", each once, with one space between them")
		}
		seen[word] = true
	}
	return nil
}

// Chain returns an adapter and its fallbacks, in the order in which they are used. adapters
// are those of one tool, by their ids. The error is a *Fault of the document of the adapter
// whose id is returned beside it.
func Chain(adapters map[string]*Adapter, first string) (chain []*Adapter, id string, err error) {
	for id = first; ; {
		a := adapters[id]
		if a == nil {
			return nil, "", fault("", "the tool has no adapter "+canon.Quote(id), "name one that its document lists")
		}
		chain = append(chain, a)
		next := a.Errors.Fallback
		switch {
		case next == nil:
			return chain, "", nil
		case adapters[next.AdapterID] == nil:
			return nil, id, fault(fallbackAt+"/adapter_id", "the tool has no adapter "+canon.Quote(next.AdapterID), "name one that the tool's document lists")
		case slices.ContainsFunc(chain, func(a *Adapter) bool { return a.AdapterID == next.AdapterID }):
			return nil, id, fault(fallbackAt+"/adapter_id", "the fallbacks lead back to "+canon.Quote(next.AdapterID), "end the chain")
		case len(chain) > maxFallbacks:
			return nil, id, fault(fallbackAt+"/adapter_id", "more than 3 fallbacks follow each other", "end the chain")
		}
		id = next.AdapterID
	}
}
