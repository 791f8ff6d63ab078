package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// load compiles one module of a user's layer. The author finds the module as
// here/a.rego.
func load(src string) error {
	l := user(src)
	l.Modules[0].File = "here/a.rego"
	_, err := New(context.Background(), testProfile(), []Layer{l}, patient())
	return err
}

// inputReferences returns references to every member of the input document, at every
// depth, as its published schema lists them. An element of a list is [_].
func inputReferences(t *testing.T) []string {
	t.Helper()
	src, ok := specs.Schema(string(specs.KindPolicyInput))
	if !ok {
		t.Fatal("no schema")
	}
	var root map[string]any
	if err := json.Unmarshal(src, &root); err != nil {
		t.Fatal(err)
	}
	var list []string
	var walk func(ref string, schema map[string]any)
	walk = func(ref string, schema map[string]any) {
		if target, ok := schema["$ref"].(string); ok {
			schema = root["definitions"].(map[string]any)[strings.TrimPrefix(target, "#/definitions/")].(map[string]any)
		}
		if ref != "input" {
			list = append(list, ref)
		}
		members, _ := schema["properties"].(map[string]any)
		for name, member := range members {
			walk(ref+"."+name, member.(map[string]any))
		}
		if items, ok := schema["items"].(map[string]any); ok {
			walk(ref+"[_]", items)
		}
	}
	walk("input", root)
	slices.Sort(list)
	return list
}

// uses returns a module with a rule for each reference.
func uses(refs []string) string {
	src := head0 + deny("A_RULE", "input.intent.context.none")
	for i, ref := range refs {
		src += fmt.Sprintf("h%d if %s\n\n", i, ref)
	}
	return src
}

// TestEveryMemberLoads: a rule may read every member of the input and of the profile,
// under any of its names.
func TestEveryMemberLoads(t *testing.T) {
	refs := inputReferences(t)
	if len(refs) < 50 || !slices.Contains(refs, "input.intent.actions[_].risk_tags[_]") || !slices.Contains(refs, "input.effects[_].adapter_id") {
		t.Fatalf("references %v", refs)
	}
	for _, name := range append(Members(), "name") {
		refs = append(refs, "data.profile."+name, `data.profile["`+name+`"]`, `data["profile"].`+name)
	}
	refs = append(refs,
		"input.intent.context", "input.intent.context.a", `input.intent.context["a b"].c[0].d`, "input.intent.context[_][_]",
		"input.intent.actions[_].params.a.b[3]", "input.intent.actions[0].params", "input.intent.actions[_].env.CI", "input.intent.actions[_].env[_]",
		"data.profile.severity.PLACEHOLDER", "data.profile.severity[_]", "data.profile.allowed_commands[_]", "data.profile[_]",
	)
	if err := load(uses(refs)); err != nil {
		t.Error(err)
	}
}

// TestMistypedMembers changes the last name of each of these references. The message
// must name the place and a similar name.
func TestMistypedMembers(t *testing.T) {
	for _, ref := range inputReferences(t) {
		at := strings.LastIndexByte(ref, '.')
		if strings.HasSuffix(ref, "[_]") {
			continue
		}
		err := load(head0 + deny("A_RULE", ref+`x == "a"`))
		asError(t, err, KindModule, "here/a.rego:11: undefined ref: "+ref+"x; did you mean "+strconv.Quote(ref[at+1:])+"?")
	}
	for _, name := range append(Members(), "name") {
		err := load(head0 + deny("A_RULE", "data.profile."+name+`x == "a"`))
		asError(t, err, KindModule, `here/a.rego:11: data.profile has no member "`+name+`x"; did you mean "`+name+`"?`)
	}
}

// TestTyped tests every form of a reference to a member, each with a name that does not
// exist.
func TestTyped(t *testing.T) {
	rule := func(body string) string { return head0 + deny("A_RULE", body) }
	imports := func(line, body string) string {
		return "package gate.user.test\nimport " + line + "\n" + deny("A_RULE", body)
	}
	const effects = "; one of: adapter_id, argv, command, env, id, kind, listed, path, pointer, tool, tool_id"
	tests := []struct{ name, src, want string }{
		{"not near", rule("input.x"), "a.rego:11: undefined ref: input.x; one of: answers, contract, effects, findings, intent, intent_sha256, kernel_version, mode, model_mode"},
		{"case", rule("input.Effects[0]"), `undefined ref: input.Effects[0]; did you mean "effects"?`},
		{"bracket", rule(`input["intnt"]`), `did you mean "intent"?`},
		{"bracket with a space", rule(`input["in tent"]`), `undefined ref: input["in tent"]`},
		{"index of the document", rule(`input[0]`), "undefined ref: input[0]"},
		{"index of a text", rule(`input.intent.goal[0] == "x"`), "undefined ref: input.intent.goal[0]"},
		{"member of a text", rule(`input.intent.goal.text == "x"`), "undefined ref: input.intent.goal.text"},
		{"member of a list", rule(`input.effects.write`), "undefined ref: input.effects.write"},
		{"member of a path", rule(`input.intent.inputs[_].path == "x"`), "undefined ref: input.intent.inputs[_].path"},
		{"member of a word", rule(`input.intent.actions[_].argv.name`), "undefined ref: input.intent.actions[_].argv.name"},
		{"another type", rule(`input.intent.goal == 1`), "match error"},
		{"another type of a flag", rule(`input.intent.actions[_].executable == "true"`), "match error"},
		{"name in a variable", rule(`x := "foo"; input[x] == 1`), "match error"},
		{"object of more members", rule(`{"id": x, "foo": y} = input.effects[_]; x == y`), "match error"},

		{"some effect", rule(`some e in input.effects; e.comand == "x"`), `a.rego:11: undefined ref: e.comand; did you mean "command"?`},
		{"some effect by index", rule(`some i, e in input.effects; i == 1; e.comand == "x"`), `did you mean "command"?`},
		{"some effect behind not", rule(`some e in input.effects; not e.allowed`), "undefined ref: e.allowed" + effects},
		{"some effect in a call behind not", rule(`some e in input.effects; not startswith(e.pth, "x")`), `did you mean "path"?`},
		{"some effect behind not in", rule(`some e in input.effects; not e.comand in data.profile.allowed_commands`), `did you mean "command"?`},
		{"some finding", rule(`some f in input.findings; f.cod == "x"`), `did you mean "code"?`},
		{"some action", rule(`some a in input.intent.actions; a.risk_levl == "high"`), `did you mean "risk_level"?`},
		{"some member by name", rule(`some "gaol", v in input.intent; v`), "undefined ref: input.intent.gaol"},
		{"list of every", rule(`every e in input.efects { e }`), `did you mean "effects"?`},
		{"input in every", rule(`every e in input.effects { input.moode == e }`), `did you mean "mode"?`},
		{"comprehension", rule(`count([e | some e in input.effects; e.comand == "x"]) > 0`), `did you mean "command"?`},
		{"comprehension in every", rule(`every e in input.effects { count([1 | some f in input.findings; f.efect == e]) > 0 }`), `did you mean "effect"?`},
		{"comprehension behind not", rule(`not count([1 | some e in input.effects; e.allowed]) > 0`), "undefined ref: e.allowed"},
		{"set of effects", rule(`x := {e | some e in input.effects}; some y in x; y.allowed`), "undefined ref: y.allowed"},
		{"object of effects", rule(`x := {e.id: e | some e in input.effects}; x.a.allowed`), "undefined ref: x.a.allowed"},
		{"template", rule(`$"{input.goal}" == "x"`), "undefined ref: input.goal"},
		{"argument", rule("f(input.goal)") + "f(x) if x\n", "undefined ref: input.goal"},
		{"body of a function", rule("f(1)") + "f(x) if input.goal == x\n", "a.rego:14: undefined ref: input.goal"},
		{"head", head0 + record("A_RULE") + `deny contains {"id": "A_RULE", "path": "/goal", "msg": input.goal} if input.mode`, "a.rego:10: undefined ref: input.goal"},
		{"else", rule("x == 1") + "x := 1 if input.mode == \"q\"\nelse := input.goal\n", "undefined ref: input.goal"},
		{"default", rule("x == 1") + "default x := 1\nx := 2 if input.goal\n", "a.rego:15: undefined ref: input.goal"},

		{"local name", rule(`i := input; i.efects == 1`), `undefined ref: i.efects; did you mean "effects"?`},
		{"local name of an element", rule(`e := input.effects[_]; e.pth == 1`), `did you mean "path"?`},
		{"rule that is the input", rule("x.efects == 1") + "x := input\n", `did you mean "effects"?`},
		{"rule that is a list", rule("x[0].allowed == 1") + "x := input.effects\n", ".allowed" + effects},
		{"rule that is a set", rule("some e in x; e.allowed == 1") + "x contains e if some e in input.effects\n", "undefined ref: e.allowed"},
		{"import", imports("input.effects", "effects[_].allowed"), "a.rego:9: undefined ref: input.effects[_].allowed" + effects},
		{"import under a name", imports("input.intent as i", `i.gaol == "x"`), `did you mean "goal"?`},
		{"import of a member", imports("input.efects as e", "e"), `undefined ref: input.efects; did you mean "effects"?`},
		{"with", rule(`x with input as {"foo": 1}`) + "x if input.foo\n", "a.rego:14: undefined ref: input.foo"},

		{"profile", rule("data.profile.commands"), `a.rego:11: data.profile has no member "commands"; one of: name, allow_network, timeout_ms,`},
		{"profile in brackets", rule(`data["profile"]["severty"]`), `data.profile has no member "severty"; did you mean "severity"?`},
		{"profile in some", rule(`some x in data.profile.risk_tag; x == "x"`), `did you mean "risk_tags"?`},
		{"profile in every", rule(`every x in data.profile.risk_tag { x == "x" }`), `did you mean "risk_tags"?`},
		{"profile within every", rule(`every e in input.effects { e.id == data.profile.nam }`), `did you mean "name"?`},
		{"profile behind not", rule(`not data.profile.allow_netwrk`), `did you mean "allow_network"?`},
		{"profile in a comprehension", rule(`count([x | x := data.profile.risk_tag[_]]) > 0`), `did you mean "risk_tags"?`},
		{"profile in a template", rule(`$"{data.profile.nam}" == "x"`), `did you mean "name"?`},
		{"profile in a head", head0 + record("A_RULE") + `deny contains {"id": "A_RULE", "path": "/goal", "msg": data.profile.nam} if input.mode`, `a.rego:10: data.profile has no member "nam"`},
		{"profile in an else", rule("x == 1") + "x := 1 if input.mode == \"q\"\nelse := data.profile.nam\n", `data.profile has no member "nam"`},
		{"profile as a with value", rule(`x with input as data.profile.nam`) + "x if input.mode\n", `data.profile has no member "nam"`},
		{"profile as an argument", rule("startswith(data.profile.nam, \"x\")"), `data.profile has no member "nam"`},
		{"profile imported", imports("data.profile", "profile.nam"), `a.rego:9: data.profile has no member "nam"; did you mean "name"?`},
		{"profile imported under a name", imports("data.profile as p", "p.nam"), `a.rego:9: data.profile has no member "nam"`},
		{"member of the profile imported", imports("data.profile.risk_tag as tags", `"x" in tags`), `data.profile has no member "risk_tag"; did you mean "risk_tags"?`},
		{"profile under a local name", rule("p := data.profile; p.nam == \"x\""), "a.rego:11: data.profile "},
		{"profile as a rule", rule("p.nam == \"x\"") + "p := data.profile\n", "a.rego:14: data.profile "},
		{"profile as an argument of a function", rule("f(data.profile)") + "f(p) if p.nam\n", "a.rego:11: data.profile "},
		{"rule of the package", rule("data.gate.user.test.near") + "nearer := 1\n", "a.rego:11: "},
		{"member of profile.json alone", rule("data.profile.extends"), `data.profile has no member "extends"`},
		{"isolation misspelt", rule("data.profile.isolatoin"), `data.profile has no member "isolatoin"; did you mean "isolation"?`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { asError(t, load(test.src), KindModule, test.want) })
	}
}

// TestTypedInEveryModule: the check covers each module of a layer, and names the faulty
// module.
func TestTypedInEveryModule(t *testing.T) {
	for _, bad := range []string{"input.efects", "data.profile.risk_tag"} {
		l := Layer{Package: "gate.org.test", Modules: []Module{
			{Name: "org/test/a.rego", File: "x/a.rego", Source: []byte("package gate.org.test\n" + deny("A_RULE", "y"))},
			{Name: "org/test/b.rego", File: "x/b.rego", Source: []byte("package gate.org.test\n" + deny("B_RULE", "input.mode") + "y if " + bad + "\n")},
		}}
		_, err := New(context.Background(), testProfile(), []Layer{builtinLayer(t), l}, patient())
		asError(t, err, KindModule, "x/b.rego:11: ")
	}
}

// TestSchemaAnnotations: a module cannot define its own schema of the input.
func TestSchemaAnnotations(t *testing.T) {
	own := "# schemas:\n#   - input: {\"type\": \"object\", \"properties\": {\"foo\": {\"type\": \"string\"}}}\n"
	body := `deny contains {"id": "A_RULE", "path": "/goal", "msg": "m"} if input.foo == "x"` + "\n"
	for _, src := range []string{
		head0 + record("A_RULE") + own + body,
		"# METADATA\n# scope: package\n" + own + head0 + record("A_RULE") + body,
		"# METADATA\n# scope: subpackages\n" + own + head0 + record("A_RULE") + body,
	} {
		asError(t, load(src), KindModule, "undefined ref: input.foo")
	}
}

// TestBuiltinLayerIsTyped: New does not check the sources of an embedded layer. As an
// ordinary layer the built-in policy passes the check, and fails it with a mistyped
// name.
func TestBuiltinLayerIsTyped(t *testing.T) {
	l := builtinLayer(t)
	for _, name := range profiles.Names() {
		if _, err := New(context.Background(), BuiltinProfile(name), []Layer{l}, patient()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	mistyped := 0
	for _, names := range [][2]string{{"input.findings", "input.finding"}, {"e.kind", "e.knd"}, {"data.profile.risk_tags", "data.profile.risk_tag"}, {"data.profile.severity", "data.profile.severities"}, {"e.listed", "e.allowed"}, {"else := record", "else := records"}} {
		for i, m := range l.Modules {
			src := strings.ReplaceAll(string(m.Source), names[0], names[1])
			if src == string(m.Source) {
				continue
			}
			other := l
			other.Modules = slices.Clone(l.Modules)
			other.Modules[i].Source = []byte(src)
			_, err := New(context.Background(), testProfile(), []Layer{other}, patient())
			asError(t, err, KindModule, m.File+":")
			mistyped++
		}
	}
	if mistyped < 6 {
		t.Errorf("%d modules with a mistyped name", mistyped)
	}
}
