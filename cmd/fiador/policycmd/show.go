package policycmd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
)

// showCommand resolves a profile as a gate does and compiles it. So a policy that
// cannot decide is exit status 2 here as well.
func showCommand(a *cli.App) *cobra.Command {
	f := policies.GateFlags{}
	format := ""
	cmd := &cobra.Command{
		Use:   "show [PROFILE]",
		Short: "print a resolved profile and where each value comes from",
		Long: `Show prints a resolved profile: every limit and list with its source. It also prints the
layers that decide beside the profile, and what the profile allows but strict does not.
PROFILE is a built-in name or a path; without it, default.

Exit codes:
  0  printed
  2  the profile or a layer cannot be used`,
		Example: `  fiador policy show strict
  fiador policy show ./acme --org-policy /etc/fiador/org
  fiador policy show ./acme --format json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usage(cli.HelpHint(cmd), "unexpected argument %q", args[1])
			}
			f.Policy = "default"
			if len(args) == 1 {
				f.Policy = args[0]
			}
			sources, err := policies.Sources(f)
			if err != nil {
				return err
			}
			open, err := sources.Read(a.Specs, policy.DefaultLimits())
			if err != nil {
				return err
			}
			gate, err := open.Compile(cmd.Context(), sources.Builtin, a.Specs, policy.DefaultLimits())
			if err != nil {
				return err
			}
			s, err := newShownPolicy(a, open, gate)
			if err != nil {
				return err
			}
			return cli.PrintAs(a, format, s.document(), s.text)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.Org, "org-policy", nil, "folder with a layer of the organisation's policy; may be repeated")
	flags.StringVar(&f.Tree, "tree", ".", "folder that is gated, whose "+harness.RepoPolicy+" is a layer")
	cli.FormatFlag(cmd, &format, "text", "json")
	return cmd
}

// shownPolicy is a resolved profile in the form that show prints.
type shownPolicy struct {
	harness.Open
	gate    *harness.Gate
	members map[string]any // members of the profile, decoded
	wider   []string       // members that are wider than in strict
}

// newShownPolicy decodes the members of a resolved profile and compares them with the
// profile strict. A built-in profile has no origins; each of its members counts as its
// own.
func newShownPolicy(a *cli.App, open harness.Open, gate *harness.Gate) (shownPolicy, error) {
	b, err := canon.Canonical(open.Profile)
	if err != nil {
		return shownPolicy{}, err
	}
	doc, err := canon.Parse(b, len(b))
	if err != nil {
		return shownPolicy{}, err
	}
	strict, err := (harness.Sources{Builtin: profiles.FS(), Profile: "strict"}).Resolve(a.Specs)
	if err != nil {
		return shownPolicy{}, err
	}
	s := shownPolicy{Open: open, gate: gate, wider: open.Profile.WiderThan(strict.Profile)}
	s.members, _ = doc.Value().(map[string]any)
	if s.members["shell_metacharacters"] == nil {
		s.members["shell_metacharacters"] = "data" // as a profile.json spells it
	}
	for _, name := range []string{"allowed_tools", "network_hosts", "registries"} {
		if s.members[name] == nil {
			s.members[name] = []any{}
		}
	}
	if s.Origins == nil {
		for _, name := range policy.Members() {
			s.Origins = append(s.Origins, profile.Origin{Member: name, From: profile.FromProfile})
		}
	}
	return s, nil
}

// text prints the profile for people: a row for each member, the layers, and what
// strict does not allow.
func (s shownPolicy) text(t cli.Terminal) {
	head := []string{t.Paint(screen.Bold, s.Profile.Name)}
	switch {
	case s.Extends != "":
		head = append(head, "extends "+s.Extends+", and can only narrow it")
	case s.gate.Builtin:
		head = append(head, "built in")
	default:
		head = append(head, "extends no profile")
	}
	t.Line(head...)
	rows := s.rows()
	var widths [2]int
	for _, r := range rows {
		widths[0], widths[1] = max(widths[0], len(r.member)), max(widths[1], len(r.value))
	}
	for _, r := range rows {
		line := fmt.Sprintf("  %-*s  %-*s", widths[0], r.member, min(widths[1], 48), r.value)
		t.Line(strings.TrimRight(line+"  "+t.Paint(screen.Dim, r.origin), " "))
	}
	t.Line("layers:")
	for _, l := range s.Layers {
		t.Line(fmt.Sprintf("  %-22s  %s, %s", screen.Plain(l.Package), screen.Count(len(l.Modules), "module"), screen.Count(len(s.gate.IDs(l.Package)), "rule")))
	}
	if len(s.wider) > 0 && s.Profile.Name != "strict" {
		t.Line(t.Paint(screen.Yellow, "wider than strict:"), strings.Join(s.wider, ", "))
	}
}

// row is one line of a shown profile.
type row struct{ member, value, origin string }

// rows returns a row for each member of the profile, and one for each severity.
func (s shownPolicy) rows() []row {
	var rows []row
	for _, o := range s.Origins {
		if weights, ok := s.members[o.Member].(map[string]any); ok {
			asked, _ := o.Asked.(map[string]any)
			for _, id := range sortedNames(weights) {
				one := profile.Origin{From: profile.FromBase, Asked: asked[id]}
				if asked[id] == weights[id] {
					one.From = profile.FromProfile
				}
				rows = append(rows, row{screen.Plain(o.Member + "." + id), screen.Plain(valueLine(weights[id])), screen.Plain(s.origin(one))})
			}
			continue
		}
		rows = append(rows, row{o.Member, screen.Plain(valueLine(s.members[o.Member])), screen.Plain(s.origin(o))})
	}
	return rows
}

// origin names the source of a member's value in words. Where the base overrides a
// wider value of profile.json, it names that value too (specs/policy-profile.md,
// Extending a built-in profile).
func (s shownPolicy) origin(o profile.Origin) string {
	asked := ""
	if o.Asked != nil && o.From != profile.FromProfile {
		asked = "; " + harness.ProfileFile + " asks for " + valueLine(o.Asked)
	}
	switch {
	case s.gate.Builtin:
		return ""
	case o.From == profile.FromProfile:
		return harness.ProfileFile
	case o.From == profile.FromAbsent:
		return "not given"
	case o.From == profile.FromBoth:
		return harness.ProfileFile + " and " + s.Extends + asked
	}
	return s.Extends + asked
}

// valueLine returns a decoded value as one line: lists have no brackets, and "*" is "all".
func valueLine(v any) string {
	switch v := v.(type) {
	case string:
		if v == "*" {
			return "all"
		}
		return v
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = valueLine(e)
		}
		return cmp.Or(strings.Join(parts, ", "), "none")
	case map[string]any:
		var parts []string
		for _, name := range sortedNames(v) {
			parts = append(parts, name+" "+valueLine(v[name]))
		}
		return cmp.Or(strings.Join(parts, ", "), "none")
	}
	return fmt.Sprint(v)
}

// memberDocument is a member of the profile: its origin and the value that counts.
type memberDocument struct {
	profile.Origin
	Value any `json:"value"`
}

// layerDocument is a layer with its modules and the ids of its rules.
type layerDocument struct {
	Package string           `json:"package"`
	Modules []moduleDocument `json:"modules"`
	Rules   []string         `json:"rules"`
}

type moduleDocument struct {
	Name   string            `json:"name"`
	File   string            `json:"file"`
	SHA256 canon.ContentHash `json:"sha256"`
}

// document returns the profile in the form that --format json prints. extends is null
// for a profile that extends none.
func (s shownPolicy) document() any {
	doc := struct {
		Name    string            `json:"name"`
		Extends *string           `json:"extends"`
		Members []memberDocument  `json:"members"`
		Layers  []layerDocument   `json:"layers"`
		Wider   []string          `json:"wider_than_strict"`
		Profile canon.ContentHash `json:"profile_sha256"`
	}{
		s.Profile.Name, nil, make([]memberDocument, len(s.Origins)), make([]layerDocument, len(s.Layers)),
		cli.OrEmpty(s.wider), s.gate.Provenance.ProfileSHA256,
	}
	if s.Extends != "" {
		doc.Extends = &s.Extends
	}
	for i, o := range s.Origins {
		doc.Members[i] = memberDocument{o, s.members[o.Member]}
	}
	for i, l := range s.Layers {
		doc.Layers[i] = layerDocument{l.Package, make([]moduleDocument, len(l.Modules)), cli.OrEmpty(s.gate.IDs(l.Package))}
		for k, m := range l.Modules {
			doc.Layers[i].Modules[k] = moduleDocument{m.Name, cmp.Or(m.File, m.Name), canon.Sum(m.Source)}
		}
	}
	return doc
}
