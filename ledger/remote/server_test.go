package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// server is a server of one log in memory. It does what specs/ledger-server.md says, unless a
// test makes it lie.
type server struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	key      *ledger.Signer
	keys     ledger.Keys
	entries  [][]byte
	stored   []tlog.Hash
	evidence map[string][]byte
	hidden   int // the checkpoint does not cover the last ones
	asked    map[string]int
	heads    []http.Header
	// lie answers a request instead of the server, and says that it did.
	lie func(w http.ResponseWriter, r *http.Request) bool
	// twist changes the answer to a record.
	twist func(*ledger.Recorded)
}

// signer returns a key of a log, the same for the same number.
func signer(t testing.TB, origin string, n byte) *ledger.Signer {
	t.Helper()
	var seed [32]byte
	seed[0] = n
	private, _, err := ledger.GenerateKey(rand.NewChaCha8(seed), origin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ledger.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve starts a server with a log of one entry.
func serve(t testing.TB) *server {
	t.Helper()
	key := signer(t, "example.com/log", 1)
	s := &server{t: t, key: key, keys: ledger.Keys{{Size: 1, Key: key.Verifier()}}, evidence: map[string][]byte{}, asked: map[string]int{}}
	genesis := ledger.Record{Kind: ledger.KindGenesis, Format: ledger.Format, Origin: key.Origin(), Key: key.Verifier().String()}
	genesis.Stamp(start, "")
	s.add(genesis)
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

var start = time.Date(2026, 1, 5, 10, 15, 0, 0, time.UTC)

func (s *server) add(rec ledger.Record) (entry []byte) {
	entry, err := rec.Entry()
	if err != nil {
		s.t.Error(err)
	}
	more, err := tlog.StoredHashesForRecordHash(int64(len(s.entries)), ledger.LeafHash(entry), s.hashes())
	if err != nil {
		s.t.Error(err)
	}
	s.entries, s.stored = append(s.entries, entry), append(s.stored, more...)
	return entry
}

// fill adds decisions until the log has so many entries.
func (s *server) fill(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.entries); i < size; i++ {
		rec := decision(fmt.Sprintf("run-%d", i))
		rec.Stamp(start.Add(time.Duration(i)*time.Second), "")
		s.add(rec)
	}
}

// cut removes the entries from an index on.
func (s *server) cut(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.stored = s.entries[:size], s.stored[:tlog.StoredHashCount(int64(size))]
}

func (s *server) hashes() tlog.HashReaderFunc {
	return func(indexes []int64) ([]tlog.Hash, error) {
		var out []tlog.Hash
		for _, i := range indexes {
			out = append(out, s.stored[i])
		}
		return out, nil
	}
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/")
	s.asked[r.Method+" "+path]++
	s.heads = append(s.heads, r.Header.Clone())
	if s.lie != nil && s.lie(w, r) {
		return
	}
	missing := func() { refuse(w, http.StatusNotFound, "missing") }
	switch at, rest, _ := strings.Cut(path, "/"); {
	case path == "checkpoint":
		size := int64(len(s.entries) - s.hidden)
		root, err := tlog.TreeHash(size, s.hashes())
		if err != nil {
			s.t.Error(err)
		}
		c, err := s.key.Checkpoint(size, root)
		if err != nil {
			s.t.Error(err)
		}
		w.Write(c.Note)
	case path == ledger.NameOrigin:
		b, err := s.keys.Marshal()
		if err != nil {
			s.t.Error(err)
		}
		w.Write(b)
	case at == "tile":
		s.tile(w, rest)
	case strings.HasPrefix(path, "v1/runs/"):
		doc := struct {
			Indexes []int64 `json:"indexes"`
		}{[]int64{}}
		for i, e := range s.entries {
			if bytes.Contains(e, []byte(`"run_id":"`+path[len("v1/runs/"):]+`"`)) {
				doc.Indexes = append(doc.Indexes, int64(i))
			}
		}
		_ = json.NewEncoder(w).Encode(doc)
	case strings.HasPrefix(path, "v1/evidence/") && r.Method == http.MethodPut:
		b, _ := io.ReadAll(r.Body)
		s.evidence[path[len("v1/evidence/"):]] = b
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(path, "v1/evidence/"):
		if b, ok := s.evidence[path[len("v1/evidence/"):]]; ok {
			w.Write(b)
			return
		}
		missing()
	case path == "v1/records" && r.Method == http.MethodPost:
		s.record(w, r)
	default:
		missing()
	}
}

// times returns how often something was asked.
func (s *server) times(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "{\"error\":%q,\"message\":\"said by the server\"}\n", code)
}

// tile answers with a tile of hashes or of entries.
func (s *server) tile(w http.ResponseWriter, path string) {
	width := ledger.TileWidth
	if whole, part, partial := strings.Cut(path, ".p/"); partial {
		width, _ = strconv.Atoi(part)
		path = whole
	}
	level, number, _ := strings.Cut(path, "/")
	n, err := strconv.ParseInt(strings.NewReplacer("x", "", "/", "").Replace(number), 10, 64)
	if err != nil {
		s.t.Errorf("tile %q", path)
	}
	if level == "entries" {
		var b []byte
		for i := n * ledger.TileWidth; i < n*ledger.TileWidth+int64(width); i++ {
			if i >= int64(len(s.entries)) {
				refuse(w, http.StatusNotFound, "missing")
				return
			}
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(s.entries[i]))), s.entries[i]...)
		}
		w.Write(b)
		return
	}
	l, _ := strconv.Atoi(level)
	if (n*ledger.TileWidth+int64(width))<<(ledger.TileHeight*l) > int64(len(s.entries)) {
		refuse(w, http.StatusNotFound, "missing")
		return
	}
	b, err := tlog.ReadTileData(tlog.Tile{H: ledger.TileHeight, L: l, N: n, W: width}, s.hashes())
	if err != nil {
		s.t.Error(err)
	}
	w.Write(b)
}

// record records a draft.
func (s *server) record(w http.ResponseWriter, r *http.Request) {
	draft, _ := io.ReadAll(r.Body)
	rec, err := ledger.ParseDraft(draft)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "record")
		return
	}
	doc := ledger.Recorded{Index: -1}
	for i, entry := range s.entries {
		old, err := ledger.ParseRecord(entry)
		if err != nil {
			s.t.Error(err)
		}
		if old.RunID != rec.RunID {
			continue
		}
		same, err := rec.After(old, int64(i))
		if err != nil {
			refuse(w, http.StatusConflict, "conflict")
			return
		}
		if same {
			doc = ledger.Recorded{Again: true, Entry: string(entry), Index: int64(i)}
		}
	}
	if doc.Index < 0 {
		rec.Stamp(start.Add(time.Duration(len(s.entries))*time.Second), "")
		rec.Submitter = "ci"
		doc = ledger.Recorded{Entry: string(s.add(rec)), Index: int64(len(s.entries) - 1)}
	}
	doc.Ack = s.ack(doc.Index, doc.Entry)
	if s.twist != nil {
		s.twist(&doc)
	}
	_ = json.NewEncoder(w).Encode(doc)
}

func (s *server) ack(index int64, entry string) string {
	a, err := s.key.Ack(index, ledger.LeafHash([]byte(entry)))
	if err != nil {
		s.t.Error(err)
	}
	return string(a.Note)
}

// place returns the log's place, with a state folder of the test.
func (s *server) place(t testing.TB, state string) Place {
	t.Helper()
	return Place{
		URL: s.URL, Key: s.keys[0].Key, Token: secretToken, State: state,
		Wait: time.Minute, Cover: 200 * time.Millisecond,
	}
}

var secretToken = base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

func hashOf(n byte) canon.ContentHash { return canon.Sum([]byte{n}) }

// decision returns a decision of a run.
func decision(runID string) ledger.Record {
	return ledger.Record{
		Kind: ledger.KindDecision, RunID: runID, IntentSHA256: hashOf(1), ExecutionMode: "plan-only", Mode: "none",
		Policy: "default", PolicySHA256: hashOf(2), InputSHA256: hashOf(3), BundleSHA256: hashOf(4), Kernel: "0.1.0",
		ResultKind: "BUNDLE", Accepted: true, DecisionSHA256: hashOf(5), CanonicalSHA256: hashOf(6), ResultSHA256: hashOf(7),
		Evidence: ledger.Blob{SHA256: canon.Sum([]byte("evidence")), Size: 8},
	}
}

// begun returns a begun record of a run.
func begun(runID string) ledger.Record {
	return ledger.Record{
		Kind: ledger.KindBegun, RunID: runID, IntentSHA256: hashOf(1), ExecutionMode: "execute-sandbox", Mode: "none",
		Policy: "default", PolicySHA256: hashOf(2), InputSHA256: hashOf(3), BundleSHA256: hashOf(4), Kernel: "0.1.0",
	}
}
