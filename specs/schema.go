package specs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/xeipuuv/gojsonschema"
)

// schema is one compiled schema. It is never changed after compile.
type schema struct {
	kind      Kind
	validator *gojsonschema.Schema
	shape     *shape
}

// compile reads one schema. The source is part of this program. compile detects mistakes
// in it, and references that would make the library read files or open connections.
func compile(kind Kind, src []byte) (s *schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, &Error{Kind: kind, Msg: "the schema stopped its compiler", Cause: fmt.Errorf("%v", r)}
		}
	}()
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil, &Error{Kind: kind, Msg: "the schema is not a JSON object", Cause: err}
	}
	// The shape comes first, because the library rewrites the references in doc.
	root, err := newShape(doc)
	if err != nil {
		return nil, &Error{Kind: kind, Msg: "the schema does not compile", Cause: err}
	}
	loader := gojsonschema.NewSchemaLoader()
	v, err := loader.Compile(sealed{gojsonschema.NewRawLoader(doc)})
	if err != nil {
		return nil, &Error{Kind: kind, Msg: "the schema does not compile", Cause: err}
	}
	return &schema{kind: kind, validator: v, shape: root}, nil
}

// errRemote is the error for every reference that leaves its schema.
var errRemote = errors.New("a reference leaves the schema")

// sealed is a loader whose factory refuses. The library asks the factory for the target
// of every reference. The library's own factory reads files and URLs.
type sealed struct{ gojsonschema.JSONLoader }

func (sealed) LoaderFactory() gojsonschema.JSONLoaderFactory { return refusal{} }

type refusal struct{}

func (refusal) New(source string) gojsonschema.JSONLoader {
	return refused{gojsonschema.NewRawLoader(source)}
}

type refused struct{ gojsonschema.JSONLoader }

func (refused) LoadJSON() (any, error) { return nil, errRemote }

// run validates v against the schema and returns the library's errors.
func (s *schema) run(v any) (faults []gojsonschema.ResultError, err error) {
	defer func() {
		if r := recover(); r != nil {
			faults, err = nil, &Error{Kind: s.kind, Msg: "the value stopped the validator", Cause: fmt.Errorf("%v", r)}
		}
	}()
	res, err := s.validator.Validate(gojsonschema.NewRawLoader(v))
	if err != nil {
		return nil, &Error{Kind: s.kind, Msg: "the value stopped the validator", Cause: err}
	}
	return res.Errors(), nil
}

func (s *schema) validate(v any) ([]Violation, error) {
	c := crowd{}
	part, shortened := c.value(s.shape, v)
	if c.foreign {
		return nil, &Error{Kind: s.kind, Msg: "the value is not decoded JSON"}
	}
	faults, err := s.run(part)
	if err == nil && len(faults) == 0 && shortened {
		// A valid part does not prove that the whole is valid.
		faults, err = s.run(v)
	}
	if err != nil || len(faults) == 0 {
		return nil, err
	}
	list := s.violations(v, faults)
	if len(list) == 0 {
		return nil, &Error{Kind: s.kind, Msg: "the value is not valid and no violation says why"}
	}
	if left := len(list) - MaxViolations + c.dropped; left > 0 {
		list = list[:min(len(list), MaxViolations)]
		list[len(list)-1].More = left
	}
	return list, nil
}
