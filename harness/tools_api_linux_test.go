//go:build linux && (amd64 || arm64)

package harness_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/ask"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel"
)

// TestCallsOfServices: calls of a web service on this machine, from the intent to the answer
// that a later command reads: with a secret, retries, a fallback, and refusals.
func TestCallsOfServices(t *testing.T) {
	const key = "Zq9-secret-value"
	tries := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			if tries++; tries < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
		case "/echo":
			_, _ = io.WriteString(w, `"`+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+`"`)
			return
		case "/away":
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
			return
		case "/broken":
			w.WriteHeader(http.StatusNotFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, `{"path": %q, "body": %q, "known": %t}`, r.URL.Path, body, r.Header.Get("Authorization") == "Bearer "+key)
	}))
	defer s.Close()
	entry := fmt.Sprintf("private:localhost:%d", s.Listener.Addr().(*net.TCPAddr).Port)
	adapter := func(id, more string) string {
		return fmt.Sprintf(`{"adapter_id":%q,"name":"a","version":"1.0.0","tool_id":"T","type":"api","interface":{"api":{"base_url":"http://%s","auth_method":"bearer","auth":{"secret_env":"KEY"},
			"endpoint_mapping":{"put":"POST /put","busy":"GET /busy","echo":"GET /echo","away":"GET /away","broken":"GET /broken"}}},"sandbox_override":{"network":{"enabled":true,"allow":[%q]}},
			"transforms":{"output":[{"type":"parse","spec":"json"}]}%s}`, id, strings.TrimPrefix(entry, "private:"), entry, more)
	}
	for name, c := range map[string]struct {
		params, answer string
		reasons        []string
		attempts       string
	}{
		"body":     {`{"operation":"put","n":1}`, `{"body":"{\"n\":1}","known":true,"path":"/put"}` + "\n", nil, "A0 "},
		"retry":    {`{"operation":"busy"}`, `{"body":"","known":true,"path":"/busy"}` + "\n", nil, "A503 A503 A0 "},
		"secret":   {`{"operation":"echo"}`, "", []string{"CALL_OUTPUT /actions/0"}, "A0 "},
		"redirect": {`{"operation":"away"}`, "", []string{"CALL_REFUSED /actions/0"}, "A0 "},
		"fallback": {`{"operation":"broken"}`, "", []string{"CALL_FAILED /actions/0"}, "A404 B404 "},
	} {
		t.Run(name, func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, harnesstest.Tiers[0]), func(p *kernel.Profile) {
				p.AllowNetwork, p.NetworkHosts = true, kernel.AllowList{Names: []string{entry}}
			})
			x.Deps.Secrets = secret.New(func(name string) string { return map[string]string{"KEY": key}[name] })
			x.Deps.Asker = ask.New(x.Deps.Secrets)
			x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
				"T/tool.json": harnesstest.Tool(`"A","B"`), "T/B.json": adapter("B", ""),
				"T/A.json": adapter("A", `,"errors":{"retry":{"max_attempts":3,"backoff_ms":1,"retryable_codes":[503]},"fallback":{"adapter_id":"B","condition":"status_4xx"}}`),
			}))
			rep := x.Run(t, intents.Actions(`{"kind":"call","tool_id":"T","params":`+c.params+`}`, intents.Argv("cat", "calls/001.response.json")), harness.Folders{})
			if got := rep.Result.Decision.Reasons; !slices.Equal(got, append([]string{}, c.reasons...)) {
				t.Fatalf("%s", rep.Bytes)
			}
			var attempts strings.Builder
			for _, a := range rep.Execution.Attempts {
				fmt.Fprintf(&attempts, "%s%d ", a.AdapterID, a.Code)
			}
			if got := string(rep.Execution.Stdout.Bytes); got != c.answer || attempts.String() != c.attempts {
				t.Errorf("answer %q, attempts %s", got, &attempts)
			}
			if strings.Contains(string(rep.Bytes), key) {
				t.Error("the result has the secret")
			}
		})
	}
}
