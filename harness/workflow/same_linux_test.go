//go:build linux && (amd64 || arm64)

package workflow_test

import (
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/harnesstest"
)

// sameCores are the hashes of the cores of TestSame without the hash of the policy. They are
// those of root and of every user, on every machine.
var sameCores = map[string]string{
	"change": "blake3:44e87240ec76a5685c1d2219c9df39327c2f9a4afb6d32ccba3b684de78749dc",
	"fail":   "blake3:6c153e668b0dcb76369a6465e2c59d242df80ac883a7889f78a3d2d88747ff85",
	"tested": "blake3:fa993c4f17d1d86e66f94f7caf964f1ec53dfc8e0cbd4889ce543e963ca823ac",
	"wide":   "blake3:ecb7eccb9458ad8d692b447bd5f4388f31024395a6ae3c8affb7b3e31af08291",
}

// TestSame: an overlay and a copy, full and confined isolation, root and an ordinary user give
// the same core.
func TestSame(t *testing.T) {
	for _, tier := range harnesstest.Tiers {
		t.Run(string(tier), func(t *testing.T) {
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
		})
	}
}
