package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/argv"
	"github.com/fiador/fiador/kernel/finding"
)

// TestCommandsHaveABudget: all commands of an intent share one budget of steps.
func TestCommandsHaveABudget(t *testing.T) {
	long := append([]string{"npm", "run", "build"}, slices.Repeat([]string{"--x"}, 1021)...)
	in := Intent{Constraints: []string{"c"}}
	for range 30 {
		in.Actions = append(in.Actions, Action{Kind: ActionRun, Argv: long})
	}
	in.Actions = append(in.Actions, Action{Kind: ActionRun, Argv: []string{"node", "a.js"}})
	found := in.Findings()
	const fits = argv.MaxSteps / 1024
	for i, f := range found {
		if f.Code != finding.CmdUnread || f.Path != fmt.Sprintf("/actions/%d/argv/0", fits+i) {
			t.Errorf("finding %d is %+v", i, f)
		}
	}
	if len(found) != len(in.Actions)-fits {
		t.Errorf("%d findings", len(found))
	}
}

// TestFindingsAreLimited: an intent with more findings than the limit gets exactly the
// limit, and the last finding says that there are more.
func TestFindingsAreLimited(t *testing.T) {
	var in Intent
	in.Constraints = []string{"c"}
	for i := range maxFindings {
		in.Goal += fmt.Sprintf("<a%d> ", i)
	}
	if found := in.Findings(); len(found) != maxFindings || found[maxFindings-1].Code != finding.Placeholder {
		t.Errorf("%d findings, the last is %+v", len(found), found[len(found)-1])
	}
	in.Goal += "<more>"
	if found := in.Findings(); len(found) != maxFindings || found[maxFindings-1] != (Finding{Code: finding.TooMany, Path: "/goal", Value: "1000"}) {
		t.Errorf("%d findings, the last is %+v", len(found), found[len(found)-1])
	}
}

// TestDeepWritesClashOnce: a write has at most one finding about other writes that are in
// its way. So there are no more of these findings than writes.
func TestDeepWritesClashOnce(t *testing.T) {
	var in Intent
	in.Constraints = []string{"c"}
	for i := range 256 {
		in.Actions = append(in.Actions, Action{Kind: ActionWrite, Path: "out" + strings.Repeat("/a", i+1)})
	}
	found := in.Findings()
	if len(found) != 255 {
		t.Fatalf("%d findings", len(found))
	}
	for i, f := range found {
		if f.Code != finding.WriteTwice || f.Path != fmt.Sprintf("/actions/%d/path", i+1) || f.Other != fmt.Sprintf("/actions/%d/path", i) {
			t.Errorf("finding %d is %+v", i, f)
		}
	}
}
