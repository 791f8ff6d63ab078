package main

import (
	"flag"
	"fmt"
	"path/filepath"

	"github.com/fiador/fiador/cmd/fiador-ledgerd/storage"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// where names a log: its storage, its origin and the file with its key. Every command that
// opens a log has these flags.
type where struct {
	posix, mysql, s3, origin, key string
}

func (w *where) flags(flags *flag.FlagSet) {
	flags.StringVar(&w.posix, "posix", "", "")
	flags.StringVar(&w.mysql, "mysql", "", "")
	flags.StringVar(&w.s3, "s3", "", "")
	flags.StringVar(&w.origin, "origin", "", "")
	flags.StringVar(&w.key, "key", "", "")
}

// signer reads a key of the log.
func (w where) signer(file string) (*ledger.Signer, error) {
	s, err := disk.ReadKey(file)
	if err == nil && s.Origin() != w.origin {
		err = fmt.Errorf("the key is one of the log %q, and --origin is %q", s.Origin(), w.origin)
	}
	return s, err
}

// open opens the storage, and makes it if it is new.
func (w where) open(id storage.Identity, log *printer) (storage.Storage, error) {
	return w.storage(id, log, storage.OpenPosix, storage.OpenDatabase)
}

// look opens the storage of a log that is there.
func (w where) look(id storage.Identity, log *printer) (storage.Storage, error) {
	return w.storage(id, log, storage.LookPosix, storage.LookDatabase)
}

// storage opens the storage that is named. Lines of log do not show its path.
func (w where) storage(id storage.Identity, log *printer, posix func(string, storage.Identity) (*storage.Posix, error), database func(dsn, s3 string, id storage.Identity) (*storage.Database, error)) (storage.Storage, error) {
	switch {
	case (w.posix == "") == (w.mysql == ""):
		return nil, fmt.Errorf("%w: name one storage, --posix DIR or --mysql DSN --s3 URL", errUsage)
	case (w.mysql == "") != (w.s3 == ""):
		return nil, fmt.Errorf("%w: --mysql and --s3 come together", errUsage)
	case w.mysql != "":
		return database(w.mysql, w.s3, id)
	}
	if dir, err := filepath.Abs(w.posix); err == nil {
		log.hide(dir)
	}
	return posix(w.posix, id)
}
