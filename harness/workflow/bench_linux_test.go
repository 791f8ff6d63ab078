//go:build linux && (amd64 || arm64)

package workflow_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/receipt/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/work"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

func TestMain(m *testing.M) { os.Exit(rehearsal.Tests{M: m}.Run()) }

// bench is a folder with a store, beside one another, and what runs items on it.
type bench struct {
	*workflow.Workflow
	base string
	got  []receipt.Result // of the last run
}

// newBench makes a folder of these files. A name that ends in a slash is a folder, one that
// begins with + an executable file, and text behind -> is the target of a link.
func newBench(t *testing.T, host harnesstest.Tier, files map[string]string) *bench {
	t.Helper()
	base, err := os.MkdirTemp("", "fiador-work-")
	if err != nil {
		t.Fatal(err)
	}
	// A command that root starts runs as another user, who must reach the folder.
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(filepath.Join(base, "journals"), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	set := specstest.NewSpecs(t)
	b := &bench{base: base, Workflow: &workflow.Workflow{
		Deps: harness.Deps{Now: time.Now, Rand: rand.Reader, Specs: set, Runner: host}, Env: func(string) string { return "" },
		Gate: harnesstest.Copy(gate(t, set)), Tree: filepath.Join(base, "tree"), Journals: filepath.Join(base, "journals"),
		Agents: map[string]work.Agent{}, Jobs: 2,
	}}
	b.History.Dir = filepath.Join(base, "store")
	b.Result = func(r receipt.Result) error { b.got = append(b.got, r); return nil }
	b.open(t)
	grow(t, b.Tree, files)
	return b
}

// profile is dev with a stage that is soon full.
const profile = `{"name":"work","extends":"dev","max_total_output_bytes":8388608}`

var opened struct {
	sync.Mutex
	gate *harness.Gate
}

// gate returns the gate of the profile.
func gate(t *testing.T, set *specs.Set) *harness.Gate {
	t.Helper()
	opened.Lock()
	defer opened.Unlock()
	if opened.gate == nil {
		g, err := harness.OpenGate(context.Background(), harnesstest.Mine(map[string]string{"profile.json": profile}), set, harnesstest.Endless())
		if err != nil {
			t.Fatal(err)
		}
		opened.gate = g
	}
	return opened.gate
}

// open opens the store anew, as the next command does.
func (b *bench) open(t *testing.T) {
	t.Helper()
	s, err := workspace.OpenStore(b.History.Dir)
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	t.Cleanup(func() { s.Close() })
}

// grow writes files into a folder.
func grow(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	err := os.MkdirAll(dir, 0o755)
	for name, text := range files {
		name, executable := strings.CutPrefix(name, "+")
		p := filepath.Join(dir, name)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(p), 0o755))
		target, link := strings.CutPrefix(text, "->")
		switch {
		case strings.HasSuffix(name, "/"):
			err = errors.Join(err, os.MkdirAll(p, 0o755))
		case link:
			err = errors.Join(err, os.Symlink(target, p))
		case executable:
			err = errors.Join(err, os.WriteFile(p, []byte(text), 0o755))
		default:
			err = errors.Join(err, os.WriteFile(p, []byte(text), 0o644))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// host is the host of a test in full isolation.
func host(t *testing.T) harnesstest.Tier {
	t.Helper()
	return harnesstest.NewTier(t, sandbox.Full)
}

// agent gives the agent of an id a shell script.
func (b *bench) agent(id, script string) {
	b.Agents[id] = work.Agent{Argv: []string{"sh", "-c", script}, Env: []string{}, Stdin: "none", Trace: "optional"}
}

// item is the document of an item of the agent with its id. members are more members, each
// with a comma behind it.
func item(id, members string) string {
	return fmt.Sprintf(`{%s"id":%q,"agent_id":%[2]q,"description":"Do it","dependencies":[]}`, members, id)
}

// after is an item that waits for others.
func after(id, members string, ids ...string) string {
	list, _ := json.Marshal(ids)
	return strings.Replace(item(id, members), `"dependencies":[]`, `"dependencies":`+string(list), 1)
}

// read reads a plan.
func read(t *testing.T, text string) (work.Plan, canon.ContentHash) {
	t.Helper()
	doc, err := canon.Parse([]byte(text), work.MaxBytes)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	p, err := work.ReadPlan(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	return p, canon.Sum(doc.Bytes())
}

// try runs a plan.
func (b *bench) try(t *testing.T, ctx context.Context, text string) (workflow.Summary, error) {
	t.Helper()
	p, sha := read(t, text)
	b.got = nil
	return b.Run(ctx, p, sha)
}

// run runs a plan, which must have an answer, and checks what must hold after each run.
func (b *bench) run(t *testing.T, items ...string) workflow.Summary {
	t.Helper()
	s, err := b.try(t, t.Context(), "["+strings.Join(items, ",")+"]")
	if err != nil {
		t.Fatalf("%v\n%+v", err, b.got)
	}
	b.holds(t)
	return s
}

// one runs one item of the agent with its id.
func (b *bench) one(t *testing.T, id, members string) receipt.Result {
	t.Helper()
	b.run(t, item(id, members))
	if len(b.got) != 1 {
		t.Fatalf("%d results", len(b.got))
	}
	return b.got[0]
}

// fails runs a plan that must end in an error.
func (b *bench) fails(t *testing.T, items ...string) *result.RunError {
	t.Helper()
	_, err := b.try(t, t.Context(), "["+strings.Join(items, ",")+"]")
	re, ok := errors.AsType[*result.RunError](err)
	if !ok {
		t.Fatalf("no error but %+v, %v", b.got, err)
	}
	return re
}

// chain verifies the chain of the store. It returns the number of receipts, and all that does not
// hold.
func (b *bench) chain() (n int, faults []verify.Fault, err error) {
	list, err := b.Chain()
	for _, v := range list {
		faults = append(faults, v.Faults...)
	}
	return len(list), faults, err
}

// holds checks the chain of the store, that nothing is pending, and that results are those of
// receipts.
func (b *bench) holds(t *testing.T) {
	t.Helper()
	n, faults, err := b.chain()
	if err != nil || len(faults) > 0 {
		t.Fatalf("chain of %d: %v, %v", n, faults, err)
	}
	if p, err := b.Waiting(); p != nil || err != nil {
		t.Fatalf("pending: %+v, %v", p, err)
	}
	for _, r := range b.got {
		rc := b.receipt(t, r)
		if rc.Core.After != r.OutputHash || rc.Core.Status != r.Status || r.Status != receipt.Success && (r.OutputHash != r.BeforeHash || len(r.ArtifactHashes) > 0) {
			t.Errorf("%+v\n%+v", r, rc.Core)
		}
	}
	b.clean(t)
}

// clean checks that no run has left a temporary entry.
func (b *bench) clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{"store/stage", "store/incoming", "store/receipts/.new", "journals"} {
		list, err := os.ReadDir(filepath.Join(b.base, name))
		if err == nil && len(list) > 0 && list[0].Name() != "hidden" {
			t.Errorf("left in %s: %v", name, list)
		}
	}
	list, _ := os.ReadDir(filepath.Join(b.History.Dir, receipt.ReceiptsFolder))
	lines, err := b.Lines()
	if err != nil || len(list) != len(lines) {
		t.Errorf("%d receipts, and %d lines: %v", len(list), len(lines), err)
	}
}

func (b *bench) receipt(t *testing.T, r receipt.Result) receipt.Receipt {
	t.Helper()
	rc, err := b.Receipt(r.ReceiptID)
	if err != nil {
		t.Fatal(err)
	}
	return rc
}

// reasons returns the reasons of an item that was judged, in one text.
func (b *bench) reasons(t *testing.T, r receipt.Result) string {
	t.Helper()
	return strings.Join(b.receipt(t, r).Core.Reasons, "; ")
}

// state returns the state of the folder, by another store.
func (b *bench) state(t *testing.T, scratch ...string) string {
	t.Helper()
	return stateOf(t, b.Tree, scratch...)
}

func stateOf(t *testing.T, dir string, scratch ...string) string {
	t.Helper()
	how := workspace.Options{Now: time.Now(), Scratch: func(p string, folder bool) bool {
		for _, g := range scratch {
			all, beneath := strings.CutSuffix(g, "/**")
			if work.Glob(g, p) || folder && beneath && work.Glob(all, p) {
				return true
			}
		}
		return false
	}}
	s, err := workspace.Scan(t.Context(), dir, how)
	if err != nil {
		t.Fatal(err)
	}
	return s.Hash.String()
}

// text returns a file of the folder.
func (b *bench) text(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Tree, name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// lines returns the history.
func (b *bench) lines(t *testing.T) []history.Line {
	t.Helper()
	list, err := b.Lines()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// subject reads what ran.
func (b *bench) subject(r receipt.Result) (receipt.Subject, error) {
	text, err := os.ReadFile(filepath.Join(b.History.Dir, receipt.ReceiptsFolder, r.ReceiptID, receipt.ItemFile))
	if err != nil {
		return receipt.Subject{}, err
	}
	return receipt.ReadSubject(text)
}
