package request

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs/specstest"
)

// TestYAMLHostile: reading 1 MiB of any text that could slow a reader down ends soon.
func TestYAMLHostile(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	set := specstest.NewSpecs(t)
	long := strings.Repeat("a", 500000)
	for name, unit := range map[string]string{
		"lists": "[", "mappings": "{a: ", "dashes": "- ", "questions": "? ", "lines of dashes": "-\n", "comments": "# x\n", "commented": "- a # x\n",
		"anchors": "- &a b\n", "tags": "- ! b\n", "bare tags": "! ", "names": "? a\n", "blank": "\n", "quotes": `"" `, "flow": "a,", "escapes": `\n`, "colons": "a: ", "documents": "---\n",
		"text": "a\n ", "percent": "%", "pairs": "{a: b}, ", "crlf": "\r\n",
	} {
		for _, before := range []string{"", "a: [", "! ["} {
			src := before + strings.Repeat(unit, (MaxBytes-len(before))/len(unit))
			rehearsal.Again(t, 3, func(int) string {
				started := time.Now()
				_, err := Parse(set, "r", []byte(src))
				if err == nil {
					t.Errorf("%s after %q is accepted", name, before)
				}
				if took := time.Since(started); took > 20*time.Second {
					return fmt.Sprintf("%s after %q took %v", name, before, took)
				}
				return ""
			})
		}
	}
	// A pointer consists of the names on the way, so long names must not multiply.
	src := long + ": [" + strings.Repeat("a,", 200000) + "yes]"
	_, err := Parse(set, "r", []byte(src))
	if re := (*result.RunError)(nil); !errors.As(err, &re) || len(re.Message) > 1000 {
		t.Errorf("got %.200v", err)
	}
}

// FuzzRequestYAML: nothing stops the reader. A request is the same request after it was
// written out.
func FuzzRequestYAML(f *testing.F) {
	for _, v := range loadRequestVectors(f).Vectors {
		if v.Repeat == nil {
			f.Add(v.source(f))
		}
	}
	for _, src := range []string{"a: b\n", "- 1\n- [x, {y: z}]\n", "a: >\n  b\n  c\n", "'': \"\\0\"\n", "? a\n: b\n", "a: 'it''s'\n", "a: 2026-01-16\n", "\"a\":1"} {
		f.Add([]byte(src))
	}
	set := specstest.NewSpecs(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		req, err := Parse(set, "r", src)
		if err != nil {
			if re := (*result.RunError)(nil); !errors.As(err, &re) || re.Code == result.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		checkRequest(t, set, req)
	})
}
