package report

import (
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// verdict is what a row means to a reader that knows the words of tests alone.
type verdict int

const (
	passed    verdict = iota
	rejected          // it fails the run
	undecided         // there is no decision, or no answer to decide about
	known             // it fails, or did not run, and that does not fail the run
	unsteady          // it fails in some runs, and that does not fail the run
)

// row is what the writers of junit, sarif, github and markdown are given: the end of one
// intent, or of one case of a comparison. Its texts are as they came.
type row struct {
	path     string            // of the file of its places; "-": standard input
	line     int               // of a JSON Lines source
	sha256   canon.ContentHash // of that file or line; empty: not read
	group    string            // of test cases
	name     string
	outcome  string
	verdict  verdict
	said     string // how it ended, in one line; may be empty
	findings []finding
}

// rowOf returns the row of an intent.
func rowOf(i Item) row {
	r := row{path: i.Path, line: i.Line, sha256: i.SHA256, group: "fiador", name: i.Name(), outcome: i.Outcome(), verdict: rejected, findings: findings(i)}
	switch r.outcome {
	case string(kernel.OutcomeBundle):
		r.verdict = passed
	case OutcomeError:
		r.verdict = undecided
	}
	if i.Execution != nil {
		r.said = i.Execution.String()
	}
	return r
}
