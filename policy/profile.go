package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/specs"
)

// MaxProfileBytes is the greatest size of a profile.json.
const MaxProfileBytes = 1 << 20

// LoadProfile reads dir/profile.json. The name of the profile is the name of the
// folder.
func LoadProfile(fsys fs.FS, dir string, set *specs.Set) (kernel.Profile, error) {
	file := path.Join(dir, "profile.json")
	src, err := fs.ReadFile(fsys, file)
	if err != nil {
		return kernel.Profile{}, &Error{Kind: KindProfile, Module: file, Msg: "profile cannot be read"}
	}
	p, err := ParseProfile(src, path.Base(dir), set)
	if e, ok := errors.AsType[*Error](err); ok {
		e.Module = file
	}
	return p, err
}

// LoadUserProfile reads a profile that is not built in from a file of a folder.
// ResolveProfile reads its text.
func LoadUserProfile(f Folder, file string, builtin []string, base func(name string) (kernel.Profile, error), set *specs.Set) (Resolved, error) {
	src, err := f.profile(file)
	if err != nil {
		return Resolved{}, err
	}
	r, err := ResolveProfile(src, builtin, base, set)
	if e, ok := errors.AsType[*Error](err); ok && e.Kind == KindProfile && e.Module == "" {
		e.File = f.File(file)
	}
	return r, err
}

// ParseProfile reads the text of a built-in profile with the given name: first as
// strict JSON, then by the schema, then as a value. Lists keep their order. An absent
// member gets its default. The defaults are: no environment names, adapters or risk
// tags; both execution modes; model mode none; the contract's memory, children and
// cores; and full isolation. The error is an *Error of KindProfile.
func ParseProfile(src []byte, name string, set *specs.Set) (kernel.Profile, error) {
	p, m, err := readProfile(src, set)
	if err != nil {
		return kernel.Profile{}, err
	}
	if p.Name != name {
		return kernel.Profile{}, profileErrorf("profile is named %q, but it is loaded as %q", p.Name, name)
	}
	if _, ok := m["extends"]; ok {
		return kernel.Profile{}, profileErrorf("a built-in profile extends no other")
	}
	if err := checkWhole(p, m); err != nil {
		return kernel.Profile{}, err
	}
	return p, nil
}

// ResolveProfile reads the text of a profile that is not built in. Its name must differ
// from builtin, the names of the built-in profiles. base loads the built-in profile
// that "extends" names; the outcome is then what both profiles allow. The error is an
// *Error of KindProfile, or the error of base.
func ResolveProfile(src []byte, builtin []string, base func(name string) (kernel.Profile, error), set *specs.Set) (Resolved, error) {
	p, m, err := readProfile(src, set)
	if err != nil {
		return Resolved{}, err
	}
	if slices.Contains(builtin, p.Name) {
		return Resolved{}, profileErrorf("the name %q is that of a built-in profile; give this one a name of its own", p.Name)
	}
	if extends, ok := m["extends"].(string); ok {
		beneath, err := base(extends)
		if err != nil {
			return Resolved{}, err
		}
		return narrow(beneath, m)
	}
	if err := checkWhole(p, m); err != nil {
		return Resolved{}, err
	}
	r := Resolved{Profile: p}
	for _, name := range Members() {
		o := Origin{Member: name, From: FromProfile, Asked: m[name]}
		if o.Asked == nil {
			o.From = FromAbsent
		}
		r.Origins = append(r.Origins, o)
	}
	return r, nil
}

// Members returns the members of a profile but its name, in their order.
func Members() []string {
	return []string{
		"allow_network", "timeout_ms", "max_output_files", "max_total_output_bytes",
		"allowed_commands", "allowed_write_roots", "env_allow", "execution_modes", "model_modes",
		"model_adapters", "risk_tags", "severity", "memory_mb", "max_children", "cpu_cores", "isolation", "shell_metacharacters", "allowed_tools",
		"network_hosts", "registries",
	}
}

// readProfile reads a profile as strict JSON that fits the schema. It also returns the
// members that the text has.
func readProfile(src []byte, set *specs.Set) (kernel.Profile, map[string]any, error) {
	fail := func(format string, args ...any) (kernel.Profile, map[string]any, error) {
		return kernel.Profile{}, nil, profileErrorf(format, args...)
	}
	doc, err := canon.Parse(src, MaxProfileBytes)
	if err != nil {
		return fail("%v", err)
	}
	violations, err := set.Validate(specs.KindProfile, doc.Value())
	if err != nil {
		return fail("profile cannot be checked: %v", err)
	}
	if len(violations) > 0 {
		if v := violations[0]; v.Pointer != "" {
			return fail("%s: %s", canon.Quote(v.Pointer), v.Msg)
		}
		return fail("%s", violations[0].Msg)
	}
	m, ok := doc.Value().(map[string]any)
	if !ok {
		return fail("profile is not an object")
	}
	p, err := profileOf(m, absent())
	if err == nil {
		err = checkHosts(p)
	}
	return p, m, err
}

// checkHosts refuses a list of hosts with an entry that cannot be read.
func checkHosts(p kernel.Profile) error {
	for _, l := range []struct {
		name    string
		entries []string
	}{{"network_hosts", p.NetworkHosts.Names}, {"registries", p.Registries}} {
		if _, i, wrong := contract.ParseHosts(l.entries); wrong != "" {
			return profileErrorf("\"/%s/%d\": %s", l.name, i, wrong)
		}
	}
	return nil
}

// checkNetwork refuses lists of hosts that do not go with allow_network.
func checkNetwork(p kernel.Profile) error {
	has := p.Hosts().All || len(p.Hosts().Names) > 0
	refuse := func(msg, hint string) error { return &Error{Kind: KindProfile, Msg: msg, Hint: hint} }
	switch {
	case has && !p.AllowNetwork:
		return refuse("hosts are listed, and allow_network is false", "leave the list out, or set allow_network to true")
	case p.AllowNetwork && !has:
		return refuse("allow_network is true, and no host is listed", `list the hosts in network_hosts or registries; "network_hosts": "*" is every host`)
	case p.NetworkHosts.All && len(p.Registries) > 0:
		return refuse(`registries are listed beside "network_hosts": "*", which is every host`, "leave one of the two out")
	}
	return nil
}

// checkWhole refuses a profile that extends no other profile and lacks a member without
// a default, or has lists of hosts that do not go with its network.
func checkWhole(p kernel.Profile, m map[string]any) error {
	for _, required := range Members()[:6] {
		if _, ok := m[required]; !ok {
			return profileErrorf(`member %q is missing; give it, or add "extends" to take it from a built-in profile`, required)
		}
	}
	return checkNetwork(p)
}

// absent returns what the members of a profile mean when it lacks them.
func absent() kernel.Profile {
	none := kernel.AllowList{Names: []string{}}
	return kernel.Profile{
		AllowedCommands:   none,
		AllowedWriteRoots: none,
		EnvAllow:          none,
		ExecutionModes:    []string{"plan-only", "execute-sandbox"},
		ModelModes:        []string{"none"},
		ModelAdapters:     none,
		RiskTags:          []string{},
		Severity:          map[string]kernel.Severity{},
		MemoryMB:          contract.MemoryMB().Default,
		MaxChildren:       contract.MaxChildren().Default,
		CPUCores:          contract.CPUCores().Default,
		Isolation:         kernel.IsolationFull,
	}
}

var profileDecoder canon.Decoder[kernel.Profile]

// profileOf reads a document that satisfies the schema. A member that the document lacks
// is the one of absent.
func profileOf(m map[string]any, absent kernel.Profile) (kernel.Profile, error) {
	members := maps.Clone(m)
	delete(members, "extends")
	if err := profileDecoder.Into(&absent, members); err != nil {
		return kernel.Profile{}, profileErrorf("%v", err)
	}
	return absent, nil
}

func profileErrorf(format string, args ...any) *Error {
	return &Error{Kind: KindProfile, Msg: fmt.Sprintf(format, args...)}
}
