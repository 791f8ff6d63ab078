package canon

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// exact reads a text once, from left to right. It stops at the first byte that no
// canonical text has there. Parse then says why.
type exact struct {
	// text ends in padding of NUL bytes. JSON has no NUL, so no step goes beyond the
	// first NUL, and the reader can always look at 8 bytes.
	text string
	at   int // the next byte

	spelt bool // numbers keep their spelling
	// checked is set for a text that reader.check accepted. Such a text may have white
	// space, members in any order, and any escape.
	checked bool

	// names and values hold the members and elements of the open objects and arrays.
	// So each object, and each array that is not long, is made once, in its final size.
	names  []string
	values []any
	digits [10]any // the numbers of one digit that were read

	plain []byte // room for a string whose escapes are being resolved
}

const padding = "\x00\x00\x00\x00\x00\x00\x00\x00"

// readExact returns a copy of src and its value if src is its own canonical form,
// and otherwise false.
func readExact(src []byte) (text string, value any, ok bool) {
	r := exact{}
	value, ok = r.all(src)
	return strings.TrimSuffix(r.text, padding), value, ok
}

// all reads the whole of src. The strings of the value are parts of a copy of src.
func (r *exact) all(src []byte) (any, bool) {
	var padded strings.Builder
	padded.Grow(len(src) + len(padding))
	padded.Write(src)
	padded.WriteString(padding)

	r.text = padded.String()
	value, ok := r.value(1)
	if r.space(); !ok || r.at != len(src) {
		return nil, false
	}
	return value, true
}

// space moves the cursor past white space where it may stand.
func (r *exact) space() {
	for r.checked && isSpace(r.text[r.at]) {
		r.at++
	}
}

// next moves the cursor past c if c is the next byte.
func (r *exact) next(c byte) bool {
	if r.space(); r.text[r.at] != c {
		return false
	}
	r.at++
	return true
}

// value reads the next value. depth is the depth of an array or object there.
func (r *exact) value(depth int) (any, bool) {
	r.space()
	switch r.text[r.at] {
	case '"':
		return r.string()
	case '{':
		return r.object(depth)
	case '[':
		return r.array(depth)
	case 'n':
		return nil, r.literal("null")
	case 't':
		return true, r.literal("true")
	case 'f':
		return false, r.literal("false")
	}
	return r.number()
}

func (r *exact) literal(word string) bool {
	if !strings.HasPrefix(r.text[r.at:], word) {
		return false
	}
	r.at += len(word)
	return true
}

func (r *exact) array(depth int) (any, bool) {
	r.at++
	if depth > MaxDepth {
		return nil, false
	}
	if r.next(']') {
		return []any{}, true
	}
	from := len(r.values)
	var long []any // the elements of an array of more than 1024, which would need twice the memory in values
	for {
		v, ok := r.value(depth + 1)
		switch {
		case !ok:
			return nil, false
		case long != nil:
			long = append(long, v)
		case len(r.values)-from == 1024:
			long = append(slices.Clone(r.values[from:]), v)
		default:
			r.values = append(r.values, v)
		}
		if r.next(',') {
			continue
		}
		if long == nil {
			long = slices.Clone(r.values[from:])
		}
		r.values = r.values[:from]
		return long, r.next(']')
	}
}

func (r *exact) object(depth int) (any, bool) {
	r.at++
	if depth > MaxDepth {
		return nil, false
	}
	if r.next('}') {
		return map[string]any{}, true
	}
	fromName, from := len(r.names), len(r.values)
	for r.member(depth, fromName) {
		if r.next(',') {
			continue
		}
		members := make(map[string]any, len(r.values)-from)
		for i, name := range r.names[fromName:] {
			members[name] = r.values[from+i]
		}
		r.names, r.values = r.names[:fromName], r.values[:from]
		return members, r.next('}')
	}
	return nil, false
}

// member reads a name, a colon and a value. A name must be greater than the name
// before it, so no two names are equal. first is the index of the object's first
// name.
func (r *exact) member(depth, first int) bool {
	if r.space(); r.text[r.at] != '"' {
		return false
	}
	name, ok := r.string()
	if last := len(r.names) - 1; !ok || !r.checked && last >= first && Compare(r.names[last], name) >= 0 || !r.next(':') {
		return false
	}
	r.names = append(r.names, name)
	v, ok := r.value(depth + 1)
	r.values = append(r.values, v)
	return ok
}

// number reads a number. A safe integer is canonical as it is written. Any other
// number is canonical if its double is written in the same way.
func (r *exact) number() (any, bool) {
	from := r.at
	r.next('-')
	first := r.at
	for r.text[r.at]-'0' <= 9 {
		r.at++
	}
	if text := r.text[from:r.at]; !isWord(r.text[r.at]) && r.at > first && len(text) <= safeDigits &&
		(r.text[first] != '0' || text == "0") {
		if len(text) > 1 {
			return json.Number(text), true
		}
		digit := &r.digits[text[0]-'0']
		if *digit == nil {
			*digit = json.Number(text)
		}
		return *digit, true
	}
	for isWord(r.text[r.at]) {
		r.at++
	}
	text := r.text[from:r.at]
	if r.spelt {
		return json.Number(text), r.checked || isNumber(json.Number(text))
	}
	if r.checked {
		spelled, err := appendNumber(nil, text)
		return json.Number(spelled), err == nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > MaxSafeInteger && math.Abs(f) < 1e21 {
		return nil, false
	}
	spelled, err := jcs.NumberToJSON(f)
	return json.Number(text), err == nil && spelled == text
}
