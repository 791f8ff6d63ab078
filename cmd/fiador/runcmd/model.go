package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/ask"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/harness/toolio"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// modelFlags name the adapters, and the recordings of models and of services of tools.
type modelFlags struct {
	adapters  string
	recording string
	tools     string
}

// register adds the flags to a command. --model-recording is written with --model-mode
// record, and read with replay.
func (f *modelFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.adapters, "model-adapters", "", "file of the models that can be called, for --model-mode record")
	flags.StringVar(&f.recording, "model-recording", "", "new file to record calls to; with --model-mode replay: recording that answers the calls")
	f.registerTools(cmd)
}

// registerTools adds the flag that is for calls of tools.
func (f *modelFlags) registerTools(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tools, "tool-recording", "", "as --model-recording, for the calls of tools that ask services")
}

// check refuses flags without an effect, and model modes without their flags. A plan has
// the same command line as an execution, but uses neither file.
func (f modelFlags) check(mode, modelMode string) error {
	if modelMode == harness.ModelNone {
		for _, flag := range []struct{ name, value string }{{"--model-adapters", f.adapters}, {"--model-recording", f.recording}, {"--tool-recording", f.tools}} {
			if flag.value != "" {
				return cli.Unfit("add --model-mode record or --model-mode replay", "%s belongs to a model mode", flag.name)
			}
		}
		return nil
	}
	switch {
	case f.recording == "" && f.tools == "":
		return cli.Unfit("name the file with --model-recording or --tool-recording", "--model-mode %s needs a recording", modelMode)
	case modelMode == harness.ModelReplay && f.adapters != "":
		return cli.Unfit("leave it out: the recording says which model answered", "--model-adapters belongs to --model-mode record")
	case mode == harness.ModeExecuteSandbox && modelMode == harness.ModelRecord && f.recording != "" && f.adapters == "":
		return cli.Unfit("name the file that lists them with --model-adapters", "--model-mode record needs models to call")
	}
	if f.recording == "-" || f.adapters == "-" || f.tools == "-" {
		return cli.Unfit("name a file", "--model-recording, --tool-recording and --model-adapters are files, and not %q", "-")
	}
	return nil
}

// openModel returns the caller that answers the model calls of an execution. It is nil in
// model mode none, and without --model-recording. Before the execution it reads and checks a
// whole recording to replay, or makes sure that a new recording can be written.
func openModel(ctx context.Context, a *cli.App, f runFlags) (execute.Caller, error) {
	switch {
	case f.recording == "":
	case f.modelMode == harness.ModelRecord:
		if err := fresh(a, f, f.recording); err != nil {
			return nil, err
		}
		adapters, err := modelAdapters(ctx, a, f)
		if err != nil {
			return nil, err
		}
		return model.NewRecorder(adapters, a.Env, a.Now), nil
	default:
		recorded, err := recordingOf(ctx, a, f.recording, pack.ModelFile, pack.ParseModelIO)
		if err != nil {
			return nil, err
		}
		return model.NewPlayer(recorded), nil
	}
	return nil, nil
}

// openTools is openModel for what answers the calls of tools that no process answers. In
// model mode none that is the services.
func openTools(ctx context.Context, a *cli.App, f runFlags, secrets *secret.Vault) (execute.Asker, error) {
	if f.Tools == "" || f.modelMode != harness.ModelNone && f.tools == "" {
		return nil, nil
	}
	if f.modelMode == harness.ModelReplay {
		recorded, err := recordingOf(ctx, a, f.tools, pack.ToolFile, pack.ParseToolIO)
		if err != nil {
			return nil, err
		}
		return toolio.NewPlayer(recorded), nil
	}
	live := ask.New(secrets)
	if f.modelMode == harness.ModelNone {
		return live, nil
	}
	return toolio.NewRecorder(live, a.Now), fresh(a, f, f.tools)
}

// fresh refuses a new recording that cannot be written, and then a receipt.
func fresh(a *cli.App, f runFlags, name string) error {
	return cmp.Or(vacant(name, a.Guarded), writable(f.receipt, a.Guarded))
}

// vacant refuses a file that exists, and a file that cannot be written.
func vacant(name string, within []string) error {
	if _, err := os.Lstat(name); err == nil {
		return cli.IsThere(name)
	}
	return writable(name, within)
}

// writable refuses an absent file that cannot be written. It does not touch an existing
// file, which may be a pipe with a reader.
func writable(name string, within []string) error {
	if name == "" {
		return nil
	}
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	file, err := cli.CreateFile(name, within, 0o666)
	if err == nil {
		err = file.Abort()
	}
	return cli.NotWritten(name, err)
}

// modelAdapters reads the list of models that can be called (specs/execution.md,
// Adapters). It refuses a list in the gated tree: whoever changes the tree could choose
// where prompts and keys are sent.
func modelAdapters(ctx context.Context, a *cli.App, f runFlags) ([]model.Adapter, error) {
	src, err := a.Read(ctx, f.adapters, model.MaxAdaptersBytes)
	if err != nil {
		return nil, err
	}
	if cli.LiesIn(f.Tree, f.adapters) {
		return nil, cli.Unfit("keep it outside of the tree, or name another --tree", "--model-adapters %q lies in the tree that is gated: whoever changes that could choose where prompts and keys are sent", screen.Folder(f.adapters))
	}
	list, err := model.ParseAdapters(src.Bytes, a.Specs)
	if fault, ok := errors.AsType[*model.AdaptersError](err); ok {
		return nil, runerr.New(result.CodeProfile, src.Path+": "+fault.Error(), fault.Hint, runerr.File(src.Path), runerr.At(fault.Pointer))
	}
	return list, notJSON(src.Text(), err)
}

// notJSON is [runerr.Read] for a file that is no intent: the hint is left out. It returns
// other errors as they are.
func notJSON(t runerr.Text, err error) error {
	if !errors.As(err, new(*canon.Error)) {
		return err
	}
	e := runerr.Read(t, err)
	e.Hint = ""
	return e
}

// recordingOf reads a recording strictly (specs/execution.md, model_io.json and
// tool_io.json). file is its name in a pack. A recording that breaks a rule is RUN_E006 with
// the id of the rule.
func recordingOf[T any](ctx context.Context, a *cli.App, name, file string, parse func([]byte) (T, error)) (recorded T, err error) {
	src, err := a.Read(ctx, name, int(pack.MaxBytes(file)))
	if err != nil {
		return recorded, err
	}
	recorded, err = parse(src.Bytes)
	if err == nil || errors.As(err, new(*canon.Error)) {
		return recorded, notJSON(src.Text(), err)
	}
	e := runerr.New(result.CodeEvidence, src.Path+": not a recording: "+err.Error(),
		"record the intent again with --model-mode record", runerr.File(src.Path), runerr.Because(err))
	if fault, ok := errors.AsType[*pack.RecordingError](err); ok {
		e.RuleID = fault.Rule
		if _, pointer, ok := strings.Cut(fault.Path, "#"); ok {
			e.Details["pointer"] = pointer
		}
	}
	return recorded, e
}

// keepRecording writes a recording, whatever the outcome of the execution is: the calls were
// made. An execution that ended in an error leaves no recording.
func keepRecording(a *cli.App, name string, recording []byte) error {
	if recording == nil || name == "" {
		if a.TTY && name != "" {
			a.Term.Hint(fmt.Sprintf("no call was made: %q was not written", screen.Path(name)))
		}
		return nil
	}
	return cli.WriteNew(name, recording, a.Guarded)
}
