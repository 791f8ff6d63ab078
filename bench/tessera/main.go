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
	"os"
	"strconv"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"

	"github.com/fiador/fiador/bench/tessera/server"
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
	ctx := context.Background()
	if len(args) == 3 && args[0] == "serve" {
		driver, err := posix.New(ctx, posix.Config{Path: args[1]})
		if err != nil {
			return err
		}
		return server.Serve(driver, args[2])
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
	signer, err := server.Key(args[1])
	if err != nil {
		return err
	}
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
