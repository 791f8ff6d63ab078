package request

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
	"github.com/fiador/fiador/specs/specstest/second"
)

func fullReport() Report {
	empty := canon.Sum(nil)
	started := time.Date(2026, 1, 16, 10, 30, 0, 5e6, time.FixedZone("", 3600))
	return Report{
		ExecutionID: "run-7", ToolID: "TL-003", AdapterID: "ADP-001", ExitCode: 125, Interpretation: "tool_error", Action: "log_and_handle",
		Metadata:  Metadata{RequestedBy: "agent", RequestedAt: "2026-01-16", Purpose: "build", EvidenceRef: "ev-1"},
		Artifacts: []Artifact{{ArtifactSpec{Path: "z", Name: "n", MediaType: "text/html"}, empty, 0}, {ArtifactSpec{Path: "a"}, empty, 0}},
		Stdout:    Stream{SHA256: canon.Sum([]byte("x")), SizeBytes: 1, Truncated: true}, Stderr: Stream{SHA256: empty},
		// By code point U+FF5E is before U+1D11E, and by code unit after it.
		OutputFiles: []kernel.FileRef{{Path: "out/\uff5e", SHA256: empty}, {Path: "out/\U0001d11e", SHA256: empty, SizeBytes: 3}, {Path: "a", SHA256: empty}},
		Reasons:     []string{"STREAM_LIMIT /stdout", "OUTPUT_LIMIT out/b", "STREAM_LIMIT /stdout"},
		Ephemeral: Ephemeral{
			StartedAt: started, CompletedAt: started.Add(1500 * time.Millisecond), Duration: 1500 * time.Millisecond, PeakMemoryBytes: 1 << 40,
			Clauses: []evidence.Clause{{Clause: "timeout", Mechanism: "pidfd", Status: "enforced"}, {Clause: "cpu_cores", Status: "absent"}},
		},
	}
}

// TestReportBytes compares the whole text of a report.
func TestReportBytes(t *testing.T) {
	report := fullReport()
	b, err := report.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	const e = `"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
	want := `{"action":"log_and_handle","adapter_id":"ADP-001","artifacts":[{"media_type":"text/html","name":"n","path":"z","sha256":` + e + `,"size_bytes":0},{"path":"a","sha256":` + e + `,"size_bytes":0}],"ephemeral":{"clauses":[{"clause":"cpu_cores","mechanism":"","status":"absent"},{"clause":"timeout","mechanism":"pidfd","status":"enforced"}],` +
		`"completed_at":"2026-01-16T09:30:01.505Z","duration_ms":1500,"peak_memory_bytes":1099511627776,"started_at":"2026-01-16T09:30:00.005Z"},` +
		`"execution_id":"run-7","exit_code":125,"interpretation":"tool_error","metadata":{"evidence_ref":"ev-1","purpose":"build","requested_at":"2026-01-16","requested_by":"agent"},` +
		`"output_files":[{"path":"a","sha256":` + e + `,"size_bytes":0},{"path":"out/` + "\U0001d11e" + `","sha256":` + e + `,"size_bytes":3},{"path":"out/` + "\uff5e" + `","sha256":` + e + `,"size_bytes":0}],` +
		`"reasons":["OUTPUT_LIMIT out/b","STREAM_LIMIT /stdout"],"report_schema_version":"1.1.0","stderr":{"sha256":` + e + `,"size_bytes":0,"truncated":false},` +
		`"stdout":{"sha256":"sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","size_bytes":1,"truncated":true},"tool_id":"TL-003"}` + "\n"
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
	if report.OutputFiles[0].Path != "out/\uff5e" || report.Reasons[0] != "STREAM_LIMIT /stdout" || report.Ephemeral.Clauses[0].Clause != "timeout" {
		t.Error("the report was changed")
	}
	specstest.Valid(t, specstest.NewSpecs(t), specs.KindExecutionReport, b)
}

// TestReportLeast: the smallest report has every member, with null and empty lists where
// there is no value.
func TestReportLeast(t *testing.T) {
	r := Report{ExecutionID: "e", ToolID: "t", Interpretation: "success", Action: "continue", Stdout: Stream{SHA256: canon.Sum(nil)}, Stderr: Stream{SHA256: canon.Sum(nil)}}
	b, err := r.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	doc := specstest.Valid(t, specstest.NewSpecs(t), specs.KindExecutionReport, b).(map[string]any)
	for _, text := range []string{`"adapter_id":null`, `"output_files":[]`, `"metadata":{}`, `"artifacts":[]`, `"reasons":[]`, `"clauses":[]`, `"peak_memory_bytes":null`} {
		if !bytes.Contains(b, []byte(text)) {
			t.Errorf("%s has no %s", b, text)
		}
	}
	if len(doc) != 14 {
		t.Errorf("%d members", len(doc))
	}
}

// reportDigest returns the Digest of a report that was read and decoded to a canonical
// value. The document is not changed.
func reportDigest(doc map[string]any) (canon.ContentHash, error) {
	subset := maps.Clone(doc)
	delete(subset, "ephemeral")
	_, hash, err := canon.Artifact(subset)
	return hash, err
}

// TestReportDigest: the digest covers everything but ephemeral.
func TestReportDigest(t *testing.T) {
	base := fullReport()
	want, err := base.Digest()
	if err != nil {
		t.Fatal(err)
	}
	b, err := base.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	read, err := canon.Parse(b, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	doc := read.Value().(map[string]any)
	if got, err := reportDigest(doc); err != nil || got != want || doc["ephemeral"] == nil {
		t.Errorf("read back, the digest is %s, not %s (%v)", got, want, err)
	}
	if text, err := canon.Canonical(base.subset()); err != nil || bytes.Contains(text, []byte("ephemeral")) {
		t.Error("the subset has ephemeral")
	}
	for name, change := range map[string]func(*Report){
		"time":  func(r *Report) { r.Ephemeral.StartedAt = time.Unix(0, 0) },
		"all":   func(r *Report) { r.Ephemeral = Ephemeral{} },
		"order": func(r *Report) { slices.Reverse(r.OutputFiles); slices.Reverse(r.Reasons) },
	} {
		r := fullReport()
		change(&r)
		if got, err := r.Digest(); err != nil || got != want {
			t.Errorf("%s changes the digest (%v)", name, err)
		}
	}
	for name, change := range map[string]func(*Report){
		"execution_id":   func(r *Report) { r.ExecutionID = "x" },
		"tool_id":        func(r *Report) { r.ToolID = "x" },
		"adapter_id":     func(r *Report) { r.AdapterID = "" },
		"exit_code":      func(r *Report) { r.ExitCode = 0 },
		"interpretation": func(r *Report) { r.Interpretation = "success" },
		"action":         func(r *Report) { r.Action = "continue" },
		"artifacts":      func(r *Report) { slices.Reverse(r.Artifacts) },
		"metadata":       func(r *Report) { r.Metadata.Purpose = "" },
		"stdout":         func(r *Report) { r.Stdout.Truncated = false },
		"stderr":         func(r *Report) { r.Stderr.SizeBytes = 1 },
		"output_files":   func(r *Report) { r.OutputFiles[0].SizeBytes++ },
		"reasons":        func(r *Report) { r.Reasons = nil },
	} {
		r := fullReport()
		change(&r)
		if got, err := r.Digest(); err != nil || got == want {
			t.Errorf("%s does not change the digest (%v)", name, err)
		}
	}
}

// TestReportSchemaSpoilt spoils every place of a report. Both validators must refuse and
// accept the same.
func TestReportSchemaSpoilt(t *testing.T) {
	set, other := specstest.NewSpecs(t), second.Schema(t, specs.KindExecutionReport)
	b, err := fullReport().Bytes()
	if err != nil {
		t.Fatal(err)
	}
	full := specstest.Valid(t, set, specs.KindExecutionReport, b)
	if err := other.Validate(full); err != nil {
		t.Error(err)
	}
	refused := 0
	for _, way := range specstest.PlacesOf(full, nil) {
		for _, to := range []any{nil, true, json.Number("-1"), json.Number("256"), json.Number("1.5"), json.Number("1e300"), "", "*", "A b", []any{}, []any{""}, map[string]any{}, map[string]any{"x": "y"}} {
			v := specstest.Replaced(full, way, to)
			list, err := set.Validate(specs.KindExecutionReport, v)
			if err != nil {
				t.Fatal(err)
			}
			if second := other.Validate(v); (second == nil) != (len(list) == 0) {
				t.Errorf("%s set to %v: ours %v, second opinion %v", strings.Join(way, "/"), to, list, second)
			}
			if len(list) > 0 {
				refused++
			}
		}
	}
	if refused < 200 {
		t.Errorf("only %d refused", refused)
	}
}
