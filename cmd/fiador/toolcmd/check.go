package toolcmd

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// checkCommand checks the documents and the examples. With --run it performs the examples.
func checkCommand(a *cli.App) *cobra.Command {
	var f policies.GateFlags
	run := false
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "check the documents and the examples of a folder of tools",
		Long: `Check reads every document of the folder: its form, templates, transforms and fallbacks.
Every tool of an MCP server that an adapter names must be pinned. Check tries every
example (TOOL/ADAPTER/examples/NAME.json): its parameters must bind, and the last of its
answers must become the one that it expects. It prints what is wrong, and at the end how
many examples are as expected. It starts no process.

With --run it also performs the examples of commands. Each is a call that the policy
decides, as fiador tool call makes it. The call runs in the sandbox, in a copy of the
fixtures of its adapter (TOOL/ADAPTER/fixtures). The call must be accepted, and its
answer must be the one that the example expects. Examples of other types are skipped.

Exit codes:
  0  nothing is wrong
  1  an example fails, or the index is stale
  2  a document or an example cannot be used, or nothing can be performed`,
		Example: `  fiador tool check tools
  fiador tool check tools --run --policy ./profile`,
		Args: cli.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, flag := range []string{"policy", "org-policy", "tree"} {
				if !run && cmd.Flags().Changed(flag) {
					return cli.Unfit("add --run, or leave it out", "--%s belongs to --run", flag)
				}
			}
			tried, current, err := dispatch.TryExamples(a.Specs, args[0])
			skipped := 0
			if err == nil && run && current {
				skipped, err = perform(folders.Waiting(cmd.Context(), a), a, f, args[0], tried)
			}
			if err != nil {
				return err
			}
			return tellTried(a, args[0], tried, current, skipped)
		},
	}
	f.Register(cmd)
	cmd.Flags().BoolVar(&run, "run", false, "perform the examples of commands in the sandbox")
	return cmd
}

// tellTried prints the examples that fail, and counts the others.
func tellTried(a *cli.App, dir string, tried []dispatch.Tried, current bool, skipped int) error {
	failed := 0
	for _, t := range tried {
		if t.Why != "" {
			failed++
		}
	}
	a.RejectIf(failed > 0 || !current)
	return cli.PrintText(a, func(t cli.Terminal) {
		for _, one := range tried {
			if one.Why != "" {
				t.Line(screen.Plain(one.File+":"), screen.Plain(one.Why))
			}
		}
		if !current {
			t.Line(screen.Plain(screen.Folder(filepath.Join(dir, dispatch.IndexFile))+":"), "the index is stale")
		}
		if skipped > 0 {
			t.Line(screen.Count(skipped, "example") + " not performed: only those of type cli are")
		}
		t.Line(strconv.Itoa(len(tried)-failed) + " of " + screen.Count(len(tried), "example") + " as expected")
	})
}

// perform performs the examples without a fault, and says in each what is wrong. It returns how
// many it skipped, because they are no commands.
func perform(ctx context.Context, a *cli.App, f policies.GateFlags, dir string, tried []dispatch.Tried) (skipped int, err error) {
	var p cli.Places
	policies.ToolFlags{Tools: dir}.Places(&p)
	p.Add(cli.Guarded, "--tree", "tree", f.Tree)
	if err := a.CheckPlaces(p); err != nil {
		return 0, err
	}
	sources, err := policies.Gating(a, f)
	if err != nil {
		return 0, err
	}
	gate, err := policies.OpenGateAhead(ctx, a, sources)()
	if err != nil {
		return 0, err
	}
	r, err := dispatch.Open(a.Specs, dir)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	gate.UseTools(harness.ToolsOf(r))
	if err := sandbox.Sweep(""); err != nil {
		a.Term.Warning("what an earlier execution has left could not be removed: " + runerr.Reason(err))
	}
	a.Busy.Enter()
	defer a.Busy.LeaveSoon(ctx)
	host := sandbox.NewHost("")
	defer host.Close()
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Runner: host}
	for i := range tried {
		one := &tried[i]
		if one.Why != "" {
			continue
		}
		if one.Adapter.Type != adapter.CLI {
			skipped++
			continue
		}
		if err := performOne(ctx, deps, gate, r, dir, one); err != nil {
			return 0, err
		}
	}
	return skipped, nil
}

// performOne performs an example as an intent of one call, on top of the adapter's fixtures.
func performOne(ctx context.Context, deps harness.Deps, gate *harness.Gate, r *dispatch.Registry, dir string, one *dispatch.Tried) (err error) {
	toolID, adapterID := one.Adapter.ToolID, one.Adapter.AdapterID
	_, fixtures, err := r.Beside(toolID, adapterID)
	if err != nil {
		return err
	}
	work := ""
	if len(fixtures) > 0 {
		if work, err = filepath.Abs(filepath.Join(dir, filepath.FromSlash(fixtures[0]), "..")); err != nil {
			return cli.NotWritten(dir, err)
		}
	}
	source, err := policies.CallIntent(toolID, adapterID, one.Params, nil)
	if err != nil {
		return err
	}
	rep, err := harness.Run(ctx, deps, gate, harness.Request{
		Source: source, Path: one.File, Mode: harness.ModeExecuteSandbox, ModelMode: harness.ModelNone, Folders: harness.Folders{Work: work},
	})
	if err != nil {
		return err
	}
	performed := rep.Execution
	if performed == nil {
		one.Why = string(rep.Decision.Outcome) + ": " + strings.Join(rep.Decision.Reasons, ", ")
		return nil
	}
	defer func() { err = errors.Join(err, performed.Close()) }()
	switch {
	case rep.Decision.Outcome != kernel.OutcomeBundle || !rep.Result.Decision.Accepted:
		one.Why = "the call failed: " + strings.Join(rep.Result.Decision.Reasons, ", ")
		return nil
	case performed.Calls[0].AdapterID != adapterID:
		one.Why = "the fallback " + canon.Quote(performed.Calls[0].AdapterID) + " answered"
		return nil
	}
	file, err := performed.Content(pack.ResponsePath(0))
	if err == nil {
		var got []byte
		got, err = io.ReadAll(file)
		one.Answered(got)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return runerr.New(result.CodeEvidence, "the answer could not be read: "+runerr.Reason(err), "", runerr.Because(err))
	}
	return nil
}
