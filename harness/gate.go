package harness

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// ProfileFile is the name of a profile's data in its folder.
const ProfileFile = "profile.json"

// RepoPolicy is the folder of a gated tree with the tree's own layer.
const RepoPolicy = ".fiador/policy"

// Sources are the inputs of a gate: a built-in profile by name, or a profile of the
// user, and the layers of the organisation and of the gated tree. These layers can only
// tighten the profile.
type Sources struct {
	Builtin fs.FS          // profiles.FS
	Profile string         // name of a built-in profile, used if User is nil
	User    *policy.Folder // folder of another profile
	File    string         // name of its data file in that folder; any other name than ProfileFile means the data alone, without Rego
	Org     []policy.Folder
	Repo    *policy.Folder
}

// Open is an opened gate: the profile and its layers, before compilation.
type Open struct {
	profile.Resolved
	Layers []policy.Layer // the built-in one first

	file string // name of the profile's data, for messages
}

// Read reads a profile and its layers. The error is always a *result.RunError.
func (s Sources) Read(set *specs.Set, limits policy.Limits) (o Open, err error) {
	defer func() {
		if p := recover(); p != nil {
			o, err = Open{}, runerr.Panicked()
		}
	}()
	if o, err = s.read(set, limits); err != nil {
		return Open{}, runerr.Load(err)
	}
	return o, nil
}

func (s Sources) read(set *specs.Set, limits policy.Limits) (Open, error) {
	builtin, err := policy.LoadLayer(policy.Folder{FS: s.Builtin, Dir: "builtin"}, policy.Builtin, limits)
	if err != nil {
		return Open{}, err
	}
	builtin.Embedded = true
	builtin.Stored, _ = fs.ReadFile(s.Builtin, "builtin/"+policy.StoredFile) // without it, the modules are compiled
	o := Open{Layers: []policy.Layer{builtin}}
	if o.Resolved, err = s.resolve(set); err != nil {
		return Open{}, err
	}
	add := func(f policy.Folder, pkg string) error {
		l, err := policy.LoadLayer(f, pkg, limits)
		if err == nil {
			o.Layers = append(o.Layers, l)
		}
		return err
	}
	for _, f := range s.Org {
		if err := add(f, policy.PrefixOrg); err != nil {
			return Open{}, err
		}
	}
	if s.Repo != nil {
		if err := add(*s.Repo, policy.PrefixRepo); err != nil {
			return Open{}, err
		}
	}
	if s.User == nil {
		return o, nil
	}
	if o.file = s.User.File(s.File); s.File != ProfileFile {
		return o, nil
	}
	if err := add(*s.User, UserPackage(o.Profile.Name)); err != nil {
		return Open{}, err
	}
	if last := len(o.Layers) - 1; len(o.Layers[last].Modules) == 0 {
		o.Layers = o.Layers[:last] // a profile may be data alone
	}
	return o, nil
}

// UserPackage is the package of the Rego of a profile that is not built in.
func UserPackage(profile string) string {
	return policy.PrefixUser + profiles.PackageName(profile)
}

// Resolve reads the profile alone. The error is always a *result.RunError.
func (s Sources) Resolve(set *specs.Set) (profile.Resolved, error) {
	r, err := s.resolve(set)
	if err != nil {
		return profile.Resolved{}, runerr.Load(err)
	}
	return r, nil
}

func (s Sources) resolve(set *specs.Set) (profile.Resolved, error) {
	builtin := func(name string) (kernel.Profile, error) { return profile.Load(s.Builtin, name, set) }
	if s.User == nil {
		if !slices.Contains(profiles.Names(), s.Profile) {
			return profile.Resolved{}, unknownProfile(s.Profile)
		}
		p, err := builtin(s.Profile)
		return profile.Resolved{Profile: p}, err
	}
	return profile.LoadUser(*s.User, s.File, builtin, set)
}

// OpenGate reads a profile and its layers and compiles them. The error is always
// a *result.RunError.
func OpenGate(ctx context.Context, s Sources, set *specs.Set, limits policy.Limits) (gate *Gate, err error) {
	defer func() {
		if p := recover(); p != nil {
			gate, err = nil, runerr.Panicked()
		}
	}()
	o, err := s.Read(set, limits)
	if err != nil {
		return nil, err
	}
	return o.Compile(ctx, s.Builtin, set, limits)
}

// Compile makes the gate. The error is always a *result.RunError.
func (o Open) Compile(ctx context.Context, builtin fs.FS, set *specs.Set, limits policy.Limits) (*Gate, error) {
	engine, err := policy.New(ctx, o.Profile, o.Layers, limits)
	if err != nil {
		return nil, runerr.Load(err)
	}
	var choices []string
	if last := o.Layers[len(o.Layers)-1]; strings.HasPrefix(last.Package, policy.PrefixUser) {
		choices = engine.Choices(last.Package)
	}
	if o.Origins != nil {
		if errs := Severities(o.Profile, o.file, choices, builtin, set); len(errs) > 0 {
			return nil, errs[0]
		}
	}
	return &Gate{
		Profile: o.Profile, Builtin: o.Origins == nil, Base: o.base(), Layers: o.Layers,
		Provenance: engine.Provenance(), Judge: engine, IDs: engine.IDs,
	}, nil
}

// base returns the built-in profile that says what commands may read.
func (o Open) base() string {
	if o.Origins == nil {
		return o.Profile.Name
	}
	return o.Extends
}

// Severities refuses each severity for a rule whose severity cannot be chosen, because
// that severity would have no effect. In the profile's own Rego, a severity can be
// chosen for a rule id that stands under at least two of deny, clarify and note: choices.
// file names the profile in messages.
func Severities(p kernel.Profile, file string, choices []string, builtin fs.FS, set *specs.Set) (errs []*result.RunError) {
	if len(p.Severity) == 0 {
		return nil
	}
	strict, err := profile.Load(builtin, "strict", set)
	if err != nil {
		return []*result.RunError{runerr.Load(err)}
	}
	known := slices.Concat(slices.Collect(maps.Keys(strict.Severity)), choices)
	slices.Sort(known)
	for _, id := range slices.Sorted(maps.Keys(p.Severity)) {
		if !slices.Contains(known, id) {
			errs = append(errs, runerr.New(result.CodeProfile, file+": severity of "+strconv.Quote(id)+" is no profile's choice",
				didYouMean(id, known)+"one of: "+strings.Join(slices.Compact(slices.Clone(known)), ", "), runerr.At(canon.Pointer("/severity", id))))
		}
	}
	return errs
}

// didYouMean asks for the known name that is most like a name, or returns "".
func didYouMean(name string, known []string) string {
	near := specs.Nearest(name, known)
	if near == "" {
		return ""
	}
	return "did you mean " + strconv.Quote(near) + "? "
}

func unknownProfile(name string) *result.RunError {
	hint := "use --policy with a folder that has a profile.json, or one of: "
	if near := didYouMean(name, profiles.Names()); near != "" {
		hint = near + "profiles: "
	}
	return runerr.New(result.CodeProfile, "unknown profile "+canon.Quote(name), hint+strings.Join(profiles.Names(), ", "))
}

// checkModes refuses a profile and modes that cannot be combined (RUN_E004).
func checkModes(p kernel.Profile, req Request) error {
	if !slices.Contains(p.ExecutionModes, req.Mode) {
		hint := "use --mode with one of: " + strings.Join(p.ExecutionModes, ", ")
		if req.Exec != nil {
			hint = "use a profile that does; --print-intent shows the intent, which fiador run decides as a plan"
		}
		return runerr.Mode("profile "+strconv.Quote(p.Name)+" does not allow execution mode "+strconv.Quote(req.Mode), hint)
	}
	if !slices.Contains(p.ModelModes, req.ModelMode) {
		return runerr.Mode("profile "+strconv.Quote(p.Name)+" does not allow model mode "+strconv.Quote(req.ModelMode),
			"use --model-mode with one of: "+strings.Join(p.ModelModes, ", "))
	}
	return nil
}

// checkCaller refuses an execution in a model mode if there is neither a Caller nor an Asker.
func checkCaller(deps Deps, req Request) error {
	if req.Mode == ModeExecuteSandbox && req.ModelMode != ModelNone && deps.Caller == nil && deps.Asker == nil {
		return runerr.Mode("model mode "+strconv.Quote(req.ModelMode)+" needs a recording to execute with", "name it with --model-recording or --tool-recording")
	}
	return nil
}
