package contract

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// CheckCommand is IV-01: the command at the pointer at must be a name of the allowlist,
// compared exactly. A path ("./node", "a\b", "." and "..") is not a name. A path passes
// only if everything is allowed, even if the list has it. An empty command, or one with
// a space or a character outside printable ASCII, never passes: it could look like
// another command.
func CheckCommand(at, command string, allowed AllowList) *Violation {
	refuse := func(msg, hint string) *Violation {
		return &Violation{ID: IV01, Pointer: at, Msg: msg, Hint: hint}
	}
	switch {
	case command == "":
		return refuse("command is empty", "name the command")
	case strings.ContainsFunc(command, func(r rune) bool { return r < 0x21 || r > 0x7e }):
		return refuse("command "+quote(command)+" has a character outside printable ASCII", "name the command in printable ASCII without spaces")
	case allowed.All:
		return nil
	case strings.ContainsAny(command, `/\`) || command == "." || command == "..":
		return refuse("command "+quote(command)+" is a path, not a name", "give the bare name of an allowed command")
	case !allowed.names(command):
		return refuse("command "+quote(command)+" is not in the allowlist", "use an allowed command, or allow this one by name")
	}
	return nil
}

// Destination is where an argument goes. It decides what IV-02 refuses in the argument.
// An unknown value counts as Shell, the strictest.
type Destination string

// The destinations, from the least strict to the strictest.
const (
	// Argv is an element of an argument list. No shell reads it, so every character is
	// data.
	Argv Destination = "argv"
	// ArgvPlain is an element of an argument list under a profile that refuses
	// metacharacters in every argument, because the command may pass arguments to a
	// shell.
	ArgvPlain Destination = "argv-plain"
	// Shell is an unquoted place in a template that a POSIX shell reads.
	Shell Destination = "shell"
)

// ShellMetacharacters are the characters with a meaning for a shell (code execution
// contract, "Sanitization Rules").
const ShellMetacharacters = ";|&$`(){}[]<>\\\"'!#*?"

// lineBreaks end a command, as ";" does.
const lineBreaks = "\n\r"

// wordBreaks change the arguments that a template gives: white space ends a word, and a
// shell expands "~" to another word.
const wordBreaks = " \t\v\f~"

// CheckArgument is IV-02 for the argument at the pointer at, which goes to the
// destination to. It refuses NUL, bytes that are not UTF-8, and more than
// MaxStringBytes everywhere. For ArgvPlain it also refuses ShellMetacharacters and line
// breaks. For Shell it also refuses white space, "~" and the empty argument, which a
// shell would drop or change. It escapes nothing: a quotation for one shell is wrong
// for another shell. It allows a leading "-", whose meaning the command decides, and
// not a shell.
func CheckArgument(at, argument string, to Destination) *Violation {
	refuse := func(msg, hint string) *Violation {
		return &Violation{ID: IV02, Pointer: at, Msg: msg, Hint: hint}
	}
	if fault, hint := unpassable(argument); fault != "" {
		return refuse("argument "+fault, hint)
	}
	var blocked, hint string
	switch to {
	case Argv:
		return nil
	case ArgvPlain:
		blocked, hint = ShellMetacharacters+lineBreaks, "leave the character out, or use a profile that takes it as data"
	default:
		blocked, hint = ShellMetacharacters+lineBreaks+wordBreaks, "use an adapter that passes the value in argv, without a shell"
		if argument == "" {
			return refuse("argument is empty, and a shell would drop it", hint)
		}
	}
	if i := strings.IndexAny(argument, blocked); i >= 0 {
		return refuse(fmt.Sprintf("argument has U+%04X at byte %d, to which a shell gives a meaning", argument[i], i), hint)
	}
	return nil
}

// CheckArguments applies CheckArgument to every argument of the list at the pointer at,
// in the list's order.
func CheckArguments(at string, arguments []string, to Destination) []Violation {
	var list []Violation
	for i, argument := range arguments {
		if v := CheckArgument(canon.Pointer(at, strconv.Itoa(i)), argument, to); v != nil {
			list = append(list, *v)
		}
	}
	return list
}
