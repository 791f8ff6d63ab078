package manual

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Markdown returns the sections of pages, each with a heading of level 2.
func Markdown(pages []Page) []byte {
	var b strings.Builder
	for _, p := range pages {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n```text\n%s\n```\n", p.Name, sentence(prose(p.Short)), p.Synopsis)
		for _, s := range p.Sections {
			if s.title != "" {
				fmt.Fprintf(&b, "\n**%s**\n", s.title)
			}
			for _, k := range s.blocks {
				k.markdown(&b)
			}
			if s.title == "" {
				p.lists(&b)
			}
		}
		if p.Examples != "" {
			fmt.Fprintf(&b, "\n**Examples**\n\n```sh\n%s\n```\n", undented(p.Examples))
		}
	}
	return []byte(b.String())
}

// lists writes the commands and the flags of a page.
func (p Page) lists(b *strings.Builder) {
	if len(p.Commands) > 0 {
		b.WriteString("\n**Commands**\n\n")
	}
	for _, c := range p.Commands {
		fmt.Fprintf(b, "- [%s](#%s): %s\n", c.term, strings.ReplaceAll(c.term, " ", "-"), prose(c.text))
	}
	if len(p.Flags) > 0 {
		b.WriteString("\n**Flags**\n")
		block{items: p.Flags}.markdown(b)
	}
}

func (k block) markdown(b *strings.Builder) {
	b.WriteByte('\n')
	for _, line := range k.text {
		b.WriteString(prose(line) + "\n")
	}
	if len(k.code) > 0 {
		fmt.Fprintf(b, "```text\n%s\n```\n", strings.Join(k.code, "\n"))
	}
	for _, i := range k.items {
		b.WriteString(strings.TrimSuffix(fmt.Sprintf("- `%s`: %s", i.term, prose(i.text)), ": ") + "\n")
	}
}

// prose returns text that Markdown shows as it is, with flags as code.
func prose(text string) string {
	code := regexp.MustCompile(`(^|[ ("])(--[a-z][a-z-]*)`)
	special := regexp.MustCompile("[\\\\*<>\\[\\]`]|^[-+#]( |$)|\\b_|_\\b")
	var b strings.Builder
	at := 0
	for _, m := range code.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(special.ReplaceAllString(text[at:m[4]], `\$0`) + "`" + text[m[4]:m[5]] + "`")
		at = m[5]
	}
	return b.String() + special.ReplaceAllString(text[at:], `\$0`)
}

// sentence returns text with a capital letter at its beginning.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// undented returns lines without the blanks that all begin with.
func undented(text string) string {
	lines := strings.Split(text, "\n")
	least := slices.Min(indents(lines))
	for i, line := range lines {
		lines[i] = line[min(least, len(line)):]
	}
	return strings.Join(lines, "\n")
}

func indents(lines []string) []int {
	list := []int{1 << 10}
	for _, line := range lines {
		if rest := strings.TrimLeft(line, " "); rest != "" {
			list = append(list, len(line)-len(rest))
		}
	}
	return list
}
