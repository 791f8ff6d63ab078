// Package server writes the log of a ledger server and answers its clients. It owns the writer,
// which alone adds entries, and the HTTP of specs/ledger-server.md.
//
// The order of what a server does with a batch of records, and what a kill before each step
// leaves:
//
//  1. read the claims of the same run ids; a record that is recorded already ends here;
//  2. give the records their time and their submitter: nothing happened;
//  3. write the entries to claims.jsonl and sync it: some lines, of which a torn one is
//     cut off; the next start adds the others to the log;
//  4. add the entries to the log, in the same order, which syncs them: the next start
//     finds them in the log;
//  5. append their indexes to claims.jsonl: the next start finds them too;
//  6. sign the acks and answer: a client that sends a record again gets its first entry.
//
// In a database the claims are rows, which have the index that their entries are going to get,
// and step 5 comes with the claims of the next batch. See package storage.
//
// Tessera signs a checkpoint over the log shortly after step 4. A failed step is never
// answered with a promise. The writer then compares claims and log again before it takes
// more records. The log is right where the two differ: claims.jsonl is made again from it,
// and a claim is promised only if its leaf hash is the one of the log.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/tokens"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/witness"
	"github.com/fiador/fiador/ledger"
)

// Config is what a server is told.
type Config struct {
	Signer          *ledger.Signer                  // of the log
	Open            func() (storage.Storage, error) // opens the log
	Listen          string                          // HOST:PORT
	Clients         string                          // the file of the clients
	TLSCert, TLSKey string                          // files, or empty without TLS
	Policy          string                          // the file of the witnesses' policy, or empty
	Public          bool                            // everybody may read checkpoint, tiles and origin.json

	Now      func() time.Time       // the clock
	Decorate storage.Decorator      // in tests, faults
	Ready    func(address net.Addr) // in tests, called once it answers
}

// Serve answers requests until a signal comes or ctx ends.
func (c Config) Serve(ctx context.Context, log Log) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before the clients are read: a later change is not missed
	defer signal.Stop(hangup)
	known, err := tokens.Read(c.Clients)
	if err != nil {
		return err
	}
	var cosign *witness.Quorum
	if c.Policy != "" {
		if cosign, err = witness.ReadPolicy(c.Policy, c.Signer.Verifier()); err != nil {
			return err
		}
	}
	listener, url, err := listen(c)
	if err != nil {
		return err
	}
	defer listener.Close()
	store, err := c.Open()
	if err != nil {
		return err
	}
	if store.Who().Cosign = cosign; cosign != nil {
		cosign.Size, cosign.Keep = store.Size, store.SetDocument
	}
	s := &server{store: store, writer: NewWriter(store, c.Signer, c.Now, log, c.Decorate), public: c.Public, log: log}
	s.clients.Store(&known)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return s.answer(ctx, hangup, listener, url, c)
}

// answer answers requests until ctx ends, and then those that are under way.
func (s *server) answer(ctx context.Context, hangup <-chan os.Signal, listener net.Listener, url string, c Config) error {
	writing, end := context.WithCancel(context.Background())
	defer end()
	h := s.httpServer()
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(listener) }()
	s.log.Printf("listening on %s", url)
	begun := make(chan error, 1)
	go func() {
		err := s.writer.begin()
		begun <- err
		if err != nil {
			close(s.writer.ended)
			return
		}
		if c.Ready != nil {
			c.Ready(listener.Addr())
		}
		s.writer.run(writing)
	}()
	var err error
	for ctx.Err() == nil && err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
		case <-s.store.Who().Cosign.Contradicted():
			err = s.store.Who().Cosign.Failed()
		case err = <-begun: // nil: it writes, or waits
		case <-hangup:
			s.readClients(c.Clients)
		}
	}
	starting := s.writer.state.Swap(stateEnding) == stateStarting
	finish, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	if h.Shutdown(finish) != nil {
		err = errors.Join(err, fmt.Errorf("requests were still under way after %s, and were cut off", answerTime))
	}
	end()
	select {
	case <-s.writer.ended:
		select {
		case e := <-begun:
			err = errors.Join(err, e)
		default:
		}
		if err == nil {
			s.log.Printf("ended")
		}
		return err
	case <-time.After(2 * storage.LastCheckpoint):
		if starting {
			s.log.Printf("ended before it could write")
			return err
		}
		return errors.Join(err, errors.New("the storage does not answer; at its next start the server completes what was not finished"))
	}
}

// readClients reads the clients file again. If it is bad, the clients stay as they are.
func (s *server) readClients(file string) {
	next, err := tokens.Read(file)
	if err != nil {
		s.log.Printf("the clients stay as they were: %v", err)
		return
	}
	s.clients.Store(&next)
	s.log.Printf("read %d clients", len(next))
}
