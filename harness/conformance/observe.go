package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fiador/fiador/harness/command"
)

// maxStream is the maximum output of a program on a stream, in bytes.
const maxStream = 8 << 20

// settle is the time that a process has to end after the program's end. Later it counts
// as left running. It is needed because a kill takes some time.
const settle = 2 * time.Second

// observation is the result of one call.
type observation struct {
	dir            string // working folder
	code           int
	signal         syscall.Signal // the signal that ended the program; 0: it exited
	stopped        string         // why the program was killed; "": it ended by itself
	held           bool           // another process held a stream of the program after its end
	left           []string       // commands of the program that were still running, and were killed
	stdout, stderr []byte
	before, after  map[string]item // the working folder, by slash-separated path
	began, ended   time.Time
}

// watch sees the output while it arrives.
type watch struct {
	mu      sync.Mutex
	streams [2]bytes.Buffer
	flooded context.CancelCauseFunc
}

var errFlood = errors.New("flood")

func (w *watch) event(stream int, _ time.Time, chunk []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &w.streams[stream-1]
	if b.Len()+len(chunk) > maxStream {
		chunk = chunk[:maxStream-b.Len()]
		w.flooded(errFlood)
	}
	b.Write(chunk)
}

func (w *watch) bytes(stream int) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.streams[stream-1].Bytes())
}

func (w *watch) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.streams[0].Bytes(), []byte(text))
}

// observe calls a program as the vector says, in a new folder.
func (r Runner) observe(ctx context.Context, program []string, v Vector, dir string) (observation, error) {
	o := observation{dir: filepath.Join(dir, "work")}
	err := v.setup.make(dir, o.dir)
	if err == nil {
		o.before, err = survey(o.dir)
	}
	if err != nil {
		return o, fmt.Errorf("making the folder of %s: %w", v.ID, err)
	}
	argv := slices.Clone(program)
	for _, word := range v.command.args {
		argv = append(argv, inPlace(word, o.dir))
	}
	spec, release, err := v.command.spec()
	if err != nil {
		return o, err
	}
	defer release()
	spec.Timeout = v.deadline
	mark := "TMPDIR=" + filepath.Join(dir, "tmp")
	start := launch(argv, r.environment(v, dir, o.dir), o.dir, mark, v.command)
	unsent, err := o.run(ctx, start, spec, v.command.signals, filepath.Join(dir, "tmp", "ready"))
	allowed := v.expected.leaves
	patience := settle
	if o.stopped != "" || allowed || err != nil {
		patience = 0
	}
	if o.left = sweep(mark, patience); allowed {
		o.left = nil
	}
	if err != nil {
		return o, err
	}
	if o.stopped != "" && unsent != "" {
		o.stopped += "; " + unsent
	}
	o.after, err = survey(o.dir)
	return o, err
}

// run runs the program and stores the result. unsent names the signal that was not sent,
// because its moment did not come.
func (o *observation) run(ctx context.Context, start command.Start, spec command.Spec, list []sending, ready string) (unsent string, err error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{flooded: cancel}
	signals := make(chan os.Signal)
	spec.Events, spec.Signals = w.event, signals
	over := make(chan string, 1)
	stop := make(chan struct{})
	go func() { over <- send(list, signals, stop, w, ready) }()
	o.began = time.Now()
	res, err := command.Run(inner, start, spec)
	o.ended = time.Now()
	close(stop)
	unsent = <-over
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	o.code, o.signal, o.held = res.Code, res.Signal, res.Held
	o.stdout, o.stderr = w.bytes(1), w.bytes(2)
	switch {
	case res.TimedOut:
		o.stopped = "did not end within " + spec.Timeout.String() + " and was killed"
	case res.Interrupted && context.Cause(inner) == errFlood:
		o.stopped = fmt.Sprintf("wrote more than %d bytes to a stream and was killed", maxStream)
	}
	return unsent, err
}

// send sends each signal at its moment, until stop. It returns the signal that was not
// sent, and why.
func send(list []sending, to chan<- os.Signal, stop <-chan struct{}, w *watch, ready string) string {
	for _, s := range list {
		why := s.name + " was not sent, for "
		come := func() bool { return true }
		switch {
		case s.file:
			why += "the command had not begun"
			come = func() bool { _, err := os.Stat(ready); return err == nil }
		case s.after != "":
			why += fmt.Sprintf("%q had not come on standard output", s.after)
			come = func() bool { return w.has(s.after) }
		default:
			why += "it was not yet time"
		}
		for !come() {
			select {
			case <-stop:
				return why
			case <-time.After(5 * time.Millisecond):
			}
		}
		select {
		case <-stop:
			return why
		case <-time.After(s.delay):
		}
		select {
		case <-stop:
			return why
		case to <- s.signal:
		}
	}
	return ""
}

// environment returns the program's environment: sorted, each name once.
func (r Runner) environment(v Vector, dir, work string) []string {
	vars := map[string]string{}
	for _, e := range r.Env {
		name, value, _ := strings.Cut(e, "=")
		vars[name] = value
	}
	vars["HOME"], vars["TMPDIR"], vars["LC_ALL"] = filepath.Join(dir, "home"), filepath.Join(dir, "tmp"), "C"
	if r.Names == RFC {
		vars["SAFE_RUN_LOG_NAMES"] = string(RFC)
	}
	for name, value := range v.command.env {
		vars[name] = inPlace(value, work)
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// spec returns the streams and actions around the program. release closes the files that
// are held open for it.
func (c invocation) spec() (spec command.Spec, release func(), err error) {
	release = func() {}
	switch {
	case c.open:
		read, write, err := os.Pipe()
		if err != nil {
			return spec, release, err
		}
		spec.Stdin, release = read, func() { read.Close(); write.Close() }
		if c.stdin != nil {
			if _, err := write.WriteString(*c.stdin); err != nil {
				release()
				return spec, func() {}, err
			}
		}
	case c.stdin != nil:
		spec.Stdin = strings.NewReader(*c.stdin)
	}
	spec.Grace = -1
	return spec, release, nil
}

// inPlace replaces the placeholder of the working folder in a text of the vector.
func inPlace(s, work string) string { return strings.ReplaceAll(s, "{{dir}}", work) }

// make makes the folders of one call and the entries of the working folder.
func (s setup) make(dir, work string) error {
	for _, d := range []string{dir, work, filepath.Join(dir, "home"), filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	for _, f := range s.folders {
		if err := os.MkdirAll(filepath.Join(work, f.path), 0o755); err != nil {
			return err
		}
	}
	for _, f := range s.files {
		name := filepath.Join(work, f.path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := writeProgram(name, f.content, f.mode); err != nil {
			return err
		}
	}
	for _, l := range s.links {
		name := filepath.Join(work, l.path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(inPlace(l.content, work), name)); err != nil {
			return err
		}
	}
	for _, f := range s.folders {
		if err := os.Chmod(filepath.Join(work, f.path), f.mode); err != nil {
			return err
		}
	}
	return nil
}

// writeProgram writes a file that can be executed at once. While the file is open for
// writing, no other goroutine may fork. The child would keep it open, and executing it
// would fail with "text file busy".
func writeProgram(name, content string, mode fs.FileMode) error {
	syscall.ForkLock.RLock()
	err := os.WriteFile(name, []byte(content), mode)
	syscall.ForkLock.RUnlock()
	return errors.Join(err, os.Chmod(name, mode)) // independent of the umask
}
