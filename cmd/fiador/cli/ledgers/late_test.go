package ledgers

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/ledger"
)

// TestLateServer: a server that takes requests and answers none is waited for once, as long as
// the flags say. Then the receipt is its ack.
func TestLateServer(t *testing.T) {
	_, key, err := ledger.GenerateKey(rand.Reader, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-end
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	var out bytes.Buffer
	state := filepath.Join(t.TempDir(), "state")
	a := &cli.App{
		System: cli.System{Env: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }},
		Term:   cli.Terminal{W: &out},
	}
	rehearsal.Again(t, 3, func(scale int) string {
		asked.Store(0)
		out.Reset()
		f := RecordFlags{SignFlags: SignFlags{Dir: server.URL, file: key}, wait: time.Duration(min(scale, 50)) * 200 * time.Millisecond, cover: 50 * time.Millisecond}
		prove, began := Prover(a, f), time.Now()
		for range 2 {
			text, err := prove(t.Context(), ledger.Receipt{Index: 1, Ack: &ledger.Ack{Index: 1, Note: []byte("the ack")}})
			if err != nil || string(text) != "the ack" {
				t.Errorf("%q %v", text, errors.Unwrap(err))
			}
		}
		if n := asked.Load(); n != 1 || strings.Count(out.String(), "no checkpoint that covers the decision came in time") != 1 {
			return fmt.Sprintf("%d requests, and it says:\n%s", n, out.String()) // none, if the time ends before the request is sent
		}
		if took := time.Since(began); took > 25*time.Second { // a request alone may take 30
			return fmt.Sprintf("it took %s", took)
		}
		return ""
	})
}
