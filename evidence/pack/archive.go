package pack

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"
)

// archiveLevel is the compression level of an archive: gzip's default.
const archiveLevel = 6

// ErrNotWhole is wrapped by errors about a pack that has other entries than its files,
// or a file that was not read.
var ErrNotWhole = errors.New("not a whole pack")

// WriteArchive writes the pack as a gzip-compressed tar archive. ReadArchive reads it as
// the same pack.
//
// The archive depends on the files alone. Each file is one entry in the ustar format,
// sorted by name, with mode 0644, user and group 0 without names, and time 0. There are
// no other entries. The gzip header has no name, no time and no system. One version of
// this program writes the same bytes on every machine. Another version may compress
// differently; the bytes of the tar archive inside are the same for all versions.
//
// Every entry of the pack must be a file that was read; else the error wraps
// ErrNotWhole.
func (p *Pack) WriteArchive(w io.Writer) error {
	if err := p.Whole(); err != nil {
		return err
	}
	size := int64(2 * tarBlock)
	for _, e := range p.Entries {
		size += tarBlock + (int64(len(e.Text))+tarBlock-1)/tarBlock*tarBlock
	}
	if size > MaxTotalBytes {
		return fmt.Errorf("%w: an archive of it would unpack to more than %d bytes", ErrNotWhole, MaxTotalBytes)
	}
	z, err := gzip.NewWriterLevel(w, archiveLevel)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	for _, e := range p.Entries {
		err := t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: e.Name, Size: int64(len(e.Text)), Mode: 0o644,
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = t.Write(e.Text)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// tarBlock is the block size of a tar archive, in bytes.
const tarBlock = 512

// Whole returns an error unless all entries are files of a pack that were read.
func (p *Pack) Whole() error {
	for _, e := range p.Entries {
		if why := e.Unfit(); why != "" {
			return fmt.Errorf("%w: %s %s", ErrNotWhole, Quoted(e.Name), why)
		}
	}
	if p.More {
		return fmt.Errorf("%w: it has %s", ErrNotWhole, MoreEntries())
	}
	return nil
}

// MoreEntries is the fault of a pack with names that were not read.
func MoreEntries() string { return fmt.Sprintf("more than %d names", MaxEntries) }

// Unfit says why an entry is not a file of a pack that was read, or returns "".
func (e Entry) Unfit() string {
	switch {
	case !IsName(e.Name):
		return "is no file of a pack"
	case e.Kind != KindFile:
		return "is no regular file"
	case e.Twice:
		return "stands in the archive more than once"
	case e.Text == nil:
		return fmt.Sprintf("has more than %d bytes", MaxBytes(e.Name))
	}
	return ""
}
