package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// wild is an agent that does what the id of a case says. It counts requests.
type wild struct {
	base string
	acts map[string]act // by the id of the case
	mu   sync.Mutex
	n    map[string]int

	cookies int // requests that had one
}

func newWild(t *testing.T) *wild {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wild{base: "http://" + l.Addr().String(), acts: wildly(), n: map[string]int{}}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.serve(c.(*net.TCPConn))
		}
	}()
	return w
}

// requests returns the number of requests for a case.
func (w *wild) requests(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n[id]
}

// forget begins to count anew the requests for cases.
func (w *wild) forget(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.n, id)
	}
}

func (w *wild) serve(c *net.TCPConn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	var asked struct {
		CaseID  string `json:"case_id"`
		Version string `json:"version"`
	}
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		return
	}
	w.mu.Lock()
	w.n[asked.CaseID]++
	if len(r.Cookies()) > 0 {
		w.cookies++
	}
	n := w.n[asked.CaseID]
	w.mu.Unlock()
	do, known := w.acts[asked.CaseID]
	if !known {
		do = say(200, "application/json", answer(asked.CaseID, asked.Version, ""))
	}
	do(c, asked.Version, n)
}

// act is what an agent does on a connection, when a case is asked for the n-th time.
type act func(c *net.TCPConn, version string, n int)

func raw(text string) act { return func(c *net.TCPConn, _ string, _ int) { fmt.Fprint(c, text) } }

func say(status int, kind, body string, head ...string) act {
	more := ""
	for _, h := range head {
		more += h + "\r\n"
	}
	return raw(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s", status, http.StatusText(status), kind, len(body), more, body))
}

// text says a body with status 200.
func text(body string) act { return say(200, "application/json", body) }

// answer is an answer that fits, and more members.
func answer(id, version, more string) string {
	return fmt.Sprintf(`{"case_id":%q,"version":%q,"proposed_actions":[],"events":[],"final_output":{"content_type":"text","content":"done"}%s}`, id, version, more)
}

// until fails with a status, and answers at the n-th request.
func until(n, status int, id string) act {
	return func(c *net.TCPConn, version string, k int) {
		if k < n {
			say(status, "text/plain", "later", "Retry-After: 0")(c, version, k)
			return
		}
		text(answer(id, version, ""))(c, version, k)
	}
}

// withEvents answers, with events and references to evidence.
func withEvents(events string, refs ...string) act {
	return func(c *net.TCPConn, version string, n int) {
		action := fmt.Sprintf(`{"action_id":"a","action_type":"t","tool_name":"t","params":{},"risk_level":"low","risk_tags":[],"evidence_refs":[%s]}`, strings.Join(refs, ","))
		text(fmt.Sprintf(`{"version":%q,"proposed_actions":[%s],"events":[%s],"final_output":{"content_type":"text","content":"<script src=//x></script>\u202eback"},"token_usage":{"total":12345678901234567890123}}`,
			version, action, events))(c, version, n)
	}
}

// paidCalls are n calls of a tool, each with its result.
func paidCalls(n int, payload string) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"type":"tool_call","ts":%d,"call_id":"c%d","tool":"t","args":{}},{"type":"tool_result","ts":%d,"call_id":"c%d","status":"ok","latency_ms":1,"payload_summary":%q}`, 2*i, i, 2*i+1, i, payload))
	}
	return strings.Join(list, ",")
}

func zipped(body string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(body))
	_ = z.Close()
	return b.String()
}

// hang says nothing until the client goes away.
func hang(c *net.TCPConn, _ string, _ int) { _, _ = io.Copy(io.Discard, c) }

func reset(c *net.TCPConn, _ string, _ int) { _ = c.SetLinger(0) }

func drip(c *net.TCPConn, version string, n int) {
	raw("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")(c, version, n)
	for {
		if _, err := fmt.Fprint(c, " "); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// overdue calls run with a deadline, for cases that end by it alone, and returns the directory of
// that run. Where the deadline has come before the agent had said so much, as on a machine that
// stalls, it calls run again with twice the time. ends has how the cases end, by their ids.
func overdue(t *testing.T, ends map[string]string, run func(id string, timeout time.Duration) (dir string)) string {
	t.Helper()
	for timeout := 2 * time.Second; ; timeout *= 2 {
		dir := run(fmt.Sprint("overdue-", timeout), timeout)
		early := false
		for id, end := range ends {
			c := readCase(t, dir, id)
			early = early || c.Failure.Class == "timeout" && c.end() != end
		}
		if !early || timeout > 30*time.Second {
			return dir
		}
	}
}

func endless(c *net.TCPConn, version string, n int) {
	raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")(c, version, n)
	chunk := "10000\r\n" + strings.Repeat("[", 0x10000) + "\r\n"
	for {
		if _, err := fmt.Fprint(c, chunk); err != nil {
			return
		}
	}
}

// wildly returns an agent's acts by the id of the case. They are no variable: the binary of the
// tests stands in for the program, and would make their large bodies at every start.
func wildly() map[string]act {
	return map[string]act{
		"hang":      hang,
		"drip":      drip,
		"reset":     reset,
		"closed":    raw(""),
		"head":      raw("HTTP/1.1 200 OK\r\nServer: x\r\n"),
		"header":    raw("HTTP/1.1 200 OK\r\nContent-"),
		"garbage":   raw("SSH-2.0-OpenSSH_9.6\r\n"),
		"bomb":      raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"),
		"short":     raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":"),
		"chunks":    raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
		"500":       say(500, "text/html", "<b>broken</b>"),
		"204":       raw("HTTP/1.1 204 No Content\r\n\r\n"),
		"302":       say(302, "text/plain", "", "Location: file:///etc/passwd"),
		"404-short": raw("HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\ngone"),
		"large":     text(strings.Repeat("x", 3<<20)),
		"endless":   endless,
		"gzip":      say(200, "application/json", "no gzip", "Content-Encoding: gzip"),
		"gzip-cut":  say(200, "application/json", zipped(strings.Repeat("x", 1000))[:20], "Content-Encoding: gzip"),
		"gzip-end":  raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Encoding: gzip\r\n\r\n" + zipped(strings.Repeat("x", 1000))[:20]),
		"br":        say(200, "application/json", "\x0b\x02\x80{}\x03", "Content-Encoding: br"),
		"br-500":    say(500, "text/plain", "\x0b\x02\x80{}\x03", "Content-Encoding: br"),
		"gzip-bomb": say(200, "application/json", zipped(strings.Repeat("x", 64<<20)), "Content-Encoding: gzip"),
		"empty":     text(""),
		"words":     text("I could not do that."),
		"nan":       text(`{"a":NaN}`),
		"bom":       text("\ufeff{}"),
		"latin":     text("\"caf\xe9\""),
		"twice":     text(`{"a":1,"a":2}`),
		"surrogate": text(`"\ud800"`),
		"deep":      text(strings.Repeat("[", 200_000)),
		"many":      text("[" + strings.Repeat("0,", 300_000) + "0]"),
		"two":       text(`{} {}`),
		"null":      text("null"),
		"array":     text("[]"),
		"other-id":  func(c *net.TCPConn, version string, n int) { text(answer("somebody", version, ""))(c, version, n) },
		"own": func(c *net.TCPConn, version string, n int) {
			text(answer("own", version, `,"status":"runner_error","attempts":[],"runner_failure":{"class":"other"},"schema_version":"x"`))(c, version, n)
		},
		"digits":  withEvents(paidCalls(1, "paid"), `{"kind":"tool_result","call_id":"c0"}`, `{"kind":"event","id":"events[1]"}`),
		"calls":   withEvents(paidCalls(3000, "paid")),
		"payload": withEvents(paidCalls(1, strings.Repeat("p", 1_500_000))),
		"orphan":  withEvents(`{"type":"tool_result","ts":1,"call_id":"c","status":"ok","latency_ms":1},{"type":"of_tomorrow","ts":2}`),
		"twins":   withEvents(paidCalls(1, "paid") + "," + paidCalls(1, "paid")),
		"no-ts":   withEvents(`{"type":"tool_call","ts":"now","call_id":"c","tool":"t","args":{}}`),
		"zero":    text("{\"a\":\"\x00\"}"),
		"ref-1":   withEvents(paidCalls(1, "paid"), `{"kind":"tool_result","call_id":"c9"}`),
		"ref-2":   withEvents(paidCalls(1, "paid"), `{"kind":"retrieval_doc","doc_id":"d"}`),
		"ref-3":   withEvents(paidCalls(1, "paid"), `{"kind":"event","id":"events[2]"}`),
		"ref-4":   withEvents(paidCalls(1, "paid"), `{"kind":"asset","id":"assets/../../x"}`),
		"ref-5":   withEvents(paidCalls(1, "paid"), `{"kind":"tool_result","call_id":"c0","doc_id":"d"}`),
		"ref-6":   withEvents(paidCalls(1, "paid"), `{"kind":"tool_result"}`),
		"loop":    say(307, "text/plain", "", "Location: /run-case"),
		"cookie":  say(503, "text/plain", "later", "Retry-After: 0", "Set-Cookie: s=1"),
		"429":     until(2, 429, "429"),
		"503":     until(2, 503, "503"),
		"429-day": say(429, "text/plain", "later", "Retry-After: 86400"),
		"500-one": until(2, 500, "500-one"),
	}
}

// TestSuiteWild: whatever an agent does, every case has its file, of the class that the table
// names, and with the body that came; the others are unharmed.
func TestSuiteWild(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"hang": "timeout deadline_head", "drip": "timeout deadline_body", "reset": "network_error conn_reset", "closed": "network_error closed_before_response",
		"head": "network_error closed_before_response", "header": "network_error protocol", "garbage": "network_error protocol", "bomb": "network_error protocol", "short": "network_error short_body",
		"chunks": "network_error protocol", "500": "http_error ", "204": "invalid_json empty_body", "302": "http_error ", "404-short": "http_error ",
		"large": "other body_too_large", "endless": "other body_too_large", "gzip": "other content_decoding", "gzip-cut": "other content_decoding", "gzip-end": "network_error short_body", "br": "other content_decoding", "br-500": "http_error ", "gzip-bomb": "other body_too_large",
		"empty": "invalid_json empty_body", "words": "invalid_json syntax", "nan": "invalid_json syntax", "bom": "invalid_json encoding", "latin": "invalid_json encoding",
		"twice": "invalid_json duplicate", "surrogate": "invalid_json character", "deep": "invalid_json depth", "many": "invalid_json too_many_values", "two": "invalid_json trailing",
		"null": "schema_mismatch ", "array": "schema_mismatch ", "other-id": "schema_mismatch ",
		"digits": "", "calls": "", "payload": "", "orphan": "", "twins": "schema_mismatch call_id_twice", "no-ts": "schema_mismatch not_a_number", "zero": "invalid_json syntax",
		"ref-1": "schema_mismatch evidence_unresolved", "ref-2": "schema_mismatch evidence_unresolved", "ref-3": "schema_mismatch evidence_unresolved", "ref-4": "schema_mismatch evidence_unresolved",
		"ref-5": "schema_mismatch evidence_form", "ref-6": "schema_mismatch evidence_form", "loop": "http_error ", "cookie": "http_error ",
		"own": "", "429": "", "503": "", "429-day": "http_error ", "500-one": "http_error ", "plain": "",
	}
	requests := map[string]int{"429": 2, "503": 2, "cookie": 2}
	b := newBench(t)
	w := newWild(t)
	out := filepath.Join(b.dir, "out")
	run := func(run string, timeout time.Duration, ids ...string) string {
		t.Helper()
		w.forget(ids...)
		stdout, stderr, code := b.run(t, "suite", "run", b.cases(t, ids...), "--new", w.base, "--out", out, "--run-id", run, "--timeout", timeout.String(), "--concurrency", "8")
		if code != cli.ExitAccepted {
			t.Fatalf("exit status %d\n%s%s", code, stdout, stderr)
		}
		dir := filepath.Join(out, "new", run)
		if stdout, stderr, code := b.run(t, "suite", "verify", dir); code != cli.ExitAccepted {
			t.Errorf("verify: exit status %d\n%s%s", code, stdout, stderr)
		}
		return dir
	}
	waiting := map[string]string{"hang": want["hang"], "drip": want["drip"]}
	late := overdue(t, waiting, func(id string, timeout time.Duration) string { return run(id, timeout, "hang", "drip", "plain") })
	ended := run("r", time.Minute, slices.DeleteFunc(slices.Collect(maps.Keys(want)), func(id string) bool { return waiting[id] != "" })...)
	for id, end := range want {
		dir := ended
		if waiting[id] != "" {
			dir = late
		}
		var doc struct {
			Status  string
			Failure struct {
				Class string
				Name  string  `json:"error_name"`
				Body  *string `json:"full_body_saved_to"`
			} `json:"runner_failure"`
		}
		text, err := os.ReadFile(filepath.Join(dir, id+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Error(err)
		}
		class, name, _ := strings.Cut(end, " ")
		if (doc.Status == "ok") != (end == "") || doc.Failure.Class != class || name != "" && doc.Failure.Name != name {
			t.Errorf("%s: %s, want %s", id, text, end)
		}
		if n := max(1, requests[id]); w.requests(id) != n {
			t.Errorf("%s: %d requests, want %d", id, w.requests(id), n)
		}
		if strings.HasPrefix(id, "br") && doc.Failure.Body != nil {
			t.Errorf("%s: a body that redaction does not see into is kept", id)
		}
		if doc.Failure.Body != nil {
			if _, err := os.Stat(filepath.Join(dir, *doc.Failure.Body)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	if w.cookies > 0 {
		t.Errorf("%d requests with a cookie", w.cookies)
	}
	if kept, err := os.ReadFile(filepath.Join(ended, "digits.json")); err != nil || !bytes.Contains(kept, []byte("12345678901234567890123")) {
		t.Errorf("the number is not kept as the agent spelt it: %s, %v", kept, err)
	}
}

// TestSuiteConnections: a host without a name, a certificate that nobody vouches for, a port
// without TLS, and a redirect to another address are failures of their own, and nothing is asked
// anywhere else.
func TestSuiteConnections(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := newWild(t)
	asked := 0
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(secure.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	plain := httptest.NewServer(secure.Config.Handler)
	t.Cleanup(plain.Close)
	w.acts["elsewhere"] = say(307, "text/plain", "", "Location: "+secure.URL)
	for i, tc := range []struct{ agent, id, end string }{
		{"http://agent.onion", "a", "network_error dns"}, // a name that is never looked up (RFC 7686)
		{"http://a..b", "a", "network_error dns"},
		{secure.URL, "a", "network_error tls"},
		{strings.Replace(plain.URL, "http:", "https:", 1), "a", "network_error tls"},
		{"https://" + silent.Addr().String(), "a", "timeout deadline_dial"},
		{"http://127.0.0.1:1", "a", "network_error conn_refused"},
		{"http://255.255.255.255:1", "a", "network_error dial"}, // no address of a host
		{w.base, "elsewhere", "http_error "},
	} {
		run, timeout := fmt.Sprint("r", i), "1m"
		if tc.end == "timeout deadline_dial" {
			timeout = "2s"
		}
		stdout, stderr, code := b.run(t, "suite", "run", b.cases(t, tc.id), "--new", tc.agent, "--out", filepath.Join(b.dir, "out"), "--run-id", run, "--retries", "0", "--timeout", timeout)
		dir := filepath.Join(b.dir, "out", "new", run)
		if code != cli.ExitAccepted {
			t.Fatalf("%s: exit status %d\n%s%s", tc.agent, code, stdout, stderr)
		}
		c := readCase(t, dir, tc.id)
		if class, name, _ := strings.Cut(tc.end, " "); c.Failure.Class != class || name != "" && c.Failure.Name != name {
			t.Errorf("%s: %s (%s), want %s", tc.agent, c.end(), c.Failure.Message, tc.end)
		}
		if stdout, stderr, code := b.run(t, "suite", "verify", dir); code != cli.ExitAccepted {
			t.Errorf("verify: exit status %d\n%s%s", code, stdout, stderr)
		}
	}
	if asked > 0 {
		t.Errorf("%d requests reached an agent that TLS does not prove", asked)
	}
}
