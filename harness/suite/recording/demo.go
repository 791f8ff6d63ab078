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

// demo has four cases, and the recording of an agent that was asked them.
//
//go:embed demo
var demo embed.FS

// DemoID is the id of the demo's run.
const DemoID = "demo"

// Shown is a case of the demo that has ended.
type Shown struct {
	ID, Title string
	Class     trial.Class // empty: the case has an answer
}

// Demo asks the recorded agent of this package its four cases, and leaves the directory
// OUT/new/demo. The folder temp is not there yet, and gets the recording.
func Demo(ctx context.Context, temp, out, version string, now func() time.Time) (shown []Shown, err error) {
	files, err := fs.Sub(demo, "demo")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(temp, files); err != nil {
		return nil, suite.StoreError(err)
	}
	agent, err := OpenReplay(filepath.Join(temp, "recording"))
	if err != nil {
		return nil, suite.StoreError(err)
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	text, err := fs.ReadFile(files, "cases.json")
	if err != nil {
		return nil, err
	}
	value, err := canon.ParseLiteral(text, len(text), suite.MaxValues)
	if err != nil {
		return nil, err
	}
	cases, err := trial.ReadCases(value)
	if err != nil {
		return nil, err
	}
	rules, err := redact.New(redact.Config{SchemaVersion: redact.Version})
	if err != nil {
		return nil, err
	}
	p := suite.Plan{
		Cases: cases, CasesPath: "cases.json", CasesText: text, Agents: map[trial.Side]suite.Agent{trial.New: agent},
		Out: out, OutPath: suite.PathInRun(out), RunID: DemoID, Repeats: 1, Concurrency: 1, Timeout: time.Minute, Limits: trial.DefaultLimits(),
		Rules: rules, Version: version, Now: now, Progress: func(e suite.Ended) { shown = append(shown, Shown{e.CaseID, cases[len(shown)].Title, e.Class}) },
	}
	_, err = p.Run(ctx)
	return shown, err
}
