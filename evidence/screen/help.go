package screen

import (
	"strings"
	"unicode/utf8"
)

// Help wraps a help text so that no line has more than width columns, and breaks no word. A
// block whose lines fit stays as it is. A block is a paragraph, or an entry of a list: an
// indented line with a gap of two spaces or more, and the lines that stand under what
// follows the gap. A line of the part Examples is a command for a shell, and goes on after
// a backslash.
func Help(text string, width int) string {
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	examples := false
	for i := 0; i < len(lines); {
		first := lines[i]
		if first != "" && first[0] != ' ' {
			examples = first == "Examples:"
		}
		lead, hang := indents(first)
		n := 1
		for !examples && first != "" && i+n < len(lines) && lines[i+n] != "" && (lead == 0 || hang > lead) {
			if under, gap := indents(lines[i+n]); under != hang || gap != under {
				break
			}
			n++
		}
		block := lines[i : i+n]
		i += n
		switch {
		case fits(block, width):
			out.WriteString(strings.Join(block, "\n") + "\n")
		case examples:
			out.WriteString(Command(first, width) + "\n")
		default:
			out.WriteString(filled(block, hang, width))
		}
	}
	return out.String()
}

// indents returns the column in which a line begins, and the one behind its first gap: that
// is where its further lines begin. A line at the left edge has no gap.
func indents(line string) (lead, hang int) {
	lead = len(line) - len(strings.TrimLeft(line, " "))
	gap := strings.Index(line[lead:], "  ")
	if lead == 0 || gap < 0 || lead+gap > 48 {
		return lead, lead
	}
	hang = lead + gap
	for hang < len(line) && line[hang] == ' ' {
		hang++
	}
	return lead, hang
}

func fits(block []string, width int) bool {
	for _, line := range block {
		if utf8.RuneCountInString(line) > width {
			return false
		}
	}
	return true
}

// filled fills lines with the words of a block. Its first line keeps what stands before hang. On
// a screen that would be left too narrow, the words begin in the next line.
func filled(block []string, hang, width int) string {
	head := block[0][:hang]
	words := strings.Fields(block[0][hang:])
	for _, line := range block[1:] {
		words = append(words, strings.Fields(line)...)
	}
	if hang > width/2 {
		lead, _ := indents(head)
		indent := strings.Repeat(" ", lead+4)
		return strings.TrimRight(head, " ") + "\n" + fill(indent, indent, "", words, width)
	}
	return fill(head, strings.Repeat(" ", hang), "", words, width)
}

// Command breaks a line with a command for a shell at blanks outside of quotes, where it is
// wider than width columns. A backslash at the end of each part but the last joins them, so that
// all can be copied. A width of 0 leaves the line whole.
func Command(line string, width int) string {
	if width == 0 {
		return line
	}
	lead, _ := indents(line)
	var words []string
	quote, from, escaped := rune(0), lead, false
	for i, r := range line {
		switch {
		case i < lead:
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ' ':
			words, from = append(words, line[from:i]), i+1
		}
	}
	words = append(words, line[from:])
	return strings.TrimSuffix(fill(line[:lead], strings.Repeat(" ", lead+4), ` \`, words, width), "\n")
}

// fill puts words on lines: the first begins with head, the others with indent. A line that
// goes on ends with end.
func fill(head, indent, end string, words []string, width int) string {
	var out strings.Builder
	line, empty := head, true
	for i, word := range words {
		room := width
		if i+1 < len(words) {
			room -= len(end)
		}
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			if utf8.RuneCountInString(line+end) > width {
				end = strings.TrimLeft(end, " ") // a word that is too long keeps its end
			}
			out.WriteString(line + end + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	return out.String() + line + "\n"
}
