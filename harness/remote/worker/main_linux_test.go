//go:build linux && (amd64 || arm64)

package worker_test

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/remote/job"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
)

// shim is the built program.
var shim string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// shimVar is the variable of the environment with a shim that has been built, for a user who cannot
// build one.
const shimVar = "FIADOR_SHIM"

func run(m *testing.M) int {
	if shim = os.Getenv(shimVar); shim != "" {
		return rehearsal.Tests{M: m}.Run()
	}
	dir, err := os.MkdirTemp("", "fiador-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shim = filepath.Join(dir, "fiador-shim")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", shim, "../../../cmd/fiador-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building fiador-shim: %v\n%s", err, out)
		return 1
	}
	return rehearsal.Tests{M: m}.Run()
}

const (
	ordinary = 65534 // the user who runs a shim that root does not run
	stranger = 12345 // the owner of a worker's inputs
)

// laid is an action as a worker lays it out, and how the worker starts the shim.
type laid struct {
	dir, temp string
	user      int // 0: the same user
	spec      *job.Spec
	text      []byte // of spec.json, if it is not that of spec
	before    func(t *testing.T)
	through   []string // the command that starts the shim; empty: the worker itself
}

// lists returns what a spec lists of a folder.
func lists(t *testing.T, dir string) []job.Entry {
	t.Helper()
	var list []job.Entry
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		e := job.Entry{Path: filepath.ToSlash(strings.TrimPrefix(p, dir+"/")), Mode: int(info.Mode().Perm())}
		switch {
		case d.IsDir():
			e.Kind = job.Folder
		case d.Type().IsRegular():
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			e.Kind, e.Size, e.SHA256 = job.File, int64(len(text)), canon.Sum(text)
		default:
			e.Kind, e.Mode = job.Link, 0
			if e.Target, err = os.Readlink(p); err != nil {
				return err
			}
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b job.Entry) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// layInputs lays the files of a folder out as workers do: folders only where they have a file, and
// no links. Each file comes from put.
func layInputs(t *testing.T, from, to string, list []job.Entry, put func(from, to string) error) {
	t.Helper()
	for _, e := range list {
		if e.Kind != job.File {
			continue
		}
		at := filepath.Join(to, e.Path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), put(filepath.Join(from, e.Path), at)); err != nil {
			t.Fatal(err)
		}
	}
}

// copied returns a function that copies a file, with a mode and an owner; 0: the same user.
func copied(mode fs.FileMode, owner int) func(from, to string) error {
	return func(from, to string) error {
		text, err := os.ReadFile(from)
		if err == nil {
			err = errors.Join(os.WriteFile(to, text, mode), os.Chmod(to, mode))
		}
		if err == nil && owner != 0 {
			err = os.Chown(to, owner, owner)
		}
		return err
	}
}

// newAction lays out an action whose work folder is that of the spec's list, or empty.
func newAction(t *testing.T, spec *job.Spec, work string, put func(from, to string) error) *laid {
	t.Helper()
	base := rehearsal.SharedTemp(t)
	l := &laid{dir: filepath.Join(base, "action"), temp: filepath.Join(base, "temp"), spec: spec}
	for _, dir := range []string{l.dir, filepath.Join(l.dir, "fiador"), filepath.Join(l.dir, job.OutDir), l.temp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if work != "" {
		layInputs(t, work, filepath.Join(l.dir, job.WorkDir), spec.Work, put)
	}
	syscall.ForkLock.RLock() // a process that starts meanwhile would have the file open, and it would be busy
	err := copied(0o755, 0)(shim, filepath.Join(l.dir, job.ShimFile))
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start starts the shim. Its action has the outputs' folder, as the protocol promises.
func (l *laid) start(t *testing.T) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	text := l.text
	if text == nil {
		var err error
		if text, _, err = l.spec.Artifact(); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(l.dir, job.SpecFile)
	if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, text, 0o444)); err != nil {
		t.Fatal(err)
	}
	if l.before != nil {
		l.before(t)
	}
	argv := append(slices.Clone(l.through), "fiador/shim")
	cmd := exec.Command(argv[0], argv[1:]...)
	if len(l.through) == 0 {
		cmd.Path, cmd.Err = "fiador/shim", nil // as a worker starts it: from the folder of the action
	}
	cmd.Dir, cmd.Env = l.dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + l.temp}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if l.user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(l.user), Gid: uint32(l.user)}
		for _, dir := range []string{filepath.Join(l.dir, job.OutDir), l.temp} {
			if err := os.Chown(dir, l.user, l.user); err != nil {
				t.Fatal(err)
			}
		}
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &said
}

// answer is what a shim wrote.
type answer struct {
	*job.Result
	files        map[string][]byte // of data.tar
	result, data []byte
}

// perform runs the shim, and checks the form of its outputs.
func (l *laid) perform(t *testing.T) answer {
	t.Helper()
	cmd, said := l.start(t)
	if err := cmd.Wait(); err != nil || said.Len() > 0 {
		t.Fatalf("the shim ended with %v and said %s", err, said)
	}
	l.cleared(t, job.ResultFile, job.DataFile)
	return l.read(t)
}

// cleared checks that nothing but these outputs is left.
func (l *laid) cleared(t *testing.T, outputs ...string) {
	t.Helper()
	if left, err := os.ReadDir(l.temp); err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v (%v)", left, err)
	}
	left, err := os.ReadDir(filepath.Join(l.dir, job.OutDir))
	var names []string
	for _, d := range left {
		names = append(names, path.Join(job.OutDir, d.Name()))
	}
	slices.Sort(outputs)
	if err != nil || !slices.Equal(names, outputs) {
		t.Errorf("the outputs are %v, want %v (%v)", names, outputs, err)
	}
}

func (l *laid) read(t *testing.T) answer {
	t.Helper()
	a := answer{files: map[string][]byte{}}
	var err error
	for name, text := range map[string]*[]byte{job.ResultFile: &a.result, job.DataFile: &a.data} {
		file := filepath.Join(l.dir, name)
		if *text, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(file); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s has mode %v (%v)", name, info.Mode(), err)
		}
	}
	if a.Result, err = job.ReadResult(a.result, len(a.result)); err != nil {
		t.Fatalf("%v\n%s", err, a.result)
	}
	sent, err := os.ReadFile(filepath.Join(l.dir, job.SpecFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || a.Spec != canon.Sum(sent) {
		t.Errorf("the result is that of spec %s (%v)", a.Spec, err)
	}
	a.check(t)
	return a
}

// check holds data.tar against the result: it has these entries, in this order, and nothing else.
func (a *answer) check(t *testing.T) {
	t.Helper()
	type entry struct {
		name string
		size int64
		sum  canon.ContentHash
	}
	var want []entry
	for i, s := range a.Steps {
		if s.End != nil {
			want = append(want, entry{"stdout/" + strconv.Itoa(i), s.End.Stdout.Kept, s.End.Stdout.SHA256}, entry{"stderr/" + strconv.Itoa(i), s.End.Stderr.Kept, s.End.Stderr.SHA256})
		}
	}
	for i, c := range a.Changes {
		if c.SHA256 != "" {
			want = append(want, entry{"files/" + strconv.Itoa(i), c.Size, c.SHA256})
		}
	}
	if a.Refused != nil && (len(want) > 0 || a.Isolation != "") {
		t.Errorf("a refusal has results: %+v", a.Result)
	}
	blocks := int64(2)
	r := tar.NewReader(bytes.NewReader(a.data))
	for _, e := range want {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if h.Name != e.name || h.Size != e.size || canon.Sum(text) != e.sum || err != nil {
			t.Errorf("an entry is %s of %d bytes with %s, want %v (%v)", h.Name, h.Size, canon.Sum(text), e, err)
		}
		if h.Typeflag != tar.TypeReg || h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.Uname+h.Gname != "" || h.ModTime.Unix() != 0 || h.Format != tar.FormatUSTAR {
			t.Errorf("%s has the header %+v", h.Name, h)
		}
		a.files[h.Name] = text
		blocks += 1 + (e.size+511)/512
	}
	if _, err := r.Next(); err != io.EOF || int64(len(a.data)) != blocks*512 {
		t.Errorf("data.tar has %d bytes, and what the result names takes %d (%v)", len(a.data), blocks*512, err)
	}
}

// limits are those of the specs of the tests.
func limits() sandbox.Limits {
	return sandbox.Limits{MemoryMB: 512, CPUCores: 1, MaxChildren: 10, OutputFiles: 200, OutputBytes: 10 << 20}
}

func sh(script string) sandbox.Action { return sandbox.Action{Argv: []string{"sh", "-c", script}} }

// specOf returns a spec of actions in an isolation.
func specOf(tier sandbox.Isolation, actions ...sandbox.Action) *job.Spec {
	s := &job.Spec{Version: job.Version, StdoutMax: 1 << 20, StderrMax: 256 << 10, BudgetMS: 60_000}
	s.Fill(sandbox.Request{Limits: limits(), Least: tier, Most: tier, Actions: actions})
	return s
}

func text64(t *testing.T, s string) string {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// users are those who run the shim: root and an ordinary user, or this ordinary user.
func users() []int {
	if os.Geteuid() != 0 {
		return []int{0}
	}
	return []int{0, ordinary}
}

// hostOf returns a host of one tier of this machine. If the machine cannot give the isolation,
// hostOf skips the test and says why. harnesstest.NewTier would find the shims of other tests.
func hostOf(t *testing.T, tier sandbox.Isolation) harnesstest.Tier {
	t.Helper()
	h := harnesstest.Tier{Host: sandbox.NewHost(rehearsal.SharedTemp(t)), Isolation: tier}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := h.Start(t.Context(), sandbox.Request{Write: sandbox.Staged, Least: tier, Limits: limits()})
	if err != nil {
		t.Skipf("%s isolation cannot be had here: %v", tier, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return h
}
