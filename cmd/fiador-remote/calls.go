package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	attempts   = 4
	firstPause = 250 * time.Millisecond // doubled after each attempt
)

// within bounds a phase by d. Its cause is then a failure that names d.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, failf(kindLost, "no answer within %s", d))
}

// retry calls f until it succeeds, fails for good, or has failed as often as it may. From
// the second attempt on, calls wait for a connection, as a server may be starting again.
func retry(ctx context.Context, f func(grpc.CallOption) error) error {
	pause := firstPause
	for n := 1; ; n++ {
		err := f(grpc.WaitForReady(n > 1))
		var failed *failure
		if !errors.As(err, &failed) || !failed.again || n == attempts {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fault(ctx, failed.message, context.Cause(ctx))
		}
		pause *= 2
	}
}

// fault makes a failure of the error of a call. If ctx has ended, its cause is what counts.
func fault(ctx context.Context, what string, err error) *failure {
	if until, ok := ctx.Deadline(); ok && status.Code(err) == codes.DeadlineExceeded && time.Until(until) < time.Second {
		<-ctx.Done() // the server's clock was first
	}
	var failed *failure
	if ctx.Err() != nil && errors.As(context.Cause(ctx), &failed) {
		text := what + ": " + failed.message
		if s, ok := status.FromError(err); ok && strings.Contains(s.Message(), "connection error") {
			text += ": " + s.Message()
		}
		return &failure{kind: failed.kind, message: text}
	}
	if errors.As(err, &failed) {
		return failed
	}
	s := status.Convert(err)
	failed = failf(kindLost, "%s: %s (%s)", what, s.Message(), s.Code())
	switch s.Code() {
	case codes.Unavailable, codes.Aborted, codes.Internal:
		failed.again = true
		// A server that is not who or where it has to be does not become so.
		if strings.Contains(s.Message(), "tls: failed to verify certificate") || strings.Contains(s.Message(), inClear) {
			failed.again, failed.kind = false, kindConfig
		}
	case codes.ResourceExhausted:
		failed.again, failed.kind = true, kindBusy
	case codes.FailedPrecondition:
		failed.again = missesBlob(s)
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented:
		failed.kind = kindConfig
	}
	return failed
}

// missesBlob says whether the server lacks an input, so that it can be uploaded again.
func missesBlob(s *status.Status) bool {
	for _, detail := range s.Details() {
		if p, ok := detail.(*errdetails.PreconditionFailure); ok {
			for _, v := range p.Violations {
				if v.Type == "MISSING" {
					return true
				}
			}
		}
	}
	return false
}
