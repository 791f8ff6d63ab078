//go:build amd64 || arm64

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// replaying starts a server for a recording, and returns its base URL and a function that ends it
// with a Ctrl-C and returns its exit status.
func replaying(t *testing.T, b bench, dir string) (base string, end func() int) {
	t.Helper()
	cmd, _, stderr := b.command(t, "suite", "replay", dir)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	end = func() int {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		return status(t, cmd.Wait())
	}
	return strings.TrimSpace(line), end
}

// caseFiles reads the documents of a version directory that say what an agent did: the cases and
// the descriptions of bodies, without the members that are named.
func caseFiles(t *testing.T, dir string, names ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for _, pattern := range []string{"*.json", "assets/*.meta.json"} {
		list, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range list {
			if filepath.Base(file) == "run.json" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var doc any
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&doc); err != nil {
				t.Fatal(err)
			}
			strip(doc, names)
			if text, err = json.MarshalIndent(doc, "", " "); err != nil {
				t.Fatal(err)
			}
			got[filepath.Base(file)] = string(text)
		}
	}
	return got
}

// strip removes members by their names.
func strip(v any, names []string) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(name string, _ any) bool { return slices.Contains(names, name) })
		for _, one := range v {
			strip(one, names)
		}
	case []any:
		for _, one := range v {
			strip(one, names)
		}
	}
}

func sameFiles(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s: %s is\n%s\nand was\n%s", what, name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d files instead of %d", what, len(got), len(want))
	}
}

// TestSuiteReplay: what an agent did is what its recording does, over HTTP and without a server;
// and the recording of a recording is the recording.
func TestSuiteReplay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := newWild(t)
	ids := []string{
		"plain", "own", "reset", "closed", "short", "500", "302", "404-short", "429-day", "large", "endless",
		"empty", "words", "nan", "bom", "latin", "twice", "deep", "many", "two", "null", "array", "other-id",
	}
	waiting := map[string]string{"hang": "timeout deadline_head", "drip": "timeout deadline_body"}
	out := filepath.Join(b.dir, "out")
	var took time.Duration // of the last suite run
	run := func(agent, id string, timeout time.Duration, ids ...string) string {
		t.Helper()
		begun := time.Now()
		stdout, stderr, code := b.run(t, "suite", "run", b.cases(t, ids...), "--new", agent, "--out", out, "--run-id", id, "--timeout", timeout.String(), "--concurrency", "16")
		took = time.Since(begun)
		if code != cli.ExitAccepted {
			t.Fatalf("%s: exit status %d\n%s%s", agent, code, stdout, stderr)
		}
		dir := filepath.Join(out, "new", id)
		if stdout, stderr, code := b.run(t, "suite", "verify", dir); code != cli.ExitAccepted {
			t.Errorf("%s: verify: exit status %d\n%s%s", agent, code, stdout, stderr)
		}
		return dir
	}
	var waited time.Duration
	late := overdue(t, waiting, func(id string, timeout time.Duration) string {
		waited = timeout
		return run(w.base, id, timeout, slices.Collect(maps.Keys(waiting))...)
	})
	for _, one := range []struct {
		name, first string
		waited      time.Duration // timeout of the recorded run
		timeout     time.Duration // of its replay
		ids, times  []string
	}{
		{"ended", run(w.base, "ended", time.Minute, ids...), time.Minute, time.Minute, ids, []string{"started_at", "latency_ms", "url"}},
		{"overdue", late, waited, 5 * time.Minute, slices.Collect(maps.Keys(waiting)), []string{"started_at", "latency_ms", "url", "timeout_ms"}},
	} {
		name, first, ids, times := one.name, one.first, one.ids, one.times
		base, end := replaying(t, b, first)
		resp, err := http.Get(base + "/health")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("GET /health: %v (%v)", resp, err)
		}
		var served string
		if name == "ended" {
			served = run(base, "served", one.timeout, ids...)
		} else {
			served = overdue(t, waiting, func(id string, timeout time.Duration) string { return run(base, "served-"+id, timeout, ids...) })
		}
		if code := end(); code != cli.ExitAccepted {
			t.Errorf("the server has ended with %d", code)
		}
		lengths := append(times, "headers") // a body that redaction has cut has another length than its head said
		sameFiles(t, name+", over HTTP", caseFiles(t, served, lengths...), caseFiles(t, first, lengths...))

		var direct string
		rehearsal.Again(t, 3, func(scale int) string {
			direct = run("replay:"+first, fmt.Sprint(name, "-direct-", scale), one.timeout, ids...)
			if took >= one.timeout {
				t.Fatalf("%s: a replay has waited for its deadline: it took %s", name, took)
			} else if took >= one.waited {
				return fmt.Sprintf("%s: a replay has waited: it took %s", name, took)
			}
			return ""
		})
		sameFiles(t, name+", replay:DIR", caseFiles(t, direct, times...), caseFiles(t, first, times...))

		again := run("replay:"+direct, name+"-direct-again", one.timeout, ids...)
		sameFiles(t, name+", replay of a replay", caseFiles(t, again, times...), caseFiles(t, direct, times...))
	}
}

// TestSuiteReplayRefuses: a recording answers programs of its own machine, and only about cases.
func TestSuiteReplayRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	out := filepath.Join(b.dir, "out")
	if stdout, stderr, code := b.run(t, "suite", "demo", "--out", out); code != cli.ExitRejected {
		t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
	}
	dir := filepath.Join(out, "new", "demo")
	for _, args := range [][]string{{"replay", dir, "--listen", "0.0.0.0:0"}, {"replay", dir, "--listen", "nowhere"}, {"replay", b.dir}, {"demo", "--out", out}} {
		if _, stderr, code := b.run(t, append([]string{"suite"}, args...)...); code != cli.ExitError || stderr == "" {
			t.Errorf("%q: exit status %d, %s", args, code, stderr)
		}
	}
	base, end := replaying(t, b, dir)
	for _, c := range []struct {
		method, path, host, origin, body string
		want                             int
	}{
		{"POST", "/run-case", "", "", `{"case_id":"order"}`, 200},
		{"POST", "/run-case", "", "", `{"case_id":"refund"}`, 200},
		{"POST", "/run-case", "", "", `{"case_id":"nothing"}`, 404},
		{"POST", "/run-case", "", "", `{"case_id":"run"}`, 404},
		{"POST", "/run-case", "", "", `{"case_id":"assets/manifest"}`, 500},
		{"POST", "/run-case", "", "", `{"case_id":"../demo/order"}`, 500},
		{"POST", "/run-case", "", "", `{"case_id":17}`, 400},
		{"POST", "/run-case", "", "", `order`, 400},
		{"GET", "/run-case", "", "", "", 404},
		{"GET", "/health", "", "", "", 200},
		{"GET", "/health", "example.com", "", "", 403},
		{"POST", "/run-case", "", "http://example.com", `{"case_id":"order"}`, 403},
	} {
		req, err := http.NewRequest(c.method, base+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Errorf("%s %s %s: %v", c.method, c.path, c.body, err)
			continue
		}
		if resp.Body.Close(); resp.StatusCode != c.want {
			t.Errorf("%s %s %s: status %d instead of %d", c.method, c.path, c.body, resp.StatusCode, c.want)
		}
	}
	if code := end(); code != cli.ExitAccepted {
		t.Errorf("the server has ended with %d", code)
	}
}

// TestSuiteDemo: the demo ends in a comparison that rejects new, for a reason in one line; it leaves
// nothing, or the runs and the page with --out. Its recordings are valid.
func TestSuiteDemo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stdout, stderr, code := b.run(t, "suite", "demo")
	if code != cli.ExitRejected || stderr != "" {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	for _, line := range []string{"REJECTED: 1 regression\n", "regression  ticket  1/1 -> 0/1  create_ticket: result went from ok to error at events[2]\n", "Try next:\n"} {
		if !strings.Contains(stdout, "\n"+line) {
			t.Errorf("there is no line %q in\n%s", line, stdout)
		}
	}
	if left, err := os.ReadDir(b.temp); err != nil || len(left) > 0 {
		t.Errorf("the demo has left %v, %v", left, err)
	}
	out := filepath.Join(b.dir, "kept")
	if _, stderr, code := b.run(t, "suite", "demo", "--out", out); code != cli.ExitRejected {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	if stdout, stderr, code := b.run(t, "suite", "verify", out); code != cli.ExitAccepted {
		t.Errorf("the comparison of the demo: exit status %d\n%s%s", code, stdout, stderr)
	}
	for _, side := range []string{"baseline", "new"} {
		dir, err := filepath.Abs(filepath.Join(root, "harness", "suite", "recording", "demo", side))
		if err != nil {
			t.Fatal(err)
		}
		if stdout, stderr, code := b.run(t, "suite", "verify", dir); code != cli.ExitAccepted || !strings.HasSuffix(stdout, "valid, sealed\n") {
			t.Errorf("the recording of %s: exit status %d\n%s%s", side, code, stdout, stderr)
		}
		kept := caseFiles(t, filepath.Join(out, side, "demo"), "started_at", "latency_ms", "url", "timeout_ms")
		delete(kept, "evaluation.json")
		sameFiles(t, "the demo, "+side, kept, caseFiles(t, dir, "started_at", "latency_ms", "url", "timeout_ms"))
	}
}
