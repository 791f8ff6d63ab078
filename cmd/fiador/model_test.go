package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// modelEndpoint is the command "model-endpoint ADAPTERS LOG" of the scripts: a model on
// this machine. It writes a file of adapters that name it, and a line for every request. A
// prompt with "do" makes it answer 500, redirect, or reveal its key.
func modelEndpoint() {
	if err := serveModel(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveModel(adapters, log string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	base := "http://" + l.Addr().String() + "/v1"
	list := []map[string]string{}
	for _, m := range [][2]string{{"local", "MODEL_KEY"}, {"open", ""}, {"lost", "NO_SUCH_KEY"}} {
		a := map[string]string{"id": m[0], "base_url": base, "model": "small"}
		if m[1] != "" {
			a["key_env"] = m[1]
		}
		list = append(list, a)
	}
	b, err := json.Marshal(map[string]any{"adapters": list})
	if err != nil {
		return err
	}
	if err := os.WriteFile(adapters+".new", b, 0o666); err != nil {
		return err
	}
	if err := os.Rename(adapters+".new", adapters); err != nil {
		return err
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	var n atomic.Int64
	s := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prompt, _ := io.ReadAll(r.Body)
		fmt.Fprintf(out, "%s %s %q %s\n", r.Method, r.URL, r.Header.Get("Authorization"), prompt)
		answerModel(w, r, string(prompt), n.Add(1))
	})}
	return s.Serve(l)
}

func answerModel(w http.ResponseWriter, r *http.Request, prompt string, n int64) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.Contains(prompt, `"do":"fail"`):
		w.WriteHeader(http.StatusInternalServerError)
	case strings.Contains(prompt, `"do":"redirect"`):
		w.Header().Set("Location", "/v1/chat/completions")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.Contains(prompt, `"do":"tell"`):
		fmt.Fprintf(w, `{"key": %q}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	default:
		fmt.Fprintf(w, `{"choices": [{"message": {"content": "answer %d"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}`, n)
	}
}
