package kernel

import (
	"encoding/json"
	"slices"
)

// PolicyProfile is the part of a profile that a RunResult carries: the seven
// members of run-result.md and nothing else.
type PolicyProfile struct {
	Name                string   `json:"name"`
	AllowNetwork        bool     `json:"allow_network"`
	TimeoutMS           int      `json:"timeout_ms"`
	MaxOutputFiles      int      `json:"max_output_files"`
	MaxTotalOutputBytes int      `json:"max_total_output_bytes"`
	AllowedCommands     []string `json:"allowed_commands"`
	AllowedWriteRoots   []string `json:"allowed_write_roots"`
}

// AllowList is a list of allowed names, or everything. The zero value allows
// nothing. Its JSON form is an array of strings, or the string "*" for all.
type AllowList struct {
	All   bool
	Names []string
}

// MarshalJSON writes "*" or the list; an empty list is [].
func (a AllowList) MarshalJSON() ([]byte, error) {
	if a.All {
		return []byte(`"*"`), nil
	}
	return json.Marshal(nonNil(a.Names))
}

// Contains says whether name is allowed, by exact comparison.
func (a AllowList) Contains(name string) bool {
	return a.All || slices.Contains(a.Names, name)
}

// Severity is what a profile makes of a rule whose weight is its to choose.
type Severity string

// The three severities, from hard to soft.
const (
	SeverityDeny    Severity = "deny"
	SeverityClarify Severity = "clarify"
	SeverityNote    Severity = "note"
)

// Profile is a resolved policy profile: what the policy sees as data.profile.
// Its canonical JSON is what policy_provenance.profile_sha256 covers.
type Profile struct {
	Name                string              `json:"name"`
	AllowNetwork        bool                `json:"allow_network"`
	TimeoutMS           int                 `json:"timeout_ms"`
	MaxOutputFiles      int                 `json:"max_output_files"`
	MaxTotalOutputBytes int                 `json:"max_total_output_bytes"`
	AllowedCommands     AllowList           `json:"allowed_commands"`
	AllowedWriteRoots   AllowList           `json:"allowed_write_roots"`
	EnvAllow            AllowList           `json:"env_allow"`
	ExecutionModes      []string            `json:"execution_modes"`
	ModelModes          []string            `json:"model_modes"`
	ModelAdapters       []string            `json:"model_adapters"`
	RiskTags            []string            `json:"risk_tags"`
	Severity            map[string]Severity `json:"severity"`
	MemoryMB            int                 `json:"memory_mb"`
	MaxChildren         int                 `json:"max_children"`
	CPUCores            int                 `json:"cpu_cores"`
}

// Contract is the seven members that a RunResult carries as policy. A list
// that allows everything becomes the empty list there.
func (p Profile) Contract() PolicyProfile {
	return PolicyProfile{
		Name:                p.Name,
		AllowNetwork:        p.AllowNetwork,
		TimeoutMS:           p.TimeoutMS,
		MaxOutputFiles:      p.MaxOutputFiles,
		MaxTotalOutputBytes: p.MaxTotalOutputBytes,
		AllowedCommands:     nonNil(p.AllowedCommands.Names),
		AllowedWriteRoots:   nonNil(p.AllowedWriteRoots.Names),
	}
}

// nonNil returns a non-nil copy, so that JSON shows [] and never null.
func nonNil(list []string) []string {
	return append([]string{}, list...)
}
