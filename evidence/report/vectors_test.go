package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// vector is a vector of a file in run/, as specs/vectors/README.md describes it, without
// the expectation, which other tests check.
type vector struct {
	Name      string              `json:"name"`
	Intent    json.RawMessage     `json:"intent"`
	Text      *string             `json:"intent_text"`
	Base64    *string             `json:"intent_base64"`
	Repeat    *specstest.Repeated `json:"intent_repeat"`
	Profile   string              `json:"profile"`
	Mode      string              `json:"mode"`
	ModelMode string              `json:"model_mode"`
}

func (v vector) source(t *testing.T) []byte {
	t.Helper()
	if src := specstest.Source(t, v.Text, v.Base64, v.Repeat); src != nil {
		return src
	}
	doc, err := canon.Parse(v.Intent, canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(doc.Bytes()), '\n')
}

// vectorItems runs every vector of specs/vectors/run.
func vectorItems(t *testing.T) []report.Item {
	t.Helper()
	paths, err := filepath.Glob("../../specs/vectors/run/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	r := runner{specs: set, gates: map[string]*harness.Gate{}}
	var items []report.Item
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors []vector }
		if err := json.Unmarshal(src, &file); err != nil {
			t.Fatal(err)
		}
		for _, v := range file.Vectors {
			items = append(items, r.run(t, v))
		}
	}
	if len(items) < 120 {
		t.Fatalf("only %d vectors", len(items))
	}
	return items
}

type runner struct {
	specs *specs.Set
	gates map[string]*harness.Gate
}

func (r *runner) run(t *testing.T, v vector) report.Item {
	t.Helper()
	item := report.Item{Path: "vectors/" + v.Name + ".json", Source: v.source(t)}
	item.SHA256 = canon.Sum(item.Source)
	gate, ok := r.gates[v.Profile]
	if !ok {
		limits := policy.DefaultLimits()
		limits.Compile, limits.Deadline, limits.MemoryBytes = time.Hour, time.Hour, 4<<30
		var err error
		if gate, err = harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: v.Profile}, r.specs, limits); err != nil {
			return failed(t, item, err)
		}
		r.gates[v.Profile] = gate
	}
	deps := harness.Deps{Now: func() time.Time { return time.Unix(0, 0) }, Rand: strings.NewReader(""), Specs: r.specs}
	rep, err := harness.Run(t.Context(), deps, gate, harness.Request{
		Source: item.Source, Path: item.Path, Mode: v.Mode, ModelMode: v.ModelMode, RunID: "vector",
	})
	if err != nil {
		return failed(t, item, err)
	}
	item.Result, item.Decision = rep.Bytes, rep.Decision
	return item
}

func failed(t *testing.T, item report.Item, err error) report.Item {
	t.Helper()
	if !errors.As(err, &item.Err) {
		t.Fatalf("not a RunError: %v", err)
	}
	return item
}

// TestVectors renders every vector in every format, alone and with the others.
func TestVectors(t *testing.T) {
	items := vectorItems(t)
	schema, xmllint := sarifSchema(t), junitSchema(t)
	for _, format := range report.Formats() {
		t.Run(format, func(t *testing.T) {
			all := render(t, format, items)
			if again := render(t, format, items); !bytes.Equal(all, again) {
				t.Error("a second rendering differs")
			}
			check(t, format, all, items, schema, xmllint)
			for k := range items {
				if format == "junit" && k%40 != 0 {
					continue // each one starts a process
				}
				one := items[k : k+1]
				check(t, format, render(t, format, one), one, schema, xmllint)
			}
		})
	}
}

// TestVectorPlaces: the place of a vector's finding is the value at its pointer.
func TestVectorPlaces(t *testing.T) {
	for _, i := range vectorItems(t) {
		if i.Outcome() == report.OutcomeError {
			continue
		}
		doc, err := canon.Parse(i.Source, canon.MaxIntentBytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range sarifOf(t, render(t, "sarif", []report.Item{i})).Results {
			place := r.Locations[0]
			text := textAt(t, i.Source, place.PhysicalLocation.Region)
			got, err := canon.Parse([]byte(text), canon.MaxIntentBytes)
			if err != nil {
				t.Errorf("%s: %s points to %q: %v", i.Path, r.RuleID, text, err)
				continue
			}
			want := valueAt(doc.Value(), place.LogicalLocations[0].FullyQualifiedName)
			if diff, differs := result.Compare(got.Value(), want); differs {
				t.Errorf("%s: %s points to %q: %+v", i.Path, r.RuleID, text, diff)
			}
		}
	}
}

// TestHelpURIs: the help of each rule is a heading of the reference, or a page of the
// repository. A rule of another layer has none. A fix stands beside its result too.
func TestHelpURIs(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	items := append(vectorItems(t), refused("org.json", "{}", kernel.Result{Module: "gate.org.a", ID: "OWN_RULE", Fix: "ask us"}))
	for _, m := range reason.Meanings() {
		items = append(items, executed("a.json", "{}", rejected(1, "", m.ID)))
	}
	run := sarifOf(t, render(t, "sarif", items))
	seen := 0
	for _, r := range run.Tool.Driver.Rules {
		heading, known := strings.CutPrefix(r.HelpURI, "https://github.com/fiador/fiador/blob/main/docs/reference.md#")
		switch {
		case r.ID == "OWN_RULE":
			if r.HelpURI != "" {
				t.Errorf("%+v", r)
			}
		case !known || heading != strings.ToLower(r.ID) || !bytes.Contains(page, []byte("\n### "+r.ID+"\n")):
			t.Errorf("%s leads to %q", r.ID, r.HelpURI)
		default:
			seen++
		}
	}
	if seen < 50 {
		t.Errorf("only %d rules", seen)
	}
	for _, r := range run.Results {
		fix, _ := r.Properties["fix"].(string)
		if fix == "" || r.RuleID == "OWN_RULE" && fix != "ask us" {
			t.Errorf("%+v", r)
		}
	}
}

// summary counts the items as a caller does.
func summary(items []report.Item) report.Summary {
	s := report.Summary{Profile: "default", KernelVersion: kernel.Version}
	for _, i := range items {
		s.Counts.Add(i)
	}
	return s
}

func render(t *testing.T, format string, items []report.Item) []byte {
	t.Helper()
	return renderWith(t, format, items, summary(items))
}

func renderWith(t *testing.T, format string, items []report.Item, s report.Summary) []byte {
	t.Helper()
	var b bytes.Buffer
	r, err := report.New(format, &b, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range items {
		if err := r.Item(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
