package verify

import (
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/reason"
)

// readReasons reads the reasons of an execution, and notes reasons that no execution
// gives.
func (s *strictLevel) readReasons(texts []string) reason.List {
	var list reason.List
	for i, text := range texts {
		if err := list.Add(text); err != nil {
			s.fault("ST6", pack.At(pack.RunFile, "decision", "reasons", strconv.Itoa(i)), "%s %s", pack.Quoted(text), err)
		}
	}
	return list
}
