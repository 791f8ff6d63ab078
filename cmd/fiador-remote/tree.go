package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

// input is one line of the root list. Folders follow from the paths.
type input struct {
	Path       string `json:"path"`
	SHA256     string `json:"sha256"`
	Size       int64  `json:"size"`
	Executable bool   `json:"executable"`
	Source     string `json:"source"` // the absolute path of the bytes
}

// digest is a Digest that can be a key.
type digest struct {
	hash string
	size int64
}

func (d digest) proto() *repb.Digest { return &repb.Digest{Hash: d.hash, SizeBytes: d.size} }

func digestOf(data []byte) digest {
	sum := sha256.Sum256(data)
	return digest{hex.EncodeToString(sum[:]), int64(len(data))}
}

// blob is what stands behind a digest: data, or the file source, which is the input path.
type blob struct {
	data         []byte
	source, path string
}

type blobs map[digest]blob

// add puts a message among the blobs.
func (b blobs) add(m proto.Message) digest {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // only text that is not UTF-8 fails, and requests have none
	}
	d := digestOf(data)
	b[d] = blob{data: data}
	return d
}

// addTree reads the root list in file and adds its files and Directory messages. It returns
// the digest of the root.
func (b blobs) addTree(file string) (digest, error) {
	f, err := os.Open(file)
	if err != nil {
		return digest{}, err
	}
	defer f.Close()
	inputs, err := readInputs(f)
	if err != nil {
		return digest{}, fmt.Errorf("root list %s: %w", file, err)
	}
	sizes := make(map[string]int64, len(inputs))
	for _, in := range inputs {
		if size, ok := sizes[in.SHA256]; ok && size != in.Size {
			return digest{}, fmt.Errorf("root list %s: %q has a size that another file of its hash has not", file, in.Path)
		}
		sizes[in.SHA256] = in.Size
		b[digest{in.SHA256, in.Size}] = blob{source: in.Source, path: in.Path}
	}
	return b.directories(inputs), nil
}

// readInputs reads a root list and sorts it so that the files of a folder are together.
func readInputs(r io.Reader) ([]input, error) {
	var inputs []input
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scan.Scan() {
		var in input
		if err := strict(scan.Bytes(), &in); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(inputs)+1, err)
		}
		if err := in.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(inputs)+1, err)
		}
		inputs = append(inputs, in)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(inputs, func(a, b input) int { return comparePaths(a.Path, b.Path) })
	for i := 1; i < len(inputs); i++ {
		if before, p := inputs[i-1].Path, inputs[i].Path; p == before || strings.HasPrefix(p, before+"/") {
			return nil, fmt.Errorf("%q and %q cannot both be files", before, p)
		}
	}
	return inputs, nil
}

func (in *input) check() error {
	if err := checkPath(in.Path); err != nil {
		return err
	}
	if !isHash(in.SHA256) || in.Size < 0 {
		return fmt.Errorf("%q has no valid digest", in.Path)
	}
	if !filepath.IsAbs(in.Source) {
		return fmt.Errorf("%q has a source that is not an absolute path", in.Path)
	}
	return nil
}

// checkPath refuses what is not a clean path below a root, and what no system would open.
func checkPath(p string) error {
	if len(p) > 4096 {
		return fmt.Errorf("a path has more than 4096 bytes: %.40q", p)
	}
	if p == "" || p == "." || p == ".." || path.Clean(p) != p || p[0] == '/' || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not a clean relative path", p)
	}
	return nil
}

func isHash(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// comparePaths orders by names, and names by bytes, as Directory messages have to be.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// directories adds the Directory messages of inputs, which are sorted, and returns the
// root's digest. Only the folders on the way to the present file are open.
func (b blobs) directories(inputs []input) digest {
	open := []*repb.Directory{{}}
	var names []string // of open[1:]
	closeTo := func(depth int) {
		for len(names) > depth {
			last := len(names)
			node := &repb.DirectoryNode{Name: names[last-1], Digest: b.add(open[last]).proto()}
			open, names = open[:last], names[:last-1]
			open[last-1].Directories = append(open[last-1].Directories, node)
		}
	}
	for _, in := range inputs {
		parts := strings.Split(in.Path, "/")
		folder, name := parts[:len(parts)-1], parts[len(parts)-1]
		common := 0
		for common < len(names) && common < len(folder) && names[common] == folder[common] {
			common++
		}
		closeTo(common)
		for _, n := range folder[common:] {
			open, names = append(open, &repb.Directory{}), append(names, n)
		}
		last := open[len(open)-1]
		last.Files = append(last.Files, &repb.FileNode{
			Name: name, Digest: digest{in.SHA256, in.Size}.proto(), IsExecutable: in.Executable,
		})
	}
	closeTo(0)
	return b.add(open[0])
}

// reader opens the bytes of a blob. A source has to be a regular file, not a link to one.
func (b blob) reader() (io.ReadCloser, error) {
	if b.source == "" {
		return io.NopCloser(bytes.NewReader(b.data)), nil
	}
	before, err := os.Lstat(b.source)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(b.source)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = errors.New("it was replaced")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
