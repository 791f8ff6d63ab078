// Package profile reads the profile.json of a policy, and narrows it to the built-in profile
// that it extends.
package profile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/likeness"
)

// MaxBytes is the greatest size of a profile.json.
const MaxBytes = 1 << 20

// Base loads the built-in profile of a name. Its error is a *policy.Error.
type Base func(name string) (kernel.Profile, error)

// Load reads dir/profile.json. The name of the profile is the name of the folder.
func Load(fsys fs.FS, dir string, set *specs.Set) (kernel.Profile, error) {
	file := path.Join(dir, "profile.json")
	src, err := fs.ReadFile(fsys, file)
	if err != nil {
		return kernel.Profile{}, &policy.Error{Kind: policy.KindProfile, Module: file, Msg: "profile cannot be read"}
	}
	p, err := Parse(src, path.Base(dir), set)
	if e, ok := errors.AsType[*policy.Error](err); ok {
		e.Module = file
	}
	return p, err
}

// LoadUser reads a profile that is not built in from a file of a folder, as Resolve does.
func LoadUser(f policy.Folder, file string, base Base, set *specs.Set) (Resolved, error) {
	src, err := readFile(f, file)
	if err != nil {
		return Resolved{}, err
	}
	r, err := Resolve(src, base, set)
	if e, ok := errors.AsType[*policy.Error](err); ok && e.Module == "" {
		if e.File = f.File(file); e.Line == 0 && e.Pointer != "" {
			at := canon.Places(src, []string{e.Pointer})[0]
			e.Line, e.Column = at.Line, at.Column
		}
	}
	return r, err
}

// Inspect reads a profile like LoadUser, and goes on after a fault with the members that the
// fault does not touch. The faults have a line and a column. The profile is right only
// without a fault; beside faults it has at least the name that could be read.
func Inspect(f policy.Folder, file string, base Base, set *specs.Set) (Resolved, []*policy.Error) {
	src, err := readFile(f, file)
	if err != nil {
		return Resolved{}, []*policy.Error{faultOf(err)}
	}
	r, errs := resolve(src, base, set)
	pointers := make([]string, len(errs))
	for i, e := range errs {
		pointers[i] = e.Pointer
	}
	for i, span := range canon.Locate(src, pointers) {
		e := errs[i]
		if e.File = f.File(file); e.Line == 0 {
			e.Line, e.Column = canon.Place(src, span.Start)
		}
	}
	return r, policy.SortErrors(errs)
}

// faultOf returns an error as a fault.
func faultOf(err error) *policy.Error {
	e, ok := errors.AsType[*policy.Error](err)
	if !ok {
		e = errorf("%v", err)
	}
	return e
}

// Parse reads the text of a built-in profile with the given name: first as strict JSON,
// then by the schema, then as a value. Lists keep their order. An absent member gets its
// default. The defaults are: no environment names, adapters or risk tags; both execution
// modes; model mode none; the contract's memory, children and cores; and full isolation.
// The error is a *policy.Error of KindProfile.
func Parse(src []byte, name string, set *specs.Set) (kernel.Profile, error) {
	m, _, errs := readMembers(src, set)
	if len(errs) > 0 {
		return kernel.Profile{}, errs[0]
	}
	p, err := profileOf(m, absent())
	if err != nil {
		return kernel.Profile{}, err
	}
	errs = checkHosts(p)
	if p.Name != name {
		errs = append(errs, errorf("profile is named %q, but it is loaded as %q", p.Name, name))
	}
	if m["extends"] != nil {
		errs = append(errs, errorf("a built-in profile extends no other"))
	}
	if errs = append(errs, checkWhole(p, m, m)...); len(errs) > 0 {
		return kernel.Profile{}, errs[0]
	}
	return p, nil
}

// Resolve reads the text of a profile that is not built in, so its name differs from those
// of the built-in profiles. If it extends one of them, the outcome is what both allow. The
// error is a *policy.Error of KindProfile.
func Resolve(src []byte, base Base, set *specs.Set) (Resolved, error) {
	r, errs := resolve(src, base, set)
	if len(errs) > 0 {
		return Resolved{}, errs[0]
	}
	return r, nil
}

// resolve is Resolve with all faults. It goes on with the members that a fault does not
// touch. Beside faults, the profile has at least the name that could be read.
func resolve(src []byte, base Base, set *specs.Set) (Resolved, []*policy.Error) {
	given, violations, errs := readMembers(src, set)
	if given == nil {
		return Resolved{}, errs
	}
	sound, named := maps.Clone(given), maps.Clone(given)
	for _, v := range violations {
		name, _, _ := strings.Cut(strings.TrimPrefix(v.Pointer, "/"), "/")
		delete(sound, name)
		named[v.Near] = true // a member whose name is misspelt
	}
	r, more := resolveMembers(sound, named, base)
	return r, append(errs, more...)
}

// resolveMembers resolves the members of a profile that fit the schema. named also has
// those that do not.
func resolveMembers(m, named map[string]any, base Base) (Resolved, []*policy.Error) {
	p, err := profileOf(m, absent())
	if err != nil {
		return Resolved{}, []*policy.Error{faultOf(err)}
	}
	errs := checkHosts(p)
	for _, e := range errs {
		name, _, _ := strings.Cut(e.Pointer[1:], "/")
		delete(m, name)
	}
	if slices.Contains(profiles.Names(), p.Name) {
		e := errorf("the name %q is that of a built-in profile; give this one a name of its own", p.Name)
		e.Pointer = "/name"
		errs = append(errs, e)
	}
	r := Resolved{Profile: p}
	extends, ok := m["extends"].(string)
	if _, given := named["extends"]; given && !ok {
		return r, errs // the base is not known, so no member is missing
	}
	if !ok {
		for _, name := range policy.Members() {
			o := Origin{Member: name, From: FromProfile, Asked: m[name]}
			if o.Asked == nil {
				o.From = FromAbsent
			}
			r.Origins = append(r.Origins, o)
		}
		return r, append(errs, checkWhole(p, m, named)...)
	}
	beneath, err := base(extends)
	if err != nil {
		return r, append(errs, faultOf(err))
	}
	own, err := profileOf(m, beneath)
	if err != nil {
		return r, append(errs, faultOf(err))
	}
	narrowed, more := narrow(beneath, own, m)
	if len(more) == 0 {
		r = narrowed
	}
	return r, append(errs, more...)
}

// readMembers reads the members of a profile, which is strict JSON that fits the schema. If
// it does not fit, each violation is a fault. The members are nil for a text that is no
// object, or that seems to be another document.
func readMembers(src []byte, set *specs.Set) (map[string]any, []specs.Violation, []*policy.Error) {
	doc, err := canon.Parse(src, MaxBytes)
	if err != nil {
		e := errorf("%v", err)
		if ce, ok := errors.AsType[*canon.Error](err); ok && ce.Offset >= 0 {
			e.Msg = ce.Msg
			e.Line, e.Column = canon.Place(src, int(ce.Offset))
		}
		return nil, nil, []*policy.Error{e}
	}
	violations, err := set.Validate(specs.KindProfile, doc.Value())
	if err != nil {
		return nil, nil, []*policy.Error{errorf("profile cannot be checked: %v", err)}
	}
	if l := likeness.Of(doc.Value(), string(specs.KindProfile)); l != nil && len(violations) > 0 {
		return nil, nil, []*policy.Error{{Kind: policy.KindProfile, Msg: l.Not("a policy profile"), Hint: l.Use}}
	}
	var errs []*policy.Error
	for _, v := range violations {
		e := errorf("%s", v.Msg)
		if v.Pointer != "" {
			e = errorf("%s: %s", canon.Quote(v.Pointer), v.Msg)
		}
		e.Pointer = v.Pointer
		if v.More > 0 {
			e.Hint = strconv.Itoa(v.More) + " more faults are not listed"
		}
		errs = append(errs, e)
	}
	m, _ := doc.Value().(map[string]any)
	return m, violations, errs
}

// checkHosts has a fault for each list of hosts with an entry that cannot be read.
func checkHosts(p kernel.Profile) (errs []*policy.Error) {
	for _, l := range []struct {
		name    string
		entries []string
	}{{"network_hosts", p.NetworkHosts.Names}, {"registries", p.Registries}} {
		if _, i, wrong := contract.ParseHosts(l.entries); wrong != "" {
			at := canon.Pointer("/"+l.name, strconv.Itoa(i))
			e := errorf("%q: %s", at, wrong)
			e.Pointer = at
			errs = append(errs, e)
		}
	}
	return errs
}

// checkNetwork refuses lists of hosts that do not go with allow_network.
func checkNetwork(p kernel.Profile) *policy.Error {
	has := p.Hosts().All || len(p.Hosts().Names) > 0
	refuse := func(msg, hint string) *policy.Error {
		return &policy.Error{Kind: policy.KindProfile, Pointer: "/allow_network", Msg: msg, Hint: hint}
	}
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

// checkWhole refuses a profile that extends no other and lacks a member without a default,
// or has lists of hosts that do not go with its network. No member of named is missing.
func checkWhole(p kernel.Profile, m, named map[string]any) (errs []*policy.Error) {
	complete := true
	for _, name := range policy.Members()[:6] { // those without a default
		_, has := m[name]
		complete = complete && has
		if _, given := named[name]; !given {
			errs = append(errs, errorf(`member %q is missing; give it, or add "extends" to take it from a built-in profile`, name))
		}
	}
	if !complete {
		return errs
	}
	if e := checkNetwork(p); e != nil {
		errs = append(errs, e)
	}
	return errs
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
	delete(members, "$schema") // for editors
	if err := profileDecoder.Into(&absent, members); err != nil {
		return kernel.Profile{}, errorf("%v", err)
	}
	return absent, nil
}

func errorf(format string, args ...any) *policy.Error {
	return &policy.Error{Kind: policy.KindProfile, Msg: fmt.Sprintf(format, args...)}
}

// readFile reads the text of a profile.
func readFile(f policy.Folder, rel string) ([]byte, error) {
	src, err := f.Read(rel, "profile", MaxBytes)
	if e, ok := errors.AsType[*policy.Error](err); ok {
		e.Kind = policy.KindProfile
		if !f.Has(rel) {
			e.Msg = "there is no such file: a profile is a folder with a profile.json"
		}
	}
	return src, err
}

// maxFrozen is the greatest size of the artifact of a resolved profile: the
// content of its own file, and the additions of the profile that it extends.
const maxFrozen = 2 * MaxBytes

// ReadFrozen reads a resolved profile from the bytes that its digest covers. The
// profile encodes to the same bytes. The error is a *policy.Error of policy.KindProfile.
func ReadFrozen(artifact []byte) (kernel.Profile, error) {
	doc, err := canon.Parse(artifact, maxFrozen)
	if err != nil {
		return kernel.Profile{}, errorf("%v", err)
	}
	m, ok := doc.Value().(map[string]any)
	if !ok {
		return kernel.Profile{}, errorf("profile is not an object")
	}
	p, err := profileOf(m, absent())
	again, _, unwritten := canon.Artifact(p)
	if err != nil || unwritten != nil || !bytes.Equal(again, artifact) {
		return kernel.Profile{}, errorf("not a resolved profile in canonical form")
	}
	return p, nil
}
