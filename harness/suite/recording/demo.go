package recording

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// demo has four cases, and the recordings of two versions of an agent that were asked them.
//
//go:embed demo
var demo embed.FS

// DemoID is the id of the demo's run.
const DemoID = "demo"

// Demo asks both recorded versions of an agent four cases, and leaves the directories
// OUT/baseline/demo and OUT/new/demo. The folder temp is not there yet, and gets the recordings.
func Demo(ctx context.Context, temp, out, version string, now func() time.Time) (err error) {
	files, err := fs.Sub(demo, "demo")
	if err != nil {
		return err
	}
	if err := os.CopyFS(temp, files); err != nil {
		return suite.StoreError(err)
	}
	text, err := fs.ReadFile(files, "cases.json")
	if err != nil {
		return err
	}
	value, err := canon.ParseLiteral(text, len(text), suite.MaxValues)
	if err != nil {
		return err
	}
	cases, err := trial.ReadCases(value)
	if err != nil {
		return err
	}
	rules, err := redact.New(redact.Config{SchemaVersion: redact.Version})
	if err != nil {
		return err
	}
	p := suite.Plan{
		Cases: cases, CasesPath: "cases.json", CasesText: text, Agents: map[trial.Side]suite.Agent{},
		Out: out, OutPath: suite.PathInRun(out), RunID: DemoID, Repeats: 1, Concurrency: 1, Timeout: time.Minute, Limits: trial.DefaultLimits(),
		Rules: rules, Version: version, Now: now,
	}
	for _, side := range []trial.Side{trial.Baseline, trial.New} {
		agent, err := OpenReplay(filepath.Join(temp, string(side)))
		if err != nil {
			return suite.StoreError(err)
		}
		defer func() { err = errors.Join(err, agent.Close()) }()
		p.Agents[side] = agent
	}
	_, err = p.Run(ctx)
	return err
}
