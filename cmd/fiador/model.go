package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// modelFlags say who answers calls.
type modelFlags struct {
	adapters  string
	recording string
}

func (f *modelFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.adapters, "model-adapters", "", "file of the models that can be called, for --model-mode record")
	flags.StringVar(&f.recording, "model-recording", "", "new file to record calls to, or with --model-mode replay the one to answer from")
}

// check refuses flags that would do nothing, and model modes that lack one. What is only
// planned has the same command line as what is executed, and touches neither file.
func (f modelFlags) check(mode, modelMode string) error {
	if modelMode == harness.ModelNone {
		for _, flag := range []struct{ name, value string }{{"--model-adapters", f.adapters}, {"--model-recording", f.recording}} {
			if flag.value != "" {
				return unfit("add --model-mode record or --model-mode replay", "%s belongs to a model mode", flag.name)
			}
		}
		return nil
	}
	switch {
	case f.recording == "":
		return unfit("name the file with --model-recording", "--model-mode %s needs a recording", modelMode)
	case modelMode == harness.ModelReplay && f.adapters != "":
		return unfit("leave it out: the recording says which model answered", "--model-adapters belongs to --model-mode record")
	case mode == harness.ModeExecuteSandbox && modelMode == harness.ModelRecord && f.adapters == "":
		return unfit("name the file that lists them with --model-adapters", "--model-mode record needs models to call")
	}
	if f.recording == "-" || f.adapters == "-" {
		return unfit("name a file", "--model-recording and --model-adapters are files, and not %q", "-")
	}
	return nil
}

// openModel is who answers the calls of an execution; nil in model mode none. A recording
// is read as a whole and held against its rules before anything is executed, and one that
// is to be made can be made.
func (a *app) openModel(ctx context.Context, f runFlags) (harness.Caller, error) {
	switch f.modelMode {
	case harness.ModelRecord:
		if err := vacant(f.recording, a.guarded); err != nil {
			return nil, err
		}
		if err := writable(f.receipt, a.guarded); err != nil {
			return nil, err
		}
		adapters, err := a.modelAdapters(ctx, f)
		if err != nil {
			return nil, err
		}
		return model.NewRecorder(adapters, a.env, a.now), nil
	case harness.ModelReplay:
		recorded, err := a.modelRecording(ctx, f.recording)
		if err != nil {
			return nil, err
		}
		return model.NewPlayer(recorded), nil
	}
	return nil, nil
}

// vacant says whether a new file can be written.
func vacant(name string, within []string) error {
	if _, err := os.Lstat(name); err == nil {
		return isThere(name)
	}
	return writable(name, within)
}

// writable says whether a file that is not there can be written. What is there, a pipe
// that somebody reads, is not touched.
func writable(name string, within []string) error {
	if name == "" {
		return nil
	}
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	file, err := createFile(name, within, 0o666)
	if err == nil {
		err = file.abort()
	}
	if err != nil {
		return notWritten(name, err)
	}
	return nil
}

func (a *app) modelAdapters(ctx context.Context, f runFlags) ([]model.Adapter, error) {
	src, err := a.read(ctx, f.adapters, model.MaxAdaptersBytes)
	if err != nil {
		return nil, err
	}
	if in, err := beneath(f.tree, f.adapters); err == nil && in {
		return nil, unfit("keep it outside of the tree, or name another --tree", "--model-adapters %q lies in the tree that is gated: whoever changes that could choose where prompts and keys are sent", displayFolder(f.adapters))
	}
	list, err := model.ParseAdapters(src.bytes, a.specs)
	var fault *model.AdaptersError
	var syntax *canon.Error
	switch {
	case errors.As(err, &fault):
		return nil, runerr.New(result.CodeProfile, src.path+": "+fault.Error(), fault.Hint, runerr.File(src.path), runerr.At(fault.Pointer))
	case errors.As(err, &syntax):
		return nil, notJSON(src.path, err)
	}
	return list, err
}

// notJSON is harness.ReadError for a file that is no intent.
func notJSON(path string, err error) error {
	e := runerr.Read(path, err)
	e.Hint = ""
	return e
}

// modelRecording reads a recording strictly.
func (a *app) modelRecording(ctx context.Context, name string) (pack.ModelIO, error) {
	src, err := a.read(ctx, name, int(pack.MaxBytes(pack.ModelFile)))
	if err != nil {
		return pack.ModelIO{}, err
	}
	recorded, err := pack.ParseModelIO(src.bytes)
	var fault *pack.ModelIOError
	var syntax *canon.Error
	switch {
	case err == nil:
		return recorded, nil
	case errors.As(err, &syntax):
		return recorded, notJSON(src.path, err)
	}
	e := runerr.New(result.CodeEvidence, src.path+": not a recording: "+err.Error(),
		"record the intent again with --model-mode record", runerr.File(src.path), runerr.Because(err))
	if errors.As(err, &fault) {
		e.RuleID = fault.Rule
		if _, pointer, ok := strings.Cut(fault.Path, "#"); ok {
			e.Details["pointer"] = pointer
		}
	}
	return recorded, e
}

// keepModel writes what was recorded, whatever the execution came to: the calls were
// made. An execution that ended in an error leaves no recording.
func (a *app) keepModel(name string, modelIO []byte) error {
	if modelIO == nil {
		if a.tty {
			a.term.hint(fmt.Sprintf("no call was made: %q was not written", displayPath(name)))
		}
		return nil
	}
	return writeNew(name, modelIO, a.guarded)
}
