package pack

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// reasons is what decision.reasons of an execution says.
type reasons struct {
	end      string          // the first word of the one of the command, or empty
	number   int             // that goes with it
	codes    map[string]bool // of the others
	paths    map[string]bool // "CODE path", as it stands there
	streams  []int           // actions of which a stream was cut
	unspoken map[string]bool // codes of which more paths are there than are named
}

// readReasons reads the reasons of an execution, and notes those that no execution gives.
func (s *strictLevel) readReasons(list []string) reasons {
	r := newReasons()
	for i, text := range list {
		if why := r.add(text); why != "" {
			s.fault("ST6", at(RunFile, "decision", "reasons", strconv.Itoa(i)), "%s %s", quoted(text), why)
		}
	}
	return r
}

// reasonsOf reads reasons without noting anything.
func reasonsOf(list []string) reasons {
	r := newReasons()
	for _, text := range list {
		r.add(text)
	}
	return r
}

func newReasons() reasons {
	return reasons{codes: map[string]bool{}, paths: map[string]bool{}, unspoken: map[string]bool{}}
}

func (r *reasons) add(text string) string {
	code, rest, more := strings.Cut(text, " ")
	switch code {
	case "OOM", "TIMEOUT", "NOT_FOUND", "NOT_EXECUTABLE", "SIGNAL", "EXIT":
		numbered := code == "SIGNAL" || code == "EXIT"
		n, err := strconv.Atoi(rest)
		switch {
		case r.end != "":
			return "stands beside another end of the command"
		case numbered != more || numbered && (err != nil || strconv.Itoa(n) != rest || n < 1 || n > 255 || code == "SIGNAL" && n > 127):
			return "is not " + code + " as a result has it"
		}
		r.end, r.number = code, n
	case "OUTPUT_LIMIT":
		if more {
			return "is followed by nothing in a result"
		}
		r.codes[code] = true
	case "STREAM_LIMIT":
		n, err := strconv.Atoi(strings.TrimPrefix(rest, "/actions/"))
		if err != nil || rest != fmt.Sprintf("/actions/%d", n) || n < 0 {
			return "does not name a run action"
		}
		r.codes[code] = true
		r.streams = append(r.streams, n)
	case "OUTPUT_MISSING", "OUTPUT_KIND", "OUTPUT_NAME", "WRITE_OUTSIDE_ROOT":
		if more && rest == "" {
			return "has no path"
		}
		r.codes[code], r.paths[text] = true, true
		r.unspoken[code] = r.unspoken[code] || !more
	default:
		return "is no reason for which an execution is rejected"
	}
	return ""
}

// code is the exit code that the reasons give.
func (r reasons) code() int {
	switch r.end {
	case "OOM":
		return contract.ExitOOM
	case "TIMEOUT":
		return contract.ExitTimeout
	case "NOT_FOUND":
		return contract.ExitNotFound
	case "NOT_EXECUTABLE":
		return contract.ExitNotExecutable
	case "SIGNAL":
		return 128 + r.number
	case "EXIT":
		return r.number
	}
	if len(r.codes) > 0 {
		return contract.ExitForbidden
	}
	return 0
}

// names says whether the reasons name a path for a code, or say that they do not name
// all of them.
func (r reasons) names(code, path string) bool {
	return r.paths[code+" "+path] || r.paths[code+" "+strconv.QuoteToASCII(canon.Cut(path))] || r.unspoken[code]
}
