package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/server"
	"github.com/fiador/fiador/ledger"
)

// TestVectorsOfAnswers: the server gives the answers that the vectors list, and its promises are
// accepted by the rule that the vectors test.
func TestVectorsOfAnswers(t *testing.T) {
	text, err := os.ReadFile("../../specs/vectors/ledger-server/answers.json")
	check(t, err)
	var file struct {
		Vectors []struct {
			Name, Draft, Expect string
			Status              int
		}
	}
	check(t, json.Unmarshal(text, &file))
	drafts, rows := map[string]ledger.Record{}, map[string]bool{}
	for _, v := range file.Vectors {
		rec, err := ledger.ParseDraft([]byte(v.Draft))
		check(t, err)
		drafts[string(rec.Kind)] = rec
		if code := strings.TrimPrefix(v.Name, fmt.Sprintf("%d-", v.Status)); v.Status >= 400 && code != v.Name && !strings.Contains("page large answer", code) || v.Name == "413-large" {
			rows[v.Name] = true
		}
	}
	p := newPlace(t)
	server := p.start(server.Config{})
	failed, began, decided := drafts["error"], drafts["begun"], drafts["decision"]
	first := began
	first.RunID = "run-begun"
	send := func(name string, r *running, method, path, token string, body io.Reader) {
		t.Helper()
		got := r.do(method, path, r.tokens[token], body)
		if is := fmt.Sprintf("%d-%s", got.status, got.Error); is != name || !rows[is] || len(got.body) > 4096 {
			t.Errorf("%s: %s %s", name, is, got.body)
		}
		delete(rows, name)
	}
	draft := func(rec ledger.Record) io.Reader {
		text, err := rec.Draft()
		check(t, err)
		return bytes.NewReader(text)
	}
	send("409-evidence", server, "POST", "/v1/records", "ci", draft(decided))
	blob := []byte("evidence")
	if got := server.put(blob); got.status != 204 {
		t.Fatalf("%+v", got)
	}
	decided = decision("run-decided", blob)
	for i, rec := range []ledger.Record{first, failed, failed, decided} {
		got := server.post(rec)
		if entry := server.accepted(rec, got); got.Again != (i == 2) || entry.Submitter != "ci" {
			t.Errorf("%s: %s", rec.Kind, got.body)
		}
	}
	send("409-ended", server, "POST", "/v1/records", "ci", draft(began))
	other := failed
	other.Code = "RUN_E006"
	send("409-conflict", server, "POST", "/v1/records", "ci", draft(other))
	send("403-forbidden", server, "POST", "/v1/records", "reader", draft(failed))
	send("401-token", server, "POST", "/v1/records", "nobody", draft(failed))
	send("422-record", server, "POST", "/v1/records", "ci", strings.NewReader("{}"))
	send("413-large", server, "POST", "/v1/records", "ci", strings.NewReader(strings.Repeat(" ", ledger.MaxEntryBytes+1)))
	send("404-missing", server, "GET", "/v1/nothing", "ci", nil)
	send("400-request", server, "DELETE", "/v1/records", "ci", nil)
	send("503-busy", p.process(), "POST", "/v1/records", "ci", draft(failed))
	delete(rows, "500-storage") // the tests of full and damaged disks see it
	if len(rows) > 0 {
		t.Errorf("the server gave no answer of %v", rows)
	}
}
