//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deltaNames returns everything in a folder, as kind, mode and path.
func deltaNames(t *testing.T, dir string) string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		list = append(list, fmt.Sprint(info.Mode(), " ", strings.TrimPrefix(p, dir+"/")))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

// TestDeltaForm: the form of the changes in a folder, whatever the umask is. What is neither
// file, folder, link nor deletion is left out, and so are a file over the limit, and the
// deletion of what inputs alone had.
func TestDeltaForm(t *testing.T) {
	const script = "rm in/x; echo x >>run; echo o >top; chmod 777 top; mkfifo pipe; rm a/b/c/3; rm -r f; umask 0; mkdir -p n/o; ln -s top n/l; dd if=/dev/zero of=n/big bs=1M count=11 2>/dev/null || :"
	const want = "drwxr-xr-x a, drwxr-xr-x a/b, drwxr-xr-x a/b/c, Dc--------- a/b/c/3, Dc--------- f, drwxr-xr-x n, Lrwxrwxrwx n/l, drwxr-xr-x n/o, -rwxr-xr-x run, -rwxr-xr-x top"
	for _, f := range deltaForms {
		t.Run(fmt.Sprintf("%s copied %v", f.tier, f.copied), func(t *testing.T) {
			needTier(t, f.tier)
			base, h := deltaBase(t)
			realHost(t, base, "umask 0; mkdir inputs inputs/in; echo in >inputs/in/x")
			for _, mask := range []int{0, 0o77} {
				delta := fmt.Sprint(base, "/delta", mask)
				_, s := f.ran(t, h, Request{Work: base + "/work", Inputs: base + "/inputs"}, script)
				if _, err := s.Changes(); err != nil {
					t.Fatal(err)
				}
				old := unix.Umask(mask)
				err := s.MoveTo(delta, nil)
				if unix.Umask(old); err != nil {
					t.Fatal(err)
				}
				got := deltaNames(t, delta)
				if i := strings.Index(got, ", -rw-r--r-- n/big"); i >= 0 && f.copied {
					got = got[:i] + got[i+len(", -rw-r--r-- n/big"):] // the limit on one file cut it
				}
				if got != want {
					t.Errorf("umask %o: %s", mask, got)
				}
			}
		})
	}
}

// TestDeltaLeaves: after MoveTo nothing is left of a sandbox but one open folder, and after
// Close only the caller's folder. Inputs stay until then.
func TestDeltaLeaves(t *testing.T) {
	for _, f := range deltaForms {
		t.Run(fmt.Sprintf("%s copied %v", f.tier, f.copied), func(t *testing.T) {
			needTier(t, f.tier)
			base, h := deltaBase(t)
			run := func(delta string) *Sandbox {
				in, err := h.StageInputs(base+"/work", []string{"top"}, 10, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				_, s := f.ran(t, h, Request{Work: base + "/work", Inputs: in.Dir}, "rm -r a; echo x >x; (sleep 600 &) >/dev/null 2>&1")
				s.Owns(in)
				if err := s.MoveTo(delta, nil); err != nil {
					t.Fatal(err)
				}
				return s
			}
			if err := run(base + "/first").Close(); err != nil { // what a host keeps
				t.Error(err)
			}
			before := settledBelongings(t, base+"/temp")
			delta := base + "/second"
			if err := os.Mkdir(delta, 0o755); err != nil {
				t.Fatal(err)
			}
			s := run(delta)
			moved := before
			moved.descriptors, moved.folders = before.descriptors+1, before.folders+1
			var now belongings
			if !eventually(time.Minute, func() bool { now = belongingsOf(t, base+"/temp"); return moved.keptBy(now) }) {
				t.Errorf("before %+v, after MoveTo %+v", before, now)
			}
			if kind, _, size := s.Before("top"); kind != "file" || size != 4 {
				t.Errorf("before was top a %s of %d bytes", kind, size)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !eventually(time.Minute, func() bool { now = belongingsOf(t, base+"/temp"); return before.keptBy(now) }) {
				t.Errorf("before %+v, after Close %+v", before, now)
			}
			if got := deltaNames(t, delta); got != "Dc--------- a, -rw-r--r-- x" {
				t.Error(got)
			}
		})
	}
}

func TestDeltaLeavesAsUser(t *testing.T) { testAsUser(t, "TestDeltaLeaves") }

// TestDeltaLayers: inputs lie over a delta, a delta lies over the work folder, and a request
// shows and hides paths of all of them.
func TestDeltaLayers(t *testing.T) {
	const in = `mkdir -p a h; echo in >a/in; echo in >top; echo in >h/deep`
	cases := []struct {
		name, delta string
		inputs      bool
		show, hide  []string
		want        string
	}{
		{"whiteout between", "mkdir a; mknod h c 0 0; mknod a/b c 0 0; echo d >a/1; echo d >top", true, nil, nil, "a a/1=d a/in=in e f f/g f/g/x=x f/y=y h h/deep=in link odd run top=in to-a"},
		{"file between", "echo d >a; echo d >h", true, nil, nil, "a a/in=in e f f/g f/g/x=x f/y=y h h/deep=in link odd run top=in to-a"},
		{"link between", "ln -s f a; ln -s f h", true, nil, nil, "a a/in=in e f f/g f/g/x=x f/y=y h h/deep=in link odd run top=in to-a"},
		{"shown in part", "mknod h c 0 0; mkdir -p a/b n; mknod a/b/c c 0 0; echo d >a/b/4; echo d >n/n; echo d >top", false, []string{"a/b", "h/deep", "n"}, nil, "a a/b a/b/2=2 a/b/4=d n n/n=d"},
		{"file in the place of a folder to what is shown", "echo d >a; ln -s top h", false, []string{"a/b", "h/deep", "top"}, nil, "top=top"},
		{"hidden", "echo d >new; mkdir a; mknod a/1 c 0 0; echo d >a/2", false, nil, []string{"f", "new", "a/2", "h/deep"}, "a a/b a/b/2=2 a/b/c a/b/c/3=3 e h link odd run to-a top=top"},
	}
	for _, f := range deltaForms {
		t.Run(fmt.Sprintf("%s copied %v", f.tier, f.copied), func(t *testing.T) {
			needTier(t, f.tier)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					base, h := deltaBase(t)
					r := Request{Work: base + "/work", Delta: base + "/delta", Show: c.show, Hide: c.hide}
					realHost(t, base, "umask 022; mkdir delta inputs; cd delta; "+c.delta+"\ncd ../inputs; "+in)
					if r.Inputs = base + "/inputs"; !c.inputs {
						r.Inputs = ""
					}
					out, s := f.ran(t, h, r, `find . -mindepth 1 | LC_ALL=C sort | while read -r p; do p=${p#./}; case $p in odd*) p=odd;; esac; printf ' %s' "$p"; [ -f "$p" ] && [ ! -L "$p" ] && [ -r "$p" ] && [ "$p" != run ] && printf '=%s' "$(cat "$p")"; done; true`)
					got, want := strings.Fields(out), strings.Fields(c.want)
					if f.tier == Full && c.hide != nil { // a name without content
						got = slices.DeleteFunc(got, func(p string) bool { return slices.Contains(c.hide, p) })
					}
					slices.Sort(got)
					slices.Sort(want)
					if changes := deltaChanged(t, s); !slices.Equal(got, want) || len(changes) != 0 {
						t.Errorf("%v\nand not %v\nchanged %v", got, want, changes)
					}
				})
			}
		})
	}
}

func TestDeltaLayersAsUser(t *testing.T) { testAsUser(t, "TestDeltaLayers") }

// TestDeltaRefused: a delta over direct writes, one that is not there, a folder that is not
// empty, and a file system without whiteouts.
func TestDeltaRefused(t *testing.T) {
	base, h := deltaBase(t)
	for _, tier := range []Isolation{Full, Confined} {
		r := Request{Work: base + "/work", Delta: base + "/work", Write: Direct, Limits: limits(), Least: tier, Most: tier}
		s, err := h.Start(t.Context(), r)
		if err == nil || !strings.Contains(err.Error(), "staged") {
			t.Errorf("%s, direct: %v", tier, err)
		}
		r.Write, r.Delta = Staged, base+"/no"
		if err == nil {
			s.Close()
		}
		s, err = h.Start(t.Context(), r)
		if e, ok := errors.AsType[*Error](err); !ok || e.Errno != unix.ENOENT {
			t.Errorf("%s, missing: %v", tier, err)
		}
		if err == nil {
			s.Close()
		}
	}
	needTier(t, Full)
	_, s := deltaForms[0].ran(t, h, Request{Work: base + "/work"}, "rm top; echo x >x")
	if err := s.MoveTo(base+"/work", nil); !errors.Is(err, unix.ENOTEMPTY) {
		t.Error("not empty: ", err)
	}
	if err := s.MoveTo(base+"/work/run", nil); !errors.Is(err, unix.ENOTDIR) {
		t.Error("a file: ", err)
	}
	if os.Geteuid() == 0 {
		realHost(t, base, "mkdir lower upper inner merged")
		err := unix.Mount("overlay", base+"/merged", "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/inner", base))
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(base+"/merged", 0)
		if err := s.MoveTo(base+"/merged/d", nil); !errors.Is(err, ErrWhiteouts) || !strings.Contains(err.Error(), base+"/merged/d") {
			t.Error("without whiteouts: ", err)
		}
	}
	if err := s.MoveTo(base+"/delta", nil); err != nil { // a refusal takes nothing from the sandbox
		t.Error(err)
	}
	if got := deltaNames(t, base+"/delta"); got != "Dc--------- top, -rw-r--r-- x" {
		t.Error(got)
	}
}

func TestDeltaRefusedAsUser(t *testing.T) { testAsUser(t, "TestDeltaRefused") }

// foreignVar names, for a process of this program, a folder with a file of a foreign group.
const foreignVar = "FIADOR_TEST_FOREIGN"

// TestForeignGroup: the kernel does not let a command write a file of a group that the
// sandbox does not have: a user's command sees EOVERFLOW, root's EACCES. Foreign names the
// file, unless a delta replaces it.
func TestForeignGroup(t *testing.T) {
	base, said := os.Getenv(foreignVar), "Value too large for defined data type"
	if os.Geteuid() == 0 {
		base, _ = deltaBase(t)
		realHost(t, base, "mkdir delta; echo d >delta/top; chgrp 1 work/top")
		said = "Permission denied"
	} else if base == "" {
		t.Skip("an ordinary user cannot make such a file")
	}
	needTier(t, Full)
	h := NewHost("")
	defer h.Close()
	for _, c := range []struct {
		delta string
		found bool
	}{{"", true}, {base + "/delta", false}} {
		r := Request{Work: base + "/work", Delta: c.delta, Write: Staged, Limits: limits(), Actions: []Action{{Argv: []string{"sh", "-c", "echo x >>top"}}}}
		got, err := h.ranBy(r, time.Minute, func(s *Sandbox, got ran) error {
			if name, group, found := s.Foreign(); found != c.found || found && (name != "top" || group != 1) {
				t.Errorf("delta %q: %q of group %d: %v", c.delta, name, group, found)
			}
			return nil
		})
		if refused := strings.Contains(got.stderr, said); err != nil || refused != c.found || refused != (got.code != 0) {
			t.Errorf("delta %q: %v, exit %d, %s", c.delta, err, got.code, got.stderr)
		}
	}
}

func TestForeignGroupAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user cannot make such a file")
	}
	base, _ := deltaBase(t)
	realHost(t, base, fmt.Sprintf("mkdir delta; echo d >delta/top; chown -R %[1]d:%[1]d work delta; chgrp 1 work/top", ordinaryID))
	testAsUser(t, "TestForeignGroup", foreignVar+"="+base)
}

// TestDeltaForeign: in a copy by root, what belongs to others keeps its owner, and a delta
// that replaces it belongs to the commands.
func TestDeltaForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no files of others")
	}
	for _, f := range deltaForms[:2] {
		base, h := deltaBase(t)
		realHost(t, base, "umask 022; chown -R 7:7 work/a work/f work/top work/h; chmod 600 work/a/b/2; mkdir -p delta/a; echo d >delta/top; ln -s e delta/f; echo d >delta/h; echo e >work/e/y; rmdir work/a/x 2>/dev/null || :; mkdir delta/e; echo d >delta/e/y")
		out, s := f.ran(t, h, Request{Work: base + "/work", Delta: base + "/delta"},
			`for p in top h e/y f/y a/new a/1 a/b/2 a/b/new; do (echo x >>$p) 2>/dev/null && printf '%s ' $p; done; (cat a/b/2 2>/dev/null) || echo closed`)
		if want := "top h e/y f/y a/new closed\n"; out != want {
			t.Errorf("%+v: %q", f, out)
		}
		if got := shownChanges(deltaChanged(t, s)); got != "file a/new, file e/y, file h, file top" {
			t.Errorf("%+v: %s", f, got)
		}
	}
}

// TestReflink: on a file system that shares blocks a copy does, and elsewhere one call says
// that there are none.
func TestReflink(t *testing.T) {
	copied := func(t *testing.T, dir string) (*copier, uint64) {
		t.Helper()
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		for i, p := range []string{"a", "b/c"} {
			realFile(t, filepath.Join(from, p), strings.Repeat(fmt.Sprint(i), 8<<20))
		}
		if err := os.Mkdir(to, 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(dir, unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		free := func() uint64 {
			var st unix.Statfs_t
			if err := errors.Join(unix.Syncfs(fd), unix.Fstatfs(fd, &st)); err != nil {
				t.Fatal(err)
			}
			return st.Bfree * uint64(st.Bsize)
		}
		before := free()
		c := &copier{left: copyBytes, files: copyFiles}
		if err := c.copy(to, from); err != nil {
			t.Fatal(err)
		}
		defer c.to.Close()
		taken := before - free()
		if out, err := exec.Command("diff", "-r", from, to).CombinedOutput(); err != nil {
			t.Errorf("the copy differs: %s", out)
		}
		return c, taken
	}
	t.Run("none", func(t *testing.T) {
		dir := t.TempDir()
		if os.Geteuid() == 0 {
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
				t.Skip("nothing can be mounted here: ", err)
			}
			defer unix.Unmount(dir, 0)
			if c, _ := copied(t, dir); !c.plain {
				t.Error("a file system in memory has reflinks")
			}
			return
		}
		copied(t, dir)
	})
	t.Run("xfs", func(t *testing.T) {
		dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
		script := `truncate -s 400M "$1" && mkfs.xfs -q -m reflink=1 "$1" && mount -o loop "$1" "$2"`
		if out, err := exec.Command("sh", "-c", script, "sh", image, dir).CombinedOutput(); err != nil {
			t.Skipf("no xfs can be mounted here: %v: %s", err, out)
		}
		defer unix.Unmount(dir, 0)
		if c, taken := copied(t, dir); c.plain || taken > 4<<20 {
			t.Errorf("a copy of 16 MiB took %d bytes, refused: %v", taken, c.plain)
		}
	})
}
