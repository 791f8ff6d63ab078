package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

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
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Module = file
		}
		return kernel.Profile{}, err
	}
	return p, nil
}

// LoadUserProfile reads a profile that is not built in from a file of a folder.
// ResolveProfile reads its text.
func LoadUserProfile(f Folder, file string, builtin []string, base func(name string) (kernel.Profile, error), set *specs.Set) (Resolved, error) {
	src, err := f.profile(file)
	if err != nil {
		return Resolved{}, err
	}
	r, err := ResolveProfile(src, builtin, base, set)
	var e *Error
	if errors.As(err, &e) && e.Kind == KindProfile && e.Module == "" {
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
	m, err := readProfile(src, set)
	if err != nil {
		return kernel.Profile{}, err
	}
	if got := text(m, "name"); got != name {
		return kernel.Profile{}, profileErrorf("profile is named %q, but it is loaded as %q", got, name)
	}
	if _, ok := m["extends"]; ok {
		return kernel.Profile{}, profileErrorf("a built-in profile extends no other")
	}
	if err := checkWhole(m); err != nil {
		return kernel.Profile{}, err
	}
	return profileOf(m), nil
}

// ResolveProfile reads the text of a profile that is not built in. Its name must differ
// from builtin, the names of the built-in profiles. base loads the built-in profile
// that "extends" names; the outcome is then what both profiles allow. The error is an
// *Error of KindProfile, or the error of base.
func ResolveProfile(src []byte, builtin []string, base func(name string) (kernel.Profile, error), set *specs.Set) (Resolved, error) {
	m, err := readProfile(src, set)
	if err != nil {
		return Resolved{}, err
	}
	if name := text(m, "name"); slices.Contains(builtin, name) {
		return Resolved{}, profileErrorf("the name %q is that of a built-in profile; give this one a name of its own", name)
	}
	if extends := text(m, "extends"); extends != "" {
		beneath, err := base(extends)
		if err != nil {
			return Resolved{}, err
		}
		return narrow(beneath, m)
	}
	if err := checkWhole(m); err != nil {
		return Resolved{}, err
	}
	r := Resolved{Profile: profileOf(m)}
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
		"model_adapters", "risk_tags", "severity", "memory_mb", "max_children", "cpu_cores", "isolation", "shell_metacharacters",
	}
}

// readProfile reads a profile as strict JSON that fits the schema.
func readProfile(src []byte, set *specs.Set) (map[string]any, error) {
	doc, err := canon.Parse(src, MaxProfileBytes)
	if err != nil {
		return nil, profileErrorf("%v", err)
	}
	violations, err := set.Validate(specs.KindProfile, doc.Value())
	if err != nil {
		return nil, profileErrorf("profile cannot be checked: %v", err)
	}
	if len(violations) > 0 {
		return nil, violationError(violations[0])
	}
	m, ok := doc.Value().(map[string]any)
	if !ok {
		return nil, profileErrorf("profile is not an object")
	}
	return m, nil
}

// checkWhole refuses a profile that extends no other profile and lacks a member without
// a default.
func checkWhole(m map[string]any) error {
	for _, required := range Members()[:6] {
		if _, ok := m[required]; !ok {
			return profileErrorf(`member %q is missing; give it, or add "extends" to take it from a built-in profile`, required)
		}
	}
	return nil
}

// profileOf builds the profile of a document that satisfies the schema.
func profileOf(m map[string]any) kernel.Profile {
	allowNetwork, _ := m["allow_network"].(bool)
	return kernel.Profile{
		Name:                text(m, "name"),
		AllowNetwork:        allowNetwork,
		TimeoutMS:           number(m, "timeout_ms", 0),
		MaxOutputFiles:      number(m, "max_output_files", 0),
		MaxTotalOutputBytes: number(m, "max_total_output_bytes", 0),
		AllowedCommands:     allowList(m, "allowed_commands"),
		AllowedWriteRoots:   allowList(m, "allowed_write_roots"),
		EnvAllow:            allowList(m, "env_allow"),
		ExecutionModes:      list(m, "execution_modes", "plan-only", "execute-sandbox"),
		ModelModes:          list(m, "model_modes", "none"),
		ModelAdapters:       allowList(m, "model_adapters"),
		RiskTags:            list(m, "risk_tags"),
		Severity:            severities(m),
		MemoryMB:            number(m, "memory_mb", contract.MemoryMB().Default),
		MaxChildren:         number(m, "max_children", contract.MaxChildren().Default),
		CPUCores:            number(m, "cpu_cores", contract.CPUCores().Default),
		Isolation:           isolation(m, kernel.IsolationFull),
		ShellMetacharacters: metacharacters(m, kernel.MetacharactersData),
	}
}

func text(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// number reads an integer whose bounds the schema has checked.
func number(m map[string]any, name string, absent int) int {
	n, ok := m[name].(json.Number)
	if !ok {
		return absent
	}
	i, err := strconv.Atoi(n.String())
	if err != nil {
		return absent
	}
	return i
}

// list reads a list of strings. It never returns nil, so that JSON shows [].
func list(m map[string]any, name string, absent ...string) []string {
	values, ok := m[name].([]any)
	if !ok {
		return append([]string{}, absent...)
	}
	l := make([]string, 0, len(values))
	for _, v := range values {
		if s, ok := v.(string); ok {
			l = append(l, s)
		}
	}
	return l
}

// allowList reads "*" or a list. An absent member allows nothing.
func allowList(m map[string]any, name string) kernel.AllowList {
	if text(m, name) == "*" {
		return kernel.AllowList{All: true}
	}
	return kernel.AllowList{Names: list(m, name)}
}

func isolation(m map[string]any, absent kernel.Isolation) kernel.Isolation {
	return cmp.Or(kernel.Isolation(text(m, "isolation")), absent)
}

func metacharacters(m map[string]any, absent kernel.Metacharacters) kernel.Metacharacters {
	switch text(m, "shell_metacharacters") {
	case "":
		return absent
	case "data":
		return kernel.MetacharactersData
	}
	return kernel.MetacharactersDeny
}

func severities(m map[string]any) map[string]kernel.Severity {
	members, _ := m["severity"].(map[string]any)
	s := make(map[string]kernel.Severity, len(members))
	for id, v := range members {
		if weight, ok := v.(string); ok {
			s[id] = kernel.Severity(weight)
		}
	}
	return s
}

func profileErrorf(format string, args ...any) *Error {
	return &Error{Kind: KindProfile, Msg: fmt.Sprintf(format, args...)}
}

// violationError words the first place at which a profile violates its schema.
func violationError(v specs.Violation) *Error {
	if v.Pointer == "" {
		return profileErrorf("%s", v.Msg)
	}
	return profileErrorf("%s: %s", quote(v.Pointer), v.Msg)
}
