//go:build linux && (amd64 || arm64)

package harness_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// shellTool is the interface of an adapter whose parameter is a script of the shell.
const shellTool = `"executable":"sh","base_args":["-c"],"arg_mapping":{"script":"{value}"}`

const parseJSON = `,"transforms":{"output":[{"type":"parse","spec":"json"}]}`

// callT calls the tool T with a script.
func callT(text string) string {
	return `{"kind":"call","tool_id":"T","params":{"script":"` + text + `"}}`
}

// TestToolCalls carries out calls of commands. Every run is also packed and verified.
func TestToolCalls(t *testing.T) {
	count := `n=$(cat out/n || echo 0); n=$((n+1)); mkdir -p out; echo $n >out/n; `
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range []struct {
				name, a, b string // what the adapters A and B have beside the script
				script     string
				answer     string // of the call; empty: none
				reasons    []string
				code       int
				attempts   string // adapter and exit code of each
				by         string
			}{
				{name: "json", a: parseJSON, script: `echo '[1, 2]'`, answer: "[1,2]\n", attempts: "A0 ", by: "A"},
				{name: "text", script: `printf x`, answer: "\"x\"\n", attempts: "A0 ", by: "A"},
				{name: "exit", a: parseJSON, script: `exit 3`, reasons: []string{"EXIT 3"}, code: 3, attempts: "A3 "},
				{
					name: "retry", a: parseJSON + `,"errors":{"retry":{"max_attempts":3,"backoff_ms":1,"retryable_codes":[7]}}`,
					script: count + `[ $n = 3 ] || exit 7; echo $n`, answer: "3\n", attempts: "A7 A7 A0 ", by: "A",
				},
				{
					name: "too few retries", a: `,"errors":{"retry":{"max_attempts":2,"backoff_ms":0,"retryable_codes":[7]}}`,
					script: `exit 7`, reasons: []string{"EXIT 7"}, code: 7, attempts: "A7 A7 ",
				},
				{
					name: "no retry of this code", a: `,"errors":{"retry":{"max_attempts":3,"backoff_ms":0,"retryable_codes":[7]}}`,
					script: `exit 8`, reasons: []string{"EXIT 8"}, code: 8, attempts: "A8 ",
				},
				{
					name: "fallback", a: `,"errors":{"fallback":{"adapter_id":"B","condition":"nonzero"}}`, b: parseJSON,
					script: count + `[ $n = 2 ] || exit 1; echo $n`, answer: "2\n", attempts: "A1 B0 ", by: "B",
				},
				{
					name: "fallback for another failure", a: `,"errors":{"fallback":{"adapter_id":"B","condition":"timeout unavailable"}}`,
					script: `exit 1`, reasons: []string{"EXIT 1"}, code: 1, attempts: "A1 ",
				},
				{
					name: "fallback of an answer", a: parseJSON + `,"errors":{"fallback":{"adapter_id":"B","condition":"invalid_output"}}`,
					script: `echo no`, answer: "\"no\\n\"\n", attempts: "A0 B0 ", by: "B",
				},
				{name: "no answer", a: parseJSON, script: `echo no`, reasons: []string{"CALL_OUTPUT /actions/1"}, code: 125, attempts: "A0 "},
				{name: "too long an answer", script: `head -c 2000000 /dev/full | tr '\\0' x`, reasons: []string{"CALL_OUTPUT /actions/1", "STREAM_LIMIT /actions/1"}, code: 125, attempts: "A0 "},
				{
					name: "timeout", a: `,"sandbox_override":{"timeout_ms":1000},"errors":{"fallback":{"adapter_id":"B","condition":"nonzero"}}`,
					script: `sleep 30`, reasons: []string{"TIMEOUT"}, code: 143, attempts: "A143 ",
				},
			} {
				t.Run(tc.name, func(t *testing.T) {
					x := harnesstest.NewExecutor(t, h, nil)
					x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
						"T/tool.json": harnesstest.Tool(`"A","B"`),
						"T/A.json":    harnesstest.CLI("A", shellTool, tc.a), "T/B.json": harnesstest.CLI("B", shellTool, tc.b),
					}))
					rep := x.Run(t, intents.Actions(intents.Sh("mkdir out"), callT(tc.script), intents.Sh("cat calls/002.response.json")), harness.Folders{})
					d, e := rep.Result.Decision, rep.Execution
					if !slices.Equal(d.Reasons, append([]string{}, tc.reasons...)) || rep.Result.Execution.ExitCode != tc.code {
						t.Fatalf("%s: %s", rep.Bytes, e.Stderr.Bytes)
					}
					var attempts strings.Builder
					for _, a := range e.Attempts {
						attempts.WriteString(a.AdapterID + canonText(t, a.Code) + " ")
					}
					if attempts.String() != tc.attempts {
						t.Errorf("attempts %s", attempts.String())
					}
					if tc.answer == "" {
						if len(e.Calls) > 0 || len(e.Runs) != 2 || e.Done != 1 {
							t.Errorf("calls %v, runs %v, %d done", e.Calls, e.Runs, e.Done)
						}
						return
					}
					if got := string(e.Stdout.Bytes); got != tc.answer {
						t.Errorf("the answer is %q", got)
					}
					if len(e.Calls) != 1 || e.Calls[0].Action != 1 || e.Calls[0].AdapterID != tc.by || e.Calls[0].ResponseHash != canon.Sum([]byte(tc.answer)) || e.Done != 3 {
						t.Errorf("calls %+v, %d done", e.Calls, e.Done)
					}
					ev, err := harnesstest.Packed(t, rep).Evidence()
					if err != nil || ev.Status != pack.StatusComplete || len(ev.Runs) != 3 || ev.Runs[1].Action != 1 {
						t.Errorf("evidence %+v (%v)", ev, err)
					}
				})
			}
		})
	}
}

func canonText(t *testing.T, v any) string {
	t.Helper()
	b, err := canon.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPinnedProgram: a program runs only if it is the file that its adapter names, and no
// fallback is tried for another one.
func TestPinnedProgram(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		h := harnesstest.NewTier(t, isolation)
		other := string(canon.Sum(nil))
		for pin, want := range map[string][]string{string(execute.ProgramHash("sh")): nil, other: {"CALL_REFUSED /actions/1"}} {
			x := harnesstest.NewExecutor(t, h, nil)
			x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
				"T/tool.json": harnesstest.Tool(`"A","B"`), "T/B.json": harnesstest.CLI("B", shellTool, ""),
				"T/A.json": harnesstest.CLI("A", shellTool+`,"executable_sha256":"`+pin+`"`, `,"errors":{"fallback":{"adapter_id":"B","condition":"any"}}`),
			}))
			rep := x.Run(t, intents.Actions(intents.Sh("true"), callT("echo x"), intents.Sh("true")), harness.Folders{})
			if !slices.Equal(rep.Result.Decision.Reasons, append([]string{}, want...)) || len(rep.Execution.Attempts) > 1 {
				t.Errorf("%s: %s", pin, rep.Bytes)
			}
		}
	}
	if execute.ProgramHash("no-such-command") != "" || execute.ProgramHash("/bin/sh") != "" || !execute.ProgramHash("sh").Valid() {
		t.Error("a program without a file, or a path, has a hash")
	}
}

// TestToolsThatAreNotPerformed: an adapter that cannot be performed as its document demands is
// refused before any effect.
func TestToolsThatAreNotPerformed(t *testing.T) {
	h := harnesstest.NewTier(t, harnesstest.Tiers[0])
	const api = `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"T","type":"api","interface":{"api":{"base_url":"https://a.example","auth_method":"none",
		"endpoint_mapping":{"get":"GET /"}}},"sandbox_override":{"network":{"enabled":true,"allow":["a.example"]}}}`
	for name, tc := range map[string]struct {
		adapter, why string
		code         result.Code
		listed       bool // the profile has a list of hosts
	}{
		"api":          {api, "no recording answers for it", result.CodeProfile, true},
		"secret":       {harnesstest.CLI("A", `"executable":"sh","secrets":{"TOKEN":{"env":"T"}}`, ""), "needs a secret", result.CodeSandbox, true},
		"open network": {harnesstest.CLI("A", `"executable":"sh"`, `,"sandbox_override":{"network":{"enabled":true,"allow":["a.example"]}}`), "every host", result.CodeSandbox, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := harnesstest.NewExecutor(t, h, func(p *kernel.Profile) {
				p.AllowNetwork, p.NetworkHosts = true, kernel.AllowList{All: !tc.listed, Names: []string{"a.example"}}
			})
			x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": tc.adapter}))
			re := x.Fails(t, intents.Actions(`{"kind":"call","tool_id":"T","params":{}}`), harness.Folders{})
			if re.Code != tc.code || !strings.Contains(re.Message, tc.why) || re.Details["pointer"] != "/actions/0" {
				t.Errorf("%v", re)
			}
		})
	}
}

// TestToolReachesItsHosts: a tool reaches the hosts of its adapter alone, not all those of the
// profile. runner.json has each connection with the action of the intent.
func TestToolReachesItsHosts(t *testing.T) {
	bash, server, ask := asking(t)
	entry := fmt.Sprintf("private:localhost:%d", server.Port)
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, kernel.IsolationFull), func(p *kernel.Profile) {
		p.AllowNetwork, p.NetworkHosts = true, kernel.AllowList{Names: []string{entry}}
	})
	cli := fmt.Sprintf(`"executable":%q,"base_args":["-c",%q]`, "bash", ask)
	x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
		"T/tool.json": harnesstest.Tool(`"A","B"`),
		"T/A.json":    harnesstest.CLI("A", cli, `,"sandbox_override":{"network":{"enabled":true,"allow":["`+entry+`"]}}`),
		"T/B.json":    harnesstest.CLI("B", cli, ""),
	}))
	call := func(adapter string) string {
		return `{"kind":"call","tool_id":"T","adapter_id":"` + adapter + `","params":{}}`
	}
	rep := x.Run(t, intents.Actions(call("B"), call("A"), intents.Argv(bash, "-c", "cat calls/*")), harness.Folders{})
	if got := string(rep.Execution.Stdout.Bytes); got != "\"403\\n\"\n\"200\\n\"\n" {
		t.Errorf("the answers are %s", got)
	}
	r, err := rep.Execution.Runner(rand.Reader)
	want := []evidence.Connection{
		{Action: 0, Name: "localhost", Port: server.Port, Verdict: evidence.RefusedUnlisted},
		{Action: 1, Name: "localhost", Port: server.Port, Verdict: evidence.RefusedNotTLS},
	}
	if err != nil || !slices.Equal(r.Connections, want) {
		t.Errorf("connections %+v (%v)", r.Connections, err)
	}
}

// TestRealTools: the search of examples/tools, and jq, answer as programs of their own do.
func TestRealTools(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory) // the adapter of the search gives the execution 256 MiB
	h := harnesstest.NewTier(t, harnesstest.Tiers[0])
	tree := t.TempDir()
	treetest.Put(t, filepath.Join(tree, "src/a.txt"), "one\nTODO two\n")
	treetest.Put(t, filepath.Join(tree, "src/a.json"), `{"name": "x", "list": [3, 1, 2]}`)
	adapter, err := os.ReadFile("../examples/tools/TL-003/ADP-001.yaml")
	if err != nil {
		t.Fatal(err)
	}
	search, err := os.ReadFile("../examples/tools/TL-003/tool.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"TL-003/tool.yaml": string(search), "TL-003/ADP-001.yaml": string(adapter), "T/tool.json": harnesstest.Tool(`"A"`),
		"T/A.json": harnesstest.CLI("A", `"executable":"jq","base_args":["-c"],"arg_mapping":{"filter":"{value}","file":"{value}"}`, parseJSON),
	}
	for name, tc := range map[string]struct{ program, call, want string }{
		"rg": {"rg", `{"kind":"call","tool_id":"TL-003","params":{"pattern":"todo","path":"src","ignore_case":true}}`, `"lines":{"text":"TODO two\n"}`},
		"jq": {"jq", `{"kind":"call","tool_id":"T","params":{"filter":".list | sort","file":"src/a.json"}}`, "[1,2,3]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(tc.program); err != nil {
				t.Skipf("%s is not installed here", tc.program)
			}
			if tc.program == "rg" && os.Getuid() != 0 {
				t.Skip("without a cgroup the adapter's 256 MiB bound the address space, and rg reserves more")
			}
			x := harnesstest.NewExecutor(t, h, nil)
			x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, files))
			rep := x.Run(t, intents.Actions(tc.call, intents.Argv("cat", "calls/001.response.json"))+`,"inputs":["src/a.txt","src/a.json"]`, harness.Folders{Tree: tree})
			if got := string(rep.Execution.Stdout.Bytes); !rep.Result.Decision.Accepted || !strings.Contains(got, tc.want) {
				t.Errorf("%s: %s", rep.Bytes, got)
			}
		})
	}
}
