//go:build linux && (amd64 || arm64)

package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/tree"
	"github.com/fiador/fiador/kernel/work"
)

var update = flag.Bool("update", false, "write the hashes of specs/vectors/state/trees.json")

// entry is a file or a link of a vector.
type entry struct {
	Path    string `json:"path"`
	Mode    string `json:"mode"`
	Content string `json:"content,omitempty"`
	Target  string `json:"target,omitempty"`
}

func (e entry) put(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, e.Path)
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if e.Mode == "120000" {
		err = errors.Join(err, os.Symlink(e.Target, name))
	} else {
		err = errors.Join(err, os.WriteFile(name, []byte(e.Content), 0o644))
	}
	if e.Mode == "100755" {
		err = errors.Join(err, os.Chmod(name, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFileSystems: a state has the same hash on every file system.
func TestFileSystems(t *testing.T) {
	entries := []entry{{"a", "100644", "one", ""}, {"b/c", "100755", "two", ""}, {"b/é", "120000", "", "../a"}}
	put := func(t *testing.T, dir string) receipt.Hash {
		for _, e := range entries {
			e.put(t, dir)
		}
		return stateOf(t, store(t), dir)
	}
	want := put(t, t.TempDir())
	t.Run("tmpfs", func(t *testing.T) {
		dir, err := os.MkdirTemp("/dev/shm", "state-")
		if err != nil {
			t.Skipf("no shared memory here: %v", err)
		}
		defer os.RemoveAll(dir)
		if got := put(t, dir); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("xfs", func(t *testing.T) {
		dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
		script := `truncate -s 400M "$1" && mkfs.xfs -q -m reflink=1 "$1" && mount -o loop "$1" "$2"`
		if out, err := exec.Command("sh", "-c", script, "sh", image, dir).CombinedOutput(); err != nil {
			t.Skipf("no xfs can be mounted here: %v: %s", err, out)
		}
		defer exec.Command("umount", dir).Run()
		if got := put(t, dir); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func store(t *testing.T) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// later is a time at which the files that a test has made are settled.
func later() time.Time { return time.Now().Add(time.Hour) }

func stateOf(t *testing.T, s *Store, dir string) receipt.Hash {
	t.Helper()
	s.index = nil // another process reads what was written
	state, err := s.State(t.Context(), dir, later())
	if err = errors.Join(err, s.index.write(s.root)); err != nil {
		t.Fatal(err)
	}
	return state.Hash
}

func freeze(t *testing.T, s *Store, dir string) receipt.Hash {
	t.Helper()
	state, err := s.Freeze(t.Context(), dir, later())
	if err != nil {
		t.Fatal(err)
	}
	return state.Hash
}

// TestVectors: each folder has its hash: by the program, cold, warm and frozen, and by the
// script of specs/work.md, which knows bash and b3sum alone.
func TestVectors(t *testing.T) {
	const file = "../../specs/vectors/state/trees.json"
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name    string  `json:"name"`
		Entries []entry `json:"entries"`
		State   string  `json:"state"`
	}
	if err := json.Unmarshal(src, &vectors); err != nil || len(vectors) < 10 {
		t.Fatal(len(vectors), err)
	}
	page, err := os.ReadFile("../../specs/work.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "```bash\n")
	script, _, ok := strings.Cut(script, "```")
	_, missing := exec.LookPath("b3sum")
	for i, v := range vectors {
		dir := t.TempDir()
		for _, e := range v.Entries {
			e.put(t, dir)
		}
		if err := os.MkdirAll(filepath.Join(dir, "empty/empty"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := store(t)
		got := stateOf(t, s, dir).String()
		if *update {
			vectors[i].State, v.State = got, got
		}
		if warm, frozen := stateOf(t, s, dir).String(), freeze(t, s, dir).String(); got != v.State || warm != got || frozen != got {
			t.Errorf("%s: %s cold, %s warm, %s frozen, want %s", v.Name, got, warm, frozen, v.State)
		}
		if missing != nil || !ok {
			continue
		}
		said, err := exec.Command("bash", "-c", script, "script", dir).CombinedOutput()
		if err != nil || string(said) != v.State+"\n" {
			t.Errorf("%s: the script says %q (%v), want %s", v.Name, said, err, v.State)
		}
	}
	if *update {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := errors.Join(e.Encode(vectors), os.WriteFile(file, out.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if missing != nil {
		t.Skip("b3sum is not installed (Debian package b3sum): the script does not run")
	}
}

// TestSeen: whatever changes a file's content or mode changes the state, also with the old
// size and the old time of modification. The index gives no old hash.
func TestSeen(t *testing.T) {
	dir, s := t.TempDir(), store(t)
	name := filepath.Join(dir, "f/a")
	entry{"f/a", "100644", "one", ""}.put(t, dir)
	entry{"f/l", "120000", "", "a"}.put(t, dir)
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[receipt.Hash]string{stateOf(t, s, dir): "before"}
	for _, tc := range []struct {
		what   string
		change func() error
	}{
		{"an edit of the same size, with the old time", func() error {
			return errors.Join(os.WriteFile(name, []byte("two"), 0o644), os.Chtimes(name, time.Time{}, info.ModTime()))
		}},
		{"the mode", func() error { return os.Chmod(name, 0o755) }},
		{"the link", func() error { return errors.Join(os.Remove(dir+"/f/l"), os.Symlink("b", dir+"/f/l")) }},
		{"another file of the same name, size and time", func() error {
			other := filepath.Join(dir, "other")
			return errors.Join(os.WriteFile(other, []byte("six"), 0o755), os.Chtimes(other, time.Time{}, info.ModTime()), os.Rename(other, name))
		}},
		{"a new file", func() error { return os.WriteFile(dir+"/new", nil, 0o644) }},
	} {
		if err := tc.change(); err != nil {
			t.Fatal(err)
		}
		h := stateOf(t, s, dir)
		if before, there := seen[h]; there {
			t.Errorf("%s is not seen: the state is that of %s", tc.what, before)
		}
		seen[h] = tc.what
		if fresh := stateOf(t, store(t), dir); fresh != h {
			t.Errorf("%s: %s with the index, %s without it", tc.what, h, fresh)
		}
	}
}

// TestIndex: an entry of a settled file is used, and one of a file that has just changed, or of
// a damaged index, is not.
func TestIndex(t *testing.T) {
	dir, s := t.TempDir(), store(t)
	entry{"a", "100644", "one", ""}.put(t, dir)
	want := stateOf(t, s, dir)
	forge := func() {
		t.Helper()
		x, err := readIndex(s.root)
		if err != nil || len(x.files) != 1 {
			t.Fatalf("%v, %v", x, err)
		}
		for at, k := range x.files {
			k.Hash[0]++
			x.seen[at] = k
		}
		x.next()
		if err := x.write(s.root); err != nil {
			t.Fatal(err)
		}
	}
	forge()
	if stateOf(t, s, dir) == want {
		t.Error("the index is not used")
	}
	index, err := s.root.ReadFile(indexName)
	if err != nil {
		t.Fatal(err)
	}
	for i := range index {
		damaged := slices.Clone(index)
		damaged[i] ^= 1
		if err := s.root.WriteFile(indexName, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := stateOf(t, s, dir); got != want {
			t.Fatalf("byte %d is damaged, and the index is used", i)
		}
	}
	if err := s.root.Remove(indexName); err != nil {
		t.Fatal(err)
	}
	entry{"a", "100644", "one", ""}.put(t, dir)
	info, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	s.index = nil
	_, err = s.State(t.Context(), dir, info.ModTime().Add(settled/2))
	if err = errors.Join(err, s.index.write(s.root)); err != nil {
		t.Fatal(err)
	}
	forge()
	if stateOf(t, s, dir) != want {
		t.Error("the index is used for a file that had just changed when it was read")
	}
}

// changing is a sink that changes a file whenever it gets its bytes.
type changing struct {
	change func()
	puts   int
	most   int
}

func (c *changing) Has(receipt.Hash) bool { return false }

func (c *changing) Put(h receipt.Hash, from io.Reader) error {
	c.puts++
	if c.puts <= c.most {
		c.change()
	}
	if got, _, err := receipt.Copy(io.Discard, from); err != nil || got != h {
		return errors.Join(err, ErrOther)
	}
	return nil
}

// TestChanging: a file that changes while it is read is read again, three times at most.
func TestChanging(t *testing.T) {
	for most, fails := range map[int]bool{0: false, 1: false, 2: false, 3: true} {
		dir, n := t.TempDir(), 0
		entry{"a", "100644", "0", ""}.put(t, dir)
		sink := &changing{most: most, change: func() {
			n++
			entry{"a", "100644", strconv.Itoa(n), ""}.put(t, dir)
		}}
		state, err := Scan(t.Context(), dir, Options{Sink: sink})
		var of *Error
		if fails != errors.As(err, &of) || fails && of.Path != "a" || !fails && (err != nil || state.Hash != stateOf(t, store(t), dir)) {
			t.Errorf("%d changes: %v, %v", most, state, err)
		}
	}
}

// TestRefused: what no state can hold is named.
func TestRefused(t *testing.T) {
	for what, put := range map[string]func(name string) error{
		"a FIFO":              func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a name not in UTF-8": func(name string) error { return os.WriteFile(name+"\xff", nil, 0o600) },
		"a socket": func(name string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer syscall.Close(fd)
			return syscall.Bind(fd, &syscall.SockaddrUnix{Name: name})
		},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Mkdir(dir+"/f", 0o755), put(dir+"/f/odd")); err != nil {
			t.Fatal(err)
		}
		var of *Error
		if _, err := Scan(t.Context(), dir, Options{}); !errors.As(err, &of) || !strings.HasPrefix(of.Path, "f/odd") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// grow makes a folder at random: few names, so that two such folders have files, links and
// folders in each other's places.
func grow(t *testing.T, dir string, random *rand.Rand, depth int) {
	t.Helper()
	for _, name := range []string{"a", "b", "c", "d"} {
		e := entry{name, "100644", strconv.Itoa(random.IntN(4)), ""}
		switch random.IntN(6) {
		case 0:
			continue
		case 1:
			e.Mode, e.Target = "120000", e.Content
		case 2:
			e.Mode = "100755"
		case 3, 4:
			if depth == 0 {
				continue
			}
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
			grow(t, filepath.Join(dir, name), random, depth-1)
			continue
		}
		e.put(t, dir)
	}
}

// TestThaw: a folder comes back to every state that was kept, and says which one it had. Diff
// lists nothing between equal states alone.
func TestThaw(t *testing.T) {
	if err := tree.CanApply(); err != nil {
		t.Skip(err)
	}
	random := rand.New(rand.NewPCG(3, 5))
	dir, journals, s := t.TempDir(), t.TempDir(), store(t)
	states := map[receipt.Hash]bool{}
	for range 30 {
		other := t.TempDir()
		grow(t, other, random, 3)
		states[freeze(t, s, other)] = true
	}
	now := freeze(t, s, dir)
	for _, want := range slices.SortedFunc(maps.Keys(states), func(a, b receipt.Hash) int { return strings.Compare(a.Hex(), b.Hex()) }) {
		if err := os.WriteFile(filepath.Join(dir, work.Trace), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		was, list, err := s.Thaw(t.Context(), journals, dir, want, later())
		if err != nil {
			t.Fatalf("from %s to %s: %v", now, want, err)
		}
		if was.Hash != now || (len(list) == 0) != (now == want) || stateOf(t, store(t), dir) != want {
			t.Errorf("from %s to %s: it was %s, %d differences", now, want, was.Hash, len(list))
		}
		if now = want; stateOf(t, s, dir) != want {
			t.Errorf("the index is wrong about %s", want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, work.Trace)); err != nil || string(text) != "kept" {
		t.Errorf("what no state has is %q, %v", text, err)
	}
}

// TestThawRefused: nothing is changed if something would be lost or cannot be had.
func TestThawRefused(t *testing.T) {
	if err := tree.CanApply(); err != nil {
		t.Skip(err)
	}
	s, journals := store(t), t.TempDir()
	file := t.TempDir()
	entry{"a", "100644", "a file", ""}.put(t, file)
	want := freeze(t, s, file)
	dir := t.TempDir()
	entry{"a/b", "100644", "b", ""}.put(t, dir)
	entry{"a/.git/config", "100644", "mine", ""}.put(t, dir)
	before := stateOf(t, s, dir)
	fails := func(what string, want receipt.Hash, is func(error) bool) {
		t.Helper()
		_, _, err := s.Thaw(t.Context(), journals, dir, want, later())
		if err == nil || !is(err) || stateOf(t, s, dir) != before {
			t.Errorf("%s: %v", what, err)
		}
	}
	var of *Error
	fails("a file in place of a folder with .git", want, func(err error) bool { return errors.As(err, &of) && of.Path == "a/.git/config" })
	if text, err := os.ReadFile(dir + "/a/.git/config"); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
	fails("a state that nobody has kept", receipt.Sum([]byte("x")), func(err error) bool { return errors.Is(err, ErrMissing) })
	if err := os.RemoveAll(dir + "/a/.git"); err != nil {
		t.Fatal(err)
	}
	name := objectName(receipt.Sum([]byte("a file")))
	if err := errors.Join(s.root.Chmod(name, 0o600), s.root.WriteFile(name, []byte("b file"), 0o600)); err != nil {
		t.Fatal(err)
	}
	fails("a damaged object", want, func(err error) bool { return errors.Is(err, ErrDamaged) })
	if err := s.root.Remove(name); err != nil {
		t.Fatal(err)
	}
	fails("an object that is gone", want, func(err error) bool { return errors.Is(err, ErrMissing) })
	if freeze(t, s, file) != want {
		t.Error("another state")
	}
	if _, _, err := s.Thaw(t.Context(), journals, dir, want, later()); err != nil || stateOf(t, s, dir) != want {
		t.Errorf("after all: %v", err)
	}
}

// TestFreezeTogether: several processes can keep states in one store at once. What a killed one
// has left goes away, and a waiting one can be interrupted.
func TestFreezeTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	random := rand.New(rand.NewPCG(1, 1))
	var trees []string
	for range 8 {
		trees = append(trees, t.TempDir())
		grow(t, trees[len(trees)-1], random, 3)
	}
	open := func() *Store {
		s, err := OpenStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open()
	if err := errors.Join(s.root.Mkdir(incoming, 0o700), s.root.WriteFile(incoming+"/"+receipt.Sum(nil).Hex(), []byte("half"), 0o400)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, from := range trees {
		mine := open()
		all.Go(func() {
			if _, err := mine.Freeze(t.Context(), from, later()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	nothing := freeze(t, s, t.TempDir())
	for _, from := range trees {
		want := stateOf(t, store(t), from)
		list, err := s.Diff(t.Context(), nothing, want)
		if err != nil || len(list) == 0 {
			t.Errorf("%v, %v", list, err)
		}
		for _, d := range list {
			if _, err := s.root.Lstat(objectName(d.After.Hash)); d.After.Mode != receipt.Folder && err != nil {
				t.Errorf("%s of %s is not kept", d.Path, want)
			}
		}
	}
	if _, err := s.root.Lstat(incoming); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", incoming, err)
	}
	b, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := open().Freeze(ctx, trees[0], later()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := b.end(); err != nil {
		t.Error(err)
	}
}

// full is a sink on a disk that is full.
type full struct{}

func (full) Has(receipt.Hash) bool { return false }

func (full) Put(receipt.Hash, io.Reader) error {
	return &os.PathError{Op: "write", Path: "object", Err: syscall.ENOSPC}
}

// TestFullStore: an error about the store does not name a file of the folder.
func TestFullStore(t *testing.T) {
	dir := t.TempDir()
	entry{"a", "100644", "one", ""}.put(t, dir)
	_, err := Scan(t.Context(), dir, Options{Sink: full{}})
	if !errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*Error)) {
		t.Errorf("%v", err)
	}
}
