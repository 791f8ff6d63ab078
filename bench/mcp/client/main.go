// Command client starts an MCP server, makes one call with the official Go SDK, prints the
// first text of the answer, and ends the server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("the arguments are TOOL ARGUMENTS COMMAND and those of the command")
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, nil).
		Connect(ctx, &sdk.CommandTransport{Command: exec.Command(args[2], args[3:]...)}, nil)
	if err != nil {
		return err
	}
	answer, err := session.CallTool(ctx, &sdk.CallToolParams{Name: args[0], Arguments: json.RawMessage(args[1])})
	if err == nil && (answer.IsError || len(answer.Content) == 0) {
		err = errors.New("the call has failed")
	}
	if err != nil {
		return errors.Join(err, session.Close())
	}
	if text, ok := answer.Content[0].(*sdk.TextContent); ok {
		fmt.Println(text.Text)
	}
	return session.Close()
}
