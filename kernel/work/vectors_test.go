package work_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/work"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// vectors reads a file of at least so many vectors, each with a name of its own.
func vectors[T any](t *testing.T, file string, least int) []T {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("../../specs/vectors/work", file))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		About   string
		Vectors []T
	}
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Vectors) < least || doc.About == "" {
		t.Fatalf("%s has %d vectors", file, len(doc.Vectors))
	}
	var names struct{ Vectors []struct{ Name string } }
	if err := json.Unmarshal(src, &names); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, v := range names.Vectors {
		if v.Name == "" || known[v.Name] {
			t.Errorf("%s: two vectors %q", file, v.Name)
		}
		known[v.Name] = true
	}
	if strings.ContainsFunc(string(src), func(r rune) bool { return r >= 0x80 }) {
		t.Errorf("%s is not plain ASCII", file)
	}
	return doc.Vectors
}

// value decodes a document as the program does.
func value(t testing.TB, src []byte) any {
	t.Helper()
	doc, err := canon.Parse(src, work.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value()
}

// pointer returns the pointer of a fault, and fails for any other error.
func pointer(t testing.TB, err error) string {
	t.Helper()
	f, ok := errors.AsType[*work.Fault](err)
	if !ok {
		t.Fatalf("no fault: %v", err)
	}
	if f.Msg == "" || strings.Contains(f.Error(), "%!") {
		t.Errorf("message %q", f.Error())
	}
	return f.Pointer
}

func canonical(t testing.TB, v any) string {
	t.Helper()
	text, err := canon.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestItemVectors: documents of plans become items with defaults, or a fault of the schema or
// the reader. An item that was written is read again as the same item.
func TestItemVectors(t *testing.T) {
	set := specstest.NewSpecs(t)
	for _, v := range vectors[struct {
		Name     string
		Document json.RawMessage
		Items    []json.RawMessage
		Scratch  []string
		Test     []string
		Fault    *string
	}](t, "items.json", 90) {
		t.Run(v.Name, func(t *testing.T) {
			doc := value(t, v.Document)
			violations, err := set.Validate(specs.KindWorkPlan, doc)
			if err != nil {
				t.Fatal(err)
			}
			if len(violations) > 0 {
				if v.Fault == nil || violations[0].Pointer != *v.Fault {
					t.Fatalf("%+v", violations[0])
				}
				return
			}
			plan, err := work.ReadPlan(doc)
			if v.Fault != nil {
				if at := pointer(t, err); at != *v.Fault {
					t.Fatalf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(plan.Items) != len(v.Items) || !slices.Equal(plan.Scratch, v.Scratch) || plan.One != (v.Document[0] == '{' && v.Scratch == nil) {
				t.Fatalf("%d items, scratch %q, one %t", len(plan.Items), plan.Scratch, plan.One)
			}
			for i, item := range plan.Items {
				text, err := item.Bytes()
				if want := canonical(t, value(t, v.Items[i])) + "\n"; err != nil || string(text) != want {
					t.Fatalf("item %d (%v):\n%s%s", i, err, text, want)
				}
				again, err := work.ReadPlan(value(t, text))
				if err != nil || canonical(t, again.Items[0]) != canonical(t, item) || !slices.Equal(again.Items[0].Test, item.Test) {
					t.Errorf("item %d is read again as %+v, %v", i, again, err)
				}
			}
			if !slices.Equal(plan.Items[0].Test, v.Test) {
				t.Errorf("test %q", plan.Items[0].Test)
			}
		})
	}
}

// edge is an item of a graph.
type edge struct {
	ID           string   `json:"id"`
	AgentID      string   `json:"agent_id"`
	Description  string   `json:"description"`
	Dependencies []string `json:"dependencies"`
}

// made returns the items of a graph that is described by a word.
func made(how string, count int) []edge {
	id := func(i int) string { return fmt.Sprintf("i%04d", i+1) }
	list := make([]edge, count)
	for i := range list {
		list[i] = edge{ID: id(i), Dependencies: []string{}}
		switch {
		case how == "chain" && i > 0 || how == "ring" && i > 0:
			list[i].Dependencies = []string{id(i - 1)}
		case how == "ring":
			list[i].Dependencies = []string{id(count - 1)}
		case how == "all":
			for j := range i {
				list[i].Dependencies = append(list[i].Dependencies, id(j))
			}
		}
	}
	return list
}

// TestGraphVectors: plans become levels, or a fault that names a cycle.
func TestGraphVectors(t *testing.T) {
	for _, v := range vectors[struct {
		Name    string
		Items   []edge
		Make    string
		Count   int
		Levels  [][]string
		Widths  []int
		Outside [][]string
		Fault   *string
		Says    string
	}](t, "graphs.json", 20) {
		t.Run(v.Name, func(t *testing.T) {
			list := v.Items
			if v.Make != "" {
				list = made(v.Make, v.Count)
			}
			for i := range list {
				list[i].AgentID, list[i].Description = "a", "d"
			}
			src, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := canon.Parse(src, 16<<20) // 1000 items with all edges
			if err != nil {
				t.Fatal(err)
			}
			plan, err := work.ReadPlan(doc.Value())
			var levels [][]int
			if err == nil {
				levels, err = plan.Levels()
			}
			if v.Fault != nil {
				if at := pointer(t, err); at != *v.Fault || v.Says != "" && !strings.HasSuffix(err.Error(), ": "+v.Says) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var ids [][]string
			var widths []int
			for _, level := range levels {
				var names []string
				for _, i := range level {
					names = append(names, plan.Items[i].ID)
				}
				ids, widths = append(ids, names), append(widths, len(names))
			}
			if v.Levels != nil && canonical(t, ids) != canonical(t, v.Levels) || v.Widths != nil && !slices.Equal(widths, v.Widths) {
				t.Errorf("%v, widths %v", ids, widths)
			}
			for i := range plan.Items {
				var want []string
				if v.Outside != nil {
					want = v.Outside[i]
				}
				if len(plan.Items) < 100 && !slices.Equal(plan.Outside(i), want) {
					t.Errorf("outside of item %d: %q", i, plan.Outside(i))
				}
			}
		})
	}
}

// side is a side of a vector of regions.
type side struct {
	Mode, Text, Prefix, Digest string
	Base64                     []byte
	Count                      int
	Large                      bool
}

func (s *side) side() work.Side {
	if s == nil {
		return work.Side{}
	}
	text := []byte(s.Text)
	if s.Base64 != nil {
		text = s.Base64
	}
	for i := range s.Count {
		text = fmt.Appendf(text, "%s%d\n", s.Prefix, i+1)
	}
	return work.Side{Mode: s.Mode, Text: text, Large: s.Large, Digest: s.Digest}
}

// TestRegionVectors: the number of edit regions between two sides.
func TestRegionVectors(t *testing.T) {
	for _, v := range vectors[struct {
		Name          string
		Before, After *side
		Regions       int
	}](t, "regions.json", 40) {
		if got := work.Regions(v.Before.side(), v.After.side()); got != v.Regions {
			t.Errorf("%s: %d regions, want %d", v.Name, got, v.Regions)
		}
	}
}

// TestAdmissionVectors: the reasons of a denial, and the text about the first.
func TestAdmissionVectors(t *testing.T) {
	for _, v := range vectors[struct {
		Name        string
		Item        map[string]any
		Changes     []string
		Base        []string
		Ops, Delta  int
		DuplicateOf string `json:"duplicate_of"`
		Reasons     []string
		Denial      string
	}](t, "admission.json", 30) {
		t.Run(v.Name, func(t *testing.T) {
			doc := map[string]any{"id": "i", "agent_id": "a", "description": "d"}
			for name, member := range v.Item {
				doc[name] = member
			}
			src, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := work.ReadPlan(value(t, src))
			if err != nil {
				t.Fatal(err)
			}
			reasons, denial := plan.Items[0].Admit(work.Tried{
				Paths: v.Changes, Ops: v.Ops, Delta: work.Delta{Total: v.Delta}, DuplicateOf: v.DuplicateOf,
				Base: func(path string) bool { return slices.Contains(v.Base, path) },
			})
			if !slices.Equal(reasons, v.Reasons) || denial != v.Denial {
				t.Errorf("%q, %q", reasons, denial)
			}
		})
	}
}
