package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// TestCoversLosesNothing: the paths that an accepted intent announces and those that the reports
// name are exactly the paths of the diff, each once, whatever the names are. Standard error is
// inert.
func TestCoversLosesNothing(t *testing.T) {
	needGit(t)
	t.Parallel()
	for seed := range uint64(rehearsal.Count(4, 60)) {
		r := rand.New(rand.NewPCG(seed, 2))
		dir := t.TempDir()
		git := func(args ...string) string {
			cmd := exec.Command("git", args...)
			cmd.Dir, cmd.Env = dir, rehearsal.GitEnv(dir)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("git %v: %v", args, err)
			}
			return string(out)
		}
		write := func(name, text string) {
			name = filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		plain := []string{"a", "b", "c d", "é", "日本", "#x", "'q'"}
		odd := append([]string{"\xff", "n\nl", "\x1b[2J", "\"", "-", "##[error]", "e\u0301", "*", "\\"}, plain...)
		name := func(parts []string) string {
			return fmt.Sprintf("out/%s%d/%s", parts[r.IntN(len(parts))], r.IntN(3), parts[r.IntN(len(parts))]+parts[r.IntN(len(parts))])
		}
		git("init", "-q", "-b", "main")
		old := []string{"out/first"}
		for range 8 {
			old = append(old, name(odd))
		}
		for _, n := range old {
			write(n, "old")
		}
		git("add", "-A")
		git("commit", "-q", "-m", "one")
		git("checkout", "-q", "-b", "topic")
		var actions []string
		for range 1 + r.IntN(12) {
			n := name(plain)
			action, err := json.Marshal(map[string]string{"kind": "write", "path": n, "content": "new"})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(actions, string(action)) && r.IntN(2) == 0 {
				actions = append(actions, string(action))
			}
			write(n, "new")
			write(name(odd), "new")
		}
		if err := os.Remove(filepath.Join(dir, "out/first")); err != nil {
			t.Fatal(err)
		}
		write("intents/a.json", `{"goal":"Write files","constraints":["keep them"],"actions":[`+strings.Join(actions, ",")+`]}`)
		git("add", "-A")
		git("commit", "-q", "-m", "two")

		cmd := command(t, "check", "--covers", "main..HEAD", "--format", "sarif")
		cmd.Dir = dir
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		code := status(t, cmd.Run())
		var doc struct {
			Runs []struct {
				Results []struct {
					RuleID    string
					Locations []struct {
						PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
					}
				}
			}
		}
		if err := json.Unmarshal(stdout.Bytes(), &doc); err != nil {
			t.Fatalf("%v\n%s%s", err, stdout.Bytes(), stderr.Bytes())
		}
		got := []string{"intents/a.json"}
		for _, res := range doc.Runs[0].Results {
			p, err := url.PathUnescape(res.Locations[0].PhysicalLocation.ArtifactLocation.URI)
			if err != nil || res.RuleID != "CHANGE_UNANNOUNCED" {
				t.Fatalf("seed %d: %s, %v", seed, stdout.Bytes(), err)
			}
			got = append(got, p)
		}
		open := len(got) - 1
		diff := strings.Split(strings.TrimSuffix(git("diff-tree", "-r", "-z", "--name-only", "--no-renames", "main", "topic"), "\x00"), "\x00")
		for _, text := range actions {
			var action struct{ Path string }
			if err := json.Unmarshal([]byte(text), &action); err != nil {
				t.Fatal(err)
			}
			if slices.Contains(diff, action.Path) {
				got = append(got, action.Path)
			}
		}
		slices.Sort(got)
		slices.Sort(diff)
		if !slices.Equal(got, diff) {
			t.Errorf("seed %d: announced and not announced are %q, and the diff is %q", seed, got, diff)
		}
		if want := map[bool]int{true: 1, false: 0}[open > 0]; code != want {
			t.Errorf("seed %d: exit status %d with %d open paths", seed, code, open)
		}
		if bytes.ContainsAny(stderr.Bytes(), "\x1b\xff\x07") || bytes.Contains(stderr.Bytes(), []byte("##[")) {
			t.Errorf("seed %d: standard error acts on its reader: %q", seed, stderr.Bytes())
		}
	}
}
