package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Layout says how lines of text stand on a screen. The zero value changes no text.
type Layout struct {
	Columns int  // of the screen; 0: lines stay whole
	Short   bool // a hash of 64 hexadecimal digits is cut to its first shortDigits
}

// shortDigits are the digits that are left of a hash.
const (
	hashDigits  = 64
	shortDigits = 12
)

// longestStyle is the most bytes of a style of Paint.
const longestStyle = 16

// reset ends a style of Paint.
const reset = "\x1b[0m"

// Text lays out lines of text. A line that is wider than the screen is broken at spaces
// alone. So words, hashes and paths stay whole, and a word that is wider than the screen
// has a line of its own. The parts of a line after the first are indented, and keep its
// style.
func (l Layout) Text(s string) string {
	if l.Short {
		s = shorten(s)
	}
	if l.Columns == 0 {
		return s
	}
	var b strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		text := strings.TrimSuffix(line, "\n")
		if cells(text) <= l.Columns {
			b.WriteString(line)
			continue
		}
		l.fold(&b, text)
		b.WriteString(line[len(text):])
	}
	return b.String()
}

// word is a part of a line without spaces, with the spaces and styles before it.
type word struct {
	before, text string
	gap, cells   int
}

// words splits a line. A style that stands alone between spaces belongs to the next word.
func words(s string) (list []word) {
	for s != "" {
		var w word
		rest := s
		for rest != "" {
			if n := escape(rest); n > 0 {
				rest = rest[n:]
			} else if rest[0] == ' ' {
				rest = rest[1:]
				w.gap++
			} else {
				break
			}
		}
		end := strings.IndexByte(rest, ' ')
		if end < 0 {
			end = len(rest)
		}
		w.before, w.text = s[:len(s)-len(rest)], rest[:end]
		w.cells = cells(w.text)
		s = rest[end:]
		list = append(list, w)
	}
	return list
}

// fold writes a line as several lines, none wider than the screen where its words allow it.
func (l Layout) fold(b *strings.Builder, s string) {
	list := words(s)
	margin := l.margin(list)
	at, style := 0, ""
	for i, w := range list {
		if w.text == "" { // the end of the line
			b.WriteString(strings.ReplaceAll(w.before, " ", ""))
			continue
		}
		inner := styled(style, w.before)
		if i == 0 || at+w.gap+w.cells <= l.Columns {
			b.WriteString(w.before + w.text)
			at += w.gap + w.cells
		} else {
			if style != "" {
				b.WriteString(reset)
			}
			start := margin
			if strings.TrimSpace(margin) == "" {
				start = margin[:max(0, min(len(margin), l.Columns-w.cells))]
			}
			b.WriteString("\n" + start + inner + w.text)
			at = len(start) + w.cells
		}
		style = styled(inner, w.text)
	}
}

// margin returns the text before the later parts of a line. They stand below the last field
// that begins in the left half of the screen, where two spaces or more stand before a field.
// A line without such a field goes on two columns further in. A quoted line keeps its bar.
func (l Layout) margin(list []word) string {
	lead := strings.Repeat(" ", min(list[0].gap, l.Columns/2))
	if first := list[0]; first.cells == 1 && strings.Contains(first.text, "|") {
		return lead + "| "
	}
	at, below := list[0].gap+list[0].cells, len(lead)+2
	for _, w := range list[1:] {
		if at += w.gap; w.gap > 1 && at <= l.Columns/2 {
			below = at
		}
		at += w.cells
	}
	return strings.Repeat(" ", below)
}

// styled returns the style after a text that begins in a style; "" is none.
func styled(style, s string) string {
	for i := range len(s) {
		if n := escape(s[i:]); n > 0 {
			if style = s[i : i+n]; style == reset {
				style = ""
			}
		}
	}
	return style
}

// escape returns the length of the style at the beginning of a text; 0: there is none.
func escape(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	return strings.IndexByte(s, 'm') + 1
}

// cells returns how many columns a text takes on a screen.
func cells(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if skip := escape(s[i:]); skip > 0 {
			i += skip
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		n += runeCells(r)
		i += size
	}
	return n
}

// runeCells returns the columns of one character: none of a mark that joins the character
// before it, two of a wide one.
func runeCells(r rune) int {
	if r < 0x7f {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) || r >= 0x1160 && r <= 0x11ff { // vowels and ends of Hangul
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// shorten cuts each hash that stands as a word. A part of a path or of a longer name stays.
func shorten(s string) string {
	var b strings.Builder
	for done := 0; ; {
		start := strings.IndexFunc(s[done:], hexDigit)
		if start < 0 {
			b.WriteString(s[done:])
			return b.String()
		}
		start += done
		end := start
		for end < len(s) && hexDigit(rune(s[end])) {
			end++
		}
		b.WriteString(s[done:start])
		if end-start == hashDigits && opens(s[:start]) && closes(s[end:]) {
			b.WriteString(s[start:start+shortDigits] + "…")
		} else {
			b.WriteString(s[start:end])
		}
		done = end
	}
}

func hexDigit(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'f' }

// opens reports whether a hash can begin after a text: at a space, a quote, a bracket, the
// colon of an algorithm or a style.
func opens(s string) bool {
	end := s[max(0, len(s)-longestStyle):] // the text before can be long
	if i := strings.LastIndexByte(end, 0x1b); i >= 0 && escape(end[i:]) == len(end)-i {
		return true
	}
	return s == "" || strings.IndexByte(" \n\"'([:=", s[len(s)-1]) >= 0
}

// closes reports whether a hash can end before a text.
func closes(s string) bool {
	return s == "" || strings.IndexByte(" \n\"')],;\x1b", s[0]) >= 0 || (s[0] == '.' || s[0] == ':') && (len(s) == 1 || s[1] == ' ' || s[1] == '\n')
}
