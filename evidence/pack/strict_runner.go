package pack

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// The shape of runner.json is exactly that of [Runner] (ST9). What other readers of the
// format hold it against is RN1 to RN10.

func (s *strictLevel) readRunner() {
	d := s.doc(RunnerFile)
	if d == nil || d.value == nil {
		return
	}
	r := s.shape("ST9", RunnerFile)
	if runner := r.runner(d.value); !r.bad {
		s.runner = runner
	}
}

// word is a text of a machine: 1 to 64 characters.
func (o *members) word(name string) string { return o.text(name, 1, 64) }

func (o *members) words(name string) []string {
	return o.texts(name, 10000, func(s string) bool { return s != "" && upTo(4096)(s) }, "a string of 1 to 4096 characters")
}

// isSignal accepts the names of signals that signalName gives.
func isSignal(s string) bool {
	for n := 1; n <= maxSignal; n++ {
		if signalName(n) == s {
			return true
		}
	}
	return false
}

// maxSignal is the largest number that a signal can have where a command is waited for.
const maxSignal = 127

func (r *shape) runner(v any) *Runner {
	o := r.object(v)
	n := &Runner{Version: o.one("runner_schema_version", RunnerVersion), RunnerID: o.form("runner_id", isRunnerID, "the id of a runner"), RunnerVersion: o.word("runner_version")}
	o.within("platform", func(v any) {
		o := r.object(v)
		n.Platform = Platform{
			OS: o.one("os", "linux", "darwin", "win32"), Arch: o.one("arch", "x64", "arm64", "ia32"), NodeVersion: o.one("node_version", "v0.0.0"), NpmVersion: o.one("npm_version", "0.0.0"),
			GoVersion: o.word("go_version"), KernelRelease: o.text("kernel_release", 0, 256), LandlockABI: o.count("landlock_abi", 0, 1000),
		}
		o.done()
	})
	o.within("sandbox", func(v any) { n.Sandbox = r.runnerSandbox(v) })
	o.within("limits", func(v any) {
		o := r.object(v)
		n.Limits = RunnerLimits{
			TimeoutMS: o.limit("timeout_ms", contract.TimeoutMS()), MaxOutputFiles: o.limit("max_output_files", contract.MaxOutputFiles()),
			MaxTotalOutputBytes: o.limit("max_total_output_bytes", contract.MaxTotalOutputBytes()),
			MaxMemoryBytes:      o.whole("max_memory_bytes", int64(contract.MemoryMB().Min)<<20, int64(contract.MemoryMB().Max)<<20),
		}
		o.done()
	})
	o.within("commands", func(v any) {
		o := r.object(v)
		n.Commands = RunnerCommands{Allowlist: o.words("allowlist"), Blocklist: o.words("blocklist"), Shell: o.one("shell", "none")}
		o.done()
	})
	n.WriteRoots = o.words("write_roots")
	o.within("context", func(v any) {
		o := r.object(v)
		n.Context = RunnerContext{WorkingDir: o.one("working_dir", "."), EnvAllowlist: o.words("env_allowlist"), Locale: o.one("locale", "C.UTF-8"), Timezone: o.one("timezone", "UTC")}
		o.done()
	})
	o.within("timing", func(v any) { n.Timing = r.timing(v) })
	o.within("exit", func(v any) {
		o := r.object(v)
		n.Exit = RunnerExit{Code: o.count("code", 0, 255), OOMKilled: o.yes("oom_killed"), TimeoutKilled: o.yes("timeout_killed")}
		if o.has("signal") {
			n.Exit.Signal = o.form("signal", isSignal, "the name of a signal")
		}
		o.done()
	})
	if o.has("warnings") {
		n.Warnings = o.words("warnings")
	}
	n.Reasons = o.texts("reasons", 16000, func(s string) bool { return s != "" && upTo(4096)(s) }, "a string of 1 to 4096 characters")
	n.PlanSHA256, n.PeakMemoryBytes = o.hash("plan_sha256"), o.whole("peak_memory_bytes", 0, canon.MaxSafeInteger)
	o.within("stdout", func(v any) { n.Stdout = r.stream(v) })
	o.within("stderr", func(v any) { n.Stderr = r.stream(v) })
	o.done()
	return n
}

func (r *shape) runnerSandbox(v any) RunnerSandbox {
	o := r.object(v)
	s := RunnerSandbox{
		Backend: o.one("backend", "container", "process", "none"), IsolationLevel: o.one("isolation_level", "strict", "standard", "none"),
		NetworkBlocked: o.yes("network_blocked"), FilesystemReadonly: o.yes("filesystem_readonly"),
	}
	o.list("layers", 100, func(v any) {
		o := r.object(v)
		s.Layers = append(s.Layers, Layer{Clause: o.word("clause"), Mechanism: o.text("mechanism", 0, 1024), Status: o.one("status", "enforced", "partial", "absent")})
		o.done()
	})
	o.done()
	return s
}

func (r *shape) timing(v any) Timing {
	o := r.object(v)
	t := Timing{
		StartedAt: o.form("started_at", isMoment, "a time in UTC with milliseconds"), CompletedAt: o.form("completed_at", isMoment, "a time in UTC with milliseconds"),
		DurationMS: o.whole("duration_ms", 0, canon.MaxSafeInteger),
	}
	o.list("phases", 0, func(any) {}) // this program tells of none
	o.done()
	return t
}

func (r *shape) stream(v any) RunnerStream {
	o := r.object(v)
	s := RunnerStream{
		SHA256: o.hash("sha256"), KeptBytes: o.count("kept_bytes", 0, contract.StdoutBytes().Max),
		SizeBytes: o.whole("size_bytes", 0, canon.MaxSafeInteger), Truncated: o.yes("truncated"),
	}
	o.done()
	return s
}

// checkRunner is ST9: what enforced the policy was told the limits of the policy, and saw
// the end that the RunResult tells of.
//
//   - limits are at most those of the policy, and memory at most that of
//     policy_provenance: an exec can ask for less. write_roots are sorted and beneath the
//     policy's. commands are the policy's, sorted, and nothing is blocked by name
//   - context.env_allowlist is the profile's, where the verifier has it (ST5)
//   - the isolation is no weaker than policy_provenance demands, the backend and the
//     platform are those that have it, and the network is blocked where the policy does
//     not allow it, and can be blocked where it does; filesystem_readonly is true
//   - layers are the clauses of [Promises], each with a status that it can have
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
	if t, _ := moment(n.Timing.StartedAt); !strings.HasPrefix(n.RunnerID, t.Format("runner_20060102_150405_")) {
		s.fault("ST9", at(RunnerFile, "runner_id"), "not of the time at which it was started")
	}
	if n.RunnerVersion != run.KernelVersion {
		s.fault("ST9", at(RunnerFile, "runner_version"), "not the kernel of run.json, %s", quoted(run.KernelVersion))
	}
	if e := s.evidence; e != nil && (e.StartedAt != n.Timing.StartedAt || e.CompletedAt != n.Timing.CompletedAt || e.TotalDurationMS != n.Timing.DurationMS) {
		s.fault("ST9", at(RunnerFile, "timing"), "not the times of evidence.json")
	}
	if p := s.whole(); p != nil && !slices.Equal(n.Context.EnvAllowlist, inOneOrder(p.EnvAllow.Names)) {
		s.fault("ST9", at(RunnerFile, "context", "env_allowlist"), "not the profile's, sorted: %s", listed(inOneOrder(p.EnvAllow.Names)))
	}
	s.checkWarnings(n.Warnings, run)
	if !slices.Equal(n.Reasons, run.Decision.Reasons) {
		s.fault("ST9", at(RunnerFile, "reasons"), "not those of the decision")
	}
	why := reasonsOf(run.Decision.Reasons)
	s.checkExit(n.Exit, run.Execution, why)
	stdout, stderr := contract.KeptBytes(n.Limits.MaxTotalOutputBytes)
	s.checkStream("stdout", n.Stdout, run.Execution.StdoutSHA256, stdout)
	s.checkStream("stderr", n.Stderr, run.Execution.StderrSHA256, stderr)
	if cut := n.Stdout.Truncated || n.Stderr.Truncated; cut != why.codes["STREAM_LIMIT"] {
		s.fault("ST9", RunnerFile, "whether a stream was cut does not go with the reasons")
	}
}

func (s *strictLevel) checkRunnerLimits(n *Runner, run *result.RunResult) {
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
			s.fault("ST9", at(RunnerFile, "limits", l.name), "%d, and the policy has %d", l.is, l.should)
		}
	}
	if !rootsWithin(n.WriteRoots, run.Policy.AllowedWriteRoots) {
		s.fault("ST9", at(RunnerFile, "write_roots"), "not the policy's, sorted: %s", listed(inOneOrder(run.Policy.AllowedWriteRoots)))
	}
	for _, l := range []struct {
		path       []string
		is, should []string
	}{
		{[]string{"commands", "allowlist"}, n.Commands.Allowlist, inOneOrder(run.Policy.AllowedCommands)},
		{[]string{"commands", "blocklist"}, n.Commands.Blocklist, nil},
	} {
		if !slices.Equal(l.is, l.should) {
			s.fault("ST9", at(RunnerFile, l.path...), "not the policy's, sorted: %s", listed(l.should))
		}
	}
}

// rootsWithin says whether roots are sorted, clean, and beneath those of a policy: an exec can
// ask for fewer.
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

// inOneOrder is a list in the order of code units, each element once.
func inOneOrder(list []string) []string {
	out := slices.Clone(list)
	slices.SortFunc(out, canon.Compare)
	return slices.Compact(out)
}

func (s *strictLevel) checkExit(x RunnerExit, e *kernel.Execution, why reasons) {
	here := func(name string) string { return at(RunnerFile, "exit", name) }
	if x.Code != e.ExitCode {
		s.fault("ST9", here("code"), "not that of the execution, %d", e.ExitCode)
	}
	if x.OOMKilled != (why.end == "OOM") {
		s.fault("ST9", here("oom_killed"), "%t does not go with the reasons", x.OOMKilled)
	}
	if x.TimeoutKilled != (why.end == "TIMEOUT") {
		s.fault("ST9", here("timeout_killed"), "%t does not go with the reasons", x.TimeoutKilled)
	}
	switch {
	case why.end == "SIGNAL" && x.Signal != signalName(why.number):
		s.fault("ST9", here("signal"), "not %s, which the reasons tell", signalName(why.number))
	case x.Signal != "" && why.end != "SIGNAL" && why.end != "OOM" && why.end != "TIMEOUT":
		s.fault("ST9", here("signal"), "no reason tells of a signal")
	}
}

// signalName is the name of a signal of Linux: its number after SIG where it has no
// common one.
func signalName(n int) string {
	const names = "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL 10 SEGV 12 PIPE ALRM TERM"
	if list := strings.Fields(names); n >= 1 && n <= len(list) {
		return "SIG" + list[n-1]
	}
	return "SIG" + strconv.Itoa(n)
}

func (s *strictLevel) checkStream(name string, r RunnerStream, sum canon.ContentHash, most int) {
	here := func(member string) string { return at(RunnerFile, name, member) }
	if r.SHA256 != sum {
		s.fault("ST9", here("sha256"), "not that of the execution")
	}
	kept, truncated := min(r.SizeBytes, int64(most)), r.SizeBytes > int64(most)
	if int64(r.KeptBytes) != kept || r.Truncated != truncated || (kept == 0) != (r.SHA256 == noBytes) {
		s.fault("ST9", here("kept_bytes"), "of %d bytes %d are kept, and %d are not", r.SizeBytes, kept, r.SizeBytes-kept)
	}
}
