//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/tree"
)

// deltaTree makes the work folder of these tests.
const deltaTree = `umask 022; mkdir -p a/b/c e f/g h; echo 1 >a/1; echo 2 >a/b/2; echo 3 >a/b/c/3; echo top >top; echo x >f/g/x
echo y >f/y; printf 'echo run\n' >run; chmod +x run; ln -s top link; ln -s a to-a; echo deep >h/deep; echo odd >'odd name'`

// deltaLook prints everything in the folder that a command starts in.
const deltaLook = `find . -mindepth 1 -printf '%y %m %p %l\n' | LC_ALL=C sort; find . -type f -exec sha256sum {} + | LC_ALL=C sort`

// deltaForm is a way in which a sandbox keeps written files apart.
type deltaForm struct {
	tier   Isolation
	copied bool
}

var deltaForms = []deltaForm{{Full, false}, {Full, true}, {Confined, true}}

// start starts a sandbox of this form alone.
func (f deltaForm) start(t *testing.T, h *Host, r Request) *Sandbox {
	t.Helper()
	r.Write, r.Limits = Staged, limits()
	s, err := h.start(t.Context(), f.tier, r, f.copied)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if s.staging != map[bool]staging{true: stageCopy, false: stageOverlay}[f.copied] {
		t.Fatalf("the staging of %+v is %s", f, s.staging)
	}
	return s
}

// deltaRan performs a script in a sandbox of this form, and returns what it printed and the
// sandbox.
func (f deltaForm) ran(t *testing.T, h *Host, r Request, script string) (string, *Sandbox) {
	t.Helper()
	r.Actions = []Action{{Argv: []string{"sh", "-c", script}}}
	s := f.start(t, h, r)
	res, err := command.Run(t.Context(), s.Command(0, time.Minute, nil), command.Spec{Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 1 << 20}})
	if err != nil || res.ExitCode() != 0 {
		t.Fatalf("%v: exit %d: %s\n%s", err, res.ExitCode(), res.Stderr.Bytes, script)
	}
	return string(res.Stdout.Bytes), s
}

// deltaChanged returns the changes of a sandbox without the entries that they replace.
func deltaChanged(t *testing.T, s *Sandbox) []change.Change {
	t.Helper()
	list, err := s.Changes()
	if err != nil {
		t.Fatal(err)
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Before = nil
	}
	return list
}

// deltaBase returns a folder that everybody can reach, a host whose folders for copies are
// in it, and the work folder in it.
func deltaBase(t *testing.T) (base string, h *Host) {
	t.Helper()
	base, err := os.MkdirTemp("", "delta-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(base+"/temp", 0o755), os.Mkdir(base+"/work", 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(base+"/whiteout", unix.S_IFCHR, 0); err != nil {
		t.Skip("the file system of the folder for temporary files takes no whiteouts: ", err)
	}
	realHost(t, base+"/work", deltaTree)
	h = NewHost(base + "/temp")
	t.Cleanup(func() { h.Close() })
	return base, h
}

func deltaOutput(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, script)
	}
	return string(out)
}

// deltaStanding is what a sandbox says about everything that was there before.
func deltaStanding(s *Sandbox) (list []string) {
	for _, p := range append(slices.Collect(s.Below(".")), "no", "a/b", "a/b/2", "a/b/c/3", "e/x", "f/g/x", "top/x", "to-a/1", "h/deep") {
		kind, sum, size := s.Before(p)
		list = append(list, fmt.Sprintf("%s %s %x %d", p, kind, sum[:4], size))
	}
	slices.Sort(list)
	return list
}

// checkDelta performs a script in one sandbox and moves its changes to a folder. A second
// sandbox with these changes over the work folder sees what the script makes of a plain
// copy, and a script in it has the changes that it has over that plain copy.
func checkDelta(t *testing.T, f deltaForm, base string, h *Host, script, then string) {
	t.Helper()
	plain, delta, r := filepath.Join(base, "plain"), filepath.Join(base, "delta"), Request{Work: base + "/work"}
	defer tree.RemoveAll(plain)
	defer tree.RemoveAll(delta)
	realHost(t, base, "umask 022; cp -a work plain; cd plain; "+script+"\nchown -Rh --reference=$PWD/../work .")
	_, s := f.ran(t, h, r, script)
	first := deltaChanged(t, s)
	if err := s.MoveTo(delta, nil); err != nil {
		t.Fatal(err)
	}
	checkMoved(t, s, first)
	want := deltaOutput(t, plain, deltaLook)
	over := Request{Work: r.Work, Delta: delta}
	got, s := f.ran(t, h, over, deltaLook)
	if got != want || len(deltaChanged(t, s)) != 0 {
		t.Errorf("%+v: %s\nchanged %v\n%s", f, script, first, differs(want, got))
	}
	_, one := f.ran(t, h, over, then)
	_, two := f.ran(t, h, Request{Work: plain}, then)
	if a, b := deltaChanged(t, one), deltaChanged(t, two); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v: %s\nand then %s\nchanges\n%+v\nand not\n%+v", f, script, then, a, b)
	}
	if a, b := deltaStanding(one), deltaStanding(two); !slices.Equal(a, b) {
		t.Errorf("%+v: %s\nbefore stood\n%s\nand not\n%s", f, script, strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	for _, s := range []*Sandbox{s, one, two} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// checkMoved: after MoveTo a sandbox has its changes and their content still.
func checkMoved(t *testing.T, s *Sandbox, first []change.Change) {
	t.Helper()
	if again := deltaChanged(t, s); !reflect.DeepEqual(first, again) {
		t.Errorf("the changes are %v, and were %v", again, first)
	}
	for _, c := range first {
		if c.Kind != change.KindFile {
			continue
		}
		r, err := s.Content(c.Path)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := tree.Digest(r)
		if r.Close(); err != nil || sum != c.SHA256 {
			t.Errorf("%s has another content: %v", c.Path, err)
		}
	}
}

// TestDelta: changes of each kind, and what a command makes of them.
func TestDelta(t *testing.T) {
	cases := []struct{ name, script, then string }{
		{"nothing", "true", "echo new >new; rm top"},
		{"file replaced", "echo other >top; echo more >>a/1", "echo again >top; rm a/1"},
		{"file deleted", "rm top a/1", "echo back >top; mkdir a/1"},
		{"folder deleted", "rm -r a", "mkdir -p a/b; echo 2 >a/b/2"},
		{"nested whiteout", "rm a/b/c/3 f/g/x", "rmdir a/b/c; rm -r f"},
		{"folder over file", "rm top; mkdir -p top/in; echo in >top/in/it", "echo it >top/in/it; rm -r top; echo top >top"},
		{"file over folder", "rm -r a; echo a >a", "rm a; mkdir a; echo 1 >a/1"},
		{"link", "ln -s a/1 new-link; ln -sfn f link; rm top; ln -s run top", "rm new-link link; echo top >link"},
		{"link over folder", "rm -r f; ln -s a f", "rm f; mkdir -p f/g; echo x >f/g/x"},
		{"folder over link", "rm to-a; mkdir to-a; echo 1 >to-a/1", "rm -r to-a; ln -s a to-a"},
		{"new file in a new folder", "mkdir -p n/o; echo p >n/o/p", "echo q >n/o/q; rm n/o/p"},
		{"folder made again", "rm -r a; mkdir -p a/b; echo new >a/b/new", "echo 2 >a/b/2; rm a/b/new"},
		{"file with its old content", "echo other >top; echo top >top", "echo other >top"},
		{"executable", "chmod +x top; chmod -x run", "chmod -x top; chmod +x run"},
		{"moved", "mv a moved; mv top a", "mv a top; mv moved a"},
		{"made and deleted", "echo x >x; rm x; mkdir y; rmdir y", "echo x >x"},
		{"folder emptied", "rm h/deep; rmdir e", "rmdir h; mkdir e"},
		{"everything deleted", "rm -r *", deltaTree},
		{"names", "echo 1 >'a\nb'; echo 2 >$(printf '\\303\\244\\377'); mkdir ' '; echo 3 >' /-x'; rm 'odd name'", "rm -r ' '"},
	}
	for _, f := range deltaForms {
		t.Run(fmt.Sprintf("%s copied %v", f.tier, f.copied), func(t *testing.T) {
			needTier(t, f.tier)
			base, h := deltaBase(t)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { checkDelta(t, f, base, h, c.script, c.then) })
			}
			if os.Geteuid() == 0 { // the work folder of somebody else, and changes that root holds
				if err := giveAway(base+"/work", ordinaryID); err != nil {
					t.Fatal(err)
				}
				t.Run("of a user", func(t *testing.T) {
					checkDelta(t, f, base, h, "echo other >top; mkdir -p n; echo n >n/n; rm a/1", "echo again >>top; echo n >>n/n; rm n/n; echo 1 >a/1")
				})
			}
		})
	}
}

func TestDeltaAsUser(t *testing.T) { testAsUser(t, "TestDelta") }

// deltaRandom returns a script of random changes, none of which fails.
func deltaRandom(rnd *rand.Rand) string {
	paths := []string{"a", "a/1", "a/b", "a/b/2", "a/b/c", "a/b/c/3", "e", "f", "f/g", "f/g/x", "f/y", "h", "top", "run", "link", "to-a", "n", "n/o", "n/o/p"}
	var b strings.Builder
	for range 1 + rnd.IntN(12) {
		p, q := paths[rnd.IntN(len(paths))], paths[rnd.IntN(len(paths))]
		fmt.Fprintf(&b, []string{
			"rm -rf %[1]s 2>/dev/null || :\n",
			"{ rm -rf %[1]s; mkdir -p %[1]s; } 2>/dev/null || :\n",
			"{ rm -rf %[1]s; mkdir -p $(dirname %[1]s) && echo %[3]d >%[1]s; } 2>/dev/null || :\n",
			"{ echo %[3]d >>%[1]s; } 2>/dev/null || :\n",
			"{ rm -rf %[1]s; ln -s %[2]s %[1]s; } 2>/dev/null || :\n",
			"{ rm -rf %[1]s; cp -P %[2]s %[1]s; } 2>/dev/null || :\n",
			"{ [ ! -d %[2]s ] && mv -f %[2]s %[1]s; } 2>/dev/null || :\n",
			"{ [ -f %[1]s ] && chmod +x %[1]s; } 2>/dev/null || :\n",
		}[rnd.IntN(8)], p, q, rnd.IntN(3))
	}
	return b.String()
}

// TestDeltaRandom: the same of random changes.
func TestDeltaRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, f := range deltaForms {
		t.Run(fmt.Sprintf("%s copied %v", f.tier, f.copied), func(t *testing.T) {
			needTier(t, f.tier)
			base, h := deltaBase(t)
			for i := range rehearsal.Count(15, 150) {
				checkDelta(t, f, base, h, deltaRandom(rnd), deltaRandom(rnd))
				if t.Failed() {
					t.Fatalf("round %d of seed %d", i, seed)
				}
			}
		})
	}
}

func TestDeltaRandomAsUser(t *testing.T) { testAsUser(t, "TestDeltaRandom") }
