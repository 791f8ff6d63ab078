package pack

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
)

// What is known of the policy of this kernel version without its text: which modules are
// built in, and which rules these have (TestKnownPolicy).

// builtinProfiles are the names of the profiles that are built in, which no other has.
func builtinProfiles() []string { return []string{"strict", "default", "dev"} }

// builtinModules are the modules that every run decides by, sorted.
func builtinModules() []string {
	return []string{
		"builtin/calls.rego", "builtin/clarity.rego", "builtin/commands.rego", "builtin/facts.rego", "builtin/interpreters.rego",
		"builtin/paths.rego", "builtin/permits.rego", "builtin/risk.rego", "builtin/structure.rego",
	}
}

// builtinRule is a rule that denies, and perhaps asks instead.
type builtinRule struct {
	title string
	asks  bool
}

// builtinRules are the rules of the kernel and of those modules, by id.
func builtinRules() map[string]builtinRule {
	return map[string]builtinRule{
		"AGENT_INSTRUCTIONS":  {"File that instructs coding agents is written", true},
		"CALL_NOT_ALLOWED":    {"Call without an allowed adapter", false},
		"CMD_NAME_UNSAFE":     {"Command has a character outside printable ASCII", false},
		"CMD_NOT_ALLOWED":     {"Command not in allowed_commands", false},
		"CMD_WRAPPER":         {"Command starts another command", true},
		"CMD_UNREAD":          {"Commands too long to read", false},
		"CONTRADICTION":       {"Constraints contradict each other", true},
		"DONE_UNDEFINED":      {"Nothing says what done means", true},
		"ENV_GUARDED":         {"Environment name that can decide what code runs", false},
		"ENV_NOT_ALLOWED":     {"Environment name not in env_allow", false},
		"FINDINGS_MANY":       {"More findings than are judged", false},
		"INLINE_CODE":         {"Interpreter given inline code", true},
		"INPUT_WRITTEN":       {"Input is also written", true},
		kernel.IDNotPermitted: {kernel.TitleNotPermitted, false},
		"NETWORK_NEEDED":      {"Command needs a network", true},
		"OUTPUT_BYTES":        {"More bytes than max_total_output_bytes", false},
		"OUTPUT_FILES":        {"More outputs than max_output_files", false},
		"OUTPUT_UNPRODUCED":   {"No action produces the output", true},
		"PATH_ABSOLUTE":       {"Path is absolute", false},
		"PATH_BACKSLASH":      {"Path has a backslash", false},
		"PATH_CASE":           {"Paths differ in case alone", false},
		"PATH_CHARACTER":      {"Path has a control or invisible character", false},
		"PATH_CONTROL":        {"Path leads into a control path", false},
		"PATH_FORM":           {"Path is not in the accepted form", false},
		"PATH_RESERVED":       {"Path is reserved for the bundle", false},
		"PATH_TRAVERSAL":      {"Path has a .. segment", false},
		"PLACEHOLDER":         {"Placeholder left open", true},
		"RISK_REVIEW":         {"Action needs a risk review", true},
		"SHELL_COMMAND":       {"Shell as command", true},
		"SHELL_METACHARACTER": {"Shell metacharacter in an argument (IV-02)", false},
		"UNKNOWN_FINDING":     {"Finding that no rule handles", false},
		"WRITE_OUTSIDE_ROOT":  {"Write outside allowed_write_roots", false},
		"WRITE_TWICE":         {"Path is written twice", true},
	}
}

// checkModules is ST5 too. It holds the names of the modules against those that a run of this kernel
// version has: the built-in ones, and besides them only modules of the layers of an
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
			s.fault("ST5", at(RunFile, "policy_provenance", "modules", strconv.Itoa(i), "name"), "%s %s", quoted(m.Name), what)
		}
	}
	missing := slices.DeleteFunc(builtinModules(), func(name string) bool { return there[name] })
	if len(missing) > 0 {
		s.fault("ST5", at(RunFile, "policy_provenance", "modules"), "missing, and every run decides by it: %s", listed(missing))
	}
}

// oddModule says why no run under a profile has a module of this name, or is empty.
func oddModule(name, profile string) string {
	if slices.Contains(builtinModules(), name) {
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
	case layer == "user" && (slices.Contains(builtinProfiles(), profile) || owner != strings.ReplaceAll(profile, "-", "_")):
		return "is of another profile"
	}
	return ""
}

// onlyBuiltin says whether a run of this kernel version has decided by nothing but what is
// built in.
func onlyBuiltin(run *result.RunResult) bool {
	return run.KernelVersion == kernel.Version &&
		!slices.ContainsFunc(run.PolicyProvenance.Modules, func(m result.ModuleDigest) bool { return !slices.Contains(builtinModules(), m.Name) })
}

// checkRule holds the id of a reason against the rules that can have given it, and says
// which title the rule has, if that is known.
func (s *strictLevel) checkRule(i int, id string) (title string) {
	if !onlyBuiltin(s.run) {
		return ""
	}
	here := at(RunFile, "decision", "reasons", strconv.Itoa(i))
	asked := s.run.KernelResultKind == kernel.OutcomeClarify
	r, known := builtinRules()[id]
	if !known || asked && !r.asks {
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
	return r.title
}
