package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// TestForgeries: every forgery in specs/pack.md has a vector. The structural level
// accepts the vector, and the strict level does not.
func TestForgeries(t *testing.T) {
	named := []string{
		"extra outcome fields", "absolute intent path", "junk hash", "execution missing", "bundle missing", "BUNDLE with bundle null",
		"bundle_id of another bundle", "decision as a string", "policy null", "started_at a number", "ledger line of another run",
		"nonsense evidence status", "a patch into .git", "content replaced with the outer hash recomputed", "pretty-printed",
		"REFUSE with bundle.json", "CLARIFY with patch", "wrong size_bytes", "path a/./b", "path with newline",
		"path with a reserved Windows name", "case-only duplicates", "a file and a folder of one name", "lone surrogate",
		"complete with open questions", "duplicate terminal ids",
	}
	found := map[string]bool{}
	for _, f := range allVectors(t) {
		for _, v := range f.Vectors {
			name, forged := strings.CutPrefix(v.Name, "forgery: ")
			if !forged {
				continue
			}
			i := slices.IndexFunc(named, func(n string) bool { return strings.HasPrefix(name, n) })
			if i < 0 {
				t.Errorf("%q is no forgery of the list", name)
				continue
			}
			found[named[i]] = true
			if len(v.Structural) != 0 || len(v.Strict) == 0 {
				t.Errorf("%s: structural finds %d violations, strict %d", name, len(v.Structural), len(v.Strict))
			}
		}
	}
	for _, n := range named {
		if !found[n] {
			t.Errorf("%s: there is no vector", n)
		}
	}
}

// TestStrictVectorsAreAboutTheirRule: a vector with the name of a rule breaks that rule.
func TestStrictVectorsAreAboutTheirRule(t *testing.T) {
	for _, f := range allVectors(t) {
		for _, v := range f.Vectors {
			rule, _, ok := strings.Cut(v.Name, ":")
			if !ok || !strings.HasPrefix(rule, "ST") && !strings.HasPrefix(rule, "RS") || v.NotChecked {
				continue
			}
			if !slices.ContainsFunc(v.Strict, func(x pack.Violation) bool { return x.Rule == rule }) {
				t.Errorf("%s: the rule is not broken", v.Name)
			}
		}
	}
}

// mutations makes documents that differ from one in one place. There a member or an
// element is removed, has another type, is at a bound or one beyond it, or is added.
func mutations(doc any, each func(what string)) {
	var walk func(v any, at string, set func(any))
	walk = func(v any, at string, set func(any)) {
		for i, other := range []any{
			nil, true, "", "x", "\u00e9", json.Number("0"), json.Number("-1"), json.Number("1"), json.Number("0.5"), json.Number("1e+30"), json.Number("256"), json.Number("600001"),
			json.Number("1073741825"), []any{}, []any{"x"}, []any{nil}, map[string]any{}, strings.Repeat("x", 65), strings.Repeat("\u00e9", 4097), "sha256:" + strings.Repeat("0", 64),
			"sha256:" + strings.Repeat("A", 64), "2026-13-45T99:99:99.999Z", "a/../b", "a/b", ".hidden", "..", "...", "a\\b", "a*", "a b", "0.1.0-rc.1", "0.1.0-", "0.1", "none", "full",
			"plan-only", "BUNDLE", "run_1", "_run", "bundle_0123456789abcdef", "sbx_0123456789abcdef",
		} {
			set(other)
			each(at + " value " + strconv.Itoa(i))
		}
		set(v)
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				old := v[name]
				delete(v, name)
				each(at + "/" + name + " gone")
				v[name] = old
				walk(old, at+"/"+name, func(x any) { v[name] = x })
			}
			v["zzz"] = true
			each(at + "/zzz")
			delete(v, "zzz")
		case []any:
			if len(v) == 0 {
				return
			}
			walk(v[0], at+"/0", func(x any) { v[0] = x })
			for _, n := range []int{1000, 1001, 4001, 10001, 16001} {
				long := make([]any, n)
				for i := range long {
					long[i] = v[0]
				}
				set(long)
				each(at + " " + strconv.Itoa(n))
			}
			set(v)
		}
	}
	walk(doc, "", func(any) {})
}

// TestShapeAgreesWithSchema: specs.Walk and the schemas accept the same documents,
// whichever place of a document is changed. The strict level accepts no more. For
// run.json and bundle.json it accepts the same; for the other files only the form of
// this program.
func TestShapeAgreesWithSchema(t *testing.T) {
	for _, tc := range []struct {
		file string
		base string
		kind specs.Kind
		read func(s *strictLevel) bool
		less bool // the schema allows more
	}{
		{pack.RunFile, "refuse", specs.KindRunResult, func(s *strictLevel) bool { return s.run != nil }, false},
		{pack.RunFile, "clarify", specs.KindRunResult, func(s *strictLevel) bool { return s.run != nil }, false},
		{pack.RunFile, "executed", specs.KindRunResult, func(s *strictLevel) bool { return s.run != nil }, false},
		{pack.BundleFile, "clarify", specs.KindBundle, func(s *strictLevel) bool { return s.bundle != nil }, false},
		{pack.BundleFile, "executed", specs.KindBundle, func(s *strictLevel) bool { return s.bundle != nil }, false},
		{pack.PolicyFile, "plan", specs.KindPackPolicy, nil, false},
		{pack.EvidenceFile, "model", specs.KindPackEvidence, func(s *strictLevel) bool { return s.evidence != nil }, true},
		{pack.PatchFile, "executed", specs.KindPackPatch, func(s *strictLevel) bool { return s.patch != nil }, true},
		{pack.RunnerFile, "rejected", specs.KindPackRunner, func(s *strictLevel) bool { return s.runner != nil }, true},
		{pack.ModelFile, "model", specs.KindModelIO, func(s *strictLevel) bool { return s.model != nil }, true},
	} {
		t.Run(tc.file+" of "+tc.base, func(t *testing.T) {
			t.Parallel()
			set, err := specs.New()
			if err != nil {
				t.Fatal(err)
			}
			d, err := newDraft(basePacks(t)[tc.base])
			if err != nil {
				t.Fatal(err)
			}
			doc, err := canon.Parse(d.mustText(t, tc.file), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			value := thick(doc.Value())
			n, good := 0, 0
			mutations(value, func(what string) {
				violations, err := set.Validate(tc.kind, value)
				if err != nil {
					t.Fatal(err)
				}
				n++
				valid := len(violations) == 0
				if faults, _ := specs.Walk(tc.kind, value, 1); valid != (len(faults) == 0) {
					t.Errorf("%s: the walker %v, schema %v", what, faults, violations)
				}
				read := valid
				if tc.read != nil {
					s := &strictLevel{verifier: &verifier{docs: map[string]*document{tc.file: {value: value}}}, counts: map[string]int{}}
					s.readFiles()
					if read = tc.read(s); read != valid && !(tc.less && valid) {
						t.Errorf("%s: strict %v, schema %v", what, s.found, violations)
					}
				}
				if read {
					good++
				}
			})
			if n < 300 || good == 0 {
				t.Errorf("%d documents, %d of them good", n, good)
			}
		})
	}
}

// TestWalkAgreesOnPacks: specs.Walk and the schema agree on every file of every
// vector.
func TestWalkAgreesOnPacks(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	r, n, bad := vectorRun{base: basePacks(t)}, 0, 0
	for _, f := range allVectors(t) {
		for _, v := range f.Vectors {
			for _, e := range r.apply(t, v).inMemory(t).Entries {
				kind, known := map[string]specs.Kind{
					pack.RunFile: specs.KindRunResult, pack.BundleFile: specs.KindBundle, pack.PolicyFile: specs.KindPackPolicy, pack.EvidenceFile: specs.KindPackEvidence,
					pack.PatchFile: specs.KindPackPatch, pack.RunnerFile: specs.KindPackRunner, pack.ModelFile: specs.KindModelIO,
				}[e.Name]
				doc, err := canon.Parse(e.Text, 1<<26)
				if !known || err != nil {
					continue
				}
				violations, err := set.Validate(kind, doc.Value())
				if err != nil {
					t.Fatal(err)
				}
				faults, _ := specs.Walk(kind, doc.Value(), 1)
				if (len(faults) > 0) != (len(violations) > 0) {
					t.Errorf("%s: %s: the walker %v, schema %v", v.Name, e.Name, faults, violations)
				}
				if n++; len(faults) > 0 {
					bad++
				}
			}
		}
	}
	if n < 1000 || bad < 50 {
		t.Errorf("%d files, %d of them not valid", n, bad)
	}
}

// thick adds an element to empty lists, so that its members can be changed even if no
// other base has one.
func thick(v any) any {
	if m, ok := v.(map[string]any); ok {
		for name, w := range m {
			m[name] = thick(w)
		}
		if x, ok := m["execution"].(map[string]any); ok {
			x["inputs"] = []any{map[string]any{"path": "in/a", "sha256": "sha256:" + strings.Repeat("0", 64), "size_bytes": json.Number("1")}}
		}
	}
	return v
}

// TestInspectAgrees: the fast result about a path equals the kernel's.
func TestInspectAgrees(t *testing.T) {
	paths := []string{"", "/", "a//b", "con", "CON.txt", "com1", "com1.x", "comet", "lpt9", "nul", "null", "out/aux/x", strings.Repeat("a/", 600) + "b", strings.Repeat("a", 256), "a.", "a ", ".a", "a/.a"}
	for _, p := range pathname.Tables()["control_paths"] {
		paths = append(paths, p, "out/"+strings.ToUpper(p)+"/x", p+"x", "x"+p)
	}
	pick := rand.New(rand.NewPCG(1, 2))
	const letters = "aAbBcCkKsSoOmMnNuUlLpPrRxX0149-_./"
	for range 20000 {
		b := make([]byte, 1+pick.IntN(12))
		for i := range b {
			b[i] = letters[pick.IntN(len(letters))]
		}
		paths = append(paths, string(b))
	}
	fast := 0
	for _, p := range paths {
		if got, want := inspect(p), pathname.Inspect(p); got != want {
			t.Errorf("%q: %+v, the kernel says %+v", p, got, want)
		}
		if !slices.ContainsFunc(strings.Split(p, "/"), func(seg string) bool { return !harmless(seg) }) {
			fast++
		}
	}
	if fast < 1000 {
		t.Errorf("only %d of %d paths were looked at fast", fast, len(paths))
	}
}

// TestReservedAgrees: the folders that a bundle keeps for itself are the kernel's.
func TestReservedAgrees(t *testing.T) {
	b := pathBook{}
	for _, name := range pathname.Tables()["reserved_roots"] {
		for _, p := range []string{name, name + "/x", strings.ToUpper(name) + "/x"} {
			if !b.reserved(p) {
				t.Errorf("%s is not reserved", p)
			}
		}
		if b.reserved("out/"+name) || b.reserved(name+"x") {
			t.Errorf("more than %s is reserved", name)
		}
	}
	if n := len(pathname.Tables()["reserved_roots"]); n != 3 {
		t.Errorf("%d folders are reserved, and three are known", n)
	}
}

// TestWholeProfile: a pack is compared with the whole of a profile that is not built in.
// If the profile is unknown, it is compared with the seven members alone.
func TestWholeProfile(t *testing.T) {
	d, err := newDraft(basePacks(t)["executed"])
	if err != nil {
		t.Fatal(err)
	}
	p, known := d.inMemory(t), builtin(t)
	for name, tc := range map[string]struct {
		change func(p *kernel.Profile)
		path   string
	}{
		"digest":         {func(p *kernel.Profile) { p.RiskTags = append([]string{"own"}, p.RiskTags...) }, ""},
		"execution mode": {func(p *kernel.Profile) { p.ExecutionModes = []string{"plan-only"} }, "run.json#/execution_mode"},
		"model mode":     {func(p *kernel.Profile) { p.ModelModes = []string{"replay"} }, "run.json#/model_mode"},
		"children":       {func(p *kernel.Profile) { p.MaxChildren++ }, "run.json#/policy_provenance/limits/max_children"},
		"environment":    {func(p *kernel.Profile) { p.EnvAllow = kernel.AllowList{Names: []string{"A"}} }, "runner.json#/context/env_allowlist"},
	} {
		o, own := known, *known.Whole("dev")
		tc.change(&own)
		o.Whole = func(string) *kernel.Profile { return &own }
		var got []string
		for _, v := range Pack(p, o).Violations {
			got = append(got, v.Path)
		}
		want := []string{"run.json#/policy_provenance/profile_sha256"}
		if tc.path != "" {
			want = append(want, tc.path)
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if o.Whole = func(string) *kernel.Profile { return nil }; !Pack(p, o).OK() {
			t.Errorf("%s: without the whole profile: %+v", name, Pack(p, o))
		}
	}
}

// TestPlansHold: every plan that the kernel makes of an intent keeps ST4 and ST5.
func TestPlansHold(t *testing.T) {
	for i, text := range []string{
		`{"goal":"x"}`,
		`{"goal":"x\n# y\n","constraints":["a\nb","TODO","must be stateless","must be stateful"]}`,
		`{"goal":"x","outputs":["out/a","out/b"]}`,
		`{"goal":"x","actions":[{"kind":"write","path":"./out//a","content_base64":"AP8=","executable":true},{"kind":"write","path":"out/a","content":"\u0000\ud83d\ude00"},{"kind":"write","path":"out/a/b","content":""}]}`,
		`{"goal":"x","actions":[{"kind":"run","argv":["node",""],"cwd":"./out/","env":{"A":"b"},"stdin":"","timeout_ms":1000},{"kind":"call","tool_id":"t","adapter_id":"a","params":{"z":[null]}}]}`,
		`{"goal":"x","actions":[` + strings.Repeat(`{"kind":"run","argv":["true"]},`, 255) + `{"kind":"write","path":"out/a","content":"a"}]}`,
		`{"goal":"x","constraints":[` + strings.Repeat(`"must be stateless 1",`, 3) + manyClashes() + `]}`,
	} {
		doc, err := canon.Parse([]byte(text), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		in, err := kernel.ParseIntent(doc.Value())
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		ask := kernel.Verdict{Clarify: []kernel.Result{{ID: "A", Text: "Which?", Why: "w", Priority: 60, Options: []string{"", "b"}}, {ID: "B", Text: "Which?", Priority: 90}}}
		for _, verdict := range []kernel.Verdict{{}, ask} {
			d, err := kernel.Decide(in, nil, in.Findings(), verdict)
			if err != nil {
				t.Fatal(err)
			}
			s := &strictLevel{verifier: &verifier{pack: &pack.Pack{}, docs: map[string]*document{pack.BundleFile: decode(pack.BundleFile, d.BundleBytes)}}, counts: map[string]int{}, paths: pathBook{}}
			s.readFiles()
			s.run = &result.RunResult{KernelVersion: kernel.Version, KernelResultKind: d.Outcome, ClarifyQuestions: d.Questions(), Bundle: &result.BundleRef{BundleID: d.Bundle.ID}}
			s.checkBundle()
			s.checkPolicy()
			if s.bundle == nil || len(s.found) > 0 {
				t.Errorf("%d %s: %+v\n%s", i, d.Outcome, s.found, canon.Cut(string(d.BundleBytes)))
			}
		}
	}
}

// manyClashes are more contradictions than the kernel lists one by one.
func manyClashes() string {
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprintf(`"must be stateless %d","must be stateful %d"`, i, i))
	}
	return strings.Join(list, ",")
}

// TestStrictIsBounded: the time to verify a pack of the largest lists, with a fault in
// each element, grows linearly. Its report is short.
func TestStrictIsBounded(t *testing.T) {
	for name, path := range map[string]func(i int) string{
		"plain": func(i int) string { return fmt.Sprintf("OUT/%05d", i) },
		"deep":  func(i int) string { return fmt.Sprintf("%05d", i) + strings.Repeat("/a", 500) },
		"odd":   func(i int) string { return fmt.Sprintf("\u00e9/\u017f%05d", i) },
		"same":  func(int) string { return "out/a" },
	} {
		t.Run(name, func(t *testing.T) {
			p := wide(t, 10000, path)
			v := &verifier{pack: p, docs: map[string]*document{}}
			for _, e := range p.Entries {
				v.docs[e.Name] = decode(e.Name, e.Text)
			}
			begun := time.Now()
			v.strict()
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			byRule := map[string]int{}
			for _, f := range v.found {
				byRule[f.Rule]++
			}
			for rule, n := range byRule {
				if n > maxOfRule+1 {
					t.Errorf("%s: %d violations", rule, n)
				}
			}
			for _, rule := range []string{"ST6", "ST7", "ST8"} {
				if byRule[rule] <= 10 {
					t.Errorf("%s: %d violations", rule, byRule[rule])
				}
			}
		})
	}
}

// wide returns the pack of an execution with n outputs, all with faults.
func wide(t testing.TB, n int, path func(i int) string) *pack.Pack {
	t.Helper()
	d, err := newDraft(basePacks(t)["executed"])
	if err != nil {
		t.Fatal(err)
	}
	files := d.files(t)
	var outputs, results, operations []any
	for i := range n {
		p := path(n - i)
		outputs = append(outputs, map[string]any{"path": p, "sha256": string(noBytes), "size_bytes": 1})
		results = append(results, map[string]any{"path": p, "sha256": string(noBytes), "action": "create", "exit_code": 1})
		operations = append(operations, map[string]any{"path": p, "op": "create", "content": "", "encoding": "utf8", "executable": false, "order": 1, "size_bytes": 1})
	}
	files[pack.RunFile] = changed(t, files[pack.RunFile], func(m map[string]any) { m["execution"].(map[string]any)["outputs"] = outputs })
	files[pack.EvidenceFile] = changed(t, files[pack.EvidenceFile], func(m map[string]any) { m["action_results"] = results })
	files[pack.PatchFile] = changed(t, files[pack.PatchFile], func(m map[string]any) { m["operations"] = operations })
	return pack.Of(files)
}

// changed returns a file with a changed value.
func changed(t testing.TB, text []byte, do func(map[string]any)) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	do(m)
	b, _, err := canon.Artifact(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMoreNamesThanLookedAt: a pack with too many names has no other violation.
func TestMoreNamesThanLookedAt(t *testing.T) {
	p := pack.Of(map[string][]byte{pack.RunFile: []byte("{}")})
	p.More = true
	if v := Pack(p, Options{}); len(v.Violations) != 1 || v.Violations[0].Rule != "PK2" {
		t.Errorf("%+v", v)
	}
}

// TestManyFaults: if a pack has more faults of one rule than are listed, the others are
// counted. The verification reads no further than the part with the right shape.
func TestManyFaults(t *testing.T) {
	d, err := newDraft(basePacks(t)["plan"])
	if err != nil {
		t.Fatal(err)
	}
	questions := make([]any, 3*maxOfRule)
	for i := range questions {
		questions[i] = map[string]any{"id": "q_0", "text": "?", "expected_answer_type": "text", "why_needed": "", "information_gain": 1, "priority": 0}
	}
	outputs := []any{map[string]any{
		"action": 0, "confidence": 0, "content": `{"argv":[],"cwd":".","env":{}}`, "content_hash": strings.Repeat("0", 64), "encoding": "utf8", "executable": false,
		"id": "out_0000000000000000", "path": "commands/001.json", "source_constraints": []any{}, "type": "command",
	}}
	for at, value := range map[string]any{"bundle.json#/unresolved_questions": questions, "bundle.json#/outputs": outputs} {
		if err := d.set(at, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, anew := range [][]string{{"contents", "ids", "bundle"}} {
		if err := d.do(change{Rehash: anew}); err != nil {
			t.Fatal(err)
		}
	}
	v := Pack(d.inMemory(t), builtin(t))
	named := 0
	for _, x := range v.Violations {
		if x.Rule == "ST4" {
			named++
		}
	}
	if v.OK() || named != maxOfRule+1 || v.More < maxOfRule {
		t.Errorf("%d violations of ST4 named, %d more", named, v.More)
	}
}
