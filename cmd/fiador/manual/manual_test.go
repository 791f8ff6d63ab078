package manual

import (
	"reflect"
	"strings"
	"testing"
)

// TestSections: a help text is paragraphs, lists and code, and its exit codes stand apart.
func TestSections(t *testing.T) {
	got := sections(`Show prints
two lines.

Formats:
  human  columns
  json   one document, which
         goes on
A line after a list.

	code here
	  more

  FIADOR_COLOR    auto
  FIADOR_PACK_KEY the key
                  itself
  a long term that has its own line
                  and its text

Exit codes:
  0 to 255  its own
            and more
  2         usage
`)
	want := []section{
		{blocks: []block{
			{text: []string{"Show prints", "two lines."}},
			{text: []string{"Formats:"}},
			{items: []item{{"human", "columns"}, {"json", "one document, which goes on"}}},
			{text: []string{"A line after a list."}},
			{code: []string{"code here", "  more"}},
			{items: []item{{"FIADOR_COLOR", "auto"}, {"FIADOR_PACK_KEY", "the key itself"}, {"a long term that has its own line", "and its text"}}},
		}},
		{title: "Exit codes", blocks: []block{{items: []item{{"0 to 255", "its own and more"}, {"2", "usage"}}}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestEscaped: neither Markdown nor roff takes a text for markup.
func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"with --pack FILE (--key)":  "with `--pack` FILE (`--key`)",
		"intents/**/*.json <x> [y]": `intents/\*\*/\*.json \<x\> \[y\]`,
		"- is standard input":       `\- is standard input`,
		"a_b _c_":                   `a_b \_c\_`,
		"pre--x and `q`":            "pre--x and \\`q\\`",
	} {
		if got := prose(text); got != want {
			t.Errorf("prose(%q) is %q, and not %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		".fiador/policy":   `\&.fiador/policy`,
		"'x' --a":          `\&'x' \-\-a`,
		`a\b ~/x ^ ` + "`": "a\\eb \\(ti/x \\(ha \\`",
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) is %q, and not %q", text, got, want)
		}
	}
}

// TestMan: a page has its sections in the order that readers of man pages expect.
func TestMan(t *testing.T) {
	p := Page{
		Name: "fiador x", Short: "do it", Synopsis: "fiador x [flags]", Examples: "  fiador x\n    more",
		Sections: sections("X does.\n\nIt ends.\n\nExit codes:\n  0  done"), Flags: []item{{"--a", "b"}}, Global: []item{{"--c", "d"}},
	}
	want := `.TH FIADOR-X 1 2026-01-02 "fiador 0.1.0" "Fiador Manual"
.nh
.SH NAME
fiador\-x \- do it
.SH SYNOPSIS
\fBfiador x [flags]\fR
.SH DESCRIPTION
X does.
.PP
It ends.
.SH OPTIONS
.TP
\fB\-\-a\fR
b
.TP
\fB\-\-c\fR
d
.SH EXIT STATUS
.TP
\fB0\fR
done
.SH EXAMPLES
.nf
fiador x
  more
.fi
.SH SEE ALSO
\fBfiador\fR(1)
`
	if got := string(p.Man("0.1.0", "2026-01-02")); got != want {
		t.Errorf("got\n%s", got)
	}
	if p.File() != "fiador-x.1" || !strings.Contains(string(Markdown([]Page{p})), "\n## fiador x\n\nDo it.\n") {
		t.Error(p.File(), string(Markdown([]Page{p})))
	}
}
