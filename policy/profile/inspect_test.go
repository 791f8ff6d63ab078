package profile

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy"
)

// TestInspectProfile: each fault of a profile is found at once, with its place.
func TestInspectProfile(t *testing.T) {
	base := func(name string) (kernel.Profile, error) { return builtinProfiles(t)[name], nil }
	for src, want := range map[string][]string{
		least:                                 nil,
		"{\n \"n":                             {"p.json:2:2: "},
		`[]`:                                  {"p.json:1:1: must be an object"},
		`{"name":"acme","extends":"default"}`: nil,
		`{"name":"acme","extends":"defalt"}`:  {`p.json:1:26: "/extends": must be one of`},
		`{"name":"acme","extend":"default"}`:  {`p.json:1:25: "/extend": unknown member "extend"; did you mean "extends"?`},
		"{\"name\":\"strict\",\n\"extends\":\"default\",\n\"env_allow\":\"*\",\n\"allowed_comands\":[],\n\"timeout_ms\":1,\n\"registries\":[\"a.example:99999\"]}": {
			`p.json:1:9: the name "strict"`, `p.json:3:13: member "env_allow": "*" cannot stand`, `p.json:4:19: "/allowed_comands": unknown member`, `p.json:5:14: "/timeout_ms": must be at least`, `p.json:6:15: "/registries/0"`,
		},
		`{"name":"acme","allowed_comands":["node"],"timeout_ms":"x"}`: {
			"p.json:1:1: member \"allow_network\" is missing", `p.json:1:1: member "allowed_write_roots" is missing`, `p.json:1:1: member "max_output_files" is missing`,
			`p.json:1:1: member "max_total_output_bytes" is missing`, `p.json:1:34: "/allowed_comands": unknown`, `p.json:1:56: "/timeout_ms": must be`,
		},
	} {
		_, errs := Inspect(policy.Folder{FS: fstest.MapFS{"p.json": {Data: []byte(src)}}, Dir: "."}, "p.json", base, schemas(t))
		ok := len(errs) == len(want)
		for i := range min(len(errs), len(want)) {
			ok = ok && strings.HasPrefix(errs[i].Error(), want[i]) && errs[i].Column > 0
		}
		if !ok {
			t.Errorf("%s\nfaults are\n%v\nwant\n%v", src, errs, strings.Join(want, "\n"))
		}
	}
	if _, errs := Inspect(policy.Folder{FS: fstest.MapFS{}, Dir: "."}, "p.json", base, schemas(t)); !slices.ContainsFunc(errs, func(e *policy.Error) bool { return strings.Contains(e.Msg, "no such file") }) {
		t.Errorf("an absent file gives %v", errs)
	}
}
