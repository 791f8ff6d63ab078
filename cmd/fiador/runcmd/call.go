package runcmd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// callFlags are the flags of tool call: those of run, and what the call is.
type callFlags struct {
	runFlags
	adapter string
	params  string
	param   []string
	inputs  []string
	print   bool
}

// ToolCall returns the command that performs one call of a tool.
func ToolCall(a *cli.App) *cobra.Command {
	f := callFlags{runFlags: runFlags{mode: harness.ModeExecuteSandbox}}
	cmd := &cobra.Command{
		Use:   "call TOOL",
		Short: "perform one call of a tool, as an intent of this one action",
		Long: `Call makes an intent of one action, which calls the tool. It treats the intent as fiador
run does with --mode execute-sandbox: the policy decides, the sandbox performs, and call
prints the RunResult. --print-intent prints the intent and does nothing else.

The answer of the tool is calls/001.response.json of the execution; --out writes it to
a file, if the execution is accepted.

Exit codes:
  0  accepted: the tool has answered
  1  rejected: CLARIFY or REFUSE, or the call failed
  2  no decision was made; a RunError line on standard error says why`,
		Example: `  fiador tool call TL-003 --tools tools --tree src --policy ./profile --param pattern='"TODO"' --out notes.json
  fiador tool call TL-003 --param pattern='"TODO"' --print-intent`,
		Args: cli.ExactArgs("TOOL"),
		RunE: func(cmd *cobra.Command, args []string) error { return callTool(a, cmd, args[0], f) },
	}
	cli.RefuseEmpty(cmd, "pack", "receipt", "evidence", "promote", "work", "out", "params", "adapter")
	f.GateFlags.Register(cmd)
	f.ToolFlags.Register(cmd)
	f.ReportFlags.Register(cmd, report.Formats())
	f.executingFlags.register(cmd)
	f.registerTools(cmd)
	f.registerModelMode(cmd)
	f.keptFlags.register(cmd, "run")
	flags := cmd.Flags()
	flags.StringVar(&f.adapter, "adapter", "", "adapter of the tool (default: its first one)")
	flags.StringArrayVar(&f.param, "param", nil, "parameter as NAME=JSON; may be repeated")
	flags.StringVar(&f.params, "params", "", "file with a JSON object of parameters, or - for standard input")
	flags.StringArrayVar(&f.inputs, "input", nil, "file or folder beneath --tree that the tool may read; may be repeated")
	flags.StringVar(&f.out, "out", "", "file to write the answer to")
	flags.BoolVar(&f.print, "print-intent", false, "print the intent and do nothing else")
	return cmd
}

// callTool makes the intent of a call, and runs it.
func callTool(a *cli.App, cmd *cobra.Command, tool string, f callFlags) error {
	source, err := f.intent(cmd.Context(), a, tool)
	if err != nil {
		return err
	}
	if f.print {
		return a.Print(source)
	}
	if f.Tools == "" {
		return cli.Usage("name the folder of the tools", "--tools is missing")
	}
	f.source = source
	return runIntent(a, cmd, "call", f.runFlags)
}

// intent returns the intent of the call in canonical form, with a line feed.
func (f callFlags) intent(ctx context.Context, a *cli.App, tool string) ([]byte, error) {
	params := map[string]any{}
	if f.params != "" {
		src, err := a.Read(ctx, f.params, canon.MaxIntentBytes)
		if err != nil {
			return nil, err
		}
		doc, err := canon.Parse(src.Bytes, canon.MaxIntentBytes)
		if err != nil {
			return nil, runerr.Read(src.Text(), err)
		}
		object, ok := doc.Value().(map[string]any)
		if !ok {
			return nil, cli.Unfit("write the parameters as members of one object", "%s is no JSON object", screen.Path(f.params))
		}
		maps.Copy(params, object)
	}
	for _, text := range f.param {
		name, value, ok := strings.Cut(text, "=")
		doc, err := canon.Parse([]byte(value), canon.MaxIntentBytes)
		if !ok || name == "" || err != nil {
			return nil, cli.Unfit(`write NAME=JSON; a text stands in double quotes, as in pattern='"TODO"'`, "--param %s has no value that is JSON", canon.Quote(text))
		}
		params[name] = doc.Value()
	}
	return policies.CallIntent(tool, f.adapter, params, f.inputs)
}

// keepAnswer writes the answer of an accepted call to the file of --out.
func keepAnswer(a *cli.App, name string, p *execute.Performed) error {
	if code, _ := p.Observed.Judge(); code != 0 || len(p.Calls) == 0 {
		return nil
	}
	file, err := p.Content(pack.ResponsePath(p.Calls[0].Action))
	if err != nil {
		return runerr.New(result.CodeEvidence, "the answer could not be read: "+runerr.Reason(err), "", runerr.Because(err))
	}
	text, err := io.ReadAll(file)
	if err = cmp.Or(err, errors.Join(file.Close())); err != nil {
		return runerr.New(result.CodeEvidence, "the answer could not be read: "+runerr.Reason(err), "", runerr.Because(err))
	}
	return cli.WriteFile(name, text, a.Guarded)
}
