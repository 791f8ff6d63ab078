package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/kernel/canon"
)

// randomRecord returns a record that can be written.
func randomRecord(r *rand.Rand, s *Signer) Record {
	hash := func() canon.ContentHash { return sumOf(r.IntN(1 << 30)) }
	text := func(most int, of string) string {
		b := make([]byte, 1+r.IntN(most))
		for i := range b {
			b[i] = of[r.IntN(len(of))]
		}
		return string(b)
	}
	const word = "abcxyzABCXYZ019"
	kinds := []Kind{KindGenesis, KindBegun, KindDecision, KindError, KindKeyRotation, KindRepair}
	rec := Record{Kind: kinds[r.IntN(len(kinds))]}
	rec.Timestamp = time.UnixMilli(r.Int64N(4e12)).UTC().Format(TimeFormat)
	if r.IntN(2) == 0 {
		rec.ClockBehindMS = 1 + r.Int64N(canon.MaxSafeInteger)
	}
	if rec.Kind.OfRun() {
		rec.RunID, rec.IntentSHA256, rec.PolicySHA256 = text(1, word)+text(127, word+"._-"), hash(), hash()
		rec.ExecutionMode, rec.Mode = []string{"plan-only", "execute-sandbox"}[r.IntN(2)], []string{"none", "record", "replay"}[r.IntN(3)]
		rec.Policy, rec.Kernel = text(64, word+"-_."), text(64, word+"-_.+")
	}
	if r.IntN(2) == 0 {
		rec.Work = randomWork(r, rec.Kind)
	}
	switch rec.Kind {
	case KindGenesis:
		rec.Format, rec.Origin, rec.Key = Format, s.Origin(), s.Verifier().String()
	case KindKeyRotation:
		rec.Key = s.Verifier().String()
	case KindBegun:
		rec.InputSHA256, rec.BundleSHA256, rec.Former = hash(), hash(), r.IntN(2) == 0
	case KindError:
		rec.Code = fmt.Sprintf("RUN_E0%02d", r.IntN(100))
		if r.IntN(2) == 0 {
			rec.RuleID = text(64, word+"-_.")
		}
	case KindRepair:
		for range 1 + r.IntN(8) {
			p := Repair{What: RepairNewline, Offset: r.Int64N(1e12), Bytes: r.Int64N(1e6)}
			if r.IntN(2) == 0 {
				p.What, p.SHA256 = RepairTornTail, hash()
			}
			rec.Repairs = append(rec.Repairs, p)
		}
	case KindDecision:
		rec.ResultKind = []string{"BUNDLE", "CLARIFY", "REFUSE"}[r.IntN(3)]
		for i := range r.IntN(64) {
			rec.Reasons = append(rec.Reasons, fmt.Sprintf("R%03d", i))
		}
		rec.Accepted = rec.ResultKind == "BUNDLE" && len(rec.Reasons) == 0
		if rec.ResultKind != "REFUSE" {
			rec.BundleSHA256 = hash()
		}
		rec.InputSHA256, rec.DecisionSHA256, rec.CanonicalSHA256, rec.ResultSHA256 = hash(), hash(), hash(), hash()
		rec.Evidence = Blob{hash(), r.Int64N(canon.MaxSafeInteger)}
	}
	return rec
}

// randomWork returns the work of a record of a kind, and nil if the kind has none.
func randomWork(r *rand.Rand, k Kind) *Work {
	w := &Work{ItemID: fmt.Sprintf("item-%d", r.IntN(100))}
	if r.IntN(2) == 0 {
		w.PlanSHA256 = sumOf(r.IntN(1 << 30))
	}
	switch k {
	case KindBegun:
		w.Base = stateOf(r.IntN(1 << 30))
	case KindDecision:
		w.Before, w.After, w.Receipt = stateOf(r.IntN(1<<30)), stateOf(r.IntN(1<<30)), stateOf(r.IntN(1<<30))
	default:
		return nil
	}
	return w
}

// TestRecordRoundTrip: ParseRecord reads every record that Entry writes, and the other
// way round.
func TestRecordRoundTrip(t *testing.T) {
	r, s := rand.New(rand.NewPCG(3, 4)), newSigner(t, 1)
	for range 3000 {
		rec := randomRecord(r, s)
		entry, err := rec.Entry()
		if err != nil {
			t.Fatalf("%+v: %v", rec, err)
		}
		back, err := ParseRecord(entry)
		if err != nil || !reflect.DeepEqual(back, rec) {
			t.Fatalf("%s\nis read as %+v\nwritten of %+v (%v)", entry, back, rec, err)
		}
		again, err := back.Entry()
		if err != nil || !bytes.Equal(again, entry) {
			t.Fatalf("%s\nis written as %s (%v)", entry, again, err)
		}
		if doc, err := canon.Parse(entry, MaxEntryBytes); err != nil || !bytes.Equal(doc.Bytes(), entry) {
			t.Fatalf("%s is not canonical (%v)", entry, err)
		}
	}
}

// TestRecordRefused: Entry refuses every record that ParseRecord would refuse.
func TestRecordRefused(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"kind":              func(r *Record) { r.Kind = "verdict" },
		"no kind":           func(r *Record) { r.Kind = "" },
		"timestamp":         func(r *Record) { r.Timestamp = "" },
		"run id":            func(r *Record) { r.RunID = "a b" },
		"quote":             func(r *Record) { r.RunID = `a"b` },
		"empty hash":        func(r *Record) { r.InputSHA256 = "" },
		"clock":             func(r *Record) { r.ClockBehindMS = -1 },
		"large number":      func(r *Record) { r.Evidence.Size = canon.MaxSafeInteger + 1 },
		"negative":          func(r *Record) { r.Evidence.Size = -1 },
		"outcome":           func(r *Record) { r.ResultKind = "ALLOW" },
		"no bundle":         func(r *Record) { r.BundleSHA256 = "" },
		"accepted":          func(r *Record) { r.Reasons = []string{"A"} },
		"reasons unsorted":  func(r *Record) { r.Accepted, r.Reasons = false, []string{"B", "A"} },
		"reasons twice":     func(r *Record) { r.Accepted, r.Reasons = false, []string{"A", "A"} },
		"too many reasons":  func(r *Record) { r.Accepted, r.Reasons = false, make([]string, 65) },
		"reason of a path":  func(r *Record) { r.Accepted, r.Reasons = false, []string{"OUTPUT_KIND out/a"} },
		"reason of letters": func(r *Record) { r.Accepted, r.Reasons = false, []string{"EXIT a"} },
		"reason of nothing": func(r *Record) { r.Accepted, r.Reasons = false, []string{"EXIT "} },
		"mode":              func(r *Record) { r.Mode = "" },
		"kernel":            func(r *Record) { r.Kernel = strings.Repeat("1", 65) },
		"policy":            func(r *Record) { r.Policy = "a/b" },
		"not UTF-8":         func(r *Record) { r.Policy = "\xff" },
		"empty work":        func(r *Record) { r.Work = &Work{} },
		"work of a begun":   func(r *Record) { r.Work = &Work{ItemID: "a", Base: stateOf(1)} },
		"work with a base":  func(r *Record) { r.Work = decidedWork(); r.Work.Base = stateOf(1) },
		"item":              func(r *Record) { r.Work = decidedWork(); r.Work.ItemID = ".a" },
		"no receipt":        func(r *Record) { r.Work = decidedWork(); r.Work.Receipt = "" },
		"state":             func(r *Record) { r.Work = decidedWork(); r.Work.After = string(sumOf(1)) },
		"state in capitals": func(r *Record) { r.Work = decidedWork(); r.Work.Before = strings.ToUpper(stateOf(1)) },
		"plan":              func(r *Record) { r.Work = decidedWork(); r.Work.PlanSHA256 = "sha256:1" },
	} {
		if b, err := decided(change).Entry(); err == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
	for name, change := range map[string]func(*Record){
		"no repairs":     func(r *Record) { r.Repairs = nil },
		"nine repairs":   func(r *Record) { r.Repairs = make([]Repair, 9) },
		"unknown repair": func(r *Record) { r.Repairs[0].What = "rewrite" },
		"no hash":        func(r *Record) { r.Repairs[0] = Repair{What: RepairTornTail} },
		"a hash":         func(r *Record) { r.Repairs[0] = Repair{What: RepairNewline, SHA256: sumOf(1)} },
	} {
		rec := Record{Kind: KindRepair, Timestamp: "2026-03-01T10:00:00.000Z", Repairs: []Repair{{What: RepairCheckpoint}}}
		if change(&rec); true {
			if b, err := rec.Entry(); err == nil {
				t.Errorf("%s: %s", name, b)
			}
		}
	}
}

// TestEndOf: a decision belongs to the begun of the same item of the same plan, and to one
// without work if it has none itself. An error belongs to both.
func TestEndOf(t *testing.T) {
	begunOf := func(w *Work) Record {
		r := decided(func(r *Record) { r.Kind, r.ResultKind, r.Accepted, r.Work = KindBegun, "", false, w })
		r.DecisionSHA256, r.CanonicalSHA256, r.ResultSHA256, r.Evidence = "", "", "", Blob{}
		return r
	}
	for name, c := range map[string]struct {
		begun, end *Work
		belongs    bool
	}{
		"none":         {nil, nil, true},
		"same":         {&Work{ItemID: "a", PlanSHA256: sumOf(1), Base: stateOf(9)}, decidedWork(), true},
		"other item":   {&Work{ItemID: "b", PlanSHA256: sumOf(1), Base: stateOf(9)}, decidedWork(), false},
		"other plan":   {&Work{ItemID: "a", PlanSHA256: sumOf(2), Base: stateOf(9)}, decidedWork(), false},
		"no plan":      {&Work{ItemID: "a", Base: stateOf(9)}, decidedWork(), false},
		"of the end":   {nil, decidedWork(), false},
		"of the begun": {&Work{ItemID: "a", PlanSHA256: sumOf(1), Base: stateOf(9)}, nil, false},
	} {
		begun := begunOf(c.begun)
		if got := decided(func(r *Record) { r.Work = c.end }).EndOf(begun); got != c.belongs {
			t.Errorf("%s: %t", name, got)
		}
		if !decided(func(r *Record) { r.Kind = KindError }).EndOf(begun) {
			t.Errorf("%s: an error is no end of it", name)
		}
	}
}

// TestScanner: the texts that the parts of a record are read from, and the refused ones.
func TestScanner(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "9007199254740991": canon.MaxSafeInteger, "12,": 12, "3}": 3, "1e3": 1, "1.5": 1} {
		if n, ok := (&scanner{text: text}).number(); !ok || n != want {
			t.Errorf("number %q: %d, %t", text, n, ok)
		}
	}
	for _, text := range []string{"", "-1", "+1", "01", "00", " 1", "9007199254740992", "99999999999999999", "99999999999999999999999", "x"} {
		if n, ok := (&scanner{text: text}).number(); ok {
			t.Errorf("number %q is read as %d", text, n)
		}
	}
	for text, want := range map[string]string{`""`: "", `"a b"`: "a b", `"~!"x`: "~!", `"<>&/"`: "<>&/"} {
		if s, ok := (&scanner{text: text}).token(); !ok || s != want {
			t.Errorf("token %s: %q, %t", text, s, ok)
		}
	}
	for _, text := range []string{``, `a`, `"`, `"a`, `"\n"`, `"\u0061"`, "\"\n\"", "\"\x7f\"", "\"\x00\"", `"ä"`, "\"\xff\"", `'a'`} {
		if s, ok := (&scanner{text: text}).token(); ok {
			t.Errorf("token %q is read as %q", text, s)
		}
	}
	count := 0
	one := func() bool { count++; return true }
	for text, ok := range map[string]bool{"[]": true, "[": false, "": false, "]": false, "[,]": false, "[ ]": false} {
		s := &scanner{text: text}
		if got := s.list(func() bool { return false }); got != ok {
			t.Errorf("list %q: %t", text, got)
		}
	}
	if s := (&scanner{text: "[,,]"}); !s.list(one) || count != 3 || s.at != 4 {
		t.Errorf("a list of three: %d", count)
	}
}

// TestTimestamps: time.Parse reads every timestamp, and writes it again.
func TestTimestamps(t *testing.T) {
	check := func(text string) {
		at, err := time.Parse(TimeFormat, text)
		if want := err == nil && at.Format(TimeFormat) == text; timestamp(text) != want {
			t.Errorf("%q: %t, want %t", text, timestamp(text), want)
		}
	}
	for _, year := range []int{0, 1, 4, 1900, 1970, 2000, 2023, 2024, 2100, 9999} {
		for month := range 14 {
			for day := range 33 {
				check(fmt.Sprintf("%04d-%02d-%02dT10:00:00.000Z", year, month, day))
			}
		}
	}
	for _, clock := range []string{"00:00:00.000", "23:59:59.999", "24:00:00.000", "10:60:00.000", "10:00:60.000", "10:00:00.00", "10:00:00,000", "10:00:00.0000", "1a:00:00.000", "-1:00:00.000"} {
		check("2026-03-01T" + clock + "Z")
	}
	for _, text := range []string{"", "2026-03-01 10:00:00.000Z", "2026-03-01T10:00:00.000z", "2026/03-01T10:00:00.000Z", "2026-03-01T10:00:00.000+", "+026-03-01T10:00:00.000Z"} {
		check(text)
	}
}

// TestStamp: the time of a ledger never goes backwards, and the record says how far the
// clock was behind.
func TestStamp(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 123_900_000, time.FixedZone("", 3600))
	for last, want := range map[string]struct {
		at     string
		behind int64
	}{
		"":                         {"2026-03-01T09:00:00.123Z", 0},
		"2026-03-01T09:00:00.122Z": {"2026-03-01T09:00:00.123Z", 0},
		"2026-03-01T09:00:00.123Z": {"2026-03-01T09:00:00.123Z", 0},
		"2026-03-01T09:00:00.124Z": {"2026-03-01T09:00:00.124Z", 1},
		"2026-03-02T09:00:00.123Z": {"2026-03-02T09:00:00.123Z", 86400_000},
	} {
		r := Record{ClockBehindMS: 99}
		if r.Stamp(now, last); r.Timestamp != want.at || r.ClockBehindMS != want.behind {
			t.Errorf("after %q: %s, %d behind", last, r.Timestamp, r.ClockBehindMS)
		}
	}
}

// TestReasons: no text of an intent becomes a reason of a record.
func TestReasons(t *testing.T) {
	got := Reasons([]string{"WRITE_OUTSIDE_ROOT a b", "CMD /actions/0", "EXIT 1", "EXIT", "SIGNAL 9", "EXIT x", "CMD /actions/1", "\u00e4 /a", "", "OOM"})
	want := []string{"CMD", "EXIT", "EXIT 1", "OOM", "SIGNAL 9", "WRITE_OUTSIDE_ROOT"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("R%03d", 99-i))
	}
	if got := Reasons(many); len(got) != 64 || got[0] != "R000" {
		t.Errorf("%d reasons from %s on", len(got), got[0])
	}
}

// TestSameRun: two records of a run may differ only in times, in members that contain
// times, and in the form of a begun record.
func TestSameRun(t *testing.T) {
	same := map[string]bool{"Timestamp": true, "ClockBehindMS": true, "ResultSHA256": true, "Evidence": true, "Former": true, "Submitter": true}
	for i := range reflect.TypeFor[Record]().NumField() {
		a, b := decided(nil), decided(nil)
		field := reflect.ValueOf(&b).Elem().Field(i)
		switch field.Interface().(type) {
		case int64:
			field.SetInt(7)
		case bool:
			field.SetBool(!field.Bool())
		case []string:
			field.Set(reflect.ValueOf([]string{"X"}))
		case Blob:
			field.Set(reflect.ValueOf(Blob{sumOf(99), 99}))
		case []Repair:
			field.Set(reflect.ValueOf([]Repair{{What: RepairNewline}}))
		case *Work:
			a.Work = decidedWork()
			field.Set(reflect.ValueOf(decidedWork()))
			if !a.SameRun(b) {
				t.Error("equal work is another run")
			}
			b.Work.Receipt = stateOf(9)
		default:
			field.SetString("changed")
		}
		name := reflect.TypeFor[Record]().Field(i).Name
		if a.SameRun(b) != same[name] || !a.SameRun(a) {
			t.Errorf("with another %s: %t", name, a.SameRun(b))
		}
	}
}

// TestLine: ParseLine reads every line that Append writes, and keeps no reference to the
// text.
func TestLine(t *testing.T) {
	r, s := rand.New(rand.NewPCG(5, 6)), newSigner(t, 1)
	for range 200 {
		entry, err := randomRecord(r, s).Entry()
		if err != nil {
			t.Fatal(err)
		}
		seal, err := s.Seal(1+r.Int64N(canon.MaxSafeInteger), LeafHash(entry))
		if err != nil {
			t.Fatal(err)
		}
		b := Line{seal, entry}.Append(nil)
		if len(b) > MaxLineBytes || len(b) > len(entry)+200 || b[len(b)-1] != '\n' {
			t.Fatalf("%d bytes for %d", len(b), len(entry))
		}
		l, err := ParseLine(b[:len(b)-1])
		if err != nil || l.Seal != seal || !bytes.Equal(l.Entry, entry) {
			t.Fatalf("%s: %+v (%v)", b, l, err)
		}
		if doc, err := canon.Parse(b[:len(b)-1], MaxLineBytes); err != nil || !bytes.Equal(doc.Bytes(), b[:len(b)-1]) {
			t.Fatalf("%s is not canonical (%v)", b, err)
		}
		clear(b)
		if !bytes.Equal(l.Entry, entry) {
			t.Fatal("the entry is that of the caller")
		}
		if key := s.Verifier(); key.CheckSeal(l.Seal) != nil {
			t.Fatal("the seal is not right any more")
		}
	}
	if _, err := ParseLine([]byte("{}")); !errors.Is(err, ErrLine) {
		t.Error(err)
	}
}
