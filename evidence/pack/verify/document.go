package verify

import (
	"errors"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// document is one JSON file that was read.
type document struct {
	name  string
	raw   []byte
	value any // as canon.Document.Value; nil with a fault

	// exact says that the text is canonical JSON and one LF; why says what is wrong if
	// it is not.
	exact    bool
	inexact  string
	strictly canon.Document // set if exact

	fault string // says why the text is no JSON
}

// decode reads a file as leniently as other readers of the format do, and checks whether
// it is written correctly.
func decode(name string, raw []byte) *document {
	d := &document{name: name, raw: raw}
	doc, err := pack.ParseExact(raw)
	if err == nil {
		d.exact, d.strictly, d.value = true, doc, doc.Value()
		return d
	}
	d.inexact = err.Error()
	if errors.Is(err, pack.ErrCrowded) {
		d.fault = d.inexact
		return d
	}
	d.value, d.fault = lenient(raw)
	return d
}

// noObject says why a document is no JSON object.
func (d *document) noObject() string {
	if d.fault != "" {
		return d.fault
	}
	return "not a JSON object"
}

// roundTrip says why reading and writing a document loses something, or returns "".
// Causes are a number that a double cannot hold exactly, a noncharacter, and nesting too
// deep to write.
func (d *document) roundTrip() string {
	if d.exact {
		return ""
	}
	if _, err := canon.Canonical(d.value); err != nil {
		return "no canonical form: " + err.Error()
	}
	return ""
}

// sum returns the hash of the document: of its canonical form and one LF, or of its
// bytes if it has no canonical form.
func (d *document) sum() canon.ContentHash {
	if !d.exact && d.fault == "" {
		if _, sum, err := canon.Artifact(d.value); err == nil {
			return sum
		}
	}
	return canon.Sum(d.raw)
}
