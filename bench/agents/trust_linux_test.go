package agents

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTrust: Codex skips a hook that nobody has trusted, without a word, and runs one that the
// machine's requirements name. The requirements stand in a /etc that this one client sees.
func TestTrust(t *testing.T) {
	full(t)
	const block = "echo reason-trust >&2; exit 2"
	for _, managed := range []bool{false, true} {
		name := map[bool]string{false: "nobody", true: "machine"}[managed]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t, "codex")
			p := place(t, c)
			c.args = slices.DeleteFunc(slices.Clone(c.args), func(arg string) bool { return arg == "--dangerously-bypass-hook-trust" })
			if managed {
				etc := filepath.Join(p.Dir, "etc")
				write(t, etc+"/codex/requirements.toml", "[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\ncommand = \""+block+"\"\ntimeout = 30\n")
				c.wrap = []string{"unshare", "-m", "sh", "-c", `mount -t overlay etc -o lowerdir="$0":/etc /etc && exec "$@"`, etc}
				if said, err := exec.Command(c.wrap[0], append(c.wrap[1:], "true")...).CombinedOutput(); err != nil {
					t.Skipf("no /etc of its own for a process: %v %s", err, said)
				}
			} else {
				p.Hook = block
			}
			m := NewModel(t, shell("codex", "echo made > made.txt"))
			p.URL = m.URL
			said := c.Run(t, p)
			if got := ran(p, "made.txt"); got == managed || managed != strings.Contains(m.Log(), "reason-trust") {
				t.Errorf("that the tool runs is %v\n%s", got, said)
			}
			if !managed && strings.Contains(strings.ToLower(said), "hook") {
				t.Errorf("Codex now speaks of the hook that it skips:\n%s", said)
			}
			if _, err := os.Lstat("/etc/codex"); managed && err == nil {
				t.Log("this machine has an /etc/codex of its own")
			}
		})
	}
}
