package harness_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// TestAnswersOfTheBuiltinPolicy answers everything that the built-in policy says about the
// vectors, denials and notes included. Only answers to the answerable rules have an effect,
// and each takes away its own question alone.
func TestAnswersOfTheBuiltinPolicy(t *testing.T) {
	s := newStage(t)
	texts := []string{"yes", "no", "proceed", "the last one"}
	r := rand.New(rand.NewPCG(15, 22))
	settled := map[string]int{}
	for _, profile := range profiles.Names() {
		gate := s.Gates[profile]
		for i, p := range s.posed[profile] {
			if i%rehearsal.Stride(2) != 0 {
				continue
			}
			in := p.in
			intent := maps.Clone(in.Intent.(map[string]any))
			free := maps.Clone(intent["context"].(map[string]any))
			delete(free, "answers")
			intent["context"] = free
			in.Intent = intent
			base, err := gate.Judge.Eval(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			answers := map[string]any{}
			for _, one := range slices.Concat(base.Deny, base.Clarify, base.Note) {
				if r.IntN(4) > 0 {
					answers[one.QuestionID()] = texts[r.IntN(len(texts))]
				}
			}
			free["answers"] = answers
			want := base
			want.Clarify, want.Answered = nil, nil
			for _, q := range base.Clarify {
				answer, given := answers[q.QuestionID()]
				if given && (q.ID == "WRITE_TWICE" || q.ID == "OUTPUT_UNPRODUCED" || q.ID == "INPUT_WRITTEN" && answer == "yes") {
					want.Answered = append(want.Answered, q)
					settled[q.ID]++
					continue
				}
				want.Clarify = append(want.Clarify, q)
			}
			got, err := gate.Judge.Eval(t.Context(), in)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: answers %v give\n%+v (error %v)\nwant\n%+v", p.Name, profile, answers, got, err, want)
			}
		}
	}
	if len(settled) != 3 {
		t.Errorf("settled: %v", settled)
	}
}

// TestAnswersKeepSeverity: where a profile makes an answerable question a denial, no answer
// turns it.
func TestAnswersKeepSeverity(t *testing.T) {
	s := newStage(t)
	const src = `{"goal":"g","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":"1"},{"kind":"write","path":"out/a","content":"2"}],"context":{"answers":{"ask_a959a1b0819ca82b":"x"}}}`
	for severity, outcome := range map[string]kernel.Outcome{"deny": kernel.OutcomeRefuse, "clarify": kernel.OutcomeBundle} {
		folder := policy.Folder{FS: fstest.MapFS{"p/profile.json": &fstest.MapFile{Data: []byte(`{"name":"acme","extends":"dev","severity":{"WRITE_TWICE":"` + severity + `"}}`)}}, Dir: "p"}
		gate := s.open(t, harness.Sources{Builtin: profiles.FS(), User: &folder, File: harness.ProfileFile})
		rep, err := harness.Run(t.Context(), harnesstest.Deps(t), gate, harnesstest.Planned(src, "r"))
		if err != nil || rep.Result.KernelResultKind != outcome {
			t.Errorf("%s: %s, error %v", severity, rep.Result.KernelResultKind, err)
		}
	}
}

// TestAnswersHaveAForm: a wrong form is no intent. Under an earlier contract context.answers
// was free data, and a replay asks about it as it was then.
func TestAnswersHaveAForm(t *testing.T) {
	s := newStage(t)
	for form, pointer := range map[string]string{
		`["yes"]`: "/context/answers", `"yes"`: "/context/answers", `null`: "/context/answers", `{"a":1}`: "/context/answers/a", `{"a":" "}`: "/context/answers/a", `{"a":{}}`: "/context/answers/a",
	} {
		req := harnesstest.Planned(`{"goal":"g","constraints":["c"],"context":{"answers":`+form+`}}`, "r")
		_, _, err := s.Gates["strict"].Ask(s.Specs, req)
		if fault, ok := errors.AsType[*result.RunError](err); !ok || fault.Code != result.CodeNotIntent || fault.Details["pointer"] != pointer {
			t.Errorf("%s: error %v", form, err)
		}
		for _, req.Contract = range policy.EarlierContracts() {
			in, _, err := s.Gates["strict"].Ask(s.Specs, req)
			if err != nil || in.Contract != req.Contract {
				t.Errorf("%s under %s: error %v", form, req.Contract, err)
			}
			if asked, ok := canon.Lookup(in.Document(), "/intent/context/answers"); !ok {
				t.Errorf("%s under %s: the policy is asked about %v", form, req.Contract, asked)
			}
		}
	}
}
