package settings

import (
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

// Edit is one change of a document: an [Entry] or a [Wrap].
type Edit interface {
	// apply puts the edit in. A document that has the edit stays as it is.
	apply(document) document
	// remove takes the edit out. A document without the edit stays as it is.
	remove(document) document
}

// Entry is an element of an array, or a member of an object.
type Entry struct {
	Path  []string // names of members, from the root to the array or object; what is missing of it is made
	Name  string   // of the member; empty: the entry is the last element
	Value any      // as canon.Canonical takes it; Remove needs it only where Ours is nil

	// Ours says whether a decoded value is Fiador's, of other versions too. One such value
	// stays after Apply, and none after Remove. Nil, for a member: Apply keeps what stands
	// there, and Remove leaves it, unless nothing but the old file is left besides.
	Ours func(value any) bool
}

// find returns the values that are Fiador's, and the places of elements among them. The
// error says that the entry has no place in the document.
func (e Entry) find(d document) (values []any, places []int, err error) {
	depth, at, err := d.walk(e.Path)
	if err != nil || depth < len(e.Path) {
		return nil, nil, err
	}
	list, isList := at.([]any)
	members, isObject := at.(map[string]any)
	switch {
	case e.Name == "" && !isList:
		return nil, nil, d.refuse("an array must stand here", e.Path...)
	case e.Name != "" && !isObject:
		return nil, nil, d.refuse("an object must stand here", e.Path...)
	}
	for i, v := range list {
		if e.Ours(v) {
			values, places = append(values, v), append(places, i)
		}
	}
	if v, there := members[e.Name]; there && e.Ours != nil && !e.Ours(v) {
		return nil, nil, d.refuse("a member that is not Fiador's has this name", under(e.Path, e.Name)...)
	} else if there {
		values, places = []any{v}, []int{0}
	}
	return values, places, nil
}

func (e Entry) apply(d document) document {
	text, err := canon.Canonical(e.Value)
	if err != nil {
		return d.failed(err)
	}
	value := parse(string(text))
	mine, _, err := e.find(d)
	switch {
	case err != nil || value.err != nil:
		return d.failed(err).failed(value.err)
	case len(mine) == 1 && (e.Ours == nil || equal(mine[0], value.value)):
		return d
	case len(mine) > 0:
		d = e.remove(d)
	}
	depth, _, err := d.walk(e.Path)
	if err != nil || depth == len(e.Path) {
		return d.failed(err).insert(e.Path, e.Name, false, value.value)
	}
	whole := any([]any{value.value})
	if e.Name != "" {
		whole = map[string]any{e.Name: value.value}
	}
	for _, name := range slices.Backward(e.Path[depth+1:]) {
		whole = map[string]any{name: whole}
	}
	return d.insert(e.Path[:depth], e.Path[depth], false, whole)
}

func (e Entry) remove(d document) document {
	if e.Ours == nil {
		return d
	}
	_, places, _ := e.find(d) // where the entry has no place, nothing is Fiador's
	for _, i := range slices.Backward(places) {
		d = d.cut(e.Path, e.Name, i, 1)
	}
	return d
}

// Wrap puts a command in front of the command of an object. The object has the members
// command, a string, and args, an array of strings that may be missing. The old command
// follows the new arguments, and its own arguments follow it.
type Wrap struct {
	Path    []string // names of members, from the root to the object
	Command string
	Args    []string
	Ours    func(command string, args []string) int // how many are Fiador's, before the old command; -1: not wrapped
}

const commandName, argsName = "command", "args"

// under returns the path of a member.
func under(path []string, name string) []string { return append(slices.Clone(path), name) }

// find returns the command, its arguments, and how many of them are Fiador's, or -1.
func (w Wrap) find(d document) (command string, args []string, ours int, err error) {
	depth, at, err := d.walk(w.Path)
	members, _ := at.(map[string]any)
	command, ok := members[commandName].(string)
	if err != nil || depth < len(w.Path) || !ok {
		return "", nil, -1, d.refuse("an object with the text \"command\" must stand here", w.Path...)
	}
	there, hasArgs := members[argsName]
	list, ok := there.([]any)
	for _, one := range list {
		arg, isText := one.(string)
		args, ok = append(args, arg), ok && isText
	}
	if hasArgs && !ok {
		return "", nil, -1, d.refuse("an array of texts must stand here", under(w.Path, argsName)...)
	}
	if ours = w.Ours(command, args); ours >= len(args) {
		ours = -1 // no command follows
	}
	return command, args, ours, nil
}

func (w Wrap) apply(d document) document {
	command, args, ours, err := w.find(d)
	switch {
	case err != nil:
		return d.failed(err)
	case ours >= 0 && command == w.Command && slices.Equal(args[:ours], w.Args):
		return d
	case ours >= 0:
		command, d = args[ours], w.remove(d)
	}
	first := canon.List(append(slices.Clone(w.Args), command))
	at := under(w.Path, argsName)
	if depth, _, _ := d.walk(at); depth == len(at) {
		d = d.insert(at, "", true, first...)
	} else {
		d = d.insert(w.Path, argsName, false, first)
	}
	return d.set(under(w.Path, commandName), w.Command)
}

func (w Wrap) remove(d document) document {
	_, args, ours, err := w.find(d)
	if err != nil || ours < 0 {
		return d
	}
	return d.cut(under(w.Path, argsName), "", 0, ours+1).set(under(w.Path, commandName), args[ours])
}
