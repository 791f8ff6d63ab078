//go:build linux && (amd64 || arm64)

package harness_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/profiles"
)

// TestWhatTheGateAcceptsStarts: an intent that a built-in profile accepts as a plan is
// executed, whatever its result is. The sandbox refuses nothing because of what the intent
// itself says. Calls need a recording and are left out.
func TestWhatTheGateAcceptsStarts(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	h := harnesstest.NewTier(t, sandbox.Full)
	d := harnesstest.Deps(t)
	d.Runner = h
	gates := map[string]*harness.Gate{}
	for _, name := range profiles.Names() {
		gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: name}, d.Specs, harnesstest.Endless())
		if err != nil {
			t.Fatal(err)
		}
		gate.Profile.TimeoutMS = 500
		gates[name] = gate
	}
	accepted := map[string]int{}
	starts := func(t *testing.T, name string, src []byte) {
		req := harness.Request{Source: src, Path: "intent.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone, RunID: "r", Folders: harness.Folders{Tree: t.TempDir()}}
		rep, err := harness.Run(t.Context(), d, gates[name], req)
		if err != nil || rep.Decision.Outcome != kernel.OutcomeBundle || !treeFor(t, req.Folders.Tree, src) {
			return
		}
		accepted[name]++
		req.Mode = harness.ModeExecuteSandbox
		rep, err = harness.Run(t.Context(), d, gates[name], req)
		var re *result.RunError
		if errors.As(err, &re) {
			t.Errorf("%s accepts the plan and does not start it: %s\n%.400s", name, re.Line(), src)
		} else if err != nil {
			t.Error(err)
		}
		if rep.Execution != nil {
			if err := rep.Execution.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for _, f := range harnesstest.LoadVectors(t) {
		for _, v := range f.Vectors {
			if v.Expect.Outcome == kernel.OutcomeBundle {
				starts(t, v.Profile, v.Source(t))
			}
		}
	}
	r := rand.New(rand.NewPCG(14, 7))
	for range rehearsal.Count(7, 60) {
		src := strangeIntent(t, r)
		for _, name := range profiles.Names() {
			starts(t, name, src)
		}
	}
	for _, name := range profiles.Names() {
		if accepted[name] < 20 {
			t.Errorf("%s accepts %d of the intents", name, accepted[name])
		}
	}
}

// TestLongestStringsStart: a command starts with the longest argument and the longest
// variable that the gate accepts.
func TestLongestStringsStart(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), usualTime)
	good := 0
	for _, tc := range inputCheckCases() {
		if tc.rule != "" {
			continue
		}
		good++
		if p := performed(t, x, harness.Exec{Argv: tc.argv, Env: tc.env}); p.Observed.Command.Failed() {
			t.Errorf("%s: exit code %d", tc.name, p.Observed.Command.Code)
		}
	}
	if good != 3 {
		t.Errorf("%d", good)
	}
}

// treeFor puts the inputs of an intent into a tree, and says whether the intent has no
// calls.
func treeFor(t *testing.T, tree string, src []byte) bool {
	t.Helper()
	doc, err := canon.Parse(src, canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	intent, err := kernel.ParseIntent(doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range intent.Actions {
		if a.Kind == kernel.ActionCall {
			return false
		}
	}
	for _, p := range intent.Inputs {
		file := filepath.Join(tree, filepath.FromSlash(pathname.Clean(p)))
		_ = os.MkdirAll(filepath.Dir(file), 0o755)
		_ = os.WriteFile(file, []byte(p), 0o644) // a folder is there if another input lies in it
	}
	return true
}

// strangeIntent returns an intent near the limits of what an intent can say.
func strangeIntent(t *testing.T, r *rand.Rand) []byte {
	t.Helper()
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	file := func() string {
		name := one("a", "A", "b/c", "b/C", "b", "\u00e9", "K", "\u212a", "x.js", ".hidden", ".fiador-apply-x", strings.Repeat("n", 255), path.Join(strings.Split(strings.Repeat("d", 400), "")...), "a b", "-e", "$HOME", "con.txt", "new\u2028line")
		return one("out/", "./out//", "dist/", "build/", "tmp/", "src/", "") + name + one("", "", strconv.Itoa(r.IntN(3)))
	}
	action := func() map[string]any {
		if r.IntN(2) == 0 {
			return map[string]any{"kind": "write", "path": file(), "content": strings.Repeat("x", r.IntN(3000)), "executable": r.IntN(2) == 0}
		}
		a := map[string]any{"kind": "run", "argv": []string{one("node", "npm", "npx", "true", "cat", "no-such-command"), one(file(), "--version", "run", "", ";", strings.Repeat("y", 30000))}}
		if r.IntN(3) == 0 {
			a["env"] = map[string]string{one("CI", "LD_PRELOAD", "PATH", "NODE_OPTIONS", "npm_config_shell", "HOME", "TZ", "_", "X1"): one("", "1", "\u00e9\n", strings.Repeat("v", 30000))}
		}
		if r.IntN(3) == 0 {
			a["cwd"] = one(".", "", "out", "out/", "src/app", "no/such/folder", file())
		}
		if r.IntN(3) == 0 {
			a["stdin"] = one("", "data\n", strings.Repeat("z", 100000))
		}
		if r.IntN(3) == 0 {
			a["timeout_ms"] = []int{1, 50, 600000}[r.IntN(3)]
		}
		return a
	}
	doc := map[string]any{"goal": "Build the page", "constraints": []string{"keep it short"}}
	var actions []any
	for range 1 + r.IntN(4) {
		actions = append(actions, action())
	}
	doc["actions"] = actions
	for _, member := range []string{"inputs", "outputs"} {
		var list []string
		for range r.IntN(3) {
			list = append(list, file())
		}
		if list != nil {
			doc[member] = list
		}
	}
	src, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return src
}
