// Package mcp holds Fiador's client of the Model Context Protocol, and its gate, against servers
// and clients that are not ours:
//
//   - servers of the official Go SDK, github.com/modelcontextprotocol/go-sdk, over pipes and over
//     streamable HTTP
//   - the reference servers everything, filesystem and memory, which are packages of npm. Their
//     tests are skipped where the commands mcp-server-everything, mcp-server-filesystem and
//     mcp-server-memory are not in PATH
//
// It is a module of its own so that Fiador's does not depend on the SDK.
package mcp
