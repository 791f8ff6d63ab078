package harness_test

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// explained has the lines of the source of every module of a gate, under the module's name
// in the provenance.
type explained map[string][]string

func linesOf(t *testing.T, s *stage, src harness.Sources) explained {
	t.Helper()
	o, err := src.Read(s.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	m := explained{}
	for _, l := range o.Layers {
		for _, mod := range l.Modules {
			m[mod.Name] = strings.Split(string(mod.Source), "\n")
		}
	}
	return m
}

// rule returns the text of the rule that begins at a line: its first line, and the
// following lines that are indented or close a brace.
func (e explained) rule(p policy.Place) string {
	lines := e[p.Module]
	if p.Line < 1 || p.Line > len(lines) {
		return ""
	}
	end := p.Line
	for end < len(lines) && lines[end] != "" && strings.ContainsAny(lines[end][:1], "\t }") {
		end++
	}
	return strings.Join(lines[p.Line-1:end], "\n")
}

// TestExplain explains every vector under its built-in profile.
func TestExplain(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	s := newStage(t)
	src := harness.Sources{Builtin: profiles.FS()}
	for _, profile := range profiles.Names() {
		src.Profile = profile
		gate, lines := s.Gates[profile], linesOf(t, s, src)
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s.explainAll(t, gate, lines, s.posed[profile])
		})
	}
	for _, v := range s.early {
		if gate := s.Gates[v.Profile]; gate != nil {
			_, want := s.runOn(t, gate, v)
			if x, err := harness.Explain(t.Context(), s.deps(), gate, v.Request(t)); line(t, err) != line(t, want) || x.Reasons != nil {
				t.Errorf("%s: error %v, a run gives %v", v.Name, err, want)
			}
		}
	}
}

// TestExplainLayers explains with a layer of each kind beside the built-in policy. Each of
// these layers answers to much.
func TestExplainLayers(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	s := newStage(t)
	module := func(name, src string) func(string) fstest.MapFS {
		return adversary{src: "package PKG\n\nimport future.keywords.not\n\n" + src}.named(name)
	}
	for _, profile := range profiles.Names() {
		src := beside("user", profile, module("notes/writes.rego", harnesstest.Meta("SEEN")+`note contains {
	"id": "SEEN", "path": e.pointer, "msg": sprintf("%s of %s", [e.kind, e.path]),
} if {
	some e in input.effects
	e.kind in {"read", "write"}
	count(input.effects) < 100
}
`))
		src.Org = beside("org", profile, module("a.rego", strings.Replace(harnesstest.Meta("GOAL"), "#   id: GOAL", "#   id: GOAL\n#   fix: say more", 1)+`clarify contains {"id": "GOAL", "path": "/goal", "question": q, "options": ["no", "yes"]} if {
	some q in ["sure?", "really?"]
	not contains(input.intent.goal, "u")
}

note contains {"id": "GOAL", "path": "/goal", "msg": "seen"}
`)).Org
		src.Repo = beside("repo", profile, module("a.rego", harnesstest.Meta("PATH_FORM")+`deny contains {"id": "PATH_FORM", "path": concat("", [e.pointer, "/argv/0"]), "msg": "not in this tree", "fix": "f"} if {
	some e in input.effects
	e.kind == "run"
	count(e.argv) > 1
}
`)).Repo
		gate, lines := s.open(t, src), linesOf(t, s, src)
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			var list []posed
			for i := 0; i < len(s.posed[profile]); i += 7 {
				list = append(list, s.posed[profile][i])
			}
			layers := s.explainAll(t, gate, lines, list)
			for _, pkg := range []string{policy.Builtin, "gate.org.adv", "gate.repo.adv", "gate.user.adv"} {
				if layers[pkg] == 0 {
					t.Errorf("no answer of %s", pkg)
				}
			}
		})
	}
}

// named returns the adversary's files, with its module under another name.
func (a adversary) named(name string) func(string) fstest.MapFS {
	return func(pkg string) fstest.MapFS {
		files := a.files(pkg)
		files[name] = files["a.rego"]
		if name != "a.rego" {
			delete(files, "a.rego")
		}
		return files
	}
}

func (s *stage) deps() harness.Deps {
	return harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader(""), Specs: s.Specs}
}

// explainAll explains posed vectors under a gate, and returns how many reasons each
// layer gave.
func (s *stage) explainAll(t *testing.T, gate *harness.Gate, lines explained, list []posed) map[string]int {
	t.Helper()
	layers := map[string]int{}
	permits := map[kernel.EffectKind]policy.Place{}
	for _, p := range list {
		x, err := harness.Explain(t.Context(), s.deps(), gate, p.Request(t))
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		want, err := p.decide(t, gate)
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := s.runOn(t, gate, p.Vector); err == nil && !reflect.DeepEqual(rep.Decision, want) {
			t.Errorf("%s: a run decides\n%+v\nwant\n%+v", p.Name, rep.Decision, want)
		}
		if !reflect.DeepEqual(x.Decision, want) || !reflect.DeepEqual(x.Profile, gate.Profile) {
			t.Errorf("%s: the decision is explained as\n%+v\nwant\n%+v", p.Name, x.Decision, want)
		}
		checkReasons(t, p, x, lines)
		checkPermits(t, p, gate, x, lines, permits)
		for _, r := range x.Reasons {
			layers[r.Module]++
		}
	}
	if len(permits) < 2 {
		t.Errorf("permits of the kinds %v", permits)
	}
	return layers
}

// checkReasons compares the reasons of an explanation with its decision, with the sources
// of the rules and with the intent.
func checkReasons(t *testing.T, p posed, x harness.Explanation, lines explained) {
	t.Helper()
	var decided, noted []string
	for i, r := range x.Reasons {
		switch {
		case r.Decides:
			decided = append(decided, fmt.Sprintf("%+v", r.Result))
		case r.Rule == "note":
			noted = append(noted, fmt.Sprintf("%+v", r.Result))
		case r.Rule != "clarify" || x.Decision.Outcome != kernel.OutcomeRefuse:
			t.Errorf("%s: %s %s is not said to decide", p.Name, r.Rule, r.ID)
		}
		if i > 0 && r.Decides && !x.Reasons[i-1].Decides {
			t.Errorf("%s: %s decides and stands behind what does not", p.Name, r.ID)
		}
		if want, ok := canon.Lookup(p.in.Intent, r.Path); !ok || !reflect.DeepEqual(r.Value, want) {
			t.Errorf("%s: the value of %s at %q is %v, want %v", p.Name, r.ID, r.Path, r.Value, want)
		}
		if r.Module == kernel.ModuleKernel {
			if r.ID != kernel.IDNotPermitted || r.Rule != "deny" || r.Fix == "" || r.Place != (policy.Place{}) {
				t.Errorf("%s: the kernel's reason is %+v", p.Name, r)
			}
			continue
		}
		text := lines.rule(r.Place)
		record := r.Module == policy.Builtin && strings.Contains(text, `"title": "`+r.Title+`"`)
		if !record && !strings.HasPrefix(text, r.Rule+" contains {") || !strings.Contains(text, `"id": "`+r.ID+`"`) {
			t.Errorf("%s: %s of %s is said to stand at %s:%d, where this stands:\n%s", p.Name, r.Rule, r.ID, r.Place.Module, r.Place.Line, text)
		}
		if pkg := lines[r.Place.Module]; !record && !slices.Contains(pkg, "package "+r.Module) || path.Base(r.Place.File) != path.Base(r.Place.Module) {
			t.Errorf("%s: %s of %s is said to stand in %+v", p.Name, r.ID, r.Module, r.Place)
		}
		if r.ID == "GOAL" && r.Fix != "say more" || r.ID == "PATH_FORM" && r.Module == "gate.repo.adv" && r.Fix != "f" {
			t.Errorf("%s: the fix of %s is %q", p.Name, r.ID, r.Fix)
		}
	}
	same := func(what string, got []string, results []kernel.Result) {
		var want []string
		for _, r := range results {
			want = append(want, fmt.Sprintf("%+v", r))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s\n%s\nwant\n%s", p.Name, what, got, want)
		}
	}
	same("what decides is", decided, x.Decision.Findings)
	same("the notes are", noted, x.Decision.Notes)
}

// checkPermits compares the permits of an explanation with the verdict's permits and with
// the sources of the rules. permits has the known rules by kind of effect: the built-in
// policy has one rule for each kind.
func checkPermits(t *testing.T, p posed, gate *harness.Gate, x harness.Explanation, lines explained, permits map[kernel.EffectKind]policy.Place) {
	t.Helper()
	v, err := gate.Judge.Eval(t.Context(), p.in)
	if err != nil {
		t.Fatal(err)
	}
	permitted := make(map[string]bool, len(v.Permits))
	for _, id := range v.Permits {
		permitted[id] = true
	}
	if len(x.Effects) != len(p.in.Effects) {
		t.Fatalf("%s: %d effects, want %d", p.Name, len(x.Effects), len(p.in.Effects))
	}
	for i, e := range x.Effects {
		if !reflect.DeepEqual(e.Effect, p.in.Effects[i]) || permitted[e.ID] != (len(e.Permits) > 0) {
			t.Errorf("%s: effect %s has the permits %+v", p.Name, e.ID, e.Permits)
		}
		for _, permit := range e.Permits {
			if text := lines.rule(permit.Place); permit.Effect != e.ID || !strings.HasPrefix(text, "permit contains ") {
				t.Errorf("%s: effect %s is permitted at %+v, where this stands:\n%s", p.Name, e.ID, permit.Place, text)
			}
			for kind, place := range permits {
				if (kind == e.Kind) != (place == permit.Place) {
					t.Errorf("%s: effect %s is permitted at %+v, a %s at %+v", p.Name, e.ID, permit.Place, kind, place)
				}
			}
			permits[e.Kind] = permit.Place
			if title := "# title: " + permit.Title; permit.Title == "" || permit.Why == "" || !slices.Contains(lines[permit.Place.Module][:permit.Place.Line], title) {
				t.Errorf("%s: the permit of %s is titled %q, because %q", p.Name, e.ID, permit.Title, permit.Why)
			}
		}
	}
}
