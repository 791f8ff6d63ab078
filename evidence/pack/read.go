package pack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Open reads the pack at a path: a folder, or a gzip-compressed tar archive. An error
// says that neither could be read; it says nothing about a pack.
func Open(name string) (*Pack, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return ReadFolder(name)
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("neither a folder nor an archive")}
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := ReadArchive(f)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return p, nil
}

// ReadFolder reads a pack in a folder.
func ReadFolder(name string) (*Pack, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(MaxEntries + 1)
	_ = dir.Close()
	if err != nil && err != io.EOF {
		return nil, err
	}
	p := &Pack{More: len(names) > MaxEntries}
	for _, name := range names[:min(len(names), MaxEntries)] {
		e, err := readEntry(root, name)
		if err != nil {
			return nil, err
		}
		p.Entries = append(p.Entries, e)
	}
	p.sort()
	return p, nil
}

// readEntry examines one name, and reads it if it is a regular file that a pack can
// have. If the file is replaced meanwhile, the result is an error.
func readEntry(root *os.Root, name string) (Entry, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Name: name, Kind: kindOf(info.Mode()), Size: info.Size()}
	if e.Kind != KindFile || !IsName(name) || e.Size > MaxBytes(name) {
		return e, nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err == nil && (!os.SameFile(info, opened) || !opened.Mode().IsRegular()) {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("changed while it was read")}
	}
	if err != nil {
		return Entry{}, err
	}
	e.Text, e.Size, err = readBounded(f, opened.Size(), MaxBytes(name))
	return e, err
}

// readBounded reads the content of a file. It does not keep bytes beyond the limit. size
// is the expected size. The content is nil if it is over the limit.
func readBounded(r io.Reader, size, limit int64) ([]byte, int64, error) {
	var b bytes.Buffer
	b.Grow(int(min(size, limit)) + bytes.MinRead) // so that the end is found without a larger buffer
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if n > limit {
		return nil, n, nil
	}
	return b.Bytes(), n, err
}

func kindOf(m fs.FileMode) Kind {
	switch {
	case m.IsRegular():
		return KindFile
	case m.IsDir():
		return KindFolder
	case m&fs.ModeSymlink != 0:
		return KindLink
	}
	return KindOther
}

// IsName says whether a pack can have a file of that name.
func IsName(name string) bool { return slices.Contains(Names(), name) }

// maxName is the maximum length of a name in an archive, in bytes: the same as in a
// folder.
const maxName = 255

// ReadArchive reads a pack from a gzip-compressed tar archive. Names in it may begin
// with "./", and an entry for "./" itself is ignored.
func ReadArchive(r io.Reader) (*Pack, error) {
	packed := bufio.NewReader(r)
	z, err := gzip.NewReader(packed)
	switch {
	case err == io.EOF:
		return nil, errors.New("not a gzip archive: it is empty")
	case err == io.ErrUnexpectedEOF:
		return nil, errors.New("not a gzip archive: it is too short for one")
	case err != nil:
		return nil, fmt.Errorf("not a gzip archive: %w", err)
	}
	z.Multistream(false)
	plain := &io.LimitedReader{R: z, N: MaxTotalBytes + 1} // one byte more, so that the end is found
	t := tar.NewReader(plain)
	p := &Pack{}
	at := map[string]int{}
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, archiveError(plain, err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		if len(name) > maxName {
			return nil, fmt.Errorf("the archive is damaged: it has a name of %d bytes", len(name))
		}
		if name == "" && h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag == tar.TypeDir {
			name = path.Clean(name)
		}
		if i, again := at[name]; again {
			p.Entries[i].Twice = true
			continue
		}
		if len(p.Entries) == MaxEntries {
			p.More = true
			break
		}
		e, err := archived(t, h, name)
		if err != nil {
			return nil, archiveError(plain, err)
		}
		at[name] = len(p.Entries)
		p.Entries = append(p.Entries, e)
	}
	p.sort()
	if p.More {
		return p, nil
	}
	if err := ended(plain, packed); err != nil {
		return nil, archiveError(plain, err)
	}
	return p, nil
}

// ended reads an archive to its end, which checks its checksum. It refuses hidden data
// behind the archive.
func ended(plain *io.LimitedReader, packed *bufio.Reader) error {
	block := make([]byte, 32<<10)
	for {
		n, err := plain.Read(block)
		if len(bytes.Trim(block[:n], "\x00")) > 0 {
			return errors.New("more bytes after the last file")
		}
		if err == io.EOF && plain.N > 0 {
			break
		}
		if err != nil {
			return err
		}
	}
	if _, err := packed.ReadByte(); err != io.EOF {
		return errors.New("more bytes after the archive")
	}
	return nil
}

// archiveError says that an archive is over its limit, cut off, or damaged.
func archiveError(plain *io.LimitedReader, err error) error {
	if plain.N <= 0 {
		return fmt.Errorf("the archive unpacks to more than %d bytes", MaxTotalBytes)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the archive is damaged: it ends too early")
	}
	return fmt.Errorf("the archive is damaged: %w", err)
}

// archived returns the entry of a header. It reads the file if a pack can have it and it
// is within its limit.
func archived(t *tar.Reader, h *tar.Header, name string) (Entry, error) {
	e := Entry{Name: name, Kind: KindOther, Size: h.Size}
	switch h.Typeflag {
	case tar.TypeReg:
		e.Kind = KindFile
	case tar.TypeDir:
		e.Kind = KindFolder
	case tar.TypeSymlink, tar.TypeLink:
		e.Kind = KindLink
	}
	if e.Kind != KindFile || !IsName(name) || e.Size > MaxBytes(name) {
		return e, nil
	}
	var err error
	e.Text, e.Size, err = readBounded(t, e.Size, MaxBytes(name))
	return e, err
}
