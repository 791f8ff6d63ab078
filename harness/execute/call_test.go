package execute

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// unasked is a Caller with one adapter, m, which must not be asked.
type unasked struct{ t *testing.T }

func (u unasked) Model(id string) (string, error) {
	if id != "m" {
		return "", &model.Error{Msg: "no such adapter", Next: "list it"}
	}
	return "small", nil
}

func (u unasked) Call(context.Context, string, []byte) ([]byte, error) {
	u.t.Error("a model was asked")
	return nil, errors.New("unasked")
}

func (u unasked) Recording() ([]byte, error) { return nil, nil }

func parsed(t *testing.T, members string) kernel.Intent {
	t.Helper()
	doc, err := canon.Parse([]byte(`{"goal":"Ask","constraints":["once"],`+members+`}`), canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	intent, err := kernel.ParseIntent(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	return intent
}

// TestPrompts: a prompt has the params with the adapter's model. It is canonical and
// without a line feed, however the params are written.
func TestPrompts(t *testing.T) {
	calls, err := ModelCalls(unasked{t}, parsed(t, intents.Actions(
		intents.Call("m", `{"messages": [{"role": "user", "content": "2+2"}], "temperature": 0.0}`), `{"kind":"write","path":"out/a","content":"1"}`,
		intents.Call("m", `{"model":"small","stream":false,"base_url":"http://192.0.2.1"}`), intents.Call("m", `{"stream":null}`),
	)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]string{}
	for i, c := range calls {
		got[i] = c.AdapterID + " " + string(c.Prompt)
	}
	want := map[int]string{
		0: `m {"messages":[{"content":"2+2","role":"user"}],"model":"small","temperature":0}`,
		2: `m {"base_url":"http://192.0.2.1","model":"small","stream":false}`,
		3: `m {"model":"small","stream":null}`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("prompts are %v, want %v", got, want)
	}
}

// TestCallsThatCannotBeMade: the fault of a call is reported with its pointer before any
// model is asked.
func TestCallsThatCannotBeMade(t *testing.T) {
	tests := []struct{ name, members, pointer, want string }{
		{"no such adapter", intents.Actions(`{"kind":"run","argv":["true"]}`, intents.Call("n", `{}`)), "/actions/1/adapter_id", `adapter "n": no such adapter`},
		{"several adapters", intents.Actions(intents.Call("m", `{}`), intents.Call("n", `{}`)), "/actions/1/adapter_id", "several adapters"},
		{"several adapters, one unnamed", intents.Actions(intents.Call("m", `{}`), `{"kind":"call","tool_id":"t","params":{}}`), "/actions/1/adapter_id", "several adapters"},
		{"another model", intents.Actions(intents.Call("m", `{"model":"large"}`)), "/actions/0/params/model", `model is not "small"`},
		{"a model of another kind", intents.Actions(intents.Call("m", `{"model":null}`)), "/actions/0/params/model", `model is not "small"`},
		{"a stream", intents.Actions(intents.Call("m", `{}`), intents.Call("m", `{"stream":true}`)), "/actions/1/params/stream", "comes in parts"},
		{"perhaps a stream", intents.Actions(intents.Call("m", `{"stream":1}`)), "/actions/0/params/stream", "comes in parts"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			calls, err := ModelCalls(unasked{t}, parsed(t, test.members))
			var re *result.RunError
			if !errors.As(err, &re) || calls != nil || re.Code != result.CodeSandbox || re.Details["pointer"] != test.pointer || !strings.Contains(re.Message, test.want) || re.Hint == "" {
				t.Errorf("calls %v, error %v", calls, err)
			}
		})
	}
}

// TestSettle: a response that is as the call gave it is no change of a command. The folder
// that was made for it is no change either.
func TestSettle(t *testing.T) {
	sum := func(s string) [32]byte { return [32]byte([]byte(s + strings.Repeat(" ", 32-len(s)))) }
	file := func(path, content string) change.Change {
		return change.Change{Path: path, Kind: change.KindFile, SHA256: sum(content), Size: 1}
	}
	folder := func(path string) change.Change { return change.Change{Path: path, Kind: change.KindFolder} }
	const one, two = "calls/001.response.json", "calls/002.response.json"
	was := folder("calls")
	was.Before = &change.Seen{Kind: change.KindFile}
	tests := []struct {
		name           string
		changes, rest  []change.Change
		outputs, wrong []string
	}{
		{name: "as they were given", changes: []change.Change{folder("calls"), file(one, "1"), file(two, "2"), folder("out"), file("out/a", "3")},
			rest: []change.Change{folder("out"), file("out/a", "3")}, outputs: []string{one, two}},
		{name: "one is changed", changes: []change.Change{folder("calls"), file(one, "1"), file(two, "3")},
			rest: []change.Change{file(two, "3")}, outputs: []string{one}, wrong: []string{two}},
		{name: "one is a folder", changes: []change.Change{folder("calls"), folder(one), file(one+"/a", "1"), file(two, "2")},
			rest: []change.Change{folder("calls"), folder(one), file(one+"/a", "1")}, outputs: []string{two}, wrong: []string{one}},
		{name: "one is a link", changes: []change.Change{folder("calls"), {Path: one, Kind: change.KindLink, Target: "2"}, file(two, "2")},
			rest: []change.Change{{Path: one, Kind: change.KindLink, Target: "2"}}, outputs: []string{two}, wrong: []string{one}},
		{name: "another file beside them", changes: []change.Change{folder("calls"), file(one, "1"), file(two, "2"), file("calls/x", "3")},
			rest: []change.Change{folder("calls"), file("calls/x", "3")}, outputs: []string{one, two}},
		{name: "a folder in the place of a file", changes: []change.Change{was, file(one, "1"), file(two, "2")},
			rest: []change.Change{was}, outputs: []string{one, two}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := &performance{p: &Performed{}, responses: []response{{one, sum("1"), 1}, {two, sum("2"), 1}}}
			before := slices.Clone(test.changes)
			if got := w.settle(test.changes); !reflect.DeepEqual(got, test.rest) {
				t.Errorf("left are %+v, want %+v", got, test.rest)
			}
			if !reflect.DeepEqual(before, test.changes) {
				t.Error("the changes were changed")
			}
			var outputs, wrong []string
			for _, o := range w.p.Observed.Outputs {
				outputs = append(outputs, o.Path)
			}
			for _, r := range w.p.Observed.Reasons {
				wrong = append(wrong, strings.TrimPrefix(r, "WRITE_OUTSIDE_ROOT "))
			}
			if !slices.Equal(outputs, test.outputs) || !slices.Equal(wrong, test.wrong) {
				t.Errorf("outputs %q, wrong %q", outputs, wrong)
			}
		})
	}
	w := &performance{p: &Performed{}}
	if got := w.settle([]change.Change{folder("calls")}); len(got) != 1 {
		t.Errorf("without calls, left are %+v", got)
	}
}

// TestApart: an input cannot be at the place of a response.
func TestApart(t *testing.T) {
	in := sandbox.Inputs{Files: []sandbox.Input{{Path: "calls/002.response.json"}}}
	call := kernel.Action{Kind: kernel.ActionCall}
	if err := CheckInputs(in, kernel.Intent{Actions: []kernel.Action{call, {}, call}}); err != nil {
		t.Error(err)
	}
	var re *result.RunError
	if err := CheckInputs(in, kernel.Intent{Actions: []kernel.Action{{}, call}}); !errors.As(err, &re) || re.Code != result.CodeSandbox || re.Details["pointer"] != "/actions/1" {
		t.Errorf("error %v", err)
	}
	if pack.ResponsePath(1) != in.Files[0].Path {
		t.Errorf("path is %q", pack.ResponsePath(1))
	}
}
