// Package calltrace owns the trace that the MCP gate keeps of calls of tools: it counts the calls,
// refuses those beyond a limit, and appends one canonical line for each call whose answer is known.
// It knows nothing of messages and of policies.
package calltrace

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/fiador/fiador/kernel/canon"
)

// Source is the source of every line here.
const Source = "gate"

// Unlimited is the limit of a Log that refuses no call for their number.
const Unlimited = -1

// Log is the trace of one gate. Calls may begin and end at once. A nil Log keeps no trace.
type Log struct {
	most int

	mu    sync.Mutex
	to    io.WriteCloser // nil: calls are counted, and not written
	calls int
	open  map[int]*Call // by number
	err   error         // why no line is written any more
}

// Open opens the trace in a regular file, which is made if it is not there. Without a name the
// calls are counted alone.
func Open(name string, most int) (*Log, error) {
	if name == "" {
		return New(nil, most), nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return New(f, most), nil
}

// New returns a trace that is written to a writer, each line with one write.
func New(to io.WriteCloser, most int) *Log {
	return &Log{most: most, to: to, open: map[int]*Call{}}
}

// Call is one call of a tool. A nil Call is of no trace.
type Call struct {
	log    *Log
	number int // from 1 on
	tool   string
	args   map[string]any
	once   sync.Once
	sum    canon.ContentHash
}

// Begin counts a call of a tool. A message that calls no tool has an empty name, and is no call.
func (l *Log) Begin(tool string, args map[string]any) *Call {
	if l == nil || tool == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	c := &Call{log: l, number: l.calls, tool: tool, args: args}
	l.open[c.number] = c
	return c
}

// Refused says why the call is not made, in words for the client; empty: it may be made.
func (c *Call) Refused() string {
	if c == nil {
		return ""
	}
	c.digest() // not while the lock is held, as End does it for a call that ends before
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	switch {
	case c.log.err != nil:
		return "The call was not decided: the trace of calls cannot be written. The server has not seen the call."
	case c.log.most != Unlimited && c.number > c.log.most:
		return fmt.Sprintf("REFUSE MAX_TOOL_OPS: Exceeded max tool ops: %d > %d. Fix: finish without another call.", c.number, c.log.most)
	}
	return ""
}

// End writes the line of a call whose answer is known, before the client gets the answer. ok says
// that it is a result, and none with isError. If the line cannot be written, the client gets the
// error in the place of the answer. Only the first End of a call counts.
func (c *Call) End(ok bool) error {
	if c == nil {
		return nil
	}
	c.digest()
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	if c.log.open[c.number] == nil {
		return nil
	}
	if c.log.write(c, ok); c.log.err != nil {
		return errors.New("the trace of calls cannot be written")
	}
	return nil
}

// digest computes the hash of the arguments, once.
func (c *Call) digest() {
	c.once.Do(func() {
		text, _ := canon.Canonical(c.args) // they were read from JSON
		c.sum, c.args = canon.Sum(text), nil
	})
}

// line is the document of a line.
type line struct {
	ArgsSHA256 canon.ContentHash `json:"args_sha256"`
	OK         bool              `json:"ok"`
	Source     string            `json:"source"`
	Tool       string            `json:"tool"` // cut, so that a line is a short one
}

// write writes the line of an open call. After a failure nothing is written any more.
func (l *Log) write(c *Call, ok bool) {
	delete(l.open, c.number)
	if l.err != nil || l.to == nil {
		return
	}
	text, _, err := canon.Artifact(line{c.sum, ok, Source, canon.Cut(c.tool)})
	if err == nil {
		_, err = l.to.Write(text)
	}
	l.err = err
}

var errClosed = errors.New("the trace is closed")

// Close writes the lines of the calls that have no answer, and closes the trace. Its error is the
// first one of a line.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(l.open)) {
		c := l.open[number]
		c.digest()
		l.write(c, false)
	}
	err := l.err
	if l.err = errClosed; l.to != nil && !errors.Is(err, errClosed) {
		err = errors.Join(err, l.to.Close())
	}
	return err
}
