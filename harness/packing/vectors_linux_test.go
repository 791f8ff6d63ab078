//go:build linux && (amd64 || arm64)

package packing_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/profiles"
)

// baseRun is the run of a pack of specs/vectors/pack/base.json.
type baseRun struct {
	Intent    json.RawMessage   `json:"intent"`
	Policy    string            `json:"policy"`
	Mode      string            `json:"mode"`
	ModelMode string            `json:"model_mode"`
	Work      map[string]string `json:"work"`
	Test      bool              `json:"test"` // the last action is the test of a work item
}

// workItem is the harness.Item of such a run.
type workItem struct{ stage string }

func (workItem) Begun() *ledger.Work { return nil }

func (workItem) Sealed(context.Context, harness.Report) (*ledger.Work, error) { return nil, nil }

// Perform performs all but the test, and then the test on what was written.
func (w workItem) Perform(ctx context.Context, task execute.Task, perform harness.Perform) (*execute.Performed, error) {
	last := len(task.Sandbox.Actions) - 1
	agent, test := task, task
	agent.Sandbox.Actions, agent.At, agent.Stdin, agent.Times = task.Sandbox.Actions[:last], task.At[:last], task.Stdin[:last], task.Times[:last]
	p, err := perform(ctx, agent)
	if err != nil {
		return nil, err
	}
	if err := p.MoveTo(w.stage); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	test.Sandbox.Actions, test.At, test.Stdin, test.Times = task.Sandbox.Actions[last:], task.At[last:], task.Stdin[last:], nil
	test.Sandbox.Delta, test.Rules.Declared, test.Ignore = w.stage, nil, func(string) bool { return true }
	end, err := perform(ctx, test)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Planned = last + 1
	p.Tested(end)
	return p, end.Close()
}

// TestBasePacksAreRuns: runs make the packs that vectors begin with. Another run makes the
// same pack. Only times, names, facts of the machine, and the digests of a policy text
// that has changed since may differ.
func TestBasePacksAreRuns(t *testing.T) {
	src, err := os.ReadFile("../../specs/vectors/pack/base.json")
	if err != nil {
		t.Fatal(err)
	}
	var base struct {
		Runs  map[string]baseRun                    `json:"runs"`
		Packs map[string]map[string]json.RawMessage `json:"packs"`
	}
	if err := json.Unmarshal(src, &base); err != nil {
		t.Fatal(err)
	}
	if len(base.Runs) != len(base.Packs) {
		t.Errorf("%d runs and %d packs", len(base.Runs), len(base.Packs))
	}
	for name, run := range base.Runs {
		t.Run(name, func(t *testing.T) {
			want := base.Packs[name]
			got := run.again(t, want[pack.ModelFile])
			for file := range want {
				if file == pack.LedgerFile || file == pack.MetaFile {
					continue
				}
				if a, b := lasting(t, file, want[file]), lasting(t, file, got[file]); !bytes.Equal(a, b) {
					t.Errorf("%s was\n%s\nand is\n%s", file, a, b)
				}
			}
			for file := range got {
				if want[file] == nil {
					t.Errorf("%s is new", file)
				}
			}
		})
	}
}

// again makes the pack of the run on this machine. A model gives the recorded answers.
func (r baseRun) again(t *testing.T, recording json.RawMessage) map[string][]byte {
	t.Helper()
	doc, err := canon.Parse(r.Intent, canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	d := harnesstest.Deps(t)
	req := harness.Request{Source: append(bytes.Clone(doc.Bytes()), '\n'), Path: "intent.json", Mode: r.Mode, ModelMode: r.ModelMode, RunID: "r"}
	if r.Mode == harness.ModeExecuteSandbox {
		d.Runner = harnesstest.NewTier(t, sandbox.Full)
		req.Folders = harness.Folders{Tree: t.TempDir()}
		if r.Work != nil {
			req.Folders.Work = t.TempDir()
		}
		for path, text := range r.Work {
			treetest.Put(t, filepath.Join(req.Folders.Work, filepath.FromSlash(path)), text)
		}
	}
	if r.Test {
		req.Item = workItem{filepath.Join(t.TempDir(), "stage")}
	}
	if recording != nil {
		var recorded pack.ModelIO
		if err := json.Unmarshal(recording, &recorded); err != nil {
			t.Fatal(err)
		}
		d.Caller = sameAnswers(t, recorded)
	}
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: r.Policy}, d.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	rep, err := harness.Run(t.Context(), d, gate, req)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Execution != nil {
		defer rep.Execution.Close()
	}
	files, err := rep.Packing().Files(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameAnswers returns a Caller that asks an endpoint on this machine. The endpoint gives
// the recorded responses, in order.
func sameAnswers(t *testing.T, recorded pack.ModelIO) execute.Caller {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n == len(recorded.Interactions) {
			w.WriteHeader(http.StatusGone)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(w, recorded.Interactions[n].ResponseContent); err != nil {
			t.Error(err)
		}
		n++
	}))
	t.Cleanup(server.Close)
	d := harnesstest.Deps(t)
	adapters, err := model.ParseAdapters([]byte(`{"adapters":[{"id":"`+recorded.AdapterID+`","base_url":"`+server.URL+`","model":"`+recorded.ModelID+`"}]}`), d.Specs)
	if err != nil {
		t.Fatal(err)
	}
	return model.NewRecorder(adapters, func(string) string { return "" }, time.Now)
}

// lasting returns the part of a file of a pack that must be the same again.
func lasting(t *testing.T, file string, text []byte) []byte {
	t.Helper()
	doc, err := canon.Parse(text, max(1, len(text)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	obj, _ := doc.Value().(map[string]any)
	stays := map[string]any{}
	for name, value := range obj {
		stays[name] = value
	}
	var passing []string
	switch file {
	case pack.RunFile:
		stays = result.Subset(stays)
		passing = []string{"policy_provenance"}
	case pack.EvidenceFile:
		passing = []string{"started_at", "completed_at", "total_duration_ms"}
	case pack.RunnerFile:
		passing = []string{"peak_memory_bytes", "plan_sha256", "platform", "runner_id", "sandbox", "timing"}
	case pack.ModelFile:
		for _, one := range obj["interactions"].([]any) {
			delete(one.(map[string]any), "latency_ms")
		}
	}
	for _, name := range passing {
		delete(stays, name)
	}
	b, err := canon.Canonical(stays)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
