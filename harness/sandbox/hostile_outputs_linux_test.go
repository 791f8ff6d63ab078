//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
)

// stagings are the ways to keep written files apart.
var stagings = []struct {
	name   string
	tier   Isolation
	copied bool // even if the overlay is available
}{{"overlay", Full, false}, {"copy", Full, true}, {"confined", Confined, false}}

// stage starts a sandbox that keeps written files apart in one of these ways.
func (sc *scene) stage(tier Isolation, copied bool, r Request) *Sandbox {
	sc.Helper()
	r.Write, r.Read, r.Least, r.Most = Staged, []string{sc.self}, tier, tier
	h := NewHost(sc.in("temp"))
	sc.mkdir("temp")
	s, err := h.start(sc.Context(), tier, r, copied)
	if err != nil {
		sc.Fatal(err)
	}
	sc.Cleanup(func() {
		if err := errors.Join(s.Close(), h.Close()); err != nil {
			sc.Error(err)
		}
		left, err := os.ReadDir(sc.in("temp"))
		if err != nil || len(left) > 0 {
			sc.Errorf("left behind: %v %v", left, err)
		}
	})
	return s
}

// perform runs action 0.
func (sc *scene) perform(s *Sandbox) command.Result {
	sc.Helper()
	res, err := command.Run(sc.Context(), s.Command(0, actionTime, nil), command.Spec{
		Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 1 << 18}, Timeout: actionTime,
	})
	if err != nil {
		sc.Fatal(err)
	}
	if res.ExitCode() != 0 {
		sc.Errorf("exit %d, %q, %q", res.ExitCode(), res.Stdout.Bytes, res.Stderr.Bytes)
	}
	return res
}

func (sc *scene) program(args ...string) []Action {
	return []Action{{Argv: append([]string{sc.self, hostileArg}, args...)}}
}

// TestHostileOutputs: Changes reports every kind of entry in the work folder correctly,
// follows no link, and the host's folder stays unchanged.
func TestHostileOutputs(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, with := range []bool{true, false} {
		for _, st := range stagings {
			t.Run(fmt.Sprintf("%s/before=%t", st.name, with), func(t *testing.T) {
				t.Parallel()
				sc := newScene(t, base, self, where(st.tier))
				r := Request{Limits: limits(), Actions: sc.program("outputs")}
				if with {
					sc.before()
					r.Work = sc.in("before")
				}
				host := contentsOf(t, sc.in("before"))
				s := sc.stage(st.tier, st.copied, r)
				res := sc.perform(s)
				t.Logf("%s", res.Stdout.Bytes)
				changes, err := s.Changes()
				if err != nil {
					t.Fatal(err)
				}
				compareKinds(t, kindsOf(t, changes), leftOutputs(with))
				sc.contents(s, changes)
				if now := contentsOf(t, sc.in("before")); now != host {
					t.Errorf("the work folder was\n%sand is\n%s", host, now)
				}
			})
		}
	}
}

// before makes a work folder with entries to change.
func (sc *scene) before() {
	sc.Helper()
	for _, d := range []string{"", "/was/again/sub", "/was/to-file/sub", "/was/to-link/sub", "/was/gone/sub", "/was/untouched/sub"} {
		sc.mkdir("before" + d)
	}
	for _, f := range []string{
		"again/a", "again/sub/x", "again/sub/y", "to-folder", "to-file/in", "to-file/sub/in", "to-link/in", "gone/in", "gone/sub/in", "gone-file", "moved",
		"rewritten", "changed", "executable", "linked", "untouched/in", "untouched/sub/in",
	} {
		sc.write("before/was/"+f, "as it was", 0o644)
	}
}

// leftOutputs returns what the program outputs leaves, by path. A path that begins with a
// question mark may be missing.
func leftOutputs(with bool) map[string]change.Kind {
	want := map[string]change.Kind{
		"fifo": change.KindOther, "socket": change.KindOther, "?whiteout": change.KindOther, "f000": change.KindFile, "setuid": change.KindFile, "sticky": change.KindFolder, "h1": change.KindFile, "h2": change.KindFile,
		"holes": change.KindFile, "attributes": change.KindFile, "opaque": change.KindFolder, "opaque/in": change.KindFile,
	}
	for name := range oddLinks() {
		want[name] = change.KindLink
	}
	for _, name := range oddNames() {
		want[name] = change.KindFile
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			want[dir] = change.KindFolder
		}
	}
	for _, mode := range oddModes {
		dir := fmt.Sprintf("d%03o", mode)
		want[dir], want[dir+"/sub"], want[dir+"/sub/in"], want[dir+"/f"] = change.KindFolder, change.KindFolder, change.KindFile, change.KindFile
	}
	if with {
		maps.Copy(want, map[string]change.Kind{
			"was/again/a": change.KindDeleted, "was/again/sub/x": change.KindDeleted, "was/again/sub/y": change.KindDeleted, "was/again/sub/new": change.KindFile,
			"was/to-folder": change.KindFolder, "was/to-folder/in": change.KindFile, "was/to-file": change.KindFile, "was/to-link": change.KindLink,
			"was/gone": change.KindDeleted, "was/gone-file": change.KindDeleted, "was/moved": change.KindDeleted, "was/moved2": change.KindFile,
			"was/changed": change.KindFile, "was/executable": change.KindFile, "linked2": change.KindFile,
		})
	}
	return want
}

func kindsOf(t *testing.T, changes []change.Change) map[string]change.Kind {
	t.Helper()
	got := map[string]change.Kind{}
	for _, c := range changes {
		if got[c.Path] != "" {
			t.Errorf("%q is there twice", c.Path)
		}
		got[c.Path] = c.Kind
	}
	if !slices.IsSortedFunc(changes, func(a, b change.Change) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("not sorted")
	}
	return got
}

func compareKinds(t *testing.T, got, want map[string]change.Kind) {
	t.Helper()
	for _, p := range slices.Sorted(maps.Keys(want)) {
		name, optional := strings.CutPrefix(p, "?")
		if got[name] != want[p] && !(optional && got[name] == "") {
			t.Errorf("%q is %q, want %q", name, got[name], want[p])
		}
		delete(got, name)
	}
	for _, p := range slices.Sorted(maps.Keys(got)) {
		t.Errorf("%q is %q, and is not to be there", p, got[p])
	}
}

// contents opens every file that was left.
func (sc *scene) contents(s *Sandbox, changes []change.Change) {
	sc.Helper()
	for _, c := range changes {
		f, err := s.Content(c.Path)
		if c.Kind != change.KindFile {
			if err == nil {
				sc.Errorf("%q, a %s, has a content", c.Path, c.Kind)
				_ = f.Close()
			}
			if c.SHA256 != [32]byte{} {
				sc.Errorf("%q, a %s, has a hash", c.Path, c.Kind)
			}
			continue
		}
		if err != nil {
			sc.Errorf("%q: %v", c.Path, err)
			continue
		}
		b, err := io.ReadAll(f)
		if err != nil || int64(len(b)) != c.Size || sha256.Sum256(b) != c.SHA256 {
			sc.Errorf("%q holds %d bytes, said to be %d: %v", c.Path, len(b), c.Size, err)
		}
		_ = f.Close()
	}
	for name, target := range oddLinks() {
		i := slices.IndexFunc(changes, func(c change.Change) bool { return c.Path == name })
		if i >= 0 && changes[i].Target != target {
			sc.Errorf("%q leads to %q", name, changes[i].Target)
		}
	}
}

// contentsOf returns the content of a folder, for comparison.
func contentsOf(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	var walk func(string)
	walk = func(p string) {
		entries, err := os.ReadDir(p)
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Error(err)
				continue
			}
			fmt.Fprintf(&b, "%q %v %d %d\n", p+"/"+e.Name(), info.Mode(), info.Size(), info.ModTime().UnixNano())
			if e.IsDir() {
				walk(p + "/" + e.Name())
			}
		}
	}
	walk(dir)
	return b.String()
}

// TestHostileWorkFolderClosed: Changes reads a work folder even if its mode lets nobody read
// it any more.
func TestHostileWorkFolderClosed(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, st := range stagings {
		for _, mode := range []string{"000", "400", "600", "300"} {
			t.Run(st.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				sc := newScene(t, base, self, where(st.tier))
				sc.mkdir("before")
				sc.write("before/was", "as it was", 0o644)
				s := sc.stage(st.tier, st.copied, Request{
					Work: sc.in("before"), Limits: limits(),
					Actions: []Action{{Argv: []string{"sh", "-c", "echo new >new; rm was; mkdir d; echo in >d/in; chmod " + mode + " d .; true"}}},
				})
				sc.perform(s)
				changes, err := s.Changes()
				if err != nil {
					t.Fatal(err)
				}
				compareKinds(t, kindsOf(t, changes), map[string]change.Kind{"new": change.KindFile, "was": change.KindDeleted, "d": change.KindFolder, "d/in": change.KindFile})
			})
		}
	}
}

// TestHostileAmounts: giant files, very many files and very deep folders do not stop the
// supervisor. The short form makes fewer files and folders on the disk. It always makes
// more than the limits allow, and deeper ones than the longest path of the kernel.
func TestHostileAmounts(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, st := range stagings {
		t.Run(st.name+"/many files", func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, base, self, where(st.tier))
			want := 10000
			if st.name != "overlay" {
				want = rehearsal.Count(1000, want)
			}
			s := sc.stage(st.tier, st.copied, Request{Limits: limits(), Actions: sc.program("many", strconv.Itoa(want))})
			made, _ := strconv.Atoi(strings.TrimSpace(string(sc.perform(s).Stdout.Bytes)))
			changes, err := s.Changes()
			switch {
			case st.name == "overlay" && (made >= want || !errors.Is(err, ErrStageFull)):
				t.Errorf("%d files, %v: there was to be no room for them", made, err)
			case st.name != "overlay" && (made != want || err != nil):
				t.Errorf("%d files, %v", made, err)
			}
			if len(changes) < made {
				t.Errorf("%d files were made, %d are seen", made, len(changes))
			}
			if v := change.Judge(changes, change.Rules{AnyRoot: true, MaxFiles: 200, MaxBytes: 10 << 20}); !slices.Contains(v.Reasons, "OUTPUT_LIMIT") {
				t.Errorf("judged %v", v.Reasons)
			}
		})
		t.Run(st.name+"/holes", func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, base, self, where(st.tier))
			l := limits()
			l.OutputBytes = 32 * mib
			s := sc.stage(st.tier, st.copied, Request{Limits: l, Actions: sc.program("sparse", "30", "32")})
			sc.perform(s)
			changes, err := s.Changes()
			if err != nil {
				t.Fatal(err)
			}
			read := int64(0)
			for _, c := range changes {
				if c.SHA256 != [32]byte{} {
					read += c.Size
				}
			}
			if read > 2*l.OutputBytes {
				t.Errorf("%d MiB were read, of %d MiB that are allowed", read/mib, l.OutputBytes/mib)
			}
		})
		t.Run(st.name+"/a giant", func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, base, self, where(st.tier))
			s := sc.stage(st.tier, st.copied, Request{Limits: limits(), Actions: sc.program("sparse", "1", strconv.Itoa(1<<20))})
			sc.perform(s)
			changes, err := s.Changes()
			if err != nil || len(changes) != 1 || changes[0].SHA256 != [32]byte{} && changes[0].Size > 0 {
				t.Errorf("%+v %v", changes, err)
			}
		})
		t.Run(st.name+"/deep", func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, base, self, where(st.tier))
			want := rehearsal.Count(2100, 4000)
			s := sc.stage(st.tier, st.copied, Request{Limits: limits(), Actions: sc.program("deep", strconv.Itoa(want))})
			made, _ := strconv.Atoi(strings.TrimSpace(string(sc.perform(s).Stdout.Bytes)))
			changes, err := s.Changes()
			// A folder deeper than any path need not be searched, if the result shows this.
			deepest := 0
			for _, c := range changes {
				deepest = max(deepest, len(c.Path))
			}
			if err != nil || made < want || len(changes) != made+1 && deepest <= longestPath {
				t.Errorf("%d folders were made, %d are seen, the deepest of %d bytes: %v", made, len(changes), deepest, err)
			}
		})
	}
}

// TestHostileDeeperThanDescriptors: a folder with more levels than the supervisor may have
// descriptors is removed.
func TestHostileDeeperThanDescriptors(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, tier := range []Isolation{Full, Confined} {
		t.Run(string(tier), func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, base, self, where(tier))
			sc.mkdir("temp")
			deep := strconv.Itoa(rehearsal.Count(1300, 3000))
			b, err := json.Marshal(job{Temp: sc.in("temp"), Files: 1100, Request: Request{
				Write: Staged, Read: []string{self}, Limits: limits(), Least: tier, Most: tier, Actions: sc.program("deep", deep),
			}})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, hostileArg, "supervisor")
			cmd.Stdin = bytes.NewReader(b)
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != deep+"\n" {
				t.Errorf("%v, %q", err, out)
			}
			if left, err := os.ReadDir(sc.in("temp")); err != nil || len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

// TestHostileInputsOverLinks: inputs laid over a work folder do not follow its links that
// lead outside.
func TestHostileInputsOverLinks(t *testing.T) {
	t.Parallel()
	base, self := hostileBase(t)
	for _, st := range stagings {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			sc := newScene(t, base, self, where(st.tier))
			sc.mkdir("before")
			sc.mkdir("inputs/folder")
			sc.write("inputs/folder/file", "from the inputs", 0o644)
			sc.write("inputs/folder/fresh", "from the inputs", 0o644)
			sc.mkdir("inputs/folder/sub")
			sc.write("inputs/folder/sub/fresh", "from the inputs", 0o644)
			if err := os.Symlink(sc.in("outside"), sc.in("before/folder")); err != nil {
				t.Fatal(err)
			}
			before := sc.state()
			r := Request{Work: sc.in("before"), Inputs: sc.in("inputs"), Limits: limits(), Write: Staged, Read: []string{self}, Least: st.tier, Most: st.tier,
				Actions: []Action{{Argv: []string{"sh", "-c", "cat folder/file"}}}}
			h := NewHost(sc.dir)
			defer h.Close()
			s, err := h.start(t.Context(), st.tier, r, st.copied)
			if err == nil {
				res := sc.perform(s)
				if string(res.Stdout.Bytes) != "from the inputs" {
					t.Errorf("the command reads %q", res.Stdout.Bytes)
				}
				changes, err := s.Changes()
				if err != nil || len(changes) != 0 {
					t.Errorf("%+v %v", changes, err)
				}
				_ = s.Close()
			} else {
				t.Log("refused:", err)
			}
			if now := sc.state(); now != before {
				t.Errorf("the folder outside was\n%sand is\n%s", before, now)
			}
		})
	}
}
