package policycmd

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
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
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/devel"
	"github.com/fiador/fiador/policy/profile"
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
functions. Like a run, it checks every reference against the schema of the input. It
also checks the profile, the form of every rule and its record, the tests, the
severities and the example intents. It warns of what has no effect. It names every fault
at once, as FILE:LINE:COLUMN: error: MESSAGE, and below each what to do. A broken file
hides no fault of the others.

Exit codes:
  0  the policy can decide
  1  something is wrong with it, at the places given
  2  it could not be read`,
		Example: `  fiador policy check ./acme
  fiador policy check .fiador/policy --policy strict`,
		Args: cli.ExactArgs("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Choice("policy", base, profiles.Names()); err != nil {
				return err
			}
			c := checkedPolicy{file: screen.Folder(args[0])}
			if err := c.check(cmd.Context(), a, args[0], base); err != nil {
				return err
			}
			a.RejectIf(len(c.faults) > 0)
			return cli.PrintAs(a, format, struct {
				Valid    bool    `json:"valid"`
				Faults   []fault `json:"faults"`
				Warnings []fault `json:"warnings"`
			}{len(c.faults) == 0, cli.OrEmpty(sorted(c.faults)), cli.OrEmpty(sorted(c.warnings))}, c.text)
		},
	}
	cmd.Flags().StringVar(&base, "policy", "default", "built-in profile under which a layer without a profile is checked")
	cli.FormatFlag(cmd, &format, "text", "json")
	cli.Complete(cmd, "policy", profiles.Names()...)
	return cmd
}

// checkedPolicy holds the faults and warnings of a policy. title is its profile, layer
// and number of rules, if it has no fault. file is its folder.
type checkedPolicy struct {
	file, title      string
	faults, warnings []fault
}

func (c *checkedPolicy) fault(err error) { c.faults = append(c.faults, newFault(c.file, err)) }

// check finds all faults of a policy. Each check works on what earlier ones found sound. It
// returns an error for an absent policy.
func (c *checkedPolicy) check(ctx context.Context, a *cli.App, name, base string) error {
	if slices.Contains(profiles.Names(), name) {
		return c.finish(ctx, a, name, base)
	}
	d := desk{dir: name}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return policies.Unusable("PATH", name, runerr.Reason(err))
	case !info.IsDir():
		d.dir = ""
		err = d.openProfile(name)
	case hasProfile(name):
		err = d.openProfile(name)
	default:
		err = d.openFolder(name, base)
	}
	if err != nil {
		return err
	}
	profile, pkg := c.profile(a, d)
	var layer policy.Inspected
	if d.folder != nil {
		layer = policy.Inspect(ctx, *d.folder, pkg, policy.DefaultLimits())
	}
	if pkg == policy.PrefixAny && layer.Layer.Package != "" {
		if err := d.join(name, layer.Layer.Package); err != nil {
			return err
		}
	}
	for _, e := range layer.Faults {
		c.fault(e)
	}
	c.severities(a, d, profile, layer)
	if err := c.examples(ctx, a, d, profile, layer); err != nil {
		return err
	}
	if layer.Parsed {
		for _, w := range devel.Lint(layer.Layer) {
			// An error at the same place says it already.
			if w := newFault(c.file, w); !slices.ContainsFunc(c.faults, w.samePlace) {
				c.warnings = append(c.warnings, w)
			}
		}
	}
	if len(c.faults) > 0 {
		return nil
	}
	return c.finish(ctx, a, name, base)
}

// profile checks the profile of a desk. It returns the profile as far as it could be read,
// and the package of its Rego, or a prefix of it.
func (c *checkedPolicy) profile(a *cli.App, d desk) (kernel.Profile, string) {
	base := func(name string) (kernel.Profile, error) { return profile.Load(profiles.FS(), name, a.Specs) }
	if d.sources.User == nil {
		p, err := base(d.sources.Profile)
		if err != nil {
			c.fault(err)
		}
		return p, policy.PrefixAny
	}
	r, errs := profile.Inspect(*d.sources.User, d.sources.File, base, a.Specs)
	for _, e := range errs {
		c.fault(e)
	}
	if r.Profile.Name == "" || slices.Contains(profiles.Names(), r.Profile.Name) {
		return r.Profile, policy.PrefixUser
	}
	return r.Profile, harness.UserPackage(r.Profile.Name)
}

// severities checks the severities of a profile that is not built in.
func (c *checkedPolicy) severities(a *cli.App, d desk, p kernel.Profile, layer policy.Inspected) {
	if d.sources.User == nil {
		return
	}
	src, file := d.profileText()
	for _, e := range harness.Severities(p, file, layer.Choices, profiles.FS(), a.Specs) {
		pointer, _ := e.Details["pointer"].(string)
		if id, _ := strings.CutPrefix(pointer, "/severity/"); layer.May(id) {
			continue
		}
		f := newFault(file, e)
		f.place(src, pointer)
		c.faults = append(c.faults, f)
	}
}

// examples checks the example intents and the tests of a policy.
func (c *checkedPolicy) examples(ctx context.Context, a *cli.App, d desk, p kernel.Profile, layer policy.Inspected) error {
	if d.folder == nil {
		return nil
	}
	intents, err := d.eachIntent(ctx, a, p, func(file string, err error) error {
		c.faults = append(c.faults, intentFaults(file, err)...)
		return nil
	})
	if err != nil {
		c.fault(err)
	}
	tests, err := policy.LoadTests(*d.folder, policy.DefaultLimits())
	switch {
	case err != nil:
		c.fault(err)
	case len(tests) > 0:
		suite := devel.Suite{Profile: p, Layer: layer.Layer, Tests: tests, Intents: intents}
		for _, e := range devel.CheckTests(ctx, suite, layer.Parsed && len(layer.Faults) == 0, policy.Limits{}) {
			c.fault(e)
		}
	case len(layer.Layer.Modules) > 0:
		c.warnings = append(c.warnings, fault{File: c.file, Message: "there is no test", Hint: "put rules test_NAME into a *_test.rego"})
	}
	return nil
}

// finish compiles a policy in which no fault was found, as a run does. It notes the title,
// and the warnings that need the compiled policy.
func (c *checkedPolicy) finish(ctx context.Context, a *cli.App, name, base string) error {
	d, err := openDesk(a, name, base)
	var gate *harness.Gate
	if err == nil {
		gate, err = d.gate(ctx, a)
	}
	if err != nil {
		if !policyFault(err) {
			return err
		}
		c.fault(err)
		return nil
	}
	l := d.layer()
	c.title = fmt.Sprintf("  profile %q", d.open.Profile.Name)
	if len(l.Modules) > 0 {
		c.title += fmt.Sprintf(", layer %s: %s in %s", l.Package, screen.Count(len(gate.IDs(l.Package)), "rule"), screen.Count(len(l.Modules), "module"))
	}
	for _, id := range gate.IDs(l.Package) {
		if len(d.open.Layers) > 1 && slices.Contains(gate.IDs(policy.Builtin), id) {
			c.warnings = append(c.warnings, fault{File: c.file, Rule: id, Message: fmt.Sprintf("rule %q has the id of a built-in rule: a result cannot tell the two apart", id), Hint: "give the rule an id of its own"})
		}
	}
	shown, err := newShownPolicy(a, d.open, gate)
	if err != nil {
		return err
	}
	src, file := d.profileText()
	c.warnings = append(c.warnings, shown.warnings(src, file)...)
	return nil
}

// profileText returns the text of the profile's data, and the file's name for messages. A
// built-in profile has none.
func (d desk) profileText() (src []byte, file string) {
	f := d.sources.User
	if f == nil {
		return nil, ""
	}
	src, _ = fs.ReadFile(f.FS, path.Join(f.Dir, d.sources.File)) // it has been read before
	return src, f.File(d.sources.File)
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
// base they name the members that are wider than strict. src is the text of the file.
func (s shownPolicy) warnings(src []byte, file string) []fault {
	var list []fault
	warn := func(pointer, message, hint string) {
		f := fault{File: file, Message: message, Hint: hint}
		f.place(src, pointer)
		list = append(list, f)
	}
	vain := func(pointer, member string, asked, left any) {
		if asked != nil && valueLine(asked) != valueLine(left) {
			warn(pointer, fmt.Sprintf("%q asks for %s; %q leaves %s", member, valueLine(asked), s.Extends, valueLine(left)), "leave the member out, or ask for less")
		}
	}
	for _, o := range s.Origins {
		at := canon.Pointer("", o.Member)
		switch {
		case s.Extends == "" || o.Member == "risk_tags":
		case o.Member == "severity":
			asked, _ := o.Asked.(map[string]any)
			left, _ := s.members[o.Member].(map[string]any)
			for _, id := range sortedNames(asked) {
				vain(canon.Pointer(at, id), "severity."+id, asked[id], left[id])
			}
		default:
			vain(at, o.Member, o.Asked, s.members[o.Member])
		}
	}
	if !s.gate.Builtin && s.Extends == "" && len(s.wider) > 0 {
		warn("", `the profile has no "extends", and allows more than strict by: `+strings.Join(s.wider, ", "), `add "extends" to take the limits of a built-in profile`)
	}
	return list
}

// text prints each fault and each warning, and a line for a policy without faults.
func (c checkedPolicy) text(t cli.Terminal) {
	for _, f := range sorted(c.faults) {
		f.print(t, screen.Red, "error")
	}
	for _, w := range sorted(c.warnings) {
		w.print(t, screen.Yellow, "warning")
	}
	if len(c.faults) == 0 {
		t.Line(t.Paint(screen.Green, "ok"), screen.Plain(c.file+c.title))
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
