package verify

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
)

// The shape of runner.json is exactly that of [Runner] (ST9). RN1 to RN10 are the checks
// of other readers of the format.

// isSignal accepts the names of signals that [contract.SignalName] gives.
func isSignal(s string) bool {
	for n := 1; n <= maxSignal; n++ {
		if contract.SignalName(n) == s {
			return true
		}
	}
	return false
}

// maxSignal is the largest signal number that waiting for a command can report.
const maxSignal = 127

// ownRunner checks the parts of runner.json that this program writes in one way only.
func (s *strictLevel) ownRunner(n *pack.Runner) {
	s.ownText("ST9", pack.RunnerFile+"#/platform/node_version", n.Platform.NodeVersion, "v0.0.0")
	s.ownText("ST9", pack.RunnerFile+"#/platform/npm_version", n.Platform.NpmVersion, "0.0.0")
	s.ownText("ST9", pack.RunnerFile+"#/sandbox/backend", n.Sandbox.Backend, "container", "process", "none")
	s.ownText("ST9", pack.RunnerFile+"#/context/locale", n.Context.Locale, "C.UTF-8")
	s.ownText("ST9", pack.RunnerFile+"#/context/timezone", n.Context.Timezone, "UTC")
	s.ownTime("ST9", pack.RunnerFile+"#/timing/started_at", n.Timing.StartedAt)
	s.ownTime("ST9", pack.RunnerFile+"#/timing/completed_at", n.Timing.CompletedAt)
	s.ownEmpty("ST9", pack.RunnerFile+"#/timing/phases", len(n.Timing.Phases))
	memory := contract.MemoryMB()
	low, most, has := int64(memory.Min)<<20, int64(memory.Max)<<20, n.Limits.MaxMemoryBytes
	s.must(low <= has && has <= most, "ST9", pack.RunnerFile+"#/limits/max_memory_bytes", "not a whole number from %d to %d", low, most)
	s.must(n.Exit.Signal == "" || isSignal(n.Exit.Signal), "ST9", pack.RunnerFile+"#/exit/signal", "not the name of a signal")
}

// checkRunner checks ST9: the sandbox got the limits of the policy, and saw the end that
// the RunResult has.
//
//   - limits are at most those of the policy, and memory at most that of
//     policy_provenance: an exec can ask for less. write_roots are sorted and beneath the
//     policy's. commands are the policy's, sorted, and nothing is blocked by name
//   - context.env_allowlist is the profile's, where the verifier has it (ST5)
//   - the isolation is no weaker than policy_provenance demands, the backend and the
//     platform are those that have it, and the network is blocked where the policy does
//     not allow it, and can be blocked where it does; filesystem_readonly is true
//   - connections were made where hosts are listed, to such hosts
//   - layers are the clauses of [evidence.Clauses], each with a status that it can have
//   - warnings are those that are given, and there only if there are any
//   - the times are those of the evidence, runner_id has the time of the start, and
//     runner_version is the kernel_version
//   - exit is that of the execution, and tells what its reasons tell, which are there too
//   - the streams are those of the execution, within what is kept of them; one that is
//     truncated goes with STREAM_LIMIT
func (s *strictLevel) checkRunner() {
	n, run := s.runner, s.run
	if n == nil || run == nil || run.Execution == nil {
		return
	}
	s.checkRunnerLimits(n, run)
	s.checkIsolation(n, run)
	t, _ := moment(n.Timing.StartedAt)
	s.must(strings.HasPrefix(n.RunnerID, t.Format(pack.RunnerIDLayout)), "ST9", pack.RunnerFile+"#/runner_id", "not of the time at which it was started")
	s.must(n.RunnerVersion == run.KernelVersion, "ST9", pack.RunnerFile+"#/runner_version", "not the kernel of run.json, %s", pack.Quoted(run.KernelVersion))
	if e := s.evidence; e != nil && (e.StartedAt != n.Timing.StartedAt || e.CompletedAt != n.Timing.CompletedAt || e.TotalDurationMS != n.Timing.DurationMS) {
		s.fault("ST9", pack.At(pack.RunnerFile, "timing"), "not the times of evidence.json")
	}
	if p := s.whole(); p != nil && !slices.Equal(n.Context.EnvAllowlist, inOneOrder(p.EnvAllow.Names)) {
		s.fault("ST9", pack.At(pack.RunnerFile, "context", "env_allowlist"), "not the profile's, sorted: %s", listed(inOneOrder(p.EnvAllow.Names)))
	}
	s.checkWarnings(n.Warnings, run)
	s.must(slices.Equal(n.Reasons, run.Decision.Reasons), "ST9", pack.RunnerFile+"#/reasons", "not those of the decision")
	why := reason.Read(run.Decision.Reasons)
	s.checkExit(n.Exit, run.Execution, why)
	stdout, stderr := contract.KeptBytes(n.Limits.MaxTotalOutputBytes)
	s.checkStream("stdout", n.Stdout, run.Execution.StdoutSHA256, stdout)
	s.checkStream("stderr", n.Stderr, run.Execution.StderrSHA256, stderr)
	cut := n.Stdout.Truncated || n.Stderr.Truncated
	s.must(cut == why.Has(reason.StreamLimit), "ST9", pack.RunnerFile, "whether a stream was cut does not go with the reasons")
}

func (s *strictLevel) checkRunnerLimits(n *pack.Runner, run *result.RunResult) {
	for _, l := range []struct {
		name       string
		is, should int64
	}{
		{"timeout_ms", int64(n.Limits.TimeoutMS), int64(run.Policy.TimeoutMS)},
		{"max_output_files", int64(n.Limits.MaxOutputFiles), int64(run.Policy.MaxOutputFiles)},
		{"max_total_output_bytes", int64(n.Limits.MaxTotalOutputBytes), int64(run.Policy.MaxTotalOutputBytes)},
		{"max_memory_bytes", n.Limits.MaxMemoryBytes, int64(run.PolicyProvenance.Limits.MemoryMB) << 20},
	} {
		if l.is < 1 || l.is > l.should {
			s.fault("ST9", pack.At(pack.RunnerFile, "limits", l.name), "%d, and the policy has %d", l.is, l.should)
		}
	}
	roots, commands := run.Policy.AllowedWriteRoots, inOneOrder(run.Policy.AllowedCommands)
	s.must(rootsWithin(n.WriteRoots, roots), "ST9", pack.RunnerFile+"#/write_roots", "not the policy's, sorted: %s", listed(inOneOrder(roots)))
	s.must(slices.Equal(n.Commands.Allowlist, commands), "ST9", pack.RunnerFile+"#/commands/allowlist", "not the policy's, sorted: %s", listed(commands))
	s.must(len(n.Commands.Blocklist) == 0, "ST9", pack.RunnerFile+"#/commands/blocklist", `not the policy's, sorted: ""`)
}

// rootsWithin says whether roots are sorted, clean, and beneath the roots of a policy.
// An exec can ask for fewer.
func rootsWithin(roots, policy []string) bool {
	for i, root := range roots {
		clean, fault := contract.CheckPath("", root)
		beneath := func(r string) bool { return kernel.Beneath(root, r) }
		if fault != nil || clean != root || i > 0 && canon.Compare(roots[i-1], root) >= 0 || len(policy) > 0 && !slices.ContainsFunc(policy, beneath) {
			return false
		}
	}
	return true
}

// inOneOrder returns a list in the order of code units, each element once.
func inOneOrder(list []string) []string {
	out := slices.Clone(list)
	slices.SortFunc(out, canon.Compare)
	return slices.Compact(out)
}

func (s *strictLevel) checkExit(x pack.RunnerExit, e *kernel.Execution, why reason.List) {
	s.must(x.Code == e.ExitCode, "ST9", pack.RunnerFile+"#/exit/code", "not that of the execution, %d", e.ExitCode)
	s.must(x.OOMKilled == (why.End.ID == reason.OOM), "ST9", pack.RunnerFile+"#/exit/oom_killed", "%t does not go with the reasons", x.OOMKilled)
	s.must(x.TimeoutKilled == (why.End.ID == reason.Timeout), "ST9", pack.RunnerFile+"#/exit/timeout_killed", "%t does not go with the reasons", x.TimeoutKilled)
	switch {
	case why.End.ID == reason.Signal && x.Signal != contract.SignalName(why.End.Number()):
		s.fault("ST9", pack.RunnerFile+"#/exit/signal", "not %s, which the reasons tell", contract.SignalName(why.End.Number()))
	case x.Signal != "" && why.End.ID != reason.Signal && why.End.ID != reason.OOM && why.End.ID != reason.Timeout:
		s.fault("ST9", pack.RunnerFile+"#/exit/signal", "no reason tells of a signal")
	}
}

func (s *strictLevel) checkStream(name string, r pack.RunnerStream, sum canon.ContentHash, most int) {
	s.must(r.SHA256 == sum, "ST9", pack.RunnerFile+"#/"+name+"/sha256", "not that of the execution")
	kept, truncated := min(r.SizeBytes, int64(most)), r.SizeBytes > int64(most)
	if r.KeptBytes == 0 && r.Truncated && r.SizeBytes > 0 && reason.Read(s.run.Decision.Reasons).Has(reason.CallOutput) {
		kept, truncated = 0, true // it repeated a secret
	}
	s.must(int64(r.KeptBytes) == kept && r.Truncated == truncated && (kept == 0) == (r.SHA256 == noBytes),
		"ST9", pack.RunnerFile+"#/"+name+"/kept_bytes", "of %d bytes %d are kept, and %d are not", r.SizeBytes, kept, r.SizeBytes-kept)
}
