package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/specs"
)

// MaxProfileBytes is the most that a profile.json may have.
const MaxProfileBytes = 1 << 20

// LoadProfile reads dir/profile.json. The profile's name is the folder's.
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

// ParseProfile reads the text of a profile that goes by name: strict JSON, then
// the schema, then the value. Lists keep their order. What may be absent gets
// the least that makes sense: no environment names, adapters or risk tags, both
// execution modes, model mode none, and the contract's memory, children and
// cores. The error is an *Error of KindProfile.
func ParseProfile(src []byte, name string, set *specs.Set) (kernel.Profile, error) {
	doc, err := canon.Parse(src, MaxProfileBytes)
	if err != nil {
		return kernel.Profile{}, profileErrorf("%v", err)
	}
	violations, err := set.Validate(specs.KindProfile, doc.Value())
	if err != nil {
		return kernel.Profile{}, profileErrorf("profile cannot be checked: %v", err)
	}
	if len(violations) > 0 {
		return kernel.Profile{}, violationError(violations[0])
	}
	m, ok := doc.Value().(map[string]any)
	if !ok {
		return kernel.Profile{}, profileErrorf("profile is not an object")
	}
	if err := checkProfile(m, name); err != nil {
		return kernel.Profile{}, err
	}
	return profileOf(m), nil
}

// checkProfile checks what the schema leaves to the loader.
func checkProfile(m map[string]any, name string) error {
	if got := text(m, "name"); got != name {
		return profileErrorf("profile is named %q, but it is loaded as %q", got, name)
	}
	for _, later := range []string{"extends", "isolation"} {
		if _, ok := m[later]; ok {
			return profileErrorf("member %q is not supported by this version", later)
		}
	}
	for _, required := range []string{
		"allow_network", "timeout_ms", "max_output_files", "max_total_output_bytes",
		"allowed_commands", "allowed_write_roots",
	} {
		if _, ok := m[required]; !ok {
			return profileErrorf("member %q is missing", required)
		}
	}
	return nil
}

// profileOf builds the value of a document that satisfies the schema.
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
		ModelAdapters:       list(m, "model_adapters"),
		RiskTags:            list(m, "risk_tags"),
		Severity:            severities(m),
		MemoryMB:            number(m, "memory_mb", contract.MemoryMB().Default),
		MaxChildren:         number(m, "max_children", contract.MaxChildren().Default),
		CPUCores:            number(m, "cpu_cores", contract.CPUCores().Default),
	}
}

func text(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// number reads an integer that the schema has bounded.
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

// list reads a list of strings; it is never nil, so that JSON shows [].
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

// allowList reads "*", a list, or nothing at all, which allows nothing.
func allowList(m map[string]any, name string) kernel.AllowList {
	if text(m, name) == "*" {
		return kernel.AllowList{All: true}
	}
	return kernel.AllowList{Names: list(m, name)}
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

// violationError words the first place at which a profile breaks its schema.
func violationError(v specs.Violation) *Error {
	if v.Pointer == "" {
		return profileErrorf("%s", v.Msg)
	}
	return profileErrorf("%s: %s", quote(v.Pointer), v.Msg)
}
