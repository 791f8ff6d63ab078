package workcmd

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workflow"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/work"
	"github.com/fiador/fiador/specs"
)

// planFlags are the flags of commands that read a plan.
type planFlags struct {
	place
	policies.GateFlags
	agents string
}

func (f *planFlags) register(cmd *cobra.Command) {
	f.GateFlags.Register(cmd)
	f.place.register(cmd)
	cmd.Flags().StringVar(&f.agents, "agents", "", "the operator's list of agents: which command is which agent (JSON or YAML)")
}

var planForm = document.Form{
	Name: "a plan", Schema: specs.KindWorkPlan, MaxBytes: work.MaxBytes, Invalid: result.CodeNotIntent, TooLarge: "split the plan",
}

var agentsForm = document.Form{
	Name: "a list of agents", Schema: specs.KindWorkAgents, MaxBytes: 1 << 20, Invalid: result.CodeProfile, TooLarge: "list fewer agents",
}

// read reads a document, and makes a value of it. A *work.Fault gets its place in the text.
func read[T any](ctx context.Context, a *cli.App, name string, form document.Form, value func(any) (T, error)) (T, document.Text, error) {
	var v T
	src, err := a.ReadUpTo(ctx, name, form.MaxBytes, form.TooLarge)
	if err != nil {
		return v, document.Text{}, err
	}
	text, err := document.Read(a.Specs, src.Path, src.Bytes, form)
	if err == nil {
		v, err = value(text.Doc.Value())
	}
	return v, text, placed(text, err)
}

// placed gives a *work.Fault its place in a document.
func placed(text document.Text, err error) error {
	f, ok := errors.AsType[*work.Fault](err)
	if !ok {
		return err
	}
	e := text.Invalid(f.Pointer, f.Msg, f.Hint)
	if errors.As(err, new(*workflow.BeyondProfile)) {
		e.Code = result.CodeProfile
	}
	return e
}

// opened is a plan that can be checked or run.
type opened struct {
	workflow.Workflow
	plan work.Plan
	text document.Text
}

// openPlan reads the plan, the agents and the policy.
func (f *planFlags) openPlan(ctx context.Context, a *cli.App, name string) (*opened, error) {
	o := &opened{}
	var err error
	if o.plan, o.text, err = read(ctx, a, name, planForm, work.ReadPlan); err != nil {
		return nil, err
	}
	if f.agents != "" {
		if o.Agents, _, err = read(ctx, a, f.agents, agentsForm, work.ReadAgents); err != nil {
			return nil, err
		}
	}
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return nil, err
	}
	if o.Gate, err = policies.OpenGateAhead(ctx, a, sources)(); err != nil {
		return nil, err
	}
	o.Deps = harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}
	o.Env = a.Env
	return o, nil
}

// Run returns the command that runs a plan.
func Run(a *cli.App) *cobra.Command {
	var f planFlags
	var record ledgers.RecordFlags
	var w workflow.Workflow
	var discard bool
	var reads []string
	var where remotes.Flags
	cmd := &cobra.Command{
		Use:   "run PLAN",
		Short: "run the work items of a plan, each as a whole or not at all",
		Long: `Run performs work items on a folder. PLAN is one item, a list of items or a plan, in
JSON or YAML, or - for standard input. An item's agent, or its actions, run in the
sandbox on the folder as it is; what they write stays apart. If the policy, the limits of
the item and its test accept the change, it is applied as a whole. Otherwise the folder
is what it was.

Items that wait for no other run at once (--jobs), and are applied one after another, in
the order of their ids. Run prints one line of canonical JSON for each item, and for a
plan of several one more with what was blocked. Every item leaves a receipt in the store.

The commands of agents come from --agents alone, never from the folder or the plan.

Exit codes:
  0  every item has succeeded
  1  an item has not, or was blocked
  2  no answer: the items printed before it stand, and nothing else is changed`,
		Example: `  fiador work run plan.json --agents agents.json
  fiador work run item.json --policy strict --tree project
  fiador work run plan.json --agents agents.json --ledger ./ledger --resume`,
		Args: cli.ExactArgs("PLAN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := folders.Waiting(cmd.Context(), a)
			o, err := f.openPlan(ctx, a, args[0])
			if err != nil {
				return err
			}
			o.Jobs, o.Only, o.Resume, o.Rerun = w.Jobs, w.Only, w.Resume, w.Rerun
			if _, _, err := o.Check(o.plan); err != nil {
				return placed(o.text, err) // before the store is made
			}
			if o.Jobs < 1 || o.Jobs > 1000 {
				return cli.Usage("give a number from 1 to 1000", "--jobs %d", o.Jobs)
			}
			if o.Read, err = sandboxes.ReadPaths("--read", reads); err != nil {
				return err
			}
			leave, err := where.Use(ctx, a, &o.Deps)
			if err != nil {
				return err
			}
			defer leave()
			return f.run(ctx, a, o, record, discard)
		},
	}
	f.register(cmd)
	record.Register(cmd)
	where.Register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&w.Jobs, "jobs", runtime.NumCPU(), "how many items run at once")
	flags.StringSliceVar(&w.Only, "only", nil, "ids of items to run, separated by commas (default: all)")
	flags.BoolVar(&w.Resume, "resume", false, "let earlier results of this plan count, while the folder is what they have made it")
	flags.BoolVar(&w.Rerun, "rerun", false, "run items also where the folder is what an equal item has made it")
	flags.BoolVar(&discard, "discard", false, "keep the folder as it was edited, where a killed run has left a change that was decided and not applied")
	flags.StringArrayVar(&reads, "read", nil, "further file or folder that commands may read; may be repeated")
	return cmd
}

// run runs an opened plan.
func (f *planFlags) run(ctx context.Context, a *cli.App, o *opened, record ledgers.RecordFlags, discard bool) error {
	log, err := ledgers.OpenLog(ctx, a, record)
	if err != nil {
		return err
	}
	if log != nil {
		defer log.Close()
		o.Deps.Recorder = ledgers.Recorder(a, log)
		if o.Ledger, o.LedgerKey, err = record.Place(a); err != nil {
			return err
		}
	} else {
		ledgers.NotRecorded(a)
	}
	f.dir = f.Tree
	release, err := f.lock(ctx, a, &o.Workflow, discard)
	if err != nil {
		return err
	}
	defer release()
	host := sandboxes.Open(a)
	defer sandboxes.Close(ctx, a, host)
	o.Deps.Runner = host
	o.Result = func(r receipt.Result) error {
		b, err := r.Bytes()
		if err != nil {
			return err
		}
		a.RejectIf(r.Status != receipt.Success)
		if a.TTY {
			a.Term.Message(inWords(r))
		}
		return a.Print(b)
	}
	o.Advise = func(id, msg, hint string) { a.Term.Warning(id + ": " + msg + "; " + hint) }
	summary, err := o.Workflow.Run(ctx, o.plan, sumOf(o))
	if err = placed(o.text, err); err != nil {
		return sandboxes.Named(ctx, a, err)
	}
	a.RejectIf(!summary.Success())
	if o.plan.One {
		return nil
	}
	b, err := summary.Bytes()
	if err != nil {
		return err
	}
	return a.Print(b)
}

// inWords returns a result for people.
func inWords(r receipt.Result) string {
	m := r.Metrics
	switch {
	case r.Replayed:
		return r.ID + ": success, as before: the folder has this change"
	case r.Status == receipt.Success:
		return fmt.Sprintf("%s: success: %d files, %d regions, %d tool ops", r.ID, m.FilesTouched, m.DeltaSize, m.ToolOpsCount)
	}
	return r.ID + ": " + string(r.Status) + ": " + screen.Plain(r.Error+r.DenialReason)
}

// sumOf returns the hash of the plan's document.
func sumOf(o *opened) canon.ContentHash {
	return canon.Sum(append(append([]byte{}, o.text.Doc.Bytes()...), '\n'))
}

// lock opens the store of the folder for one run, and ends what a killed run has left.
func (f *place) lock(ctx context.Context, a *cli.App, w *workflow.Workflow, discard bool) (release func(), err error) {
	s, journals, err := f.openStore(ctx, a)
	if err != nil {
		return nil, err
	}
	w.History, w.Tree, w.Journals = history.History{Store: s, Dir: f.store}, f.dir, journals
	unlock, err := s.Lock()
	if err != nil {
		_ = s.Close()
		return nil, runerr.New(result.CodeEvidence, "another run has the store", "wait until it has ended, or name another store with --store", runerr.Because(err))
	}
	release = func() {
		_ = unlock()
		_ = s.Close()
	}
	if err := f.recovered(ctx, a, w, discard); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// recovered ends what a killed run has left, and says what it did.
func (p *place) recovered(ctx context.Context, a *cli.App, w *workflow.Workflow, discard bool) error {
	w.Deps.Now = a.Now
	did, err := w.Recover(ctx, decided(a, w), discard)
	if did != "" {
		a.Term.Warning(did)
	}
	return err
}

// open opens the store of the folder, and ends what a killed run has left, unless another run
// goes on.
func (f *place) open(ctx context.Context, a *cli.App) (s *workspace.Store, journals string, err error) {
	if s, journals, err = f.openStore(ctx, a); err != nil {
		return nil, "", err
	}
	unlock, err := s.Lock()
	if err != nil {
		return s, journals, nil
	}
	w := &workflow.Workflow{History: history.History{Store: s, Dir: f.store}, Tree: f.dir, Journals: journals}
	if err := errors.Join(f.recovered(ctx, a, w, false), unlock()); err != nil {
		_ = s.Close()
		return nil, "", err
	}
	return s, journals, nil
}
