package pack

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// checkPolicy is ST5: the limits that are told of the policy are the policy's, its
// modules are sorted, and the plan of a BUNDLE keeps to what every policy of these seven
// members denies otherwise. Where the verifier has the whole profile, its digest, its
// other limits and its modes are held against it. That policy.json is the policy of
// run.json is PK8, that this is the profile that it names is RS5.
func (s *strictLevel) checkPolicy() {
	run := s.run
	if run == nil {
		return
	}
	limits := run.PolicyProvenance.Limits
	for _, l := range []struct {
		name       string
		is, should int
	}{
		{"max_output_files", limits.MaxOutputFiles, run.Policy.MaxOutputFiles},
		{"max_total_output_bytes", limits.MaxTotalOutputBytes, run.Policy.MaxTotalOutputBytes},
		{"timeout_ms", limits.TimeoutMS, run.Policy.TimeoutMS},
	} {
		if l.is != l.should {
			s.fault("ST5", at(RunFile, "policy_provenance", "limits", l.name), "%d, and the policy has %d", l.is, l.should)
		}
	}
	if p := s.whole(); p != nil {
		s.checkProfile(run, p)
	}
	names := make([]string, len(run.PolicyProvenance.Modules))
	for i, m := range run.PolicyProvenance.Modules {
		names[i] = m.Name
	}
	if i, ok := sortedSet(names); !ok {
		s.fault("ST5", at(RunFile, "policy_provenance", "modules", strconv.Itoa(i)), "the modules are not sorted by name, or one is there twice")
	}
	if run.KernelResultKind == kernel.OutcomeBundle && s.plan.whole {
		s.checkAllowed(run)
	}
}

// profileDigest is the hash of a whole profile, or nothing where it has none.
func (s *strictLevel) profileDigest(p *kernel.Profile) canon.ContentHash {
	if s.opts.Digest != nil {
		return s.opts.Digest(s.run.Policy.Name)
	}
	_, sum, err := canon.Artifact(*p)
	if err != nil {
		return ""
	}
	return sum
}

// checkProfile holds what is told of the profile against the profile.
func (s *strictLevel) checkProfile(run *result.RunResult, p *kernel.Profile) {
	told := run.PolicyProvenance
	if s.profileDigest(p) != told.ProfileSHA256 {
		s.fault("ST5", at(RunFile, "policy_provenance", "profile_sha256"), "not that of the profile %s", p.Name)
	}
	for _, l := range []struct {
		name       string
		is, should int
	}{
		{"cpu_cores", told.Limits.CPUCores, p.CPUCores},
		{"max_children", told.Limits.MaxChildren, p.MaxChildren},
		{"memory_mb", told.Limits.MemoryMB, p.MemoryMB},
	} {
		if l.is != l.should {
			s.fault("ST5", at(RunFile, "policy_provenance", "limits", l.name), "%d, and the profile has %d", l.is, l.should)
		}
	}
	if is := told.Limits.Isolation; is != p.Isolation {
		s.fault("ST5", at(RunFile, "policy_provenance", "limits", "isolation"), "%s, and the profile has %s", is, p.Isolation)
	}
	if !slices.Contains(p.ExecutionModes, run.ExecutionMode) {
		s.fault("ST5", at(RunFile, "execution_mode"), "%s is none that the profile allows: %s", run.ExecutionMode, listed(p.ExecutionModes))
	}
	if !slices.Contains(p.ModelModes, run.ModelMode) {
		s.fault("ST5", at(RunFile, "model_mode"), "%s is none that the profile allows: %s", run.ModelMode, listed(p.ModelModes))
	}
}

// checkAllowed holds the plan against the policy's commands and write roots.
func (s *strictLevel) checkAllowed(run *result.RunResult) {
	allowed := contract.AllowList{All: len(run.Policy.AllowedCommands) == 0, Names: run.Policy.AllowedCommands}
	for _, a := range s.plan.actions {
		switch a.Kind {
		case kernel.ActionWrite:
			if !beneath(a.output.Path, run.Policy.AllowedWriteRoots) {
				s.fault("ST5", outputAt(a.at, "path"), "%s lies beneath no write root of the policy", quoted(a.output.Path))
			}
		case kernel.ActionRun:
			if len(a.Argv) == 0 || !allows(allowed, a.Argv[0]) {
				s.fault("ST5", outputAt(a.at, "content"), "the policy does not allow the command %s", quoted(first(a.Argv)))
			}
		}
	}
}

// allows says whether a command is one that a policy of these names can have let
// through.
func allows(list contract.AllowList, name string) bool {
	if name == "" || !onlyOf(name, func(c byte) bool { return c > ' ' && c < 0x7f }) {
		return false
	}
	return list.All || slices.Contains(list.Names, name)
}

// first is the first word of a command, or nothing.
func first(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return argv[0]
}
