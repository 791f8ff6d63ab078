package adapter

import "slices"

// Reply is what one attempt of a call gave.
type Reply struct {
	Answer  []byte // what the tool gave; nil with a failure
	Failure string // one of the Fail constants, or empty
	Code    int    // exit code, HTTP status or JSON-RPC code; 0: none, or success

	// RetryAfterMS is the wait that a service asks for, in milliseconds; 0: it asks for none.
	RetryAfterMS int

	// Unsent says that no connection was made, or that it broke before an answer: the
	// request may not have arrived.
	Unsent bool
}

// Next says whether another attempt follows the attempt n, counted from 1, and after which
// wait in milliseconds. Only a code of retryable_codes is tried again, and a request that may
// not have arrived if twice does what once does.
func (b *Bound) Next(n int, r Reply) (waitMS int, again bool) {
	retry := b.Adapter.Errors.Retry
	if r.Failure == "" || n >= retry.Attempts() {
		return 0, false
	}
	switch {
	case r.Unsent:
		again = RetryConnection(b.Method)
	case slices.Contains([]string{FailExit, FailClient, FailServer, FailTool}, r.Failure):
		again = retry.Retryable(r.Code)
	}
	return max(retry.Wait(n), r.RetryAfterMS), again
}
