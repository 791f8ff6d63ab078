//go:build amd64 || arm64

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/adapter"
)

// fourTypes are the files of a bench with a tool of each type. The service answers at a port of
// this machine.
func fourTypes(t *testing.T, port string) map[string]string {
	t.Helper()
	entry := `["private:localhost:` + port + `"]`
	const shown = `{"name":"say","inputSchema":{"type":"object"}}`
	script, err := json.Marshal(`read l; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}'; read l; read l
		echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[` + shown + `]}}'; read l; echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"four"}]}}'`)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := adapter.Digest(map[string]any{"name": "say", "inputSchema": map[string]any{"type": "object"}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"tools/servers/s.json": `{"command":["sh","-c",` + string(script) + `],"tools":{"say":"` + string(pin) + `"}}`,
		"policy/profile.json":  toolProfile(entry),
		"intent.json": `{"goal":"Call each","constraints":["now"],"actions":[{"kind":"call","tool_id":"CLI","params":{"text":"one"}},{"kind":"call","tool_id":"SDK","params":{"obj":{"b":[1.50,1e3],"a":"\u00e9"},"sort_keys":true}},
			{"kind":"call","tool_id":"MCP","params":{}},{"kind":"call","tool_id":"API","params":{"q":"x y"}},{"kind":"run","argv":["sh","-c","mkdir out; cat calls/* >out/all"]}]}`,
	}
	for id, how := range map[string]string{
		"CLI": `"cli","interface":{"cli":{"executable":"printf","base_args":["%s|"],"arg_mapping":{"text":"{value}"}}}`,
		"SDK": `"sdk","interface":{"sdk":{"language":"python","import_path":"json","function_mapping":{"dumps":"dumps"}}}`,
		"MCP": `"mcp","interface":{"mcp":{"server":"s","transport":"stdio","tool_mapping":{"say":"say"}}}`,
		"API": `"api","interface":{"api":{"base_url":"http://localhost:` + port + `","auth_method":"none","endpoint_mapping":{"get":"GET /"}}},"sandbox_override":{"network":{"enabled":true,"allow":` + entry + `}}`,
	} {
		files["tools/"+id+"/tool.json"] = `{"tool_id":"` + id + `","name":"t","version":"1.0.0","status":"active","adapters":["A"]}`
		files["tools/"+id+"/A.json"] = `{"adapter_id":"A","name":"a","version":"1.0.0","tool_id":"` + id + `","type":` + how + `}`
	}
	return files
}

// fill writes files below the folder of a bench, and indexes its tools.
func (b bench) fill(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(b.dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, b.dir, name, text)
	}
	if _, stderr, code := b.run(t, "tool", "index", filepath.Join(b.dir, "tools")); code != 0 {
		t.Fatal(stderr)
	}
}

// TestToolsAreTheSame: one intent with calls of all types has one result, one bundle and the
// same hashes of its requests and answers, in another folder and as another user.
func TestToolsAreTheSame(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("python3 is not installed here")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"for":%q}`, r.URL.RawQuery) }))
	defer server.Close()
	files := fourTypes(t, server.URL[strings.LastIndexByte(server.URL, ':')+1:])
	var recorded []byte
	perform := func(mode string, uid uint32) map[string]string {
		t.Helper()
		b := newBench(t)
		b.fill(t, files)
		recording := filepath.Join(b.dir, pack.ToolFile)
		if mode == "replay" {
			put(t, b.dir, pack.ToolFile, string(recorded))
		}
		out := filepath.Join(b.dir, "home", "pack")
		cmd, stdout, stderr := b.command(t, "run", filepath.Join(b.dir, "intent.json"), "--tools", filepath.Join(b.dir, "tools"), "--policy", filepath.Join(b.dir, "policy"),
			"--mode", "execute-sandbox", "--work", b.work, "--pack", out, "--model-mode", mode, "--tool-recording", recording)
		cmd.Path = installed(t, filepath.Join(b.dir, "fiador"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr = nil
		}
		if code := status(t, cmd.Run()); code != 0 {
			t.Fatalf("exit status %d: %s%s", code, stdout, stderr)
		}
		var calls struct {
			Calls []json.RawMessage `json:"calls"`
		}
		text, err := os.ReadFile(filepath.Join(out, pack.EvidenceFile))
		if err == nil {
			err = json.Unmarshal(text, &calls)
		}
		if err != nil || len(calls.Calls) != 4 {
			t.Fatalf("%d calls (%v): %s", len(calls.Calls), err, text)
		}
		got := map[string]string{"calls": fmt.Sprintf("%s", calls.Calls)}
		for _, name := range []string{pack.BundleFile, pack.PatchFile} {
			text, err := os.ReadFile(filepath.Join(out, name))
			if err != nil {
				t.Fatal(err)
			}
			got[name] = string(text)
		}
		digest, stderr2, code := b.run(t, "digest", filepath.Join(out, pack.RunFile))
		if got["result"] = digest; code != 0 {
			t.Fatal(stderr2)
		}
		if recorded, err = os.ReadFile(recording); err != nil {
			t.Fatal(err)
		}
		return got
	}
	live := perform("record", uint32(os.Geteuid()))
	server.Close()
	want := perform("replay", uint32(os.Geteuid()))
	if live["calls"] != want["calls"] || live[pack.PatchFile] != want[pack.PatchFile] {
		t.Errorf("recorded\n%s\nreplayed\n%s", live, want)
	}
	users := []uint32{uint32(os.Geteuid())}
	if os.Geteuid() == 0 {
		users = append(users, 65534)
	}
	for _, uid := range users {
		got := perform("replay", uid)
		for part, text := range want {
			if got[part] != text {
				t.Errorf("user %d: %s is\n%s\nand not\n%s", uid, part, got[part], text)
			}
		}
	}
}
