package ledger_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// serverVectorDir has the vectors of specs/ledger-server.md, which use the keys and the log
// of the vectors of the ledger.
const serverVectorDir = "../specs/vectors/ledger-server"

// ackVector is an ack, and what the keys of a log make of it.
type ackVector struct {
	named
	Keys   []keyFrom `json:"keys"`
	Ack    spelt     `json:"ack"`
	Expect string    `json:"expect"`
	Index  int64     `json:"index,omitempty"`
	Leaf   string    `json:"leaf,omitempty"`
}

// answerVector is an answer to a draft, and what a client makes of it.
type answerVector struct {
	named
	Draft  string `json:"draft"`
	Status int    `json:"status"`
	Body   spelt  `json:"body"`
	Cut    bool   `json:"cut,omitempty"`
	Expect string `json:"expect"`
	Index  int64  `json:"index,omitempty"`
}

// TestServerVectorsAreMade: this generator makes exactly the files of the folder, except the
// README. With -update it writes them.
func TestServerVectorsAreMade(t *testing.T) {
	v := makeLogs(t)
	for name, want := range map[string][]byte{
		"acks.json":    layout(t, file[ackVector]{About: "Acks, and what the keys of a log make of them.", Vectors: ackVectors(t, v)}),
		"answers.json": layout(t, file[answerVector]{About: "Answers to a draft, and what a client makes of them.", Vectors: answerVectors(t, v)}),
	} {
		path := filepath.Join(serverVectorDir, name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is made: look at the difference after go test ./ledger -run VectorsAreMade -update", name)
		}
	}
}

func ackBy(t *testing.T, s *ledger.Signer, index int64, entry string) string {
	t.Helper()
	a, err := s.Ack(index, ledger.LeafHash([]byte(entry)))
	if err != nil {
		t.Fatal(err)
	}
	return string(a.Note)
}

// spoiled returns a note whose last signature has another bit, and the same key id.
func spoiled(t *testing.T, s string) string {
	t.Helper()
	at := strings.LastIndex(s, " ") + 1
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s[at:]))
	if err != nil {
		t.Fatal(err)
	}
	raw[10] ^= 1
	return s[:at] + base64Of(raw) + "\n"
}

// signatures returns the signature lines of a note.
func signatures(note string) string {
	_, lines, _ := strings.Cut(note, "\n\n")
	return lines
}

func ackVectors(t *testing.T, v *vectorLogs) []ackVector {
	t.Helper()
	entry, other := string(v.log.entry[14]), string(v.log.entry[13])
	good := ackBy(t, v.b, 14, entry)
	leaf := ledger.LeafHash([]byte(entry))
	checkpoint := string(v.log.checkpoint())
	right := func(name, why string, index int64, entry, text string) ackVector {
		return ackVector{named{name, why}, v.keysLog, spelt{Text: text}, "right", index, hexOf(ledger.LeafHash([]byte(entry)))}
	}
	not := func(name, why, expect, text string) ackVector {
		return ackVector{named: named{name, why}, Keys: v.keysLog, Ack: spelt{Text: text}, Expect: expect}
	}
	change := func(old, now string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the ack has no %q", old)
		}
		return strings.Replace(good, old, now, 1)
	}
	witness := ackBy(t, v.foreign, 14, entry)
	return []ackVector{
		right("newest", "the ack of the last entry of log", 14, entry, good),
		right("first", "the ack of the first entry: key A", 0, string(v.log.entry[0]), ackBy(t, v.a, 0, string(v.log.entry[0]))),
		right("rotation", "the rotation is entry 9, and the last that key A signs", 9, string(v.log.entry[9]), ackBy(t, v.a, 9, string(v.log.entry[9]))),
		right("after-rotation", "key B signs from entry 10 on", 10, string(v.log.entry[10]), ackBy(t, v.b, 10, string(v.log.entry[10]))),
		right("largest", "the largest index that every JSON program can read", canon.MaxSafeInteger-1, entry, ackBy(t, v.b, canon.MaxSafeInteger-1, entry)),
		right("cosigned", "another signature after the one of the log", 14, entry, good+signatures(witness)),
		right("cosigned-first", "another signature before the one of the log", 14, entry, change("\n\n", "\n\n"+signatures(witness))),
		not("old-key", "the old key signs no later entry", "unknown-key", ackBy(t, v.a, 14, entry)),
		not("unknown-key", "a key of this origin that is not known", "unknown-key", ackBy(t, v.other, 14, entry)),
		not("other-origin", "the ack of another log", "unknown-key", witness),
		not("key-of-another", "the origin of this log, signed by another one alone", "unknown-key",
			strings.Replace(witness, v.foreign.Origin()+"/ack", vectorOrigin+"/ack", 1)),
		not("signed-as-ack", "the name of the signature is the origin alone", "unknown-key", change("\u2014 "+vectorOrigin, "\u2014 "+vectorOrigin+"/ack")),
		not("bad-signature", "a bit of the signature was changed", "bad-signature", spoiled(t, good)),
		not("other-index", "the index was changed", "bad-signature", change("\n14\n", "\n13\n")),
		not("other-leaf", "the leaf hash was changed", "bad-signature", change(leaf.String(), ledger.LeafHash([]byte(other)).String())),
		not("signed-checkpoint", "the signature of a checkpoint with this number and this hash", "bad-signature",
			strings.Replace(good, signatures(good), signatures(checkpointOf(t, v.b, 14, entry)), 1)),
		not("checkpoint", "a checkpoint: its origin has no /ack", "malformed", checkpoint),
		not("seal-origin", "the first line of a seal", "malformed", change("/ack\n", "/seal\n")),
		not("ack-twice", "no origin ends in /ack", "malformed", change("/ack\n", "/ack/ack\n")),
		not("empty", "no text", "malformed", ""),
		not("no-signature", "no signature", "malformed", strings.TrimSuffix(good, signatures(good))),
		not("no-empty-line", "no empty line", "malformed", change("\n\n", "\n")),
		not("no-last-line-feed", "the last line feed is missing", "malformed", strings.TrimSuffix(good, "\n")),
		not("no-leaf", "two lines", "malformed", change(leaf.String()+"\n", "")),
		not("extension", "a fourth line", "malformed", change("\n\n", "\nextension\n\n")),
		not("two-empty-lines", "a second block of signatures", "malformed", good+"\n"+signatures(witness)),
		not("index-leading-zero", "an index with a leading zero", "malformed", change("\n14\n", "\n014\n")),
		not("index-negative", "an index below zero", "malformed", change("\n14\n", "\n-14\n")),
		not("index-large", "an index beyond 2^53", "malformed", change("\n14\n", "\n9999999999999999\n")),
		not("leaf-hex", "a leaf hash in hex", "malformed", change(leaf.String(), hexOf(leaf))),
		not("leaf-short", "a leaf hash of 31 bytes", "malformed", change(leaf.String(), base64Of(leaf[1:]))),
		not("carriage-return", "line ends of another system", "malformed", strings.ReplaceAll(good, "\n", "\r\n")),
		{named: named{"too-long", "more than 1024 bytes"}, Keys: v.keysLog, Ack: spelt{Repeat: &repeat{Before: good, Unit: signatures(witness), Times: 8}}, Expect: "malformed"},
	}
}

func checkpointOf(t *testing.T, s *ledger.Signer, size int64, entry string) string {
	t.Helper()
	c, err := s.Checkpoint(size, ledger.LeafHash([]byte(entry)))
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Note)
}

// answers makes the vectors of answers to one draft. The answer is that of a right server,
// except for what a vector changes.
type answers struct {
	t     *testing.T
	v     *vectorLogs
	rec   ledger.Record
	draft string
	out   []answerVector
}

// answerIndex is the index of the entry that the log gets next.
const answerIndex = 15

func (a *answers) of(rec ledger.Record) *answers {
	draft, err := rec.Draft()
	if err != nil {
		a.t.Fatal(err)
	}
	a.rec, a.draft = rec, string(draft)
	return a
}

// entry returns the entry that a right server makes of the record, with a change of it.
func (a *answers) entry(change func(*ledger.Record)) string {
	rec := a.rec
	rec.Stamp(vectorTime.Add(time.Hour), "")
	rec.Submitter = "ci"
	change(&rec)
	entry, err := rec.Entry()
	if err != nil {
		a.t.Fatal(err)
	}
	return string(entry)
}

func (a *answers) right() ledger.Recorded {
	entry := a.entry(func(*ledger.Record) {})
	return a.with(entry)
}

// with returns an answer with an entry and its ack.
func (a *answers) with(entry string) ledger.Recorded {
	return ledger.Recorded{Ack: ackBy(a.t, a.v.b, answerIndex, entry), Entry: entry, Index: answerIndex}
}

func (a *answers) text(doc ledger.Recorded) string {
	b, _, err := canon.Artifact(doc)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(b)
}

func (a *answers) add(name, why string, status int, body spelt, expect string) *answerVector {
	v := answerVector{named: named{name, why}, Draft: a.draft, Status: status, Body: body, Expect: expect}
	if expect == "accepted" {
		v.Index = answerIndex
	}
	a.out = append(a.out, v)
	return &a.out[len(a.out)-1]
}

// says adds an answer with a document, and body one with a text.
func (a *answers) says(name, why string, doc ledger.Recorded, expect string) {
	a.add(name, why, 200, text(a.text(doc)), expect)
}

func (a *answers) body(name, why, body, expect string) { a.add(name, why, 200, text(body), expect) }

func answerVectors(t *testing.T, v *vectorLogs) []answerVector {
	t.Helper()
	a := &answers{t: t, v: v}
	a.accepted()
	a.badForms()
	a.badEntries()
	a.badAcks()
	a.refusals()
	return a.out
}

func (a *answers) accepted() {
	a.of(decisionRecord("run-answer", "BUNDLE"))
	a.says("decision", "the entry is the draft with timestamp and submitter", a.right(), "accepted")
	a.of(begunRecord("run-answer"))
	a.says("begun", "a begun record", a.right(), "accepted")
	a.of(errorRecord("run-answer"))
	a.says("error", "an error record", a.right(), "accepted")
	a.says("clock-behind", "the clock of the server was behind", a.with(a.entry(func(r *ledger.Record) { r.ClockBehindMS = 1500 })), "accepted")
	cosigned := a.right()
	cosigned.Ack += signatures(ackBy(a.t, a.v.foreign, answerIndex, cosigned.Entry))
	a.says("cosigned", "the ack has another signature too", cosigned, "accepted")
	again := a.right()
	again.Again = true
	a.says("again", "the log had the record: the first answer was lost", again, "accepted")
	again = a.with(a.entry(func(r *ledger.Record) { r.Submitter = "" }))
	again.Again = true
	a.says("again-imported", "the log had the record from a folder, which has no submitters", again, "accepted")
	a.of(decisionRecord("run-answer", "BUNDLE"))
	again = a.with(a.entry(func(r *ledger.Record) {
		r.ResultSHA256, r.Evidence = sum("an earlier result"), ledger.Blob{SHA256: sum("earlier evidence"), Size: 4000}
	}))
	again.Again = true
	a.says("again-earlier", "the log had the same decision with other times in its result", again, "accepted")
}

func (a *answers) badForms() {
	a.of(errorRecord("run-answer"))
	good := a.text(a.right())
	change := func(old, now string) string {
		if !strings.Contains(good, old) {
			a.t.Fatalf("the answer has no %q", old)
		}
		return strings.Replace(good, old, now, 1)
	}
	ack, _, _ := strings.Cut(good, `,"again"`)
	for _, c := range [][3]string{
		{"empty", "no body", ""}, {"html", "a page of a proxy", "<html><body>It works</body></html>\n"}, {"null", "no object", "null\n"}, {"list", "a list", "[" + good + "]\n"},
		{"cut-json", "the text ends in the middle", good[:len(good)/2]}, {"no-line-feed", "no line feed at the end", strings.TrimSuffix(good, "\n")},
		{"two-line-feeds", "two line feeds at the end", good + "\n"}, {"two-documents", "a second document", good + good},
		{"blank", "white space between the tokens", change(`,"again"`, `, "again"`)}, {"unsorted", "members in another order", "{" + strings.TrimPrefix(ack, "{") + `,"entry"` + strings.SplitN(good, `,"entry"`, 2)[1]},
		{"twice", "a member twice", change(`"again":false`, `"again":false,"again":false`)}, {"twice-other", "a member twice, with another value", change(`"again":false`, `"again":true,"again":false`)},
		{"unknown-member", "a member that the page does not have", change(`"again":false`, `"again":false,"again2":false`)},
		{"upper-case", "another spelling of a member", change(`"again"`, `"Again"`)}, {"no-again", "a member is missing", change(`"again":false,`, "")},
		{"no-ack", "the ack is missing", "{" + strings.TrimPrefix(strings.TrimPrefix(good, ack), ",")},
		{"ack-null", "the ack is null", strings.Replace(good, ack, `{"ack":null`, 1)}, {"again-text", "a text for a boolean", change(`"again":false`, `"again":"false"`)},
		{"index-text", "a text for the index", change(`"index":15`, `"index":"15"`)}, {"index-fraction", "another spelling of the index", change(`"index":15`, `"index":15.0`)},
		{"index-large", "an index beyond 2^53", change(`"index":15`, `"index":9007199254740993`)}, {"escape", "an escape, though it is the same text", change(`"ci\"`, `"c\u0069\"`)},
	} {
		a.body(c[0], c[1], c[2], "form")
	}
	a.add("not-utf-8", "a byte that is no UTF-8", 200, spelt{Base64: []byte(change("RUN_E005", "RUN_E\xff05"))}, "form")
	a.add("too-large", "more than the answer to a draft can have", 200, spelt{Repeat: &repeat{Before: good, Unit: " ", Times: 40000}}, "form")
	a.add("no-content", "the answer to a blob", 204, text(""), "form")
	a.add("redirect", "a redirect is not followed", 307, text(""), "form")
	a.add("cut", "the connection ends before the length that the head says", 200, text(good[:len(good)/2]), "retry").Cut = true
}

func (a *answers) badEntries() {
	none := func(*ledger.Record) {}
	a.of(errorRecord("run-answer"))
	entry := a.entry(none)
	changed := func(old, now string) string {
		if !strings.Contains(entry, old) {
			a.t.Fatalf("the entry has no %q", old)
		}
		return strings.Replace(entry, old, now, 1)
	}
	for _, c := range [][3]string{
		{"entry-cut", "no record", entry[:len(entry)-1]}, {"entry-line-feed", "a line feed at its end", entry + "\n"}, {"entry-blank", "not canonical", changed(`,"kind"`, `, "kind"`)},
		{"entry-other-code", "another error", changed("RUN_E005", "RUN_E006")}, {"entry-other-run", "another run", changed("run-answer", "run-answers")},
		{"entry-more", "a member that the draft does not have", changed(`,"run_id"`, `,"rule_id":"IV-02","run_id"`)},
		{"entry-unknown", "a member that no record has", changed(`,"timestamp"`, `,"testimony":1,"timestamp"`)},
		{"entry-draft", "the draft, without a timestamp", a.draft}, {"entry-no-submitter", "no submitter", changed(`,"submitter":"ci"`, "")},
		{"entry-empty-submitter", "an empty submitter", changed(`"submitter":"ci"`, `"submitter":""`)}, {"entry-bad-submitter", "no name of a submitter", changed(`"submitter":"ci"`, `"submitter":"c i"`)},
		{"entry-no-milliseconds", "a timestamp without milliseconds", changed(".000Z", "Z")}, {"entry-zone", "a timestamp of another time zone", changed(".000Z", ".000+01:00")},
		{"entry-day", "a timestamp that is no day", changed("2026-01-05", "2026-02-30")}, {"entry-clock-zero", "a clock that is behind by nothing", changed(`"code"`, `"clock_behind_ms":0,"code"`)},
		{"entry-clock-before", "a clock that is behind by less than nothing", changed(`"code"`, `"clock_behind_ms":-1,"code"`)},
	} {
		a.says(c[0], c[1], a.with(c[2]), "entry")
	}
	a.add("entry-large", "an entry of more than 16384 bytes", 200, a.large(entry), "entry")
	again := func(name, why string, doc ledger.Recorded) { doc.Again = true; a.says(name, why, doc, "entry") }
	again("again-other-run", "the record of another run", a.with(changed("run-answer", "run-answers")))
	again("again-other-end", "another end of the run", a.with(changed("RUN_E005", "RUN_E006")))
	again("again-no-record", "no record", a.with(a.draft))
	a.of(decisionRecord("run-answer", "BUNDLE"))
	a.says("other-result", "another result, and the log had it not before", a.with(a.entry(func(r *ledger.Record) { r.ResultSHA256 = sum("another") })), "entry")
	a.says("other-evidence", "other evidence, and the log had it not before", a.with(a.entry(func(r *ledger.Record) { r.Evidence.Size++ })), "entry")
	a.says("other-verdict", "the opposite decision", a.with(a.entry(func(r *ledger.Record) { r.Accepted, r.Reasons = false, []string{"DENIED"} })), "entry")
	again("again-other-verdict", "the opposite decision", a.with(a.entry(func(r *ledger.Record) { r.Accepted, r.Reasons = false, []string{"DENIED"} })))
	begun := a.of(begunRecord("run-answer")).entry(none)
	a.of(decisionRecord("run-answer", "BUNDLE"))
	again("again-begun", "the begun record of the run for its end", a.with(begun))
}

// large returns an answer with an entry of so many bytes that no entry has, spelt shortly.
func (a *answers) large(entry string) spelt {
	const mark = "MARK"
	doc := a.with(strings.Replace(entry, "run-answer", mark, 1))
	before, after, _ := strings.Cut(a.text(doc), mark)
	return spelt{Repeat: &repeat{Before: before, Unit: "r", Times: ledger.MaxEntryBytes, After: after}}
}

func (a *answers) badAcks() {
	a.of(errorRecord("run-answer"))
	good := a.right()
	with := func(name, why, ack, expect string) {
		doc := good
		doc.Ack = ack
		a.says(name, why, doc, expect)
	}
	by := func(s *ledger.Signer, index int64, entry string) string { return ackBy(a.t, s, index, entry) }
	with("ack-empty", "no ack", "", "ack")
	with("ack-checkpoint", "a checkpoint", checkpointOf(a.t, a.v.b, answerIndex, good.Entry), "ack")
	with("ack-no-line-feed", "the last line feed is missing", strings.TrimSuffix(good.Ack, "\n"), "ack")
	with("ack-no-signature", "no signature", strings.TrimSuffix(good.Ack, signatures(good.Ack)), "ack")
	with("ack-bad-signature", "a bit of the signature was changed", spoiled(a.t, good.Ack), "ack")
	with("ack-unsigned-index", "the index was changed after it was signed", strings.Replace(good.Ack, "\n15\n", "\n16\n", 1), "ack")
	with("ack-other-index", "the ack of another index", by(a.v.b, answerIndex+1, good.Entry), "ack")
	with("ack-other-leaf", "the ack of another entry", by(a.v.b, answerIndex, string(a.v.log.entry[14])), "ack")
	with("ack-of-draft", "the ack of the draft", by(a.v.b, answerIndex, a.draft), "ack")
	index := good
	index.Index = 14
	a.says("index-other", "the index is not that of the ack", index, "ack")
	index.Index = -1
	a.says("index-negative", "an index below zero", index, "ack")
	again := good
	again.Again, again.Ack = true, by(a.v.b, answerIndex, string(a.v.log.entry[14]))
	a.says("again-other-ack", "an ack of another entry, and the log had the record", again, "ack")
	with("key-other", "a key of this origin that the log does not have", by(a.v.other, answerIndex, good.Entry), "key")
	with("key-old", "the key that a rotation has ended", by(a.v.a, answerIndex, good.Entry), "key")
	with("key-other-log", "the ack of another log", by(a.v.foreign, answerIndex, good.Entry), "key")
}

func (a *answers) refusals() {
	a.of(errorRecord("run-answer"))
	for _, c := range []struct {
		status       int
		code, expect string
	}{
		{400, "request", "refused"}, {401, "token", "token"}, {403, "forbidden", "forbidden"}, {404, "missing", "refused"}, {409, "evidence", "refused"},
		{409, "conflict", "conflict"}, {409, "ended", "ended"}, {413, "large", "refused"}, {422, "record", "refused"}, {500, "storage", "retry"}, {503, "busy", "retry"},
	} {
		body, _, err := canon.Artifact(map[string]any{"error": c.code, "message": "said by the server"})
		if err != nil {
			a.t.Fatal(err)
		}
		a.add(fmt.Sprintf("%d-%s", c.status, c.code), "an answer of the table of the page", c.status, text(string(body)), c.expect)
	}
	page := "<html><body>said by something before the server</body></html>\n"
	for status, expect := range map[int]string{401: "token", 403: "forbidden", 404: "refused", 409: "refused", 418: "refused", 429: "retry", 502: "retry", 503: "retry"} {
		a.add(fmt.Sprintf("%d-page", status), "the status counts, whatever the text is", status, text(page), expect)
	}
	a.add("503-large", "of a long text the status counts", 503, spelt{Repeat: &repeat{Before: page, Unit: "x", Times: 5000}}, "retry")
	a.add("200-error", "an error with the status of a success", 200, text(`{"error":"busy","message":"said by the server"}`+"\n"), "form")
	doc, _ := json.Marshal(a.right())
	a.add("503-answer", "an answer with the status of a failure promises nothing", 503, text(string(doc)+"\n"), "retry")
	a.add("201-answer", "another status of success is none of this page", 201, text(a.text(a.right())), "refused")
	slices.SortStableFunc(a.out, func(x, y answerVector) int { return strings.Compare(statusOrder(x), statusOrder(y)) })
}

// statusOrder keeps the answers with 200 in their order, and sorts the others.
func statusOrder(v answerVector) string {
	if v.Status == 200 {
		return ""
	}
	return v.Name
}
