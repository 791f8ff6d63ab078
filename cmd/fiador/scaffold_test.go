package main

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// TestScaffoldIsValid: the JSON files of init are valid, and the schemas that its editor
// settings name exist.
func TestScaffoldIsValid(t *testing.T) {
	list, err := repoSeeds("house")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, s := range list {
		files[s.path] = s.text
		if strings.Contains(s.text, "VERSION") || strings.Contains(s.text, "PACKAGE") || strings.Contains(s.text, "NAME\"") {
			t.Errorf("%s is not filled in", s.path)
		}
		if !strings.HasSuffix(s.path, ".json") || strings.HasSuffix(s.path, ".schema.json") {
			continue
		}
		if _, err := canon.Parse([]byte(s.text), canon.MaxIntentBytes); err != nil {
			t.Errorf("%s: %v", s.path, err)
		}
	}
	for _, schema := range []string{"intent", "profile"} {
		want, _ := specs.Schema(schema)
		name := ".fiador/" + schema + ".schema.json"
		if files[name] != string(want) || !strings.Contains(files[".vscode/settings.json"], `"./`+name+`"`) {
			t.Errorf("%s is not the schema, or no setting names it", name)
		}
	}
}
