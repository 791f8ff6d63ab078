//go:build amd64 || arm64

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// site is a bench with a plan of work items, and with the states that an undisturbed run of it
// passes through.
type site struct {
	bench
	plan, agents, origin string
	ledger               string // "": no run is recorded
	states               []string
	end                  string
}

// newSite makes a plan of one item for each script. An item waits for those that its script
// begins with, as in "a b: echo >c".
func newSite(t *testing.T, recorded bool, scripts map[string]string) *site {
	t.Helper()
	s := &site{bench: newBench(t)}
	items, agents := []any{}, map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(scripts)) {
		waits, script, _ := strings.Cut(scripts[id], ": ")
		agents[id] = map[string]any{"argv": []string{"sh", "-c", script}, "stdin": "none", "trace": "optional"}
		items = append(items, map[string]any{"id": id, "agent_id": id, "description": "Do it", "dependencies": strings.Fields(waits), "test_command": "true"})
	}
	for name, value := range map[string]any{"plan.json": items, "agents.json": map[string]any{"agents": agents}} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s.dir, name, string(text))
	}
	s.plan, s.agents = filepath.Join(s.dir, "plan.json"), filepath.Join(s.dir, "agents.json")
	if recorded {
		s.ledger = filepath.Join(s.dir, "ledger")
	}
	s.origin = filepath.Join(s.dir, "origin")
	if err := os.Mkdir(s.origin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"log": "0\n", "gone": "gone\n", "d/one": "1\n", "d/two": "2\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(s.origin, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, s.origin, name, text)
	}
	s.renew(t)
	stdout, stderr, code := s.run(t, s.args()...)
	if code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	for line := range strings.Lines(stdout) {
		var r struct {
			Before string `json:"before_hash"`
			After  string `json:"output_hash"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.After != "" {
			s.states = append(s.states, r.Before, r.After)
		}
	}
	s.end = shot(t, s.tree())
	if len(s.states) != 2*len(scripts) || s.states[0] == s.states[len(s.states)-1] {
		t.Fatalf("%q", s.states)
	}
	return s
}

func (s *site) tree() string  { return filepath.Join(s.dir, "tree") }
func (s *site) store() string { return filepath.Join(s.dir, "store") }

// renew makes tree, store and ledger anew.
func (s *site) renew(t *testing.T) {
	t.Helper()
	for _, dir := range []string{s.tree(), s.store(), s.ledger, s.ledger + ".key"} {
		if dir != "" {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	cpTree(t, s.origin, s.tree())
	if s.ledger == "" {
		return
	}
	if _, stderr, code := s.run(t, "ledger", "init", s.ledger, "--origin", "example.com/work", "--key", s.ledger+".key"); code != cli.ExitAccepted {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
}

// args is the command line of the run.
func (s *site) args(more ...string) []string {
	args := []string{"work", "run", s.plan, "--agents", s.agents, "--tree", s.tree(), "--store", s.store(), "--policy", "dev"}
	if s.ledger != "" {
		args = append(args, "--ledger", s.ledger, "--ledger-key", s.ledger+".key")
	}
	return append(args, more...)
}

// survives checks what must hold after a kill, when the next command has ended.
func (s *site) survives(t *testing.T, when string) {
	t.Helper()
	stdout, stderr, code := s.run(t, "work", "state", s.tree(), "--store", s.store())
	if code != cli.ExitAccepted || !slices.Contains(s.states, strings.TrimSpace(stdout)) {
		t.Fatalf("%s: exit status %d, a state in between: %s%s\n%s", when, code, stdout, stderr, shot(t, s.tree()))
	}
	left := []string{}
	// The folder incoming stays until the store gets new objects.
	for _, pattern := range []string{"stage", "receipts/.new", "pending", ".fiador-*"} {
		found, _ := filepath.Glob(filepath.Join(s.store(), pattern))
		left = append(left, found...)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), s.dir) {
		left = append(left, string(mounts))
	}
	receipts, _ := os.ReadDir(filepath.Join(s.store(), "receipts"))
	history := s.history(t)
	if len(receipts) != len(history) || len(left) > 0 {
		t.Errorf("%s: %d receipts, %d lines, and left is %q", when, len(receipts), len(history), left)
	}
	if last := len(history) - 1; last >= 0 && history[last].After != strings.TrimSpace(stdout) {
		t.Errorf("%s: the state is %s, and the history ends in %s", when, stdout, history[last].After)
	}
	if s.ledger != "" {
		s.recorded(t, when)
	}
	if stdout, _, code := s.run(t, "work", "verify", "--tree", s.tree(), "--store", s.store()); code != cli.ExitAccepted {
		t.Errorf("%s: exit status %d\n%s", when, code, stdout)
	}
}

type noted struct {
	Receipt string `json:"receipt_hash"`
	After   string `json:"after"`
}

func (s *site) history(t *testing.T) (list []noted) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.store(), "history.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n noted
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// recorded checks that the ledger has the decisions of the history, and no other.
func (s *site) recorded(t *testing.T, when string) {
	t.Helper()
	r, err := disk.Read(s.ledger)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A line that no checkpoint covers yet is a decision too: the next entry signs it.
	behind, err := r.Behind()
	if err != nil {
		t.Fatal(err)
	}
	var decided, noted []string
	see := func(rec ledger.Record) {
		if rec.Kind == ledger.KindDecision {
			decided = append(decided, rec.Work.Receipt)
		}
	}
	for _, e := range r.Lines(t.Context(), 0) {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		see(e.Record)
	}
	for _, rec := range behind {
		see(rec)
	}
	for _, n := range s.history(t) {
		noted = append(noted, n.Receipt)
	}
	if !slices.Equal(decided, noted) {
		t.Errorf("%s: decided are %q, and the history has %q", when, decided, noted)
	}
}

// resumes runs the plan to its end, which is the one of an undisturbed run.
func (s *site) resumes(t *testing.T, when string) {
	t.Helper()
	stdout, stderr, code := s.run(t, s.args("--resume")...)
	if got := shot(t, s.tree()); code != cli.ExitAccepted || got != s.end {
		t.Fatalf("%s: resumed with exit status %d\n%s%s\n%s", when, code, stdout, stderr, got)
	}
	s.survives(t, when+", then resumed")
	if s.ledger == "" {
		return
	}
	// The last decision may stand behind the last checkpoint. The next entry, or repair, signs it.
	verify := []string{"work", "verify", "--tree", s.tree(), "--store", s.store(), "--ledger", s.ledger}
	if _, _, code := s.run(t, verify...); code == cli.ExitAccepted {
		return
	} else if stdout, stderr, code := s.run(t, "ledger", "repair", "--ledger", s.ledger, "--ledger-key", s.ledger+".key"); code != cli.ExitAccepted || !strings.Contains(stdout+stderr, "signed the checkpoint") {
		t.Errorf("%s: repair ends with exit status %d\n%s%s", when, code, stdout, stderr)
	}
	if stdout, _, code := s.run(t, verify...); code != cli.ExitAccepted {
		t.Errorf("%s: exit status %d\n%s", when, code, stdout)
	}
}

// TestWorkStepKilled kills a run before each system call that changes something, and then the
// next command too, which ends what the run has left.
func TestWorkStepKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprintf("recorded %v", recorded), func(t *testing.T) {
			s := newSite(t, recorded, map[string]string{"a": ": echo a >>log; rm gone; rm d/one", "b": "a: echo b >>log; mkdir n; echo n >n/f; rm -r d"})
			longest, stride := 0, rehearsal.Stride(53)
			for n := 0; ; n += stride {
				s.renew(t)
				cmd, _, _ := s.command(t, s.args("--jobs", "1")...)
				calls, code := stepped(t, cmd, n)
				longest = max(longest, len(calls))
				when := fmt.Sprintf("step %d, %q", n, calls[max(0, len(calls)-6):])
				if n%2 == 1 {
					again, _, _ := s.command(t, "work", "state", s.tree(), "--store", s.store())
					calls, _ := stepped(t, again, n%43)
					when += fmt.Sprintf(", then step %d of %d", n%43, len(calls))
				}
				s.survives(t, when)
				s.resumes(t, when)
				if code >= 0 {
					break
				}
			}
			t.Logf("%d calls that change something", longest)
			if longest < 100 {
				t.Errorf("only %d calls change something", longest)
			}
		})
	}
}

// TestWorkKilled kills runs at moments that nobody chooses.
func TestWorkKilled(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	for _, recorded := range []bool{false, true} {
		t.Run(fmt.Sprintf("recorded %v", recorded), func(t *testing.T) {
			s := newSite(t, recorded, map[string]string{
				"a": ": echo a >>log", "b": ": echo b >>log; echo b >b", "c": "a: rm gone; sleep 0.03", "d": "a b: rm -r d; echo d >d", "e": "c d: cat log >e",
			})
			began := time.Now()
			s.renew(t)
			s.run(t, s.args()...)
			whole, came := time.Since(began), map[int]int{}
			for range rehearsal.Count(5, 100) {
				s.renew(t)
				cmd, _, _ := s.command(t, s.args()...)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				delay := rand.N(whole)
				time.Sleep(delay)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				ended(t, cmd.Process.Pid, s.dir)
				when := fmt.Sprintf("killed after %v", delay)
				s.survives(t, when)
				came[len(s.history(t))]++
				s.resumes(t, when)
			}
			t.Logf("a run takes %v; after a kill there were receipts: %v", whole, came)
		})
	}
}

// TestWorkInterrupted: a Ctrl-C while an item runs ends the run without an answer about that item.
// The items before it stand, and with --resume the run ends like an undisturbed one.
func TestWorkInterrupted(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	s := newSite(t, true, map[string]string{"a": ": echo a >>log", "b": "a: echo b >>log; sleep 3; rm gone", "c": "b: echo c >c"})
	interrupt := func(sig syscall.Signal) (stdout, stderr *bytes.Buffer, late bool, err error) {
		s.renew(t)
		cmd, stdout, stderr := s.command(t, s.args()...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var none time.Time // when no item was applied yet
		awaits(t, "the first item is applied", func() bool {
			now := time.Now()
			if len(s.history(t)) > 0 {
				return true
			}
			none = now
			return false
		})
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		late = time.Since(none) > 2*time.Second
		return stdout, stderr, late, cmd.Wait()
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		stdout, stderr, late, err := interrupt(sig)
		for tries := 0; late && tries < 5; tries++ { // this process stood still, and the second item may have ended
			stdout, stderr, late, err = interrupt(sig)
		}
		if code := status(t, err); code != cli.ExitError || strings.Count(stdout.String(), "\n") != 1 || !strings.Contains(stderr.String(), `"code":`) {
			t.Errorf("%s: exit status %d\n%s%s", sig, code, stdout, stderr)
		}
		if n := len(s.history(t)); n != 1 {
			t.Errorf("%s: %d receipts", sig, n)
		}
		s.survives(t, sig.String())
		s.resumes(t, sig.String())
	}
}

// TestWorkDiscard: a folder that was edited after the kill of a run, whose change was decided
// and not applied, is refused. It keeps the edit if the next run is told to discard the change.
func TestWorkDiscard(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	s := newSite(t, true, map[string]string{"a": ": echo a >>log; rm gone"})
	kill := func(n int) bool {
		s.renew(t)
		cmd, _, _ := s.command(t, s.args()...)
		_, code := stepped(t, cmd, n)
		return code < 0
	}
	// A kill leaves, from the first step to the last: nothing decided; a change that was decided,
	// which the next command applies; an applied change.
	first := sort.Search(1024, func(n int) bool {
		if !kill(n) {
			return true
		}
		_, _, code := s.run(t, "work", "state", s.tree(), "--store", s.store())
		return code != cli.ExitAccepted || !strings.Contains(shot(t, s.tree()), `"gone"`)
	})
	for n := first; ; n++ { // the same calls may come in another order
		if n > first+100 || !kill(n) {
			t.Fatal("no kill has left a change that was decided and not applied")
		}
		put(t, s.tree(), "log", "edited\n")
		if _, stderr, code := s.run(t, "work", "state", s.tree(), "--store", s.store()); code == cli.ExitAccepted {
			continue // nothing was decided
		} else if !strings.Contains(stderr, `was decided and not applied`) || !strings.Contains(stderr, `log`) || !strings.Contains(stderr, "--discard") {
			t.Fatal(stderr)
		}
		break
	}
	if _, _, code := s.run(t, s.args()...); code != cli.ExitError {
		t.Errorf("exit status %d", code)
	}
	edited := shot(t, s.tree())
	if !strings.Contains(edited, `"edited\n"`) || !strings.Contains(edited, `"gone"`) {
		t.Fatal(edited)
	}
	s.end = strings.Replace(edited, `"edited\n"`, `"edited\na\n"`, 1)
	s.end = s.end[:strings.Index(s.end, `"gone"`)] + s.end[strings.Index(s.end, `"log"`):]
	stdout, stderr, code := s.run(t, s.args("--discard")...)
	if got := shot(t, s.tree()); code != cli.ExitAccepted || got != s.end || !strings.Contains(stderr, "the change of item a is discarded") {
		t.Errorf("exit status %d\n%s%s\n%s", code, stdout, stderr, got)
	}
	if stdout, _, _ := s.run(t, "work", "list", "--tree", s.tree(), "--store", s.store()); !strings.HasPrefix(stdout, "discarded") || strings.Count(stdout, "\n") != 2 {
		t.Error(stdout)
	}
	s.recorded(t, "after --discard")
}
