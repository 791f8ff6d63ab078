package ledger_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
	"github.com/fiador/fiador/specs"
)

var update = flag.Bool("update", false, "write the vectors of specs/vectors/ledger")

// vectorDir has the vectors; its README says what the members of each file mean.
const vectorDir = "../specs/vectors/ledger"

// spelt is a text in one of three spellings.
type spelt struct {
	Text   string  `json:"text,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
	Repeat *repeat `json:"repeat,omitempty"`
}

type repeat struct {
	Before string `json:"before"`
	Unit   string `json:"unit"`
	Times  int    `json:"times"`
	After  string `json:"after"`
}

func (s spelt) bytes() []byte {
	switch {
	case s.Base64 != nil:
		return s.Base64
	case s.Repeat != nil:
		return []byte(s.Repeat.Before + strings.Repeat(s.Repeat.Unit, s.Repeat.Times) + s.Repeat.After)
	}
	return []byte(s.Text)
}

type named struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

func (n named) about() named { return n }

type file[V any] struct {
	About   string `json:"about"`
	Vectors []V    `json:"vectors"`
}

type keyVector struct {
	named
	Private  string `json:"private"`
	Verifier string `json:"verifier"`
}

type recordVector struct {
	named
	Entry   spelt  `json:"entry"`
	Kind    string `json:"kind,omitempty"`
	Leaf    string `json:"leaf,omitempty"`
	Refused string `json:"refused,omitempty"`
}

type lineVector struct {
	named
	Line    spelt  `json:"line"`
	Size    int64  `json:"size,omitempty"`
	Root    string `json:"root,omitempty"`
	KeyID   string `json:"key_id,omitempty"`
	Leaf    string `json:"leaf,omitempty"`
	Refused bool   `json:"refused,omitempty"`
}

type keyFrom struct {
	Size int64  `json:"size"`
	Key  string `json:"key"`
}

type checkpointVector struct {
	named
	Keys       []keyFrom `json:"keys"`
	Checkpoint spelt     `json:"checkpoint"`
	Expect     string    `json:"expect"`
	Size       int64     `json:"size,omitempty"`
	Root       string    `json:"root,omitempty"`
}

type proofVector struct {
	named
	Keys   []keyFrom `json:"keys"`
	Proof  spelt     `json:"proof"`
	Expect string    `json:"expect"`
	Index  int64     `json:"index,omitempty"`
	Size   int64     `json:"size,omitempty"`
	Kind   string    `json:"kind,omitempty"`
}

type edit struct {
	File   string `json:"file"`
	Remove bool   `json:"remove,omitempty"`
	At     int    `json:"at,omitempty"`
	Cut    int    `json:"cut,omitempty"`
	Insert *spelt `json:"insert,omitempty"`
}

type openRun struct {
	Index int64  `json:"index"`
	RunID string `json:"run_id"`
}

type folderVector struct {
	named
	Log     string    `json:"log"`
	Edits   []edit    `json:"edits"`
	Check   []string  `json:"check"`
	Trust   string    `json:"trust,omitempty"`
	Keep    []spelt   `json:"keep,omitempty"`
	Verdict string    `json:"verdict"`
	Index   *int64    `json:"index,omitempty"`
	Entries int64     `json:"entries,omitempty"`
	Torn    int64     `json:"torn,omitempty"`
	Open    []openRun `json:"open,omitempty"`
	Key     string    `json:"key"`
	Append  string    `json:"append,omitempty"`
	Repairs []string  `json:"repairs,omitempty"`
}

type copyOf struct {
	Log   string `json:"log"`
	Edits []edit `json:"edits"`
}

type compareVector struct {
	named
	A      copyOf `json:"a"`
	B      copyOf `json:"b"`
	Common int64  `json:"common"`
	Forked bool   `json:"forked"`
}

// load reads a file of vectors. The file is plain ASCII without unknown members. Every
// vector has a unique name and a reason.
func load[V interface{ about() named }](t *testing.T, name string) []V {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(vectorDir, name))
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", name, i)
	}
	var f file[V]
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	seen := map[string]bool{}
	for _, v := range f.Vectors {
		n := v.about()
		if n.Name == "" || n.Why == "" || seen[n.Name] {
			t.Fatalf("%s: %q is named twice or says not why", name, n.Name)
		}
		seen[n.Name] = true
	}
	if len(f.Vectors) == 0 || f.About == "" {
		t.Fatalf("%s is empty", name)
	}
	return f.Vectors
}

// testKeys are the keys of the vectors by name.
func testKeys(t *testing.T) map[string]*ledger.Signer {
	t.Helper()
	keys := map[string]*ledger.Signer{}
	for _, k := range load[keyVector](t, "keys.json") {
		s, err := ledger.ParseSigner(k.Private)
		if err != nil || s.Verifier().String() != k.Verifier {
			t.Fatalf("key %q: %v", k.Name, err)
		}
		keys[k.Name] = s
	}
	return keys
}

func keysOf(t *testing.T, list []keyFrom) ledger.Keys {
	t.Helper()
	signers := testKeys(t)
	var keys ledger.Keys
	for _, k := range list {
		keys = append(keys, ledger.KeyFrom{Size: k.Size, Key: signers[k.Key].Verifier()})
	}
	return keys
}

// TestRecordVectors reads every record, also by the schema.
func TestRecordVectors(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range load[recordVector](t, "records.json") {
		entry := v.Entry.bytes()
		rec, err := ledger.ParseRecord(entry)
		refused := verdictOf(t, set, entry)
		if (err != nil) != (v.Refused != "") || refused != v.Refused {
			t.Errorf("%s: %v, refused for %q, want %q", v.Name, err, refused, v.Refused)
			continue
		}
		if err != nil {
			continue
		}
		leaf := ledger.LeafHash(entry)
		back, err := rec.Entry()
		if err != nil || !bytes.Equal(back, entry) || string(rec.Kind) != v.Kind || hex.EncodeToString(leaf[:]) != v.Leaf {
			t.Errorf("%s: kind %s, leaf %x, read back as %s (%v)", v.Name, rec.Kind, leaf, back, err)
		}
	}
}

// TestLineVectors reads every line.
func TestLineVectors(t *testing.T) {
	for _, v := range load[lineVector](t, "lines.json") {
		b := v.Line.bytes()
		l, err := ledger.ParseLine(b)
		if (err != nil) != v.Refused {
			t.Errorf("%s: %v", v.Name, err)
		}
		if err != nil {
			continue
		}
		leaf := ledger.LeafHash(l.Entry)
		if l.Seal.Size != v.Size || l.Seal.Root.String() != v.Root || hex.EncodeToString(l.Seal.Sig[:4]) != v.KeyID ||
			hex.EncodeToString(leaf[:]) != v.Leaf || string(l.Append(nil)) != string(b)+"\n" {
			t.Errorf("%s: got %+v", v.Name, l)
		}
	}
}

// outcome describes an error about a signed text.
func outcome(err error) string {
	for word, is := range map[string]error{
		"unknown-key": ledger.ErrUnknownKey, "bad-signature": ledger.ErrBadSignature, "malformed": ledger.ErrCheckpoint,
		"wrong": ledger.ErrProof, "not-a-record": ledger.ErrRecord,
	} {
		if errors.Is(err, is) {
			return word
		}
	}
	if err != nil {
		return err.Error()
	}
	return "right"
}

// TestCheckpointVectors opens every checkpoint.
func TestCheckpointVectors(t *testing.T) {
	for _, v := range load[checkpointVector](t, "checkpoints.json") {
		c, err := keysOf(t, v.Keys).OpenCheckpoint(v.Checkpoint.bytes())
		if got := outcome(err); got != v.Expect {
			t.Errorf("%s: %s, want %s", v.Name, got, v.Expect)
		}
		if err == nil && (c.Size != v.Size || c.Root.String() != v.Root) {
			t.Errorf("%s: got %d %s", v.Name, c.Size, c.Root)
		}
	}
}

// TestProofVectors checks every proof.
func TestProofVectors(t *testing.T) {
	for _, v := range load[proofVector](t, "proofs.json") {
		got, kind := "malformed", ""
		p, err := ledger.ParseProof(v.Proof.bytes())
		if err == nil {
			if !bytes.Equal(p.Marshal(), v.Proof.bytes()) {
				t.Errorf("%s: is written with other bytes", v.Name)
			}
			rec, c, err := keysOf(t, v.Keys).CheckProof(p)
			if got, kind = outcome(err), string(rec.Kind); err == nil && (p.Index != v.Index || c.Size != v.Size) {
				t.Errorf("%s: entry %d of %d", v.Name, p.Index, c.Size)
			}
		}
		if got != v.Expect || got == "right" && kind != v.Kind {
			t.Errorf("%s: %s %s, want %s %s", v.Name, got, kind, v.Expect, v.Kind)
		}
	}
}

// make writes a copy of a log with its edits.
func (c copyOf) make(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ledger")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(vectorDir, c.Log))); err != nil {
		t.Fatal(err)
	}
	for _, e := range c.Edits {
		name := filepath.Join(dir, filepath.FromSlash(e.File))
		if e.Remove {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		var insert []byte
		if e.Insert != nil {
			insert = e.Insert.bytes()
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, slices.Replace(text, e.At, e.At+e.Cut, insert...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFolderVectors verifies every folder, and appends to it.
func TestFolderVectors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a ledger is written on Linux alone")
	}
	keys := testKeys(t)
	for _, v := range load[folderVector](t, "folders.json") {
		dir := copyOf{v.Log, v.Edits}.make(t)
		o := ledger.AuditOptions{
			Seals: slices.Contains(v.Check, "seals"), Tiles: slices.Contains(v.Check, "tiles"), Evidence: slices.Contains(v.Check, "evidence"),
		}
		for _, text := range v.Keep {
			o.Since = append(o.Since, ledger.Promise{Name: "the kept checkpoint", Checkpoint: ledger.Checkpoint{Note: text.bytes()}})
		}
		var trusted *ledger.Verifier
		if v.Trust != "" {
			key := keys[v.Trust].Verifier()
			trusted = &key
		}
		a, err := disk.Audit(context.Background(), dir, trusted, o)
		verdict, index := folderVerdict(a, err)
		if verdict != v.Verdict || !equal(index, v.Index) {
			t.Errorf("%s: %s at %s (%v), want %s at %s", v.Name, verdict, show(index), err, v.Verdict, show(v.Index))
		}
		if err == nil {
			var open []openRun
			for _, r := range a.Open {
				open = append(open, openRun{r.Index, r.RunID})
			}
			if a.Size != v.Entries || a.Torn != v.Torn || !slices.Equal(open, v.Open) {
				t.Errorf("%s: %d entries, %d bytes torn, open %v", v.Name, a.Size, a.Torn, open)
			}
		}
		if v.Append == "" {
			continue
		}
		if did, repairs := tryAppend(t, v.Name, dir, keys[v.Key]); did != v.Append || !slices.Equal(repairs, v.Repairs) {
			t.Errorf("%s: an append %s, repairs %q; want %s, %q", v.Name, did, repairs, v.Append, v.Repairs)
		}
		if v.Verdict != "clean" && v.Verdict != "unsigned" || v.Append != "appends" {
			continue
		}
		if a, err := disk.Audit(context.Background(), dir, trusted, o); err != nil || a.Torn > 0 || a.Size != a.Checkpoint.Size || a.Unsigned {
			t.Errorf("%s: after an append %+v, %v", v.Name, a, err)
		}
	}
}

func equal(a, b *int64) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func show(index *int64) string {
	b, _ := json.Marshal(index)
	return string(b)
}

func folderVerdict(a ledger.Audited, err error) (string, *int64) {
	var fault *ledger.Fault
	switch {
	case errors.As(err, &fault) && fault.Index >= 0:
		return "tampered", &fault.Index
	case errors.As(err, &fault), errors.Is(err, ledger.ErrBadSignature):
		return "tampered", nil
	case err != nil:
		return "undecided", nil
	case len(a.Wrong) > 0:
		return "wrong-tiles", nil
	case len(a.Altered) > 0:
		return "evidence-corrupt", &a.Altered[0]
	case len(a.Absent) > 0:
		return "evidence-missing", &a.Absent[0]
	case a.Unsigned:
		return "unsigned", nil
	}
	return "clean", nil
}

// tryAppend appends an error record, and says whether that worked and what was repaired.
func tryAppend(t *testing.T, name, dir string, key *ledger.Signer) (did string, repairs []string) {
	t.Helper()
	log, err := disk.Open(dir, key, disk.Options{Now: func() time.Time { return vectorTime.Add(time.Hour) }})
	if err != nil {
		return "refuses", nil
	}
	defer log.Close()
	r, err := log.Append(context.Background(), errorRecord("run-appended"))
	if err != nil {
		return "refuses", nil
	}
	reader, err := disk.Read(dir)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer reader.Close()
	for i := r.Index; ; i-- {
		e, err := reader.Entry(context.Background(), i)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range e.Record.Repairs {
			repairs = append(repairs, p.What)
		}
		if i < r.Index {
			break
		}
	}
	return "appends", repairs
}

// TestCompareVectors compares two copies.
func TestCompareVectors(t *testing.T) {
	for _, v := range load[compareVector](t, "compare.json") {
		a, err := disk.Read(v.A.make(t))
		if err != nil {
			t.Fatal(err)
		}
		b, err := disk.Read(v.B.make(t))
		if err != nil {
			t.Fatal(err)
		}
		c, err := ledger.Compare(context.Background(), a, b, nil)
		if err != nil || c.Common != v.Common || c.Forked != v.Forked {
			t.Errorf("%s: %d in common, forked %t (%v)", v.Name, c.Common, c.Forked, err)
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	}
}

// verdictOf says why an entry is refused, without ParseRecord: it is not canonical, the
// schema refuses it, or it breaks a rule outside the schema.
func verdictOf(t *testing.T, set *specs.Set, entry []byte) string {
	t.Helper()
	doc, err := canon.Parse(entry, ledger.MaxEntryBytes)
	narrow := bytes.IndexFunc(entry, func(r rune) bool { return r < 0x20 || r > 0x7e || r == '\\' }) < 0
	if err != nil || !narrow || !bytes.Equal(doc.Bytes(), entry) {
		return "form"
	}
	violations, err := set.Validate(specs.KindLedgerRecord, doc.Value())
	if err != nil {
		t.Fatal(err)
	}
	if len(violations) > 0 {
		return "schema"
	}
	if !keepsRules(doc.Value().(map[string]any)) {
		return "rule"
	}
	return ""
}

// keepsRules says whether a record that the schema accepts keeps the rules that
// specs/ledger.md lists beneath the table of members.
func keepsRules(m map[string]any) bool {
	if _, sealed := m["_seal"]; sealed {
		return false
	}
	if _, err := time.Parse(time.RFC3339, m["timestamp"].(string)); err != nil {
		return false
	}
	if key, ok := m["key"].(string); ok {
		if _, err := ledger.ParseVerifier(key); err != nil {
			return false
		}
	}
	if origin, ok := m["origin"].(string); ok && strings.HasSuffix(origin, "/seal") {
		return false
	}
	repairs, _ := m["repairs"].([]any)
	for _, r := range repairs {
		r := r.(map[string]any)
		if _, has := r["sha256"]; has != (r["what"] == "torn-tail") {
			return false
		}
	}
	_, accepted := m["accepted"]
	if _, kind := m["result_kind"]; accepted != kind {
		return false
	}
	if m["kind"] != "decision" {
		return true
	}
	reasons := m["reasons"].([]any)
	for i := 1; i < len(reasons); i++ {
		if reasons[i-1].(string) >= reasons[i].(string) {
			return false
		}
	}
	if (m["bundle_sha256"] == nil) != (m["result_kind"] == "REFUSE") {
		return false
	}
	return m["accepted"] == false || m["result_kind"] == "BUNDLE" && len(reasons) == 0
}

// base64Of is standard base64.
func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
