package pack

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"testing"
)

// TestArchiveOfAllBytes: an archive that unpacks to exactly the limit is read, and an
// archive with one block more is refused.
func TestArchiveOfAllBytes(t *testing.T) {
	const most = MaxTotalBytes - 3*tarBlock // header of the entry, and two blocks at the end
	for size, want := range map[int64]string{most: "", most + 1: "the archive unpacks to more than 268435456 bytes"} {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(zeros(w, size)) }()
		p, err := ReadArchive(r)
		switch {
		case want == "" && (err != nil || len(p.Entries) != 1 || p.Entries[0].Size != size):
			t.Errorf("%d bytes: %v", size, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%d bytes: %v", size, err)
		}
		_ = r.Close()
	}
}

// zeros writes an archive of one file of zeros. No pack has such a file.
func zeros(w io.Writer, size int64) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	if err := t.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for left := size; left > 0; left -= min(left, int64(len(block))) {
		if _, err := t.Write(block[:min(left, int64(len(block)))]); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}
