package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/specs"
)

// memory is a Recorder that keeps everything in memory, and keeps the promises of the
// interface. refuse says which calls fail: "put" and a kind of blob, "append" and a kind
// of record, or "blob".
type memory struct {
	mu      sync.Mutex
	blobs   map[canon.ContentHash][]byte
	records []ledger.Record
	puts    map[string]int // by kind of blob
	refuse  func(call string) error
}

func newMemory() *memory {
	return &memory{blobs: map[canon.ContentHash][]byte{}, puts: map[string]int{}, refuse: func(string) error { return nil }}
}

// refusing fails one call.
func refusing(call string) func(string) error {
	return func(c string) error {
		if c == call {
			return errors.New("no room")
		}
		return nil
	}
}

func (m *memory) Put(blob []byte) (ledger.Blob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var doc struct{ Kind string }
	if err := json.Unmarshal(blob, &doc); err != nil {
		return ledger.Blob{}, err
	}
	m.puts[doc.Kind]++
	if err := m.refuse("put " + doc.Kind); err != nil {
		return ledger.Blob{}, err
	}
	b := ledger.Blob{SHA256: canon.Sum(blob), Size: int64(len(blob))}
	m.blobs[b.SHA256] = bytes.Clone(blob)
	return b, nil
}

func (m *memory) Append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.refuse("append "+string(rec.Kind))); err != nil {
		return ledger.Receipt{}, err
	}
	for i, old := range slices.Backward(m.records) { // the end of a run before its beginning
		switch {
		case old.RunID != rec.RunID:
		case old.Kind == rec.Kind && old.SameRun(rec):
			return ledger.Receipt{Index: int64(i), Record: old, Again: true}, nil
		case old.Kind.Ends() || old.Kind == rec.Kind:
			return ledger.Receipt{}, fmt.Errorf("run id %q is that of entry %d", rec.RunID, i)
		}
	}
	rec.Stamp(time.Unix(int64(len(m.records)), 0), "")
	if _, err := rec.Entry(); err != nil {
		return ledger.Receipt{}, err
	}
	m.records = append(m.records, rec)
	return ledger.Receipt{Index: int64(len(m.records) - 1), Record: rec}, nil
}

func (m *memory) Blob(b ledger.Blob) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.blobs[b.SHA256]
	if err := m.refuse("blob"); err != nil || !ok {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return bytes.Clone(text), nil
}

// kinds are the records that there are, a word for each.
func (m *memory) kinds() string {
	var list []string
	for _, r := range m.records {
		word := string(r.Kind)
		if r.Code != "" {
			word += ":" + r.Code
		}
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

// decided records one plan and returns its record.
func (m *memory) decided(t *testing.T, set *specs.Set, gate *Gate, src string) (Report, ledger.Record) {
	t.Helper()
	d := deps(t)
	d.Specs, d.Recorder = set, m
	rep, err := Run(t.Context(), d, gate, Request{
		Source: []byte(src), Path: "intent.json", Mode: ModePlanOnly, ModelMode: ModelNone, RunID: fmt.Sprintf("r%d", len(m.records)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return rep, m.records[len(m.records)-1]
}
