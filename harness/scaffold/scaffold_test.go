package scaffold

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// TestScaffoldIsValid: the JSON files of init are valid, and the schemas that its editor
// settings name exist.
func TestScaffoldIsValid(t *testing.T) {
	list, err := Repository("house")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, s := range list {
		files[s.Path] = s.Text
		if strings.Contains(s.Text, "VERSION") || strings.Contains(s.Text, "PACKAGE") || strings.Contains(s.Text, "NAME\"") {
			t.Errorf("%s is not filled in", s.Path)
		}
		if !strings.HasSuffix(s.Path, ".json") || strings.HasSuffix(s.Path, ".schema.json") {
			continue
		}
		if _, err := canon.Parse([]byte(s.Text), canon.MaxIntentBytes); err != nil {
			t.Errorf("%s: %v", s.Path, err)
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
