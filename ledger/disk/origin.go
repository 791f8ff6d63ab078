package disk

import (
	"errors"

	"github.com/fiador/fiador/ledger"
)

// The errors of a place without a ledger.
var (
	ErrNoLedger  = errors.New("there is no ledger in this folder")
	ErrNotFolder = errors.New("it is not a folder")
)

// readOrigin reads the keys of a ledger. A missing file gives ErrNoLedger.
func readOrigin(fsys files) (ledger.Keys, error) {
	b, err := readFile(fsys, ledger.NameOrigin, ledger.MaxOriginBytes)
	if isNotExist(err) {
		return nil, ErrNoLedger
	}
	if err != nil {
		return nil, err
	}
	return ledger.ParseKeys(b)
}
