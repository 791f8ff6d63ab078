//go:build linux && (amd64 || arm64)

package harness_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// requestOf returns the run of an execution request of the tool T.
func requestOf(t *testing.T, x harnesstest.Executor, members, work string) (request.Request, harness.Request) {
	t.Helper()
	r, err := request.Parse(x.Deps.Specs, "r.yaml", []byte("execution_id: run-1\n"+members+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := x.Gate.Requested(r, "r.yaml", work, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.RunID = "r"
	return r, req
}

const apiTool = `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"api","interface":{"api":{"base_url":"https://a.example","auth_method":"none",
	"endpoint_mapping":{"get":"GET /"}}},"sandbox_override":{"network":{"enabled":true,"allow":["a.example"]}}}`

// TestRequestsOfTools decides requests under the policy of a profile: a request is judged as
// a command and as a call of its tool. The intent that a request is, is decided alike.
func TestRequestsOfTools(t *testing.T) {
	sort := harnesstest.CLI("A", `"executable":"sort"`, "")
	status := func(s string) string { return strings.Replace(harnesstest.Tool(`"A"`), "active", s, 1) }
	active := harnesstest.Tool(`"A"`)
	const of, command = "tool_id: T\nadapter_id: A\n", "inputs: {command: sort, arguments: [-r]}"
	for name, tc := range map[string]struct {
		tool, adapter, request, profile, allowed string
		outcome                                  kernel.Outcome
		reasons                                  []string
	}{
		"allowed":             {active, sort, of + command, "dev", "T", kernel.OutcomeBundle, nil},
		"first adapter":       {active, sort, "tool_id: T\n" + command, "dev", "T/A", kernel.OutcomeBundle, nil},
		"not listed":          {active, sort, of + command, "dev", "U", kernel.OutcomeRefuse, []string{"TOOL_NOT_ALLOWED /actions/0"}},
		"command not listed":  {active, sort, of + command, "strict", "T", kernel.OutcomeRefuse, []string{"CMD_NOT_ALLOWED /actions/0/argv/0"}},
		"neither listed":      {active, sort, of + command, "strict", "U", kernel.OutcomeRefuse, []string{"CMD_NOT_ALLOWED /actions/0/argv/0", "TOOL_NOT_ALLOWED /actions/0"}},
		"other command":       {active, sort, of + "inputs: {command: rm}", "dev", "T", kernel.OutcomeRefuse, []string{"PARAMS_INVALID /actions/0/argv/0"}},
		"path of the command": {active, sort, of + "inputs: {command: /usr/bin/sort}", "dev", "T", kernel.OutcomeRefuse, []string{"PARAMS_INVALID /actions/0/argv/0"}},
		"other tool":          {active, sort, "tool_id: U\n" + command, "dev", "*", kernel.OutcomeRefuse, []string{"TOOL_UNKNOWN /actions/0"}},
		"other adapter":       {active, sort, "tool_id: T\nadapter_id: B\n" + command, "dev", "*", kernel.OutcomeRefuse, []string{"ADAPTER_UNKNOWN /actions/0"}},
		"deprecated":          {status("deprecated"), sort, of + command, "dev", "T", kernel.OutcomeBundle, nil},
		"experimental":        {status("experimental"), harnesstest.CLI("A", `"executable":"node"`, ""), of + "inputs: {command: node, arguments: [a.js]}", "strict", "T", kernel.OutcomeClarify, []string{"TOOL_EXPERIMENTAL /actions/0"}},
		"retired":             {status("retired"), sort, of + command, "dev", "T", kernel.OutcomeRefuse, []string{"TOOL_INACTIVE /actions/0"}},
		"host":                {active, harnesstest.CLI("A", `"executable":"sort"`, `,"sandbox_override":{"network":{"enabled":true,"allow":["a.example"]}}`), of + command, "dev", "T", kernel.OutcomeRefuse, []string{"HOST_NOT_ALLOWED /actions/0"}},
		"web service":         {active, apiTool, of + command, "strict", "U", kernel.OutcomeRefuse, []string{"CMD_NOT_ALLOWED /actions/0/argv/0", "HOST_NOT_ALLOWED /actions/0", "TOOL_NOT_ALLOWED /actions/0"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := harnesstest.Executor{Deps: harnesstest.Deps(t)}
			x.Gate = harnesstest.OpenBuiltin(t, x.Deps.Specs, tc.profile)
			x.Gate.Profile.AllowedTools = kernel.AllowList{Names: []string{tc.allowed}}
			x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, searchTool(tc.tool, tc.adapter)))
			r, err := request.Parse(x.Deps.Specs, "r.yaml", []byte("execution_id: run-1\n"+tc.request+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			src, err := r.Intent()
			if err != nil {
				t.Fatal(err)
			}
			rep, err := harness.Run(t.Context(), x.Deps, x.Gate, harnesstest.Planned(string(src), "r"))
			if err != nil || rep.Decision.Outcome != tc.outcome || !slices.Equal(rep.Decision.Reasons, append([]string{}, tc.reasons...)) {
				t.Errorf("%s (%v)", rep.Bytes, err)
			}
			if rep.Result.PolicyProvenance.ToolsSHA256 != x.Gate.Tools.SHA256() {
				t.Error("the provenance does not name the index")
			}
		})
	}
}

// TestRequestsWithoutTools: a context that looks like that of a request names no tool where
// the intent is no request, and nowhere without a registry.
func TestRequestsWithoutTools(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "dev")
	const run, write = `{"kind":"run","argv":["sort"]}`, `{"kind":"write","path":"out/a","content":"a"}`
	decide := func(actions, context string) canon.ContentHash {
		rep, err := harness.Run(t.Context(), d, gate, harnesstest.Planned(`{"goal":"g","constraints":["c"],"actions":[`+actions+`],"context":{"request":`+context+`}}`, "r"))
		if err != nil {
			t.Fatal(err)
		}
		return rep.Decision.BundleHash
	}
	const named = `{"tool_id":"U","adapter_id":"A"}`
	before := decide(run, named)
	gate.UseTools(harnesstest.Registry(t, d.Specs, searchTool(harnesstest.Tool(`"A"`), harnesstest.CLI("A", `"executable":"sort"`, ""))))
	if decide(run, named) != "" {
		t.Error("a tool that the registry does not have is allowed")
	}
	if before == "" || decide(run, strings.Replace(named, "U", "T", 1)) == "" {
		t.Error("a request is refused")
	}
	for _, c := range [][2]string{{run + "," + run, named}, {write, named}, {run, `"U"`}, {run, `[{"tool_id":"U"}]`}, {run, `{"tool_id":7}`}, {run, `{"adapter_id":"A"}`}} {
		if decide(c[0], c[1]) == "" {
			t.Errorf("%q is taken for a request", c)
		}
	}
}

// TestRequestsOfToolsExecuted: what an adapter allows holds beside the limits of the request
// and of the profile. The end of each request has a pack that is valid.
func TestRequestsOfToolsExecuted(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			pin := func(hash canon.ContentHash) string { return `,"executable_sha256":"` + string(hash) + `"` }
			for _, tc := range []struct {
				name, cli, more, members string
				code                     int
				reasons                  []string
				memory                   int
			}{
				{name: "allowed", members: "echo x", memory: 100},
				{name: "pinned", cli: pin(execute.ProgramHash("sh")), members: "echo x", memory: 100},
				{name: "another program", cli: pin(canon.Sum(nil)), members: "echo x", code: 125, reasons: []string{"CALL_REFUSED /actions/0"}, memory: 100},
				{name: "time", more: `,"sandbox_override":{"timeout_ms":1000}`, members: "sleep 30", code: 143, reasons: []string{"TIMEOUT"}, memory: 100},
				{name: "memory of the adapter", more: `,"sandbox_override":{"memory_mb":64}`, members: "true", memory: 64},
				{name: "memory of the request", more: `,"sandbox_override":{"memory_mb":1024}`, members: "true", memory: 100},
				{name: "no fallback", more: `,"errors":{"fallback":{"adapter_id":"B","condition":"any"},"retry":{"max_attempts":3,"retryable_codes":[3]}}`, members: "echo >>out/n; [ $(wc -l <out/n) = 1 ] && exit 3", code: 3, reasons: []string{"EXIT 3"}, memory: 100},
			} {
				t.Run(tc.name, func(t *testing.T) {
					x := harnesstest.NewExecutor(t, h, usualTime)
					x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
						"T/tool.json": harnesstest.Tool(`"A","B"`), "T/B.json": harnesstest.CLI("B", `"executable":"sh"`, ""),
						"T/A.json": harnesstest.CLI("A", `"executable":"sh"`+tc.cli, tc.more),
					}))
					r, req := requestOf(t, x, "tool_id: T\nadapter_id: A\nsandbox: {memory_mb: 100}\n"+shell("mkdir -p out; "+tc.members), t.TempDir())
					req.Exec.Packed = true
					rep, err := harness.Run(t.Context(), x.Deps, x.Gate, req)
					if err != nil || rep.Execution == nil {
						t.Fatalf("%s (%v)", rep.Bytes, err)
					}
					defer rep.Execution.Close()
					harnesstest.CheckExecuted(t, x, rep) // the pack is verified too
					got := rep.Execution.Report(r)
					runner, err := rep.Execution.Runner(x.Deps.Rand)
					if err != nil || got.ExitCode != tc.code || !slices.Equal(got.Reasons, tc.reasons) || runner.Limits.MaxMemoryBytes != int64(tc.memory)<<20 {
						t.Errorf("%+v, limits %+v (%v)", got, runner.Limits, err)
					}
				})
			}
		})
	}
}

// TestRequestsThatToolCallPerforms: a request of an adapter that is more than a command is
// refused before any effect.
func TestRequestsThatToolCallPerforms(t *testing.T) {
	h := harnesstest.NewTier(t, harnesstest.Tiers[0])
	for _, adapter := range []string{apiTool, harnesstest.CLI("A", `"executable":"sh","secrets":{"TOKEN":{"env":"T"}}`, "")} {
		x := harnesstest.NewExecutor(t, h, usualTime)
		x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, searchTool(harnesstest.Tool(`"A"`), adapter)))
		_, req := requestOf(t, x, "tool_id: T\n"+shell("true"), t.TempDir())
		_, err := harness.Run(t.Context(), x.Deps, x.Gate, req)
		re, ok := err.(*result.RunError)
		if !ok || re.Code != result.CodeSandbox || !strings.Contains(re.Hint, "fiador tool call") || re.Details["pointer"] != "/actions/0" {
			t.Errorf("%v", err)
		}
	}
}

// TestRequestsReachTheHostsOfTheirTool: a request reaches the hosts alone that both itself and
// its adapter list.
func TestRequestsReachTheHostsOfTheirTool(t *testing.T) {
	_, server, ask := asking(t)
	entry := fmt.Sprintf("private:localhost:%d", server.Port)
	h := harnesstest.NewTier(t, kernel.IsolationFull)
	for _, tc := range []struct{ profile, adapter, request, want string }{
		{entry, entry, "", "200\n"}, {entry, entry, `, allow: ["` + entry + `"]`, "200\n"}, {entry, entry, ", deny: [localhost]", "403\n"},
		{entry, "", "", ""}, {entry, "", `, allow: ["` + entry + `"]`, ""}, {entry, "a.example", "", "403\n"}, {entry, "a.example", `, allow: ["` + entry + `"]`, ""},
		{"*", entry, "", "200\n"}, {"*", "a.example", "", "403\n"}, {"*", "", "", ""},
	} {
		x := harnesstest.NewExecutor(t, h, func(p *kernel.Profile) {
			usualTime(p)
			p.AllowNetwork, p.NetworkHosts = true, kernel.AllowList{All: tc.profile == "*", Names: []string{entry, "a.example"}}
		})
		override := ""
		if tc.adapter != "" {
			override = `,"sandbox_override":{"network":{"enabled":true,"allow":["` + tc.adapter + `"]}}`
		}
		x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, searchTool(harnesstest.Tool(`"A"`), harnesstest.CLI("A", `"executable":"bash"`, override))))
		_, req := requestOf(t, x, fmt.Sprintf("tool_id: T\ninputs: {command: %q, arguments: [-c, %q]}\nsandbox: {network: {enabled: true%s}}", "bash", ask, tc.request), t.TempDir())
		rep, err := harness.Run(t.Context(), x.Deps, x.Gate, req)
		if err != nil || rep.Execution == nil {
			t.Fatalf("%+v: %s (%v)", tc, rep.Bytes, err)
		}
		if got := string(rep.Execution.Stdout.Bytes); got != tc.want && (tc.want != "" || strings.Contains(got, "200")) {
			t.Errorf("%+v: %q, %s", tc, got, rep.Execution.Stderr.Bytes)
		}
		rep.Execution.Close()
	}
}
