package guidecmd

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/transcript"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/questions"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// answerFlags are the flags of answer. set has answers as ID=TEXT.
type answerFlags struct {
	policies.GateFlags
	tools  policies.ToolFlags
	set    []string
	format string
}

// Answer returns the command that prints the open questions of an intent, and the intent
// with answers.
func Answer(a *cli.App) *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use:   "answer INTENT",
		Short: "print the open questions of an intent, or the intent with answers",
		Long: `Answer decides an intent and prints its open questions. For each it says what is needed:
an answer, another intent, or another profile. An answer is a member of context.answers
in the intent. A question has its answer there by its id, which is a hash of its text:
another text is another question.

With --set it prints the intent itself, with the answers put in. The order of its members
stays. It refuses an answer that settles no question. An answer is the agent's word: it
never turns a denial, and only rules whose record says "answerable" can be answered.

Exit codes:
  0  printed, whatever the decision is
  2  no decision was made, or an answer settles no question`,
		Example: `  fiador answer intent.json
  fiador answer intent.json --set 'ask_7f22da58ed1ff5f1=yes' >answered.json
  fiador answer intent.json --format json | jq -r '.questions[].question_id'`,
		Args: cli.ExactArgs("INTENT"),
		RunE: func(cmd *cobra.Command, args []string) error { return answer(cmd, a, args[0], f) },
	}
	f.Register(cmd)
	f.tools.Register(cmd)
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "answer ID=TEXT to put into the intent; may be repeated")
	cli.FormatFlag(cmd, &f.format, "text", "json")
	return cmd
}

// answer prints the questions of an intent, or with --set the intent with answers.
func answer(cmd *cobra.Command, a *cli.App, name string, f answerFlags) error {
	ctx := cmd.Context()
	if len(f.set) > 0 && cmd.Flags().Changed("format") {
		return cli.Unfit("leave --format out: the answer is the intent", "--set and --format do not go together")
	}
	gate, err := policies.OpenGate(ctx, a, f.GateFlags)
	if err == nil {
		err = f.tools.Use(a, gate)
	}
	if err != nil {
		return err
	}
	src, err := a.Read(ctx, name, canon.MaxIntentBytes)
	if err != nil {
		return err
	}
	ask := func(text []byte) (questions.Asked, error) {
		deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}
		return questions.Ask(ctx, deps, gate, harness.Request{
			Source: text, Path: src.Path, Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone,
		})
	}
	asked, err := ask(src.Bytes)
	if err != nil {
		return err
	}
	if len(f.set) > 0 {
		return putAnswers(a, src, asked, f.set, ask)
	}
	s := answerSheet{Asked: asked, src: src, command: answerCommand(name, f.GateFlags, f.tools)}
	pointers := make([]string, len(asked.Questions))
	for i, q := range asked.Questions {
		pointers[i] = q.Path
	}
	s.places = canon.Places(src.Bytes, pointers)
	return cli.PrintAs(a, f.format, s.document(), s.text)
}

// putAnswers prints the intent with answers. Each answer is one to a question that the
// intent has with the answers before it, so that an answer can follow another one.
func putAnswers(a *cli.App, src cli.Source, asked questions.Asked, set []string, ask func([]byte) (questions.Asked, error)) error {
	text := src.Bytes
	for _, one := range set {
		id, answer, ok := strings.Cut(one, "=")
		if !ok {
			return cli.Usage("use --set ID=TEXT", "--set %q has no %q", one, "=")
		}
		q, known := asked.Question(id)
		known = known && (q.Needs == kernel.NeedAnswer || q.Needs == questions.NeedNothing)
		switch {
		case !known:
			return cli.Usage(answerableIDs(asked), "no open question that can be answered has the id %q", id)
		case !q.SettledBy(answer):
			return cli.Usage("one of: "+report.Answers(q.Answers())+"; otherwise: "+q.Fix, "answer %q does not settle %q", answer, q.Text)
		}
		var err error
		if text, err = questions.Put(text, id, answer); err != nil {
			return cli.Usage("answer in UTF-8", "answer %q cannot stand in an intent: %v", answer, err)
		}
		if asked, err = ask(text); err != nil {
			return err
		}
	}
	return a.Print(text)
}

// answerableIDs is the hint that lists the ids of the questions that can be answered.
func answerableIDs(asked questions.Asked) string {
	var ids []string
	for _, q := range asked.Questions {
		if q.Needs == kernel.NeedAnswer {
			ids = append(ids, q.ID)
		}
	}
	if len(ids) == 0 {
		return "no question of this intent can be answered; without --set the command says what each needs"
	}
	return "one of: " + strings.Join(ids, ", ")
}

// answerCommand returns the words of the command answer that decides an intent as these flags do.
func answerCommand(name string, f policies.GateFlags, tools policies.ToolFlags) []string {
	words := []string{"fiador", "answer", name}
	add := func(flag, value, usual string) {
		if value != usual {
			words = append(words, "--"+flag, value)
		}
	}
	add("policy", f.Policy, "default")
	for _, dir := range f.Org {
		add("org-policy", dir, "")
	}
	add("tree", f.Tree, ".")
	add("tools", tools.Tools, "")
	return words
}

// answerSheet is the questions of an intent with their positions in it.
type answerSheet struct {
	questions.Asked
	src     cli.Source
	places  []canon.Position
	command []string
}

// text prints the outcome, and a block for each question.
func (s answerSheet) text(t cli.Terminal) {
	open := 0
	for _, q := range s.Questions {
		if q.Needs != questions.NeedNothing {
			open++
		}
	}
	t.Line(t.Paint(outcomeStyle(s.Outcome), string(s.Outcome)), screen.Plain(s.src.Path), fmt.Sprintf("profile %q", s.Profile), screen.Count(open, "open question"))
	for i, q := range s.Questions {
		t.Line()
		s.question(t, q, s.places[i])
	}
	for _, id := range s.Unused {
		t.Line()
		t.Line("unused", screen.Plain(id), "no question has this id: leave the answer out, or answer the question anew")
	}
	if s.Outcome == kernel.OutcomeRefuse {
		t.Line()
		t.Hint("no answer turns a denial; fiador explain --intent says why the intent is refused")
	}
}

func (s answerSheet) question(t cli.Terminal, q questions.Question, at canon.Position) {
	t.Line(t.Paint(screen.Bold, screen.Plain(q.Text)))
	field := fields(t, 7)
	field("at", fmt.Sprintf("%s:%d:%d  %s", s.src.Path, at.Line, at.Column, cmp.Or(q.Path, "(the intent)")))
	field("rule", q.Result.ID+" of "+q.Module+": "+q.Title)
	field("why", q.Why)
	field("options", report.Answers(q.Options))
	if q.Given != nil {
		field("given", *q.Given)
	}
	field("needs", s.needed(q))
	if q.Needs == questions.NeedNothing {
		return
	}
	field("fix", q.Fix)
	if q.Needs != kernel.NeedAnswer {
		return
	}
	field("id", q.ID)
	example := "TEXT"
	if answers := q.Answers(); len(answers) > 0 {
		example = answers[0]
	}
	to := "answered.json"
	if filepath.Base(s.src.Path) == to { // the shell would empty the intent before it is read
		to = "answered2.json"
	}
	t.Command("  " + t.Paint(screen.Dim, "answer ") + "  " + screen.Plain(transcript.Quote(append(s.command, "--set", q.ID+"="+example))) + " >" + to)
}

// needed says in words what a question needs.
func (s answerSheet) needed(q questions.Question) string {
	switch q.Needs {
	case questions.NeedNothing:
		return "nothing: the answer settles it"
	case kernel.NeedPolicy:
		return "another profile, or another intent: no answer settles it"
	case kernel.NeedIntent:
		return "another intent: no answer settles it"
	}
	if answers := q.Answers(); len(answers) > 0 && len(answers) < len(q.Options) {
		return "the answer " + report.Answers(answers) + ", or another intent"
	}
	return "an answer, or another intent"
}

// questionDocument is one question. Line and Column are the place in the intent, from 1 on,
// the column in UTF-16 code units. Answers are the options that settle it. Answered is the
// answer in the intent.
type questionDocument struct {
	QuestionID string      `json:"question_id"`
	Rule       string      `json:"rule"`
	Layer      string      `json:"layer"`
	Pointer    string      `json:"pointer"`
	Line       int         `json:"line"`
	Column     int         `json:"column"`
	Question   string      `json:"question"`
	Why        string      `json:"why"`
	Options    []string    `json:"options"`
	Answers    []string    `json:"answers"`
	Needs      kernel.Need `json:"needs"`
	Fix        string      `json:"fix"`
	Answered   *string     `json:"answered,omitempty"`
}

// document returns the JSON form of the questions.
func (s answerSheet) document() any {
	list := make([]questionDocument, len(s.Questions))
	for i, q := range s.Questions {
		list[i] = questionDocument{
			QuestionID: q.ID, Rule: q.Result.ID, Layer: q.Module, Pointer: q.Path, Line: s.places[i].Line, Column: s.places[i].Column,
			Question: q.Text, Why: q.Why, Options: cli.OrEmpty(q.Options), Answers: cli.OrEmpty(q.Answers()), Needs: q.Needs, Fix: q.Fix, Answered: q.Given,
		}
	}
	return struct {
		Intent    result.IntentRef   `json:"intent"`
		Profile   string             `json:"profile"`
		Outcome   kernel.Outcome     `json:"outcome"`
		Questions []questionDocument `json:"questions"`
		Unused    []string           `json:"unused"`
	}{result.IntentRef{Path: s.src.Path, SHA256: canon.Sum(s.src.Bytes)}, s.Profile, s.Outcome, list, cli.OrEmpty(s.Unused)}
}
