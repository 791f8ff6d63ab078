package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
)

// reportFlags say in which forms an answer is given. None of them changes the
// exit status.
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

// reports are the renderers of one command and what they have seen.
type reports struct {
	renderers []report.Renderer
	files     []*newFile
	summary   report.Summary
}

// openReports opens standard output and every file, so that what cannot be
// written is known before anything is decided.
func (a *app) openReports(f reportFlags, profile string) (_ *reports, err error) {
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
		file, err := createFile(name, a.guarded)
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

// written are the files of the reports.
func (f reportFlags) written() []output {
	var list []output
	for _, name := range f.outputs() {
		list = append(list, output{"--report", name})
	}
	return list
}

// check refuses formats that do not exist before anything is opened.
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

// apart refuses reports that would stand where something else does that this run
// needs: inputs are the intents, the policy and the bundle, as far as they are files.
func (f reportFlags) apart(inputs ...string) error {
	for i, spec := range f.files {
		_, name, _ := strings.Cut(spec, "=")
		target, err := os.Stat(name)
		others := slices.Clone(inputs)
		for k, other := range f.files {
			if _, name, _ := strings.Cut(other, "="); k != i {
				others = append(others, name)
			}
		}
		for _, other := range others {
			if other == "" || other == "-" {
				continue
			}
			info, otherErr := os.Stat(other)
			same := err == nil && otherErr == nil && os.SameFile(target, info) && info.Mode().IsRegular()
			if same || filepath.Clean(name) == filepath.Clean(other) {
				return unfit("give each report a file of its own", "report %q and %q are one file", spec, other)
			}
		}
	}
	return nil
}

// outputs are the files of the reports.
func (f reportFlags) outputs() []string {
	var names []string
	for _, spec := range f.files {
		_, name, _ := strings.Cut(spec, "=")
		names = append(names, name)
	}
	return names
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
		if err := f.commit(); err != nil {
			return notWritten(f.name, err)
		}
	}
	r.files = nil
	return nil
}

// abort leaves every file as it was.
func (r *reports) abort() {
	for _, f := range r.files {
		_ = f.abort()
	}
	r.files = nil
}

// failed is the error of the n-th renderer; the first writes to standard output.
func (r *reports) failed(n int, err error) error {
	if n == 0 {
		return (&sink{err: err}).failure()
	}
	return notWritten(r.files[n-1].name, err)
}

// status is the exit status of what was seen: the worst of all.
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

// runError is the RunError that every error of a run is.
func runError(err error) *result.RunError {
	var re *result.RunError
	if errors.As(err, &re) {
		return re
	}
	return &result.RunError{Code: result.CodeInternal, Message: "internal error: no decision was made", Cause: err}
}

// countLine is how many intents had which outcome.
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
	return count(c.Total(), "intent") + ": " + strings.Join(parts, ", ")
}
