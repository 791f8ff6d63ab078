//go:build linux && (amd64 || arm64)

package harness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs/specstest"
)

func outputs(rep harness.Report) []string {
	var list []string
	for _, f := range rep.Result.Execution.Outputs {
		list = append(list, f.Path)
	}
	return list
}

// TestRecordAndReplay: a recorded execution can be repeated without a model. The replay
// differs from the recorded run in its model mode alone, and two replays do not differ at
// all.
func TestRecordAndReplay(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			e := harnesstest.NewEndpoint(t)
			x := harnesstest.Callers(t, harnesstest.NewTier(t, isolation), nil)
			members := intents.Actions(
				intents.Call("m", `{"messages":[{"role":"user","content":"one"}]}`),
				intents.Sh("mkdir out; cat calls/001.response.json >out/one; ls -l calls | grep -c r--r--r--"),
				intents.Call("m", `{"messages":[{"role":"user","content":"two"}]}`),
				intents.Call("m", `{"messages":[{"role":"user","content":"one"}]}`),
				intents.Sh("cat calls/*.json >out/all; ls calls"),
			) + `,"outputs":["out/all"]`
			rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, members, harness.Folders{})
			if !rep.Result.Decision.Accepted || e.Asked.Load() != 3 {
				t.Fatalf("asked %d times: %s %s", e.Asked.Load(), rep.Bytes, rep.Execution.Stderr.Bytes)
			}
			if got := string(rep.Execution.Stdout.Bytes); got != "001.response.json\n003.response.json\n004.response.json\n" {
				t.Errorf("calls has %q", got)
			}
			want := []string{"calls/001.response.json", "calls/003.response.json", "calls/004.response.json", "out/all", "out/one"}
			if got := outputs(rep); !slices.Equal(got, want) {
				t.Errorf("outputs %q", got)
			}
			checkCalls(t, rep)
			for _, c := range slices.Concat(rep.Execution.Accepted, rep.Execution.Changes) {
				if strings.HasPrefix(c.Path, "calls") {
					t.Errorf("%s is a change", c.Path)
				}
			}
			e.Close()
			first := x.Caller(harness.ModelReplay, harnesstest.Player(t, rep.Execution.ModelIO)).Run(t, members, harness.Folders{})
			recorded := bytes.Replace(canonicalSubset(t, rep.Bytes), []byte(`"model_mode":"record"`), []byte(`"model_mode":"replay"`), 1)
			if got := canonicalSubset(t, first.Bytes); !bytes.Equal(got, recorded) {
				t.Errorf("the replay gives\n%s\nand the record\n%s", got, recorded)
			}
			checkCalls(t, first)
			second := x.Caller(harness.ModelReplay, harnesstest.Player(t, first.Execution.ModelIO)).Run(t, members, harness.Folders{})
			if !bytes.Equal(canonicalSubset(t, first.Bytes), canonicalSubset(t, second.Bytes)) || !bytes.Equal(first.Execution.ModelIO, second.Execution.ModelIO) {
				t.Errorf("two replays give\n%s\n%s", first.Bytes, second.Bytes)
			}
			if was := bytes.Replace(rep.Execution.ModelIO, []byte(`"mode":"record"`), []byte(`"mode":"replay"`), 1); !bytes.Equal(first.Execution.ModelIO, was) {
				t.Errorf("the replay has the recording\n%s\nwant\n%s", first.Execution.ModelIO, was)
			}
		})
	}
}

// checkCalls compares calls, recording, outputs and files with each other.
func checkCalls(t *testing.T, rep harness.Report) {
	t.Helper()
	m, err := pack.ParseModelIO(rep.Execution.ModelIO)
	if err != nil || len(m.Interactions) != len(rep.Execution.Calls) || m.Mode != rep.Result.ModelMode || m.ModelID != "small" {
		t.Fatalf("recording %s, error %v", rep.Execution.ModelIO, err)
	}
	hashes := map[string]canon.ContentHash{}
	for _, f := range rep.Result.Execution.Outputs {
		hashes[f.Path] = f.SHA256
	}
	for i, c := range rep.Execution.Calls {
		one := m.Interactions[i]
		path := pack.ResponsePath(c.Action)
		if c.AdapterID != "m" || c.PromptHash != one.PromptHash || c.ResponseHash != one.ResponseHash || hashes[path] != c.ResponseHash {
			t.Errorf("call %+v, interaction %+v, output %s", c, one, hashes[path])
		}
		if got := contents(t, rep, path); got[0] != one.ResponseContent {
			t.Errorf("%s has %q", path, got[0])
		}
	}
}

// TestReplayMiss: a call that was not recorded gives an error that names the prompt, and
// the execution leaves nothing.
func TestReplayMiss(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			e := harnesstest.NewEndpoint(t)
			x := harnesstest.Callers(t, harnesstest.NewTier(t, isolation), nil)
			rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, intents.Actions(intents.Call("m", `{"n":1}`)), harness.Folders{})
			for name, asked := range map[string][2]string{
				"another prompt": {intents.Call("m", `{"n":2}`), ""}, "once more": {intents.Call("m", `{"n":1}`) + "," + intents.Call("m", `{"n":1}`), ""},
				"another adapter": {intents.Call("other", `{"n":1}`), `: the recording is of adapter \"m\"`},
			} {
				t.Run(name, func(t *testing.T) {
					work := t.TempDir()
					treetest.Put(t, filepath.Join(work, "a"), "1")
					re := x.Caller(harness.ModelReplay, harnesstest.Player(t, rep.Execution.ModelIO)).Fails(t, intents.Actions(intents.Write("out/a", "1"), asked[0], intents.Sh("echo >out/never")), harness.Folders{Work: work})
					hash, _ := re.Details["prompt_hash"].(string)
					if re.Code != result.CodeSandbox || !canon.ContentHash(hash).Valid() || !bytes.Contains(re.Line(), []byte("no recorded response for prompt "+hash+asked[1])) || re.Hint == "" {
						t.Errorf("%s, hint %q", re.Line(), re.Hint)
					}
					if entries, err := os.ReadDir(work); err != nil || len(entries) != 1 {
						t.Errorf("the work folder has %v, error %v", entries, err)
					}
				})
			}
		})
	}
}

// TestCallFails: a model that does not answer ends the run without a result. The error
// names the adapter and the prompt.
func TestCallFails(t *testing.T) {
	e := harnesstest.NewEndpoint(t)
	e.Fails = 2
	x := harnesstest.Callers(t, harnesstest.NewTier(t, harnesstest.Tiers[1]), nil)
	prompt, err := pack.Prompt(map[string]any{"n": "2"}, "small")
	if err != nil {
		t.Fatal(err)
	}
	re := x.Caller(harness.ModelRecord, e.Recorder()).Fails(t, intents.Actions(intents.Call("m", `{"n":"1"}`), intents.Call("m", `{"n":"2"}`), intents.Sh("true")), harness.Folders{})
	if re.Code != result.CodeSandbox || re.Message != `/actions/1: adapter "m": the endpoint answered 500 (prompt `+string(canon.Sum(prompt))+`)` ||
		re.Details["adapter_id"] != "m" || re.Details["prompt_hash"] != string(canon.Sum(prompt)) || re.Details["calls_answered"] != 1 {
		t.Errorf("%s", re.Line())
	}
	specstest.Valid(t, x.Deps.Specs, "run-error", re.Line())
}

// TestCallTime: the commands no longer have the time that a model took. A model that takes
// more time than is left has not answered.
func TestCallTime(t *testing.T) {
	t.Parallel() // it waits
	e := harnesstest.NewEndpoint(t)
	e.Delay = 500 * time.Millisecond
	x := harnesstest.Callers(t, harnesstest.NewTier(t, harnesstest.Tiers[1]), func(p *kernel.Profile) { p.TimeoutMS = 1500 })
	const late = "no answer in the time that was left"
	rehearsal.Again(t, 3, func(int) string {
		c := x.Caller(harness.ModelRecord, e.Recorder())
		rep, err := harness.Run(t.Context(), c.Deps, c.Gate, c.Request(intents.Actions(intents.Call("m", `{}`), intents.Sh("sleep 1.3")), harness.Folders{}))
		if err != nil && strings.Contains(err.Error(), late) {
			return err.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer rep.Execution.Close()
		harnesstest.CheckExecuted(t, c, rep)
		if !slices.Equal(rep.Result.Decision.Reasons, []string{"TIMEOUT"}) || len(rep.Execution.Calls) != 1 {
			t.Errorf("%s", rep.Bytes)
		}
		return ""
	})
	e.Delay = 3 * time.Second
	re := x.Caller(harness.ModelRecord, e.Recorder()).Fails(t, intents.Actions(intents.Call("m", `{}`)), harness.Folders{})
	if re.Code != result.CodeSandbox || !strings.Contains(re.Message, late) {
		t.Errorf("%s", re.Line())
	}
}

// TestResponsesAreKept: a command that changes a response is found out, and everything
// that it wrote is thrown away.
func TestResponsesAreKept(t *testing.T) {
	const response = "WRITE_OUTSIDE_ROOT calls/001.response.json"
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range []struct {
				name, script string
				reasons      []string
			}{
				{"read", "cat calls/001.response.json >/dev/null", nil},
				{"touched", "touch -d 2020-01-01 calls/001.response.json", nil},
				{"written as it was", `cp calls/001.response.json "$TMPDIR/a" && rm -f calls/001.response.json && cat "$TMPDIR/a" >calls/001.response.json`, nil},
				{"appended to", "chmod u+w calls/001.response.json; echo >>calls/001.response.json", []string{response}},
				{"replaced", "rm -f calls/001.response.json; echo {} >calls/001.response.json", []string{response}},
				{"removed", "rm -f calls/001.response.json", []string{response}},
				{"removed with its folder", "rm -rf calls", []string{response}},
				{"a folder", "rm -f calls/001.response.json; mkdir calls/001.response.json", []string{response}},
				{"a link", "mv calls/001.response.json calls/x; ln -s x calls/001.response.json", []string{"OUTPUT_KIND calls/001.response.json", response}},
				{"the folder is a link", "mv calls out; ln -s out calls", []string{"OUTPUT_KIND calls", "WRITE_OUTSIDE_ROOT calls", response}},
			} {
				t.Run(tc.name, func(t *testing.T) {
					e := harnesstest.NewEndpoint(t)
					for _, any := range []bool{true, false} {
						x := harnesstest.Callers(t, h, func(p *kernel.Profile) {
							if any {
								p.AllowedWriteRoots = kernel.AllowList{All: true}
							}
						})
						rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, intents.Actions(intents.Call("m", `{}`), intents.Sh(tc.script)), harness.Folders{})
						want := slices.Clone(tc.reasons)
						if any {
							want = slices.DeleteFunc(want, func(r string) bool { return r == "WRITE_OUTSIDE_ROOT calls" })
						}
						got := rep.Result.Decision.Reasons
						if tc.name == "a link" && !any {
							want = []string{"OUTPUT_KIND calls/001.response.json", "WRITE_OUTSIDE_ROOT calls", response, "WRITE_OUTSIDE_ROOT calls/x"}
						}
						if !slices.Equal(got, want) {
							t.Errorf("any root %v: reasons %q, want %q", any, got, want)
						}
						if intact := slices.Contains(outputs(rep), "calls/001.response.json") && len(rep.Execution.Responses) == 1; len(tc.reasons) == 0 && !intact {
							t.Errorf("outputs %q, responses %v", outputs(rep), rep.Execution.Responses)
						}
						if len(tc.reasons) > 0 && (rep.Result.Decision.Accepted || len(rep.Execution.Responses) > 0) {
							t.Errorf("%s, responses %v", rep.Bytes, rep.Execution.Responses)
						}
					}
				})
			}
		})
	}
}

// TestResponseHasNoPlace: if a response cannot be put in its place, the intent has failed.
// Nothing is written through the entry at that place.
func TestResponseHasNoPlace(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for name, script := range map[string]string{
				"a file is in the way":     "echo >calls",
				"a folder stands there":    "mkdir -p calls/002.response.json",
				"a link stands there":      "mkdir calls out; ln -s ../out/a calls/002.response.json",
				"the folder is a link":     "mkdir out; ln -s out calls",
				"a link leads out of here": "ln -s /tmp calls",
			} {
				t.Run(name, func(t *testing.T) {
					e := harnesstest.NewEndpoint(t)
					x := harnesstest.Callers(t, h, nil)
					rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, intents.Actions(intents.Sh(script), intents.Call("m", `{}`), intents.Sh("echo >out/never")), harness.Folders{})
					if !slices.Contains(rep.Result.Decision.Reasons, "OUTPUT_KIND calls/002.response.json") || rep.Result.Execution.ExitCode != 125 {
						t.Errorf("%s", rep.Bytes)
					}
					if slices.Contains(outputs(rep), "out/a") || slices.Contains(outputs(rep), "out/never") {
						t.Errorf("outputs %q", outputs(rep))
					}
				})
			}
		})
	}
}

// TestResponsesCount: responses count like outputs.
func TestResponsesCount(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for _, tc := range []struct {
				name    string
				large   int
				change  func(*kernel.Profile)
				members string
				reasons []string
			}{
				{"files within", 0, func(p *kernel.Profile) { p.MaxOutputFiles = 2 }, intents.Actions(intents.Call("m", `{}`), intents.Write("out/a", "1")), []string{}},
				{"files", 0, func(p *kernel.Profile) { p.MaxOutputFiles = 2 }, intents.Actions(intents.Call("m", `{}`), intents.Write("out/a", "1"), intents.Write("out/b", "1")), []string{"OUTPUT_LIMIT"}},
				{"files of calls alone", 0, func(p *kernel.Profile) { p.MaxOutputFiles = 1 }, intents.Actions(intents.Call("m", `{}`), intents.Call("m", `{}`)), []string{"OUTPUT_LIMIT"}},
				{"bytes within", 500_000, func(p *kernel.Profile) { p.MaxTotalOutputBytes = 600_000 }, intents.Actions(intents.Call("m", `{}`), intents.Sh("mkdir out; head -c 90000 /dev/zero >out/a")), []string{}},
				{"bytes", 500_000, func(p *kernel.Profile) { p.MaxTotalOutputBytes = 600_000 }, intents.Actions(intents.Call("m", `{}`), intents.Sh("mkdir out; head -c 110000 /dev/zero >out/a")), []string{"OUTPUT_LIMIT"}},
				{"bytes of one call", 500_000, func(p *kernel.Profile) { p.MaxTotalOutputBytes = 400_000 }, intents.Actions(intents.Sh("true"), intents.Call("m", `{}`), intents.Sh("exit 1")), []string{"OUTPUT_LIMIT"}},
			} {
				t.Run(tc.name, func(t *testing.T) {
					e := harnesstest.NewEndpoint(t)
					e.Large = tc.large
					x := harnesstest.Callers(t, h, tc.change)
					rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, tc.members, harness.Folders{})
					if got := rep.Result.Decision.Reasons; !slices.Equal(got, tc.reasons) {
						t.Errorf("reasons %q, want %q", got, tc.reasons)
					}
				})
			}
		})
	}
}

// TestManyCalls: every call of the longest intent finds its place, large answers included,
// and the init survives it.
func TestManyCalls(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			e := harnesstest.NewEndpoint(t)
			e.Large = rehearsal.Count(30_000, 300_000)
			x := harnesstest.Callers(t, harnesstest.NewTier(t, isolation), func(p *kernel.Profile) { p.MaxTotalOutputBytes = 200_000_000 })
			list := []string{intents.Sh("true")}
			for i := range 200 {
				list = append(list, intents.Call("m", fmt.Sprintf(`{"n":%d}`, i)))
			}
			list = append(list, intents.Sh("cat calls/*.response.json | wc -c"))
			rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, intents.Actions(list...), harness.Folders{})
			if !rep.Result.Decision.Accepted || len(rep.Execution.Calls) != 200 {
				t.Fatalf("%.2000s", rep.Bytes)
			}
			if got := strings.TrimSpace(string(rep.Execution.Stdout.Bytes)); got != fmt.Sprint(rep.Result.Execution.TotalOutputBytes) {
				t.Errorf("commands see %s bytes, the result has %d", got, rep.Result.Execution.TotalOutputBytes)
			}
		})
	}
}

// TestCallsBeforeAnything: a call that cannot be made gives an error before an input is
// read, a sandbox is started or a model is asked.
func TestCallsBeforeAnything(t *testing.T) {
	e := harnesstest.NewEndpoint(t)
	for name, members := range map[string]string{
		"no such adapter": intents.Actions(intents.Write("out/a", "1"), intents.Call("other", `{}`)), "several adapters": intents.Actions(intents.Call("m", `{}`), intents.Call("other", `{}`)),
		"another model": intents.Actions(intents.Sh("true"), intents.Call("m", `{"model":"large"}`)), "a stream": intents.Actions(intents.Call("m", `{}`), intents.Call("m", `{"stream":true}`)),
	} {
		t.Run(name, func(t *testing.T) {
			x := harnesstest.Callers(t, untouched{t}, nil)
			re := x.Caller(harness.ModelRecord, e.Recorder()).Fails(t, members+`,"inputs":["a"]`, harness.Folders{})
			if pointer, _ := re.Details["pointer"].(string); re.Code != result.CodeSandbox || !strings.HasPrefix(pointer, "/actions/") {
				t.Errorf("%s", re.Line())
			}
		})
	}
	if n := e.Asked.Load(); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// TestInputInThePlaceOfAResponse: such an input is refused before anything is started, so
// that no copy is left either.
func TestInputInThePlaceOfAResponse(t *testing.T) {
	e := harnesstest.NewEndpoint(t)
	x := harnesstest.Callers(t, harnesstest.NewTier(t, harnesstest.Tiers[1]), nil)
	tree := t.TempDir()
	treetest.Put(t, filepath.Join(tree, "calls", "001.response.json"), "{}")
	re := x.Caller(harness.ModelRecord, e.Recorder()).Fails(t, intents.Actions(intents.Call("m", `{}`))+`,"inputs":["calls"]`, harness.Folders{Tree: tree})
	if re.Code != result.CodeSandbox || re.Details["pointer"] != "/actions/0" || e.Asked.Load() != 0 {
		t.Errorf("%s", re.Line())
	}
}

// TestWorkFolderWithCalls: a work folder with responses of an earlier run keeps them. An
// answer that is the same as before is an output as well.
func TestWorkFolderWithCalls(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			e := harnesstest.NewEndpoint(t)
			x := harnesstest.Callers(t, harnesstest.NewTier(t, isolation), nil)
			members := intents.Actions(intents.Call("m", `{}`))
			rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, members, harness.Folders{})
			answer := contents(t, rep, "calls/001.response.json")[0]
			for _, was := range []string{"something else", answer} {
				work := t.TempDir()
				treetest.Put(t, filepath.Join(work, "calls", "001.response.json"), was)
				rep := x.Caller(harness.ModelReplay, harnesstest.Player(t, rep.Execution.ModelIO)).Run(t, members, harness.Folders{Work: work})
				if !rep.Result.Decision.Accepted || !slices.Equal(outputs(rep), []string{"calls/001.response.json"}) || len(rep.Execution.Accepted) != 0 {
					t.Errorf("%s, accepted %v", rep.Bytes, rep.Execution.Accepted)
				}
				if b, err := os.ReadFile(filepath.Join(work, "calls", "001.response.json")); string(b) != was {
					t.Errorf("the folder has %q, error %v", b, err)
				}
			}
		})
	}
}

// TestCallsInTheLedger: a recorded decision about calls is replayed without a model. A
// call without an answer leaves an error record after the begun record.
func TestCallsInTheLedger(t *testing.T) {
	e := harnesstest.NewEndpoint(t)
	e.Fails = 3
	l := newLab(t, harnesstest.NewTier(t, harnesstest.Tiers[1]))
	members := intents.Actions(intents.Call("m", `{"n":1}`), intents.Sh("test -s calls/001.response.json"), intents.Call("m", `{"n":2}`))
	l.Executor = l.Caller(harness.ModelRecord, e.Recorder())
	rep := l.Run(t, members, harness.Folders{})
	if l.Kinds() != "begun decision" || l.Records[1].Mode != harness.ModelRecord || !rep.Result.Decision.Accepted {
		t.Fatalf("records %q, %s", l.Kinds(), rep.Bytes)
	}
	l.again(t)
	l.Executor = l.Caller(harness.ModelRecord, e.Recorder())
	req := l.Request(members, harness.Folders{})
	req.RunID = "another"
	if rep, err := harness.Run(t.Context(), l.Deps, l.Gate, req); err == nil {
		t.Fatalf("no error but %s", rep.Bytes)
	}
	if l.Kinds() != "begun decision begun error:RUN_E005" {
		t.Errorf("records %q", l.Kinds())
	}
}

// TestInterruptedCall: a run that waits for a model can be interrupted.
func TestInterruptedCall(t *testing.T) {
	t.Parallel() // it waits
	e := harnesstest.NewEndpoint(t)
	e.Delay = 10 * time.Minute
	x := harnesstest.Callers(t, harnesstest.NewTier(t, harnesstest.Tiers[1]), nil)
	x = x.Caller(harness.ModelRecord, e.Recorder())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	x.Deps.Progress = func(action, _ int) {
		if action == 1 {
			go func() {
				for ; e.Asked.Load() == 0 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				}
				cancel()
			}()
		}
	}
	rep, err := harness.Run(ctx, x.Deps, x.Gate, x.Request(intents.Actions(intents.Write("out/a", "1"), intents.Call("m", `{}`)), harness.Folders{}))
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeSandbox || !strings.HasPrefix(re.Message, "interrupted") || rep.Bytes != nil {
		t.Errorf("%v, %s", err, rep.Bytes)
	}
}

// TestCallsThatAreNotReached: a plan with calls has a recording even if no call was made.
// A replay of the recording ends alike.
func TestCallsThatAreNotReached(t *testing.T) {
	e := harnesstest.NewEndpoint(t)
	x := harnesstest.Callers(t, harnesstest.NewTier(t, harnesstest.Tiers[1]), nil)
	members := intents.Actions(intents.Sh("exit 3"), intents.Call("m", `{}`))
	rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, members, harness.Folders{})
	if e.Asked.Load() != 0 || len(rep.Execution.Calls) != 0 || !slices.Equal(rep.Result.Decision.Reasons, []string{"EXIT 3"}) {
		t.Errorf("asked %d times: %s", e.Asked.Load(), rep.Bytes)
	}
	again := x.Caller(harness.ModelReplay, harnesstest.Player(t, rep.Execution.ModelIO)).Run(t, members, harness.Folders{})
	if !slices.Equal(again.Result.Decision.Reasons, []string{"EXIT 3"}) {
		t.Errorf("%s", again.Bytes)
	}
	if rep := x.Caller(harness.ModelRecord, e.Recorder()).Run(t, intents.Actions(intents.Write("out/a", "1")), harness.Folders{}); rep.Execution.ModelIO != nil {
		t.Errorf("a plan without calls has the recording %s", rep.Execution.ModelIO)
	}
}
