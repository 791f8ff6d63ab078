// Package mcp holds Fiador's client of the Model Context Protocol, its gate and its server against
// servers and clients that are not ours:
//
//   - servers and the client of the official Go SDK, github.com/modelcontextprotocol/go-sdk, over
//     pipes and over streamable HTTP
//   - the reference servers everything, filesystem and memory, which are packages of npm. Their
//     tests are skipped where the commands mcp-server-everything, mcp-server-filesystem and
//     mcp-server-memory are not in PATH
//   - the client of the official TypeScript SDK, @modelcontextprotocol/sdk, on which these servers
//     depend. testdata/client.mjs is the client, and node runs it
//
// Both clients have the same conversations with the reference servers, with the gate and without
// it. The Go SDK's client also starts fiador mcp serve. That program is built from the tree, and
// go test does not see when it changes: -count=1 runs the tests again.
//
// It is a module of its own so that Fiador's does not depend on the SDK.
package mcp
