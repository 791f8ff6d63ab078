package policycmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/devel"
	"github.com/fiador/fiador/profiles"
)

// checkCommand compiles a policy and prints its faults and warnings. A fault makes the
// exit status 1. A warning never does.
func checkCommand(a *cli.App) *cobra.Command {
	var base, format string
	cmd := &cobra.Command{
		Use:   "check PATH",
		Short: "check that a policy can decide",
		Long: `Check compiles a policy like a run does: in strict mode, under the frozen list of
functions, with every reference checked against the schema of the input. It checks
the form of every rule and its record, the tests, the severities and the example
intents, and warns of what has no effect.

Exit codes:
  0  the policy can decide
  1  something is wrong with it, at the file and line given
  2  it could not be read`,
		Example: `  fiador policy check ./acme
  fiador policy check .fiador/policy --policy strict`,
		Args: cli.ExactArgs("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := checkPolicy(cmd.Context(), a, args[0], base)
			if err != nil {
				return err
			}
			a.RejectIf(len(c.faults) > 0)
			return cli.PrintAs(a, format, struct {
				Valid    bool     `json:"valid"`
				Faults   []string `json:"faults"`
				Warnings []string `json:"warnings"`
			}{len(c.faults) == 0, cli.OrEmpty(c.faults), cli.OrEmpty(c.warnings)}, c.text)
		},
	}
	cmd.Flags().StringVar(&base, "policy", "default", "built-in profile under which a layer without a profile is checked")
	cli.FormatFlag(cmd, &format, "text", "json")
	cli.Complete(cmd, "policy", profiles.Names()...)
	return cmd
}

// checkedPolicy holds the faults and warnings of a policy. title is its profile, layer
// and number of rules, as far as it could be read.
type checkedPolicy struct {
	title            string
	faults, warnings []string
}

// checkPolicy finds all faults of a policy. After a fault of a module, or of the whole
// policy, the later checks have nothing to work on and are left out. It returns an
// error for an absent policy.
func checkPolicy(ctx context.Context, a *cli.App, name, base string) (checkedPolicy, error) {
	c := checkedPolicy{title: screen.Folder(name)}
	if err := cli.Choice("policy", base, profiles.Names()); err != nil {
		return c, err
	}
	d, err := openDesk(a, name, base)
	if err != nil {
		// A wrong text is a fault of the policy. A missing file is an error.
		if policyFault(err) {
			c.faults = append(c.faults, faultLine(err))
			return c, nil
		}
		return c, err
	}
	for _, err := range policy.CheckModules(d.layer()) {
		c.faults = append(c.faults, err.Error())
	}
	if len(c.faults) > 0 {
		return c, nil
	}
	gate, err := d.gate(ctx, a)
	if err != nil {
		c.faults = append(c.faults, faultLine(err))
		return c, nil
	}
	intents, err := d.intents(ctx, a)
	if err != nil {
		c.faults = append(c.faults, faultLine(err))
	}
	tests, err := d.tests()
	switch {
	case err != nil:
		c.faults = append(c.faults, faultLine(err))
	case len(tests) > 0:
		if err := devel.CheckTests(ctx, devel.Suite{Profile: d.open.Profile, Layer: d.layer(), Tests: tests, Intents: intents}, policy.Limits{}); err != nil {
			c.faults = append(c.faults, err.Error())
		}
	case len(d.layer().Modules) > 0:
		c.warnings = append(c.warnings, "there is no test: put rules test_NAME into a *_test.rego")
	}
	c.title += fmt.Sprintf("  profile %q", d.open.Profile.Name)
	if l := d.layer(); len(l.Modules) > 0 {
		c.title += fmt.Sprintf(", layer %s: %s in %s", l.Package, screen.Count(len(gate.IDs(l.Package)), "rule"), screen.Count(len(l.Modules), "module"))
	}
	for _, w := range devel.Lint(d.layer()) {
		c.warnings = append(c.warnings, w.Error())
	}
	for _, id := range gate.IDs(d.layer().Package) {
		if len(d.open.Layers) > 1 && slices.Contains(gate.IDs(policy.Builtin), id) {
			c.warnings = append(c.warnings, fmt.Sprintf("rule %q has the id of a built-in rule: a result cannot tell the two apart", id))
		}
	}
	shown, err := newShownPolicy(a, d.open, gate)
	if err != nil {
		return c, err
	}
	c.warnings = append(c.warnings, shown.warnings(d.profileFile())...)
	return c, nil
}

// profileFile returns the name of the profile's data for messages.
func (d desk) profileFile() string {
	if d.folder == nil {
		return d.sources.File
	}
	return d.folder.Show + "/" + d.sources.File
}

// tests reads the modules *_test.rego of the policy (specs/policy-contract.md, Tests).
// A built-in profile has none.
func (d desk) tests() ([]policy.Module, error) {
	if d.folder == nil {
		return nil, nil
	}
	tests, err := policy.LoadTests(*d.folder, policy.DefaultLimits())
	if err != nil {
		return nil, runerr.Load(err)
	}
	return tests, nil
}

// warnings name each value of a profile that its base overrides. For a profile without a
// base they name the members that are wider than strict.
func (s shownPolicy) warnings(file string) []string {
	var list []string
	vain := func(member string, asked, left any) {
		if asked != nil && valueLine(asked) != valueLine(left) {
			list = append(list, fmt.Sprintf("%s: %q asks for %s; %q leaves %s", file, member, valueLine(asked), s.Extends, valueLine(left)))
		}
	}
	for _, o := range s.Origins {
		switch {
		case s.Extends == "" || o.Member == "risk_tags":
		case o.Member == "severity":
			asked, _ := o.Asked.(map[string]any)
			left, _ := s.members[o.Member].(map[string]any)
			for _, id := range sortedNames(asked) {
				vain("severity."+id, asked[id], left[id])
			}
		default:
			vain(o.Member, o.Asked, s.members[o.Member])
		}
	}
	if !s.gate.Builtin && s.Extends == "" && len(s.wider) > 0 {
		list = append(list, fmt.Sprintf(`%s has no "extends", and allows more than strict by: %s`, file, strings.Join(s.wider, ", ")))
	}
	return list
}

// text prints a line for each fault and each warning, and one for a policy without
// faults.
func (c checkedPolicy) text(t cli.Terminal) {
	for _, f := range c.faults {
		t.Line(t.Paint(screen.Red, "error"), screen.Plain(f))
	}
	for _, w := range c.warnings {
		t.Line(t.Paint(screen.Yellow, "warning"), screen.Plain(w))
	}
	if len(c.faults) == 0 {
		t.Line(t.Paint(screen.Green, "ok"), screen.Plain(c.title))
	}
}

// policyFault reports whether an error is about the text of a policy: a RUN_E004 that
// names a file and has a cause. Such an error is a fault with exit status 1. Any other
// error is exit status 2.
func policyFault(err error) bool {
	re := runerr.Of(err)
	_, located := re.Details["file"]
	return re.Code == result.CodeProfile && located && re.Cause != nil
}

// faultLine returns an error as one line that an editor can parse. The text of the
// cause has the file and the line; the hint follows only an error without a cause.
func faultLine(err error) string {
	re := runerr.Of(err)
	if re.Cause != nil {
		return cmp.Or(re.Cause.Error(), re.Message)
	}
	if re.Hint != "" {
		return re.Message + " (" + re.Hint + ")"
	}
	return re.Message
}
