package harnesstest

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

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/specs"
)

// Memory is a Recorder in memory that keeps the promises of the interface. refuse says
// which calls fail: "put" and a kind of blob, "append" and a kind
// of record, or "blob".
type Memory struct {
	mu      sync.Mutex
	Blobs   map[canon.ContentHash][]byte
	Records []ledger.Record
	Puts    map[string]int // by kind of blob
	Refuse  func(call string) error
}

func NewMemory() *Memory {
	return &Memory{Blobs: map[canon.ContentHash][]byte{}, Puts: map[string]int{}, Refuse: func(string) error { return nil }}
}

// Refusing fails one call.
func Refusing(call string) func(string) error {
	return func(c string) error {
		if c == call {
			return errors.New("no room")
		}
		return nil
	}
}

func (m *Memory) Put(blob []byte) (ledger.Blob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var doc struct{ Kind string }
	if err := json.Unmarshal(blob, &doc); err != nil {
		return ledger.Blob{}, err
	}
	m.Puts[doc.Kind]++
	if err := m.Refuse("put " + doc.Kind); err != nil {
		return ledger.Blob{}, err
	}
	b := ledger.Blob{SHA256: canon.Sum(blob), Size: int64(len(blob))}
	m.Blobs[b.SHA256] = bytes.Clone(blob)
	return b, nil
}

func (m *Memory) Append(ctx context.Context, rec ledger.Record) (ledger.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(ctx.Err(), m.Refuse("append "+string(rec.Kind))); err != nil {
		return ledger.Receipt{}, err
	}
	for i, old := range slices.Backward(m.Records) { // the end of a run before its beginning
		switch {
		case old.RunID != rec.RunID:
		case old.Kind == rec.Kind && old.SameRun(rec):
			return ledger.Receipt{Index: int64(i), Record: old, Again: true}, nil
		case old.Kind.Ends() || old.Kind == rec.Kind:
			return ledger.Receipt{}, fmt.Errorf("run id %q is that of entry %d", rec.RunID, i)
		}
	}
	rec.Stamp(time.Unix(int64(len(m.Records)), 0), "")
	if _, err := rec.Entry(); err != nil {
		return ledger.Receipt{}, err
	}
	m.Records = append(m.Records, rec)
	return ledger.Receipt{Index: int64(len(m.Records) - 1), Record: rec}, nil
}

func (m *Memory) Blob(b ledger.Blob) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.Blobs[b.SHA256]
	if err := m.Refuse("blob"); err != nil || !ok {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return bytes.Clone(text), nil
}

// Kinds returns the kinds of the records, one word for each record.
func (m *Memory) Kinds() string {
	var list []string
	for _, r := range m.Records {
		word := string(r.Kind)
		if r.Code != "" {
			word += ":" + r.Code
		}
		list = append(list, word)
	}
	return strings.Join(list, " ")
}

// Decided records one plan and returns its record.
func (m *Memory) Decided(t *testing.T, set *specs.Set, gate *harness.Gate, src string) (harness.Report, ledger.Record) {
	t.Helper()
	d := Deps(t)
	d.Specs, d.Recorder = set, m
	rep, err := harness.Run(t.Context(), d, gate, Planned(src, fmt.Sprintf("r%d", len(m.Records))))
	if err != nil {
		t.Fatal(err)
	}
	return rep, m.Records[len(m.Records)-1]
}
