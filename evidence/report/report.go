// Package report writes what a gate decided about intents, for the reader that a
// format is for. There is one file per format:
//
//	json      the RunResults unchanged, one per line
//	human     a few lines for each intent
//	github    workflow commands, which become annotations
//	junit     one test case for each intent
//	sarif     SARIF 2.1.0, one result for each finding
//	markdown  a summary page of less than 1 MiB
//
// All formats except json report the same findings: the denials of a REFUSE, the
// questions of a CLARIFY, the reasons of a rejected execution, the notes of any
// decision, and the places of an error. A note never counts as a failure. If an intent
// was allowed and executed, and its execution was rejected, its outcome is FAILED: it
// counts as rejected, and never as a BUNDLE.
//
// A report depends on the items and the summary alone: it contains no time, no host, and
// no path except those of the items. The same input gives the same bytes.
//
// Text from an intent, a policy or a command is data in every format. It passes through
// [Plain], so that every character is visible, and through the escapes of the format, so
// that it cannot become a command, markup or a link. There are two exceptions. A SARIF
// member for programs contains the JSON Pointer unchanged, and json contains the
// RunResult byte for byte.
//
// The formats json, human and github keep nothing of an item. The others keep the
// findings, and the name and hash of an accepted intent.
package report

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// Values in the place of an outcome.
const (
	OutcomeError  = "ERROR"  // the intent was not decided
	OutcomeFailed = "FAILED" // it was allowed, and its execution was rejected
)

// Item is the end of one intent.
type Item struct {
	// Path is the name of the file in results: relative with slashes, a base name, or -
	// for standard input.
	Path string
	// Line is the line of a JSON Lines source with the intent, from 1 on; 0 means that
	// the whole file is the intent.
	Line int
	// Source is the intent's bytes, or the whole line of a JSON Lines source. A renderer
	// does not keep them after Item returns. It is nil if the file could not be read.
	Source []byte
	// SHA256 is the hash of Source, empty if it was not read.
	SHA256 canon.ContentHash
	// Result is the canonical RunResult and one LF; nil after an error.
	Result []byte
	// Decision is zero after an error.
	Decision kernel.Decision
	// Execution is nil unless the intent was executed.
	Execution *Execution
	// Err is nil after a decision.
	Err *result.RunError
}

// Name returns the path, followed by the line of a JSON Lines source.
func (i Item) Name() string {
	if i.Line > 0 {
		return i.Path + ":" + strconv.Itoa(i.Line)
	}
	return i.Path
}

// Outcome returns BUNDLE, CLARIFY, REFUSE, FAILED or ERROR. An item without a decision
// is an ERROR, even if it has no Err.
func (i Item) Outcome() string {
	if i.Err == nil {
		switch i.Decision.Outcome {
		case kernel.OutcomeBundle:
			if i.Execution != nil && !i.Execution.Accepted {
				return OutcomeFailed
			}
			return string(i.Decision.Outcome)
		case kernel.OutcomeClarify, kernel.OutcomeRefuse:
			return string(i.Decision.Outcome)
		}
	}
	return OutcomeError
}

// Summary is the end of a report.
type Summary struct {
	Profile       string // name of the policy profile
	KernelVersion string
	ReportOnly    bool // a rejected intent does not fail the run
	Counts        Counts
}

// Counts holds the number of items with each outcome.
type Counts struct{ Bundle, Clarify, Refuse, Failed, Errors int }

// Add counts an item.
func (c *Counts) Add(i Item) {
	switch i.Outcome() {
	case string(kernel.OutcomeBundle):
		c.Bundle++
	case string(kernel.OutcomeClarify):
		c.Clarify++
	case string(kernel.OutcomeRefuse):
		c.Refuse++
	case OutcomeFailed:
		c.Failed++
	default:
		c.Errors++
	}
}

// Total returns the number of items.
func (c Counts) Total() int { return c.Bundle + c.Rejected() + c.Errors }

// Rejected returns the number of items that were decided and not accepted.
func (c Counts) Rejected() int { return c.Clarify + c.Refuse + c.Failed }

// tally is the number of items with one outcome.
type tally struct {
	n       int
	outcome string
}

func (t tally) String() string { return fmt.Sprintf("%d %s", t.n, t.outcome) }

// tallies returns each outcome, FAILED only if it occurred, because most runs execute
// nothing.
func (c Counts) tallies() []tally {
	list := []tally{
		{c.Bundle, string(kernel.OutcomeBundle)}, {c.Clarify, string(kernel.OutcomeClarify)},
		{c.Refuse, string(kernel.OutcomeRefuse)}, {c.Failed, OutcomeFailed}, {c.Errors, OutcomeError},
	}
	return slices.DeleteFunc(list, func(t tally) bool { return t.outcome == OutcomeFailed && t.n == 0 })
}

// line returns the counts in words, the total first.
func (c Counts) line() string {
	fields := []string{screen.Count(c.Total(), "intent")}
	for _, t := range c.tallies() {
		fields = append(fields, t.String())
	}
	return strings.Join(fields, ", ")
}

// reportOnly is the remark about a run that cannot fail.
const reportOnly = "a rejected intent does not fail this run"

// Renderer writes one report. The items come in their final order, and Close ends the
// document. No method may be called concurrently.
type Renderer interface {
	Item(Item) error
	Close(Summary) error
}

// Options are the caller's choices for a format.
type Options struct {
	Color bool // human only
}

// Formats lists the formats that New knows.
func Formats() []string { return []string{"json", "human", "github", "junit", "sarif", "markdown"} }

// New returns the renderer of a format, which writes to w.
func New(format string, w io.Writer, o Options) (Renderer, error) {
	switch format {
	case "json":
		return &jsonLines{w}, nil
	case "human":
		return &human{w: w, color: o.Color}, nil
	case "github":
		return &github{w: w, shown: map[string]int{}}, nil
	case "junit":
		return &junit{w: w}, nil
	case "sarif":
		return &sarif{w: w, rules: map[string]sarifRule{}, seen: map[[sha256.Size]byte]int{}}, nil
	case "markdown":
		return &markdown{w: w, table: part{limit: tableLimit}, findings: part{limit: findingLimit}, notes: part{limit: noteLimit}}, nil
	}
	return nil, fmt.Errorf("unknown format %q; one of: %s", format, strings.Join(Formats(), ", "))
}
