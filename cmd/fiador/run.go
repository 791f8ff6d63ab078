package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
	"github.com/fiador/fiador/specs"
)

type runFlags struct {
	gateFlags
	reportFlags
	executingFlags
	modelFlags
	recordFlags
	receipt   string
	mode      string
	modelMode string
	runID     string
	bundle    string
	pack      string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run INTENT",
		Short: "decide one intent and print its RunResult",
		Long: `Run reads an intent, decides it under a policy profile, and prints the RunResult
as one line of canonical JSON (RFC 8785), or as another --format. INTENT is a
file, or - for standard input. On a terminal, a short summary stands on standard
error. The exit code never depends on the format.

With --mode execute-sandbox an intent that is allowed is carried out in the sandbox,
its actions in their order, and the RunResult says what was observed. Nothing is
changed outside the sandbox unless --promote names a folder.

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
		Args: exactArgs("INTENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := notEmpty(cmd, "pack", "bundle", "receipt", "evidence", "promote", "work"); err != nil {
				return err
			}
			return a.runIntent(cmd, args[0], f)
		},
	}
	f.gateFlags.register(cmd)
	f.reportFlags.register(cmd)
	f.executingFlags.register(cmd)
	f.modelFlags.register(cmd)
	f.recordFlags.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.receipt, "receipt", "", "new file to write the ledger's receipt to (C2SP tlog-proof)")
	flags.StringVar(&f.mode, "mode", harness.ModePlanOnly, "plan-only, or execute-sandbox to run the plan as well")
	flags.StringVar(&f.modelMode, "model-mode", harness.ModelNone, "model calls: none, record or replay")
	flags.StringVar(&f.runID, "run-id", "", "id of this run (default: made from the time and random digits)")
	flags.StringVar(&f.bundle, "bundle", "", "file to write the bundle to, in the bytes that its hash covers")
	flags.StringVar(&f.pack, "pack", "", "new folder to write the run pack to, which proves this run elsewhere")
	complete(cmd, "mode", harness.ModePlanOnly, harness.ModeExecuteSandbox)
	complete(cmd, "model-mode", harness.ModelNone, harness.ModelRecord, harness.ModelReplay)
	return cmd
}

// checkRun refuses what cannot be meant before anything is read.
func (a *app) checkRun(intent string, f runFlags) error {
	if err := choice("mode", f.mode, []string{harness.ModePlanOnly, harness.ModeExecuteSandbox}); err != nil {
		return err
	}
	if err := choice("model mode", f.modelMode, []string{harness.ModelNone, harness.ModelRecord, harness.ModelReplay}); err != nil {
		return err
	}
	if err := f.reportFlags.check(); err != nil {
		return err
	}
	if err := f.executingFlags.check(f.mode); err != nil {
		return err
	}
	if err := a.checkModel(intent, f); err != nil {
		return err
	}
	if err := a.checkReceipt(f.recordFlags, f.receipt); err != nil {
		return err
	}
	if f.runID != "" && !ledger.RunID(f.runID) {
		return usage("1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit", "run id %q cannot be used", f.runID)
	}
	for _, out := range []struct{ what, file string }{{"bundle", f.bundle}, {"receipt", f.receipt}} {
		if out.file == "" {
			continue
		}
		if err := a.checkFile(out.what, intent, out.file); err != nil {
			return err
		}
	}
	if err := a.apartFromRun(f); err != nil {
		return err
	}
	if err := a.noPlantedLinks(append(f.written(), output{"--promote", f.promote}), f.tree, f.work); err != nil {
		return err
	}
	if err := f.apartFromPack(); err != nil {
		return err
	}
	if f.receipt != "" && f.bundle != "" && sameFile(f.receipt, f.bundle) {
		return unfit("give each a file of its own", "bundle and receipt are one file: %q", displayPath(f.receipt))
	}
	return absent(f.receipt)
}

// checkFile refuses a file to write that something else needs.
func (a *app) checkFile(what, intent, file string) error {
	const alone = "standard output carries the RunResult alone; name a file"
	if file == "-" {
		return unfit(alone, "%s %q cannot be standard output", what, file)
	}
	target, err := os.Stat(file)
	if err != nil {
		return nil
	}
	if target.IsDir() {
		return usage("name the file to write", "%s %q is a folder", what, file)
	}
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(target, null) {
		return nil
	}
	if out, err := os.Stdout.Stat(); err == nil && os.SameFile(target, out) {
		return unfit(alone, "%s %q is standard output", what, file)
	}
	in, err := os.Stat(intent)
	if intent == "-" {
		in, err = a.stdin.Stat()
	}
	if err == nil && os.SameFile(target, in) {
		return unfit("name another file", "%s %q is the intent itself", what, file)
	}
	return nil
}

func (a *app) runIntent(cmd *cobra.Command, name string, f runFlags) error {
	if err := a.checkRun(name, f); err != nil {
		return err
	}
	a.github = f.format == "github"
	ctx := cmd.Context()
	sources, err := a.gating(f.gateFlags)
	if err != nil {
		return err
	}
	if err := f.apart(append(policyFiles(f.policy), name, f.bundle, f.receipt)...); err != nil {
		return err
	}
	log, err := a.recording(f.recordFlags)
	if err != nil {
		return err
	}
	if log != nil {
		defer log.Close()
	} else {
		a.notRecorded()
	}
	w, err := openPack(f.pack)
	if err != nil {
		return err
	}
	if w != nil {
		defer func() { _ = w.Abort() }()
	}
	opened := a.gateAhead(ctx, sources)
	src, readErr := a.read(ctx, name, canon.MaxIntentBytes)
	if len(src.bytes) > largeIntent {
		debug.SetGCPercent(usualGC)
	}
	if err := a.specs.Prepare(specs.KindIntent); err != nil {
		return err
	}
	gate, err := opened()
	if err != nil {
		return err
	}
	reports, err := a.openReports(f.reportFlags, gate.Profile.Name)
	if err != nil {
		return err
	}
	defer reports.abort()
	end := harness.End{Err: readErr, Request: harness.Request{
		Source: src.bytes, Path: src.path, Mode: f.mode, ModelMode: f.modelMode, RunID: f.runID,
	}}
	if readErr == nil {
		if err := a.decide(ctx, gate, f, log, w, &end); err != nil {
			return err
		}
	}
	return a.tellRun(reports, f, end)
}

// tellRun writes what came of a run: its bundle, the reports, and words for people.
func (a *app) tellRun(reports *reports, f runFlags, end harness.End) error {
	if f.bundle != "" && end.Decision.Bundle != nil {
		if err := writeFile(f.bundle, end.Decision.BundleBytes, a.guarded); err != nil {
			return err
		}
	}
	item := itemOf(end)
	if err := errors.Join(reports.item(item), reports.close()); err != nil {
		return err
	}
	if end.Err != nil {
		return end.Err
	}
	if a.tty && f.format == "json" {
		if err := report.Human(a.stderr, a.term.color, item); err != nil {
			return err
		}
	}
	if a.tty && f.bundle != "" && end.Decision.Bundle == nil {
		a.term.hint(fmt.Sprintf("a REFUSE has no bundle: %q was not written", f.bundle))
	}
	a.status = end.Result.ExitCode()
	return nil
}

// decide runs the intent, keeps its receipt, and does with an execution what the flags
// say.
func (a *app) decide(ctx context.Context, gate *harness.Gate, f runFlags, log *disk.Log, w *pack.Writer, end *harness.End) error {
	deps := harness.Deps{Now: a.now, Rand: a.rand, Specs: a.specs, Recorder: a.recorder(log)}
	if f.mode != harness.ModeExecuteSandbox {
		end.Report, end.Err = harness.Run(ctx, deps, gate, end.Request)
		err := a.keepReceipt(ctx, f.recordFlags, f.receipt, end.Receipt)
		if err != nil || end.Err != nil {
			return err
		}
		if err = a.stagePack(ctx, w, gate, f.recordFlags, f.pack, end.Report); err != nil {
			return err
		}
		return a.commitPack(w, f.pack)
	}
	// A recording can be large: it is read before a Ctrl-C has to wait for anything.
	var err error
	if deps.Caller, err = a.openModel(ctx, f); err != nil {
		return err
	}
	e := a.execution()
	defer e.close(ctx, a)
	if end.Folders, err = a.prepareExecution(ctx, f.executingFlags, f.tree, e); err != nil {
		return err
	}
	show, clear := a.stepLine()
	deps.Runner, deps.Progress = e.host, show
	end.Report, end.Err = harness.Run(ctx, deps, gate, end.Request)
	clear()
	err = a.keepReceipt(ctx, f.recordFlags, f.receipt, end.Receipt)
	if end.Err != nil {
		return err
	}
	err = errors.Join(err, a.keepModel(f, end.Execution))
	if err == nil {
		err = a.stagePack(ctx, w, gate, f.recordFlags, f.pack, end.Report)
	}
	if err == nil {
		err = a.executed(ctx, f.executingFlags, e, end.Report)
	}
	if err == nil {
		err = a.commitPack(w, f.pack)
	}
	if end.Execution == nil {
		return err
	}
	return errors.Join(err, end.Execution.Close())
}

// itemOf is the end of a run as reports take it.
func itemOf(end harness.End) report.Item {
	i := report.Item{Path: end.Path, Source: end.Source, Result: end.Bytes, Decision: end.Decision}
	if end.Source != nil {
		i.SHA256 = canon.Sum(end.Source)
	}
	if end.Err != nil {
		i.Err = runError(end.Err)
	} else if e := end.Result.Execution; e != nil {
		i.Execution = &report.Execution{
			Accepted: end.Result.Decision.Accepted, ExitCode: e.ExitCode, Reasons: end.Result.Decision.Reasons,
			Outputs: len(e.Outputs), OutputBytes: e.TotalOutputBytes,
		}
		if end.Execution != nil {
			i.Execution.Stderr = end.Execution.Stderr.Bytes
		}
	}
	return i
}
