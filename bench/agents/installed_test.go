package agents

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstalled: from nothing to a refused call, as a user goes: a ledger is made, the hook is
// installed into the client's settings, the client runs. The model gets the reason, the ledger
// has both decisions, and explain names the rule and its line. After uninstall, the client
// runs the tool again.
func TestInstalled(t *testing.T) {
	full(t)
	each(t, testInstalled)
}

func testInstalled(t *testing.T, c Client) {
	p := place(t, c)
	bin, policy := hook(t), profile(t, p, c.Name)
	ledger, key := filepath.Join(p.Dir, "ledger"), filepath.Join(p.Dir, "key")
	if said, err := exec.Command(bin, "ledger", "init", ledger, "--key", key, "--origin", "example.org/agents").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	const install = `"$0" hook install NAME --policy "$1" --ledger "$2" --ledger-key "$3" && `
	started := func(then string, calls ...Call) (m *Model, said string) {
		m = NewModel(t, calls...)
		at := p
		at.URL = m.URL
		script := strings.ReplaceAll(install+then, "NAME", c.Name) + `shift 3 && exec "$@"`
		with := c
		with.wrap = []string{"sh", "-c", script, bin, policy, ledger, key}
		return m, with.Run(t, at)
	}
	m, said := started("", shell(c.Name, "echo refuse > refused.txt"), shell(c.Name, "echo made > made.txt"))
	for name, want := range map[string]bool{"refused.txt": false, "made.txt": true} {
		if got := ran(p, name); got != want {
			t.Errorf("%s: that the tool runs is %v", name, got)
		}
	}
	if !strings.Contains(longest(m), "SAYS_REFUSE") {
		t.Error("the model does not get the reason")
	}
	tell := func(args ...string) string {
		out, _ := exec.Command(bin, args...).Output() // what is printed counts
		return string(out)
	}
	list := tell("ledger", "list", "--ledger", ledger, "--format", "jsonl")
	if strings.Count(list, `"result_kind":"REFUSE"`) != 1 || strings.Count(list, `"result_kind":"BUNDLE"`) != 1 {
		t.Errorf("the ledger has %s", list)
	}
	var entry struct {
		Intent string `json:"intent_base64"`
	}
	if err := json.Unmarshal([]byte(tell("ledger", "show", "1", "--evidence", "--ledger", ledger)), &entry); err != nil {
		t.Fatal(err)
	}
	intent, err := base64.StdEncoding.DecodeString(entry.Intent)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.Dir+"/intent.json", string(intent))
	if why := tell("explain", "--intent", p.Dir+"/intent.json", "--policy", policy); !strings.Contains(why, "SAYS_REFUSE") || !strings.Contains(why, "rules.rego:7") {
		t.Errorf("explain says %s", why)
	}
	if _, again := started(`"$0" hook uninstall NAME && `, shell(c.Name, "echo refuse > again.txt")); !ran(p, "again.txt") {
		t.Errorf("the hook is still there after uninstall: %s", again)
	}
	if t.Failed() {
		t.Logf("the client says\n%s\n%s", said, longest(m))
	}
}

// wrapped are the files of servers that mcp wrap changes. Codex keeps its servers in TOML.
var wrapped = map[string]string{"claude-code": ".claude.json", "gemini": ".gemini/settings.json", "copilot": ".copilot/mcp-config.json"}

// TestWrapped: mcp wrap puts the gate before the servers in a client's file. The client still
// has the server's tools, makes the call that the policy allows, and not the other one. After
// unwrap the file has its old bytes.
func TestWrapped(t *testing.T) {
	full(t)
	each(t, testWrapped)
}

func testWrapped(t *testing.T, c Client) {
	file := wrapped[c.Name]
	if file == "" {
		t.Skip(c.Name + " has no JSON file of servers: its servers are wrapped by hand")
	}
	p := place(t, c)
	bin, policy := hook(t), profile(t, p, c.Name)
	m := NewModel(t, gateCalls(c.Name)...)
	p.URL = m.URL
	name := filepath.Join(p.Home(), file)
	const wrap = `cp "$2" "$2.old" && "$0" mcp wrap "$2" --policy "$1" && cp "$2" "$2.new" && shift 2 && exec "$@"`
	c.wrap = []string{"sh", "-c", wrap, bin, policy, name}
	said := c.Run(t, p)
	for name, want := range map[string]bool{"mcp.txt": true, "unknown.txt": false} {
		if got := ran(p, name); got != want {
			t.Errorf("%s: that the server is called is %v", name, got)
		}
	}
	if !strings.Contains(longest(m), "TOOL_NOT_ALLOWED") {
		t.Error("the model does not get the reason")
	}
	old, err := os.ReadFile(name + ".old")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil { // the client may have written its settings
		t.Fatal(err)
	}
	if out, err := exec.Command(bin, "mcp", "unwrap", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != string(old) {
		t.Errorf("unwrap gives %s (%v), and it was %s", text, err, old)
	}
	if t.Failed() {
		t.Logf("the client says\n%s\n%s", said, longest(m))
	}
}
