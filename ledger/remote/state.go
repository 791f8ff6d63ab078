package remote

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/ledger"
)

// state is the folder that remembers what a log has promised, by the log's key:
//
//	seen/SIZE           checkpoints that were verified; all but the newest may go
//	acks/INDEX          acks that no verified checkpoint covers yet
//	against/SIZE-HASH   notes that contradict a remembered one
//	checkpoints/SIZE    pinned checkpoints
//	tile/…              full tiles and full bundles of entries, verified
//
// Files but pins are added and removed, and never changed, so that processes need no lock.
type state struct {
	root *os.Root
	name string
}

// The folders of a state.
const (
	seenFolder    = "seen"
	acksFolder    = "acks"
	againstFolder = "against"
)

// openState opens the folder for the log of a key, and makes it.
func openState(dir string, key ledger.Verifier) (*state, error) {
	sum := sha256.Sum256([]byte(key.String()))
	name := filepath.Join(dir, hex.EncodeToString(sum[:16]))
	for _, sub := range []string{seenFolder, acksFolder, againstFolder, ledger.PinFolder} {
		if err := os.MkdirAll(filepath.Join(name, sub), 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(name)
	return &state{root, name}, err
}

func (s *state) close() error { return s.root.Close() }

// numbered returns the numbers that name the files of a folder, ascending.
func (s *state) numbered(folder string) ([]int64, error) {
	f, err := s.root.Open(folder)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var list []int64
	for _, name := range names {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= 0 && strconv.FormatInt(n, 10) == name {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}

// read reads a file of at most most bytes.
func (s *state) read(name string, most int64) ([]byte, error) {
	f, err := s.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err = errors.Join(err, f.Close()); err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: more than %d bytes", name, most)
	}
	return b, err
}

// keep adds a file, durably. Another process may have added the same file; if it has another
// content, the error is errDiffers.
func (s *state) keep(name string, text []byte) error {
	for {
		err := durable.Write(s.root, filepath.FromSlash(name), text, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		has, err := s.read(name, ledger.MaxCheckpointBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has just removed it
		}
		if err == nil && !bytes.Equal(has, text) {
			err = errDiffers
		}
		return err
	}
}

var errDiffers = errors.New("another note is remembered")

// replace puts a file in its place, durably.
func (s *state) replace(name string, text []byte) error {
	return durable.Replace(s.root, filepath.FromSlash(name), text, 0o600)
}

// cache adds a file that can be fetched again: it is not synced, and an error means that it
// is fetched again.
func (s *state) cache(name string, text []byte) {
	name = filepath.FromSlash(name)
	next := name + "." + rand.Text()
	if s.root.MkdirAll(filepath.Dir(name), 0o700) == nil && s.root.WriteFile(next, text, 0o600) == nil {
		_ = s.root.Rename(next, name)
	}
}

// forget removes the numbered files of a folder below a number.
func (s *state) forget(folder string, below int64) {
	list, _ := s.numbered(folder)
	for _, n := range list {
		if n < below {
			_ = s.root.Remove(filepath.Join(folder, strconv.FormatInt(n, 10)))
		}
	}
}

func numberedName(folder string, n int64) string { return path.Join(folder, strconv.FormatInt(n, 10)) }

// contradiction keeps a note that contradicts a remembered one, and returns the error with
// the names of both. An error of another kind is no contradiction.
func (s *state) contradiction(err error, remembered string, size int64, note []byte) error {
	if !ledger.Broken(err) {
		return err
	}
	sum := sha256.Sum256(note)
	name := path.Join(againstFolder, strconv.FormatInt(size, 10)+"-"+hex.EncodeToString(sum[:4]))
	if _, missing := s.root.Stat(name); errors.Is(missing, fs.ErrNotExist) {
		if failed := s.keep(name, note); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return fmt.Errorf("%w; both signed notes are kept in the state folder, in ledgers/%s: %s and %s", err, filepath.Base(s.name), remembered, name)
}
