package tree

import (
	"os"
	"path/filepath"
	"strconv"
)

// RemoveAll removes a folder. It also works where the owner has no permission to read parts
// of it, and where the folder is deeper than the number of descriptors.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	if os.Geteuid() != 0 { // root needs no permission, and must not change any
		_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(p, 0o700)
			}
			return nil
		})
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	if flatten(dir) != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// flatten moves deep folders to the top of dir until no folder is deep.
func flatten(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for n := 0; ; {
		moved := 0
		top, err := folders(root, ".")
		if err != nil {
			return err
		}
		for _, a := range top {
			below, err := folders(root, a)
			if err != nil {
				return err
			}
			for _, b := range below {
				for err = error(os.ErrExist); err != nil && n < 1<<20; n++ {
					err = root.Rename(filepath.Join(a, b), ".flat-"+strconv.Itoa(n))
				}
				if err != nil {
					return err
				}
				moved++
			}
			if err := root.RemoveAll(a); err != nil {
				return err
			}
		}
		if moved == 0 {
			return nil
		}
	}
}

func folders(root *os.Root, name string) ([]string, error) {
	_ = root.Chmod(name, 0o700)
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	var list []string
	for _, e := range entries {
		if e.IsDir() {
			list = append(list, e.Name())
		}
	}
	return list, err
}
