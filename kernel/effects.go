package kernel

import (
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/argv"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/prose"
)

// EffectKind is what an effect does to the world.
type EffectKind string

// The four kinds of effect.
const (
	EffectRead  EffectKind = "read"
	EffectWrite EffectKind = "write"
	EffectRun   EffectKind = "run"
	EffectCall  EffectKind = "call"
)

// Effect is one thing that an intent would do. Every effect needs a permit of the
// built-in policy. Its ID is kind:pointer, so that two effects of one action have two
// ids.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Pointer string     `json:"pointer"` // JSON Pointer into the intent as it was given

	// Listed says whether the profile lists the effect: the command of a run, the folder of
	// a write, the adapter of a call. An input that has a path is always listed.
	Listed bool `json:"listed"`

	// Path is the cleaned path of a read or write effect.
	Path string `json:"path,omitempty"`

	// Members of a run effect. Command is argv[0]; Env has the names only, sorted.
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Env     []string `json:"env,omitempty"`

	// Members of a call effect.
	ToolID    string `json:"tool_id,omitempty"`
	AdapterID string `json:"adapter_id,omitempty"`

	// Tool is set for a call that is bound to a registry, and for its process.
	Tool *Tool `json:"tool,omitempty"`
}

// Finding is a fact that the kernel observed in an intent. A finding is no judgement:
// the policy decides what it means.
type Finding struct {
	Code   string `json:"code"`   // one of the Find constants
	Path   string `json:"path"`   // JSON Pointer into the intent as it was given
	Effect string `json:"effect"` // id of the effect that the finding is about, or ""
	Value  string `json:"value"`  // the text that the detector found, or ""
	Other  string `json:"other"`  // the second pointer or text of a pair, or ""
}

// Effects lists what the intent would read, write, run and call: first its inputs, then
// its actions in order, then its declared outputs. Pointers lead into the intent as it
// was given. The profile says which of the effects are listed.
func (in Intent) Effects(p Profile) []Effect {
	list := make([]Effect, 0, len(in.Inputs)+len(in.Actions)+len(in.Outputs))
	for i, path := range in.Inputs {
		list = append(list, pathEffect(EffectRead, "/inputs/"+strconv.Itoa(i), path))
	}
	for i, a := range in.Actions {
		if call, bound := in.calls[i]; bound {
			list = append(list, call.effects(a, i)...)
			continue
		}
		list = append(list, a.effect("/actions/"+strconv.Itoa(i)))
	}
	for i, path := range in.Outputs {
		list = append(list, pathEffect(EffectWrite, "/outputs/"+strconv.Itoa(i), path))
	}
	for i := range list {
		list[i].Listed = p.lists(&list[i])
	}
	return list
}

func pathEffect(kind EffectKind, pointer, path string) Effect {
	return Effect{ID: effectID(kind, pointer), Kind: kind, Pointer: pointer, Path: pathname.Clean(path)}
}

func effectID(kind EffectKind, pointer string) string { return string(kind) + ":" + pointer }

// effect returns the one effect of an action.
func (a Action) effect(pointer string) Effect {
	switch a.Kind {
	case ActionWrite:
		return pathEffect(EffectWrite, pointer, a.Path)
	case ActionCall:
		return Effect{
			ID: effectID(EffectCall, pointer), Kind: EffectCall, Pointer: pointer,
			ToolID: a.ToolID, AdapterID: a.AdapterID,
		}
	}
	return Effect{
		ID: effectID(EffectRun, pointer), Kind: EffectRun, Pointer: pointer,
		Command: a.Argv[0], Argv: a.Argv, Env: canon.Names(a.Env),
	}
}

// Findings lists what the kernel's detectors find in the intent. Findings in text come
// first, then those in paths and commands in the order of the effects, then those about
// several effects together.
//
// The list has at most maxFindings entries. If there are more findings, the list is
// truncated, and its last entry says so.
func (in Intent) Findings() []Finding { return few(in.allFindings()) }

// FindingsUnder returns the findings of an intent under a profile. Beside Findings,
// these are the names of environment variables that the profile does not list, and the
// arguments with shell metacharacters (IV-02), if the profile denies them.
func (in Intent) FindingsUnder(p Profile) []Finding {
	list := in.allFindings()
	for i, a := range in.Actions {
		find := func(a Action) []Finding { return p.findings(a, i) }
		list = append(append(list, find(a)...), in.calls[i].findings(i, find)...)
		list = append(list, p.unreachable(in.calls[i], i)...)
	}
	return few(list)
}

// findings returns what a command has that the profile does not allow.
func (p Profile) findings(a Action, i int) []Finding {
	var list []Finding
	at := place{"/actions/", i, ""}
	for _, name := range canon.Names(a.Env) {
		if !p.EnvAllow.Contains(name) && !contract.IsGuarded(name) {
			list = append(list, Finding{Code: finding.EnvUnlisted, Path: canon.Pointer(at.pointer()+"/env", name), Effect: at.effect(EffectRun), Value: name})
		}
	}
	for n, arg := range a.Argv {
		if p.ShellMetacharacters == MetacharactersDeny && contract.CheckArgument("", arg, contract.ArgvPlain) != nil {
			list = append(list, Finding{Code: finding.Metacharacter, Path: at.pointer() + "/argv/" + strconv.Itoa(n), Effect: at.effect(EffectRun), Value: canon.Cut(arg)})
		}
	}
	return list
}

func few(list []Finding) []Finding {
	if len(list) > maxFindings {
		first := list[maxFindings-1].Path // the path of the first finding that is cut
		list = append(list[:maxFindings-1], Finding{Code: finding.TooMany, Path: first, Value: strconv.Itoa(maxFindings)})
	}
	return list
}

// maxFindings is how many findings a policy judges one by one: as many as the results
// that it may give. An intent with more findings is at fault in any case.
const maxFindings = 1000

func (in Intent) allFindings() []Finding {
	var list []Finding
	steps := argv.NewBudget()
	list = append(list, in.textFindings()...)
	for i, p := range in.Inputs {
		list = append(list, pathFindings(p, EffectRead, place{"/inputs/", i, ""})...)
	}
	for i, a := range in.Actions {
		list = append(list, a.findings(i, steps)...)
		if call, bound := in.calls[i]; bound {
			list = append(list, call.Findings...)
			list = append(list, call.findings(i, func(a Action) []Finding { return a.findings(i, steps) })...)
		}
	}
	for i, p := range in.Outputs {
		list = append(list, pathFindings(p, EffectWrite, place{"/outputs/", i, ""})...)
	}
	return append(list, in.structureFindings()...)
}

// textFindings returns the findings in the goal and the constraints. Equal constraints
// count once, at their first position. done_undefined means that the intent has neither a
// constraint nor an action.
func (in Intent) textFindings() []Finding {
	var list []Finding
	for _, text := range prose.Placeholders(in.Goal) {
		list = append(list, Finding{Code: finding.Placeholder, Path: "/goal", Value: canon.Cut(text)})
	}
	seen := make(map[string]bool, len(in.given))
	distinct := make([]string, 0, len(in.given))
	places := make([]place, 0, len(in.given))
	for i, c := range in.given {
		if seen[c] || c == "" {
			continue
		}
		seen[c] = true
		at := place{"/constraints/", i, ""}
		distinct, places = append(distinct, c), append(places, at)
		for _, text := range prose.Placeholders(c) {
			list = append(list, Finding{Code: finding.Placeholder, Path: at.pointer(), Value: canon.Cut(text)})
		}
	}
	for _, c := range prose.Contradictions(distinct) {
		list = append(list, Finding{Code: finding.Contradiction, Path: places[c.I].pointer(), Value: canon.Cut(c.Text), Other: places[c.J].pointer()})
	}
	if len(in.Constraints) == 0 && len(in.Actions) == 0 {
		list = append(list, Finding{Code: finding.DoneUndefined, Path: "/goal"})
	}
	return list
}

// place is where a value stands in an intent. Most values have no finding and need no
// pointer, so a pointer is made only for a finding.
type place struct {
	list   string
	i      int
	member string // within the element of the list, as in "/path"
}

func (at place) pointer() string { return at.list + strconv.Itoa(at.i) + at.member }

// effect returns the id of the effect that the value belongs to.
func (at place) effect(kind EffectKind) string { return effectID(kind, at.list+strconv.Itoa(at.i)) }

func (a Action) findings(i int, steps *argv.Budget) []Finding {
	at := place{"/actions/", i, ""}
	switch a.Kind {
	case ActionWrite:
		at.member = "/path"
		return pathFindings(a.Path, EffectWrite, at)
	case ActionRun:
		var list []Finding
		for _, f := range argv.Faults(a.Argv, a.Stdin != nil, steps) {
			at.member = "/argv/" + strconv.Itoa(f.Arg)
			list = append(list, Finding{Code: f.Code, Path: at.pointer(), Effect: at.effect(EffectRun), Value: canon.Cut(f.Value)})
		}
		// A folder may end in a slash; a file may not.
		if cwd := a.Cwd; pathname.Clean(cwd) != "" {
			if len(cwd) > 1 {
				cwd = strings.TrimSuffix(cwd, "/")
			}
			at.member = "/cwd"
			list = append(list, pathFindings(cwd, EffectRun, at)...)
		}
		at.member = "/env"
		for _, name := range canon.Names(a.Env) {
			if contract.IsGuarded(name) {
				list = append(list, Finding{Code: finding.EnvGuarded, Path: canon.Pointer(at.pointer(), name), Effect: at.effect(EffectRun), Value: name})
			}
		}
		return list
	}
	return nil
}

// pathFindings returns the faults of a path.
func pathFindings(path string, kind EffectKind, at place) []Finding {
	var list []Finding
	for _, f := range pathname.Faults(path) {
		if (f.Code == finding.PathReserved || f.Code == finding.AgentPath) && kind != EffectWrite {
			continue // only a write creates a reserved path or instructions for agents
		}
		list = append(list, Finding{Code: f.Code, Path: at.pointer(), Effect: at.effect(kind), Value: canon.Cut(f.Value)})
	}
	return list
}

// writer is a cleaned path that an action writes, with its place.
type writer struct {
	path string
	place
}

// structureFindings returns the findings about several effects together: writes that clash,
// declared outputs that no action writes, and inputs that an action writes. If the intent
// runs or calls something, that may write any output.
func (in Intent) structureFindings() []Finding {
	writers := make([]writer, 0, len(in.Actions)+len(in.Outputs))
	runs := false
	for i, a := range in.Actions {
		switch a.Kind {
		case ActionWrite:
			writers = append(writers, writer{pathname.Clean(a.Path), place{"/actions/", i, "/path"}})
		default:
			runs = true
		}
	}
	first := make(map[string]place, len(writers)+len(in.Outputs)) // of each path, its first writer
	list := writeConflicts(writers, first)
	if f, ok := in.unproduced(first); ok && !runs {
		list = append(list, f)
	}
	// A declared output is a write too: an action that runs a command writes it.
	for i, p := range in.Outputs {
		w := writer{pathname.Clean(p), place{"/outputs/", i, ""}}
		if _, written := first[w.path]; !written {
			first[w.path] = w.place
		}
		writers = append(writers, w)
	}
	list = append(list, caseConflicts(writers)...)
	for i, w := range in.writtenInputs(first) {
		if w != "" {
			list = append(list, Finding{
				Code: finding.InputWritten, Path: w, Value: canon.Cut(pathname.Clean(in.Inputs[i])),
				Other: "/inputs/" + strconv.Itoa(i),
			})
		}
	}
	return list
}

// writtenInputs returns for each input the pointer of an action that writes it, or "".
// It prefers a write to the same path, then to the nearest folder that holds the input.
// Last comes the first path, in sorted order, that lies in the input.
func (in Intent) writtenInputs(written map[string]place) []string {
	found := make([]string, len(in.Inputs))
	if len(found) == 0 || len(written) == 0 {
		return found
	}
	below := map[string]string{} // for each folder, the first path in it that is written
	for p := range written {
		for dir, _, ok := pathname.CutLast(p); ok; dir, _, ok = pathname.CutLast(dir) {
			if old, known := below[dir]; !known || p < old {
				below[dir] = p
			}
		}
	}
	for i, p := range in.Inputs {
		path := pathname.Clean(p)
		for dir, ok := path, true; ok && found[i] == ""; dir, _, ok = pathname.CutLast(dir) {
			if at, ok := written[dir]; ok {
				found[i] = at.pointer()
			}
		}
		if inside, ok := below[path]; ok && found[i] == "" {
			found[i] = written[inside].pointer()
		}
	}
	return found
}

// unproduced returns one finding for all declared outputs that no action writes. The
// finding points to the first such output, and Other counts the rest.
func (in Intent) unproduced(written map[string]place) (Finding, bool) {
	var found Finding
	rest := -1
	for i, p := range in.Outputs {
		path := pathname.Clean(p)
		if _, ok := written[path]; ok {
			continue
		}
		if rest++; rest == 0 {
			found = Finding{Code: finding.Unproduced, Path: "/outputs/" + strconv.Itoa(i), Value: canon.Cut(path)}
		}
	}
	if rest > 0 {
		found.Other = strconv.Itoa(rest)
	}
	return found, rest >= 0
}

// writeConflicts finds paths that are written twice, and written paths that another
// write needs as a folder. It puts the first writer of each path into first.
func writeConflicts(writers []writer, first map[string]place) []Finding {
	var list []Finding
	for _, w := range writers {
		if other, ok := first[w.path]; ok {
			list = append(list, Finding{Code: finding.WriteTwice, Path: w.pointer(), Value: canon.Cut(w.path), Other: other.pointer()})
			continue
		}
		first[w.path] = w.place
	}
	for _, w := range writers {
		for dir, _, ok := pathname.CutLast(w.path); ok; dir, _, ok = pathname.CutLast(dir) {
			if other, clash := first[dir]; clash {
				list = append(list, Finding{Code: finding.WriteTwice, Path: w.pointer(), Value: canon.Cut(dir), Other: other.pointer()})
				break // one finding is enough: the nearest folder's own write has a finding for the next
			}
		}
	}
	return list
}

// caseConflicts finds, for each path, the first segment that an earlier path spells in
// another case. Where case does not count, both spellings are one name.
func caseConflicts(writers []writer) []Finding {
	var list []Finding
	first := make(map[string]writer, 2*len(writers)) // of a folded path or folder: its last name, and who spells it first
	for _, w := range writers {
		folded := pathname.Fold(w.path)
		rest, name, behind := w.path, "", folded
		for more := true; more; {
			name, rest, more = strings.Cut(rest, "/")
			_, behind, _ = strings.Cut(behind, "/")
			at := strings.TrimSuffix(folded[:len(folded)-len(behind)], "/")
			other, known := first[at]
			if !known {
				first[at] = writer{name, w.place}
			} else if other.path != name {
				list = append(list, Finding{
					Code: finding.PathCase, Path: w.pointer(), Effect: w.effect(EffectWrite),
					Value: canon.Cut(w.path), Other: other.pointer(),
				})
				break
			}
		}
	}
	return list
}
