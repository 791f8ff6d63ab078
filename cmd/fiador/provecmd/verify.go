// Package provecmd has the commands that prove results: verify, digest and compare hold
// RunResults against their rules and against each other. Fingerprint and conformance hold
// this machine and wrappers against the vectors.
package provecmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// Verify returns the command that holds RunResults against their rules.
func Verify(a *cli.App) *cobra.Command {
	profile := ""
	cmd := &cobra.Command{
		Use:   "verify RESULT...",
		Short: "check RunResult files against RS1..RS8",
		Long: `Verify holds every invariant against each RunResult file and lists all of them by
name, the ones that fail first. RS5 needs the profile that the result names: for
one that is not built in, name it with --policy; without it RS5 is not checked,
and the exit code is 2.

A result of version 1.0.0 has the contract's members and no others; RS3a, which it
does not have, is listed as not checked and changes no exit code. A later version
1.x.y may have members that this one does not know; they are named.

Exit codes:
  0  every check of every file holds
  1  at least one check fails
  2  a file could not be read or is no RunResult, or a check could not be made`,
		Example: `  fiador run intent.json >result.json; fiador verify result.json
  fiador verify results/*.json --policy ./acme
  fiador run intent.json | fiador verify -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage(cli.HelpHint(cmd), "RESULT is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := policies.GivenProfile(a, profile)
			if err != nil {
				return err
			}
			var out bytes.Buffer
			for _, name := range args {
				status, err := verifyResult(cmd.Context(), a, &out, name, given)
				if err != nil {
					status = a.Report(err)
				}
				a.Status = max(a.Status, status)
			}
			return a.Print(out.Bytes())
		},
	}
	cmd.Flags().StringVar(&profile, "policy", "", "profile that the results were made under (default: the built-in one that each names)")
	cli.Complete(cmd, "policy", profiles.Names()...)
	return cmd
}

// resultFile is a RunResult file that was read.
type resultFile struct {
	cli.Source
	doc canon.Document
	obj map[string]any
}

func readResult(ctx context.Context, a *cli.App, name string) (resultFile, error) {
	src, err := a.Read(ctx, name, result.MaxBytes)
	if err != nil {
		return resultFile{}, err
	}
	doc, err := canon.Parse(src.Bytes, result.MaxBytes)
	if err != nil {
		return resultFile{}, runerr.Read(src.Path, err)
	}
	obj, ok := doc.Value().(map[string]any)
	_, version := obj["run_schema_version"]
	_, outcome := obj["kernel_result_kind"]
	why := ""
	switch {
	case !ok:
		why = "the document is not an object"
	case !version && !outcome:
		why = "it has neither run_schema_version nor kernel_result_kind"
	default:
		return resultFile{src, doc, obj}, nil
	}
	return resultFile{}, runerr.New(result.CodeEvidence, src.Path+": not a RunResult: "+why, "name a file that fiador run printed", runerr.File(src.Path))
}

// edition returns the edition for the version that the file names.
func (f resultFile) edition() result.Edition {
	version, _ := f.obj["run_schema_version"].(string)
	return result.EditionOf(version)
}

func verifyResult(ctx context.Context, a *cli.App, out *bytes.Buffer, name string, given *kernel.Profile) (int, error) {
	file, err := readResult(ctx, a, name)
	if err != nil {
		return 0, err
	}
	checks, err := checks(a, file, given)
	if err != nil {
		return 0, err
	}
	rank := func(c result.Check) int {
		return slices.Index([]result.Status{result.Fail, result.NotChecked, result.Pass}, c.Status)
	}
	slices.SortStableFunc(checks, func(x, y result.Check) int { return rank(x) - rank(y) })
	t := cli.Terminal{W: out, Color: a.Page.Color}
	counts, foreign := map[result.Status]int{}, 0
	for _, c := range checks {
		if c.NotOfVersion {
			foreign++
		} else {
			counts[c.Status]++
		}
		style := map[result.Status]string{result.Fail: screen.Red, result.NotChecked: screen.Yellow, result.Pass: screen.Green}[c.Status]
		fmt.Fprintf(out, "%s  %-6s  %s", t.Paint(style, fmt.Sprintf("%-11s", c.Status)), c.ID, c.Title)
		if why := cmp.Or(c.Fault, c.Note); why != "" {
			fmt.Fprintf(out, ": %s", screen.Plain(why))
		}
		fmt.Fprintln(out)
	}
	switch {
	case counts[result.Fail] > 0:
		t.Line(screen.Plain(file.Path), fmt.Sprintf("%d of %s failed", counts[result.Fail], screen.Count(len(checks), "check")))
		return cli.ExitRejected, nil
	case counts[result.NotChecked] > 0:
		t.Line(screen.Plain(file.Path), fmt.Sprintf("%d of %s not made", counts[result.NotChecked], screen.Count(len(checks), "check")))
		return cli.ExitError, nil
	}
	held := screen.Count(counts[result.Pass], "check") + " hold"
	if foreign > 0 {
		held += fmt.Sprintf(", %d not of this version", foreign)
	}
	t.Line(screen.Plain(file.Path), held)
	return cli.ExitAccepted, nil
}

// checks checks one file against the schema and the invariants. With a given profile, RS5
// compares the whole profile: policy_provenance holds its hash.
func checks(a *cli.App, file resultFile, given *kernel.Profile) ([]result.Check, error) {
	var want *kernel.PolicyProfile
	if given != nil {
		contract := given.Contract()
		want = &contract
	} else {
		var err error
		if want, err = namedProfile(a, file.obj); err != nil {
			return nil, err
		}
	}
	schema, err := fitsSchema(a, file)
	if err != nil {
		return nil, err
	}
	checks := append(result.Checks(file.Bytes, file.doc, want), schema)
	if given == nil {
		return checks, nil
	}
	_, hash, err := canon.Artifact(*given)
	if err != nil {
		return nil, err
	}
	provenance, has := file.obj["policy_provenance"].(map[string]any)
	for i, c := range checks {
		switch {
		case c.ID != "RS5" || c.Status != result.Pass:
		case file.edition() == result.Contract && !has:
			checks[i].Note = "version " + result.ContractVersion + " has no policy_provenance, so only the seven members of the profile are compared"
		case provenance["profile_sha256"] != string(hash):
			checks[i].Status = result.Fail
			checks[i].Fault = "policy_provenance.profile_sha256 is not that of the given profile, " + string(hash)
		}
	}
	return checks, nil
}

// fitsSchema checks a file against the schema of its version. The contract's version has
// fewer members, and a later version may have more.
func fitsSchema(a *cli.App, file resultFile) (result.Check, error) {
	schema := result.Check{ID: "SCHEMA", Status: result.Pass}
	for _, r := range result.Records() {
		if r.ID == schema.ID {
			schema.Title = r.Title
		}
	}
	violations, err := a.Specs.Validate(specs.KindRunResult, file.doc.Value())
	if err != nil {
		return schema, err
	}
	edition := file.edition()
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
		if _, has := file.obj[name]; has && edition == result.Contract {
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

// namedProfile returns the built-in profile that a result names, or nil.
func namedProfile(a *cli.App, obj map[string]any) (*kernel.PolicyProfile, error) {
	policy, _ := obj["policy"].(map[string]any)
	name, _ := policy["name"].(string)
	if !slices.Contains(profiles.Names(), name) {
		return nil, nil
	}
	return harness.BuiltinProfile(profiles.FS(), name, a.Specs)
}
