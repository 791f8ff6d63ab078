package pack

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxValues is the maximum number of values of a file. It limits the memory of a reader.
const MaxValues = 500_000

// ErrCrowded says that a file has more values than a reader reads.
var ErrCrowded error = crowded{}

type crowded struct{}

func (crowded) Error() string { return fmt.Sprintf("more than %d values", MaxValues) }

// ParseExact reads a file in its exact form: canonical JSON and one LF. It can return ErrCrowded.
func ParseExact(text []byte) (canon.Document, error) {
	if canon.Crowded(text, MaxValues) {
		return canon.Document{}, ErrCrowded
	}
	text, lf := bytes.CutSuffix(text, []byte("\n"))
	if !lf {
		return canon.Document{}, errors.New("no LF at the end")
	}
	return canon.ParseCanonical(text, len(text))
}
