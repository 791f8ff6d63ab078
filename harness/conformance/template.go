package conformance

import (
	"slices"
	"strconv"
)

// A template describes a command instead of spelling it out, as in the published
// vectors.
type template struct {
	name   string
	stdout *string
	stderr *string
	code   *int
	lines  *[]string
}

func (t *template) members(m map[string]field) {
	m["args_template"] = oneOf(&t.name, "print_and_exit", "long_running", "simple_fail", "multiline_output")
	m["print_stdout"] = given(&t.stdout, text)
	m["print_stderr"] = given(&t.stderr, text)
	m["exit_code"] = given(&t.code, func(to *int) field { return whole(to, 0, 255) })
	m["output_lines"] = given(&t.lines, texts)
}

// fill makes the arguments of the template, if there is one. Members that belong to
// another template, or to none, are a fault.
func (t *template) fill(n node, given bool, c *invocation, interrupt *sending) error {
	if given == (t.name != "") {
		return n.fault("needs exactly one of args, args_base64 and args_template")
	}
	takes := map[string][]string{
		"print_and_exit":   {"print_stdout", "print_stderr", "exit_code"},
		"long_running":     {"interrupt_signal"},
		"simple_fail":      {"exit_code"},
		"multiline_output": {"output_lines", "exit_code"},
	}[t.name]
	for _, m := range []struct {
		name  string
		given bool
	}{
		{"print_stdout", t.stdout != nil}, {"print_stderr", t.stderr != nil}, {"exit_code", t.code != nil},
		{"output_lines", t.lines != nil}, {"interrupt_signal", interrupt != nil},
	} {
		if wanted := slices.Contains(takes, m.name); wanted && !m.given && m.name != "print_stdout" && m.name != "print_stderr" {
			return n.fault("args_template %q lacks the member %q", t.name, m.name)
		} else if m.given && !wanted {
			return n.fault("%q has no place here", m.name)
		}
	}
	switch t.name {
	case "print_and_exit":
		c.args = []string{"sh", "-c", `printf %s "$1"; printf %s "$2" >&2; exit "$3"`, "sh", value(t.stdout), value(t.stderr), strconv.Itoa(*t.code)}
	case "simple_fail":
		c.args = []string{"sh", "-c", `exit "$1"`, "sh", strconv.Itoa(*t.code)}
	case "multiline_output":
		c.args = append([]string{"sh", "-c", `code=$1; shift; for line; do printf '%s\n' "$line"; done; exit "$code"`, "sh", strconv.Itoa(*t.code)}, *t.lines...)
	case "long_running":
		c.args = []string{"sh", "-c", `: >"$TMPDIR/ready"; exec sleep 60`}
		c.signals = append(c.signals, *interrupt)
	}
	return nil
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
