package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// book is a ledger in memory. Each line was sealed by some key.
type book struct {
	t     testing.TB
	tree  Range
	lines [][]byte
	roots []tlog.Hash
	at    time.Time
	last  string
}

func newBook(t testing.TB, s *Signer) *book {
	b := &book{t: t, at: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	b.add(s, Record{Kind: KindGenesis, Format: Format, Origin: s.Origin(), Key: s.Verifier().String()})
	return b
}

// add adds a record. It sets the next time unless the record has one.
func (b *book) add(s *Signer, r Record) {
	b.t.Helper()
	if r.Timestamp == "" {
		b.at = b.at.Add(time.Millisecond)
		r.Stamp(b.at, b.last)
	}
	b.last = r.Timestamp
	entry, err := r.Entry()
	if err != nil {
		b.t.Fatal(err)
	}
	b.tree.Append(LeafHash(entry), nil)
	seal, err := s.Seal(b.tree.Size, b.tree.Root())
	if err != nil {
		b.t.Fatal(err)
	}
	b.lines, b.roots = append(b.lines, Line{seal, entry}.Append(nil)), append(b.roots, b.tree.Root())
}

func (b *book) decide(s *Signer, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		b.add(s, decided(func(r *Record) { r.RunID, r.Timestamp = id, "" }))
	}
}

func (b *book) run(s *Signer, kind Kind, id string) {
	b.t.Helper()
	r := decided(nil)
	run := Record{
		Kind: kind, RunID: id, IntentSHA256: r.IntentSHA256, ExecutionMode: r.ExecutionMode, Mode: r.Mode,
		Policy: r.Policy, PolicySHA256: r.PolicySHA256, Kernel: r.Kernel,
	}
	if kind == KindBegun {
		run.InputSHA256, run.BundleSHA256 = r.InputSHA256, r.BundleSHA256
	} else {
		run.Code = "RUN_E005"
	}
	b.add(s, run)
}

func (b *book) text() []byte { return bytes.Join(b.lines, nil) }

func (b *book) promise(s *Signer, size int64) Promise {
	b.t.Helper()
	c, err := s.Checkpoint(size, b.roots[size-1])
	if err != nil {
		b.t.Fatal(err)
	}
	return Promise{fmt.Sprintf("the checkpoint of %d", size), c}
}

// wideBook is a ledger of several chunks. Nobody may change its text.
var wideBook = sync.OnceValue(func() *book {
	s := newSigner(panicking{}, 1)
	b := newBook(panicking{}, s)
	for i := range 1500 {
		b.decide(s, fmt.Sprintf("run_%d", i))
	}
	return b
})

// panicking lets a fault of a fixture stop everything.
type panicking struct{ testing.TB }

func (panicking) Helper()           {}
func (panicking) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// verify verifies a text. It returns the index of the entry with the fault. It returns -2
// if there is no fault, -1 if the fault is in no entry, and -3 if this is unknown.
func verify(t testing.TB, text []byte, c Check) (Verified, int64, error) {
	t.Helper()
	v, err := Verify(context.Background(), bytes.NewReader(bytes.Clone(text)), c)
	var fault *Fault
	switch {
	case err == nil:
		return v, -2, nil
	case errors.As(err, &fault):
		return v, fault.Index, err
	case errors.Is(err, ErrUnknownKey):
		return v, -3, err
	}
	t.Fatal(err)
	return v, 0, err
}

// TestVerify: an unchanged ledger is right in every mode. Its entries and tiles are
// reported in order, and the tiles equal those of package tlog.
func TestVerify(t *testing.T) {
	s, b := newSigner(t, 1), wideBook()
	var stored storage
	for i, line := range b.lines {
		l, err := ParseLine(line[:len(line)-1])
		if err != nil {
			t.Fatal(err)
		}
		stored.add(t, int64(i), LeafHash(l.Entry))
	}
	for _, c := range []Check{{}, {Seals: true}, {Quick: true}, {Quick: true, Seals: true}} {
		c.Keys = Keys{{Size: 1, Key: s.Verifier()}}
		c.Promises = []Promise{b.promise(s, 1501), b.promise(s, 1), b.promise(s, 700), b.promise(s, 700)}
		given := slices.Clone(c.Promises)
		var told, tiles, progress int64
		c.Entry = func(index int64, r Record) error {
			if !c.Quick && (index != told || index > 0 && r.RunID != fmt.Sprintf("run_%d", index-1)) {
				t.Fatalf("entry %d is told as %d: %+v", told, index, r)
			}
			told++
			return nil
		}
		c.Tile = func(tile tlog.Tile, content []byte) error {
			want, err := tlog.ReadTileData(tile, stored)
			if tile.N != tiles || tile.L != 0 || err != nil || !bytes.Equal(content, want) {
				t.Errorf("tile %d of level %d, want %d (%v)", tile.N, tile.L, tiles, err)
			}
			tiles++
			return nil
		}
		c.Progress = func(n int64) { progress = n }
		v, at, err := verify(t, b.text(), c)
		if at != -2 || v.Size != 1501 || v.Root != b.tree.Root() || v.Torn != 0 || len(v.Open) != 0 || len(v.Keys) != 1 {
			t.Errorf("%+v: %v", v, err)
		}
		if tiles != 5 || progress != 1501 || !c.Quick && told != 1501 || !reflect.DeepEqual(c.Promises, given) {
			t.Errorf("%d tiles, %d entries, progress to %d", tiles, told, progress)
		}
	}
}

// places returns indexes for tampering: the ends, and the lines at and around the
// borders of chunks.
func places(b *book) []int {
	list := []int{1, 2, 700, len(b.lines) - 2}
	at := 0
	for i, line := range b.lines {
		if (at+len(line))/chunkBytes > at/chunkBytes {
			list = append(list, i-1, i, i+1)
		}
		at += len(line)
	}
	return list
}

// TestVerifyTampering: every change of an entry or of the order of lines is found at its
// place, also by quick reading.
func TestVerifyTampering(t *testing.T) {
	s, b := newSigner(t, 1), wideBook()
	keys := Keys{{Size: 1, Key: s.Verifier()}}
	promises := []Promise{b.promise(s, int64(len(b.lines)))}
	if n := len(places(b)); n < 10 {
		t.Fatalf("only %d places", n)
	}
	replaced := func(i int, old, now string) func() [][]byte {
		return func() [][]byte {
			lines := slices.Clone(b.lines)
			lines[i] = bytes.Replace(lines[i], []byte(old), []byte(now), 1)
			if bytes.Equal(lines[i], b.lines[i]) {
				t.Fatalf("line %d has no %q", i, old)
			}
			return lines
		}
	}
	for _, i := range places(b) {
		for name, c := range map[string]struct {
			change func() [][]byte
			slow   bool // quick reading may miss it
			index  int
		}{
			"entry":    {replaced(i, `"policy":"default"`, `"policy":"defaulu"`), false, i},
			"verdict":  {replaced(i, `"accepted":true`, `"accepted":false`), false, i},
			"root":     {replaced(i, b.roots[i].String(), b.roots[0].String()), true, i},
			"size":     {replaced(i, fmt.Sprintf(`"size":%d}`, i+1), fmt.Sprintf(`"size":%d}`, i+2)), false, i},
			"no seal":  {replaced(i, `{"_seal"`, `{"_sael"`), false, i},
			"zeroes":   {replaced(i, `"_seal":{"root"`, strings.Repeat("\x00", 15)), false, i},
			"deleted":  {func() [][]byte { return slices.Delete(slices.Clone(b.lines), i, i+1) }, false, i},
			"swapped":  {func() [][]byte { l := slices.Clone(b.lines); l[i], l[i-1] = l[i-1], l[i]; return l }, false, i - 1},
			"doubled":  {func() [][]byte { return slices.Insert(slices.Clone(b.lines), i, b.lines[i-1]) }, false, i},
			"empty":    {func() [][]byte { return slices.Insert(slices.Clone(b.lines), i, []byte("\n")) }, false, i},
			"joined":   {replaced(i, "\n", ""), false, i},
			"split":    {replaced(i, `"kind"`, "\n"+`"kind"`), false, i},
			"carriage": {replaced(i, "\n", "\r\n"), false, i},
			"large": {func() [][]byte {
				return slices.Insert(slices.Clone(b.lines), i, append(bytes.Repeat([]byte("x"), 3<<20), '\n'))
			}, false, i},
			"large start": {replaced(i, "{", "{"+strings.Repeat(" ", 2<<20)), false, i},
		} {
			text := bytes.Join(c.change(), nil)
			for _, check := range []Check{{}, {Quick: true}, {Quick: true, Promises: promises}} {
				if check.Quick && c.slow {
					continue
				}
				check.Keys = keys
				if _, at, err := verify(t, text, check); at != int64(c.index) {
					t.Errorf("%s %d (quick %t): %v", name, i, check.Quick, err)
				}
			}
		}
	}
}

// TestVerifySignatures: the signatures that are checked. An unknown key gives no
// verdict, and a bad signature gives a fault.
func TestVerifySignatures(t *testing.T) {
	a, other := newSigner(t, 1), newSigner(t, 9)
	b := newBook(t, a)
	b.decide(a, "1", "2")
	mid := newBook(t, a) // line 1 is sealed by somebody else
	mid.decide(other, "1")
	mid.decide(a, "2")
	last := newBook(t, a)
	last.decide(a, "1")
	last.decide(other, "2")
	bad := func(b *book, i int) []byte {
		l, err := ParseLine(bytes.TrimSuffix(b.lines[i], []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		l.Seal.Sig[30] ^= 1
		lines := slices.Clone(b.lines)
		lines[i] = l.Append(nil)
		return bytes.Join(lines, nil)
	}
	for name, c := range map[string]struct {
		text       []byte
		some, each int64
	}{
		"right":        {b.text(), -2, -2},
		"bad first":    {bad(b, 0), 0, 0},
		"bad middle":   {bad(b, 1), -2, 1},
		"bad last":     {bad(b, 2), 2, 2},
		"other middle": {mid.text(), -2, -3},
		"other last":   {last.text(), -3, -3},
	} {
		for _, quick := range []bool{false, true} {
			check := Check{Keys: Keys{{Size: 1, Key: a.Verifier()}}, Quick: quick}
			if _, at, err := verify(t, c.text, check); at != c.some {
				t.Errorf("%s: %v", name, err)
			}
			check.Seals = true
			if _, at, err := verify(t, c.text, check); at != c.each {
				t.Errorf("%s, all seals: %v", name, err)
			}
		}
	}
}

// TestVerifyPromises: the ledger that made a promise keeps it, for every size, and no
// other ledger does.
func TestVerifyPromises(t *testing.T) {
	s := newSigner(t, 1)
	b, fork := newBook(t, s), newBook(t, s)
	for i := range 20 {
		b.decide(s, fmt.Sprintf("run_%d", i))
		if i == 7 {
			fork.decide(s, "other")
			continue
		}
		fork.decide(s, fmt.Sprintf("run_%d", i))
	}
	for size := int64(1); size <= 21; size++ {
		for _, quick := range []bool{false, true} {
			check := Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}, Quick: quick, Promises: []Promise{b.promise(s, size)}}
			if _, at, err := verify(t, b.text(), check); at != -2 {
				t.Errorf("size %d: %v", size, err)
			}
			want := int64(-2)
			if size > 8 {
				want = size - 1
			}
			if _, at, err := verify(t, fork.text(), check); at != want || want >= 0 && !strings.Contains(err.Error(), "the checkpoint of") {
				t.Errorf("the fork, size %d: %v", size, err)
			}
			short := bytes.Join(b.lines[:15], nil)
			want = -2
			if size > 15 {
				want = 15
			}
			if _, at, err := verify(t, short, check); at != want || want >= 0 && !strings.Contains(err.Error(), "TRUNCATED") {
				t.Errorf("cut, size %d: %v", size, err)
			}
		}
	}
	// The error names an earlier fault of the same chunk, not the broken promise.
	text := bytes.Replace(b.text(), []byte(`"run_3"`), []byte(`"run_X"`), 1)
	for _, quick := range []bool{false, true} {
		check := Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}, Quick: quick, Promises: []Promise{b.promise(s, 10)}}
		if _, at, err := verify(t, text, check); at != 4 {
			t.Error(err)
		}
	}
}

// TestVerifyStory: a run has one beginning, one end and nothing after it. Runs without
// an end are reported. Time does not go backwards.
func TestVerifyStory(t *testing.T) {
	s := newSigner(t, 1)
	begun, failed := KindBegun, KindError
	for name, c := range map[string]struct {
		write func(*book)
		index int64
		open  []OpenRun
	}{
		"begun and ended":  {func(b *book) { b.run(s, begun, "1"); b.decide(s, "1") }, -2, nil},
		"begun and failed": {func(b *book) { b.run(s, begun, "1"); b.run(s, failed, "1") }, -2, nil},
		"open": {func(b *book) {
			b.run(s, begun, "1")
			b.decide(s, "2")
			b.run(s, begun, "3")
			b.run(s, begun, "4")
			b.decide(s, "3")
		}, -2, []OpenRun{{"1", 1}, {"4", 4}}},
		"begun twice":     {func(b *book) { b.run(s, begun, "1"); b.run(s, begun, "1") }, 2, nil},
		"decided twice":   {func(b *book) { b.decide(s, "1", "2", "1") }, 3, nil},
		"failed twice":    {func(b *book) { b.run(s, failed, "1"); b.run(s, failed, "1") }, 2, nil},
		"ended and begun": {func(b *book) { b.decide(s, "1"); b.run(s, begun, "1") }, 2, nil},
		"two ends":        {func(b *book) { b.run(s, begun, "1"); b.decide(s, "1"); b.run(s, failed, "1") }, 3, nil},
		"ended by another intent": {func(b *book) {
			b.run(s, begun, "1")
			b.add(s, decided(func(r *Record) { r.RunID, r.Timestamp, r.IntentSHA256 = "1", "", r.ResultSHA256 }))
		}, 2, nil},
		"ended under another policy": {func(b *book) {
			b.run(s, begun, "1")
			b.add(s, decided(func(r *Record) { r.RunID, r.Timestamp, r.Policy = "1", "", "strict" }))
		}, 2, nil},
		"time": {func(b *book) {
			b.decide(s, "1")
			b.add(s, decided(func(r *Record) { r.RunID, r.Timestamp = "2", "2026-03-01T10:00:00.001Z" }))
		}, 2, nil},
		"same time": {func(b *book) {
			b.decide(s, "1")
			b.add(s, decided(func(r *Record) { r.RunID, r.Timestamp = "2", b.last }))
		}, -2, nil},
		"genesis again": {func(b *book) {
			b.add(s, Record{Kind: KindGenesis, Format: Format, Origin: testOrigin, Key: s.Verifier().String()})
		}, 1, nil},
	} {
		b := newBook(t, s)
		c.write(b)
		check := Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}}
		v, at, err := verify(t, b.text(), check)
		if at != c.index || !slices.Equal(v.Open, c.open) {
			t.Errorf("%s: open %v, %v", name, v.Open, err)
		}
		check.Quick = true
		if v, at, err := verify(t, b.text(), check); name != "genesis again" && (at != -2 || c.index == -2 && !slices.Equal(v.Open, c.open)) {
			t.Errorf("%s, quick: open %v, %v", name, v.Open, err)
		}
	}
}

// TestVerifyRepeats: on a server a record that repeats an earlier one byte for byte is no
// fault, and its time does not count. Any other second record of a run is one.
func TestVerifyRepeats(t *testing.T) {
	s := newSigner(t, 1)
	at := func(kind Kind, run string, ms int) Record {
		return decided(func(r *Record) {
			r.RunID, r.Timestamp = run, fmt.Sprintf("2026-03-01T10:00:00.%03dZ", ms)
			if kind == KindBegun {
				r.Kind = kind
			}
		})
	}
	genesis := Record{Kind: KindGenesis, Format: Format, Origin: testOrigin, Key: s.Verifier().String(), Timestamp: "2026-03-01T10:00:00.000Z"}
	one, two := at(KindDecision, "1", 1), at(KindDecision, "2", 2)
	begun := at(KindBegun, "1", 1)
	for name, c := range map[string]struct {
		records []Record
		fault   int64
		repeats []int64
	}{
		"at once":          {[]Record{one, one}, -2, []int64{2}},
		"later":            {[]Record{one, two, one, one, at(KindDecision, "3", 2)}, -2, []int64{3, 4}},
		"a begun":          {[]Record{begun, one, begun}, -2, []int64{3}},
		"and its time":     {[]Record{one, two, one, at(KindDecision, "3", 1)}, 4, nil},
		"another time":     {[]Record{one, at(KindDecision, "1", 2)}, 2, nil},
		"another run":      {[]Record{two, one}, 2, nil},
		"begun, another":   {[]Record{begun, at(KindBegun, "1", 2)}, 2, nil},
		"genesis repeated": {[]Record{genesis}, 1, nil},
	} {
		var text []byte
		for _, r := range append([]Record{genesis}, c.records...) {
			entry, err := r.Entry()
			if err != nil {
				t.Fatal(err)
			}
			text = append(append(text, entry...), '\n')
		}
		v, fault, err := verify(t, text, Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}, Unsealed: true})
		if fault != c.fault || !slices.Equal(v.Repeats, c.repeats) || len(v.Open) > 0 && fault == -2 {
			t.Errorf("%s: fault %d, %v, repeats %v, open %v", name, fault, err, v.Repeats, v.Open)
		}
	}
}

// TestVerifyRotation: each key vouches for the next one, from the size that follows from
// the place of the rotation. origin.json may be behind, and must not be ahead.
func TestVerifyRotation(t *testing.T) {
	a, b, c, other := newSigner(t, 1), newSigner(t, 2), newSigner(t, 3), newSigner(t, 9)
	rotation := func(s *Signer) Record { return Record{Kind: KindKeyRotation, Key: s.Verifier().String()} }
	l := newBook(t, a)
	l.decide(a, "1")
	l.add(a, rotation(b)) // entry 2: b signs from size 4 on
	l.add(b, rotation(c)) // entry 3: c signs from size 5 on
	l.decide(c, "2")
	of := func(list ...KeyFrom) Keys { return list }
	ka, kb, kc := KeyFrom{Size: 1, Key: a.Verifier()}, KeyFrom{Size: 4, Key: b.Verifier()}, KeyFrom{Size: 5, Key: c.Verifier()}
	for name, x := range map[string]struct {
		keys  Keys
		index int64
	}{
		"right":         {of(ka, kb, kc), -2},
		"behind":        {of(ka), -2},
		"one behind":    {of(ka, kb), -2},
		"other first":   {of(KeyFrom{Size: 1, Key: other.Verifier()}, kb, kc), 0},
		"other middle":  {of(ka, KeyFrom{Size: 4, Key: other.Verifier()}, kc), 2},
		"other last":    {of(ka, kb, KeyFrom{Size: 5, Key: other.Verifier()}), 3},
		"skips one":     {of(ka, kc), 2},
		"one more":      {of(ka, kb, kc, KeyFrom{Size: 6, Key: other.Verifier()}), -1},
		"beyond":        {of(ka, kb, kc, KeyFrom{Size: 60, Key: other.Verifier()}), -1},
		"between":       {of(ka, KeyFrom{Size: 2, Key: other.Verifier()}, kb, kc), -1},
		"another place": {of(ka, KeyFrom{Size: 3, Key: b.Verifier()}, kc), -1},
		"none":          {nil, 0},
	} {
		for _, check := range []Check{{}, {Seals: true}, {Quick: true}} {
			check.Keys = x.keys
			v, at, err := verify(t, l.text(), check)
			if at != x.index || err == nil && (len(v.Keys) != 3 || v.Keys[1].Size != 4 || v.Keys[2].Size != 5) {
				t.Errorf("%s (quick %t, seals %t): keys %v, %v", name, check.Quick, check.Seals, v.Keys, err)
			}
		}
	}
	right := of(ka, kb, kc)
	for i, trusted := range []*Signer{a, b, c, other} {
		key := trusted.Verifier()
		want := int64(-2)
		if i == 3 {
			want = -3
		}
		if _, at, err := verify(t, l.text(), Check{Keys: right, Trusted: &key}); at != want {
			t.Errorf("trusting %d: %v", i, err)
		}
	}

	// The key before did not sign this rotation.
	forged := newBook(t, a)
	forged.add(b, rotation(b))
	forged.decide(b, "1")
	if _, at, err := verify(t, forged.text(), Check{Keys: of(ka, KeyFrom{Size: 3, Key: b.Verifier()})}); at != -3 {
		t.Error(err)
	}
	// The forger of a ledger can name a trusted key, but cannot sign with it.
	named := newBook(t, other)
	named.decide(other, "1")
	named.add(other, rotation(a))
	key := a.Verifier()
	forgedKeys := of(KeyFrom{Size: 1, Key: other.Verifier()}, KeyFrom{Size: 4, Key: key})
	if _, at, err := verify(t, named.text(), Check{Keys: forgedKeys}); at != -2 {
		t.Error(err)
	}
	if _, at, err := verify(t, named.text(), Check{Keys: forgedKeys, Trusted: &key}); at != -3 {
		t.Errorf("a key that has signed nothing is trusted: %v", err)
	}
	named.decide(other, "2")
	if _, at, err := verify(t, named.text(), Check{Keys: forgedKeys, Trusted: &key}); at != -3 {
		t.Errorf("the old key goes on: %v", err)
	}
	// A key of another origin.
	foreign := newSignerOf(t, "elsewhere.example/log", 5)
	moved := newBook(t, a)
	moved.add(a, rotation(foreign))
	if _, at, err := verify(t, moved.text(), Check{Keys: of(ka)}); at != 1 {
		t.Error(err)
	}
}

// TestVerifyTorn: the rest of an interrupted append is no line and no fault, if it is
// shorter than a line can be. With a line feed, or longer, it is a fault.
func TestVerifyTorn(t *testing.T) {
	s := newSigner(t, 1)
	b := newBook(t, s)
	b.decide(s, "1")
	more := newBook(t, s)
	more.decide(s, "1", "2")
	next := more.lines[2]
	for name, tail := range map[string][]byte{
		"a byte":          {'{'},
		"half a line":     next[:len(next)/2],
		"no line feed":    next[:len(next)-1],
		"zeroes":          make([]byte, 4096),
		"a carriage":      []byte("\r"),
		"as long as any":  bytes.Repeat([]byte("x"), MaxTornBytes),
		"zeroes, as long": make([]byte, MaxTornBytes),
		"just too long":   bytes.Repeat([]byte("x"), MaxTornBytes+1),
		"many zeroes":     make([]byte, MaxTornBytes+1),
		"a chunk":         bytes.Repeat([]byte("x"), chunkBytes),
		"many chunks":     bytes.Repeat([]byte("x"), 9*chunkBytes+1),
		"as long as read": bytes.Repeat([]byte("x"), chunkBytes-len(b.text())),
	} {
		for _, quick := range []bool{false, true} {
			check := Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}, Quick: quick, Promises: []Promise{b.promise(s, 2)}}
			v, at, err := verify(t, append(b.text(), tail...), check)
			if len(tail) > MaxTornBytes {
				if at != 2 {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if at != -2 || v.Size != 2 || v.Torn != int64(len(tail)) {
				t.Errorf("%s: %d entries, %d torn, %v", name, v.Size, v.Torn, err)
			}
			if name == "no line feed" {
				continue
			}
			if _, at, err := verify(t, slices.Concat(b.text(), tail, []byte("\n")), check); at != 2 {
				t.Errorf("%s and a line feed: %v", name, err)
			}
			if _, at, err := verify(t, slices.Concat(b.text(), tail, []byte("\n"), next), check); at != 2 {
				t.Errorf("%s and a line: %v", name, err)
			}
		}
	}
	for _, text := range []string{"", "{", "\x00\x00"} {
		if _, at, err := verify(t, []byte(text), Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}}); at != 0 {
			t.Errorf("%q: %v", text, err)
		}
	}
	headless := &book{t: t, at: b.at}
	headless.decide(s, "1", "2")
	for _, quick := range []bool{false, true} {
		if _, at, err := verify(t, headless.text(), Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}, Quick: quick}); at != 0 {
			t.Errorf("without a genesis: %v", err)
		}
	}
}

var manyX = strings.Repeat("x", 1<<16)

// hostile is a text of one line of any length.
type hostile struct {
	left int64
	end  string
}

func (h *hostile) Read(b []byte) (int, error) {
	if h.left == 0 {
		if h.end == "" {
			return 0, io.EOF
		}
		n := copy(b, h.end)
		h.end = h.end[n:]
		return n, nil
	}
	n := min(int64(len(b)), h.left)
	for i := int64(0); i < n; {
		i += int64(copy(b[i:n], manyX))
	}
	h.left -= n
	return int(n), nil
}

// TestVerifyHostile: a line of 20 GB is a fault, is not read to its end, and takes no
// memory.
func TestVerifyHostile(t *testing.T) {
	s := newSigner(t, 1)
	b := newBook(t, s)
	for _, end := range []string{"", "\n", "\n" + string(b.text())} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		endless := &hostile{20 << 30, end}
		v, err := Verify(context.Background(), io.MultiReader(bytes.NewReader(b.text()), endless), Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("took %d MiB", used>>20)
		}
		var fault *Fault
		if !errors.As(err, &fault) || fault.Index != 1 || endless.left < 20<<30-4<<20 {
			t.Errorf("%q: %+v, %v", end[:min(len(end), 1)], v, err)
		}
	}
}

var errStop = errors.New("stop")

// failing ends with an error.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errStop }

// TestVerifyStops: an error of reading, of a callback and of the context ends the
// reading at once, and no goroutine is left.
func TestVerifyStops(t *testing.T) {
	s, b := newSigner(t, 1), wideBook()
	keys := Keys{{Size: 1, Key: s.Verifier()}}
	before := runtime.NumGoroutine()
	for range 20 {
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Verify(cancelled, bytes.NewReader(b.text()), Check{Keys: keys}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		during, cancel := context.WithCancel(context.Background())
		if _, err := Verify(during, &cancelling{b.text(), cancel}, Check{Keys: keys}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := Verify(context.Background(), io.MultiReader(bytes.NewReader(b.text()), failing{}), Check{Keys: keys}); !errors.Is(err, errStop) {
			t.Fatal(err)
		}
		told := 0
		_, err := Verify(context.Background(), bytes.NewReader(b.text()), Check{Keys: keys, Entry: func(int64, Record) error {
			if told++; told == 700 {
				return errStop
			}
			return nil
		}})
		if !errors.Is(err, errStop) || told != 700 {
			t.Fatal(told, err)
		}
		_, err = Verify(context.Background(), bytes.NewReader(b.text()), Check{Keys: keys, Tile: func(tile tlog.Tile, _ []byte) error {
			if tile.N == 2 {
				return errStop
			}
			return nil
		}})
		var fault *Fault
		if !errors.As(err, &fault) || fault.Index != 767 || !strings.Contains(err.Error(), "stop") {
			t.Fatal(err)
		}
		text := b.text()
		text[600] ^= 1
		if _, err := Verify(context.Background(), bytes.NewReader(text), Check{Keys: keys}); err == nil {
			t.Fatal("a changed byte is not seen")
		}
	}
	for range 6000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// cancelling cancels when its second half begins.
type cancelling struct {
	text   []byte
	cancel context.CancelFunc
}

func (c *cancelling) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	if len(c.text) < 1<<20 {
		c.cancel()
	}
	n := copy(p, c.text)
	c.text = c.text[n:]
	return n, nil
}

// TestVerifyReads: the sizes of the reads change nothing.
func TestVerifyReads(t *testing.T) {
	s := newSigner(t, 1)
	b := newBook(t, s)
	for i := range 30 {
		b.decide(s, fmt.Sprintf("run_%d", i))
	}
	v, err := Verify(context.Background(), oneByOne{bytes.NewReader(b.text())}, Check{Keys: Keys{{Size: 1, Key: s.Verifier()}}})
	if err != nil || v.Root != b.tree.Root() {
		t.Error(v, err)
	}
}

type oneByOne struct{ r io.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }
