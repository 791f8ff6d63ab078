package verify

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/profiles"
)

// checkModules is a part of ST5. It checks the names of the modules. A run of this
// kernel version has the built-in modules. It can also have modules of the layers of an
// organisation, of a tree, and of a profile that is not built in.
func (s *strictLevel) checkModules() {
	run := s.run
	if run == nil || run.KernelVersion != kernel.Version {
		return
	}
	there := map[string]bool{}
	for i, m := range run.PolicyProvenance.Modules {
		there[m.Name] = true
		if what := oddModule(m.Name, run.Policy.Name); what != "" {
			s.fault("ST5", pack.At(pack.RunFile, "policy_provenance", "modules", strconv.Itoa(i), "name"), "%s %s", pack.Quoted(m.Name), what)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(profiles.Modules()), func(name string) bool { return there[name] })
	s.must(len(missing) == 0, "ST5", pack.RunFile+"#/policy_provenance/modules", "missing, and every run decides by it: %s", listed(missing))
}

// oddModule says why no run under a profile has a module of this name, or returns "".
func oddModule(name, profile string) string {
	if slices.Contains(profiles.Modules(), name) {
		return ""
	}
	if !strings.HasSuffix(strings.ToLower(name), ".rego") {
		return "is no module"
	}
	layer, rest, _ := strings.Cut(name, "/")
	owner, file, _ := strings.Cut(rest, "/")
	switch {
	case layer == "builtin":
		return "is no module that is built in"
	case layer != "org" && layer != "repo" && layer != "user" || owner == "" || file == "":
		return "is of no layer"
	case layer == "user" && (slices.Contains(profiles.Names(), profile) || owner != profiles.PackageName(profile)):
		return "is of another profile"
	}
	return ""
}

// onlyBuiltin says whether only built-in modules decided a run of this kernel version.
func onlyBuiltin(run *result.RunResult) bool {
	return run.KernelVersion == kernel.Version &&
		!slices.ContainsFunc(run.PolicyProvenance.Modules, func(m result.ModuleDigest) bool { return !slices.Contains(profiles.Modules(), m.Name) })
}

// checkRule compares the id of a reason with the rules that can have given it. It
// returns the title of the rule, if the title is known.
func (s *strictLevel) checkRule(i int, id string) (title string) {
	if !onlyBuiltin(s.run) {
		return ""
	}
	here := pack.At(pack.RunFile, "decision", "reasons", strconv.Itoa(i))
	asked := s.run.KernelResultKind == kernel.OutcomeClarify
	r, known := profiles.Rules()[id]
	if id == kernel.IDNotPermitted {
		r, known = profiles.Rule{Title: kernel.TitleNotPermitted}, true
	}
	if !known || asked && !r.Asks {
		s.fault("ST2", here, "%s is no built-in rule of a %s, and no other decided", id, s.run.KernelResultKind)
		return ""
	}
	want := "deny"
	if asked {
		want = "clarify"
	}
	if p := s.whole(); p != nil {
		if is, chosen := p.Severity[id]; chosen && string(is) != want {
			s.fault("ST2", here, "%s is no %s under the profile %s, but a %s", id, want, p.Name, is)
		}
	}
	return r.Title
}
