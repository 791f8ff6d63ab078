//go:build linux && (amd64 || arm64)

package harness_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/rehearsal"
	vault "github.com/fiador/fiador/harness/secret"
)

// TestToolSecret: the process of a call has its secret. No other process has it in its
// environment or arguments, and neither the plan's hash nor any file of the pack depends on
// it.
func TestToolSecret(t *testing.T) {
	const length = `[ -n \"$TOKEN\" ] && i=0 && while [ $i -lt 1000000 ]; do i=$((i+1)); done; echo ${#TOKEN}`
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
				"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": harnesstest.CLI("A", shellTool+`,"secrets":{"TOKEN":{"env":"T"}}`, ""),
			}))
			run := func(secret string) (*execute.Performed, map[string]bool) {
				x.Deps.Secrets = vault.New(func(string) string { return secret })
				stop, seen := make(chan struct{}), make(chan map[string]bool)
				go func() { seen <- holders(stop, secret) }()
				rep := x.Run(t, intents.Actions(intents.Sh("env"), callT(length), intents.Sh("cat calls/002.response.json; echo ${TOKEN-none}; cat /proc/*/environ")), harness.Folders{})
				close(stop)
				if !bytes.HasPrefix(rep.Execution.Stdout.Bytes, []byte("\"20\\n\"\nnone\n")) {
					t.Errorf("%s: %s", rep.Bytes, rep.Execution.Stdout.Bytes)
				}
				files, err := rep.Packing().Files(rand.Reader)
				if err != nil {
					t.Fatal(err)
				}
				files["stdout"], files["stderr"], files["result"] = rep.Execution.Stdout.Bytes, rep.Execution.Stderr.Bytes, rep.Bytes
				for name, text := range files {
					if bytes.Contains(text, []byte(secret)) {
						t.Errorf("%s has the secret", name)
					}
				}
				return rep.Execution, <-seen
			}
			var a *execute.Performed
			var seen map[string]bool
			rehearsal.Again(t, 3, func(int) string {
				if a, seen = run("a secret of 20 bytes"); os.Geteuid() == 0 && len(seen) == 0 {
					return "nobody looked at the process while it ran"
				}
				return ""
			})
			b, _ := run("another one that is!")
			if len(seen) > 1 {
				t.Errorf("the processes with the secret are %v", seen)
			}
			if isolation == harnesstest.Tiers[0] && a.PlanHash != b.PlanHash { // the plan of the other tier names new folders
				t.Error("the plan depends on the secret")
			}
			if a.Calls[0] != b.Calls[0] {
				t.Errorf("calls %+v and %+v", a.Calls, b.Calls)
			}
		})
	}
}

// holders returns the processes that had a text in their environment or arguments.
func holders(stop chan struct{}, text string) map[string]bool {
	found := map[string]bool{}
	for {
		for _, name := range []string{"environ", "cmdline"} {
			list, _ := filepath.Glob("/proc/[0-9]*/" + name)
			for _, p := range list {
				if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(text)) {
					found[p] = true
				}
			}
		}
		select {
		case <-stop:
			return found
		default:
		}
	}
}

// TestSecretIsWithheld: a stream, a file, the name of a file and a link that repeat a secret
// are thrown away, whichever action makes them, and the execution is rejected.
func TestSecretIsWithheld(t *testing.T) {
	const secret = "s3cr3t/of \"twenty\" + bytes"
	keep := callT(`mkdir -p out; printf %s \"$TOKEN\" >$TMPDIR/kept; echo 1`)
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			h := harnesstest.NewTier(t, isolation)
			for name, tc := range map[string]struct {
				actions []string
				reasons []string
			}{
				"answer":       {[]string{callT(`echo \"$TOKEN\"`)}, []string{"CALL_OUTPUT /actions/0", "STREAM_LIMIT /actions/0"}},
				"base64":       {[]string{callT(`printf 'xy%s' \"$TOKEN\" | base64`)}, []string{"CALL_OUTPUT /actions/0", "STREAM_LIMIT /actions/0"}},
				"error stream": {[]string{callT(`echo \"$TOKEN\" >&2; exit 3`)}, []string{"CALL_OUTPUT /actions/0", "EXIT 3", "STREAM_LIMIT /actions/0"}},
				"later stream": {[]string{keep, intents.Sh("cat $TMPDIR/kept")}, []string{"CALL_OUTPUT /actions/1", "STREAM_LIMIT /actions/1"}},
				"file":         {[]string{callT(`mkdir out; printf %s \"$TOKEN\" >out/x; echo 1`)}, []string{"CALL_OUTPUT /actions/0"}},
				"later file":   {[]string{keep, intents.Sh("base64 <$TMPDIR/kept >out/x")}, []string{"CALL_OUTPUT /actions/0"}},
				"link":         {[]string{callT(`mkdir out; ln -s \"$TOKEN\" out/x; echo 1`)}, []string{"CALL_OUTPUT /actions/0"}},
			} {
				t.Run(name, func(t *testing.T) {
					x := harnesstest.NewExecutor(t, h, nil)
					x.Deps.Secrets = vault.New(func(string) string { return secret })
					x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{
						"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": harnesstest.CLI("A", shellTool+`,"secrets":{"TOKEN":{"env":"T"}}`, ""),
					}))
					rep := x.Run(t, intents.Actions(tc.actions...), harness.Folders{})
					if !slices.Equal(rep.Result.Decision.Reasons, tc.reasons) {
						t.Fatalf("%s", rep.Bytes)
					}
					harnesstest.Packed(t, rep)
					files, err := rep.Packing().Files(rand.Reader)
					if err != nil {
						t.Fatal(err)
					}
					files["stdout"], files["stderr"] = rep.Execution.Stdout.Bytes, rep.Execution.Stderr.Bytes
					for name, text := range files {
						if found := x.Deps.Secrets.Repeats(text); found {
							t.Errorf("%s repeats the secret", name)
						}
					}
				})
			}
		})
	}
}
