package sign

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/packtest"
	"github.com/fiador/fiador/ledger"
)

// TestNotRecorded: each rule about a ledger's statements.
func TestNotRecorded(t *testing.T) {
	log := packtest.Signer(t, "example.com/log")
	good := pack.Of(unsigned(t, log))
	lines := bytes.SplitAfter(good.File(pack.LedgerFile), []byte("\n"))[:2]
	receipt := metaOf(t, good)["receipt"].(string)
	changed := func(change func(meta map[string]any)) *pack.Pack { return withMeta(t, good, change) }
	text := func(parts ...[]byte) *pack.Pack { return packtest.With(good, pack.LedgerFile, bytes.Join(parts, nil)) }
	_, elsewhere := recordedRun(t, log, aRun("two"))
	foreign := packtest.Signer(t, "example.com/other")
	foreignLines, foreignReceipt := recordedRun(t, foreign, aRun("one"))
	imitated := newKeyOf(t, "example.com/log", 7) // of the same name
	_, imitatedReceipt := recordedRun(t, imitated, aRun("one"))
	swap := func(old, new string) []byte { return []byte(strings.Replace(string(lines[1]), old, new, 1)) }
	for name, c := range map[string]struct {
		pack *pack.Pack
		want string
	}{
		"no lines":           {packtest.With(good, pack.LedgerFile, nil), "SG8 ledger.jsonl: no complete line"},
		"empty":              {text(), "SG8 ledger.jsonl: no complete line"},
		"torn":               {text(lines[0], lines[1][:len(lines[1])-1]), "SG8 ledger.jsonl: no complete line"},
		"many lines":         {text(bytes.Repeat([]byte("\n"), 65)), "SG8 ledger.jsonl: more than 64 lines"},
		"no decision":        {text(lines[0]), "SG8 ledger.jsonl: no line of a decision"},
		"twice":              {text(lines[1], lines[1]), "SG8 ledger.jsonl#/1: the seal is of a tree that is not larger"},
		"reordered":          {text(lines[1], lines[0]), "SG8 ledger.jsonl#/1: the seal is of a tree that is not larger"},
		"not a line":         {text([]byte("{}\n")), "SG8 ledger.jsonl#/0: not a ledger line"},
		"other key":          {packtest.With(good, pack.LedgerFile, foreignLines), "SG8 ledger.jsonl#/0: the seal is signed with another key than"},
		"altered seal":       {text(lines[0], swap(`"size":3`, `"size":4`)), "SG8 ledger.jsonl#/1: the seal is not signed by"},
		"not a record":       {text(lines[0], swap(`"kind":"decision"`, `"kind":"decisive"`)), "SG8 ledger.jsonl#/1: "},
		"no receipt":         {changed(func(m map[string]any) { delete(m, "receipt") }), "SG9 meta.json: no receipt"},
		"no meta.json":       {packtest.With(good, pack.MetaFile, nil), "SG9 meta.json: no receipt"},
		"not a proof":        {changed(func(m map[string]any) { m["receipt"] = "x" }), "SG9 meta.json#/receipt: not a proof"},
		"a foreign proof":    {changed(func(m map[string]any) { m["receipt"] = foreignReceipt }), "SG9 meta.json#/receipt: checkpoint of"},
		"an imitated proof":  {changed(func(m map[string]any) { m["receipt"] = imitatedReceipt }), "SG9 meta.json#/receipt: checkpoint of"},
		"another index":      {changed(func(m map[string]any) { m["receipt"] = strings.Replace(receipt, "index 2", "index 1", 1) }), "SG9 meta.json#/receipt: not a proof"},
		"proof of another":   {changed(func(m map[string]any) { m["receipt"] = elsewhere }), "SG10 meta.json#/receipt: proves another entry than that of ledger.jsonl#/1"},
		"altered entry":      {text(lines[0], swap(`"policy":"default"`, `"policy":"other"`)), "SG10 meta.json#/receipt: proves another entry than that of ledger.jsonl#/1"},
		"seal of another":    {packtest.With(good, pack.LedgerFile, sealedAs(t, log, lines[1], 9)), "SG10 meta.json#/receipt: proves entry 2, and ledger.jsonl#/0 has the seal of entry 8"},
		"a forked log":       {forked(t, log), "SG10 meta.json#/receipt: has a checkpoint with another root than the seal of ledger.jsonl#/0"},
		"of another run":     {packtest.With(good, pack.RunFile, artifactOf(t, aRun("two"))), `SG10 ledger.jsonl#/1: of the run "one", and run.json is of "two"`},
		"of another result":  {packtest.With(good, pack.RunFile, artifactOf(t, other(aRun("one")))), `SG10 ledger.jsonl#/1: of a result with the canonical hash "sha256:`},
		"no run":             {packtest.With(good, pack.RunFile, nil), "SG10 run.json: missing"},
		"a run with spaces":  {packtest.With(good, pack.RunFile, []byte(`{"run_id": "one"}`)), "SG10 run.json: "},
		"a run of one value": {packtest.With(good, pack.RunFile, []byte("1\n")), "SG10 run.json: not a RunResult"},
	} {
		t.Run(name, func(t *testing.T) {
			a := Authenticate(c.pack, nil, keyOf(log))
			if a.Recorded != nil || len(a.Violations) != 1 || !strings.HasPrefix(told(a), c.want) {
				t.Errorf("%+v\nand not %s", told(a), c.want)
			}
		})
	}
}

func other(run map[string]any) map[string]any {
	run["kernel_result_kind"] = "BUNDLE"
	return run
}

// newKeyOf is one of several keys of a name.
func newKeyOf(t testing.TB, name string, n byte) *ledger.Signer {
	private, _, err := ledger.GenerateKey(rand.NewChaCha8([32]byte{n}), name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ledger.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sealedAs returns a line with another seal that the key has signed.
func sealedAs(t testing.TB, key *ledger.Signer, line []byte, size int64) []byte {
	l, err := ledger.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	if l.Seal, err = key.Seal(size, l.Seal.Root); err != nil {
		t.Fatal(err)
	}
	return l.Append(nil)
}

// forked returns a pack whose receipt belongs to another log. That log has a different
// tree of the size in the line's seal.
func forked(t testing.TB, key *ledger.Signer) *pack.Pack {
	run := aRun("one")
	lines, _ := recordedRun(t, key, run)
	line, err := ledger.ParseLine(bytes.Split(lines, []byte("\n"))[1])
	if err != nil {
		t.Fatal(err)
	}
	record, err := ledger.ParseRecord(line.Entry)
	if err != nil {
		t.Fatal(err)
	}
	l := &packtest.Log{T: t, Key: key}
	before := ledger.Record{Kind: ledger.KindGenesis, Timestamp: record.Timestamp, Format: ledger.Format, Origin: key.Origin(), Key: key.Verifier().String()}
	for range 2 {
		l.Add(before)
	}
	l.Add(record)
	return pack.Of(map[string][]byte{
		pack.RunFile: artifactOf(t, run), pack.LedgerFile: line.Append(nil), pack.MetaFile: artifactOf(t, map[string]any{"receipt": l.Prove(2)}),
	})
}
