package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
)

// The batches of fiador-ledgerd. Those of the conformance server may be a second old, and one
// client would wait for that.
const (
	serverBatch = 256
	serverAge   = 2 * time.Millisecond
)

// serve answers POST /add as Tessera's conformance server for this driver does
// (cmd/conformance/posix), until SIGTERM comes.
func serve(log, keyFile string) error {
	signer, err := key(keyFile)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	driver, err := posix.New(context.Background(), posix.Config{Path: log})
	if err != nil {
		return err
	}
	appender, shutdown, _, err := tessera.NewAppender(context.Background(), driver, tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithCheckpointInterval(time.Second).
		WithCheckpointRepublishInterval(time.Minute).
		WithBatching(serverBatch, serverAge).
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
