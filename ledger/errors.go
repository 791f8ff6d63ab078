package ledger

import (
	"errors"
	"io/fs"
)

// Errors about a ledger that differs from its promises, or that another key signs.
var (
	ErrTampered  = errors.New("the ledger does not verify")
	ErrTruncated = errors.New("the ledger is smaller than it was promised to be (TRUNCATED)")
	ErrForked    = errors.New("the ledger has other entries than it was promised to have")
	ErrWrongKey  = errors.New("the key is not the one that signs this ledger now")
)

// Broken says whether an error shows that a ledger differs from what it has promised.
func Broken(err error) bool {
	return errors.Is(err, ErrTampered) || errors.Is(err, ErrTruncated) || errors.Is(err, ErrForked)
}

// Errors about evidence. ErrNoBlob is an fs.ErrNotExist too.
var (
	ErrNoBlob  error = noBlob{}
	ErrBadBlob       = errors.New("the evidence is not what its name says")
)

type noBlob struct{}

func (noBlob) Error() string { return "the evidence is not there: " + fs.ErrNotExist.Error() }
func (noBlob) Unwrap() error { return fs.ErrNotExist }

// ErrNoCheckpoint says that nothing is promised: the checkpoint was lost or removed.
var ErrNoCheckpoint = errors.New("it has no checkpoint; the next append makes one")
