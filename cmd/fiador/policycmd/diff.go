package policycmd

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/decisions"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/intake"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// diffCommand decides the same intents under two policies. The layers of --org-policy
// and of --tree stand beside both.
func diffCommand(a *cli.App) *cobra.Command {
	var intents []string
	var f policies.GateFlags
	format := ""
	cmd := &cobra.Command{
		Use:   "diff A B --intents DIR",
		Short: "show which verdicts change from one policy to another",
		Long: `Diff decides every intent under policy A and under policy B. It prints each intent
that B decides otherwise: both outcomes, the reasons that B removes, and those that it
adds. "wider" marks a milder outcome under B: BUNDLE is milder than CLARIFY, and CLARIFY
is milder than REFUSE. "stricter" marks the opposite, and "reasons" the same outcome.

A and B are each a profile, or a folder with the Rego of a layer, or several of these
with + between. The package of a layer is gate.org.NAME or gate.repo.NAME. A side
without a profile has the profile default. The layer of --tree stands beside both,
unless A or B names a layer of a repository.

Exit codes:
  0  no verdict changes
  1  at least one changes
  2  a policy cannot be used, or an intent could not be decided`,
		Example: `  fiador policy diff strict default --intents intents/
  fiador policy diff default org/ --intents intents/
  fiador policy diff acme+org acme+org-next --intents intents/ --format json`,
		Args: cli.ExactArgs("A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(intents) == 0 {
				return cli.Usage("name the intents to decide, such as --intents intents/", "--intents is missing")
			}
			return diffPolicies(cmd.Context(), a, args, intents, f, format)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&intents, "intents", nil, "file, folder or pattern of intents; may be repeated")
	flags.StringArrayVar(&f.Org, "org-policy", nil, "folder with a layer of the organisation's policy, beside both profiles; may be repeated")
	flags.StringVar(&f.Tree, "tree", ".", "folder that is gated, whose "+harness.RepoPolicy+" is a layer beside both profiles")
	cli.FormatFlag(cmd, &format, "text", "json")
	return cmd
}

// verdict is the decision about an intent under one policy.
type verdict struct {
	name    string
	hash    canon.ContentHash
	outcome kernel.Outcome
	reasons []string
}

// diffPolicies prints each intent that the second profile decides otherwise, and the
// counts. One such intent makes the exit status 1. The files are read twice, so it
// refuses standard input, and intents that change between the two readings.
func diffPolicies(ctx context.Context, a *cli.App, names, intents []string, f policies.GateFlags, format string) error {
	if slices.Contains(intents, "-") {
		return cli.Unfit("name files: they are read twice", "--intents cannot be standard input")
	}
	files, err := decisions.Targets(intents)
	if err != nil {
		return err
	}
	sides, err := diffSides(names, f)
	if err != nil {
		return err
	}
	var lists [2][]verdict
	for i, s := range sides {
		if lists[i], err = verdicts(ctx, a, files, s); err != nil || a.Status == cli.ExitError {
			return err
		}
	}
	if len(lists[0]) != len(lists[1]) {
		return runerr.New(result.CodeUnreadable, "the intents changed while they were read", "")
	}
	changes := []otherVerdict{}
	for i, before := range lists[0] {
		if lists[1][i].hash != before.hash {
			return runerr.New(result.CodeUnreadable, before.name+": the intents changed while they were read", "")
		}
		if c, differs := newChange(before, lists[1][i]); differs {
			changes = append(changes, c)
		}
	}
	a.RejectIf(len(changes) > 0)
	return cli.PrintAs(a, format, struct {
		A       string         `json:"a"`
		B       string         `json:"b"`
		Intents int            `json:"intents"`
		Changes []otherVerdict `json:"changes"`
	}{names[0], names[1], len(lists[0]), changes}, func(t cli.Terminal) {
		counts := map[string]int{}
		for _, c := range changes {
			counts[c.Kind]++
			c.text(t)
		}
		t.Line(fmt.Sprintf("%s: %d stricter, %d wider, %d for other reasons, %d as before", screen.Count(len(lists[0]), "intent"),
			counts["stricter"], counts["wider"], counts["reasons"], len(lists[0])-len(changes)))
	})
}

// diffSides finds the policies of both sides. The layer of the tree stands beside both, unless
// a side names a layer of a repository, which stands for it.
func diffSides(names []string, f policies.GateFlags) (sides [2]harness.Sources, err error) {
	repo := false
	for i, name := range names {
		if sides[i], err = diffSide(name, f.Org); err != nil {
			return sides, err
		}
		repo = repo || sides[i].Repo != nil
	}
	for i := range sides {
		if !repo {
			if err := policies.RepoLayer(&sides[i], f.Tree); err != nil {
				return sides, err
			}
		}
	}
	return sides, nil
}

// diffSide finds the policy of one side: its profile, and its layers beside those of org.
func diffSide(name string, org []string) (harness.Sources, error) {
	var d desk
	profile := "default"
	var layers []string
	for i, part := range sideParts(name) {
		info, err := os.Stat(part)
		builtin := slices.Contains(profiles.Names(), part)
		switch {
		case part == "":
			return d.sources, cli.Unfit("name a profile or the folder of a layer on both sides of each +", "%s names no policy", cli.Quoted(name))
		case !builtin && err != nil:
			return d.sources, policies.Unusable("policy", part, runerr.Reason(err))
		case !builtin && info.IsDir() && !hasProfile(part):
			layers = append(layers, part)
		case i == 0:
			profile = part
		default:
			return d.sources, cli.Unfit("name the profile first, and then folders of layers, as in acme+org", "%s is no folder of a layer", cli.Quoted(part))
		}
	}
	var err error
	if d.sources, err = policies.Profile(profile, org...); err != nil {
		return d.sources, err
	}
	for _, dir := range layers {
		folder, err := policies.OpenFolder("policy", dir)
		if err != nil {
			return d.sources, err
		}
		l, err := policy.LoadLayer(folder, policy.PrefixAny, policy.DefaultLimits())
		if err != nil {
			return d.sources, runerr.Load(err)
		}
		if strings.HasPrefix(l.Package, policy.PrefixRepo) && d.sources.Repo != nil {
			return d.sources, cli.Unfit("name one of them", "%s has two layers of a repository", cli.Quoted(name))
		}
		d.folder = &folder
		if err := d.join(dir, l.Package); err != nil {
			return d.sources, err
		}
	}
	return d.sources, nil
}

// sideParts splits the name of a side at each plus sign, unless the whole name is a path.
func sideParts(name string) []string {
	if _, err := os.Lstat(name); err == nil {
		return []string{name}
	}
	return strings.Split(name, "+")
}

// verdicts decides all intents under one policy. It reports each error of an intent, and
// such an error sets the exit status.
func verdicts(ctx context.Context, a *cli.App, files []intake.File, s harness.Sources) ([]verdict, error) {
	gate, err := harness.OpenGate(ctx, s, a.Specs, policy.DefaultLimits())
	if err != nil {
		return nil, err
	}
	var list []verdict
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}
	err = harness.Each(ctx, deps, gate, runtime.GOMAXPROCS(0), decisions.Jobs(ctx, a, files), func(e harness.End) error {
		if e.Err != nil {
			a.Status = a.Report(e.Err)
			return nil
		}
		i := decisions.ItemOf(e)
		list = append(list, verdict{i.Name(), i.SHA256, e.Decision.Outcome, e.Decision.Reasons})
		return nil
	})
	return list, err
}

// otherVerdict is an intent with different decisions under two policies.
type otherVerdict struct {
	Intent  string         `json:"intent"`
	Kind    string         `json:"kind"` // "stricter" or "wider", or "reasons" if the outcome is the same
	A       kernel.Outcome `json:"a"`
	B       kernel.Outcome `json:"b"`
	Removed []string       `json:"removed"` // reasons
	Added   []string       `json:"added"`
}

// newChange compares two verdicts about one intent. It reports false if outcome and
// reasons are the same. BUNDLE is milder than CLARIFY, and CLARIFY is milder than
// REFUSE.
func newChange(a, b verdict) (otherVerdict, bool) {
	c := otherVerdict{a.name, "reasons", a.outcome, b.outcome, without(a.reasons, b.reasons), without(b.reasons, a.reasons)}
	order := []kernel.Outcome{kernel.OutcomeBundle, kernel.OutcomeClarify, kernel.OutcomeRefuse}
	switch from, to := slices.Index(order, c.A), slices.Index(order, c.B); {
	case from < to:
		c.Kind = "stricter"
	case from > to:
		c.Kind = "wider"
	}
	return c, c.A != c.B || len(c.Removed)+len(c.Added) > 0
}

// without returns the reasons of a list that are not in the other one.
func without(list, other []string) []string {
	rest := cli.OrEmpty(list)
	return slices.DeleteFunc(rest, func(r string) bool { return slices.Contains(other, r) })
}

// text prints the kind, the intent and both outcomes, and a line for each reason that
// was removed or added.
func (c otherVerdict) text(t cli.Terminal) {
	style := map[string]string{"stricter": screen.Green, "wider": screen.Red, "reasons": screen.Yellow}[c.Kind]
	t.Line(t.Paint(style, fmt.Sprintf("%-8s", c.Kind)), screen.Plain(c.Intent), string(c.A)+" -> "+string(c.B))
	for _, r := range c.Removed {
		t.Line("          - " + screen.Plain(r))
	}
	for _, r := range c.Added {
		t.Line("          + " + screen.Plain(r))
	}
}
