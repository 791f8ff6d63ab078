package policy

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// record is a METADATA block for the rule that follows.
func record(id string) string {
	return "# METADATA\n# title: Title of " + id + "\n# description: Reason of " + id + "\n# custom:\n#   id: " + id + "\n"
}

// head0 begins a module of the user layer.
const head0 = "package gate.user.test\n\nimport future.keywords.not\n\n"

// deny returns a rule with its record; body is the text between the braces.
func deny(id, body string) string {
	return record(id) + fmt.Sprintf(`deny contains {"id": %q, "path": "/goal", "msg": "m"} if {`, id) + "\n\t" + body + "\n}\n\n"
}

func TestLoadErrors(t *testing.T) {
	good := deny("GOOD_RULE", "input.mode")
	tests := []struct {
		name   string
		layers []Layer
		kind   Kind
		want   string
	}{
		{"no layer", nil, KindModule, "at least one layer"},
		{"no module", []Layer{{Package: "gate.user.test"}}, KindModule, `layer "gate.user.test" has no module`},
		{"foreign prefix", []Layer{{Package: "other", Modules: []Module{{Name: "a.rego", Source: []byte("package other")}}}}, KindModule, `layer "other"`},
		{"below builtin", []Layer{{Package: "gate.builtin.more", Modules: []Module{{Name: "a.rego"}}}}, KindModule, "is not gate.builtin"},
		{"empty name", []Layer{{Package: "gate.user.", Modules: []Module{{Name: "a.rego"}}}}, KindModule, "is not gate.builtin"},
		{"bad name", []Layer{{Package: "gate.user.a-b", Modules: []Module{{Name: "a.rego"}}}}, KindModule, "is not gate.builtin"},
		{"layer twice", []Layer{user(head0 + good), user(head0 + good)}, KindModule, "given twice"},
		{"module name twice", []Layer{{Package: "gate.user.test", Modules: []Module{
			{Name: "a.rego", Source: []byte(head0 + good)}, {Name: "a.rego", Source: []byte(head0 + good)},
		}}}, KindModule, "a.rego"},
		{"module name in two layers", []Layer{user(head0 + good), {
			Package: "gate.org.test",
			Modules: []Module{{Name: "user/test.rego", Source: []byte("package gate.org.test\n" + good)}},
		}}, KindModule, "module is given twice"},

		{"empty module", []Layer{user("")}, KindModule, "user/test.rego: "},
		{"comment only", []Layer{user("# nothing\n")}, KindModule, "user/test.rego: "},
		{"syntax", []Layer{user(head0 + "deny contains {")}, KindModule, "user/test.rego:"},
		{"not utf-8", []Layer{user(head0 + good + "x := \"\xff\"\n")}, KindModule, "user/test.rego:"},
		{"wrong package", []Layer{user("package gate.user.other\n" + good)}, KindModule, `user/test.rego:1: package "gate.user.other" does not belong to layer "gate.user.test"`},
		{"builtin package", []Layer{user("package gate.builtin\n" + good)}, KindModule, `package "gate.builtin" does not belong`},
		{"package above", []Layer{user("package gate\n" + good)}, KindModule, `package "gate" does not belong`},
		{"package below", []Layer{user("package gate.user.test.more\n" + good)}, KindModule, "does not belong"},
		{"no rule", []Layer{user(head0 + "x := 1\n")}, KindModule, "defines none of permit, deny, clarify, note"},
		{"second module without a rule", []Layer{{Package: "gate.user.test", Modules: []Module{
			{Name: "a.rego", Source: []byte(head0 + good)}, {Name: "b.rego", Source: []byte("package gate.user.test\nx := 1\n")},
		}}}, KindModule, "b.rego: module defines none"},

		{"permit in a user layer", []Layer{user(head0 + "permit contains \"x\"\n" + good)}, KindModule, `only layer "gate.builtin" may define rule "permit"`},
		{"complete rule", []Layer{user(head0 + "deny := {1}\n")}, KindModule, `rule "deny" must be a set`},
		{"rule of a body", []Layer{user(head0 + "deny if input.mode\n")}, KindModule, `rule "deny" must be a set`},
		{"default rule", []Layer{user(head0 + "default deny := set()\n")}, KindModule, `rule "deny" must be a set`},
		{"function", []Layer{user(head0 + "deny(x) := x\n")}, KindModule, `rule "deny" must be a set`},
		{"object rule", []Layer{user(head0 + "deny[x] := 1 if x := input.mode\n")}, KindModule, `rule "deny" must be a set`},
		{"rule below", []Layer{user(head0 + "deny.more contains 1\n")}, KindModule, `rule "deny" must be a set`},
		{"else", []Layer{user(head0 + "deny := 1 if input.a else := 2\n")}, KindModule, `rule "deny" must be a set`},
		{"else after contains", []Layer{user(head0 + "deny contains 1 if input.a else := 2\n")}, KindModule, "user/test.rego:5"},

		{"head is a variable", []Layer{user(head0 + record("A_RULE") + `deny contains x if x := {"id": "A_RULE", "path": "", "msg": "m"}`)}, KindModule, "object literal with a literal"},
		{"id is a variable", []Layer{user(head0 + record("A_RULE") + `deny contains {"id": x, "path": "", "msg": "m"} if x := "A_RULE"`)}, KindModule, `member "id" must be a literal string`},
		{"member name is a variable", []Layer{user(head0 + record("A_RULE") + `deny contains {"id": "A_RULE", "path": "", x: "m"} if x := "msg"`)}, KindModule, "must be a literal string"},
		{"id in lower case", []Layer{user(head0 + `deny contains {"id": "rule", "path": "", "msg": "m"}`)}, KindModule, "[A-Z][A-Z0-9_]{1,31}"},
		{"id of one letter", []Layer{user(head0 + `deny contains {"id": "R", "path": "", "msg": "m"}`)}, KindModule, "[A-Z][A-Z0-9_]{1,31}"},
		{"id of 33 letters", []Layer{user(head0 + `deny contains {"id": "` + strings.Repeat("A", 33) + `", "path": "", "msg": "m"}`)}, KindModule, "[A-Z][A-Z0-9_]{1,31}"},
		{"head without id", []Layer{user(head0 + `deny contains {"path": "", "msg": "m"}`)}, KindModule, `member "id" is missing`},
		{"head without path", []Layer{user(head0 + `deny contains {"id": "A_RULE", "msg": "m"}`)}, KindModule, `member "path" is missing`},
		{"question in a deny", []Layer{user(head0 + `deny contains {"id": "A_RULE", "path": "", "msg": "m", "question": "q"}`)}, KindModule, `unknown member "question"`},
		{"fix in a note", []Layer{user(head0 + `note contains {"id": "A_RULE", "path": "", "msg": "m", "fix": "f"}`)}, KindModule, `unknown member "fix"`},
		{"msg in a clarify", []Layer{user(head0 + `clarify contains {"id": "A_RULE", "path": "", "msg": "m"}`)}, KindModule, `unknown member "msg"`},
		{"id twice", []Layer{user(head0 + good + `deny contains {"id": "GOOD_RULE", "path": "", "msg": "m"} if input.mode`)}, KindModule, `a second rule "deny" has the id "GOOD_RULE"`},

		{"no record", []Layer{user(head0 + `deny contains {"id": "A_RULE", "path": "", "msg": "m"}`)}, KindModule, `user/test.rego:5: rule "deny" has no METADATA with custom.id "A_RULE"`},
		{"two records", []Layer{user(head0 + good + record("GOOD_RULE") + "x := 1\n")}, KindModule, "stands a second time; the first is at user/test.rego:5"},
		{"record without a rule", []Layer{user(head0 + good + record("OLD_RULE") + "x := 1\n")}, KindModule, `no rule uses record "OLD_RULE"`},
		{"record without a title", []Layer{user(head0 + strings.Replace(good, "# title: Title of GOOD_RULE\n", "", 1))}, KindModule, "needs a title and a description"},
		{"record with a blank description", []Layer{user(head0 + strings.Replace(good, "Reason of GOOD_RULE", `" "`, 1))}, KindModule, "needs a title and a description"},
		{"record with a bad id", []Layer{user(head0 + strings.Replace(good, "#   id: GOOD_RULE", "#   id: [GOOD_RULE]", 1))}, KindModule, "custom.id must be a string"},
		{"priority too high", []Layer{user(head0 + strings.Replace(good, "#   id: GOOD_RULE", "#   id: GOOD_RULE\n#   priority: 101", 1))}, KindModule, "custom.priority must be an integer from 0 to 100"},
		{"priority is a fraction", []Layer{user(head0 + strings.Replace(good, "#   id: GOOD_RULE", "#   id: GOOD_RULE\n#   priority: 1.5", 1))}, KindModule, "custom.priority must be"},
		{"priority is a text", []Layer{user(head0 + strings.Replace(good, "#   id: GOOD_RULE", "#   id: GOOD_RULE\n#   priority: high", 1))}, KindModule, "custom.priority must be"},
		{"fix is a list", []Layer{user(head0 + strings.Replace(good, "#   id: GOOD_RULE", "#   id: GOOD_RULE\n#   fix: [a]", 1))}, KindModule, "custom.fix must be a string"},
		{"broken METADATA", []Layer{user(head0 + "# METADATA\n# title: [\n" + good)}, KindModule, "user/test.rego:"},

		{"other data", []Layer{user(head0 + deny("A_RULE", "data.other.x"))}, KindModule, `"data.other.x" is neither data.profile nor the module's own package`},
		{"the builtin layer", []Layer{user(head0 + deny("A_RULE", "data.gate.builtin.permit"))}, KindModule, "neither data.profile nor"},
		{"package above by data", []Layer{user(head0 + deny("A_RULE", "data.gate.user"))}, KindModule, "neither data.profile nor"},
		{"all of data", []Layer{user(head0 + deny("A_RULE", "count(data) > 0"))}, KindModule, "data"},
		{"data by a variable", []Layer{user(head0 + deny("A_RULE", "some x; data[x].y"))}, KindModule, "neither data.profile nor"},
		{"data in a bracket", []Layer{user(head0 + deny("A_RULE", "input[data.other]"))}, KindModule, `"data.other" is neither`},
		{"data in a comprehension", []Layer{user(head0 + deny("A_RULE", "count({x | x := data.other[_]}) > 0"))}, KindModule, "neither data.profile nor"},
		{"data in a helper's name", []Layer{user(head0 + good + "x[data.other] := 1\n")}, KindModule, "neither data.profile nor"},
		{"data in an else", []Layer{user(head0 + good + "x := 1 if input.a else := data.other\n")}, KindModule, "neither data.profile nor"},
		{"data imported", []Layer{user("package gate.user.test\nimport data.other as o\n" + deny("A_RULE", "o.x"))}, KindModule, `user/test.rego:2: "data.other" is neither`},
		{"with data", []Layer{user(head0 + deny("A_RULE", "input.mode with data.profile as {}"))}, KindModule, `"with" must not replace "data.profile"`},
		{"with all data", []Layer{user(head0 + deny("A_RULE", "input.mode with data as {}"))}, KindModule, `data`},
		{"with own package", []Layer{user(head0 + "x := 1\n" + deny("A_RULE", "x == 2 with data.gate.user.test.x as 2"))}, KindModule, `"with" must not replace`},

		{"print", []Layer{user(head0 + deny("A_RULE", `print("x")`))}, KindModule, `undefined function "print"`},
		{"print in a comprehension", []Layer{user(head0 + deny("A_RULE", `count([1 | print("x")]) > 0`))}, KindModule, `undefined function "print"`},
		{"trace", []Layer{user(head0 + deny("A_RULE", `trace("x")`))}, KindModule, `undefined function "trace"`},
		{"network", []Layer{user(head0 + deny("A_RULE", `http.send({"method": "get", "url": "http://localhost"}).status_code == 200`))}, KindModule, `user/test.rego:11: undefined function "http.send": opens a connection`},
		{"clock", []Layer{user(head0 + deny("A_RULE", `time.now_ns() > 0`))}, KindModule, `undefined function "time.now_ns": reads the clock`},
		{"environment", []Layer{user(head0 + deny("A_RULE", `opa.runtime().env.HOME`))}, KindModule, `undefined function "opa.runtime"`},
		{"by with", []Layer{user(head0 + deny("A_RULE", `count("x") > 0 with count as http.send`))}, KindModule, "user/test.rego:"},
		{"no such function", []Layer{user(head0 + deny("A_RULE", `nothing.here(1)`))}, KindModule, `undefined function "nothing.here"`},
		{"deprecated function", []Layer{user(head0 + deny("A_RULE", `any([true])`))}, KindModule, `undefined function "any"`},
		{"unsafe variable", []Layer{user(head0 + deny("A_RULE", `x > 1`))}, KindModule, "user/test.rego:11: var x is unsafe"},
		{"strict: unused variable", []Layer{user(head0 + deny("A_RULE", `x := 1`))}, KindModule, "assigned var x unused"},
		{"strict: unused import", []Layer{user("package gate.user.test\nimport input.intent\n" + good)}, KindModule, "import"},
		{"type error", []Layer{user(head0 + deny("A_RULE", `count(1) > 1`))}, KindModule, "user/test.rego:11: "},
		{"recursion", []Layer{user(head0 + good + "x if y\ny if x\n")}, KindModule, "recursive"},
		{"schema annotation", []Layer{user(head0 + "# METADATA\n# schemas:\n#   - input: {\"$ref\": \"http://localhost/x\"}\n" + `note contains {"id": "A_RULE", "path": "", "msg": "m"}`)}, KindModule, ""},
		{"rego.v2", []Layer{user("package gate.user.test\nimport rego.v2\n" + good)}, KindModule, "not supported"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(context.Background(), testProfile(), test.layers, patient())
			e := asError(t, err, test.kind, test.want)
			// TestInspectAgrees: Inspect finds the same fault.
			if len(test.layers) == 1 && validPackage(test.layers[0].Package) && e.Msg != "module is given twice" {
				found := inspectLayer(test.layers[0], patient())
				if !slices.ContainsFunc(found.Faults, func(f *Error) bool { return f.Msg == e.Msg && f.Line == e.Line }) {
					t.Errorf("Inspect finds %v", found.Faults)
				}
			}
		})
	}
}

func TestLoadLimits(t *testing.T) {
	lim := patient()
	good := head0 + deny("GOOD_RULE", "input.mode")
	filler := func(n int) string { return strings.Repeat("#", n-1) + "\n" }

	_, err := New(context.Background(), testProfile(), []Layer{user(good + filler(lim.ModuleBytes-len(good)))}, lim)
	if err != nil {
		t.Errorf("a module of %d bytes: %v", lim.ModuleBytes, err)
	}
	_, err = New(context.Background(), testProfile(), []Layer{user(good + filler(lim.ModuleBytes+1-len(good)))}, lim)
	asError(t, err, KindLimit, "user/test.rego: module has 1048577 bytes; the limit is 1048576")

	var big Layer
	big.Package = "gate.user.test"
	for i := range 9 {
		src := "package gate.user.test\n" + deny(fmt.Sprintf("RULE_%d", i), "input.mode")
		big.Modules = append(big.Modules, Module{Name: fmt.Sprintf("m%d.rego", i), Source: []byte(src + filler(1<<20-len(src)))})
	}
	_, err = New(context.Background(), testProfile(), []Layer{big}, lim)
	asError(t, err, KindLimit, "the limit is 8388608")
}

func TestLoads(t *testing.T) {
	tests := []struct{ name, src string }{
		{"own package by name", head0 + "x := 1\n" + deny("A_RULE", "data.gate.user.test.x == 2")},
		{"own package imported", "package gate.user.test\nimport data.gate.user.test.x as y\nx := 1\n" + deny("A_RULE", "y == 2")},
		{"profile", head0 + deny("A_RULE", `data.profile.name == "other"`)},
		{"profile imported", "package gate.user.test\nimport data.profile\n" + deny("A_RULE", `profile.name == "other"`)},
		{"with input", head0 + "x if input.intent.context.a\n" + deny("A_RULE", `x with input as {"intent": {"context": {"a": false}}}`)},
		{"import rego.v1", "package gate.user.test\nimport rego.v1\n" + deny("A_RULE", "input.intent.context.none")},
		{"template string", head0 + deny("A_RULE", `$"{input.mode}" == "x"`)},
		{"one id for three rules", head0 + deny("A_RULE", "input.intent.context.none") +
			`note contains {"id": "A_RULE", "path": "", "msg": "m"} if input.intent.context.none` + "\n" +
			`clarify contains {"id": "A_RULE", "path": "", "question": "q", "options": ["a"]} if input.intent.context.none` + "\n"},
		{"a METADATA block without an id", head0 + deny("A_RULE", "input.intent.context.none") + "# METADATA\n# title: helper\nx := 1\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := newEngine(t, user(test.src))
			v, err := e.Eval(context.Background(), testInput(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Deny)+len(v.Clarify)+len(v.Note)+len(v.Permits) > 0 {
				t.Errorf("verdict is %+v, want nothing", v)
			}
		})
	}
}

func TestLoadLayer(t *testing.T) {
	fsys := fstest.MapFS{
		"p/b.rego":            {Data: []byte("b")},
		"p/a.rego":            {Data: []byte("# about\n\npackage gate.org.acme # ours")},
		"p/A.REGO":            {Data: []byte("package gate.org.acme")},
		"p/a_test.rego":       {Data: []byte("test")},
		"p/profile.json":      {Data: []byte("{}")},
		"p/below/c.rego":      {Data: []byte("c")},
		"p/..data/d.rego":     {Data: []byte("d")},
		"p/.hidden.rego":      {Data: []byte("h")},
		"p/below/c_test.rego": {Data: []byte("test")},
		"empty/x.md":          {Data: []byte("x")},
		"alien/x.rego":        {Data: []byte("package gate.user.acme")},
		"blank/x.rego":        {Data: []byte("\n")},
		"pipe/x.rego":         {Mode: fs.ModeNamedPipe},
		"large/x.rego":        {Data: make([]byte, 1<<20+1)},
		"linked/a.rego":       {Data: []byte("package gate.org.acme")},
		"linked/sub":          {Data: []byte("../p"), Mode: fs.ModeSymlink},
		"lost/a.rego":         {Data: []byte("package gate.org.acme")},
		"lost/sub":            {Data: []byte("../../elsewhere"), Mode: fs.ModeSymlink},
	}
	names := func(modules []Module) string {
		var list []string
		for _, m := range modules {
			list = append(list, m.Name+"="+m.File)
		}
		return strings.Join(list, " ")
	}
	folder := func(dir string) Folder { return Folder{FS: fsys, Dir: dir, Show: "here/" + dir} }
	l, err := LoadLayer(folder("p"), "gate.builtin", Limits{})
	want := "builtin/.hidden.rego=here/p/.hidden.rego builtin/A.REGO=here/p/A.REGO builtin/a.rego=here/p/a.rego builtin/b.rego=here/p/b.rego builtin/below/c.rego=here/p/below/c.rego"
	if err != nil || l.Package != Builtin || names(l.Modules) != want {
		t.Errorf("layer %q has modules %q, error %v", l.Package, names(l.Modules), err)
	}
	l, err = LoadLayer(Folder{FS: must(fs.Sub(fsys, "p")), Dir: "."}, PrefixOrg, Limits{})
	if err == nil || !strings.Contains(err.Error(), `.hidden.rego: package "" must be gate.org.NAME`) {
		t.Errorf("layer %q, error %v", l.Package, err)
	}
	delete(fsys, "p/.hidden.rego")
	l, err = LoadLayer(Folder{FS: must(fs.Sub(fsys, "p")), Dir: "."}, PrefixOrg, Limits{})
	if want := "org/acme/A.REGO=A.REGO org/acme/a.rego=a.rego org/acme/b.rego=b.rego org/acme/below/c.rego=below/c.rego"; err != nil || l.Package != "gate.org.acme" || names(l.Modules) != want {
		t.Errorf("layer %q has modules %q, error %v", l.Package, names(l.Modules), err)
	}
	tests, err := LoadTests(folder("p"), Limits{})
	if want := "here/p/a_test.rego= here/p/below/c_test.rego="; err != nil || names(tests) != want {
		t.Errorf("tests are %q, error %v", names(tests), err)
	}
	for dir, want := range map[string]string{
		"none":   "here/none: policy folder cannot be read",
		"empty":  "no policy module (*.rego) is in this folder",
		"alien":  `here/alien/x.rego: package "gate.user.acme" must be gate.org.NAME`,
		"blank":  `package "" must be gate.org.NAME`,
		"pipe":   "here/pipe/x.rego: module is not a regular file",
		"linked": "here/linked/sub: a link to a folder is not followed",
		"lost":   "here/lost/sub: a link that leads nowhere or out of the folder",
		"large":  "here/large/x.rego: module has 1048577 bytes; the limit is 1048576",
	} {
		l, err := LoadLayer(folder(dir), PrefixOrg, Limits{})
		kind := KindModule
		if dir == "large" {
			kind = KindLimit
		}
		asError(t, err, kind, want)
		if len(l.Modules) > 0 {
			t.Errorf("%s: modules stand beside the error", dir)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
