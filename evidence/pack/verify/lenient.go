package verify

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
)

// lenient reads JSON as most readers do: it accepts white space, any order of members,
// the last of equal names, and any escape. A lone surrogate becomes U+0000, which the
// relevant rules forbid. A text with anything behind its value is refused.
func lenient(raw []byte) (value any, fault string) {
	d := json.NewDecoder(bytes.NewReader(surrogatesAsNUL(raw)))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, "not JSON"
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, "not JSON: more text after the value"
	}
	return value, ""
}

// surrogatesAsNUL returns the text with every escape of a lone surrogate replaced by the
// escape of U+0000.
func surrogatesAsNUL(raw []byte) []byte {
	var out []byte // a copy, made at the first replacement
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(raw[i:])
		switch {
		case !ok || unit < 0xd800 || unit > 0xdfff:
			i++
			continue
		case unit < 0xdc00:
			if low, ok := escapedUnit(raw[i+6:]); ok && low >= 0xdc00 && low <= 0xdfff {
				i += 11
				continue
			}
		}
		if out == nil {
			out = bytes.Clone(raw)
		}
		copy(out[i+2:], "0000")
		i += 5
	}
	if out == nil {
		return raw
	}
	return out
}

// escapedUnit returns the UTF-16 code unit of the escape at the beginning of a text.
func escapedUnit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
