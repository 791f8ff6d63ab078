package execute

import (
	"io"
	"time"

	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/mcp"
	"github.com/fiador/fiador/kernel/adapter"
)

// endingTime is how long an MCP server has to end after SIGTERM, before it is killed.
const endingTime = 2 * time.Second

// converse starts an MCP server, makes one call, and ends the server. How the server ends
// counts only if it ends before the answer, or takes too long for one.
func (w *performance) converse(i int, bound *adapter.Bound, limit time.Duration) (a attempt, err error) {
	serverIn, toServer := io.Pipe()
	fromServer, serverOut := io.Pipe()
	over, done := make(chan struct{}), make(chan adapter.Reply, 1)
	go func() {
		reply := mcp.Stdio(w.ctx, bound, fromServer, toServer)
		_ = toServer.Close()
		go func() { _, _ = io.Copy(io.Discard, fromServer) }()
		w.endServer(over)
		done <- reply
	}()
	end, cut, err := w.startWith(i, limit, command.Spec{
		Stdin: serverIn, Stdout: command.Stream{Keep: w.task.Stdout.Keep, Tee: serverOut}, Stderr: w.task.Stderr,
	})
	close(over)
	_ = serverOut.Close()
	_ = serverIn.Close()
	a.Reply = <-done
	_ = fromServer.Close()
	if err != nil {
		return a, err
	}
	switch {
	case end.TimedOut:
		a.Failure = adapter.FailTimeout
	case a.Failure == adapter.FailUnavailable: // the server ended without an answer
	default:
		end.Code, end.Signal, end.OutOfMemory = 0, 0, false
	}
	if a.end, a.cut = &end, cut; w.leaked || cut && a.Failure == "" {
		a.Failure = adapter.FailOutput
	}
	if a.Failure != "" {
		a.Answer = nil
	}
	return a, nil
}

// endServer ends the server of a conversation that is over, unless it has ended itself.
func (w *performance) endServer(over <-chan struct{}) {
	for _, kill := range []bool{false, true} {
		select {
		case <-over:
			return
		default:
		}
		_ = w.p.box.End(kill)
		select {
		case <-over:
			return
		case <-time.After(endingTime):
		}
	}
}
