package policy

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// mebibyte assigns a text of one mebibyte to s, and many copies of it to xs.
const mebibyte = `s := sprintf("%01048575d ", [7])
	`

// tooLarge returns calls that would make more than one call may, by the function that
// fails.
func tooLarge() map[string]string {
	eight := mebibyte + `e := concat("", [s, s, s, s, s, s, s, s])
	`
	// The tree doubles at each step; its type does not.
	tree := "a0 := {}\n\t"
	for i := range 24 {
		tree += fmt.Sprintf("a%d := {k: a%d | some k in [\"l\", \"r\"]}\n\t", i+1, i)
	}
	return map[string]string{
		"array.concat":                     chain(24, "[1]", "array.concat(a%d, a%d)") + "count(a24) < 0",
		"array.flatten":                    `a := numbers.range(1, 100000)` + "\n\t" + `count(array.flatten([a | some _ in a])) < 0`,
		"base64.encode":                    eight + `base64.encode(concat("", [e, s, s, s, s, s])) == ""`,
		"base64url.encode":                 eight + `base64url.encode(concat("", [e, s, s, s, s, s])) == ""`,
		"base64url.encode_no_pad":          eight + `base64url.encode_no_pad(concat("", [e, s, s, s, s, s])) == ""`,
		"concat":                           eight + `concat("", [e | some _ in numbers.range(1, 400)]) == ""`,
		"glob.quote_meta":                  eight + `glob.quote_meta(concat("", [e, s])) == ""`,
		"hex.encode":                       eight + `hex.encode(concat("", [e, s])) == ""`,
		"indexof_n":                        eight + `count(indexof_n(e, "0")) < 0`,
		"internal.template_string":         eight + `$"{e}{e}{e}" == ""`,
		"json.marshal":                     tree + `json.marshal(a24) == ""`,
		"json.unmarshal":                   mebibyte + `count(json.unmarshal(concat("", ["[", replace(s, "0", "0,"), "7]"]))) < 0`,
		"lower":                            eight + `lower(concat("", [e, s, s, s, s])) == ""`,
		"net.cidr_contains_matches":        `a := ["10.0.0.0/8" | some _ in numbers.range(1, 5000)]` + "\n\t" + `count(net.cidr_contains_matches(a, a)) < 0`,
		"net.cidr_merge":                   `count(net.cidr_merge([x | some i in numbers.range(1, 20000); x := sprintf("2001:db8::%x/128", [i])])) < 0`,
		"numbers.range":                    `count(numbers.range(1, 1000000000)) < 0`,
		"numbers.range_step":               `count(numbers.range_step(1000000000000, 1, 1000)) < 0`,
		"object.union":                     tree + `count(object.union(a24, {"l": a23})) < 0`,
		"object.union_n":                   tree + `count(object.union_n([a24, {"x": a23}])) < 0`,
		"or":                               `a := {i | some i in numbers.range(1, 530000)}` + "\n\t" + `count(a | a) < 0`,
		"regex.find_all_string_submatch_n": mebibyte + `count(regex.find_all_string_submatch_n("((((((((0))))))))", s, -1)) < 0`,
		"regex.find_n":                     mebibyte + `count(regex.find_n("", s, -1)) < 0`,
		"regex.match":                      `regex.match(concat("", ["a{1000}" | some _ in numbers.range(1, 500)]), input.mode)`,
		"regex.replace":                    mebibyte + `regex.replace(s, "0", "$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0$0") == ""`,
		"regex.split":                      mebibyte + `count(regex.split("0", concat("", [s, s]))) < 0`,
		"replace":                          mebibyte + `replace(s, "0", "0123456789abcdef0") == ""`,
		"split":                            eight + `count(split(e, "")) < 0`,
		"sprintf":                          eight + `sprintf("%s%s%s", [e, e, e]) == ""`,
		"strings.replace_n":                mebibyte + `strings.replace_n({"0": "0123456789abcdef0"}, s) == ""`,
		"strings.split_n":                  eight + `count(strings.split_n(e, "", -1)) < 0`,
		"union":                            `a := {i | some i in numbers.range(1, 60000)}` + "\n\t" + `count(union({b | some j in numbers.range(1, 20); b := a | {-j}})) < 0`,
		"upper":                            eight + `upper(concat("", [e, s, s, s, s])) == ""`,
		"urlquery.decode_object":           mebibyte + `count(urlquery.decode_object(replace(s, "0", "a&"))) < 0`,
		"urlquery.encode":                  eight + `urlquery.encode(e) == ""`,
		"urlquery.encode_object":           mebibyte + `urlquery.encode_object({s: ["" | some _ in numbers.range(1, 100)]}) == ""`,
	}
}

// TestTooLarge: for every function, a result that is too large is an error before it is
// made, and never undefined. Behind "not" it is an error too.
func TestTooLarge(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(512 << 20))
	cases := tooLarge()
	for name := range sizers() {
		if cases[name] == "" {
			t.Errorf("%s has no case", name)
		}
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := engineOf(t, body).Eval(context.Background(), testInput(t))
			asError(t, err, KindLimit, fmt.Sprintf("function %q would make more than 16 MiB", name))
		})
	}
	for _, body := range []string{
		`not concat("", [x | some _ in numbers.range(1, 40); x := sprintf("%01000000d", [1])])`,
		`every i in [1] { concat("", [x | some _ in numbers.range(i, 40); x := sprintf("%01000000d", [1])]) }`,
		`count({k: v | some k in ["a"]; v := concat("", [x | some _ in numbers.range(1, 40); x := sprintf("%01000000d", [1])])}) > 0`,
		`f := [1 | sprintf("%01000000d%[1]*d", [9000000, 1]); sprintf("%[1]s%[1]s%[1]s", [concat("", [x | some _ in numbers.range(1, 9); x := sprintf("%01000000d", [1])])])]` + "\n\tcount(f) > 0",
	} {
		_, err := engineOf(t, body).Eval(context.Background(), testInput(t))
		asError(t, err, KindLimit, "would make more than 16 MiB")
	}
}

// engineOf returns an engine with one deny, which has all the time and memory that it
// needs.
func engineOf(t *testing.T, body string) *Engine {
	t.Helper()
	lim := patient()
	lim.MemoryBytes = 1 << 40
	e, err := New(context.Background(), testProfile(), []Layer{user(head0 + deny("A_RULE", body))}, lim)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestBoundedElsewhere: a bounded function has no other name, and no call avoids its
// bound.
func TestBoundedElsewhere(t *testing.T) {
	for _, body := range []string{`count(["a"]) == 1 with count as concat`, `bounded.concat("", ["a"]) == "a"`, `bounded["concat"]("", ["a"]) == "a"`} {
		if _, err := New(context.Background(), testProfile(), []Layer{user(head0 + deny("A_RULE", body))}, Limits{}); err == nil {
			t.Errorf("%s is accepted", body)
		}
	}
	e := newEngine(t, user(head0+deny("A_RULE", `concat("", ["a"]) == "b" with concat as "b"`)))
	if v, err := e.Eval(context.Background(), testInput(t)); err != nil || len(v.Deny) != 1 {
		t.Errorf("verdict is %+v, %v", v, err)
	}
}

// TestSizes: a sizer never counts less than the function makes.
func TestSizes(t *testing.T) {
	texts := []string{"", "a", "a\x00\u00e9\u2028<>&\U000e0001", strings.Repeat("ab/", 40), "%s %d", "%08.3f|%-40q|%x|% #x|%+q|%#v|%[1]s%[1]s|%*d|%%|%!|%b|%U|%T", "(a)(b)|c", "$1$0x", "10.0.0.0/8", "a=1&b=2&a", `[[1, {"k": 2}], ""]`}
	values := []string{`12`, `1e300`, `12345678901234567890123456789`, `"x"`, `["a", 1, {"k": [true, null]}]`, `{"a": "b", "c": "dd"}`, `{1, 2, "s"}`, `[["a"], ["b", "c"]]`, `["a", "b", "c"]`, `{{1, 2}, {3}}`, `[1.5, 2]`, `[65, "s", 2.5, {"a": 1}]`, `["10.0.0.0/9", "10.128.0.0/9", "2001:db8::/33"]`, `[{"a": {"b": 1}}, {"a": {"c": {}}}]`, `5`, `2`}
	var terms []*ast.Term
	for _, s := range texts {
		terms = append(terms, ast.StringTerm(s))
	}
	for _, s := range values {
		terms = append(terms, ast.MustParseTerm(s))
	}
	made := map[string]int{}
	for name, size := range sizers() {
		arity := ast.BuiltinMap[name].Decl.Arity()
		operands := make([]*ast.Term, arity)
		var each func(i int)
		each = func(i int) {
			if i < arity {
				for _, term := range terms {
					operands[i] = term
					each(i + 1)
				}
				return
			}
			m := &meter{left: resultBytes}
			if size(m, operands); m.over() {
				return
			}
			_ = topdown.GetBuiltin(name)(topdown.BuiltinContext{}, operands, func(result *ast.Term) error {
				made[name]++
				if n := contentBytes(result.Value); n > resultBytes-m.left {
					t.Errorf("%s%v makes %d bytes, and %d were counted", name, operands, n, resultBytes-m.left)
				}
				return nil
			})
		}
		each(0)
	}
	for name := range sizers() {
		if made[name] == 0 {
			t.Errorf("%s made nothing", name)
		}
	}
}

// contentBytes returns the bytes of a string, or the places of a collection.
func contentBytes(v ast.Value) int {
	switch v := v.(type) {
	case ast.String:
		return len(v)
	case ast.Number:
		return 0 // the digits of a number that results bound it, not its text
	case interface{ Len() int }:
		return place * v.Len()
	}
	return 0
}

// TestReachable: the bounded function gives the same result as OPA's own function.
func TestReachable(t *testing.T) {
	for _, graph := range []string{`{}`, `{"a": ["b"], "b": {"c"}, "c": []}`, `{"a": ["a", "x"]}`, `{"a": ["b", "b"], "b": "c"}`} {
		for _, from := range []string{`[]`, `["a"]`, `{"a", "z"}`, `["b", "c"]`} {
			operands := []*ast.Term{ast.MustParseTerm(graph), ast.MustParseTerm(from)}
			var got, want *ast.Term
			keep := func(to **ast.Term) func(*ast.Term) error { return func(t *ast.Term) error { *to = t; return nil } }
			if err := reachable(topdown.BuiltinContext{}, operands, keep(&got)); err != nil {
				t.Fatal(err)
			}
			if err := topdown.GetBuiltin("graph.reachable")(topdown.BuiltinContext{}, operands, keep(&want)); err != nil {
				t.Fatal(err)
			}
			if !got.Equal(want) {
				t.Errorf("from %s in %s: %v, want %v", from, graph, got, want)
			}
		}
	}
}
