package asset

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/fiador/fiador/kernel/trial"
)

// put puts a text in its place: it syncs a temporary file, and renames it.
func (d *Dir) put(name string, text []byte) error {
	temp := path.Join(path.Dir(name), tempPrefix+strconv.FormatInt(d.temps.Add(1), 10))
	f, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return at(name, err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.root.Rename(temp, name)
	}
	if err != nil {
		return at(name, errors.Join(err, d.root.Remove(temp)))
	}
	if strings.HasPrefix(name, trial.AssetsFolder+"/") {
		d.fresh.Store(true)
	}
	return nil
}

// syncAssets makes the names of all assets durable. A goroutine that waits for another one to sync
// them has nothing left to do.
func (d *Dir) syncAssets() error {
	d.syncing.Lock()
	defer d.syncing.Unlock()
	if !d.fresh.Swap(false) {
		return nil
	}
	err := syncFolder(d.root, trial.AssetsFolder)
	if err != nil {
		d.fresh.Store(true)
	}
	return at(trial.AssetsFolder, err)
}

// makeFolder makes a folder. If something stands there, the error is exists, or nil.
func makeFolder(root *os.Root, name string, exists error) error {
	err := root.Mkdir(name, 0o777)
	if errors.Is(err, fs.ErrExist) {
		return exists
	}
	return err
}

// syncFolder makes the names in a folder durable, where folders can be synced.
func syncFolder(root *os.Root, name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // a file system that syncs no folders
	}
	return errors.Join(err, f.Close())
}
