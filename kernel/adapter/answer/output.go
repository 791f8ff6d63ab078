// Package answer makes an answer of what a tool has given: it parses, selects and formats, and
// says in which step that is impossible.
package answer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/adapter/params"
	"github.com/fiador/fiador/kernel/canon"
)

// MaxAnswerBytes is the most that Output reads and writes.
const MaxAnswerBytes = 1 << 20

// OutputError says that an answer is not what the output transforms read. Step is the index
// of the transform, or -1 for the answer as a whole.
type OutputError struct {
	Step int
	Msg  string
}

// Error returns the message.
func (e *OutputError) Error() string { return e.Msg }

// Step is one transform. What Spec holds depends on Type.
type Step struct {
	Type string `json:"type"`
	Spec any    `json:"spec"`
}

// forms are the texts that Spec may be, by Type. An extract has a query.
func forms(kind string) []string {
	switch kind {
	case "parse":
		return []string{"json", "json_lines", "lines", "text"}
	case "format":
		return []string{"json", "json_lines", "lines"}
	}
	return nil
}

// Check says why no answer can be made by a step.
func (s Step) Check() error {
	if s.Type == "extract" {
		_, _, _, err := readExtract(s.Spec)
		return err
	}
	text, _ := s.Spec.(string)
	switch list := forms(s.Type); {
	case list == nil:
		return failure("no output transform " + canon.Quote(s.Type) + ": use parse, extract or format")
	case !slices.Contains(list, text):
		return failure(s.Type + " has no form " + canon.Quote(text) + ": use " + strings.Join(list, ", "))
	}
	return nil
}

// readExtract reads the spec of an extract step: a query, or {path, default}.
func readExtract(spec any) (q *query, fallback any, has bool, err error) {
	text, plain := spec.(string)
	if m, ok := spec.(map[string]any); ok {
		text, plain = m["path"].(string)
		fallback, has = m["default"]
		plain = plain && has && len(m) == 2
	}
	if !plain {
		return nil, nil, false, failure(`neither a query nor an object of path and default: write a query of RFC 9535, as in "$.data"`)
	}
	q, err = readQuery(text)
	return q, fallback, has, err
}

// Output applies the output transforms to a raw answer, and returns canonical JSON with a
// line feed. Without transforms the answer is a text. extract and format begin with parse
// json if no parse stands before them. A query that matches nothing is an error, unless it
// has a default. The error is always an *OutputError.
func Output(steps []Step, raw []byte) ([]byte, error) {
	if len(raw) > MaxAnswerBytes {
		return nil, &OutputError{-1, "the answer has more than 1048576 bytes"}
	}
	value, parsed, err := any(nil), false, error(nil)
	for i, step := range steps {
		if err := step.Check(); err != nil {
			return nil, &OutputError{i, err.Error()}
		}
		spec, _ := step.Spec.(string)
		if !parsed && step.Type != "parse" {
			if value, err = parse("json", raw); err != nil {
				return nil, &OutputError{i, err.Error()}
			}
		}
		switch step.Type {
		case "parse":
			if parsed {
				text, ok := value.(string)
				if !ok {
					return nil, &OutputError{i, "only a text can be parsed again, and this is of type " + params.TypeOf(value)}
				}
				raw = []byte(text)
			}
			value, err = parse(spec, raw)
		case "extract":
			value, err = extract(step.Spec, value)
		case "format":
			value, err = format(spec, value)
		}
		if err != nil {
			return nil, &OutputError{i, err.Error()}
		}
		parsed = true
	}
	if !parsed {
		if value, err = parse("text", raw); err != nil {
			return nil, &OutputError{-1, err.Error()}
		}
	}
	text, _, err := canon.Artifact(value)
	if err != nil {
		return nil, &OutputError{-1, err.Error()}
	}
	if len(text) > MaxAnswerBytes {
		return nil, &OutputError{-1, "the result has more than 1048576 bytes"}
	}
	return text, nil
}

// failure is an error that is a text.
type failure string

func (e failure) Error() string { return string(e) }

func parse(form string, raw []byte) (any, error) {
	if form == "json" {
		doc, err := canon.Parse(raw, MaxAnswerBytes)
		return doc.Value(), err
	}
	if !utf8.Valid(raw) {
		return nil, failure("the answer is not UTF-8")
	}
	if form == "text" {
		return string(raw), nil
	}
	list := []any{}
	for line := range bytes.Lines(raw) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if form == "lines" {
			list = append(list, string(line))
			continue
		}
		doc, err := canon.Parse(line, MaxAnswerBytes)
		if err != nil {
			return nil, err
		}
		list = append(list, doc.Value())
	}
	return list, nil
}

func extract(spec, value any) (any, error) {
	q, fallback, has, err := readExtract(spec)
	if err != nil {
		return nil, err
	}
	found, err := q.selectFrom(value)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0 && has:
		return fallback, nil
	case len(found) == 0:
		return nil, failure("the query matches nothing")
	case q.singular:
		return found[0], nil
	case weight(found, MaxAnswerBytes) > MaxAnswerBytes:
		return nil, failure("what the query matches has more than 1048576 bytes")
	}
	return found, nil
}

// weight returns about how many bytes a value has, or more than most. A query can give one
// value many times.
func weight(v any, most int) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v)
	case json.Number:
		n += len(v)
	case []any:
		for i := 0; i < len(v) && n <= most; i++ {
			n += weight(v[i], most-n)
		}
	case map[string]any:
		for name, one := range v {
			if n += len(name) + weight(one, most-n); n > most {
				break
			}
		}
	}
	return n
}

// format makes a text of a value: its canonical JSON, or one line for each element of a
// list.
func format(form string, value any) (any, error) {
	if form == "json" {
		b, err := canon.Canonical(value)
		return string(b), err
	}
	list, ok := value.([]any)
	if !ok {
		return nil, failure("only a list has lines, and this is of type " + params.TypeOf(value))
	}
	var b strings.Builder
	for _, one := range list {
		line, isText := one.(string)
		if form == "json_lines" {
			line, isText = params.Shown(one), true
		}
		if !isText || strings.ContainsAny(line, "\r\n") {
			return nil, failure("an element is not a text of one line")
		}
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}
