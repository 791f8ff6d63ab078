package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// agentAnswer has the members of a line that tests look at.
type agentAnswer struct {
	Outcome, Path, Code, Message, Remedy string
	Accepted, Usage                      bool
	Line                                 int
	RunID                                string `json:"run_id"`
	BundleID                             string `json:"bundle_id"`
	Execution                            *struct {
		Accepted bool
		Stderr   []string
	}
	Findings []struct {
		ID, Level, Text, Fix string
		Pointer              *string
		Line, Column         int
		Options              []string
		QuestionID           string `json:"question_id"`
		Answerable           *bool
	}
}

// checkAgent: there is one canonical line for each item. It fits the schema, and says what the
// decision, the execution or the error says.
func checkAgent(t *testing.T, doc []byte, items []report.Item) {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(doc, []byte("\n"))
	if len(lines) != len(items)+1 || len(lines[len(items)]) != 0 {
		t.Fatalf("%d lines for %d items", len(lines)-1, len(items))
	}
	for k, i := range items {
		if !strings.HasPrefix(i.Path, "fuzz") && len(lines[k]) < 1<<20 {
			specstest.Valid(t, set, specs.KindAgentAnswer, lines[k])
		}
		var a agentAnswer
		if err := json.Unmarshal(lines[k], &a); err != nil {
			t.Fatal(err)
		}
		if a.Outcome != i.Outcome() || a.Accepted != (a.Outcome == "BUNDLE") || a.Line != i.Line || a.RunID != i.RunID || (a.Execution != nil) != (i.Execution != nil && a.Outcome != "ERROR") {
			t.Errorf("%s: %+v", i.Name(), a)
		}
		if e := i.Err; e != nil && (a.Code != string(e.Code) || a.Remedy == "" || a.Message == "" && e.Message != "") {
			t.Errorf("%s: %+v", i.Name(), a)
		}
		want := len(i.Decision.Findings) + len(i.Decision.Notes)
		if a.Outcome == "FAILED" {
			want += len(i.Execution.Reasons)
		}
		if a.Outcome == report.OutcomeUnannounced {
			want++
		}
		if a.Outcome != "ERROR" && len(a.Findings) != want {
			t.Errorf("%s: %d findings, want %d", i.Name(), len(a.Findings), want)
		}
		for _, f := range a.Findings {
			if question := f.Level == "question"; question != (f.Answerable != nil) || (f.Pointer == nil) != (f.Line == 0) && a.Outcome != "ERROR" {
				t.Errorf("%s: %+v", i.Name(), f)
			}
		}
	}
}

// TestAgent: an agent finds what it can act on: the id by which a question is answered, the
// options as they are, places, fixes, and the end of an execution.
func TestAgent(t *testing.T) {
	const src = "{\"goal\":\n\"x\"}"
	question := kernel.Result{Module: "gate.org.a", ID: "WHICH", Path: "/goal", Text: "Which?", Options: []string{"a\u202e", "b"}, Answerable: true}
	settled := question // an option that leaves the question open is no answer for an agent
	settled.Settling = []string{"b", "c"}
	failed := executed("f.json", src, rejected(1, "first\nlast\n", "EXIT 1", "WRITE_OUTSIDE_ROOT .git/config"))
	failed.RunID = "r1"
	for _, tc := range []struct {
		item report.Item
		want string
	}{
		{accepted("a.json", src), `{"accepted":true,"bundle_id":"bundle_0123456789abcdef","findings":[],"outcome":"BUNDLE","path":"a.json"}`},
		{asked("c.json", src, question), `{"accepted":false,"bundle_id":"bundle_1","findings":[{"answerable":true,"column":1,"id":"WHICH","level":"question","line":2,` +
			`"options":["a` + "\u202e" + `","b"],"pointer":"/goal","question_id":"` + question.QuestionID() + `","text":"Which?"}],"outcome":"CLARIFY","path":"c.json"}`},
		{asked("s.json", src, settled), `{"accepted":false,"bundle_id":"bundle_1","findings":[{"answerable":true,"column":1,"id":"WHICH","level":"question","line":2,` +
			`"options":["b"],"pointer":"/goal","question_id":"` + question.QuestionID() + `","text":"Which?"}],"outcome":"CLARIFY","path":"s.json"}`},
		{refused("r.json", src, denial("DENIED", "/goal", "no\u202e", "do not")), `{"accepted":false,"findings":[{"column":1,"fix":"do not","id":"DENIED","level":"deny","line":2,"pointer":"/goal","text":"no\\u202e"}],"outcome":"REFUSE","path":"r.json"}`},
		{failed, `{"accepted":false,"bundle_id":"bundle_0123456789abcdef","execution":{"accepted":false,"exit_code":1,"output_bytes":0,"outputs":0,"stderr":["first","last"]},` +
			`"findings":[{"fix":"look at what the command printed: --evidence FOLDER keeps both streams","id":"EXIT","level":"execution","text":"The command ended with an exit code other than 0: 1"},` +
			`{"fix":"write beneath one of the profile's allowed_write_roots, or keep what is needed for the moment in TMPDIR","id":"WRITE_OUTSIDE_ROOT","level":"execution","text":"Something was written or removed where that is not allowed: .git/config"}],"outcome":"FAILED","path":"f.json","run_id":"r1"}`},
		{broken("e.json", src[:9], result.RunError{Code: result.CodeNotJSON, Message: "e.json: line 2, column 1: ends", Details: map[string]any{"file": "e.json", "line": 2, "column": 1, "offset": int64(9)}}),
			`{"accepted":false,"code":"RUN_E002","findings":[{"column":1,"fix":"mend the text at the line and the column that the message gives","id":"RUN_E002","level":"error","line":2,"text":"ends"}],` +
				`"message":"e.json: line 2, column 1: ends","outcome":"ERROR","path":"e.json","remedy":"mend the text at the line and the column that the message gives"}`},
	} {
		if got := string(render(t, "agent", []report.Item{tc.item})); got != tc.want+"\n" {
			t.Errorf("got  %swant %s", got, tc.want)
		}
	}
}

// TestAnswerable: people are led to fiador answer only by a question that an answer settles.
func TestAnswerable(t *testing.T) {
	for settling, want := range map[string]bool{"b": true, "c": false} {
		question := kernel.Result{ID: "WHICH", Path: "/goal", Text: "Which?", Options: []string{"a", "b"}, Answerable: true, Settling: []string{settling}}
		text := string(render(t, "human", []report.Item{asked("c.json", "{}", question)}))
		if got := strings.Contains(text, "fiador answer"); got != want {
			t.Errorf("settled by %s: %s", settling, text)
		}
	}
}

// TestAgentError: an error that belongs to no intent is a line too, with the remedy of its
// RunError.
func TestAgentError(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	for want, e := range map[string]*result.RunError{
		`{"accepted":false,"code":"RUN_E001","findings":[],"message":"no","outcome":"ERROR","remedy":"do","usage":true}`: runerr.New(result.CodeUnreadable, "no", "do", runerr.With("usage", true)),
		`{"accepted":false,"code":"RUN_E004","findings":[{"fix":"do","id":"RUN_E004","level":"error","pointer":"/x","text":"no"}],"message":"/x: no","outcome":"ERROR","path":"profile.json","remedy":"do"}`: runerr.New(result.CodeProfile, "/x: no", "do",
			runerr.File("profile.json"), runerr.At("/x")),
	} {
		line := report.AgentError(e)
		if string(line) != want+"\n" {
			t.Errorf("got  %swant %s", line, want)
		}
		specstest.Valid(t, set, specs.KindAgentAnswer, line)
		if doc, err := canon.Parse(line, len(line)); err != nil || !bytes.Equal(append(doc.Bytes(), '\n'), line) {
			t.Errorf("%s is not canonical (%v)", line, err)
		}
	}
}
