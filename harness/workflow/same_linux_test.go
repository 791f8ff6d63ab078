//go:build linux && (amd64 || arm64)

package workflow_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/sandbox"
)

// sameCores are the hashes of the cores of TestSame without the hash of the policy. They are
// those of root and of every user, on every machine.
var sameCores = map[string]string{
	"change": "blake3:b3a0ba0b12ce7165696617cda07377edb0f2ddb8bbf2f041240e293b42d0262c",
	"fail":   "blake3:6b16e41ebbf02f17d987beb3aaedabdf4d9763fbc01a938c195b628907d05da4",
	"tested": "blake3:7c00b79c9aae47baf15b3c73a6cb123e03921ff7a4c1cdd4dcb6e6793e124b4d",
	"wide":   "blake3:dc5c6af8df9cc9cec4ec572e1caa8f4106aeb6e6c077abb51d183cfd0cf3f5b5",
}

// TestSame: an overlay and a copy, full and confined isolation, root and an ordinary user give
// the same core.
func TestSame(t *testing.T) {
	for _, tier := range harnesstest.Tiers {
		t.Run(string(tier), func(t *testing.T) { same(t, tier) })
	}
	t.Run("reflinks", func(t *testing.T) {
		dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
		script := `truncate -s 400M "$1" && mkfs.xfs -q -m reflink=1 "$1" && mount -o loop "$1" "$2"`
		if out, err := exec.Command("sh", "-c", script, "sh", image, dir).CombinedOutput(); err != nil {
			t.Skipf("no xfs can be mounted here: %v: %s", err, out)
		}
		t.Cleanup(func() {
			if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", dir)
		t.Run("confined", func(t *testing.T) { same(t, sandbox.Confined) })
	})
}

// same runs the plan of TestSame in one tier.
func same(t *testing.T, tier sandbox.Isolation) {
	b := newBench(t, harnesstest.NewTier(t, tier), map[string]string{
		"src/a": "one\ntwo\nthree\n", "+src/run": "#!/bin/sh\n", "src/old/x": "x", "src/old/y/z": "z", "link": "->src/a", "b": "\x00\xff", "é": "e",
	})
	b.agent("change", `printf 'one\n2\nthree\nfour' >src/a; chmod -x src/run; rm -r src/old; mkdir -p out/new; echo x >out/new/x; chmod +x out/new/x
				rm link; mv b src/b; echo '{"tool":"sh","ok":true}' >.agent-trace.jsonl; echo '{"tool":"mv","ok":false}' >>.agent-trace.jsonl`)
	b.agent("wide", `for i in 1 2 3; do echo $i >out/new/$i; done`)
	b.agent("fail", `echo no >&2; echo x >out/new/x; exit 3`)
	b.run(t, item("change", `"output_files":["out/new/x"],"test_command":"sh -c 'test -x out/new/x && test ! -e src/old && printf \"1..1\\nok 1\\n\"'",`),
		after("wide", `"constraints":{"max_files":2},`, "change"), after("fail", "", "change"),
		after("tested", `"actions":[{"kind":"write","path":"out/t","content":"t"}],"test_command":"cat out/t; exit 4",`, "change"))
	for _, r := range b.got {
		rc := b.receipt(t, r)
		rc.Core.PolicySHA256 = ""
		again, err := receipt.New(rc.Core, rc.Ephemeral, "")
		if err != nil {
			t.Fatal(err)
		}
		if want := sameCores[r.ID]; again.CoreHash != want {
			t.Errorf("%s: %q, want %q: %+v", r.ID, again.CoreHash, want, rc.Core)
		}
	}
	if len(b.got) != len(sameCores) {
		t.Errorf("%d results", len(b.got))
	}
}

// TestNothingOfTheMachine: no file of a store names the machine, its user, or a folder of it, and
// no result does. The core has no clock: TestSame has its hash.
func TestNothingOfTheMachine(t *testing.T) {
	b := newBench(t, host(t), map[string]string{"src/a": "one\n"})
	b.agent("env", `env; pwd; id; hostname; cat /etc/hostname /proc/sys/kernel/hostname; echo two >src/b`)
	b.run(t, item("env", `"test_command":"sh -c 'env; pwd; hostname; cat src/*'",`))
	if len(b.got) != 1 || b.got[0].Status != receipt.Success {
		t.Fatalf("%+v", b.got)
	}
	printed, err := b.got[0].Bytes()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"the result": string(printed)}
	err = fs.WalkDir(os.DirFS(b.base), "store", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(filepath.Join(b.base, name))
			files[name] = string(text)
		}
		return err
	})
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	secret := []string{b.base, name + "\n", os.Getenv("HOME") + "/", os.TempDir() + "/fiador"}
	for file, text := range files {
		for _, s := range secret {
			if len(s) > 2 && strings.Contains(text, s) {
				t.Errorf("%s has %q", file, s)
			}
		}
	}
}
