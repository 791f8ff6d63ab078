package suite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// cluster is a place that is not this machine.
type cluster struct{ execute.Place }

// TestExecOnCluster: the time that a cluster takes for uploads and queues is not the agent's. An
// error of the cluster is no answer of the agent, and its message is kept.
func TestExecOnCluster(t *testing.T) {
	ask := func(ctx context.Context, where execute.Place) (o suite.Observed, dated bool) {
		attempt, stop := context.WithTimeout(ctx, 10*time.Millisecond)
		defer stop()
		x := &suite.Exec{Name: "agent.json", Where: where, Perform: func(ctx context.Context, _ execute.Task) (*execute.Performed, error) {
			_, dated = ctx.Deadline()
			<-attempt.Done()
			time.Sleep(50 * time.Millisecond) // a cancellation reaches ctx after the attempt
			if ctx.Err() != nil {
				return nil, runerr.Stopped()
			}
			return nil, runerr.New(result.CodeSandbox, "no worker is free", "run it again later")
		}}
		return x.Ask(attempt, suite.Request{Most: 1000}), dated
	}
	o, dated := ask(t.Context(), cluster{})
	if class, name := suite.Failed(o); dated || class != trial.Other || name != "spawn_failed" || !strings.Contains(string(o.Stderr), "RUN_E005: no worker is free") {
		t.Errorf("on a cluster, with a deadline %t: %s %s %q", dated, class, name, o.Stderr)
	}
	o, dated = ask(t.Context(), execute.Here{})
	if class, name := suite.Failed(o); !dated || class != trial.Timeout || name != "deadline_run" {
		t.Errorf("here, with a deadline %t: %s %s", dated, class, name)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, _ = ask(ctx, cluster{})
	if class, name := suite.Failed(o); class != trial.Other || name != "interrupted" {
		t.Errorf("interrupted: %s %s", class, name)
	}
}
