package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

const (
	workerClasses = "FIADOR_REMOTE_WORKER" // the folder that .ci/remote-worker build has filled
	insideNetwork = "FIADOR_REMOTE_TEST_NETWORK"
)

// runTests runs the tests in a network namespace of their own if they start RemoteWorker,
// which listens on every address.
func runTests(m *testing.M) int {
	if os.Getenv(workerClasses) == "" {
		return m.Run()
	}
	if os.Getenv(insideNetwork) != "" {
		if err := upLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "the loopback interface cannot be used:", err)
			return 1
		}
		return m.Run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideNetwork+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		fmt.Fprintln(os.Stderr, "no network namespace can be made for RemoteWorker:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// upLoopback sets the flag that a new network namespace lacks.
func upLoopback() error {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// worker is a running RemoteWorker.
type worker struct {
	t              *testing.T
	classes, state string
	port           int
	cmd            *exec.Cmd
}

func startWorker(t *testing.T) *worker {
	w := &worker{t: t, classes: os.Getenv(workerClasses)}
	if w.classes == "" {
		t.Skipf("%s is not set: .ci/remote-worker build DIR makes Bazel's RemoteWorker", workerClasses)
	}
	// The server syncs every blob, which is slow on a disk.
	memory, err := os.MkdirTemp("/dev/shm", "fiador-remote-")
	w.state = memory
	if err != nil {
		w.state = t.TempDir()
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.port = free.Addr().(*net.TCPAddr).Port
	must(t, free.Close())
	w.start()
	t.Cleanup(func() {
		w.kill()
		os.RemoveAll(w.state)
	})
	return w
}

// start runs the server and waits until it listens.
func (w *worker) start() {
	w.t.Helper()
	script, err := filepath.Abs("../../.ci/remote-worker")
	must(w.t, err)
	log := &bytes.Buffer{}
	w.cmd = exec.Command(script, "serve", w.classes, w.state, fmt.Sprint(w.port))
	w.cmd.Stdout, w.cmd.Stderr = log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	must(w.t, w.cmd.Start())
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.port)); err == nil {
			conn.Close()
			return
		}
	}
	w.kill()
	w.t.Fatalf("RemoteWorker does not listen:\n%s", log)
}

// kill ends the server and its actions at once.
func (w *worker) kill() {
	syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL)
	w.cmd.Wait()
}

// helper starts the program and greets the server.
func (w *worker) helper(t *testing.T) *helper {
	h := startProcess(t)
	a := h.greet(helloTo(fmt.Sprintf("grpc://127.0.0.1:%d", w.port)))
	if !a.Server.Execution || a.Server.HighAPI != "2.0" || a.Server.MaxBatchBytes != 4<<20 {
		t.Errorf("got %+v", a)
	}
	return h
}

// waitFor waits for a file that an action makes.
func waitFor(t *testing.T, name string) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s does not come", name)
		}
	}
}

func TestWorker(t *testing.T) {
	w := startWorker(t)
	t.Run("copies", func(t *testing.T) {
		h := w.helper(t)
		k := newTask(t, "cat in/a >out/b; echo said >&2").file("in/a", []byte("hello\n"), false).set("platform", map[string]string{"b": "2", "a": "1"})
		h.send(k.ready())
		h.want("accepted")
		a := h.want("done")
		if got := k.made(a); string(got) != "hello\n" || a.ExitCode != 0 || a.Stderr != "said\n" || a.Ephemeral.Attempts != 1 {
			t.Errorf("got %q and %+v", got, a)
		}
	})
	t.Run("exit code", func(t *testing.T) {
		h := w.helper(t)
		k := newTask(t, "echo half >out/b; exit 7")
		h.send(k.ready())
		h.want("accepted")
		a := h.want("done")
		if got := k.made(a); string(got) != "half\n" || a.ExitCode != 7 {
			t.Errorf("got %q and %+v", got, a)
		}
	})
	t.Run("output missing", func(t *testing.T) {
		h := w.helper(t)
		k := newTask(t, "echo why >&2")
		h.send(k.ready())
		h.want("accepted")
		a := h.want("failed")
		if a.Kind != kindBroken || !strings.Contains(a.Message, `"out/b" is missing`) || !strings.Contains(a.Message, "status 0: why") || !a.MayHaveRun {
			t.Errorf("got %+v", a)
		}
		k.nothingMade()
	})
	t.Run("failed without output", func(t *testing.T) {
		h := w.helper(t)
		k := newTask(t, "echo why >&2; exit 3")
		h.send(k.ready())
		h.want("accepted")
		if a := h.want("done"); a.ExitCode != 3 || len(a.Files) > 0 || strings.TrimSpace(a.Stderr) != "why" {
			t.Errorf("got %+v", a)
		}
		k.nothingMade()
	})
	t.Run("large blob", func(t *testing.T) { largeBlob(t, w) })
	t.Run("many files", func(t *testing.T) { manyFiles(t, w) })
	t.Run("executable", func(t *testing.T) {
		h := w.helper(t)
		k := newTask(t, "").set("argv", []string{"tools/run"}).file("tools/run", []byte("#!/bin/sh\necho started >out/b\n"), true)
		h.send(k.ready())
		h.want("accepted")
		if got := k.made(h.want("done")); string(got) != "started\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		h := w.helper(t)
		mark := filepath.Join(t.TempDir(), "mark")
		k := newTask(t, "touch "+mark+"; sleep 60")
		h.send(k.ready())
		h.want("accepted")
		waitFor(t, mark)
		h.send(map[string]any{"type": "cancel", "id": "1"})
		if a := h.want("failed"); a.ID != "1" || a.Kind != kindCancelled || !a.MayHaveRun {
			t.Errorf("got %+v", a)
		}
		k.nothingMade()
	})
	t.Run("timeout", func(t *testing.T) {
		h := w.helper(t)
		k := newTask(t, "sleep 3; echo late >out/b").set("timeout_ms", 200)
		h.send(k.ready())
		h.want("accepted")
		if a := h.want("failed"); a.Kind != kindLost || a.Message != "the server ended the action after its timeout" || !a.MayHaveRun {
			t.Errorf("got %+v", a)
		}
		k.nothingMade()
	})
}

func largeBlob(t *testing.T, w *worker) {
	h := w.helper(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 700_000) // 11.2 MB
	k := newTask(t, "cat in/large in/small >out/b").file("in/large", large, false).file("in/small", []byte("end"), false).set("max_bytes", []int64{1 << 30})
	h.send(k.ready())
	h.want("accepted")
	if got := k.made(h.want("done")); !bytes.Equal(got, append(large, "end"...)) {
		t.Errorf("other bytes came back, %d of them", len(got))
	}
}

func manyFiles(t *testing.T, w *worker) {
	h := w.helper(t)
	k := newTask(t, "find in -type f | wc -l >out/b; cat in/7/77/11777 >>out/b")
	for i := range 12_000 {
		k.file(fmt.Sprintf("in/%d/%d/%d", i%10, i%100, i), fmt.Append(nil, "file ", i), false)
	}
	for run, uploads := range []bool{true, false} {
		k.set("id", fmt.Sprint(run)).set("out", t.TempDir())
		h.send(k.ready())
		h.want("accepted")
		a := h.want("done")
		if got := k.made(a); string(got) != "12000\nfile 11777" {
			t.Errorf("run %d: got %q", run, got)
		}
		if e := a.Ephemeral; uploads != (e.UploadedFiles > 12_000) || !uploads && e.UploadedBytes != 0 {
			t.Errorf("run %d: got %+v", run, e)
		}
	}
}

// TestWorkerKilled: a server that is killed during an action and starts again, with its
// blobs or without.
func TestWorkerKilled(t *testing.T) {
	for _, c := range []struct {
		name         string
		once, keeps  bool
		want         string
		wantAttempts int
	}{
		{name: "keeps its blobs", keeps: true, want: "done", wantAttempts: 2},
		{name: "loses its blobs", want: "done", wantAttempts: 2},
		{name: "once", once: true, keeps: true, want: "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := startWorker(t)
			h := w.helper(t)
			mark := filepath.Join(t.TempDir(), "mark")
			k := newTask(t, "[ -e "+mark+" ] || { touch "+mark+"; sleep 60; }; cat in/a >out/b").
				file("in/a", []byte("hello\n"), false).set("once", c.once)
			h.send(k.ready())
			h.want("accepted")
			waitFor(t, mark)
			w.kill()
			if !c.keeps {
				must(t, os.RemoveAll(filepath.Join(w.state, "cas")))
			}
			w.start()
			a := h.want(c.want)
			if c.once {
				if a.Kind != kindLost || !a.MayHaveRun {
					t.Errorf("got %+v", a)
				}
				k.nothingMade()
				return
			}
			if got := k.made(a); string(got) != "hello\n" || a.Ephemeral.Attempts != c.wantAttempts {
				t.Errorf("got %q and %+v", got, a)
			}
		})
	}
}
