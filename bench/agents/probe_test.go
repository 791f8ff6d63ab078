package agents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// serveProbe is an MCP server on stdio. Its tools make the file that "path" names, beneath
// the folder.
func serveProbe(folder string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	tool := `{"name":%q,"description":"Makes a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}`
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Arguments       struct{ Path string }
			}
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		answer := `"error":{"code":-32601,"message":"no such method"}`
		switch m.Method {
		case "initialize":
			answer = fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"probe","version":"1"}}`, m.Params.ProtocolVersion)
		case "ping":
			answer = `"result":{}`
		case "tools/list":
			answer = fmt.Sprintf(`"result":{"tools":[%s,%s]}`, fmt.Sprintf(tool, "make_file"), fmt.Sprintf(tool, "two__parts"))
		case "tools/call":
			err := os.WriteFile(filepath.Join(folder, m.Params.Arguments.Path), []byte("made\n"), 0o600)
			answer = fmt.Sprintf(`"result":{"isError":%v,"content":[{"type":"text","text":"%v"}]}`, err != nil, err)
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
	}
}
