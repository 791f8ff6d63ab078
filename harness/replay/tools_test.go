package replay

import (
	"testing"

	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/kernel"
)

// TestReplayOfTools: a decision about calls of tools is made again without the registry, from
// what the binding made of the calls then.
func TestReplayOfTools(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	gate := harnesstest.OpenBuiltin(t, set, "dev")
	gate.UseTools(harnesstest.Registry(t, set, map[string]string{
		"T/tool.json": harnesstest.Tool(`"A","B"`),
		"T/A.json":    harnesstest.CLI("A", `"executable":"sort","arg_mapping":{"key":"-k {value}"},"env_mapping":{"order":"ORDER"}`, `,"errors":{"fallback":{"adapter_id":"B","condition":"any"}}`),
		"T/B.json":    harnesstest.CLI("B", `"executable":"bash","base_args":["sort.sh"],"arg_mapping":{"key":"{value}","order":"{value}"}`, ""),
	}))
	m := harnesstest.NewMemory()
	for params, want := range map[string]kernel.Outcome{`{"key":"2"}`: kernel.OutcomeBundle, `{"key":"2","order":"up"}`: kernel.OutcomeBundle, `{"kee":"2"}`: kernel.OutcomeRefuse} {
		for tool, want := range map[string]kernel.Outcome{"T": want, "U": kernel.OutcomeRefuse} {
			src := `{"goal":"Sort","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":""},{"kind":"call","tool_id":"` + tool + `","params":` + params + `}]}`
			rep, rec := m.Decided(t, set, gate, src)
			if rep.Decision.Outcome != want {
				t.Fatalf("%s", rep.Bytes)
			}
			rp, err := (&Session{Specs: set, Evidence: m.Blob}).Replay(t.Context(), rec)
			if err != nil || rp.Status != Match {
				t.Errorf("%s: %+v %v", src, rp, err)
			}
		}
	}
}
