package execute

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
)

// Caller asks models, outside the sandbox, or answers from a recording. A Caller serves
// one run. Its errors name neither the machine nor a key. An error with a method Hint()
// string says how to solve the problem.
type Caller interface {
	// Model returns the name of the model behind an adapter; every prompt contains this
	// name. The error says that the model cannot be called. Model sends nothing.
	Model(adapterID string) (string, error)

	// Call sends a prompt to the model and returns its response, which can be recorded.
	Call(ctx context.Context, adapterID string, prompt []byte) ([]byte, error)

	// Recording returns model_io.json with the calls answered so far, in its stored
	// form.
	Recording() ([]byte, error)
}

// Asker makes the calls of tools that no process of the sandbox answers, or answers them from
// a recording. An Asker serves one run.
type Asker interface {
	// Ask makes one attempt of a bound call, and sends nothing again. n is the number of the
	// attempt of this adapter, from 1 on. The error ends the run without a result: the call is
	// not in the recording, or cannot be recorded.
	Ask(ctx context.Context, action, n int, b *adapter.Bound) (adapter.Reply, error)

	// Recording returns tool_io.json with the attempts so far, in its stored form, or nil if
	// nothing is recorded.
	Recording() ([]byte, error)
}

// replayer is an Asker that answers from a recording. Replays says whether the recording has
// an attempt, which is then made without a wait.
type replayer interface {
	Replays(action, n int, b *adapter.Bound) bool
}

// ModelCall is a call action that is performed.
type ModelCall struct {
	AdapterID string
	Prompt    []byte
}

// ModelCalls returns the calls of an intent by action. It reports every fault of the
// calls that is known before anything is executed.
func ModelCalls(caller Caller, intent kernel.Intent) (map[int]ModelCall, error) {
	calls := map[int]ModelCall{}
	adapter, model := "", ""
	for i, a := range intent.Actions {
		if _, bound := intent.Calls()[i]; bound || a.Kind != kernel.ActionCall {
			continue
		}
		at := "/actions/" + strconv.Itoa(i)
		switch {
		case len(calls) == 0:
			var err error
			if model, err = caller.Model(a.AdapterID); err != nil {
				return nil, callError(at+"/adapter_id", a.AdapterID, "", err)
			}
			adapter = a.AdapterID
		case a.AdapterID != adapter:
			return nil, callFault(at+"/adapter_id", "the calls of the intent name several adapters, and a recording is of one", "give each adapter an intent of its own")
		}
		if stream, ok := a.Params["stream"]; ok && stream != nil && stream != false {
			return nil, callFault(at+"/params/stream", "a response that comes in parts cannot be recorded", "leave stream out")
		}
		prompt, err := pack.Prompt(a.Params, model)
		if err != nil {
			return nil, callFault(at+"/params/model", err.Error(), "leave model out: the adapter names it")
		}
		calls[i] = ModelCall{adapter, prompt}
	}
	return calls, nil
}

// callFault refuses a call before anything is executed.
func callFault(pointer, msg, hint string) *result.RunError {
	return runerr.New(result.CodeSandbox, pointer+": "+msg, hint, runerr.At(pointer))
}

// callError is the RunError for a call that cannot be made, or that has no response.
// Prompt is the hash of the prompt, or empty if nothing was sent.
func callError(pointer, adapter string, prompt canon.ContentHash, err error) *result.RunError {
	e := callFault(pointer, "adapter "+canon.Quote(adapter)+": "+err.Error(), "")
	e.Cause, e.Details["adapter_id"] = err, canon.Cut(adapter)
	if prompt != "" {
		e.Details["prompt_hash"] = string(prompt)
	}
	e.Hint = hintOf(err)
	return e
}

// hintOf returns the hint of an error of a Caller, or "".
func hintOf(err error) string {
	var with interface{ Hint() string }
	if errors.As(err, &with) {
		return with.Hint()
	}
	return ""
}

// CheckInputs refuses inputs at a path that gets a response.
func CheckInputs(inputs sandbox.Inputs, intent kernel.Intent) error {
	taken := map[string]int{}
	for i, a := range intent.Actions {
		if a.Kind == kernel.ActionCall {
			taken[pack.ResponsePath(i)] = i
		}
	}
	for _, f := range inputs.Files {
		if i, clash := taken[f.Path]; clash {
			at := "/actions/" + strconv.Itoa(i)
			return callFault(at, "the response is put where the input "+strconv.Quote(f.Path)+" stands", "leave that input out, or give it another name")
		}
	}
	return nil
}

// response is a file that the supervisor has put into the work folder.
type response struct {
	path   string
	sha256 [32]byte
	size   int64
}

// call performs a call action. It asks the model outside the sandbox and puts the answer
// into the work folder, where later commands can read it. The time of a call counts.
func (w *performance) call(i int, a sandbox.Action) error {
	at := w.task.intended(i)
	c := w.task.Calls[at]
	ctx, cancel := w.ctx, context.CancelFunc(func() {})
	if w.task.Budget > 0 {
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(w.left))
	}
	begun := time.Now()
	b, err := w.task.Caller.Call(ctx, c.AdapterID, c.Prompt)
	cancel()
	switch {
	case w.ctx.Err() != nil:
		return runerr.Stopped()
	case err != nil:
		return w.unanswered(at, c, err)
	}
	w.left.Spend(time.Since(begun))
	w.p.Calls = append(w.p.Calls, pack.CallEvidence{
		Action: at, AdapterID: c.AdapterID, PromptHash: canon.Sum(c.Prompt), ResponseHash: canon.Sum(b),
	})
	return w.give(i, a, b)
}

// unanswered is the error for a call without a response. The responses before it are
// lost, because half a recording cannot be replayed.
func (w *performance) unanswered(i int, c ModelCall, err error) error {
	e := callError("/actions/"+strconv.Itoa(i), c.AdapterID, canon.Sum(c.Prompt), err)
	if n := len(w.p.Calls); n > 0 {
		e.Details["calls_answered"] = n
		e.Hint = strings.TrimPrefix(e.Hint+"; the calls before it are made again then: their responses are not kept", "; ")
	}
	return e
}

// give puts a response into the work folder.
func (w *performance) give(i int, a sandbox.Action, b []byte) error {
	w.given += int64(len(b))
	if w.given > w.task.Rules.MaxBytes {
		w.failed = true
		w.p.Observed.Reject(reason.Limit())
		return nil
	}
	errno, err := w.p.box.WriteGiven(i, b)
	switch {
	case err != nil:
		return runerr.Sandbox(w.ctx, err)
	case errno != 0:
		w.unwritten(a.Path, errno)
	default:
		w.responses = append(w.responses, response{a.Path, sha256.Sum256(b), int64(len(b))})
	}
	return nil
}

// recording stores what models and services were asked, and have answered.
func (w *performance) recording() (err error) {
	if len(w.task.Calls) > 0 {
		w.p.ModelIO, err = w.task.Caller.Recording()
	}
	if err == nil && w.task.Asker != nil && asks(w.task.Tools) {
		w.p.ToolIO, err = w.task.Asker.Recording()
	}
	if err != nil {
		e := runerr.Evidence("what was answered could not be recorded", err)
		e.Hint = hintOf(err)
		return e
	}
	return nil
}

// settle removes the unchanged responses from the list of changes: they are outputs, and
// no change of a command. A response that was changed or removed gives a reason.
func (w *performance) settle(changes []change.Change) []change.Change {
	if len(w.responses) == 0 {
		return changes
	}
	at := byPath(changes)
	given := map[string]bool{} // path of each response, and whether it is unchanged
	for _, r := range w.responses {
		c, changed := at[r.path]
		intact := changed && c.Kind == change.KindFile && c.SHA256 == r.sha256
		if asBefore(at, r.path) {
			kind, sum, _ := w.p.box.Before(r.path)
			intact = kind == change.KindFile && sum == r.sha256
		}
		if given[r.path] = intact; !intact {
			w.p.Observed.Reject(reason.Outside(r.path))
			continue
		}
		w.p.Observed.Outputs = append(w.p.Observed.Outputs, evidence.File{Path: r.path, SHA256: r.sha256, Size: r.size})
		if changed {
			w.p.Responses = append(w.p.Responses, c)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(changes), func(c change.Change) bool { return given[c.Path] })
	if othersIn(responseFolder, given, rest) {
		return rest
	}
	return slices.DeleteFunc(rest, func(c change.Change) bool {
		return c.Path == responseFolder && c.Kind == change.KindFolder && c.Before == nil // the folder was made for the responses
	})
}

// responseFolder is the folder of every pack.ResponsePath.
const responseFolder = "calls"

// othersIn says whether a folder has changes that belong to no response.
func othersIn(folder string, responses map[string]bool, changes []change.Change) bool {
	return slices.ContainsFunc(changes, func(c change.Change) bool {
		_, ours := responses[c.Path]
		return strings.HasPrefix(c.Path, folder+"/") && !ours
	})
}
