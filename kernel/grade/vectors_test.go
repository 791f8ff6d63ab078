package grade_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
)

// readVectors decodes a file of specs/vectors/evaluation. The file must be plain ASCII, and
// have no member that v has not.
func readVectors(t *testing.T, file string, v any) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("../../specs/vectors/evaluation", file))
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexFunc(src, func(r rune) bool { return r >= 0x80 }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", file, i)
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// vectorCase is a case in the runs of both sides, and what is expected of the case.
type vectorCase struct {
	ID, Severity  string
	Baseline, New []vectorRun
	LeftOut       bool `json:"left_out"`
	States        [2]grade.State
	Class         grade.Class
	Confidence    grade.Confidence
	P             *float64
	PAdjusted     *float64 `json:"p_adjusted"`
}

// vectorRun is a verdict, or an object.
type vectorRun grade.Run

func (r *vectorRun) UnmarshalJSON(src []byte) error {
	var v struct {
		Verdict                 grade.Verdict
		Failed, Broken, Secrets []string
		Cause                   string
		Actions                 []struct {
			Outcome  string
			Executed bool
		}
	}
	err := json.Unmarshal(src, &v.Verdict)
	if src[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(src))
		d.DisallowUnknownFields()
		err = d.Decode(&v)
	}
	if !slices.Contains([]grade.Verdict{grade.Pass, grade.Weak, grade.Fail, grade.Error, grade.Missing}, v.Verdict) {
		return fmt.Errorf("verdict %q", v.Verdict)
	}
	r.Verdict, r.Secrets = v.Verdict, v.Secrets
	r.Assertions = []grade.Assertion{{ID: "evidence_resolved", Outcome: grade.Passed}, {ID: "max_latency_ms", Outcome: grade.Skipped}}
	for _, id := range v.Failed {
		r.Assertions = append(r.Assertions, grade.Assertion{ID: id, Outcome: grade.Failed})
	}
	for _, id := range v.Broken {
		r.Assertions = append(r.Assertions, grade.Assertion{ID: id, Outcome: grade.Broken})
	}
	if v.Cause != "" {
		r.Cause = &grade.RootCause{Name: v.Cause, Evidence: []string{}}
	}
	for i, a := range v.Actions {
		r.Actions = append(r.Actions, grade.Action{Subject: fmt.Sprintf("proposed_actions[%d]", i), Outcome: a.Outcome, Executed: a.Executed, Reasons: []string{}})
	}
	return err
}

func pairsOf(cases []vectorCase) (pairs []grade.Pair) {
	runs := func(list []vectorRun) (runs []grade.Run) {
		for _, r := range list {
			runs = append(runs, grade.Run(r))
		}
		return runs
	}
	for _, c := range cases {
		pairs = append(pairs, grade.Pair{Case: trial.Case{ID: c.ID, Severity: c.Severity}, Baseline: runs(c.Baseline), New: runs(c.New)})
	}
	return pairs
}

// TestClassVectors: each case gets its states, class, confidence and figures.
func TestClassVectors(t *testing.T) {
	var v struct {
		About   string
		Vectors []struct {
			Name  string
			Alpha *float64
			Cases []vectorCase
		}
	}
	readVectors(t, "classes.json", &v)
	if len(v.Vectors) < 50 {
		t.Fatalf("%d vectors", len(v.Vectors))
	}
	seen := map[string]bool{}
	for _, v := range v.Vectors {
		l := grade.DefaultLimits()
		if v.Alpha != nil {
			l.Alpha = *v.Alpha
		}
		got := grade.Compare(pairsOf(v.Cases), l, false).Cases
		want := slices.DeleteFunc(slices.Clone(v.Cases), func(c vectorCase) bool { return c.LeftOut })
		if len(got) != len(want) {
			t.Errorf("%s: %d cases, and %d are due", v.Name, len(got), len(want))
			continue
		}
		for i, w := range want {
			g := got[i]
			states := [2]grade.State{stateOf(g.Baseline), stateOf(g.New)}
			if g.CaseID != w.ID || states != w.States || g.Class != w.Class || g.Confidence != w.Confidence || !reflect.DeepEqual([]*float64{g.P, g.PAdjusted}, []*float64{w.P, w.PAdjusted}) {
				src, _ := json.Marshal(g)
				t.Errorf("%s, case %s: %v %s", v.Name, w.ID, states, src)
			}
			if len(want) == 1 {
				seen[fmt.Sprint(w.States)] = true
			}
			seen[string(w.Class)] = true
		}
	}
	if len(seen) != 24+13 {
		t.Errorf("24 pairs of states and 13 classes are due, and %d are seen: %v", len(seen), seen)
	}
}

func stateOf(s *grade.SideResult) grade.State {
	if s == nil {
		return grade.Absent
	}
	return s.State
}

// TestGateVectors: each gate decides as its vector says, in whatever order the pairs are given.
func TestGateVectors(t *testing.T) {
	var v struct {
		About   string
		Vectors []struct {
			Name       string
			Limits     json.RawMessage
			ReportOnly bool `json:"report_only"`
			Cases      []vectorCase
			Gate       struct {
				grade.Gate
				Codes []string // instead of the reasons
			}
		}
	}
	readVectors(t, "gates.json", &v)
	alone, both := map[string]bool{}, map[string]bool{}
	for _, v := range v.Vectors {
		l := grade.DefaultLimits()
		if v.Limits != nil {
			if err := json.Unmarshal(v.Limits, &l); err != nil {
				t.Fatal(err)
			}
		}
		pairs := pairsOf(v.Cases)
		c := grade.Compare(pairs, l, v.ReportOnly)
		codes := []string{}
		for _, r := range c.Gate.Reasons {
			codes = append(codes, r.Code)
		}
		right := slices.Equal(codes, v.Gate.Codes)
		if v.Gate.Codes == nil {
			right = reflect.DeepEqual(c.Gate.Reasons, v.Gate.Reasons)
		}
		if !right || c.Gate.Status != v.Gate.Status || c.Gate.ExitCode != v.Gate.ExitCode || !reflect.DeepEqual(c.Gate.Limits, l) {
			src, _ := json.Marshal(c.Gate)
			t.Errorf("%s: %s", v.Name, src)
		}
		first, err := c.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(pairs)
		if again, err := grade.Compare(pairs, l, v.ReportOnly).Bytes(); err != nil || !bytes.Equal(again, first) {
			t.Errorf("%s: in another order of the pairs: %v\n%s\n%s", v.Name, err, first, again)
		}
		switch len(codes) {
		case 1:
			alone[codes[0]] = true
		case 2:
			both[codes[0]+" "+codes[1]] = true
		}
	}
	doubts := []string{grade.CodeNoCases, grade.CodeAnswers, grade.CodeInfraRegression, grade.CodeBaselineUnusable}
	rejections := []string{grade.CodeRegression, grade.CodeCriticalFailure, grade.CodePolicyViolation, grade.CodeAddedFailing, grade.CodeRemoved, grade.CodeSecretExposed,
		grade.CodeSuiteWorse, grade.CodePassRate, grade.CodeFlaky, grade.CodeWeak}
	for _, code := range slices.Concat(rejections, doubts) {
		if !alone[code] {
			t.Errorf("no vector has %s alone", code)
		}
	}
	for _, r := range rejections {
		for _, d := range doubts {
			// Without data on new, no case failed or is weak.
			if d == grade.CodeNoCases && r != grade.CodeRemoved && r != grade.CodeSecretExposed {
				continue
			}
			if !both[r+" "+d] {
				t.Errorf("no vector has %s and %s", r, d)
			}
		}
	}
}
