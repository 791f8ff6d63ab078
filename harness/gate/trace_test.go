//go:build unix

package gate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/calltrace"
	"github.com/fiador/fiador/harness/gate"
	"github.com/fiador/fiador/harness/rehearsal"
)

// trace is the file of a trace. It takes so many lines, and then none.
type trace struct {
	rehearsal.Buffer
	mu   sync.Mutex
	room int
}

func (f *trace) Write(p []byte) (int, error) {
	f.mu.Lock()
	f.room--
	full := f.room < 0
	f.mu.Unlock()
	if full {
		return 0, errors.New("no room")
	}
	return f.Buffer.Write(p)
}

func (f *trace) Close() error { return nil }

// want holds the lines, without their hashes, against "TOOL OK".
func (f *trace) want(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for text := range strings.Lines(f.String()) {
		var sum, tool string
		var ok bool
		if _, err := fmt.Sscanf(strings.NewReplacer(`"`, " ", `,`, " ").Replace(text), "{ args_sha256 : %s ok :%t source : gate tool : %s }", &sum, &ok, &tool); err != nil || len(sum) != 71 {
			t.Errorf("%s: %v", text, err)
		}
		got = append(got, fmt.Sprintf("%s %t", tool, ok))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the trace is %q, want %q", got, want)
	}
}

// TestTrace: every call has its line before its answer: an answered one, one that the tool
// fails, and a refused one. What is refused with -32600, and what is no call of a tool, has none.
func TestTrace(t *testing.T) {
	f := &trace{room: 100}
	l := calltrace.New(f, calltrace.Unlimited)
	c := begin(t, "fails", gate.Options{Trace: l}).open()
	for _, step := range []struct {
		text string
		want []string
		line string // empty: none
	}{
		{call("1", "echo", `{"a":1}`), []string{`"id":1`, "done"}, "echo true"},
		{call("2", "echo", `{"no":1}`), []string{`"id":2`, "REFUSE the test refuses"}, "echo false"},
		{call("3", "never", `{}`), []string{`"id":3`, "TOOL_UNKNOWN"}, "never false"},
		{call("4", "echo", `{"fail":"result"}`), []string{`"id":4`, `"isError":true`}, "echo false"},
		{call("5", "echo", `{"fail":"error"}`), []string{`"id":5`, `"error"`}, "echo false"},
		{call("6", "echo", `{"fail":"bad"}`), []string{`"id":6`, `"code":-32000`}, "echo false"},
		{call("7", "echo", `[]`), []string{`"code":-32600`}, ""},
		{`{"jsonrpc":"2.0","id":8,"method":"prompts/get","params":{"name":"echo"}}`, []string{`"id":8`, "done"}, ""},
		{`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo"}}`, []string{`"id":9`, "done"}, "echo true"},
	} {
		c.tell(step.text)
		before := strings.Count(f.String(), "\n")
		c.want(step.want...)
		lines := slices.Collect(strings.Lines(f.String()))
		if step.line == "" {
			if len(lines) != before {
				t.Errorf("%s: a line %s", step.text, lines[before])
			}
			continue
		}
		tool, ok, _ := strings.Cut(step.line, " ")
		if last := lines[len(lines)-1]; !strings.Contains(last, `"ok":`+ok+`,"source":"gate","tool":"`+tool+`"}`) {
			t.Errorf("%s: the last line is %s, want %s", step.text, last, step.line)
		}
	}
	f.want(t, "echo true", "echo false", "never false", "echo false", "echo false", "echo false", "echo true")
	if !strings.HasPrefix(f.String(), `{"args_sha256":"sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862",`) {
		t.Errorf("the hash of {\"a\":1} is another one: %s", f)
	}
}

// TestTraceOfNoAnswer: a call that the client cancels before its decision, one that has no answer
// at the end of the session, and one whose server dies have their lines.
func TestTraceOfNoAnswer(t *testing.T) {
	f, begun := &trace{room: 100}, make(chan bool, 1)
	c := begin(t, "holds", gate.Options{Trace: calltrace.New(f, calltrace.Unlimited), Decide: func(ctx context.Context, call gate.Call) gate.Answer {
		if call.Params["slow"] != nil {
			begun <- true
			<-ctx.Done()
		}
		return gate.Answer{Allowed: true}
	}}).open()
	c.tell(call("1", "echo", `{"slow":true}`))
	<-begun
	c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	c.want(`"id":2`)
	f.want(t, "echo false")
	c.tell(call("3", "echo", `{}`))
	c.in.Close()
	<-c.exit
	f.want(t, "echo false", "echo false")

	f = &trace{room: 100}
	c = begin(t, "dies", gate.Options{Trace: calltrace.New(f, calltrace.Unlimited)}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, "the server has ended")
	f.want(t, "echo false")
}

// TestTraceForgotten: a cancelled call that the gate forgets has its line, and nothing is kept of it.
func TestTraceForgotten(t *testing.T) {
	f := &trace{room: 10_000}
	c := begin(t, "holds", gate.Options{Trace: calltrace.New(f, calltrace.Unlimited)}).open()
	for i := range 300 {
		id := strconv.Itoa(i + 1)
		c.tell(call(id, "echo", `{}`))
		for strings.Count(strings.Join(c.heard(), "\n"), "tools/call") <= i {
			time.Sleep(time.Millisecond)
		}
		c.tell(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	}
	c.tell(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	c.want(`"id":"p"`)
	if n := strings.Count(f.String(), "\n"); n != 300-256 {
		t.Errorf("%d lines", n)
	}
	c.in.Close()
	<-c.exit
	if n := strings.Count(f.String(), `"ok":false`); n != 300 {
		t.Errorf("%d lines at the end", n)
	}
}

// TestMaxCalls: calls beyond the limit reach nobody, and have their lines. Calls that the policy
// refuses count.
func TestMaxCalls(t *testing.T) {
	f := &trace{room: 100}
	c := begin(t, "good", gate.Options{Trace: calltrace.New(f, 2)}).open()
	c.tell(call("1", "echo", `{"no":1}`))
	c.want(`"id":1`, "REFUSE the test refuses")
	c.tell(call("2", "echo", `{}`))
	c.want(`"id":2`, "done")
	for _, id := range []string{"3", "4"} {
		c.tell(call(id, "echo", `{}`))
		c.want(`"id":`+id, `"isError":true`, "REFUSE MAX_TOOL_OPS: Exceeded max tool ops: "+id+" > 2.")
	}
	c.tell(`{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"a"}}`)
	c.want(`"id":5`, "done")
	f.want(t, "echo false", "echo true", "echo false", "echo false")
	if heard := strings.Join(c.heard(), "\n"); strings.Count(heard, "tools/call") != 1 {
		t.Errorf("the server has read %s", heard)
	}
}

// TestTraceFails: the answer of a call whose line cannot be written is an error, and later calls
// are refused.
func TestTraceFails(t *testing.T) {
	f := &trace{room: 1}
	c := begin(t, "good", gate.Options{Trace: calltrace.New(f, calltrace.Unlimited)}).open()
	c.tell(call("1", "echo", `{}`))
	c.want(`"id":1`, "done")
	c.tell(call("2", "echo", `{}`))
	c.want(`"id":2`, `"isError":true`, "The answer is not passed on")
	f.mu.Lock()
	f.room = 100
	f.mu.Unlock()
	c.tell(call("3", "echo", `{}`))
	c.want(`"id":3`, `"isError":true`, "The call was not decided")
	f.want(t, "echo true")
	if heard := strings.Join(c.heard(), "\n"); strings.Count(heard, "tools/call") != 2 {
		t.Errorf("the server has read %s", heard)
	}
}

// TestWebTrace: all sessions over HTTP have one trace and one number of calls, in which calls at
// once have whole lines.
func TestWebTrace(t *testing.T) {
	const sessions, each = 4, 10
	for _, events := range []bool{false, true} {
		f := &trace{room: 1000}
		u := newUpstream(t, events, nil)
		at := openWeb(t, gate.Options{Trace: calltrace.New(f, sessions*each-1)}, u.URL)
		var all sync.WaitGroup
		for range sessions {
			all.Go(func() {
				v := (&visit{t: t, url: at}).begin()
				for i := range each {
					v.want(200, call(strconv.Itoa(i+1), "echo", `{}`), fmt.Sprintf(`"id":%d`, i+1))
				}
			})
		}
		all.Wait()
		want := slices.Repeat([]string{"echo true"}, sessions*each)
		i := strings.Count(f.String()[:strings.Index(f.String(), `"ok":false`)], "\n")
		want[i] = "echo false"
		f.want(t, want...)
		v := (&visit{t: t, url: at}).begin()
		v.want(200, call("1", "echo", `{}`), `"isError":true`, fmt.Sprintf("Exceeded max tool ops: %d > %d", sessions*each+1, sessions*each-1))
		if n := strings.Count(strings.Join(u.all(), "\n"), "tools/call"); n != sessions*each-1 {
			t.Errorf("the server has read %d calls", n)
		}
	}
}
