package judge

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/text"
	"github.com/fiador/fiador/kernel/trial"
)

const (
	maxSchema = 64 << 10 // bytes of a schema
	maxValues = 200_000  // of a text that is read as JSON
)

// output is the final output of an answer.
type output struct {
	text   string // a string as it is, any other value as JSON
	shown  string // what is searched: of JSON, its JSON with numbers as they are spelt
	json   any
	isJSON bool
	torn   bool            // it is declared as JSON, and is none
	forms  map[bool][]form // what is searched, by whether it is wanted; made at the first search
}

// form is a text that is searched.
type form struct{ plain, folded string }

// outputOf returns the output of an answer. A text that reads as JSON is JSON too.
func outputOf(doc map[string]any) (o output) {
	final, _ := doc["final_output"].(map[string]any)
	content, there := final["content"]
	text, is := content.(string)
	switch {
	case is:
		v, err := canon.ParseLiteral([]byte(text), len(text), maxValues)
		o = output{text: text, shown: text, json: v, isJSON: err == nil}
	case there:
		o = output{text: literal(content), json: content, isJSON: true}
	}
	declared := final["content_type"] == "json"
	if o.isJSON && (!is || declared) {
		o.shown = literal(o.json)
	}
	o.torn, o.forms = declared && !o.isJSON, map[bool][]form{}
	return o
}

// about returns an assertion about the output.
func (o output) about(ok bool, reason, expected string) said {
	return unless(!ok, reason, expected, o.text, []string{"final_output"})
}

// fold returns a text in the form NFC in which letters do not differ in case, nor in their form at
// the end of a word, without the characters that show nothing.
func fold(s string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, visible(s)))
}

// visible returns a text in the form NFC without the characters that show nothing. Controls and
// spaces stay.
func visible(s string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if text.IsHostile(r) && !unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s))
}

// unescape returns a text of JSON with the characters that its escapes stand for.
func unescape(s string) string {
	var pairs []string
	for r := range rune(unicode.MaxASCII) {
		if escape := literal(string(r)); len(escape) > len(`"x"`) {
			pairs = append(pairs, escape[1:len(escape)-1], string(r))
		}
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

// among returns what is searched for a text that is wanted, or for one that is not. What is not
// wanted is searched wherever it could hide.
func (o *output) among(wanted bool) []form {
	if of, made := o.forms[wanted]; made {
		return of
	}
	texts := []string{o.shown}
	if !wanted && o.isJSON {
		texts = append(texts, o.text, literal(o.json), unescape(literal(o.json)))
	}
	for _, s := range slices.Compact(texts) {
		o.forms[wanted] = append(o.forms[wanted], form{s, fold(s)})
		if v := visible(s); !wanted && v != s {
			o.forms[wanted] = append(o.forms[wanted], form{v, ""})
		}
	}
	return o.forms[wanted]
}

// includes judges a text that the output must have, or must not have, or a pattern that must match
// or must not. JSON also has the texts that its escapes stand for.
func (j *judge) includes(v any, wanted bool) said {
	o := &j.output
	want, _ := v.(string)
	if want == "" {
		return malformed()
	}
	quoted := strings.TrimSuffix(strings.TrimPrefix(literal(want), `"`), `"`)
	folded, foldedQuoted := fold(want), fold(quoted)
	has := func(in form) bool {
		if folded == "" { // the text has nothing but characters that show nothing
			return strings.Contains(in.plain, want)
		}
		return strings.Contains(in.folded, folded) || o.isJSON && quoted != "" && strings.Contains(in.folded, foldedQuoted)
	}
	if pattern, is := strings.CutPrefix(want, trial.Regex); is {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return broken("the pattern cannot be used")
		}
		has = func(in form) bool { return re.MatchString(in.plain) || re.MatchString(norm.NFC.String(in.plain)) }
	}
	found := slices.ContainsFunc(o.among(wanted), has)
	switch {
	case wanted:
		return o.about(found, "the output does not have the text", want)
	case o.torn:
		return o.about(false, "the output is declared as JSON, and is none, so that a text could hide in it", "not "+want)
	}
	return o.about(!found, "the output has the text", "not "+want)
}

func (j *judge) equals(v any) said {
	text, ok := v.(string)
	if !ok {
		return malformed()
	}
	return j.output.about(j.output.text == text, "the output is another text", text)
}

func (j *judge) jsonSchema(v any) said {
	const fits = "JSON that fits the schema"
	schema := literal(v)
	switch {
	case schema == "" || len(schema) > maxSchema:
		return broken("the schema has more than " + strconv.Itoa(maxSchema) + " bytes, or no form in JSON")
	case j.given.Schema == nil:
		return broken("there is nothing that checks by a schema")
	case !j.output.isJSON:
		return j.output.about(false, "the output is no JSON", fits)
	}
	fault, err := j.given.Schema(v, j.output.json)
	if err != nil {
		return broken("the schema cannot be used: " + err.Error())
	}
	return j.output.about(fault == "", "the output does not fit the schema: "+fault, fits)
}

func (j *judge) jsonEquals(v any) said {
	want, _ := v.(map[string]any)
	value, there := want["value"]
	if !there {
		return malformed()
	}
	if !j.output.isJSON {
		return j.output.about(false, "the output is no JSON", literal(value))
	}
	ignore := map[string]bool{}
	for _, pointer := range list(want, "ignore") {
		if text, ok := pointer.(string); ok {
			ignore[text] = true
		}
	}
	at, same := sameJSON("", value, j.output.json, ignore)
	s := j.output.about(same, "the output is other JSON at the JSON Pointer "+canon.Quote(at), "")
	if !same {
		s.expected, s.actual = show(value, at), show(j.output.json, at)
	}
	return s
}

// show returns the JSON of what a JSON Pointer names.
func show(v any, pointer string) string {
	part, there := canon.Lookup(v, pointer)
	if !there {
		return "absent"
	}
	return literal(part)
}

// sameJSON says whether two values are the same JSON but for what the pointers of ignore name. If
// they are not, it returns the pointer of a difference.
func sameJSON(at string, a, b any, ignore map[string]bool) (pointer string, same bool) {
	x, kindX := members(a)
	y, kindY := members(b)
	if ignore[at] || kindX != kindY || x == nil {
		return at, ignore[at] || kindX == kindY
	}
	for _, name := range canon.Names(x, y) {
		below := canon.Pointer(at, name)
		v, inX := x[name]
		w, inY := y[name]
		if ignore[below] {
			continue
		}
		if inX != inY {
			return below, false
		}
		if pointer, same := sameJSON(below, v, w, ignore); !same {
			return pointer, false
		}
	}
	return "", true
}

// members returns what an object or a list has, and its kind. The kind of any other value is its
// canonical JSON; a number that has none is as it is spelt.
func members(v any) (of map[string]any, kind string) {
	switch v := v.(type) {
	case map[string]any:
		return v, "object"
	case []any:
		of = make(map[string]any, len(v))
		for i, element := range v {
			of[strconv.Itoa(i)] = element
		}
		return of, "list"
	case string:
		return nil, `"` + v
	}
	b, err := canon.Canonical(v)
	if n, is := v.(json.Number); is && err != nil {
		return nil, string(n)
	}
	return nil, string(b)
}
