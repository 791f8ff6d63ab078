// Package guidecmd has the commands that explain Fiador: explain, answer, demo, schema and version.
// They change nothing.
package guidecmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// explainFlags are the flags of explain. intent is a file, or - for standard input;
// without it a code is explained. The policy says which rules have records.
type explainFlags struct {
	policies.GateFlags
	tools  policies.ToolFlags
	intent string
	format string
}

// Explain returns the command that explains codes, rules and decisions.
func Explain(a *cli.App) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "say what a code means, or why an intent was decided as it was",
		Long: `Explain prints the record of CODE. CODE is an error code (RUN_E003), an invariant (RS5),
a word of a comparison (regression) or the id of a rule (CMD_NOT_ALLOWED). The rules of
--policy and --org-policy count too. Where a code stands for several things, it prints a
record of each. Without CODE it lists them all.

With --intent it decides that intent. For every answer of the policy it names the rule,
where the rule stands, and the value that the rule fired on. It also says what would be
accepted instead. For every permitted effect it says which rule permits it.

Exit codes:
  0  explained, whatever the decision is
  2  there is no such code, or no decision was made`,
		Example: `  fiador explain CMD_NOT_ALLOWED
  fiador explain --intent intent.json --policy strict
  fiador explain --intent intent.json --format json | jq -r .findings[].id`,
		Args: cli.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.intent != "" && len(args) > 0:
				return cli.Unfit(cli.HelpHint(cmd), "CODE and --intent do not go together")
			case f.intent != "":
				return explainIntent(cmd.Context(), a, f)
			case len(args) == 0:
				return listCodes(cmd.Context(), a, f)
			}
			return explainCode(cmd.Context(), a, args[0], f)
		},
	}
	f.Register(cmd)
	f.tools.Register(cmd)
	cmd.Flags().StringVar(&f.intent, "intent", "", "intent to explain the decision of; - is standard input")
	cli.FormatFlag(cmd, &f.format, "text", "json")
	return cmd
}

// codeRecord is a record of the program or of a rule, in the form that explain prints.
type codeRecord struct {
	result.Record
	Rule     *rulePlace        `json:"rule,omitempty"`
	Severity map[string]string `json:"severity,omitempty"` // by profile, for a rule whose severity a profile chooses
}

// rulePlace says where a rule stands and what it does.
type rulePlace struct {
	Kinds    []string `json:"kinds"`
	Layer    string   `json:"layer"`
	Module   string   `json:"module"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	Priority int      `json:"priority"`

	// Of a rule that asks: an answer in the intent settles its question, and of the options
	// only some.
	Answerable bool     `json:"answerable"`
	Settling   []string `json:"settling"`

	settled string
}

// codes returns the records of the program, and those of the rules of a policy. A
// policy that cannot be loaded is exit status 2.
func codes(ctx context.Context, a *cli.App, f policies.GateFlags) ([]codeRecord, error) {
	var list []codeRecord
	for _, r := range harness.Records() {
		list = append(list, codeRecord{Record: r})
	}
	s, err := policies.Sources(f)
	if err != nil {
		return nil, err
	}
	rules, err := harness.Rules(ctx, s, a.Specs, policy.DefaultLimits())
	if err != nil {
		return nil, err
	}
	weights, err := harness.Weights(s, a.Specs)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		list = append(list, codeRecord{
			Record: result.Record{ID: r.ID, Kind: result.RecordRule, Title: r.Title, Why: r.Description, Fix: r.Fix, Since: r.Since},
			Rule:   &rulePlace{r.Kinds, r.Layer, r.Module, cmp.Or(r.File, r.Module), r.Line, r.Priority, r.Answerable, cli.OrEmpty(r.Settling), r.Settled()}, Severity: weights[r.ID],
		})
	}
	return list, nil
}

// explainCode prints the records with an id, whatever its case: several layers can have
// a rule of one id. An unknown id is a usage error with the nearest known one.
func explainCode(ctx context.Context, a *cli.App, code string, f explainFlags) error {
	list, err := codes(ctx, a, f.GateFlags)
	if err != nil {
		return err
	}
	// A reason of a result is an id and a pointer.
	id, _, _ := strings.Cut(code, " ")
	var found []codeRecord
	var ids []string
	for _, r := range list {
		if strings.EqualFold(r.ID, id) {
			found = append(found, r)
		}
		ids = append(ids, strings.ToUpper(r.ID))
	}
	if len(found) == 0 {
		hint := "fiador explain lists every code; --policy adds those of a profile"
		if near := specs.Nearest(strings.ToUpper(id), ids); near != "" {
			hint = fmt.Sprintf("did you mean %q? ", list[slices.Index(ids, near)].ID) + hint
		}
		return cli.Usage(hint, "no record of %q", code)
	}
	return cli.PrintAs(a, f.format, found, func(t cli.Terminal) {
		for i, r := range found {
			if i > 0 {
				t.Line()
			}
			r.text(t)
		}
	})
}

// text prints a record. The weight is the severity of the rule in each built-in
// profile, where the profile chooses it.
func (r codeRecord) text(t cli.Terminal) {
	t.Line(t.Paint(screen.Bold, r.ID), screen.Plain(r.Title))
	field := fields(t, 6)
	field("kind", string(r.Kind))
	field("why", r.Why)
	field("fix", r.Fix)
	field("since", r.Since)
	if r.Rule == nil {
		return
	}
	field("rule", fmt.Sprintf("%s of %s, %s:%d", strings.Join(r.Rule.Kinds, ", "), r.Rule.Layer, r.Rule.File, r.Rule.Line))
	var weights []string
	for _, name := range profiles.Names() {
		if w, ok := r.Severity[name]; ok {
			weights = append(weights, name+" "+w)
		}
	}
	field("weight", strings.Join(weights, ", "))
	if r.Rule.settled != "" {
		field("asks", "its question is settled by "+r.Rule.settled)
	}
}

// fields returns a function that writes a name and a text, unless the text is empty. Names
// have that width.
func fields(t cli.Terminal, width int) func(name, text string) {
	return func(name, text string) {
		if text != "" {
			t.Line("  "+t.Paint(screen.Dim, fmt.Sprintf("%-*s", width, name)), screen.Plain(text))
		}
	}
}

// listCodes prints the id, the kind and the title of every record.
func listCodes(ctx context.Context, a *cli.App, f explainFlags) error {
	list, err := codes(ctx, a, f.GateFlags)
	if err != nil {
		return err
	}
	return cli.PrintAs(a, f.format, list, func(t cli.Terminal) {
		ids, kinds := 0, 0
		for _, r := range list {
			ids, kinds = max(ids, len(r.ID)), max(kinds, len(r.Kind))
		}
		for _, r := range list {
			t.Line(t.Paint(screen.Bold, fmt.Sprintf("%-*s", ids, r.ID)), t.Paint(screen.Dim, fmt.Sprintf("%-*s", kinds, r.Kind)), screen.Plain(r.Title))
		}
	})
}

// explainIntent decides an intent and prints what the policy answered. The exit status
// is 0 for every decision, and 2 without one. Nothing is executed or recorded.
func explainIntent(ctx context.Context, a *cli.App, f explainFlags) error {
	gate, err := policies.OpenGate(ctx, a, f.GateFlags)
	if err == nil {
		err = f.tools.Use(a, gate)
	}
	if err != nil {
		return err
	}
	src, err := a.Read(ctx, f.intent, canon.MaxIntentBytes)
	if err != nil {
		return err
	}
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}
	x, err := harness.Explain(ctx, deps, gate, harness.Request{
		Source: src.Bytes, Path: src.Path, Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone,
	})
	if err != nil {
		return err
	}
	e := explained{Explanation: x, src: src, answer: answerCommand(f.intent, f.GateFlags, f.tools)}
	pointers := make([]string, len(x.Reasons))
	for i, r := range x.Reasons {
		pointers[i] = r.Path
	}
	e.places = canon.Places(src.Bytes, pointers)
	return cli.PrintAs(a, f.format, e.document(), e.text)
}

// explained is an explanation with the positions of its reasons in the intent.
type explained struct {
	harness.Explanation
	src    cli.Source
	places []canon.Position
	answer []string // the command that says how to answer
}

// text prints the outcome, each answer of the policy with its rule, and each effect
// with the rule that permits it.
func (e explained) text(t cli.Terminal) {
	t.Line(t.Paint(outcomeStyle(e.Decision.Outcome), string(e.Decision.Outcome)), screen.Plain(e.src.Path), fmt.Sprintf("profile %q", e.Profile.Name))
	for i, r := range e.Reasons {
		t.Line()
		e.reason(t, r, e.places[i])
	}
	if len(e.Effects) == 0 {
		return
	}
	t.Line()
	t.Line("effects:")
	for _, effect := range e.Effects {
		name := t.Paint(screen.Bold, screen.Plain(effect.ID))
		if len(effect.Permits) == 0 {
			t.Line("  "+name, screen.Plain(effectValue(effect.Effect)), t.Paint(screen.Red, "not permitted"))
		}
		for _, p := range effect.Permits {
			word := "permitted: "
			if e.denied(effect.Effect) {
				word = "permitted by the built-in policy, and denied above: "
			}
			t.Line("  "+name, screen.Plain(effectValue(effect.Effect)), word+screen.Plain(p.Title), t.Paint(screen.Dim, where(p.Place)))
		}
	}
}

// outcomeStyle returns the colour of an outcome.
func outcomeStyle(o kernel.Outcome) string {
	return map[kernel.Outcome]string{kernel.OutcomeBundle: screen.Green, kernel.OutcomeClarify: screen.Yellow, kernel.OutcomeRefuse: screen.Red}[o]
}

// denied reports whether a denial points to an effect, or into it.
func (e explained) denied(effect kernel.Effect) bool {
	return slices.ContainsFunc(e.Reasons, func(r harness.Reason) bool {
		return r.Rule == "deny" && (r.Path == effect.Pointer || strings.HasPrefix(r.Path, effect.Pointer+"/"))
	})
}

// reason prints one answer with its place, its value and its rule. An answer that did
// not decide the outcome is marked.
func (e explained) reason(t cli.Terminal, r harness.Reason, at canon.Position) {
	head := []string{t.Paint(screen.Bold, r.Rule+" "+r.ID), screen.Plain(r.Title)}
	if !r.Decides {
		head = append(head, t.Paint(screen.Dim, "(did not decide)"))
	}
	t.Line(head...)
	field := fields(t, 7)
	field("says", r.Text)
	field("at", fmt.Sprintf("%s:%d:%d  %s", e.src.Path, at.Line, at.Column, cmp.Or(r.Path, "(the intent)")))
	field("value", valueText(r.Value))
	field("why", r.Why)
	field("fix", r.Fix)
	field("answers", report.Answers(r.Options))
	if r.Needs() == kernel.NeedAnswer {
		field("answer", transcript.Quote(e.answer)+" says how")
	}
	if r.Module == kernel.ModuleKernel {
		field("rule", "none: the kernel refuses what no rule permits")
		return
	}
	field("rule", where(r.Place)+" of "+r.Module)
}

// where names the file and the line of a rule for its author.
func where(p policy.Place) string {
	return fmt.Sprintf("%s:%d", placeOf(p).File, p.Line)
}

// valueText returns a value as one line, cut if it is long.
func valueText(v any) string {
	b, err := canon.Canonical(v)
	if err != nil {
		return ""
	}
	return canon.Cut(string(b))
}

// effectValue describes the target of an effect for people.
func effectValue(e kernel.Effect) string {
	switch e.Kind {
	case kernel.EffectRun:
		return canon.Cut(strings.Join(e.Argv, " "))
	case kernel.EffectCall:
		if e.AdapterID != "" && e.Tool != nil {
			return canon.Cut(e.ToolID + "/" + e.AdapterID)
		}
		return canon.Cut(e.ToolID)
	}
	return canon.Cut(e.Path)
}

// findingDocument is one answer of the policy. Line and Column are the place in the
// intent, from 1 on, the column in UTF-16 code units. Source is absent for a refusal of
// the kernel itself.
type findingDocument struct {
	Rule    string   `json:"rule"`
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Why     string   `json:"why"`
	Text    string   `json:"text"`
	Fix     string   `json:"fix"`
	Path    string   `json:"path"`
	Value   any      `json:"value"`
	Layer   string   `json:"layer"`
	Decides bool     `json:"decides"`
	Line    int      `json:"line"`
	Column  int      `json:"column"`
	Options []string `json:"options"`

	// Of a question: its id, and whether an answer in the intent settles it.
	QuestionID string `json:"question_id,omitempty"`
	Answerable bool   `json:"answerable,omitempty"`

	Source *policy.Place `json:"source,omitempty"`
}

// effectDocument is one effect of the intent with the rules that permit it. Without
// such a rule the kernel refuses the effect.
type effectDocument struct {
	ID      string            `json:"id"`
	Kind    kernel.EffectKind `json:"kind"`
	Pointer string            `json:"pointer"`
	Permits []permitDocument  `json:"permits"`
}

type permitDocument struct {
	Title  string       `json:"title"`
	Why    string       `json:"why"`
	Source policy.Place `json:"source"`
}

// document returns the JSON form of the explanation.
func (e explained) document() any {
	findings := make([]findingDocument, len(e.Reasons))
	for i, r := range e.Reasons {
		findings[i] = findingDocument{
			Rule: r.Rule, ID: r.ID, Title: r.Title, Why: r.Why, Text: r.Text, Fix: r.Fix,
			Path: r.Path, Value: r.Value, Layer: r.Module, Decides: r.Decides,
			Line: e.places[i].Line, Column: e.places[i].Column, Options: cli.OrEmpty(r.Options),
		}
		if r.Rule == "clarify" {
			findings[i].QuestionID, findings[i].Answerable = r.QuestionID(), r.Needs() == kernel.NeedAnswer
		}
		if r.Module != kernel.ModuleKernel {
			findings[i].Source = new(placeOf(r.Place))
		}
	}
	effects := make([]effectDocument, len(e.Effects))
	for i, effect := range e.Effects {
		effects[i] = effectDocument{effect.ID, effect.Kind, effect.Pointer, make([]permitDocument, len(effect.Permits))}
		for k, p := range effect.Permits {
			effects[i].Permits[k] = permitDocument{p.Title, p.Why, placeOf(p.Place)}
		}
	}
	return struct {
		Outcome  kernel.Outcome    `json:"outcome"`
		Profile  string            `json:"profile"`
		Intent   result.IntentRef  `json:"intent"`
		Findings []findingDocument `json:"findings"`
		Effects  []effectDocument  `json:"effects"`
		Reasons  []string          `json:"reasons"`
	}{
		e.Decision.Outcome, e.Profile.Name, result.IntentRef{Path: e.src.Path, SHA256: canon.Sum(e.src.Bytes)},
		findings, effects, slices.Clone(e.Decision.Reasons),
	}
}

// placeOf returns the place of a rule with the file that its author finds.
func placeOf(p policy.Place) policy.Place {
	p.File = cmp.Or(p.File, p.Module)
	return p
}
