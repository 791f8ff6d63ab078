package conformance

import (
	"strings"
	"testing"
)

// TestConsistent: a log that differs from the output on the streams is detected,
// whatever the order between the streams.
func TestConsistent(t *testing.T) {
	const log = "=== STDOUT ===\none\n\n\xff\n=== STDERR ===\nerr\r\n\n--- BEGIN EVENTS ---\n" +
		"[SEQ=1][META] safe-run start: cmd=\"x\"\n[SEQ=2][STDOUT] one\n[SEQ=3][STDERR] err\n[SEQ=4][STDOUT] \n[SEQ=5][STDOUT] base64:/w==\n" +
		"[SEQ=6][META] safe-run interrupted: signal=TERM\n[SEQ=7][META] safe-run exit: code=1\n--- END EVENTS ---\n"
	o := observation{code: 1, stdout: []byte("one\n\n\xff"), stderr: []byte("err\r\nsafe-run: exit code 1, log \"x\"\n")}
	for _, c := range []struct{ old, new, what string }{
		{"", "", ""},
		{"[SEQ=2][STDOUT] one\n[SEQ=3][STDERR] err\n", "[SEQ=2][STDERR] err\n[SEQ=3][STDOUT] one\n", ""},
		{"one\n\n\xff\n=", "one\n\xff\n=", "the beginning of the log differs"},
		{"=== STDOUT", "== STDOUT", "the beginning of the log differs"},
		{"err\r\n", "err\n", "the standard error in the log differs"},
		{"\n--- BEGIN EVENTS ---\n", "\n", "the log has no events"},
		{"--- END EVENTS ---\n", "", "the log has no events"},
		{"SEQ=3", "SEQ=4", "an event is out of order"},
		{"SEQ=1]", "SEQ=0]", "an event is out of order"},
		{"[SEQ=2][STDOUT] one\n", "[SEQ=2][STDOUT]one\n", "an event is out of order"},
		{"[STDOUT] one", "[STDERR] one", "an event has another text"},
		{"[STDOUT] one", "[STDOUT] two", "an event has another text"},
		{"base64:/w==", "\xff", "an event has another text"},
		{"[META] safe-run interrupted: signal=TERM", "[STDOUT] more", "an event stands for nothing"},
		{"[META] safe-run interrupted: signal=TERM", "[OTHER] more", "an event stands for nothing"},
		{"[META] safe-run start", "[META] safe-run begin", "an event stands for nothing"},
		{"exit: code=1", "exit: code=2", "an event stands for nothing"},
		{"[STDOUT] base64:/w==", "[META] safe-run note", "a line has no event"},
	} {
		c2 := &checker{o: o}
		c2.consistent([]byte(strings.Replace(log, c.old, c.new, 1)))
		if c.what == "" && len(c2.faults) > 0 || c.what != "" && (len(c2.faults) == 0 || !strings.HasPrefix(c2.faults[0].What, c.what)) {
			t.Errorf("%q for %q: %+v", c.new, c.old, c2.faults)
		}
	}
}
