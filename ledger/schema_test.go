package ledger_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
	"github.com/fiador/fiador/specs/specstest/second"
)

// TestSchemaAgrees: ParseRecord reads exactly the canonical entries that the schema
// accepts and that keep the rules outside the schema. The test uses all vectors and
// thousands of records made from them: with foreign, removed, added and changed members,
// and changed bytes.
func TestSchemaAgrees(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	var entries [][]byte
	var docs []map[string]any
	values := []any{nil, true, false, 0.0, 1.0, 9007199254740991.0, "", "a", " ", "EXIT 1", "EXIT one", "a/b", strings.Repeat("x", 200), []any{}, []any{"B", "A"}, map[string]any{}, map[string]any{"version": "1"}}
	for _, v := range load[recordVector](t, "records.json") {
		entry := v.Entry.bytes()
		entries = append(entries, entry)
		if doc, err := canon.Parse(entry, ledger.MaxEntryBytes); err == nil && v.Refused != "form" {
			if m, ok := doc.Value().(map[string]any); ok {
				docs = append(docs, m)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	var names []string
	for _, d := range docs {
		for name := range d {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for range 6000 {
		doc := map[string]any{}
		for name, v := range docs[r.IntN(len(docs))] {
			doc[name] = v
		}
		for range 1 + r.IntN(2) {
			name, other := names[r.IntN(len(names))], docs[r.IntN(len(docs))]
			switch v, has := other[name]; r.IntN(4) {
			case 0:
				delete(doc, name)
			case 1:
				doc[name] = values[r.IntN(len(values))]
			default:
				if has {
					doc[name] = v
				}
			}
		}
		b, err := canon.Canonical(doc)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(4) == 0 {
			b = spoilt(r, b)
		}
		entries = append(entries, b)
	}
	tally := map[string]int{}
	for _, e := range entries {
		_, err := ledger.ParseRecord(e)
		refused := verdictOf(t, set, e)
		if tally[refused]++; (err == nil) != (refused == "") {
			t.Errorf("%s\nParseRecord: %v; schema and rules: %q", e, err, refused)
		}
	}
	for _, class := range []string{"", "schema", "rule", "form"} {
		if tally[class] < 100 {
			t.Errorf("only %d entries were refused for %q", tally[class], class)
		}
	}
}

// spoilt changes a byte of a text.
func spoilt(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	at := r.IntN(len(b))
	switch c := byte(r.IntN(256)); r.IntN(3) {
	case 0:
		b[at] = c
	case 1:
		return slices.Insert(b, at, c)
	default:
		return slices.Delete(b, at, at+1)
	}
	return b
}

// TestRecomputedLeaves: the shell lines of specs/ledger.md compute, with jq and
// sha256sum, the same leaf hash of every line of the vectors as this package. The tile
// of level 0 has the same hashes.
func TestRecomputedLeaves(t *testing.T) {
	for _, tool := range []string{"jq", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	page, err := os.ReadFile("../specs/ledger.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Recompute\n")
	_, rest, _ = strings.Cut(rest, "\n```sh\n")
	script, _, ok := strings.Cut(rest, "\n```\n")
	if !ok {
		t.Fatal("the page has no shell lines beneath Recompute")
	}
	dir, err := filepath.Abs(vectorDir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = filepath.Join(dir, "log")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "log", "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	var hashes []byte
	n := 0
	for line := range bytes.Lines(text) {
		l, err := ledger.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		leaf := ledger.LeafHash(l.Entry)
		fmt.Fprintf(&want, "%s\n", hex.EncodeToString(leaf[:]))
		hashes = append(hashes, leaf[:]...)
		n++
	}
	if string(out) != want.String() {
		t.Errorf("the shell says\n%swant\n%s", out, want.String())
	}
	tile, err := os.ReadFile(filepath.Join(dir, "published", filepath.FromSlash(ledger.TilePath(tlog.Tile{H: 8, W: n}))))
	if err != nil || !bytes.Equal(tile, hashes) {
		t.Errorf("the tile of level 0 has other hashes (%v)", err)
	}
}

// TestLinesFitTheSchema: two validators accept each line of the vectors' logs as it stands
// in the file, and refuse it with a seal that ParseLine refuses too.
func TestLinesFitTheSchema(t *testing.T) {
	set, another := specstest.NewSpecs(t), second.Schema(t, specs.KindLedgerRecord)
	fits := func(line []byte) bool {
		doc, err := canon.ParseCanonical(line, ledger.MaxEntryBytes+1024)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list, err := set.Validate(specs.KindLedgerRecord, doc.Value())
		if err != nil {
			t.Fatal(err)
		}
		if other := another.Validate(doc.Value()); (other == nil) != (len(list) == 0) {
			t.Errorf("%s\nthe second validator: %v; ours: %v", line, other, list)
		}
		return len(list) == 0
	}
	kinds := map[string]bool{}
	for _, log := range []string{"log", "fork", "wide"} {
		text, err := os.ReadFile(filepath.Join(vectorDir, log, "ledger.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			l, err := ledger.ParseLine(line)
			if err != nil || !fits(line) {
				t.Errorf("%s: line %s does not fit (%v)", log, line, err)
			}
			_, kind, _ := strings.Cut(string(l.Entry), `"kind":"`)
			kind, _, _ = strings.Cut(kind, `"`)
			if kinds[kind] {
				continue
			}
			kinds[kind] = true
			for _, change := range [][2]string{
				{`"root":"`, `"root":"A`}, {`"sig":"`, `"sig":"A`}, {`"size":`, `"size":-`}, {`"root"`, `"rood"`}, {`"_seal":{`, `"_seal":{"more":1,`},
			} {
				spoilt := bytes.Replace(line, []byte(change[0]), []byte(change[1]), 1)
				if _, err := ledger.ParseLine(spoilt); err == nil || fits(spoilt) {
					t.Errorf("%s fits (%v)", spoilt, err)
				}
			}
		}
	}
	if len(kinds) != 6 {
		t.Errorf("the logs have records of %d kinds", len(kinds))
	}
}
