package verify

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
)

// TestFaultsAreCounted: the number of kept faults is limited, and the others are
// counted.
func TestFaultsAreCounted(t *testing.T) {
	interactions := "[" + strings.Repeat("{},", pack.MaxInteractions-1) + "{}]"
	d, err := newDraft(basePacks(t)["model"])
	if err != nil {
		t.Fatal(err)
	}
	if err := d.do(change{Set: pack.ModelFile + "#/interactions", To: json.RawMessage(interactions)}); err != nil {
		t.Fatal(err)
	}
	p := d.inMemory(t)
	v := &verifier{pack: p, docs: map[string]*document{}}
	for _, e := range p.Entries {
		v.docs[e.Name] = decode(e.Name, e.Text)
	}
	v.structural()
	if all := len(pack.ModelIOFaults(v.object(pack.ModelFile))); len(v.found) != maxFound || len(v.found)+v.unnamed != all {
		t.Errorf("%d are kept and %d counted of %d, and %d can be kept", len(v.found), v.unnamed, all, maxFound)
	}
	for range 3 {
		v.add("PK1", "", "one more")
	}
	if len(v.found) != maxFound {
		t.Errorf("%d are kept", len(v.found))
	}
}

// TestHostileNames: whatever a name or a value of a pack is, a message shows it on one
// line and shortened.
func TestHostileNames(t *testing.T) {
	files := map[string][]byte{pack.RunFile: []byte(`{"kernel_result_kind":"` + strings.Repeat(`\u001b[2J\n`, 5000) + `"}` + "\n")}
	for _, name := range []string{"a\nb", "\x1b[2J", "\xff", strings.Repeat("n", 70_000)} {
		files[name] = []byte("x")
	}
	for _, level := range []pack.Level{pack.Structural, pack.Strict} {
		for _, v := range Pack(pack.Of(files), Options{Level: level}).Violations {
			if strings.ContainsAny(v.Message, "\n\x1b\x7f") || len(v.Message) > 2000 {
				t.Errorf("%s %.100q: %.300q", v.Rule, v.Path, v.Message)
			}
		}
	}
}
