package calltrace_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/harness/calltrace"
	"github.com/fiador/fiador/kernel/canon"
)

// sink is a file in memory. It takes so many writes, and then none.
type sink struct {
	bytes.Buffer
	room   int
	closed int
}

func (s *sink) Write(b []byte) (int, error) {
	if s.room--; s.room < 0 {
		return 0, errors.New("no room")
	}
	return s.Buffer.Write(b)
}

func (s *sink) Close() error { s.closed++; return nil }

// ofNothing is the hash of {}.
const ofNothing = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

func line(tool string, ok bool) string {
	return fmt.Sprintf(`{"args_sha256":"%s","ok":%t,"source":"gate","tool":"%s"}`+"\n", ofNothing, ok, tool)
}

// TestLines: a line is canonical, and lines have the order in which the calls end. A call
// that has not ended has its line when the trace is closed.
func TestLines(t *testing.T) {
	s := &sink{room: 100}
	l := calltrace.New(s, calltrace.Unlimited)
	none := map[string]any{}
	a, b, c, d := l.Begin("a", none), l.Begin("b", none), l.Begin("c", none), l.Begin("d", map[string]any{"b": 1.0, "a": "<\u00e4"})
	for _, call := range []*calltrace.Call{a, b, c, d} {
		if why := call.Refused(); why != "" {
			t.Error(why)
		}
	}
	if l.Begin("", none) != nil {
		t.Error("a message that calls no tool is a call")
	}
	if err := errors.Join(d.End(true), b.End(false), b.End(true), l.Close()); err != nil {
		t.Error(err)
	}
	sum := string(canon.Sum([]byte(`{"a":"<ä","b":1}`)))
	want := strings.Replace(line("d", true), ofNothing, sum, 1) + line("b", false) + line("a", false) + line("c", false)
	if s.String() != want || s.closed != 1 {
		t.Errorf("%s, want %s; closed %d times", s, want, s.closed)
	}
	late := l.Begin("late", none)
	if late.Refused() == "" || a.End(true) != nil || l.Close() == nil || s.closed != 1 {
		t.Errorf("a closed trace is open")
	}
}

// TestNoTrace: without a trace nothing is refused, and nothing fails.
func TestNoTrace(t *testing.T) {
	var l *calltrace.Log
	c := l.Begin("a", nil)
	if c != nil || c.Refused() != "" || c.End(true) != nil || l.Close() != nil {
		t.Errorf("%+v", c)
	}
}

// TestLimit: the calls behind the limit are refused, with their numbers, and have lines.
func TestLimit(t *testing.T) {
	for most, refused := range map[int]int{calltrace.Unlimited: 0, 0: 3, 1: 2, 2: 1, 3: 0} {
		s := &sink{room: 100}
		for _, l := range []*calltrace.Log{calltrace.New(s, most), calltrace.New(nil, most)} {
			n := 0
			for i := range 3 {
				c := l.Begin("a", nil)
				if why := c.Refused(); why != "" {
					n++
					if want := fmt.Sprintf("Exceeded max tool ops: %d > %d.", i+1, most); !strings.HasPrefix(why, "REFUSE ") || !strings.Contains(why, want) {
						t.Errorf("%s, want %s", why, want)
					}
				}
				if err := c.End(false); err != nil {
					t.Error(err)
				}
			}
			if err := l.Close(); n != refused || err != nil {
				t.Errorf("at most %d: %d are refused, want %d (%v)", most, n, refused, err)
			}
		}
		if n := strings.Count(s.String(), "\n"); n != 3 {
			t.Errorf("at most %d: %d lines", most, n)
		}
	}
}

// TestFailedWrite: a call whose line cannot be written has an error, and so has every later one,
// even if there is room again. Later calls are refused.
func TestFailedWrite(t *testing.T) {
	s := &sink{room: 1}
	l := calltrace.New(s, calltrace.Unlimited)
	a, b, c := l.Begin("a", nil), l.Begin("b", nil), l.Begin("c", nil)
	if err := a.End(true); err != nil {
		t.Error(err)
	}
	if err := b.End(true); err == nil {
		t.Error("the line of b is written")
	}
	s.room = 100
	if err := c.End(true); err == nil {
		t.Error("the line of c is written")
	}
	if why := l.Begin("d", nil).Refused(); !strings.Contains(why, "trace") {
		t.Error(why)
	}
	if err := l.Close(); err == nil || err.Error() != "no room" {
		t.Error(err)
	}
	if strings.Count(s.String(), "\n") != 1 || s.closed != 1 {
		t.Errorf("%s, closed %d times", s, s.closed)
	}
}

// TestLongName: a line has at most 4 KiB, whatever the client calls.
func TestLongName(t *testing.T) {
	s := &sink{room: 100}
	l := calltrace.New(s, calltrace.Unlimited)
	for _, name := range []string{strings.Repeat("\x01", 1<<20), strings.Repeat("\u2028", 1<<20)} {
		if err := l.Begin(name, map[string]any{"a": name}).End(false); err != nil {
			t.Error(err)
		}
	}
	for text := range strings.Lines(s.String()) {
		if doc, err := canon.Parse([]byte(text), 4<<10); err != nil || string(doc.Bytes())+"\n" != text {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// TestOpen: a file is made for its owner alone, lines are appended to one that is there, and
// what is no file is refused.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "trace")
	for i := range 2 {
		l, err := calltrace.Open(name, calltrace.Unlimited)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Begin(fmt.Sprint(i), nil).End(true), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(name)
	if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"tool":"0"`) {
		t.Errorf("%s (%v)", text, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/' {
		t.Errorf("%v (%v)", info.Mode(), err)
	}
	for _, wrong := range []string{dir, filepath.Join(dir, "missing", "trace")} {
		if _, err := calltrace.Open(wrong, calltrace.Unlimited); err == nil {
			t.Errorf("%s is open", wrong)
		}
	}
}

// TestAtOnce: of many calls at once, each has a whole line, and exactly as many as the limit
// says are made.
func TestAtOnce(t *testing.T) {
	const calls, most = 400, 150
	s := &sink{room: calls}
	l := calltrace.New(s, most)
	var wait sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for i := range calls {
		wait.Go(func() {
			c := l.Begin(fmt.Sprintf("t%d", i), map[string]any{})
			ok := c.Refused() == ""
			if err := c.End(ok); err != nil {
				t.Error(err)
			}
			if ok {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	lines := slices.Collect(strings.Lines(s.String()))
	slices.Sort(lines)
	if lines = slices.Compact(lines); len(lines) != calls || made != most || strings.Count(s.String(), `"ok":true`) != most {
		t.Errorf("%d lines, %d calls made", len(lines), made)
	}
}
