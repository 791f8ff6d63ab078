package work_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/work"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// item reads an item that has these members beside the required ones.
func item(t testing.TB, members string) work.Item {
	t.Helper()
	plan, err := work.ReadPlan(value(t, []byte(`{"id":"i","agent_id":"a","description":"do it"`+members+`}`)))
	if err != nil {
		t.Fatal(err)
	}
	return plan.Items[0]
}

// TestReadPlanAlone: the reader needs no schema to refuse what has no place in the document.
func TestReadPlanAlone(t *testing.T) {
	for src, want := range map[string]string{
		`3`: "", `null`: "", `{"items":3}`: "/items", `{"items":[3]}`: "/items/0", `[[]]`: "/0", `{"plan_version":"1.0.0","items":[],"name":1}`: "/name",
		`{"id":"a","agent_id":"a","description":"d","x":1}`: "/x", `{"id":3}`: "/id", `[{"constraints":{"max_files":"1"}}]`: "/0/constraints/max_files",
		`{"id":"a","agent_id":"a","description":"d","test_command":[3]}`: "/test_command",
	} {
		plan, err := work.ReadPlan(value(t, []byte(src)))
		if err == nil {
			t.Fatalf("%s: %+v", src, plan)
		}
		if at := pointer(t, err); at != want && at != want+"/0" {
			t.Errorf("%s: %v", src, err)
		}
	}
}

// TestNarrow: a default yields to a narrower profile, and a value that was given is a fault.
func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		members        string
		timeout, files int
		want           work.Constraints
		test           int
		fault, says    string
	}{
		{"", 600_000, 500, work.Constraints{10, 50, 100, 300_000}, 300_000, "", ""},
		{"", 60_000, 5, work.Constraints{5, 50, 100, 60_000}, 60_000, "", ""},
		{`,"constraints":{"max_tool_ops":60000}`, 60_000, 10, work.Constraints{10, 60_000, 100, 60_000}, 60_000, "", ""},
		{`,"constraints":{"timeout_ms":60000,"max_files":5}`, 60_000, 5, work.Constraints{5, 50, 100, 60_000}, 60_000, "", ""},
		{`,"constraints":{"timeout_ms":60001}`, 60_000, 500, work.Constraints{}, 0, "/constraints/timeout_ms", "timeout_ms, 60000"},
		{`,"constraints":{"max_files":6}`, 600_000, 5, work.Constraints{}, 0, "/constraints/max_files", "max_output_files, 5"},
		{`,"test_timeout_ms":60001`, 60_000, 5, work.Constraints{}, 0, "/test_timeout_ms", "60001"},
		{`,"test_timeout_ms":1000`, 60_000, 5, work.Constraints{5, 50, 100, 60_000}, 1000, "", ""},
	} {
		got, err := item(t, c.members).Narrow(c.timeout, c.files)
		if c.fault != "" {
			if at := pointer(t, err); at != c.fault || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.members, err)
			}
			continue
		}
		if err != nil || got.Constraints != c.want || got.TestTimeoutMS != c.test {
			t.Errorf("%s: %+v, test %d, %v", c.members, got.Constraints, got.TestTimeoutMS, err)
		}
	}
}

// TestKey: the key of an item changes with every member but id, dependencies and budget.
func TestKey(t *testing.T) {
	key := func(members string) string {
		text, err := item(t, members).Key()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	plain := key("")
	if want := `{"agent_id":"a","constraints":{"max_delta_size":100,"max_files":10,"max_tool_ops":50,"timeout_ms":300000},"description":"do it","input_files":[],"output_files":[],"protect":[],"test_timeout_ms":300000}` + "\n"; plain != want {
		t.Errorf("%s", plain)
	}
	for members, same := range map[string]bool{
		`,"dependencies":["b"]`: true, `,"budget":{"complexity":"low"}`: true, `,"constraints":{"max_files":10}`: true, `,"protect":[]`: true,
		`,"constraints":{"max_files":9}`: false, `,"allow":[]`: false, `,"output_files":["a"]`: false, `,"input_files":["a"]`: false, `,"test_command":"a"`: false,
		`,"test_timeout_ms":1000`: false, `,"actions":[{"kind":"run","argv":["a"]}]`: false, `,"protect":["a"]`: false,
	} {
		if (key(members) == plain) != same {
			t.Errorf("%s: the key is the same: %t", members, !same)
		}
	}
}

// TestIntent: an item becomes an intent that fits its schema and that the kernel reads.
func TestIntent(t *testing.T) {
	set := specstest.NewSpecs(t)
	agent := &work.Agent{Argv: []string{"bot", "--once"}, Stdin: "none"}
	rest := `"context":{"work_item":{"agent_id":"a","constraints":{"max_delta_size":100,"max_files":10,"max_tool_ops":50,"timeout_ms":300000},"dependencies":[],"id":"i","input_files":[],"protect":[],"test_timeout_ms":300000}},"goal":"do it","outputs":[]}`
	for _, c := range []struct {
		members, stdin, want string
		agent                *work.Agent
	}{
		{"", "none", `{"actions":[{"argv":["bot","--once"],"kind":"run","timeout_ms":300000}],` + rest, agent},
		{"", "description", `{"actions":[{"argv":["bot","--once"],"kind":"run","stdin":"do it","timeout_ms":300000}],` + rest, agent},
		{`,"test_command":"make","constraints":{"timeout_ms":1000},"test_timeout_ms":2000,"output_files":["/x"],"allow":["x"]`, "none",
			`{"actions":[{"argv":["bot","--once"],"kind":"run","timeout_ms":1000},{"argv":["make"],"kind":"run","timeout_ms":2000}],` +
				`"context":{"work_item":{"agent_id":"a","allow":["x"],"constraints":{"max_delta_size":100,"max_files":10,"max_tool_ops":50,"timeout_ms":1000},"dependencies":[],"id":"i","input_files":[],"protect":[],"test_command":"make","test_timeout_ms":2000}},"goal":"do it","outputs":["x"]}`, agent},
		{`,"actions":[{"kind":"write","path":"x","content":"1"}]`, "none", `{"actions":[{"content":"1","kind":"write","path":"x"}],` + rest, nil},
		{`,"actions":[{"kind":"write","path":"x","content":"1"}]`, "none", `{"actions":[{"content":"1","kind":"write","path":"x"}],` + rest, agent},
	} {
		agent.Stdin = c.stdin
		text, err := item(t, c.members).Intent(c.agent)
		if err != nil || string(text) != c.want+"\n" {
			t.Errorf("%s: %v\n%s", c.members, err, text)
			continue
		}
		doc, err := canon.ParseCanonical(text[:len(text)-1], canon.MaxIntentBytes)
		if err != nil {
			t.Fatal(err)
		}
		violations, err := set.Validate(specs.KindIntent, doc.Value())
		if err != nil || len(violations) > 0 {
			t.Errorf("%s: %v, %v", c.members, violations, err)
		}
		if _, err := kernel.ParseIntent(doc.Value()); err != nil {
			t.Errorf("%s: %v", c.members, err)
		}
	}
	i := item(t, "")
	agent.Stdin = "item"
	text, err := i.Intent(agent)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := i.Bytes()
	if stdin, _ := canon.Lookup(value(t, text), "/actions/0/stdin"); stdin != string(whole) {
		t.Errorf("standard input %q", stdin)
	}
	if _, err := i.Intent(nil); pointer(t, err) != "/agent_id" {
		t.Errorf("no agent: %v", err)
	}
	i = item(t, `,"actions":[{"kind":"write","path":"x","content":"`+strings.Repeat("x", 1<<19)+`"}]`)
	if i.Actions = append(i.Actions, i.Actions[0]); pointerOf(i.Intent(nil)) != "" {
		t.Error("an intent of more than 1 MiB")
	}
}

// pointerOf returns the pointer of a fault, and "none" without one.
func pointerOf(_ []byte, err error) string {
	if f, ok := err.(*work.Fault); ok {
		return f.Pointer
	}
	return "none"
}

// TestAgents: the operator's list is read, or the first fault is named.
func TestAgents(t *testing.T) {
	set := specstest.NewSpecs(t)
	for src, want := range map[string]string{
		`{"agents":{}}`: "none",
		`{"agents":{"a":{"argv":["x"],"stdin":"item","trace":"required"},"b":{"argv":["y",""],"env":["TOKEN"],"stdin":"none","trace":"optional"}}}`: "none",
		`{"agents":{"a":{"argv":["x"],"env":["T","U","T"],"stdin":"item","trace":"required"}}}`:                                                     "/agents/a/env/2",
		`{"agents":{"a":{"argv":["x"],"env":["LD_PRELOAD"],"stdin":"item","trace":"required"}}}`:                                                    "/agents/a/env/0",
		`{"agents":{"a":{"argv":[""],"stdin":"item","trace":"required"}}}`:                                                                          "/agents/a/argv",
		`{"agents":{"a":{"argv":["x","\u0000"],"stdin":"item","trace":"required"}}}`:                                                                "/agents/a/argv/1",
		`{"agents":{"a":{"argv":["x"],"stdin":"item"}}}`:                                                                                            "/agents/a",
		`{"agents":{"a":{"argv":["x"],"stdin":"text","trace":"required"}}}`:                                                                         "/agents/a/stdin",
		`{"agents":{"a":{"argv":["x"],"stdin":"item","trace":"required","cwd":"/"}}}`:                                                               "/agents/a/cwd",
		`{"agent":{}}`: "", `[]`: "",
	} {
		doc := value(t, []byte(src))
		violations, err := set.Validate(specs.KindWorkAgents, doc)
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if len(violations) > 0 {
			got = violations[0].Pointer
		} else if list, err := work.ReadAgents(doc); err != nil {
			got = pointer(t, err)
		} else if b := list["b"]; len(list) == 2 && (canonical(t, b) != `{"argv":["y",""],"env":["TOKEN"],"stdin":"none","trace":"optional"}` || canonical(t, list["a"]) != `{"argv":["x"],"env":[],"stdin":"item","trace":"required"}`) {
			t.Errorf("%+v", list)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", src, got, want)
		}
	}
	for _, src := range []string{`3`, `{"agents":{"a":{"argv":[]}}}`, `{"agents":{"a":{"cwd":"/"}}}`, `{"agents":{"a":{"argv":"x"}}}`} {
		if _, err := work.ReadAgents(value(t, []byte(src))); err == nil {
			t.Errorf("%s is read", src)
		}
	}
}

// TestReadTrace: every line is a call, whether it went well or not, or the trace is bad.
func TestReadTrace(t *testing.T) {
	const line = `{"tool":"edit","ok":true}` + "\n"
	long := func(n int) string {
		return `{"tool":"t","ok":true` + strings.Repeat(" ", n-len(`{"tool":"t","ok":true}`)) + "}"
	}
	for text, want := range map[string]int{
		"": 0, line: 1, line + line: 2, strings.TrimSpace(line): 1, line + `{"tool":"edit","ok":false}`: 2,
		`{"tool":"t","ok":true,"args_sha256":"sha256:` + strings.Repeat("0f", 32) + `","source":"mcp"}`: 1,
		line[:len(line)-1] + "\r\n": 1, long(4096): 1, long(4096) + "\n": 1, strings.Repeat(line, 100_000): 100_000,

		"\n": -1, line + "\n": -1, "x": -1, line + `{"tool":"edit"`: -1, `{"tool":"edit"}`: -1, `{"ok":true}`: -1, `{"tool":"","ok":true}`: -1,
		`{"tool":"t","ok":1}`: -1, `{"tool":"t","ok":null}`: -1, `{"tool":3,"ok":true}`: -1, `[]`: -1, `{"tool":"t","ok":true,"x":1}`: -1,
		`{"tool":"t","tool":"u","ok":true}`: -1, line[:len(line)-1] + line: -1, "\ufeff" + line: -1, "{\"tool\":\"\xff\",\"ok\":true}": -1,
		`{"tool":"t","ok":true,"args_sha256":"` + strings.Repeat("0f", 32) + `"}`: -1, `{"tool":"` + strings.Repeat("t", 257) + `","ok":true}`: -1,
		`{"tool":"t","ok":true,"source":"` + strings.Repeat("t", 257) + `"}`: -1, long(4097): -1, strings.Repeat(line, 100_001): -1,
	} {
		ops, err := work.ReadTrace([]byte(text))
		if want < 0 {
			if pointer(t, err) != "" || !strings.Contains(err.Error(), "line ") {
				t.Errorf("%.60q: %v", text, err)
			}
		} else if err != nil || ops != want {
			t.Errorf("%.60q: %d calls, %v", text, ops, err)
		}
	}
}

// TestClass: the first list that claims a path counts it.
func TestClass(t *testing.T) {
	outputs := []string{"docs/a.md", "CLAUDE.md", "a_test.go"}
	for path, want := range map[string]work.List{
		".github/workflows/x.yml": work.Lambda, "a/.npmrc": work.Lambda, "CLAUDE.md": work.Lambda, "tests/.git/x": work.Lambda, "AGENTS.md": work.Lambda,
		"test/a": work.Q, "a/tests/b": work.Q, "spec/a": work.Q, "a/testdata": work.Q, "__tests__/a.js": work.Q, "a/b_test.go": work.Q, "a_test.go": work.Q,
		"a.test.ts": work.Q, "b/a.spec.js": work.Q, "test_a.py": work.Q, "test_": work.Q, "_test.": work.Q, "a/.spec.b": work.Q, "test": work.Q,
		"docs/a.md": work.Pi,
		"src/a.go":  work.O, "docs/b.md": work.O, "tester/a": work.O, "Test/a": work.O, "latest_a.go": work.O, "a_test": work.O, "test.go": work.O,
		"test_dir/a": work.O, "a.test.d/b": work.O, "spec.md": work.O, "a_spec.rb": work.O,
	} {
		if got := work.Class(path, outputs); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestDelta: regions are added to the list of their path, and to the total.
func TestDelta(t *testing.T) {
	var d work.Delta
	file := func(text string) work.Side { return work.Side{Mode: "100644", Text: []byte(text)} }
	d.Add("a", file("1\n2\n3\n"), file("x\n2\ny\n"), []string{"out"})
	d.Add("out", work.Side{}, file("x"), []string{"out"})
	d.Add("test/a", file("x"), work.Side{}, nil)
	d.Add(".npmrc", file("1\n2\n3\n4\n5\n"), file("a\n2\nb\n4\nc\n"), nil)
	d.Add("b", file("x"), file("x"), nil)
	if text := canonical(t, d); text != `{"lambda":3,"o":2,"pi":1,"q":1,"total":7}` {
		t.Error(text)
	}
}

// TestLargePlan: the largest plan is read, whatever its graph is.
func TestLargePlan(t *testing.T) {
	list := made("all", work.MaxItems)
	for i := range list {
		list[i].AgentID, list[i].Description = "a", strings.Repeat("d", 1000)
	}
	src, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := canon.Parse(src, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := work.ReadPlan(doc.Value())
	if err != nil || len(plan.Items) != work.MaxItems || len(plan.Items[999].Dependencies) != 999 {
		t.Errorf("%d items, %v", len(plan.Items), err)
	}
}
