package receipt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Op says what happened at a path.
type Op string

// The operations.
const (
	Create Op = "create"
	Modify Op = "modify"
	Delete Op = "delete"
)

// Artifact is one file or link in which two states differ.
type Artifact struct {
	Path   string `json:"path"`
	Op     Op     `json:"op"`
	Mode   Mode   `json:"mode"`             // in the later state; of a deleted entry, in the earlier one
	Before string `json:"before,omitempty"` // hash in the earlier state; "": there was no entry
	After  string `json:"after,omitempty"`  // hash in the later state; "": there is no entry
}

// Nodes is the source of a state's nodes, and takes new ones.
type Nodes interface {
	Node(h Hash) ([]byte, error) // the text of a node
	Put(h Hash, text []byte)     // a node of the later state
}

// After returns the hash of the state that an earlier state becomes by the artifacts. Every
// artifact must fit: what it replaces or deletes is there, with that hash, and what it creates
// is not. After reads the nodes on the way to the artifacts alone.
func After(nodes Nodes, before Hash, list []Artifact) (Hash, error) {
	top := &edit{}
	for i := range list {
		if err := top.add(&list[i]); err != nil {
			return Hash{}, err
		}
	}
	e, err := top.folder(nodes, ".", Entry{Mode: Folder, Hash: before})
	if err != nil || e.Mode != "" {
		return e.Hash, err
	}
	text := Node(nil)
	nodes.Put(Sum(text), text)
	return Sum(text), nil
}

// edit is what happens at one path and beneath it.
type edit struct {
	leaf *Artifact
	sub  map[string]*edit
}

func (e *edit) add(a *Artifact) error {
	for name := range strings.SplitSeq(a.Path, "/") {
		if !IsName(name) {
			return fmt.Errorf("%q is no path of a state", a.Path)
		}
		if e.sub == nil {
			e.sub = map[string]*edit{}
		}
		if e.sub[name] == nil {
			e.sub[name] = &edit{}
		}
		e = e.sub[name]
	}
	if e.leaf != nil {
		return fmt.Errorf("%q is there twice", a.Path)
	}
	e.leaf = a
	return nil
}

// folder returns the later entry of a folder, which has no mode if the folder is gone. The
// earlier entry may be no folder: then everything beneath is new.
func (e *edit) folder(nodes Nodes, at string, was Entry) (Entry, error) {
	var children []Entry
	if was.Mode == Folder {
		text, err := nodes.Node(was.Hash)
		if err != nil {
			return Entry{}, fmt.Errorf("the node of folder %q: %w", at, err)
		}
		if Sum(text) != was.Hash {
			return Entry{}, fmt.Errorf("the node of folder %q has another hash", at)
		}
		if children, err = ReadNode(text); err != nil {
			return Entry{}, fmt.Errorf("folder %q: %w", at, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.sub)) {
		i, found := slices.BinarySearchFunc(children, name, func(c Entry, name string) int { return strings.Compare(c.Name, name) })
		var child Entry
		if found {
			child = children[i]
		}
		now, err := e.sub[name].entry(nodes, strings.TrimPrefix(at+"/"+name, "./"), child)
		switch {
		case err != nil:
			return Entry{}, err
		case now.Mode == "" && found:
			children = slices.Delete(children, i, i+1)
		case now.Mode != "" && found:
			children[i] = now
		case now.Mode != "":
			children = slices.Insert(children, i, now)
		}
		if now.Mode != "" {
			children[i].Name = name
		}
	}
	if len(children) == 0 {
		return Entry{}, nil
	}
	text := Node(children)
	h := Sum(text)
	if h != was.Hash {
		nodes.Put(h, text)
	}
	return Entry{Mode: Folder, Hash: h}, nil
}

// entry returns the later entry at a path.
func (e *edit) entry(nodes Nodes, at string, was Entry) (Entry, error) {
	a := e.leaf
	stands := was.Mode == File || was.Mode == Executable || was.Mode == Link
	if a != nil && a.Before != "" && (!stands || was.Hash.String() != a.Before) {
		return Entry{}, fmt.Errorf("%q: the earlier state has another entry there", at)
	}
	if stands && (a == nil || a.Before == "") {
		return Entry{}, fmt.Errorf("%q: the earlier state has a file there", at)
	}
	now := was
	if stands {
		now = Entry{}
	}
	if len(e.sub) > 0 {
		var err error
		if now, err = e.folder(nodes, at, now); err != nil {
			return Entry{}, err
		}
	}
	if a == nil {
		return now, nil
	}
	if err := a.check(was.Mode); err != nil {
		return Entry{}, fmt.Errorf("%q: %w", at, err)
	}
	if a.Op == Delete {
		return now, nil
	}
	if now.Mode != "" {
		return Entry{}, fmt.Errorf("%q: a folder that is not empty is there", at)
	}
	h, err := ParseHash(a.After)
	return Entry{Mode: a.Mode, Hash: h}, err
}

// check says whether the members of an artifact go together, and with the earlier mode.
func (a *Artifact) check(was Mode) error {
	mode := a.Mode == File || a.Mode == Executable || a.Mode == Link
	op := map[Op][2]bool{Create: {false, true}, Modify: {true, true}, Delete: {true, false}}
	want, known := op[a.Op]
	switch {
	case !mode || !known || want != [2]bool{a.Before != "", a.After != ""}:
		return errors.New("the members of the artifact do not go together")
	case a.Op == Delete && a.Mode != was:
		return errors.New("the earlier state has another mode there")
	case a.Before == a.After && a.Mode == was:
		return errors.New("nothing changes there")
	}
	return nil
}
