package harness_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// A posed vector reaches the policy. base is the decision of the built-in policy alone.
type posed struct {
	*harnesstest.Vector
	intent kernel.Intent
	in     policy.Input
	base   kernel.Decision
}

// A stage has the gates of the built-in profiles, the posed vectors by profile, and the
// vectors that end before the policy is asked.
type stage struct {
	*harnesstest.Bench
	posed map[string][]posed
	early []*harnesstest.Vector
}

// oneStage is the stage of all tests. Nothing changes it once it is built.
var oneStage struct {
	sync.Once
	*stage
}

func newStage(t *testing.T) *stage {
	t.Helper()
	oneStage.Do(func() { oneStage.stage = buildStage(t) })
	if oneStage.stage == nil {
		t.Fatal("the stage was not built")
	}
	return oneStage.stage
}

func buildStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{Bench: harnesstest.NewBench(t), posed: map[string][]posed{}}
	for _, name := range profiles.Names() {
		s.Gates[name] = s.open(t, harness.Sources{Builtin: profiles.FS(), Profile: name})
	}
	for _, f := range harnesstest.LoadVectors(t) {
		for _, v := range f.Vectors {
			if p, ok := s.pose(t, v); ok {
				s.posed[v.Profile] = append(s.posed[v.Profile], p)
			} else {
				s.early = append(s.early, v)
			}
		}
	}
	return s
}

func (s *stage) open(t *testing.T, src harness.Sources) *harness.Gate {
	t.Helper()
	gate, err := harness.OpenGate(t.Context(), src, s.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

func (s *stage) pose(t *testing.T, v *harnesstest.Vector) (posed, bool) {
	t.Helper()
	gate, req := s.Gates[v.Profile], v.Request(t)
	if gate == nil {
		return posed{}, false
	}
	in, intent, err := gate.Ask(s.Specs, req)
	if err != nil {
		return posed{}, false
	}
	p := posed{Vector: v, intent: intent, in: in}
	p.base, err = p.decide(t, gate)
	return p, err == nil
}

// decide judges as a gate does, but reads the intent once for all gates.
func (p posed) decide(t *testing.T, gate *harness.Gate) (kernel.Decision, error) {
	t.Helper()
	in := p.in
	in.Effects, in.Findings = p.intent.Effects(gate.Profile), p.intent.FindingsUnder(gate.Profile)
	verdict, err := gate.Judge.Eval(t.Context(), in)
	if err != nil {
		return kernel.Decision{}, runerr.Policy(err)
	}
	d, err := kernel.Decide(p.intent, in.Effects, in.Findings, verdict)
	if err != nil {
		return kernel.Decision{}, runerr.Internal("the decision has no canonical form", err)
	}
	return d, nil
}

// runOn runs a vector as a whole under a gate.
func (s *stage) runOn(t *testing.T, gate *harness.Gate, v *harnesstest.Vector) (harness.Report, error) {
	t.Helper()
	deps := harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader(""), Specs: s.Specs}
	return harness.Run(t.Context(), deps, gate, v.Request(t))
}

// rank orders outcomes from mild to hard.
func rank(o kernel.Outcome) int {
	return slices.Index([]kernel.Outcome{kernel.OutcomeBundle, kernel.OutcomeClarify, kernel.OutcomeRefuse}, o)
}

// kinds returns the ways in which a layer stands beside the built-in policy.
func kinds() []string { return []string{"org", "repo", "user"} }

// beside returns a built-in profile with one more layer of a kind. A user's layer belongs
// to a profile that extends the built-in one and changes nothing. files returns the files
// for the layer's package.
func beside(kind, profile string, files func(pkg string) fstest.MapFS) harness.Sources {
	s := harness.Sources{Builtin: profiles.FS(), Profile: profile}
	f := policy.Folder{FS: files("gate." + kind + ".adv"), Dir: ".", Show: "shown"}
	switch kind {
	case "org":
		s.Org = []policy.Folder{f}
	case "repo":
		s.Repo = &f
	case "user":
		f.FS.(fstest.MapFS)[harness.ProfileFile] = &fstest.MapFile{Data: []byte(`{"name":"adv","extends":"` + profile + `"}`)}
		s.User, s.File = &f, harness.ProfileFile
	}
	return s
}

// An adversary is a layer that tries to soften a decision, or to break it. PKG stands for
// the layer's package in its module a.rego and in the others.
//
// want has the allowed results, separated by " | ". "load TEXT" is an error at load
// (RUN_E004) with that text. The other results are about the vectors. "error TEXT" is
// RUN_E007 with that text for all vectors, and "sometimes TEXT" for some. "same" leaves
// every decision as it is. "ask" makes a CLARIFY of each BUNDLE. "refuse" refuses
// everything. "tighter" changes some decisions.
type adversary struct {
	name, src string
	others    map[string]string
	want      string
}

func (a adversary) files(pkg string) fstest.MapFS {
	fsys := fstest.MapFS{"a.rego": {Data: []byte(strings.ReplaceAll(a.src, "PKG", pkg))}}
	for name, src := range a.others {
		fsys[name] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(src, "PKG", pkg))}
	}
	return fsys
}

// hard begins a denial of everything; a body has to follow.
const hard = `deny contains {"id": "ADV", "path": "", "msg": "m"} `

// with returns an adversary whose one rule never fires, and which also has the text rest.
func with(name, rest, want string) adversary {
	return adversary{name: name, src: "package PKG\nimport future.keywords.not\n" + harnesstest.Quiet("ADV") + rest + "\n", want: want}
}

// rule returns an adversary with one rule of the id ADV. src has the rule and the text
// that follows it.
func rule(name, src, want string) adversary {
	return adversary{name: name, src: "package PKG\nimport future.keywords.not\n" + harnesstest.Meta("ADV") + src + "\n", want: want}
}

// module returns an adversary of one unchanged module.
func module(name, src, want string) adversary {
	return adversary{name: name, src: src, want: want}
}

func adversaries() []adversary {
	return slices.Concat(foreignPackages(), foreignNames(), foreignReferences(), wrongForms(),
		wrongAnswers(), failures(), sourceTexts(), imitations(), omittedFunctions())
}

// foreignPackages try to be the package that permits, or to reach into it.
func foreignPackages() []adversary {
	const foreign = "load must be gate. | load does not belong to layer"
	permits := "permit contains e.id if some e in input.effects\n"
	return []adversary{
		module("package of the built-in layer", "package gate.builtin\n"+harnesstest.Quiet("ADV")+permits, foreign),
		module("package above", "package gate\n"+harnesstest.Quiet("ADV")+"builtin.permit contains e.id if some e in input.effects\n", foreign),
		module("package with a bracket", "package gate[\"builtin\"]\n"+harnesstest.Quiet("ADV")+permits, foreign),
		module("package below the built-in one", "package gate.builtin.sub\n"+harnesstest.Quiet("ADV"), foreign),
		module("package data.gate.builtin", "package data.gate.builtin\n"+harnesstest.Quiet("ADV")+permits, foreign),
		module("package of another user", "package gate.user.other\n"+harnesstest.Quiet("ADV"), foreign),
		module("package of no layer", "package other\n"+harnesstest.Quiet("ADV"), foreign),
		module("package below its own", "package PKG.builtin\n"+harnesstest.Quiet("ADV"), foreign),
		module("package with a Cyrillic letter", "package g\u0430te.builtin\n"+harnesstest.Quiet("ADV"), "load must be gate. | load illegal token"),
		module("package with a full-width letter", "package \uff47ate.builtin\n"+harnesstest.Quiet("ADV"), "load must be gate. | load illegal token"),
		module("two packages", "package PKG\npackage gate.builtin\n"+harnesstest.Quiet("ADV")+permits, "load a.rego:2: unexpected package"),
		module("no package", harnesstest.Quiet("ADV"), "load must be gate. | load package expected"),
		{name: "package of the built-in layer in a second file", src: "package PKG\n" + harnesstest.Quiet("ADV"),
			others: map[string]string{"builtin/decide.rego": "package gate.builtin\n" + permits},
			want:   `load builtin/decide.rego:1: package "gate.builtin" does not belong to layer`},
		{name: "package of the built-in layer in a file that is passed over", src: "package PKG\n" + harnesstest.Quiet("ADV"),
			others: map[string]string{"..permits.rego": "package gate.builtin\n" + permits},
			want:   "same"},
		{name: "package of the built-in layer in a test file", src: "package PKG\n" + harnesstest.Quiet("ADV"),
			others: map[string]string{"permits_test.rego": "package gate.builtin\n" + permits},
			want:   "load stands in a test file, which never decides"},
		{name: "another profile in its folder", src: "package PKG\n" + harnesstest.Quiet("ADV"),
			others: map[string]string{"strict/profile.json": `{"allowed_commands":"*"}`, "data.json": `{"profile":{"allowed_commands":"*"}}`},
			want:   "same"},
	}
}

// foreignNames try to be a rule, a document or a function that belongs to others.
func foreignNames() []adversary {
	const all = "if some e in input.effects"
	const shape = `load a.rego:9: rule "permit" must be a set`
	return []adversary{
		with("permit", "permit contains e.id "+all, `load a.rego:9: only layer "gate.builtin" may define rule "permit"`),
		with("permit as a complete rule", `permit := {e.id | some e in input.effects}`, shape),
		with("permit as a default", `default permit := set()`, shape),
		with("permit as a function", `permit(x) := x`, shape),
		with("permit as an object", `permit[e.id] := true `+all, shape),
		with("permit below", `permit.all contains e.id `+all, shape),
		with("builtin.permit", `builtin.permit contains e.id `+all, "same"),
		with("gate.builtin.permit", `gate.builtin.permit contains e.id `+all, "same"),
		with("data.gate.builtin.permit", `data.gate.builtin.permit contains e.id `+all, "load rules must not shadow data"),
		with("permit by import", "import input.effects as permit", "load import input.effects as permit unused"),
		with("names of the built-in rules", `blocked := set()
weighed := []
severity := {}
inside := {e.id | some e in input.effects}
runnable := inside
readable := inside
allows(_, _) := true
weight(_) := "note"`, "same"),
		with("rule input", `input := {}`, "load rules must not shadow input"),
		with("rule below input", `input.effects := []`, "load rules must not shadow input"),
		with("rule data", `data := {}`, "load rules must not shadow data"),
		with("rule data.profile", `data.profile := {}`, "load rules must not shadow data"),
		with("rule profile", `profile := {"allowed_commands": "*"}`, "same"),
		with("function startswith", `startswith(_, _) := true`, "same"),
		with("function object.get", `object.get(_, _, _) := "note"`, "same"),
		with("function equal", `equal(_, _) := true`, "same"),
		with("function internal.member_2", `internal.member_2(_, _) := true`, "same"),
		with("rule count", `count := 0`, "same"),
		rule("local deny", hard+`if { deny := input.mode; deny == "never" }`, "same"),
		rule("local permit", hard+`if { some permit in input.effects; permit.id == "never" }`, "same"),
		rule("local input", hard+`if { input := {}; input.mode }`, "load variables must not shadow input"),
		rule("local data", hard+`if { data := {}; data.mode }`, "load a policy sees data.profile and its own package | load neither data.profile nor"),
		rule("local data by some", hard+`if { some data in input.effects; data.id }`, "load a policy sees data.profile and its own package | load neither data.profile nor"),
		rule("argument input", hard+"if f({})\nf(input) if input.mode", "load args must not shadow input"),
		rule("argument data", hard+"if f({})\nf(data) if data.gate", "load a policy sees data.profile and its own package | load neither data.profile nor"),
	}
}

// foreignReferences try to see, or to replace, things that do not belong to the layer.
func foreignReferences() []adversary {
	const neither = "load is neither data.profile nor the module's own package"
	const reserved = "load must not be a reserved name"
	imports := func(name, line, body, want string) adversary {
		return module(name, "package PKG\nimport "+line+"\n"+harnesstest.Meta("ADV")+hard+"if "+body+"\n", want)
	}
	return []adversary{
		imports("import of the built-in layer", "data.gate.builtin", "builtin.deny", neither),
		imports("import of the permits", "data.gate.builtin.permit as p", "p", neither),
		imports("import of gate", "data.gate", "gate.builtin", neither),
		imports("import of data", "data", "data.gate", neither),
		imports("import of data under a name", "data as d", "d.gate", neither),
		imports("import as data", "input as data", "data.mode", reserved),
		imports("import as input", "data.profile as input", "input.name", reserved),
		imports("import of rego.v1 as data", "rego.v1 as data", "input.mode", reserved),
		imports("import as deny", "input.effects as deny", "deny", "refuse"),
		imports("import as count", "input.mode as count", `count == "never"`, "same"),
		imports("two imports of one name", "input.effects as x\nimport input.findings as x", "x", "load import must not shadow import"),
		imports("import of rego.v2", "rego.v2", "input.mode", "load not supported"),

		rule("the permits", hard+"if data.gate.builtin.permit", neither),
		rule("data by a variable", hard+"if data[_]", neither),
		rule("gate by a variable", hard+"if { some x; data.gate[x].permit }", neither),
		rule("gate by brackets", hard+`if data["gate"]["builtin"]["permit"]`, neither),
		rule("walk over data", hard+`if { walk(data, x); x }`, "load data"),
		rule("data in an array", hard+`if { x := [data]; x[0].gate }`, "load data"),
		rule("data as an argument", hard+"if f(data)\nf(x) if x.gate", "load data"),
		rule("data in a template", hard+"if $\"{data.gate.builtin.permit}\" != \"\"", neither),
		rule("its own package by a variable", hard+"if { some x; data.PKG[x] == 2 }", "load is recursive"),
		rule("its own package", hard+"if data.PKG", "load is recursive"),
		rule("its own rule", hard+"if data.PKG.x == 2\nx := 1", "same"),

		rule("with data.profile", hard+`if input.mode with data.profile as {"allowed_commands": "*"}`, `load "with" must not replace "data.profile"`),
		rule("with a member of data.profile", hard+`if input.mode with data.profile.severity as {}`, `load "with" must not replace`),
		rule("with the built-in denials", hard+`if input.mode with data.gate.builtin.deny as set()`, `load "with" must not replace "data.gate.builtin.deny"`),
		rule("with data", hard+`if input.mode with data as {}`, `load "with" must not replace "data"`),
		imports("with the imported profile", "data.profile", "profile.name with profile as {}", `same | load "with" must not replace | load data.profile is no value here`),
		imports("with a member of the profile by import", "data.profile.name as n", `n == "never" with n as "other"`, `same | load "with" must not replace`),
		imports("with its own imported rule", "data.PKG.x", "x with x as false\nx := true", `same | load "with" must not replace`),
		rule("with its own rule", hard+"if x with data.PKG.x as false\nx := true", `load "with" must not replace`),
		rule("variable of a head's own", strings.Replace(hard, `"m"`, `concat("", [__fiador_value, "x"])`, 1)+`if __fiador_value := "m"`, "error | refuse | load"),
		rule("rule of a head's own variable", strings.Replace(hard, `"m"`, "input.mode", 1)+"if input.mode\n__fiador_value := \"x\"", "error | refuse | load"),
		rule("with input", hard+"if x with input as {\"intent\": {\"context\": {\"never\": false}}, \"effects\": []}\nx if input.intent.context.never", "same"),
		rule("with the effects", hard+`if count(input.effects) > 0 with input.effects as []`, "same"),
		rule("with a function of its own", hard+"if count([]) > 0 with count as f\nf(_) := 0", "same"),
		rule("with a function that is left out", hard+`if count("x") > 0 with count as http.send`, "load a.rego:8: "),
	}
}

// wrongForms are rules that are no sets of objects with a literal id.
func wrongForms() []adversary {
	const shape = `rule "deny" must be a set`
	const id = `load a.rego:8: rule "deny": member "id" must be a literal string`
	const object = `load a.rego:8: rule "deny" must contain an object literal`
	return []adversary{
		with("deny as a default", "default deny := set()", "load a.rego:9: "+shape),
		with("deny twice, once complete", "deny := set()", "load a.rego:9: "+shape),
		with("clarify as a complete rule", "clarify := set()", `load rule "clarify" must be a set`),
		with("note as a complete rule", "note := set()", `load rule "note" must be a set`),
		module("deny as a complete rule", "package PKG\ndeny := set()\n", "load a.rego:2: "+shape),
		module("deny as a boolean", "package PKG\ndeny := false\n", "load a.rego:2: "+shape),
		module("deny as a function", "package PKG\ndeny(_) := false\n", "load a.rego:2: "+shape),
		module("deny as an object", "package PKG\ndeny[x] := 1 if x := input.mode\n", "load a.rego:2: "+shape),
		module("deny with a key", "package PKG\ndeny[x] if x := input.mode\n", "load a.rego:2: "+shape),
		module("deny below", "package PKG\ndeny.builtin contains 1\n", "load a.rego:2: "+shape),
		rule("deny with an else", hard+"if input.intent.context.never else := 1", "load else keyword cannot be used"),
		rule("deny with a value", strings.TrimSpace(hard)+" := 1 if input.mode", "load a.rego:8: "),
		rule("deny with two bodies", hard+"if { input.intent.context.never } { input.mode }", `load a second rule "deny" has the id "ADV"`),

		rule("id is a number", `deny contains {"id": 1, "path": "", "msg": "m"}`, id),
		rule("id is no literal", `deny contains {"id": concat("", ["A", "DV"]), "path": "", "msg": "m"}`, id),
		rule("id twice", `deny contains {"id": "ADV", "id": "WRITE_OUTSIDE_ROOT", "path": "", "msg": "m"}`, "load custom.id | load id"),
		rule("unknown member", `deny contains {"id": "ADV", "path": "", "msg": "m", "outcome": "BUNDLE"}`, `load unknown member "outcome"`),
		rule("permit as a member", `note contains {"id": "ADV", "path": "", "msg": "m", "permit": "all"}`, `load unknown member "permit"`),
		rule("member name is no literal", `deny contains {"id": "ADV", "path": "", "msg": "m", x: 1} if x := "fix"`, "load every member name must be a literal string"),
		rule("head is a comprehension", `deny contains {k: v | some k, v in {"id": "ADV", "path": "", "msg": "m"}}`, object),
		rule("head is a variable", `deny contains x if x := {"id": "ADV", "path": "", "msg": "m"}`, object),

		{name: "one id in two files", src: "package PKG\n" + harnesstest.Quiet("ADV"), others: map[string]string{"b.rego": "package PKG\n" + hard + "if input.mode\n"},
			want: `load b.rego:2: a second rule "deny" has the id "ADV"`},
		{name: "one record in two files", src: "package PKG\n" + harnesstest.Quiet("ADV"), others: map[string]string{"b.rego": "package PKG\n" + harnesstest.Meta("ADV") + `note contains {"id": "ADV", "path": "", "msg": "m"}`},
			want: `load b.rego:2: record "ADV" stands a second time`},
		{name: "rules in two files", src: "package PKG\n" + harnesstest.Quiet("ADV"), others: map[string]string{"b.rego": "package PKG\n" + harnesstest.Quiet("ADV2") + "x := 1\n", "c/d.rego": "package PKG\n" + harnesstest.Quiet("ADV3")}, want: "same"},
		with("one id twice in a file", hard+"if input.mode", `load a.rego:9: a second rule "deny" has the id "ADV"`),
		module("not without its import", "package PKG\n"+harnesstest.Meta("ADV")+hard+"if not input.intent.context.never\n", `load a.rego:7: "not" needs "import future.keywords.not"`),
		module("not without its import, deep down", "package PKG\n\n"+harnesstest.Quiet("ADV")+"x if { every e in [y | some y in [1]; not input.intent.context.never] { e } }\n", `load a.rego:9: "not" needs "import future.keywords.not"`),
		module("not without its import, in every", "package PKG\n\n"+harnesstest.Quiet("ADV")+"x := 1 if input.mode else := 2 if { every e in [1] { not e == 2 } }\n", `load a.rego:9: "not" needs "import future.keywords.not"`),
		{name: "not with the import of another file", src: "package PKG\nimport future.keywords.not\n" + harnesstest.Quiet("ADV"), others: map[string]string{"b.rego": "package PKG\n" + harnesstest.Quiet("ADV2") + "x if not y\ny if false\n"},
			want: `load b.rego:8: "not" needs "import future.keywords.not"`},
		with("record of no rule", harnesstest.Meta("OTHER")+"x := 1", `load no rule uses record "OTHER"`),
		module("no record", "package PKG\n"+hard+"if input.mode\n", `load has no METADATA with custom.id "ADV"`),
	}
}

// wrongAnswers load, because their faults show only when a rule answers.
func wrongAnswers() []adversary {
	const long = `sprintf("%02049d", [0])`
	return []adversary{
		rule("path is a number", `deny contains {"id": "ADV", "path": 1, "msg": "m"}`, `error member "path" is not a string`),
		rule("path is null", `deny contains {"id": "ADV", "path": null, "msg": "m"}`, `error member "path" is not a string`),
		rule("path leads nowhere", `deny contains {"id": "ADV", "path": "/actions/9999", "msg": "m"}`, `error path "/actions/9999" of ADV is no place in the intent`),
		rule("path is no pointer", `note contains {"id": "ADV", "path": "goal", "msg": "m"}`, `error path "goal" of ADV is no place in the intent`),
		rule("path into the input", `clarify contains {"id": "ADV", "path": "/intent/goal", "question": "q"}`, `error path "/intent/goal" of ADV`),
		rule("msg is a number", `deny contains {"id": "ADV", "path": "", "msg": 1}`, `error member "msg" is not a string`),
		rule("msg is a list", `note contains {"id": "ADV", "path": "", "msg": ["m"]}`, `error member "msg" is not a string`),
		rule("msg is empty", `note contains {"id": "ADV", "path": "", "msg": ""}`, `error member "msg" is empty`),
		rule("msg is undefined", `deny contains {"id": "ADV", "path": "", "msg": input.intent.context.never}`, `error member "msg" is undefined`),
		rule("msg has several values", `deny contains {"id": "ADV", "path": "", "msg": ["a", "b"][_]}`, `error member "msg" is undefined, or has several values`),
		rule("path is undefined", `note contains {"id": "ADV", "path": input.intent.context.never, "msg": "m"}`, `error member "path" is undefined`),
		rule("options are undefined", `clarify contains {"id": "ADV", "path": "", "question": "q", "options": [input.intent.context.never]}`, `error member "options" is undefined`),
		rule("fix is undefined in some", `deny contains {"id": "ADV", "path": e.pointer, "msg": "m", "fix": e.path} if some e in input.effects`, "tighter"),
		rule("fix is a number", `deny contains {"id": "ADV", "path": "", "msg": "m", "fix": 1}`, `error member "fix" is not a string`),
		rule("question is an object", `clarify contains {"id": "ADV", "path": "", "question": {}}`, `error member "question" is not a string`),
		rule("question is empty", `clarify contains {"id": "ADV", "path": "", "question": ""}`, `error member "question" is empty`),
		rule("options is a text", `clarify contains {"id": "ADV", "path": "", "question": "q", "options": "yes"}`, `error "options" is neither an array nor a set`),
		rule("options is an object", `clarify contains {"id": "ADV", "path": "", "question": "q", "options": {"yes": 1}}`, `error "options" is neither an array nor a set`),
		rule("an option is null", `clarify contains {"id": "ADV", "path": "", "question": "q", "options": [null]}`, "error an option is not a string"),

		rule("1000 notes", `note contains {"id": "ADV", "path": "", "msg": format_int(i, 10)} if { count(input.effects) == 2; some i in numbers.range(1, 1000) }`, "same"),
		rule("1001 notes", `note contains {"id": "ADV", "path": "", "msg": format_int(i, 10)} if { count(input.effects) == 2; some i in numbers.range(1, 1001) }`, "sometimes 1001 results; the limit is 1000"),
		rule("1001 denials", `deny contains {"id": "ADV", "path": "", "msg": format_int(i, 10)} if { count(input.effects) == 2; some i in numbers.range(1, 1001) }`, "sometimes 1001 results; the limit is 1000"),
		rule("1001 options", `clarify contains {"id": "ADV", "path": "", "question": "q", "options": {format_int(i, 10) | some i in numbers.range(1, 1001)}} if count(input.effects) == 2`, "sometimes 1001 options; the limit is 1000"),
		rule("msg of 2049 bytes", `note contains {"id": "ADV", "path": "", "msg": `+long+`}`, `error member "msg" has 2049 bytes`),
		rule("msg of 683 characters", `note contains {"id": "ADV", "path": "", "msg": replace(sprintf("%0683d", [0]), "0", "`+"\u20ac"+`")}`, `error member "msg" has 2049 bytes`),
		rule("fix of 2049 bytes", `deny contains {"id": "ADV", "path": "", "msg": "m", "fix": `+long+`}`, `error member "fix" has 2049 bytes`),
		rule("question of 2049 bytes", `clarify contains {"id": "ADV", "path": "", "question": `+long+`}`, `error member "question" has 2049 bytes`),
		rule("option of 2049 bytes", `clarify contains {"id": "ADV", "path": "", "question": "q", "options": [`+long+`]}`, `error member "options" has 2049 bytes`),
		rule("msg is not UTF-8", `note contains {"id": "ADV", "path": "", "msg": base64.decode("/w==")}`, `error member "msg" is not valid UTF-8`),
		rule("question is not UTF-8", `clarify contains {"id": "ADV", "path": "", "question": hex.decode("c328")}`, `error member "question" is not valid UTF-8`),
		rule("question with a noncharacter", `clarify contains {"id": "ADV", "path": "", "question": "a\uffff"}`, "tighter | error question"),
		rule("question with control characters", `clarify contains {"id": "ADV", "path": "", "question": "a\r\n\u001b[2Jb\u0000"}`, "ask | error question"),
	}
}

// failures are faults inside a rule, and rules that only look faulty.
func failures() []adversary {
	return []adversary{
		rule("to_number of a text", hard+`if to_number("abc") > 5`, `error a.rego:8: function "to_number" does not accept its operands`),
		rule("to_number of a text behind not", hard+`if not to_number("abc") > 5`, `error a.rego:8: function "to_number"`),
		rule("to_number of a text in a helper behind not", hard+"if not fine\nfine if to_number(input.mode) == 1", `error a.rego:9: function "to_number"`),
		rule("division by zero", hard+`if 1 / (count(input.mode) - count(input.mode)) > 1`, `error a.rego:8: function "div"`),
		rule("broken pattern", hard+`if regex.match("(", input.mode)`, `error a.rego:8: function "regex.match"`),
		rule("broken JSON", hard+`if json.unmarshal("{").x`, `error a.rego:8: function "json.unmarshal"`),
		rule("two values of a rule", hard+"if x == 3\nx := 1 if input.mode\nx := 2 if input.model_mode", "error two different values"),
		rule("two values of a function", hard+"if f(1) == 3\nf(_) := 1 if input.mode\nf(_) := 2 if input.model_mode", "error two different values"),
		rule("two values of a key", hard+"if x.a == 3\nx[\"a\"] := 1 if input.mode\nx[\"a\"] := 2 if input.model_mode", "error two different values"),
		rule("recursion", hard+"if x\nx if y\ny if x", "load a.rego:9: "),
		rule("recursion of a function", hard+"if f(1)\nf(x) if f(x + 1)", "load is recursive"),
		rule("recursion through deny", hard+"if count(deny) == 0", "load is recursive"),

		rule("not of a missing member", hard+`if not input.intent.context.never`, "refuse"),
		rule("not of a missing member of an effect", `deny contains {"id": "ADV", "path": e.pointer, "msg": "m"} if { some e in input.effects; not e.path }`, "tighter"),
		rule("else chain", hard+"if x == 3\nx := 1 if { input.intent.context.never } else := 2 if { input.mode == \"never\" } else := 4", "same"),
		rule("every over a missing member", hard+`if { every e in input.intent.context.never { e == 1 } }`, "same"),
		rule("every over nothing", hard+`if { every e in [] { e == 1 } }`, "refuse"),
		rule("not every over a missing member", hard+"if not x\nx if { every e in input.intent.context.never { e == 1 } }", "refuse"),
		rule("comprehension over a missing member", hard+`if count([x | x := input.intent.context.never[_]]) == 0`, "refuse"),
	}
}

// sourceTexts are modules that are hard to read.
func sourceTexts() []adversary {
	nested := func(open, inner, end string, n int) string {
		return "x := " + strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	return []adversary{
		module("empty", "", "load empty module | load must be gate."),
		module("comments alone", "# nothing\n", "load empty module | load must be gate."),
		module("package alone", "package PKG\n", "load defines none of permit, deny, clarify, note"),
		module("helpers alone", "package PKG\nx := 1\n", "load defines none of permit, deny, clarify, note"),
		module("tests alone", "package PKG\ntest_x if true\n", "load defines none of permit, deny, clarify, note"),
		{name: "empty second file", src: "package PKG\n" + harnesstest.Quiet("ADV"), others: map[string]string{"b.rego": ""}, want: "load b.rego: empty module"},
		{name: "helpers in a second file", src: "package PKG\n" + harnesstest.Quiet("ADV"), others: map[string]string{"b.rego": "package PKG\nx := 1\n"}, want: "load b.rego: module defines none"},
		with("arrays 3000 deep", nested("[", "", "]", 3000), "same"),
		with("arrays 60000 deep", nested("[", "", "]", 60000), "load max parsing recursion depth exceeded"),
		with("parentheses 3000 deep", nested("(", "1", ")", 3000), "same"),
		with("comprehensions 8 deep", nested("[1 | ", "true", "]", 8), "same"),
		with("references 2000 deep", nested("input.intent.context[", `"a"`, "]", 2000), "same"),
		// The parser has to skip a byte order mark. A layer whose first module names the
		// package is refused because of the mark.
		module("byte order mark", "\ufeffpackage PKG\n"+harnesstest.Quiet("ADV"), "same | load must be gate."),
		module("byte order mark within", "package PKG\n\ufeff"+harnesstest.Quiet("ADV"), "load illegal byte-order mark"),
		module("CRLF", strings.ReplaceAll("package PKG\n"+harnesstest.Quiet("ADV"), "\n", "\r\n"), "same"),
		module("CR", strings.ReplaceAll("package PKG\n"+harnesstest.Quiet("ADV"), "\n", "\r"), "load a.rego"),
		module("NUL", "package PKG\n\x00"+harnesstest.Quiet("ADV"), "load illegal null character"),
		module("not UTF-8", "package PKG\n# \xff\n"+harnesstest.Quiet("ADV"), "load illegal utf-8 character"),
		module("UTF-16", "\xff\xfep\x00a\x00c\x00k\x00a\x00g\x00e\x00", "load a.rego"),
		with("deny with a Cyrillic letter", "d\u0435ny contains 1", "load illegal token"),
		with("permit with a zero-width space", "permit\u200b contains 1", "load illegal token"),
	}
}

// imitations repeat what the built-in policy says, with another weight.
func imitations() []adversary {
	const all = "if some e in input.effects\n"
	return []adversary{
		module("note of a built-in id", "package PKG\n"+harnesstest.Meta("WRITE_OUTSIDE_ROOT")+`note contains {"id": "WRITE_OUTSIDE_ROOT", "path": e.pointer, "msg": "fine"} if { some e in input.effects; e.kind != "write" }`+"\n", "same"),
		module("note that equals a denial", "package PKG\n"+harnesstest.Meta("PATH_TRAVERSAL")+
			`note contains {"id": "PATH_TRAVERSAL", "path": f.path, "msg": sprintf("\"%s\" has a \"..\" segment", [f.value])} if { some f in input.findings; f.code == "path_traversal" }`+"\n", "same"),
		module("denial of a built-in id", "package PKG\n"+harnesstest.Meta("CMD_NOT_ALLOWED")+`deny contains {"id": "CMD_NOT_ALLOWED", "path": e.pointer, "msg": "no"} `+all, "tighter"),
		module("denial of the kernel's id", "package PKG\n"+harnesstest.Meta("NOT_PERMITTED")+`deny contains {"id": "NOT_PERMITTED", "path": e.pointer, "msg": "no"} `+all, "tighter"),
		module("question of the built-in policy at a lower priority", doneAgain(0)+
			`if { count(input.intent.constraints) + count(input.intent.actions) == 0; data.profile.severity.DONE_UNDEFINED == "clarify" }`+"\n", "same"),
		rule("denies always", `deny contains {"id": "ADV", "path": "/goal", "msg": "no"}`, "refuse"),
		rule("asks always", `clarify contains {"id": "ADV", "path": "/goal", "question": "sure?", "options": ["yes", "no"]}`, "ask"),
		rule("notes always", `note contains {"id": "ADV", "path": "/goal", "msg": "fine"}`, "same"),
	}
}

// doneAgain begins a rule with a question that the built-in policy asks in the same words.
func doneAgain(priority int) string {
	return fmt.Sprintf(`package PKG

# METADATA
# title: Nothing says what done means
# description: Without a constraint or an action nothing says when the goal is reached
# custom:
#   id: DONE_AGAIN
#   priority: %d
clarify contains {"id": "DONE_AGAIN", "path": "", "question": "What has to be true for the goal to be reached?"} `, priority)
}

// omittedFunctions call functions that no policy may call.
func omittedFunctions() []adversary {
	var list []adversary
	for _, call := range []string{
		`print("x")`, `trace("x")`, `http.send({"method": "get", "url": "http://localhost"})`, `time.now_ns()`, `rand.intn("x", 2)`,
		`opa.runtime()`, `json.match_schema({}, {})`, `json.verify_schema({})`, `net.lookup_ip_addr("localhost")`, `uuid.rfc4122("x")`,
		`io.jwt.decode_verify("x", {})`, `crypto.x509.parse_certificates("x")`, `strings.render_template("x", {})`,
		`bits.lsh(1, 64)`, `json.patch({}, [])`, `graph.reachable_paths({}, [])`, `time.date(0)`, `yaml.unmarshal("x")`,
		`rego.parse_module("x", "package x")`, `rego.metadata.rule()`, `internal.print([])`, `any([true])`, `re_match("a", "a")`, `nothing.here(1)`,
	} {
		name, _, _ := strings.Cut(call, "(")
		want := fmt.Sprintf("load a.rego:8: undefined function %q", name)
		list = append(list, rule("calls "+name, hard+"if "+call, want),
			rule("calls "+name+" behind not", hard+"if not x\nx if "+call, strings.Replace(want, ":8:", ":9:", 1)))
	}
	return list
}

// tally counts the results of the posed vectors under a gate.
type tally struct {
	total, errors, changed, refused int
	bundles, asked                  int // BUNDLEs of the built-in policy, and how many became CLARIFY
	message                         string
}

// is says whether the results are those of want.
func (n tally) is(want string) bool {
	kind, text, _ := strings.Cut(want, " ")
	switch kind {
	case "same":
		return n.changed+n.errors == 0
	case "ask":
		return n.errors == 0 && n.asked == n.bundles && n.changed == n.asked
	case "refuse":
		return n.refused == n.total
	case "tighter":
		return n.changed+n.errors > 0 && n.changed+n.errors < n.total
	case "sometimes":
		return n.errors > 0 && n.errors < n.total && n.changed == 0 && strings.Contains(n.message, text)
	case "error":
		return n.errors == n.total && strings.Contains(n.message, text)
	}
	return false
}

// hold decides posed vectors under a gate. It proves that no outcome is milder than that
// of the built-in policy alone, and that no finding, note or question of that policy is
// lost.
func hold(t *testing.T, gate *harness.Gate, list []posed) tally {
	t.Helper()
	var n tally
	for _, p := range list {
		n.total++
		if p.base.Outcome == kernel.OutcomeBundle {
			n.bundles++
		}
		d, err := p.decide(t, gate)
		if err != nil {
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != result.CodeInternal && re.Code != result.CodeProfile {
				t.Errorf("%s: error %v", p.Name, err)
				continue
			}
			n.errors++
			n.message = re.Message
			continue
		}
		if rank(d.Outcome) < rank(p.base.Outcome) {
			t.Errorf("%s: %s instead of %s", p.Name, d.Outcome, p.base.Outcome)
		}
		if d.Outcome == kernel.OutcomeRefuse {
			n.refused++
		}
		switch {
		case d.Outcome != p.base.Outcome:
			n.changed++
			if d.Outcome == kernel.OutcomeClarify {
				n.asked++
			}
		case !reflect.DeepEqual(builtinAlone(d.Findings), p.base.Findings):
			t.Errorf("%s: the built-in policy's findings are\n%+v\nwithout the layer\n%+v", p.Name, builtinAlone(d.Findings), p.base.Findings)
		case d.Outcome == kernel.OutcomeBundle && d.BundleHash != p.base.BundleHash:
			t.Errorf("%s: the bundle is another", p.Name)
		}
		if d.Outcome == p.base.Outcome && d.Outcome == kernel.OutcomeClarify {
			for _, q := range p.base.Bundle.UnresolvedQuestions {
				if !slices.ContainsFunc(d.Bundle.UnresolvedQuestions, func(r kernel.Question) bool {
					return r.ID == q.ID && r.Priority >= q.Priority && len(missing(q.Options, r.Options)) == 0
				}) {
					t.Errorf("%s: the question %q, its priority or an option of it is lost", p.Name, q.Text)
				}
			}
		}
		if !reflect.DeepEqual(builtinAlone(d.Notes), p.base.Notes) {
			t.Errorf("%s: the built-in policy's notes are\n%+v\nwithout the layer\n%+v", p.Name, builtinAlone(d.Notes), p.base.Notes)
		}
	}
	return n
}

// builtinAlone returns the results of the built-in policy and the kernel. The list is nil
// if they have none, as without another layer.
func builtinAlone(list []kernel.Result) []kernel.Result {
	var out []kernel.Result
	for _, r := range list {
		if r.Module == policy.Builtin || r.Module == kernel.ModuleKernel {
			out = append(out, r)
		}
	}
	return out
}

func missing(list, from []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(from, s) })
}

// checkProvenance proves that a layer beside a built-in profile changes neither the
// profile's limits nor the digests of what decides. It also proves that the provenance has
// the layer itself.
func (s *stage) checkProvenance(t *testing.T, gate *harness.Gate, profile, kind string) {
	t.Helper()
	base := s.Gates[profile]
	p := gate.Profile
	p.Name = base.Profile.Name
	if !reflect.DeepEqual(p, base.Profile) || kind != "user" && gate.Provenance.ProfileSHA256 != base.Provenance.ProfileSHA256 {
		t.Errorf("profile is\n%+v\nwithout the layer\n%+v", gate.Profile, base.Profile)
	}
	if gate.Provenance.Limits != base.Provenance.Limits || gate.Provenance.CapabilitiesSHA256 != base.Provenance.CapabilitiesSHA256 {
		t.Errorf("provenance is\n%+v\nwithout the layer\n%+v", gate.Provenance, base.Provenance)
	}
	var builtin, others []result.ModuleDigest
	for _, m := range gate.Provenance.Modules {
		if strings.HasPrefix(m.Name, kind+"/adv/") {
			others = append(others, m)
		} else {
			builtin = append(builtin, m)
		}
	}
	if !reflect.DeepEqual(builtin, base.Provenance.Modules) || len(others) == 0 {
		t.Errorf("modules are\n%v\nwithout the layer\n%v", gate.Provenance.Modules, base.Provenance.Modules)
	}
	list := s.posed[profile]
	for i := 0; i < len(list); i += 60 {
		rep, err := s.runOn(t, gate, list[i].Vector)
		if err != nil {
			continue
		}
		if !reflect.DeepEqual(rep.Result.Policy, gate.Profile.Contract()) || !reflect.DeepEqual(rep.Result.PolicyProvenance, gate.Provenance) {
			t.Errorf("%s: the result has the policy\n%+v %+v", list[i].Name, rep.Result.Policy, rep.Result.PolicyProvenance)
		}
	}
}

// loadRefused fails the test unless want allows the error at load.
func loadRefused(t *testing.T, err error, want string) {
	t.Helper()
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeProfile {
		t.Fatalf("error %v", err)
	}
	for w := range strings.SplitSeq(want, " | ") {
		if text, ok := strings.CutPrefix(w, "load "); ok && strings.Contains(re.Message, text) {
			return
		}
	}
	t.Errorf("error %q, want %q", re.Message, want)
}

// TestLayersOnlyTighten loads every adversary in the three ways and tests it with all
// vectors, each profile in another way. The one vector with 10001 effects takes as long as
// all others together, so only every sixth adversary is tested with it. The short form
// tests an adversary with one profile instead of three.
func TestLayersOnlyTighten(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	s := newStage(t)
	list := adversaries()
	posedTotal := 0
	for _, p := range s.posed {
		posedTotal += len(p)
	}
	if len(list) < 150 || posedTotal < 400 {
		t.Fatalf("%d adversaries, %d vectors", len(list), posedTotal)
	}
	for i, a := range list {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for j, profile := range profiles.Names() {
				if !rehearsal.Full() && j != i%3 {
					continue
				}
				kind := kinds()[(i+j)%3]
				gate, err := harness.OpenGate(t.Context(), beside(kind, profile, a.files), s.Specs, harnesstest.Endless())
				if err != nil {
					loadRefused(t, err, a.want)
					continue
				}
				s.checkProvenance(t, gate, profile, kind)
				n := hold(t, gate, slices.DeleteFunc(slices.Clone(s.posed[profile]), func(p posed) bool {
					return i%rehearsal.Count(24, 6) > 0 && len(p.in.Effects) > 2000
				}))
				if n.total == 0 || !slices.ContainsFunc(strings.Split(a.want, " | "), n.is) {
					t.Errorf("as %s beside %s: %+v, want %q", kind, profile, n, a.want)
				}
			}
		})
	}
}

// TestLayersKeepErrors: an error without a layer is the same error with a layer, whatever
// the layer says. An intent that is allowed but cannot be executed may be refused or asked
// about instead.
func TestLayersKeepErrors(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	s := newStage(t)
	if len(s.early) < 150 {
		t.Fatalf("%d vectors", len(s.early))
	}
	base := make([]string, len(s.early))
	for i, v := range s.early {
		_, err := s.Run(t, v)
		base[i] = line(t, err)
	}
	for i, a := range imitations()[5:] {
		kind, gates := kinds()[i], map[string]*harness.Gate{}
		for _, profile := range profiles.Names() {
			gates[profile] = s.open(t, beside(kind, profile, a.files))
		}
		for j, v := range s.early {
			if gates[v.Profile] == nil {
				_, err := harness.OpenGate(t.Context(), beside("org", v.Profile, a.files), s.Specs, harnesstest.Endless())
				if line(t, err) != base[j] {
					t.Errorf("%s: error %v, without the layer %s", v.Name, err, base[j])
				}
				continue
			}
			rep, err := s.runOn(t, gates[v.Profile], v)
			if want := strings.ReplaceAll(base[j], `\"`+v.Profile+`\"`, `\"`+gates[v.Profile].Profile.Name+`\"`); rep.Bytes != nil || line(t, err) != want {
				t.Errorf("%s, %s as %s: %s, without the layer %s", v.Name, a.name, kind, line(t, err), want)
			}
		}
		for profile, list := range s.posed {
			for _, p := range list {
				if p.Expect.Error != result.CodeSandbox {
					continue
				}
				rep, err := s.runOn(t, gates[profile], p.Vector)
				notes := a.name == "notes always"
				if notes != (err != nil && strings.Contains(line(t, err), string(result.CodeSandbox))) || !notes && rep.Result.KernelResultKind == kernel.OutcomeBundle {
					t.Errorf("%s, %s as %s: %s, error %v", p.Name, a.name, kind, rep.Result.KernelResultKind, err)
				}
			}
		}
	}
}

func line(t *testing.T, err error) string {
	t.Helper()
	var re *result.RunError
	if !errors.As(err, &re) {
		t.Fatalf("error %v", err)
	}
	return string(re.Line())
}

// TestLayersTogether has layers of all three kinds at once: the answers of each layer
// stand beside those of the others.
func TestLayersTogether(t *testing.T) {
	s := newStage(t)
	src := func(kind, head string) func(string) fstest.MapFS {
		id := strings.ToUpper(kind)
		return rule("", strings.ReplaceAll(head, "ADV", id), "").filesAs("ADV", id)
	}
	all := beside("user", "strict", src("user", `note contains {"id": "ADV", "path": "", "msg": "m"}`))
	all.Org = beside("org", "strict", src("org", `clarify contains {"id": "ADV", "path": "", "question": "q"}`)).Org
	all.Repo = beside("repo", "strict", src("repo", hard+`if startswith(input.intent.goal, "b")`)).Repo
	gate := s.open(t, all)
	n := hold(t, gate, s.posed["strict"])
	if n.errors > 0 || n.changed < n.bundles || n.refused == n.total {
		t.Errorf("%+v", n)
	}
	for _, p := range s.posed["strict"] {
		d, err := p.decide(t, gate)
		if err != nil {
			t.Fatal(err)
		}
		denied := strings.HasPrefix(p.in.Intent.(map[string]any)["goal"].(string), "b")
		if slices.Contains(d.Reasons, "REPO ") != denied || slices.Contains(d.Reasons, "ORG ") != (d.Outcome == kernel.OutcomeClarify) || len(d.Notes) != len(p.base.Notes)+1 {
			t.Errorf("%s: %s for %q, notes %+v", p.Name, d.Outcome, d.Reasons, d.Notes)
		}
	}
}

// filesAs returns the adversary's files with another text in them.
func (a adversary) filesAs(old, text string) func(string) fstest.MapFS {
	a.src = strings.ReplaceAll(a.src, old, text)
	return a.files
}

// TestSlowLayerIsNoVerdict: a layer that does not end gives no decision.
func TestSlowLayerIsNoVerdict(t *testing.T) {
	s := newStage(t)
	slow := rule("", hard+`if { some a in numbers.range(1, 1000); some b in numbers.range(1, 1000); some c in numbers.range(1, 1000); a * b * c == 0 }`, "")
	limits := harnesstest.Endless()
	limits.Deadline, limits.Grace = 50*time.Millisecond, time.Hour
	gate, err := harness.OpenGate(t.Context(), beside("repo", "dev", slow.files), s.Specs, limits)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.posed["dev"][:3] {
		rep, err := s.runOn(t, gate, p.Vector)
		if rep.Bytes != nil || !strings.Contains(line(t, err), "RUN_E007") || !strings.Contains(line(t, err), "evaluating the policy took longer than") {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// TestGeneratedLayersOnlyTighten does the same as TestLayersOnlyTighten for layers that a
// grammar gives. Most of them load, and many of the loaded layers change decisions.
// Intents with very many effects are left out, because two rules that multiply each other
// would take minutes.
func TestGeneratedLayersOnlyTighten(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	s := newStage(t)
	const group, most = 16, 352
	layers := rehearsal.Count(3*group, most)
	tallies := make([]tally, layers)
	refused := make([]bool, layers)
	t.Run("all", func(t *testing.T) {
		for from := 0; from < layers; from += group {
			t.Run(fmt.Sprint(from), func(t *testing.T) {
				t.Parallel()
				for i := from; i < from+group; i++ {
					g := grammar{r: rand.New(rand.NewPCG(7, uint64(i)))}
					a := adversary{src: g.layer()}
					kind, profile := kinds()[i%3], profiles.Names()[i/3%3]
					gate, err := harness.OpenGate(t.Context(), beside(kind, profile, a.files), s.Specs, harnesstest.Endless())
					if err != nil {
						var re *result.RunError
						if !errors.As(err, &re) || re.Code != result.CodeProfile || re.Details["file"] != "shown/a.rego" || re.Details["line"] == nil {
							t.Errorf("layer %d: error %v\n%s", i, err, a.src)
						}
						refused[i] = true
						continue
					}
					var sample []posed
					for j := i % 8; j < len(s.posed[profile]); j += 8 {
						if p := s.posed[profile][j]; len(p.in.Effects) < 300 {
							sample = append(sample, p)
						}
					}
					tallies[i] = hold(t, gate, sample)
					if t.Failed() {
						t.Fatalf("layer %d as %s beside %s:\n%s", i, kind, profile, a.src)
					}
				}
			})
		}
	})
	var sum struct{ loaded, refused, errors, changed, same, vectors int }
	for i, n := range tallies {
		sum.vectors += n.total
		switch {
		case refused[i]:
			sum.refused++
			continue
		case n.errors > 0:
			sum.errors++
		case n.changed > 0:
			sum.changed++
		default:
			sum.same++
		}
		sum.loaded++
	}
	t.Logf("%+v", sum)
	few := func(n, least int) bool { return n*most < least*layers }
	if few(sum.loaded, 250) || few(sum.refused, 20) || few(sum.errors, 40) || few(sum.changed, 60) || few(sum.same, 40) {
		t.Errorf("the generated layers are too much alike: %+v", sum)
	}
}

// TestExtendsIsNeverSofter decides vectors under profiles that extend a built-in one.
// Whatever they take away, no outcome is milder than under the built-in profile.
func TestExtendsIsNeverSofter(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	s := newStage(t)
	all := []string{
		`"allowed_commands":["node"]`, `"allowed_commands":["npx","npm","bash","node"]`, `"allowed_write_roots":["out/a","dist"]`, `"allowed_write_roots":["build"]`,
		`"risk_tags":["mine","destructive"]`, `"risk_tags":[]`, `"model_adapters":[]`, `"timeout_ms":1000`, `"timeout_ms":600000`, `"max_output_files":1`,
		`"severity":{"PLACEHOLDER":"deny","RISK_REVIEW":"note"}`, `"severity":{"WRITE_TWICE":"deny","SHELL_COMMAND":"clarify","DONE_UNDEFINED":"note"}`,
		`"severity":{"INLINE_CODE":"note","CMD_WRAPPER":"note","SHELL_COMMAND":"note","CONTRADICTION":"note"}`,
		`"severity":{"RISK_REVIEW":"deny","INPUT_WRITTEN":"clarify","OUTPUT_UNPRODUCED":"clarify"}`, `"allow_network":true`, `"execution_modes":["plan-only"]`,
		`"model_modes":["none"]`, `"memory_mb":4096`, `"max_children":0`, `"cpu_cores":4`, `"isolation":"none"`, `"isolation":"full"`,
	}
	changed, vectors := 0, 0
	const most = 36
	layers := rehearsal.Count(12, most)
	for i := range layers {
		r := rand.New(rand.NewPCG(3, uint64(i)))
		extends := profiles.Names()[i%3]
		members := []string{`"name":"mine"`, `"extends":"` + extends + `"`}
		given := map[string]bool{}
		for _, m := range r.Perm(len(all))[:1+r.IntN(6)] {
			if name, _, _ := strings.Cut(all[m], ":"); !given[name] {
				given[name] = true
				members = append(members, all[m])
			}
		}
		if extends == "dev" && r.IntN(2) == 0 {
			members = append(members, `"env_allow":["CI"]`)
		}
		json := "{" + strings.Join(members, ",") + "}"
		files := fstest.MapFS{harness.ProfileFile: {Data: []byte(json)}}
		gate := s.open(t, harness.Sources{Builtin: profiles.FS(), User: &policy.Folder{FS: files, Dir: "."}, File: harness.ProfileFile})
		if wider := gate.Profile.WiderThan(s.Gates[extends].Profile); wider != nil {
			t.Errorf("%s is wider by %v", json, wider)
		}
		for j := i % 2; j < len(s.posed[extends]); j += 2 {
			p := s.posed[extends][j]
			if len(p.in.Effects) > 2000 {
				continue
			}
			d, err := p.decide(t, gate)
			if err != nil && p.base.Outcome == kernel.OutcomeRefuse && strings.Contains(err.Error(), "results; the limit is") {
				continue // more is denied than a policy may say: no decision, which is not softer
			}
			if err != nil || rank(d.Outcome) < rank(p.base.Outcome) {
				t.Errorf("%s: %s under %s, %s under %s (error %v)", p.Name, d.Outcome, json, p.base.Outcome, extends, err)
			}
			vectors++
			if d.Outcome != p.base.Outcome {
				changed++
			}
		}
	}
	if changed*most < 100*layers || changed > vectors/2 {
		t.Errorf("%d of %d decisions are others", changed, vectors)
	}
}

// A grammar composes the text of a layer from choices of r.
type grammar struct {
	r     *rand.Rand
	leaf  bool // in a helper, which calls no other helper
	depth int
	bound []binding
	vars  int
}

// A binding is a variable of a rule's body, with its kind: effect, finding, action or
// text.
type binding struct{ name, kind string }

func (g *grammar) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *grammar) chance(percent int) bool { return g.r.IntN(100) < percent }

// layer returns one to four rules, the helpers that they call, and now and then something
// that no layer may have.
func (g *grammar) layer() string {
	var b strings.Builder
	b.WriteString("package PKG\n\n")
	if g.chance(94) {
		b.WriteString("import future.keywords.not\n\n")
	}
	for i := range 1 + g.r.IntN(4) {
		id := g.pick("GEN", "WRITE_OUTSIDE_ROOT", "PLACEHOLDER", "NOT_PERMITTED", "CMD_NOT_ALLOWED") + "_" + fmt.Sprint(i)
		b.WriteString(harnesstest.Meta(id) + g.rule(g.pick("deny", "deny", "clarify", "note"), id) + "\n\n")
	}
	b.WriteString(g.helpers())
	if g.chance(12) {
		b.WriteString(g.pick(
			"permit contains e.id if some e in input.effects",
			"default deny := set()",
			"deny := set()",
			"x := data.gate.builtin.permit",
			"x if input.mode with data.profile as {}",
			"x := data",
			"input := {}",
			`x := http.send({"method": "get", "url": "http://localhost"})`,
			"x := data.profile.allowed_everything",
			"x := input.effects[_].allowed",
		) + "\n")
	}
	return b.String()
}

// helpers returns one helper of each sort that a literal may call.
func (g *grammar) helpers() string {
	g.bound, g.depth, g.leaf = nil, 1, true
	var b strings.Builder
	fmt.Fprintf(&b, "h1 if %s\n\n", g.body(false))
	fmt.Fprintf(&b, "h2 contains e.id if {\n\tsome e in input.effects\n\t%s\n}\n\n", g.literal())
	fmt.Fprintf(&b, "f1(x) if %s\n\n", g.pick(`startswith(x, "out")`, `x in data.profile.risk_tags`, `count(x) > 5`, "not x == input.mode", `to_number(x) > 0`))
	fmt.Fprintf(&b, "c1 := %s\n\n", g.pick("1", `"a"`, "{x | x := input.effects[_].kind}", "count(input.findings)"))
	if g.chance(15) {
		fmt.Fprintf(&b, "c1 := 2 if %s\n\n", g.literal())
	}
	return b.String()
}

func (g *grammar) rule(name, id string) string {
	g.bound, g.depth = nil, 0
	body := ""
	if g.chance(85) {
		body = " if " + g.body(true)
	}
	members := fmt.Sprintf(`"id": %q, "path": %s, `, id, g.path())
	if name == "clarify" {
		members += `"question": ` + g.message()
		if g.chance(40) {
			members += `, "options": ` + g.pick(`["yes", "no"]`, `{"a"}`, `[]`, `input.intent.constraints`, `{x | some x in input.intent.inputs}`, `[1]`)
		}
	} else {
		members += `"msg": ` + g.message()
		if name == "deny" && g.chance(30) {
			members += `, "fix": ` + g.message()
		}
	}
	return name + " contains {" + members + "}" + body
}

// body binds up to two variables and tests them or the input.
func (g *grammar) body(bind bool) string {
	var lines []string
	if bind {
		for range g.r.IntN(3) {
			g.vars++
			v := binding{name: fmt.Sprintf("v%d", g.vars)}
			list := ""
			switch g.r.IntN(5) {
			case 0, 1:
				v.kind, list = "effect", "input.effects"
			case 2:
				v.kind, list = "finding", "input.findings"
			case 3:
				v.kind, list = "action", "input.intent.actions"
			default:
				v.kind, list = "text", g.pick("input.intent.constraints", "input.intent.inputs", "input.intent.outputs", "data.profile.risk_tags", "data.profile.execution_modes")
			}
			lines = append(lines, "some "+v.name+" in "+list)
			g.bound = append(g.bound, v)
		}
		for _, v := range g.bound {
			if v.kind != "text" && v.kind != "finding" && g.chance(60) {
				lines = append(lines, v.name+".kind == "+g.pick(`"write"`, `"run"`, `"read"`, v.name+".kind"))
			} else {
				lines = append(lines, "is_string("+g.textOf(v)+")")
			}
		}
	}
	for range 1 + g.r.IntN(2) {
		lines = append(lines, g.literal())
	}
	return "{\n\t" + strings.Join(lines, "\n\t") + "\n}"
}

func (g *grammar) literal() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 4 {
		return "input.mode != " + g.text()
	}
	g.vars++
	v := fmt.Sprintf("w%d", g.vars)
	sort := g.r.IntN(16)
	if g.leaf && (sort == 3 || sort == 7 || sort == 9) {
		sort = 0
	}
	switch sort {
	case 0, 1:
		return g.text() + g.pick(" == ", " != ", " < ", " >= ") + g.text()
	case 2:
		return g.pick("startswith", "endswith", "contains") + "(" + g.text() + ", " + g.text() + ")"
	case 3:
		return "not " + g.literal2()
	case 4:
		return "every " + v + " in " + g.list() + " { " + g.pick(v+" != "+g.text(), "startswith("+v+", "+g.text()+")") + " }"
	case 5:
		return "count([1 | some " + v + " in " + g.list() + "; " + v + " == " + g.text() + "]) " + g.pick("> 0", "== 0", "< 3")
	case 6:
		return g.text() + " in " + g.list()
	case 7:
		return g.pick("h1", "not h1", "count(h2) > 0", "f1("+g.text()+")", "not f1("+g.text()+")", "c1 != 3")
	case 8:
		return "input.mode == " + g.text() + " with input.mode as " + g.text()
	case 9:
		return `h1 with input as {"intent": {"goal": ` + g.text() + `, "constraints": [], "context": {}, "actions": [], "inputs": [], "outputs": []}, "effects": [], "findings": [], "mode": "x", "model_mode": "none"}`
	case 10:
		return g.pick("to_number("+g.text()+") > 0", "json.unmarshal("+g.text()+") == 1", "regex.match("+g.text()+", "+g.text()+")", "1 / count("+g.list()+") == 1")
	case 11:
		return "object.get(input.intent.context, " + g.text() + ", " + g.text() + ") != " + g.text()
	case 12:
		return g.pick("input.intent.context.never", "not input.intent.context.never", "not data.profile.allow_network", "data.profile.timeout_ms > 60000")
	case 13:
		return "count(" + g.list() + g.pick(") > 1", ") == 0", ") < 100")
	case 14:
		return `walk(input.intent, [_, ` + g.text() + "])"
	default:
		return g.pick("input.effects[0].kind == ", "input.findings[0].code == ", "input.intent.actions[_].kind == ", "input.intent.goal == ") + g.text()
	}
}

// literal2 returns a literal that can stand after not.
func (g *grammar) literal2() string {
	return g.pick("input.intent.context.never", "startswith("+g.text()+", "+g.text()+")", g.text()+" in "+g.list(), "h1", "f1("+g.text()+")",
		"input.effects[0].path", "input.intent.actions[0].argv[1]", "to_number("+g.text()+") == 1")
}

func (g *grammar) text() string {
	if len(g.bound) > 0 && g.chance(50) {
		return g.textOf(g.bound[g.r.IntN(len(g.bound))])
	}
	return g.pick(`"write"`, `"run"`, `"out"`, `""`, `"a"`, `"1"`, `"plan-only"`, "input.mode", "input.intent.goal", "data.profile.name",
		"input.intent_sha256", `lower(input.intent.goal)`, `sprintf("%d", [count(input.effects)])`, `concat("/", ["out", "a"])`)
}

func (g *grammar) textOf(v binding) string {
	switch v.kind {
	case "effect":
		return v.name + g.pick(".id", ".kind", ".pointer", ".path", ".command")
	case "finding":
		return v.name + g.pick(".code", ".path", ".value", ".other", ".effect")
	case "action":
		return v.name + g.pick(".kind", ".path", ".risk_level", ".id", ".argv[0]")
	}
	return v.name
}

func (g *grammar) list() string {
	return g.pick("input.intent.constraints", "input.intent.inputs", "input.intent.outputs", `["out", "a", ""]`, "data.profile.risk_tags",
		"[x | x := input.effects[_].path]", "[x | x := input.findings[_].code]", `[input.mode]`, "input.intent.context.never")
}

// path returns a path that leads into the intent most of the time.
func (g *grammar) path() string {
	if len(g.bound) > 0 {
		switch v := g.bound[0]; v.kind {
		case "effect":
			return v.name + ".pointer"
		case "finding":
			return v.name + ".path"
		}
	}
	if g.chance(6) {
		return g.pick(`"/actions/0"`, `"goal"`, `"/none"`, "1")
	}
	return g.pick(`""`, `"/goal"`, `"/context"`, `"/effects"`, `"/constraints"`)
}

func (g *grammar) message() string {
	if g.chance(4) {
		return g.pick("1", "null", `""`, "input.intent.context.never", `sprintf("%02049d", [0])`)
	}
	if len(g.bound) > 0 && g.chance(30) {
		return `sprintf("about %s", [` + g.text() + "])"
	}
	return g.pick(`"m"`, `"What has to be true for the goal to be reached?"`, `input.mode`, `concat(" ", ["is", input.mode])`)
}
