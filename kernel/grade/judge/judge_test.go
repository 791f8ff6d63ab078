package judge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/grade/judge"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/specs"
)

// vector is a case, its file in one run, and the judgement.
type vector struct {
	Name       string
	Expected   json.RawMessage
	Case       json.RawMessage
	Unresolved []string
	Policy     []string // outcomes of the subjects; nil: no policy
	Subjects   []string
	Assertions []string
	Verdict    grade.Verdict
	Cause      string
	Confidence string
	Places     []string
	Notes      *int
}

func vectors(t testing.TB) []vector {
	t.Helper()
	src, err := os.ReadFile("../../../specs/vectors/evaluation/assertions.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		About   string
		Vectors []vector
	}
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Vectors) < 180 || doc.About == "" || strings.ContainsFunc(string(src), func(r rune) bool { return r >= 0x80 }) {
		t.Fatalf("%d vectors in plain ASCII", len(doc.Vectors))
	}
	return doc.Vectors
}

// value returns a decoded member of a vector: of the text that is the member, or of the member.
func value(t testing.TB, raw json.RawMessage) any {
	t.Helper()
	if raw == nil {
		return nil
	}
	src := []byte(raw)
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		src = []byte(s)
	}
	return parse(t, src)
}

func parse(t testing.TB, src []byte) any {
	t.Helper()
	v, err := canon.ParseLiteral(src, len(src), 1e6)
	if err != nil {
		t.Fatalf("%v: %.200s", err, src)
	}
	return v
}

// judged returns the case of a vector, its file, and what the policy said.
func (v vector) judged(t testing.TB) (trial.Case, grade.Artifact, grade.Given) {
	t.Helper()
	c := trial.Case{ID: "c", Expected: value(t, v.Expected)}
	if expected, ok := c.Expected.(map[string]any); ok {
		src, err := canon.Literal([]any{map[string]any{"id": "c", "input": map[string]any{"user": "u"}, "expected": expected}})
		if err != nil {
			t.Fatal(err)
		}
		cases, err := trial.ReadCases(parse(t, src))
		if err != nil && !strings.Contains(v.Name, "cannot be used") {
			t.Fatal(err)
		}
		if err == nil {
			c = cases[0]
		}
	}
	doc, _ := value(t, v.Case).(map[string]any)
	given := grade.Given{Policy: v.Policy != nil, Schema: bySchema}
	for i, s := range judge.Subjects(doc) {
		if i < len(v.Policy) {
			given.Actions = append(given.Actions, grade.Action{Subject: s.Place, Tool: s.Tool, Outcome: v.Policy[i], Executed: s.Executed})
		}
	}
	return c, grade.Artifact{Doc: doc, Unresolved: v.Unresolved}, given
}

// bySchema holds a value against a schema of draft-07. It reads nothing but the schema.
func bySchema(schema, value any) (string, error) {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("case:schema", schema); err != nil {
		return "", err
	}
	s, err := c.Compile("case:schema")
	if err != nil {
		return "", errors.New("it does not compile")
	}
	if s.Validate(value) != nil {
		return "a value does not fit", nil
	}
	return "", nil
}

// TestVectors: each case is judged as its vector says.
func TestVectors(t *testing.T) {
	outcomes := map[string]bool{}
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			c, a, given := v.judged(t)
			fitsSchemas(t, c, a.Doc)
			if v.Subjects != nil {
				subjects := []string{}
				for _, s := range judge.Subjects(a.Doc) {
					line := s.Place + " " + s.Tool
					if s.Executed {
						line += " executed"
					}
					subjects = append(subjects, line)
				}
				if !slices.Equal(subjects, v.Subjects) {
					t.Errorf("subjects %q, want %q", subjects, v.Subjects)
				}
			}
			run := judge.Judge(c, a, given)
			got := []string{}
			for _, a := range run.Assertions {
				got = append(got, a.ID+" "+string(a.Outcome))
				outcomes[a.Kind+" "+string(a.Outcome)] = true
			}
			if !slices.Equal(got, v.Assertions) || run.Verdict != v.Verdict {
				t.Errorf("%s with %q\nwant %s with %q", run.Verdict, got, v.Verdict, v.Assertions)
			}
			cause := grade.RootCause{}
			if run.Cause != nil {
				cause = *run.Cause
			}
			if cause.Name != v.Cause || cause.Confidence != v.Confidence || !slices.Equal(cause.Evidence, v.Places) || (run.Cause != nil && cause.Evidence == nil) {
				t.Errorf("cause %q, want %s %s %q", cause, v.Cause, v.Confidence, v.Places)
			}
			if v.Notes != nil && len(run.Notes) != *v.Notes {
				t.Errorf("notes %q, want %d", run.Notes, *v.Notes)
			}
			wellFormed(t, run)
		})
	}
	always := "evidence_resolved policy action_required tool_required tool_forbidden tool_sequence tool_success max_tool_calls max_latency_ms max_tokens trace_integrity json_schema must_include must_not_include equals json_equals retrieval_required evidence_required_for_actions"
	for _, kind := range strings.Fields(always) {
		want := []string{"pass", "fail"}
		switch kind {
		case "policy":
			want = append(want, "skip", "error")
		case "tool_sequence", "tool_success", "trace_integrity", "evidence_required_for_actions":
			want = append(want, "skip")
		case "max_latency_ms", "max_tokens", "json_schema", "must_include", "must_not_include":
			want = append(want, "error")
		}
		for _, outcome := range want {
			if !outcomes[kind+" "+outcome] {
				t.Errorf("no vector has %s with %s", kind, outcome)
			}
		}
	}
}

// fitsSchemas fails unless the vector is about a case and a file that a suite can have.
func fitsSchemas(t *testing.T, c trial.Case, doc map[string]any) {
	t.Helper()
	if c.Expected != nil {
		one := map[string]any{"id": "c", "input": map[string]any{"user": "u"}, "expected": c.Expected}
		if list, n := specs.Walk(specs.KindSuiteCases, []any{one}, 5); n > 0 {
			t.Errorf("the case does not fit its schema: %v", list)
		}
	}
	if doc != nil {
		file := map[string]any{"schema_version": "case.v1", "case_id": "c", "version": "new"}
		for name, v := range doc {
			file[name] = v
		}
		if list, n := specs.Walk(specs.KindSuiteCase, file, 5); n > 0 {
			t.Errorf("the file does not fit its schema: %v", list)
		}
	}
}

// wellFormed checks what holds for every run.
func wellFormed(t testing.TB, run grade.Run) {
	t.Helper()
	ids := map[string]bool{}
	failed := false
	for _, a := range run.Assertions {
		if ids[a.ID] || a.Reason == "" || a.Evidence == nil || (a.ID != a.Kind && !strings.HasPrefix(a.ID, a.Kind+":")) {
			t.Errorf("assertion %+v", a)
		}
		ids[a.ID] = true
		failed = failed || a.Outcome == grade.Failed || a.Outcome == grade.Broken
		if a.Outcome == grade.Passed && a.Expected+a.Actual != "" {
			t.Errorf("it passed, and has more to say: %+v", a)
		}
		for _, s := range append([]string{a.Reason, a.Expected, a.Actual}, a.Evidence...) {
			if len(s) > 256+len("…") {
				t.Errorf("a text of %d bytes in %s", len(s), a.ID)
			}
		}
	}
	passed := run.Verdict == grade.Pass || run.Verdict == grade.Weak
	if passed != (run.Cause == nil) || passed && failed || run.Notes == nil || run.Assertions == nil {
		t.Errorf("run %+v", run)
	}
	e := grade.Evaluation{Cases: []grade.EvaluatedCase{{CaseID: "c", Verdict: run.Verdict, Assertions: run.Assertions, RootCause: run.Cause, Notes: run.Notes}}}
	if _, err := e.Bytes(); err != nil {
		t.Errorf("the run cannot be written: %v", err)
	}
}

// TestReasons: what a reader is told of some assertions that did not pass.
func TestReasons(t *testing.T) {
	for expected, want := range map[string]string{
		`{"must_include":["x\u0000y"]}`:                                        `must_include:0: the output does not have the text (x` + "\x00" + `y, {"a":[1,2]}) [final_output]`,
		`{"json_equals":{"value":{"a":[1,3]}}}`:                                `json_equals: the output is other JSON at the JSON Pointer "/a/1" (3, 2) [final_output]`,
		`{"json_equals":{"value":{"a":[1,2],"b":null}}}`:                       `json_equals: the output is other JSON at the JSON Pointer "/b" (null, absent) [final_output]`,
		`{"tool_required":["pay"]}`:                                            `tool_required:0: the agent has not called the tool (pay, ["log","search"]) []`,
		`{"tool_forbidden":["log"]}`:                                           `tool_forbidden:0: the agent has called the tool (not log, ["log","search"]) [events[0] events[2]]`,
		`{"tool_sequence":{"mode":"exact","tools":["log","log"]}}`:             `tool_sequence: the tools were not called in this order (exact ["log","log"], ["log","search","log"]) [events[1]]`,
		`{"max_tool_calls":2}`:                                                 `max_tool_calls: there were more calls than allowed (at most 2, 3) [events[2]]`,
		`{"max_tokens":2}`:                                                     `max_tokens: the file of the case does not have the measure (at most 2, ) []`,
		`{"json_schema":{"type":"list"}}`:                                      `json_schema: the schema cannot be used: it does not compile (, ) []`,
		`{"json_schema":{"description":"` + strings.Repeat("x", 65536) + `"}}`: `json_schema: the schema has more than 65536 bytes, or no form in JSON (, ) []`,
	} {
		doc := parse(t, []byte(`{"status":"ok","events":[{"type":"tool_call","tool":"log","ts":1},{"type":"tool_call","tool":"search","ts":1},{"type":"tool_call","tool":"log","ts":1}],"final_output":{"content_type":"json","content":{"a":[1,2]}}}`))
		run := judge.Judge(trial.Case{Expected: parse(t, []byte(expected))}, grade.Artifact{Doc: doc.(map[string]any)}, grade.Given{Schema: bySchema})
		a := run.Assertions[len(run.Assertions)-1]
		if got := fmt.Sprintf("%s: %s (%s, %s) %v", a.ID, a.Reason, a.Expected, a.Actual, a.Evidence); got != want {
			t.Errorf("%.100s:\ngot  %s\nwant %s", expected, got, want)
		}
	}
	if a := judge.Judge(trial.Case{Expected: parse(t, []byte(`{"json_schema":{}}`))}, grade.Artifact{Doc: parse(t, []byte(`{"status":"ok"}`)).(map[string]any)}, grade.Given{}).Assertions[1]; a.Outcome != grade.Broken {
		t.Errorf("without a check by schemas: %+v", a)
	}
}

// TestStrangeTypes: values of types that no schema allows hide nothing. What is no exact call of an
// action is a subject, and what has no result with its call_id was executed.
func TestStrangeTypes(t *testing.T) {
	doc := parse(t, []byte(`{"status":"ok","proposed_actions":[{"action_id":1,"tool_name":"pay","params":{}},{"tool_name":"pay","params":{}},{"action_id":"a","tool_name":"pay"},7],"events":[
		{"type":"tool_call","call_id":"c","action_id":1,"tool":"pay","args":{}},{"type":"tool_call","call_id":null,"tool":"pay","args":{}},{"type":"tool_call","call_id":"d","action_id":"a","tool":"pay"},
		{"type":"tool_result","call_id":"c","status":"ERROR"},{"type":"tool_result","call_id":null,"status":"error"},{"type":"tool_result","call_id":"d","status":"error"}]}`))
	var got []string
	for _, s := range judge.Subjects(doc.(map[string]any)) {
		got = append(got, fmt.Sprint(s.Place, " ", s.Tool, " ", s.Executed))
	}
	want := []string{"proposed_actions[0] pay false", "proposed_actions[1] pay false", "proposed_actions[2] pay false", "proposed_actions[3]  false", "events[0] pay true", "events[1] pay true", "events[2] pay false"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s := judge.Subjects(parse(t, []byte(`{"proposed_actions":[{"action_id":"a","action_type":"b","tool_name":"c","params":{"d":1.0},"risk_level":"high","risk_tags":["e"]}]}`)).(map[string]any))[0]
	if fmt.Sprint(s) != "{proposed_actions[0] a b c high [e] map[d:1.0] false}" {
		t.Errorf("got %v", s)
	}
}

// TestManyPlaces: an assertion names at most 20 places, and a text in it is short.
func TestManyPlaces(t *testing.T) {
	var events []string
	for range 50 {
		events = append(events, `{"type":"tool_call","ts":1,"call_id":"`+strings.Repeat("x", 300)+`","tool":"`+strings.Repeat("y", 300)+`","args":{}}`)
	}
	doc := parse(t, []byte(`{"status":"ok","proposed_actions":[],"events":[`+strings.Join(events, ",")+`],"final_output":{"content_type":"text","content":"`+strings.Repeat(`\u00e9`, 300)+`"}}`))
	run := judge.Judge(trial.Case{Expected: parse(t, []byte(`{"trace_integrity":true,"tool_sequence":["a"],"equals":"b"}`))}, grade.Artifact{Doc: doc.(map[string]any)}, grade.Given{})
	wellFormed(t, run)
	if run.Verdict != grade.Fail || len(run.Assertions) != 4 || len(run.Assertions[2].Evidence) != 20 || !strings.HasSuffix(run.Assertions[3].Actual, "é…") {
		t.Errorf("got %+v", run)
	}
}

// TestFixture: the cases of the directory that keeps the contract: one passes on both sides, the
// other was answered on baseline, and could not be asked on new.
func TestFixture(t *testing.T) {
	read := func(name ...string) any {
		src, err := os.ReadFile(rehearsal.NeedFixture(t, append([]string{"agent-qa-toolkit", "minimal-v1"}, name...)...))
		if err != nil {
			t.Fatal(err)
		}
		return parse(t, src)
	}
	cases, err := trial.ReadCases(read("cases.json"))
	if err != nil || len(cases) != 2 {
		t.Fatalf("%d cases, error %v", len(cases), err)
	}
	for want, verdict := range map[string]grade.Verdict{"baseline ticket_ok": grade.Pass, "new ticket_ok": grade.Pass, "baseline agent_down": grade.Pass, "new agent_down": grade.Error} {
		side, id, _ := strings.Cut(want, " ")
		c := cases[slices.IndexFunc(cases, func(c trial.Case) bool { return c.ID == id })]
		run := judge.Judge(c, grade.Artifact{Doc: read(side, "r1", id+".json").(map[string]any)}, grade.Given{})
		wellFormed(t, run)
		if run.Verdict != verdict || (verdict == grade.Error) != (run.Cause != nil && run.Cause.Name == "infra_http") || len(run.Notes) != len(c.NotJudged) {
			t.Errorf("%s: %+v", want, run)
		}
	}
}

// FuzzJudge: no case and no file makes Judge or Subjects panic, and a judgement can be written.
func FuzzJudge(f *testing.F) {
	for _, v := range vectors(f) {
		for _, policy := range []string{"", "BUNDLE", "REFUSE"} {
			f.Add(text(f, v.Expected), text(f, v.Case), policy)
		}
	}
	f.Add(`{"tool_sequence":[{}],"tool_success":{"allow_errors":[{}]},"policy":[],"must_include":{}}`, `{"status":"ok","proposed_actions":[null,[],{"action_id":{}}],"events":[null,{"type":"tool_call","tool":{},"args":[]},{"type":"tool_result","call_id":{}}],"final_output":[]}`, "REFUSE")
	f.Fuzz(func(t *testing.T, expected, doc, policy string) {
		want, err := canon.ParseLiteral([]byte(expected), 1<<20, 1e5)
		if err != nil {
			return
		}
		file, err := canon.ParseLiteral([]byte(doc), 1<<20, 1e5)
		if err != nil {
			return
		}
		obj, _ := file.(map[string]any)
		before, _ := canon.Literal(file)
		given := grade.Given{Policy: policy != "", Schema: func(any, any) (string, error) { return policy, nil }}
		for _, s := range judge.Subjects(obj) {
			given.Actions = append(given.Actions, grade.Action{Subject: s.Place, Tool: s.Tool, Outcome: policy})
			if s.Executed && !strings.Contains(doc, "tool_") && !strings.Contains(doc, `\u`) {
				t.Errorf("something was executed without a call and a result: %+v", s)
			}
		}
		run := judge.Judge(trial.Case{Expected: want}, grade.Artifact{Doc: obj}, given)
		wellFormed(t, run)
		if after, _ := canon.Literal(file); !bytes.Equal(before, after) {
			t.Errorf("the file was changed: %s", before)
		}
	})
}

func text(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	b, err := canon.Literal(value(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
