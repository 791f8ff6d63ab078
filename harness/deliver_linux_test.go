//go:build linux && (amd64 || arm64)

package harness_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/patch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/ledger"
)

// stations are sinks that note which of them were reached. One of them fails.
type stations struct {
	fails   string
	reached []string
}

var errStation = errors.New("no room")

func (s *stations) at(name string) error {
	if name == s.fails {
		return errStation
	}
	s.reached = append(s.reached, name)
	return nil
}

// stationed is a pack.Writer whose calls are stations.
type stationed struct {
	*pack.Writer
	*stations
}

func (w stationed) Stage(files map[string][]byte) error {
	if err := w.at("stage"); err != nil {
		return err
	}
	return w.Writer.Stage(files)
}

func (w stationed) Commit() error {
	if err := w.at("commit"); err != nil {
		return err
	}
	return w.Writer.Commit()
}

// sinks returns one sink of every kind.
func (s *stations) sinks(w *pack.Writer, state, site string) harness.Sinks {
	return harness.Sinks{
		Receipt:   func(context.Context, ledger.Receipt) error { return s.at("receipt") },
		Recording: func(_, _ []byte) error { return s.at("recording") },
		Pack: &harness.PackSink{
			Folder: stationed{w, s},
			Ledger: func(context.Context, map[string][]byte, ledger.Receipt, ledger.Receipt) error { return s.at("ledger") },
			Ready:  func() error { return s.at("ready") },
			Fault:  func(err error) error { return err },
		},
		Evidence: func(name string, _ []byte) error { return s.at(name) },
		Keep:     func(*execute.Performed) error { return s.at("keep") },
		Accepts:  func(*execute.Performed) (bool, error) { return true, s.at("accepts") },
		Promote: &harness.Promotion{
			Folder: func() (string, error) { return site, s.at("folder") }, State: state,
			Refuse: func(string, *patch.Plan) error { return s.at("refuse") },
		},
	}
}

// TestDeliver: each step fails in turn, and leaves what the comment of Deliver says.
func TestDeliver(t *testing.T) {
	const (
		kept     = "receipt recording "
		staged   = kept + "ledger stage "
		observed = staged + "stdout stderr runner.json keep "
		applied  = observed + "accepts folder refuse "
	)
	for _, tc := range []struct {
		fails, reached   string
		records          string
		promoted, packed bool
	}{
		{"append decision", "", "begun", false, false},
		{"receipt", "recording ", "begun decision", false, false},
		{"recording", "receipt ", "begun decision", false, false},
		{"ledger", kept, "begun decision", false, false},
		{"stage", kept + "ledger ", "begun decision", false, false},
		{"stdout", staged, "begun decision", false, false},
		{"stderr", staged + "stdout ", "begun decision", false, false},
		{"runner.json", staged + "stdout stderr ", "begun decision", false, false},
		{"keep", staged + "stdout stderr runner.json ", "begun decision", false, false},
		{"accepts", observed, "begun decision", false, false},
		{"folder", observed + "accepts ", "begun decision", false, false},
		{"refuse", observed + "accepts folder ", "begun decision", false, false},
		{"promote", applied, "begun decision", false, false},
		{"ready", applied, "begun decision", true, false},
		{"commit", applied + "ready ", "begun decision", true, false},
		{"", applied + "ready commit ", "begun decision", true, true},
	} {
		t.Run("fails "+tc.fails, func(t *testing.T) {
			l := newLab(t, harnesstest.NewTier(t, sandbox.Confined))
			l.Refuse = harnesstest.Refusing(tc.fails)
			place, site, state := t.TempDir(), t.TempDir(), t.TempDir()
			before := ""
			if tc.fails == "promote" { // somebody else's file is in the way
				treetest.Put(t, filepath.Join(site, "out", "a"), "mine")
				before = promoted(t, site)
			}
			w, err := pack.Create(filepath.Join(place, "pack"))
			if err != nil {
				t.Fatal(err)
			}
			s := stations{fails: tc.fails}
			rep, err := harness.Run(t.Context(), l.Deps, l.Gate, l.Request(intents.Actions(intents.Write("out/a", "1"))+`,"outputs":["out/a"]`, harness.Folders{}))
			if err == nil {
				l.Deps.Rand = strings.NewReader(strings.Repeat("0123456789abcdef", 8))
				err = errors.Join(harness.Deliver(t.Context(), l.Deps, rep, s.sinks(w, state, site)), rep.Execution.Close())
			}
			if (err != nil) != (tc.fails != "") {
				t.Errorf("%v", err)
			}
			if got := strings.Join(append(s.reached, ""), " "); got != tc.reached {
				t.Errorf("reached %q, want %q", got, tc.reached)
			}
			if l.Kinds() != tc.records {
				t.Errorf("records %q, want %q", l.Kinds(), tc.records)
			}
			if tc.promoted {
				before = "out/a=1"
			}
			if got := promoted(t, site); got != before {
				t.Errorf("the folder has\n%s\nand not\n%s", got, before)
			}
			_ = w.Abort()
			list, err := os.ReadDir(place)
			if err != nil || len(list) > 0 != tc.packed {
				t.Errorf("beside the pack there is %v, %v", list, err)
			}
			if list, err := os.ReadDir(state); err != nil || len(list) > 0 {
				t.Errorf("journals left: %v (%v)", list, err)
			}
		})
	}
}

// TestDeliverNothing: sinks that take nothing are no error. A run without an execution
// leaves no evidence and promotes nothing.
func TestDeliverNothing(t *testing.T) {
	l := newLab(t, nil)
	req := l.Request(intents.Actions(intents.Write("out/a", "1")), harness.Folders{})
	req.Mode = harness.ModePlanOnly
	rep, err := harness.Run(t.Context(), l.Deps, l.Gate, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Deliver(t.Context(), l.Deps, rep, harness.Sinks{}); err != nil {
		t.Error(err)
	}
	w, err := pack.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	var s stations
	if err := harness.Deliver(t.Context(), l.Deps, rep, s.sinks(w, "", "")); err != nil {
		t.Error(err)
	}
	if got := strings.Join(s.reached, " "); got != "receipt recording ledger stage ready commit" {
		t.Errorf("reached %q", got)
	}
}

// TestDeliverStopped: after a run was interrupted, nothing is promoted.
func TestDeliverStopped(t *testing.T) {
	l := newLab(t, harnesstest.NewTier(t, sandbox.Confined))
	rep := l.Run(t, intents.Actions(intents.Write("out/a", "1"))+`,"outputs":["out/a"]`, harness.Folders{})
	w, err := pack.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	l.Deps.Rand = strings.NewReader(strings.Repeat("0123456789abcdef", 8))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	site := t.TempDir()
	var s stations
	err = harness.Deliver(ctx, l.Deps, rep, s.sinks(w, t.TempDir(), site))
	if err == nil || err.Error() != runerr.Stopped().Error() || promoted(t, site) != "" {
		t.Errorf("%v, and the folder has %q", err, promoted(t, site))
	}
	_ = w.Abort()
}
