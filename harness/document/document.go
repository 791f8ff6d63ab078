// Package document reads a document in JSON or strict YAML, holds it against its schema, and
// says in which line of the text a fault stands. It opens no file.
package document

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

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

// fault is the RunError for a fault on a line. It has a pointer unless the pointer is
// nil.
func (t Text) fault(code result.Code, line int, near bool, pointer *string, msg string) *result.RunError {
	at := "line " + strconv.Itoa(line)
	if near {
		at = "near " + at
	}
	e := runerr.New(code, "", "", runerr.File(t.name), runerr.With("line", line))
	if pointer != nil {
		e.Details["pointer"] = *pointer
		if *pointer != "" {
			at += ", " + *pointer
		}
	}
	e.Message = t.name + ": " + at + ": " + msg
	return e
}

func (t Text) notJSON(err error) *result.RunError {
	ce, ok := errors.AsType[*canon.Error](err)
	if !ok {
		return runerr.Internal("the file could not be parsed", err)
	}
	var pointer *string
	if ce.Pointer != "" {
		pointer = &ce.Pointer
	}
	e := t.fault(result.CodeNotJSON, t.lineAt(int(ce.Offset)), false, pointer, ce.Msg)
	e.Details["offset"] = ce.Offset
	e.Cause = err
	e.Hint = `a file that begins with "{" or "[" is read as JSON; every other one is read as YAML`
	return e
}

func (t Text) notYAML(f *yamlFault) *result.RunError {
	var pointer *string
	if f.pointer != "" {
		pointer = &f.pointer
	}
	e := t.fault(result.CodeNotJSON, f.line, f.near, pointer, f.msg)
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
		e.Details["violations"] = runerr.Violations(violations)
	}
	return e
}

// Invalid is the RunError for a value that is well-formed but not valid.
func (t Text) Invalid(pointer, msg, hint string) *result.RunError {
	var line int
	if t.root != nil {
		line = yamlLine(t.root, pointer)
	} else {
		line = t.lineAt(canon.Locate(t.src, []string{pointer})[0].Start)
	}
	e := t.fault(t.form.Invalid, line, false, &pointer, msg)
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

// lineAt returns the number of the line, from 1 on, that contains a byte.
func (t Text) lineAt(offset int) int {
	return 1 + bytes.Count(t.src[:min(max(offset, 0), len(t.src))], []byte{'\n'})
}
