package profile

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/policy"
)

// The values of Origin.From.
const (
	FromProfile = "profile" // the profile's own value
	FromBase    = "base"    // the value of the extended profile
	FromBoth    = "both"    // the part that both allow
	FromAbsent  = "absent"  // the meaning of an absent member
)

// Origin says where one member of a resolved profile comes from.
type Origin struct {
	Member string `json:"member"`          // name of the member in profile.json
	From   string `json:"from"`            // one of the From constants
	Asked  any    `json:"asked,omitempty"` // the member as profile.json gives it, or nil
}

// Resolved is a profile with the origin of each member.
type Resolved struct {
	Profile kernel.Profile
	Extends string   // the built-in profile that it extends, or ""
	Origins []Origin // one for every member but the name, in the order of kernel.Profile
}

// narrowing joins a base with the content of a profile.json, member by member. The
// outcome allows nothing that the base does not allow (TestExtendsOnlyNarrows).
type narrowing struct {
	extends string
	given   map[string]any
	origins []Origin
	errs    []*policy.Error
}

// narrow joins a base with a profile that extends it; m has the profile's own members.
// Limits take the minimum, lists take what both allow, booleans hold only if both hold,
// severities take the stricter, and isolation the stronger. Risk tags are joined, because
// each tag asks for a review. Any fault leaves nothing.
func narrow(base, own kernel.Profile, m map[string]any) (Resolved, []*policy.Error) {
	n := &narrowing{extends: base.Name, given: m}
	p := kernel.Profile{
		Name:                own.Name,
		AllowNetwork:        n.both("allow_network", own.AllowNetwork, base.AllowNetwork),
		TimeoutMS:           n.least("timeout_ms", own.TimeoutMS, base.TimeoutMS),
		MaxOutputFiles:      n.least("max_output_files", own.MaxOutputFiles, base.MaxOutputFiles),
		MaxTotalOutputBytes: n.least("max_total_output_bytes", own.MaxTotalOutputBytes, base.MaxTotalOutputBytes),
		AllowedCommands:     n.allowed("allowed_commands", own.AllowedCommands, base.AllowedCommands, common),
		AllowedWriteRoots:   n.allowed("allowed_write_roots", own.AllowedWriteRoots, base.AllowedWriteRoots, commonRoots),
		EnvAllow:            n.allowed("env_allow", own.EnvAllow, base.EnvAllow, common),
		ExecutionModes:      n.list("execution_modes", own.ExecutionModes, base.ExecutionModes),
		ModelModes:          n.list("model_modes", own.ModelModes, base.ModelModes),
		ModelAdapters:       n.allowed("model_adapters", own.ModelAdapters, base.ModelAdapters, common),
		RiskTags:            n.tags(own.RiskTags, base.RiskTags),
		Severity:            n.severities(own.Severity, base.Severity),
		MemoryMB:            n.least("memory_mb", own.MemoryMB, base.MemoryMB),
		MaxChildren:         n.least("max_children", own.MaxChildren, base.MaxChildren),
		CPUCores:            n.least("cpu_cores", own.CPUCores, base.CPUCores),
		Isolation:           n.isolation(own.Isolation, base.Isolation),
		ShellMetacharacters: n.metacharacters(own.ShellMetacharacters, base.ShellMetacharacters),
		AllowedTools:        n.allowed("allowed_tools", own.AllowedTools, base.AllowedTools, commonTools),
		NetworkHosts:        n.hosts("network_hosts", own.NetworkHosts, base.NetworkHosts, base.Hosts()),
		Registries:          n.hosts("registries", kernel.AllowList{Names: own.Registries}, kernel.AllowList{Names: base.Registries}, base.Hosts()).Names,
	}
	if len(n.errs) > 0 {
		return Resolved{}, n.errs
	}
	if !p.AllowNetwork && m["network_hosts"] == nil && m["registries"] == nil {
		p.NetworkHosts, p.Registries = kernel.AllowList{}, nil // the base's lists
	}
	if err := checkNetwork(p); err != nil {
		return Resolved{}, []*policy.Error{err}
	}
	return Resolved{Profile: p, Extends: base.Name, Origins: n.origins}, nil
}

// from records where a member comes from. own and theirs say which of the two values
// equals the outcome.
func (n *narrowing) from(name string, own, theirs bool) {
	o := Origin{Member: name, From: FromBoth, Asked: n.given[name]}
	switch {
	case o.Asked == nil:
		o.From = FromBase
	case own:
		o.From = FromProfile
	case theirs:
		o.From = FromBase
	}
	n.origins = append(n.origins, o)
}

// fail notes a fault of a member.
func (n *narrowing) fail(name, fault, allowed string) {
	e := errorf("member %q: %s: %s", name, fault, allowed)
	e.Pointer = canon.Pointer("", name)
	n.errs = append(n.errs, e)
}

// least returns the smaller of two limits.
func (n *narrowing) least(name string, own, base int) int {
	n.from(name, own <= base, true)
	return min(own, base)
}

// both returns true if both profiles allow it.
func (n *narrowing) both(name string, own, base bool) bool {
	n.from(name, !own || base, true)
	return base && own
}

// allowed returns what both lists allow, in the order of the profile.
func (n *narrowing) allowed(name string, own, base kernel.AllowList, meet func(own, base []string) []string) kernel.AllowList {
	if _, ok := n.given[name]; !ok {
		n.from(name, false, true)
		return base
	}
	if own.All {
		n.fail(name, `"*" cannot stand beside "extends"`, n.atMost(base))
		return kernel.AllowList{}
	}
	names := unique(own.Names)
	if base.All {
		n.from(name, true, false)
		return kernel.AllowList{Names: names}
	}
	joined := meet(names, base.Names)
	if len(names) > 0 && len(joined) == 0 { // the author of the list meant to allow something
		n.fail(name, "nothing is left of it", n.atMost(base))
	}
	n.from(name, slices.Equal(joined, names), slices.Equal(joined, base.Names))
	return kernel.AllowList{Names: joined}
}

// hosts is allowed for a list of hosts. base is the same list of the base, and all has the
// hosts of both lists of the base: an own entry may lie within any of them.
func (n *narrowing) hosts(name string, own, base, all kernel.AllowList) kernel.AllowList {
	if _, ok := n.given[name]; !ok {
		all = base
	}
	return n.allowed(name, own, all, commonHosts)
}

// list is allowed for a list that cannot be "*".
func (n *narrowing) list(name string, own, base []string) []string {
	return n.allowed(name, kernel.AllowList{Names: own}, kernel.AllowList{Names: base}, common).Names
}

// atMost says, for a message, what the base allows of a list.
func (n *narrowing) atMost(base kernel.AllowList) string {
	what := "nothing"
	switch {
	case base.All:
		what = "everything; leave the member out to keep that"
	case len(base.Names) > 0:
		what = "only " + strings.Join(base.Names, ", ")
	}
	return strconv.Quote(n.extends) + " allows " + what
}

// tags returns the risk tags of both profiles, those of the base first.
func (n *narrowing) tags(own, base []string) []string {
	own = unique(own)
	joined := slices.Clone(base)
	for _, tag := range own {
		if !slices.Contains(joined, tag) {
			joined = append(joined, tag)
		}
	}
	n.from("risk_tags", len(joined) == len(own), len(joined) == len(base))
	return joined
}

// severities returns for each rule id the stricter severity.
func (n *narrowing) severities(own, base map[string]kernel.Severity) map[string]kernel.Severity {
	joined := maps.Clone(base)
	for id, s := range own {
		if old, ok := joined[id]; !ok || s.Stricter(old) {
			joined[id] = s
		}
	}
	n.from("severity", maps.Equal(joined, own), maps.Equal(joined, base))
	return joined
}

// isolation returns the stronger isolation.
func (n *narrowing) isolation(own, base kernel.Isolation) kernel.Isolation {
	stronger := own.AtLeast(base)
	n.from("isolation", stronger, true)
	if stronger {
		return own
	}
	return base
}

// metacharacters returns the profile's own value only if it denies, because nothing else is
// narrower than the base.
func (n *narrowing) metacharacters(own, base kernel.Metacharacters) kernel.Metacharacters {
	n.from("shell_metacharacters", own == kernel.MetacharactersDeny, own == base)
	if own == kernel.MetacharactersDeny {
		return own
	}
	return base
}

// unique returns the list without duplicates.
func unique(list []string) []string {
	return common(list, list)
}

// common returns the names that both lists have, each once, in the order of own. It is never
// nil.
func common(own, base []string) []string {
	kept := []string{}
	for _, name := range own {
		if slices.Contains(base, name) && !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// commonRoots returns the folders below which both lists allow everything. Of a pair in
// which one folder lies below the other, it keeps the deeper one.
func commonRoots(own, base []string) []string { return narrower(own, base, kernel.Beneath) }

// commonHosts returns the entries for hosts that both lists allow. Of a pair in which one
// entry lies within the other, it keeps the narrower one.
func commonHosts(own, base []string) []string { return narrower(own, base, contract.HostWithin) }

// commonTools returns the entries that allow only what both lists allow.
func commonTools(own, base []string) []string { return narrower(own, base, kernel.ToolBelow) }

// narrower returns of each pair in which one name lies within the other the narrower one.
func narrower(own, base []string, within func(name, by string) bool) []string {
	kept := []string{}
	keep := func(name string) {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	for _, o := range own {
		for _, b := range base {
			switch {
			case within(o, b):
				keep(o)
			case within(b, o):
				keep(b)
			}
		}
	}
	return kept
}
