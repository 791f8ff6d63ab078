package work

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// The limits of a trace.
const (
	maxTraceLine  = 4096 // bytes, without the line feed
	maxTraceLines = 100_000
	maxTraceName  = 256 // bytes of a tool or a source
)

// call is a line of a trace.
type call struct {
	Tool   string `json:"tool"`
	OK     *bool  `json:"ok"`
	Args   string `json:"args_sha256"`
	Source string `json:"source"`
}

var callDecoder canon.Decoder[call]

// ReadTrace returns the number of tool calls in the text of a trace, which has one a line. The
// error is a *Fault that names the first line that is none.
func ReadTrace(text []byte) (ops int, err error) {
	for line := range bytes.Lines(text) {
		ops++
		why := ""
		if line = bytes.TrimSuffix(line, []byte("\n")); ops > maxTraceLines {
			why = "the trace has more than " + strconv.Itoa(maxTraceLines) + " lines"
		} else {
			why = traceFault(line)
		}
		if why != "" {
			return 0, fault("", "line "+strconv.Itoa(ops)+" of "+Trace+": "+why, `a line is {"tool": NAME, "ok": true or false}, and has args_sha256 and source if they are known`)
		}
	}
	return ops, nil
}

func traceFault(line []byte) string {
	doc, err := canon.Parse(line, maxTraceLine)
	if err != nil {
		return err.Error()
	}
	c, err := callDecoder.Decode(doc.Value())
	switch {
	case err != nil:
		return err.Error()
	case c.Tool == "" || len(c.Tool) > maxTraceName || len(c.Source) > maxTraceName:
		return "tool and source have 1 to " + strconv.Itoa(maxTraceName) + " bytes"
	case c.OK == nil:
		return `"ok" is missing`
	case c.Args != "" && !isDigest(c.Args):
		return `args_sha256 is "sha256:" and 64 hex digits in lower case`
	}
	return ""
}

func isDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}
