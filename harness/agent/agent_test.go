package agent_test

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/agent"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/replay"
	"github.com/fiador/fiador/kernel"
)

func calls(tools ...string) agent.Question {
	q := agent.Question{Asker: "asker", Context: agent.Context{Client: "asker", SessionID: "s"}}
	for _, tool := range tools {
		q.Actions = append(q.Actions, agent.Call(tool, map[string]any{"a": "TODO"}, ""))
	}
	return q
}

// listing returns a gate under dev that lists tools.
func listing(t *testing.T, deps harness.Deps, tools ...string) *harness.Gate {
	t.Helper()
	list := "[]"
	if len(tools) > 0 {
		list = `["` + strings.Join(tools, `","`) + `"]`
	}
	members := `{"name":"p","extends":"dev","allowed_tools":` + list + `}`
	gate, err := harness.OpenGate(t.Context(), harnesstest.Mine(map[string]string{"profile.json": members}), deps.Specs, harnesstest.Endless())
	if err != nil {
		t.Fatal(err)
	}
	return gate
}

// TestAsk: allowed_tools judges the tools of servers and clients, and the words name the
// reason and the way out.
func TestAsk(t *testing.T) {
	deps := harnesstest.Runs(t)
	gate := listing(t, deps, "mcp:files/read", "mcp:files#resources/read", "client:codex/*")
	for _, tool := range []string{"mcp:files/read", "mcp:files#resources/read", "client:codex/update_plan"} {
		if allowed, words := agent.Ask(t.Context(), deps, gate, calls(tool)); !allowed {
			t.Errorf("%s is not allowed: %s", tool, words)
		}
	}
	for _, tool := range []string{"mcp:files/write", "mcp:other/read", "client:gemini/update_plan", "read", "files/read"} {
		allowed, words := agent.Ask(t.Context(), deps, gate, calls("mcp:files/read", tool))
		if allowed || !strings.Contains(words, `TOOL_NOT_ALLOWED  /actions/1  tool "`+tool+`" is not in allowed_tools (`) || !strings.Contains(words, "hint: use one of") {
			t.Errorf("%s: allowed is %v: %s", tool, allowed, words)
		}
	}
	allowed, words := agent.Ask(t.Context(), deps, listing(t, deps), calls("mcp:files/read"))
	if allowed || !strings.HasPrefix(words, "REFUSE  asker  1 finding\n") || !strings.Contains(words, "\nFiador decided this; run run_") {
		t.Errorf("allowed is %v: %s", allowed, words)
	}
}

// TestQuestionIsExecutedByNobody: a question is a plan alone, and what an intent itself says
// about a tool counts for nothing.
func TestQuestionIsExecutedByNobody(t *testing.T) {
	deps := harnesstest.Runs(t)
	gate := listing(t, deps, "mcp:files/read")
	req, err := calls("mcp:files/read").Request()
	if err != nil || req.Mode != harness.ModePlanOnly {
		t.Fatalf("%v, mode %s", err, req.Mode)
	}
	req.Calls = nil
	rep, err := harness.Run(t.Context(), deps, gate, req)
	if err != nil || rep.Decision.Outcome != kernel.OutcomeRefuse {
		t.Errorf("an intent that names the tool itself: %s, %v", rep.Decision.Outcome, err)
	}
}

// TestRecordedQuestion: no decision that could not be recorded allows anything, and one that
// was recorded replays.
func TestRecordedQuestion(t *testing.T) {
	deps := harnesstest.Runs(t)
	gate := listing(t, deps, "mcp:files/read")
	memory := harnesstest.NewMemory()
	deps.Recorder = memory
	if allowed, words := agent.Ask(t.Context(), deps, gate, calls("mcp:files/read")); !allowed || memory.Kinds() != "decision" {
		t.Fatalf("allowed is %v, records are %q: %s", allowed, memory.Kinds(), words)
	}
	replayed, err := (&replay.Session{Specs: deps.Specs, Evidence: memory.Blob}).Replay(t.Context(), memory.Records[0])
	if err != nil || replayed.Status != replay.Match {
		t.Errorf("%+v, %v", replayed, err)
	}
	memory = harnesstest.NewMemory()
	memory.Refuse = harnesstest.Refusing("append decision")
	deps.Recorder = memory
	allowed, words := agent.Ask(t.Context(), deps, gate, calls("mcp:files/read"))
	if allowed || !strings.Contains(words, "RUN_E") || !strings.Contains(words, "no decision") {
		t.Errorf("allowed is %v: %s", allowed, words)
	}
}

// TestWordsAreShort: the words of many reasons keep to their limit, and say that there are more.
func TestWordsAreShort(t *testing.T) {
	deps := harnesstest.Runs(t)
	var many []string
	for range 100 {
		many = append(many, "mcp:files/"+strings.Repeat("x", 200))
	}
	_, words := agent.Ask(t.Context(), deps, listing(t, deps), calls(many...))
	if len(words) > agent.MaxWords || !strings.Contains(words, "\n(more is not shown)\nFiador decided this") {
		t.Errorf("%d bytes: %s", len(words), words)
	}
}
