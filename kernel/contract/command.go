package contract

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// CheckCommand is IV-01: the command at the pointer at has to be a name of the
// allowlist, compared exactly. A path ("./node", "a\b", "." and "..") is not a
// name and passes only where everything is allowed, also when the list has it.
// A command that is empty or has a character outside printable ASCII, a space
// included, never passes: it could look like another.
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
	case isCommandPath(command):
		return refuse("command "+quote(command)+" is a path, not a name", "give the bare name of an allowed command")
	case !allowed.names(command):
		return refuse("command "+quote(command)+" is not in the allowlist", "use an allowed command, or allow this one by name")
	}
	return nil
}

func isCommandPath(command string) bool {
	return strings.ContainsAny(command, `/\`) || command == "." || command == ".."
}

// Destination is where an argument goes, which decides what IV-02 refuses in it.
// A value that is none of the three counts as Shell, the strictest.
type Destination string

// The destinations, from the least strict to the strictest.
const (
	// Argv is an element of an argument list. No shell reads it, so every
	// character of it is data.
	Argv Destination = "argv"
	// ArgvPlain is an element of an argument list under a profile that blocks
	// metacharacters everywhere, as what the command itself may hand on.
	ArgvPlain Destination = "argv-plain"
	// Shell is a place in a template that a POSIX shell reads, without quotes
	// around it.
	Shell Destination = "shell"
)

// ShellMetacharacters are the characters that a shell gives a meaning to (code
// execution contract, "Sanitization Rules").
const ShellMetacharacters = ";|&$`(){}[]<>\\\"'!#*?"

// lineBreaks end a command as ";" does.
const lineBreaks = "\n\r"

// wordBreaks end a word, and "~" makes another one of it: both change how many
// or which arguments a template gives.
const wordBreaks = " \t\v\f~"

// CheckArgument is IV-02: the argument at the pointer at, which goes to the
// destination to. NUL, bytes that are not UTF-8 and more than MaxStringBytes are
// refused everywhere. For ArgvPlain ShellMetacharacters and line breaks are refused too. For Shell also
// white space, "~" and the empty argument are, of which no word or another one
// would be left. Nothing is escaped: quoting that is right for one shell is wrong
// for the next. What a leading "-" means is the command's business, not a shell's.
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

// CheckArguments is CheckArgument for every argument of a list that stands at
// the pointer at, in its order.
func CheckArguments(at string, arguments []string, to Destination) []Violation {
	var list []Violation
	for i, argument := range arguments {
		if v := CheckArgument(element(at, i), argument, to); v != nil {
			list = append(list, *v)
		}
	}
	return list
}

// element is the pointer of element i of the list at the pointer at.
func element(at string, i int) string { return canon.Pointer(at, strconv.Itoa(i)) }
