package runcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
)

// Doctor returns the command that says what the sandbox can enforce on this machine.
func Doctor(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "say what sandbox this machine can give, and what is in the way",
		Long: `Doctor sets up each kind of sandbox once, without running anything in it, and
says what enforces each clause here, and which network levels it has. Where a sandbox cannot be had, it names
the cause and one remedy.

Exit codes:
  0  full isolation can be had
  1  it cannot
  2  doctor could not look`,
		Example: `  fiador doctor`,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return doctor(cmd.Context(), a) },
	}
}

// doctor sets up each kind of sandbox once with an empty plan (specs/sandbox.md, Causes
// and remedies). The exit status is 1 if full isolation cannot be had.
func doctor(ctx context.Context, a *cli.App) error {
	host := sandbox.NewHost("")
	defer host.Close()
	probes := host.Probe(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.RejectIf(len(probes) == 0)
	return cli.PrintText(a, func(t cli.Terminal) {
		if len(probes) == 0 {
			t.Line(t.Paint(screen.Red, "no"), "commands are executed on Linux (amd64, arm64) alone; deciding works here")
		}
		for i, p := range probes {
			if i > 0 {
				t.Line()
			}
			if p.Err != nil {
				t.Line(t.Paint(screen.Red, "no "), t.Paint(screen.Bold, string(p.Isolation)), screen.Plain(p.Err.Error()))
				t.Hint(p.Err.Remedy)
				a.RejectIf(p.Isolation == sandbox.Full)
				continue
			}
			t.Line(t.Paint(screen.Green, "yes"), t.Paint(screen.Bold, string(p.Isolation)), "writes are staged: "+p.Staging)
			clauses(t, p.Clauses)
			levels(t, p.Isolation)
		}
	})
}

// levels writes which network levels an isolation can enforce.
func levels(t cli.Terminal, isolation sandbox.Isolation) {
	var names []string
	for _, l := range sandbox.Levels(isolation) {
		names = append(names, string(l))
	}
	t.Line("    network levels:", strings.Join(names, ", "))
}

// clauses writes a line for each clause: its status, its name and what enforces it.
func clauses(t cli.Terminal, list []evidence.Clause) {
	style := map[evidence.Status]string{evidence.Enforced: screen.Green, evidence.Partial: screen.Yellow, evidence.Absent: screen.Red}
	for _, c := range list {
		t.Line("    "+t.Paint(style[c.Status], fmt.Sprintf("%-8s", c.Status)), fmt.Sprintf("%-16s", c.Clause), screen.Plain(c.Mechanism))
	}
}

// Sandbox returns the group of commands about the sandbox.
func Sandbox(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sandbox",
		Short: "what a sandbox does",
		Long: `Sandbox explains the sandbox that exec and run --mode execute-sandbox use.

Exit codes:
  0  printed
  2  there is no such plan`,
		Example: `  fiador sandbox explain`,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(sandboxExplainCommand(a))
	return cmd
}

// sandboxExplainCommand shares execFlags with exec, and registers only those that
// change a plan.
func sandboxExplainCommand(a *cli.App) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "print the plan of a sandbox, step by step, without starting it",
		Long: `Explain compiles the plan of exec's sandbox for a profile and prints its steps. It
also prints what each command gives up before it is executed, the environment of the
command, each clause with what enforces it on this machine, and the network level.

Exit codes:
  0  printed
  2  there is no such plan`,
		Example: `  fiador sandbox explain
  fiador sandbox explain --policy dev --isolation confined`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explainSandbox(cmd.Context(), a, f) },
	}
	flags := cmd.Flags()
	f.Policy, f.Tree = "default", "."
	flags.Var(&cli.Once{Value: &f.Policy}, "policy", "policy profile: strict, default, dev, or a folder with a profile.json")
	flags.StringVar(&f.work, "work", ".", "folder that the command would work in")
	flags.StringVar(&f.write, "write", string(sandbox.Staged), "staged or direct")
	flags.StringArrayVar(&f.read, "read", nil, "further file or folder that the command may read; may be repeated")
	flags.StringVar(&f.isolation, "isolation", string(sandbox.Full), "full or confined")
	cli.Complete(cmd, "isolation", isolations...)
	return cmd
}

// explainSandbox prints the plan of a sandbox (specs/sandbox.md, Plan) and starts
// nothing. A plan that cannot be compiled here is exit status 2.
func explainSandbox(ctx context.Context, a *cli.App, f execFlags) error {
	if err := errors.Join(cli.Choice("--write", f.write, writes), cli.Choice("--isolation", f.isolation, isolations)); err != nil {
		return err
	}
	work, err := folders.Named("work", f.work)
	if err != nil {
		return err
	}
	read, err := sandboxes.ReadPaths(f.read)
	if err != nil {
		return err
	}
	gate, err := profileGate(ctx, a, f.GateFlags)
	if err != nil {
		return err
	}
	x, err := sandbox.NewHost("").Explain(sandbox.Isolation(f.isolation), gate.Confinement(work, sandbox.Write(f.write), read))
	if err != nil {
		return runerr.Sandbox(ctx, err)
	}
	return cli.PrintText(a, func(t cli.Terminal) {
		section := func(title string, lines []string) {
			t.Line(t.Paint(screen.Bold, title))
			for i, line := range lines {
				t.Line(fmt.Sprintf("%4d", i+1), screen.Plain(line))
			}
		}
		section("steps", x.Steps)
		section("given up by each command, in this order", x.GiveUp)
		section("environment", x.Env)
		t.Line(t.Paint(screen.Bold, "clauses"))
		clauses(t, x.Clauses)
		t.Line(t.Paint(screen.Bold, "network"))
		levels(t, x.Isolation)
		t.Line("    level of the profile:", string(gate.Profile.NetLevel()))
		for _, h := range gate.Profile.Hosts().Names {
			t.Line("    listed:", screen.Plain(h))
		}
	})
}
