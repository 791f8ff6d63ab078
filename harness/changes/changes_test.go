//go:build unix

package changes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// in runs a command in a folder and returns its standard output.
func in(t testing.TB, dir, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(stdin), rehearsal.GitEnv(dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, stderr.String())
	}
	return string(out)
}

// repository makes an empty repository whose branch is named topic.
func repository(t testing.TB, more ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	in(t, dir, "", "git", append([]string{"init", "-q", "-b", "topic"}, more...)...)
	return dir
}

// commitAll commits everything that is in a repository's work tree.
func commitAll(t *testing.T, dir string) {
	t.Helper()
	in(t, dir, "", "git", "add", "-A")
	in(t, dir, "", "git", "commit", "-q", "--allow-empty", "-m", "a")
}

// odd are parts of names that a careless reader of git's output would lose or split.
var odd = []string{
	"a", "b", "A", " ", "  c", "\"", "\\", "'", "\n", "\t", "\r", "\x01", "\x7f", "\xff", "\xc3\x28", "é", "e\u0301", "\u202e", "##[error]", "-", "--output=x",
	"*", "?", "[a]", "!", ":", ":(top)", "#", "%", "{a => b}", " => ", "a -> b", "$(touch x)", "`x`", "...", "日本",
}

// history writes a history for git fast-import: the branch main, then topic from its first
// commits on.
func history(r *rand.Rand) string {
	var b strings.Builder
	name := func() string {
		var parts []string
		for range 1 + r.IntN(3) {
			parts = append(parts, odd[r.IntN(len(odd))]+odd[r.IntN(len(odd))])
		}
		return strings.Join(parts, "/")
	}
	quoted := func(name string) string {
		var q strings.Builder
		for _, c := range []byte(name) {
			fmt.Fprintf(&q, "\\%03o", c)
		}
		return `"` + q.String() + `"`
	}
	names := []string{name(), name(), name()}
	commit := func(branch, from string) {
		fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter a <a@example.com> 0 +0000\ndata 0\n%s", branch, from)
		for range r.IntN(12) {
			at := names[r.IntN(len(names))]
			if r.IntN(2) == 0 {
				at = name()
				names = append(names, at)
			}
			switch kind := r.IntN(8); kind {
			case 0:
				b.WriteString("D " + quoted(at) + "\n")
			case 1:
				fmt.Fprintf(&b, "M 160000 %040x %s\n", 1+r.IntN(3), quoted(at))
			case 2: // a rename
				fmt.Fprintf(&b, "D %s\nM 100644 inline %s\ndata 1\n1\n", quoted(at), quoted(name()))
			default:
				mode := []string{"100644", "100755", "120000"}[kind%3]
				fmt.Fprintf(&b, "M %s inline %s\ndata 1\n%d\n", mode, quoted(at), r.IntN(3))
			}
		}
		b.WriteString("\n")
	}
	commit("main", "")
	commit("main", "")
	commit("topic", "from refs/heads/main\n")
	commit("topic", "")
	commit("main", "")
	return b.String()
}

// FuzzPaths: the paths of a change are those of git diff-tree, byte for byte, whatever the names
// are.
func FuzzPaths(f *testing.F) {
	for seed := range uint64(12) { // fuzzing makes hundreds
		f.Add(seed)
	}
	dir := repository(f) // each history replaces the branches of the one before it
	f.Fuzz(func(t *testing.T, seed uint64) {
		in(t, dir, history(rand.New(rand.NewPCG(seed, 1))), "git", "fast-import", "--quiet", "--force")
		c, err := Look(t.Context(), dir, "main", "HEAD", rehearsal.GitEnv(dir))
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSpace(in(t, dir, "", "git", "merge-base", "main", "topic"))
		var want []string
		fields := strings.Split(in(t, dir, "", "git", "diff-tree", "-r", "-z", "--raw", "--no-renames", "--ignore-submodules=none", base, "topic"), "\x00")
		for i := 1; i < len(fields); i += 2 {
			want = append(want, fields[i])
		}
		slices.Sort(want)
		if !slices.Equal(c.Paths, want) {
			t.Errorf("seed %d: paths %q, want %q", seed, c.Paths, want)
		}
		for _, p := range c.Paths {
			if _, was := c.base[p]; was != (c.Was(p) != "added") {
				t.Errorf("%q was %s", p, c.Was(p))
			}
		}
	})
}

// write makes a file, with the folders above it.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestRunsNothing: no program that the repository, its attributes or its configuration names is
// run, and no setting of them hides a path.
func TestRunsNothing(t *testing.T) {
	dir := repository(t)
	write(t, filepath.Join(dir, "a.txt"), "a")
	commitAll(t, dir)
	in(t, dir, "", "git", "branch", "main")
	write(t, filepath.Join(dir, "a.txt"), "b")
	write(t, filepath.Join(dir, ".gitattributes"), "* filter=x diff=x merge=x -diff\n")
	write(t, filepath.Join(dir, "intents/a.json"), "{}")
	commitAll(t, dir)
	mark := filepath.Join(dir, "ran")
	program := filepath.Join(dir, "program")
	write(t, program, "#!/bin/sh\ntouch '"+mark+"'\ncat\n")
	hook := filepath.Join(dir, ".git/hooks/post-index-change")
	write(t, hook, "#!/bin/sh\ntouch '"+mark+"'\n")
	if err := errors.Join(os.Chmod(program, 0o755), os.Chmod(hook, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"core.fsmonitor", "core.pager", "pager.ls-tree", "diff.external", "diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge", "filter.x.process",
		"core.sshCommand", "core.askPass", "credential.helper", "gpg.program", "core.gitProxy", "core.alternateRefsCommand", "uploadpack.packObjectsHook",
	} {
		in(t, dir, "", "git", "config", name, program)
	}
	for _, alias := range []string{"rev-parse", "ls-tree", "merge-base"} {
		in(t, dir, "", "git", "config", "alias."+alias, "!"+program)
	}
	for name, value := range map[string]string{
		"diff.renames": "copies", "diff.relative": "true", "diff.orderFile": program, "core.quotePath": "false", "core.fileMode": "false", "core.ignoreCase": "true",
		"color.ui": "always", "log.showSignature": "true", "core.abbrev": "4",
	} {
		in(t, dir, "", "git", "config", name, value)
	}
	os.Remove(mark) // git itself may have run it for the lines above
	t.Chdir(dir)
	main, head := strings.TrimSpace(in(t, dir, "", "git", "rev-parse", "main")), strings.TrimSpace(in(t, dir, "", "git", "rev-parse", "HEAD"))
	write(t, filepath.Join(dir, ".git/info/grafts"), main+" "+head+"\n") // HEAD would be a parent of main
	c, err := Look(t.Context(), ".", "main", "HEAD", rehearsal.GitEnv(dir, "GIT_EXTERNAL_DIFF="+program, "GIT_DIR=/nowhere", "GIT_PAGER="+program))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{".gitattributes", "a.txt", "intents/a.json"}; !slices.Equal(c.Paths, want) {
		t.Errorf("paths %q, want %q", c.Paths, want)
	}
	if state, err := c.State("intents/a.json"); err != nil || state.Brought != "intents/a.json" {
		t.Errorf("%+v, %v", state, err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program that the repository names was run")
	}
}

// TestForgedHistory: parents that only the file commit-graph states do not count. Here it states
// that HEAD is an ancestor of main, so that HEAD would bring nothing.
func TestForgedHistory(t *testing.T) {
	dir := repository(t)
	commitAll(t, dir)
	in(t, dir, "", "git", "checkout", "-q", "-b", "main")
	commitAll(t, dir)
	commitAll(t, dir)
	in(t, dir, "", "git", "checkout", "-q", "topic")
	write(t, filepath.Join(dir, "a"), "a")
	commitAll(t, dir)
	in(t, dir, "", "git", "commit-graph", "write", "--reachable")
	file := filepath.Join(dir, ".git/objects/info/commit-graph")
	graph, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hashes := strings.Fields(in(t, dir, "", "git", "rev-list", "--no-walk=unsorted", "main~", "HEAD", "main", "main~2"))
	order := slices.Sorted(slices.Values(hashes)) // as in the file
	data := binary.BigEndian.Uint64(graph[bytes.Index(graph, []byte("CDAT"))+4:])
	row := graph[int(data)+36*slices.Index(order, hashes[0]):]
	binary.BigEndian.PutUint32(row[20:], uint32(slices.Index(order, hashes[1]))) // the parent of main~
	binary.BigEndian.PutUint64(row[28:], 9<<34|uint64(time.Now().Unix())+1000)   // its generation and date
	if err := errors.Join(os.Chmod(file, 0o644), os.WriteFile(file, graph, 0o644)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if c, err := Look(t.Context(), ".", "main", "HEAD", rehearsal.GitEnv(dir)); err != nil || !slices.Equal(c.Paths, []string{"a"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestRepositoryInTree: a folder of the work tree with the files of a bare repository is refused,
// for a change can bring one whose history says that nothing changed.
func TestRepositoryInTree(t *testing.T) {
	dir := repository(t)
	write(t, filepath.Join(dir, "sub/a"), "a")
	commitAll(t, dir)
	in(t, dir, "", "git", "branch", "main")
	in(t, dir, "", "git", "clone", "-q", "--bare", ".", "sub/deep")
	for _, work := range []string{".", "..", "../.."} {
		in(t, dir, "", "git", "-C", "sub/deep", "config", "core.bare", "false")
		in(t, dir, "", "git", "-C", "sub/deep", "config", "core.worktree", work)
		in(t, dir, "", "git", "add", "-A")
		in(t, dir, "", "git", "commit", "-q", "-m", "two")
	}
	t.Chdir(dir)
	for _, gated := range []string{"sub/deep", "sub/deep/refs"} {
		if c, err := Look(t.Context(), gated, "main", "HEAD", rehearsal.GitEnv(dir)); err == nil || !strings.Contains(err.Error(), "repository") {
			t.Errorf("%s: %+v, %v", gated, c, err)
		}
	}
	if c, err := Look(t.Context(), "sub", "main", "HEAD", rehearsal.GitEnv(dir)); err != nil || len(c.Paths) == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestState: what counts is the bytes that are there, and the name that git has.
func TestState(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		dir := repository(t, "--object-format="+format)
		for name, text := range map[string]string{"same": "s\n", "sub/mode": "m", "changed": "c", "meanwhile": "m", "back": "old", "crlf": "x\ny\n", "link": "l", "gone": "g"} {
			write(t, filepath.Join(dir, name), text)
		}
		commitAll(t, dir)
		in(t, dir, "", "git", "branch", "main")
		write(t, filepath.Join(dir, "changed"), "C")
		write(t, filepath.Join(dir, "back"), "new")
		write(t, filepath.Join(dir, "added"), "a")
		if err := errors.Join(os.Chmod(filepath.Join(dir, "sub/mode"), 0o755), os.Remove(filepath.Join(dir, "link")), os.Symlink("same", filepath.Join(dir, "link"))); err != nil {
			t.Fatal(err)
		}
		commitAll(t, dir)
		for name, text := range map[string]string{"meanwhile": "other", "back": "old", "crlf": "x\r\ny\r\n", "untracked": "u"} {
			write(t, filepath.Join(dir, name), text)
		}
		if err := errors.Join(os.Symlink("sub", filepath.Join(dir, "way")), os.Remove(filepath.Join(dir, "gone"))); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		c, err := Look(t.Context(), "sub", "main", "topic", rehearsal.GitEnv(dir))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]State{
			"same": {Same: true}, "./same": {Same: true}, filepath.Join(dir, "same"): {Same: true}, "crlf": {Same: true},
			"changed": {Brought: "changed"}, "added": {Brought: "added"}, "sub/mode": {Brought: "sub/mode"}, "way/mode": {Brought: "sub/mode"},
			"meanwhile": {}, "back": {}, "untracked": {}, "link": {}, "sub": {}, "absent": {}, "no/such": {}, "gone": {},
		} {
			if got, err := c.State(name); err != nil || got != want {
				t.Errorf("%s: %s is %+v, %v, want %+v", format, name, got, err, want)
			}
		}
		var outside *OutsideError
		if got, err := c.State(filepath.Join(t.TempDir(), "x")); !errors.As(err, &outside) {
			t.Errorf("%+v, %v", got, err)
		}
		if got := c.Target("a/b"); got != "sub/a/b" {
			t.Errorf("target %q", got)
		}
		if got := c.Target("../changed"); slices.Contains(c.Paths, got) {
			t.Errorf("target %q leads out of the gated folder", got)
		}
		t.Chdir("sub")
		if c, err = Look(t.Context(), ".", "main", "topic", rehearsal.GitEnv(dir)); err != nil {
			t.Fatal(err)
		}
		if got := c.Show("changed") + " " + c.Show("sub/mode") + " " + c.Show("sub/-"); got != "../changed mode ./-" {
			t.Errorf("shown as %s", got)
		}
	}
}

// TestAbsent: a file that HEAD brings and that is not there is found by each name of its folder.
func TestAbsent(t *testing.T) {
	dir := repository(t)
	write(t, filepath.Join(dir, "intents/old.json"), "{}")
	commitAll(t, dir)
	in(t, dir, "", "git", "branch", "main")
	write(t, filepath.Join(dir, "intents/new.json"), "{}")
	commitAll(t, dir)
	way := filepath.Join(t.TempDir(), "way")
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "intents")), os.Symlink(dir, way)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	c, err := Look(t.Context(), ".", "main", "HEAD", rehearsal.GitEnv(dir))
	if err != nil {
		t.Fatal(err)
	}
	up := "../" + filepath.Base(dir)
	for _, arg := range []string{
		"intents", "./intents", "intents/", "intents/*.json", "intents/new.json", dir + "/intents", up, up + "/intents", up + "/**/*.json",
		up + "/intents/new.json", way + "/intents", way + "/intents/new.json", way + "/in*/*",
	} {
		if got := c.Absent([]string{"other", arg}); len(got) != 1 || filepath.Base(got[0]) != "new.json" {
			t.Errorf("%s: absent %q", arg, got)
		}
		if got := c.Before(arg); (len(got) == 1) == strings.Contains(arg, "new") || len(got) > 1 {
			t.Errorf("%s: before %q", arg, got)
		}
	}
	for _, arg := range []string{"other", "../intents", way + "/other", "intents/old.json", "intents.json"} {
		if got := c.Absent([]string{arg}); len(got) != 0 {
			t.Errorf("%s: absent %q", arg, got)
		}
	}
	// Before looks at a part of the paths, and misses none.
	c.was = []string{"", "-", "[a]/x.json", "a", "a.json", "a/", "a/b.json", "a/b/c.json", "a0", "b.json", "intents", "intents-old/a.json", "intents.json", "intents/a.json", "intents/b/c.json"}
	for _, here := range []string{dir, filepath.Join(dir, "a"), filepath.Join(dir, "[a]"), filepath.Dir(dir), "/"} {
		if c.here = here; c.here != dir {
			if err := os.MkdirAll(here, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Chdir(here)
		for _, arg := range strings.Fields("a a/ ./a a/b a/b.json a/* a*/* [a]/* [a] * ** **/*.json . .. ../.. ../a ../a/* ../*/c.json intents intents/*/c.json absent / /* /*/** x/../a " +
			dir + " " + dir + "/ " + dir + "/a " + dir + "/* " + way + " " + way + "/a " + way + "/a* " + up + "/a") {
			var want []string
			for _, name := range c.was {
				if shown, ok := c.named(c.argument(arg), name); ok {
					want = append(want, shown)
				}
			}
			if got := c.Before(arg); !slices.Equal(got, want) {
				t.Errorf("in %s, %s: before %q, want %q", here, arg, got, want)
			}
		}
	}
}
