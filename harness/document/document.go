// Package document reads a document in JSON or strict YAML, holds it against its schema, and
// says in which line of the text a fault stands. It opens no file.
package document

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// Form is what a document has to be.
type Form struct {
	Name     string // with an article, as in "a request"
	Schema   specs.Kind
	MaxBytes int         // for the file, and for its canonical JSON
	Invalid  result.Code // of a document that is strict and not valid
	TooLarge string      // advice for a document that is too large
	SizeRule string      // the rule that such a document breaks, or empty
}

// Text is a document that was read, with the places of its values.
type Text struct {
	Doc  canon.Document
	name string
	form Form
	src  []byte
	root *yaml.Node // nil for JSON
}

// Read reads a document and holds it against its schema. If the first byte that is no white
// space is "{" or "[", the text is read as JSON (canon.Parse), otherwise as strict YAML (parseYAML).
// The schema gets the same values in both cases. name is the name of the file in messages.
//
// The error is always a *result.RunError: RUN_E001 for a document that is too large, RUN_E002
// for one that is neither strict JSON nor strict YAML, form.Invalid for one that breaks its
// schema. Its details have the file, the line, and the pointer of the wrong value; "" is the
// whole document. RUN_E002 has no pointer if the structure is not known.
func Read(set *specs.Set, name string, src []byte, form Form) (Text, error) {
	t, err := parse(name, src, form)
	if err != nil {
		return t, err
	}
	violations, err := set.Validate(form.Schema, t.Doc.Value())
	if err != nil {
		return t, runerr.Internal("the document could not be held against its schema", err)
	}
	if len(violations) > 0 {
		return t, t.violated(violations)
	}
	return t, nil
}

func parse(name string, src []byte, form Form) (Text, error) {
	t := Text{name: name, src: src, form: form}
	if len(src) > form.MaxBytes {
		return t, t.tooLarge()
	}
	if trimmed := bytes.TrimLeft(src, " \t\r\n"); len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') {
		doc, err := canon.Parse(src, form.MaxBytes)
		if err != nil {
			return t, t.notJSON(err)
		}
		t.Doc = doc
	} else {
		doc, root, fault := parseYAML(src)
		if fault != nil {
			return t, t.notYAML(fault)
		}
		t.Doc, t.root = doc, root
	}
	if len(t.Doc.Bytes()) > form.MaxBytes {
		return t, t.tooLarge()
	}
	return t, nil
}

func (t Text) tooLarge() *result.RunError {
	return runerr.New(result.CodeUnreadable, t.name+": larger than the limit of "+strconv.Itoa(t.form.MaxBytes)+" bytes",
		t.form.TooLarge, runerr.Rule(t.form.SizeRule), runerr.File(t.name))
}

// text is the text for errors about a place in it.
func (t Text) text() runerr.Text { return runerr.Text{Name: t.name, Src: t.src} }

func (t Text) notJSON(err error) *result.RunError {
	e := runerr.Read(t.text(), err)
	e.Hint = `a file that begins with "{" or "[" is read as JSON; every other one is read as YAML`
	return e
}

func (t Text) notYAML(f *yamlFault) *result.RunError {
	var pointer *string
	if f.pointer != "" {
		pointer = &f.pointer
	}
	at := t.yamlPosition(f.line, f.column)
	e := t.text().Fault(result.CodeNotJSON, at, pointer, f.msg)
	e.Hint = "only YAML that every reader reads alike is accepted; " + t.form.Name + " in JSON is read too"
	return e
}

func (t Text) violated(violations []specs.Violation) *result.RunError {
	first, hint := violations[0], "fiador schema "+string(t.form.Schema)+" prints what "+t.form.Name+" may hold"
	if first.Rule == "type" && strings.HasPrefix(first.Msg, "must be a string,") {
		hint = "put the value in double quotes"
	}
	e := t.Invalid(first.Pointer, first.Msg, hint)
	e.RuleID = runerr.SchemaCheck(first)
	if n := len(violations) - 1; n > 0 {
		e.Message += " (and " + strconv.Itoa(n+violations[n].More) + " more)"
		e.Details["violations"] = runerr.Violations(violations, t.places(specs.Pointers(violations)))
	}
	t.text().Named(e, t.form.Name, t.form.Schema, t.Doc.Value())
	return e
}

// Lines returns the lines in which values begin, from 1 on.
func (t Text) Lines(pointers ...string) []int {
	lines := make([]int, len(pointers))
	if t.root != nil { // a column costs a walk over the text
		for i, p := range pointers {
			_, n := yamlNode(t.root, p)
			lines[i] = n.Line
		}
		return lines
	}
	for i, at := range t.text().Places(pointers) {
		lines[i] = at.Line
	}
	return lines
}

// places returns where values begin: in YAML, a value with a name begins with the name.
func (t Text) places(pointers []string) []canon.Position {
	if t.root == nil {
		return t.text().Places(pointers)
	}
	at := make([]canon.Position, len(pointers))
	for i, p := range pointers {
		_, n := yamlNode(t.root, p)
		at[i] = t.yamlPosition(n.Line, n.Column)
	}
	return at
}

// yamlPosition is the position of the YAML reader's line and column, which counts
// characters. A column of 0 stays.
func (t Text) yamlPosition(line, column int) canon.Position {
	if column == 0 {
		return canon.Position{Line: line}
	}
	start := 0
	for range line - 1 {
		start += bytes.IndexByte(t.src[start:], '\n') + 1
	}
	end := start
	for range column - 1 {
		_, size := utf8.DecodeRune(t.src[end:])
		end += size
	}
	_, column = canon.Place(t.src[start:], end-start)
	return canon.Position{Line: line, Column: column}
}

// Invalid is the RunError for a value that is well-formed but not valid.
func (t Text) Invalid(pointer, msg, hint string) *result.RunError {
	e := t.text().Fault(t.form.Invalid, t.places([]string{pointer})[0], &pointer, msg)
	e.Hint = hint
	return e
}

// Order returns the names of the members of an object, in the order of the text. Elsewhere
// the order of members has no meaning, and is lost.
func (t Text) Order(pointer string) []string {
	value, _ := canon.Lookup(t.Doc.Value(), pointer)
	members, _ := value.(map[string]any)
	names := canon.Names(members)
	at := map[string]int{}
	if t.root != nil {
		if n, _ := yamlNode(t.root, pointer); n != nil && n.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				at[n.Content[i].Value] = i
			}
		}
	} else {
		pointers := make([]string, len(names))
		for i, name := range names {
			pointers[i] = canon.Pointer(pointer, name)
		}
		for i, span := range canon.Locate(t.src, pointers) {
			at[names[i]] = span.Start
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(at[a], at[b]) })
	return names
}
