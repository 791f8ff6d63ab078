package conformance

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// check compares the observation of a call with the vector's expectation.
func (v Vector) check(o observation, names LogNames) []Fault {
	if o.stopped != "" {
		return []Fault{{What: "the program " + o.stopped}}
	}
	c := &checker{v: v, o: o, names: names}
	c.end()
	c.stream("stdout", v.expected.stdout, o.stdout)
	c.stream("stderr", v.expected.stderr, o.stderr)
	c.artifacts()
	if name, content := o.log(); name != "" && c.logDue() {
		c.logFile(name)
		c.logContent(content)
	}
	return c.faults
}

type checker struct {
	v      Vector
	o      observation
	names  LogNames
	faults []Fault
}

func (c *checker) fault(what, want, got string) {
	c.faults = append(c.faults, Fault{what, brief(want), brief(got)})
}

// end checks how the program ended and what it left behind.
func (c *checker) end() {
	codes := c.v.expected.codes
	switch {
	case c.o.signal != 0:
		c.fault("the program was ended by a signal", "exit code "+list(codes), "signal "+strconv.Itoa(int(c.o.signal)))
	case !slices.Contains(codes, c.o.code):
		c.fault("exit code", list(codes), strconv.Itoa(c.o.code))
	}
	if c.o.held {
		c.fault("standard output or standard error of the program was still held after its end", "", "")
	}
	if len(c.o.left) > 0 {
		c.fault("left running", "", strings.Join(c.o.left, ", "))
	}
}

func list(codes []int) string {
	var s []string
	for _, c := range codes {
		s = append(s, strconv.Itoa(c))
	}
	return strings.Join(s, " or ")
}

func (c *checker) stream(name string, want stream, got []byte) {
	if want.exact != nil {
		c.same(name, *want.exact, got)
	}
	for _, text := range want.contains {
		if !bytes.Contains(got, []byte(c.filled(text))) {
			c.fault(name+" lacks a text", c.filled(text), string(got))
		}
	}
	if want.pattern != nil && !want.pattern.Match(got) {
		c.fault(name+" does not match", want.pattern.String(), string(got))
	}
	c.digest(name, want.sha256, got)
}

// same compares bytes with an exact text.
func (c *checker) same(what, want string, got []byte) {
	want = c.filled(want)
	if c.v.expected.freeLineEnds {
		want, got = strings.ReplaceAll(want, "\r\n", "\n"), bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))
	}
	if !matches(strings.Split(want, anything), string(got)) {
		c.faults = append(c.faults, difference(what, want, string(got)))
	}
}

func (c *checker) digest(what, want string, got []byte) {
	if want == "" {
		return
	}
	sum := sha256.Sum256(got)
	if is := hex.EncodeToString(sum[:]); is != want {
		c.fault(what+" has another SHA-256", want, is+fmt.Sprintf(" of %d bytes", len(got)))
	}
}

// filled replaces the placeholders of the working folder and of the log's name in an
// expected text.
func (c *checker) filled(s string) string {
	if name := c.o.logName(); name != "" {
		s = strings.ReplaceAll(s, "{{log}}", name)
	}
	return inPlace(s, c.o.dir)
}

// artifacts checks the content of the working folder.
func (c *checker) artifacts() {
	want := c.v.expected
	made, fresh := c.o.made(), c.o.fresh()
	switch {
	case want.artifacts != nil && !*want.artifacts && len(made) > 0:
		c.fault("created something", "nothing", strings.Join(made, ", "))
	case c.logDue() && len(fresh) == 0:
		c.fault("created no log", "one file in "+c.logDir(), strings.Join(made, ", "))
	case c.logDue() && len(fresh) > 1:
		c.fault("created more than a log", "one file in "+c.logDir(), strings.Join(fresh, ", "))
	}
	for _, name := range want.exist {
		if _, ok := c.o.after[name]; !ok {
			c.fault("is not there", name, strings.Join(made, ", "))
		}
	}
	for _, name := range want.absent {
		if _, ok := c.o.after[name]; ok {
			c.fault("is there", "no "+name, strings.Join(made, ", "))
		}
	}
	for _, name := range c.o.spoilt() {
		c.fault("changed or removed what was there before", "", name)
	}
}

// logDue says whether a log must exist.
func (c *checker) logDue() bool {
	want := c.v.expected
	return want.artifacts != nil && *want.artifacts || want.log.wanted()
}

// logDir returns the folder in which the log must be.
func (c *checker) logDir() string {
	if want := c.v.expected.log.dir; want != nil {
		return *want
	}
	dir := cmp.Or(c.v.command.env["SAFE_LOG_DIR"], ".agent/FAIL-LOGS")
	return path.Clean(strings.TrimPrefix(dir, "{{dir}}/"))
}

func (c *checker) logFile(name string) {
	want := c.v.expected.log
	dir, base := path.Split(name)
	if dir = path.Clean(dir); dir != c.logDir() {
		c.fault("the log is in another folder", c.logDir(), dir)
	}
	pattern := want.pattern
	if c.names == RFC && want.patternRFC != nil {
		pattern = want.patternRFC
	}
	if pattern != nil && !pattern.MatchString(base) {
		c.fault("the name of the log does not match", pattern.String(), base)
	} else if pattern == nil {
		c.logForm(base)
	}
	c.logTime(base)
	if got := c.o.after[name].mode.Perm(); want.mode != nil && got != *want.mode {
		c.fault("mode of the log", octal(*want.mode), octal(got))
	}
	if got := c.o.after[dir].mode.Perm(); want.dirMode != nil && got != *want.dirMode {
		c.fault("mode of the log's folder", octal(*want.dirMode), octal(got))
	}
}

func octal(m fs.FileMode) string { return fmt.Sprintf("%04o", m) }

func (c *checker) logContent(got []byte) {
	want := c.v.expected.log
	if want.exact != nil {
		c.same("log", *want.exact, got)
	}
	c.digest("log", want.sha256, got)
	for _, text := range want.markers {
		if !bytes.Contains(got, []byte(text)) {
			c.fault("the log lacks a text", text, string(got))
		}
	}
	if want.events != nil {
		c.same("events of the log", strings.Join(append(slices.Clone(*want.events), ""), "\n"), eventLines(got))
	}
	if want.consistent {
		c.consistent(got)
	}
}

// eventLines returns the text between the event markers, or everything if there are no
// markers. The last beginning counts, because a command's output may look like one.
func eventLines(log []byte) []byte {
	i := bytes.LastIndex(log, []byte(beginEvents))
	if i < 0 || !bytes.HasSuffix(log, []byte(endEvents)) {
		return log
	}
	if i += len(beginEvents); i > len(log)-len(endEvents) {
		return log
	}
	return log[i : len(log)-len(endEvents)]
}

// around is the maximum difference between the time in the name of a log and the time of
// the call. It detects a wrong time zone, and accepts a slow machine.
const around = 10 * time.Minute

// logForm checks the form of a name.
func (c *checker) logForm(base string) {
	form := `^safe-run-\d{8}-\d{6}-[0-9a-f]{6,}\.log$`
	switch {
	case c.names == RFC && len(c.v.command.signals) > 0:
		form = `^\d{8}T\d{6}Z-pid\d+-ABORTED(-\d+)?\.log$`
	case c.names == RFC:
		form = `^\d{8}T\d{6}Z-pid\d+-FAIL(-\d+)?\.log$`
	}
	if !regexp.MustCompile(form).MatchString(base) {
		c.fault("the name of the log does not match", form, base)
	}
}

// logTime compares the time in a name, if there is one, with the time of the call.
func (c *checker) logTime(base string) {
	m := regexp.MustCompile(`^(?:safe-run-)?(\d{8})[-T](\d{6})[-Z]`).FindStringSubmatch(base)
	if m == nil {
		return
	}
	at, err := time.Parse("20060102150405", m[1]+m[2])
	if err != nil || at.Before(c.o.began.Add(-around)) || at.After(c.o.ended.Add(around)) {
		c.fault("the name of the log does not have the time of the call, in UTC", c.o.ended.UTC().Format("20060102-150405"), base)
	}
}
