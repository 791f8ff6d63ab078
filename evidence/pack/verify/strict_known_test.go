package verify

import (
	"maps"
	"slices"
	"testing"

	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// TestKnownPolicy: package profiles reads the same facts in the text of the built-in
// policy as the engine. These are the names of modules, and for each rule its id, its
// title and whether it can ask.
func TestKnownPolicy(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := policy.LoadLayer(policy.Folder{FS: profiles.FS(), Dir: "builtin"}, policy.Builtin, policy.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	layer.Embedded = true
	var names []string
	for _, m := range layer.Modules {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, profiles.Modules()) {
		t.Errorf("the modules are %q", names)
	}
	for _, name := range profiles.Names() {
		p, err := profile.Load(profiles.FS(), name, set)
		if err != nil {
			t.Fatal(err)
		}
		for id := range p.Severity {
			if !profiles.Rules()[id].Asks {
				t.Errorf("%s gives %s a weight, and it never asks", name, id)
			}
		}
	}
	p, err := profile.Load(profiles.FS(), "dev", set)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := policy.New(t.Context(), p, []policy.Layer{layer}, policy.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	rules, err := engine.Rules()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]profiles.Rule{}
	for _, r := range rules {
		if !slices.Contains(r.Kinds, "deny") {
			t.Errorf("%s never denies", r.ID)
		}
		want[r.ID] = profiles.Rule{Title: r.Title, Asks: slices.Contains(r.Kinds, "clarify")}
	}
	if !maps.Equal(want, profiles.Rules()) {
		t.Errorf("the rules are %v", want)
	}
}

// TestOddModules: a run has only modules of the layers that can decide about it.
func TestOddModules(t *testing.T) {
	for _, tc := range []struct {
		name, profile string
		odd           bool
	}{
		{"builtin/decide.rego", "dev", false},
		{"builtin/records.json", "acme", false},
		{"builtin/paths.rego", "acme", true},
		{"builtin/other.rego", "dev", true},
		{"org/acme/deploy.rego", "dev", false},
		{"org/acme/sub/deploy.REGO", "strict", false},
		{"org/deploy.rego", "dev", true},
		{"repo/tree/x.rego", "default", false},
		{"repo/tree/x.json", "default", true},
		{"user/acme/rules.rego", "dev", true},
		{"user/acme/rules.rego", "acme", false},
		{"user/acme_two/rules.rego", "acme-two", false},
		{"user/acme/rules.rego", "other", true},
		{"A", "dev", true},
		{"x/y/z.rego", "acme", true},
	} {
		if what := oddModule(tc.name, tc.profile); (what != "") != tc.odd {
			t.Errorf("%s under %s: %q", tc.name, tc.profile, what)
		}
	}
}
