package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
)

// mcpServer is an MCP server with the tools echo and other. Its argument is a file, to which it
// appends the canonical params of each call before it answers.
func mcpServer() {
	if err := serveMCP(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveMCP(seen string) error {
	file, err := os.OpenFile(seen, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for in := bufio.NewReaderSize(os.Stdin, 1<<20); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the client has ended
		}
		m, err := rpc.Read(line)
		if err != nil {
			return err
		}
		if m.Kind != rpc.Request {
			continue
		}
		result := any(struct{}{})
		switch m.Method {
		case rpc.MethodInitialize:
			result = initializeResult{"2025-11-25", map[string]struct{}{"tools": {}}, rpc.Peer{Name: "s", Version: "1"}}
		case rpc.MethodToolsList:
			object := map[string]string{"type": "object"}
			result = map[string][]listedTool{"tools": {{"echo", object}, {"other", object}}}
		case rpc.MethodToolsCall:
			text, err := canon.Canonical(m.Params)
			if err != nil {
				return err
			}
			if _, err := file.Write(append(text, '\n')); err != nil {
				return err
			}
			result = map[string][]contentBlock{"content": {{"text", "done"}}}
		}
		answer, err := rpc.EncodeResult(m.ID, result)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", answer)
	}
}

type initializeResult struct {
	ProtocolVersion string              `json:"protocolVersion"`
	Capabilities    map[string]struct{} `json:"capabilities"`
	ServerInfo      rpc.Peer            `json:"serverInfo"`
}

type listedTool struct {
	Name        string            `json:"name"`
	InputSchema map[string]string `json:"inputSchema"`
}

type contentBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}
