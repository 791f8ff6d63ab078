package reproduce

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// vectorPack is a pack of specs/vectors/pack/base.json, and its run.
type vectorPack struct {
	source []byte
	policy string
	mode   string
	work   map[string]string
	pack   *pack.Pack
	tested bool // a work item with a test
}

// vectorPacks reads base.json as its README.md says.
func vectorPacks(t *testing.T) map[string]vectorPack {
	t.Helper()
	src, err := os.ReadFile("../../specs/vectors/pack/base.json")
	if err != nil {
		t.Fatal(err)
	}
	var base struct {
		Runs map[string]struct {
			Intent any               `json:"intent"`
			Policy string            `json:"policy"`
			Mode   string            `json:"mode"`
			Work   map[string]string `json:"work"`
		} `json:"runs"`
		Packs map[string]map[string]any `json:"packs"`
	}
	if err := json.Unmarshal(src, &base); err != nil {
		t.Fatal(err)
	}
	list := map[string]vectorPack{}
	for name, docs := range base.Packs {
		run, ok := base.Runs[name]
		if !ok {
			t.Fatalf("no run of %q", name)
		}
		files := map[string][]byte{}
		for file, doc := range docs {
			files[file] = textOf(t, doc)
			if lines, ok := doc.([]any); ok && file == pack.LedgerFile {
				files[file] = nil
				for _, line := range lines {
					files[file] = append(files[file], textOf(t, line)...)
				}
			}
		}
		list[name] = vectorPack{textOf(t, run.Intent), run.Policy, run.Mode, run.Work, pack.Of(files), strings.Contains(string(files[pack.EvidenceFile]), `"test_id"`)}
	}
	if len(list) == 0 {
		t.Fatal("no packs")
	}
	return list
}

func textOf(t *testing.T, v any) []byte {
	t.Helper()
	b, _, err := canon.Artifact(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReproduceVectors: the packs of the vectors, which another machine has made, are
// valid here, and their runs are the same again. Executions are repeated where this
// machine has a sandbox.
func TestReproduceVectors(t *testing.T) {
	packs := vectorPacks(t)
	plans := 0
	for _, name := range slices.Sorted(maps.Keys(packs)) {
		b := packs[name]
		if b.mode == harness.ModePlanOnly {
			plans++
		}
		t.Run(name, func(t *testing.T) { b.reproduce(t) })
	}
	if plans < 3 {
		t.Errorf("%d plans: there should be one for each outcome", plans)
	}
}

func (b vectorPack) reproduce(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = rand.Reader
	gate := harnesstest.OpenBuiltin(t, d.Specs, b.policy)
	contract := gate.Profile.Contract()
	v := verify.Pack(b.pack, verify.Options{Profile: func(string) *kernel.PolicyProfile { return &contract }})
	if !v.OK() {
		t.Fatalf("the pack is not valid: %+v", v)
	}
	if b.tested {
		if _, err := Read(b.pack); err == nil || !strings.Contains(err.Error(), "work item") {
			t.Errorf("the pack of a work item is reproduced: %v", err)
		}
		return
	}
	o := original(t, b.pack)
	if err := o.CheckIntent("intent.json", b.source); err != nil {
		t.Fatal(err)
	}
	if err := o.CheckGate(gate); err != nil {
		t.Fatalf("%v: the packs have to be made again", err)
	}
	if b.mode == harness.ModeExecuteSandbox {
		d.Runner = fullRunner(t)
	}
	folders := harness.Folders{Tree: t.TempDir()}
	if b.work != nil {
		folders.Work = treetest.Filled(t, b.work)
	}
	got, err := o.Reproduce(t.Context(), d, gate, Again{Source: b.source, Path: "intent.json", Folders: folders, Runs: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got.Matches != 1 {
		t.Errorf("%+v", got.Differences)
	}
}
