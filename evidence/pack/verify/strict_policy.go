package verify

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// checkPolicy checks ST5. The limits in the files are the policy's limits, and its
// modules are sorted. The plan of a BUNDLE breaks no limit that every policy with these
// seven members enforces. If the verifier has the whole profile, its digest, its other
// limits and its modes are checked too. PK8 checks that policy.json is the policy of
// run.json. RS5 checks that it is the named profile.
func (s *strictLevel) checkPolicy() {
	run := s.run
	if run == nil {
		return
	}
	limits := run.PolicyProvenance.Limits
	s.sameLimit("max_output_files", limits.MaxOutputFiles, "policy", run.Policy.MaxOutputFiles)
	s.sameLimit("max_total_output_bytes", limits.MaxTotalOutputBytes, "policy", run.Policy.MaxTotalOutputBytes)
	s.sameLimit("timeout_ms", limits.TimeoutMS, "policy", run.Policy.TimeoutMS)
	if p := s.whole(); p != nil {
		s.checkProfile(run, p)
	}
	names := make([]string, len(run.PolicyProvenance.Modules))
	for i, m := range run.PolicyProvenance.Modules {
		names[i] = m.Name
	}
	i, ok := sortedSet(names)
	s.must(ok, "ST5", pack.RunFile+"#/policy_provenance/modules/"+strconv.Itoa(i), "the modules are not sorted by name, or one is there twice")
	if run.KernelResultKind == kernel.OutcomeBundle && s.plan.whole {
		s.checkAllowed(run)
	}
}

// profileDigest returns the hash of a whole profile, or "" if it has none.
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

// checkProfile compares the values from the profile with the profile.
func (s *strictLevel) checkProfile(run *result.RunResult, p *kernel.Profile) {
	told := run.PolicyProvenance
	s.must(s.profileDigest(p) == told.ProfileSHA256, "ST5", pack.RunFile+"#/policy_provenance/profile_sha256", "not that of the profile %s", p.Name)
	s.sameLimit("cpu_cores", told.Limits.CPUCores, "profile", p.CPUCores)
	s.sameLimit("max_children", told.Limits.MaxChildren, "profile", p.MaxChildren)
	s.sameLimit("memory_mb", told.Limits.MemoryMB, "profile", p.MemoryMB)
	s.sameLimit("isolation", told.Limits.Isolation, "profile", p.Isolation)
	s.allowedMode("execution_mode", run.ExecutionMode, p.ExecutionModes)
	s.allowedMode("model_mode", run.ModelMode, p.ModelModes)
}

// allowedMode checks that a mode in run.json is one that the profile allows.
func (s *strictLevel) allowedMode(name, mode string, allowed []string) {
	s.must(slices.Contains(allowed, mode), "ST5", pack.RunFile+"#/"+name, "%s is none that the profile allows: %s", mode, listed(allowed))
}

// sameLimit compares a limit in run.json with that of the policy or the profile.
func (s *strictLevel) sameLimit(name string, is any, of string, should any) {
	s.must(is == should, "ST5", pack.RunFile+"#/policy_provenance/limits/"+name, "%v, and the %s has %v", is, of, should)
}

// checkAllowed compares the plan with the policy's commands and write roots.
func (s *strictLevel) checkAllowed(run *result.RunResult) {
	allowed := contract.AllowList{All: len(run.Policy.AllowedCommands) == 0, Names: run.Policy.AllowedCommands}
	for _, a := range s.plan.actions {
		switch a.Kind {
		case kernel.ActionWrite:
			if !beneath(a.output.Path, run.Policy.AllowedWriteRoots) {
				s.fault("ST5", outputAt(a.at, "path"), "%s lies beneath no write root of the policy", pack.Quoted(a.output.Path))
			}
		case kernel.ActionRun:
			var name string
			if len(a.Argv) > 0 {
				name = a.Argv[0]
			}
			if !allows(allowed, name) {
				s.fault("ST5", outputAt(a.at, "content"), "the policy does not allow the command %s", pack.Quoted(name))
			}
		}
	}
}

// allows says whether a policy with these names can have allowed a command.
func allows(list contract.AllowList, name string) bool {
	if name == "" || !onlyOf(name, func(c byte) bool { return c > ' ' && c < 0x7f }) {
		return false
	}
	return list.All || slices.Contains(list.Names, name)
}
