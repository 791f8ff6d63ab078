package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// TestYAMLPlainScalars: a text without quotes is read as JSON reads it, is a string that
// no version of YAML reads otherwise, or is refused.
func TestYAMLPlainScalars(t *testing.T) {
	const refused = "refused"
	for text, want := range map[string]any{
		"null": nil, "true": true, "false": false,
		"0": json.Number("0"), "-1": json.Number("-1"), "10": json.Number("10"), "1.50": json.Number("1.5"), "1e3": json.Number("1000"), "1E+2": json.Number("100"), "-0": json.Number("0"),

		"~": refused, "Null": refused, "NULL": refused, "nULL": refused, "True": refused, "TRUE": refused, "False": refused, "tRUE": refused,
		"yes": refused, "Yes": refused, "YES": refused, "no": refused, "NO": refused, "on": refused, "On": refused, "off": refused, "OFF": refused,
		"y": refused, "Y": refused, "n": refused, "N": refused, "<<": refused, "=": refused,
		"+1": refused, "01": refused, "-01": refused, "00": refused, "0777": refused, "089": refused, "0o17": refused, "0O17": refused, "0x1F": refused, "-0xff": refused,
		"0b11": refused, "1_000": refused, "1_": refused, "0x_1": refused, "1.": refused, ".5": refused, "-.5": refused, "+.5": refused, "1.e3": refused, "1_0.5": refused,
		".inf": refused, ".Inf": refused, ".INF": refused, "-.inf": refused, "+.inf": refused, ".nan": refused, ".NaN": refused, ".NAN": refused,
		"1:30": refused, "1:30:00": refused, "-1:30": refused, "10:80": "10:80", "190:20:30.15": refused, "12:60": "12:60", "01:30": refused,
		"1e400": refused, "1e-400": refused, "9007199254740992": refused, "123456789012345678901234567890": refused, "1e20": refused,

		"2026-01-16": "2026-01-16", "2026-01-16T09:30:00Z": "2026-01-16T09:30:00Z", "2026-01-16 09:30:00": "2026-01-16 09:30:00", "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
		"1.2.3": "1.2.3", "127.0.0.1": "127.0.0.1", ".": ".", "..": "..", "./a": "./a", "-": refused, "-x": "-x", "--": "--", "+": "+", "+x": "+x", "_1": "_1", "1a": "1a", "0x": "0x", "0xg": "0xg",
		"e3": "e3", "inf": "inf", "nan": "nan", "Infinity": "Infinity", "yess": "yess", "a b": "a b", "a#b": "a#b", "nil": "nil", "none": "none", "None": "None", "1 2": "1 2", "1e": "1e", "1e+": "1e+",
	} {
		doc, _, fault := parseYAML([]byte("a: " + text + "\n"))
		if fault != nil {
			if want != refused {
				t.Errorf("%q is refused: %s", text, fault.msg)
			}
			continue
		}
		if got := doc.Value().(map[string]any)["a"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %#v, want %#v", text, got, want)
		}
		// A plain string can be a name as well; no other value can.
		_, isText := want.(string)
		_, _, fault = parseYAML([]byte(text + ": a\n"))
		if (fault == nil) != isText {
			t.Errorf("%q as a name: %+v", text, fault)
		}
	}
	for _, text := range []string{"~", "yes", "0x1F", "1_000", ".inf", "1:30", "null", "true", "<<", "", "1"} {
		for _, quote := range []string{`"`, `'`} {
			doc, _, fault := parseYAML([]byte(quote + text + quote + ": " + quote + text + quote + "\n"))
			if fault != nil || !reflect.DeepEqual(doc.Value(), map[string]any{text: text}) {
				t.Errorf("%s%s%s: %v, %+v", quote, text, quote, doc.Value(), fault)
			}
		}
	}
}

// TestYAMLLines: a fault has the line of its value, counted as an editor does.
func TestYAMLLines(t *testing.T) {
	for src, want := range map[string]int{
		"a: 1\nb:\n  c: yes\n":             3,
		"a: 1\r\nb:\r\n  c: yes\r\n":       3,
		"# x\n\n---\n\na: yes\n":           5,
		"a: |\n  x\n  y\n\nb: ~\n":         5,
		"a: \"x\n  y\n  z\"\nb: &c 1\n":    4,
		"a:\n - b\n - c: 1\n   d: !x 1\n":  4,
		"a: 1\nb: 2\n\na: 3\n":             4,
		"a: 1\n# \u2028":                   2,
		"a: \u00fc\nb: \U0001d11e\nc: ! x": 3,
		"a: 1\nb: \"\\uffff\"\n":           2,
		"a: 1\nb: 1e999\n":                 2,
		"a: 1\n%TAG ! x\n":                 2,
	} {
		_, _, fault := parseYAML([]byte(src))
		if fault == nil || fault.line != want && (fault.column != 0 || fault.line != want-1) {
			t.Errorf("%q: %+v, want line %d", src, fault, want)
		}
	}
}

// FuzzYAML: nothing stops the reader. An accepted text has one canonical form, which reads
// back as the same value. The library reads the same values from the text, except for
// words that YAML 1.1 reads in its own way.
func FuzzYAML(f *testing.F) {
	for _, src := range []string{"a: b\n", "- 1\n- [x, {y: z}]\n", "a: >\n  b\n  c\n", "'': \"\\0\"\n", "? a\n: b\n", "a: 'it''s'\n", "a: 2026-01-16\n", "\"a\":1"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if doc, _, fault := parseYAML(src); fault == nil {
			again, err := canon.Parse(doc.Bytes(), len(doc.Bytes()))
			if err != nil || !bytes.Equal(again.Bytes(), doc.Bytes()) || !reflect.DeepEqual(again.Value(), doc.Value()) {
				t.Fatalf("%s reads back as %s (%v)", doc.Bytes(), again.Bytes(), err)
			}
			var second any
			if err := yaml.Unmarshal(src, &second); err != nil {
				t.Fatalf("the library refuses %q: %v", src, err)
			}
			if err := sameValue(doc.Value(), second); err != nil {
				t.Fatalf("%q: %v", src, err)
			}
		} else if fault.line < 1 || fault.line > 1+bytes.Count(src, []byte{'\n'}) || fault.msg == "" {
			t.Fatalf("%q: %+v", src, fault)
		}
		text, err := parse("r", src, Form{MaxBytes: 1 << 20})
		if err != nil {
			if re := (*result.RunError)(nil); !errors.As(err, &re) || re.Code == result.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		if b := text.Doc.Bytes(); b[0] == '{' {
			again, err := parse("r", b, Form{MaxBytes: 1 << 20})
			if err != nil || !bytes.Equal(again.Doc.Bytes(), b) {
				t.Fatalf("%s: %v", b, err)
			}
		}
	})
}

// sameValue compares a value of ours with one that the library decoded. The library
// decodes dates and times, which are strings here.
func sameValue(ours, theirs any) error {
	switch ours := ours.(type) {
	case map[string]any:
		m, ok := theirs.(map[string]any)
		if len(ours) == 0 && ok || ok && len(m) == len(ours) {
			for name := range ours {
				if err := sameValue(ours[name], m[name]); err != nil {
					return err
				}
			}
			return nil
		}
		// A name that is a date makes the library choose another type.
		if m, ok := theirs.(map[any]any); ok && len(m) == len(ours) {
			return nil
		}
	case []any:
		list, ok := theirs.([]any)
		if ok && len(list) == len(ours) {
			for i := range ours {
				if err := sameValue(ours[i], list[i]); err != nil {
					return err
				}
			}
			return nil
		}
	case json.Number:
		if f, err := strconv.ParseFloat(string(ours), 64); err == nil && f == float(theirs) {
			return nil
		}
	case string:
		if _, isTime := theirs.(time.Time); isTime || theirs == any(ours) {
			return nil
		}
	default:
		if ours == theirs {
			return nil
		}
	}
	return fmt.Errorf("%#v for us is %#v for the library", ours, theirs)
}

func float(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

// TestYAMLColumns: a fault has the column of the name or of the scalar, in UTF-16 code
// units; a fault of the YAML library has none.
func TestYAMLColumns(t *testing.T) {
	form := Form{Name: "a tool", Schema: specs.KindTool, MaxBytes: 300, Invalid: result.CodeProfile}
	for src, want := range map[string]string{
		"tool_id: T\nx: {😀: yes}\n":    "t: line 2, column 9, /x/😀: ",
		"# 😀\r\n\u2028":                "t: line 2, column 1: ",
		"{😀: 1, nme: 2, tool_id: T}\n": "t: line 1, column 2: ",
		"😀: 1\nnme: 2\ntool_id: 7\n":   "t: line 1, column 1: missing member ",
		"{a: b":                        "t: line 1, column 2: ",
		"a: [":                         "t: near line 1: ",
	} {
		_, err := Read(specstest.NewSpecs(t), "t", []byte(src), form)
		re, ok := err.(*result.RunError)
		if !ok || !strings.HasPrefix(re.Message, want) {
			t.Errorf("%q: got %v, want %s", src, err, want)
		}
	}
}
