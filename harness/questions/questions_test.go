package questions

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// TestPut: the answer stands in the intent, and nothing else changes.
func TestPut(t *testing.T) {
	const added = `"answers": {
      "ask_1": "it's \"so\""
    }`
	for _, tc := range []struct{ name, src, want string }{
		{"no context", `{"goal":"g"}`, "{\n  \"goal\": \"g\",\n  \"context\": {\n    " + added + "\n  }\n}\n"},
		{"empty", "{}\n", "{\n  \"context\": {\n    " + added + "\n  }\n}\n"},
		{"empty context", `{"context":{ },"goal":"g"}`, "{\n  \"context\": {\n    " + added + "\n  },\n  \"goal\": \"g\"\n}\n"},
		{"a context", `{"context":{"n":1.50,"s":"\u00e9\/"},"goal":"g"}`, "{\n  \"context\": {\n    \"n\": 1.50,\n    \"s\": \"\\u00e9\\/\",\n    " + added + "\n  },\n  \"goal\": \"g\"\n}\n"},
		{"empty answers", `{"context":{"answers":{}}}`, "{\n  \"context\": {\n    " + added + "\n  }\n}\n"},
		{"other answers", `{"context":{"answers":{"ask_2":"x"}}}`, "{\n  \"context\": {\n    \"answers\": {\n      \"ask_2\": \"x\",\n      \"ask_1\": \"it's \\\"so\\\"\"\n    }\n  }\n}\n"},
		{"another answer", `{"context":{"answers":{"ask_1":"x","ask_2":"y"}}}`, "{\n  \"context\": {\n    \"answers\": {\n      \"ask_1\": \"it's \\\"so\\\"\",\n      \"ask_2\": \"y\"\n    }\n  }\n}\n"},
		{"a name with an escape", `{"c\u006fntext":{"answers":{}}}`, "{\n  \"c\\u006fntext\": {\n    " + added + "\n  }\n}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Put([]byte(tc.src), "ask_1", `it's "so"`)
			if err != nil || string(got) != tc.want {
				t.Errorf("%s (error %v)\nwant %s", got, err, tc.want)
			}
		})
	}
	if _, err := Put([]byte(`{}`), "ask_1", "\xff"); err == nil {
		t.Error("an answer that is not UTF-8 is put into an intent")
	}
}

// FuzzPut: an intent with an answer has every other member as before.
func FuzzPut(f *testing.F) {
	f.Add(`{"goal":"g","context":{"a":[1,{"b":null}]}}`, "ask_1", "yes")
	f.Add(`{"context":{"answers":{"x/~":"y"}},"z":1e5}`, "x/~", "n\n")
	f.Fuzz(func(t *testing.T, src, id, answer string) {
		before, err := canon.Parse([]byte(src), canon.MaxIntentBytes)
		root, ok := before.Value().(map[string]any)
		if err != nil || !ok {
			return // no intent
		}
		for _, pointer := range []string{"/context", "/context/answers"} {
			if v, there := canon.Lookup(root, pointer); there {
				if _, ok := v.(map[string]any); !ok {
					return // no answer can be put there
				}
			}
		}
		text, err := Put([]byte(src), id, answer)
		if err != nil {
			return
		}
		after, err := canon.Parse(text, len(text))
		if err != nil {
			if strings.Contains(err.Error(), "64") { // the answer is one level too deep
				return
			}
			t.Fatalf("%s: %v", text, err)
		}
		var want map[string]any // the answer put in by hand
		dec := json.NewDecoder(bytes.NewReader(before.Bytes()))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		at := want
		for _, name := range []string{"context", "answers"} {
			if at[name] == nil {
				at[name] = map[string]any{}
			}
			at = at[name].(map[string]any)
		}
		at[id] = answer
		wanted, err := canon.Canonical(want)
		if err != nil || !bytes.Equal(wanted, after.Bytes()) {
			t.Errorf("%s, want %s (error %v)", after.Bytes(), wanted, err)
		}
	})
}

const rules = `package gate.repo.site

# METADATA
# title: Who is told
# description: Somebody has to know
# custom:
#   id: TOLD
#   priority: 95
#   answerable: true
clarify contains {"id": "TOLD", "path": "/goal", "question": "Who is told?", "options": [who]} if some who in ["team", "nobody"]

# METADATA
# title: Nobody is told
# description: Somebody has to know
# custom:
#   id: UNTOLD
deny contains {"id": "UNTOLD", "path": "/goal", "msg": "nobody is told"} if {
	some a in input.answers
	a.id == "TOLD"
	a.answer == "nobody"
}
`

func TestAsk(t *testing.T) {
	deps := harnesstest.Deps(t)
	folder := policy.Folder{FS: fstest.MapFS{"p/a.rego": &fstest.MapFile{Data: []byte(rules)}}, Dir: "p"}
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: "strict", Repo: &folder}, deps.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(src string) Asked {
		t.Helper()
		asked, err := Ask(t.Context(), deps, gate, harnesstest.Planned(src, "r"))
		if err != nil {
			t.Fatal(err)
		}
		return asked
	}
	const src = `{"goal":"Tell <name>","actions":[{"kind":"write","path":"out/a","content":"","risk_level":"high"},{"kind":"write","path":"out/a","content":""}],"inputs":["out/a"]}`
	asked := ask(src)
	var got []string
	ids := map[string]string{}
	for _, q := range asked.Questions {
		got = append(got, q.Result.ID+" "+string(q.Needs)+" "+strings.Join(q.Answers(), ","))
		ids[q.Result.ID] = q.ID
	}
	want := []string{"TOLD answer nobody,team", "PLACEHOLDER intent ", "INPUT_WRITTEN answer yes", "RISK_REVIEW policy ", "WRITE_TWICE answer "}
	if asked.Outcome != kernel.OutcomeClarify || !reflect.DeepEqual(got, want) || len(asked.Unused) > 0 {
		t.Errorf("%s %q, unused %q", asked.Outcome, got, asked.Unused)
	}
	with := []byte(src)
	for id, text := range map[string]string{ids["TOLD"]: "nobody", ids["WRITE_TWICE"]: "the last", ids["INPUT_WRITTEN"]: "no", ids["RISK_REVIEW"]: "proceed", "ask_0": "x"} {
		if with, err = Put(with, id, text); err != nil {
			t.Fatal(err)
		}
	}
	asked = ask(string(with))
	got = nil
	for _, q := range asked.Questions {
		given := "-"
		if q.Given != nil {
			given = *q.Given
		}
		got = append(got, q.Result.ID+" "+string(q.Needs)+" "+given)
	}
	want = []string{"PLACEHOLDER intent -", "INPUT_WRITTEN answer no", "RISK_REVIEW policy proceed", "TOLD nothing nobody", "WRITE_TWICE nothing the last"}
	if asked.Outcome != kernel.OutcomeRefuse || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(asked.Unused, []string{"ask_0"}) {
		t.Errorf("%s %q, unused %q", asked.Outcome, got, asked.Unused)
	}
	if _, err := Ask(t.Context(), deps, gate, harnesstest.Planned(`{"goal":"g","context":{"answers":[]}}`, "r")); err == nil || !strings.Contains(err.Error(), "/context/answers") {
		t.Errorf("error %v", err)
	}
}

// TestLayerVectors decides specs/vectors/answers/layers.json.
func TestLayerVectors(t *testing.T) {
	var file struct {
		Vectors []struct {
			Name, Why string
			Layers    map[string]string
			Answers   map[string]string
			Expect    struct {
				Outcome                 kernel.Outcome
				Reasons, Open, Answered []string
				Error                   result.Code
			}
		}
	}
	src, err := os.ReadFile("../../specs/vectors/answers/layers.json")
	if err == nil {
		err = json.Unmarshal(src, &file)
	}
	if err != nil || len(file.Vectors) < 15 {
		t.Fatalf("%d vectors, error %v", len(file.Vectors), err)
	}
	deps := harnesstest.Deps(t)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			from := harness.Sources{Builtin: profiles.FS(), Profile: "strict"}
			for pkg, text := range v.Layers {
				folder := policy.Folder{FS: fstest.MapFS{"p/a.rego": &fstest.MapFile{Data: []byte(text)}}, Dir: "p"}
				if strings.HasPrefix(pkg, policy.PrefixRepo) {
					from.Repo = &folder
				} else {
					from.Org = append(from.Org, folder)
				}
			}
			gate, err := harness.OpenGate(t.Context(), from, deps.Specs, harnesstest.Endless())
			if err != nil {
				t.Fatal(err)
			}
			intent, err := canon.Canonical(map[string]any{"goal": "Write the page", "constraints": []string{"c"}, "context": map[string]any{"answers": v.Answers}})
			if err != nil {
				t.Fatal(err)
			}
			asked, err := Ask(t.Context(), deps, gate, harnesstest.Planned(string(intent), "r"))
			if fault, ok := errors.AsType[*result.RunError](err); v.Expect.Error != "" {
				if !ok || fault.Code != v.Expect.Error {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var open, answered []string
			for _, q := range asked.Questions {
				if q.Needs == NeedNothing {
					answered = append(answered, q.ID)
				} else {
					open = append(open, q.ID)
				}
			}
			slices.Sort(answered)
			if asked.Outcome != v.Expect.Outcome || !slices.Equal(open, v.Expect.Open) || !slices.Equal(answered, v.Expect.Answered) {
				t.Errorf("%s, open %q, answered %q", asked.Outcome, open, answered)
			}
			rep, err := harness.Run(t.Context(), deps, gate, harnesstest.Planned(string(intent), "r"))
			if err != nil || !slices.Equal(rep.Result.Decision.Reasons, v.Expect.Reasons) || rep.Result.KernelResultKind != v.Expect.Outcome {
				t.Errorf("%s for %q, error %v", rep.Result.KernelResultKind, rep.Result.Decision.Reasons, err)
			}
		})
	}
}
