// Package server is a server of Tessera that adds what it gets: what fiador-ledgerd is held against.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/transparency-dev/tessera"
	"golang.org/x/mod/sumdb/note"
)

// The batches of fiador-ledgerd, and the entries that may wait for their tiles, which a database
// gets once a second. Batches of the conformance servers are older, and one client would wait for
// that.
const (
	serverBatch = 256
	serverAge   = 2 * time.Millisecond
	outstanding = 64 * serverBatch
)

// Serve answers POST /add as Tessera's conformance servers do (cmd/conformance), until SIGTERM
// comes.
func Serve(driver tessera.Driver, keyFile string) error {
	signer, err := Key(keyFile)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	appender, shutdown, _, err := tessera.NewAppender(context.Background(), driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithCheckpointInterval(time.Second).
		WithCheckpointRepublishInterval(time.Minute).
		WithBatching(serverBatch, serverAge).
		WithPushback(outstanding).
		WithAntispam(tessera.DefaultAntispamInMemorySize, nil))
	if err != nil {
		return err
	}
	add := func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		index, err := appender.Add(r.Context(), tessera.NewEntry(b))()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "%d", index.Index)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add", add)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "tessera: listening on http://%s\n", l.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { <-ctx.Done(); _ = server.Close() }()
	if err := server.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return shutdown(context.Background())
}

// Key reads the log's private key, or makes one.
func Key(file string) (note.Signer, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		private, _, err := note.GenerateKey(rand.Reader, "example.com/bench")
		if err != nil {
			return nil, err
		}
		b = []byte(private)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return note.NewSigner(string(b))
}
