package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
)

// reportFlags choose the forms of an answer. No form changes the exit status.
type reportFlags struct {
	format string
	files  []string // FORMAT=FILE
}

func (f *reportFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "json", "what standard output carries: "+strings.Join(report.Formats(), ", "))
	flags.StringArrayVar(&f.files, "report", nil, "FORMAT=FILE: write a report to a file as well; may be repeated")
	complete(cmd, "format", report.Formats()...)
}

// reports are the renderers of one command, with a summary of their items.
type reports struct {
	renderers []report.Renderer
	files     []*newFile
	summary   report.Summary
}

// openReports opens standard output and every file, so that an unusable file is reported
// before any decision.
func openReports(a *app, f reportFlags, profile string) (_ *reports, err error) {
	r := &reports{summary: report.Summary{Profile: profile, KernelVersion: kernel.Version}}
	defer func() {
		if err != nil {
			r.abort()
		}
	}()
	out, err := report.New(f.format, a.stdout, report.Options{Color: a.page.color})
	if err != nil {
		return nil, err
	}
	r.renderers = append(r.renderers, out)
	for _, spec := range f.files {
		format, name, _ := strings.Cut(spec, "=")
		file, err := createFile(name, a.guarded, 0o666)
		if err != nil {
			return nil, notWritten(name, err)
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

// places adds the files of the reports to the places.
func (f reportFlags) places(p *places) {
	for _, spec := range f.files {
		_, name, _ := strings.Cut(spec, "=")
		p.add(answers|needed|reported, "--report", spec, name)
	}
}

// check refuses unknown formats before any file is opened.
func (f reportFlags) check() error {
	if err := choice("format", f.format, report.Formats()); err != nil {
		return err
	}
	for _, spec := range f.files {
		format, name, _ := strings.Cut(spec, "=")
		if name == "" || name == "-" {
			return usage("--report FORMAT=FILE; --format says what standard output carries", "report %q names no file", spec)
		}
		if err := choice("report format", format, report.Formats()); err != nil {
			return err
		}
	}
	return nil
}

func (r *reports) item(i report.Item) error {
	r.summary.Counts.Add(i)
	for n, renderer := range r.renderers {
		if err := renderer.Item(i); err != nil {
			return r.failed(n, err)
		}
	}
	return nil
}

// close ends the reports and puts the files into place.
func (r *reports) close() error {
	for n, renderer := range r.renderers {
		if err := renderer.Close(r.summary); err != nil {
			return r.failed(n, err)
		}
	}
	for _, f := range r.files {
		if err := f.replace(); err != nil {
			return notWritten(f.name, err)
		}
	}
	r.files = nil
	return nil
}

// abort discards the new files and leaves existing files unchanged.
func (r *reports) abort() {
	for _, f := range r.files {
		_ = f.abort()
	}
	r.files = nil
}

// failed returns the error of the n-th renderer. Renderer 0 writes to standard output.
func (r *reports) failed(n int, err error) error {
	if n == 0 {
		return unprinted(err)
	}
	return notWritten(r.files[n-1].name, err)
}

// status returns the worst exit status of all items.
func (r *reports) status() int {
	c := r.summary.Counts
	switch {
	case c.Errors > 0 || c.Total() == 0:
		return exitError
	case c.Rejected() > 0 && !r.summary.ReportOnly:
		return exitRejected
	}
	return exitAccepted
}

// countLine returns the number of intents for each outcome, as one line.
func countLine(c report.Counts) string {
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
