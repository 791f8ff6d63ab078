package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fiador/fiador/cmd/fiador/cli"
)

// longestSentence is the number of words that a sentence of these texts has at most.
const longestSentence = 25

// TestPlainSentences: a sentence of the README, of the page on gating and of the help of a
// command or a flag has at most 25 words. A piece of code in a page is one word.
func TestPlainSentences(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	for name, src := range pages(t, "README.md", "docs/gating.md") {
		_, texts[name] = split(src)
	}
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		help := entries(cmd.Long)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { help += "\n\n" + f.Usage })
		texts["help of "+cmd.CommandPath()] = help
		if first, _, _ := strings.Cut(cmd.Long, " "); cmd.Runnable() && !strings.EqualFold(first, cmd.Name()) {
			t.Errorf("the help of %s begins with %q, and does not say what the command does", cmd.CommandPath(), first)
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "completion" { // its texts are cobra's
				add(sub)
			}
		}
	}
	add(cli.Root(&cli.App{}, commands(&cli.App{})...))
	seen := 0
	for name, text := range texts {
		for _, s := range sentences(text) {
			seen++
			if n := len(strings.Fields(s)); n > longestSentence {
				t.Errorf("%s: a sentence of %d words: %s", name, n, strings.Join(strings.Fields(s), " "))
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d sentences found", seen)
	}
}

// TestSentences: a sentence ends at its full stop, and with its paragraph, its item of a list
// and its cell of a table. A semicolon or a colon does not end it. In a help text, a name and
// its meaning are an entry, and the meaning goes on in lines that are indented further.
func TestSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"One two. Three `a. b` four\nfive. [Six seven](nine.md#ten) eight: nine; ten:\n\n- a b\n- c\n  d\n\n| e | f g |\n|---|---|\n",
			"One two/Three X four\nfive/Six seven eight: nine; ten:/a b/c\n  d/e/f g"},
		{"# One\n\n**Two.** Three\n--four version 1.2.3 (five.) Six\n", "One/**Two/Three\n--four version 1.2.3 (five/Six"},
		{entries("Two lists:\n  one    two\n         three\n  four   five\nSix\n"), "Two lists:/one/two\n         three/four/five/Six"},
	} {
		if got := strings.Join(sentences(c.text), "/"); got != c.want {
			t.Errorf("%q: %q instead of %q", c.text, got, c.want)
		}
	}
}

// entries makes paragraphs of the indented entries of a help text, and of their columns.
func entries(help string) string {
	help = regexp.MustCompile(`(?m)^( .*\n)(\S)`).ReplaceAllString(help, "$1\n$2")
	help = regexp.MustCompile(`(?m)^  (\S)`).ReplaceAllString(help, "\n$1")
	return regexp.MustCompile(`(\S)  +(\S)`).ReplaceAllString(help, "$1\n\n$2")
}

// sentences returns the sentences of the prose of a page or of a help text.
func sentences(text string) []string {
	text = regexp.MustCompile("`[^`]+`").ReplaceAllString(text, "X")
	text = regexp.MustCompile(`\[([^]]+)\]\([^)]*\)`).ReplaceAllString(text, "$1")
	ends := regexp.MustCompile(`[.?!][")*]*(\s+|$)|\n\s*\n|\n *- |\|`)
	var list []string
	for _, s := range ends.Split(text, -1) {
		if s = strings.Trim(s, " \n-#"); s != "" {
			list = append(list, s)
		}
	}
	return list
}
