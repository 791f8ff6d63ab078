// Package fingerprint decides the vectors that are built in, and puts what a machine
// decides about them into one text that machines compare. It owns that text.
package fingerprint

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// A Vector is one vector of specs/vectors/run: an intent, a profile and modes, and
// the expected result (specs/vectors/README.md).
type Vector struct {
	Name                     string // FILE/VECTOR, the file without .json
	Profile, Mode, ModelMode string

	intent vectorIntent
	expect canon.Document
}

// vectorIntent is the one member of a vector that gives its intent.
type vectorIntent struct {
	Value  json.RawMessage `json:"intent"`
	Text   *string         `json:"intent_text"`
	Base64 *string         `json:"intent_base64"`
	Repeat *struct {
		Before string `json:"before"`
		Unit   string `json:"unit"`
		Times  int    `json:"times"`
		After  string `json:"after"`
	} `json:"intent_repeat"`
}

// bytes returns the intent file.
func (v vectorIntent) bytes() ([]byte, error) {
	switch {
	case v.Text != nil:
		return []byte(*v.Text), nil
	case v.Base64 != nil:
		return base64.StdEncoding.Strict().DecodeString(*v.Base64)
	case v.Repeat != nil:
		return []byte(v.Repeat.Before + strings.Repeat(v.Repeat.Unit, v.Repeat.Times) + v.Repeat.After), nil
	}
	doc, err := canon.Parse(v.Value, canon.MaxIntentBytes)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(doc.Bytes()), '\n'), nil
}

// one says whether exactly one member gives the intent.
func (v vectorIntent) one() bool {
	n := 0
	for _, there := range []bool{v.Value != nil, v.Text != nil, v.Base64 != nil, v.Repeat != nil} {
		if there {
			n++
		}
	}
	return n == 1 && (v.Repeat == nil || v.Repeat.Times >= 0)
}

// ReadVectors reads all *.json files of a folder such as specs.RunVectors. The vectors
// are in the order of their names by UTF-16 code unit. Two vectors with one name are an
// error. The error names the file and its fault.
func ReadVectors(folder fs.FS) ([]Vector, error) {
	files, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	var list []Vector
	for _, file := range files {
		src, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		own, err := readVectors(strings.TrimSuffix(path.Base(file), ".json"), src)
		if err != nil {
			return nil, errors.New("vectors " + strconv.Quote(file) + ": " + err.Error())
		}
		list = append(list, own...)
	}
	if len(list) == 0 {
		return nil, errors.New("no vectors found")
	}
	slices.SortFunc(list, func(a, b Vector) int { return canon.Compare(a.Name, b.Name) })
	for i := 1; i < len(list); i++ {
		if list[i].Name == list[i-1].Name {
			return nil, errors.New("vector " + strconv.Quote(list[i].Name) + " is there twice")
		}
	}
	return list, nil
}

func readVectors(file string, src []byte) ([]Vector, error) {
	var f struct {
		About   string `json:"about"`
		Vectors []struct {
			Name string `json:"name"`
			Why  string `json:"why"`
			vectorIntent
			Profile   string          `json:"profile"`
			Mode      string          `json:"mode"`
			ModelMode string          `json:"model_mode"`
			Expect    json.RawMessage `json:"expect"`
		} `json:"vectors"`
	}
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text behind the document")
	}
	list := make([]Vector, len(f.Vectors))
	for i, v := range f.Vectors {
		list[i] = Vector{Name: file + "/" + v.Name, Profile: v.Profile, Mode: v.Mode, ModelMode: v.ModelMode, intent: v.vectorIntent}
		if !printName(list[i].Name) {
			return nil, errors.New("name " + strconv.Quote(v.Name) + " is not plain")
		}
		if !v.one() {
			return nil, errors.New(strconv.Quote(v.Name) + " has not exactly one intent")
		}
		var err error
		if list[i].expect, err = canon.Parse(v.Expect, result.MaxBytes); err != nil {
			return nil, errors.New("expect of " + strconv.Quote(v.Name) + ": " + err.Error())
		}
	}
	return list, nil
}

// Print is the result of one vector.
type Print struct {
	Name string `json:"name"`
	// SHA256 hashes the canonical subset, policy_provenance included. For an error it
	// hashes those members of {"error", "pointer", "offset"} that the error has. The
	// text is the canonical JSON and one LF.
	SHA256 canon.ContentHash `json:"sha256"`
	// Fault says where the result differs from the vector's expectation; "" if nowhere.
	Fault string `json:"fault,omitempty"`
}

// Take decides every vector, with that many workers, under gates from open: one gate
// for each profile, opened once. A vector is decided as any intent is, under a fixed
// clock and a fixed id. Nothing can be executed and nothing is recorded: an intent that
// needs an execution ends in RUN_E005, as its vector expects. The prints are in the
// order of the vectors, and depend on the vectors and the gates alone.
//
// An error of open becomes the result of each vector of that profile. If Take returns
// an error, some vectors were not decided.
func Take(ctx context.Context, set *specs.Set, open func(ctx context.Context, profile string) (*harness.Gate, error), workers int, vectors []Vector) ([]Print, error) {
	prints := make([]Print, len(vectors))
	byProfile := map[string][]int{}
	var profiles []string
	for i, v := range vectors {
		if byProfile[v.Profile] == nil {
			profiles = append(profiles, v.Profile)
		}
		byProfile[v.Profile] = append(byProfile[v.Profile], i)
	}
	deps := harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader(""), Specs: set}
	for i, o := range openAll(ctx, open, profiles) {
		own := byProfile[profiles[i]]
		took := func(end harness.End) (err error) {
			prints[own[0]], err = vectors[own[0]].print(end)
			own = own[1:]
			return err
		}
		var err error
		if o.err == nil {
			err = harness.Each(ctx, deps, o.gate, workers, vectorJobs(vectors, slices.Clone(own)), took)
		}
		for o.err != nil && err == nil && len(own) > 0 {
			err = took(harness.End{Err: o.err})
		}
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, runerr.Interrupted()
		}
	}
	return prints, nil
}

type opened struct {
	gate *harness.Gate
	err  error
}

// openAll opens the gates at the same time, because compiling a gate takes longer than
// deciding many intents.
func openAll(ctx context.Context, open func(context.Context, string) (*harness.Gate, error), profiles []string) []opened {
	list := make([]opened, len(profiles))
	var all sync.WaitGroup
	for i, name := range profiles {
		all.Go(func() { list[i].gate, list[i].err = open(ctx, name) })
	}
	all.Wait()
	return list
}

func vectorJobs(vectors []Vector, which []int) iter.Seq[harness.Job] {
	return func(yield func(harness.Job) bool) {
		for _, i := range which {
			v := vectors[i]
			job := harness.Job{Request: harness.Request{Path: "intent.json", Mode: v.Mode, ModelMode: v.ModelMode, RunID: "vector"}}
			job.Read = func(context.Context) ([]byte, error) { return v.intent.bytes() }
			if !yield(job) {
				return
			}
		}
	}
}

// print hashes the result of the vector and compares it with the expectation.
func (v Vector) print(end harness.End) (Print, error) {
	p := Print{Name: v.Name}
	got, err := failureOf(end.Err)
	if end.Err == nil {
		got, p.SHA256, err = decisionOf(end.Report)
	}
	if err != nil {
		return p, err
	}
	text, sum, err := canon.Artifact(got)
	if err != nil {
		return p, runerr.Internal("the answer to a vector could not be written", err)
	}
	if end.Err != nil {
		p.SHA256 = sum
	}
	doc, err := canon.Parse(text, 2*result.MaxBytes)
	if err != nil {
		return p, runerr.Internal("the answer to a vector could not be read", err)
	}
	p.Fault = partsAt(doc.Value(), v.expect.Value())
	return p, nil
}

// partsAt says where the result of a vector differs from its expectation.
func partsAt(got, want any) string {
	if g, w := endOf(got), endOf(want); g != w {
		return "it ends in " + g + ", and the vector says " + w
	}
	d, differs := result.Compare(got, want)
	if !differs {
		return ""
	}
	return d.Pointer + " is " + result.ValueText(d.A, d.AbsentInA) + ", and the vector says " + result.ValueText(d.B, d.AbsentInB)
}

// endOf returns the outcome or the error code of an expectation.
func endOf(v any) string {
	obj, _ := v.(map[string]any)
	if code, ok := obj["error"].(string); ok {
		return canon.Cut(code)
	}
	outcome, _ := obj["outcome"].(string)
	return canon.Cut(outcome)
}

// decisionOf returns a decision in the form of a vector's expectation, and the hash of
// its canonical subset.
func decisionOf(rep harness.Report) (map[string]any, canon.ContentHash, error) {
	doc, err := canon.Parse(rep.Bytes, result.MaxBytes)
	if err != nil {
		return nil, "", runerr.Internal("a RunResult could not be read", err)
	}
	obj, ok := doc.Value().(map[string]any)
	if !ok {
		return nil, "", runerr.Internal("a RunResult is no object", nil)
	}
	sum, err := result.Digest(obj)
	if err != nil {
		return nil, "", runerr.Internal("a canonical subset could not be written", err)
	}
	subset := result.Subset(obj)
	delete(subset, "policy_provenance")
	reasons := append([]string{}, rep.Result.Decision.Reasons...)
	got := map[string]any{"outcome": string(rep.Decision.Outcome), "reasons": reasons, "canonical": subset}
	var notes []string
	for _, n := range rep.Decision.Notes {
		notes = append(notes, n.ID+" "+n.Path)
	}
	if slices.SortFunc(notes, canon.Compare); notes != nil {
		got["notes"] = slices.Compact(notes)
	}
	return got, sum, nil
}

// failureOf returns an error in the form of a vector's expectation.
func failureOf(err error) (map[string]any, error) {
	if err == nil {
		return nil, nil
	}
	re, ok := errors.AsType[*result.RunError](err)
	if !ok {
		return nil, runerr.Internal("a vector could not be read", err)
	}
	got := map[string]any{"error": string(re.Code)}
	for _, name := range []string{"pointer", "offset"} {
		if v, ok := re.Details[name]; ok {
			got[name] = v
		}
	}
	return got, nil
}
