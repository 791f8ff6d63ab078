package agents

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTrust: Codex skips a hook that nobody has trusted, without a word, and runs one that the
// machine's requirements name. Fiador installs that one, into a /etc that this one client sees.
func TestTrust(t *testing.T) {
	full(t)
	for _, managed := range []bool{false, true} {
		name := map[bool]string{false: "nobody", true: "machine"}[managed]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client(t, "codex")
			p := place(t, c)
			c.args = slices.DeleteFunc(slices.Clone(c.args), func(arg string) bool { return arg == "--dangerously-bypass-hook-trust" })
			m := NewModel(t, shell("codex", "echo refuse > made.txt"))
			p.URL = m.URL
			if managed {
				const install = `cp -a /etc "$0" && mount --bind "$0" /etc && "$1" hook install codex --scope system --policy "$2" --tree . && shift 2 && exec "$@"`
				c.wrap = []string{"unshare", "-m", "sh", "-c", install, filepath.Join(p.Dir, "etc"), hook(t), profile(t, p, "codex")}
			} else {
				p.Hook = "echo reason-trust >&2; exit 2"
			}
			said := c.Run(t, p)
			if got := ran(p, "made.txt"); got == managed || managed != strings.Contains(m.Log(), "SAYS_REFUSE") {
				t.Errorf("that the tool runs is %v\n%s", got, said)
			}
			if managed && !strings.Contains(said, "/etc/codex/requirements.toml") {
				t.Errorf("install does not name its file:\n%s", said)
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
