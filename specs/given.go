package specs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/xeipuuv/gojsonschema"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxGiven is the size of the largest schema that Holds takes, as canonical JSON.
const MaxGiven = 64 << 10

// Holds holds a value against a schema (draft-07) that a user has given, and returns the first
// fault; "" if the value fits. The error says why the schema cannot be used: it is too large, is
// no schema, has a reference that leaves it, or makes more work than maxVisits. Nothing is ever
// fetched.
func Holds(schema, value any) (fault string, err error) {
	defer func() {
		if r := recover(); r != nil {
			fault, err = "", fmt.Errorf("the schema stopped the validator: %v", r)
		}
	}()
	text, err := canon.Canonical(schema)
	if err != nil {
		return "", err
	}
	if len(text) > MaxGiven {
		return "", fmt.Errorf("the schema has more than %d bytes", MaxGiven)
	}
	var doc, plain any // the library changes the document that it gets
	for _, to := range []*any{&doc, &plain} {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(to); err != nil {
			return "", err
		}
	}
	loader := gojsonschema.NewSchemaLoader()
	loader.Draft, loader.AutoDetect = gojsonschema.Draft7, false
	s, err := loader.Compile(sealed{gojsonschema.NewRawLoader(doc)})
	if err != nil {
		return "", fmt.Errorf("no JSON Schema: %w", err)
	}
	if !(&visits{root: plain, left: maxVisits}).all(plain, value, 0) {
		return "", fmt.Errorf("the schema looks at more than %d parts of the value: a reference leads back to itself, or multiplies", maxVisits)
	}
	res, err := s.Validate(gojsonschema.NewRawLoader(value))
	if err != nil {
		return "", err
	}
	first := ""
	for _, e := range res.Errors() {
		said := strings.Replace(e.Context().String(), "(root)", "", 1) + ": " + e.Description()
		if first == "" || said < first { // the library's order is that of a map
			first = said
		}
	}
	return first, nil
}

// maxVisits bounds the parts of a schema that are held against parts of a value, each as often as
// the validator would do it. maxNested bounds the references that are followed for one part.
const (
	maxVisits = 500_000
	maxNested = 1_000
)

// visits counts what the validator has to do. The library itself knows no limit.
type visits struct {
	root any
	left int
}

// all says whether a schema can be held against a value within the limits.
func (v *visits) all(schema, value any, nested int) bool {
	if v.left--; v.left < 0 || nested > maxNested {
		return false
	}
	obj, _ := schema.(map[string]any)
	if ref, ok := obj["$ref"].(string); ok { // beside $ref nothing counts
		return v.all(v.target(ref), value, nested+1)
	}
	for name, part := range obj {
		if !v.member(name, part, value, nested+1) {
			return false
		}
	}
	return true
}

// member goes through one keyword of a schema. It visits no less than the validator does.
func (v *visits) member(name string, part, value any, nested int) bool {
	list, _ := part.([]any)
	named, _ := part.(map[string]any)
	members, _ := value.(map[string]any)
	elements, _ := value.([]any)
	within := true
	switch name {
	case "allOf", "anyOf", "oneOf":
		for _, one := range list {
			within = within && v.all(one, value, nested)
		}
	case "not", "if", "then", "else":
		return v.all(part, value, nested)
	case "dependencies":
		for _, one := range named {
			within = within && v.all(one, value, nested)
		}
	case "properties":
		for key, one := range named {
			if sub, there := members[key]; there {
				within = within && v.all(one, sub, 0)
			}
		}
	case "patternProperties":
		for _, one := range named {
			for _, sub := range members {
				within = within && v.all(one, sub, 0)
			}
		}
	case "additionalProperties", "propertyNames":
		for _, sub := range members {
			within = within && v.all(part, sub, 0)
		}
	case "items", "additionalItems", "contains":
		for i, sub := range elements {
			switch {
			case list == nil:
				within = within && v.all(part, sub, 0)
			case i < len(list):
				within = within && v.all(list[i], sub, 0)
			}
		}
	}
	return within
}

// target returns what a reference leads to. The validator refuses one that leads nowhere.
func (v *visits) target(ref string) any {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil {
		return nil
	}
	target, _ := canon.Lookup(v.root, pointer)
	return target
}
