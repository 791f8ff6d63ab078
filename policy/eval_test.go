package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// builtin returns a layer of one module in package gate.builtin.
func builtin(src string) Layer {
	return Layer{Package: Builtin, Modules: []Module{{Name: "builtin/test.rego", Source: []byte("package gate.builtin\n" + src)}}}
}

func TestEvalErrors(t *testing.T) {
	full := func(rule, id, members string) string {
		return head0 + record(id) + rule + ` contains {"id": "` + id + `", ` + members + "} if input.mode\n"
	}
	long := `concat("", [x | some _ in numbers.range(1, 2049); x := "a"])`
	tests := []struct {
		name  string
		layer Layer
		kind  Kind
		want  string
	}{
		{"path is a number", user(full("deny", "A_RULE", `"path": 1, "msg": "m"`)), KindEval, `member "path" is not a string`},
		{"path without a slash", user(full("deny", "A_RULE", `"path": "goal", "msg": "m"`)), KindEval, `path "goal" of A_RULE is no place in the intent`},
		{"path to nothing", user(full("deny", "A_RULE", `"path": "/actions/9", "msg": "m"`)), KindEval, `path "/actions/9"`},
		{"path with a leading zero", user(full("deny", "A_RULE", `"path": "/actions/00", "msg": "m"`)), KindEval, `path "/actions/00"`},
		{"path behind a text", user(full("deny", "A_RULE", `"path": "/goal/0", "msg": "m"`)), KindEval, `path "/goal/0"`},
		{"path to the end of a list", user(full("deny", "A_RULE", `"path": "/actions/-", "msg": "m"`)), KindEval, `path "/actions/-"`},
		{"path with a bad escape", user(full("deny", "A_RULE", `"path": "/context/~2", "msg": "m"`)), KindEval, `path "/context/~2"`},
		{"msg is an object", user(full("deny", "A_RULE", `"path": "", "msg": {"a": 1}`)), KindEval, `member "msg" is not a string`},
		{"msg is empty", user(full("note", "A_RULE", `"path": "", "msg": ""`)), KindEval, `member "msg" is empty`},
		{"msg of 2049 bytes", user(full("deny", "A_RULE", `"path": "", "msg": `+long)), KindLimit, `member "msg" has 2049 bytes; the limit is 2048`},
		{"question of 2049 bytes", user(full("clarify", "A_RULE", `"path": "", "question": `+long)), KindLimit, `member "question" has 2049 bytes`},
		{"option of 2049 bytes", user(full("clarify", "A_RULE", `"path": "", "question": "q", "options": [`+long+`]`)), KindLimit, `member "options" has 2049 bytes`},
		{"fix of 2049 bytes", user(full("deny", "A_RULE", `"path": "", "msg": "m", "fix": `+long)), KindLimit, `member "fix" has 2049 bytes`},
		{"msg is not utf-8", user(full("deny", "A_RULE", `"path": "", "msg": base64.decode("/w==")`)), KindEval, `member "msg" is not valid UTF-8`},
		{"options is a text", user(full("clarify", "A_RULE", `"path": "", "question": "q", "options": "a"`)), KindEval, `"options" is neither an array nor a set`},
		{"an option is a number", user(full("clarify", "A_RULE", `"path": "", "question": "q", "options": [1]`)), KindEval, "an option is not a string"},
		{"1001 options", user(full("clarify", "A_RULE", `"path": "", "question": "q", "options": [x | some i in numbers.range(1, 1001); x := format_int(i, 10)]`)), KindLimit, "1001 options; the limit is 1000"},
		{"1001 options of two rules that ask alike", user(head0 + record("A_RULE") + `clarify contains {"id": "A_RULE", "path": "", "question": "q", "options": [x | some i in numbers.range(1, 501); x := format_int(i, 10)]}
` + described(record("B_RULE"), "Reason of A_RULE") + `clarify contains {"id": "B_RULE", "path": "/goal", "question": "q", "options": [x | some i in numbers.range(501, 1001); x := format_int(i, 10)]}`), KindLimit, `the question "q" has 1001 options; the limit is 1000`},
		{"a description of 8193 characters", user(head0 + described(record("A_RULE"), strings.Repeat("\u00e9", 8193)) + `clarify contains {"id": "A_RULE", "path": "", "question": "q"}`), KindLimit, `the description of A_RULE has 8193 characters; the limit is 8192`},
		{"1001 results", user(head0 + record("A_RULE") + `note contains {"id": "A_RULE", "path": "", "msg": format_int(i, 10)} if some i in numbers.range(1, 1001)`), KindLimit, "1001 results; the limit is 1000"},
		{"1001 results of three rules", user(head0 + record("A_RULE") + `note contains {"id": "A_RULE", "path": "", "msg": format_int(i, 10)} if some i in numbers.range(1, 500)
deny contains {"id": "A_RULE", "path": "", "msg": format_int(i, 10)} if some i in numbers.range(1, 500)
clarify contains {"id": "A_RULE", "path": "", "question": "q"}`), KindLimit, "1001 results"},

		{"permit that names no effect", builtin(`permit contains "run:/actions/7"`), KindEval, `"run:/actions/7" names no effect`},
		{"permit that is no text", builtin(`permit contains 1`), KindEval, `rule "permit": an answer is not a string`},
		{"permit that is an effect", builtin(`permit contains e if some e in input.effects`), KindEval, "an answer is not a string"},

		{"built-in error", user(head0 + deny("A_RULE", `to_number("abc") > 5`)), KindEval, `user/test.rego:11: function "to_number" does not accept its operands`},
		{"built-in error behind not", user(head0 + deny("A_RULE", `not json.unmarshal("{") == 1`)), KindEval, `function "json.unmarshal"`},
		{"division by zero", user(head0 + deny("A_RULE", `1 / (count(input.mode) - count(input.mode)) > 0`)), KindEval, "user/test.rego:11: "},
		{"two values of a rule", user(head0 + deny("A_RULE", "x == 1") + "x := 1 if input.mode\nx := 2 if input.model_mode\n"), KindEval, "user/test.rego:15: a rule or function has two different values"},
		{"two values of a function", user(head0 + deny("A_RULE", "f(1) == 1") + "f(x) := x if input.mode\nf(x) := x + 1 if input.mode\n"), KindEval, "two different values"},
		{"two values of a key", user(head0 + deny("A_RULE", `x.a == 1`) + "x[\"a\"] := 1 if input.mode\nx[\"a\"] := 2 if input.model_mode\n"), KindEval, "two different values"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := newEngine(t, test.layer)
			v, err := e.Eval(context.Background(), testInput(t))
			asError(t, err, test.kind, test.want)
			if !reflect.DeepEqual(v, kernel.Verdict{}) {
				t.Errorf("a verdict stands beside the error: %+v", v)
			}
		})
	}
}

// described returns a record with another description.
func described(record, as string) string {
	before, after, _ := strings.Cut(record, "# description: ")
	_, after, _ = strings.Cut(after, "\n")
	return before + "# description: " + as + "\n" + after
}

// TestEvalLimitsHold reaches exactly every limit that TestEvalErrors exceeds.
func TestEvalLimitsHold(t *testing.T) {
	e := newEngine(t, user(head0+record("A_RULE")+`note contains {"id": "A_RULE", "path": "", "msg": format_int(i, 10)} if some i in numbers.range(1, 995)
`+record("B_RULE")+`deny contains {"id": "B_RULE", "path": "", "msg": s, "fix": s} if s := concat("", [x | some _ in numbers.range(1, 2048); x := "a"])
`+record("C_RULE")+`clarify contains {"id": "C_RULE", "path": "", "question": "q", "options": [x | some i in numbers.range(1, 1000); x := format_int(i, 10)]}
`+described(record("D_RULE"), "Reason of C_RULE")+`clarify contains {"id": "D_RULE", "path": "", "question": "q", "options": [x | some i in numbers.range(500, 1000); x := format_int(i, 10)]}
`+described(record("E_RULE"), strings.Repeat("\u00e9", 8192))+`clarify contains {"id": "E_RULE", "path": "", "question": "q", "options": [x | some i in numbers.range(1001, 2000); x := format_int(i, 10)]}
`+record("F_RULE")+`note contains {"id": "F_RULE", "path": "", "msg": "m"}
`))
	v, err := e.Eval(context.Background(), testInput(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Note) != 996 || len(v.Deny) != 1 || len(v.Deny[0].Text) != 2048 || len(v.Clarify[0].Options) != 1000 {
		t.Errorf("%d notes, %d denies, %d clarifies", len(v.Note), len(v.Deny), len(v.Clarify))
	}
}

func TestEval(t *testing.T) {
	e := newEngine(t,
		builtin(`permit contains e.id if { some e in input.effects; e.kind == "write" }
`+record("B_RULE")+`deny contains {"id": "B_RULE", "path": e.pointer, "msg": e.command, "fix": "f"} if { some e in input.effects; e.kind == "run" }
`),
		user(head0+`
# METADATA
# title: Ask
# description: Because
# custom:
#   id: ASK
#   priority: 90
#   fix: say it
clarify contains {"id": "ASK", "path": "/goal", "question": "which?", "options": {"b", "a"}}

clarify contains {"id": "FREE", "path": "/context/a~1b~0/0", "question": "what?", "options": []}

# METADATA
# title: Free
# description: Reason
# custom: {id: FREE}
note contains {"id": "FREE", "path": "", "msg": data.profile.name}
`))
	in := testInput(t)
	in.Intent.(map[string]any)["context"] = map[string]any{"a/b~": []any{"x"}}
	got, err := e.Eval(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := kernel.Verdict{
		Permits: []string{"write:/actions/0", "write:/actions/2", "write:/outputs/0", "write:/outputs/1"},
		Deny:    []kernel.Result{{Module: Builtin, ID: "B_RULE", Path: "/actions/1", Text: "node", Fix: "f", Title: "Title of B_RULE", Why: "Reason of B_RULE", Priority: 60}},
		Clarify: []kernel.Result{
			{Module: "gate.user.test", ID: "ASK", Path: "/goal", Text: "which?", Fix: "say it", Options: []string{"a", "b"}, Title: "Ask", Why: "Because", Priority: 90},
			{Module: "gate.user.test", ID: "FREE", Path: "/context/a~1b~0/0", Text: "what?", Title: "Free", Why: "Reason", Priority: 60},
		},
		Note: []kernel.Result{{Module: "gate.user.test", ID: "FREE", Text: "strict", Title: "Free", Why: "Reason", Priority: 60}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("verdict is\n%+v\nwant\n%+v", got, want)
	}

	rules, err := e.Rules()
	if err != nil {
		t.Fatal(err)
	}
	wantRules := []Rule{
		{ID: "B_RULE", Title: "Title of B_RULE", Description: "Reason of B_RULE", Priority: 60, Kinds: []string{"deny"}, Layer: Builtin, Module: "builtin/test.rego", Line: 3},
		{ID: "ASK", Title: "Ask", Description: "Because", Fix: "say it", Priority: 90, Kinds: []string{"clarify"}, Layer: "gate.user.test", Module: "user/test.rego", Line: 6},
		{ID: "FREE", Title: "Free", Description: "Reason", Priority: 60, Kinds: []string{"clarify", "note"}, Layer: "gate.user.test", Module: "user/test.rego", Line: 17},
	}
	if !reflect.DeepEqual(rules, wantRules) {
		t.Errorf("rules are\n%+v\nwant\n%+v", rules, wantRules)
	}
}

// TestInputDocument compares the input that a policy sees, byte for byte.
func TestInputDocument(t *testing.T) {
	in := Input{
		Mode: "plan-only", ModelMode: "none", KernelVersion: "0.1.0", IntentSHA256: "sha256:x",
		Intent: map[string]any{"goal": "g", "n": json.Number("1.5"), "l": []any{nil, true, json.Number("9007199254740991")}},
		Effects: []kernel.Effect{
			{ID: "write:/actions/0", Kind: "write", Pointer: "/actions/0", Listed: true, Path: "out/a.txt"},
			{ID: "read:/inputs/0", Kind: "read", Pointer: "/inputs/0"},
			{ID: "run:/actions/1", Kind: "run", Pointer: "/actions/1", Command: "node", Argv: []string{"node", "x.js"}, Env: []string{"CI"}},
			{ID: "run:/actions/3", Kind: "run", Pointer: "/actions/3"},
			{ID: "call:/actions/2", Kind: "call", Pointer: "/actions/2", ToolID: "t"},
		},
		Findings: []kernel.Finding{{Code: "placeholder", Path: "/goal", Value: "<environment>"}},
	}
	want := `{"answers":[],"contract":"1.3.0","effects":[` +
		`{"id":"write:/actions/0","kind":"write","listed":true,"path":"out/a.txt","pointer":"/actions/0"},` +
		`{"id":"read:/inputs/0","kind":"read","listed":false,"path":"","pointer":"/inputs/0"},` +
		`{"argv":["node","x.js"],"command":"node","env":["CI"],"id":"run:/actions/1","kind":"run","listed":false,"pointer":"/actions/1"},` +
		`{"argv":[],"command":"","env":[],"id":"run:/actions/3","kind":"run","listed":false,"pointer":"/actions/3"},` +
		`{"adapter_id":"","id":"call:/actions/2","kind":"call","listed":false,"pointer":"/actions/2","tool_id":"t"}],` +
		`"findings":[{"code":"placeholder","effect":"","other":"","path":"/goal","value":"<environment>"}],` +
		`"intent":{"goal":"g","l":[null,true,9007199254740991],"n":1.5},` +
		`"intent_sha256":"sha256:x","kernel_version":"0.1.0","mode":"plan-only","model_mode":"none"}`
	in.Findings = append(in.Findings, kernel.Finding{Code: finding.EnvUnlisted})
	first := in
	first.Contract = ContractFirst
	old, err := canon.Canonical(first.Document())
	wantOld := strings.NewReplacer(`"answers":[],`, "", `"1.3.0"`, `"1.0.0"`, `"listed":true,`, "", `"listed":false,`, "").Replace(want)
	if err != nil || string(old) != wantOld {
		t.Errorf("the first version is\n%s (error %v)\nwant\n%s", old, err, wantOld)
	}
	in.Findings = in.Findings[:1]
	for _, embedded := range []bool{false, true} {
		got, err := inputTerm(in.Document(), embedded)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := canon.Parse([]byte(got.String()), canon.MaxIntentBytes)
		if err != nil {
			t.Fatal(err)
		}
		if string(doc.Bytes()) != want {
			t.Errorf("input is\n%s\nwant\n%s", doc.Bytes(), want)
		}
	}
}

// TestInputSchema checks the input document against its published schema.
func TestInputSchema(t *testing.T) {
	in := testInput(t)
	in.Effects = append(in.Effects, kernel.Effect{ID: "call:/actions/3", Kind: "call", Pointer: "/actions/3", ToolID: "t"})
	in.Findings = []kernel.Finding{{Code: finding.Placeholder, Path: "/goal", Value: "TBD"}}
	text, err := canon.Canonical(in.Document())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := canon.Parse(text, canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	violations, err := must(specs.New()).Validate(specs.KindPolicyInput, doc.Value())
	if err != nil || len(violations) > 0 {
		t.Errorf("violations %+v, error %v", violations, err)
	}
}

func TestInputIsNotADocument(t *testing.T) {
	e := newEngine(t, builtin(`permit contains "x" if input.intent.context.none`))
	_, err := e.Eval(context.Background(), Input{Intent: make(chan int)})
	asError(t, err, KindEval, "the intent is not a decoded document")
}

// TestLayersAreAlone tries rules that turned a refusal into a bundle when layers shared
// one compilation.
func TestLayersAreAlone(t *testing.T) {
	base := builtin("import future.keywords.not\n" + record("NO_RUN") + `deny contains {"id": "NO_RUN", "path": e.pointer, "msg": "no"} if { some e in runs; not excused }
runs := [e | some e in input.effects; e.kind == "run"]
excused if false
permit contains "x" if false
`)
	for _, src := range []string{
		"runs := []\nexcused := true\n",
		"gate.builtin.excused := true\n",
		"builtin.excused if input.mode\n",
		"permitted contains e.id if some e in input.effects\n",
	} {
		e := newEngine(t, base, user(head0+deny("OTHER", "input.intent.context.none")+src))
		v, err := e.Eval(context.Background(), testInput(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Permits) != 0 || len(v.Deny) != 1 || v.Deny[0].ID != "NO_RUN" {
			t.Errorf("verdict with %q is %+v", src, v)
		}
	}
	for _, pkg := range []string{"gate.builtin", "gate", "gate.user"} {
		_, err := New(context.Background(), testProfile(), []Layer{base, user("package " + pkg + "\n" + deny("OTHER", "input.intent.context.none") + "excused := true\n")}, patient())
		asError(t, err, KindModule, "does not belong to layer")
	}
}

// TestUndefinedHead: a rule whose body holds gives an answer or an error. An undefined
// value in its head never makes it silent, and several values are an error.
func TestUndefinedHead(t *testing.T) {
	for name, tc := range map[string]struct{ rule, want string }{
		"absent member":       {`deny contains {"id": "A_RULE", "path": e.pointer, "msg": e.path} if { some e in input.effects; e.kind == "run" }`, `"msg" is undefined`},
		"absent in a call":    {`deny contains {"id": "A_RULE", "path": "", "msg": sprintf("%s", [input.intent.context.none])} if input.mode`, `"msg" is undefined`},
		"absent in a text":    {`deny contains {"id": "A_RULE", "path": "", "msg": $"{input.intent.context.none.none}x"} if input.mode == "x"`, ""},
		"undefined helper":    {`deny contains {"id": "A_RULE", "path": "", "msg": text} if input.mode` + "\ntext := \"x\" if false\n", `"msg" is undefined`},
		"undefined function":  {`deny contains {"id": "A_RULE", "path": "", "msg": f(1)} if input.mode` + "\nf(2) := \"x\"\n", `"msg" is undefined`},
		"undefined path":      {`note contains {"id": "A_RULE", "path": input.intent.context.none, "msg": "m"} if input.mode`, `"path" is undefined`},
		"undefined option":    {`clarify contains {"id": "A_RULE", "path": "", "question": "q", "options": [input.intent.context.none]} if input.mode`, `"options" is undefined`},
		"several values":      {`deny contains {"id": "A_RULE", "path": input.effects[_].pointer, "msg": "m"} if input.mode`, `"path" is undefined, or has several values`},
		"body does not hold":  {`deny contains {"id": "A_RULE", "path": "", "msg": input.intent.context.none} if input.mode == "x"`, ""},
		"all defined":         {`deny contains {"id": "A_RULE", "path": e.pointer, "msg": sprintf("%s", [e.id]), "fix": x} if { some e in input.effects; e.kind == "run"; x := lower("A") }`, "1"},
		"options of a rule":   {`clarify contains {"id": "A_RULE", "path": "", "question": "q", "options": those} if input.mode` + "\nthose := {\"a\", \"b\"}\n", "1"},
		"options by a set":    {`clarify contains {"id": "A_RULE", "path": "", "question": "q", "options": {"a", "b"}} if input.mode`, "1"},
		"head without a body": {`note contains {"id": "A_RULE", "path": "", "msg": input.intent.context.none}`, `"msg" is undefined`},
		"local of that name":  {`note contains {"id": "A_RULE", "path": "", "msg": __fiador_value} if __fiador_value := "m"`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := New(context.Background(), testProfile(), []Layer{user(head0 + record("A_RULE") + tc.rule + "\n")}, patient())
			if err != nil {
				t.Fatal(err)
			}
			v, err := e.Eval(context.Background(), testInput(t))
			switch got := len(v.Deny) + len(v.Clarify) + len(v.Note); {
			case tc.want == "1" || tc.want == "":
				if err != nil || got != len(tc.want) {
					t.Errorf("%d answers, error %v", got, err)
				}
			default:
				asError(t, err, KindEval, tc.want)
			}
		})
	}
}

// TestErrorsAreNotIndexedAway: a function that refuses its operands is an error in
// every place of a rule, even if an index could skip the rule.
func TestErrorsAreNotIndexedAway(t *testing.T) {
	for _, body := range []string{
		`startswith(input.intent.context.n, "a")`, `endswith(input.intent.context.n, "a")`, `glob.match("a*", [], input.intent.context.n)`,
		`strings.any_prefix_match(input.intent.context.n, {"a"})`, "helper", "hidden(input)",
	} {
		e := newEngine(t, user(head0+deny("A_RULE", body)+"helper if startswith(input.intent.context.n, \"a\")\n\nhidden(x) if endswith(x.intent.context.n, \"a\")\n"))
		in := testInput(t)
		in.Intent.(map[string]any)["context"].(map[string]any)["n"] = json.Number("1")
		_, err := e.Eval(context.Background(), in)
		asError(t, err, KindEval, "does not accept its operands")
	}
}

// TestOwnReferences: a reference into the layer's own package or to data.profile
// resolves, or is an error at load.
func TestOwnReferences(t *testing.T) {
	for body, want := range map[string]string{
		"data.gate.user.test.blockd":                        `the package has no rule "blockd"; did you mean "blocked"?`,
		"self := data.gate.user.test\n\tself.blocked":       "user/test.rego:1",
		"some x in [\"blocked\"]\n\tdata.gate.user.test[x]": "user/test.rego:1",
		"p := data.profile\n\tp.timeout_ms > 1":             "data.profile is no value here",
		`object.get(data.profile, "timout_ms", 0) > 1`:      "data.profile is no value here",
		"data.profile.timout_ms > 1":                        `data.profile has no member "timout_ms"; did you mean "timeout_ms"?`,
		"data.gate.user.test.blocked":                       "",
		"blocked":                                           "",
		"data.profile.timeout_ms < 1":                       "",
		"some m in [\"timeout_ms\"]\n\tdata.profile[m] < 1": "",
	} {
		_, err := New(context.Background(), testProfile(), []Layer{user(head0 + "blocked if false\n\n" + deny("A_RULE", body))}, patient())
		if want == "" && err != nil {
			t.Errorf("%q: %v", body, err)
		}
		if want != "" {
			asError(t, err, KindModule, want)
		}
	}
	imported := "package gate.user.test\n\nimport data.gate.user.test as self\n\n" + deny("A_RULE", "self.blockd")
	_, err := New(context.Background(), testProfile(), []Layer{user(imported)}, patient())
	asError(t, err, KindModule, `the package has no rule "blockd"`)
}

// TestNegationNeedsItsImport: without the import, "not" of an undefined value would
// silently be false, so it is an error at load. With the import, the rule fires.
func TestNegationNeedsItsImport(t *testing.T) {
	for _, body := range []string{
		`not startswith(input.intent.context.ticket.none, "T-")`, "not input.intent.context.none",
		`every e in input.effects { not e.id == "x" }`, `count([1 | not input.intent.context.none]) == 1`,
	} {
		_, err := New(context.Background(), testProfile(), []Layer{user("package gate.user.test\n" + deny("A_RULE", body))}, patient())
		asError(t, err, KindModule, `"not" needs "import future.keywords.not"`)
		e := newEngine(t, user(head0+deny("A_RULE", body)))
		v, err := e.Eval(context.Background(), testInput(t))
		if err != nil || len(v.Deny) != 1 {
			t.Errorf("%s: %d denials, error %v", body, len(v.Deny), err)
		}
	}
}

// TestDeterminism evaluates one input 200 times. Each time the layers, modules, rules,
// effects and object members have another order.
func TestDeterminism(t *testing.T) {
	var rules []string
	for i := range 12 {
		rules = append(rules, record(fmt.Sprintf("RULE_%d", i))+fmt.Sprintf(`deny contains {"id": "RULE_%d", "path": e.pointer, "msg": m, "fix": f} if {
	some e in input.effects
	some m in ["b", "a", "\ud83d\ude00", "\ufb33"]
	some f in ["y", "x"]
}
`, i))
	}
	rules = append(rules, record("ASK")+`clarify contains {"id": "ASK", "path": "", "question": q, "options": o} if {
	some q in ["q", "p"]
	some o in [["b", "a"], {"a"}, ["c", "c"], []]
}
`)
	fixed := user(head0 + deny("USER", "input.mode"))
	run := func(shuffle func(int, func(int, int))) string {
		shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		half := len(rules) / 2
		org := Layer{Package: "gate.org.test", Modules: []Module{
			{Name: "org/a.rego", Source: []byte("package gate.org.test\n" + strings.Join(rules[:half], "\n"))},
			{Name: "org/b.rego", Source: []byte("package gate.org.test\n" + strings.Join(rules[half:], "\n"))},
		}}
		layers := []Layer{org, fixed, builtin(`permit contains e.id if some e in input.effects`)}
		shuffle(len(layers), func(i, j int) { layers[i], layers[j] = layers[j], layers[i] })
		in := testInput(t)
		shuffle(len(in.Effects), func(i, j int) { in.Effects[i], in.Effects[j] = in.Effects[j], in.Effects[i] })
		v, err := newEngine(t, layers...).Eval(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	r := rand.New(rand.NewPCG(1, 2))
	want := run(func(int, func(int, int)) {})
	for i := range rehearsal.Count(40, 200) {
		if got := run(r.Shuffle); got != want {
			t.Fatalf("verdict %d is\n%s\nwant\n%s", i, got, want)
		}
	}
}

// TestSortedByCodeUnit tests the case in which code unit order differs from byte order.
func TestSortedByCodeUnit(t *testing.T) {
	e := newEngine(t, user(head0+record("A_RULE")+`note contains {"id": "A_RULE", "path": "", "msg": m} if some m in ["\ufb33", "\ud83d\ude00"]`))
	v, err := e.Eval(context.Background(), testInput(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Note) != 2 || v.Note[0].Text != "\U0001f600" {
		t.Errorf("notes are %+v", v.Note)
	}
}

func TestConcurrent(t *testing.T) {
	e := newEngine(t, user(head0+deny("A_RULE", "input.mode == \"plan-only\"")+deny("B_RULE", `regex.match("^n", data.profile.allowed_commands[_])`)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				v, err := e.Eval(context.Background(), testInput(t))
				if err != nil || len(v.Deny) != 2 {
					t.Errorf("verdict %+v, error %v", v, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestProvenance(t *testing.T) {
	a, b := "package gate.user.test\n"+deny("A_RULE", "input.mode"), "package gate.user.test\n"+deny("B_RULE", "input.mode")
	l := Layer{Package: "gate.user.test", Modules: []Module{{Name: "z.rego", Source: []byte(a)}, {Name: "b.rego", Source: []byte(b)}}}
	e := newEngine(t, l)
	p := e.Provenance()
	_, profile, err := canon.Artifact(testProfile())
	if err != nil {
		t.Fatal(err)
	}
	want := result.Provenance{
		ProfileSHA256:      profile,
		CapabilitiesSHA256: canon.Sum(capabilitiesJSON),
		Modules:            []result.ModuleDigest{{Name: "b.rego", SHA256: canon.Sum([]byte(b))}, {Name: "z.rego", SHA256: canon.Sum([]byte(a))}},
		Limits:             result.Limits{CPUCores: 1, Isolation: kernel.IsolationFull, MaxChildren: 10, MaxOutputFiles: 200, MaxTotalOutputBytes: 10485760, MemoryMB: 512, TimeoutMS: 30000},
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("provenance is\n%+v\nwant\n%+v", p, want)
	}
	for _, isolation := range []kernel.Isolation{kernel.IsolationConfined, kernel.IsolationNone} {
		profile := testProfile()
		profile.Isolation = isolation
		got := newProvenance(profile, "", nil).Limits
		want := want.Limits
		if want.Isolation = isolation; got != want {
			t.Errorf("limits are %+v, want %+v", got, want)
		}
	}
	p.Modules[0].Name = "changed"
	if e.Provenance().Modules[0].Name != "b.rego" {
		t.Error("a caller can change the engine's provenance")
	}
	j, err := canon.Canonical(p)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(j, &members); err != nil {
		t.Fatal(err)
	}
	if len(members) != 4 || string(members["limits"]) != `{"cpu_cores":1,"isolation":"full","max_children":10,"max_output_files":200,"max_total_output_bytes":10485760,"memory_mb":512,"timeout_ms":30000}` {
		t.Errorf("provenance as JSON is %s", j)
	}
}
