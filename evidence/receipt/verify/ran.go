package verify

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/work"
)

// ran compares the receipt with the item, what the pack says of its run, and the streams.
func (f *folder) ran() {
	core, eph := f.receipt.Core, f.receipt.Ephemeral
	text, err := readFile(f.root, receipt.ItemFile)
	if err != nil {
		return // hashes has said so
	}
	s, err := receipt.ReadSubject(text)
	if err != nil {
		f.fault(receipt.ItemFile, "%v", err)
		return
	}
	intent, err := s.Item.Intent(s.Agent)
	if err != nil || (s.Agent == nil) != (s.Item.Actions != nil) {
		f.fault(receipt.ItemFile, "an item has actions, or else an agent")
		return
	}
	f.must(core.AgentID == s.Item.AgentID, "core/agent_id", "not that of the item, %s", s.Item.AgentID)
	if f.result != nil && f.result.Intent.Path != s.Item.ID {
		f.fault(receipt.PackFolder+"/"+pack.RunFile+"#/intent/path", "not the id of the item")
	}
	f.must(core.IntentSHA256 == canon.Sum(intent), "core/intent_sha256", "not that of the item, %s", canon.Sum(intent))
	f.sandbox()
	f.tests()
	f.streams()
	f.trace(s)
	f.delta(s)
	m := eph.Metrics
	f.must(m.ToolOpsCount == core.Trace.Ops, "ephemeral/metrics/tool_ops_count", "not what core/trace has")
	f.must(m.DeltaSize == core.Delta.Total, "ephemeral/metrics/delta_size", "not what core/delta has")
	f.admission(s)
}

// sandbox compares what the receipt says of the sandbox with the pack.
func (f *folder) sandbox() {
	eph, none := f.receipt.Ephemeral, f.runner == nil || f.evidence == nil
	if none {
		f.must(eph.Isolation == "" && eph.Workspace == "", "ephemeral/workspace", "nothing ran")
		f.must(eph.Metrics.ExecutionTimeMS == 0, "ephemeral/metrics/execution_time_ms", "nothing ran")
		return
	}
	isolation := evidence.TierNamed(f.runner.Sandbox.IsolationLevel).Isolation
	f.must(eph.Isolation == isolation, "ephemeral/isolation", "not that of the pack, %s", isolation)
	disk := map[string]evidence.Mechanism{"overlay in memory": evidence.DiskOverlay, "copy": evidence.DiskCopy}
	how, known := disk[eph.Workspace]
	f.must(known && slices.Contains(f.runner.Sandbox.Layers, how.Clause()), "ephemeral/workspace", "not what runner.json of the pack has")
	f.must(eph.Metrics.ExecutionTimeMS == f.evidence.TotalDurationMS, "ephemeral/metrics/execution_time_ms", "not that of the pack, %d", f.evidence.TotalDurationMS)
}

// tested returns the end of the test, as the pack has it; nil: none ran.
func (f *folder) tested() *pack.RunEvidence {
	if f.evidence == nil || len(f.evidence.TestResults) == 0 || len(f.evidence.Runs) == 0 {
		return nil
	}
	return &f.evidence.Runs[len(f.evidence.Runs)-1]
}

// tests compares the end of the test with the pack, and counts its output again.
func (f *folder) tests() {
	got, metrics, run := f.receipt.Core.Tests, f.receipt.Ephemeral.Metrics, f.tested()
	var passed, failed *int
	if f.must((got != nil) == (run != nil), "core/tests", "there, or not, other than in the pack") && got != nil {
		f.must(slices.Equal(got.Argv, run.Argv), "core/tests/argv", "not the last command of the pack")
		f.must(got.ExitCode == run.ExitCode, "core/tests/exit_code", "not that of the pack, %d", run.ExitCode)
		passed, failed = got.Passed, got.Failed
		text, err := readFile(f.root, receipt.TestStdout)
		if p, n, ok := receipt.Counts(text); err == nil {
			f.must(sameCount(passed, p, ok), "core/tests/passed", "not what %s tells", receipt.TestStdout)
			f.must(sameCount(failed, n, ok), "core/tests/failed", "not what %s tells", receipt.TestStdout)
		}
	}
	f.must(sameCount(metrics.TestsPassed, value(passed), passed != nil), "ephemeral/metrics/tests_passed", "not what core/tests has")
	f.must(sameCount(metrics.TestsFailed, value(failed), failed != nil), "ephemeral/metrics/tests_failed", "not what core/tests has")
}

// sameCount says whether a number is there and right, or absent as it should be.
func sameCount(got *int, want int, there bool) bool {
	return (got != nil) == there && (!there || *got == want)
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// streams compares the files of streams with the pack. Each that the run has is there, and
// no other.
func (f *folder) streams() {
	want := map[string]string{} // SHA-256; "": the pack does not have it
	if f.evidence != nil {
		runs := f.evidence.Runs
		if test := f.tested(); test != nil {
			runs = runs[:len(runs)-1]
			want[receipt.TestStdout], want[receipt.TestStderr] = string(test.StdoutSHA256), string(test.StderrSHA256)
		}
		want[receipt.Stdout], want[receipt.Stderr] = string(canon.Sum(nil)), string(canon.Sum(nil))
		if n := len(runs); n > 0 {
			want[receipt.Stdout], want[receipt.Stderr] = string(runs[n-1].StdoutSHA256), string(runs[n-1].StderrSHA256)
		}
	}
	if f.receipt.Core.Trace.Coverage == receipt.Reported {
		want[receipt.TraceFile] = ""
	}
	have := f.receipt.Ephemeral.Streams
	for _, name := range canon.Names(have, want) {
		_, there := have[name]
		sum, should := want[name]
		if !f.must(there == should, "ephemeral/streams/"+name, "there, or not, other than the run has it") || sum == "" {
			continue
		}
		if text, err := readFile(f.root, name); err == nil && string(canon.Sum(text)) != sum {
			f.fault(name, "not what evidence.json of the pack has")
		}
	}
}

// trace counts the uses of tools again.
func (f *folder) trace(s receipt.Subject) {
	got := f.receipt.Core.Trace
	want := receipt.Trace{Coverage: receipt.None}
	switch {
	case f.evidence == nil:
	case s.Agent == nil:
		want = receipt.Trace{Coverage: receipt.Complete, Ops: len(s.Item.Actions)}
		if !f.whole() {
			want.Ops = min(got.Ops, want.Ops) // the pack does not tell how many writes went well
		}
	case got.Coverage == receipt.Reported:
		text, err := readFile(f.root, receipt.TraceFile)
		if err != nil {
			return // hashes has said so
		}
		ops, err := work.ReadTrace(text)
		if err != nil {
			f.fault(receipt.TraceFile, "%v", err)
		}
		want = receipt.Trace{Coverage: receipt.Reported, Ops: ops}
	}
	f.must(got.Coverage == want.Coverage, "core/trace/coverage", "not %s", want.Coverage)
	f.must(got.Ops == want.Ops, "core/trace/ops", "not %d", want.Ops)
}

// whole says whether all that comes before the test ran well, by the reasons.
func (f *folder) whole() bool {
	why := reason.Read(f.receipt.Core.Reasons)
	cut := []string{
		reason.InputMissing, reason.StreamLimit, reason.OutputKind, reason.OutputLimit,
		reason.CallFailed, reason.CallOutput, reason.CallRefused, reason.CallTimeout,
	}
	return f.evidence != nil && (why.End.ID == "" || why.End.ID == reason.Test) && !slices.ContainsFunc(cut, why.Has)
}

// delta compares the edit regions with the artifacts. What is made or removed has one; of what
// is modified, the receipt has the later text alone.
func (f *folder) delta(s receipt.Subject) {
	core, touched := f.receipt.Core, f.receipt.Ephemeral.Metrics.FilesTouched
	d := core.Delta
	f.must(d.Total == d.O+d.Pi+d.Lambda+d.Q, "core/delta/total", "not the sum of the lists")
	f.must(touched <= d.Total && (touched > 0) == (d.Total > 0) && (f.evidence != nil || touched == 0), "ephemeral/metrics/files_touched", "%d do not go with %d edit regions", touched, d.Total)
	if core.Status != receipt.Success {
		return
	}
	f.must(touched == len(core.Artifacts), "ephemeral/metrics/files_touched", "not the artifacts, which are %d", len(core.Artifacts))
	least, open := map[work.List]int{}, map[work.List]bool{}
	for _, a := range core.Artifacts {
		list := work.Class(a.Path, s.Item.OutputFiles)
		least[list]++
		open[list] = open[list] || a.Op == receipt.Modify
	}
	for list, got := range map[work.List]int{work.O: d.O, work.Pi: d.Pi, work.Lambda: d.Lambda, work.Q: d.Q} {
		n := least[list]
		f.must(got == n || open[list] && got > n, "core/delta/"+string(list), "the artifacts have %d at least", n)
	}
}

// admission admits a success again, and compares the limits of the item with the reasons.
func (f *folder) admission(s receipt.Subject) {
	core, why := f.receipt.Core, reason.Read(f.receipt.Core.Reasons)
	touched, limits := f.receipt.Ephemeral.Metrics.FilesTouched, s.Item.Constraints
	for _, m := range []struct {
		id        string
		got, most int
	}{{reason.MaxFiles, touched, limits.MaxFiles}, {reason.MaxToolOps, core.Trace.Ops, limits.MaxToolOps}, {reason.MaxDelta, core.Delta.Total, limits.MaxDeltaSize}} {
		over := m.got > m.most
		f.must(!f.whole() && !why.Has(m.id) || over == why.Has(m.id), "core/reasons", "%s does not go with %d, of which the item allows %d", m.id, m.got, m.most)
	}
	if core.Status != receipt.Success {
		return
	}
	f.must((core.Tests != nil) == (s.Item.Test != nil), "core/tests", "a success has the test of the item")
	f.must(s.Agent == nil || s.Agent.Trace != "required" || core.Trace.Coverage == receipt.Reported, "core/trace/coverage", "the agent's entry demands a trace")
	stood, paths := map[string]bool{}, []string{}
	for i, a := range core.Artifacts {
		stood[a.Path], paths = a.Before != "", append(paths, a.Path)
		f.must(!f.leftOut(a.Path), "core/artifacts/"+strconv.Itoa(i), "%q is no part of a state", a.Path)
	}
	reasons, _ := s.Item.Admit(work.Tried{Paths: paths, Base: func(p string) bool { return stood[p] }})
	for _, r := range reasons {
		f.must(reason.ID(r) == reason.MaxFiles, "core/artifacts", "the item does not allow it: %s", r)
	}
}

// leftOut says whether a path is the trace, or scratch, or in a folder that is scratch.
func (f *folder) leftOut(path string) bool {
	scratch := func(p string) bool {
		return slices.ContainsFunc(f.receipt.Core.Scratch, func(glob string) bool { return work.Glob(glob, p) })
	}
	for i, c := range path {
		if c == '/' && scratch(path[:i]) {
			return true
		}
	}
	return path == work.Trace || scratch(path)
}
