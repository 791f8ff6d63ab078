// Command bench times Fiador beside opa and conftest, and writes RESULTS.md.
//
// It builds the three tools, writes one decision into a temporary folder in the
// form that each of them reads (the same Rego, the same profile, the same policy
// input), makes sure that all three decide alike, and then times whole processes
// in turn: on one intent, and on a folder of many, also under a policy of many
// rules. What happens inside one process is timed with Go benchmarks. The sandbox is
// held against bubblewrap, the ledger against a plain file and Tessera, safe-run against
// a plain fork and exec and cat, what verifies packs against sha256sum, and calls of tools
// against run actions and the MCP SDK. Calls through the MCP gate are held against direct
// ones, and the hook against a run. The state of a folder is held against git status, and an item of
// work against fiador exec and a copy. The run of a suite is held against a bare loop of requests,
// and a comparison against sha256sum. An execution on a worker is held against a bare action,
// and the ledger server against Tessera's.
// It runs on Linux, from anywhere in the module.
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The pinned tools that Fiador is held against.
const (
	opaPath      = "github.com/open-policy-agent/opa"
	opaVersion   = "v1.22.0"
	conftestPath = "github.com/open-policy-agent/conftest"
	conftestVer  = "v0.71.1"
)

type options struct {
	rounds int
	warmUp int
	time   string // of one Go benchmark
	folder sizes

	confined confinedSizes
	ledger   ledgerSizes
	logged   loggedSizes
	packs    packSizes
	calls    toolSizes
	agents   agentSizes
	work     workSizes
	suite    suiteSizes
	compare  compareSizes
	remote   remoteSizes
	server   serverSizes
	quick    bool
	only     string // the one part that is measured; empty: all
	out      string // empty: bench/RESULTS.md of the module, or standard output if quick
}

// The parts that can be measured alone.
const (
	onlySandbox = "sandbox"
	onlyLedger  = "ledger"
	onlySafeRun = "saferun"
	onlyPacks   = "packs"
	onlyTools   = "tools"
	onlyAgents  = "agents"
	onlyWork    = "work"
	onlySuite   = "suite"
	onlyCompare = "compare"
	onlyRemote  = "remote"
	onlyServer  = "ledgerserver"
	onlyWorst   = "worst"
	onlyDecide  = "decide"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideWord {
		if err := inside(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "n", 41, "timed rounds of whole processes with one intent")
	flags.IntVar(&o.warmUp, "warmup", 5, "rounds before those, not counted")
	flags.StringVar(&o.time, "benchtime", "300ms", "length of one Go benchmark, each run five times")
	flags.BoolVar(&o.quick, "quick", false, "a small folder, few rules and few rounds, to see that everything runs")
	flags.StringVar(&o.only, "only", "", "measure one part, decide, sandbox, ledger, saferun, packs, tools, agents, work, suite, compare, remote, ledgerserver or worst, and put its section in the place of the one that is there; -n are its rounds of whole processes")
	flags.StringVar(&o.out, "o", "", "file to write (default: RESULTS.md beside the benchmark; with -quick standard output)")
	others := flags.Bool("others", false, "measure nothing, and build the programs that Fiador is compared with into bench/bin, where the test of docs/comparison.md finds them")
	book := flags.Int("book", 0, "measure nothing, and write a ledger of so many entries into the new folder that -o names, with its key beside it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *others {
		root, err := moduleRoot(ctx)
		if err != nil {
			return err
		}
		_, _, err = installOthers(ctx, root)
		return err
	}
	if *book > 0 {
		if o.out == "" {
			return errors.New("-book writes into the new folder that -o names")
		}
		_, err := newBook(ctx, o.out, *book)
		return err
	}
	o.folder = fullSize()
	if o.quick {
		o.rounds, o.warmUp, o.time, o.folder = 3, 0, "10ms", quickSize()
	}
	o.confined, o.ledger, o.logged, o.packs = fullConfined(o.rounds), fullLedger(o.rounds), fullLogged(o.rounds), fullPacks(o.rounds)
	o.calls, o.agents, o.work, o.suite, o.compare, o.remote = fullTools(o.rounds), fullAgents(o.rounds), fullWork(o.rounds), fullSuite(o.rounds), fullCompare(o.rounds), fullRemote(o.rounds)
	o.server = fullServer(o.rounds)
	if o.quick {
		o.server = quickServer()
		o.calls, o.agents, o.work, o.suite, o.compare, o.remote = quickTools(), quickAgents(), quickWork(), quickSuite(), quickCompare(), quickRemote()
		o.confined, o.ledger, o.logged, o.packs = quickConfined(), quickLedger(), quickLogged(), quickPacks()
	}
	if known := []string{onlySandbox, onlyLedger, onlySafeRun, onlyPacks, onlyTools, onlyAgents, onlyWork, onlySuite, onlyCompare, onlyRemote, onlyServer, onlyWorst, onlyDecide}; o.only != "" && !slices.Contains(known, o.only) {
		return fmt.Errorf("-only knows %s, and not %q", strings.Join(known, ", "), o.only)
	}
	if o.rounds < 1 || o.warmUp < 0 {
		return fmt.Errorf("%d rounds after %d cannot be timed", o.rounds, o.warmUp)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("peak memory is read as Linux gives it; %s is not supported", runtime.GOOS)
	}
	testing.Init()
	if err := flag.Set("test.benchtime", o.time); err != nil {
		return fmt.Errorf("benchtime %q cannot be used", o.time)
	}
	return measure(ctx, o, log)
}

// measure does everything: tools, agreement, processes, benchmarks, report.
func measure(ctx context.Context, o options, log io.Writer) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("bwrap"); err != nil && (o.only == "" || o.only == onlySandbox) {
		return fmt.Errorf("bubblewrap, which the sandbox is held against: %w", err)
	}
	dir, err := os.MkdirTemp("", "fiador-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.only != "" && o.only != onlyDecide {
		return measurePart(ctx, o, root, dir, log)
	}
	r := report{rounds: o.rounds, quick: o.quick, machine: thisMachine()}
	t, err := r.deciding(ctx, root, dir, o, log)
	if err != nil {
		return err
	}
	if o.only == onlyDecide {
		return r.writePart(r.decisionsPart(), root, o, replaceBegin)
	}
	if err := r.confined(ctx, t, dir, o.confined, log); err != nil {
		return err
	}
	if err := r.ledgered(ctx, root, t, dir, o.ledger, log); err != nil {
		return err
	}
	if err := r.safeRun(ctx, root, t, dir, o.logged, log); err != nil {
		return err
	}
	if err := r.packing(ctx, t, dir, o.packs, log); err != nil {
		return err
	}
	if err := r.calls(ctx, root, t, dir, o.calls, log); err != nil {
		return err
	}
	if err := r.agents(ctx, t, dir, o.agents, log); err != nil {
		return err
	}
	if err := r.work(ctx, t, dir, o.work, log); err != nil {
		return err
	}
	if err := r.suite(ctx, t, dir, o.suite, log); err != nil {
		return err
	}
	if err := r.compare(ctx, t, dir, o.compare, log); err != nil {
		return err
	}
	if err := r.remote(ctx, root, t, dir, o.remote, log); err != nil {
		return err
	}
	if err := r.ledgerServer(ctx, root, t, dir, o.server, log); err != nil {
		return err
	}
	if err := r.worst(ctx, t, dir, log); err != nil {
		return err
	}
	if o.out == "" && o.quick {
		_, err := os.Stdout.Write(r.markdown())
		return err
	}
	if o.out == "" {
		o.out = filepath.Join(root, "bench", "RESULTS.md")
	}
	return os.WriteFile(o.out, r.markdown(), 0o644)
}

// deciding measures decisions: whole processes, a folder of intents, and inside one process.
func (r *report) deciding(ctx context.Context, root, dir string, o options, log io.Writer) (tools, error) {
	fmt.Fprintln(log, "building the tools")
	t, err := buildTools(ctx, root, dir)
	if err != nil {
		return t, err
	}
	r.tools = t
	s, err := newScene(dir)
	if err != nil {
		return t, err
	}
	fmt.Fprintln(log, "checking that all three decide alike")
	if err := s.agree(ctx, t); err != nil {
		return t, err
	}
	fmt.Fprintln(log, "timing whole processes")
	if err := r.processes(ctx, t, s, o); err != nil {
		return t, err
	}
	fmt.Fprintln(log, "timing a folder of intents")
	if err := r.folders(ctx, t, s, o.folder); err != nil {
		return t, err
	}
	fmt.Fprintln(log, "timing inside one process")
	return t, r.inside(s)
}

// measurePart measures one part, and puts its section into the results.
func measurePart(ctx context.Context, o options, root, dir string, log io.Writer) error {
	fmt.Fprintln(log, "building the tools")
	t, err := buildOwn(ctx, root, dir)
	if err != nil {
		return err
	}
	r := report{quick: o.quick, machine: thisMachine(), tools: t}
	var section []byte
	switch o.only {
	case onlySandbox:
		if err := r.confined(ctx, t, dir, o.confined, log); err != nil {
			return err
		}
		section = r.sandboxed.markdown(r.machine, o.quick)
	case onlyLedger:
		if err := r.ledgered(ctx, root, t, dir, o.ledger, log); err != nil {
			return err
		}
		section = r.recorded.markdown(r.machine, o.quick)
	case onlySafeRun:
		if err := r.safeRun(ctx, root, t, dir, o.logged, log); err != nil {
			return err
		}
		section = r.logged.markdown(r.machine, o.quick)
	case onlyPacks:
		if err := r.packing(ctx, t, dir, o.packs, log); err != nil {
			return err
		}
		section = r.packed.markdown(r.machine, o.quick)
	case onlyTools:
		if err := r.calls(ctx, root, t, dir, o.calls, log); err != nil {
			return err
		}
		section = r.called.markdown(r.machine, o.quick)
	case onlyAgents:
		if err := r.agents(ctx, t, dir, o.agents, log); err != nil {
			return err
		}
		section = r.agented.markdown(r.machine, o.quick)
	case onlyWork:
		if err := r.work(ctx, t, dir, o.work, log); err != nil {
			return err
		}
		section = r.worked.markdown(r.machine, o.quick)
	case onlySuite:
		if err := r.suite(ctx, t, dir, o.suite, log); err != nil {
			return err
		}
		section = r.suited.markdown(r.machine, o.quick)
	case onlyCompare:
		if err := r.compare(ctx, t, dir, o.compare, log); err != nil {
			return err
		}
		section = r.judged.markdown(r.machine, o.quick)
	case onlyRemote:
		if err := r.remote(ctx, root, t, dir, o.remote, log); err != nil {
			return err
		}
		section = r.remoted.markdown(r.machine, o.quick)
	case onlyServer:
		if err := r.ledgerServer(ctx, root, t, dir, o.server, log); err != nil {
			return err
		}
		section = r.served.markdown(r.machine, o.quick)
	case onlyWorst:
		if err := r.worst(ctx, t, dir, log); err != nil {
			return err
		}
		section = r.slow.markdown()
	}
	return r.writePart(section, root, o, replaceSection)
}

// writePart writes a part to where the options say. Function replace puts it into the results.
func (r *report) writePart(part []byte, root string, o options, replace func(text, part []byte) []byte) error {
	switch {
	case o.out != "":
		return os.WriteFile(o.out, part, 0o644)
	case o.quick:
		_, err := os.Stdout.Write(part)
		return err
	}
	name := filepath.Join(root, "bench", "RESULTS.md")
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(name, replace(old, part), 0o644)
}

// replaceBegin puts a part in the place of everything before the section on the sandbox.
func replaceBegin(text, part []byte) []byte {
	_, rest, _ := bytes.Cut(text, []byte("\n"+sandboxHeading+"\n"))
	return slices.Concat(part, []byte("\n"+sandboxHeading+"\n"), rest)
}

// replaceSection puts a section, which begins with its heading, in the place of the
// one that has the same heading, or at the end.
func replaceSection(text, section []byte) []byte {
	all, own := string(text), string(section)
	heading, _, _ := strings.Cut(own, "\n")
	begin := strings.Index(all, "\n"+heading+"\n")
	if begin < 0 {
		return []byte(strings.TrimRight(all, "\n") + "\n\n" + own)
	}
	begin++
	after := ""
	if n := strings.Index(all[begin+len(heading):], "\n## "); n >= 0 {
		after = all[begin+len(heading)+n:]
	}
	return []byte(all[:begin] + own + after)
}

// tools are the programs that are run, by their paths.
type tools struct {
	fiador, opa, conftest           string
	empty, evaluator, launch, bench string
	asker                           string
	conftestOPA                     string // version of OPA inside conftest
}

// moduleRoot returns the folder of Fiador's module. The benchmark is a module of its own,
// and stands in the folder bench of it.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	file := string(bytes.TrimSpace(out))
	if err != nil || !strings.HasSuffix(filepath.ToSlash(file), "/bench/go.mod") {
		return "", errors.New("run the benchmark inside its module, the folder bench")
	}
	return filepath.Dir(filepath.Dir(file)), nil
}

// buildOwn builds Fiador, this program and the small ones into dir.
func buildOwn(ctx context.Context, root, dir string) (tools, error) {
	var t tools
	own := filepath.Join(root, "bench")
	for _, b := range []struct {
		path     *string
		name     string
		from, at string
	}{
		{&t.fiador, "fiador", root, "./cmd/fiador"},
		{&t.empty, "empty", own, "./testdata/empty"},
		{&t.evaluator, "evaluator", own, "./testdata/evaluator"},
		{&t.launch, "launch", own, "./testdata/launch"},
		{&t.asker, "asker", own, "./testdata/asker"},
		{&t.bench, "bench", own, "."},
	} {
		*b.path = filepath.Join(dir, b.name)
		if err := goTool(ctx, b.from, "", "build", "-trimpath", "-o", *b.path, b.at); err != nil {
			return t, err
		}
	}
	return t, nil
}

// buildTools builds what buildOwn does, and the pinned tools into bench/bin unless
// they are there already.
func buildTools(ctx context.Context, root, dir string) (tools, error) {
	t, err := buildOwn(ctx, root, dir)
	if err != nil {
		return t, err
	}
	if t.opa, t.conftest, err = installOthers(ctx, root); err != nil {
		return t, err
	}
	info, err := buildinfo.ReadFile(t.conftest)
	if err != nil {
		return t, err
	}
	for _, dep := range info.Deps {
		if dep.Path == opaPath {
			t.conftestOPA = dep.Version
		}
	}
	return t, nil
}

// installOthers installs opa and conftest into bench/bin, and returns their files.
func installOthers(ctx context.Context, root string) (opa, conftest string, err error) {
	bin := filepath.Join(root, "bench", "bin")
	opa, conftest = filepath.Join(bin, "opa"), filepath.Join(bin, "conftest")
	if err := install(ctx, root, opa, opaPath, opaVersion); err != nil {
		return "", "", err
	}
	return opa, conftest, install(ctx, root, conftest, conftestPath, conftestVer)
}

// install builds a tool from the module proxy with the Go release that builds
// Fiador, outside the module's own requirements.
func install(ctx context.Context, root, file, module, version string) error {
	info, err := buildinfo.ReadFile(file)
	if err == nil && info.Main.Path == module && info.Main.Version == version && info.GoVersion == runtime.Version() && static(info) {
		return nil
	}
	return goTool(ctx, root, filepath.Dir(file), "install", "-trimpath", module+"@"+version)
}

// static says whether a program was built without cgo, as Fiador is.
func static(info *buildinfo.BuildInfo) bool {
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" {
			return s.Value == "0"
		}
	}
	return false
}

func goTool(ctx context.Context, root, gobin string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if gobin != "" {
		cmd.Env = append(cmd.Env, "GOBIN="+gobin)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return nil
}
