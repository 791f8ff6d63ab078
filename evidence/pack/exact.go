package pack

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/fiador/fiador/kernel/canon"
)

// maxValues is the maximum number of values of a file. It limits the memory of a reader.
const maxValues = 500_000

// errCrowded says that a file has more values than a reader reads.
var errCrowded = fmt.Errorf("more than %d values", maxValues)

// parseExact reads a file in its exact form: canonical JSON and one LF. It returns
// errCrowded for a file with too many values.
func parseExact(text []byte) (canon.Document, error) {
	if canon.Crowded(text, maxValues) {
		return canon.Document{}, errCrowded
	}
	text, lf := bytes.CutSuffix(text, []byte("\n"))
	if !lf {
		return canon.Document{}, errors.New("no LF at the end")
	}
	return canon.ParseCanonical(text, len(text))
}
