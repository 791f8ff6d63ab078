package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// longStream is how long a stream has to be open for its end not to count.
const longStream = time.Second

// result is what "done" says of an action.
type result struct {
	ExitCode  int32     `json:"exit_code"`
	Files     []file    `json:"files"`
	Ephemeral ephemeral `json:"ephemeral"`
	Stderr    string    `json:"stderr"`
}

// file is one output that stands in the folder of outputs.
type file struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// ephemeral is what may differ when the same action is executed again.
type ephemeral struct {
	Worker        string `json:"worker"`
	QueuedMS      int64  `json:"queued_ms"`
	FetchedMS     int64  `json:"fetched_ms"`
	ExecutedMS    int64  `json:"executed_ms"`
	UploadedFiles int64  `json:"uploaded_files"` // blobs, of which some are no files
	UploadedBytes int64  `json:"uploaded_bytes"`
	Attempts      int    `json:"attempts"`
}

// action is one request under way.
type action struct {
	*client
	request  *execute
	accepted func() // says, once, that the action may run from here on

	mayHaveRun bool
	operation  string // of the last attempt, until it is done
	blobs      blobs
	digest     digest
	ephemeral  ephemeral
}

func (e *execute) check() error {
	const most = 32 // with paths of 4096 bytes, "done" still fits into a line
	if len(e.Argv) == 0 || len(e.Outputs) == 0 || len(e.Outputs) > most || len(e.Outputs) != len(e.MaxBytes) || e.TimeoutMS < 1 || e.TimeoutMS > 7*24*3600*1000 {
		return fmt.Errorf("argv, outputs (at most %d), as many max_bytes, and timeout_ms of at most a week are needed", most)
	}
	if !filepath.IsAbs(e.Root) || !filepath.IsAbs(e.Out) {
		return errors.New("root and out have to be absolute paths")
	}
	names := map[string]bool{}
	for i, p := range e.Outputs {
		if err := checkPath(p); err != nil {
			return err
		}
		if names[path.Base(p)] || e.MaxBytes[i] < 0 {
			return fmt.Errorf("output %q has the name of another one, or a bound below 0", p)
		}
		names[path.Base(p)] = true
	}
	return nil
}

// perform uploads, executes and downloads.
func (a *action) perform(ctx context.Context) (*result, error) {
	if err := a.request.check(); err != nil {
		return nil, failf(kindConfig, "execute: %v", err)
	}
	select {
	case a.actions <- struct{}{}:
		defer func() { <-a.actions }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := a.prepare(); err != nil {
		return nil, failf(kindConfig, "%v", err)
	}
	ctx = a.outgoing(ctx, a.digest.hash)
	if err := a.send(ctx); err != nil {
		return nil, err
	}
	answer, err := a.execute(ctx)
	if err != nil {
		return nil, err
	}
	return a.fetch(ctx, answer)
}

// prepare makes the blobs of the action.
func (a *action) prepare() error {
	a.blobs = blobs{}
	root, err := a.blobs.addTree(a.request.Root)
	if err != nil {
		return err
	}
	platform := &repb.Platform{}
	for _, name := range slices.Sorted(maps.Keys(a.request.Platform)) {
		platform.Properties = append(platform.Properties, &repb.Platform_Property{Name: name, Value: a.request.Platform[name]})
	}
	outputs := slices.Sorted(slices.Values(a.request.Outputs))
	//lint:ignore SA1019 servers of REAPI 2.0 know neither OutputPaths nor the platform of Action
	command := a.blobs.add(&repb.Command{Arguments: a.request.Argv, Platform: platform, OutputFiles: outputs, OutputPaths: outputs})
	a.digest = a.blobs.add(&repb.Action{
		CommandDigest: command.proto(), InputRootDigest: root.proto(),
		Timeout: durationpb.New(time.Duration(a.request.TimeoutMS) * time.Millisecond), DoNotCache: true, Platform: platform,
	})
	return nil
}

func (a *action) send(ctx context.Context) error {
	files, size, err := a.upload(ctx, a.blobs)
	a.ephemeral.UploadedFiles += files
	a.ephemeral.UploadedBytes += size
	return err
}

// execute has the action executed, more than once if it is lost and may be sent again.
func (a *action) execute(ctx context.Context) (*repb.ExecuteResponse, error) {
	ctx, cancel := within(ctx, time.Duration(a.request.TimeoutMS+a.hello.WaitMS)*time.Millisecond)
	defer cancel()
	var answer *repb.ExecuteResponse
	err := retry(ctx, func(wait grpc.CallOption) (err error) {
		if a.ephemeral.Attempts > 0 { // the server may have lost blobs with the action
			if err := a.send(ctx); err != nil {
				return err
			}
		}
		a.ephemeral.Attempts++
		answer, err = a.attempt(ctx, wait)
		var failed *failure
		if errors.As(err, &failed) && failed.again && a.request.Once && a.mayHaveRun {
			failed.again, failed.kind = false, kindLost
		}
		return err
	})
	a.giveUp(ctx)
	return answer, err
}

// giveUp cancels the operation of an attempt that has failed, if there is one: it may still run.
func (a *action) giveUp(ctx context.Context) {
	if a.operation == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	a.operations.CancelOperation(ctx, &longrunningpb.CancelOperationRequest{Name: a.operation}) // many servers cannot
	a.operation = ""
}

// attempt sends the action once and follows its operation to the end.
func (a *action) attempt(ctx context.Context, wait grpc.CallOption) (*repb.ExecuteResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.giveUp(ctx)
	before := a.mayHaveRun
	a.mayHaveRun = true
	a.accepted()
	stream, err := a.execution.Execute(ctx, &repb.ExecuteRequest{
		InstanceName: a.hello.Instance, ActionDigest: a.digest.proto(), SkipCacheLookup: true, InlineStderr: true,
	}, wait)
	if err != nil {
		a.mayHaveRun = before // nothing was sent
		return nil, fault(ctx, "Execute", err)
	}
	op, err := a.read(stream)
	if err != nil && a.operation == "" {
		a.mayHaveRun = before || !refused(err)
		return nil, fault(ctx, "Execute", err)
	}
	if err != nil {
		if op, err = a.wait(ctx, err); err != nil {
			return nil, err
		}
	}
	return open(ctx, op)
}

// refused says whether err, which came before any operation, means that the server has not
// taken the action. A connection that breaks does not mean that.
func refused(err error) bool {
	switch s := status.Convert(err); s.Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound, codes.Unimplemented:
		return true
	case codes.ResourceExhausted: // also what a first operation is that is too large to be received
		return !strings.Contains(s.Message(), "larger than max")
	}
	return false
}

// read follows a stream until its operation is done.
func (a *action) read(stream grpc.ServerStreamingClient[longrunningpb.Operation]) (*longrunningpb.Operation, error) {
	for {
		op, err := stream.Recv()
		if err == io.EOF {
			err = status.Error(codes.Unavailable, "the server closed the stream before the action ended")
		}
		if err != nil {
			return nil, err
		}
		if op.Done {
			a.operation = ""
			return op, nil
		}
		a.operation = cmp.Or(op.Name, a.operation)
	}
}

// wait follows the operation with WaitExecution after err broke its stream. A stream that
// was open for longer than longStream was cut by a clock on the way, which is no failed attempt.
// What ended a stream need not have ended the action: no code but those of fault sends it anew.
func (a *action) wait(ctx context.Context, err error) (op *longrunningpb.Operation, _ error) {
	gone, sendable := false, false
	cut := func(what string, err error) *failure {
		f := fault(ctx, what, err)
		sendable = f.again
		switch status.Code(err) {
		case codes.Canceled, codes.Unknown, codes.DeadlineExceeded:
			f.again = f.again || ctx.Err() == nil
		}
		return f
	}
	for op == nil {
		failed := retry(ctx, func(wait grpc.CallOption) error {
			if err != nil { // the stream that broke is the first attempt
				f := cut("Execute", err)
				err = nil
				return f
			}
			began := time.Now()
			stream, err := a.execution.WaitExecution(ctx, &repb.WaitExecutionRequest{Name: a.operation}, wait)
			if err == nil {
				op, err = a.read(stream)
			}
			if err == nil {
				return nil
			}
			f := cut("WaitExecution", err)
			gone = status.Code(err) == codes.NotFound || status.Code(err) == codes.Unimplemented
			if f.again && time.Since(began) > longStream {
				return nil
			}
			return f
		})
		var f *failure
		if errors.As(failed, &f) {
			f.again = sendable || gone // the operation is lost, but the action may be sent again
			return nil, f
		}
	}
	return op, nil
}

// open takes the answer out of an operation that is done.
func open(ctx context.Context, op *longrunningpb.Operation) (*repb.ExecuteResponse, error) {
	answer := &repb.ExecuteResponse{}
	said := op.GetError()
	if said == nil {
		if err := op.GetResponse().UnmarshalTo(answer); op.GetResponse() != nil && err != nil {
			return nil, failf(kindBroken, "Execute: the answer is no ExecuteResponse: %v", err)
		}
		said = answer.GetStatus()
	}
	switch err := status.FromProto(said).Err(); {
	case status.Code(err) == codes.DeadlineExceeded:
		return nil, failf(kindLost, "the server ended the action after its timeout")
	case err != nil:
		return nil, fault(ctx, "the server did not execute the action", err)
	case answer.Result == nil:
		return nil, &failure{kind: kindLost, again: true, message: "Execute: the answer has no ActionResult"}
	case answer.CachedResult:
		return nil, failf(kindBroken, "Execute: the result is from the server's cache, which may not be asked")
	}
	return answer, nil
}

// milliseconds from one time to the next, or 0 where a time is absent or too early.
func milliseconds(from, to *timestamppb.Timestamp) int64 {
	if from == nil || to == nil {
		return 0
	}
	return max(0, to.AsTime().Sub(from.AsTime()).Milliseconds())
}
