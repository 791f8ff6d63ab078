//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/command"
)

func limits() Limits {
	return Limits{MemoryMB: 512, CPUCores: 1, MaxChildren: 10, OutputFiles: 200, OutputBytes: 10 << 20}
}

// do runs one command and returns what came out.
func do(t *testing.T, h *Host, r Request) (command.Result, End, []Change) {
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
		res, err = command.Run(context.Background(), s.Command(i, 10*time.Second, &end), command.Spec{
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

func TestFirst(t *testing.T) {
	h := NewHost("")
	defer h.Close()
	work := t.TempDir()
	os.MkdirAll(work+"/sub/dir", 0o755)
	os.MkdirAll(work+"/.git", 0o755)
	os.WriteFile(work+"/sub/dir/x", []byte("x"), 0o644)
	os.WriteFile(work+"/keep", []byte("keep"), 0o644)
	os.WriteFile(work+"/touch", []byte("same"), 0o644)
	for _, most := range []Isolation{Full, Confined} {
		res, end, changes := do(t, h, Request{Work: work, Write: Staged, Limits: limits(), Least: most, Most: most, Protect: []string{".git"}, Actions: []Action{
			{Argv: []string{"sh", "-c", "ls -laR . ; rm -r sub; mkdir sub; echo 2 >sub/new; touch touch; rm keep; echo > .git/x; mount | grep work; cat /proc/self/mountinfo"}},
		}})
		t.Logf("%s exit %d %+v\n%s\n%s\n%+v", most, res.ExitCode(), end, res.Stdout.Bytes, res.Stderr.Bytes, changes)
	}
	for _, most := range []Isolation{Full, Confined} {
		begin := time.Now()
		res, end, changes := do(t, h, Request{Write: Staged, Limits: limits(), Least: most, Most: most, Actions: []Action{
			{Path: "out/a.txt", Content: []byte("hello\n")},
			{Argv: []string{"sh", "-c", "id; pwd; ls -la / . /dev; cat out/a.txt; env; mkdir -p out/b; echo x >out/b/c; cat /proc/self/status | grep -iE 'cap|sec|nonew'"}},
		}})
		t.Logf("%s %v exit %d %+v\n%s\n%s\n%+v", most, time.Since(begin), res.ExitCode(), end, res.Stdout.Bytes, res.Stderr.Bytes, changes)
	}
}
