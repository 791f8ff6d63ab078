// Package shellwords splits a command line into the argvs that bash, dash and zsh start for
// it, and quotes words. It owns which lines are plain enough to be split.
//
// A word has plain characters, '...', and "..." without $, `, \ and !. No ' follows '...'
// directly, since zsh can read two of them as one. No word begins with an unquoted =, which
// zsh expands. The first word of a command has no =, does not begin with %, + or -, and is
// neither a keyword nor a builtin, except for echo, pwd, true, false, exit and test. Of these,
// exit has at most one number, since zsh calculates it. And test has one operator that only
// looks: "test -v" of bash can start commands, and "test -t" of zsh can assign.
//
// No line shows what settings change: aliases, functions, CDPATH, options, history expansion.
package shellwords

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/text"
)

// Line is a command line that bash, dash and zsh split alike. Dir is the folder of a leading
// "cd DIR &&", if only && and | join the commands, and else empty. Commands also has
// those that run only if another one fails.
type Line struct {
	Dir      string
	Commands []Command
}

// Command is one command of a line.
type Command struct {
	Argv  []string
	Piped bool // the command stands behind "|", so another one writes its standard input
}

const (
	maxLine     = 64 << 10 // bytes
	maxCommands = 256      // an intent has no more actions
	plain       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_@%+=:,./-"
	// The names of keywords include the two aliases that every zsh has.
	keywords text.Words = `! [[ ]] { } case coproc declare do done elif else end esac export fi float for foreach function if in integer local nocorrect readonly repeat run-help
		select then time typeset until which-command while`
	builtins text.Words = `- . : [ alias autoload bg bind bindkey break builtin bye caller cd chdir command comparguments compadd compcall compctl compdescribe compfiles compgen
		compgroups complete compopt compquote compset comptags comptry compvalues continue dirs disable disown echotc echoti emulate enable eval exec fc fg
		functions getln getopts hash help history jobs kill let limit log logout mapfile noglob popd print printf private pushd pushln r read readarray rehash
		return sched set setopt shift shopt source suspend times trap ttyctl type ulimit umask unalias unfunction unhash unlimit unset unsetopt vared wait
		whence where which zcompile zformat zle zmodload zparseopts zregexparse zstyle`
	checks text.Words = "-b -c -d -e -f -g -h -k -L -n -p -r -s -S -u -w -x -z"
)

// Split splits a plain line. ok is false for every other line, for a line without commands,
// for more than 64 KiB and for more than 256 commands: such a line is one command of a shell.
func Split(line string) (l Line, ok bool) {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if len(line) > maxLine || !utf8.ValidString(line) || strings.ContainsFunc(line, control) {
		return Line{}, false
	}
	list, ops := commands(line)
	elsewhere := func(op string) bool { return op != "&&" && op != "|" } // the command behind it also runs if cd fails
	if len(list) > 1 && ops[0] == "&&" && !slices.ContainsFunc(ops[:len(list)-1], elsewhere) {
		if argv := list[0].Argv; len(argv) == 2 && argv[0] == "cd" && isDir(argv[1]) {
			l.Dir, list = argv[1], list[1:]
		}
	}
	if len(list) == 0 || len(list) > maxCommands || slices.ContainsFunc(list, special) {
		return Line{}, false
	}
	return Line{l.Dir, list}, true
}

// operator returns the operator that a text begins with, or nothing.
func operator(s string) string {
	if strings.HasPrefix(s, "&&") || strings.HasPrefix(s, "||") {
		return s[:2]
	}
	return s[:min(1, len(s)-len(strings.TrimLeft(s, "|;\n")))]
}

// commands returns the commands of a plain line and the operator behind each, else nothing.
func commands(line string) (list []Command, ops []string) {
	var argv []string
	last := "\n" // the operator before argv
	for {
		line = strings.TrimLeft(line, " \t")
		op := operator(line)
		switch {
		case op == "" && line != "":
			word, size := cutWord(line)
			if size == 0 {
				return nil, nil
			}
			argv, line = append(argv, word), line[size:]
			continue
		case argv != nil:
			list, ops = append(list, Command{argv, last == "|"}), append(ops, op)
			argv, last = nil, op
		case op != "\n" && (op != "" || last != ";" && last != "\n"):
			return nil, nil
		}
		if line == "" {
			return list, ops
		}
		line = line[len(op):]
	}
}

// cutWord returns the plain word at the beginning of a line and its size there, or 0.
func cutWord(line string) (word string, size int) {
	var b strings.Builder
	for size < len(line) && strings.Contains(plain+`'"`, line[size:size+1]) {
		c := line[size : size+1]
		switch {
		case c == "'" || c == `"`:
			quoted, rest, closed := strings.Cut(line[size+1:], c)
			if !closed || c == `"` && strings.ContainsAny(quoted, "$`\\!") || c == "'" && strings.HasPrefix(rest, "'") {
				return "", 0
			}
			b.WriteString(quoted)
			size += len(quoted) + 2
		case c == "=" && b.Len() == 0:
			return "", 0
		default:
			b.WriteString(c)
			size++
		}
	}
	return b.String(), size
}

// isDir says whether cd can only take dir as a folder. Behind a link ".." is ambiguous.
func isDir(dir string) bool {
	return dir != "" && strings.Trim(dir, plain) == "" && !strings.Contains("-+=", dir[:1]) && !slices.Contains(strings.Split(dir, "/"), "..")
}

// special says whether a shell does something else than to start the argv of a command.
func special(c Command) bool {
	name, args := c.Argv[0], c.Argv[1:]
	switch name {
	case "exit":
		return len(args) > 1 || len(args) == 1 && (args[0] == "" || strings.Trim(args[0], "0123456789") != "")
	case "test":
		return len(args) != 2 || !checks.Has(args[0])
	}
	return name == "" || strings.Contains("%+-", name[:1]) || strings.Contains(name, "=") || keywords.Has(name) || builtins.Has(name)
}

// Quote returns a word as every POSIX shell reads it, also as the first of a command. A plain
// word stays as it is unless it has "=" or is a keyword. No shell reads a word with a NUL.
func Quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" && !strings.Contains(word, "=") && !keywords.Has(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
