package suitecmd

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/document"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/specs"
)

// runFlags are the flags of run.
type runFlags struct {
	policies.GateFlags
	agents                map[trial.Side]*string
	out, id, redact       string
	only, tags            []string
	headers, provenance   []string
	evidence, resume      string
	timeout               time.Duration
	repeats, retries      int
	concurrency, maxBody  int
	strict, fail, preview bool
	sign                  string
	remote                remotes.Flags
}

// Run returns the command that runs the cases of a suite.
func Run(a *cli.App) *cobra.Command {
	f := runFlags{agents: map[trial.Side]*string{trial.Baseline: new(string), trial.New: new(string)}}
	cmd := &cobra.Command{
		Use:   "run CASES",
		Short: "ask an agent every case of a suite, and keep what it did",
		Long: `Run asks an agent every case, and keeps an artifact for each, whatever the agent does.
The artifact has the answer, or the class of the failure with the body that came. CASES
is a list of cases in JSON or YAML, or - for standard input.

AGENT is http://HOST:PORT or https://HOST: run sends POST /run-case with the case, and
nothing else. Answers go to OUT/new/RUN_ID, and those of --baseline to
OUT/baseline/RUN_ID: run.json, a file for each case, and what is larger in assets.
Secrets are redacted before anything is written. The last line of a directory is the
seal in run.json: the hashes of all its files.

After a failure to connect, and after the statuses 429 and 503, run tries again
(--retries). If the metadata of a case says idempotent, run also tries again after a
timeout, a lost connection and 5xx.

Run prints run.json of each directory as one line.

Exit codes:
  0  every selected case has its artifact
  1  with --fail-on-error: a case has no answer
  2  no answer: wrong usage, the cases cannot be read, nothing can be written, or
     interrupted; --resume goes on`,
		Example: `  fiador suite run cases.json --new http://127.0.0.1:8787
  fiador suite run cases.yaml --baseline http://127.0.0.1:8786 --new http://127.0.0.1:8787 --repeats 5
  fiador suite run cases.json --new http://127.0.0.1:8787 --run-id nightly --resume`,
		Args: cli.ExactArgs("CASES"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), a, args[0]) },
	}
	f.GateFlags.Register(cmd)
	f.remote.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(f.agents[trial.New], "new", "", "the `AGENT` that is tested")
	flags.StringVar(f.agents[trial.Baseline], "baseline", "", "the `AGENT` that it is compared with")
	flags.StringVar(&f.out, "out", "runs", "folder of the runs")
	flags.StringVar(&f.id, "run-id", "", "name of the run's folder (default: time and random bits)")
	flags.StringSliceVar(&f.only, "only", nil, "ids of cases to run, separated by commas (default: all)")
	flags.StringSliceVar(&f.tags, "tag", nil, "cases with one of these tags in their metadata")
	flags.IntVar(&f.repeats, "repeats", 1, "how often every case runs, 1 to 99")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "time of one attempt, from the connection to the last byte")
	flags.IntVar(&f.retries, "retries", 1, "how often a failed attempt is made again, 0 to 10")
	flags.IntVar(&f.concurrency, "concurrency", 4, "how many cases run at once, 1 to 256")
	flags.IntVar(&f.maxBody, "max-body-bytes", trial.DefaultLimits().MaxBodyBytes, "largest answer, at most 33554432 bytes")
	flags.StringVar(&f.redact, "redact", "", "`FILE` with further secrets to redact (redact.v1)")
	flags.StringArrayVar(&f.headers, "header", nil, "header of every request, `NAME=VARIABLE`: its value is in the environment; may be repeated")
	flags.StringArrayVar(&f.provenance, "provenance", nil, "what is known of the agent, `KEY=VALUE`, for run.json; may be repeated")
	flags.StringVar(&f.evidence, "evidence", "fail", "what a reference to evidence that leads nowhere is: fail or warn")
	flags.BoolVar(&f.strict, "strict-agent", false, "repair nothing in an answer")
	flags.BoolVar(&f.preview, "preflight", false, "ask GET /health of each agent first")
	flags.StringVar(&f.resume, "resume", "", "go on with the run of --run-id: cases without a file run; errors: those without an answer too")
	flags.Lookup("resume").NoOptDefVal = string(suite.Missing)
	flags.StringVar(&f.sign, "sign", "", "`FILE` with the private key that signs run.json of each directory (fiador pack keygen makes one)")
	flags.BoolVar(&f.fail, "fail-on-error", false, "exit with 1 if a case has no answer")
	complete(cmd, a, "only", func(c trial.Case) []string { return []string{c.ID} })
	complete(cmd, a, "tag", func(c trial.Case) []string { return c.Tags })
	return cmd
}

// complete makes a shell complete a flag, a list, with what the cases of the first argument have.
func complete(cmd *cobra.Command, a *cli.App, flag string, of func(trial.Case) []string) {
	values := func(cmd *cobra.Command, args []string, begun string) (list []string, _ cobra.ShellCompDirective) {
		if len(args) == 0 || args[0] == "-" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		file, _ := readCases(cmd.Context(), a, args[0]) // a shell that completes shows no errors
		before := begun[:strings.LastIndexByte(begun, ',')+1]
		for _, c := range file.Cases {
			for _, value := range of(c) {
				list = append(list, before+value)
			}
		}
		slices.Sort(list)
		return slices.Compact(list), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

var casesForm = document.Form{
	Name: "a case file", Schema: specs.KindSuiteCases, MaxBytes: 64 << 20, Invalid: result.CodeNotIntent, TooLarge: "split the suite",
}

var redactForm = document.Form{
	Name: "a list of secrets", Schema: specs.KindSuiteRedact, MaxBytes: 1 << 20, Invalid: result.CodeProfile, TooLarge: "list fewer secrets",
}

var redactDecoder canon.Decoder[redact.Config]

// run runs the suite.
func (f *runFlags) run(ctx context.Context, a *cli.App, name string) error {
	from := &agents{App: a, GateFlags: f.GateFlags, remote: f.remote}
	defer from.close(ctx)
	p, err := f.plan(ctx, a, name, from)
	if err != nil {
		return err
	}
	if f.remote.Given() && from.host == nil {
		return cli.Unfit("name an agent as exec:FILE, or leave it out", "--remote belongs to agents that are commands")
	}
	if f.preview {
		if err := p.Places(); err != nil {
			return err
		}
		if err := preflight(ctx, p); err != nil {
			return err
		}
	}
	progress := cli.NewProgress(a, 0)
	p.Progress = func(e suite.Ended) {
		progress.Show(fmt.Sprintf("%d cases left", e.Left))
		if e.Class != "" && ctx.Err() == nil {
			progress.Clear()
			a.Term.Message(screen.Plain(strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", e.Side, e.CaseID, e.Class, e.ErrorName))))
			a.RejectIf(f.fail)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(f.memory()))
	a.Busy.Enter()
	defer a.Busy.LeaveSoon(ctx)
	defer context.AfterFunc(ctx, endAtOnce)()
	list, err := p.Run(ctx)
	progress.Clear()
	if err != nil {
		return err
	}
	for _, run := range list {
		if err := a.Print(run.Text); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return runerr.New(result.CodeEvidence, "the run was interrupted; every case has its file", "go on with --run-id "+p.RunID+" --resume")
	}
	return nil
}

// endAtOnce makes the next signal end the process, as it ends a process that heeds no signals.
func endAtOnce() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Reset(s)
		}
	}
}

// memory is the size of the heap from which on garbage is collected at once: three quarters of
// what a run may need, which is twice the largest body for every case at once, on both sides.
func (f *runFlags) memory() int64 {
	const base, head = 128 << 20, 64 << 10
	return (2*2*int64(f.concurrency)*int64(f.maxBody+head) + base) / 4 * 3
}

// plan makes the plan of the run.
func (f *runFlags) plan(ctx context.Context, a *cli.App, name string, from *agents) (suite.Plan, error) {
	p := suite.Plan{
		Out: f.out, OutPath: suite.PathInRun(f.out), CasesPath: suite.PathInRun(name), RunID: f.id,
		Repeats: f.repeats, Retries: f.retries, Concurrency: f.concurrency, Timeout: f.timeout, Limits: trial.DefaultLimits(),
		Strict: f.strict, WarnEvidence: f.evidence == "warn", Resume: suite.Resume(f.resume), Version: kernel.Version, Now: a.Now,
		Agents: map[trial.Side]suite.Agent{}, Provenance: map[string]string{},
	}
	p.Limits.MaxBodyBytes = f.maxBody
	if err := f.bounds(); err != nil {
		return p, err
	}
	var err error
	if err = f.cases(ctx, a, name, &p); err != nil {
		return p, err
	}
	header, secrets, err := headers(a, f.headers)
	if err != nil {
		return p, err
	}
	from.header = header
	for _, side := range []trial.Side{trial.Baseline, trial.New} {
		if given := *f.agents[side]; given != "" {
			if p.Agents[side], err = from.agent(ctx, string(side), given); err != nil {
				return p, err
			}
		}
	}
	if len(p.Agents) == 0 {
		return p, cli.Usage("name it with --new or --baseline", "which agent?")
	}
	if p.Rules, err = f.rules(ctx, a, append(secrets, from.secrets...)); err != nil {
		return p, err
	}
	if f.sign != "" {
		key, err := signingKey(f.out, f.sign)
		if err != nil {
			return p, err
		}
		p.Sign = func(run []byte) ([]byte, error) { return suitedir.Sign(run, key) }
	}
	for _, pair := range f.provenance {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || len(pair) > 1024 {
			return p, cli.Usage("write KEY=VALUE, of at most 1024 bytes", "--provenance %q", canon.Cut(canon.Clean(pair)))
		}
		p.Provenance[canon.Clean(key)] = canon.Clean(value)
	}
	if p.RunID == "" {
		if p.Resume != suite.Fresh {
			return p, cli.Usage("name it with --run-id", "which run is to go on?")
		}
		p.RunID, err = harness.NewRunID(a.Now(), a.Rand)
	}
	return p, err
}

// signingKey returns the private key of a file, which does not lie in the folder that is signed.
func signingKey(out, file string) (*ledger.Signer, error) {
	if err := ledgers.Outside(out, file, "run"); err != nil {
		return nil, err
	}
	key, err := ledgers.ReadKey(file)
	if err != nil {
		return nil, runerr.New(result.CodeUnreadable, err.Error(), `name a private key of "fiador pack keygen", in a file that only its owner can read`, runerr.File(screen.Path(file)), runerr.Because(err))
	}
	return key, nil
}

// bounds checks the numbers of the flags.
func (f *runFlags) bounds() error {
	for _, m := range []struct {
		name             string
		got, least, most int
	}{
		{"repeats", f.repeats, 1, suite.MaxRepeats}, {"retries", f.retries, 0, suite.MaxRetries}, {"concurrency", f.concurrency, 1, suite.MaxConcurrency},
		{"max-body-bytes", f.maxBody, 1, suite.MaxBody},
	} {
		if m.got < m.least || m.got > m.most {
			return cli.Usage(fmt.Sprintf("give a number from %d to %d", m.least, m.most), "--%s %d", m.name, m.got)
		}
	}
	if f.out == "" {
		return cli.Usage("name a folder", "--out is empty")
	}
	if f.id != "" && trial.IDFault(f.id+strings.Repeat("-r00", min(1, f.repeats-1))) != "" {
		return cli.Usage("1 to 124 letters, digits, '.', '_' or '-', the first a letter or digit, and no name of a device", "run id %q cannot be used", canon.Cut(canon.Clean(f.id)))
	}
	if f.timeout < time.Millisecond || f.timeout > 24*time.Hour {
		return cli.Usage("give a time from 1ms to 24h", "--timeout %s", f.timeout)
	}
	if err := cli.Choice("evidence", f.evidence, []string{"fail", "warn"}); err != nil {
		return err
	}
	return cli.Choice("resume", f.resume, []string{string(suite.Fresh), string(suite.Missing), string(suite.Errors)})
}

// caseFile is a document of cases.
type caseFile struct {
	trial.Cases
	text []byte // canonical, with a line feed
	read document.Text
}

// readCases reads a case file.
func readCases(ctx context.Context, a *cli.App, name string) (c caseFile, err error) {
	src, err := a.ReadUpTo(ctx, name, casesForm.MaxBytes, casesForm.TooLarge)
	if err != nil {
		return c, err
	}
	if c.read, err = document.Read(a.Specs, src.Path, src.Bytes, casesForm); err != nil {
		return c, err
	}
	c.Cases, err = trial.ReadCases(c.read.Doc.Value())
	if fault, ok := err.(*trial.CasesError); ok {
		return c, c.read.Invalid(fault.Pointer, fault.Msg, fault.Hint)
	}
	c.text = slices.Concat(c.read.Doc.Bytes(), []byte("\n"))
	return c, err
}

// lines returns the lines of the cases, by id.
func (c caseFile) lines() map[string]int {
	at := "/"
	if _, plain := c.read.Doc.Value().([]any); !plain {
		at = "/cases/"
	}
	pointers := make([]string, len(c.Cases))
	for i := range c.Cases {
		pointers[i] = at + strconv.Itoa(i)
	}
	lines := map[string]int{}
	for i, line := range c.read.Lines(pointers...) {
		lines[c.Cases[i].ID] = line
	}
	return lines
}

// cases reads the case file, and selects cases.
func (f *runFlags) cases(ctx context.Context, a *cli.App, name string, p *suite.Plan) error {
	file, err := readCases(ctx, a, name)
	if err != nil {
		return err
	}
	if p.Cases, err = file.Select(f.only, f.tags); err != nil {
		return cli.Usage("name cases of the file with --only and --tag", "%s", err)
	}
	p.CasesText = file.text
	return nil
}

// rules returns what is redacted: the values of headers, and what a file names.
func (f *runFlags) rules(ctx context.Context, a *cli.App, secrets []string) (*redact.Rules, error) {
	c := &redact.Config{SchemaVersion: redact.Version}
	if f.redact != "" {
		src, err := a.ReadUpTo(ctx, f.redact, redactForm.MaxBytes, redactForm.TooLarge)
		if err != nil {
			return nil, err
		}
		text, err := document.Read(a.Specs, src.Path, src.Bytes, redactForm)
		if err != nil {
			return nil, err
		}
		if c, err = redactDecoder.Decode(text.Doc.Value()); err != nil {
			return nil, text.Invalid("", err.Error(), "correct the list")
		}
	}
	rules, err := redact.New(*c, secrets...)
	if err != nil {
		return nil, cli.Usage("correct the list of --redact, or the value of a variable", "%s", err)
	}
	return rules, nil
}

// headers reads the values of headers from the environment.
func headers(a *cli.App, given []string) (h http.Header, secrets []string, err error) {
	h = http.Header{}
	for _, pair := range given {
		name, variable, ok := strings.Cut(pair, "=")
		if !ok || name == "" || variable == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return nil, nil, cli.Usage("write NAME=VARIABLE: the value is in the environment", "--header %q", canon.Cut(canon.Clean(pair)))
		}
		value := a.Env(variable)
		if value == "" || strings.ContainsAny(value, "\r\n\x00") {
			return nil, nil, cli.Usage("set the variable to one line", "--header %s: the variable %q has no value for a header", name, canon.Clean(variable))
		}
		h.Add(name, value)
		secrets = append(secrets, value)
	}
	return h, secrets, nil
}

// preflight asks every agent whether it is there.
func preflight(ctx context.Context, p suite.Plan) error {
	for _, side := range []trial.Side{trial.Baseline, trial.New} {
		h, ok := p.Agents[side].(suite.HTTP)
		if !ok {
			continue
		}
		if why := h.Health(ctx, p.Timeout); why != "" {
			return runerr.New(result.CodeUnreadable, "the agent of --"+string(side)+" is not ready: "+why, "start the agent, or leave --preflight out")
		}
	}
	return nil
}
