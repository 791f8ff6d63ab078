package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
)

// terminal writes for people. Outside text passes through screen.Plain, so that it cannot move
// the cursor or hide other text.
type terminal struct {
	w     io.Writer
	color bool
}

func (t terminal) paint(style, s string) string {
	if !t.color {
		return s
	}
	return screen.Paint(style, s)
}

func (t terminal) line(fields ...string) {
	fmt.Fprintln(t.w, strings.Join(fields, "  "))
}

func (t terminal) message(msg string) {
	fmt.Fprintln(t.w, t.paint(screen.Bold, "fiador:")+" "+screen.Plain(msg))
}

func (t terminal) warning(msg string) {
	fmt.Fprintln(t.w, t.paint(screen.Bold, "fiador:")+" "+t.paint(screen.Yellow, "warning:")+" "+screen.Plain(msg))
}

func (t terminal) hint(text string) {
	if text != "" {
		fmt.Fprintln(t.w, t.paint(screen.Dim, "hint:")+" "+screen.Plain(text))
	}
}

// colored decides about colour. The flag comes first, then NO_COLOR, then CLICOLOR_FORCE.
// Last it looks whether the stream is a terminal with colour.
func colored(flag string, tty bool, env func(string) string) (bool, error) {
	switch flag {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
	default:
		return false, unfit("one of: auto, always, never", "unknown colour mode %q", flag)
	}
	if env("NO_COLOR") != "" {
		return false, nil
	}
	if force := env("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true, nil
	}
	return tty && env("TERM") != "dumb", nil
}

// inRunner reports whether a workflow runner reads the output: GitHub's, Azure's, or one
// that obeys the commands of these two.
func inRunner(env func(string) string) bool {
	return env("GITHUB_ACTIONS") == "true" || strings.EqualFold(env("TF_BUILD"), "true") || env("TEAMCITY_VERSION") != ""
}
