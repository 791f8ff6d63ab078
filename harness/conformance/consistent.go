package conformance

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The fixed lines of a log.
const (
	beginStdout = "=== STDOUT ===\n"
	beginStderr = "\n=== STDERR ===\n"
	beginEvents = "\n--- BEGIN EVENTS ---\n"
	endEvents   = "--- END EVENTS ---\n"
)

// consistent compares a log with the output that the program passed on. The sections
// have the bytes of the streams. The events have their lines, numbered from 1 without a
// gap, each stream's in its order. consistent is for vectors in which the order between
// the streams is free.
func (c *checker) consistent(log []byte) {
	begin := beginStdout + string(c.o.stdout) + beginStderr
	rest, ok := bytes.CutPrefix(log, []byte(begin))
	if !ok {
		c.faults = append(c.faults, difference("the beginning of the log", begin, string(log[:min(len(log), len(begin))])))
		return
	}
	i := bytes.LastIndex(rest, []byte(beginEvents))
	if i < 0 || !bytes.HasSuffix(rest, []byte(endEvents)) {
		c.fault("the log has no events", strings.TrimSpace(beginEvents), string(rest))
		return
	}
	// The text after it on standard error is the program's own.
	stderr := rest[:i]
	if !bytes.HasPrefix(c.o.stderr, stderr) {
		c.faults = append(c.faults, difference("the standard error in the log", string(c.o.stderr), string(stderr)))
	}
	c.events(eventLines(log), lines(c.o.stdout), lines(stderr))
}

func (c *checker) events(events []byte, stdout, stderr []string) {
	queues := map[string][]string{"STDOUT": stdout, "STDERR": stderr}
	list := strings.Split(strings.TrimSuffix(string(events), "\n"), "\n")
	for i, event := range list {
		rest, ok := strings.CutPrefix(event, fmt.Sprintf("[SEQ=%d][", i+1))
		stream, text, found := strings.Cut(rest, "] ")
		if !ok || !found {
			c.fault("an event is out of order", fmt.Sprintf("[SEQ=%d][...] ...", i+1), event)
			return
		}
		switch queue := queues[stream]; {
		case stream == "META" && i == 0 && strings.HasPrefix(text, `safe-run start: cmd="`):
		case stream == "META" && i == len(list)-1 && text == fmt.Sprintf("safe-run exit: code=%d", c.o.code):
		case stream == "META" && i > 0 && i < len(list)-1:
		case len(queue) > 0 && i > 0 && i < len(list)-1 && text == queue[0]:
			queues[stream] = queue[1:]
		case len(queue) > 0:
			c.fault("an event has another text", queue[0], event)
			return
		default:
			c.fault("an event stands for nothing", "", event)
			return
		}
	}
	for stream, queue := range queues {
		if len(queue) > 0 {
			c.fault("a line has no event", fmt.Sprintf("[%s] %s", stream, queue[0]), "")
		}
	}
}

// lines returns the texts of the events of a stream.
func lines(stream []byte) []string {
	var texts []string
	for len(stream) > 0 {
		line, rest, ended := bytes.Cut(stream, []byte("\n"))
		stream = rest
		if !utf8.Valid(line) || bytes.HasPrefix(line, []byte("base64:")) {
			texts = append(texts, "base64:"+base64.StdEncoding.EncodeToString(line))
			continue
		}
		if ended {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		texts = append(texts, string(line))
	}
	return texts
}
