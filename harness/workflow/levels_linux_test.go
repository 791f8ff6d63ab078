//go:build linux && (amd64 || arm64)

package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/kernel/canon"
)

// nap is a command that takes a time that nobody knows before.
const nap = `sleep 0.0$(($(od -An -N1 -tu1 /dev/urandom) % 9)); `

// logs is what the items of TestLevels leave in one file, in the order of their ids.
var logs = map[string]string{"apart": "0\n", "overlapping": "0\na\nb\ne\n", "failing": "0\na\n", "in one folder": "0\n"}

// TestLevels: whatever ends first, and however many items run at once, a plan leaves the same
// receipts, the same state and the same answer.
func TestLevels(t *testing.T) {
	for name, scripts := range map[string]map[string]string{
		"apart": {
			"a": `echo a >a`, "b": `mkdir -p d; echo b >d/b`, "c": `rm gone; echo c >c`,
			"d": `cat a d/b >d/d`, "e": `cat c >e; rm c`, "f": `cat d/d e >f`,
		},
		"overlapping": {
			"a": `echo a >>log`, "b": `echo b >>log; ls >seen`, "c": `mkdir n; echo c >n/log; tail -n1 log >>seen`,
			"d": `rm -r n; echo d >n`, "e": `test -d n && echo e >n/log; echo e >>log; exit 0`, "f": `cat log seen >f; exit 0`,
		},
		"in one folder": {
			"a": `rm -r d`, "b": `echo b >d/b`, "c": `rm -f d/kept; echo c >d/c`,
			"d": `rm -r d; echo d >d`, "e": `mkdir -p d; echo e >d/e`, "f": `ls -R >f`,
		},
		"failing": {
			"a": `echo a >>log`, "b": `echo b >>log; exit 3`, "c": `echo c >>log; echo >.git`,
			"d": `cat log >d`, "e": `echo e >e`, "f": `echo f >f`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, answers := host(t), map[string]bool{}
			jobs := []int{1, 2, 8}
			for n := range rehearsal.Count(4, 50) {
				b := newBench(t, h, map[string]string{"log": "0\n", "gone": "gone\n", "d/kept": "kept\n"})
				b.Jobs = jobs[n%3]
				for id, script := range scripts {
					b.agent(id, nap+script)
				}
				s := b.run(t, after("f", "", "d", "e"), after("d", "", "a", "b"), item("b", ""), after("e", "", "c", "a"), item("c", ""), item("a", ""))
				answers[b.answer(t, s)] = true
				if got := b.text(t, "log"); got != logs[name] {
					t.Errorf("log is %q, want %q", got, logs[name])
				}
			}
			if len(answers) != 1 {
				for a := range answers {
					t.Error(a)
				}
			}
		})
	}
}

// answer returns what a plan leaves, without run ids, receipt ids, paths of receipts and times.
func (b *bench) answer(t *testing.T, s workflow.Summary) string {
	t.Helper()
	var text strings.Builder
	for _, r := range b.got {
		rc := b.receipt(t, r)
		r.RunID, r.ReceiptID, r.ReceiptPath, r.ProofScript, r.Metrics.ExecutionTimeMS = "", "", "", "", 0
		line, err := r.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%score %s\n", line, rc.CoreHash)
	}
	for i := range s.Items {
		s.Items[i].ReceiptID = ""
	}
	_, sum, err := canon.Artifact(s)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&text, "%s %v\nstate %s\n", sum, s, b.state(t))
	return text.String()
}
