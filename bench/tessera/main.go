// Command tessera appends entries to a log of Tessera's POSIX driver and ends when its
// published checkpoint covers them: what Fiador's append is held against. It makes the
// log if it is not there.
//
//	tessera LOG KEYFILE COUNT BYTES
//	tessera serve LOG KEYFILE
//
// The second form is a server on this driver: what fiador-ledgerd is held against.
//
// Everything that has an interval has the least one that the driver takes, and what an
// append does not need is off.
//
// It is a module of its own so that Fiador's does not depend on Tessera.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tessera:", err)
		os.Exit(1)
	}
}

const (
	least = 100 * time.Millisecond // between checkpoints; the driver takes no less
	poll  = time.Millisecond
)

func run(args []string) error {
	if len(args) == 3 && args[0] == "serve" {
		return serve(args[1], args[2])
	}
	if len(args) != 4 {
		return errors.New("usage: tessera LOG KEYFILE COUNT BYTES, or tessera serve LOG KEYFILE")
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	signer, err := key(args[1])
	if err != nil {
		return err
	}
	ctx := context.Background()
	driver, err := posix.New(ctx, posix.Config{Path: args[0]})
	if err != nil {
		return err
	}
	options := tessera.NewAppendOptions().WithCheckpointSigner(signer).
		WithBatching(uint(count), poll).WithCheckpointInterval(least).WithGarbageCollectionInterval(0)
	appender, _, reader, err := tessera.NewAppender(ctx, driver, options)
	if err != nil {
		return err
	}
	published := tessera.NewPublicationAwaiter(ctx, reader.ReadCheckpoint, poll)
	futures := make([]tessera.IndexFuture, count)
	for i := range futures {
		entry := make([]byte, size)
		if _, err := rand.Read(entry); err != nil {
			return err
		}
		futures[i] = appender.Add(ctx, tessera.NewEntry(entry))
	}
	for _, f := range futures {
		index, _, err := published.Await(ctx, f)
		if err != nil {
			return err
		}
		if count == 1 {
			fmt.Println(index.Index)
		}
	}
	// Published is durable: nothing is left for a shutdown to wait for.
	return nil
}

// key reads the log's private key, or makes one.
func key(file string) (note.Signer, error) {
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
