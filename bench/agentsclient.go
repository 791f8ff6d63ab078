package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/fiador/fiador/kernel/rpc"
)

// session is a client of an MCP server on the other side of two pipes. It writes a line, and
// reads lines until one is the answer. It reads the JSON of an answer after it has taken the
// time.
type session struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	said     bytes.Buffer // what the server has written to standard error
	asked    int
	recorded bool // each call has its record in the ledger
}

// open starts a server in the scene, and a session with it.
func (s *scene) open(ctx context.Context, argv ...string) (*session, error) {
	c := &session{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = s.dir, s.environment(), &c.said
	c.cmd.WaitDelay = time.Second
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	_, _, err = c.ask(rpc.MethodInitialize, `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	if err == nil {
		_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"`+rpc.MethodInitialized+`"}`+"\n")
	}
	if err != nil {
		c.end(&err)
	}
	return c, err
}

// ask sends a request, and returns its result and the time until the result was there.
func (c *session) ask(method, params string) (took time.Duration, result []byte, err error) {
	c.asked++
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.asked, method, params)
	begin := time.Now()
	if _, err := c.in.Write(line); err != nil {
		return 0, nil, err
	}
	for {
		text, err := c.out.ReadBytes('\n')
		took := time.Since(begin)
		if err != nil {
			return 0, nil, fmt.Errorf("no answer to %s: %w", method, err)
		}
		var answer struct {
			ID     int
			Method string
			Result json.RawMessage
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return 0, nil, err
		}
		switch {
		case answer.Method != "" || answer.ID != c.asked: // the server says something else
		case answer.Result == nil:
			return 0, nil, fmt.Errorf("the answer to %s is %s", method, text)
		default:
			return took, answer.Result, nil
		}
	}
}

// end ends a session. The server has to end by itself when nobody writes to it. If it does
// not do so well, err says that too.
func (c *session) end(err *error) {
	_ = c.in.Close()
	if failed := c.cmd.Wait(); failed != nil {
		*err = errors.Join(*err, fmt.Errorf("%s: %w: %s", c.cmd, failed, c.said.Bytes()))
	}
}
