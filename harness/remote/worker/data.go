package worker

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/remote/job"
)

// data is data.tar while it is written. Its bytes depend on nothing but the names and contents
// of its entries.
type data struct {
	*durable.File
	w *tar.Writer
}

func newData(root *os.Root) (*data, error) {
	f, err := durable.Create(root, job.DataFile, 0o644)
	if err != nil {
		return nil, err
	}
	return &data{f, tar.NewWriter(f)}, nil
}

// add writes an entry: the file number n of a kind.
func (d *data) add(kind string, n int, size int64, content io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: kind + "/" + strconv.Itoa(n), Mode: 0o644, Size: size, Format: tar.FormatUSTAR}
	if err := d.w.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(d.w, content)
	return err
}

// clear removes all entries.
func (d *data) clear() error {
	_, err := d.Seek(0, io.SeekStart)
	d.w = tar.NewWriter(d.File)
	return errors.Join(err, d.Truncate(0))
}

// finish puts the complete file in its place, where everybody can read it.
func (d *data) finish() error {
	if err := errors.Join(d.w.Close(), d.Chmod(0o644)); err != nil { // whatever the umask is
		return errors.Join(err, d.Abort())
	}
	return d.Replace()
}
