package dispatch

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// agree lets both readers read an index. skim accepts what parseIndex accepts, unless its text
// has an escape, and nothing else. It reads the same index.
func agree(t testing.TB, set *specs.Set, text []byte) (skimmed bool) {
	t.Helper()
	want, err := folder{set: set}.parseIndex(text, true)
	got, skimmed := skim(string(text))
	switch {
	case skimmed != (err == nil && !bytes.Contains(text, []byte(`\`))):
		t.Fatalf("%q: skim says %t, parseIndex %v", text, skimmed, err)
	case skimmed && !reflect.DeepEqual(got, want):
		t.Fatalf("%q: skim reads %+v, parseIndex %+v", text, got, want)
	}
	return skimmed
}

// randomIndex is an index of the form that MakeIndex writes. Some of its names may be such
// that their texts have escapes.
func randomIndex(r *rand.Rand, tools, servers int, escapes bool) []byte {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	word := func(most int, letters string) string {
		b := make([]byte, 1+r.IntN(most))
		for i := range b {
			b[i] = letters[r.IntN(len(letters))]
		}
		return string(b)
	}
	id := func() string { return pick("T", "TL-003", "a.b_c-", word(64, "aZ09")) }
	name := func() string {
		if escapes && r.IntN(8) == 0 {
			return pick(`"`, `\`, "a\nb", "\x01")
		}
		return pick("t", "a tool: {}[],", "\x7f", "é漢😀", "\u2028", strings.Repeat("é", 256), word(256, " az!~'"))
	}
	version := func() string { return pick("1.0.0", "0.20.300", "1.0.0-rc.1", "1.0.0--", word(20, "09")+".0.1") }
	file := func() string { return pick("T/tool.yaml", "T/A.json", word(256, "aZ09")) }
	size := func() int { return []int{0, 1, 10, r.IntN(MaxBytes), MaxBytes}[r.IntN(5)] }
	hash := func() canon.ContentHash { return canon.Sum([]byte{byte(r.IntN(256))}) }
	x := Index{Version: IndexVersion, Tools: []IndexedTool{}, Servers: []IndexedServer{}}
	for range tools {
		t := IndexedTool{ToolID: id(), Name: name(), Version: version(), Status: pick("active", "a", "x-9_"), File: file(), SizeBytes: size(), SHA256: hash()}
		for range 1 + r.IntN(1+r.IntN(MaxAdapters)) {
			t.Adapters = append(t.Adapters, IndexedAdapter{
				AdapterID: id(), Name: name(), ToolID: id(), Type: adapter.Type(pick("cli", "api", "sdk", "mcp")), Version: version(),
				Status: pick("", "active", "deprecated", "experimental"), File: file(), SizeBytes: size(), SHA256: hash(),
			})
		}
		x.Tools = append(x.Tools, t)
	}
	for range servers {
		x.Servers = append(x.Servers, IndexedServer{Name: id(), File: file(), SizeBytes: size(), SHA256: hash()})
	}
	text, err := canon.Canonical(x)
	if err != nil {
		panic(err)
	}
	return text
}

// smallIndex has every member.
var smallIndex = strings.ReplaceAll(`{"index_schema_version":"1.0.0","servers":[{"file":"servers/S.yaml","name":"S","sha256":"HASH","size_bytes":0}],`+
	`"tools":[{"adapters":[{"adapter_id":"A","file":"T/A.json","name":"é","sha256":"HASH","size_bytes":262144,"status":"active","tool_id":"T","type":"cli","version":"1.0.0-b"}],`+
	`"file":"T/tool.yaml","name":"a tool","sha256":"HASH","size_bytes":12,"status":"a-b","tool_id":"T","version":"0.1.22"}]}`, "HASH", string(canon.Sum(nil)))

// TestSkim: both readers agree on random indexes, and on an index in which one byte has
// another value, is missing, or is one too many, or which ends early.
func TestSkim(t *testing.T) {
	r, set, skimmed := rand.New(rand.NewPCG(3, 4)), specstest.NewSpecs(t), 0
	for range 300 {
		text := randomIndex(r, r.IntN(5), r.IntN(3), true)
		if agree(t, set, text) {
			skimmed++
		}
		for range 5 { // two faults far from each other, a part twice, a part elsewhere
			other := bytes.Clone(text)
			at, to := r.IntN(len(text)), r.IntN(len(text))
			switch r.IntN(3) {
			case 0:
				other[at], other[to] = other[to], other[at]
			case 1:
				other = slices.Insert(other, at, text[min(at, to):max(at, to)]...)
			case 2:
				other = slices.Delete(other, min(at, to), max(at, to))
			}
			agree(t, set, other)
		}
	}
	if skimmed < 50 {
		t.Errorf("only %d of the random indexes are skimmed", skimmed)
	}
	text := []byte(smallIndex)
	if !agree(t, set, text) {
		t.Fatalf("%s is not skimmed", text)
	}
	for at := range text {
		agree(t, set, text[:at])
		agree(t, set, slices.Delete(bytes.Clone(text), at, at+1))
		for _, c := range []byte("09afgAZ !,:{}[]\"\\/_-.\x00\x7f\x80\xe1\xff") {
			agree(t, set, slices.Insert(bytes.Clone(text), at, c))
		}
		other := bytes.Clone(text)
		for c := range 256 {
			other[at] = byte(c)
			agree(t, set, other)
		}
	}
}

// TestSkimLimits: both readers agree at the limits of the schema and above them.
func TestSkimLimits(t *testing.T) {
	set := specstest.NewSpecs(t)
	text, err := os.ReadFile(filepath.Join(examples, IndexFile))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if !agree(t, set, text) {
		t.Fatal("the index of the examples is not skimmed")
	}
	for n, want := range map[int]bool{MaxTools: true, MaxTools + 1: false} {
		if got := agree(t, set, randomIndex(rand.New(rand.NewPCG(1, 2)), n, n, false)); got != want {
			t.Errorf("%d tools and servers: skim says %t", n, got)
		}
	}
	a, _, _ := strings.Cut(smallIndex[strings.Index(smallIndex, `{"adapter_id"`):], "]")
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct {
		old, new string
		skimmed  bool
	}{
		{a, "", false},
		{a, a + strings.Repeat(","+a, MaxAdapters-1), true},
		{a, a + strings.Repeat(","+a, MaxAdapters), false},
		{`"status":"active",`, ``, true},
		{`"status":"a-b",`, ``, false},
		{`"T"`, `"` + long(64) + `"`, true},
		{`"T"`, `"` + long(65) + `"`, false},
		{`"T"`, `""`, false},
		{`"a tool"`, `"` + strings.Repeat("é", 256) + `"`, true},
		{`"a tool"`, `"` + strings.Repeat("é", 257) + `"`, false},
		{`"a tool"`, `"a \"tool\""`, false},
		{`"a tool"`, "\"\ufffe\"", false},
		{`:262144`, `:262145`, false},
		{`:12,`, `:012,`, false},
		{`:12,`, `:-12,`, false},
		{`:12,`, `:12.0,`, false},
		{`:12,`, `:"12",`, false},
		{`:12,`, `:9007199254740993,`, false},
		{`:12,`, `:99999999999999999999,`, false},
		{`"0.1.22"`, `"0.1.22-"`, false},
		{`"0.1.22"`, `"0.1.22-.-a"`, true},
		{`"0.1.22"`, `"0.1.22` + long(60) + `"`, false},
		{`"0.1.22"`, `"0.1.22","z":1`, false},
	} {
		changed := strings.ReplaceAll(smallIndex, c.old, c.new)
		if changed == smallIndex || agree(t, set, []byte(changed)) != c.skimmed {
			t.Errorf("%s: want %t", changed, c.skimmed)
		}
	}
}

// FuzzSkim: both readers agree.
func FuzzSkim(f *testing.F) {
	set := specstest.NewSpecs(f)
	f.Add([]byte(smallIndex))
	for seed := range uint64(20) {
		f.Add(randomIndex(rand.New(rand.NewPCG(seed, 2)), int(seed%4), int(seed%3), seed%2 == 0))
	}
	f.Fuzz(func(t *testing.T, text []byte) { agree(t, set, text) })
}
