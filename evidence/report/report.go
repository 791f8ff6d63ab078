// Package report writes what a gate decided about intents, for the reader that a
// format is for. There is one file per format:
//
//	json      the RunResults unchanged, one per line
//	agent     one JSON object for each intent, for the agent that wrote it
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
// that it cannot become a command, markup or a link. There are three exceptions. A SARIF
// member for programs contains the JSON Pointer unchanged, agent contains paths, pointers
// and options unchanged, and json contains the RunResult byte for byte.
//
// A [Comparison] of two agents goes through the same writers, except that json is its
// document and that agent has no comparison. Its findings are the reasons of the gate, by
// case, and the assertions that failed on new.
//
// The formats json, agent, human and github keep nothing of an item. The others keep the
// findings, and the name and hash of an accepted intent.
package report

import (
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

	// OutcomeUnannounced is that of a changed path. It is no intent.
	OutcomeUnannounced = "UNANNOUNCED"
)

// Item is the end of one intent.
type Item struct {
	// Path is the name of the file in results: relative with slashes, a base name, or -
	// for standard input.
	Path string
	// Line is the line of a JSON Lines source with the intent, from 1 on; 0 means that
	// the whole file is the intent.
	Line int
	// Made says that the program made the intent. Path then names no file, and nothing can
	// be answered in it.
	Made bool
	// Source is the intent's bytes, or the whole line of a JSON Lines source. A renderer
	// does not keep them after Item returns. It is nil if the file could not be read.
	Source []byte
	// SHA256 is the hash of Source, empty if it was not read.
	SHA256 canon.ContentHash
	// Result is the canonical RunResult and one LF; nil after an error.
	Result []byte
	// RunID is the id of the run, empty after an error.
	RunID string
	// Decision is zero after an error.
	Decision kernel.Decision
	// Execution is nil unless the intent was executed.
	Execution *Execution
	// Err is nil after a decision.
	Err *result.RunError
	// Unannounced says what happened to the path (added, modified, removed), and that no
	// accepted intent announces it. Such an item is no intent, and has nothing else but Path.
	Unannounced string
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
	if i.Unannounced != "" {
		return OutcomeUnannounced
	}
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
	Change        bool // the run is about a change, which may bring no intent
	Counts        Counts
}

// Status returns the worst exit status of all items. It is 2 for an error, and for no intent at
// all: a check of nothing never passes, unless it was asked about a change. ReportOnly turns 1
// into 0.
func (s Summary) Status() int {
	switch c := s.Counts; {
	case c.Errors > 0 || c.Total() == 0 && !s.Change:
		return 2
	case c.Rejected()+c.Unannounced > 0 && !s.ReportOnly:
		return 1
	}
	return 0
}

// remark returns what a report says of a run that cannot fail; "" of any other.
func (s Summary) remark() string {
	switch {
	case s.ReportOnly && s.Counts.Unannounced > 0:
		return "neither a rejected intent nor an unannounced path fails this run"
	case s.ReportOnly:
		return "a rejected intent does not fail this run"
	}
	return ""
}

// Counts holds the number of items with each outcome. Unannounced counts paths, and all others
// count intents.
type Counts struct{ Bundle, Clarify, Refuse, Failed, Errors, Unannounced int }

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
	case OutcomeUnannounced:
		c.Unannounced++
	default:
		c.Errors++
	}
}

// Total returns the number of intents.
func (c Counts) Total() int { return c.Bundle + c.Rejected() + c.Errors }

// Rejected returns the number of intents that were decided and not accepted.
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
	return squeeze("; ", strings.Join(fields, ", "), c.Paths())
}

// Paths returns the number of changed paths without an announcement, in words; empty if there is
// none.
func (c Counts) Paths() string {
	if c.Unannounced == 0 {
		return ""
	}
	return screen.Number(c.Unannounced, "changed path is not announced", "changed paths are not announced")
}

// unannounced returns what an unannounced path is, as the text of its finding.
func (i Item) unannounced() string {
	return i.Unannounced + ", and no accepted intent announces it"
}

// Unannounced returns the record of the finding about a changed path.
func Unannounced() result.Record {
	return result.Record{
		ID: "CHANGE_UNANNOUNCED", Kind: result.RecordChange, Title: "No accepted intent announces this changed path", Since: "0.1.0",
		Why: "An intent announces the paths of its write actions and its outputs, if it is accepted and the change brings it; what else changed was never decided",
		Fix: "let an accepted intent of this change write the path or list it as an output, or leave the path as it was",
	}
}

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
func Formats() []string { return append(ComparisonFormats(), FormatAgent) }

// ComparisonFormats lists the formats of a Comparison.
func ComparisonFormats() []string {
	return []string{"json", "human", "github", "junit", "sarif", "markdown"}
}

// New returns the renderer of a format, which writes to w.
func New(format string, w io.Writer, o Options) (Renderer, error) {
	switch format {
	case "json":
		return &jsonLines{w}, nil
	case FormatAgent:
		return agent{w}, nil
	case "human":
		return &human{w: w, color: o.Color}, nil
	case "github":
		return &github{w: w, shown: map[string]int{}}, nil
	case "junit":
		return &junit{w: w}, nil
	case "sarif":
		return newSARIF(w), nil
	case "markdown":
		return newMarkdown(w), nil
	}
	return nil, fmt.Errorf("unknown format %q; one of: %s", format, strings.Join(Formats(), ", "))
}
