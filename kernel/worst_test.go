package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestCommandsHaveABudget: what takes too many steps to read is not passed over,
// and the steps are counted over all commands of an intent.
func TestCommandsHaveABudget(t *testing.T) {
	nested := slices.Repeat([]string{"npm", "exec", "--z"}, 341)
	steps := &budget{maxSteps}
	last := commandFaults(nested, false, steps)
	if f := last[len(last)-1]; f.code != FindCmdUnread || f.arg != 0 || f.value != "npm" {
		t.Errorf("the last fault is %v", f)
	}
	if left := steps.steps; left < -maxSteps/10 {
		t.Errorf("%d steps were taken", maxSteps-left)
	}
	long := append([]string{"npm", "run", "build"}, slices.Repeat([]string{"--x"}, 1021)...)
	if got := commandFaults(long, false, &budget{maxSteps}); len(got) != 0 {
		t.Errorf("1024 arguments alone: %v", got)
	}
	in := Intent{Constraints: []string{"c"}}
	for range 30 {
		in.Actions = append(in.Actions, Action{Kind: ActionRun, Argv: long})
	}
	in.Actions = append(in.Actions, Action{Kind: ActionRun, Argv: []string{"node", "a.js"}})
	found := in.Findings()
	const fits = maxSteps / 1024
	for i, f := range found {
		if f.Code != FindCmdUnread || f.Path != fmt.Sprintf("/actions/%d/argv/0", fits+i) {
			t.Errorf("finding %d is %+v", i, f)
		}
	}
	if len(found) != len(in.Actions)-fits {
		t.Errorf("%d findings", len(found))
	}
}

// TestFindingsAreLimited: an intent with more findings than a policy judges has one
// that says so, and as many as the limit with it.
func TestFindingsAreLimited(t *testing.T) {
	var in Intent
	in.Constraints = []string{"c"}
	for i := range maxFindings {
		in.Goal += fmt.Sprintf("<a%d> ", i)
	}
	if found := in.Findings(); len(found) != maxFindings || found[maxFindings-1].Code != FindPlaceholder {
		t.Errorf("%d findings, the last is %+v", len(found), found[len(found)-1])
	}
	in.Goal += "<more>"
	if found := in.Findings(); len(found) != maxFindings || found[maxFindings-1] != (Finding{Code: FindTooMany, Path: "/goal", Value: "1000"}) {
		t.Errorf("%d findings, the last is %+v", len(found), found[len(found)-1])
	}
}

// TestDeepWritesClashOnce: a write that other writes stand in the way of has one
// finding, so that there are no more of them than writes.
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
		if f.Code != FindWriteTwice || f.Path != fmt.Sprintf("/actions/%d/path", i+1) || f.Other != fmt.Sprintf("/actions/%d/path", i) {
			t.Errorf("finding %d is %+v", i, f)
		}
	}
}

// TestClashesAreLinear: what a thousand constraints say in many sentences takes as
// many steps as there are sentences, not as there are pairs of them: twice the
// sentences allocate about twice as much.
func TestClashesAreLinear(t *testing.T) {
	say := func(sentences int) []string {
		list := make([]string, 1000)
		for i := range list {
			list[i] = fmt.Sprint(i, ". ", strings.Repeat([]string{"Be stateless. ", "Be stateful. "}[i%2], sentences))
		}
		return list
	}
	cost := func(sentences int) float64 {
		list := say(sentences)
		return testing.AllocsPerRun(1, func() { contradictions(list) })
	}
	one, four := cost(8), cost(32)
	if four > 6*one {
		t.Errorf("four times the sentences take %.1f times the allocations", four/one)
	}
	groups := make([]statement, 1000)
	for i := range groups {
		groups[i].constraint = i
	}
	texts := say(1)
	for i := range texts {
		texts[i] += "."
	}
	p := newPairs(texts)
	p.addAll(plain, groups, negated(groups))
	if p.all != nil || len(p.first) != 999 {
		t.Errorf("%d first pairs, and all: %v", len(p.first), p.all != nil)
	}
}

func negated(list []statement) []statement {
	list = slices.Clone(list)
	for i := range list {
		list[i].negated = true
	}
	return list
}
