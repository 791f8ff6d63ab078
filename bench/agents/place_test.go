package agents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// client returns the client of a name.
func client(t testing.TB, name string) Client {
	t.Helper()
	for _, c := range Clients {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no client is named %s", name)
	panic("not reached")
}

// each runs a test for every client, several at once.
func each(t *testing.T, test func(t *testing.T, c Client)) {
	for _, c := range Clients {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// place returns a place of its own for a client, with the MCP server in it. It skips the test
// where the client is missing.
func place(t testing.TB, c Client) Place {
	t.Helper()
	path := c.Find(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := Place{Dir: dir, Seconds: 30}
	p.Server = []string{filepath.Join(dir, "probe"), "probe", p.Project()}
	if err := os.Symlink(self, p.Server[0]); err != nil {
		t.Fatal(err)
	}
	if c.unpacks != "" {
		if p.Unpacked, err = unpack(path, c.unpacks); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// full skips a test outside the full form.
func full(t testing.TB) {
	t.Helper()
	if os.Getenv(rehearsal.FullVar) != "1" {
		t.Skip("it starts each client several times: only with " + rehearsal.FullVar + "=1")
	}
}

var unpacking struct {
	sync.Mutex
	done bool
}

// unpack has the one client that unpacks itself beneath HOME do so, once for all tests, and
// returns the folder.
func unpack(path, folder string) (string, error) {
	unpacking.Lock()
	defer unpacking.Unlock()
	home := filepath.Join(scratch, "home")
	if unpacking.done {
		return filepath.Join(home, folder), nil
	}
	cmd := exec.Command(path, "--version")
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + scratch, "PATH=" + os.Getenv("PATH"), "COPILOT_AUTO_UPDATE=false"}
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	unpacking.done = true
	return filepath.Join(home, folder), nil
}
