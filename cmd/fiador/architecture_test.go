package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/fiador/fiador"
)

// imports maps each package folder to what its non-test files import.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name != ".." && (strings.HasPrefix(name, ".") || name == "testdata") && path != root {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root {
				return filepath.SkipDir // a module of its own: tools of the benchmark and the tests
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		for _, spec := range f.Imports {
			p := strings.Trim(spec.Path.Value, `"`)
			if !slices.Contains(got[pkg], p) {
				got[pkg] = append(got[pkg], p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 8 {
		t.Fatalf("only %d packages found: the test looks in the wrong place", len(got))
	}
	return got
}

// TestKernelIsPure: no package under kernel/ can reach a clock, randomness,
// the environment, a file, a process or a socket.
func TestKernelIsPure(t *testing.T) {
	t.Parallel()
	allowed := strings.Fields(`bytes cmp crypto/sha256 encoding/base64 encoding/binary encoding/hex encoding/json errors fmt io iter maps math
		math/bits regexp regexp/syntax slices sort strconv strings unicode unicode/utf8 unicode/utf16 golang.org/x/text/unicode/norm`)
	queries := "github.com/theory/jsonpath"
	canonOnly := []string{"github.com/gowebpki/jcs", "github.com/go-json-experiment/json/jsontext", "reflect", "sync"}
	for pkg, list := range imports(t) {
		if pkg != "kernel" && !strings.HasPrefix(pkg, "kernel/") {
			continue
		}
		for _, p := range list {
			inKernel := p == module+"/kernel" || strings.HasPrefix(p, module+"/kernel/")
			forCanon := pkg == "kernel/canon" && slices.Contains(canonOnly, p)
			forQueries := pkg == "kernel/adapter/answer" && (p == queries || p == queries+"/spec")
			if !slices.Contains(allowed, p) && !inKernel && !forCanon && !forQueries {
				t.Errorf("%s imports %s", pkg, p)
			}
		}
	}
}

// TestKernelCallsNothingImpure: no package under kernel/ prints, starts a
// goroutine, panics, runs code before main, or assigns to a package variable.
func TestKernelCallsNothingImpure(t *testing.T) {
	t.Parallel()
	for pkg := range imports(t) {
		if pkg != "kernel" && !strings.HasPrefix(pkg, "kernel/") {
			continue
		}
		files := parsePackage(t, pkg)
		state := map[string]bool{}
		for _, f := range files {
			for name, obj := range f.Scope.Objects {
				state[name] = state[name] || obj.Kind == ast.Var
			}
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if what := impurity(n, state); what != "" {
					t.Errorf("%s %s", pkg, what)
				}
				return true
			})
		}
	}
}

func parsePackage(t *testing.T, pkg string) []*ast.File { return parseFiles(t, pkg, 0) }

// parseComments parses a package with its comments.
func parseComments(t *testing.T, pkg string) []*ast.File {
	return parseFiles(t, pkg, parser.ParseComments)
}

func parseFiles(t *testing.T, pkg string, mode parser.Mode) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// impurity describes the impurity of a node, given the package's variables.
func impurity(n ast.Node, state map[string]bool) string {
	base := func(e ast.Expr) *ast.Ident {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.Ident:
				return x
			default:
				return nil
			}
		}
	}
	changed := func(e ast.Expr) string {
		// A resolved identifier of the file's own scope is the package variable;
		// one that is not resolved stands in another file of the package.
		id := base(e)
		if id == nil || !state[id.Name] {
			return ""
		}
		if id.Obj != nil {
			if _, global := id.Obj.Decl.(*ast.ValueSpec); !global {
				return ""
			}
		}
		return "assigns to the package variable " + id.Name
	}
	switch n := n.(type) {
	case *ast.GoStmt:
		return "starts a goroutine"
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" {
			return "has an init function"
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"panic", "print", "println"}, id.Name) {
			return "calls " + id.Name
		}
		if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "fmt" && (strings.HasPrefix(sel.Sel.Name, "Print") || strings.HasPrefix(sel.Sel.Name, "Scan")) {
				return "calls fmt." + sel.Sel.Name
			}
		}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return ""
		}
		for _, e := range n.Lhs {
			if what := changed(e); what != "" {
				return what
			}
		}
	case *ast.IncDecStmt:
		return changed(n.X)
	}
	return ""
}

// levels are the packages, lowest first. A package imports only packages of lower lines.
var levels = []string{
	"lazy kernel/canon kernel/finding kernel/text specs/likeness specs/vectors/detect harness/sandbox/wire",
	"kernel/contract kernel/pathname kernel/prose kernel/shellwords",
	"kernel/adapter/params kernel/reason kernel/argv",
	"kernel kernel/adapter/answer",
	"kernel/adapter kernel/result kernel/rpc kernel/trial kernel/work",
	"kernel/trial/verify",
	"kernel/grade",
	"kernel/grade/align kernel/grade/judge",
	"kernel/adapter/level specs profiles ledger evidence/transcript harness/harnesstest/intents harness/rehearsal harness/tree/treetest harness/calltrace harness/change harness/command harness/durable harness/links harness/mcp harness/outbound harness/sandbox/census harness/sandbox/cgroup harness/sandbox/initproc harness/sandbox/seccomp evidence evidence/asset evidence/receipt evidence/redact evidence/screen policy/stored",
	"policy evidence/transcript/transcripttest specs/specstest specs/specstest/second evidence/dsse evidence/report evidence/report/page ledger/disk ledger/remote harness/gate harness/saferun harness/settings harness/tree harness/conformance",
	"ledger/disk/disktest policy/devel policy/profile",
	"evidence/pack evidence/suitedir evidence/resultfile evidence/testimony harness/sandbox/proxy harness/workspace cmd/safe-run",
	"harness/sandbox harness/sandbox/shim",
	"evidence/pack/packtest evidence/pack/sign harness/model harness/remote/job harness/runerr harness/toolio",
	"evidence/pack/verify harness/document harness/git harness/patch harness/remote/worker harness/secret",
	"evidence/receipt/verify harness/ask harness/dispatch harness/request cmd/fiador-shim",
	"harness/execute harness/gitbranch harness/intake",
	"harness/changes harness/packing harness/remote",
	"harness",
	"harness/agent harness/fingerprint harness/harnesstest harness/questions harness/replay harness/reproduce harness/scaffold harness/workflow/history",
	"harness/hook harness/suite harness/workflow",
	"harness/suite/compare harness/suite/recording",
	"cmd/fiador/build cmd/fiador/cli cmd/fiador/manual",
	"cmd/fiador/cli/decisions cmd/fiador/cli/folders cmd/fiador/cli/ledgers cmd/fiador/cli/policies cmd/fiador/cli/sandboxes",
	"cmd/fiador/cli/packs cmd/fiador/cli/remotes",
	"cmd/fiador/agentcmd cmd/fiador/applycmd cmd/fiador/guidecmd cmd/fiador/ledgercmd cmd/fiador/packcmd cmd/fiador/policycmd cmd/fiador/provecmd cmd/fiador/runcmd cmd/fiador/suitecmd cmd/fiador/toolcmd cmd/fiador/transcriptcmd cmd/fiador/workcmd",
	"cmd/fiador/all",
	"cmd/fiador",
}

// TestImportsPointOneWay: a package imports only packages of a lower level.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	level := map[string]int{}
	for i, line := range levels {
		for pkg := range strings.FieldsSeq(line) {
			level[pkg] = i
		}
	}
	for pkg, list := range imports(t) {
		from, known := level[pkg]
		if !known {
			t.Errorf("package %s has no place in the design", pkg)
			continue
		}
		for _, p := range list {
			if !strings.HasPrefix(p, module+"/") {
				continue
			}
			to, known := level[strings.TrimPrefix(p, module+"/")]
			if !known || to >= from {
				t.Errorf("%s imports %s: the arrow points the wrong way", pkg, p)
			}
		}
	}
}

func TestSingleImporters(t *testing.T) {
	t.Parallel()
	for prefix, only := range map[string]string{
		"github.com/gowebpki/jcs":                      "kernel/canon",
		"reflect":                                      "kernel/canon",
		"github.com/go-json-experiment/json":           "kernel/canon",
		"github.com/open-policy-agent/opa":             "policy policy/devel policy/stored",
		"github.com/zeebo/blake3":                      "evidence/receipt",
		"github.com/theory/jsonpath":                   "kernel/adapter/answer",
		"github.com/xeipuuv/gojsonschema":              "specs",
		"go.yaml.in/yaml/v3":                           "harness/document",
		"golang.org/x/term":                            "cmd/fiador/cli",
		"filippo.io/edwards25519":                      "ledger",
		"golang.org/x/mod":                             "ledger ledger/disk ledger/remote",
		"golang.org/x/sys":                             "harness/change harness/remote/worker harness/saferun harness/sandbox harness/sandbox/census harness/sandbox/cgroup harness/sandbox/seccomp harness/tree harness/workspace ledger/disk",
		"golang.org/x/text/width":                      "evidence/screen",
		"golang.org/x/text/unicode/norm":               "kernel/grade/judge kernel/pathname kernel/text",
		"github.com/santhosh-tekuri/jsonschema":        "specs/specstest/second",
		module + "/harness/harnesstest":                "",
		module + "/harness/rehearsal":                  "",
		module + "/specs/specstest":                    "harness/harnesstest",
		module + "/specs/specstest/second":             "",
		module + "/harness/tree/treetest":              "",
		module + "/ledger/disk/disktest":               "",
		module + "/evidence/pack/packtest":             "",
		module + "/evidence/transcript/transcripttest": "",
		"github.com/rogpeppe/go-internal":              "cmd/fiador/applycmd harness/rehearsal",
	} {
		var importers []string
		for pkg, list := range imports(t) {
			if slices.ContainsFunc(list, func(p string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }) {
				importers = append(importers, pkg)
			}
		}
		slices.Sort(importers)
		if strings.Join(importers, " ") != only {
			t.Errorf("%s is imported by %q, and should be by %q alone", prefix, importers, only)
		}
	}
}

// TestArgumentsAreOurs: no command has a check of cobra for its arguments. The error of such a
// check names no remedy, and is reported as one of the program.
func TestArgumentsAreOurs(t *testing.T) {
	t.Parallel()
	checks := regexp.MustCompile(`cobra\.(NoArgs|(Exact|Minimum|Maximum)\w*Args|RangeArgs|OnlyValidArgs|MatchAll)\b`)
	for pkg := range imports(t) {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil || !strings.HasPrefix(pkg, "cmd/") {
			continue
		}
		for _, name := range files {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if found := checks.Find(src); found != nil && !strings.HasSuffix(name, "_test.go") {
				t.Errorf("%s has %s: package cli has checks of arguments", name, found)
			}
		}
	}
}

// TestCommandsAreBelowTheProgram: the library of command lines is imported beneath
// cmd/fiador alone. A package of commands imports no other package of commands: they stand
// on one level.
func TestCommandsAreBelowTheProgram(t *testing.T) {
	t.Parallel()
	for pkg, list := range imports(t) {
		if slices.Contains(list, "github.com/spf13/cobra") && pkg != "cmd/fiador" && !strings.HasPrefix(pkg, "cmd/fiador/") {
			t.Errorf("%s imports cobra", pkg)
		}
	}
}

// TestEngineHasNoServer: only the compiler, the evaluator and the in-memory store of OPA
// are linked.
func TestEngineHasNoServer(t *testing.T) {
	t.Parallel()
	got := imports(t)
	for _, p := range slices.Concat(got["policy"], got["policy/devel"], got["policy/stored"]) {
		for _, bad := range []string{"/sdk", "/server", "/plugins", "/runtime", "/download", "/rego"} {
			if strings.HasPrefix(p, "github.com/open-policy-agent/opa") && strings.HasSuffix(p, bad) {
				t.Errorf("policy imports %s", p)
			}
		}
	}
}

// TestProgramIsLight: what speaks to clusters, to databases and to clouds is in programs of their
// own, so that fiador stays small and starts fast.
func TestProgramIsLight(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, module+"/harness/remote") {
		t.Error("fiador has no remote execution: the test looks in the wrong place")
	}
	for _, p := range deps {
		for _, heavy := range []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto", "github.com/bazelbuild/", "github.com/transparency-dev/tessera", "cloud.google.com/", "github.com/aws/", "github.com/Azure/"} {
			if p == "database/sql" || p == heavy || strings.HasPrefix(p, strings.TrimSuffix(heavy, "/")+"/") {
				t.Errorf("fiador needs %s", p)
			}
		}
	}
}

// TestShimIsSmall: a worker gets the shim with each of its first tasks, so the shim reaches neither
// the engine of policies nor the validator of schemas, nor what decides and judges.
func TestShimIsSmall(t *testing.T) {
	t.Parallel()
	others := strings.Fields(`github.com/go-json-experiment/json/jsontext github.com/gowebpki/jcs github.com/theory/jsonpath github.com/theory/jsonpath/spec
		golang.org/x/sys/unix golang.org/x/text/unicode/norm`)
	all := imports(t)
	seen := map[string]bool{}
	var visit func(pkg string)
	visit = func(pkg string) {
		for _, p := range all[pkg] {
			own, ours := strings.CutPrefix(p, module+"/")
			switch {
			case seen[p]:
				continue
			case !ours && strings.Contains(p, ".") && !slices.Contains(others, p):
				t.Errorf("%s, which the shim needs, imports %s", pkg, p)
			case own == "harness/execute" || own == "specs" || own == "policy":
				t.Errorf("%s, which the shim needs, imports %s", pkg, p)
			}
			seen[p] = true
			visit(own)
		}
	}
	visit("cmd/fiador-shim")
	if !seen[module+"/harness/sandbox"] {
		t.Error("the shim reaches no sandbox: the test looks in the wrong place")
	}
}

func TestMainIsShort(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n >= 40 {
		t.Errorf("main.go has %d lines", n)
	}
}

// owned maps the folder of a package to a pattern of texts that only this package may
// spell.
var owned = map[string]*regexp.Regexp{
	"kernel/reason": regexp.MustCompile(`^(EXIT|NOT_EXECUTABLE|NOT_FOUND|OOM|OUTPUT_(KIND|LIMIT|MISSING|NAME)|SIGNAL|STREAM_LIMIT|TIMEOUT|WRITE_OUTSIDE_ROOT)( |$)`),
}

// TestTextsHaveOneOwner: a text of a vocabulary stands in the package that owns it.
func TestTextsHaveOneOwner(t *testing.T) {
	t.Parallel()
	for pkg := range imports(t) {
		for _, f := range parsePackage(t, pkg) {
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				for owner, form := range owned {
					if err == nil && pkg != owner && form.MatchString(text) {
						t.Errorf("%s spells %q, which %s owns", pkg, text, owner)
					}
				}
				return true
			})
		}
	}
}

// TestCommandsDeliverNothing: no command puts effects in order. A command passes sinks to
// harness.Deliver, and only Deliver calls the sinks, Stage, Commit and Promote.
func TestCommandsDeliverNothing(t *testing.T) {
	t.Parallel()
	for pkg := range imports(t) {
		if !strings.HasPrefix(pkg, "cmd/") {
			continue
		}
		for _, f := range parsePackage(t, pkg) {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Stage", "Commit", "Promote"}, sel.Sel.Name) {
						t.Errorf("%s calls %s", pkg, sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestHarnessAlonePerforms: only harness starts executions, so a gate has decided before.
func TestHarnessAlonePerforms(t *testing.T) {
	t.Parallel()
	callers := map[string]bool{}
	for pkg := range imports(t) {
		for _, f := range parsePackage(t, pkg) {
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Perform" {
					if id, ok := sel.X.(*ast.Ident); ok && id.Name == "execute" {
						callers[pkg] = true
					}
				}
				return true
			})
		}
	}
	if len(callers) != 1 || !callers["harness"] {
		t.Errorf("tasks are performed by %v", callers)
	}
}

// TestRunErrorsHaveOneMaker: harness/runerr makes all RunErrors, except for the error of
// no decision, which the package of the type makes.
func TestRunErrorsHaveOneMaker(t *testing.T) {
	t.Parallel()
	literals := map[string]int{}
	for pkg := range imports(t) {
		for _, f := range parsePackage(t, pkg) {
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				if sel, ok := lit.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "RunError" {
					literals[pkg]++
				}
				return true
			})
		}
	}
	delete(literals, "harness/runerr")
	if len(literals) > 0 {
		t.Errorf("literals of RunErrors by package: %v", literals)
	}
}

// shapeless maps each package that makes a map[string]any to the reason why this is no
// document with one description.
var shapeless = map[string]string{
	"cmd/fiador/runcmd":   "a call has the parameters that its tool takes",
	"evidence/pack":       "a prompt has the members that the intent gives it",
	"evidence/pack/sign":  "meta.json keeps members that others have put there",
	"harness":             "an intent for the policy has the context that its author gives it; details of a RunError",
	"harness/fingerprint": "the expectation of a vector has only the members that it tests",
	"harness/packing":     "files by their names, each of its own type",
	"harness/reproduce":   "the details of a RunError differ from error to error",
	"harness/runerr":      "the details of a RunError differ from error to error",
	"harness/settings":    "a file of another program has the members that this program gives it",
	"kernel":              "an intent has the context that its author gives it",
	"kernel/result":       "the details of a RunError differ from error to error",
	"policy":              "OPA reads the input and the data from maps, and makes terms only of what a rule reads",
	"policy/devel":        "OPA reads the input and the data from maps",
}

// TestDocumentsAreStructs: outside kernel/canon no document is written as a map, except
// for those of shapeless.
func TestDocumentsAreStructs(t *testing.T) {
	t.Parallel()
	made := map[string]bool{}
	for pkg, list := range imports(t) {
		if pkg == "kernel/canon" || slices.Contains(list, "testing") {
			continue
		}
		for _, f := range parsePackage(t, pkg) {
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				m, ok := lit.Type.(*ast.MapType)
				if !ok {
					return true
				}
				key, _ := m.Key.(*ast.Ident)
				value, _ := m.Value.(*ast.Ident)
				if key != nil && value != nil && key.Name == "string" && value.Name == "any" {
					made[pkg] = true
				}
				return true
			})
		}
	}
	for pkg := range made {
		if shapeless[pkg] == "" {
			t.Errorf("%s makes a map[string]any: a document is a struct with a canon.Plan", pkg)
		}
	}
	for pkg := range shapeless {
		if !made[pkg] {
			t.Errorf("%s makes no map[string]any: it needs no exception", pkg)
		}
	}
}
