package policy

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
)

// checkStages are the stages of the compiler that an embedded layer skips. Some stages
// refuse modules or describe them. Others find nothing to rewrite in the built-in
// policy. Its bodies bind every variable before they read it. It has no print, no
// template string, no "with" and no rule below a name, and nothing for the
// comprehension index. Without these stages the compiler makes the same rules
// (TestCheckStages), and no evaluation reads their other results.
func checkStages() []ast.StageID {
	return []ast.StageID{
		ast.StageCheckUnusedImports, ast.StageCheckKeywordOverrides, ast.StageCheckDuplicateImports,
		ast.StageCheckVoidCalls, ast.StageParseMetadataBlocks, ast.StageSetAnnotationSet, ast.StageSetGraph,
		ast.StageCheckRuleConflicts, ast.StageCheckUndefinedFuncs, ast.StageCheckSafetyRuleHeads,
		ast.StageCheckRecursion, ast.StageCheckTypes, ast.StageCheckUnsafeBuiltins,
		ast.StageCheckDeprecatedBuiltins, ast.StageBuildComprehensionIndices, ast.StageBuildRequiredCapabilities,

		ast.StageCheckSafetyRuleBodies, ast.StageRewritePrintCalls, ast.StageRewriteTemplateStrings,
		ast.StageRewriteRegoMetadataCalls, ast.StageRewriteWithValues, ast.StageRewriteRuleHeadRefs,
		ast.StageRewriteTestRulesForTracing,
	}
}

// compileEmbedded makes an embedded layer from its stored form, or compiles its sources.
func compileEmbedded(l Layer, caps *ast.Capabilities) (*compiledLayer, error) {
	if c := openLayer(l, caps); c != nil {
		return c, nil
	}
	c := newEmbeddedLayer(l, caps)
	p, err := parseEmbedded(l, caps)
	if err == nil {
		err = c.addHeads(p.heads, l)
	}
	if err != nil {
		return nil, err
	}
	c.compiler.WithSkipStages(checkStages()...)
	return c, c.compile(p.mods)
}

// newEmbeddedLayer returns an embedded layer without its rules. caps are those of its
// sources.
func newEmbeddedLayer(l Layer, caps *ast.Capabilities) *compiledLayer {
	c := newCompiledLayer(l.Package, caps)
	c.embedded = true
	c.written = sync.OnceValues(func() (map[string]Rule, error) {
		// Reading records makes every check of a module that parseEmbedded leaves out.
		_, records, err := parseLayer(l, caps)
		return records, err
	})
	c.records = c.written
	return c
}

// parseEmbedded parses the modules of an embedded layer. It reads the rules alone: no
// METADATA, and without the checks of other layers.
func parseEmbedded(l Layer, caps *ast.Capabilities) (parsedLayer, error) {
	opts := ast.ParserOptions{Capabilities: caps, RegoVersion: ast.RegoV1}
	parsed, err := eachModule(l, func(m Module) (parsedModule, error) {
		mod, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), opts)
		if err != nil {
			return parsedModule{}, parseError(m.Name, err)
		}
		heads, err := moduleHeads(m.Name, l.Package, mod)
		return parsedModule{mod: mod, heads: heads}, err
	})
	if err != nil {
		return parsedLayer{}, err
	}
	return joinModules(l, parsed), nil
}

// eachModule calls parse for every module of a layer, on as many cores as there are. It
// returns the answers in the order of the modules, or the error of the first module
// that has one. A panic of parse becomes a panic of eachModule.
func eachModule(l Layer, parse func(Module) (parsedModule, error)) ([]parsedModule, error) {
	parsed := make([]parsedModule, len(l.Modules))
	errs := make([]error, len(l.Modules))
	panics := make([]any, min(runtime.GOMAXPROCS(0), len(l.Modules))-1)
	var next atomic.Int64
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(parsed)); i = next.Add(1) - 1 {
			parsed[i], errs[i] = parse(l.Modules[i])
		}
	}
	var others sync.WaitGroup
	for i := range panics {
		others.Go(func() {
			defer func() { panics[i] = recover() }()
			reserveStack(0)
			work()
		})
	}
	func() {
		defer others.Wait()
		work()
	}()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return parsed, nil
}
