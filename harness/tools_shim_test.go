package harness_test

import (
	"slices"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/pathname"
)

// TestShimIsNoCommand: no run action and no adapter of another type starts a shim, whatever
// commands the profile allows. A call of a library's function starts it.
func TestShimIsNoCommand(t *testing.T) {
	d := harnesstest.Deps(t)
	for _, name := range []string{"strict", "default", "dev"} {
		gate := harnesstest.OpenBuiltin(t, d.Specs, name)
		gate.Profile.AllowedTools = kernel.AllowList{All: true}
		decide := func(action string) kernel.Decision {
			rep, err := harness.Run(t.Context(), harnesstest.Deps(t), gate, harnesstest.Planned(`{"goal":"g","constraints":["c"],"actions":[`+action+`]}`, "r"))
			if err != nil {
				t.Fatal(err)
			}
			return rep.Decision
		}
		for _, allowed := range []kernel.AllowList{gate.Profile.AllowedCommands, {Names: []string{"node", "python3"}}, {All: true}} {
			gate.Profile.AllowedCommands = allowed
			for _, shim := range []string{
				pathname.ShimPython, pathname.ShimNode, "/fiador/../fiador/shim.py", "//fiador//shim.mjs", "/./fiador/shim.py", "/tmp/../fiador/shim.mjs",
				"../fiador/shim.py", "x/../../fiador/shim.mjs", "/proc/self/root/fiador/shim.py", "-r/fiador/shim.mjs", "/fiador",
			} {
				for _, argv := range [][]string{{"node", shim}, {"python3", shim}, {"python3", "-u", shim}, {"node", "x.js", shim}, {"cp", shim, "out"}, {shim}} {
					words := string(mustJSON(t, argv))
					if got := decide(`{"kind":"run","argv":` + words + `,"stdin":"{}"}`); got.Outcome != kernel.OutcomeRefuse {
						t.Errorf("%s: %s with %v: %s %q", name, words, allowed, got.Outcome, got.Reasons)
					}
				}
			}
		}
		gate.Profile.AllowedCommands = kernel.AllowList{Names: []string{"node", "python3"}}
		const call = `{"kind":"call","tool_id":"T","params":{}}`
		for language, shim := range map[string][2]string{"python": {"python3", pathname.ShimPython}, "node": {"node", pathname.ShimNode}} {
			gate.UseTools(harnesstest.Registry(t, d.Specs, searchTool(harnesstest.Tool(`"A"`), sdkAdapter(language, "m", `"f":"f"`, ""))))
			if got := decide(call); got.Outcome != kernel.OutcomeBundle {
				t.Errorf("%s: %s: %s %q", name, language, got.Outcome, got.Reasons)
			}
			gate.UseTools(harnesstest.Registry(t, d.Specs, searchTool(harnesstest.Tool(`"A"`), harnesstest.CLI("A", `"executable":"`+shim[0]+`","base_args":["`+shim[1]+`"]`, ""))))
			if got := decide(call); got.Outcome != kernel.OutcomeRefuse || !slices.Equal(got.Reasons, []string{"PATH_ABSOLUTE /actions/0"}) {
				t.Errorf("%s: %s of type cli: %s %q", name, language, got.Outcome, got.Reasons)
			}
		}
	}
}

// sdkAdapter returns an adapter A of the tool T that calls functions of a library.
func sdkAdapter(language, module, functions, more string) string {
	return `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"sdk","interface":{"sdk":{"language":"` + language + `","import_path":"` + module +
		`","function_mapping":{` + functions + `}}},"transforms":{"output":[{"type":"parse","spec":"json"}]}` + more + `}`
}
