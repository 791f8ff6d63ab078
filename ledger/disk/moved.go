package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// Moved says that a ledger has moved to a server. Nothing is appended to its folder any more.
type Moved struct {
	Address string // the URL of the ledger, or empty if the mark does not have it
}

func (m *Moved) Error() string {
	return "this ledger has moved to " + m.where() + ", and the folder takes no more records"
}

// Remedy says what to do instead.
func (m *Moved) Remedy() string { return "use --ledger " + m.where() }

func (m *Moved) where() string {
	if m.Address == "" {
		return "the URL of its server"
	}
	return m.Address
}

// maxAddress is the maximum length of the address of a server.
const maxAddress = 2048

// moved returns the error of a ledger that has moved.
func (l *Log) moved() error {
	text, err := readFile(l.files, nameMoved, maxAddress)
	if err != nil {
		return &Moved{}
	}
	return &Moved{Address: canon.Clean(string(text))}
}

// Move calls do while it holds the lock of the ledger. Then it marks the folder as moved to an
// address, and the folder takes no more records. A ledger that has moved to this address before
// can be moved again, so that a move that was interrupted can go on; do is told so.
func Move(ctx context.Context, dir string, key *ledger.Signer, address string, o Options, do func(again bool) error) (err error) {
	if len(address) > maxAddress {
		return fmt.Errorf("the new address has more than %d characters", maxAddress)
	}
	f, err := openWritable(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	l, err := open(moving{f, address}, key, o)
	if err != nil {
		return err
	}
	truth, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, truth.Unlock(), truth.Close()) }()
	if err := l.poisoned(); err != nil {
		return err
	}
	_, err = f.Lstat(namePoison)
	again := err == nil
	if err := do(again); err != nil {
		return err
	}
	if again {
		return f.SyncDir(nameState)
	}
	return mark(f, address)
}

// moving hides the mark of a ledger that has moved to an address.
type moving struct {
	files
	address string
}

func (m moving) Lstat(name string) (fs.FileInfo, error) {
	if name == namePoison {
		if text, err := readFile(m.files, nameMoved, maxAddress); err == nil && string(text) == m.address {
			return nil, fs.ErrNotExist
		}
	}
	return m.files.Lstat(name)
}

// mark leaves the mark of a ledger that has moved. It appears at once, with the address in it.
func mark(fsys files, address string) error {
	const next = nameState + "/moving"
	if err := fsys.Mkdir(next); err != nil && !isExist(err) {
		return err
	}
	f, err := fsys.Open(next+"/moved", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(address))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return inTurn(
		func() error { return fsys.SyncDir(next) },
		func() error { return fsys.Rename(next, namePoison) },
		func() error { return fsys.SyncDir(nameState) },
	)
}
