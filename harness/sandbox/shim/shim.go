// Package shim owns the programs that call a function of a library, for Python and for Node.
//
// A shim reads one line of JSON from standard input, {reply, import_path, function, args,
// kwargs}. It imports the module, calls the function, and waits for what the function
// promises. The line that it writes to standard output last begins with reply and a space;
// {"result": value} or {"error": {"type", "message"}} follows. The shim then ends with code
// 0 at once: what the library would do at the end of the program is not done.
package shim

import (
	_ "embed" // for the two programs

	"github.com/fiador/fiador/kernel/pathname"
)

var (
	//go:embed shim.py
	python string
	//go:embed shim.mjs
	node string
)

// At returns the text of the program at a path of the sandbox, or "".
func At(path string) string {
	switch path {
	case pathname.ShimPython:
		return python
	case pathname.ShimNode:
		return node
	}
	return ""
}
