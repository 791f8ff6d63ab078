//go:build linux && (amd64 || arm64)

package harness_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
)

// TestToolCache: in a second run, a call is answered by that of the first run only if its
// adapter says deterministic, nothing that it could depend on differs, and the first call left
// nothing behind. Both runs have the same RunResult, and are packed and verified.
func TestToolCache(t *testing.T) {
	const deterministic = parseJSON + `,"deterministic":true`
	call := callT(`echo 1`)
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range []struct {
				name, a       string
				first, second []string // actions; second empty: the same
				cached        bool     // the last action of the second run
				tree          bool     // the tree is shown
			}{
				{name: "same", a: deterministic, first: []string{call}, cached: true},
				{name: "behind a command", a: deterministic, first: []string{call}, second: []string{intents.Sh("mkdir out; rmdir out"), call}, cached: true},
				{name: "behind the same file", a: deterministic, first: []string{intents.Sh("mkdir out; echo >out/x"), call}, cached: true},
				{name: "the tree is shown", a: deterministic, first: []string{call}, tree: true},
				{name: "not deterministic", a: parseJSON, first: []string{call}},
				{name: "other parameters", a: deterministic, first: []string{callT(`echo 2`)}, second: []string{call}},
				{name: "another file", a: deterministic, first: []string{call}, second: []string{intents.Sh("mkdir out; echo >out/x"), call}},
				{name: "another mode", a: deterministic, first: []string{intents.Sh("mkdir out; echo >out/x"), call}, second: []string{intents.Sh("mkdir out; echo >out/x; chmod +x out/x"), call}},
				{name: "a temporary file before", a: deterministic, first: []string{call}, second: []string{intents.Sh("echo >$TMPDIR/x"), call}},
				{name: "writes", a: deterministic, first: []string{callT(`mkdir -p out; echo >out/x; echo 1`)}},
				{name: "writes a temporary file", a: deterministic, first: []string{callT(`echo >$TMPDIR/x; echo 1`)}},
				{
					name: "second attempt", a: deterministic + `,"errors":{"retry":{"max_attempts":2,"backoff_ms":0,"retryable_codes":[7]}}`,
					first: []string{callT(`[ -e $TMPDIR/x ] && rm $TMPDIR/x && echo 1 && exit; echo >$TMPDIR/x; exit 7`)},
				},
			} {
				t.Run(tc.name, func(t *testing.T) {
					x := harnesstest.NewExecutor(t, h, nil)
					x.Deps.ToolCache = &execute.Cache{}
					if !tc.tree {
						x.Gate.Base = "strict" // a profile of dev shows the tree
					}
					x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
						"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": harnesstest.CLI("A", shellTool, tc.a),
					}))
					if tc.second == nil {
						tc.second = tc.first
					}
					first := x.Run(t, intents.Actions(tc.first...), harness.Folders{})
					rep := x.Run(t, intents.Actions(tc.second...), harness.Folders{})
					for _, r := range []harness.Report{first, rep} {
						if !r.Result.Decision.Accepted || len(r.Execution.Calls) != 1 {
							t.Fatalf("%s", r.Bytes)
						}
						harnesstest.Packed(t, r)
					}
					if slices.Equal(tc.first, tc.second) && !reflect.DeepEqual(first.Result.Execution, rep.Result.Execution) {
						t.Errorf("%s\n%s", first.Bytes, rep.Bytes)
					}
					end := rep.Execution.Attempts[len(rep.Execution.Attempts)-1]
					if (end.Cached != nil) != tc.cached {
						t.Errorf("attempts %+v", rep.Execution.Attempts)
					}
					if tc.cached && (end.Cached.RunID != first.Result.RunID || end.Cached.Action != len(tc.first)-1) {
						t.Errorf("cached %+v", end.Cached)
					}
					if string(rep.Execution.Stdout.Bytes) == "" {
						t.Error("no standard output is kept")
					}
				})
			}
		})
	}
}
