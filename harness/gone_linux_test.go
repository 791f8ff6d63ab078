//go:build linux && (amd64 || arm64)

package harness_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
)

// TestOutputsThatAreGone: the former content of a folder that was removed or replaced is
// no output, even if an action has written it unchanged.
func TestOutputsThatAreGone(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			for script, want := range map[string][]string{
				"true":                             {"out/d/a"},
				"rm -r out/d":                      nil,
				"rm -r out; echo f >out":           {"out"},
				"rm -r out/d; mkdir out/d":         nil,
				"rm -r out; mkdir -p out/d/a/e":    nil,
				"mv out/d out/e":                   {"out/e/a"},
				"mv out/d out/e; mv out/e out/d":   {"out/d/a"},
				"rm -r out; ln -s nowhere out":     nil,
				"rm -r out; echo f >out; rm out":   nil,
				"rm out/d/a; printf x >out/d/a":    {"out/d/a"},
				"rm -r out/d; echo f >out/d":       {"out/d"},
				"chmod 700 out/d; chmod 755 out/d": {"out/d/a"},
			} {
				work := t.TempDir()
				treetest.Put(t, filepath.Join(work, "out", "d", "a"), "x")
				rep := x.Run(t, intents.Actions(intents.Write("out/d/a", "x"), intents.Sh(script)), harness.Folders{Work: work})
				if got := outputs(rep); !slices.Equal(got, want) {
					t.Errorf("%s: outputs %q, reasons %q", script, got, rep.Result.Decision.Reasons)
				}
			}
		})
	}
}

// TestResponseThatIsGone: if the folder of a response was removed or replaced, this is a
// reason to reject, even if the work folder had the same response.
func TestResponseThatIsGone(t *testing.T) {
	e := harnesstest.NewEndpoint(t)
	x := harnesstest.Callers(t, harnesstest.NewTier(t, sandbox.Full), nil)
	ask := intents.Call("m", `{"messages":[{"role":"user","content":"one"}]}`)
	rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, intents.Actions(ask), harness.Folders{})
	recording, err := pack.ParseModelIO(rep.Execution.ModelIO)
	if err != nil || len(recording.Interactions) != 1 {
		t.Fatalf("%s (%v)", rep.Execution.ModelIO, err)
	}
	body := recording.Interactions[0].ResponseContent
	for script, accepted := range map[string]bool{
		"true":                         true,
		"rm -rf calls; echo x >calls":  false,
		"rm -rf calls":                 false,
		"rm -rf calls; mkdir calls":    false,
		"mv calls out; echo x >calls":  false,
		"chmod 700 calls; echo >calls": true,
	} {
		work := t.TempDir()
		treetest.Put(t, filepath.Join(work, "calls", "001.response.json"), body)
		rep := x.Caller(harness.ModelReplay, harnesstest.Player(t, rep.Execution.ModelIO)).Run(t, intents.Actions(ask, intents.Sh(script+"; true")), harness.Folders{Work: work})
		has := slices.Contains(outputs(rep), "calls/001.response.json")
		if rep.Result.Decision.Accepted != accepted || has != accepted {
			t.Errorf("%s: outputs %q, reasons %q", script, outputs(rep), rep.Result.Decision.Reasons)
		}
	}
}

// TestDeclaredResponse: a response that is declared as an output is one output, whatever
// the work folder had at its path.
func TestDeclaredResponse(t *testing.T) {
	e := harnesstest.NewEndpoint(t)
	x := harnesstest.Callers(t, harnesstest.NewTier(t, sandbox.Full), nil)
	members := intents.Actions(intents.Call("m", `{"messages":[{"role":"user","content":"one"}]}`)) + `,"outputs":["calls/001.response.json"]`
	rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, members, harness.Folders{})
	recording, err := pack.ParseModelIO(rep.Execution.ModelIO)
	if err != nil || len(recording.Interactions) != 1 {
		t.Fatalf("%s (%v)", rep.Execution.ModelIO, err)
	}
	for name, text := range map[string]string{"nothing": "", "the same": recording.Interactions[0].ResponseContent, "another": "{}"} {
		work := t.TempDir()
		if text != "" {
			treetest.Put(t, filepath.Join(work, "calls", "001.response.json"), text)
		}
		rep := x.Caller(harness.ModelReplay, harnesstest.Player(t, rep.Execution.ModelIO)).Run(t, members, harness.Folders{Work: work})
		if got := outputs(rep); !rep.Result.Decision.Accepted || !slices.Equal(got, []string{"calls/001.response.json"}) {
			t.Errorf("%s there before: outputs %q, reasons %q", name, got, rep.Result.Decision.Reasons)
		}
		harnesstest.Packed(t, rep)
	}
}
