//go:build linux && (amd64 || arm64)

package reproduce

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/toolio"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/result"
)

// httpAsker asks by a plain HTTP client.
type httpAsker struct{ t *testing.T }

func (a httpAsker) Ask(ctx context.Context, _, _ int, b *adapter.Bound) (adapter.Reply, error) {
	req, err := http.NewRequestWithContext(ctx, b.Method, b.URL(), strings.NewReader(string(b.Body)))
	if err != nil {
		a.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return adapter.Reply{Failure: adapter.FailUnavailable, Unsent: true}, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return adapter.Reply{Failure: adapter.FailUnavailable, Unsent: true}, nil
	case res.StatusCode >= 500:
		after, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return adapter.Reply{Failure: adapter.FailServer, Code: res.StatusCode, RetryAfterMS: 1000 * after}, nil
	}
	return adapter.Reply{Answer: text}, nil
}

// TestReproduceServices: what services have answered is recorded, and a run without a network
// makes the same result of it, without the waits. Another request is no recorded one.
func TestReproduceServices(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case strings.HasPrefix(r.URL.Path, "/down"):
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprintf(w, `{"n":%d,"for":%q}`, n, r.URL.RawQuery)
		}
	}))
	t.Cleanup(server.Close)
	port := server.URL[strings.LastIndexByte(server.URL, ':')+1:]
	host := "private:localhost:" + port
	x := newReproducer(t, sandbox.Full)
	x.Gate.Profile.ModelModes = []string{harness.ModelNone, harness.ModelRecord, harness.ModelReplay}
	x.Gate.Profile.AllowNetwork, x.Gate.Profile.NetworkHosts = true, kernel.AllowList{Names: []string{host}}
	harnesstest.Limited(x.Gate)
	api := func(id, path, more string) string {
		return `{"adapter_id":"` + id + `","name":"a","version":"1.0.0","tool_id":"T","type":"api","interface":{"api":{"base_url":"http://localhost:` + port + `","auth_method":"none",
			"endpoint_mapping":{"get":"GET ` + path + `"}}},"sandbox_override":{"network":{"enabled":true,"allow":["` + host + `"]}}` + more + `}`
	}
	const parse = `,"transforms":{"output":[{"type":"parse","spec":"json"}]}`
	x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
		"T/tool.json": harnesstest.Tool(`"A","B","C","D"`),
		"T/A.json":    api("A", "/a", parse+`,"errors":{"retry":{"max_attempts":3,"backoff_ms":10,"retryable_codes":[503]}}`),
		"T/B.json":    api("B", "/down", `,"errors":{"retry":{"max_attempts":2,"backoff_ms":1,"retryable_codes":[503]},"fallback":{"adapter_id":"C","condition":"status_5xx"}}`),
		"T/C.json":    api("C", "/c", parse), "T/D.json": api("D", "/d", `,"transforms":{"output":[{"type":"extract","spec":"$.nowhere"}]}`),
	}))
	call := func(adapter, q string) string {
		return `{"kind":"call","tool_id":"T","adapter_id":"` + adapter + `","params":{"q":"` + q + `"}}`
	}
	members := intents.Actions(call("A", "one"), call("B", "two"), intents.Sh("mkdir -p out; cat calls/* >out/all"))
	service := func(mode string) harnesstest.Executor {
		y := x.Caller(mode, nil)
		y.Deps.Asker = toolio.NewRecorder(httpAsker{t}, time.Now)
		return y
	}
	o := originalOf(t, service(harness.ModelRecord), members, harness.Folders{})
	if !o.Result.Decision.Accepted {
		t.Fatalf("%+v", o.Result.Decision)
	}
	recorded, err := pack.ParseToolIO(o.pack.File(pack.ToolFile))
	if err != nil {
		t.Fatal(err)
	}
	var steps strings.Builder
	for _, in := range recorded.Interactions {
		fmt.Fprintf(&steps, "%d%s%d %d %s%d\n", in.Action, in.AdapterID, in.Attempt, in.Code, in.Failure, in.RetryAfterMS)
	}
	if want := "0A1 503 status_5xx1000\n0A2 0 0\n1B1 503 status_5xx0\n1B2 503 status_5xx0\n1C1 0 0\n"; steps.String() != want {
		t.Errorf("recorded:\n%s", steps.String())
	}
	unread := originalOf(t, service(harness.ModelRecord), intents.Actions(call("D", "x")), harness.Folders{})
	if r := unread.Result.Decision.Reasons; len(r) != 1 || r[0] != "CALL_OUTPUT /actions/0" {
		t.Errorf("reasons %q", r)
	}
	player := x.Caller(harness.ModelReplay, nil)
	player.Deps.Asker = toolio.NewPlayer(recorded)
	replayed := originalOf(t, player, members, harness.Folders{})
	server.Close()
	before := asked.Load()
	for name, c := range map[string]struct {
		o       *Original
		members string
	}{"record": {o, members}, "replay": {replayed, members}, "no answer": {unread, intents.Actions(call("D", "x"))}} {
		if got := again(t, x, c.o, c.members, harness.Folders{}, 2); got.Matches != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if now := asked.Load(); now != before {
		t.Errorf("a service was asked %d times more", now-before)
	}
	player.Deps.Asker = toolio.NewPlayer(recorded)
	re := player.Fails(t, intents.Actions(call("A", "other")), harness.Folders{})
	if re.Code != result.CodeEvidence || re.Details["pointer"] != "/actions/0" || re.Details["adapter_id"] != "A" || !strings.Contains(re.Hint, "--model-mode record") {
		t.Errorf("%+v", re)
	}
	live := x.Caller(harness.ModelNone, nil)
	live.Deps.Asker = nil
	if re := live.Fails(t, members, harness.Folders{}); re.Code != result.CodeProfile || re.Details["pointer"] != "/actions/0" {
		t.Errorf("nothing to ask: %+v", re)
	}
}
