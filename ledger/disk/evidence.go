package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// blobName returns the path of a blob.
func blobName(h canon.ContentHash) (string, error) {
	digits := h.Hex()
	if digits == "" {
		return "", fmt.Errorf("%q is no hash", canon.Cut(string(h)))
	}
	return nameEvidence + "/sha256/" + digits[:2] + "/" + digits[2:], nil
}

// Put stores a blob under its hash. The blob is on the disk when Put returns. One sync
// is enough, because journaling file systems (ext4, XFS, Btrfs) make the name durable
// with the content. A read-only blob was synced before. If a blob exists and is still
// writable, another process is about to sync it, and Put syncs it too.
func (l *Log) Put(blob []byte) (ledger.Blob, error) {
	b := ledger.Blob{SHA256: canon.Sum(blob), Size: int64(len(blob))}
	if len(blob) > ledger.MaxBlobBytes {
		return b, fmt.Errorf("evidence of more than %d bytes", ledger.MaxBlobBytes)
	}
	name, err := blobName(b.SHA256)
	if err != nil {
		return b, err
	}
	if f, err := l.files.Open(name, os.O_RDONLY); err == nil {
		good := same(f, blob) && settle(f) == nil
		if err := f.Close(); err != nil || good {
			return b, err
		}
	}
	if err := makeFolders(l.files, name); err != nil {
		return b, err
	}
	return b, l.put(name, blob)
}

// put writes a blob under a temporary name, so that two writers do not collide. Then it
// renames the blob and syncs both.
func (l *Log) put(name string, blob []byte) error {
	next := fmt.Sprintf("%s.%d-%d", name, os.Getpid(), l.puts.Add(1))
	f, err := l.files.Open(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(blob)
	if err == nil {
		err = l.files.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, f.Close(), l.files.Remove(next))
	}
	if err = settle(f); err == nil {
		return f.Close()
	}
	// After a failed sync, another sync would report success, so the blob must not be
	// found.
	is, statErr := f.Stat()
	named, lstatErr := l.files.Lstat(name)
	if statErr == nil && lstatErr == nil && os.SameFile(is, named) {
		err = errors.Join(err, l.files.Remove(name))
	}
	return errors.Join(err, f.Close())
}

// settle syncs a blob, unless its mode says that it was synced.
func settle(f file) error {
	info, err := f.Stat()
	if err != nil || info.Mode().Perm()&0o222 == 0 {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	_ = f.Chmod(info.Mode().Perm() &^ 0o222) // this fails for another user's blob, which is then synced again
	return nil
}

// same says whether a file has exactly this content.
func same(f file, blob []byte) bool {
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(blob)) {
		return false
	}
	has := make([]byte, len(blob))
	if _, err := f.ReadAt(has, 0); ignoreEOF(err) != nil {
		return false
	}
	return bytes.Equal(has, blob)
}

// Blob reads a blob and checks that its content fits its name.
func (l *Log) Blob(b ledger.Blob) ([]byte, error) { return readBlob(l.files, b) }

// readBlob reads a blob. A missing one gives ledger.ErrNoBlob. One of another size or hash than its
// name says gives ledger.ErrBadBlob.
func readBlob(fsys files, b ledger.Blob) ([]byte, error) {
	name, err := blobName(b.SHA256)
	if err != nil {
		return nil, err
	}
	if b.Size > ledger.MaxBlobBytes {
		return nil, ledger.ErrBadBlob
	}
	content, err := readFile(fsys, name, b.Size)
	switch {
	case isNotExist(err):
		return nil, ledger.ErrNoBlob
	case errors.Is(err, errTooLong):
		return nil, ledger.ErrBadBlob
	case err != nil:
		return nil, err
	case canon.Sum(content) != b.SHA256 || int64(len(content)) != b.Size:
		return nil, fmt.Errorf("%w: %s", ledger.ErrBadBlob, b.SHA256)
	}
	return content, nil
}
