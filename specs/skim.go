package specs

import (
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// Skim says whether a text is canonical JSON that fits its schema. It reads the text once,
// beside the shape, and makes no values, so it is several times as fast as ParseCanonical and
// Validate. It accepts nothing that these two refuse, but refuses texts that they accept; so
// they read what it refuses.
//
// see gets each object after those inside it: the name of the member that has the object or
// its list, and a value for each member that the schema names, in canonical order. The value
// is the string, the digits of the number, or "" for anything else and for an absent member.
// see may get objects of a text that Skim then refuses. It must not keep the slice.
func Skim(kind Kind, text string, see func(name string, values []string)) bool {
	k := skimmer{text: text, see: see}
	root := walked(kind)
	if root == nil {
		return false
	}
	_, ok := k.value(root, "")
	return ok && k.at == len(text)
}

// skimmer reads a text from at on. values are those of the open objects.
type skimmer struct {
	text   string
	at     int
	values []string
	see    func(name string, values []string)
}

// has skips a text, if it comes next.
func (k *skimmer) has(text string) bool {
	if !strings.HasPrefix(k.text[k.at:], text) {
		return false
	}
	k.at += len(text)
	return true
}

// value skips a value that fits a shape of one type.
func (k *skimmer) value(s *shape, name string) (value string, ok bool) {
	if s == nil || len(s.types) != 1 {
		return "", false
	}
	switch s.types[0] {
	case "object":
		return "", k.object(s, name)
	case "array":
		return "", k.list(s, name)
	case "string":
		value, ok = k.string()
		return value, ok && s.takes(value)
	case "integer":
		return k.whole(s)
	}
	return "", false
}

// object skips an object without unknown members. The shape has its members in canonical
// order.
func (k *skimmer) object(s *shape, name string) bool {
	if s.other != nil || s.branches != nil || s.either != nil || s.clash != nil || !k.has("{") {
		return false
	}
	first, begin := len(k.values), `"`
	for i := range s.members {
		m, before, value := &s.members[i], k.at, ""
		if k.has(begin) && k.has(m.name) && k.has(`":`) {
			var ok bool
			if value, ok = k.value(m.shape, m.name); !ok {
				return false
			}
			begin = `,"`
		} else if k.at = before; m.required {
			return false
		}
		k.values = append(k.values, value)
	}
	k.see(name, k.values[first:])
	k.values = k.values[:first]
	return k.has("}")
}

func (k *skimmer) list(s *shape, name string) bool {
	if !k.has("[") {
		return false
	}
	n := 0
	for ; !k.has("]"); n++ {
		if n == s.maxItems || n > 0 && !k.has(",") {
			return false
		}
		if _, ok := k.value(s.items, name); !ok {
			return false
		}
	}
	return n >= s.minItems
}

// string skips a string without escapes.
func (k *skimmer) string() (string, bool) {
	if !k.has(`"`) {
		return "", false
	}
	rest, n, all := k.text[k.at:], 0, byte(0)
	for n < len(rest) && rest[n] >= ' ' && rest[n] != '"' && rest[n] != '\\' {
		all |= rest[n]
		n++
	}
	if k.at += n; !k.has(`"`) {
		return "", false
	}
	if all < 0x80 {
		return rest[:n], true
	}
	_, err := canon.ParseCanonical([]byte(k.text[k.at-n-2:k.at]), n+2)
	return rest[:n], err == nil
}

// whole skips a whole number within the bounds of its shape.
func (k *skimmer) whole(s *shape) (string, bool) {
	first := k.at
	for k.at < len(k.text) && k.text[k.at]-'0' <= 9 {
		k.at++
	}
	digits := k.text[first:k.at]
	n, err := strconv.ParseInt(digits, 10, 64)
	return digits, err == nil && (digits[0] != '0' || len(digits) == 1) && n >= s.low && n <= min(s.high, canon.MaxSafeInteger)
}
