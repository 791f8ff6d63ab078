package scaffold

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/loader"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/open-policy-agent/opa/v1/util"

	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// policies are the folders with Rego that init and policy new write.
func policies(t *testing.T) map[string][]Seed {
	t.Helper()
	set, all := specstest.NewSpecs(t), map[string][]Seed{}
	add := func(name string, list []Seed, err error) {
		if err != nil {
			t.Fatal(err)
		}
		all[name] = list
	}
	list, err := Profile(set, "acme-x")
	add("profile", list, err)
	for _, prefix := range []string{"gate.org.", "gate.repo."} {
		list, err := Layer(set, prefix, "acme-x")
		add(prefix, list, err)
	}
	for _, file := range append(Files(), "none") {
		list, err := profileSeeds(set, "house", Look(repository(file)))
		add(file, list, err)
	}
	return all
}

// written writes the files of a policy to a folder.
func written(t *testing.T, list []Seed) string {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, s := range list {
		if err := s.Sow(root); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOPARunsTheTests: opa test --bundle DIR loads what is written, finds as many tests as
// the files have, and all pass.
func TestOPARunsTheTests(t *testing.T) {
	for name, list := range policies(t) {
		t.Run(name, func(t *testing.T) {
			tests := 0
			for _, s := range list {
				if strings.HasSuffix(s.Path, "_test.rego") {
					tests += strings.Count(s.Text, "\ntest_")
				}
			}
			passed := opaTest(t, written(t, list))
			if tests < 3 || passed != tests {
				t.Errorf("%d tests pass, of %d", passed, tests)
			}
		})
	}
}

// TestOPANeedsTheData: without data.json the tests of OPA fail, so that the file is what
// they run on.
func TestOPANeedsTheData(t *testing.T) {
	list := policies(t)["profile"]
	at := slices.IndexFunc(list, func(s Seed) bool { return s.Path == DataFile })
	if passed := opaTest(t, written(t, slices.Delete(list, at, at+1))); passed > 0 {
		t.Errorf("%d tests pass without data", passed)
	}
}

// opaTest runs OPA's own test runner on a folder as a bundle, and returns how many tests
// pass.
func opaTest(t *testing.T, dir string) (passed int) {
	t.Helper()
	ctx := context.Background()
	b, err := loader.NewFileLoader().AsBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	store := inmem.New()
	txn, err := store.NewTransaction(ctx, storage.WriteParams)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Abort(ctx, txn)
	results, err := tester.NewRunner().SetStore(store).SetBundles(map[string]*bundle.Bundle{dir: b}).RunTests(ctx, txn)
	if err != nil {
		t.Fatal(err)
	}
	for r := range results {
		if r.Pass() {
			passed++
		} else {
			t.Logf("%s", r)
		}
	}
	return passed
}

// TestOPAKnowsTheInput: the Rego that is written compiles in OPA's strict mode with the input
// schema beside it, and by that schema a misspelt member of the input is an error.
func TestOPAKnowsTheInput(t *testing.T) {
	raw, _ := specs.Schema("policy-input")
	var schema any
	if err := util.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	set := ast.NewSchemaSet()
	set.Put(ast.SchemaRootRef, schema)
	for name, list := range policies(t) {
		at := slices.IndexFunc(list, func(s Seed) bool { return s.Path == InputSchema })
		if at < 0 || list[at].Text != string(raw) {
			t.Errorf("%s: no input schema", name)
		}
		for _, misspell := range []bool{false, true} {
			modules := map[string]*ast.Module{}
			for _, s := range list {
				if text := s.Text; strings.HasSuffix(s.Path, ".rego") {
					if misspell && s.Path == "rules.rego" {
						text = strings.Replace(text, "in input.effects", "in input.efects", 1)
					}
					modules[s.Path] = ast.MustParseModuleWithOpts(text, ast.ParserOptions{ProcessAnnotation: true})
				}
			}
			c := ast.NewCompiler().WithStrict(true).WithSchemas(set)
			if c.Compile(modules); c.Failed() != misspell {
				t.Errorf("%s: misspelt %t: %v", name, misspell, c.Errors)
			}
		}
	}
}

// TestRegalConfig: the file that turns rules of Regal off is YAML, and names a level or
// exceptions for every rule.
func TestRegalConfig(t *testing.T) {
	b, err := fs.ReadFile(embedded, "profile/regal.yaml")
	var config struct {
		Rules map[string]map[string]struct {
			Level string `json:"level"`
		} `json:"rules"`
	}
	if err == nil {
		err = util.Unmarshal(b, &config)
	}
	if err != nil || len(config.Rules) == 0 || len(config.Rules["bugs"]) > 0 {
		t.Fatalf("%+v, %v", config, err)
	}
	for category, rules := range config.Rules {
		for name, rule := range rules {
			if rule.Level != "ignore" && rule.Level != "error" {
				t.Errorf("%s/%s has the level %q", category, name, rule.Level)
			}
		}
	}
}
