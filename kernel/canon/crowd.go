package canon

// Crowded says whether a JSON text may have more than most values. It counts what
// separates values outside of strings, so the text may be malformed.
func Crowded(text []byte, most int) bool {
	n, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			if n++; n > most {
				return true
			}
		}
	}
	return false
}
