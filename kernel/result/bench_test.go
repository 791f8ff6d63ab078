package result

import (
	"fmt"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// BenchmarkBytes writes the result of a decision, and one of an execution with 100 outputs.
func BenchmarkBytes(b *testing.B) {
	hash := canon.Sum(nil)
	r := RunResult{
		RunSchemaVersion: "1.1.0", RunID: "run_20260102T030405Z_0123456789abcdef", StartedAt: "2026-01-02T03:04:05.006Z",
		CompletedAt: "2026-01-02T03:04:05.007Z", KernelVersion: "0.1.0", Policy: *defaultPolicy(),
		PolicyProvenance: Provenance{hash, hash, []ModuleDigest{{"builtin/paths.rego", hash}}, Limits{1, kernel.IsolationFull, 2, 3, 4, 5, 6}, hash},
		ExecutionMode:    "plan-only", ModelMode: "none", Intent: IntentRef{"intent.json", hash},
		Bundle: &BundleRef{"bundle_0123456789abcdef", hash}, KernelResultKind: kernel.OutcomeBundle,
		Decision: kernel.DecisionRecord{Accepted: true, Reasons: []string{}, ValidatedByKernel: true},
	}
	executed := r
	executed.Execution = &kernel.Execution{SandboxID: "sbx_0123456789abcdef", Cmd: []string{"true"}, StdoutSHA256: hash, StderrSHA256: hash, Inputs: []kernel.FileRef{}}
	for i := range 100 {
		executed.Execution.Outputs = append(executed.Execution.Outputs, kernel.FileRef{Path: fmt.Sprintf("out/page-%d.txt", i), SHA256: hash, SizeBytes: i})
	}
	for name, r := range map[string]RunResult{"decision": r, "100-outputs": executed} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Bytes(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
