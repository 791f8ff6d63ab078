package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// A change is one step of a vector; specs/vectors/pack/README.md says what each does.
type change struct {
	Set     string          `json:"set,omitempty"`
	Remove  string          `json:"remove,omitempty"`
	Rehash  []string        `json:"rehash,omitempty"`
	Text    string          `json:"text,omitempty"`
	Is      *sample         `json:"is,omitempty"`
	Spell   string          `json:"spell,omitempty"`
	As      string          `json:"as,omitempty"`
	Replace string          `json:"replace,omitempty"`
	From    *sample         `json:"from,omitempty"`
	To      json.RawMessage `json:"to,omitempty"` // a value of set, a text of replace
	Entry   *sample         `json:"entry,omitempty"`
	Kind    pack.Kind       `json:"kind,omitempty"`
	Size    int64           `json:"size,omitempty"`
	Twice   string          `json:"twice,omitempty"`
	Fill    int             `json:"fill,omitempty"`
}

// A sample is a text in the form of the vectors.
type sample struct {
	bytes []byte
	form  any
}

func (s *sample) UnmarshalJSON(b []byte) error {
	var plain string
	if json.Unmarshal(b, &plain) == nil {
		s.bytes, s.form = []byte(plain), plain
		return nil
	}
	var other struct {
		Base64 *string `json:"base64,omitempty"`
		Before string  `json:"before,omitempty"`
		Times  int     `json:"times,omitempty"`
		Unit   string  `json:"unit,omitempty"`
		After  string  `json:"after,omitempty"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&other); err != nil {
		return err
	}
	s.form = other
	if other.Base64 != nil {
		var err error
		s.bytes, err = base64.StdEncoding.Strict().DecodeString(*other.Base64)
		return err
	}
	s.bytes = []byte(other.Before + strings.Repeat(other.Unit, other.Times) + other.After)
	return nil
}

func (s *sample) MarshalJSON() ([]byte, error) { return json.Marshal(s.form) }

// draft is a pack during its steps.
type draft struct {
	values map[string]any
	bytes  map[string][]byte
	extra  []pack.Entry // neither
	twice  []string
	fill   int
}

func newDraft(base json.RawMessage) (*draft, error) {
	d := &draft{values: map[string]any{}, bytes: map[string][]byte{}}
	return d, decodeValue(base, &d.values)
}

func decodeValue(b []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return dec.Decode(to)
}

// text returns the current text of a file.
func (d *draft) text(name string) ([]byte, error) {
	if b, ok := d.bytes[name]; ok {
		return b, nil
	}
	value, ok := d.values[name]
	if !ok {
		return nil, fmt.Errorf("there is no %q", name)
	}
	lines := []any{value}
	if list, ok := value.([]any); ok && name == pack.LedgerFile {
		lines = list
	}
	var out []byte
	for _, one := range lines {
		line, err := canon.Canonical(one)
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

func (d *draft) setBytes(name string, b []byte) {
	delete(d.values, name)
	d.bytes[name] = b
}

func (d *draft) do(c change) error {
	switch {
	case c.Set != "":
		var value any
		if err := decodeValue(c.To, &value); err != nil {
			return err
		}
		return d.set(c.Set, value)
	case c.Remove != "":
		return d.remove(c.Remove)
	case c.Rehash != nil:
		for _, what := range c.Rehash {
			if err := d.rehash(what); err != nil {
				return err
			}
		}
		return nil
	case c.Text != "":
		d.setBytes(c.Text, c.Is.bytes)
		return nil
	case c.Spell != "":
		return d.spell(c.Spell, c.As)
	case c.Replace != "":
		return d.replace(c)
	case c.Entry != nil:
		name := string(c.Entry.bytes)
		delete(d.values, name)
		delete(d.bytes, name)
		d.extra = append(d.extra, pack.Entry{Name: name, Kind: c.Kind, Size: c.Size})
		return nil
	case c.Twice != "":
		d.twice = append(d.twice, c.Twice)
		return nil
	case c.Fill > 0:
		d.fill = c.Fill
		return nil
	}
	return errors.New("a step that does nothing")
}

func (d *draft) replace(c change) error {
	b, err := d.text(c.Replace)
	if err != nil {
		return err
	}
	var to sample
	if err := json.Unmarshal(c.To, &to); err != nil {
		return err
	}
	if !bytes.Contains(b, c.From.bytes) {
		return fmt.Errorf("%s has no %q", c.Replace, c.From.bytes)
	}
	d.setBytes(c.Replace, bytes.ReplaceAll(b, c.From.bytes, to.bytes))
	return nil
}

func (d *draft) spell(name, form string) error {
	b, err := d.text(name)
	if err != nil {
		return err
	}
	line := bytes.TrimSuffix(b, []byte("\n"))
	switch form {
	case "indented":
		var out bytes.Buffer
		if err := json.Indent(&out, line, "", "  "); err != nil {
			return err
		}
		b = append(out.Bytes(), '\n')
	case "no-lf":
		b = line
	case "two-lf":
		b = append(line, "\n\n"...)
	case "crlf":
		b = append(line, "\r\n"...)
	default:
		return fmt.Errorf("no spelling %q", form)
	}
	d.setBytes(name, b)
	return nil
}

// placeOf splits FILE#POINTER, the pointer into its tokens.
func placeOf(at string) (file string, tokens []string) {
	file, pointer, _ := strings.Cut(at, "#")
	for _, t := range strings.Split(pointer, "/")[1:] {
		tokens = append(tokens, strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~"))
	}
	return file, tokens
}

func (d *draft) set(at string, value any) error {
	file, tokens := placeOf(at)
	if len(tokens) == 0 {
		delete(d.bytes, file)
		d.values[file] = value
		return nil
	}
	root, ok := d.values[file]
	if !ok {
		return fmt.Errorf("%s: no value", at)
	}
	changed, err := edited(root, tokens, func(any, bool) (any, bool) { return value, true })
	d.values[file] = changed
	return err
}

func (d *draft) remove(at string) error {
	file, tokens := placeOf(at)
	root, isValue := d.values[file]
	_, isBytes := d.bytes[file]
	switch {
	case len(tokens) == 0 && (isValue || isBytes):
		delete(d.values, file)
		delete(d.bytes, file)
		return nil
	case !isValue:
		return fmt.Errorf("%s: no value", at)
	}
	missing := false
	changed, err := edited(root, tokens, func(_ any, there bool) (any, bool) {
		missing = !there
		return nil, false
	})
	if missing {
		err = fmt.Errorf("%s: nothing to remove", at)
	}
	d.values[file] = changed
	return err
}

// edited returns a value in which to replaces, or removes, the value at a place.
func edited(value any, tokens []string, to func(old any, there bool) (any, bool)) (any, error) {
	if len(tokens) == 0 {
		changed, _ := to(value, true)
		return changed, nil
	}
	switch v := value.(type) {
	case map[string]any:
		old, there := v[tokens[0]]
		if len(tokens) == 1 {
			if changed, keep := to(old, there); keep {
				v[tokens[0]] = changed
			} else {
				delete(v, tokens[0])
			}
			return v, nil
		}
		changed, err := edited(old, tokens[1:], to)
		v[tokens[0]] = changed
		return v, err
	case []any:
		i, err := strconv.Atoi(tokens[0])
		if err != nil || i < 0 || i > len(v) || i == len(v) && len(tokens) > 1 {
			return v, fmt.Errorf("no element %q", tokens[0])
		}
		if len(tokens) > 1 {
			v[i], err = edited(v[i], tokens[1:], to)
			return v, err
		}
		if i == len(v) {
			changed, keep := to(nil, false)
			if keep {
				v = append(v, changed)
			}
			return v, nil
		}
		if changed, keep := to(v[i], true); keep {
			v[i] = changed
			return v, nil
		}
		return slices.Delete(v, i, i+1), nil
	}
	return value, fmt.Errorf("nothing at %q", tokens[0])
}

// names returns the names of files, sorted.
func (d *draft) names() []string {
	return slices.Sorted(maps.Keys(d.all()))
}

func (d *draft) all() map[string]bool {
	all := map[string]bool{}
	for name := range d.values {
		all[name] = true
	}
	for name := range d.bytes {
		all[name] = true
	}
	return all
}
