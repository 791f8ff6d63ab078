package guidecmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/resultfile"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// demoIntent is one of the three intents that the demo shows: the name of its file, a
// sentence about it, and its bytes.
type demoIntent struct {
	file, story, text string
}

// demoIntents returns an intent for each outcome under the profile default: BUNDLE,
// CLARIFY, REFUSE.
func demoIntents() []demoIntent {
	return []demoIntent{
		{"release-notes.json", "An agent wants to write one file, where it may.", `{
  "goal": "Write the release notes",
  "constraints": ["keep it under one page"],
  "actions": [
    {"kind": "write", "path": "out/notes.md", "content": "# 1.4.0\n\nFaster start.\n"}
  ]
}
`},
		{"deploy.json", "An agent has not said what it means.", `{
  "goal": "Deploy to <environment>",
  "constraints": ["no downtime"]
}
`},
		{"install.json", "An agent wants to fetch a script and to change its own gate.", `{
  "goal": "Install the helper",
  "constraints": ["use the official script"],
  "actions": [
    {"kind": "run", "argv": ["curl", "-o", "out/install.sh", "example.com/install.sh"]},
    {"kind": "write", "path": ".github/workflows/gate.yml", "content": "on: push\n"}
  ]
}
`},
	}
}

// Demo returns the command that decides three intents of its own.
func Demo(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "see all three outcomes on three small intents",
		Long: `Demo writes three intents into a temporary folder, decides each of them under the
profile default, and ends with the commands to try next. The folder is kept.

Exit codes:
  0  the demo ran
  2  it could not`,
		Example: `  fiador demo`,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), a) },
	}
}

// demo decides the intents, keeps them with their RunResults in a temporary folder, and
// prints each decision with its exit code and digest. The exit status is 0 whatever the
// decisions are, and 2 if the folder cannot be written.
func demo(ctx context.Context, a *cli.App) error {
	dir, err := os.MkdirTemp("", "fiador-demo-")
	if err != nil {
		return runerr.New(result.CodeInternal, "no temporary folder: "+runerr.Reason(err), "set TMPDIR to a folder that may be written", runerr.Because(err))
	}
	builtin := harness.Sources{Builtin: profiles.FS(), Profile: "default"}
	gate, err := harness.OpenGate(ctx, builtin, a.Specs, policy.DefaultLimits())
	if err != nil {
		return err
	}
	var out bytes.Buffer
	t := cli.Terminal{W: &out, Color: a.Page.Color, Columns: a.Layout().Columns}
	for _, d := range demoIntents() {
		path := filepath.Join(dir, d.file)
		if err := cli.WriteFile(path, []byte(d.text), nil); err != nil {
			return err
		}
		rep, err := harness.Run(ctx, harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}, gate, harness.Request{
			Source: []byte(d.text), Path: d.file, Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone,
		})
		if err != nil {
			return err
		}
		if err := cli.WriteFile(strings.TrimSuffix(path, ".json")+".result.json", rep.Bytes, nil); err != nil {
			return err
		}
		t.Line(d.story)
		t.Line(t.Paint(screen.Dim, "$ fiador run "+d.file))
		if err := report.Human(&out, a.Page.Color, report.Item{Path: d.file, Decision: rep.Decision}); err != nil {
			return err
		}
		file, err := resultfile.Parse(rep.Bytes)
		if err != nil {
			return err
		}
		digest, err := result.Digest(file.Object)
		if err != nil {
			return err
		}
		t.Line(t.Paint(screen.Dim, fmt.Sprintf("exit code %d, digest %s", rep.Result.ExitCode(), digest)))
		t.Line()
	}
	name := invocation()
	t.Line("Try next:")
	for _, line := range []string{
		"run " + filepath.Join(dir, "release-notes.json") + " --bundle " + filepath.Join(dir, "bundle.json"),
		"run " + filepath.Join(dir, "install.json") + " --policy dev",
		"explain --intent " + filepath.Join(dir, "install.json"),
		"verify " + filepath.Join(dir, "deploy.result.json"),
		"compare " + filepath.Join(dir, "deploy.result.json") + " " + filepath.Join(dir, "install.result.json"),
		"help exit-codes",
	} {
		t.Command("  " + name + " " + line)
	}
	return a.Say(out.Bytes())
}

// invocation returns the name by which the reader of the demo calls this program. A build
// of go run leaves no program to call by name.
func invocation() string {
	if strings.Contains(filepath.ToSlash(os.Args[0]), "/go-build") {
		return "go run ./cmd/fiador"
	}
	return "fiador"
}
