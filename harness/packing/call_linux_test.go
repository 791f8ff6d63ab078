//go:build linux && (amd64 || arm64)

package packing_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
)

// TestResponseWithoutItsPlaceIsPacked: an entry that stands in the way of a response is
// packed as it is, and the pack of that run is valid.
func TestResponseWithoutItsPlaceIsPacked(t *testing.T) {
	const path = "calls/002.response.json"
	roomy := func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{All: true} }
	narrow := func(p *kernel.Profile) {
		roomy(p)
		p.MaxTotalOutputBytes = 100_000
	}
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range []struct {
				name, script, more string
				change             func(*kernel.Profile)
				work               bool
				reason             string
				results, unchanged []string
			}{
				{name: "a file of two names", script: "mkdir calls; echo x >calls/a; ln calls/a " + path, change: roomy, reason: "OUTPUT_KIND " + path, results: []string{"calls/002.response.json", "calls/a"}},
				{name: "no room", script: "mkdir calls; echo x >" + path, change: narrow, reason: "OUTPUT_LIMIT", results: []string{path}},
				{name: "no room, and a file of the work folder", script: "true", more: `,"outputs":["` + path + `"]`, change: narrow, work: true, reason: "OUTPUT_LIMIT", unchanged: []string{path}},
				{name: "no room, and a file that was removed", script: "rm -f " + path, change: narrow, work: true, reason: "OUTPUT_LIMIT"},
				{name: "no room and no file", script: "true", change: narrow, reason: "OUTPUT_LIMIT"},
			} {
				t.Run(tc.name, func(t *testing.T) {
					e := harnesstest.NewEndpoint(t)
					e.Large = 200_000
					x := harnesstest.Callers(t, h, tc.change)
					var f harness.Folders
					if tc.work {
						f.Work = t.TempDir()
						treetest.Put(t, filepath.Join(f.Work, path), "as it was")
					}
					rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, intents.Actions(intents.Sh(tc.script), intents.Call("m", `{}`), intents.Sh("echo >never"))+tc.more, f)
					if !slices.Contains(rep.Result.Decision.Reasons, tc.reason) || rep.Result.Execution.ExitCode != 125 {
						t.Errorf("%s", rep.Bytes)
					}
					p := harnesstest.Packed(t, rep)
					ev, err := p.Evidence()
					if err != nil || ev.Status != pack.StatusPartial || len(ev.Calls) != 1 || !slices.Equal(ev.Unchanged, append([]string{}, tc.unchanged...)) {
						t.Fatalf("%s (%v)", p.File(pack.EvidenceFile), err)
					}
					var results []string
					for _, r := range ev.ActionResults {
						results = append(results, r.Path)
					}
					if !slices.Equal(results, tc.results) {
						t.Errorf("results %q", results)
					}
				})
			}
		})
	}
}
