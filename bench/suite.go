package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// suiteSizes are the sizes at which suites are timed.
type suiteSizes struct {
	cases       int // of the instant agent, and of the larger directory
	rounds      int // of whole processes that ask them, and that verify
	failed      int // cases with a large body
	failedBytes int // of each such body
	slow        int // cases of the slow agent
	slowRounds  int
	commands    int // cases of the agent that is a command
	longBytes   int // of a very long answer
	values      int // of an answer with many
	peaks       int // rounds of those
}

func fullSuite(rounds int) suiteSizes {
	return suiteSizes{1000, max(3, (rounds+3)/4), 100, 2_000_000, 80, max(3, rounds/8), 40, 50_000_000, 190_000, max(3, rounds/8)}
}

func quickSuite() suiteSizes { return suiteSizes{20, 2, 3, 100_000, 4, 1, 3, 5_000_000, 1000, 1} }

// The ways that are compared, each in its own table.
const (
	suiteRun   = "fiador suite run"
	bareAsking = "a bare loop"
	keptAsking = "a bare loop, connections kept"
	syncAsking = "a bare loop, each answer in a synced file"

	suiteVerify = "fiador suite verify"

	oneCommand = "fiador suite run, one case"
	allInTurn  = "fiador suite run, one after another"
	allAtOnce  = "fiador suite run, four at once"
	execAlone  = "fiador exec, the same command"
)

// suiteAtOnce is how many cases of a suite run at once, if nothing else is said.
const suiteAtOnce = 4

// suiteFast is how many cases run at once at the slow agent and with large answers.
const suiteFast = 8

// suited has the measurements of suites.
type suited struct {
	sizes    suiteSizes
	load     string // of the machine before, as Linux counts it
	on       string // file system of all folders
	instant  []series
	verified []verifiedDirs
	slow     []series // one case at once, and suiteFast
	commands []series
	peaks    []series
}

// verifiedDirs has the measurements of version directories.
type verifiedDirs struct {
	what  string
	files int
	bytes int64
	runs  []series
}

// suiteScene is a folder with the documents of cases, and an agent.
type suiteScene struct {
	toolScene
	sizes suiteSizes
	agent *testedAgent
	moved int // runs that were moved away
}

// suite fills the report's part about suites.
func (r *report) suite(ctx context.Context, t tools, dir string, z suiteSizes, log io.Writer) (err error) {
	s := &suiteScene{toolScene: toolScene{scene: scene{dir: filepath.Join(dir, "suite")}, tools: t}, sizes: z}
	m := &suited{sizes: z, load: loadAverage()}
	r.suited = m
	if err := s.prepare(); err != nil {
		return err
	}
	m.on = fileSystem(s.dir)
	if s.agent, err = serveAgent(z); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.agent.close()) }()
	return inParts(ctx, []part[*suiteScene]{
		{"an instant agent", m.asking}, {"verification", m.verifying}, {"a slow agent", m.waiting},
		{"an agent that is a command", m.executing}, {"large answers", m.weighing},
	}, s, "suites", log)
}

const suiteRunID = "bench"

// suiteSides are the sides of a run, in the order of its results.
func suiteSides() []string { return []string{"baseline", "new"} }

// suiteCase is a case of the generated suites.
type suiteCase struct {
	ID    string    `json:"id"`
	Input suiteText `json:"input"`
}

type suiteText struct {
	User string `json:"user"`
}

// prepare writes suites of several sizes, the requests that become of the largest one, and an
// agent that is a command.
func (s *suiteScene) prepare() error {
	for _, n := range []int{s.sizes.cases, s.sizes.failed, s.sizes.slow, s.sizes.commands, suiteFast, 1} {
		text, err := json.Marshal(suiteCases(n))
		if err = errors.Join(err, s.put(casesFile(n), string(text))); err != nil {
			return err
		}
	}
	for _, side := range suiteSides() {
		var b bytes.Buffer
		for _, c := range suiteCases(s.sizes.cases) {
			request := struct {
				ID    string            `json:"case_id"`
				Input suiteText         `json:"input"`
				Run   map[string]string `json:"run_meta"`
				Side  string            `json:"version"`
			}{c.ID, c.Input, map[string]string{"run_id": suiteRunID}, side}
			if err := json.NewEncoder(&b).Encode(request); err != nil {
				return err
			}
		}
		if err := s.put(side+".requests", b.String()); err != nil {
			return err
		}
	}
	agent, err := json.Marshal(map[string]any{"argv": commandAgent(), "work": "work"})
	return errors.Join(err, s.put("agent.json", string(agent)), s.put("work/answer.json", agentAnswer), os.Mkdir(filepath.Join(s.dir, "past"), 0o755))
}

func casesFile(n int) string { return fmt.Sprintf("cases-%d.json", n) }

func suiteCases(n int) []suiteCase {
	list := make([]suiteCase, n)
	for i := range list {
		list[i] = suiteCase{fmt.Sprintf("case-%04d", i), suiteText{fmt.Sprintf("Where is order %d? Refund it if it is lost.", i)}}
	}
	return list
}

// commandAgent reads the request, and has one answer for all.
func commandAgent() []string { return []string{"/bin/sh", "-c", "cat >/dev/null; cat answer.json"} }

// run is a run of a suite. Only the sides whose agents are named run.
func (s *suiteScene) run(name string, cases int, baseline, new string, flags ...string) command {
	args := []string{s.tools.fiador, "suite", "run", casesFile(cases), "--run-id", suiteRunID, "--new", new}
	if baseline != "" {
		args = append(args, "--baseline", baseline)
	}
	return command{name, append(args, flags...), 0}
}

// ask is a bare loop of the requests of the largest suite.
func (s *suiteScene) ask(name string, flags ...string) command {
	args := slices.Concat([]string{s.tools.asker, "-at", strconv.Itoa(suiteAtOnce)}, flags)
	for _, side := range suiteSides() {
		args = append(args, s.agent.url+baseInstant+"/run-case", side+".requests")
	}
	return command{name, args, 0}
}

// away returns what moves the folder of a run away, and makes sure that the agent was asked as
// often as it should be.
func (s *suiteScene) away(ctx context.Context, folder string, asked int) func() error {
	return func() error {
		if n := s.agent.count(); n != asked {
			return fmt.Errorf("the agent was asked %d times instead of %d", n, asked)
		}
		if folder == "" {
			return nil
		}
		// What is removed can make new files slow, and what is not written yet the next sync.
		s.moved++
		if err := os.Rename(filepath.Join(s.dir, folder), filepath.Join(s.dir, "past", strconv.Itoa(s.moved))); err != nil {
			return err
		}
		return s.does(ctx, "sync")
	}
}

// asking times a run of both sides at the instant agent, and bare loops of the same requests.
func (m *suited) asking(ctx context.Context, s *suiteScene) (err error) {
	both := s.agent.url + baseInstant
	run, bare := s.run(suiteRun, s.sizes.cases, both, both), s.ask(bareAsking)
	if err := s.same(ctx, run, bare); err != nil {
		return err
	}
	asked := 2 * s.sizes.cases
	s.agent.count()
	m.instant, err = s.turns(ctx, []workWay{
		{run, nil, s.away(ctx, "runs", asked)},
		{bare, nil, s.away(ctx, "", asked)},
		{s.ask(keptAsking, "-kept"), nil, s.away(ctx, "", asked)},
		{s.ask(syncAsking, "-keep", "answers"), nil, s.away(ctx, "answers", asked)},
	}, min(2, s.sizes.rounds), s.sizes.rounds)
	return err
}

// same makes sure that two commands send the same requests, and that every case has an answer.
func (s *suiteScene) same(ctx context.Context, run, bare command) error {
	var seen []map[string]bool
	for _, argv := range [][]string{append(slices.Clone(run.args), "--fail-on-error"), bare.args} {
		requests, err := s.agent.watched(func() error { return s.does(ctx, argv...) })
		if err != nil {
			return err
		}
		seen = append(seen, requests)
	}
	if len(seen[0]) != 2*s.sizes.cases || !maps.Equal(seen[0], seen[1]) {
		return fmt.Errorf("the run has sent %d requests, and the loop %d, or others", len(seen[0]), len(seen[1]))
	}
	return os.Rename(filepath.Join(s.dir, "runs"), filepath.Join(s.dir, "past", "first"))
}

// verifying times the verification of many answers, and of failures with large bodies.
func (m *suited) verifying(ctx context.Context, s *suiteScene) error {
	sum, err := exec.LookPath(sumWay)
	if err != nil {
		return fmt.Errorf("what verification is held against: %w", err)
	}
	instant := s.agent.url + baseInstant
	for _, k := range []struct {
		what, out, changed string
		run                command
	}{
		{fmt.Sprintf("%d answers on both sides", s.sizes.cases), "many", "case-0001.json", s.run(suiteRun, s.sizes.cases, instant, instant)},
		{fmt.Sprintf("%d failures with bodies of %s", s.sizes.failed, kilo(int64(s.sizes.failedBytes))), "large", "assets/*.txt", s.run(suiteRun, s.sizes.failed, "", s.agent.url+baseFailing)},
	} {
		if err := s.does(ctx, append(k.run.args, "--out", k.out)...); err != nil {
			return err
		}
		dirs, err := filepath.Glob(filepath.Join(s.dir, k.out, "*", suiteRunID))
		if err != nil {
			return err
		}
		files, size, err := s.filesOf(k.out)
		if err != nil {
			return err
		}
		verify := command{suiteVerify, append([]string{s.tools.fiador, "suite", "verify"}, dirs...), 0}
		if err := s.prove(ctx, verify, filepath.Join(dirs[0], k.changed)); err != nil {
			return err
		}
		runs, err := s.timed(ctx, []command{
			verify, {sumWay, append([]string{sum}, files...), 0}, {versionWay, []string{s.tools.fiador, "version"}, 0},
		}, min(2, s.sizes.rounds), s.sizes.rounds)
		if err != nil {
			return err
		}
		m.verified = append(m.verified, verifiedDirs{k.what, len(files), size, runs})
	}
	return nil
}

// filesOf returns the files beneath a folder, with their bytes in all.
func (s *suiteScene) filesOf(folder string) (files []string, size int64, err error) {
	err = fs.WalkDir(os.DirFS(s.dir), folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files, size = append(files, name), size+info.Size()
		}
		return err
	})
	return files, size, err
}

// prove makes sure that directories are valid, and are not with another bit in a file.
func (s *suiteScene) prove(ctx context.Context, verify command, pattern string) error {
	if out, err := s.output(ctx, verify); err != nil || strings.Count(string(out), ": valid, sealed\n") != len(verify.args)-3 {
		return fmt.Errorf("not all is valid: %s (%w)", out, err)
	}
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) == 0 {
		return fmt.Errorf("no file %q: %w", pattern, err)
	}
	name := list[len(list)/2]
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	other := bytes.Clone(text)
	other[len(other)/2] ^= 1
	if err := os.WriteFile(name, other, 0o666); err != nil {
		return err
	}
	out, err := s.output(ctx, verify)
	if err == nil && !strings.Contains(string(out), filepath.Base(name)) {
		err = fmt.Errorf("another bit in %q was not found: %s", name, out)
	}
	return errors.Join(err, os.WriteFile(name, text, 0o666))
}

// waiting times runs at the slow agent, one case at once and more.
func (m *suited) waiting(ctx context.Context, s *suiteScene) (err error) {
	var ways []workWay
	for _, n := range []int{1, suiteFast} {
		c := s.run(concurrently(n), s.sizes.slow, "", s.agent.url+baseSlow, "--concurrency", strconv.Itoa(n), "--fail-on-error")
		ways = append(ways, workWay{c, nil, s.away(ctx, "runs", s.sizes.slow)})
	}
	s.agent.count()
	m.slow, err = s.turns(ctx, ways, 0, s.sizes.slowRounds)
	return err
}

func concurrently(n int) string { return fmt.Sprintf("--concurrency %d", n) }

// executing times an agent that is a command.
func (m *suited) executing(ctx context.Context, s *suiteScene) (err error) {
	run := func(name string, cases, atOnce int) workWay {
		c := s.run(name, cases, "", "exec:agent.json", "--policy", execProfile, "--concurrency", strconv.Itoa(atOnce), "--fail-on-error")
		return workWay{c, nil, s.away(ctx, "runs", 0)}
	}
	alone := slices.Concat([]string{s.tools.fiador, "exec", "--policy", execProfile, "--work", "work", "--"}, commandAgent())
	s.agent.count()
	m.commands, err = s.turns(ctx, []workWay{
		run(oneCommand, 1, 1), run(allInTurn, s.sizes.commands, 1), run(allAtOnce, s.sizes.commands, suiteAtOnce),
		{command{execAlone, alone, 0}, nil, nil},
	}, min(2, s.sizes.rounds), s.sizes.rounds)
	return err
}

// longAnswers, longFailures and manyValues name what the agent answers when memory is measured.
func (z suiteSizes) longAnswers() string { return "answers of " + size(z.longBytes) }
func (z suiteSizes) longFailures() string {
	return "failures with bodies of " + size(z.longBytes)
}
func (z suiteSizes) manyValues() string { return fmt.Sprintf("answers of %d values", z.values) }

// weighing looks at the memory of runs whose answers are large, all at once.
func (m *suited) weighing(ctx context.Context, s *suiteScene) (err error) {
	var ways []workWay
	for _, w := range []struct{ name, base string }{{s.sizes.longAnswers(), baseLong}, {s.sizes.longFailures(), baseBroken}, {s.sizes.manyValues(), baseValues}} {
		c := s.run(w.name, suiteFast, "", s.agent.url+w.base, "--concurrency", strconv.Itoa(suiteFast))
		ways = append(ways, workWay{c, nil, s.away(ctx, "runs", suiteFast)})
	}
	s.agent.count()
	m.peaks, err = s.turns(ctx, ways, 0, s.sizes.peaks)
	return err
}
