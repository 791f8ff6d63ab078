package manual

import (
	"fmt"
	"strings"
)

// File returns the name of the man page.
func (p Page) File() string { return p.dashed() + ".1" }

// Man returns the page for man, in the language of man(7). date is YYYY-MM-DD.
func (p Page) Man(version, date string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"fiador %s\" \"Fiador Manual\"\n.nh\n", strings.ToUpper(p.dashed()), date, version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n", roff(p.dashed()), roff(p.Short), bold(p.Synopsis))
	for _, s := range p.Sections {
		title := s.title
		switch title {
		case "":
			title = "Description"
		case titles[0]:
			title = "Exit status" // as other man pages call it
		}
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(title))
		for i, k := range s.blocks {
			if i > 0 && len(k.items) == 0 {
				b.WriteString(".PP\n")
			}
			k.man(&b)
		}
		if s.title == "" {
			p.parts(&b)
		}
	}
	if p.Examples != "" {
		b.WriteString(".SH EXAMPLES\n")
		block{code: strings.Split(undented(p.Examples), "\n")}.man(&b)
	}
	b.WriteString(".SH SEE ALSO\n" + strings.Join(p.related(), ",\n") + "\n")
	return []byte(b.String())
}

// parts writes the commands and the flags of a page.
func (p Page) parts(b *strings.Builder) {
	if len(p.Commands) > 0 {
		b.WriteString(".SH COMMANDS\n")
		block{items: p.Commands}.man(b)
	}
	if flags := append(p.Flags[:len(p.Flags):len(p.Flags)], p.Global...); len(flags) > 0 {
		b.WriteString(".SH OPTIONS\n")
		block{items: flags}.man(b)
	}
}

func (k block) man(b *strings.Builder) {
	for _, line := range k.text {
		b.WriteString(roff(line) + "\n")
	}
	if len(k.code) > 0 {
		b.WriteString(".nf\n")
		for _, line := range k.code {
			b.WriteString(roff(line) + "\n")
		}
		b.WriteString(".fi\n")
	}
	for _, i := range k.items {
		fmt.Fprintf(b, ".TP\n%s\n%s\n", bold(i.term), roff(i.text))
	}
}

// related returns the pages of the command above and of the commands beneath.
func (p Page) related() []string {
	var list []string
	if i := strings.LastIndex(p.Name, " "); i > 0 {
		list = append(list, p.Name[:i])
	}
	for _, c := range p.Commands {
		list = append(list, c.term)
	}
	if len(list) == 0 {
		list = []string{"fiador"}
	}
	for i, name := range list {
		list[i] = bold(strings.ReplaceAll(name, " ", "-")) + "(1)"
	}
	return list
}

func (p Page) dashed() string { return strings.ReplaceAll(p.Name, " ", "-") }

func bold(text string) string { return `\fB` + roff(text) + `\fR` }

// roff returns a line of text that roff shows as it is: a hyphen stays the ASCII character,
// so that it can be copied, and no line is a request.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, `-`, `\-`, "`", "\\`", "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		return `\&` + line
	}
	return line
}
