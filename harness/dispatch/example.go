package dispatch

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/adapter/answer"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// maxExamples is how many examples, or fixtures, an adapter may have.
const maxExamples = 100

// The folders beside an adapter's document.
const (
	examplesFolder = "examples"
	fixturesFolder = "fixtures"
)

// example is a file TOOL/ADAPTER/examples/NAME.json: parameters, what the tool gave for
// them at each attempt, and the answer that follows from the last of it.
type example struct {
	Params  map[string]any `json:"params"`
	Answers []string       `json:"answers"`
	Expect  any            `json:"expect"`
}

var exampleDecoder canon.Decoder[example]

// Tried is an example that was tried.
type Tried struct {
	File    string // in the folder
	Why     string // what is wrong, or empty
	Adapter *adapter.Adapter
	Params  map[string]any
	Expect  []byte // the answer that is expected, in canonical form with a line feed; nil: any
}

// TryExamples checks every document of a folder as MakeIndex does, and tries every example:
// its parameters must bind, and its last answer must become the one that it expects. It
// starts no process and asks nobody. current says whether the index is. The error is a
// RunError.
func TryExamples(set *specs.Set, dir string) (tried []Tried, current bool, err error) {
	d, index, err := readFolder(set, dir)
	if err != nil {
		return nil, false, err
	}
	defer d.root.Close()
	for _, id := range canon.Names(d.tools) {
		for _, adapterID := range d.tools[id].Adapters {
			names, err := d.beside(id, adapterID, examplesFolder)
			if err != nil {
				return nil, false, err
			}
			for _, name := range names {
				one, err := d.try(d.tools[id], d.adapters[id][adapterID], name)
				if err != nil {
					return nil, false, err
				}
				tried = append(tried, one)
			}
		}
	}
	return tried, d.hasIndex(index), nil
}

// beside returns the files in a folder beside an adapter's document, sorted. It returns none
// if there is no such folder.
func (f folder) beside(toolID, adapterID, kind string) ([]string, error) {
	dir := path.Join(toolID, adapterID, kind)
	for at := range prefixes(dir) {
		info, err := f.root.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return []string{}, nil
		}
		if err != nil || !info.IsDir() {
			return nil, f.fault(at, "no folder", "make it a folder, or remove it")
		}
	}
	entries, err := fs.ReadDir(f.root.FS(), dir)
	if err != nil {
		return nil, f.fault(dir, runerr.Reason(err), "make it readable")
	}
	if len(entries) > maxExamples {
		return nil, f.fault(dir, "more than "+strconv.Itoa(maxExamples)+" files", "keep those that say most")
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, path.Join(dir, e.Name()))
	}
	slices.Sort(names)
	return names, nil
}

// try tries an example. The error is for an example that cannot be read.
func (f folder) try(t *adapter.Tool, a *adapter.Adapter, name string) (one Tried, err error) {
	src, err := f.bytes(name, MaxBytes)
	if err != nil {
		return one, f.fault(name, runerr.Reason(err), "an example is a regular file of JSON")
	}
	doc, err := canon.Parse(src, MaxBytes)
	if err != nil {
		return one, runerr.Read(runerr.Text{Name: f.shown(name), Src: src}, err)
	}
	members, _ := doc.Value().(map[string]any)
	e, err := exampleDecoder.Decode(doc.Value())
	_, expects := members["expect"]
	if err != nil || members["params"] == nil || expects != (len(e.Answers) > 0) {
		return one, f.fault(name, "no example", "an example has params, and both answers and expect or neither")
	}
	one = Tried{File: name, Adapter: a, Params: e.Params}
	if _, found := adapter.Bind(t, a, e.Params); len(found) > 0 {
		one.Why = "params" + found[0].Pointer + ": " + found[0].Why
		return one, nil
	}
	if !expects {
		return one, nil
	}
	if one.Expect, _, err = canon.Artifact(e.Expect); err != nil {
		return one, err
	}
	got, err := answer.Output(a.Transforms.Output, []byte(e.Answers[len(e.Answers)-1]))
	if err != nil {
		one.Why = "answers: " + err.Error()
		return one, nil
	}
	one.Answered(got)
	return one, nil
}

// Answered holds an answer against the one that the example expects.
func (t *Tried) Answered(got []byte) {
	if t.Expect != nil && string(got) != string(t.Expect) {
		t.Why = "expect: the answer is " + canon.Cut(string(got[:len(got)-1]))
	}
}

// Beside returns the files of the examples and fixtures of an adapter, sorted.
func (r *Registry) Beside(toolID, adapterID string) (examples, fixtures []string, err error) {
	if examples, err = r.beside(toolID, adapterID, examplesFolder); err == nil {
		fixtures, err = r.beside(toolID, adapterID, fixturesFolder)
	}
	return examples, fixtures, err
}
