// Package runcmd has the commands that decide and execute: run, check, exec, safe-run and
// reproduce. Doctor and sandbox explain say what an execution can have on this machine.
package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/decisions"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel/canon"
)

// runFlags are the flags of run: the policy, the tools, the forms of the answer, the
// execution, the model calls, and what is kept. bundle is a file for the bytes that
// bundle.sha256 covers, and out, of tool call, one for the answer. source is the intent of
// tool call.
type runFlags struct {
	policies.GateFlags
	policies.ToolFlags
	decisions.ReportFlags
	executingFlags
	modelFlags
	keptFlags
	mode      string
	modelMode string
	bundle    string
	out       string
	source    []byte
}

// The values of --mode and --model-mode.
var (
	modes      = []string{harness.ModePlanOnly, harness.ModeExecuteSandbox}
	modelModes = []string{harness.ModelNone, harness.ModelRecord, harness.ModelReplay}
)

// Run returns the command that decides one intent, and executes it if asked to.
func Run(a *cli.App) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run INTENT",
		Short: "decide one intent and print its RunResult",
		Long: `Run reads an intent and decides it under a policy profile. A terminal gets the
answer in words. A pipe or a file gets the RunResult, one line of canonical JSON
(RFC 8785). --format chooses another form. INTENT is a file, or - for standard
input. The exit code never depends on the format.

With --mode execute-sandbox, run carries out an allowed intent in the sandbox, its
actions in their order. The RunResult says what was observed. Nothing outside the
sandbox changes unless --promote names a folder.

With --ledger the decision is recorded before it is printed: a decision that cannot be
recorded is exit code 2.

The profile is a built-in one or a folder (profile.json, *.rego). Layers of the
organisation (--org-policy) and of the gated tree (.fiador/policy beneath --tree)
can only tighten.

Exit codes:
  0  accepted: the intent is allowed
  1  rejected: CLARIFY or REFUSE, or the execution failed
  2  no decision was made; a RunError line on standard error says why`,
		Example: `  fiador run intent.json
  fiador run intent.json --policy strict --bundle bundle.json
  fiador run intent.json --policy ./profile --format sarif >intent.sarif
  fiador run intent.json --mode execute-sandbox --promote .
  fiador run intent.json --mode execute-sandbox --pack ./pack
  fiador run intent.json --ledger ./ledger --ledger-key gate.key --receipt run.tlog-proof
  fiador run - <intent.json | jq -r .kernel_result_kind`,
		Args: cli.ExactArgs("INTENT"),
		RunE: func(cmd *cobra.Command, args []string) error { return runIntent(a, cmd, args[0], f) },
	}
	cli.RefuseEmpty(cmd, "pack", "bundle", "receipt", "evidence", "promote", "work")
	f.GateFlags.Register(cmd)
	f.ToolFlags.Register(cmd)
	f.ReportFlags.Register(cmd, report.Formats())
	f.executingFlags.register(cmd)
	f.remote.Register(cmd)
	f.modelFlags.register(cmd)
	f.keptFlags.register(cmd, "run")
	flags := cmd.Flags()
	flags.StringVar(&f.mode, "mode", harness.ModePlanOnly, "plan-only, or execute-sandbox to run the plan as well")
	f.registerModelMode(cmd)
	flags.StringVar(&f.bundle, "bundle", "", "file to write the bundle to, in the bytes that its hash covers")
	cli.Complete(cmd, "mode", modes...)
	return cmd
}

// registerModelMode adds the flag of the model mode.
func (f *runFlags) registerModelMode(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.modelMode, "model-mode", harness.ModelNone, "calls of models and services: none, record or replay")
	cli.Complete(cmd, "model-mode", modelModes...)
}

// checkRun refuses contradictory flags before anything is read, and then places that
// exclude each other.
func checkRun(a *cli.App, intent string, f runFlags) error {
	err := cmp.Or(
		cli.Choice("mode", f.mode, modes),
		cli.Choice("model mode", f.modelMode, modelModes),
		f.ReportFlags.Check(),
		f.executingFlags.check(f.mode),
		f.modelFlags.check(f.mode, f.modelMode),
		f.keptFlags.check(a),
	)
	if err != nil {
		return err
	}
	if f.tools != "" && f.Tools == "" {
		return cli.Unfit("name the folder of the tools with --tools", "--tool-recording belongs to a folder of tools")
	}
	return a.CheckPlaces(runPlaces(a, intent, f))
}

// runPlaces lists the files and folders that the flags of a run name.
func runPlaces(a *cli.App, intent string, f runFlags) cli.Places {
	var p cli.Places
	if f.source == nil {
		p.Add(cli.Input|cli.Asked|cli.Needed, "INTENT", "intent", intent)
	}
	p.Add(cli.Answers|cli.Alone|cli.Needed, "--out", "answer", f.out)
	p.Add(cli.Needed, "--policy", "policy", policies.ProfileFiles(f.Policy)...)
	f.ToolFlags.Places(&p)
	f.ReportFlags.Places(&p)
	ledgers.RecordPlaces(a, f.RecordFlags, &p)
	p.Add(cli.Answers|cli.Alone|cli.Needed, "--bundle", "bundle", f.bundle)
	p.Add(cli.Answers|cli.Alone|cli.Needed|cli.Fresh, "--receipt", "receipt", f.receipt)
	p.Add(cli.Written|cli.Kept|cli.Asked, "--evidence", "evidence", f.evidence)
	p.Add(cli.Written|cli.Packs, "--pack", "pack", f.pack)
	p.Add(cli.ModelFile|cli.Asked, "--model-adapters", "list of adapters", f.adapters)
	recording := cli.ModelFile | cli.Kept
	if f.modelMode == harness.ModelRecord {
		recording |= cli.Recorded | cli.Written
	}
	p.Add(recording, "--model-recording", "recording", f.recording)
	p.Add(recording|cli.Asked, "--tool-recording", "recording of tools", f.tools)
	tree := cli.Guarded
	if f.mode == harness.ModeExecuteSandbox {
		tree |= cli.Exposed
	}
	p.Add(tree, "--tree", "tree", f.Tree)
	p.Add(cli.Guarded|cli.Exposed|cli.Worked, "--work", "work", f.work)
	p.Add(cli.Reached|cli.Exposed|cli.Worked|cli.Changed, "--promote", "promote", f.promote)
	p.Add(cli.Exposed|cli.Worked, "--read", "read", f.read...)
	return p
}

// runIntent decides one intent, executes it if asked to, and prints the result. An
// intent that cannot be read still reaches the reports, as an error. The exit status is
// 0 for an accepted decision, 1 for a rejected one, and 2 without one
// (specs/run-result.md, Exit codes).
func runIntent(a *cli.App, cmd *cobra.Command, name string, f runFlags) error {
	f.Choose(cmd, a)
	if err := checkRun(a, name, f); err != nil {
		return err
	}
	a.GitHub = f.Format == "github"
	ctx := folders.Waiting(cmd.Context(), a)
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return err
	}
	policies.Unused(a, f.GateFlags)
	log, err := ledgers.OpenLogAhead(ctx, a, f.RecordFlags)
	if err != nil {
		return err
	}
	if log != nil {
		defer log.Close()
	}
	w, err := packs.Open(f.pack)
	if err != nil {
		return err
	}
	if w != nil {
		defer func() { _ = w.Abort() }()
	}
	opened := policies.OpenGateAhead(ctx, a, sources)
	src, readErr := cli.Source{Bytes: f.source, Path: name}, error(nil)
	if f.source == nil {
		src, readErr = a.Read(ctx, name, canon.MaxIntentBytes)
	}
	if info, err := os.Stat(name); readErr != nil && err == nil && info.IsDir() {
		runerr.Of(readErr).Hint = "fiador check decides the intents of a folder; or name the file in it"
	}
	if len(src.Bytes) > cli.LargeIntent {
		debug.SetGCPercent(cli.UsualGC)
	}
	gate, err := opened()
	if err == nil {
		err = f.Use(a, gate)
	}
	if err != nil {
		return err
	}
	reports, err := decisions.OpenReports(a, f.ReportFlags, gate.Profile.Name)
	if err != nil {
		return err
	}
	defer reports.Abort()
	end := harness.End{Err: readErr, Request: harness.Request{
		Source: src.Bytes, Path: src.Path, Mode: f.mode, ModelMode: f.modelMode, RunID: f.runID,
	}}
	if readErr == nil {
		if err := decide(ctx, a, gate, f, log, w, &end); err != nil {
			return err
		}
	}
	err = tellRun(a, reports, f, end)
	if err == nil && end.Err == nil && log == nil {
		ledgers.NotRecorded(a)
	}
	return err
}

// tellRun writes the results of a run: its bundle, the reports, and words for people.
// It sets the exit status. A REFUSE has no bundle, so --bundle writes no file.
func tellRun(a *cli.App, reports *decisions.Reports, f runFlags, end harness.End) error {
	if f.bundle != "" && end.Decision.Bundle != nil {
		if err := cli.WriteFile(f.bundle, end.Decision.BundleBytes, a.Guarded); err != nil {
			return err
		}
	}
	item := decisions.ItemOf(end)
	item.Made = f.source != nil
	if err := errors.Join(reports.Item(item), reports.Close()); err != nil {
		return err
	}
	if end.Err != nil {
		a.Status = cli.ExitError
		if !f.Spoken(a) {
			a.Report(end.Err)
		}
		return nil
	}
	if a.TTY && !a.OutTTY && f.Format == "json" {
		if err := report.Human(a.Term.W, a.Term.Color, item); err != nil {
			return err
		}
	}
	if a.TTY && f.bundle != "" && end.Decision.Bundle == nil {
		a.Term.Hint(fmt.Sprintf("a REFUSE has no bundle: %q was not written", f.bundle))
	}
	a.Status = end.Result.ExitCode()
	return nil
}

// decide runs the intent and delivers the results to the sinks of the flags. An error
// of the run itself is left in end, and the reports show it. An error of a sink is
// returned.
func decide(ctx context.Context, a *cli.App, gate *harness.Gate, f runFlags, log ledgers.Log, w *pack.Writer, end *harness.End) error {
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs, Recorder: ledgers.Recorder(a, log)}
	to := f.sinks(a, w)
	if f.mode != harness.ModeExecuteSandbox {
		if end.Report, end.Err = harness.Run(ctx, deps, gate, end.Request); end.Err != nil {
			return nil
		}
		return harness.Deliver(ctx, deps, end.Report, to)
	}
	// A recording can be large, so it is read before a Ctrl-C has to wait for anything.
	var err error
	if deps.Caller, err = openModel(ctx, a, f); err != nil {
		return err
	}
	deps.Secrets = secret.New(a.Env)
	if deps.Asker, err = openTools(ctx, a, f, deps.Secrets); err != nil {
		return err
	}
	e := execution(a)
	defer e.close(ctx, a)
	if end.Folders, err = prepareExecution(ctx, a, f.executingFlags, f.Tree, e); err != nil {
		return err
	}
	show, clear := stepLine(a)
	deps.Runner, deps.Progress = e.host, show
	leave, err := f.remote.Use(ctx, a, &deps)
	if err != nil {
		return err
	}
	defer leave()
	end.Report, end.Err = harness.Run(ctx, deps, gate, end.Request)
	clear()
	if end.Err != nil {
		end.Err = sandboxes.Named(ctx, a, end.Err)
		return nil
	}
	executed(ctx, a, f, e, &to)
	err = harness.Deliver(ctx, deps, end.Report, to)
	if end.Execution == nil {
		return err
	}
	if why := end.Execution.FailedAttempt(); why != "" && (a.TTY || f.Format == "human") {
		a.Term.Hint(why)
	}
	return errors.Join(err, end.Execution.Close())
}
