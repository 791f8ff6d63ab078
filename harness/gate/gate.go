// Package gate owns the relay between an MCP client and an MCP server: every message of both
// sides is read strictly, and no call reaches the server before it has been decided.
//
// A message that needs no decision is passed on as its own bytes. A decided message is passed
// on in its canonical form, which is what was decided. Stdio relays between two pairs of pipes,
// Handler over streamable HTTP.
//
// The gate knows the tools of the server by its own requests of tools/list. It refuses a call
// of a tool that the server has not listed, has listed twice, or has changed.
package gate

import (
	"context"
	"io"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/fiador/fiador/harness/calltrace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/rpc"
	"github.com/fiador/fiador/lazy"
)

// Call is a message of the client that the server sees only after a decision.
type Call struct {
	Server string            // the name of the server
	Method string            // the JSON-RPC method
	Tool   string            // of tools/call, else empty
	Params map[string]any    // decoded: the arguments of tools/call, the params of other methods; {} where absent
	SHA256 canon.ContentHash // of tools/call: what the server has said about the tool (rpc.ToolDigest)
}

// Answer is the verdict on a call. If the call is refused, the client gets Text.
type Answer struct {
	Allowed bool
	Text    string
}

// Decide decides a call. It returns when the record of the decision is durable. Several calls
// may be decided at once. ctx ends when the client cancels the call or the session ends. A panic
// refuses the call. In Stdio, later calls wait for the decision.
type Decide func(ctx context.Context, c Call) Answer

// Options are what a gate is told.
type Options struct {
	Server string                       // the name of the server
	Pins   map[string]canon.ContentHash // of each tool, what the server says about it; nil: nothing is pinned
	Decide Decide
	Trace  *calltrace.Log // of every tools/call that is not refused with -32600; nil: none is kept

	// RelayRequests passes on the server's requests for sampling and elicitation, which are
	// refused otherwise.
	RelayRequests bool

	// Log gets one line for every message that is dropped, and in Stdio the lines that the
	// server writes to standard error. Nil: nobody reads them.
	Log io.Writer
}

// The limits of one session.
const (
	maxOpen      = 1024                    // requests of one side that have no answer
	maxCancelled = 256                     // of them, cancelled ones
	maxDecisions = 16                      // decisions at once
	maxHeld      = 8 * rpc.MaxMessageBytes // of calls that are being decided
	maxTools     = 1000                    // names of tools, as many as the document of a server may pin
	maxPages     = 100                     // of one listing
	listingTime  = 10 * time.Second        // of one listing
	listingPause = time.Second / 10        // from one listing to the next
	ending       = 2 * time.Second         // that a server has between SIGTERM and SIGKILL
)

const (
	codeRefused       = -32000 // of a call that is refused, or that has no answer
	methodCancelled   = "notifications/cancelled"
	methodListChanged = "notifications/tools/list_changed"
)

// decided maps each method of the client that is decided to the members that its params may
// have.
var decided = lazy.Value[map[string][]string]{Make: func() map[string][]string {
	return map[string][]string{
		rpc.MethodToolsCall:   {"name", "arguments", "task", "_meta"},
		"resources/read":      {"uri", "_meta"},
		"resources/subscribe": {"uri", "_meta"},
		"prompts/get":         {"name", "arguments", "_meta"},
		"completion/complete": {"ref", "argument", "context", "_meta"},
		"tasks/get":           {"taskId", "_meta"},
		"tasks/result":        {"taskId", "_meta"},
		"tasks/cancel":        {"taskId", "_meta"}, "tasks/list": {"cursor", "_meta"},
	}
}}

// passed are the requests of the client that nobody decides.
var passed = []string{
	rpc.MethodInitialize, rpc.MethodPing, rpc.MethodToolsList, "prompts/list", "resources/list",
	"resources/templates/list", "resources/unsubscribe", "logging/setLevel",
}

// relayed says whether a request of the server is passed on.
func (o *Options) relayed(method string) bool {
	return method == rpc.MethodPing || method == "roots/list" || o.RelayRequests && slices.ContainsFunc(
		[]string{"sampling/", "elicitation/", "tasks/"}, func(prefix string) bool { return strings.HasPrefix(method, prefix) })
}

// logger returns what writes whole lines to the log of o.
func (o *Options) logger() *log.Logger {
	if o.Log == nil {
		return log.New(io.Discard, "", 0)
	}
	return log.New(o.Log, "", 0)
}
