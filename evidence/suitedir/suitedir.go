// Package suitedir reads a version directory of a suite for the rules of package trial. Each
// document is read and decoded once, so that what was verified is what is judged.
package suitedir

import (
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/kernel/trial/verify"
	"github.com/fiador/fiador/specs"
)

// Limits of what is read.
const (
	MaxDocument = 64 << 20  // bytes of a JSON document
	MaxFile     = 1 << 30   // bytes of any other file
	maxValues   = 2_000_000 // of a JSON document: ten times what an answer may have
)

// maxFaults is the number of faults of a schema that are named.
const maxFaults = 20

// Files reads regular files of a directory, for several goroutines at once. *asset.Files does.
type Files interface {
	Read(name string, most int64) ([]byte, error)
	Hash(name string, most int64) (sha256 string, size int64, err error)
}

// Dir is a version directory.
type Dir struct {
	files Files
	docs  map[string]func() document
	sums  map[string]sum
	err   error // the first file that could not be read
}

type document struct {
	value  any
	faults []trial.Fault
	sum    sum
	err    error // the file could not be read
}

type sum struct {
	sha256 string
	size   int64
}

// New returns the directory with these files.
func New(files Files) *Dir {
	return &Dir{files: files, docs: map[string]func() document{}, sums: map[string]sum{}}
}

// Verify checks the directory, which has these regular files and other entries. The error says
// that a file cannot be read.
func (d *Dir) Verify(names []string, others []verify.Entry) (verify.Verdict, error) {
	defer d.ahead(names).Wait()
	verdict := verify.Verify(d, names, others)
	return verdict, d.err
}

// Err returns the error of the first file that could not be read, or that has changed meanwhile.
func (d *Dir) Err() error { return d.err }

// ahead decodes the files of cases on the other cores, from the last one to the first one, while
// Verify goes from the first one to the last one.
func (d *Dir) ahead(names []string) *sync.WaitGroup {
	var cases []func() document
	for _, name := range names {
		if strings.HasSuffix(name, trial.CaseSuffix) && !strings.Contains(name, "/") && name != trial.RunFile {
			cases = append(cases, d.load(name, specs.KindSuiteCase))
		}
	}
	var helpers sync.WaitGroup
	others := runtime.GOMAXPROCS(0) - 1
	for first := range others {
		helpers.Go(func() {
			for i := len(cases) - 1 - first; i >= 0; i -= others {
				cases[i]()
			}
		})
	}
	return &helpers
}

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
func (d *Dir) Content(name string) []byte {
	b, err := d.files.Read(name, MaxFile)
	d.saw(name, sumOf(b), err)
	return b
}

// Document returns the decoded value of a file, and how it breaks a schema.
func (d *Dir) Document(name, schema string) (any, []trial.Fault) {
	doc := d.load(name, specs.Kind(schema))()
	d.saw(name, doc.sum, doc.err)
	return doc.value, doc.faults
}

// load returns a function that reads and decodes a file once.
func (d *Dir) load(name string, kind specs.Kind) func() document {
	key := string(kind) + " " + name
	load, known := d.docs[key]
	if !known {
		load = sync.OnceValue(func() document {
			b, err := d.files.Read(name, MaxDocument)
			doc := decode(b, kind)
			doc.sum, doc.err = sumOf(b), err
			return doc
		})
		d.docs[key] = load
	}
	return load
}

func sumOf(b []byte) sum {
	return sum{canon.Sum(b).Hex(), int64(len(b))}
}

// saw keeps the hash of a file that was read. A file that is read twice must not have changed.
func (d *Dir) saw(name string, now sum, err error) {
	d.note(err)
	if before, known := d.sums[name]; known && before != now {
		d.note(fmt.Errorf("%s changes while it is read: verify the directory when nothing writes in it", name))
	}
	d.sums[name] = now
}

func (d *Dir) note(err error) {
	if d.err == nil {
		d.err = err
	}
}

func decode(text []byte, kind specs.Kind) document {
	value, err := canon.ParseLiteral(text, MaxDocument, maxValues)
	if err != nil {
		return document{faults: []trial.Fault{{Msg: "not read as JSON: " + err.Error()}}}
	}
	found := document{value: value}
	faults, _ := specs.Walk(kind, value, maxFaults)
	for _, f := range faults {
		found.faults = append(found.faults, trial.Fault(f))
	}
	return found
}
