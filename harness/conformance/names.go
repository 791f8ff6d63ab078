package conformance

import (
	"regexp"
	"time"
)

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
