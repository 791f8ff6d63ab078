//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/command"
)

func limits() Limits {
	return Limits{MemoryMB: 512, CPUCores: 1, MaxChildren: 10, OutputFiles: 200, OutputBytes: 10 << 20}
}

// do runs one command and returns its result, its end and its changes.
func do(t *testing.T, h *Host, r Request) (command.Result, End, []change.Change) {
	t.Helper()
	s, err := h.Start(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var end End
	var res command.Result
	for i, a := range r.Actions {
		if len(a.Argv) == 0 {
			if errno, err := s.Write(i); err != nil || errno != 0 {
				t.Fatalf("write %s: %v %v", a.Path, errno, err)
			}
			continue
		}
		res, err = command.Run(context.Background(), s.Command(i, actionTime, &end), command.Spec{
			Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 256 << 10},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	changes, err := s.Changes()
	if err != nil {
		t.Error(err)
	}
	return res, end, changes
}

// TestSmoke: in each tier a file is written, and a command reads it and writes another. The
// changes are these two files and their folders.
func TestSmoke(t *testing.T) {
	h := NewHost(t.TempDir())
	defer h.Close()
	for _, tier := range []Isolation{Full, Confined} {
		r := Request{Write: Staged, Limits: limits(), Least: tier, Most: tier, Actions: []Action{
			{Path: "out/a.txt", Content: []byte("hello\n")},
			{Argv: []string{"sh", "-c", "cat out/a.txt; mkdir out/b; echo x >out/b/c; exit 3"}},
		}}
		s, err := h.Start(context.Background(), r)
		var e *Error
		if errors.As(err, &e) && e.Cause != "" {
			t.Logf("%s cannot be had here: %v", tier, e)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		res, _, changes := do(t, h, r)
		var paths []string
		for _, c := range changes {
			paths = append(paths, string(c.Kind)+" "+c.Path)
		}
		want := []string{"folder out", "file out/a.txt", "folder out/b", "file out/b/c"}
		if res.ExitCode() != 3 || string(res.Stdout.Bytes) != "hello\n" || !slices.Equal(paths, want) {
			t.Errorf("%s: exit %d, %q %q, %q", tier, res.ExitCode(), res.Stdout.Bytes, res.Stderr.Bytes, paths)
		}
	}
}

// TestEveryCommandAlike: the first command, which starts from the thread of the rehearsal,
// has the rights and limits of a later one. A file before it, which brings its folder about,
// changes nothing.
func TestEveryCommandAlike(t *testing.T) {
	h := NewHost(t.TempDir())
	defer h.Close()
	look := Action{Argv: []string{"sh", "-c", "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Cpus_allowed)' /proc/self/status; cat /proc/self/limits; echo x >/usr/x; echo x >>out/x && cat out/x"}}
	for _, tier := range []Isolation{Full, Confined} {
		for _, first := range [][]Action{nil, {{Path: "out/x", Content: []byte("first\n")}}} {
			s, err := h.Start(t.Context(), Request{Write: Staged, Limits: limits(), Least: tier, Most: tier, Actions: slices.Concat(first, []Action{look, look, look})})
			if e, ok := errors.AsType[*Error](err); ok && e.Cause != "" {
				t.Logf("%s cannot be had here: %v", tier, e)
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			var seen []string
			for i := range len(first) + 3 {
				if i < len(first) {
					if errno, err := s.Write(i); errno != 0 || err != nil {
						t.Fatal(errno, err)
					}
					continue
				}
				res, err := command.Run(t.Context(), s.Command(i, actionTime, nil), command.Spec{Stdout: command.Stream{Keep: 1 << 20}, Stderr: command.Stream{Keep: 1 << 20}})
				if err != nil {
					t.Fatal(err)
				}
				out, _, _ := strings.Cut(string(res.Stdout.Bytes), "first\n")
				seen = append(seen, out+string(res.Stderr.Bytes))
				if ok := res.ExitCode() == 0; ok != (first != nil) {
					t.Errorf("%s: command %d: %v: %s", tier, i, res.ExitCode(), seen[len(seen)-1])
				}
			}
			if seen[0] != seen[1] || seen[1] != seen[2] || !strings.Contains(seen[0], "NoNewPrivs:\t1") {
				t.Errorf("%s: three commands differ: %q", tier, seen)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
