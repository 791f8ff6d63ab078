package runcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/contract"
)

// Doctor returns the command that says what the sandbox can enforce on this machine.
func Doctor(a *cli.App) *cobra.Command {
	var format, profile string
	var where remotes.Flags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "say what sandbox this machine can give, and what is in the way",
		Long: `Doctor sets up each kind of sandbox once, without running anything in it. It says
what enforces each clause here, and which network levels the sandbox has. For a
sandbox that cannot be had, it names the cause and one remedy. At the end it lists
the profiles that can execute here: the built-in ones, and the one of --policy.

With --remote it does so on a worker of a build cluster. It says what the server can do,
what the sandbox of the worker reaches, and which shim the worker was sent.

With --format json it prints one canonical document: sandboxes and profiles.

Exit codes:
  0  full isolation can be had
  1  it cannot
  2  doctor could not look`,
		Example: `  fiador doctor
  fiador doctor --policy ./profile
  fiador doctor --remote remote.json
  fiador doctor --format json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return doctor(cmd.Context(), a, format, profile, where) },
	}
	policies.ProfileFlag(cmd, &profile, "one more profile to look at: a folder with a profile.json")
	where.Register(cmd)
	cli.FormatFlag(cmd, &format, "human", "json")
	return cmd
}

// health is what doctor finds.
type health struct {
	Remote    *remotes.Health     `json:"remote,omitempty"`
	Sandboxes []sandboxHealth     `json:"sandboxes"`
	Profiles  []sandboxes.Profile `json:"profiles"`
}

// sandboxHealth is one isolation on this machine. A sandbox that cannot be had has a fault
// and a remedy in the place of the other members.
type sandboxHealth struct {
	Isolation     sandbox.Isolation   `json:"isolation"`
	Available     bool                `json:"available"`
	Staging       string              `json:"staging,omitempty"`
	Clauses       []evidence.Clause   `json:"clauses,omitempty"`
	NetworkLevels []contract.NetLevel `json:"network_levels,omitempty"`
	Fault         string              `json:"fault,omitempty"`
	Remedy        string              `json:"remedy,omitempty"`
}

// doctor sets up each kind of sandbox once with an empty plan (specs/sandbox.md, Causes
// and remedies). The exit status is 1 if full isolation cannot be had.
func doctor(ctx context.Context, a *cli.App, format, profile string, where remotes.Flags) error {
	given, err := policies.GivenProfile(a, profile)
	if err != nil {
		return err
	}
	probes, remote, err := where.Probe(ctx, a)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	found := health{Remote: remote, Sandboxes: []sandboxHealth{}}
	if found.Profiles, err = sandboxes.Profiles(a, probes, given); err != nil {
		return err
	}
	full := false
	for _, p := range probes {
		h := sandboxHealth{Isolation: p.Isolation, Available: p.Err == nil}
		if p.Err != nil {
			h.Fault, h.Remedy = p.Err.Error(), p.Err.Remedy
		} else {
			h.Staging, h.Clauses, h.NetworkLevels = p.Staging, p.Clauses, sandbox.Levels(p.Isolation)
			full = full || p.Isolation == sandbox.Full
		}
		found.Sandboxes = append(found.Sandboxes, h)
	}
	a.RejectIf(!full)
	return cli.PrintAs(a, format, found, found.text)
}

func (h health) text(t cli.Terminal) {
	yes, no := t.Paint(screen.Green, "yes"), t.Paint(screen.Red, "no ")
	if r := h.Remote; r != nil {
		t.Line(t.Paint(screen.Bold, "server"), screen.Plain(fmt.Sprintf("API %s to %s, uploads of at most %d bytes together", r.LowAPI, r.HighAPI, r.MaxBatchBytes)))
		t.Line(t.Paint(screen.Bold, "worker"), screen.Plain(fmt.Sprintf("%s %s, kernel %s", r.OS, r.Arch, r.KernelRelease)))
		t.Line(t.Paint(screen.Bold, "shim"), "  sha256 "+r.ShimSHA256)
		t.Line()
	}
	if len(h.Sandboxes) == 0 {
		t.Line(no, "commands are executed on Linux (amd64, arm64) alone; deciding works here")
	}
	for i, s := range h.Sandboxes {
		if i > 0 {
			t.Line()
		}
		if !s.Available {
			t.Line(no, t.Paint(screen.Bold, string(s.Isolation)), screen.Plain(s.Fault))
			t.Hint(s.Remedy)
			continue
		}
		t.Line(yes, t.Paint(screen.Bold, string(s.Isolation)), "writes are staged: "+s.Staging)
		clauses(t, s.Clauses)
		levels(t, s.NetworkLevels)
	}
	t.Line()
	t.Line(t.Paint(screen.Bold, "profiles that can execute "+map[bool]string{true: "on the worker", false: "here"}[h.Remote != nil]))
	for _, p := range h.Profiles {
		can := yes
		if !p.Executes {
			can = no
		}
		t.Line(strings.TrimRight("    "+can+"  "+screen.Plain(fmt.Sprintf("%-10s  %-8s  %s", p.Name, p.Isolation, p.Why)), " "))
	}
}

// levels writes which network levels an isolation can enforce.
func levels(t cli.Terminal, list []contract.NetLevel) {
	var names []string
	for _, l := range list {
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
	return cli.Group(&cobra.Command{
		Use:   "sandbox",
		Short: "what a sandbox does",
		Long: `Sandbox explains the sandbox that exec and run --mode execute-sandbox use.

Exit codes:
  0  printed
  2  there is no such plan`,
		Example: `  fiador sandbox explain`,
	}, sandboxExplainCommand(a))
}

// sandboxExplainCommand shares execFlags with exec, and registers only those that
// change a plan.
func sandboxExplainCommand(a *cli.App) *cobra.Command {
	var f execFlags
	format := ""
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "print the plan of a sandbox, step by step, without starting it",
		Long: `Explain compiles the plan of exec's sandbox for a profile and prints its steps. It also
prints what each command gives up before it is executed, and the environment of the
command. It prints each clause with what enforces it on this machine, and the network
level. With --format json it prints one canonical document.

Exit codes:
  0  printed
  2  there is no such plan`,
		Example: `  fiador sandbox explain
  fiador sandbox explain --policy dev --isolation confined`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explainSandbox(cmd.Context(), a, f, format) },
	}
	cli.FormatFlag(cmd, &format, "human", "json")
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
func explainSandbox(ctx context.Context, a *cli.App, f execFlags, format string) error {
	if err := errors.Join(cli.Choice("--write", f.write, writes), cli.Choice("--isolation", f.isolation, isolations)); err != nil {
		return err
	}
	work, err := folders.Named("work", f.work)
	if err != nil {
		return err
	}
	read, err := sandboxes.ReadPaths("--read", f.read)
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
	document := struct {
		sandbox.Explained
		NetworkLevels []contract.NetLevel `json:"network_levels"`
		NetworkLevel  contract.NetLevel   `json:"network_level"`
		NetworkHosts  []string            `json:"network_hosts"`
	}{x, sandbox.Levels(x.Isolation), gate.Profile.NetLevel(), cli.OrEmpty(gate.Profile.Hosts().Names)}
	return cli.PrintAs(a, format, document, func(t cli.Terminal) {
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
		levels(t, sandbox.Levels(x.Isolation))
		t.Line("    level of the profile:", string(gate.Profile.NetLevel()))
		for _, h := range gate.Profile.Hosts().Names {
			t.Line("    listed:", screen.Plain(h))
		}
	})
}
