package canon

// Crowded says whether a JSON text may have more than most values. It looks at what
// stands between strings, and so at texts that are no JSON too.
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
