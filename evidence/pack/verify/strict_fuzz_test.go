package verify

import (
	"slices"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
)

// FuzzStrict replaces one file of a complete pack by a text. Nothing panics; the result
// is the same twice, and sorted. In a valid pack this file is canonical.
func FuzzStrict(f *testing.F) {
	base := basePacks(f)
	for _, name := range []string{"refuse", "clarify", "plan", "executed", "rejected", "recorded", "served", "promised", "model"} {
		d, err := newDraft(base[name])
		if err != nil {
			f.Fatal(err)
		}
		for file, text := range d.files(f) {
			f.Add(name, file, text)
		}
	}
	options := builtin(f)
	f.Fuzz(func(t *testing.T, name, file string, text []byte) {
		if base[name] == nil || !pack.IsName(file) || int64(len(text)) > 1<<16 {
			t.Skip("no base pack, no file of a pack, or larger than what is of use here")
		}
		d, err := newDraft(base[name])
		if err != nil {
			t.Fatal(err)
		}
		files := d.files(t)
		files[file] = text
		first := Pack(pack.Of(files), options)
		again := Pack(pack.Of(files), options)
		if !slices.Equal(first.Violations, again.Violations) || !slices.Equal(first.NotChecked, again.NotChecked) {
			t.Errorf("%+v, and then %+v", first, again)
		}
		if !slices.Equal(pack.SortViolations(slices.Clone(first.Violations)), first.Violations) {
			t.Errorf("not sorted: %+v", first.Violations)
		}
		if first.OK() && file != pack.LedgerFile && !decode(file, text).exact {
			t.Errorf("%s holds, and is not canonical: %q", file, text)
		}
	})
}
