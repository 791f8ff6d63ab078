package kernel

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/argv"
	"github.com/fiador/fiador/kernel/contract"
)

// PolicyProfile is the part of a profile that a RunResult carries. It has exactly the
// seven members of run-result.md.
type PolicyProfile struct {
	Name                string   `json:"name"`
	AllowNetwork        bool     `json:"allow_network"`
	TimeoutMS           int      `json:"timeout_ms"`
	MaxOutputFiles      int      `json:"max_output_files"`
	MaxTotalOutputBytes int      `json:"max_total_output_bytes"`
	AllowedCommands     []string `json:"allowed_commands"`
	AllowedWriteRoots   []string `json:"allowed_write_roots"`
}

// AllowList is a list of allowed names, or allows every name. The zero value allows
// nothing. Its JSON form is an array of strings, or the string "*" for every name.
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

// ReadDocument reads "*" or a list of strings from a decoded document, and returns what
// is wrong, or "".
func (a *AllowList) ReadDocument(v any) string {
	if v == "*" {
		*a = AllowList{All: true}
		return ""
	}
	list, ok := v.([]any)
	names := make([]string, len(list))
	for i := range list {
		if names[i], ok = list[i].(string); !ok {
			break
		}
	}
	if !ok {
		return `neither "*" nor a list of strings`
	}
	*a = AllowList{Names: names}
	return ""
}

// Contains says whether name is allowed, by exact comparison.
func (a AllowList) Contains(name string) bool {
	return a.All || slices.Contains(a.Names, name)
}

// Severity is the effect of a rule whose weight the profile chooses.
type Severity string

// The three severities, from hard to soft.
const (
	SeverityDeny    Severity = "deny"
	SeverityClarify Severity = "clarify"
	SeverityNote    Severity = "note"
)

// Isolation says how strongly an execution is separated from the machine.
type Isolation string

// The three isolations, from strong to weak.
const (
	IsolationFull     Isolation = "full"     // every layer of the sandbox
	IsolationConfined Isolation = "confined" // Landlock and seccomp alone
	IsolationNone     Isolation = "none"     // no layer
)

// AtLeast says whether i separates as strongly as least, or more strongly. An unknown i
// is too weak. Only full is enough for an unknown least.
func (i Isolation) AtLeast(least Isolation) bool {
	order := []Isolation{IsolationNone, IsolationConfined, IsolationFull}
	want := slices.Index(order, least)
	return i == IsolationFull || want >= 0 && slices.Index(order, i) >= want
}

// Metacharacters says how a profile treats shell metacharacters in arguments (IV-02).
type Metacharacters string

// The two treatments, from wide to narrow. The JSON of a profile leaves out the wide
// one, so that older profiles keep their digests.
const (
	MetacharactersData Metacharacters = ""     // no shell reads arguments, so they are data
	MetacharactersDeny Metacharacters = "deny" // no argument may have one
)

// ReadDocument reads "data" or "deny" from a decoded document, and returns what is wrong,
// or "".
func (m *Metacharacters) ReadDocument(v any) string {
	switch v {
	case "data":
		*m = MetacharactersData
	case string(MetacharactersDeny):
		*m = MetacharactersDeny
	default:
		return `neither "data" nor "deny"`
	}
	return ""
}

// Profile is a resolved policy profile, which the policy reads as data.profile.
// policy_provenance.profile_sha256 covers its canonical JSON.
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
	ModelAdapters       AllowList           `json:"model_adapters"`
	RiskTags            []string            `json:"risk_tags"`
	Severity            map[string]Severity `json:"severity"`
	MemoryMB            int                 `json:"memory_mb"`
	MaxChildren         int                 `json:"max_children"`
	CPUCores            int                 `json:"cpu_cores"`
	Isolation           Isolation           `json:"isolation"` // the weakest isolation that an execution may have
	ShellMetacharacters Metacharacters      `json:"shell_metacharacters,omitempty"`
	AllowedTools        AllowList           `json:"allowed_tools,omitzero"`
	NetworkHosts        AllowList           `json:"network_hosts,omitzero"` // hosts that commands may reach, if AllowNetwork
	Registries          []string            `json:"registries,omitempty"`   // hosts of package registries, likewise
}

// NetLevel returns the level of access to the network.
func (p Profile) NetLevel() contract.NetLevel {
	return contract.NetworkLevel(p.AllowNetwork, contract.AllowList(p.NetworkHosts), p.Registries)
}

// Hosts returns the entries of both lists of hosts.
func (p Profile) Hosts() AllowList {
	return AllowList{All: p.NetworkHosts.All, Names: slices.Concat(p.NetworkHosts.Names, p.Registries)}
}

// lists says whether the profile lists an effect (Effect.Listed). A list that allows
// every name does not allow the empty name. A command that is a path is in no list, and a
// write root is no file to write.
func (p Profile) lists(e *Effect) bool {
	switch e.Kind {
	case EffectRead:
		return e.Path != ""
	case EffectWrite:
		below := func(root string) bool { return strings.HasPrefix(e.Path, root+"/") }
		file := e.Path != "" && !strings.HasSuffix(e.Path, "/")
		return file && (p.AllowedWriteRoots.All || slices.ContainsFunc(p.AllowedWriteRoots.Names, below))
	case EffectRun:
		name := p.AllowedCommands.All || !argv.IsPath(e.Command)
		return e.Command != "" && name && p.AllowedCommands.Contains(e.Command)
	case EffectCall:
		if e.Tool != nil {
			return p.listsTool(e)
		}
		return e.AdapterID != "" && p.ModelAdapters.Contains(e.AdapterID)
	}
	return false
}

// Contract returns the seven members that a RunResult carries as policy. There, a list
// that allows every name becomes the empty list.
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

// WiderThan names the members, in the order of Profile, by which p allows more than q.
// An empty list means that p is as narrow as q or narrower. More risk tags are
// narrower, for each tag asks for a review. Severities are compared where both profiles
// give one; the built-in profiles give every severity that a profile can choose.
func (p Profile) WiderThan(q Profile) []string {
	var wider []string
	add := func(name string, is bool) {
		if is {
			wider = append(wider, name)
		}
	}
	add("allow_network", p.AllowNetwork && !q.AllowNetwork)
	add("timeout_ms", p.TimeoutMS > q.TimeoutMS)
	add("max_output_files", p.MaxOutputFiles > q.MaxOutputFiles)
	add("max_total_output_bytes", p.MaxTotalOutputBytes > q.MaxTotalOutputBytes)
	add("allowed_commands", p.AllowedCommands.widerThan(q.AllowedCommands, equal))
	add("allowed_write_roots", p.AllowedWriteRoots.widerThan(q.AllowedWriteRoots, Beneath))
	add("env_allow", p.EnvAllow.widerThan(q.EnvAllow, equal))
	add("execution_modes", !subset(p.ExecutionModes, q.ExecutionModes))
	add("model_modes", !subset(p.ModelModes, q.ModelModes))
	add("model_adapters", p.ModelAdapters.widerThan(q.ModelAdapters, equal))
	add("risk_tags", !subset(q.RiskTags, p.RiskTags))
	add("severity", softer(p.Severity, q.Severity))
	add("memory_mb", p.MemoryMB > q.MemoryMB)
	add("max_children", p.MaxChildren > q.MaxChildren)
	add("cpu_cores", p.CPUCores > q.CPUCores)
	add("isolation", !p.Isolation.AtLeast(q.Isolation))
	add("shell_metacharacters", p.ShellMetacharacters != MetacharactersDeny && q.ShellMetacharacters == MetacharactersDeny)
	add("allowed_tools", p.AllowedTools.widerThan(q.AllowedTools, ToolBelow))
	add("network_hosts", p.NetworkHosts.widerThan(q.Hosts(), contract.HostWithin))
	add("registries", AllowList{Names: p.Registries}.widerThan(q.Hosts(), contract.HostWithin))
	return wider
}

// widerThan says whether some name of a is covered by no name of b.
func (a AllowList) widerThan(b AllowList, covered func(name, by string) bool) bool {
	if a.All || b.All {
		return !b.All
	}
	return slices.ContainsFunc(a.Names, func(name string) bool {
		return !slices.ContainsFunc(b.Names, func(by string) bool { return covered(name, by) })
	})
}

func equal(a, b string) bool { return a == b }

// Beneath says whether everything below the folder path is also below root. Both paths
// are clean and relative.
func Beneath(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}

func softer(p, q map[string]Severity) bool {
	for id, s := range p {
		if other, ok := q[id]; ok && other.Stricter(s) {
			return true
		}
	}
	return false
}

// Stricter says whether s is stricter than t: deny is stricter than clarify, and
// clarify is stricter than note.
func (s Severity) Stricter(t Severity) bool {
	order := []Severity{SeverityNote, SeverityClarify, SeverityDeny}
	return slices.Index(order, s) > slices.Index(order, t)
}
