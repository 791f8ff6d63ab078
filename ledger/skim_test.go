package ledger

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// agree lets both readers read an entry. They agree: skim accepts what ParseRecord reads
// as a decision without clock_behind_ms and work, and nothing else.
func agree(t testing.TB, entry []byte) (skimmed bool) {
	t.Helper()
	fast, slow := lineOf{entry: entry}, lineOf{entry: entry}
	err := slow.read()
	skimmed = fast.skim()
	switch {
	case skimmed != (err == nil && slow.kind == KindDecision && slow.full.ClockBehindMS == 0 && slow.full.Work == nil):
		t.Fatalf("%q: skim says %t, ParseRecord %v", entry, skimmed, err)
	case skimmed && (fast.kind != slow.kind || fast.time != slow.time || fast.run != slow.run || fast.full != nil),
		!skimmed && (fast.kind != "" || fast.time != timeText{} || fast.run != runKey{}):
		t.Fatalf("%q: skim reads %+v, ParseRecord %+v", entry, fast, slow)
	}
	return skimmed
}

// decisions are decisions of every outcome.
func decisions() (list [][]byte) {
	for _, change := range []func(*Record){
		nil,
		func(r *Record) { r.Accepted, r.Reasons = false, []string{"EXIT 1", "OUTPUT_KIND"} },
		func(r *Record) { r.ResultKind, r.Accepted, r.ExecutionMode = "CLARIFY", false, "execute-sandbox" },
		func(r *Record) {
			r.ResultKind, r.Accepted, r.BundleSHA256, r.Reasons, r.Mode = "REFUSE", false, "", []string{"COMMAND_NOT_ALLOWED"}, "replay"
		},
	} {
		entry, err := decided(change).Entry()
		if err != nil {
			panic(err)
		}
		list = append(list, entry)
	}
	return list
}

// TestSkim: both readers agree on random records of every kind, and on every decision in
// which one byte has another value, is missing, or is one too many.
func TestSkim(t *testing.T) {
	r, s := rand.New(rand.NewPCG(5, 6)), newSigner(t, 1)
	for range 3000 {
		entry, err := randomRecord(r, s).Entry()
		if err != nil {
			t.Fatal(err)
		}
		agree(t, entry)
	}
	withWork, err := decided(func(r *Record) { r.Work = decidedWork() }).Entry()
	if err != nil {
		t.Fatal(err)
	}
	for i, entry := range append(decisions(), withWork) {
		if agree(t, entry) == (i == len(decisions())) {
			t.Errorf("%s: skimmed, or not", entry)
		}
		for at := range entry {
			agree(t, entry[:at])
			agree(t, slices.Delete(bytes.Clone(entry), at, at+1))
			for _, c := range []byte("09afgAFZ !,:{}[]\"\\/_-.\x00\x7f\x80\xb0\xe1\xff") {
				agree(t, slices.Insert(bytes.Clone(entry), at, c))
			}
			other := bytes.Clone(entry)
			for c := range 256 {
				if other[at] = byte(c); i == 0 || c%16 == int(entry[at]%16) {
					agree(t, other)
				}
			}
		}
	}
}

// TestSkimLimits: both readers agree on texts at and above their limits.
func TestSkimLimits(t *testing.T) {
	entry := decisions()[1]
	many := func(n int) (list string) {
		for i := range n {
			list += string([]byte{',', '"', 'A' + byte(i/8), 'A' + byte(i%8), '"'})
		}
		return list[1:]
	}
	long := func(n int) string { return string(bytes.Repeat([]byte("a"), n)) }
	for _, c := range []struct {
		old, new string
		skimmed  bool
	}{
		{`"run_1"`, `"` + long(128) + `"`, true},
		{`"run_1"`, `"` + long(129) + `"`, false},
		{`"run_1"`, `""`, false},
		{`"run_1"`, `"_run"`, false},
		{`"default"`, `"` + long(64) + `"`, true},
		{`"default"`, `"` + long(65) + `"`, false},
		{`"0.1.0"`, `"` + long(64) + `"`, true},
		{`"0.1.0"`, `"` + long(65) + `"`, false},
		{`"size":9}`, `"size":9007199254740991}`, true},
		{`"size":9}`, `"size":9007199254740992}`, false},
		{`"size":9}`, `"size":09}`, false},
		{`"size":9}`, `"size":}`, false},
		{`"EXIT 1","OUTPUT_KIND"`, ``, true},
		{`"EXIT 1","OUTPUT_KIND"`, `""`, false},
		{`"EXIT 1","OUTPUT_KIND"`, `"OUTPUT_KIND","EXIT 1"`, false},
		{`"EXIT 1","OUTPUT_KIND"`, `"EXIT 1","EXIT 1"`, false},
		{`"EXIT 1","OUTPUT_KIND"`, `"EXIT 1",`, false},
		{`"EXIT 1","OUTPUT_KIND"`, `,"EXIT 1"`, false},
		{`"EXIT 1","OUTPUT_KIND"`, `"EXIT 1""OUTPUT_KIND"`, false},
		{`"EXIT 1","OUTPUT_KIND"`, `"EXIT 123456"`, false},
		{`"EXIT 1","OUTPUT_KIND"`, many(64), true},
		{`"EXIT 1","OUTPUT_KIND"`, many(65), false},
		{`"accepted":false`, `"accepted":true`, false},
		{`"BUNDLE"`, `"CLARIFY"`, true},
		{`"BUNDLE"`, `"REFUSE"`, false},
	} {
		changed := bytes.Replace(entry, []byte(c.old), []byte(c.new), 1)
		if bytes.Equal(changed, entry) || agree(t, changed) != c.skimmed {
			t.Errorf("%s: want %t", changed, c.skimmed)
		}
	}
}

// TestSkimAllocates: skim makes no copy of a text.
func TestSkimAllocates(t *testing.T) {
	for _, entry := range decisions() {
		l := lineOf{entry: entry}
		if n := testing.AllocsPerRun(100, func() { l.skim() }); n != 0 {
			t.Errorf("%s: %v allocations", entry, n)
		}
	}
}
