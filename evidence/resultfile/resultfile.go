// Package resultfile checks files of RunResults: against the schema of their version, against
// the invariants, and against a profile.
package resultfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// File is a RunResult file that was read.
type File struct {
	Object map[string]any // the decoded document

	raw []byte
	doc canon.Document
}

// Parse reads a RunResult file. Its error is a *canon.Error for a text that is not strict
// JSON, and otherwise says why the document is no RunResult.
func Parse(raw []byte) (File, error) {
	doc, err := canon.Parse(raw, result.MaxBytes)
	if err != nil {
		return File{}, err
	}
	obj, ok := doc.Value().(map[string]any)
	_, version := obj["run_schema_version"]
	_, outcome := obj["kernel_result_kind"]
	switch {
	case !ok:
		return File{}, errors.New("the document is not an object")
	case !version && !outcome:
		return File{}, errors.New("it has neither run_schema_version nor kernel_result_kind")
	}
	return File{obj, raw, doc}, nil
}

// edition returns the edition for the version that the file names.
func (f File) edition() result.Edition {
	version, _ := f.Object["run_schema_version"].(string)
	return result.EditionOf(version)
}

// Checks checks a file against the invariants and the schema, in this order. RS5 needs a
// profile: the given one, or the built-in one that the file names. With a given profile,
// RS5 compares the whole profile: policy_provenance holds its hash.
func (f File) Checks(set *specs.Set, given *kernel.Profile) ([]result.Check, error) {
	profile := given
	if given == nil {
		var err error
		if profile, err = f.builtin(set); err != nil {
			return nil, err
		}
	}
	var want *kernel.PolicyProfile
	if profile != nil {
		want = new(profile.Contract())
	}
	schema, err := f.schema(set)
	if err != nil {
		return nil, err
	}
	checks := append(result.Checks(f.raw, f.doc, want), schema)
	if given == nil {
		return checks, nil
	}
	return checks, f.whole(checks, *given)
}

// builtin returns the built-in profile that a file names, or nil.
func (f File) builtin(set *specs.Set) (*kernel.Profile, error) {
	named, _ := f.Object["policy"].(map[string]any)
	name, _ := named["name"].(string)
	if !slices.Contains(profiles.Names(), name) {
		return nil, nil
	}
	p, err := profile.Load(profiles.FS(), name, set)
	return &p, err
}

// whole adds to a passed RS5 whether the file names the hash of the whole profile.
func (f File) whole(checks []result.Check, given kernel.Profile) error {
	_, hash, err := canon.Artifact(given)
	if err != nil {
		return err
	}
	provenance, has := f.Object["policy_provenance"].(map[string]any)
	for i, c := range checks {
		switch {
		case c.ID != "RS5" || c.Status != result.Pass:
		case f.edition() == result.Contract && !has:
			checks[i].Note = "version " + result.ContractVersion + " has no policy_provenance, so only the seven members of the profile are compared"
		case provenance["profile_sha256"] != string(hash):
			checks[i].Status = result.Fail
			checks[i].Fault = "policy_provenance.profile_sha256 is not that of the given profile, " + string(hash)
		}
	}
	return nil
}

// schema checks a file against the schema of its version. The contract's version has fewer
// members, and a later version may have more.
func (f File) schema(set *specs.Set) (result.Check, error) {
	schema := result.Check{ID: "SCHEMA", Title: result.RecordOf("SCHEMA").Title, Status: result.Pass}
	violations, err := set.Validate(specs.KindRunResult, f.doc.Value())
	if err != nil {
		return schema, err
	}
	edition := f.edition()
	var faults, unknown []string
	for _, v := range violations {
		switch {
		case v.Pointer == "/run_schema_version" && edition != result.Foreign:
		case v.Pointer == "/run_schema_version" && v.Rule == "const":
			faults = append(faults, fmt.Sprintf("%s is none of %s, %s and later versions 1.x.y", v.Pointer, result.ContractVersion, result.SchemaVersion))
		case edition == result.Contract && v.Pointer == "" && v.Rule == "required" && slices.Contains(result.SinceContract(), v.Member):
		case edition == result.Later && v.Rule == "additionalProperties":
			unknown = append(unknown, v.Pointer)
		default:
			faults = append(faults, strings.TrimSpace(v.Pointer+" "+v.Msg))
		}
		if v.More > 0 {
			faults = append(faults, fmt.Sprintf("%d members or more are not as the schema has them", len(violations)+v.More))
		}
	}
	for _, name := range result.SinceContract() {
		if _, has := f.Object[name]; has && edition == result.Contract {
			faults = append(faults, "/"+name+" is no member of version "+result.ContractVersion)
		}
	}
	switch {
	case len(faults) > 0:
		schema.Status, schema.Fault = result.Fail, faults[0]
	case len(unknown) > 0:
		schema.Note = "members that version " + result.SchemaVersion + " does not have are not checked: " + strings.Join(unknown, ", ")
	}
	return schema, nil
}
