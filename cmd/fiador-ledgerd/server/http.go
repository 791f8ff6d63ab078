package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/cmd/fiador-ledgerd/tokens"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// Bounds of a request.
const (
	maxHeader   = 16 << 10
	headerTime  = 10 * time.Second
	recordTime  = 10 * time.Second // for the body of a record
	answerTime  = 25 * time.Second // for an answer to a record
	idleTime    = 10 * time.Second
	maxBlobs    = 128 // blobs that are read or written at a time
	maxStreams  = 64  // requests at a time on one connection of HTTP/2
	maxMessage  = 600 // bytes; escapes make at most six of one
	retryAfter  = 1   // seconds
	contentJSON = "application/json"
)

// server answers requests.
type server struct {
	store   storage.Storage
	writer  *Writer
	public  bool // everybody may read checkpoint, tiles and origin.json
	clients atomic.Pointer[tokens.Clients]
	log     Log
	blobs   places
	files   places
	newest  newest
}

// newest is the checkpoint that was read last, for a moment. Whoever asks meanwhile waits for
// the same one.
type newest struct {
	mu sync.Mutex
	at time.Time
	c  ledger.Checkpoint
	f  *failure
}

const newestTime = 100 * time.Millisecond

// places is how many things of a kind go on. Each blob needs an open file, and Tessera ends the
// process when it cannot open one.
type places struct{ taken atomic.Int32 }

func (p *places) enter() bool {
	if p.taken.Add(1) <= maxBlobs {
		return true
	}
	p.leave()
	return false
}

func (p *places) leave() { p.taken.Add(-1) }

// failure is an answer that is no success.
type failure struct {
	status        int
	code, message string
}

func busy(message string) *failure { return &failure{503, "busy", message} }

func storageFailed() *failure { return &failure{500, "storage", "the storage of the server failed"} }

func notRecord(err error) *failure { return &failure{422, "record", err.Error()} }

func missing(what string) *failure { return &failure{404, "missing", what} }

// unfit says why a record cannot follow what is recorded of its run.
func unfit(err error) *failure {
	if errors.Is(err, ledger.ErrEnded) {
		return &failure{409, "ended", err.Error()}
	}
	return &failure{409, "conflict", err.Error()}
}

// The JSON documents of answers.
type (
	failureWire struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	runWire struct {
		Indexes []int64 `json:"indexes"`
	}
)

// httpServer returns the server with all bounds.
func (s *server) httpServer() *http.Server {
	return &http.Server{
		Handler: s, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime,
		ReadTimeout: storage.BlobTime, WriteTimeout: 2 * storage.BlobTime,
		ErrorLog: discard(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if f := s.route(w, r); f != nil {
		s.fail(w, f)
	}
}

// fail writes a failure.
func (s *server) fail(w http.ResponseWriter, f *failure) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	switch f.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryAfter))
		h.Set("Connection", "close") // behind a balancer, the next one may reach the server that writes
	}
	message := canon.Clean(f.message)
	s.json(w, f.status, failureWire{f.code, strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")})
}

// json writes a document in its canonical form.
func (s *server) json(w http.ResponseWriter, status int, document any) {
	b, _, err := canon.Artifact(document)
	if err != nil {
		s.log.Printf("an answer has no canonical form: %v", err)
		status, b = 500, []byte(`{"error":"storage","message":"the answer could not be written"}`+"\n")
	}
	send(w, status, contentJSON, b)
}

func send(w http.ResponseWriter, status int, contentType string, b []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client has gone
}

// route finds what a request wants, and checks its method and its right.
func (s *server) route(w http.ResponseWriter, r *http.Request) *failure {
	path := strings.TrimPrefix(r.URL.Path, "/")
	want := func(method string, right right, answer func(tokens.Client) *failure) *failure {
		if r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			return &failure{400, "request", "use " + method + " for this path"}
		}
		if r.URL.RawQuery != "" {
			return &failure{400, "request", "a query (after ?) is not allowed"}
		}
		who, f := s.client(r, right)
		if f != nil {
			return f
		}
		return answer(who)
	}
	runID, isRun := strings.CutPrefix(path, "v1/runs/")
	hash, isBlob := strings.CutPrefix(path, "v1/evidence/")
	switch {
	case r.URL.RawPath != "":
		return missing("a path with %-escapes does not exist")
	case path == "checkpoint":
		return want(http.MethodGet, mayRead, func(tokens.Client) *failure { return s.getCheckpoint(w) })
	case path == ledger.NameOrigin:
		return want(http.MethodGet, mayRead, func(tokens.Client) *failure { return s.getOrigin(w) })
	case strings.HasPrefix(path, "tile/"):
		return want(http.MethodGet, mayRead, func(tokens.Client) *failure { return s.getTile(w, path) })
	case isRun && ledger.RunID(runID):
		return want(http.MethodGet, isClient, func(tokens.Client) *failure { return s.getRun(w, runID) })
	case isBlob && r.Method == http.MethodPut:
		return want(http.MethodPut, mayAppend, func(tokens.Client) *failure { return s.putBlob(w, r, hash) })
	case isBlob:
		return want(http.MethodGet, isClient, func(tokens.Client) *failure { return s.getBlob(w, r, hash) })
	case path == "v1/records":
		return want(http.MethodPost, mayAppend, func(who tokens.Client) *failure { return s.postRecord(w, r, who) })
	}
	return missing("there is no such path")
}

// right is what a request needs.
type right int

const (
	mayRead   right = iota // every client, or everybody if the server is public
	isClient               // every client
	mayAppend              // a client that may append
)

// client returns the client of a request if it has a right.
func (s *server) client(r *http.Request, right right) (tokens.Client, *failure) {
	if right == mayRead && s.public {
		return tokens.Client{}, nil
	}
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return tokens.Client{}, &failure{401, "token", "send the header Authorization: Bearer TOKEN"}
	}
	token, bearer := strings.CutPrefix(given[0], "Bearer ")
	who, known := s.clients.Load().Of(token)
	switch {
	case len(given) > 1 || !bearer || !known:
		return tokens.Client{}, &failure{401, "token", "the token is unknown"}
	case right == mayAppend && !who.MayAppend:
		return tokens.Client{}, &failure{403, "forbidden", fmt.Sprintf("the client %q may only read", who.Name)}
	}
	return who, nil
}

// checkpoint returns the newest checkpoint.
func (s *server) checkpoint() (ledger.Checkpoint, *failure) {
	n := &s.newest
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.at) > newestTime {
		n.c, n.f = s.readCheckpoint()
		n.at = time.Now()
	}
	return n.c, n.f
}

func (s *server) readCheckpoint() (ledger.Checkpoint, *failure) {
	text, err := s.store.Resource("checkpoint")
	if errors.Is(err, fs.ErrNotExist) {
		return ledger.Checkpoint{}, busy("the log has no checkpoint yet")
	}
	var c ledger.Checkpoint
	if err == nil {
		c, err = ledger.ParseCheckpoint(text)
	}
	if err != nil {
		s.log.Complain("the checkpoint cannot be read", err)
		return c, storageFailed()
	}
	if c.Size == 0 {
		return c, busy("the log has no checkpoint yet")
	}
	return c, nil
}

// getOrigin sends origin.json. Another server may have changed it since this one started.
func (s *server) getOrigin(w http.ResponseWriter) *failure {
	text, err := s.store.Document(ledger.NameOrigin)
	if errors.Is(err, fs.ErrNotExist) {
		return busy("the log has no entry yet")
	}
	if err != nil {
		s.log.Complain("origin.json cannot be read", err)
		return storageFailed()
	}
	w.Header().Set("Cache-Control", "no-cache")
	send(w, 200, contentJSON, text)
	return nil
}

func (s *server) getCheckpoint(w http.ResponseWriter) *failure {
	c, f := s.checkpoint()
	if f != nil {
		return f
	}
	w.Header().Set("Cache-Control", "no-cache")
	send(w, 200, "text/plain; charset=utf-8", c.Note)
	return nil
}

// getTile sends a tile that the checkpoint covers. Another one may still change.
func (s *server) getTile(w http.ResponseWriter, path string) *failure {
	rest := strings.TrimPrefix(path, "tile/")
	if entries, ok := strings.CutPrefix(rest, "entries/"); ok {
		rest = "data/" + entries
	}
	t, err := tlog.ParseTilePath("tile/8/" + rest)
	if err != nil || ledger.TilePath(t) != path {
		return missing("there is no such tile")
	}
	if !s.files.enter() {
		return busy("too many tiles are read")
	}
	defer s.files.leave()
	c, f := s.checkpoint()
	if f != nil {
		return f
	}
	nodes := c.Size >> (ledger.TileHeight * min(max(t.L, 0), 7)) // of that level
	if t.L > 7 || t.N > nodes/ledger.TileWidth {
		return missing("the checkpoint does not cover this tile")
	}
	covered := t // as wide as the tree has it
	covered.W = int(min(nodes-t.N*ledger.TileWidth, ledger.TileWidth))
	if t.W > covered.W {
		return missing("the checkpoint does not cover this tile")
	}
	b, err := s.readTile(t, covered)
	if errors.Is(err, fs.ErrNotExist) {
		return missing("there is no such tile")
	}
	if err != nil {
		s.log.Complain("a tile cannot be read", err)
		return storageFailed()
	}
	w.Header().Set("Cache-Control", "no-cache")
	if t.W == ledger.TileWidth {
		who := "private"
		if s.public {
			who = "public"
		}
		w.Header().Set("Cache-Control", who+", max-age=31536000, immutable")
	}
	send(w, 200, "application/octet-stream", b)
	return nil
}

// readTile reads a tile, or the start of a wider one: Tessera makes tiles as wide as the
// tree was after each batch, and removes them when they are full.
func (s *server) readTile(t, covered tlog.Tile) ([]byte, error) {
	b, err := s.store.Resource(ledger.TilePath(t))
	for _, width := range []int{covered.W, ledger.TileWidth} {
		if !errors.Is(err, fs.ErrNotExist) {
			return b, err
		}
		covered.W = width
		if b, err = s.store.Resource(ledger.TilePath(covered)); err == nil {
			return storage.Part(t, b)
		}
	}
	return nil, err
}

func (s *server) getRun(w http.ResponseWriter, runID string) *failure {
	if f := s.writer.refusal(); f != nil {
		return f
	}
	if s.writer.underway.has(runID) {
		return busy("a record of this run is being recorded")
	}
	list, err := (*s.writer.claims.Load()).Indexes(runID)
	if err != nil {
		s.log.Complain("the entries of a run cannot be found", err)
		return storageFailed()
	}
	s.json(w, 200, runWire{list})
	return nil
}

func (s *server) getBlob(w http.ResponseWriter, r *http.Request, digits string) *failure {
	hash := canon.ContentHash("sha256:" + digits)
	if !hash.Valid() {
		return missing("a blob has a name of 64 lower-case hex digits")
	}
	if !s.blobs.enter() {
		return busy("too many blobs are read and written")
	}
	defer s.blobs.leave()
	content, size, err := s.store.Blob(hash)
	if errors.Is(err, fs.ErrNotExist) {
		return missing("there is no such blob")
	}
	if err != nil {
		s.log.Complain("a blob cannot be read", err)
		return storageFailed()
	}
	defer content.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	w.WriteHeader(200)
	if r.Method == http.MethodGet {
		_, _ = io.CopyN(w, content, size) // a short answer shows the client that it failed
	}
	return nil
}

func (s *server) putBlob(w http.ResponseWriter, r *http.Request, digits string) *failure {
	hash := canon.ContentHash("sha256:" + digits)
	if !hash.Valid() {
		return &failure{422, "record", "the path names no hash: 64 lower-case hex digits"}
	}
	if f := s.writer.refusal(); f != nil {
		return f
	}
	large := &failure{413, "large", fmt.Sprintf("a blob has at most %d bytes", ledger.MaxBlobBytes)}
	if r.ContentLength > ledger.MaxBlobBytes {
		return large
	}
	if !s.blobs.enter() {
		return busy("too many blobs are read and written")
	}
	defer s.blobs.leave()
	err := s.store.PutBlob(hash, http.MaxBytesReader(w, r.Body, ledger.MaxBlobBytes))
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
		return nil
	case errors.As(err, new(*http.MaxBytesError)):
		return large
	case errors.Is(err, storage.ErrHash):
		return &failure{422, "record", "the SHA-256 of the body is not the one in the path"}
	case errors.As(err, new(*storage.ReadError)):
		return &failure{400, "request", "the body was not received completely"}
	}
	s.log.Complain("a blob was not written", err)
	return storageFailed()
}

func (s *server) postRecord(w http.ResponseWriter, r *http.Request, who tokens.Client) *failure {
	if f := s.writer.refusal(); f != nil {
		return f
	}
	// After the body the server goes on reading, to notice that the client has gone.
	deadline := http.NewResponseController(w).SetReadDeadline
	_ = deadline(time.Now().Add(recordTime)) // net/http has this call for HTTP/1 and HTTP/2
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, ledger.MaxEntryBytes))
	if errors.As(err, new(*http.MaxBytesError)) {
		return &failure{413, "large", fmt.Sprintf("a record has at most %d bytes", ledger.MaxEntryBytes)}
	}
	if err != nil {
		return &failure{400, "request", "the body was not received completely"}
	}
	_ = deadline(time.Now().Add(recordTime + answerTime))
	record, err := ledger.ParseDraft(body)
	if err != nil {
		return notRecord(err)
	}
	record.Submitter = who.Name
	d := &draft{record: record, evidence: true}
	if record.Kind == ledger.KindDecision {
		if d.evidence, err = s.store.HasBlob(record.Evidence); err != nil {
			s.log.Complain("a blob cannot be read", err)
			return storageFailed()
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	out := s.writer.submit(ctx, d)
	if out.failure != nil {
		return out.failure
	}
	s.json(w, 200, ledger.Recorded{Ack: string(out.ack), Again: out.again, Entry: string(out.entry), Index: out.index})
	return nil
}

func discard() *log.Logger { return log.New(io.Discard, "", 0) }
