package kernel

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
)

func TestParseIntentSaysWhere(t *testing.T) {
	action := func(members string) string { return `{"goal":"g","actions":[{` + members + `}]}` }
	for _, tc := range []struct{ src, pointer, msg string }{
		{`[]`, "", "an intent is a JSON object"},
		{`{}`, "", `"goal" is missing`},
		{`{"goal":1}`, "/goal", "goal is a string"},
		{`{"goal":""}`, "/goal", "the goal is blank"},
		{`{"goal":"\u00a0\u2028\u200d\u3164"}`, "/goal", "the goal is blank"},
		{`{"goal":"g","gaol":"x"}`, "/gaol", `unknown member "gaol"`},
		{`{"goal":"g","constraints":"c"}`, "/constraints", "constraints is a list of strings"},
		{`{"goal":"g","constraints":["c",1]}`, "/constraints/1", "not a string"},
		{`{"goal":"g","context":[]}`, "/context", "context is a JSON object"},
		{`{"goal":"g","actions":{}}`, "/actions", "actions is a list"},
		{`{"goal":"g","actions":[7]}`, "/actions/0", "an action is a JSON object"},
		{`{"goal":"g","outputs":["a\u0000b"]}`, "/outputs/0", "a NUL character cannot stand here"},
		{action(`"kind":"delete"`), "/actions/0/kind", "kind is write, run or call"},
		{action(`"kind":"write","path":"a"`), "/actions/0", `a write has either "content" or "content_base64"`},
		{action(`"kind":"write","path":"a","content":"","content_base64":""`), "/actions/0", `a write has either "content" or "content_base64"`},
		{action(`"kind":"write","path":"a","content_base64":"aGk"`), "/actions/0/content_base64", "not standard base64 with padding (RFC 4648, section 4)"},
		{action(`"kind":"write","path":"a","content_base64":"aGl="`), "/actions/0/content_base64", "not standard base64 with padding (RFC 4648, section 4)"},
		{action(`"kind":"write","path":"a","content_base64":"aG\nk="`), "/actions/0/content_base64", "not standard base64 with padding (RFC 4648, section 4)"},
		{action(`"kind":"write","path":"a","content":"","argv":[]`), "/actions/0/argv", `unknown member "argv"`},
		{action(`"kind":"run"`), "/actions/0", `"argv" is missing`},
		{action(`"kind":"run","argv":[]`), "/actions/0/argv", "argv names no command"},
		{action(`"kind":"run","argv":["a\u0000"]`), "/actions/0/argv/0", "argument has a NUL byte, where the system would cut it"},
		{action(`"kind":"run","argv":["a"],"timeout_ms":1.5`), "/actions/0/timeout_ms", "not a whole number from 1 to 600000"},
		{action(`"kind":"run","argv":["a"],"timeout_ms":600001`), "/actions/0/timeout_ms", "not a whole number from 1 to 600000"},
		{action(`"kind":"run","argv":["a"],"env":{"A B":"x"}`), "/actions/0/env/A B", `environment variable "A B" has no proper name`},
		{action(`"kind":"run","argv":["a"],"env":{"A":"x\u0000"}`), "/actions/0/env/A", `environment variable "A" has a NUL byte, where the system would cut it`},
		{action(`"kind":"run","argv":["a"],"cwd":"x\u0000"`), "/actions/0/cwd", "a NUL character cannot stand here"},
		{action(`"kind":"call","tool_id":"t"`), "/actions/0", `"params" is missing`},
		{action(`"kind":"call","tool_id":"","params":{}`), "/actions/0/tool_id", "tool_id is empty"},
		{action(`"kind":"call","tool_id":"t","params":{},"risk_level":"extreme"`), "/actions/0/risk_level", "risk_level is high, medium, low or unknown"},
	} {
		doc, err := canon.Parse([]byte(tc.src), canon.MaxIntentBytes)
		if err != nil {
			t.Fatalf("%s: %v", tc.src, err)
		}
		_, err = ParseIntent(doc.Value())
		var ie *IntentError
		if !errors.As(err, &ie) || ie.Pointer != tc.pointer || ie.Msg != tc.msg {
			t.Errorf("%s: got %v, want %s: %s", tc.src, err, tc.pointer, tc.msg)
		}
	}
}

func TestEffects(t *testing.T) {
	in := parse(t, `{"goal":"g","inputs":["./src//a"],"outputs":["out/b"],"actions":[
		{"kind":"run","argv":["node","x"],"env":{"B":"","A":""}},{"kind":"write","path":"out/./c","content":""},{"kind":"call","tool_id":"t","params":{}}]}`)
	var got []string
	for _, e := range in.Effects(Profile{}) {
		got = append(got, e.ID+" "+e.Path+e.Command+e.ToolID+" "+strings.Join(e.Env, ","))
	}
	want := "read:/inputs/0 src/a |run:/actions/0 node A,B|write:/actions/1 out/c |call:/actions/2 t |write:/outputs/0 out/b "
	if strings.Join(got, "|") != want {
		t.Errorf("effects %q", strings.Join(got, "|"))
	}
}

// TestListed: what the lists of a profile say of an effect. A list compares exactly, an
// empty name is in no list, and a list of roots lists what lies below them.
func TestListed(t *testing.T) {
	names := func(list ...string) AllowList { return AllowList{Names: list} }
	all := AllowList{All: true}
	for _, tc := range []struct {
		list AllowList
		kind EffectKind
		yes  []string
		no   []string
	}{
		{names(), EffectRead, []string{"src/a"}, []string{""}},
		{names("out", "pkg/gen"), EffectWrite, []string{"out/a", "out/a/b", "pkg/gen/a"}, []string{
			"etc/a", "out", "outx/a", "Out/a", "out/", "", "pkg/a", "pkg/gen", "pkg/generated/a", "a/out/b", "/out/a",
		}},
		{all, EffectWrite, []string{"a", "etc/a", "/a"}, []string{"", "a/"}},
		{names(), EffectWrite, nil, []string{"a", "out/a"}},
		{names("node", "./x", "a/b", ".", ""), EffectRun, []string{"node"}, []string{"", "Node", "node ", "nodejs", "curl", "./x", "a/b", "."}},
		{all, EffectRun, []string{"node", "./x", "/usr/bin/node", "."}, []string{""}},
		{names(), EffectRun, nil, []string{"node"}},
		{names("search", ""), EffectCall, []string{"search"}, []string{"", "Search", "searcher"}},
		{all, EffectCall, []string{"anything"}, []string{""}},
		{names("*"), EffectCall, nil, []string{"search"}},
		{all, "fly", nil, []string{"a"}},
		{all, "", nil, []string{"a"}},
	} {
		p := Profile{AllowedCommands: tc.list, AllowedWriteRoots: tc.list, ModelAdapters: tc.list}
		for _, name := range append(tc.yes, tc.no...) {
			e := Effect{Kind: tc.kind, Path: name, Command: name, AdapterID: name}
			if got, want := p.lists(&e), slices.Contains(tc.yes, name); got != want {
				t.Errorf("%v, %s of %q: %t, want %t", tc.list, tc.kind, name, got, want)
			}
		}
	}
	in := parse(t, `{"goal":"g","inputs":["a"],"outputs":["out/b"],"actions":[{"kind":"run","argv":["node"]},{"kind":"run","argv":["curl"]}]}`)
	p := Profile{AllowedCommands: names("node"), AllowedWriteRoots: names("out")}
	var got []bool
	for _, e := range in.Effects(p) {
		got = append(got, e.Listed)
	}
	if !slices.Equal(got, []bool{true, true, false, true}) {
		t.Errorf("listed %v", got)
	}
}

// TestUnlistedNames: an environment name outside env_allow is a finding. A name that is
// never allowed has a finding of its own already.
func TestUnlistedNames(t *testing.T) {
	in := parse(t, `{"goal":"g","constraints":["c"],"actions":[{"kind":"write","path":"a","content":""},{"kind":"run","argv":["node"],"env":{"CI":"","TERM":"","PATH":"/x"}}]}`)
	unlisted := func(p Profile) (names []string) {
		for _, f := range in.FindingsUnder(p) {
			if f.Code == finding.EnvUnlisted {
				names = append(names, f.Value)
				if f.Path != "/actions/1/env/"+f.Value || f.Effect != "run:/actions/1" {
					t.Errorf("finding %+v", f)
				}
			}
		}
		return names
	}
	for _, tc := range []struct {
		list AllowList
		want []string
	}{
		{AllowList{}, []string{"CI", "TERM"}},
		{AllowList{Names: []string{"CI", "PATH", "term"}}, []string{"TERM"}},
		{AllowList{All: true}, nil},
	} {
		if got := unlisted(Profile{EnvAllow: tc.list}); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %q, want %q", tc.list, got, tc.want)
		}
	}
}

func TestStructureFindings(t *testing.T) {
	w := func(path string) string { return `{"kind":"write","path":"` + path + `","content":""}` }
	for _, tc := range []struct{ name, members, want string }{
		{"none", `"actions":[` + w("out/a") + `,` + w("out/b") + `],"outputs":["out/a"]`, ""},
		{"the same path twice", `"actions":[` + w("out/a") + `,` + w("./out//a") + `]`, "write_twice /actions/1/path out/a /actions/0/path"},
		{"a file where a folder is needed", `"actions":[` + w("out/a/b") + `,` + w("out/a") + `]`, "write_twice /actions/0/path out/a /actions/1/path"},
		{"paths that differ in case", `"actions":[` + w("out/a") + `,` + w("out/A") + `,` + w("out/A/b") + `,` + w("./OUT/c") + `,` + w("out/b") + `],"outputs":["out/B"]`,
			"write_twice /actions/2/path out/A /actions/1/path|output_unproduced /outputs/0 out/B|path_case /actions/1/path out/A /actions/0/path|path_case /actions/2/path out/A/b /actions/0/path" +
				"|path_case /actions/3/path OUT/c /actions/0/path|path_case /outputs/0 out/B /actions/4/path"},
		{"paths that differ in full case", `"actions":[` + w("out/\u212a") + `,` + w("out/k") + `,` + w("out/\u03c3") + `,` + w("out/\u03c2") + `,` + w("out/l") + `]`,
			"path_case /actions/1/path out/k /actions/0/path|path_case /actions/3/path out/\u03c2 /actions/2/path"},
		{"outputs nobody produces", `"actions":[` + w("out/a") + `],"outputs":["out/a","out/b","out/c"]`, "output_unproduced /outputs/1 out/b 1"},
		{"a run may produce them", `"actions":[{"kind":"run","argv":["a"]}],"outputs":["out/b"]`, ""},
		{"an input that is written", `"actions":[` + w("src/a") + `],"inputs":["src/./a"]`, "input_written /actions/0/path src/a /inputs/0"},
		{"an input that is also an output", `"actions":[{"kind":"run","argv":["a"]}],"inputs":["src/a"],"outputs":["./src/a"]`, "input_written /outputs/0 src/a /inputs/0"},
	} {
		in := parse(t, `{"goal":"g","constraints":["c"],`+tc.members+`}`)
		var got []string
		for _, f := range in.structureFindings() {
			got = append(got, strings.TrimSpace(f.Code+" "+f.Path+" "+f.Value+" "+f.Other))
		}
		if strings.Join(got, "|") != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, strings.Join(got, "|"), tc.want)
		}
	}
}

// FuzzParseIntent: any document gives an intent or an *IntentError. The normalised form
// of an intent is an intent with the same normalised form.
func FuzzParseIntent(f *testing.F) {
	for _, seed := range []string{
		`{"goal":"g"}`,
		twoSteps,
		`{"goal":" \ufeffg\r\n","constraints":["b","a","a",""],"context":{"x":[1]},"inputs":["a"],"outputs":["./b"]}`,
		`{"goal":"g","actions":[{"kind":"write","path":"a/../b","content_base64":"aGk=","executable":true},{"kind":"call","tool_id":"t","params":{"a":1}}]}`,
		`{"goal":"TBD","actions":[{"kind":"run","argv":["sh","-c","x"],"env":{"A":"b"},"cwd":"/","stdin":"","timeout_ms":1,"risk_level":"high","risk_tags":["x"]}]}`,
		`{"goal":1}`, `[]`, `{"goal":"\u200b"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		doc, err := canon.Parse(src, canon.MaxIntentBytes)
		if err != nil {
			return
		}
		in, err := ParseIntent(doc.Value())
		if err != nil {
			var ie *IntentError
			if !errors.As(err, &ie) {
				t.Fatalf("%T", err)
			}
			return
		}
		first, _, err := canon.Artifact(in.Normalised())
		if err != nil {
			t.Fatal(err)
		}
		again, err := canon.Parse(first, 4*canon.MaxIntentBytes)
		if err != nil {
			t.Fatal(err)
		}
		in2, err := ParseIntent(again.Value())
		if err != nil {
			t.Fatalf("the normalised form of %s is no intent: %v", src, err)
		}
		second, _, err := canon.Artifact(in2.Normalised())
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("normalising twice differs (%v)\n%s\n%s", err, first, second)
		}
		effects := in.Effects(Profile{})
		var v Verdict
		for _, e := range effects {
			v.Permits = append(v.Permits, e.ID)
		}
		d, err := Decide(in, effects, in.Findings(), v)
		if err != nil || d.Outcome != OutcomeBundle {
			t.Fatalf("%s %v", d.Outcome, err)
		}
		if d, err := Decide(in, effects, in.Findings(), Verdict{}); err != nil || len(effects) > 0 && d.Outcome != OutcomeRefuse {
			t.Fatalf("without permits: %s %v", d.Outcome, err)
		}
	})
}
