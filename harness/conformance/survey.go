package conformance

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits of the survey of a working folder.
const (
	maxItems = 1000     // files and folders
	maxBytes = 32 << 20 // of all files that are read, together
)

// item is an entry at a path of the working folder.
type item struct {
	mode fs.FileMode
	size int64
	sum  [sha256.Size]byte // of a file's bytes, or of the target of a link
	head []byte            // beginning of a file, as far as it was read
}

// survey lists a folder and everything beneath it. Links are not followed.
func survey(dir string) (map[string]item, error) {
	items := map[string]item{}
	left := int64(maxBytes)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil && d != nil && d.IsDir() && os.Geteuid() != 0 {
			return nil // the folder cannot be read, so its content is unknown
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil || rel == "." {
			return err
		}
		if len(items) == maxItems {
			return fmt.Errorf("more than %d files in the working folder", maxItems)
		}
		it, err := look(name, d, left)
		left -= int64(len(it.head))
		items[filepath.ToSlash(rel)] = it
		return err
	})
	return items, err
}

// look reads at most most bytes of a file.
func look(name string, d fs.DirEntry, most int64) (item, error) {
	info, err := d.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return item{}, nil
	}
	if err != nil {
		return item{}, err
	}
	it := item{mode: info.Mode()}
	switch it.mode.Type() {
	case fs.ModeSymlink:
		to, err := os.Readlink(name)
		it.sum = sha256.Sum256([]byte(to))
		return it, err
	case 0:
	default:
		return it, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return it, nil // the file cannot be read, so only mode and size are known
	}
	defer f.Close()
	it.size = info.Size()
	if it.head, err = io.ReadAll(io.LimitReader(f, most)); err != nil {
		return it, err
	}
	it.sum = sha256.Sum256(it.head)
	return it, nil
}

// fresh lists the regular files that the call has made, sorted.
func (o observation) fresh() []string {
	return slices.DeleteFunc(o.made(), func(name string) bool {
		entry, ok := o.after[name]
		return !ok || !entry.mode.IsRegular() // made ends the name of a folder with a slash
	})
}

// log returns the path and the bytes of the one file that the call has made. If there is
// no such file, or more than one, the path is empty.
func (o observation) log() (name string, content []byte) {
	list := o.fresh()
	if len(list) != 1 {
		return "", nil
	}
	return list[0], o.after[list[0]].head
}

// made lists all new entries, folders with a slash at the end.
func (o observation) made() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(o.after)) {
		if _, old := o.before[name]; old {
			continue
		}
		if o.after[name].mode.IsDir() {
			name += "/"
		}
		list = append(list, name)
	}
	return list
}

// spoilt lists entries that existed before and have changed. New entries in a folder do
// not count as a change of the folder.
func (o observation) spoilt() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(o.before)) {
		was, is := o.before[name], o.after[name]
		if was.mode != is.mode || was.size != is.size || was.sum != is.sum {
			list = append(list, name)
		}
	}
	return list
}

// logName returns the name of the log without its folder, or "" without a log.
func (o observation) logName() string {
	name, _ := o.log()
	return name[strings.LastIndexByte(name, '/')+1:]
}
