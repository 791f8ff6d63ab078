package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// loggedSizes are the sizes at which safe-run is timed.
type loggedSizes struct {
	starts int // rounds of a command that does nothing
	copies int // rounds of output
	bytes  int // of output
	fails  int // rounds of output of a command that fails
	peaks  int // rounds of memory
	times  int // how many times as much output there is for memory
}

func fullLogged(rounds int) loggedSizes {
	return loggedSizes{5 * rounds, rounds, 100_000_000, (rounds + 3) / 4, 3, 10}
}

func quickLogged() loggedSizes { return loggedSizes{3, 2, 3_000_000, 1, 1, 3} }

// The commands that are compared.
const (
	spawnWay   = "fork and exec by an empty Go program"
	trueWay    = "the command alone"
	loggedWay  = "safe-run"
	subWay     = "fiador safe-run"
	throughCat = "`cat TEXT \\| cat \\| reader`"
	textWay    = "`safe-run cat TEXT \\| reader`"
	teeWay     = "`cat TEXT \\| tee COPY \\| reader`"
	readerWay  = "`cat TEXT \\| reader`"
	nullWay    = "`safe-run cat TEXT`, to /dev/null"
	bytesCat   = "`cat BYTES \\| cat \\| reader`"
	bytesWay   = "`safe-run cat BYTES \\| reader`"
	textFails  = "`safe-run FAIL TEXT \\| reader`"
	textFailed = "`FAIL TEXT \\| cat \\| reader`"
	byteFails  = "`safe-run FAIL BYTES \\| reader`"
	byteFailed = "`FAIL BYTES \\| cat \\| reader`"
)

// failing is a command that writes a file and fails.
const failing = `cat "$1"; exit 3`

const failingExit = 3

// logged has the measurements of safe-run.
type logged struct {
	sizes  loggedSizes
	on     string // file system that output is kept on
	cat    string // whose it is
	starts []series
	copies []series
	fails  []series
	logs   map[string]int64 // sizes of logs, by the names of those series
	peaks  []series
}

// loggedTools are the programs of this part, besides those of all parts.
type loggedTools struct{ safeRun, spawn, cat, tee, sh string }

func buildLogged(ctx context.Context, root, dir string) (t loggedTools, err error) {
	t.safeRun, t.spawn = filepath.Join(dir, "safe-run"), filepath.Join(dir, "spawn")
	build := []string{"build", "-trimpath", "-o"}
	if err := goTool(ctx, root, "", append(build, t.safeRun, "./cmd/safe-run")...); err != nil {
		return t, err
	}
	if err := goTool(ctx, filepath.Join(root, "bench"), "", append(build, t.spawn, "./testdata/spawn")...); err != nil {
		return t, err
	}
	for name, path := range map[string]*string{"cat": &t.cat, "tee": &t.tee, "sh": &t.sh} {
		if *path, err = exec.LookPath(name); err != nil {
			return t, err
		}
	}
	return t, nil
}

// safeRun fills the report's part about safe-run.
func (r *report) safeRun(ctx context.Context, root string, t tools, dir string, z loggedSizes, log io.Writer) error {
	dir = filepath.Join(dir, "logged")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	own, err := buildLogged(ctx, root, dir)
	if err != nil {
		return err
	}
	m := &logged{sizes: z, on: fileSystem(dir), cat: "of unknown version", logs: map[string]int64{}}
	if out, err := exec.CommandContext(ctx, own.cat, "--version").Output(); err == nil {
		first, _, _ := strings.Cut(string(out), "\n")
		m.cat = strings.TrimPrefix(first, "cat ")
	}
	r.logged = m
	s := &stage{scene: scene{dir: dir}, tools: t, own: own, text: filepath.Join(dir, "text"), bytes: filepath.Join(dir, "bytes")}
	if err := s.prepare(ctx, z.bytes); err != nil {
		return err
	}
	for _, part := range []struct {
		what string
		do   func(context.Context, *stage) error
	}{{"the start of a command", m.starting}, {"output", m.copying}, {"output of a command that fails", m.failing}, {"memory", m.remembering}} {
		fmt.Fprintf(log, "timing safe-run: %s\n", part.what)
		if err := part.do(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return nil
}

// stage is a folder with outputs to write.
type stage struct {
	scene
	tools       tools
	own         loggedTools
	text, bytes string // files
}

// prepare writes the two outputs, and makes sure that safe-run passes each on as it is.
func (s *stage) prepare(ctx context.Context, size int) error {
	for file, b := range map[string][]byte{s.text: textOutput(size), s.bytes: byteOutput(size)} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, s.own.safeRun, s.own.cat, file)
		cmd.Dir, cmd.Env, cmd.Stderr = s.dir, s.environment(), os.Stderr
		sum := sha256.New()
		cmd.Stdout = sum
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("safe-run: %w", err)
		}
		if want := sha256.Sum256(b); !bytes.Equal(sum.Sum(nil), want[:]) {
			return fmt.Errorf("safe-run has not passed on what was in %q", file)
		}
	}
	// What the disk still has to do is not to be timed.
	if err := exec.CommandContext(ctx, "sync").Run(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// randomBytes are the same in every run.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// textOutput are lines of 76 characters of base64, and a shorter one.
func textOutput(size int) []byte {
	const line, coded = 57, 77
	var out bytes.Buffer
	for part := range slices.Chunk(randomBytes((size+coded-1)/coded*line), line) {
		out.WriteString(base64.StdEncoding.EncodeToString(part) + "\n")
	}
	out.Truncate(size - 1)
	out.WriteByte('\n')
	return out.Bytes()
}

// byteOutput is one line without LF, of bytes that are no text.
func byteOutput(size int) []byte {
	return bytes.ReplaceAll(randomBytes(size), []byte("\n"), []byte{0})
}

// backAndForth runs every command once a round, in every second round in the opposite
// order: what follows a command is not always the same one.
func backAndForth(names []string, warmUp, rounds int, run func(i int) (sample, error)) ([]series, error) {
	out := make([]series, len(names))
	for i, name := range names {
		out[i].name = name
	}
	for round := range warmUp + rounds {
		for k := range names {
			i := k
			if round%2 == 1 {
				i = len(names) - 1 - k
			}
			x, err := run(i)
			if err != nil {
				return nil, err
			}
			if round >= warmUp {
				out[i].samples = append(out[i].samples, x)
			}
		}
	}
	return out, nil
}

// commands times or weighs whole processes.
func (s *stage) commands(ctx context.Context, list []command, warmUp, rounds int) ([]series, error) {
	var names []string
	for _, c := range list {
		names = append(names, c.name)
	}
	return backAndForth(names, warmUp, rounds, func(i int) (sample, error) {
		x, err := s.once(ctx, s.tools, list[i])
		if err == nil {
			_, err = s.cleared()
		}
		return x, err
	})
}

func (m *logged) starting(ctx context.Context, s *stage) (err error) {
	m.starts, err = s.commands(ctx, []command{
		{subWay, []string{s.tools.fiador, "safe-run", trueProgram}, 0},
		{trueWay, []string{trueProgram}, 0},
		{loggedWay, []string{s.own.safeRun, trueProgram}, 0},
		{spawnWay, []string{s.own.spawn, trueProgram}, 0},
		{nothingWay, []string{s.tools.empty}, 0},
	}, min(5, m.sizes.starts), m.sizes.starts)
	return err
}

func (m *logged) copying(ctx context.Context, s *stage) (err error) {
	cat, safeRun := s.own.cat, s.own.safeRun
	reader := []string{cat}
	m.copies, err = s.pipelines(ctx, []pipeline{
		{throughCat, [][]string{{cat, s.text}, {cat}, reader}, nil},
		{textWay, [][]string{{safeRun, cat, s.text}, reader}, nil},
		{bytesCat, [][]string{{cat, s.bytes}, {cat}, reader}, nil},
		{bytesWay, [][]string{{safeRun, cat, s.bytes}, reader}, nil},
		{readerWay, [][]string{{cat, s.text}, reader}, nil},
		{nullWay, [][]string{{safeRun, cat, s.text}}, nil},
		{teeWay, [][]string{{cat, s.text}, {s.own.tee, s.copyFile()}, reader}, nil},
	}, 1, m.sizes.copies)
	return err
}

func (m *logged) failing(ctx context.Context, s *stage) (err error) {
	fail := func(file string) []string { return []string{s.own.sh, "-c", failing, "sh", file} }
	through := func(name, file string) pipeline {
		return pipeline{name, [][]string{fail(file), {s.own.cat}, {s.own.cat}}, []int{failingExit, 0, 0}}
	}
	with := func(name, file string) pipeline {
		return pipeline{name, [][]string{append([]string{s.own.safeRun}, fail(file)...), {s.own.cat}}, []int{failingExit, 0}}
	}
	m.fails, err = s.pipelines(ctx, []pipeline{
		through(textFailed, s.text), with(textFails, s.text), through(byteFailed, s.bytes), with(byteFails, s.bytes),
	}, 1, m.sizes.fails)
	for _, p := range []pipeline{with(textFails, s.text), with(byteFails, s.bytes)} {
		if err == nil {
			_, err = p.run(ctx, s.dir, s.environment())
		}
		if err == nil {
			m.logs[p.name], err = s.cleared()
		}
	}
	return err
}

// remembering weighs processes. What they print goes to /dev/null, where nobody can be
// too slow for it, or into a pipe.
func (m *logged) remembering(ctx context.Context, s *stage) (err error) {
	many := slices.Repeat([]string{s.text}, m.sizes.times)
	logged := func(argv ...string) []string { return append([]string{s.own.safeRun}, argv...) }
	writing := func(files ...string) []string { return append([]string{s.own.cat}, files...) }
	much, more := size(m.sizes.bytes), size(m.sizes.bytes*m.sizes.times)
	m.peaks, err = s.commands(ctx, []command{
		{"`cat`, " + more, writing(many...), 0},
		{"`safe-run true`", logged(trueProgram), 0},
		{peakOf(much), logged(writing(s.text)...), 0},
		{peakOf(more), logged(writing(many...)...), 0},
		{peakOf(more) + ", into a pipe", append([]string{s.own.sh, "-c", `"$@" | cat >/dev/null`, "sh"}, logged(writing(many...)...)...), 0},
		{peakOf(much) + ", and it fails", logged(s.own.sh, "-c", failing, "sh", s.text), failingExit},
		{peakOf(much) + " without LF, and it fails", logged(s.own.sh, "-c", failing, "sh", s.bytes), failingExit},
	}, 0, m.sizes.peaks)
	return err
}

func peakOf(output string) string { return "`safe-run cat`, " + output }

// size is a number of bytes in words, in steps of a thousand.
func size(n int) string {
	if n%1e9 == 0 {
		return fmt.Sprintf("%d GB", n/1e9)
	}
	return fmt.Sprintf("%d MB", n/1e6)
}

// pipeline is a row of commands. Each command reads the output of the command before it.
// The first one reads nothing, and the last one writes to /dev/null.
type pipeline struct {
	name   string
	stages [][]string
	exits  []int // nil: all are 0
}

// pipelines times pipelines, and removes in between what they leave.
func (s *stage) pipelines(ctx context.Context, list []pipeline, warmUp, rounds int) ([]series, error) {
	var names []string
	for _, p := range list {
		names = append(names, p.name)
	}
	return backAndForth(names, warmUp, rounds, func(i int) (sample, error) {
		x, err := list[i].run(ctx, s.dir, s.environment())
		if err == nil {
			_, err = s.cleared()
		}
		return x, err
	})
}

// copyFile names the file that tee writes.
func (s *stage) copyFile() string { return filepath.Join(s.dir, "copy") }

// cleared removes what safe-run and tee have left, and returns the size of the only log
// if there is one.
func (s *stage) cleared() (size int64, err error) {
	logs, err := filepath.Glob(filepath.Join(s.dir, ".agent", "FAIL-LOGS", "*"))
	if err != nil {
		return 0, err
	}
	if len(logs) > 1 {
		return 0, fmt.Errorf("%d logs of one command", len(logs))
	}
	for _, name := range logs {
		info, err := os.Stat(name)
		if err != nil {
			return 0, err
		}
		size = info.Size()
	}
	if err := os.RemoveAll(s.copyFile()); err != nil {
		return 0, err
	}
	return size, os.RemoveAll(filepath.Join(s.dir, ".agent"))
}

// run runs a pipeline once, from before the start of its first command to after the end
// of its last one. CPU time is that of all.
func (p pipeline) run(ctx context.Context, dir string, env []string) (x sample, err error) {
	messages, err := os.CreateTemp(dir, "messages-")
	if err != nil {
		return x, err
	}
	defer os.Remove(messages.Name())
	defer messages.Close()
	cmds, ends, err := p.connected(ctx, messages)
	if err != nil {
		return x, err
	}
	for _, cmd := range cmds {
		cmd.Dir, cmd.Env = dir, env
	}
	begin := time.Now()
	for i, cmd := range cmds {
		if err == nil {
			err = cmd.Start()
		}
		for _, f := range ends[i] {
			f.Close() // so that the others see the end of this one
		}
	}
	for _, cmd := range cmds {
		if cmd.Process != nil {
			cmd.Wait() // the exit status is looked at below
		}
	}
	x.Wall = time.Since(begin)
	if err != nil {
		return x, fmt.Errorf("%s: %w", p.name, err)
	}
	for i, cmd := range cmds {
		x.CPU += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		want := 0
		if p.exits != nil {
			want = p.exits[i]
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			said, _ := os.ReadFile(messages.Name())
			return x, fmt.Errorf("%s: %q ended with exit status %d instead of %d: %s", p.name, p.stages[i], got, want, said)
		}
	}
	return x, nil
}

// connected makes the commands and the pipes between them: ends are those that each of
// them gets.
func (p pipeline) connected(ctx context.Context, messages *os.File) (cmds []*exec.Cmd, ends [][]*os.File, err error) {
	ends = make([][]*os.File, len(p.stages))
	for i, argv := range p.stages {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stderr = messages
		cmds = append(cmds, cmd)
		if i == 0 {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range slices.Concat(ends...) {
				f.Close()
			}
			return nil, nil, err
		}
		cmds[i-1].Stdout, cmd.Stdin = w, r
		ends[i-1], ends[i] = append(ends[i-1], w), append(ends[i], r)
	}
	return cmds, ends, nil
}
