//go:build !(linux && (amd64 || arm64))

package change

import "io/fs"

// SeenOf returns the Seen of info. On this system it has neither device nor inode.
func SeenOf(info fs.FileInfo) *Seen {
	s := &Seen{Kind: KindOther, Size: info.Size(), ChangedNS: info.ModTime().UnixNano()}
	switch {
	case info.Mode().IsRegular():
		s.Kind = KindFile
	case info.IsDir():
		s.Kind = KindFolder
	case info.Mode()&fs.ModeSymlink != 0:
		s.Kind = KindLink
	}
	return s
}
