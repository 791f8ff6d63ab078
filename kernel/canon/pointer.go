package canon

import (
	"strconv"
	"strings"
)

// Lookup returns the value that a JSON Pointer (RFC 6901) names in a decoded value.
// It returns false if the pointer is malformed or names nothing. An index with
// leading zeros, "-", and any ~ but ~0 and ~1 are malformed here.
func Lookup(doc any, pointer string) (any, bool) {
	if pointer == "" {
		return doc, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch v := doc.(type) {
		case map[string]any:
			name, ok := unescape(token)
			if !ok {
				return nil, false
			}
			if doc, ok = v[name]; !ok {
				return nil, false
			}
		case []any:
			i, ok := arrayIndex(token)
			if !ok || i >= len(v) {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// arrayIndex reads 0 or a decimal number without leading zeros.
func arrayIndex(token string) (int, bool) {
	if token == "" || len(token) > 1 && token[0] == '0' || strings.Trim(token, "0123456789") != "" {
		return 0, false
	}
	i, err := strconv.Atoi(token)
	return i, err == nil
}
