package ledger_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// vectorTime is the time at which the logs of the vectors begin.
var vectorTime = time.Date(2026, 1, 5, 10, 15, 0, 0, time.UTC)

// TestVectorsAreMade: this generator makes exactly the files of specs/vectors/ledger,
// except the README. With -update it writes them.
func TestVectorsAreMade(t *testing.T) {
	files := makeVectors(t)
	if *update {
		for name, content := range files {
			path := filepath.Join(vectorDir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	total := 0
	err := filepath.WalkDir(vectorDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(vectorDir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		got, err := os.ReadFile(path)
		total += len(got)
		if want, ok := files[name]; name != "README.md" && (!ok || !bytes.Equal(got, want)) {
			t.Errorf("%s is not what is made: look at the difference after go test ./ledger -run VectorsAreMade -update", name)
		}
		delete(files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		t.Errorf("%s is missing: run go test ./ledger -run VectorsAreMade -update", name)
	}
	if total > 400<<10 {
		t.Errorf("the vectors have %d bytes", total)
	}
}

// testKey makes a key of the vectors from its name.
func testKey(t *testing.T, origin, name string) (string, *ledger.Signer) {
	t.Helper()
	seed := sha256.Sum256([]byte("fiador test key, in public: " + name))
	verifier, err := note.NewEd25519VerifierKey(origin, ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(verifier, "+", 3)
	private := "PRIVATE+KEY+" + origin + "+" + parts[1] + "+" + base64Of(append([]byte{1}, seed[:]...))
	s, err := ledger.ParseSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	return private, s
}

func sum(text string) canon.ContentHash { return canon.Sum([]byte(text)) }

func runRecord(kind ledger.Kind, id string) ledger.Record {
	return ledger.Record{
		Kind: kind, RunID: id, IntentSHA256: sum("intent of " + id), ExecutionMode: "plan-only", Mode: "none",
		Policy: "default", PolicySHA256: sum("policy"), Kernel: "0.1.0",
	}
}

func errorRecord(id string) ledger.Record {
	r := runRecord(ledger.KindError, id)
	r.Code = "RUN_E005"
	return r
}

func begunRecord(id string) ledger.Record {
	r := runRecord(ledger.KindBegun, id)
	r.ExecutionMode, r.InputSHA256, r.BundleSHA256 = "execute-sandbox", sum("input of "+id), sum("bundle of "+id)
	return r
}

func decisionRecord(id, outcome string, reasons ...string) ledger.Record {
	r := runRecord(ledger.KindDecision, id)
	r.InputSHA256, r.BundleSHA256, r.ResultKind, r.Reasons = sum("input of "+id), sum("bundle of "+id), outcome, reasons
	r.Accepted = outcome == "BUNDLE" && len(reasons) == 0
	if outcome == "REFUSE" {
		r.BundleSHA256 = ""
	}
	r.DecisionSHA256, r.CanonicalSHA256, r.ResultSHA256 = sum("decision of "+id), sum("canonical of "+id), sum("result of "+id)
	r.Evidence = ledger.Blob{SHA256: sum("evidence of " + id), Size: 4096}
	return r
}

// logMaker writes a ledger without package disk.
type logMaker struct {
	t      *testing.T
	signer *ledger.Signer
	keys   ledger.Keys
	now    time.Time
	last   string
	tree   ledger.Range
	lines  [][]byte
	entry  [][]byte
	roots  []tlog.Hash
}

func newLog(t *testing.T, signer *ledger.Signer) *logMaker {
	m := &logMaker{t: t, signer: signer, now: vectorTime}
	m.keys = ledger.Keys{{Size: 1, Key: signer.Verifier()}}
	m.add(ledger.Record{Kind: ledger.KindGenesis, Format: ledger.Format, Origin: signer.Origin(), Key: signer.Verifier().String()})
	return m
}

func (m *logMaker) add(r ledger.Record) {
	m.t.Helper()
	r.Stamp(m.now, m.last)
	m.now, m.last = m.now.Add(time.Second), r.Timestamp
	entry, err := r.Entry()
	if err != nil {
		m.t.Fatal(err)
	}
	m.addEntry(entry)
}

func (m *logMaker) addEntry(entry []byte) {
	m.t.Helper()
	m.tree.Append(ledger.LeafHash(entry), nil)
	seal, err := m.signer.Seal(m.tree.Size, m.tree.Root())
	if err != nil {
		m.t.Fatal(err)
	}
	m.lines = append(m.lines, ledger.Line{Seal: seal, Entry: entry}.Append(nil))
	m.entry, m.roots = append(m.entry, entry), append(m.roots, m.tree.Root())
}

// rotate records another key, which signs from then on.
func (m *logMaker) rotate(next *ledger.Signer) {
	m.add(ledger.Record{Kind: ledger.KindKeyRotation, Key: next.Verifier().String()})
	m.signer = next
	m.keys = append(m.keys, ledger.KeyFrom{Size: m.tree.Size + 1, Key: next.Verifier()})
}

func (m *logMaker) text() []byte { return bytes.Join(m.lines, nil) }

func (m *logMaker) checkpoint() []byte {
	c, err := m.signer.Checkpoint(m.tree.Size, m.tree.Root())
	if err != nil {
		m.t.Fatal(err)
	}
	return c.Note
}

func (m *logMaker) origin() []byte {
	var keys []any
	for _, k := range m.keys {
		keys = append(keys, map[string]any{"key": k.Key.String(), "size": k.Size})
	}
	b, _, err := canon.Artifact(map[string]any{"format": ledger.Format, "keys": keys, "origin": m.signer.Origin()})
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

// tiles returns the tiles of hashes, full and partial.
func (m *logMaker) tiles() map[string][]byte {
	levels := map[int][]byte{}
	var tree ledger.Range
	for _, e := range m.entry {
		tree.Append(ledger.LeafHash(e), func(level int, _ int64, h tlog.Hash) {
			if level%8 == 0 {
				levels[level/8] = append(levels[level/8], h[:]...)
			}
		})
	}
	out := map[string][]byte{}
	for level, hashes := range levels {
		n := int64(0)
		for tile := range slices.Chunk(hashes, 256*tlog.HashSize) {
			out[ledger.TilePath(tlog.Tile{H: 8, L: level, N: n, W: len(tile) / tlog.HashSize})] = tile
			n++
		}
	}
	return out
}

// bundles returns the entries in the form of tlog-tiles.
func (m *logMaker) bundles() map[string][]byte {
	out := map[string][]byte{}
	n := int64(0)
	for list := range slices.Chunk(m.entry, 256) {
		var b []byte
		for _, e := range list {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(e))), e...)
		}
		out[ledger.TilePath(tlog.Tile{H: 8, L: -1, N: n, W: len(list)})] = b
		n++
	}
	return out
}

// proof returns the proof of an entry with the checkpoint of a size.
func (m *logMaker) proof(index, size int64, checkpoint []byte) ledger.Proof {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(at))
		for i, n := range at {
			out[i] = stored[n]
		}
		return out, nil
	})
	for i, e := range m.entry[:size] {
		more, err := tlog.StoredHashesForRecordHash(int64(i), ledger.LeafHash(e), read)
		if err != nil {
			m.t.Fatal(err)
		}
		stored = append(stored, more...)
	}
	path, err := tlog.ProveRecord(size, index, read)
	if err != nil {
		m.t.Fatal(err)
	}
	return ledger.Proof{Index: index, Entry: m.entry[index], Path: path, Note: checkpoint}
}

// layout spells a file of vectors: indented JSON in plain ASCII.
func layout(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	var out []byte
	for _, r := range b.String() {
		switch {
		case r >= 0x10000:
			t.Fatalf("%q needs a surrogate", r)
		case r >= 0x7f:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func text(s string) spelt   { return spelt{Text: s} }
func index(i int64) *int64  { return &i }
func keep(b []byte) []spelt { return []spelt{text(string(b))} }
func hexOf(h tlog.Hash) string {
	return hex.EncodeToString(h[:])
}

// vectorLogs are the logs of the vectors.
type vectorLogs struct {
	private                    map[string]string
	a, b, other, foreign       *ledger.Signer
	log, fork, wide            *logMaker
	files                      map[string][]byte
	atEight, atTen, atEleven   []byte // checkpoints of log
	keysLog, keysWide, keysOne []keyFrom
}

const vectorOrigin = "vectors.fiador.example/log"

func makeLogs(t *testing.T) *vectorLogs {
	v := &vectorLogs{private: map[string]string{}, files: map[string][]byte{}}
	for _, k := range []struct {
		name, origin string
		to           **ledger.Signer
	}{{"A", vectorOrigin, &v.a}, {"B", vectorOrigin, &v.b}, {"other", vectorOrigin, &v.other}, {"foreign", "elsewhere.example/log", &v.foreign}} {
		v.private[k.name], *k.to = testKey(t, k.origin, k.name)
	}
	put := func(name string, files ...map[string][]byte) {
		for _, list := range files {
			for path, content := range list {
				v.files[name+"/"+path] = content
			}
		}
	}

	// The log has every kind of record.
	policy := `{"kind":"policy-set"}` + "\n"
	blob := fmt.Sprintf(`{"decision":"{}\n","input":"{}\n","intent_base64":"e30=","kind":"decision","policy":{"sha256":"%s","size":%d},"result":"{}\n","schema_version":"1.0.0"}`+"\n",
		sum(policy), len(policy))
	kept := decisionRecord("run-plan-1", "BUNDLE")
	kept.IntentSHA256, kept.InputSHA256, kept.DecisionSHA256, kept.ResultSHA256 = sum("{}"), sum("{}\n"), sum("{}\n"), sum("{}\n")
	kept.Evidence = ledger.Blob{SHA256: sum(blob), Size: int64(len(blob))}
	failed := decisionRecord("run-exec-1", "BUNDLE", "EXIT 1", "OUTPUT_MISSING")
	failed.ExecutionMode = "execute-sandbox"
	late := errorRecord("run-error-1")
	late.RuleID = "IV-02"
	begin := func(m *logMaker) {
		m.add(kept)
		m.add(decisionRecord("run-plan-2", "CLARIFY", "PLACEHOLDER"))
		m.add(decisionRecord("run-plan-3", "REFUSE", "CMD_NOT_ALLOWED", "PATH_TRAVERSAL"))
		former := begunRecord("run-exec-1")
		former.Former = true
		m.add(former)
		m.now = m.now.Add(-1500 * time.Millisecond) // the clock goes backwards
		m.add(late)
		m.now = m.now.Add(2 * time.Second)
		m.add(failed)
		m.add(begunRecord("run-exec-2"))
	}
	end := func(m *logMaker) {
		m.add(ledger.Record{Kind: ledger.KindRepair, Repairs: []ledger.Repair{
			{What: ledger.RepairTornTail, Offset: 9001, Bytes: 17, SHA256: sum("torn")},
			{What: ledger.RepairNewline, Offset: 9001, Bytes: 1}, {What: ledger.RepairCheckpoint},
		}})
		m.add(decisionRecord("run-plan-4", "BUNDLE"))
		m.add(begunRecord("run-killed"))
		m.add(decisionRecord("run-plan-5", "CLARIFY", "DONE_UNDEFINED"))
	}
	stopped := errorRecord("run-exec-2")
	stopped.ExecutionMode = "execute-sandbox"
	v.log = newLog(t, v.a)
	begin(v.log)
	v.atEight = v.log.checkpoint()
	v.log.add(stopped)
	v.log.rotate(v.b)
	v.atTen = func() []byte { c, _ := v.a.Checkpoint(10, v.log.roots[9]); return c.Note }()
	v.log.add(ledger.Record{Kind: ledger.KindRepair, Repairs: []ledger.Repair{{What: ledger.RepairCheckpoint}}})
	v.atEleven = v.log.checkpoint()
	end(v.log)
	put("log", map[string][]byte{
		"ledger.jsonl": v.log.text(), "origin.json": v.log.origin(), "checkpoint": v.log.checkpoint(), "checkpoints/8": v.atEight,
		"evidence/sha256/" + sum(blob).Hex()[:2] + "/" + sum(blob).Hex()[2:]:     []byte(blob),
		"evidence/sha256/" + sum(policy).Hex()[:2] + "/" + sum(policy).Hex()[2:]: []byte(policy),
	})
	put("published", map[string][]byte{"checkpoint": v.log.checkpoint()}, v.log.tiles(), v.log.bundles())

	// The fork has another entry 11, and all entries after it are signed again.
	v.fork = newLog(t, v.a)
	begin(v.fork)
	v.fork.add(stopped)
	v.fork.rotate(v.b)
	v.fork.add(ledger.Record{Kind: ledger.KindRepair, Repairs: []ledger.Repair{{What: ledger.RepairCheckpoint}}})
	v.fork.add(decisionRecord("run-plan-4", "CLARIFY", "PLACEHOLDER"))
	v.fork.add(begunRecord("run-killed"))
	v.fork.add(decisionRecord("run-plan-5", "BUNDLE"))
	put("fork", map[string][]byte{"ledger.jsonl": v.fork.text(), "origin.json": v.fork.origin(), "checkpoint": v.fork.checkpoint()})

	// The wide log has slightly more than one full tile.
	v.wide = newLog(t, v.a)
	for i := 1; i < 259; i++ {
		v.wide.add(errorRecord(fmt.Sprintf("run-%03d", i)))
	}
	tiles := v.wide.tiles()
	put("wide", map[string][]byte{
		"ledger.jsonl": v.wide.text(), "origin.json": v.wide.origin(), "checkpoint": v.wide.checkpoint(), "tile/0/000": tiles["tile/0/000"],
	})
	put("wide-published", map[string][]byte{"checkpoint": v.wide.checkpoint()}, tiles)

	v.keysLog = []keyFrom{{1, "A"}, {11, "B"}}
	v.keysWide, v.keysOne = []keyFrom{{Size: 1, Key: "A"}}, []keyFrom{{Size: 1, Key: "A"}}
	return v
}

func makeVectors(t *testing.T) map[string][]byte {
	t.Helper()
	v := makeLogs(t)
	files := maps.Clone(v.files)
	files["keys.json"] = layout(t, file[keyVector]{
		About: "TEST KEYS: they are public, and sign nothing but these vectors.",
		Vectors: []keyVector{
			{named{"A", "the first key of every log here"}, v.private["A"], v.a.Verifier().String()},
			{named{"B", "the key of log and fork after their rotation"}, v.private["B"], v.b.Verifier().String()},
			{named{"other", "a key of the same origin that no log here names"}, v.private["other"], v.other.Verifier().String()},
			{named{"foreign", "a key of another origin"}, v.private["foreign"], v.foreign.Verifier().String()},
		},
	})
	files["records.json"] = layout(t, file[recordVector]{About: "Entries: records as they are hashed.", Vectors: recordVectors(t, v)})
	files["lines.json"] = layout(t, file[lineVector]{About: "Lines of ledger.jsonl, without their line feeds.", Vectors: lineVectors(t, v)})
	files["checkpoints.json"] = layout(t, file[checkpointVector]{About: "Checkpoints, and what the keys of a log make of them.", Vectors: checkpointVectors(t, v)})
	files["proofs.json"] = layout(t, file[proofVector]{About: "Proofs that an entry is in a log.", Vectors: proofVectors(t, v)})
	files["folders.json"] = layout(t, file[folderVector]{About: "Copies of the logs with edits: what a verifier says, and what an append does.", Vectors: folderVectors(t, v)})
	files["compare.json"] = layout(t, file[compareVector]{About: "Two copies of one log, each up to its checkpoint.", Vectors: []compareVector{
		{named{"same", "a copy"}, copyOf{"log", []edit{}}, copyOf{"log", []edit{}}, 15, false},
		{named{"forked", "both were signed, and differ from entry 11 on"}, copyOf{"log", []edit{}}, copyOf{"fork", []edit{}}, 11, true},
		{named{"behind", "one has an older checkpoint: that is no fork"}, copyOf{"log", []edit{}}, copyOf{"log", []edit{v.replace("log", "checkpoint", v.atEight)}}, 8, false},
		{
			named{"unsynced", "what stands after a checkpoint is promised by nobody"},
			copyOf{"log", []edit{v.replace("log", "checkpoint", v.atEleven)}}, copyOf{"fork", []edit{}}, 11, false,
		},
	}})
	return files
}

// replace returns the edit that replaces the content of a file.
func (v *vectorLogs) replace(log, name string, content []byte) edit {
	insert := text(string(content))
	return edit{File: name, Cut: len(v.files[log+"/"+name]), Insert: &insert}
}

// change returns the edit that replaces the first occurrence of old in a file, from an
// offset on.
func (v *vectorLogs) change(t *testing.T, log, name string, from int, old, now string) edit {
	t.Helper()
	at := strings.Index(string(v.files[log+"/"+name][from:]), old)
	if at < 0 {
		t.Fatalf("%s/%s has no %q", log, name, old)
	}
	insert := text(now)
	return edit{File: name, At: from + at, Cut: len(old), Insert: &insert}
}

// start returns the offset of the line of an entry.
func (m *logMaker) start(i int) int { return len(bytes.Join(m.lines[:i], nil)) }

func recordVectors(t *testing.T, v *vectorLogs) []recordVector {
	t.Helper()
	var out []recordVector
	valid := func(name, why string, entry []byte) {
		r, err := ledger.ParseRecord(entry)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, recordVector{named: named{name, why}, Entry: text(string(entry)), Kind: string(r.Kind), Leaf: hexOf(ledger.LeafHash(entry))})
	}
	for i, name := range []string{
		"genesis", "decision", "decision-clarify", "decision-refuse", "begun", "error-late", "decision-failed", "begun-again", "error", "key-rotation", "repair-one", "repair",
	} {
		valid(name, fmt.Sprintf("entry %d of log", i), v.log.entry[i])
	}
	most := decisionRecord(strings.Repeat("r", 128), "BUNDLE")
	most.Timestamp, most.ClockBehindMS, most.Accepted, most.BundleSHA256, most.ResultKind = "9999-12-31T23:59:59.999Z", canon.MaxSafeInteger, false, "", "REFUSE"
	most.Kernel, most.Policy, most.Evidence.Size = strings.Repeat("k", 64), strings.Repeat("p", 64), canon.MaxSafeInteger
	for i := range 64 {
		most.Reasons = append(most.Reasons, fmt.Sprintf("%064d 65535", i))
	}
	entry, err := most.Entry()
	if err != nil {
		t.Fatal(err)
	}
	valid("most", "every bound is reached", entry)

	plan, state := sum("plan"), func(of string) string { return "blake3:" + sum(of).Hex() }
	for _, w := range []struct {
		name, why string
		kind      ledger.Kind
		work      ledger.Work
	}{
		{"begun-work", "a run for a work item that is in no plan", ledger.KindBegun, ledger.Work{ItemID: "item-1", Base: state("base")}},
		{"begun-work-plan", "a run for a work item of a plan", ledger.KindBegun, ledger.Work{ItemID: "item-1", PlanSHA256: plan, Base: state("base")}},
		{
			"decision-work", "the decision of a run for a work item that is in no plan", ledger.KindDecision,
			ledger.Work{ItemID: "9._-", Before: state("before"), After: state("after"), Receipt: state("receipt")},
		},
		{
			"decision-work-plan", "the decision of a run for a work item of a plan", ledger.KindDecision,
			ledger.Work{ItemID: strings.Repeat("i", 128), PlanSHA256: plan, Before: state("before"), After: state("before"), Receipt: state("receipt")},
		},
	} {
		r := begunRecord("run-work-1")
		if w.kind == ledger.KindDecision {
			r = decisionRecord("run-work-1", "BUNDLE")
		}
		r.Timestamp, r.Work = "2026-01-05T10:15:00.000Z", &w.work
		if entry, err = r.Entry(); err != nil {
			t.Fatal(err)
		}
		valid(w.name, w.why, entry)
	}
	workBegun, workDecided := string(out[len(out)-3].Entry.bytes()), string(entry)

	decision, refusal := string(v.log.entry[1]), string(v.log.entry[3])
	small, genesis, repair, fault, begun := string(v.log.entry[8]), string(v.log.entry[0]), string(v.log.entry[11]), string(v.log.entry[5]), string(v.log.entry[4])
	refused := func(class, name, why, base, old, now string) {
		if strings.Count(base, old) < 1 {
			t.Fatalf("%s: nothing to replace", name)
		}
		changed := strings.Replace(base, old, now, 1)
		s := text(changed)
		if !utf8.ValidString(changed) {
			s = spelt{Base64: []byte(changed)}
		}
		out = append(out, recordVector{named: named{name, why}, Entry: s, Refused: class})
	}
	for _, c := range [][6]string{
		{"form", "blank", "white space between tokens", small, `,"kind"`, `, "kind"`},
		{"form", "line-feed", "the line feed is no part of an entry", small, `Z"}`, "Z\"}\n"},
		{"form", "unsorted", "members in another order", small, `"mode":"none","policy":"default"`, `"policy":"default","mode":"none"`},
		{"form", "twice", "a member twice", small, `"mode":"none"`, `"mode":"none","mode":"none"`},
		{"form", "escape", "an escape, though it is the same text", small, `"mode":"none"`, `"mode":"n\u006fne"`},
		{"form", "delete", "U+007F, which tools write in two ways", small, `"run-exec-2"`, "\"run-exec-\x7f\""},
		{"form", "not-ascii", "a character outside ASCII", small, `"run-exec-2"`, `"run-exec-ä"`},
		{"form", "not-utf8", "a byte that is no UTF-8", small, `"run-exec-2"`, "\"run-exec-\xff\""},
		{"form", "fraction", "a number with a fraction that is zero", repair, `"bytes":17`, `"bytes":17.0`},
		{"form", "exponent", "a number with an exponent", repair, `"bytes":17`, `"bytes":1.7e1`},
		{"form", "leading-zero", "a number with a leading zero", repair, `"bytes":17`, `"bytes":017`},
		{"form", "comma", "a comma too many", decision, `"reasons":[]`, `"reasons":[,]`},
		{"form", "cut", "the end is missing", small, `Z"}`, `Z"`},
		{"schema", "array", "not an object", small, small, "[" + small + "]"},
		{"form", "empty", "no text at all", small, small, ""},
		{"form", "nul", "U+0000 behind the object", small, `Z"}`, "Z\"}\x00"},
		{"form", "number-bound", "2^53 is out of bounds", repair, `"bytes":17`, `"bytes":9007199254740992`},
		{"schema", "no-kind", "no kind", small, `"kind":"error",`, ``},
		{"schema", "unknown-kind", "a kind that is none", small, `"kind":"error"`, `"kind":"verdict"`},
		{"schema", "other-kind", "members of another kind", decision, `"kind":"decision"`, `"kind":"begun"`},
		{"schema", "missing", "a member is missing", small, `"mode":"none",`, ``},
		{"schema", "unknown-member", "a member that is not known", small, `"mode":"none",`, `"mode":"none","note":"",`},
		{"schema", "seal", "the seal is no part of an entry", decision, `{"accepted"`, `{"_seal":{},"accepted"`},
		{"schema", "null", "null where a text belongs", small, `"mode":"none"`, `"mode":null`},
		{"schema", "begun-reasons", "a begun has no reasons", begun, `,"run_id"`, `,"reasons":[],"run_id"`},
		{"schema", "negative", "a number below zero", repair, `"bytes":17`, `"bytes":-1`},
		{"schema", "clock-zero", "a clock that is behind by nothing", fault, `"clock_behind_ms":500`, `"clock_behind_ms":0`},
		{"schema", "hash-upper", "a hash in capitals", small, "sha256:" + sum("intent of run-exec-2").Hex(), "sha256:" + strings.ToUpper(sum("intent of run-exec-2").Hex())},
		{"schema", "hash-bare", "a hash without its name", small, "sha256:" + sum("intent of run-exec-2").Hex(), sum("intent of run-exec-2").Hex()},
		{"schema", "run-id-dot", "a run id that begins with a dot", small, `"run-exec-2"`, `".run"`},
		{"schema", "run-id-slash", "a run id with a slash", small, `"run-exec-2"`, `"a/b"`},
		{"schema", "run-id-long", "a run id of 129 characters", small, `"run-exec-2"`, `"` + strings.Repeat("r", 129) + `"`},
		{"schema", "run-id-empty", "an empty run id", small, `"run-exec-2"`, `""`},
		{"schema", "mode-unknown", "a mode that is none", small, `"mode":"none"`, `"mode":"live"`},
		{"schema", "execution-mode-unknown", "an execution mode that is none", small, `"execute-sandbox"`, `"execute"`},
		{"schema", "outcome-unknown", "an outcome that is none", decision, `"BUNDLE"`, `"ALLOW"`},
		{"schema", "reason-pointer", "a reason with the intent's text", refusal, `"CMD_NOT_ALLOWED"`, `"CMD_NOT_ALLOWED /actions/0"`},
		{"schema", "reason-number", "a reason with what is no number", refusal, `"CMD_NOT_ALLOWED"`, `"EXIT one"`},
		{"schema", "code-unknown", "a code of another family", fault, `"RUN_E005"`, `"RUN_F005"`},
		{"schema", "code-letters", "a code without its number", fault, `"RUN_E005"`, `"RUN_E0ab"`},
		{"schema", "rule-empty", "an empty rule, which is absent instead", fault, `"IV-02"`, `""`},
		{"schema", "format-unknown", "a format that is not known", genesis, `"1.0.0"`, `"2.0.0"`},
		{"schema", "time-zone", "a time with another zone", small, `Z"}`, `+00:00"}`},
		{"schema", "time-seconds", "a time without milliseconds", small, `.500Z"}`, `Z"}`},
		{"schema", "key-hash-upper", "a key whose hash is in capitals", genesis, `+` + strings.Split(v.a.Verifier().String(), "+")[1] + `+`, `+ABCDEF01+`},
		{"schema", "no-repairs", "a repair of nothing", string(v.log.entry[10]), string(v.log.entry[10][bytes.Index(v.log.entry[10], []byte("[")) : bytes.Index(v.log.entry[10], []byte("]"))+1]), `[]`},
		{"schema", "repair-unknown", "a repair that is none", repair, `"torn-tail"`, `"rewrite"`},
		{"schema", "begun-accepted", "a begun that is accepted", string(v.log.entry[7]), `"accepted":null`, `"accepted":true`},
		{"schema", "begun-outcome", "a begun with an outcome", string(v.log.entry[7]), `"result_kind":null`, `"result_kind":"BUNDLE"`},
		{"schema", "work-null", "null where a run is for no work item", workBegun, workBegun[strings.Index(workBegun, `{"base"`) : len(workBegun)-1], `null`},
		{"schema", "work-of-error", "an error names no work item", small, `Z"}`, `Z","work":` + workBegun[strings.Index(workBegun, `{"base"`):]},
		{"schema", "work-unknown-member", "a member of work that is not known", workBegun, `"item-1"`, `"item-1","note":""`},
		{"form", "work-unsorted", "members of work in another order", workDecided, `"item_id":"` + strings.Repeat("i", 128) + `","plan_sha256":"` + string(plan) + `"`, `"plan_sha256":"` + string(plan) + `","item_id":"` + strings.Repeat("i", 128) + `"`},
		{"schema", "work-begun-after", "a begun has no state that follows", workBegun, `"work":{`, `"work":{"after":"` + state("after") + `",`},
		{"schema", "work-decision-base", "a decision has no base", workDecided, `,"before":`, `,"base":"` + state("base") + `","before":`},
		{"schema", "work-no-item", "work on no item", workBegun, `,"item_id":"item-1"`, ``},
		{"schema", "work-no-base", "a begun without its base", workBegun, `"base":"` + state("base") + `",`, ``},
		{"schema", "work-no-receipt", "a decision without its receipt", workDecided, `,"receipt":"` + state("receipt") + `"`, ``},
		{"schema", "work-item-dot", "an item whose id begins with a dot", workBegun, `"item-1"`, `".item"`},
		{"schema", "work-item-long", "an item whose id has 129 characters", workBegun, `"item-1"`, `"` + strings.Repeat("i", 129) + `"`},
		{"schema", "work-plan-null", "null where an item is in no plan", workBegun, `"` + string(plan) + `"`, `null`},
		{"schema", "work-state-sha256", "a state by a hash of another kind", workBegun, state("base"), string(sum("base"))},
		{"schema", "work-state-upper", "a state in capitals", workDecided, sum("before").Hex(), strings.ToUpper(sum("before").Hex())},
		{"schema", "work-state-short", "a state with 63 digits", workBegun, state("base"), state("base")[:70]},
		{"schema", "work-receipt-bare", "a receipt without the name of its hash", workDecided, state("receipt"), sum("receipt").Hex()},
		{"rule", "begun-accepted-alone", "accepted of a begun without its result_kind", string(v.log.entry[7]), `"result_kind":null,`, ``},
		{"rule", "begun-outcome-alone", "result_kind of a begun without its accepted", string(v.log.entry[7]), `"accepted":null,`, ``},
		{"rule", "time-day", "a day that is none", small, `2026-01-05`, `2026-02-29`},
		{"rule", "time-hour", "an hour that is none", small, `T10:`, `T24:`},
		{"rule", "key-hash", "a key whose hash is that of another", genesis, `+` + strings.Split(v.a.Verifier().String(), "+")[1] + `+`, `+00000000+`},
		{"rule", "reasons-order", "reasons that are not sorted", refusal, `"CMD_NOT_ALLOWED","PATH_TRAVERSAL"`, `"PATH_TRAVERSAL","CMD_NOT_ALLOWED"`},
		{"rule", "reasons-twice", "a reason twice", refusal, `"CMD_NOT_ALLOWED","PATH_TRAVERSAL"`, `"PATH_TRAVERSAL","PATH_TRAVERSAL"`},
		{"rule", "refuse-bundle", "a REFUSE with a bundle", refusal, `"bundle_sha256":null`, `"bundle_sha256":"` + string(sum("x")) + `"`},
		{"rule", "bundle-none", "a BUNDLE without one", decision, `"bundle_sha256":"` + string(sum("bundle of run-plan-1")) + `"`, `"bundle_sha256":null`},
		{"rule", "accepted-refuse", "a REFUSE that is accepted", refusal, `"accepted":false`, `"accepted":true`},
		{"rule", "accepted-reasons", "accepted, and yet with a reason", decision, `"reasons":[]`, `"reasons":["EXIT 1"]`},
		{"rule", "torn-without-hash", "a torn tail whose bytes are not named", repair, `,"sha256":"` + string(sum("torn")) + `"`, ``},
		{"rule", "newline-with-hash", "a line feed that was added, with a hash", repair, `"what":"newline"`, `"sha256":"` + string(sum("torn")) + `","what":"newline"`},
	} {
		refused(c[0], c[1], c[2], c[3], c[4], c[5])
	}
	return out
}

func lineVectors(t *testing.T, v *vectorLogs) []lineVector {
	t.Helper()
	var out []lineVector
	valid := func(name, why string, b []byte) {
		l, err := ledger.ParseLine(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, lineVector{
			named: named{name, why}, Line: text(string(b)), Size: l.Seal.Size, Root: l.Seal.Root.String(),
			KeyID: hex.EncodeToString(l.Seal.Sig[:4]), Leaf: hexOf(ledger.LeafHash(l.Entry)),
		})
	}
	line := string(bytes.TrimSuffix(v.log.lines[8], []byte("\n")))
	valid("genesis", "the first line of log", bytes.TrimSuffix(v.log.lines[0], []byte("\n")))
	valid("error", "line 8 of log", []byte(line))
	valid("not-a-record", "a line whose record is for another reader to refuse", []byte(line[:strings.Index(line, `},"`)]+`},"a":1}`))
	root := v.log.roots[8].String()
	sig := line[strings.Index(line, `"sig":"`)+7 : strings.Index(line, `","size"`)]
	for _, c := range [][4]string{
		{"empty", "an empty line", line, ""},
		{"no-seal", "an entry without a seal", line[:strings.Index(line, `},"`)+2], "{"},
		{"seal-last", "a seal behind the first member", `{"_seal"`, `{"a":0,"_seal"`},
		{"seal-order", "a seal in another order", `{"root":"` + root + `","sig":"` + sig + `"`, `{"sig":"` + sig + `","root":"` + root + `"`},
		{"blank", "white space in a seal", `,"sig"`, `, "sig"`},
		{"root-short", "a root of 31 bytes", root, base64Of(make([]byte, 31))},
		{"root-padding", "a root whose last character has spare bits", root, strings.Repeat("A", 42) + "B="},
		{"root-url", "a root in another alphabet", root, strings.Repeat("_", 43) + "="},
		{"signature-short", "a signature without its key id", sig, base64Of(make([]byte, 64))},
		{"size-zero", "a tree of no entry", `"size":9`, `"size":0`},
		{"size-leading-zero", "a size with a leading zero", `"size":9`, `"size":09`},
		{"size-text", "a size in quotes", `"size":9`, `"size":"9"`},
		{"size-large", "a size of 2^53", `"size":9`, `"size":9007199254740992`},
		{"size-sign", "a size with a sign", `"size":9`, `"size":+9`},
		{"no-record", "a seal and nothing else", line[strings.Index(line, `},"`):], "}}"},
		{"empty-record", "a record of no member", line[strings.Index(line, `},"`):], "},}"},
		{"carriage-return", "a carriage return at the end", `Z"}`, "Z\"}\r"},
		{"cut", "the last byte is missing", `Z"}`, `Z"`},
		{"zeroes", "a line of U+0000", line, strings.Repeat("\x00", 16)},
	} {
		if !strings.Contains(line, c[2]) {
			t.Fatalf("%s: nothing to replace", c[0])
		}
		out = append(out, lineVector{named: named{c[0], c[1]}, Line: text(strings.Replace(line, c[2], c[3], 1)), Refused: true})
	}
	seal := line[:strings.Index(line, `},"`)+2]
	pad := ledger.MaxEntryBytes - len(`{"a":""}`)
	out = append(out, lineVector{
		named: named{"too-long", "its entry has 16385 bytes"}, Refused: true,
		Line: spelt{Repeat: &repeat{seal + `"a":"`, "x", pad + 1, `"}`}},
	})
	full := spelt{Repeat: &repeat{seal + `"a":"`, "x", pad, `"}`}}
	l, err := ledger.ParseLine(full.bytes())
	if err != nil || len(l.Entry) != ledger.MaxEntryBytes {
		t.Fatalf("%d bytes: %v", len(l.Entry), err)
	}
	return append(out, lineVector{
		named: named{"longest", "its entry has 16384 bytes"}, Line: full, Size: 9, Root: root,
		KeyID: hex.EncodeToString(l.Seal.Sig[:4]), Leaf: hexOf(ledger.LeafHash(l.Entry)),
	})
}

func checkpointVectors(t *testing.T, v *vectorLogs) []checkpointVector {
	t.Helper()
	good := string(v.log.checkpoint())
	size, root := v.log.tree.Size, v.log.tree.Root().String()
	must := func(c ledger.Checkpoint, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(c.Note)
	}
	body, _, _ := strings.Cut(good, "\n\n")
	cosigned := func(name string, signers ...*ledger.Signer) string {
		out := body + "\n\n"
		for i, s := range signers {
			c := must(s.Checkpoint(size, v.log.tree.Root()))
			_, sigs, _ := strings.Cut(c, "\n\n")
			if i == 0 && name != "" {
				sigs = strings.Replace(sigs, s.Origin(), name, 1)
			}
			out += sigs
		}
		return out
	}
	spoil := func(s string) string { // another signature with the same key id
		at := strings.LastIndex(s, " ") + 1
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s[at:]))
		if err != nil {
			t.Fatal(err)
		}
		raw[10] ^= 1
		return s[:at] + base64Of(raw) + "\n"
	}
	right := func(name, why, text string) checkpointVector {
		return checkpointVector{named{name, why}, v.keysLog, spelt{Text: text}, "right", size, root}
	}
	not := func(name, why, expect, text string) checkpointVector {
		return checkpointVector{named: named{name, why}, Keys: v.keysLog, Checkpoint: spelt{Text: text}, Expect: expect}
	}
	sealText := strings.Replace(body, vectorOrigin, vectorOrigin+"/seal", 1)
	line := v.log.lines[14]
	l, err := ledger.ParseLine(line[:len(line)-1])
	if err != nil {
		t.Fatal(err)
	}
	return []checkpointVector{
		right("newest", "the checkpoint of log", good),
		{named{"before-rotation", "a checkpoint of size 8: key A"}, v.keysLog, text(string(v.atEight)), "right", 8, v.log.roots[7].String()},
		{named{"rotation", "the rotation is entry 9: key A signs size 10"}, v.keysLog, text(string(v.atTen)), "right", 10, v.log.roots[9].String()},
		{named{"after-rotation", "key B signs from size 11 on"}, v.keysLog, text(string(v.atEleven)), "right", 11, v.log.roots[10].String()},
		right("cosigned", "the signature of a witness beside it", cosigned("", v.b, v.foreign)),
		right("cosigned-first", "the signature of a witness ahead of it", cosigned("", v.foreign, v.b)),
		not("old-key", "the old key signs no later size", "unknown-key", must(v.a.Checkpoint(size, v.log.tree.Root()))),
		not("new-key-early", "the new key signs no earlier size", "unknown-key", must(v.b.Checkpoint(10, v.log.roots[9]))),
		not("unknown-key", "a key of this origin that is not known", "unknown-key", must(v.other.Checkpoint(size, v.log.tree.Root()))),
		not("other-origin", "another log", "unknown-key", must(v.foreign.Checkpoint(size, v.log.tree.Root()))),
		not("empty-tree", "no key signs a tree of no entry", "unknown-key", must(v.b.Checkpoint(0, ledger.Range{}.Root()))),
		not("bad-signature", "a bit of the signature was changed", "bad-signature", spoil(good)),
		not("other-size", "the size was changed", "bad-signature", strings.Replace(good, "\n15\n", "\n16\n", 1)),
		not("other-root", "the root was changed", "bad-signature", strings.Replace(good, root, v.log.roots[12].String(), 1)),
		not("seal", "a seal, shown as a checkpoint: its note has another first line", "bad-signature",
			body+"\n\n\u2014 "+vectorOrigin+" "+base64Of(l.Seal.Sig[:])+"\n"),
		not("seal-origin", "a seal's note: no origin ends so", "malformed", sealText+"\n\n\u2014 "+vectorOrigin+" "+base64Of(l.Seal.Sig[:])+"\n"),
		not("empty", "no text", "malformed", ""),
		not("no-signature", "no signature", "malformed", body+"\n\n"),
		not("no-empty-line", "no empty line", "malformed", strings.Replace(good, "\n\n", "\n", 1)),
		not("extension", "a fourth line, which C2SP allows and this format does not have", "malformed", strings.Replace(good, "\n\n", "\nextension\n\n", 1)),
		not("two-empty-lines", "a second block of signatures", "malformed", good+"\n\u2014 "+vectorOrigin+" AAAAAAA=\n"),
		not("size-leading-zero", "a size with a leading zero", "malformed", strings.Replace(good, "\n15\n", "\n015\n", 1)),
		not("size-negative", "a size below zero", "malformed", strings.Replace(good, "\n15\n", "\n-15\n", 1)),
		not("size-empty", "no size", "malformed", strings.Replace(good, "\n15\n", "\n\n", 1)),
		not("root-hex", "a root in hex", "malformed", strings.Replace(good, root, hexOf(v.log.tree.Root()), 1)),
		not("carriage-return", "line ends of another system", "malformed", strings.ReplaceAll(good, "\n", "\r\n")),
		not("no-last-line-feed", "the last line feed is missing", "malformed", strings.TrimSuffix(good, "\n")),
		not("origin-blank", "an origin with a blank", "malformed", strings.Replace(good, vectorOrigin, "an origin", 1)),
	}
}

func proofVectors(t *testing.T, v *vectorLogs) []proofVector {
	t.Helper()
	var out []proofVector
	add := func(name, why, expect string, keys []keyFrom, p string) *proofVector {
		out = append(out, proofVector{named: named{name, why}, Keys: keys, Proof: text(p), Expect: expect})
		return &out[len(out)-1]
	}
	right := func(name, why string, m *logMaker, keys []keyFrom, index, size int64, note []byte) {
		p := add(name, why, "right", keys, string(m.proof(index, size, note).Marshal()))
		rec, err := ledger.ParseRecord(m.entry[index])
		if err != nil {
			t.Fatal(err)
		}
		p.Index, p.Size, p.Kind = index, size, string(rec.Kind)
	}
	newest, wide := v.log.checkpoint(), v.wide.checkpoint()
	for _, i := range []int64{0, 1, 6, 7, 9, 13, 14} {
		right(fmt.Sprintf("log-%d", i), fmt.Sprintf("entry %d of log", i), v.log, v.keysLog, i, 15, newest)
	}
	right("older", "an older checkpoint proves as well", v.log, v.keysLog, 3, 8, v.atEight)
	right("after-rotation", "the smallest tree of the new key", v.log, v.keysLog, 10, 11, v.atEleven)
	for _, i := range []int64{0, 255, 256, 258} {
		right(fmt.Sprintf("wide-%d", i), fmt.Sprintf("entry %d of wide", i), v.wide, v.keysWide, i, 259, wide)
	}
	one := newLog(t, v.a)
	right("alone", "the only entry: a path of no hash", one, v.keysOne, 0, 1, one.checkpoint())

	p := v.log.proof(8, 15, newest)
	good := string(p.Marshal())
	with := func(change func(*ledger.Proof)) string {
		q := p
		q.Path = slices.Clone(p.Path)
		change(&q)
		return string(q.Marshal())
	}
	entry := base64Of(p.Entry)
	for _, c := range [][4]string{
		{"index", "another index", "wrong", strings.Replace(good, "\nindex 8\n", "\nindex 9\n", 1)},
		{"index-beyond", "an index that the checkpoint does not cover", "wrong", strings.Replace(good, "\nindex 8\n", "\nindex 15\n", 1)},
		{"entry-other", "another entry", "wrong", with(func(q *ledger.Proof) { q.Entry = v.log.entry[7] })},
		{"entry-changed", "an entry with one byte changed", "wrong", with(func(q *ledger.Proof) { q.Entry = bytes.Replace(p.Entry, []byte("RUN_E005"), []byte("RUN_E006"), 1) })},
		{"hash-changed", "a bit of a hash was changed", "wrong", with(func(q *ledger.Proof) { q.Path[1][0] ^= 1 })},
		{"hash-missing", "a hash is missing", "wrong", with(func(q *ledger.Proof) { q.Path = q.Path[:len(q.Path)-1] })},
		{"hash-more", "a hash too many", "wrong", with(func(q *ledger.Proof) { q.Path = append(q.Path, tlog.Hash{}) })},
		{"hashes-swapped", "two hashes are swapped", "wrong", with(func(q *ledger.Proof) { q.Path[0], q.Path[1] = q.Path[1], q.Path[0] })},
		{"checkpoint-other", "a checkpoint of another size", "wrong", with(func(q *ledger.Proof) { q.Note = v.atEleven })},
		{"checkpoint-fork", "the checkpoint of the fork proves entry 8, which both have, with other hashes", "wrong", with(func(q *ledger.Proof) { q.Note = v.fork.checkpoint() })},
		{"checkpoint-wide", "a checkpoint of another log with the same keys", "wrong", string(ledger.Proof{Index: 8, Entry: p.Entry, Path: p.Path, Note: v.wide.checkpoint()}.Marshal())},
		{"signature", "a signature with another size", "bad-signature", strings.Replace(good, "\n15\n", "\n13\n", 1)},
		{"header", "another first line", "malformed", strings.Replace(good, "@v1", "@v2", 1)},
		{"no-extra", "no entry", "malformed", strings.Replace(good, "extra "+entry+"\n", "", 1)},
		{"extra-spare", "an entry in base64 with a line end in it", "malformed", strings.Replace(good, entry, entry[:8]+"\r"+entry[8:], 1)},
		{"extra-unpadded", "an entry in base64 that stops early", "malformed", strings.Replace(good, entry, entry[:len(entry)-1], 1)},
		{"no-index", "no index", "malformed", strings.Replace(good, "index 8\n", "", 1)},
		{"index-zero", "an index with a leading zero", "malformed", strings.Replace(good, "\nindex 8\n", "\nindex 08\n", 1)},
		{"index-large", "an index beyond 2^53", "malformed", strings.Replace(good, "\nindex 8\n", "\nindex 9999999999999999\n", 1)},
		{"hash-short", "a hash of 31 bytes", "malformed", strings.Replace(good, p.Path[0].String(), base64Of(p.Path[0][1:]), 1)},
		{"no-empty-line", "no empty line behind the hashes", "malformed", strings.Replace(good, "=\n\n"+vectorOrigin, "=\n"+vectorOrigin, 1)},
		{"no-checkpoint", "no checkpoint", "malformed", good[:strings.Index(good, "\n\n")+2]},
		{"carriage-returns", "line ends of another system", "malformed", strings.ReplaceAll(good, "\n", "\r\n")},
		{"empty", "no text", "malformed", ""},
	} {
		keys := v.keysLog
		if c[0] == "checkpoint-wide" {
			keys = v.keysWide
		}
		add(c[0], c[1], c[2], keys, c[3])
	}
	add("unknown-key", "the keys of another log", "unknown-key", []keyFrom{{Size: 1, Key: "other"}}, good)
	add("old-key-alone", "who knows the first key alone cannot check what the second signed", "unknown-key", []keyFrom{{Size: 1, Key: "A"}}, good)
	odd := newLog(t, v.a)
	odd.addEntry([]byte(`{"a":1}`))
	add("not-a-record", "an entry that is in the log and is no record", "not-a-record", v.keysOne, string(odd.proof(1, 2, odd.checkpoint()).Marshal()))
	return out
}

func folderVectors(t *testing.T, v *vectorLogs) []folderVector {
	t.Helper()
	const truth = "ledger.jsonl"
	log := v.log
	whole := len(log.text())
	open := []openRun{{13, "run-killed"}}
	insert := func(at int, s string) edit { i := text(s); return edit{File: truth, At: at, Insert: &i} }
	cut := func(from, to int) edit { return edit{File: truth, At: from, Cut: to - from} }
	swap := func(i, j int) edit {
		s := text(string(log.lines[j]) + string(log.lines[i]))
		return edit{File: truth, At: log.start(i), Cut: log.start(j+1) - log.start(i), Insert: &s}
	}
	change := func(i int, old, now string) edit { return v.change(t, "log", truth, log.start(i), old, now) }
	remove := func(name string) edit { return edit{File: name, Remove: true} }
	replace := func(name string, content []byte) edit { return v.replace("log", name, content) }
	note := func(s *ledger.Signer, size int64, root tlog.Hash) []byte {
		c, err := s.Checkpoint(size, root)
		if err != nil {
			t.Fatal(err)
		}
		return c.Note
	}
	// next returns a line that follows the lines of log, sealed by a key.
	next := func(s *ledger.Signer) string {
		m := *log
		m.tree.Roots = slices.Clone(log.tree.Roots)
		m.signer = s
		m.add(errorRecord("run-next"))
		return string(m.lines[len(m.lines)-1])
	}
	// resealed returns line i with a changed entry and a seal that fits it.
	resealed := func(i int, old, now string) string {
		m := newLog(t, v.a)
		m.lines, m.entry, m.tree = nil, nil, ledger.Range{}
		for _, e := range log.entry[:i] {
			m.addEntry(e)
		}
		m.addEntry(bytes.Replace(log.entry[i], []byte(old), []byte(now), 1))
		return string(m.lines[i])
	}
	forged := newLog(t, v.other)
	forged.add(decisionRecord("run-forged", "BUNDLE"))
	forged.rotate(v.a)
	forgedNote := note(v.other, 3, forged.roots[2])
	before := *log
	before.keys = log.keys[:1]
	behind := before.origin()
	ahead := *log
	ahead.keys = append(slices.Clone(log.keys), ledger.KeyFrom{Size: 13, Key: v.other.Verifier()})
	far := *log
	far.keys = append(slices.Clone(log.keys), ledger.KeyFrom{Size: 99, Key: v.other.Verifier()})
	usurped := *log
	usurped.keys = ledger.Keys{log.keys[0], {Size: 11, Key: v.other.Verifier()}}
	first := *log
	first.keys = ledger.Keys{{Size: 1, Key: v.other.Verifier()}, log.keys[1]}

	clean := func(name, why string, edits ...edit) folderVector {
		return folderVector{named: named{name, why}, Log: "log", Edits: edits, Verdict: "clean", Entries: 15, Open: open, Append: "appends"}
	}
	tampered := func(name, why string, at int64, edits ...edit) folderVector {
		return folderVector{named: named{name, why}, Log: "log", Edits: edits, Verdict: "tampered", Index: index(at), Append: "refuses"}
	}
	but := func(f folderVector, change func(*folderVector)) folderVector {
		change(&f)
		return f
	}
	repairs := func(list ...string) func(*folderVector) {
		return func(f *folderVector) { f.Repairs = list }
	}
	torn := func(n int, list ...string) func(*folderVector) {
		return func(f *folderVector) { f.Torn, f.Repairs = int64(n), list }
	}
	seals := func(f *folderVector) { f.Check = append(f.Check, "seals") }
	appends := func(f *folderVector) { f.Append = "appends" }
	nextB := next(v.b)
	sigOf := func(i int) string {
		s := string(log.lines[i])
		return s[strings.Index(s, `"sig":"`)+7 : strings.Index(s, `","size"`)]
	}
	flipped := func(s string, at int) string { // the base64 text with one bit of its bytes changed
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		raw[at] ^= 4
		return base64Of(raw)
	}
	out := []folderVector{
		but(clean("as-it-is", "log"), seals),
		but(clean("trusted-first", "an auditor who trusts the first key"), func(f *folderVector) { f.Trust = "A" }),
		but(clean("trusted-second", "an auditor who trusts the second key"), func(f *folderVector) { f.Trust = "B" }),
		but(clean("kept", "an auditor who has kept an older checkpoint"), func(f *folderVector) { f.Keep = keep(v.atEleven) }),
		but(clean("trusted-none", "an auditor who trusts a key that never signed here"), func(f *folderVector) { f.Trust, f.Verdict, f.Entries, f.Open = "other", "undecided", 0, nil }),

		but(clean("old-key", "whoever has the old key appends nothing"), func(f *folderVector) { f.Key, f.Append = "A", "refuses" }),
		but(clean("wrong-key", "a key of this origin that the ledger does not name"), func(f *folderVector) { f.Key, f.Append = "other", "refuses" }),

		// The results of a crash.
		but(clean("checkpoint-deleted", "the checkpoint is lost", remove("checkpoint")), repairs("checkpoint")),
		but(clean("checkpoint-none", "neither a checkpoint nor a pin is left: nobody can tell whether entries are missing", remove("checkpoint"), remove("checkpoints/8")), func(f *folderVector) {
			f.Verdict, f.Repairs = "unsigned", []string{"checkpoint"}
		}),
		but(clean("checkpoint-none-kept", "the same, for an auditor who has kept one", remove("checkpoint"), remove("checkpoints/8")), func(f *folderVector) {
			f.Keep, f.Repairs = keep(v.atEleven), []string{"checkpoint"}
		}),
		but(clean("checkpoint-garbage", "the checkpoint is no note", replace("checkpoint", []byte("\x00\x00\x00\x00"))), repairs("checkpoint")),
		but(clean("checkpoint-empty", "the checkpoint is empty", replace("checkpoint", nil)), repairs("checkpoint")),
		clean("checkpoint-older", "killed before the checkpoint: the line stays", replace("checkpoint", v.atEleven)),
		but(clean("torn-short", "killed inside the write", insert(whole, nextB[:11])), torn(11, "torn-tail")),
		but(clean("torn-record", "killed inside the write, later", insert(whole, nextB[:300])), torn(300, "torn-tail")),
		but(clean("torn-zeroes", "the file grew and its bytes are lost", insert(whole, strings.Repeat("\x00", 40))), torn(40, "torn-tail")),
		but(clean("torn-zeroes-behind", "a part of the line and zeroes", insert(whole, nextB[:80]+strings.Repeat("\x00", 40))), torn(120, "torn-tail")),
		but(clean("torn-garbage", "anything that has no line feed", insert(whole, "garbage")), torn(7, "torn-tail")),
		but(clean("torn-line-feed", "a whole line but for its line feed", insert(whole, strings.TrimSuffix(nextB, "\n"))), torn(len(nextB)-1, "newline")),
		but(clean("torn-line-feed-forged", "a whole line of another key but for its line feed: no line", insert(whole, strings.TrimSuffix(next(v.other), "\n"))), torn(len(nextB)-1, "torn-tail")),
		but(clean("origin-behind", "a rotation that was killed before origin.json was written",
			cut(log.start(10), whole), replace("checkpoint", v.atTen), replace("origin.json", behind)), func(f *folderVector) {
			f.Entries, f.Open = 10, nil
		}),
		but(tampered("line-feed-lost", "the last line feed is gone, and a checkpoint covers the line: a reader counts one line less than was promised", 14, cut(whole-1, whole)), func(f *folderVector) {
			f.Append, f.Repairs = "appends", []string{"newline"}
		}),

		// Entries and seals.
		tampered("entry-bit", "a bit of an entry", 3, change(3, "default", "defaulu")),
		tampered("entry-hash", "a digit of a hash in an entry", 1, change(1, string(sum("canonical of run-plan-1"))[:20], string(sum("canonical of run-plan-1"))[:19]+"z")),
		tampered("entry-verdict", "a rejected run becomes an accepted one", 6, change(6, `"accepted":false`, `"accepted":true`), v.change(t, "log", truth, log.start(6), `"reasons":["EXIT 1","OUTPUT_MISSING"]`, `"reasons":[]`).moved(-1)),
		tampered("entry-last", "the last entry", 14, change(14, "run-plan-5", "run-plan-6")),
		tampered("entry-first", "the genesis", 0, change(0, "10:15:00", "10:15:01")),
		tampered("entry-bytes", "the same record in other bytes", 3, change(3, `,"kind"`, `, "kind"`)),
		tampered("seal-root", "the root of a seal", 5, change(5, log.roots[5].String(), log.roots[4].String())),
		tampered("seal-size", "the size of a seal", 5, change(5, `"size":6}`, `"size":7}`)),
		clean("seal-signature", "a bit of the signature of a seal in the middle: who does not check all does not see it", change(5, sigOf(5), flipped(sigOf(5), 20))),
		but(tampered("seal-signature-seen", "who checks all does", 5, change(5, sigOf(5), flipped(sigOf(5), 20))), func(f *folderVector) { seals(f); appends(f) }),
		tampered("seal-signature-last", "the signature of the last seal is always checked", 14, change(14, sigOf(14), flipped(sigOf(14), 20))),
		but(tampered("seal-signature-rotation", "the signature over a rotation is always checked", 9, change(9, sigOf(9), flipped(sigOf(9), 20))), appends),
		but(tampered("seal-key", "the key id of the last seal", 14, change(14, sigOf(14), flipped(sigOf(14), 1))), func(f *folderVector) { f.Verdict, f.Index = "undecided", nil }),
		tampered("resealed", "an entry was changed and sealed again: the next seal tells", 4, func() edit {
			s := text(resealed(3, "default", "defaulu"))
			return edit{File: truth, At: log.start(3), Cut: len(log.lines[3]), Insert: &s}
		}()),

		// Lines.
		tampered("deleted", "a line was taken out", 4, cut(log.start(4), log.start(5))),
		tampered("deleted-first", "the genesis was taken out", 0, cut(0, log.start(1))),
		tampered("swapped", "two lines changed places", 4, swap(4, 5)),
		tampered("doubled", "a line stands there twice", 7, insert(log.start(7), string(log.lines[6]))),
		tampered("inserted", "a line of another log with the same keys", 2, insert(log.start(2), string(v.wide.lines[2]))),
		tampered("inserted-garbage", "a line that is none", 2, insert(log.start(2), "garbage\n")),
		tampered("inserted-empty", "an empty line", 2, insert(log.start(2), "\n")),
		tampered("carriage-return", "a line end of another system", 2, insert(log.start(3)-1, "\r")),
		tampered("hole", "zeroes inside a line", 7, func() edit {
			s := text(strings.Repeat("\x00", 64))
			return edit{File: truth, At: log.start(7) + 200, Cut: 64, Insert: &s}
		}()),
		tampered("hole-over-lines", "zeroes over the end of a line", 7, func() edit {
			s := text(strings.Repeat("\x00", 512))
			return edit{File: truth, At: log.start(8) - 256, Cut: 512, Insert: &s}
		}()),
		tampered("hole-line", "zeroes in the place of a line and its line feed", 7, func() edit {
			s := text(strings.Repeat("\x00", len(log.lines[7])))
			return edit{File: truth, At: log.start(7), Cut: len(log.lines[7]), Insert: &s}
		}()),
		tampered("garbage-behind", "a line that is none behind the last", 15, insert(whole, "garbage\n")),
		tampered("endless-behind", "more bytes without a line feed than a line has", 15, edit{File: truth, At: whole, Insert: &spelt{Repeat: &repeat{Unit: "\x00", Times: ledger.MaxTornBytes + 1}}}),
		tampered("forged-behind", "a line of another key behind the last, with a right root", 15, insert(whole, next(v.other))).undecided(),

		// Smaller than promised.
		tampered("truncated", "lines are missing at the end", 13, cut(log.start(13), whole)),
		tampered("truncated-inside", "the end of a line that was promised is missing", 14, cut(whole-20, whole)),
		tampered("truncated-to-nothing", "no line is there", 0, cut(0, whole)),
		tampered("truncated-pin", "the checkpoint was taken away as well; a pin tells", 5, cut(log.start(5), whole), remove("checkpoint"), edit{File: "origin.json", Cut: len(v.files["log/origin.json"]), Insert: &spelt{Text: string(behind)}}).by("A"),
		but(tampered("truncated-origin", "the checkpoint and the pin were taken away; origin.json tells of a key that no record names", 0,
			cut(log.start(5), whole), remove("checkpoint"), remove("checkpoints/8")), func(f *folderVector) { f.Index = nil }),
		but(clean("rolled-back", "checkpoint, pin and origin.json fit the smaller ledger: nothing in the folder tells",
			cut(log.start(5), whole), replace("checkpoint", note(v.a, 5, log.roots[4])), remove("checkpoints/8"), replace("origin.json", behind)), func(f *folderVector) {
			f.Entries, f.Open, f.Key = 5, []openRun{{4, "run-exec-1"}}, "A"
		}),
		but(tampered("rolled-back-kept", "a checkpoint that was kept elsewhere does", 5,
			cut(log.start(5), whole), replace("checkpoint", note(v.a, 5, log.roots[4])), remove("checkpoints/8"), replace("origin.json", behind)), func(f *folderVector) {
			f.Keep, f.Key, f.Append = keep(v.atEight), "A", "appends"
		}),
		tampered("checkpoint-newer", "the checkpoint is newer than the ledger", 15, replace("checkpoint", note(v.b, 16, log.roots[12]))),

		// Other promises.
		tampered("checkpoint-other", "the checkpoint promises another tree", 14, replace("checkpoint", note(v.b, 15, log.roots[12]))),
		but(tampered("checkpoint-bad-signature", "the signature of the checkpoint is not right", 0, v.change(t, "log", "checkpoint", 0, "\n15\n", "\n13\n")), func(f *folderVector) { f.Index = nil }),
		but(tampered("checkpoint-unknown-key", "another key signed the checkpoint", 0, replace("checkpoint", note(v.other, 15, log.tree.Root()))), func(f *folderVector) {
			f.Verdict, f.Index = "undecided", nil
		}),
		tampered("pin-other", "a pin promises another tree", 7, replace("checkpoints/8", note(v.a, 8, log.roots[6]))),
		{named: named{"fork", "whoever has the keys can sign another history: nothing in the folder tells"}, Log: "fork", Edits: []edit{}, Verdict: "clean", Entries: 14, Open: []openRun{{12, "run-killed"}}, Append: "appends"},
		{named: named{"fork-kept", "a checkpoint that was kept elsewhere does"}, Log: "fork", Edits: []edit{}, Keep: keep(note(v.b, 12, log.roots[11])), Verdict: "tampered", Index: index(11), Append: "appends"},

		// Keys.
		tampered("origin-other-key", "origin.json names another first key: the pin cannot be checked", 0, replace("origin.json", first.origin())).undecided(),
		but(clean("cut-unsigned", "lines were cut off, and every promise with them: what is left fits", cut(log.start(13), whole), remove("checkpoint"), remove("checkpoints/8")), func(f *folderVector) {
			f.Verdict, f.Entries, f.Open, f.Repairs = "unsigned", 13, nil, []string{"checkpoint"}
		}),
		tampered("origin-other-key-alone", "the same, and nothing is promised", 0, replace("origin.json", first.origin()), remove("checkpoint"), remove("checkpoints/8")),
		tampered("origin-other-rotation", "origin.json names another second key: the checkpoint cannot be checked", 0, replace("origin.json", usurped.origin())).undecided(),
		tampered("origin-other-rotation-alone", "the same, and nothing is promised", 9, replace("origin.json", usurped.origin()), remove("checkpoint")),
		tampered("origin-more-keys", "origin.json names a key that no record names: the checkpoint cannot be checked", 0, replace("origin.json", ahead.origin())).undecided(),
		but(tampered("origin-more-keys-alone", "the same, and nothing is promised", 0, replace("origin.json", ahead.origin()), remove("checkpoint")), func(f *folderVector) { f.Index = nil }),
		but(tampered("origin-later-key", "origin.json names a key that no record names, beyond the end", 0, replace("origin.json", far.origin())), func(f *folderVector) { f.Index = nil }),
		but(tampered("origin-missing", "there is no origin.json", 0, remove("origin.json")), func(f *folderVector) { f.Verdict, f.Index = "undecided", nil }),
		but(tampered("forged-rotation", "another log that ends with a rotation to the key that is trusted: that key has signed nothing", 0,
			replace(truth, forged.text()), replace("origin.json", forged.origin()), replace("checkpoint", forgedNote), remove("checkpoints/8")), func(f *folderVector) {
			f.Trust, f.Verdict, f.Index = "A", "undecided", nil
		}),

		// Evidence.
		but(tampered("evidence-missing", "the evidence of all decisions but the first is not there", 2), func(f *folderVector) {
			f.Check, f.Verdict, f.Entries, f.Open, f.Append = []string{"evidence"}, "evidence-missing", 15, open, "appends"
		}),
		but(tampered("evidence-altered", "the evidence of entry 1 has other bytes", 1, edit{File: v.blobName(), At: 2, Cut: 1, Insert: &spelt{Text: "D"}}), func(f *folderVector) {
			f.Check, f.Verdict, f.Entries, f.Open, f.Append = []string{"evidence"}, "evidence-corrupt", 15, open, "appends"
		}),

		// Tiles.
		{named: named{"wide", "wide"}, Log: "wide", Edits: []edit{}, Check: []string{"seals", "tiles"}, Verdict: "clean", Entries: 259, Append: "appends"},
		{named: named{"tile-missing", "a full tile is missing: it can be made again"}, Log: "wide", Edits: []edit{remove("tile/0/000")}, Check: []string{"tiles"}, Verdict: "clean", Entries: 259, Append: "appends"},
		{named: named{"tile-wrong", "a bit of a full tile"}, Log: "wide", Edits: []edit{v.flip("wide", "tile/0/000", 4000)}, Check: []string{"tiles"}, Verdict: "wrong-tiles", Entries: 259, Append: "appends"},
		{named: named{"tile-unseen", "who does not look at tiles does not see it: no verdict rests on them"}, Log: "wide", Edits: []edit{v.flip("wide", "tile/0/000", 4000)}, Verdict: "clean", Entries: 259, Append: "appends"},
		{named: named{"tile-short", "a full tile that is cut"}, Log: "wide", Edits: []edit{{File: "tile/0/000", At: 8160, Cut: 32}}, Check: []string{"tiles"}, Verdict: "wrong-tiles", Entries: 259, Append: "appends"},
	}
	for _, i := range []int{254, 255, 256} {
		out = append(out, folderVector{
			named: named{fmt.Sprintf("wide-entry-%d", i), "an entry at the border of a tile"}, Log: "wide", Verdict: "tampered", Index: index(int64(i)), Append: "refuses",
			Edits: []edit{v.change(t, "wide", truth, v.wide.start(i), "default", "defaulu")},
		})
	}
	for i := range out {
		if out[i].Edits == nil {
			out[i].Edits = []edit{}
		}
		if out[i].Key == "" {
			out[i].Key = map[bool]string{true: "A", false: "B"}[out[i].Log == "wide"]
		}
		if out[i].Check == nil {
			out[i].Check = []string{}
		}
	}
	return out
}

func (f folderVector) undecided() folderVector {
	f.Verdict, f.Index = "undecided", nil
	return f
}

// by names the key that appends.
func (f folderVector) by(key string) folderVector {
	f.Key = key
	return f
}

// moved returns the edit after another edit has changed the length of the text before
// it.
func (e edit) moved(by int) edit {
	e.At += by
	return e
}

// flip returns the edit that changes a bit of a file.
func (v *vectorLogs) flip(log, name string, at int) edit {
	return edit{File: name, At: at, Cut: 1, Insert: &spelt{Base64: []byte{v.files[log+"/"+name][at] ^ 1}}}
}

// blobName returns the name of the evidence of entry 1 of log.
func (v *vectorLogs) blobName() string {
	rec, err := ledger.ParseRecord(v.log.entry[1])
	if err != nil {
		return ""
	}
	digits := rec.Evidence.SHA256.Hex()
	return "evidence/sha256/" + digits[:2] + "/" + digits[2:]
}
