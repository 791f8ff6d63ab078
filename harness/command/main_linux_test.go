package command_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/command"
)

const (
	roleName = "COMMAND_TEST_ROLE"
	hang     = 2 * time.Minute // nothing here takes that long
)

// TestMain lets the test binary stand in for a command when it is started with
// a role.
func TestMain(m *testing.M) {
	switch os.Getenv(roleName) {
	case "":
		for fd := 3; fd < 1024; fd++ {
			syscall.CloseOnExec(fd) // descriptors that the tests were started with
		}
		for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
			if signal.Ignored(sig) { // a command would inherit this
				signal.Notify(make(chan os.Signal, 1), sig)
			}
		}
		os.Exit(m.Run())
	case "leave": // a process of another session that holds stdout
		p, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
			Env:   []string{roleName + "=sleep"},
			Files: []*os.File{nil, os.Stdout, nil},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Pid)
	case "terminal": // standard input is its controlling terminal
		onTerminal()
	case "sleep":
		time.Sleep(hang)
	}
}

func onTerminal() {
	fmt.Println("shares", command.SharesGroup(os.Stdin))
	sleeps := sh(`read pid comm state parent group rest </proc/self/stat; echo $group; exec sleep 1000`)
	ctx, cancel := context.WithCancel(context.Background())
	r, err := command.Run(ctx, func(_, stdout, stderr *os.File) (command.Process, error) { return sleeps(os.Stdin, stdout, stderr) },
		command.Spec{Grace: hang, Stdout: command.Stream{Tee: io.MultiWriter(os.Stdout, &when{text: "\n", f: cancel})}})
	if r.Signal != syscall.SIGTERM || err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ended by TERM")
}

var path = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}

func sh(script string) command.Start {
	return command.Direct([]string{"sh", "-c", script}, path, "")
}

// whenReady starts a command and returns when it has made the file ready: what it has written
// before does not race the time of the command, which begins then.
func whenReady(start command.Start, ready string) command.Start {
	return func(stdin, stdout, stderr *os.File) (command.Process, error) {
		p, err := start(stdin, stdout, stderr)
		for end := time.Now().Add(hang); err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, e := os.Stat(ready); e == nil {
				break
			}
		}
		return p, err
	}
}

func role(t *testing.T, name string) command.Start {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return command.Direct([]string{self}, []string{roleName + "=" + name}, "")
}

// run fails the test when Run hangs or fails.
func run(t *testing.T, ctx context.Context, start command.Start, spec command.Spec) command.Result {
	t.Helper()
	r, err := try(t, ctx, start, spec)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func try(t *testing.T, ctx context.Context, start command.Start, spec command.Spec) (command.Result, error) {
	t.Helper()
	type answer struct {
		command.Result
		err error
	}
	c := make(chan answer, 1)
	go func() {
		r, err := command.Run(ctx, start, spec)
		c <- answer{r, err}
	}()
	select {
	case a := <-c:
		return a.Result, a.err
	case <-time.After(hang):
		buf := make([]byte, 1<<20)
		t.Fatalf("Run hangs\n%s", buf[:runtime.Stack(buf, true)])
		panic("not reached")
	}
}

// when is a writer that calls f once, as soon as the written bytes contain text.
type when struct {
	text string
	f    func()
	buf  bytes.Buffer
	done bool
}

func (w *when) Write(b []byte) (int, error) {
	w.buf.Write(b)
	if !w.done && strings.Contains(w.buf.String(), w.text) {
		w.done = true
		w.f()
	}
	return len(b), nil
}

// settled waits until there are at most the given numbers of goroutines and descriptors.
func settled(t *testing.T, goroutines, descriptors int) {
	t.Helper()
	var g, d int
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if g, d = runtime.NumGoroutine(), countFDs(t); g <= goroutines && d <= descriptors {
			return
		}
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines and %d descriptors, %d and %d before\n%s", g, d, goroutines, descriptors, buf[:runtime.Stack(buf, true)])
}

func countFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// gone says whether a process has ended, reaped or not.
func gone(pid int) bool {
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.HasPrefix(string(b[bytes.LastIndexByte(b, ')')+1:]), " Z") {
			return true
		}
	}
	return false
}
