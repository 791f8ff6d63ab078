package suite

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/trial"
)

// TestFailedVectors: the first row of the table that holds decides, every row and every name has
// a vector, and every name has a phrase of its own.
func TestFailedVectors(t *testing.T) {
	src, err := os.ReadFile("../../specs/vectors/suite/failures.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		About   string
		Vectors []struct {
			Name      string
			Row       int
			Observed  Observed
			Class     trial.Class
			ErrorName string `json:"error_name"`
		}
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	rows, names, phrases := map[int]bool{}, map[string]bool{}, map[string]string{}
	for _, v := range doc.Vectors {
		if names[v.Name] {
			t.Errorf("%s: the name stands twice", v.Name)
		}
		names[v.Name], rows[v.Row] = true, true
		class, name := Failed(v.Observed)
		if class != v.Class || name != v.ErrorName {
			t.Errorf("%s: %s %s, want %s %s", v.Name, class, name, v.Class, v.ErrorName)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%q is no word", name)
		}
		if class == "" {
			continue
		}
		key, text := string(class)+" "+name, Phrase(class, name)
		if other := phrases[text]; other != "" && other != key {
			t.Errorf("%q and %q have the same phrase", other, key)
		}
		if text == phraseOf("", "") || len(text) > 300 || strings.ContainsAny(text, "/:@") && class != trial.InvalidJSON && class != trial.SchemaMismatch {
			t.Errorf("%s: the phrase %q", key, text)
		}
		phrases[text] = key
	}
	for row := range 12 {
		if !rows[row] {
			t.Errorf("row %d has no vector", row)
		}
	}
	seen := slices.Collect(maps.Values(phrases))
	for _, word := range trial.FaultWords() {
		if !slices.Contains(seen, string(trial.SchemaMismatch)+" "+word) {
			t.Errorf("%s has no vector", word)
		}
	}
}
