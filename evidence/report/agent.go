package report

import (
	"bytes"
	"cmp"
	"io"

	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// FormatAgent is the name of the format.
const FormatAgent = "agent"

// The levels of an agent's findings.
const (
	agentDeny      = "deny"
	agentQuestion  = "question"
	agentNote      = "note"
	agentExecution = "execution" // a reason for which the execution was rejected
	agentError     = "error"     // a place of an error
)

// agentAnswer is the answer about one intent, in the form for the agent that wrote it
// (agent-answer.schema.json). Code, Message, Remedy and Usage are those of an error. Usage says
// that the call is at fault, and not the intent.
type agentAnswer struct {
	Outcome   string          `json:"outcome"`
	Accepted  bool            `json:"accepted"`
	Path      string          `json:"path,omitempty"`
	Line      int             `json:"line,omitempty"`
	RunID     string          `json:"run_id,omitempty"`
	BundleID  string          `json:"bundle_id,omitempty"`
	Execution *agentEnd       `json:"execution,omitempty"`
	Code      string          `json:"code,omitempty"`
	Message   string          `json:"message,omitempty"`
	Remedy    string          `json:"remedy,omitempty"`
	Usage     bool            `json:"usage,omitempty"`
	Findings  []*agentFinding `json:"findings"`
}

// agentEnd is how an execution ended. Stderr has the last lines of the command's output, if
// the execution was rejected.
type agentEnd struct {
	Accepted    bool     `json:"accepted"`
	ExitCode    int      `json:"exit_code"`
	Outputs     int      `json:"outputs"`
	OutputBytes int      `json:"output_bytes"`
	Stderr      []string `json:"stderr,omitempty"`
}

// agentFinding is one finding. Pointer is nil if the finding has no place in the intent, and
// Line and Column are then absent too. QuestionID and Answerable belong to a question. If the
// question is answerable, Options are those that settle it.
type agentFinding struct {
	ID         string   `json:"id"`
	Level      string   `json:"level"`
	Text       string   `json:"text"`
	Fix        string   `json:"fix,omitempty"`
	Pointer    *string  `json:"pointer,omitempty"`
	Line       int      `json:"line,omitempty"`
	Column     int      `json:"column,omitempty"`
	Options    []string `json:"options,omitempty"`
	QuestionID string   `json:"question_id,omitempty"`
	Answerable *bool    `json:"answerable,omitempty"`
}

// agent writes one canonical JSON object a line.
type agent struct{ w io.Writer }

func (a agent) Close(Summary) error { return nil }

func (a agent) Item(i Item) error {
	answer := agentAnswer{Outcome: i.Outcome(), Path: canon.Clean(i.Path), Line: i.Line, RunID: i.RunID, Findings: []*agentFinding{}}
	answer.Accepted = answer.Outcome == string(kernel.OutcomeBundle)
	if answer.Outcome == OutcomeError {
		answer.fail(i.Err)
	} else if i.Decision.Bundle != nil {
		answer.BundleID = i.Decision.Bundle.ID
	}
	list := findings(i)
	if e := i.Execution; e != nil && answer.Outcome != OutcomeError {
		answer.Execution = &agentEnd{Accepted: e.Accepted, ExitCode: e.ExitCode, Outputs: e.Outputs, OutputBytes: e.OutputBytes}
		for _, f := range list {
			answer.Execution.Stderr = append(answer.Execution.Stderr, f.stderr...)
		}
	}
	for _, f := range list {
		if answer.Outcome != OutcomeError || f.hasPointer || f.hasOffset {
			answer.Findings = append(answer.Findings, f.forAgent(answer.Outcome, i.Source != nil))
		}
	}
	return answer.write(a.w)
}

// AgentError returns the line for an error that belongs to no intent, such as the error of an
// unusable policy.
func AgentError(e *result.RunError) []byte {
	file, _ := e.Details["file"].(string)
	var b bytes.Buffer
	_ = agent{&b}.Item(Item{Path: file, Err: e}) // a buffer takes every write
	return b.Bytes()
}

// fail sets the members of an error.
func (a *agentAnswer) fail(e *result.RunError) {
	if e == nil {
		e = result.Undecided()
	}
	a.Code, a.Message, a.Remedy = string(e.Code), screen.Plain(e.Message), screen.Plain(e.Remedy())
	a.Usage, _ = e.Details["usage"].(bool)
}

// forAgent returns a finding of an intent that ended with an outcome. Line and column are
// those of a source that was read.
func (f finding) forAgent(outcome string, read bool) *agentFinding {
	told := &agentFinding{ID: f.id, Level: agentLevel(outcome, f), Text: screen.Plain(f.text), Fix: screen.Plain(cmp.Or(f.fix, f.help))}
	if f.hasPointer {
		pointer := canon.Clean(f.pointer)
		told.Pointer = &pointer
	}
	if read && (f.hasPointer || f.hasOffset) {
		told.Line, told.Column = f.region.start.Line, f.region.start.Column
	}
	if told.Level == agentQuestion {
		told.QuestionID, told.Answerable = f.question, &f.answerable
		options := f.options
		if f.answerable {
			options = f.settling
		}
		for _, o := range options {
			told.Options = append(told.Options, canon.Clean(o))
		}
	}
	return told
}

// agentLevel returns the level of a finding in the words for an agent.
func agentLevel(outcome string, f finding) string {
	switch {
	case f.level == levelNote:
		return agentNote
	case f.level == levelWarning:
		return agentQuestion
	case outcome == OutcomeError:
		return agentError
	case outcome == OutcomeFailed:
		return agentExecution
	}
	return agentDeny
}

func (a *agentAnswer) write(w io.Writer) error {
	b, _, err := canon.Artifact(a)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
