package runcmd

import (
	"context"
	"errors"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/secret"
)

// Executing returns what an MCP server needs to execute intents: a function that finds the
// tree, and then one that decides an intent and executes it if it is allowed. Nothing is
// promoted, and nothing is kept but the record of the run.
func Executing(a *cli.App) func(context.Context, string) (func(context.Context, harness.Deps, *harness.Gate, harness.Request) harness.End, error) {
	return func(ctx context.Context, tree string) (func(context.Context, harness.Deps, *harness.Gate, harness.Request) harness.End, error) {
		tree, err := folders.Named("tree", tree)
		return func(ctx context.Context, deps harness.Deps, gate *harness.Gate, req harness.Request) harness.End {
			e := execution(a)
			defer e.close(ctx, a)
			deps.Runner, deps.Secrets, req.Folders = e.host, secret.New(a.Env), harness.Folders{Tree: tree}
			end := harness.End{Request: req}
			if end.Report, end.Err = harness.Run(ctx, deps, gate, req); end.Err == nil {
				end.Err = harness.Deliver(ctx, deps, end.Report, harness.Sinks{})
			}
			if end.Execution != nil {
				end.Err = errors.Join(end.Err, end.Execution.Close())
			}
			return end
		}, err
	}
}
