package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel"
)

// terminal writes for people. Text that comes from outside passes through
// plain, so that it cannot move the cursor or hide what stands there.
type terminal struct {
	w     io.Writer
	color bool
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
	bold   = "1"
)

func (t terminal) paint(style, s string) string {
	if !t.color || s == "" {
		return s
	}
	return "\x1b[" + style + "m" + s + "\x1b[0m"
}

func (t terminal) line(fields ...string) {
	fmt.Fprintln(t.w, strings.Join(fields, "  "))
}

func (t terminal) message(msg string) {
	fmt.Fprintln(t.w, t.paint(bold, "fiador:")+" "+plain(msg))
}

func (t terminal) hint(text string) {
	if text != "" {
		fmt.Fprintln(t.w, t.paint(dim, "hint:")+" "+plain(text))
	}
}

// outcome is an outcome in its colour.
func (t terminal) outcome(o kernel.Outcome) string {
	switch o {
	case kernel.OutcomeBundle:
		return t.paint(green, string(o))
	case kernel.OutcomeClarify:
		return t.paint(yellow, string(o))
	}
	return t.paint(red, string(o))
}

// summary says in a few lines what was decided and why.
func (t terminal) summary(path string, d kernel.Decision) {
	switch d.Outcome {
	case kernel.OutcomeBundle:
		t.line(t.outcome(d.Outcome), plain(path), d.Bundle.ID)
	case kernel.OutcomeClarify:
		t.line(t.outcome(d.Outcome), plain(path), count(len(d.Bundle.UnresolvedQuestions), "question"))
	case kernel.OutcomeRefuse:
		t.line(t.outcome(d.Outcome), plain(path), count(len(d.Findings), "finding"))
	}
	hinted := map[string]bool{}
	for _, f := range d.Findings {
		t.line(t.paint(bold, f.ID), plain(f.Path), plain(f.Text))
		hint := f.Fix
		if len(f.Options) > 0 {
			hint = "answers: " + strings.Join(f.Options, ", ")
		}
		if !hinted[hint] {
			t.hint(hint)
			hinted[hint] = true
		}
	}
	for _, n := range d.Notes {
		t.line(t.paint(dim, "note: "+n.ID), plain(n.Path), plain(n.Text))
	}
}

func count(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// plain shows every character that does not print as itself in its escaped
// form.
func plain(s string) string {
	ok := utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !shows(r) }) < 0
	if ok {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case shows(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// shows says whether a character prints as itself. Fillers are letters to Unicode
// and show nothing.
func shows(r rune) bool {
	switch r {
	case 0x115f, 0x1160, 0x2800, 0x3164, 0xffa0:
		return false
	}
	return unicode.IsPrint(r)
}

// visible is a line of JSON that says the same in characters that all show.
func visible(line []byte) []byte {
	var b []byte
	for _, r := range string(line) {
		if shows(r) || r == '\n' {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return b
}

// colored decides about colour: the flag first, then NO_COLOR, CLICOLOR_FORCE
// and whether stderr is a terminal that can show it.
func colored(flag string, tty bool, env func(string) string) (bool, error) {
	switch flag {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
	default:
		return false, usage("one of: auto, always, never", "unknown colour mode %q", flag)
	}
	if env("NO_COLOR") != "" {
		return false, nil
	}
	if force := env("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true, nil
	}
	return tty && env("TERM") != "dumb", nil
}
