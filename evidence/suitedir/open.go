package suitedir

import (
	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/kernel/trial/verify"
)

// Opened is a version directory that was opened by its path, with the names of what is in it.
type Opened struct {
	*Dir
	Files  *asset.Files
	Names  []string // regular files
	others []verify.Entry
}

// Open opens the version directory at a path.
func Open(path string) (*Opened, error) {
	files, err := asset.Open(path)
	if err != nil {
		return nil, err
	}
	names, others, err := files.Names()
	if err != nil {
		_ = files.Close()
		return nil, err
	}
	return &Opened{New(files), files, names, others}, nil
}

// Close closes the directory.
func (o *Opened) Close() error { return o.Files.Close() }

// Verify checks the directory. The error says that a file cannot be read.
func (o *Opened) Verify() (verify.Verdict, error) { return o.Dir.Verify(o.Names, o.others) }
