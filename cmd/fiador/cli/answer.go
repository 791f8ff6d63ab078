package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// sink is standard output. It keeps the error of the first failed write, so that the
// program reports every lost answer, help texts included.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	if s.err == nil {
		s.err = err
	}
	return n, err
}

// Unprinted returns the RunError for a failed write to standard output. It returns nil and
// a RunError as they are.
func Unprinted(err error) error {
	if err == nil || errors.As(err, new(*result.RunError)) {
		return err
	}
	return runerr.New(result.CodeInternal, "standard output could not be written: "+runerr.Reason(err),
		"the answer did not reach its reader; run the command again", runerr.Because(err))
}

// Print writes a command's answer to stdout. A write that fails ends the command with
// status 2, whatever the decision is.
func (a *App) Print(b []byte) error {
	_, err := a.Stdout.Write(b)
	return Unprinted(err)
}

// Say prints an answer in words to stdout. On a terminal it is laid out: long lines go on in
// the next one, and hashes are shortened unless --full is given.
func (a *App) Say(text []byte) error {
	_, err := a.Page.W.Write(text)
	return Unprinted(err)
}

// RejectIf makes the exit status 1 if something is wrong, and else leaves it as it is.
func (a *App) RejectIf(wrong bool) {
	if wrong {
		a.Status = ExitRejected
	}
}

// PrintJSON prints one canonical document. On a terminal characters that do not show are
// escaped.
func PrintJSON(a *App, v any) error {
	b, _, err := canon.Artifact(v)
	if err != nil {
		return err
	}
	if a.OutTTY {
		b = screen.JSON(b)
	}
	return a.Print(b)
}

// PrintText prints an answer in words, all at once.
func PrintText(a *App, text func(Terminal)) error {
	var out bytes.Buffer
	text(Terminal{W: &out, Color: a.Page.Color, Columns: a.layout.Columns})
	return a.Say(out.Bytes())
}

// PrintAs prints an answer as a document if the format is json, and otherwise in words.
func PrintAs(a *App, format string, document any, text func(Terminal)) error {
	if format == "json" {
		return PrintJSON(a, document)
	}
	return PrintText(a, text)
}

// PrintStanding prints an answer. When standard output fails, standard error still reports
// the state that was reached.
func PrintStanding(a *App, text []byte, stands string) error {
	err := a.Print(text)
	if err != nil {
		a.Term.Message(stands)
	}
	return err
}

// Flush writes the buffered rest. A write that fails ends the command with status 2.
func Flush(out *bufio.Writer) error { return Unprinted(out.Flush()) }

// OrEmpty returns a list that JSON shows as [] if it is empty.
func OrEmpty[T any](l []T) []T { return append([]T{}, l...) }

// Quoted returns the name of a folder in quotes, without the path of the machine.
func Quoted(name string) string { return fmt.Sprintf("%q", screen.Folder(name)) }
