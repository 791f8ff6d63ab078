package harness

import (
	"context"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// Profiles are the names of the built-in profiles, from narrow to wide.
func Profiles() []string { return []string{"strict", "default", "dev"} }

// OpenGate resolves a built-in profile from fsys (profiles.FS) and compiles the
// policy that decides under it. The error is always a *result.RunError.
func OpenGate(ctx context.Context, fsys fs.FS, name string, set *specs.Set, limits policy.Limits) (gate *Gate, err error) {
	defer func() {
		if p := recover(); p != nil {
			gate, err = nil, Panicked()
		}
	}()
	if !slices.Contains(Profiles(), name) {
		return nil, unknownProfile(name)
	}
	profile, err := policy.LoadProfile(fsys, name, set)
	if err != nil {
		return nil, policyError(err)
	}
	layer, err := policy.LoadLayer(fsys, "builtin", "gate.builtin")
	if err != nil {
		return nil, policyError(err)
	}
	layer.Embedded = true
	engine, err := policy.New(ctx, profile, []policy.Layer{layer}, limits)
	if err != nil {
		return nil, policyError(err)
	}
	return &Gate{Profile: profile, Provenance: engine.Provenance(), Judge: engine}, nil
}

func unknownProfile(name string) *result.RunError {
	e := &result.RunError{
		Code:    result.CodeProfile,
		Message: "unknown profile " + strconv.Quote(canon.Cut(name)),
		Hint:    "use --policy with one of: " + strings.Join(Profiles(), ", "),
	}
	if near := specs.Nearest(name, Profiles()); near != "" {
		e.Hint = "did you mean " + strconv.Quote(near) + "? profiles: " + strings.Join(Profiles(), ", ")
	}
	return e
}

// BuiltinProfile is the part of a built-in profile that a RunResult carries.
// The error is always a *result.RunError.
func BuiltinProfile(fsys fs.FS, name string, set *specs.Set) (*kernel.PolicyProfile, error) {
	profile, err := policy.LoadProfile(fsys, name, set)
	if err != nil {
		return nil, policyError(err)
	}
	contract := profile.Contract()
	return &contract, nil
}
