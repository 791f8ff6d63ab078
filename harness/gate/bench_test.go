//go:build unix

package gate_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/gate"
)

// BenchmarkGate measures a message to a server and back: without a gate, passed on by a gate,
// and decided by a gate whose decision costs nothing. The three take turns, and the gate's share
// is the median of the differences.
func BenchmarkGate(b *testing.B) {
	direct := func() (io.Writer, *bufio.Reader) {
		cmd := exec.Command(os.Args[0], asServer, filepath.Join(b.TempDir(), "record"), "good")
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			in.Close()
			_ = cmd.Wait()
		})
		return in, bufio.NewReader(out)
	}
	gated := func() (io.Writer, *bufio.Reader) {
		fromClient, in, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		out, toClient, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			o := gate.Options{Decide: func(context.Context, gate.Call) gate.Answer { return gate.Answer{Allowed: true} }}
			if _, err := gate.Stdio(b.Context(), o, fromClient, toClient, []string{os.Args[0], asServer, filepath.Join(b.TempDir(), "record"), "good"}); err != nil {
				b.Error(err)
			}
		}()
		b.Cleanup(func() {
			in.Close()
			<-done
			out.Close()
		})
		return in, bufio.NewReader(out)
	}
	turn := func(in io.Writer, out *bufio.Reader, text string) time.Duration {
		begin := time.Now()
		if _, err := io.WriteString(in, text+"\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := out.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	in, out := direct()
	gin, gout := gated()
	for _, to := range []struct {
		io.Writer
		*bufio.Reader
	}{{in, out}, {gin, gout}} {
		turn(to, to.Reader, initialize)
		if _, err := io.WriteString(to, initialized+"\n"); err != nil {
			b.Fatal(err)
		}
	}
	ping, called := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"b"}}`, call("1", "echo", `{"path":"src/main.go","content":"package main"}`)
	var passed, decided []time.Duration
	for b.Loop() {
		plain := turn(in, out, ping)
		passed = append(passed, turn(gin, gout, ping)-plain)
		plain = turn(in, out, called)
		decided = append(decided, turn(gin, gout, called)-plain)
	}
	median := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Nanoseconds())
	}
	b.ReportMetric(median(passed), "ns/passed")
	b.ReportMetric(median(decided), "ns/decided")
}
