// Package suitedir reads a version directory of a suite for the rules of package trial. Each
// document is read and decoded once, so that what was verified is what is judged.
package suitedir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/kernel/trial/verify"
	"github.com/fiador/fiador/specs"
)

// Limits of what is read.
const (
	MaxDocument = 64 << 20 // bytes of a JSON document
	MaxFile     = 1 << 30  // bytes of any other file
)

// maxFaults is the number of faults of a schema that are named.
const maxFaults = 20

// Files reads regular files of a directory. *asset.Files does.
type Files interface {
	Read(name string, most int64) ([]byte, error)
	Hash(name string, most int64) (sha256 string, size int64, err error)
}

// Dir is a version directory.
type Dir struct {
	files  Files
	names  []string
	others []verify.Entry
	docs   map[string]document
	sums   map[string]sum
	err    error // the first file that could not be read
}

type document struct {
	value  any
	faults []trial.Fault
}

type sum struct {
	sha256 string
	size   int64
}

// New returns the directory with these regular files and other entries.
func New(files Files, names []string, others []verify.Entry) *Dir {
	return &Dir{files: files, names: names, others: others, docs: map[string]document{}, sums: map[string]sum{}}
}

// Verify checks the directory. The error says that a file cannot be read.
func (d *Dir) Verify() (verify.Verdict, error) {
	verdict := verify.Verify(d)
	return verdict, d.err
}

// Names returns the names of the regular files.
func (d *Dir) Names() []string { return d.names }

// Others returns the entries that are neither folders nor regular files.
func (d *Dir) Others() []verify.Entry { return d.others }

// Sum returns the SHA-256 and the size of a file.
func (d *Dir) Sum(name string) (string, int64) {
	s, known := d.sums[name]
	if !known {
		var err error
		s.sha256, s.size, err = d.files.Hash(name, MaxFile)
		d.note(err)
		d.sums[name] = s
	}
	return s.sha256, s.size
}

// Content returns the bytes of a file.
func (d *Dir) Content(name string) []byte { return d.read(name, MaxFile) }

// Document returns the decoded value of a file, and how it breaks the schema of the documents
// with that schema_version.
func (d *Dir) Document(name, version string) (any, []trial.Fault) {
	key := version + " " + name
	doc, known := d.docs[key]
	if !known {
		doc = decode(d.read(name, MaxDocument), version)
		d.docs[key] = doc
	}
	return doc.value, doc.faults
}

// read returns the bytes of a file, and keeps their hash. A file that is read twice must not have
// changed.
func (d *Dir) read(name string, most int64) []byte {
	b, err := d.files.Read(name, most)
	d.note(err)
	h := sha256.Sum256(b)
	now := sum{hex.EncodeToString(h[:]), int64(len(b))}
	if before, known := d.sums[name]; known && before != now {
		d.note(fmt.Errorf("%s changes while it is read: verify the directory when nothing writes in it", name))
	}
	d.sums[name] = now
	return b
}

func (d *Dir) note(err error) {
	if d.err == nil {
		d.err = err
	}
}

func decode(text []byte, version string) document {
	value, err := canon.ParseLiteral(text, MaxDocument, math.MaxInt)
	if err != nil {
		return document{faults: []trial.Fault{{Msg: "no JSON: " + err.Error()}}}
	}
	found := document{value: value}
	faults, _ := specs.Walk(kindOf(version), value, maxFaults)
	for _, f := range faults {
		found.faults = append(found.faults, trial.Fault(f))
	}
	return found
}

// kindOf returns the kind of the documents with a schema_version.
func kindOf(version string) specs.Kind {
	switch version {
	case trial.RunVersion:
		return specs.KindSuiteRun
	case trial.CaseVersion:
		return specs.KindSuiteCase
	case trial.MetaVersion:
		return specs.KindSuiteFailureMeta
	case trial.ManifestVersion:
		return specs.KindSuiteManifest
	}
	return specs.KindSuiteCases
}
