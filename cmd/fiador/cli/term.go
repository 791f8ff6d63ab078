package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"

	"github.com/fiador/fiador/evidence/screen"
)

// Terminal writes for people. Outside text passes through screen.Plain, so that it cannot move
// the cursor or hide other text.
type Terminal struct {
	W       io.Writer
	Color   bool
	Columns int // where Command breaks a line; 0: nowhere
}

// Paint gives a text a style, if the terminal has colour.
func (t Terminal) Paint(style, s string) string {
	if !t.Color {
		return s
	}
	return screen.Paint(style, s)
}

// Line writes fields with two spaces between them.
func (t Terminal) Line(fields ...string) {
	fmt.Fprintln(t.W, strings.Join(fields, "  "))
}

// Message writes what the program says.
func (t Terminal) Message(msg string) {
	fmt.Fprintln(t.W, t.Paint(screen.Bold, "fiador:")+" "+screen.Plain(msg))
}

// Warning writes a warning of the program.
func (t Terminal) Warning(msg string) {
	fmt.Fprintln(t.W, t.Paint(screen.Bold, "fiador:")+" "+t.Paint(screen.Yellow, "warning:")+" "+screen.Plain(msg))
}

// Command writes a line that ends with a command for a shell. Where the line goes on in the next
// one, a backslash joins the two.
func (t Terminal) Command(line string) { t.Line(screen.Command(line, t.Columns)) }

// Hint writes a remedy. It writes nothing for an empty text.
func (t Terminal) Hint(text string) {
	if text != "" {
		fmt.Fprintln(t.W, t.Paint(screen.Dim, "hint:")+" "+screen.Plain(text))
	}
}

// fitted lays out for a terminal what is written to it. Each write has whole lines.
type fitted struct {
	w      io.Writer
	layout *screen.Layout
}

func (f fitted) Write(b []byte) (int, error) {
	if _, err := io.WriteString(f.w, f.layout.Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// The columns of a terminal that does not say how many it has, and the fewest that a line
// is broken for.
const (
	usualColumns  = 80
	fewestColumns = 20
)

// columns returns the columns of a stream that is a terminal: those of COLUMNS, else its own.
// It returns 0 for any other stream, whose lines stay whole.
func columns(w io.Writer, tty bool, env func(string) string) int {
	if !tty {
		return 0
	}
	n, _ := strconv.Atoi(env("COLUMNS"))
	if f, ok := w.(*os.File); ok && n <= 0 {
		n, _, _ = term.GetSize(int(f.Fd()))
	}
	if n <= 0 {
		n = usualColumns
	}
	return max(n, fewestColumns)
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
		return false, Unfit("one of: auto, always, never", "unknown colour mode %q", flag)
	}
	if env("NO_COLOR") != "" {
		return false, nil
	}
	if force := env("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true, nil
	}
	return tty && env("TERM") != "dumb", nil
}

// InRunner reports whether a workflow runner reads the output: GitHub's, Azure's, or one
// that obeys the commands of these two.
func InRunner(env func(string) string) bool {
	return env("GITHUB_ACTIONS") == "true" || strings.EqualFold(env("TF_BUILD"), "true") || env("TEAMCITY_VERSION") != ""
}
