package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/change"
)

// Store is a folder with objects of states, and the index of one tree:
//
//	index
//	objects/ab/cdef…   a file, a link's target or a node; its name is its hash
//	incoming           objects that are not kept yet
//
// Every object is held against its hash when it is read.
type Store struct {
	root  *os.Root
	index *Index                  // nil: no folder was read yet
	nodes map[receipt.Hash][]byte // of folders that State has read
}

// OpenStore opens the store in a folder, which it makes if it is missing.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	return &Store{root: root, nodes: map[receipt.Hash][]byte{}}, err
}

// Close writes the index, and closes the folder.
func (s *Store) Close() error { return errors.Join(s.index.write(s.root), s.root.Close()) }

// State returns the state of a folder. It reads the files that the index does not know, and
// keeps none of them. Diff knows the state until the store is closed.
func (s *Store) State(ctx context.Context, dir string, now time.Time) (State, error) {
	return s.StateOf(ctx, dir, Options{Now: now})
}

// StateOf is State with options.
func (s *Store) StateOf(ctx context.Context, dir string, o Options) (State, error) {
	o.Nodes = s.nodes
	return s.scan(ctx, dir, o)
}

// Freeze is State, and keeps every object of the state.
func (s *Store) Freeze(ctx context.Context, dir string, now time.Time) (state State, err error) {
	b, err := s.begin(ctx)
	if err != nil {
		return State{}, err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	if state, err = s.scan(ctx, dir, Options{Now: now, Sink: b}); err != nil {
		return state, err
	}
	return state, b.commit()
}

// Keep keeps objects. All are durable when Keep returns without an error.
func (s *Store) Keep(ctx context.Context, objects func(Sink) error) (err error) {
	b, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	if err = objects(b); err != nil {
		return err
	}
	return b.commit()
}

// Folder is the folder of the store.
func (s *Store) Folder() *os.Root { return s.root }

// Node returns the text of a node that State has read, or that the store has.
func (s *Store) Node(h receipt.Hash) ([]byte, error) {
	if text := s.nodes[h]; text != nil {
		return text, nil
	}
	return s.read(h, maxNode)
}

// Put makes a node known until the store is closed. It is not kept.
func (s *Store) Put(h receipt.Hash, text []byte) { s.nodes[h] = text }

// Entry returns the entry that a state has at a path. It has no mode if there is none.
func (s *Store) Entry(state receipt.Hash, name string) (receipt.Entry, error) {
	e := receipt.Entry{Mode: receipt.Folder, Hash: state}
	for part := range strings.SplitSeq(name, "/") {
		if e.Mode != receipt.Folder {
			return receipt.Entry{}, nil
		}
		list, err := s.node(e.Hash)
		if err != nil {
			return receipt.Entry{}, err
		}
		i := slices.IndexFunc(list, func(c receipt.Entry) bool { return c.Name == part })
		if i < 0 {
			return receipt.Entry{}, nil
		}
		e = list[i]
	}
	return e, nil
}

func (s *Store) scan(ctx context.Context, dir string, o Options) (State, error) {
	if s.index == nil {
		var err error
		if s.index, err = readIndex(s.root); err != nil {
			return State{}, err
		}
	}
	o.Index = s.index
	state, err := Scan(ctx, dir, o)
	if err != nil {
		return State{}, err
	}
	s.index.next()
	return state, nil
}

func objectName(h receipt.Hash) string { return "objects/" + h.Hex()[:2] + "/" + h.Hex()[2:] }

// ErrOther is wrapped in the error of a sink: the bytes of an object are not those of its hash.
var ErrOther = errors.New("the bytes are others than those of the hash")

// ErrMissing is wrapped in the error for an object that the store does not have.
var ErrMissing = errors.New("the store does not have it: freeze a state before it is needed")

// open opens an object. Its bytes are not checked.
func (s *Store) open(h receipt.Hash) (io.ReadCloser, error) {
	f, err := OpenFile(s.root, objectName(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("object %s: %w", h, ErrMissing)
	}
	return f, err
}

// ErrDamaged is wrapped in the error for an object whose bytes are not those of its hash.
var ErrDamaged = errors.New("the store's bytes are others than those of the hash")

func damaged(h receipt.Hash) error {
	return fmt.Errorf("object %s (%s): %w", h, objectName(h), ErrDamaged)
}

// read returns an object of at most a number of bytes.
func (s *Store) read(h receipt.Hash, most int64) ([]byte, error) {
	f, err := s.open(h)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text bytes.Buffer
	if got, n, err := receipt.Copy(&text, io.LimitReader(f, most+1)); err != nil || n > most || got != h {
		return nil, errors.Join(err, damaged(h))
	}
	return text.Bytes(), nil
}

// maxNode is the size of the largest node: every file of a state in one folder.
const maxNode = MaxFiles * (73 + 256)

// node returns the entries of a folder.
func (s *Store) node(h receipt.Hash) ([]receipt.Entry, error) {
	text, err := s.Node(h)
	if err != nil {
		return nil, err
	}
	list, err := receipt.ReadNode(text)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", h, err)
	}
	return list, nil
}

// Difference is a path at which two states differ. Before or After has no mode if the state
// has nothing there. A folder differs only where the other state has no folder.
type Difference struct {
	Path          string
	Before, After receipt.Entry
}

// Diff returns the differences of two states whose nodes the store has, in the order of their
// paths' bytes, segment by segment.
func (s *Store) Diff(ctx context.Context, before, after receipt.Hash) ([]Difference, error) {
	var list []Difference
	top := func(h receipt.Hash) receipt.Entry { return receipt.Entry{Mode: receipt.Folder, Hash: h} }
	err := s.diff(ctx, "", top(before), top(after), &list)
	return list, err
}

func (s *Store) diff(ctx context.Context, at string, a, b receipt.Entry, list *[]Difference) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if a.Mode == b.Mode && a.Hash == b.Hash {
		return nil
	}
	if at != "" && (a.Mode != receipt.Folder || b.Mode != receipt.Folder) {
		*list = append(*list, Difference{at, a, b})
	}
	if len(*list) > 2*MaxFiles || len(at) > change.MaxPath {
		return errors.New("the states are larger than a state can be")
	}
	names, sides := map[string]bool{}, [2]map[string]receipt.Entry{{}, {}}
	for i, e := range []receipt.Entry{a, b} {
		if e.Mode != receipt.Folder {
			continue
		}
		children, err := s.node(e.Hash)
		if err != nil {
			return err
		}
		for _, c := range children {
			names[c.Name], sides[i][c.Name] = true, c
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := s.diff(ctx, path.Join(at, name), sides[0][name], sides[1][name], list); err != nil {
			return err
		}
	}
	return nil
}
