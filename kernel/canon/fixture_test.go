package canon

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/fiador/fiador/harness/rehearsal"
)

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReferenceVectors tests Parse and Canonical with the vectors that come with RFC 8785.
func TestReferenceVectors(t *testing.T) {
	dir := rehearsal.NeedFixture(t, "rfc8785")
	names := []string{"arrays", "french", "structures", "unicode", "values", "weird"}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			src := read(t, dir, "input", name+".json")
			doc, err := Parse(src, MaxIntentBytes)
			if err != nil {
				t.Fatal(err)
			}
			if want := read(t, dir, "output", name+".json"); !bytes.Equal(doc.Bytes(), want) {
				t.Errorf("got %s, want %s", doc.Bytes(), want)
			}
			digits := strings.Join(strings.Fields(string(read(t, dir, "outhex", name+".txt"))), "")
			if got := hex.EncodeToString(doc.Bytes()); got != digits {
				t.Errorf("got %s, want %s", got, digits)
			}
			checkStable(t, src, doc)
		})
	}
}

// forbidden are the y_ cases of the JSON test suite that Parse refuses, because I-JSON
// (RFC 7493) refuses them: section 2.1 on noncharacters, 2.3 on members.
var forbidden = map[string]Kind{
	"y_object_duplicated_key":               KindDuplicate, // "a" twice
	"y_object_duplicated_key_and_value":     KindDuplicate, // "a" twice, with equal values
	"y_string_escaped_noncharacter":         KindCharacter, // U+FFFF
	"y_string_last_surrogates_1_and_2":      KindCharacter, // U+10FFFF as a pair of escapes
	"y_string_nonCharacterInUTF-8_U+FFFF":   KindCharacter,
	"y_string_nonCharacterInUTF-8_U+10FFFF": KindCharacter,
	"y_string_unicode_U+10FFFE_nonchar":     KindCharacter,
	"y_string_unicode_U+1FFFE_nonchar":      KindCharacter,
	"y_string_unicode_U+FDD0_nonchar":       KindCharacter,
	"y_string_unicode_U+FFFE_nonchar":       KindCharacter,
}

func TestJSONTestSuite(t *testing.T) {
	dir := filepath.Join(rehearsal.NeedFixture(t, "json-test-suite"), "test_parsing")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 318 {
		t.Fatalf("%d cases, want 318 (%v)", len(files), err)
	}
	seen := 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			src := read(t, file)
			doc, err := Parse(src, MaxIntentBytes)
			_, jcsErr := jcs.Transform(src)
			if jcsErr != nil && err == nil {
				t.Errorf("jcs refuses it (%v), Parse reads it as %s", jcsErr, doc.Bytes())
			}
			kind, isForbidden := forbidden[name]
			switch {
			case isForbidden:
				seen++
				if e := refused(t, src, MaxIntentBytes); e.Kind != kind {
					t.Errorf("refused as %s, want %s", e.Kind, kind)
				}
			case strings.HasPrefix(name, "y_") && err != nil:
				t.Errorf("must be read: %v", err)
			case strings.HasPrefix(name, "n_") && err == nil:
				t.Errorf("must be refused, got %s", doc.Bytes())
			case err != nil:
				refused(t, src, MaxIntentBytes)
			default:
				checkStable(t, src, doc)
			}
		})
	}
	if seen != len(forbidden) {
		t.Errorf("%d of the %d exceptions are cases of the suite", seen, len(forbidden))
	}
}
