package receipt

import (
	"errors"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/work"
)

// Subject is item.json: what ran.
type Subject struct {
	Agent *work.Agent `json:"agent,omitempty"` // nil: the item has actions
	Item  work.Item   `json:"item"`
}

var (
	subjectPlan    canon.Plan[Subject]
	subjectDecoder canon.Decoder[struct {
		Agent any `json:"agent"`
		Item  any `json:"item"`
	}]
)

// Bytes returns item.json.
func (s Subject) Bytes() ([]byte, error) {
	b, _, err := subjectPlan.Artifact(&s)
	return b, err
}

// ReadSubject reads item.json, in its one form.
func ReadSubject(text []byte) (Subject, error) {
	var s Subject
	doc, err := canon.Parse(text, 2*work.MaxBytes)
	if err != nil {
		return s, err
	}
	parts, err := subjectDecoder.Decode(doc.Value())
	if err != nil {
		return s, err
	}
	p, err := work.ReadPlan(parts.Item)
	if err != nil {
		return s, err
	}
	if !p.One {
		return s, errors.New("not one item")
	}
	if s.Item = p.Items[0]; parts.Agent != nil {
		a, err := work.ReadAgent("/agent", parts.Agent)
		if err != nil {
			return s, err
		}
		s.Agent = &a
	}
	if again, err := s.Bytes(); err != nil || string(again) != string(text) {
		return s, errors.New("not in its canonical form, with all defaults")
	}
	return s, nil
}
