package ledger_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/remote"
)

// TestAckVectors opens every ack.
func TestAckVectors(t *testing.T) {
	for _, v := range load[ackVector](t, "../ledger-server/acks.json") {
		a, err := keysOf(t, v.Keys).OpenAck(v.Ack.bytes())
		got := outcome(err)
		if errors.Is(err, ledger.ErrAck) {
			got = "malformed"
		}
		if got != v.Expect {
			t.Errorf("%s: %s, want %s", v.Name, got, v.Expect)
		}
		if err == nil && (a.Index != v.Index || hexOf(a.Leaf) != v.Leaf) {
			t.Errorf("%s: got %d %s", v.Name, a.Index, a.Leaf)
		}
	}
}

// TestAcksByShell: the shell lines of specs/ledger-server.md say of every ack whether the key
// has signed it, with openssl.
func TestAcksByShell(t *testing.T) {
	for _, tool := range []string{"openssl", "base64", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	page, err := os.ReadFile("../specs/ledger-server.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Ack\n")
	_, rest, _ = strings.Cut(rest, "\n```sh\n")
	script, _, ok := strings.Cut(rest, "\n```\n")
	if !ok {
		t.Fatal("the page has no shell lines beneath Ack")
	}
	for _, v := range load[ackVector](t, "../ledger-server/acks.json") {
		if v.Expect == "malformed" {
			continue // the lines check a signature, not a form
		}
		dir := t.TempDir()
		index, err := strconv.ParseInt(strings.Split(string(v.Ack.bytes()), "\n")[1], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", v.Name, err)
		}
		key, _ := keysOf(t, v.Keys).At(index + 1)
		if err := os.WriteFile(filepath.Join(dir, "ack"), v.Ack.bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "KEY="+key.String())
		out, err := cmd.CombinedOutput()
		if right := err == nil && strings.Contains(string(out), "Signature Verified Successfully"); right != (v.Expect == "right") {
			t.Errorf("%s: %v, want %s\n%s", v.Name, err, v.Expect, out)
		}
	}
}

// vectorServer serves the log of the vectors, and answers drafts with a vector.
func vectorServer(t *testing.T, origin []byte, v answerVector) *httptest.Server {
	files := http.FileServer(http.Dir(filepath.Join(vectorDir, "published")))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/"+ledger.NameOrigin:
			_, _ = w.Write(origin)
		case r.Method == http.MethodGet:
			files.ServeHTTP(w, r)
		default:
			body := v.Body.bytes()
			length := len(body)
			if v.Cut {
				length++
			}
			if v.Status == http.StatusTemporaryRedirect {
				w.Header().Set("Location", "/"+ledger.NameOrigin)
			}
			if v.Status != http.StatusNoContent {
				w.Header().Set("Content-Length", strconv.Itoa(length))
			}
			w.WriteHeader(v.Status)
			_, _ = w.Write(body)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestAnswerVectors: the client makes of each answer what the vector says, and says nothing of
// a promise for any that it does not accept.
func TestAnswerVectors(t *testing.T) {
	logs := makeLogs(t)
	keys := keysOf(t, logs.keysLog)
	keys[1].Note = logs.atTen
	origin, err := keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	trusted := keys[0].Key
	for _, v := range load[answerVector](t, "../ledger-server/answers.json") {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			rec, err := ledger.ParseDraft([]byte(v.Draft))
			if err != nil {
				t.Fatal(err)
			}
			state, wait := t.TempDir(), time.Minute
			if v.Expect == "retry" {
				wait = time.Second
			}
			r, err := remote.Record(context.Background(), remote.Place{
				URL: vectorServer(t, origin, v).URL, Key: trusted, State: state, Wait: wait,
				Token: base64.RawURLEncoding.EncodeToString(make([]byte, 32)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			got, err := r.Append(context.Background(), rec)
			if said := answerVerdict(err); said != v.Expect {
				t.Fatalf("%s (%v), want %s", said, err, v.Expect)
			}
			kept, _ := filepath.Glob(filepath.Join(state, "*", "acks", "*"))
			if err == nil && (got.Index != v.Index || got.Ack == nil) || (err == nil) != (len(kept) == 1) {
				t.Errorf("%+v, kept %v", got, kept)
			}
		})
	}
}

// answerVerdict names the error of an append as the vectors do.
func answerVerdict(err error) string {
	if err == nil {
		return "accepted"
	}
	for is, word := range map[error]string{
		ledger.ErrUnknownKey: "key", ledger.ErrConflict: "conflict", ledger.ErrEnded: "ended", remote.ErrToken: "token",
		remote.ErrForbidden: "forbidden", remote.ErrRefused: "refused", remote.ErrUnreachable: "retry",
	} {
		if errors.Is(err, is) {
			return word
		}
	}
	for part, word := range map[string]string{": an ack ": "ack", ": an entry ": "entry", ": the record of another run": "entry"} {
		if errors.Is(err, ledger.ErrAnswer) && strings.Contains(err.Error(), part) {
			return word
		}
	}
	if errors.Is(err, ledger.ErrAnswer) {
		return "form"
	}
	return err.Error()
}
