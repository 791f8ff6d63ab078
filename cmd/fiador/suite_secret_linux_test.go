//go:build amd64 || arm64

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
)

// planted is a text with a secret that a rule finds.
type planted struct{ rule, text, secret string }

// secretsOfRules takes some vectors of every built-in rule.
func secretsOfRules(t *testing.T) (list []planted) {
	t.Helper()
	files, err := filepath.Glob("../../specs/vectors/redact/*.json")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	for _, file := range files {
		if name := filepath.Base(file); name == "answers.json" || name == "bodies.json" {
			continue // of no single rule
		}
		var doc struct {
			Vectors []struct {
				Text []string
				Want string
			}
		}
		src, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(src, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		rule, n := strings.TrimSuffix(filepath.Base(file), ".json"), 0
		for _, v := range doc.Vectors {
			before, after, ok := strings.Cut(v.Want, "[redacted:"+rule+"]")
			text := strings.Join(v.Text, "")
			if !ok || strings.Contains(after, "[redacted:") || n == 3 || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
				continue
			}
			if secret := text[len(before) : len(text)-len(after)]; len(secret) >= 12 {
				list, n = append(list, planted{rule, text, secret}), n+1
			}
		}
		if n == 0 {
			t.Fatalf("%s has no secret", file)
		}
	}
	return list
}

const (
	headerSecret  = "Hd-9fK2-echo-71a0-\"q\"-Zz"
	learnedSecret = "correct-horse-42"
	listedSecret  = "listed-pine-8831"
	patternSecret = "ZX-20391-77"
	namedSecret   = "kite-under-name-5"
)

// half says the first half of a body, and waits until the client goes away.
func half(body string) act {
	return func(c *net.TCPConn, _ string, _ int) {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n%s", body)
		hang(c, "", 0)
	}
}

// leaky are acts that repeat secrets in every place that an agent has.
func leaky(all []planted) map[string]act {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.text)
	}
	every := strings.Join(append(texts, headerSecret, "password: \""+learnedSecret+"\"", learnedSecret, listedSecret, patternSecret), "\n")
	once, _ := json.Marshal(every)
	twice, _ := json.Marshal(string(once))
	names, _ := json.Marshal(map[string]string{every: "1", headerSecret: "2", "seal_code": namedSecret})
	more := fmt.Sprintf(`,"workflow_id":%s,"trace_anchor":{"a":%s},"notes":[%s,%s],"apiKey":%q,"copy":"x %s y"`, once, once, names, twice, learnedSecret, learnedSecret)
	acts := map[string]act{
		"ok": func(c *net.TCPConn, version string, n int) {
			body := fmt.Sprintf(`{"case_id":"ok","version":%q,"proposed_actions":[{"action_id":"a","action_type":"t","tool_name":"x","params":%s}],
				"events":[{"type":"tool_call","ts":1,"call_id":"c","tool":"x","args":%s},{"type":"tool_result","ts":2,"call_id":"c","status":"ok","payload":%s},
				{"type":"retrieval","ts":3,"query":%s,"doc_ids":[%s],"snippets":[%s]}],"final_output":{"content_type":"text","content":%s}%s}`,
				version, names, names, "["+strings.Repeat(string(once)+",", 10)+"1]", once, once, once, once, more)
			text(body)(c, version, n)
		},
		"json":    func(c *net.TCPConn, v string, n int) { text(answer("other", v, more))(c, v, n) },
		"500":     say(500, "text/html", every),
		"escaped": say(500, "application/json", string(once)),
		"twice":   say(404, "application/json", string(twice)),
		"words":   text(every),
		"gzip":    say(200, "application/json", zipped(every), "Content-Encoding: gzip"),
		"gzip500": say(500, "application/json", zipped(string(once)), "Content-Encoding: gzip"),
		"head":    raw("HTTP/1.1 500 " + headerSecret + "\r\nServer: " + headerSecret + strings.Repeat("y", 90) + "\r\nX-Request-Id: " + strings.Repeat("a", 100) + " " + headerSecret + "\r\nContent-Type: x/" + headerSecret + "\r\nContent-Length: 2\r\n\r\nno"),
		"coding":  raw("HTTP/1.1 500 x\r\nContent-Encoding: " + headerSecret + "\r\nContent-Length: 2\r\n\r\nno"),
		"named":   say(500, "application/json", `{"seal_code": "`+namedSecret+`", "copy": "`+namedSecret+`"}`),
		"later":   func(c *net.TCPConn, v string, n int) { until2(every)(c, v, n) },
		"drip":    half("so far " + headerSecret[:len(headerSecret)/2]),
	}
	for i, p := range all {
		if i%3 == 0 {
			acts["drip-"+p.rule] = half("so far " + p.text[:strings.Index(p.text, p.secret)+len(p.secret)-2])
			acts["astride-"+p.rule] = astride(p.text, strings.Index(p.text, p.secret)+len(p.secret)/2)
		}
	}
	for i := 1; i < len(headerSecret); i += 4 {
		acts[fmt.Sprintf("astride%d", i)] = astride(headerSecret, i)
	}
	return acts
}

// until2 says 503 with a body once, and an answer then.
func until2(body string) act {
	return func(c *net.TCPConn, version string, n int) {
		if n == 1 {
			say(503, "text/plain", body, "Retry-After: 0")(c, version, n)
			return
		}
		text(answer("later", version, ""))(c, version, n)
	}
}

// secretCap is the size of the largest body in these tests.
const secretCap = 250_000

// astride says a body in which the cap cuts a text at a place.
func astride(secret string, at int) act {
	return say(200, "text/plain", strings.Repeat("word ", secretCap/5)[:secretCap-at-1]+" "+secret+" "+strings.Repeat("more ", 10_000))
}

// TestSuiteSecrets: no secret stands in a file, on stdout or on stderr, wherever an agent or a
// case repeats it, and the cases say which rules have replaced some.
func TestSuiteSecrets(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	b, w, all := newBench(t), newWild(t), secretsOfRules(t)
	w.acts = leaky(all)
	var cases []map[string]any
	var waiting, others []string
	for id := range w.acts {
		if strings.HasPrefix(id, "drip") {
			waiting = append(waiting, id)
		} else {
			others = append(others, id)
		}
		cases = append(cases, map[string]any{"id": id, "title": all[len(cases)%len(all)].text, "input": map[string]any{"user": "use " + headerSecret + " and " + listedSecret, "context": map[string]any{"password": learnedSecret}}})
	}
	doc, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	list := put(t, b.dir, "cases.json", string(doc))
	further := put(t, b.dir, "redact.json", `{"schema_version":"redact.v1","literals":["`+listedSecret+`"],"patterns":["ZX-[0-9]+-[0-9]+"],"names":["seal_code"]}`)
	out := filepath.Join(b.dir, "out")
	shown := map[string]string{}
	run := func(run string, timeout time.Duration, ids []string) (dir string) {
		t.Helper()
		cmd, stdout, stderr := b.command(t, "suite", "run", list, "--new", w.base+"/"+listedSecret, "--out", out, "--run-id", run, "--timeout", timeout.String(), "--concurrency", "16", "--only", strings.Join(ids, ","),
			"--header", "Authorization=AGENT_KEY", "--redact", further, "--max-body-bytes", fmt.Sprint(secretCap), "--provenance", "build="+headerSecret)
		cmd.Env = append(cmd.Env, "AGENT_KEY="+headerSecret)
		if code := status(t, cmd.Run()); code != cli.ExitAccepted {
			t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
		}
		dir = filepath.Join(out, "new", run)
		if stdout, stderr, code := b.run(t, "suite", "verify", dir); code != cli.ExitAccepted {
			t.Errorf("verify: exit status %d\n%s%s", code, stdout, stderr)
		}
		for name, text := range filesOf(t, dir) {
			shown[run+"/"+name] = text
		}
		shown[run+" stdout"], shown[run+" stderr"] = stdout.String(), stderr.String()
		return dir
	}
	ends := map[string]string{}
	for _, id := range waiting {
		ends[id] = "timeout deadline_body"
	}
	overdue(t, ends, func(id string, timeout time.Duration) string { return run(id, timeout, waiting) })
	dir := run("r", time.Minute, others)
	hidden := map[string]string{"header": headerSecret, "half of the header": headerSecret[:len(headerSecret)/2], "learned": learnedSecret, "listed": listedSecret, "pattern": patternSecret, "named": namedSecret}
	for i, p := range all {
		hidden[fmt.Sprintf("%s %d", p.rule, i)] = p.secret
		if p.rule != "pem_key" && p.rule != "url_password" {
			hidden[fmt.Sprintf("%s %d, a part", p.rule, i)] = p.secret[:len(p.secret)*2/3]
		}
	}
	for name, text := range shown {
		for what, secret := range hidden {
			quoted, _ := json.Marshal(secret)
			if strings.Contains(text, secret) || strings.Contains(text, strings.Trim(string(quoted), `"`)) {
				i := max(strings.Index(text, secret), 0)
				t.Errorf("%s has %s: …%.200q", name, what, text[max(0, i-60):])
			}
		}
	}
	rules := []string{"learned", "literal", "pattern"}
	for _, p := range all {
		rules = append(rules, p.rule)
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	for _, id := range []string{"ok", "json", "500", "escaped", "twice", "words", "gzip", "gzip500"} {
		c := readCase(t, dir, id)
		if (c.Status == "ok") != (id == "ok") {
			t.Errorf("%s: %s", id, c.end())
		}
		for _, r := range rules {
			if !slices.Contains(c.Output.Redacted, r) && !slices.Contains(c.Failure.Redacted, r) {
				t.Errorf("%s: %s is not in %q%q", id, r, c.Output.Redacted, c.Failure.Redacted)
			}
		}
	}
}

// TestSuiteAttempts: one attempt is one request. What the agent has not acted on is tried again,
// and with idempotent what it may have acted on too. Every attempt stands in the case, with the
// body that came.
func TestSuiteAttempts(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Processes)
	t.Parallel()
	b, w := newBench(t), newWild(t)
	later := func(after string) act { return say(503, "text/plain", "later "+after, "Retry-After: "+after) }
	date := func(d time.Duration) string {
		return time.Now().Add(d).UTC().Format("Mon, 02 Jan 2006 15:04:05") + " GMT"
	}
	kinds := map[string]struct {
		act          act
		once, idem   int // requests without and with idempotent: 1, or 3 for as many as may be
		class, named string
	}{
		"timeout": {hang, 1, 3, "timeout", "deadline_head"}, "reset": {reset, 1, 3, "network_error", "conn_reset"}, "closed": {raw(""), 1, 3, "network_error", "closed_before_response"},
		"short": {wildly()["short"], 1, 3, "network_error", "short_body"}, "500": {say(500, "text/plain", "broken"), 1, 3, "http_error", ""}, "404": {say(404, "text/plain", "none"), 1, 1, "http_error", ""},
		"429": {say(429, "text/plain", "busy", "Retry-After: 0"), 3, 3, "http_error", ""}, "503": {later("0"), 3, 3, "http_error", ""}, "date": {later(date(-time.Hour)), 3, 3, "http_error", ""},
		"day": {later("86400"), 1, 1, "http_error", ""}, "31": {later("31"), 1, 1, "http_error", ""}, "tomorrow": {later(date(24 * time.Hour)), 1, 1, "http_error", ""},
		"words": {text("words"), 1, 1, "invalid_json", "syntax"}, "array": {text("[]"), 1, 1, "schema_mismatch", "root_type"}, "large": {wildly()["large"], 1, 1, "other", "body_too_large"},
		"gzip": {wildly()["gzip"], 1, 1, "other", "content_decoding"}, "302": {wildly()["302"], 1, 1, "http_error", ""}, "1-second": {later("1"), 3, 3, "http_error", ""},
	}
	w.acts = map[string]act{}
	var cases []map[string]any
	for id, k := range kinds {
		for _, idempotent := range []bool{false, true} {
			name := fmt.Sprintf("%s.%t", id, idempotent)
			w.acts[name] = k.act
			cases = append(cases, map[string]any{"id": name, "input": map[string]any{"user": ""}, "metadata": map[string]any{"idempotent": idempotent}})
		}
	}
	doc, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	list, out := put(t, b.dir, "cases.json", string(doc)), filepath.Join(b.dir, "out")
	var ended []string
	for name := range w.acts {
		if !strings.HasPrefix(name, "timeout.") {
			ended = append(ended, name)
		}
	}
	sum := map[string]int{}
	for _, retries := range []int{0, rehearsal.Count(1, 3)} {
		dirs := map[bool]string{}
		for timeout, only := range map[string]string{"10s": "timeout.false,timeout.true", "1m": strings.Join(ended, ",")} {
			run := fmt.Sprint("r", retries, "-", timeout)
			_, stderr, code := b.run(t, "suite", "run", list, "--new", w.base, "--out", out, "--run-id", run, "--timeout", timeout, "--concurrency", "32", "--retries", fmt.Sprint(retries), "--only", only)
			if code != cli.ExitAccepted {
				t.Fatalf("exit status %d\n%s", code, stderr)
			}
			dir := filepath.Join(out, "new", run)
			dirs[timeout == "10s"] = dir
			if stdout, stderr, code := b.run(t, "suite", "verify", dir); code != cli.ExitAccepted {
				t.Errorf("verify: exit status %d\n%s%s", code, stdout, stderr)
			}
		}
		for id, k := range kinds {
			for name, want := range map[string]int{id + ".false": k.once, id + ".true": k.idem} {
				if want > 1 {
					want = retries + 1
				}
				c := readCase(t, dirs[id == "timeout"], name)
				n := w.requests(name) - sum[name]
				sum[name] += n
				if n != want || len(c.Attempts) != want {
					t.Errorf("%s, %d retries: %d requests, %d attempts, want %d", name, retries, n, len(c.Attempts), want)
				}
				for _, a := range c.Attempts {
					if a.Class != k.class || a.Name != k.named || (a.Body == "") != (c.Failure.Body == nil) {
						t.Errorf("%s: attempt %+v", name, a)
					}
				}
				if c.Failure.Class != k.class || c.Failure.Name != k.named {
					t.Errorf("%s: %s", name, c.end())
				}
			}
		}
	}
	_, stderr, code := b.run(t, "suite", "run", list, "--new", "http://127.0.0.1:1", "--out", out, "--run-id", "nobody", "--only", "404.false", "--retries", "3")
	c := readCase(t, filepath.Join(out, "new", "nobody"), "404.false")
	if code != cli.ExitAccepted || c.end() != "network_error conn_refused" || len(c.Attempts) != 4 || c.Failure.Body != nil {
		t.Errorf("nobody listens: exit status %d, %+v\n%s", code, c, stderr)
	}
}

// fifty says a body of 50 MB.
func fifty(status int, part string) act {
	return func(c *net.TCPConn, _ string, _ int) {
		fmt.Fprintf(c, "HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n", status, 50<<20)
		for chunk := strings.Repeat(part, 10_000); ; {
			if _, err := fmt.Fprint(c, chunk); err != nil {
				return
			}
		}
	}
}

// memoryOf watches a process to its end, and returns the most memory that it had, in KiB.
func memoryOf(pid int) (peak int) {
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, after, ok := strings.Cut(string(text), "VmHWM:")
		if err != nil || !ok {
			return peak
		}
		var n int
		if _, err := fmt.Sscan(after, &n); err == nil {
			peak = max(peak, n)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestSuiteMemory: however large answers are, a run stays within its bound.
func TestSuiteMemory(t *testing.T) {
	t.Parallel()
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	b, w := newBench(t), newWild(t)
	w.acts = map[string]act{}
	values := "[" + strings.Repeat("0,", 999_990) + "0]"
	var large []string
	for i := range 8 {
		large = append(large, fmt.Sprint("large", i), fmt.Sprint("error", i), fmt.Sprint("values", i))
		w.acts[fmt.Sprint("large", i)] = fifty(200, "x y ")
		w.acts[fmt.Sprint("error", i)] = fifty(500, `{\"a\": `+strings.Repeat("some words ", 40)+`"password": "x`)
		w.acts[fmt.Sprint("values", i)] = text(values)
	}
	const bound = (2*8*2*(2_000_000+64<<10) + 128<<20) >> 10
	for i, kind := range []string{"error", "values", "large"} {
		if i == 2 && !rehearsal.Full() {
			break
		}
		ids := slices.DeleteFunc(slices.Clone(large), func(id string) bool { return !strings.HasPrefix(id, kind) })
		cmd, stdout, stderr := b.command(t, "suite", "run", b.cases(t, ids...), "--baseline", w.base, "--new", w.base, "--out", filepath.Join(b.dir, "out"), "--run-id", kind, "--concurrency", "8")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan int, 1)
		go func() { ended <- memoryOf(cmd.Process.Pid) }()
		if code := status(t, cmd.Wait()); code != cli.ExitAccepted {
			t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
		}
		peak := <-ended
		t.Logf("%s: %d KiB of %d", kind, peak, bound)
		if peak > bound {
			t.Errorf("%s: %d KiB, more than %d", kind, peak, bound)
		}
	}
}
