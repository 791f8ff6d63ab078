//go:build linux && (amd64 || arm64)

package workcmd_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/receipt/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/work"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

var update = flag.Bool("update", false, "write the receipts that the runs make into the vectors")

const receiptsFile = "../../../specs/vectors/work/receipts.json"

// receipts is specs/vectors/work/receipts.json.
type receipts struct {
	About    string                                `json:"about"`
	Tree     map[string]string                     `json:"tree"`
	Runs     []oneRun                              `json:"runs"`
	Results  map[string]json.RawMessage            `json:"results"`
	Receipts map[string]map[string]json.RawMessage `json:"receipts"`
}

// oneRun is the run of one item.
type oneRun struct {
	Name   string          `json:"name"`
	Policy string          `json:"policy"`
	Agents json.RawMessage `json:"agents,omitempty"`
	Plan   json.RawMessage `json:"plan"`
}

// TestReceiptsAreRuns: runs make the receipts that vectors begin with, one after another on one
// folder, by a clock that stands still. What a run makes again is the same, but for facts of the
// machine and the digests of the policy. Each receipt and each result has the form of its
// schema, and each receipt holds.
func TestReceiptsAreRuns(t *testing.T) {
	text, err := os.ReadFile(receiptsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file receipts
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if !*update && !bytes.Equal(text, file.text(t)) {
		t.Errorf("%s is not laid out as go test ./cmd/fiador/workcmd -run Receipts -update does", receiptsFile)
	}
	if !*update && (len(file.Runs) != len(file.Results) || len(file.Runs) != len(file.Receipts)) {
		t.Errorf("%d runs, %d results, %d receipts", len(file.Runs), len(file.Results), len(file.Receipts))
	}
	for _, tier := range harnesstest.Tiers {
		t.Run(string(tier), func(t *testing.T) {
			again := file
			rehearsal.Again(t, 3, func(int) string {
				b := newBench(t, file.Tree, tier)
				again.Results, again.Receipts = map[string]json.RawMessage{}, map[string]map[string]json.RawMessage{}
				for i, r := range file.Runs {
					again.Results[r.Name], again.Receipts[r.Name] = b.run(t, i, r)
				}
				// On a machine that stalls, the second of this run is over before its command has
				// written, or the command is killed.
				got := again.Receipts["timeout"]
				if !*update && (!bytes.Equal(got["stdout"], file.Receipts["timeout"]["stdout"]) || !bytes.Contains(got["pack/runner.json"], []byte(`"SIGTERM"`))) {
					return fmt.Sprintf("timeout: %s %s", got["stdout"], got["pack/runner.json"])
				}
				return ""
			})
			if !*update {
				same(t, file, again)
			} else if tier == sandbox.Full {
				if err := os.WriteFile(receiptsFile, again.text(t), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// same compares the receipts and results with those of the file.
func same(t *testing.T, file, again receipts) {
	t.Helper()
	for _, r := range file.Runs {
		specstest.Valid(t, specstest.NewSpecs(t), specs.KindWorkResult, file.Results[r.Name])
		want, got := maps.Clone(file.Receipts[r.Name]), maps.Clone(again.Receipts[r.Name])
		want["result"], got["result"] = file.Results[r.Name], again.Results[r.Name]
		for name := range want {
			if a, b := lasting(t, name, want[name]), lasting(t, name, got[name]); a != b {
				t.Errorf("%s: %s was\n%s\nand is\n%s", r.Name, name, a, b)
			}
		}
		for name := range got {
			if want[name] == nil {
				t.Errorf("%s: %s is new", r.Name, name)
			}
		}
	}
}

// lasting returns the part of a receipt's file that a run on any machine makes again.
func lasting(t *testing.T, name string, text json.RawMessage) string {
	t.Helper()
	var obj map[string]any
	if json.Unmarshal(text, &obj) != nil {
		return string(text)
	}
	drop := func(at map[string]any, names ...string) {
		for _, n := range names {
			delete(at, n)
		}
	}
	switch name {
	case receipt.ReceiptFile:
		drop(obj, "core_hash", "receipt_hash", "receipt_id", "previous") // digests of the policy are in them
		drop(obj["core"].(map[string]any), "policy_sha256")
		drop(obj["ephemeral"].(map[string]any), "isolation", "workspace", "pack")
	case "result":
		drop(obj, "proof_script", "receipt_id", "receipt_path")
	case receipt.PackFolder + "/" + pack.RunFile:
		drop(obj, "policy_provenance")
	case receipt.PackFolder + "/" + pack.RunnerFile:
		drop(obj, "peak_memory_bytes", "plan_sha256", "platform", "sandbox")
	}
	out, err := canon.Canonical(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// bench is a folder with its store.
type bench struct {
	dir, store string
	tier       harnesstest.Tier
	now        time.Time
}

func newBench(t *testing.T, tree map[string]string, tier sandbox.Isolation) *bench {
	b := &bench{dir: t.TempDir(), store: t.TempDir(), tier: harnesstest.NewTier(t, tier)}
	b.now = time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	for name, text := range tree {
		treetest.Put(t, filepath.Join(b.dir, filepath.FromSlash(name)), text)
	}
	return b
}

// run runs the item of a plan. It returns the result and the files of the receipt.
func (b *bench) run(t *testing.T, n int, r oneRun) (json.RawMessage, map[string]json.RawMessage) {
	t.Helper()
	deps := harness.Deps{
		Now: func() time.Time { return b.now.Add(time.Duration(n) * time.Minute) }, Specs: specstest.NewSpecs(t), Runner: b.tier,
		Rand: strings.NewReader(strings.Repeat(fmt.Sprintf("%016d", n), 64)),
	}
	s, err := workspace.OpenStore(b.store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := &workflow.Workflow{
		History: history.History{Store: s, Dir: b.store}, Deps: deps, Gate: harnesstest.OpenBuiltin(t, deps.Specs, r.Policy),
		Tree: b.dir, Journals: t.TempDir(), Env: func(string) string { return "" }, Jobs: 1,
	}
	specstest.Valid(t, deps.Specs, specs.KindWorkPlan, canonical(t, r.Plan))
	if r.Agents != nil {
		specstest.Valid(t, deps.Specs, specs.KindWorkAgents, canonical(t, r.Agents))
		if w.Agents, err = work.ReadAgents(value(t, r.Agents)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := work.ReadPlan(value(t, r.Plan))
	if err != nil {
		t.Fatal(err)
	}
	var result receipt.Result
	w.Result = func(r receipt.Result) error { result = r; return nil }
	if _, err = w.Run(t.Context(), p, canon.Sum(r.Plan)); err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	text, err := result.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	specstest.Valid(t, deps.Specs, specs.KindWorkResult, text)
	dir := filepath.Join(b.store, receipt.ReceiptsFolder, result.ReceiptID)
	if _, faults, err := verify.Folder(dir); err != nil || len(faults) > 0 {
		t.Errorf("%s: %v, %v", r.Name, faults, err)
	}
	return bytes.TrimSuffix(text, []byte("\n")), files(t, dir)
}

func canonical(t *testing.T, text []byte) []byte {
	t.Helper()
	b, err := canon.Canonical(value(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func value(t *testing.T, text []byte) any {
	t.Helper()
	doc, err := canon.Parse(text, len(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value()
}

// files returns the files of a folder: an object for canonical JSON and a line feed, else a
// text. Facts of the machine that differ from run to run are made up.
func files(t *testing.T, dir string) map[string]json.RawMessage {
	t.Helper()
	list := map[string]json.RawMessage{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if doc, bad := canon.Parse(text, max(1, len(text))); bad == nil && string(doc.Bytes())+"\n" == string(text) && text[0] == '{' && strings.HasSuffix(name, ".json") {
			list[name] = json.RawMessage(doc.Bytes())
		} else {
			list[name] = json.RawMessage(specstest.Encode(t, string(text)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const runner = receipt.PackFolder + "/" + pack.RunnerFile
	if list[runner] != nil {
		obj := value(t, list[runner]).(map[string]any)
		obj["peak_memory_bytes"], obj["plan_sha256"] = 12615680, canon.Sum([]byte("plan"))
		obj["platform"].(map[string]any)["kernel_release"] = "6.12.0"
		if list[runner], err = canon.Canonical(obj); err != nil {
			t.Fatal(err)
		}
		var r receipt.Receipt
		if err := json.Unmarshal(list[receipt.ReceiptFile], &r); err != nil {
			t.Fatal(err)
		}
		r.Ephemeral.Pack[pack.RunnerFile] = receipt.Sum(append(bytes.Clone(list[runner]), '\n')).String()
		if r, err = receipt.New(r.Core, r.Ephemeral, r.Previous); err != nil {
			t.Fatal(err)
		}
		text, err := r.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		list[receipt.ReceiptFile] = json.RawMessage(bytes.TrimSuffix(text, []byte("\n")))
	}
	return list
}

// text returns the file as -update writes it: a line for each file of a receipt.
func (f *receipts) text(t *testing.T) []byte {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "{\n \"about\": %s,\n \"tree\": %s,\n \"runs\": [", specstest.Encode(t, f.About), specstest.Encode(t, f.Tree))
	for i, r := range f.Runs {
		b.WriteString(strings.Repeat(",", min(i, 1)) + "\n  " + specstest.Encode(t, r))
	}
	b.WriteString("\n ],\n \"results\": {")
	for i, r := range f.Runs {
		fmt.Fprintf(&b, "%s\n  %q: %s", strings.Repeat(",", min(i, 1)), r.Name, specstest.Encode(t, f.Results[r.Name]))
	}
	b.WriteString("\n },\n \"receipts\": {")
	for i, r := range f.Runs {
		fmt.Fprintf(&b, "%s\n  %q: {", strings.Repeat(",", min(i, 1)), r.Name)
		var names []string
		for name := range f.Receipts[r.Name] {
			names = append(names, name)
		}
		slices.Sort(names)
		for k, name := range names {
			fmt.Fprintf(&b, "%s\n   %q: %s", strings.Repeat(",", min(k, 1)), name, specstest.Encode(t, f.Receipts[r.Name][name]))
		}
		b.WriteString("}")
	}
	b.WriteString("\n }\n}\n")
	return []byte(b.String())
}
