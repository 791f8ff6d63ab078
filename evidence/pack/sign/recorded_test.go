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
		"not a line":         {text([]byte("{\"_seal\":{}}\n")), "SG8 ledger.jsonl#/0: not a ledger line"},
		"not an entry":       {text([]byte("{}\n")), "SG8 ledger.jsonl#/0: not a ledger record"},
		"half sealed":        {text(packtest.Unsealed(t, lines[0]), lines[1]), "SG8 ledger.jsonl#/0: not a ledger line"},
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

// served returns a pack of a run that a server has recorded, with the receipt that make makes
// of the log and the index of the decision.
func served(t testing.TB, key *ledger.Signer, make func(l *packtest.Log, index int64) string) *pack.Pack {
	t.Helper()
	files := unsigned(t, key)
	l := &packtest.Log{T: t, Key: key}
	var records []ledger.Record
	lines := packtest.Unsealed(t, files[pack.LedgerFile])
	for line := range bytes.Lines(lines) {
		r, err := ledger.ParseRecord(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	l.Add(ledger.Record{Kind: ledger.KindGenesis, Timestamp: records[0].Timestamp, Format: ledger.Format, Origin: key.Origin(), Key: key.Verifier().String()})
	for _, r := range records {
		l.Add(r)
	}
	files[pack.LedgerFile] = lines
	files[pack.MetaFile] = artifactOf(t, map[string]any{"receipt": make(l, int64(len(records)))})
	return pack.Of(files)
}

// TestServed: entries of a server have no seals. Their receipt is a proof or an ack, and an
// ack says no more than that the place is promised.
func TestServed(t *testing.T) {
	log, foreign, imitated := packtest.Signer(t, "example.com/log"), packtest.Signer(t, "example.com/other"), newKeyOf(t, "example.com/log", 7)
	proven := served(t, log, func(l *packtest.Log, i int64) string { return l.Prove(i) })
	promised := served(t, log, func(l *packtest.Log, i int64) string { return l.Ack(i) })
	for p, want := range map[*pack.Pack]Recorded{proven: {Index: 2}, promised: {Index: 2, Promised: true}} {
		a := Authenticate(p, nil, keyOf(log))
		if !a.OK() || a.Recorded == nil || a.Recorded.Index != want.Index || a.Recorded.Promised != want.Promised || a.Recorded.Origin != "example.com/log" || (a.Recorded.Checkpoint.Size == 3) == want.Promised {
			t.Errorf("%+v", a)
		}
		if v := CheckReceipt(p, metaOf(t, p)); len(v) > 0 {
			t.Errorf("%+v", v)
		}
	}
	ack := metaOf(t, promised)["receipt"].(string)
	with := func(p *pack.Pack, receipt string) *pack.Pack {
		return withMeta(t, p, func(m map[string]any) { m["receipt"] = receipt })
	}
	by := func(key *ledger.Signer) *pack.Pack {
		return with(promised, metaOf(t, served(t, key, func(l *packtest.Log, i int64) string { return l.Ack(i) }))["receipt"].(string))
	}
	entries := proven.File(pack.LedgerFile)
	const another = `"policy":"default"`
	altered := bytes.Replace(entries, []byte(another), []byte(`"policy":"other"`), 2)
	for name, c := range map[string]struct {
		pack        *pack.Pack
		keyed, bare string // the first violation with the key and without
	}{
		"a proof of another entry": {with(proven, metaOf(t, served(t, log, func(l *packtest.Log, _ int64) string { return l.Prove(1) }))["receipt"].(string)), "SG10 meta.json#/receipt: proves another entry than that of ledger.jsonl#/1", "it proves another entry than the last line of ledger.jsonl"},
		"an ack of another entry":  {with(promised, metaOf(t, served(t, log, func(l *packtest.Log, _ int64) string { return l.Ack(1) }))["receipt"].(string)), "SG10 meta.json#/receipt: promises another entry than that of ledger.jsonl#/1", "it promises another entry than the last line of ledger.jsonl"},
		"an altered entry":         {packtest.With(promised, pack.LedgerFile, altered), "SG10 meta.json#/receipt: promises another entry than that of ledger.jsonl#/1", "it promises another entry than the last line of ledger.jsonl"},
		"an ack of another log":    {by(foreign), "SG9 meta.json#/receipt: ack of \"example.com/other\": signed with a key that is not known", ""},
		"an ack of another key":    {with(promised, ackBy(t, imitated, entries)), "SG9 meta.json#/receipt: ack of \"example.com/log\": signed with a key that is not known", ""},
		"a forged ack":             {with(promised, strings.Replace(ack, "\n2\n", "\n1\n", 1)), "SG9 meta.json#/receipt: ack of \"example.com/log\": the signature of a known key is not right", ""},
		"an ack with another end":  {with(promised, strings.TrimSuffix(ack, "\n")), "SG9 meta.json#/receipt: not an ack: malformed note", ""},
		"a proof cut":              {with(proven, smaller(t, log, entries)), "SG9 meta.json#/receipt: not a proof: its index 2 is not below the size 2 of its checkpoint", "its checkpoint is of 2 entries, and does not cover entry 2"},
		"no receipt":               {packtest.With(proven, pack.MetaFile, nil), "SG9 meta.json: no receipt", "no receipt, and the lines of ledger.jsonl have no seals"},
		"of another run":           {packtest.With(promised, pack.RunFile, artifactOf(t, aRun("two"))), `SG10 ledger.jsonl#/1: of the run "one", and run.json is of "two"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := Authenticate(c.pack, nil, keyOf(log))
			if a.OK() || a.Recorded != nil || !strings.HasPrefix(told(a), c.keyed) {
				t.Errorf("%s\nand not %s", told(a), c.keyed)
			}
			meta := map[string]any(nil)
			if c.pack.File(pack.MetaFile) != nil {
				meta = metaOf(t, c.pack)
			}
			v := CheckReceipt(c.pack, meta)
			if (c.bare == "") != (len(v) == 0) || len(v) > 0 && !strings.HasPrefix(v[0].Message, c.bare) {
				t.Errorf("without a key: %+v", v)
			}
		})
	}
}

// ackBy returns the ack of a key for the last of entries, as entry 2.
func ackBy(t testing.TB, key *ledger.Signer, entries []byte) string {
	lines := bytes.Split(bytes.TrimSuffix(entries, []byte("\n")), []byte("\n"))
	a, err := key.Ack(2, ledger.LeafHash(lines[len(lines)-1]))
	if err != nil {
		t.Fatal(err)
	}
	return string(a.Note)
}

// smaller returns a proof of the last of entries, as entry 2, under a checkpoint of 2 entries.
func smaller(t testing.TB, key *ledger.Signer, entries []byte) string {
	lines := bytes.Split(bytes.TrimSuffix(entries, []byte("\n")), []byte("\n"))
	entry := lines[len(lines)-1]
	c, err := key.Checkpoint(2, ledger.LeafHash(entry))
	if err != nil {
		t.Fatal(err)
	}
	return string(ledger.Proof{Index: 2, Entry: entry, Note: c.Note}.Marshal())
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
