package runerr

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/result"
)

// Stopped is the RunError for an execution that was told to stop. What it had
// done is gone.
func Stopped() *result.RunError {
	return New(result.CodeSandbox, "interrupted: the execution was stopped and everything that it did is gone", "run it again")
}

// Unchanged is the RunError for a command that was told to stop before it changed
// anything.
func Unchanged() *result.RunError {
	return New(result.CodeEvidence, "interrupted: nothing was changed", "run it again")
}

// Sandbox is the RunError for a sandbox that could not be had. It says nothing
// of the machine but the failed step, its errno and the known cause.
func Sandbox(ctx context.Context, err error) *result.RunError {
	if ctx.Err() != nil {
		return Stopped()
	}
	if re, ok := errors.AsType[*result.RunError](err); ok {
		return re
	}
	se, ok := errors.AsType[*sandbox.Error](err)
	if !ok {
		return New(result.CodeSandbox, "no sandbox: "+err.Error(), "", Because(err))
	}
	return New(result.CodeSandbox, "no sandbox: "+se.Error(), cmp.Or(se.Remedy, "fiador doctor says what this machine can do"), Because(err),
		With("isolation", string(se.Isolation)), With("step", se.Step), Known("errno", int(se.Errno)), Known("cause", se.Cause))
}

// Evidence is the RunError for evidence that could not be had.
func Evidence(msg string, cause error) *result.RunError {
	return &result.RunError{Code: result.CodeEvidence, Message: msg + ": " + cause.Error(), Cause: cause}
}

// Testimony is the RunError for evidence of a ledger that could not be read. It returns
// every RunError as it is.
func Testimony(err error) error {
	if _, ok := errors.AsType[*result.RunError](err); ok {
		return err
	}
	if unread, ok := errors.AsType[*testimony.ReadError](err); ok {
		return Evidence(unread.Msg, unread.Err)
	}
	return Internal("the evidence could not be held against its schema", err)
}

// Input is the RunError for an input that could not be read, with its pointer.
func Input(intent kernel.Intent, err error) *result.RunError {
	ie, ok := errors.AsType[*sandbox.InputError](err)
	if !ok {
		return Sandbox(context.Background(), err)
	}
	e := &result.RunError{
		Code: result.CodeUnreadable, Message: "input " + canon.Quote(ie.Path) + ": " + ie.Msg, Cause: err,
		Hint: "inputs are files beneath --tree, of an execution request beneath --work, without symbolic links", Details: map[string]any{"file": canon.Cut(ie.Path)},
	}
	if ie.Limit {
		e.RuleID = contract.IV05
		e.Hint = "leave out what is not needed: specs/execution.md has the limits of inputs"
	}
	at := slices.IndexFunc(intent.Inputs, func(p string) bool { return kernel.Beneath(ie.Path, pathname.Clean(p)) })
	if at >= 0 {
		e.Details["pointer"] = "/inputs/" + strconv.Itoa(at)
	}
	return e
}

// Violated is the RunError for an input check of the contract.
func Violated(code result.Code, v *contract.Violation) *result.RunError {
	return &result.RunError{Code: code, Message: v.Pointer + ": " + v.Msg, RuleID: v.ID, Hint: v.Hint, Details: map[string]any{"pointer": v.Pointer}}
}
