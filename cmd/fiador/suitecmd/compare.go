package suitecmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/decisions"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/suite/compare"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	policies.GateFlags
	policies.ToolFlags
	ledgers.RecordFlags
	decisions.ReportFlags
	baseline, new, keys            []string
	runID, cases, out              string
	sign                           string
	limits                         grade.Limits
	flaky                          int
	passRate, weakRate             float64
	key                            *ledger.Signer // of sign
	document                       string         // name of the document of the cases
	lines                          map[string]int // of the cases in the document; nil: not known
	reportOnly, record, withPolicy bool
}

// Compare returns the command that compares two sides and decides about new.
func Compare(a *cli.App) *cobra.Command {
	f := compareFlags{limits: grade.DefaultLimits()}
	cmd := &cobra.Command{
		Use:   "compare [ROOT]",
		Short: "compare new with baseline, case by case, and decide whether new may pass",
		Long: `Compare judges the runs of both sides by what the cases expect. For each case it says
how new differs from baseline. It ends with a decision and its reasons. ROOT is the
folder of suite run --out, which has baseline and new. Instead of ROOT, --baseline and
--new name version directories, or folders with the repeats of one run. Without a
baseline every case is added. Every directory is verified first, and nothing in it
changes.

The folder --out gets report.html, a page to read, and compare-report.json. The version
directories beneath it get evaluation.json. Standard output has compare-report.json too;
a terminal has the form human in its place.

With --policy, everything that an agent proposed or called is decided as fiador check
decides it. A gate rejects new if it did what the policy does not allow.

Exit codes:
  0  the gate passed
  1  new is rejected; with --report-only 0
  2  no decision: too few answers, or a directory, the cases or the policy cannot be used`,
		Example: `  fiador suite compare runs
  fiador suite compare --baseline baselines/main --new runs/new/nightly --policy strict
  fiador suite compare runs --format human --report junit=suite.xml --report markdown=summary.md`,
		Args: cli.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := func(name string) bool { return cmd.Flags().Changed(name) }
			f.withPolicy = given("policy") || given("org-policy")
			f.Choose(cmd, a)
			if given("out") {
				if err := folders("--out", f.out); err != nil {
					return err
				}
			}
			if given("max-flaky") {
				f.limits.MaxFlaky = &f.flaky
			}
			if given("min-pass-rate") {
				f.limits.MinPassRate = &f.passRate
			}
			if given("max-weak-rate") {
				f.limits.MaxWeakRate = &f.weakRate
			}
			return f.run(cmd.Context(), a, args)
		},
	}
	f.GateFlags.Register(cmd)
	f.ToolFlags.Register(cmd)
	f.RecordFlags.Register(cmd)
	f.ReportFlags.Register(cmd, report.ComparisonFormats())
	flags := cmd.Flags()
	flags.StringArrayVar(&f.baseline, "baseline", nil, "`DIR` of a run of baseline, instead of ROOT; may be repeated")
	flags.StringArrayVar(&f.new, "new", nil, "`DIR` of a run of new, instead of ROOT; may be repeated")
	flags.StringVar(&f.runID, "run-id", "", "which run of ROOT, if there are several")
	flags.StringVar(&f.cases, "cases", "", "`FILE` with the cases (default: the copy of the run, if all runs had the same)")
	flags.StringVar(&f.out, "out", "", "`FOLDER` of the report (default: ROOT, else the folder that all directories lie in)")
	flags.IntVar(&f.limits.MaxRegressions, "max-regressions", 0, "regressions that are allowed")
	flags.IntVar(&f.limits.MaxInfra, "max-infra", 0, "cases without an answer on new that are allowed")
	flags.IntVar(&f.flaky, "max-flaky", 0, "flaky cases on new that are allowed (default: any)")
	flags.Float64Var(&f.passRate, "min-pass-rate", 0, "least share of cases that pass on new, 0 to 1")
	flags.Float64Var(&f.weakRate, "max-weak-rate", 0, "greatest share of cases on new that expect nothing, 0 to 1")
	flags.BoolVar(&f.limits.AllowRemoved, "allow-removed", false, "allow cases that baseline has and new has not")
	flags.Float64Var(&f.limits.Alpha, "alpha", f.limits.Alpha, "level of the tests between repeats, 0 to 0.5")
	flags.Float64Var(&f.limits.MinAnswers, "min-answers", f.limits.MinAnswers, "least share of runs with an answer on each side, 0 to 1")
	flags.BoolVar(&f.reportOnly, "report-only", false, "let a rejection pass: exit code 1 becomes 0, and the report says rejected all the same")
	flags.StringArrayVar(&f.keys, "key", nil, "verifier key, or a file with it, of which one must have signed each directory; may be repeated")
	flags.StringVar(&f.sign, "sign", "", "`FILE` with the private key that signs the comparison (fiador pack keygen makes one)")
	flags.BoolVar(&f.record, "record", false, "record the decisions of --policy; a ledger must be named")
	return cmd
}

// run compares, writes and prints.
func (f *compareFlags) run(ctx context.Context, a *cli.App, args []string) error {
	if err := f.check(a, args); err != nil {
		return err
	}
	debug.SetGCPercent(cli.UsualGC) // all runs of both sides are kept
	a.Busy.Enter()
	defer a.Busy.LeaveSoon(ctx)
	c, p, err := f.compare(ctx, a, args)
	if err != nil {
		return err
	}
	defer p.Close()
	return f.write(a, c, p)
}

// compare loads both sides and compares them. The caller closes the plan.
func (f *compareFlags) compare(ctx context.Context, a *cli.App, args []string) (_ *compare.Compared, _ *compare.Plan, err error) {
	p := &compare.Plan{Limits: f.limits, ReportOnly: f.reportOnly, Schema: specs.Holds, Program: kernel.Version}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.At, err = evaluatedAt(a); err != nil {
		return nil, p, err
	}
	if err := f.load(a, args, p); err != nil {
		return nil, p, err
	}
	if err := f.readCases(ctx, a, p); err != nil {
		return nil, p, err
	}
	if f.sign != "" {
		if err := p.Signable(); err != nil {
			return nil, p, err
		}
		if f.key, err = signingKey(f.out, f.sign); err != nil {
			return nil, p, err
		}
	}
	done, err := f.policy(ctx, a, p)
	defer done()
	if err != nil {
		return nil, nil, err
	}
	c, err := p.Compare(ctx)
	return c, p, err
}

// folders refuses what names no folder: an empty path, and "-", which is standard input elsewhere.
func folders(what string, paths ...string) error {
	for _, path := range paths {
		if path == "" || path == "-" {
			return cli.Usage("name a folder; ./- is one with the name -", "%s %q is no folder", what, path)
		}
	}
	return nil
}

// check refuses flags that do not go together, before anything is read.
func (f *compareFlags) check(a *cli.App, args []string) error {
	if err := cmp.Or(folders("ROOT", args...), folders("--baseline", f.baseline...), folders("--new", f.new...)); err != nil {
		return err
	}
	if f.runID != "" && len(args) == 0 {
		return cli.Unfit("name the folder of suite run --out as ROOT, or leave out --run-id", "--run-id picks a run of ROOT")
	}
	if len(args) > 0 && len(f.baseline)+len(f.new) > 0 {
		return cli.Unfit("name either ROOT or the directories", "ROOT does not go with --baseline and --new")
	}
	if len(args) == 0 && len(f.new) == 0 {
		return cli.Usage("name the folder of suite run --out, or a version directory with --new", "which run?")
	}
	for _, m := range []struct {
		name        string
		value, most float64
	}{
		{"min-pass-rate", f.passRate, 1}, {"max-weak-rate", f.weakRate, 1}, {"alpha", f.limits.Alpha, 0.5}, {"min-answers", f.limits.MinAnswers, 1},
	} {
		if !(m.value >= 0 && m.value <= m.most) {
			return cli.Usage(fmt.Sprintf("give a number from 0 to %v", m.most), "--%s %v", m.name, m.value)
		}
	}
	for _, m := range []struct {
		name  string
		value int
	}{{"max-regressions", f.limits.MaxRegressions}, {"max-infra", f.limits.MaxInfra}, {"max-flaky", f.flaky}} {
		if m.value < 0 {
			return cli.Usage("give a number from 0 on", "--%s %d", m.name, m.value)
		}
	}
	if (f.Tools != "" || f.record) && !f.withPolicy {
		return cli.Unfit("name the policy with --policy", "--tools and --record need a policy that decides")
	}
	if f.record {
		if _, err := ledgers.Dir(a, f.Dir); err != nil {
			return err
		}
	}
	if err := f.ReportFlags.Check(); err != nil {
		return err
	}
	return a.CheckPlaces(f.places(a))
}

// places lists the files and folders that the command line names, with the roles that exclude
// each other.
func (f *compareFlags) places(a *cli.App) (p cli.Places) {
	p.Add(cli.Needed, "--cases", "cases", f.cases)
	p.Add(cli.Secret, "--sign", "key", f.sign)
	f.ReportFlags.Places(&p)
	if f.withPolicy {
		p.Add(cli.Needed, "--policy", "policy", policies.ProfileFiles(f.Policy)...)
		p.Add(cli.Guarded, "--tree", "tree", f.Tree)
		f.ToolFlags.Places(&p)
	}
	if f.record {
		ledgers.RecordPlaces(a, f.RecordFlags, &p)
	}
	return p
}

// evaluatedAt returns the time of the comparison: SOURCE_DATE_EPOCH, or now.
func evaluatedAt(a *cli.App) (string, error) {
	at := a.Now()
	if given := a.Env("SOURCE_DATE_EPOCH"); given != "" {
		seconds, err := strconv.ParseInt(given, 10, 64)
		if err != nil || seconds < 0 || seconds > 253402300799 {
			return "", cli.Usage("set it to seconds since 1970, or unset it", "SOURCE_DATE_EPOCH %q", canon.Cut(canon.Clean(given)))
		}
		at = time.Unix(seconds, 0)
	}
	return at.UTC().Format(time.RFC3339), nil
}

// load reads the directories of both sides.
func (f *compareFlags) load(a *cli.App, args []string, p *compare.Plan) error {
	keys, err := verifiers(f.keys)
	if err != nil {
		return err
	}
	rules, err := redact.New(redact.Config{SchemaVersion: redact.Version})
	if err != nil {
		return err
	}
	var all []string
	for _, s := range []struct {
		side  trial.Side
		given []string
		to    *[]*compare.Version
	}{{trial.Baseline, f.baseline, &p.Baseline}, {trial.New, f.new, &p.New}} {
		var dirs []string
		if len(args) > 0 {
			dirs, err = compare.Root(args[0], s.side, f.runID)
		}
		for _, path := range s.given {
			if err == nil {
				var more []string
				more, err = compare.Expand(path)
				dirs = append(dirs, more...)
			}
		}
		for _, dir := range dirs {
			if err == nil {
				var v *compare.Version
				if v, err = compare.Load(dir, keys, rules); err == nil {
					*s.to = append(*s.to, v)
				}
			}
		}
		if err != nil {
			return err
		}
		all = append(all, dirs...)
	}
	switch {
	case f.out != "":
	case len(args) > 0:
		f.out = args[0]
	default:
		f.out, err = common(all)
	}
	if err == nil {
		err = f.apart(slices.Concat(p.Baseline, p.New))
	}
	if err != nil {
		return err
	}
	if p.Out, err = compare.Resolved(f.out); err != nil {
		return runerr.Unreadable(screen.Folder(f.out), runerr.Reason(err), "name another folder with --out")
	}
	return nil
}

// apart checks --run-id, and the places that are written against each other: no run changes, and
// no report replaces another file of the comparison.
func (f *compareFlags) apart(runs []*compare.Version) error {
	if len(runs) == 0 {
		return nil // which is an error of its own
	}
	picked := func(v *compare.Version) bool { return v.RunID == f.runID || v.Group == f.runID }
	if f.runID != "" && !slices.ContainsFunc(runs, picked) {
		return cli.Usage("name a run of ROOT with --run-id, or leave it out", "ROOT has no run %s", canon.Quote(f.runID))
	}
	unfit := func(what, path, why string) error {
		return cli.Unfit("name a place of its own", "%s %s: %s", what, screen.Plain(screen.Path(path)), why)
	}
	inRun := func(what, path string) error {
		for _, v := range runs {
			if _, in := compare.Within(v.Path, path); in {
				return unfit(what, path, "it lies in the run "+v.RunID+", which does not change")
			}
		}
		return nil
	}
	if _, err := os.Lstat(filepath.Join(f.out, trial.RunFile)); err == nil {
		return unfit("--out", f.out, "it is a run, which does not change")
	}
	if err := inRun("--out", f.out); err != nil {
		return err
	}
	taken := []string{filepath.Join(f.out, suitedir.CompareFile), filepath.Join(f.out, suitedir.PageFile), filepath.Join(f.out, trial.SignatureFile)}
	return f.Each(func(_, path string) error {
		for _, other := range taken {
			if at, in := compare.Within(other, path); in && at == "." {
				return unfit("--report", path, "it is another file of the comparison")
			}
		}
		taken = append(taken, path)
		return inRun("--report", path)
	})
}

// common returns the nearest folder that all directories lie in.
func common(dirs []string) (string, error) {
	var shared []string
	for i, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		parts := strings.Split(filepath.Dir(abs), string(filepath.Separator))
		if i == 0 {
			shared = parts
		}
		n := 0
		for n < min(len(shared), len(parts)) && shared[n] == parts[n] {
			n++
		}
		shared = shared[:n]
	}
	if len(shared) < 2 {
		return "", cli.Usage("name a folder with --out", "the directories lie in no folder together")
	}
	return strings.Join(shared, string(filepath.Separator)), nil
}

// readCases reads the cases.
func (f *compareFlags) readCases(ctx context.Context, a *cli.App, p *compare.Plan) (err error) {
	var text []byte
	if f.cases != "" {
		file, err := readCases(ctx, a, f.cases)
		if err != nil {
			return err
		}
		p.Cases, p.CasesSHA256 = file.Cases, canon.Sum(file.text)
		f.document, f.lines = screen.Path(f.cases), file.lines()
		return nil
	}
	if text, err = compare.CasesOf(slices.Concat(p.New, p.Baseline)); err != nil {
		return err
	}
	p.CasesSHA256 = canon.Sum(text)
	value, err := canon.ParseLiteral(text, len(text), 1<<30)
	if faults, _ := specs.Walk(specs.KindSuiteCases, value, 1); err == nil && len(faults) > 0 { // a misspelt expectation is none
		err = errors.New(faults[0].Pointer + ": " + faults[0].Msg)
	}
	if err == nil {
		p.Cases, err = trial.ReadCases(value)
	}
	if err != nil {
		return runerr.New(result.CodeEvidence, "the copy of the cases cannot be used: "+runerr.Reason(err), "name the cases with --cases")
	}
	f.document = p.New[0].CasesPath()
	return nil
}

// policy opens the policy and the ledger, if they are named.
func (f *compareFlags) policy(ctx context.Context, a *cli.App, p *compare.Plan) (done func(), err error) {
	done = func() {}
	if !f.withPolicy {
		return done, nil
	}
	sources, err := policies.Gating(a, f.GateFlags)
	if err != nil {
		return done, err
	}
	p.Deps = harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}
	if f.record {
		log, err := ledgers.OpenLog(ctx, a, f.RecordFlags)
		if err != nil {
			return done, err
		}
		done = func() { _ = log.Close() }
		p.Deps.Recorder = ledgers.Recorder(a, log)
	}
	if p.Gate, err = harness.OpenGate(ctx, sources, a.Specs, policy.DefaultLimits()); err != nil {
		return done, err
	}
	return done, f.Use(a, p.Gate)
}

// write writes the documents and the reports, and prints.
func (f *compareFlags) write(a *cli.App, c *compare.Compared, p *compare.Plan) error {
	w, err := c.Write(p.Out)
	if err != nil {
		return err
	}
	for _, dir := range w.ReadOnly {
		a.Term.Warning(screen.Folder(dir) + " can only be read; it gets no evaluation.json")
	}
	if v := compare.OtherCases(slices.Concat(p.New, p.Baseline)); v != nil {
		a.Term.Warning(screen.Folder(v.Path) + ": the run had other cases than the others, and perhaps other inputs; --cases judges all of them")
	}
	for _, side := range [][]*compare.Version{p.Baseline, p.New} {
		if len(side) > 0 && len(side) < side[0].Of { // deleting a failed repeat breaks no seal
			a.Term.Warning(screen.Plain(fmt.Sprintf("%s: %d of the %d repeats of %s are compared", side[0].Side, len(side), side[0].Of, side[0].Group)))
		}
	}
	view := report.Comparison{Comparison: c.Comparison, Document: w.Text, Cases: f.document, Line: func(id string) int { return f.lines[id] }, Why: c.Why}
	err = f.Each(func(format, name string) error {
		var text bytes.Buffer
		if err := view.Write(&text, format, report.Options{}); err != nil {
			return err
		}
		if err := cli.WriteFile(name, text.Bytes(), a.Guarded); err != nil {
			return err
		}
		if at, ok := compare.Within(p.Out, name); ok {
			w.Subjects = append(w.Subjects, suitedir.NewSubject(filepath.ToSlash(at), canon.Sum(text.Bytes())))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if f.key != nil {
		if err := c.Sign(p.Out, p.CasesSHA256, w.Subjects, f.key); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := view.Write(&text, f.Format, report.Options{Color: a.Page.Color}); err != nil {
		return err
	}
	if err := f.Put(a, text.Bytes()); err != nil {
		return err
	}
	if f.Format != "human" {
		a.Term.Message(screen.Plain(view.Headline()))
	}
	a.Term.Message("the page: " + screen.Plain(filepath.Join(f.out, suitedir.PageFile)))
	if f.reportOnly && c.Gate.Status == grade.GateFail {
		a.Term.Warning("REPORT ONLY: new is rejected, and that does not fail this run")
	}
	a.Status = c.Gate.ExitCode
	return nil
}
