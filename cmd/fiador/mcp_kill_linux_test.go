package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/testimony"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
	"github.com/fiador/fiador/specs"
)

// gateProfile is a profile that allows the tool echo of the server s, and no other.
const gateProfile = `{"name":"gated","allow_network":false,"timeout_ms":60000,"max_output_files":10,"max_total_output_bytes":1048576,
	"allowed_commands":["true"],"allowed_write_roots":["out"],"allowed_tools":["mcp:s/echo"],"execution_modes":["plan-only"],"model_modes":["none"],
	"severity":{},"memory_mb":512,"max_children":10,"cpu_cores":1,"isolation":"full"}`

// gateStorm is a ledger, the file of a server, and what was found in them.
type gateStorm struct {
	args     []string // of the program
	ledger   string
	seen     string
	set      *specs.Set
	read     int64                    // entries of the ledger
	recorded map[int64]kernel.Outcome // calls, by their argument n
	sent     atomic.Int64
}

// TestGateKilled kills a gate at random moments, while a client calls tools without a pause.
// The server never sees a call whose BUNDLE the ledger does not have.
func TestGateKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy")
	if err := os.Mkdir(policy, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, policy, "profile.json", gateProfile)
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	g := &gateStorm{ledger: filepath.Join(dir, "gate"), seen: filepath.Join(dir, "seen"), set: set, recorded: map[int64]kernel.Outcome{}}
	flags := newLedger(t, dir)
	g.args = append(append([]string{"mcp", "gate", "--server", "s", "--policy", policy}, flags...), "--", "mcp-server", g.seen)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	rounds, span := rehearsal.Count(10, 200), time.Second
	for i := range rounds {
		when := fmt.Sprintf("round %d, seed %d", i, seed)
		// Every fourth gate is killed in its start, and the others after some answers.
		if i%4 == 3 {
			g.killed(t, 0, time.Duration(random.Int64N(int64(span))))
		} else {
			span = g.killed(t, 1+random.IntN(8), time.Duration(random.Int64N(int64(30*time.Millisecond))))
		}
		g.check(t, when)
	}
	seen := g.calls(t)
	unseen := 0
	for n, outcome := range g.recorded {
		if outcome == kernel.OutcomeBundle && !seen[n] {
			unseen++
		}
	}
	t.Logf("%d kills: %d calls sent, %d recorded, %d seen by the server, %d allowed and recorded but not seen", rounds, g.sent.Load(), len(g.recorded), len(seen), unseen)
	if len(seen) < rounds/2 || len(g.recorded) <= len(seen) || int64(len(g.recorded)) == g.sent.Load() {
		t.Error("the storm shows nothing: no kill was in the middle of calls")
	}
	if out, err := command(t, "ledger", "verify", "--ledger", g.ledger, "--evidence").CombinedOutput(); err != nil || !strings.Contains(string(out), "\nCLEAN\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// killed starts a gate, calls tools without a pause, and kills the gate some time after the
// client has so many answers. It returns when the server has ended too. span is the time up to
// the first answer of a call.
func (g *gateStorm) killed(t *testing.T, answers int, later time.Duration) (span time.Duration) {
	t.Helper()
	since := time.Now()
	s := newMCPSession(t, g.args...)
	open := make(chan bool, 40) // one for each call that has no answer
	ended := make(chan bool)
	var talk sync.WaitGroup
	talk.Go(func() {
		_, err := io.WriteString(s.in, initializeMCP+"\n"+initializedMCP+"\n")
		for err == nil {
			select {
			case open <- true:
			case <-ended:
				return
			}
			n := g.sent.Add(1)
			tool := "echo"
			if n%5 == 0 {
				tool = "other"
			}
			_, err = fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%[1]d,"method":"tools/call","params":{"name":%[2]q,"arguments":{"n":%[1]d}}}`+"\n", n, tool)
		}
	})
	if answers > 0 {
		s.next(t) // that of initialize
		for range answers {
			s.next(t)
			<-open
		}
		span = time.Since(since)
	}
	talk.Go(func() {
		defer close(ended)
		for range s.lines {
			select {
			case <-open:
			default: // the answer of initialize
			}
		}
	})
	time.Sleep(later)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	talk.Wait()
	_ = s.cmd.Wait()
	gone(t, g.seen)
	return span
}

// check reads what is new in the ledger, and holds it against what the server has seen.
func (g *gateStorm) check(t *testing.T, when string) {
	t.Helper()
	r, err := disk.Read(g.ledger)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer r.Close()
	for _, e := range r.Lines(t.Context(), g.read) {
		if e.Err != nil {
			t.Fatalf("%s: %v", when, e.Err)
		}
		if e.Record.Kind != ledger.KindDecision {
			continue
		}
		decided, err := testimony.Read(r.Blob, g.set, e.Record)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		var intent struct {
			Actions []struct {
				ToolID string `json:"tool_id"`
				Params struct{ N int64 }
			}
		}
		if err := json.Unmarshal(decided.Intent, &intent); err != nil || len(intent.Actions) != 1 || intent.Actions[0].Params.N == 0 {
			t.Fatalf("%s: the intent is %s (%v)", when, decided.Intent, err)
		}
		n, want := intent.Actions[0].Params.N, kernel.OutcomeBundle
		if intent.Actions[0].ToolID == "mcp:s/other" {
			want = kernel.OutcomeRefuse
		}
		if g.recorded[n] != "" || decided.Answer.Outcome != want {
			t.Errorf("%s: call %d has the outcome %s, after %q", when, n, decided.Answer.Outcome, g.recorded[n])
		}
		g.recorded[n] = decided.Answer.Outcome
	}
	g.read = r.Checkpoint().Size
	for n := range g.calls(t) {
		if g.recorded[n] != kernel.OutcomeBundle {
			t.Errorf("%s: the server has seen call %d, and the ledger has %q for it", when, n, g.recorded[n])
		}
	}
}

// calls returns the calls that the server has seen.
func (g *gateStorm) calls(t *testing.T) map[int64]bool {
	t.Helper()
	text, err := os.ReadFile(g.seen)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	for line := range strings.Lines(string(text)) {
		var call struct{ Arguments struct{ N int64 } }
		if err := json.Unmarshal([]byte(line), &call); err != nil || call.Arguments.N == 0 || seen[call.Arguments.N] {
			t.Errorf("the server has seen %q, %v", line, err)
		}
		seen[call.Arguments.N] = true
	}
	return seen
}
