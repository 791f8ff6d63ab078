package receipt

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
)

// leaf is a file or a link of a tree.
type leaf struct {
	mode Mode
	text string
}

// tree has files and links by path, none beneath another.
type tree map[string]leaf

// put puts a leaf into a tree. What stands above and beneath it goes.
func (t tree) put(name string, l leaf) {
	t.remove(name)
	for up := path.Dir(name); up != "."; up = path.Dir(up) {
		delete(t, up)
	}
	t[name] = l
}

// remove removes a path with all that is beneath it.
func (t tree) remove(name string) {
	maps.DeleteFunc(t, func(p string, _ leaf) bool { return p == name || strings.HasPrefix(p, name+"/") })
}

// store has nodes by hash.
type store map[Hash][]byte

func (s store) Node(h Hash) ([]byte, error) {
	if text, ok := s[h]; ok {
		return text, nil
	}
	return nil, fmt.Errorf("no node %s", h)
}

func (s store) Put(h Hash, text []byte) { s[h] = text }

// hash returns the hash of a tree, by the definition, and puts its nodes into the store.
func (t tree) hash(s store) Hash {
	beneath := map[string]tree{}
	var entries []Entry
	for p, l := range t {
		top, rest, deep := strings.Cut(p, "/")
		switch {
		case !deep:
			entries = append(entries, Entry{l.mode, p, Sum([]byte(l.text))})
		case beneath[top] == nil:
			beneath[top] = tree{rest: l}
		default:
			beneath[top][rest] = l
		}
	}
	for name, sub := range beneath {
		entries = append(entries, Entry{Folder, name, sub.hash(s)})
	}
	text := Node(entries)
	s[Sum(text)] = text
	return Sum(text)
}

// changes returns the artifacts between two trees, in no order.
func changes(before, after tree) (list []Artifact) {
	hash := func(l leaf) string { return Sum([]byte(l.text)).String() }
	for p, was := range before {
		switch now, stays := after[p]; {
		case !stays:
			list = append(list, Artifact{p, Delete, was.mode, hash(was), ""})
		case now != was:
			list = append(list, Artifact{p, Modify, now.mode, hash(was), hash(now)})
		}
	}
	for p, now := range after {
		if _, stood := before[p]; !stood {
			list = append(list, Artifact{p, Create, now.mode, "", hash(now)})
		}
	}
	return list
}

// somewhere returns one of few paths, so that paths meet.
func somewhere(r *rand.Rand) string {
	segments := make([]string, 1+r.IntN(4))
	for i := range segments {
		segments[i] = []string{"a", "b", "a.b", "é"}[r.IntN(4)]
	}
	return strings.Join(segments, "/")
}

func something(r *rand.Rand) leaf {
	return leaf{[]Mode{File, Executable, Link}[r.IntN(3)], fmt.Sprint(r.IntN(3))}
}

// change changes a tree at some paths: a leaf comes, above or beneath others; a file gets
// another mode; a folder is emptied.
func (t tree) change(r *rand.Rand) tree {
	now := maps.Clone(t)
	for range r.IntN(8) {
		switch known := slices.Sorted(maps.Keys(now)); {
		case r.IntN(2) == 0 || len(known) == 0:
			now.put(somewhere(r), something(r))
		case r.IntN(2) == 0:
			now.remove(somewhere(r))
		default:
			now[known[r.IntN(len(known))]] = something(r)
		}
	}
	return now
}

// TestAfter: the hash of the later state is that of the changed tree. The way back leads to the
// earlier one. The order of artifacts is nothing, and the new nodes are all there.
func TestAfter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	emptied, swapped := 0, 0
	for i := range 3000 {
		before := tree{}.change(r).change(r)
		after := before.change(r)
		list := changes(before, after)
		slices.SortFunc(list, func(a, b Artifact) int { return strings.Compare(a.Path, b.Path) })
		if r.IntN(2) == 0 {
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		s := store{}
		from, want := before.hash(s), after.hash(store{})
		got, err := After(s, from, list)
		if err != nil || got != want {
			t.Fatalf("%d: %v becomes %v by %v: %s, %v", i, before, after, list, got, err)
		}
		if len(list) == 0 {
			continue
		}
		if back, err := After(s, got, changes(after, before)); err != nil || back != from {
			t.Fatalf("%d: %v, back to %v: %s, %v", i, after, before, back, err)
		}
		if len(after) == 0 {
			emptied++
		}
		for p := range before {
			if _, up := after[path.Dir(p)]; up {
				swapped++
			}
		}
	}
	if emptied == 0 || swapped < 100 {
		t.Errorf("%d trees became empty, and %d files stood beneath another", emptied, swapped)
	}
}

// TestAfterReadsTheWay: the nodes on the way to artifacts are enough, and are all that is read.
func TestAfterReadsTheWay(t *testing.T) {
	before, s := tree{"a/b/c": {File, "1"}, "a/d/e": {File, "2"}, "f/g": {File, "3"}}, store{}
	from := before.hash(s)
	way := store{}
	for _, sub := range []tree{before, {"b/c": {File, "1"}, "d/e": {File, "2"}}, {"c": {File, "1"}}} {
		h := sub.hash(store{})
		way[h] = s[h]
	}
	list := []Artifact{{"a/b/c", Modify, File, Sum([]byte("1")).String(), Sum([]byte("4")).String()}}
	if _, err := After(way, from, list); err != nil {
		t.Error(err)
	}
	for h := range way {
		less := maps.Clone(way)
		if delete(less, h); len(less) != 2 {
			continue
		}
		if got, err := After(less, from, list); err == nil {
			t.Errorf("without a node: %s", got)
		}
		less[h] = Node(nil)
		if got, err := After(less, from, list); err == nil {
			t.Errorf("with another node: %s", got)
		}
	}
}

// TestAfterErrors: an artifact that does not fit is an error.
func TestAfterErrors(t *testing.T) {
	before := tree{"a": {File, "1"}, "b/c": {Executable, "2"}, "b/l": {Link, "a"}, "e/f": {File, "5"}}
	one, two, link, three := Sum([]byte("1")).String(), Sum([]byte("2")).String(), Sum([]byte("a")).String(), Sum([]byte("3")).String()
	for name, list := range map[string][]Artifact{
		"create over a file":               {{"a", Create, File, "", three}},
		"create over a link":               {{"b/l", Create, File, "", three}},
		"create over a folder":             {{"b", Create, File, "", three}},
		"create over a folder with a rest": {{"b", Create, File, "", three}, {"b/c", Delete, Executable, two, ""}},
		"create beneath a file":            {{"a/x", Create, File, "", three}},
		"create beneath a link":            {{"b/l/x", Create, File, "", three}},
		"create with a before":             {{"x", Create, File, one, three}},
		"create without an after":          {{"x", Create, File, "", ""}},
		"create at and beneath":            {{"x", Create, File, "", three}, {"x/y", Create, File, "", three}},
		"modify nothing":                   {{"x", Modify, File, one, three}},
		"modify in no folder":              {{"x/y", Modify, File, one, three}},
		"modify a folder":                  {{"b", Modify, File, one, three}},
		"modify another content":           {{"a", Modify, File, two, three}},
		"modify without a before":          {{"a", Modify, File, "", three}},
		"modify without an after":          {{"a", Modify, File, one, ""}},
		"modify to the same":               {{"a", Modify, File, one, one}},
		"modify and put beneath":           {{"a", Modify, File, one, three}, {"a/x", Create, File, "", three}},
		"delete nothing":                   {{"x", Delete, File, one, ""}},
		"delete a folder":                  {{"b", Delete, File, one, ""}},
		"delete another content":           {{"a", Delete, File, two, ""}},
		"delete another mode":              {{"b/c", Delete, File, two, ""}},
		"delete a link as a file":          {{"b/l", Delete, File, link, ""}},
		"delete with an after":             {{"a", Delete, File, one, three}},
		"the mode of a folder":             {{"x", Create, Folder, "", three}},
		"no mode":                          {{"x", Create, "", "", three}},
		"no operation":                     {{"x", "", File, "", three}},
		"another operation":                {{"x", "rename", File, "", three}},
		"no hash after":                    {{"x", Create, File, "", "blake3:0"}},
		"another hash before":              {{"a", Modify, File, strings.ToUpper(one), three}},
		"twice":                            {{"x", Create, File, "", three}, {"x", Create, File, "", three}},
		"twice, both ways":                 {{"a", Delete, File, one, ""}, {"a", Create, File, "", three}},
		"no path":                          {{"", Create, File, "", three}},
		"a path with a slash at the end":   {{"x/", Create, File, "", three}},
		"a path with two slashes":          {{"x//y", Create, File, "", three}},
		"a path from the root":             {{"/x", Create, File, "", three}},
		"a path up":                        {{"../x", Create, File, "", three}},
		"the folder itself":                {{".", Create, File, "", three}},
		"a folder of git":                  {{"x/.git/y", Create, File, "", three}},
		"a name that is not UTF-8":         {{"\xff", Create, File, "", three}},
		"a name with a NUL":                {{"x\x00", Create, File, "", three}},
	} {
		s := store{}
		if got, err := After(s, before.hash(s), list); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	s := store{}
	before.hash(s)
	if got, err := After(s, Sum(nil), nil); err == nil {
		t.Errorf("a state that is not there: %s", got)
	}
}
