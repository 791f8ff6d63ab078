package pack

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"
)

// archiveLevel is the level of compression of an archive: that of gzip where it is not
// told another.
const archiveLevel = 6

// ErrNotWhole is what errors about packs wrap that have something else than their files,
// or a file that was not read.
var ErrNotWhole = errors.New("not a whole pack")

// WriteArchive writes the pack as a gzip-compressed tar archive, which ReadArchive reads
// as the same pack.
//
// The archive depends on the files alone: each is one entry in the ustar format, by
// name, of mode 0644, of user and group 0 without names, of the time 0; nothing else is
// an entry; the gzip header has no name, no time and no system. One version of this
// program writes the same bytes on every machine. Another version may compress
// otherwise: the bytes of the tar archive inside are the same for all.
//
// Only a pack whose every entry is a file that was read has an archive; else the error
// wraps ErrNotWhole.
func (p *Pack) WriteArchive(w io.Writer) error {
	if err := p.whole(); err != nil {
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

// tarBlock is what the parts of a tar archive are multiples of, in bytes.
const tarBlock = 512

// whole says whether the entries are files of a pack that were read, and no others.
func (p *Pack) whole() error {
	for _, e := range p.Entries {
		if why := e.unfit(); why != "" {
			return fmt.Errorf("%w: %s %s", ErrNotWhole, quoted(e.Name), why)
		}
	}
	if p.More {
		return fmt.Errorf("%w: it has %s", ErrNotWhole, moreEntries)
	}
	return nil
}

// moreEntries is what is wrong with a pack of which not every name was looked at.
var moreEntries = fmt.Sprintf("more than %d names", MaxEntries)

// unfit says why an entry is not a file of a pack that was read, and nothing of one
// that is.
func (e Entry) unfit() string {
	switch {
	case !known(e.Name):
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
