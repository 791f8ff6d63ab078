package remote

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/result"
)

// TestConnectionsAreCopies: what a caller does to the list does not change the answer.
func TestConnectionsAreCopies(t *testing.T) {
	b := &box{result: &job.Result{Contacts: []evidence.Connection{{Name: "a"}}}}
	b.Connections()[0].Name = "b"
	if b.Connections()[0].Name != "a" {
		t.Error("the answer has changed")
	}
}

// TestConnectionsOfProxies: a connection that no proxy reports makes an answer one that is refused.
func TestConnectionsOfProxies(t *testing.T) {
	fine := evidence.Connection{Name: "example.org", Port: 443, Verdict: evidence.Passed}
	facts := func(c evidence.Connection) error {
		s := &job.Spec{Listed: true, Actions: make([]job.Action, 1)}
		r := &job.Result{Isolation: "full", Staging: "copy", Plan: "sha256:" + digits, Machine: job.Machine{OS: "linux", Arch: "arm64", GoVersion: "go1"}, Contacts: []evidence.Connection{c}}
		for _, name := range evidence.Clauses() {
			for _, m := range evidence.Mechanisms(sandbox.Full) {
				if one := m.With(1); one.Clause == name && (name != evidence.ClauseNetwork || m == evidence.NetworkProxy) {
					r.Clauses = append(r.Clauses, one)
					break
				}
			}
		}
		return (&box{result: r}).facts(s, "arm64")
	}
	if err := facts(fine); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*evidence.Connection){
		"action": func(c *evidence.Connection) { c.Action = 1 }, "screen": func(c *evidence.Connection) { c.Name = "\x1b[2J" },
		"long": func(c *evidence.Connection) { c.Name = strings.Repeat("x", 256) }, "port": func(c *evidence.Connection) { c.Port = 65536 },
		"sent": func(c *evidence.Connection) { c.Sent = -1 }, "received": func(c *evidence.Connection) { c.Received = -1 },
		"verdict": func(c *evidence.Connection) { c.Verdict = "fine" },
	} {
		c := fine
		if change(&c); facts(c) == nil {
			t.Errorf("%s: %+v is a connection", name, c)
		}
	}
}

const digits = "0000000000000000000000000000000000000000000000000000000000000001"

// TestReadAll: a Read that blocks does not hold up the end of the context.
func TestReadAll(t *testing.T) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if text, err := readAll(ctx, r); text != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", text, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if text, err := readAll(t.Context(), strings.NewReader("x")); string(text) != "x" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// TestHashEnds: a file that grows is not read to its end, and no file after the end of the context.
func TestHashEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &collector{ctx: ctx}
	file := filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40)); err != nil {
		t.Skip("no file of this size can be made: ", err)
	}
	hash := func(size int64) error {
		_, err := c.hash(sandbox.Original{Kind: change.KindFile, Size: size}, func() (*os.File, error) { return os.Open(file) })
		return err
	}
	if err := hash(3); err == nil || !strings.Contains(err.Error(), "changes while it is read") {
		t.Error(err)
	}
	if cancel(); !errors.Is(hash(1<<40), context.Canceled) {
		t.Error("it is read after the end")
	}
}

// TestRefusedAs: a refusal after the commands began is no refusal, and its texts are such as a
// message can have.
func TestRefusedAs(t *testing.T) {
	for _, network := range []bool{false, true} {
		re, ok := errors.AsType[*result.RunError](refusedAs(&job.Refusal{Kind: job.RefusedWorker, Message: "full", Started: true}, &job.Spec{Network: network}))
		if !ok || re.Code != result.CodeEvidence || (re.Remedy() == mayHaveReached) != network {
			t.Errorf("network %v: %+v", network, re)
		}
	}
	long := strings.Repeat("\x1b", 1<<20)
	e, ok := errors.AsType[*sandbox.Error](refusedAs(&job.Refusal{Kind: job.RefusedIsolation, Isolation: "full", Step: long, Cause: long, Message: long, Remedy: long}, &job.Spec{}))
	if text := e.Error() + e.Step + e.Cause + e.Remedy; !ok || len(text) > 4096 || strings.Contains(text, "\x1b") {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
	if _, err := job.ReadResult([]byte(`{"a":[1,2,3]}`+"\n"), 3); err == nil || !strings.Contains(err.Error(), "more than the task allows") {
		t.Error(err)
	}
}
