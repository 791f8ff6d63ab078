package kernel

import (
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// TestDecisionAllocatesLittle: the findings and the bundle of an ordinary intent take
// few allocations. The limits have a margin of about a half.
func TestDecisionAllocatesLittle(t *testing.T) {
	doc, err := canon.Parse([]byte(`{
		"goal": "Build the documentation site and write the release notes for version 1.4.0",
		"constraints": ["every page links back to the index", "the notes fit on one page"],
		"actions": [
			{"kind": "write", "path": "out/notes.md", "content": "The start is faster, and the index lists every page."},
			{"kind": "run", "argv": ["node", "scripts/build.js", "--out", "dist/site"]},
			{"kind": "write", "path": "dist/site/manifest.json", "content": "{}"},
			{"kind": "run", "argv": ["npm", "test"], "timeout_ms": 30000}
		],
		"inputs": ["src/index.md", "scripts/build.js"],
		"outputs": ["out/notes.md", "dist/site/manifest.json"]
	}`), canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	in, err := ParseIntent(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	effects := in.Effects(Profile{})
	var v Verdict
	for _, e := range effects {
		v.Permits = append(v.Permits, e.ID)
	}
	for name, tc := range map[string]struct {
		most float64
		f    func()
	}{
		"findings": {25, func() { in.FindingsUnder(Profile{}) }},
		"decide":   {65, func() { _, _ = Decide(in, effects, nil, v) }},
	} {
		if n := testing.AllocsPerRun(10, tc.f); n > tc.most {
			t.Errorf("%s: %v allocations, %v at most", name, n, tc.most)
		} else {
			t.Logf("%s: %v allocations", name, n)
		}
	}
}
