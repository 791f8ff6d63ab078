// Package second has a second validator of documents. Tests alone import it: those of
// programs do not, because the library works for 10 ms before each start of a program.
package second

import (
	"bytes"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fiador/fiador/specs"
)

// Schema returns a schema compiled by another library than the one that package
// specs uses. Both must decide alike.
func Schema(t *testing.T, kind specs.Kind) *jsonschema.Schema {
	t.Helper()
	src, _ := specs.Schema(string(kind))
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource("fiador:second", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("fiador:second")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
