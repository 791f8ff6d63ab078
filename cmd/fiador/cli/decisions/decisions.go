// Package decisions turns the intents that a command line names into jobs, and decisions into
// reports. It owns the flags of the forms of an answer.
package decisions

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
)

// ReportFlags choose the forms of an answer (specs/reports.md). No form changes the
// exit status. Each file of --report takes its place when the command has an answer.
type ReportFlags struct {
	Format  string
	formats []string // known to the command
	files   []string // FORMAT=FILE
}

// Register adds the flags to a command whose answers have these formats. Without --format
// Choose makes the choice.
func (f *ReportFlags) Register(cmd *cobra.Command, formats []string) {
	flags := cmd.Flags()
	f.formats = formats
	flags.StringVar(&f.Format, "format", "", "what standard output carries (default: human on a terminal, else json): "+strings.Join(formats, ", "))
	flags.StringArrayVar(&f.files, "report", nil, "FORMAT=FILE: write a report to a file as well; may be repeated")
	cli.Complete(cmd, "format", formats...)
}

// Choose sets the format that the command line leaves open: human on a terminal, and json
// in a pipe or a file.
func (f *ReportFlags) Choose(cmd *cobra.Command, a *cli.App) {
	if cmd.Flags().Changed("format") {
		return
	}
	f.Format = "json"
	if a.OutTTY {
		f.Format = "human"
	}
}

// Put prints an answer in the format to standard output.
func (f ReportFlags) Put(a *cli.App, text []byte) error {
	if f.Format == "human" {
		return a.Say(text)
	}
	return a.Print(text)
}

// Spoken reports whether the items, errors too, stand in words on the terminal that standard
// error is as well. Then standard error says nothing of them again.
func (f ReportFlags) Spoken(a *cli.App) bool { return f.Format == "human" && a.OutTTY && a.TTY }

// Reports are the renderers of one command, with a summary of their items.
type Reports struct {
	renderers []report.Renderer
	files     []*cli.NewFile
	Summary   report.Summary
}

// OpenReports opens standard output and every file, so that an unusable file is
// reported before any decision. The caller ends them with Close, or with Abort after an
// error. After a Close without an error, Abort does nothing.
func OpenReports(a *cli.App, f ReportFlags, profile string) (_ *Reports, err error) {
	r := &Reports{Summary: report.Summary{Profile: profile, KernelVersion: kernel.Version}}
	defer func() {
		if err != nil {
			r.Abort()
		}
	}()
	to := a.Stdout
	if f.Format == "human" {
		to = a.Page.W
	}
	out, err := report.New(f.Format, to, report.Options{Color: a.Page.Color})
	if err != nil {
		return nil, err
	}
	r.renderers = append(r.renderers, out)
	for _, spec := range f.files {
		format, name, _ := strings.Cut(spec, "=")
		file, err := cli.CreateFile(name, a.Guarded, 0o666)
		if err != nil {
			return nil, cli.NotWritten(name, err)
		}
		r.files = append(r.files, file)
		renderer, err := report.New(format, file, report.Options{})
		if err != nil {
			return nil, err
		}
		r.renderers = append(r.renderers, renderer)
	}
	return r, nil
}

// Places adds the files of the reports to the places.
func (f ReportFlags) Places(p *cli.Places) {
	for _, spec := range f.files {
		_, name, _ := strings.Cut(spec, "=")
		p.Add(cli.Answers|cli.Needed|cli.Reported, "--report", spec, name)
	}
}

// Check refuses unknown formats before any file is opened.
func (f ReportFlags) Check() error {
	if err := cli.Choice("format", f.Format, f.formats); err != nil {
		return err
	}
	for _, spec := range f.files {
		format, name, _ := strings.Cut(spec, "=")
		if name == "" || name == "-" {
			return cli.Usage("--report FORMAT=FILE; --format says what standard output carries", "report %q names no file", spec)
		}
		if err := cli.Choice("report format", format, f.formats); err != nil {
			return err
		}
	}
	return nil
}

// Each calls do for each file of --report.
func (f ReportFlags) Each(do func(format, name string) error) error {
	for _, spec := range f.files {
		format, name, _ := strings.Cut(spec, "=")
		if err := do(format, name); err != nil {
			return err
		}
	}
	return nil
}

// Item adds a decision to every report.
func (r *Reports) Item(i report.Item) error {
	r.Summary.Counts.Add(i)
	for n, renderer := range r.renderers {
		if err := renderer.Item(i); err != nil {
			return r.failed(n, err)
		}
	}
	return nil
}

// Close ends the reports and puts the files into place. The first error stops it: files
// after that one are not put into place.
func (r *Reports) Close() error {
	for n, renderer := range r.renderers {
		if err := renderer.Close(r.Summary); err != nil {
			return r.failed(n, err)
		}
	}
	for _, f := range r.files {
		if err := f.Replace(); err != nil {
			return cli.NotWritten(f.Name, err)
		}
	}
	r.files = nil
	return nil
}

// Abort discards the new files and leaves existing files unchanged.
func (r *Reports) Abort() {
	for _, f := range r.files {
		_ = f.Abort()
	}
	r.files = nil
}

// failed returns the error of the n-th renderer. Renderer 0 writes to standard output.
func (r *Reports) failed(n int, err error) error {
	if n == 0 {
		return cli.Unprinted(err)
	}
	return cli.NotWritten(r.files[n-1].Name, err)
}

// CountLine returns the number of intents for each outcome, as one line.
func CountLine(c report.Counts) string {
	if c.Total() == 0 {
		return noIntent
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{c.Bundle, "BUNDLE"}, {c.Clarify, "CLARIFY"}, {c.Refuse, "REFUSE"}, {c.Failed, report.OutcomeFailed}, {c.Errors, "ERROR"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return screen.Count(c.Total(), "intent") + ": " + strings.Join(parts, ", ")
}
