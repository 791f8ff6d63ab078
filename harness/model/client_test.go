package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/outbound"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
)

const secret = "sk-very/secret+0123456789"

// answer is a chat completion in the form of endpoints, with white space.
const answer = "{\n  \"choices\": [{\"message\": {\"content\": \"4\"}}],\n  \"usage\": {\"prompt_tokens\": 12, \"completion_tokens\": 3}\n}\n"

// asked is a request that an endpoint received.
type asked struct {
	method, uri, host string
	header            http.Header
	body              string
}

// endpoint serves one handler on this machine, and keeps the received requests.
func endpoint(t *testing.T, h http.HandlerFunc) (*httptest.Server, func() []asked) {
	t.Helper()
	seen := make(chan asked, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen <- asked{r.Method, r.RequestURI, r.Host, r.Header.Clone(), string(b)}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s, func() []asked {
		var list []asked
		for len(seen) > 0 {
			list = append(list, <-seen)
		}
		return list
	}
}

func says(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// clock advances by 7 ms at each reading.
func clock() func() time.Time {
	var n atomic.Int64
	return func() time.Time { return time.UnixMilli(7 * n.Add(1)) }
}

func recorder(base string) *Recorder {
	keys := map[string]string{"MODEL_KEY": secret, "EMPTY_KEY": "", "BROKEN_KEY": "two\nlines"}
	return NewRecorder([]Adapter{
		{ID: "m", BaseURL: base, Model: "small", KeyEnv: "MODEL_KEY"},
		{ID: "open", BaseURL: base, Model: "small"},
		{ID: "empty", BaseURL: base, Model: "small", KeyEnv: "EMPTY_KEY"},
		{ID: "broken", BaseURL: base, Model: "small", KeyEnv: "BROKEN_KEY"},
	}, func(name string) string { return keys[name] }, clock())
}

func prompt(t *testing.T, params map[string]any) []byte {
	t.Helper()
	b, err := pack.Prompt(params, "small")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refused checks for an *Error with a text, without key and address.
func refused(t *testing.T, err error, want, base string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Error(), want) {
		t.Fatalf("error is %v, want %q", err, want)
	}
	whole := fmt.Sprintf("%s %s %+v", e, e.Hint(), e)
	for _, leak := range []string{secret, strings.TrimPrefix(base, "http://")} {
		if leak != "" && strings.Contains(whole, leak) {
			t.Errorf("the error has %q: %s", leak, whole)
		}
	}
	return e
}

func TestCallIsRecorded(t *testing.T) {
	s, seen := endpoint(t, says("application/json; charset=utf-8", answer))
	r := recorder(s.URL + "/v1/")
	if model, err := r.Model("m"); model != "small" || err != nil {
		t.Fatalf("model is %q, error %v", model, err)
	}
	ask := prompt(t, map[string]any{"messages": []any{map[string]any{"role": "user", "content": "2+2"}}})
	for range 2 {
		got, err := r.Call(t.Context(), "m", ask)
		if err != nil || string(got) != answer {
			t.Fatalf("got %q, error %v", got, err)
		}
	}
	for _, a := range seen() {
		if a.method != "POST" || a.uri != "/v1/chat/completions" || a.body != string(ask) || "http://"+a.host != s.URL {
			t.Errorf("asked %+v", a)
		}
		want := map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/json", "Cookie": "", "Referer": ""}
		for name, value := range want {
			if a.header.Get(name) != value {
				t.Errorf("%s is %q", name, a.header.Get(name))
			}
		}
	}
	b, err := r.Recording()
	if err != nil || bytes.Contains(b, []byte(secret)) {
		t.Fatalf("recording is %s, error %v", b, err)
	}
	m, err := pack.ParseModelIO(b)
	if err != nil {
		t.Fatal(err)
	}
	if m.AdapterID != "m" || m.ModelID != "small" || m.Mode != pack.ModeRecord || len(m.Interactions) != 2 {
		t.Fatalf("recording is %s", b)
	}
	for i, one := range m.Interactions {
		if one.I != i || one.PromptHash != canon.Sum(ask) || one.ResponseContent != answer || one.ResponseHash != canon.Sum([]byte(answer)) ||
			*one.TokensInput != 12 || *one.TokensOutput != 3 || *one.LatencyMS != 7 {
			t.Errorf("interaction is %+v", one)
		}
	}
}

// TestNoKey: an endpoint without a key gets no header. An adapter whose key is missing
// is refused before anything is sent.
func TestNoKey(t *testing.T) {
	s, seen := endpoint(t, says("application/json", answer))
	r := recorder(s.URL)
	for id, want := range map[string]string{"empty": "there is no key in EMPTY_KEY", "broken": "what is in BROKEN_KEY is not a key", "other": "no such adapter"} {
		_, err := r.Model(id)
		if e := refused(t, err, want, s.URL); e.Hint() == "" || strings.Contains(e.Error(), "two") {
			t.Errorf("%s: %v, hint %q", id, e, e.Hint())
		}
		_, err = r.Call(t.Context(), id, prompt(t, nil))
		refused(t, err, want, s.URL)
	}
	if list := seen(); len(list) > 0 {
		t.Errorf("asked %+v", list)
	}
	if _, err := r.Call(t.Context(), "open", prompt(t, nil)); err != nil {
		t.Fatal(err)
	}
	if list := seen(); len(list) != 1 || list[0].header["Authorization"] != nil {
		t.Errorf("asked %+v", list)
	}
	_, err := r.Model("m")
	refused(t, err, "a recording is of one adapter", s.URL)
}

// TestAnswersThatDoNotCount: refused answers are not recorded, and no error repeats
// them.
func TestAnswersThatDoNotCount(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	escaped := strings.ReplaceAll(secret, "/", `\/`)
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"redirect", status(302, "{}"), "answered 302, and a redirect is not followed"},
		{"redirect that keeps the method", status(307, "{}"), "answered 307"},
		{"no content", status(204, ""), "the answer is not JSON"},
		{"bad request", status(400, `{"error":"`+secret+`"}`), "the endpoint answered 400"},
		{"wrong key", status(401, `{"error":"`+secret+`"}`), "the endpoint answered 401"},
		{"not found", status(404, "{}"), "the endpoint answered 404"},
		{"too many", status(429, "{}"), "the endpoint answered 429"},
		{"broken server", status(500, `{"error":"`+secret+`"}`), "the endpoint answered 500"},
		{"a page", says("text/html", "<p>{}</p>"), "the answer is not of a JSON type"},
		{"no type", says("", "{}"), "the answer is not of a JSON type"},
		{"a stream of events", says("text/event-stream", "data: {}\n\n"), "the answer is not of a JSON type"},
		{"another type that ends alike", says("text/x+json", "{}"), "the answer is not of a JSON type"},
		{"another charset", says("application/json; charset=latin1", "{}"), "the answer is not in UTF-8"},
		{"not UTF-8", says("application/json", "{\"a\":\"\xff\"}"), "it is not UTF-8"},
		{"a NUL", says("application/json", "{}\x00"), "it has a NUL"},
		{"a noncharacter", says("application/json", "\"\uffff\""), "it has a character that"},
		{"not JSON", says("application/json", "{"), "the answer is not JSON"},
		{"two texts", says("application/json", "{}{}"), "the answer is not JSON"},
		{"too large", says("application/json", `"`+strings.Repeat("a", pack.MaxResponseBytes-1)+`"`), "it has more than 1000000 bytes"},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err == nil; _, err = io.WriteString(w, strings.Repeat(" ", 1<<16)) {
			}
		}, "it has more than 1000000 bytes"},
		{"too much before the body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("a", 2*outbound.MaxHeaderBytes))
		}, "no answer that can be understood"},
		{"compressed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			says("application/json", "{}")(w, nil)
		}, "the answer is compressed"},
		{"less than promised", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			says("application/json", "{}")(w, nil)
		}, "the connection ended before the answer did"},
		{"the key", says("application/json", `{"you":"`+secret+`"}`), "the answer repeats the key"},
		{"the key as a name", says("application/json", `{"`+secret+`":1}`), "the answer repeats the key"},
		{"the key, escaped", says("application/json", `{"you":"`+escaped+`"}`), "the answer repeats the key"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, seen := endpoint(t, test.answer)
			r := recorder(s.URL)
			ask := prompt(t, nil)
			got, err := r.Call(t.Context(), "m", ask)
			if e := refused(t, err, test.want, s.URL); got != nil || e.Prompt != canon.Sum(ask) {
				t.Errorf("got %q, prompt %s", got, e.Prompt)
			}
			if list := seen(); len(list) != 1 {
				t.Errorf("asked %d times", len(list))
			}
			if len(r.io.Interactions) != 0 {
				t.Errorf("recorded %+v", r.io)
			}
		})
	}
}

func TestAnswersAtTheirLimits(t *testing.T) {
	for name, body := range map[string]string{
		"the largest": `"` + strings.Repeat("a", pack.MaxResponseBytes-2) + `"`, "the least": "0", "usage of another kind": `{"usage":[1]}`,
		"counts of another kind": `{"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}`, "counts as texts": `{"usage":{"prompt_tokens":"1","completion_tokens":9007199254740992}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := endpoint(t, says("application/vnd.model+json", body))
			r := recorder(s.URL)
			if got, err := r.Call(t.Context(), "m", prompt(t, nil)); err != nil || string(got) != body {
				t.Fatalf("got %.20q, error %v", got, err)
			}
			if one := r.io.Interactions[0]; one.TokensInput != nil || one.TokensOutput != nil {
				t.Errorf("counted %+v", one)
			}
			b, err := r.Recording()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pack.ParseModelIO(b); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTime: when the time is over, a slow endpoint is abandoned, before its answer
// begins and in the middle of it.
func TestTime(t *testing.T) {
	for name, begin := range map[string]string{"before": "", "in the middle": "{"} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			s, _ := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					says("application/json", begin)(w, r)
					_ = http.NewResponseController(w).Flush()
				}
				<-over
			})
			defer close(over)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := recorder(s.URL).Call(ctx, "m", prompt(t, nil))
			refused(t, err, "no answer in the time that was left", s.URL)
			stopped, stop := context.WithCancel(t.Context())
			stop()
			_, err = recorder(s.URL).Call(stopped, "m", prompt(t, nil))
			refused(t, err, "interrupted", s.URL)
		})
	}
}

// TestNoProxy: the environment names a proxy, and the client does not use it. No
// connection to the base URL is possible, so only a proxy could answer.
func TestNoProxy(t *testing.T) {
	proxy, asked := endpoint(t, says("application/json", "{}"))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	_, err := recorder("http://192.0.2.1/v1").Call(t.Context(), "m", prompt(t, nil))
	refused(t, err, "the host of the base URL is not this machine", "http://192.0.2.1")
	if list := asked(); len(list) != 0 {
		t.Errorf("the proxy was asked: %+v", list)
	}
}

// TestNobodyElseIsAsked: neither a prompt nor a redirect sends a call to another address
// than the base URL.
func TestNobodyElseIsAsked(t *testing.T) {
	other, elsewhere := endpoint(t, says("application/json", "{}"))
	s, seen := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "id", Value: "1"})
		if r.URL.Path != "/v1/chat/completions" {
			t.Errorf("asked for %s", r.URL)
		}
		http.Redirect(w, r, other.URL+"/v1/chat/completions", http.StatusTemporaryRedirect)
	})
	r := recorder(s.URL + "/v1")
	_, err := r.Call(t.Context(), "m", prompt(t, map[string]any{
		"base_url": other.URL, "url": other.URL, "endpoint": other.URL, "host": other.Listener.Addr().String(), "api_base": other.URL, "proxy": other.URL,
	}))
	refused(t, err, "a redirect is not followed", s.URL)
	_, err = r.Call(t.Context(), "m", prompt(t, nil))
	refused(t, err, "a redirect is not followed", s.URL)
	list := seen()
	if len(list) != 2 || list[1].header.Get("Cookie") != "" {
		t.Errorf("asked %+v", list)
	}
	if list := elsewhere(); len(list) != 0 {
		t.Errorf("somebody else was asked: %+v", list)
	}
}

func TestNoConnection(t *testing.T) {
	base := "http://" + rehearsal.Closed(t)
	_, err := recorder(base).Call(t.Context(), "m", prompt(t, nil))
	refused(t, err, "no connection: ", base)

	s := httptest.NewTLSServer(says("application/json", "{}"))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	_, err = recorder(s.URL).Call(t.Context(), "m", prompt(t, nil))
	refused(t, err, "the certificate of the endpoint is not accepted", strings.TrimPrefix(s.URL, "https://"))
}
