package devel

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/policy"
)

const tested = `package gate.user.test

# METADATA
# title: t
# description: d
# custom:
#   id: A_RULE
deny contains {"id": "A_RULE", "path": "/goal", "msg": "m"} if {
	some e in input.effects
	e.kind == "write"
	long(e.path)
}

long(path) if count(path) > 100

long(path) if {
	startswith(path, "deep/")
	endswith(path, "/end")
}

unused := 7
`

func suite(tests ...string) Suite {
	s := Suite{Profile: testProfile(), Layer: user(tested)}
	for i, src := range tests {
		s.Tests = append(s.Tests, policy.Module{Name: "t" + string(rune('a'+i)) + "_test.rego", Source: []byte("package gate.user.test_test\n\nimport data.gate.user.test\n\n" + src)})
	}
	return s
}

// other returns a suite with a test file of another package.
func other(pkg, src string) Suite {
	s := suite()
	s.Tests = []policy.Module{{Name: "ta_test.rego", Source: []byte("package " + pkg + "\n\n" + src)}}
	return s
}

// TestTest tests what a test sees, the message of each kind of failure, and the lines
// that count.
func TestTest(t *testing.T) {
	s := suite(`test_pass if {
	count(test.deny) == 0 with input as data.intents.site
}

test_replaced if {
	count(test.deny) == 1 with input as {"effects": [{"kind": "write", "path": "deep/x/end"}]}
}

test_profile if data.profile.name == "default"

test_other_profile if {
	data.profile.name == "other" with data.profile as {"name": "other"}
}

test_fails if {
	x := 1
	x == 2
}

test_errs if to_number("x") == 1

test_value := 3

helper if false
`)
	s.Intents = map[string]policy.Input{"site": testInput()}
	got, err := Test(context.Background(), s, patient())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range got.Cases {
		lines = append(lines, c.Name+" "+c.Fault)
	}
	want := []string{
		"test_pass ", "test_replaced ", "test_profile ", "test_other_profile ",
		"test_fails line 21 does not hold: x == 2",
		`test_errs ta_test.rego:24: function "to_number" does not accept its operands`,
		"test_value the test is 3, not true",
	}
	if testProfile().Name != "default" {
		want[2] = `test_profile line 13 does not hold: data.profile.name == "default"`
	}
	if !slices.Equal(lines, want) {
		t.Errorf("cases are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	// The effects of the input are short writes, so the first rule long fails on its
	// line, which is reached. The helper without a caller is not reached.
	if c := got.Coverage; len(c) != 1 || c[0].File != "user/test.rego" || !slices.Equal(c[0].Missed, []int{21}) || c[0].Lines != 9 {
		t.Errorf("coverage is %+v", c)
	}

	s.Run = regexp.MustCompile("test.test_p")
	if got, err = Test(context.Background(), s, patient()); err != nil || len(got.Cases) != 2 {
		t.Errorf("%d cases, error %v", len(got.Cases), err)
	}
}

func TestTestErrors(t *testing.T) {
	none := suite("test_a if true\n")
	none.Run = regexp.MustCompile("nothing")
	for name, tc := range map[string]struct {
		s    Suite
		want string
	}{
		"no test file":      {suite(), "no test (test_NAME in a *_test.rego) was found"},
		"no match":          {none, `no test matches "nothing"`},
		"no test in a file": {suite("test_a if true\n", "tset_b if true\n"), "tb_test.rego: test file has no test"},
		"deny":              {suite("test_a if true\n\ndeny contains 1\n"), `ta_test.rego:7: rule "deny" stands in a test file`},
		"arguments":         {suite("test_a(x) if x\n"), `test "test_a" must be one rule without arguments, default or else`},
		"set":               {suite("test_a contains 1\n"), `test "test_a" must be one rule without arguments, default or else`},
		"default":           {suite("default test_a := true\n\ntest_a if false\n"), `without arguments, default or else`},
		"else":              {suite("test_a if false else := true\n"), `without arguments, default or else`},
		"todo":              {suite("todo_test_a if false\n\ntest_b if true\n"), `test "todo_test_a" would not run`},
		"two of a name":     {suite("test_a if false\n\ntest_a if true\n"), `ta_test.rego:7: a second test "test_a"; the first is at line 5`},
		"two in two files":  {suite("test_a if false\n", "test_a if true\n"), `tb_test.rego:5: a second test "test_a"; the first is at ta_test.rego:5`},
		"profile's place":   {other("profile", "timeout_ms := 1\n\ntest_a if true\n"), `package "profile" must be "gate.user.test_test"`},
		"intents' place":    {other("intents", "i := {}\n\ntest_a if true\n"), `package "intents" must be "gate.user.test_test"`},
		"below the layer":   {other("gate.user.test.sub", "test_a if true\n"), `must be "gate.user.test_test"`},
		"adds to a helper":  {other("gate.user.test", "long(path) if path == \"x\"\n\ntest_a if true\n"), `rule "long" is the layer's: a test file must not add to it`},
		"no such rule":      {suite("test_a if count(test.dny) == 0\n"), `"dny" is no rule of "gate.user.test"; did you mean "deny"?`},
		"no such intent":    {suite("test_a if data.intents.nope.mode\n"), `"nope" is no intent (intents/NAME.json)`},
		"clock":             {suite("test_a if time.now_ns() > 0\n"), "ta_test.rego:5: undefined function"},
		"unknown variable":  {suite("test_a if nothing\n"), "ta_test.rego:5: var nothing is unsafe"},
		"no package":        {Suite{Profile: testProfile(), Layer: user(tested), Tests: []policy.Module{{Name: "x_test.rego", Source: []byte("# nothing\n")}}}, "x_test.rego"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Test(context.Background(), tc.s, patient())
			asError(t, err, policy.KindModule, tc.want)
			if len(got.Cases) > 0 {
				t.Errorf("cases beside an error: %+v", got)
			}
			if name != "no match" && name != "no test file" {
				errs := CheckTests(context.Background(), tc.s, true, patient())
				if !slices.ContainsFunc(errs, func(e *policy.Error) bool { return e.Kind == policy.KindModule && strings.Contains(e.Error(), tc.want) }) {
					t.Errorf("CheckTests finds %v", errs)
				}
			}
		})
	}
}

// TestTestDeadline: a test that does not end fails, and the next test runs.
func TestTestDeadline(t *testing.T) {
	s := suite("test_slow if count([x | some x in numbers.range(1, 1000000); some y in numbers.range(1, 1000000); x == y]) < 0\n\ntest_next if true\n")
	rehearsal.Again(t, 3, func(scale int) string {
		lim := patient()
		lim.Deadline = time.Duration(scale) * 200 * time.Millisecond
		got, err := Test(context.Background(), s, lim)
		if err != nil {
			t.Fatal(err)
		}
		c := got.Cases
		if len(c) != 2 || c[0].Pass || !strings.Contains(c[0].Fault, "longer than") {
			t.Fatalf("cases are %+v", c)
		}
		if !c[1].Pass && strings.Contains(c[1].Fault, "longer than") {
			return c[1].Fault // the next test has no more time than the slow one
		}
		if !c[1].Pass {
			t.Errorf("cases are %+v", c)
		}
		return ""
	})
}

// TestFormat: the built-in policy and the example of a new profile have the one layout,
// and formatting keeps the rules.
func TestFormat(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../profiles/builtin/*.rego"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := Format(policy.Module{Name: name, Source: src}); err != nil || string(out) != string(src) {
			t.Errorf("%s is not laid out: %v", name, err)
		}
	}
	out, err := Format(policy.Module{Name: "m", Source: []byte("package gate.org.x\n# about\ndeny  contains {\"id\":1} if{input.mode}\n")})
	if want := "package gate.org.x\n\n# about\ndeny contains {\"id\": 1} if input.mode\n"; err != nil || string(out) != want {
		t.Errorf("layout is %q, error %v", out, err)
	}
	_, err = Format(policy.Module{Name: "m", File: "here/m", Source: []byte("package gate.org.x\ndeny if {")})
	asError(t, err, policy.KindModule, "here/m:2: ")
	_, err = Format(policy.Module{Name: "m", Source: []byte("# nothing\n")})
	asError(t, err, policy.KindModule, "m")
}
