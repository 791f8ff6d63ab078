// Package manual writes the reference of the command line from the help of the commands:
// one page of Markdown, and a man page for each command. The program does not import it.
package manual

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fiador/fiador/harness/saferun"
)

// Page is the reference of one command, or of one topic of the help.
type Page struct {
	Name     string // fiador ledger list
	Short    string
	Synopsis string
	Sections []section // the first has no title, and says what the command does
	Flags    []item
	Global   []item // flags that the commands above have too
	Commands []item // the commands of a group
	Examples string
}

// section is a part of a help text. The help has titles for two kinds: exit codes and
// environment.
type section struct {
	title  string
	blocks []block
}

// block is one of: a paragraph in lines, a list, and lines of code.
type block struct {
	text  []string
	items []item
	code  []string
}

// item is a term, and what is said about it.
type item struct{ term, text string }

// titles are the headings of help texts that begin a section.
var titles = []string{"Exit codes", "Environment"}

// Pages returns the pages of fiador and of all its commands, in the order of the help, and
// at the end that of the program safe-run. It leaves out hidden commands.
func Pages(root *cobra.Command) []Page {
	root.InitDefaultHelpCmd()
	var help bytes.Buffer
	saferun.Run([]string{"--help"}, saferun.System{Stdout: &help})
	usage, text, _ := strings.Cut(help.String(), "\n")
	safeRun := Page{Name: "safe-run", Synopsis: strings.TrimPrefix(usage, "Usage: "), Sections: sections(text)}
	pages := pagesOf(root)
	for _, p := range pages {
		if p.Name == root.Name()+" "+safeRun.Name {
			safeRun.Short = p.Short
		}
	}
	return append(pages, safeRun)
}

// pagesOf returns the pages of a command and of all commands beneath it.
func pagesOf(cmd *cobra.Command) []Page {
	p := Page{
		Name: cmd.CommandPath(), Short: cmd.Short, Synopsis: cmd.UseLine(),
		Sections: sections(cmd.Long), Examples: strings.Trim(cmd.Example, "\n"),
	}
	if !cmd.DisableFlagParsing {
		p.Flags, p.Global = flags(cmd.NonInheritedFlags()), flags(cmd.InheritedFlags())
	}
	if cmd.IsAdditionalHelpTopicCommand() {
		p.Synopsis = strings.Replace(p.Name, " ", " help ", 1)
	}
	var beneath []Page
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Deprecated != "" {
			continue
		}
		p.Commands = append(p.Commands, item{sub.CommandPath(), sub.Short})
		beneath = append(beneath, pagesOf(sub)...)
	}
	if len(p.Commands) > 0 && !strings.Contains(cmd.Use, " ") {
		p.Synopsis = p.Name + " COMMAND"
	}
	return append([]Page{p}, beneath...)
}

// flags returns the flags of a set, without --help, which every command has.
func flags(set *pflag.FlagSet) []item {
	var list []item
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		term := strings.TrimSpace("--" + f.Name + " " + value)
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		list = append(list, item{term, usage})
	})
	return list
}

// sections divides a help text. Lines that begin with two blanks are a list, those that
// begin with a tab are code, and all others are paragraphs.
func sections(text string) []section {
	list := []section{{}}
	for stanza := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		lines := strings.Split(strings.Trim(stanza, "\n"), "\n")
		for len(lines) > 0 {
			n := 1
			for n < len(lines) && kind(lines[n]) == kind(lines[0]) {
				n++
			}
			group := lines[:n:n]
			lines = lines[n:]
			last := &list[len(list)-1]
			title, heads := strings.CutSuffix(strings.TrimLeft(group[0], "# "), ":")
			switch {
			case kind(group[0]) == '\t':
				for i, line := range group {
					group[i] = strings.TrimPrefix(line, "\t")
				}
				last.blocks = append(last.blocks, block{code: group})
			case kind(group[0]) == ' ':
				last.blocks = append(last.blocks, block{items: items(group)})
			case n == 1 && heads && slices.Contains(titles, title):
				list = append(list, section{title: title})
			default:
				group[0] = strings.TrimLeft(group[0], "# ")
				last.blocks = append(last.blocks, block{text: group})
			}
		}
	}
	return list
}

// kind returns the first byte of a line of a list or of code, and 0 for other lines.
func kind(line string) byte {
	switch {
	case strings.HasPrefix(line, "\t"):
		return '\t'
	case strings.HasPrefix(line, "  "):
		return ' '
	}
	return 0
}

// items reads a list. Its texts stand in one column: that of the continued lines, else
// each begins after two blanks.
func items(lines []string) []item {
	column := 0
	for _, line := range lines {
		if at := len(line) - len(strings.TrimLeft(line, " ")); at > 2 && (column == 0 || at < column) {
			column = at
		}
	}
	var list []item
	for _, line := range lines {
		rest := strings.TrimLeft(line, " ")
		if len(line)-len(rest) > 2 && len(list) > 0 {
			last := &list[len(list)-1]
			last.text = strings.TrimSpace(last.text + " " + rest)
			continue
		}
		if column > 2 && len(line) > column && line[column-1] == ' ' {
			list = append(list, item{strings.TrimSpace(line[:column]), strings.TrimSpace(line[column:])})
			continue
		}
		term, text, _ := strings.Cut(rest, "  ")
		list = append(list, item{term, strings.TrimSpace(text)})
	}
	return list
}
