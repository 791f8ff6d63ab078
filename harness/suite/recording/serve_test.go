package recording

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel/trial"
)

// recording writes a version directory with one case, and returns it as an agent.
func recording(t *testing.T, doc any, files map[string]string) *Replay {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"run.json": `{"schema_version":"run.v1","run_id":"r"}`, "c.json": string(text)}
	for name, text := range files {
		all["assets/"+name] = text
	}
	if err := os.Mkdir(filepath.Join(dir, "assets"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := OpenReplay(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestReplayFailures: a recorded failure of any runner has its class again, without a server and
// over suite.HTTP, where a failure that suite.HTTP cannot show is a closed connection.
func TestReplayFailures(t *testing.T) {
	type failure map[string]any
	for _, c := range []struct {
		name    string
		failure failure
		body    string // of the file assets/body
		meta    string // of the file assets/meta
		want    string // class and name without a server
		served  string // and over suite.HTTP
	}{
		{"refused", failure{"class": "network_error", "error_name": "conn_refused"}, "", "", "network_error conn_refused", "network_error closed_before_response"},
		{"reset", failure{"class": "network_error", "error_name": "conn_reset"}, "", "", "network_error conn_reset", "network_error conn_reset"},
		{"short", failure{"class": "network_error", "error_name": "short_body"}, "part", `{"truncated":true,"bytes_total":100}`, "network_error short_body", "network_error short_body"},
		{"short stream", failure{"class": "network_error", "error_name": "short_body"}, "part", `{"truncated":true,"bytes_total":null}`, "network_error short_body", "network_error short_body"},
		{"no name", failure{"class": "timeout"}, "", "", "timeout ", "timeout deadline_head"},
		{"head", failure{"class": "timeout", "error_name": "deadline_head"}, "", "", "timeout deadline_head", "timeout deadline_head"},
		{"drip", failure{"class": "timeout", "error_name": "deadline_body"}, "part", `{"truncated":true}`, "timeout deadline_body", "timeout deadline_body"},
		{"500", failure{"class": "http_error", "status": 500}, "broken", `{"truncated":false,"bytes_total":6,"headers":{"content-type":"text/plain"}}`, "http_error ", "http_error "},
		{"500 cut", failure{"class": "http_error", "status": 500}, "bro", `{"truncated":true,"bytes_total":6}`, "http_error ", "http_error "},
		{"999", failure{"class": "http_error", "status": 999}, "", "", "http_error ", "http_error "},
		{"304", failure{"class": "http_error", "status": 304}, "body", "", "http_error ", "http_error "},
		{"no status", failure{"class": "http_error"}, "", "", "other recording_unreadable", "http_error "},
		{"status 17", failure{"class": "http_error", "status": 17}, "", "", "other recording_unreadable", "http_error "},
		{"no class", failure{"class": "bad luck"}, "", "", "other recording_unreadable", "http_error "},
		{"large", failure{"class": "other", "error_name": "body_too_large"}, "0123456789", `{"truncated":true}`, "other body_too_large", "other body_too_large"},
		{"killed", failure{"class": "other", "error_name": "exit_signal"}, "{}", "", "other exit_signal", "network_error closed_before_response"},
		{"lost body", failure{"class": "http_error", "status": 500, "full_body_saved_to": "assets/lost"}, "", "", "other recording_unreadable", "http_error "},
		{"outside", failure{"class": "http_error", "status": 500, "full_body_saved_to": "../secret"}, "", "", "other recording_unreadable", "http_error "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			if c.body != "" {
				files["body"], c.failure["full_body_saved_to"] = c.body, "assets/body"
			}
			if c.meta != "" {
				files["meta"], c.failure["full_body_meta_saved_to"] = c.meta, "assets/meta"
			}
			r := recording(t, map[string]any{"schema_version": "case.v1", "case_id": "c", "status": "runner_error", "runner_failure": c.failure}, files)
			q := suite.Request{CaseID: "c", Side: trial.New, Text: []byte(`{"case_id":"c"}`), Most: 10}
			class, name := suite.Failed(r.Ask(t.Context(), q))
			if got := string(class) + " " + name; got != c.want {
				t.Errorf("%s instead of %s", got, c.want)
			}

			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- r.Serve(ctx, l, func() error { return nil }) }()
			var got string
			rehearsal.Again(t, 3, func(scale int) string {
				limit := time.Minute
				if class == trial.Timeout {
					limit = time.Duration(scale) * 500 * time.Millisecond
				}
				asked, done := context.WithTimeout(ctx, limit)
				defer done()
				served, name := suite.Failed(suite.HTTP{Base: "http://" + l.Addr().String()}.Ask(asked, q))
				got = string(served) + " " + name
				if c.served == "timeout deadline_body" && got == "timeout deadline_head" {
					return "the head did not come in time"
				}
				return ""
			})
			if got != c.served {
				t.Errorf("over HTTP: %s instead of %s", got, c.served)
			}
			if stop(); <-ended != nil {
				t.Error("the server has failed")
			}
		})
	}
}

// TestServeElsewhere: a recording is served at a loopback address alone.
func TestServeElsewhere(t *testing.T) {
	r := recording(t, map[string]any{}, nil)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := r.Serve(t.Context(), l, func() error { t.Error("it is served"); return nil }); err == nil {
		t.Error("no error")
	}
}

// TestRedactionsStay: what a recording says of its redaction is part of what it answers, for an
// answer and for a failure.
func TestRedactionsStay(t *testing.T) {
	ok := map[string]any{
		"schema_version": "case.v1", "case_id": "c", "version": "new", "status": "ok", "proposed_actions": []any{}, "events": []any{},
		"final_output": map[string]any{"content_type": "text", "content": "[redacted:jwt]", "redactions_applied": []string{"jwt"}},
	}
	failed := map[string]any{
		"schema_version": "case.v1", "case_id": "c", "version": "new", "status": "runner_error",
		"runner_failure": map[string]any{"class": "timeout", "error_name": "deadline_head", "redactions_applied": []string{"jwt"}},
	}
	for name, doc := range map[string]any{"ok": ok, "failed": failed} {
		o := recording(t, doc, nil).Ask(t.Context(), suite.Request{CaseID: "c", Side: trial.New})
		if len(o.Redacted) != 1 || o.Redacted[0] != "jwt" {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
