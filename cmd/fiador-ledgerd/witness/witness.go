// Package witness has the checkpoints of a log cosigned by witnesses (C2SP tlog-witness). It owns
// the policy, the requests that Tessera makes to witnesses, and what stops a log that a witness
// contradicts.
package witness

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/transparency-dev/tessera"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/ledger"
)

const (
	witnessTime     = 3 * time.Second // for one answer of a witness
	witnessPause    = time.Second     // after an answer that is none, until the witness is asked again
	maxCosignatures = 64 << 10        // bytes of an answer

	nothingMore = "Nothing more is recorded or published"
	notReady    = "the log is not ready for its witnesses"
)

// Contradiction is the document of a log that says what a witness has said. Nothing writes
// to the log until a person removes it.
const Contradiction = "contradiction.txt"

// Silent says whether an error of Tessera needs no line: the last line of the server says it,
// or nobody was asked.
func Silent(why string) bool {
	return strings.Contains(why, nothingMore) || strings.Contains(why, notReady)
}

// Quorum cosign each checkpoint (C2SP tlog-witness) by the quorum of a policy. Tessera makes
// the requests and publishes no checkpoint below the quorum. Quorum sends the requests for it,
// with bounds, and stops the log when a witness has seen another one. Tessera would only ask again.
type Quorum struct {
	Group   tessera.WitnessGroup // for Tessera
	each    map[string]*witness  // by the URL of the requests
	settled chan struct{}        // closed when the log has all entries that were promised
	stopped chan struct{}        // closed when a witness contradicts the log

	settle func()
	Size   func() (int64, error)             // of the log now
	Keep   func(name string, b []byte) error // keeps a document of the log

	mu    sync.Mutex
	err   error   // why it is stopped
	alone askFunc // of the log that is open
}

// askFunc has one witness alone asked for a cosignature of a tree. With the text of a
// checkpoint, it is one that was signed before.
type askFunc func(ctx context.Context, of *witness, text []byte, size uint64, root []byte) error

// one is the policy of one witness.
type one struct{ *witness }

func (o one) Satisfied(checkpoint []byte) bool {
	n, err := note.Open(checkpoint, note.VerifierList(o.key))
	return err == nil && len(n.Sigs) == 1
}

func (o one) Endpoints() map[string]note.Verifier { return map[string]note.Verifier{o.url: o.key} }

// again signs once more what was signed.
type again struct {
	note.Signer
	text []byte
}

func (a again) Sign(text []byte) ([]byte, error) {
	if !bytes.Equal(text, a.text) {
		return nil, errors.New("this is not the checkpoint that was signed")
	}
	return a.Signer.Sign(text)
}

// witness is one of them. Whoever holds turn has the fields below it.
type witness struct {
	name, url string
	key       note.Verifier

	turn  chan struct{} // one request at a time
	again bool          // the last answer named the size that the witness wants
	next  time.Time     // not before
	err   error         // of the last request
}

// ReadPolicy reads a policy of the log with a key (C2SP tlog-policy).
func ReadPolicy(file string, log ledger.Verifier) (*Quorum, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	w := &Quorum{each: map[string]*witness{}, settled: make(chan struct{}), stopped: make(chan struct{})}
	w.settle = sync.OnceFunc(func() { close(w.settled) })
	if w.Group, err = tessera.NewWitnessGroupFromPolicy(text); err == nil {
		err = checkPolicy(string(text), log)
	}
	for url, key := range w.Group.Endpoints() {
		if !usable(url) {
			return nil, fmt.Errorf("%s: the witness %s needs an https URL without user and query; http is for loopback addresses alone", file, key.Name())
		}
		w.each[url] = &witness{name: key.Name(), url: url, key: key, turn: make(chan struct{}, 1)}
	}
	if err == nil && len(w.each) == 0 {
		err = errors.New("its quorum needs no witness: name one, or leave --witness-policy out")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return w, nil
}

// usable says whether requests may be sent to a URL.
func usable(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// checkPolicy refuses what the format forbids and Tessera reads: a quorum that is none, or in
// which a witness counts twice.
func checkPolicy(text string, log ledger.Verifier) error {
	var seen, logs []string // keys, URLs and members are each named once
	once := func(what, name string) error {
		if slices.Contains(seen, what+name) {
			return fmt.Errorf("%s %s is named twice", what, name)
		}
		seen = append(seen, what+name)
		return nil
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		var err error
		switch f := append(strings.Fields(line), "", "", "", ""); f[0] {
		case "log":
			logs = append(logs, f[1])
		case "witness":
			_, key, _ := strings.Cut(f[2], "+")
			_, key, _ = strings.Cut(key, "+")
			b, _ := base64.StdEncoding.DecodeString(key) // Tessera has read it
			err = errors.Join(once("the key of the witness", fmt.Sprintf("%x", b[min(1, len(b)):])), once("the URL", strings.TrimRight(f[3], "/")))
		case "group":
			members := strings.Fields(line)[3:]
			if n, numeric := strconv.Atoi(f[2]); numeric == nil && n < 1 || len(members) == 0 {
				err = fmt.Errorf("the group %s does not need one member to cosign", f[1])
			}
			for _, member := range members {
				err = errors.Join(err, once("the member", member))
			}
		case "quorum":
			err = once("the quorum", "")
		}
		if err != nil {
			return err
		}
	}
	if len(logs) > 0 && !slices.Contains(logs, log.String()) {
		return fmt.Errorf("it is for other logs, and this one has the key %s", log)
	}
	return nil
}

// Client returns what Tessera sends its requests with, or nil. With a fence, an answer counts
// only if this server still may write: it took seconds, and a checkpoint is written next.
func (w *Quorum) Client(fence func(context.Context) error) *http.Client {
	if w == nil {
		return nil
	}
	return &http.Client{Transport: stillLeading{w, fence}}
}

type stillLeading struct {
	*Quorum
	fence func(context.Context) error
}

func (s stillLeading) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.Quorum.RoundTrip(req)
	if err == nil && s.fence != nil {
		err = s.fence(req.Context())
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Contradicted is closed when a witness has contradicted the log.
func (w *Quorum) Contradicted() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.stopped
}

// Failed says how a witness has contradicted the log.
func (w *Quorum) Failed() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// stop ends publishing and recording.
func (w *Quorum) stop(of *witness, format string, args ...any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = fmt.Errorf("the witness %s %s: an old copy of the log was put back, or there are two logs with this key. %s. "+
			"Put back the newest copy, or find the other log", of.name, fmt.Sprintf(format, args...), nothingMore)
		if err := w.Keep(Contradiction, []byte(w.err.Error()+"\n")); err != nil {
			w.err = fmt.Errorf("%w. %s could not be written: %w", w.err, Contradiction, err)
		}
		close(w.stopped)
	}
	return w.err
}

// checking marks requests about one witness alone. They wait for its turn, and may be made
// before the log has settled.
type checking struct{}

// Open checks the log that has a tree, before it takes records, and remembers how its witnesses
// are asked. guarded signs new checkpoints with key, which signs once more what was signed.
func (w *Quorum) Open(guarded, key note.Signer, log tessera.LogReader, tree tlog.Tree, complain func(what string, why any)) error {
	alone := func(ctx context.Context, of *witness, text []byte, size uint64, root []byte) error {
		by := guarded
		if text != nil {
			by = again{key, text}
		}
		_, err := tessera.NewAppendOptions().WithCheckpointSigner(by).WithWitnesses(tessera.NewWitnessGroup(1, one{of}), &tessera.WitnessOptions{Timeout: 3 * witnessTime}).
			CheckpointPublisher(log, w.Client(nil))(ctx, size, root)
		return err
	}
	return w.check(alone, uint64(tree.N), tree.Hash[:], complain)
}

// check has every witness asked about a tree. The error says that a witness has seen another
// log, or that the log has no proof for it. Who does not answer is asked again with the next
// checkpoint.
func (w *Quorum) check(alone askFunc, size uint64, root []byte, complain func(what string, why any)) error {
	w.mu.Lock()
	w.alone = alone
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), checking{}, true), 2*witnessTime)
	defer cancel()
	faults := make(chan error, len(w.each))
	for _, of := range w.each {
		go func() {
			of.turn <- struct{}{}
			of.next, of.err, of.again = time.Time{}, nil, false
			<-of.turn
			err := alone(ctx, of, nil, size, root)
			of.turn <- struct{}{}
			why := of.err
			<-of.turn
			switch {
			case err == nil || w.Failed() != nil:
				err = nil
			case why != nil || ctx.Err() != nil:
				complain("the witness "+of.name+" cannot say whether this log is the newest", errors.Join(why, ctx.Err()))
				err = nil
			default:
				err = fmt.Errorf("the witness %s could not be asked about this log; is it damaged? %w", of.name, err)
			}
			faults <- err
		}()
	}
	var err error
	for range w.each {
		err = errors.Join(err, <-faults)
	}
	if failed := w.Failed(); failed != nil {
		return failed
	}
	if err == nil {
		w.settle()
	}
	return err
}

// catchUp asks a witness that is behind once more, with the proof. Tessera has given it up,
// because the quorum was there. The next checkpoint asks a witness that does not answer.
func (w *Quorum) catchUp(of *witness, body []byte) {
	_, checkpoint, _ := bytes.Cut(body, []byte("\n\n"))
	asked, err := ledger.ParseCheckpoint(checkpoint)
	w.mu.Lock()
	alone := w.alone
	w.mu.Unlock()
	if err != nil || alone == nil {
		return
	}
	text, _, _ := bytes.Cut(checkpoint, []byte("\n\n"))
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), checking{}, true), 2*witnessTime)
	defer cancel()
	_ = alone(ctx, of, append(text[:len(text):len(text)], '\n'), uint64(asked.Size), asked.Root[:])
}

// RoundTrip sends a request of Tessera to a witness. It goes on to the end when Tessera gives it
// up, because the quorum is there: the witness may still contradict the log.
func (w *Quorum) RoundTrip(req *http.Request) (*http.Response, error) {
	of := w.each[req.URL.String()]
	body, err := io.ReadAll(req.Body)
	if err = errors.Join(err, req.Body.Close()); err != nil || of == nil {
		return nil, errors.Join(err, errors.New("this is no witness of the policy"))
	}
	if alone := req.Context().Value(checking{}) != nil; alone {
		select {
		case of.turn <- struct{}{}:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	} else {
		select {
		case <-w.settled:
		default:
			return nil, errors.New(notReady) // Tessera tries again, with a tree that may have grown
		}
		select {
		case of.turn <- struct{}{}:
		default:
			return nil, errors.New("it has not answered the last request")
		}
	}
	type result struct {
		*http.Response
		error
	}
	done := make(chan result, 1)
	go func() {
		resp, err := w.ask(of, body)
		behind := of.again && err == nil && req.Context().Err() != nil && req.Context().Value(checking{}) == nil
		of.again = of.again && !behind // catchUp begins anew
		<-of.turn
		done <- result{resp, err}
		if behind {
			w.catchUp(of, body)
		}
	}()
	select {
	case r := <-done:
		return r.Response, r.error
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// ask sends a request, unless the last one failed just now. Its caller holds the turn.
func (w *Quorum) ask(of *witness, body []byte) (resp *http.Response, err error) {
	if err := w.Failed(); err != nil {
		return nil, err // no witness cosigns what another one contradicts
	}
	if time.Now().Before(of.next) {
		return nil, of.err
	}
	if resp, err = w.send(of, body); err != nil {
		of.next = time.Now().Add(witnessPause)
	}
	of.err = err
	return resp, err
}

// send sends a request and returns an answer with the signature, or one with the size from which
// Tessera then proves that the tree has grown.
func (w *Quorum) send(of *witness, body []byte) (*http.Response, error) {
	var old uint64
	head, checkpoint, _ := bytes.Cut(body, []byte("\n\n"))
	asked, err := ledger.ParseCheckpoint(checkpoint)
	if _, scanErr := fmt.Sscanf(string(head), "old %d", &old); err != nil || scanErr != nil {
		return nil, errors.Join(err, scanErr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), witnessTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, of.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // it follows no redirect
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(io.LimitReader(resp.Body, maxCosignatures+1))
		err = errors.Join(err, resp.Body.Close())
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no whole answer within %s", witnessTime)
	case err != nil:
		return nil, err
	case len(answer) > maxCosignatures:
		return nil, fmt.Errorf("its answer has more than %d bytes", maxCosignatures)
	case w.Failed() != nil:
		return nil, w.Failed()
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	before := of.again
	of.again = false
	switch resp.StatusCode {
	case http.StatusOK:
		if _, err := note.Open(slices.Concat(checkpoint, answer), note.VerifierList(of.key)); err != nil {
			return nil, errors.New("its answer does not have its signature")
		}
		return resp, nil
	case http.StatusUnprocessableEntity:
		return nil, w.stop(of, "has cosigned a tree of %d entries, and this log of %d does not begin with it (422)", old, asked.Size)
	case http.StatusConflict:
		seen, err := strconv.ParseUint(strings.TrimSpace(string(answer)), 10, 64)
		switch {
		case err != nil, resp.Header.Get("Content-Type") != "text/x.tlog.size", seen == old:
			return nil, w.stop(of, "has cosigned another tree of %d entries (409), and this log has %d", old, asked.Size)
		case seen > uint64(asked.Size):
			if size, err := w.Size(); err != nil || uint64(size) >= seen {
				return nil, errors.Join(errors.New("it has cosigned a later tree of the log"), err)
			}
			return nil, w.stop(of, "has cosigned a tree of %d entries (409), and this log has %d", seen, asked.Size)
		case before:
			return nil, fmt.Errorf("it has %d entries, and had another number just before", seen)
		}
		of.again = true
		return resp, nil
	}
	return nil, fmt.Errorf("it answers %d", resp.StatusCode)
}
