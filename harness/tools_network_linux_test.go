//go:build linux && (amd64 || arm64)

package harness_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
)

// TestClientsAsTools calls curl and git as tools. Each reaches the listed host, and nothing
// else: no other name, no other port, and no server beside the proxy. runner.json says so.
func TestClientsAsTools(t *testing.T) {
	for _, p := range []string{"curl", "git"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed here; it is a client of the proxy", p)
		}
	}
	const commit = "0123456789012345678901234567890123456789"
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hello":
			_, _ = io.WriteString(w, "hello\n")
		case "/r.git/info/refs":
			_, _ = io.WriteString(w, commit+"\trefs/heads/main\n")
		case "/r.git/HEAD":
			_, _ = io.WriteString(w, "ref: refs/heads/main\n")
		default:
			http.NotFound(w, r)
		}
	}))
	site.Config.ErrorLog = log.New(io.Discard, "", 0)
	site.StartTLS()
	t.Cleanup(site.Close)
	port := site.Listener.Addr().(interface{ AddrPort() netip.AddrPort }).AddrPort().Port()
	other := rehearsal.Serve(t)
	entry := fmt.Sprintf("private:localhost:%d", port)
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, kernel.IsolationFull), func(p *kernel.Profile) {
		p.AllowNetwork, p.NetworkHosts = true, kernel.AllowList{Names: []string{entry, fmt.Sprintf("private:localhost:%d", other.Port)}}
	})
	network := `,"sandbox_override":{"network":{"enabled":true,"allow":["` + entry + `"]}}`
	x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
		"T/tool.json": harnesstest.Tool(`"curl","git","direct"`),
		"T/curl.json": harnesstest.CLI("curl", `"executable":"curl","base_args":["-sSk","--max-time","30"],"arg_mapping":{"url":"{value}"}`, network),
		"T/git.json":  harnesstest.CLI("git", `"executable":"git","base_args":["-c","http.sslVerify=false","ls-remote"],"arg_mapping":{"url":"{value}"}`, network),
		// A client that goes round the proxy has no way out.
		"T/direct.json": harnesstest.CLI("direct", `"executable":"curl","base_args":["-sSk","--noproxy","*","--max-time","30"],"arg_mapping":{"url":"{value}"}`, network),
	}))
	for name, tc := range map[string]struct {
		adapter, url string
		answer       string // empty: the call fails
		port         int
		verdict      string // empty: the proxy was not asked
	}{
		"curl":             {"curl", fmt.Sprintf("https://localhost:%d/hello", port), "\"hello\\n\"\n", int(port), evidence.Passed},
		"curl, another":    {"curl", "https://example.org/hello", "", 443, evidence.RefusedUnlisted},
		"curl, a port":     {"curl", fmt.Sprintf("https://localhost:%d/hello", other.Port), "", other.Port, evidence.RefusedUnlisted},
		"curl, an address": {"curl", fmt.Sprintf("https://127.0.0.1:%d/hello", port), "", 0, evidence.RefusedName},
		"git":              {"git", fmt.Sprintf("https://localhost:%d/r.git", port), "\"" + commit + "\\tHEAD\\n" + commit + "\\trefs/heads/main\\n\"\n", int(port), evidence.Passed},
		"git, another":     {"git", "https://example.org/r.git", "", 443, evidence.RefusedUnlisted},
		"direct":           {"direct", fmt.Sprintf("https://localhost:%d/hello", port), "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rep := x.Run(t, intents.Actions(intents.Sh("true"), `{"kind":"call","tool_id":"T","adapter_id":"`+tc.adapter+`","params":{"url":"`+tc.url+`"}}`, intents.Sh("cat calls/*")), harness.Folders{})
			if got := string(rep.Execution.Stdout.Bytes); got != tc.answer || rep.Result.Decision.Accepted != (tc.answer != "") {
				t.Errorf("the answer is %q: %s", got, rep.Bytes)
			}
			r, err := rep.Execution.Runner(rand.Reader)
			if err != nil || (tc.verdict == "") != (len(r.Connections) == 0) {
				t.Fatalf("connections %+v (%v)", r.Connections, err)
			}
			host, _, _ := strings.Cut(strings.TrimPrefix(tc.url, "https://"), "/")
			if host, _, _ = strings.Cut(host, ":"); tc.verdict == evidence.RefusedName {
				host = ""
			}
			for _, c := range r.Connections {
				if c.Action != 1 || c.Name != host || c.Port != tc.port || c.Verdict != tc.verdict || (c.Received > 0) != (tc.verdict == evidence.Passed) {
					t.Errorf("connection %+v", c)
				}
			}
		})
	}
	if n := other.Calls.Load(); n > 0 {
		t.Errorf("%d connections came to another port", n)
	}
}
