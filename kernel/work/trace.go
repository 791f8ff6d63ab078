package work

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// call is a line of a trace.
type call struct {
	Tool   string `json:"tool"`
	OK     *bool  `json:"ok"`
	Args   string `json:"args_sha256"`
	Source string `json:"source"`
}

var callDecoder canon.Decoder[call]

// MaxTrace is the number of bytes that a trace may have.
const MaxTrace = 32 << 20

// ReadTrace returns the number of tool calls in the text of a trace, which has one a line. The
// error is a *Fault that names the first line that is none.
func ReadTrace(text []byte) (ops int, err error) {
	if len(text) > MaxTrace {
		return 0, fault("", Trace+" has more than "+strconv.Itoa(MaxTrace)+" bytes", "write a short line for each call")
	}
	for line := range bytes.Lines(text) {
		ops++
		why := "one more than a trace may have"
		if ops <= 100_000 {
			why = callFault(bytes.TrimSuffix(line, []byte("\n")))
		}
		if why != "" {
			return 0, fault("", "line "+strconv.Itoa(ops)+" of "+Trace+": "+why, `a line is {"tool": NAME, "ok": true or false}, and may have args_sha256 and source`)
		}
	}
	return ops, nil
}

// callFault returns what is wrong with a line, or "".
func callFault(line []byte) string {
	doc, err := canon.Parse(line, 4096)
	if err != nil {
		return err.Error()
	}
	var c call
	err = callDecoder.Into(&c, doc.Value())
	digits, prefixed := strings.CutPrefix(c.Args, "sha256:")
	switch {
	case err != nil:
		return err.Error()
	case c.Tool == "" || len(c.Tool) > 256 || len(c.Source) > 256:
		return "tool has 1 to 256 bytes, and source has no more"
	case c.OK == nil:
		return `"ok" is missing`
	case c.Args != "" && (!prefixed || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != ""):
		return `args_sha256 is "sha256:" and 64 hex digits in lower case`
	}
	return ""
}
