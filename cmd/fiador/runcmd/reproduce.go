package runcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/folders"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/cmd/fiador/cli/remotes"
	"github.com/fiador/fiador/cmd/fiador/cli/sandboxes"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/reproduce"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/secret"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// reproduceFlags are the flags of reproduce. work, read and tree have to be those of
// the original run, because a pack does not hold their files. given reports whether a
// flag was given.
type reproduceFlags struct {
	policies.GateFlags
	policies.ToolFlags
	intent string
	work   string
	read   []string
	runs   times
	format string
	given  func(flag string) bool
	remote remotes.Flags
}

// Reproduce returns the command that executes the run of a pack again and compares.
func Reproduce(a *cli.App) *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce PACK --intent FILE",
		Short: "make the run of a pack again, and say whether the answer is the same",
		Long: `Reproduce verifies a run pack, a folder or an archive, and makes its run again. Then it
compares with the pack: the canonical subset of the RunResult, the bundle, the outputs,
the patch and what was observed. That includes what every command printed, and which
files existed before. Reproduce prints MATCH, or the first input, output or JSON Pointer
that differs. Nothing is recorded in a ledger, and nothing is kept of the execution.

The run has the modes of the pack. It is decided under the built-in profile that the
pack names, or the profile of --policy, with the layers of --org-policy. The layer of
the tree counts if the pack names one. If the digests of the policy differ from
policy_provenance, the exit code is 2. An execution takes its inputs from --tree. Give
--work and --read again if the original run had them. No model is asked: the answers
are those of the pack.

With --runs N the run is made N times: a flaky run matches only sometimes.

Exit codes:
  0  every run matches
  1  a run differs, or the pack is not valid
  2  the run could not be made again`,
		Example: `  fiador reproduce ./pack --intent intent.json
  fiador reproduce pack.tar.gz --intent intent.json --tree ./checkout
  fiador reproduce ./pack --intent intent.json --runs 20 --format json`,
		Args: cli.ExactArgs("PACK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reproducePack(folders.Waiting(cmd.Context(), a), a, args[0], f)
		},
	}
	cli.RefuseEmpty(cmd, "intent", "policy", "tree", "work")
	f.GateFlags.Register(cmd)
	f.ToolFlags.Register(cmd)
	f.remote.Register(cmd)
	flags := cmd.Flags()
	flags.Lookup("policy").DefValue = "the built-in one that the pack names"
	flags.StringVar(&f.intent, "intent", "", "the intent of the run, byte for byte, or - for standard input")
	flags.StringVar(&f.work, "work", "", "folder that commands work on top of, as it was before the original run; it is never changed (default: an empty one)")
	flags.StringArrayVar(&f.read, "read", nil, "further file or folder that commands may read; may be repeated")
	f.runs = 1
	flags.Var(&f.runs, "runs", "how often, 1 to "+strconv.Itoa(reproduce.MaxRuns))
	flags.StringVar(&f.format, "format", "human", "human, or json: one canonical object")
	cli.Complete(cmd, "format", "human", "json")
	f.given = flags.Changed
	return cmd
}

// times is the value of a flag: how often a run is reproduced.
type times int

func (n *times) String() string { return strconv.Itoa(int(*n)) }

func (n *times) Type() string { return "int" }

// Set refuses everything but a number from 1 to reproduce.MaxRuns.
func (n *times) Set(text string) error {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > reproduce.MaxRuns {
		return fmt.Errorf("a number from 1 to %d is wanted", reproduce.MaxRuns)
	}
	*n = times(number)
	return nil
}

// check refuses a call without an intent, and a pack and an intent that are both
// standard input. A pack has the hash of its intent alone.
func (f reproduceFlags) check(name string) error {
	switch {
	case f.intent == "":
		return cli.Usage("as in --intent intent.json: a pack has the hash of its intent alone", "--intent is missing")
	case name == "-" && f.intent == "-":
		return cli.Unfit("name a file for one of them", "the pack and --intent cannot both be standard input")
	}
	return cli.Choice("format", f.format, []string{"human", "json"})
}

// reproducePack makes the run of a pack again and prints where it differs. The exit
// status is 1 for a difference or an invalid pack. It is 2 if the run could not be
// made, or if the intent or the policy is another one than that of the pack.
func reproducePack(ctx context.Context, a *cli.App, name string, f reproduceFlags) error {
	if err := f.check(name); err != nil {
		return err
	}
	debug.SetGCPercent(cli.UsualGC) // a pack may be large
	o, undecided, err := original(a, name, f)
	if err != nil || o == nil {
		return err
	}
	if err := f.fits(o); err != nil {
		return err
	}
	// The hash needs all bytes of the intent, and Read stops one byte behind the limit.
	src, err := a.ReadUpTo(ctx, f.intent, canon.MaxIntentBytes, "name the intent that was decided")
	if err == nil {
		err = o.CheckIntent(src.Path, src.Bytes)
	}
	if err != nil {
		return err
	}
	gate, err := gateOf(ctx, a, o, f)
	if err == nil {
		err = errors.Join(o.CheckGate(gate), undecided)
	}
	if err != nil {
		return err
	}
	got, err := again(ctx, a, o, gate, f, reproduce.Again{Source: src.Bytes, Path: src.Path, Runs: int(f.runs)})
	if err != nil {
		return err
	}
	return tellReproduced(a, o, got, f)
}

// original reads the run of a valid pack. If the pack is invalid, original prints the
// violations and returns nil. undecided is the error for checks that could not be made.
// The caller reports it later, because a wrong policy explains more.
func original(a *cli.App, name string, f reproduceFlags) (o *reproduce.Original, undecided, err error) {
	p, given, err := packs.ReadUnder(a, f.profile(""), name)
	if err != nil {
		return nil, nil, err
	}
	v := packs.Verified{Name: canon.Clean(name), Verdict: verify.Pack(p, originalOptions(a, p, given)), Hint: packs.TopHint(p)}
	if len(v.Verdict.Violations) > 0 {
		a.Status = cli.ExitRejected
		return nil, nil, cli.PrintAs(a, f.format, v.Document(), v.Human)
	}
	if o, err = reproduce.Read(p); err != nil {
		return nil, nil, err
	}
	if own := o.Result.Policy.Name; given == nil && !slices.Contains(profiles.Names(), own) {
		return nil, nil, cli.Unfit("give its folder with --policy", "the pack's profile %q is not a built-in one", own)
	}
	if list := v.Verdict.NotChecked; len(list) > 0 {
		undecided = runerr.New(result.CodeEvidence, v.Name+": not all of the pack could be checked: "+list[0],
			"fiador pack verify says what it takes", runerr.File(v.Name))
	}
	return o, undecided, nil
}

// originalOptions returns the options that check a pack against its profile. A given
// profile that differs is left out of the check: the difference is no fault of the pack.
// The later comparison of digests covers the whole given profile and names it.
func originalOptions(a *cli.App, p *pack.Pack, given *kernel.Profile) verify.Options {
	o := packs.Options(a, given)
	if given == nil {
		return o
	}
	o.Whole = nil
	contract, err := canon.Canonical(given.Contract())
	text := bytes.TrimSuffix(p.File(pack.PolicyFile), []byte("\n"))
	if err != nil || !bytes.Equal(text, contract) {
		o.Profile = nil
	}
	return o
}

// fits refuses flags of an execution if the run was only planned.
func (f reproduceFlags) fits(o *reproduce.Original) error {
	if o.Result.ExecutionMode == harness.ModeExecuteSandbox {
		return nil
	}
	for _, flag := range []string{"work", "read"} {
		if f.given(flag) {
			return cli.Unfit("leave it out", "--%s belongs to an execution, and the pack is of a plan", flag)
		}
	}
	return nil
}

// profile returns the value of --policy, or own where the flag is not given.
func (f reproduceFlags) profile(own string) string {
	if f.given("policy") {
		return f.Policy
	}
	return own
}

// gateOf opens the gate with the policy of the original.
func gateOf(ctx context.Context, a *cli.App, o *reproduce.Original, f reproduceFlags) (*harness.Gate, error) {
	s, err := policies.Profile(f.profile(o.Result.Policy.Name), f.Org...)
	if err != nil {
		return nil, err
	}
	if o.Gated() {
		if err := policies.RepoLayer(&s, f.Tree); err != nil {
			return nil, err
		}
	}
	// No answer depends on the time that it takes. An emulated machine may be slow.
	limits := policy.DefaultLimits()
	limits.Compile, limits.Deadline = time.Minute, time.Minute
	gate, err := harness.OpenGate(ctx, s, a.Specs, limits)
	if err == nil {
		err = f.Use(a, gate)
	}
	return gate, err
}

// again reproduces the run, in a sandbox if it was an execution.
func again(ctx context.Context, a *cli.App, o *reproduce.Original, gate *harness.Gate, f reproduceFlags, again reproduce.Again) (reproduce.Result, error) {
	deps := harness.Deps{Now: a.Now, Rand: a.Rand, Specs: a.Specs}
	line := cli.NewProgress(a, int64(f.runs))
	if f.runs > 1 {
		again.Begin = func(i int) { line.Show(fmt.Sprintf("run %d of %d", i+1, f.runs)) }
	}
	defer line.Clear()
	if o.Result.ExecutionMode != harness.ModeExecuteSandbox {
		return o.Reproduce(ctx, deps, gate, again)
	}
	e := execution(a)
	defer e.close(ctx, a)
	var err error
	if again.Folders, err = prepareExecution(ctx, a, executingFlags{work: f.work, read: f.read}, f.Tree, e); err != nil {
		return reproduce.Result{}, err
	}
	deps.Runner, deps.Secrets = e.host, secret.New(a.Env)
	leave, err := f.remote.Use(ctx, a, &deps)
	if err != nil {
		return reproduce.Result{}, err
	}
	defer leave()
	if f.runs == 1 {
		show, clear := stepLine(a)
		defer clear()
		deps.Progress = show
	}
	got, err := o.Reproduce(ctx, deps, gate, again)
	return got, sandboxes.Named(ctx, a, f.ofTree(err))
}

// ofTree returns err. If err is about an input, ofTree adds the folder of the inputs to
// the message.
func (f reproduceFlags) ofTree(err error) error {
	re, ok := errors.AsType[*result.RunError](err)
	if !ok || re.Code != result.CodeUnreadable {
		return err
	}
	if pointer, _ := re.Details["pointer"].(string); !strings.HasPrefix(pointer, "/inputs/") {
		return err
	}
	e := *re
	e.Message += "; inputs are taken from --tree, which is " + cli.Quoted(f.Tree)
	if !f.given("tree") {
		e.Message += " where it is not given"
	}
	return &e
}

// tellReproduced prints the result: a line for the matches and for each difference.
func tellReproduced(a *cli.App, o *reproduce.Original, got reproduce.Result, f reproduceFlags) error {
	a.RejectIf(got.Matches < got.Runs)
	if f.format == "json" {
		return cli.PrintJSON(a, reproducedDocument(o, got))
	}
	var out bytes.Buffer
	of := func(n int) string {
		if got.Runs == 1 {
			return ""
		}
		return fmt.Sprintf(" %d of %d", n, got.Runs)
	}
	if got.Matches > 0 {
		fmt.Fprintf(&out, "%s%s  %s\n", a.Page.Paint(screen.Green, "MATCH"), of(got.Matches), o.Digest)
	}
	for _, d := range got.Differences {
		at := "  "
		if got.Runs > 1 {
			at = " at "
		}
		fmt.Fprintf(&out, "%s%s%s%s: %s in the pack, %s now\n", a.Page.Paint(screen.Red, "DIFFERS"), of(d.Runs), at, screen.Plain(placeText(d.Divergence)), screen.Plain(d.Recorded), screen.Plain(d.Now))
	}
	if err := a.Say(out.Bytes()); err != nil {
		return err
	}
	hintOfRuns(a, got, f.without(o, got))
	return nil
}

// without names the absent flags that can explain the first difference. A pack does not
// hold the files of --work and --read. Without these files a run may write other files or
// end otherwise.
func (f reproduceFlags) without(o *reproduce.Original, got reproduce.Result) []string {
	if len(got.Differences) == 0 || o.Result.ExecutionMode != harness.ModeExecuteSandbox {
		return nil
	}
	d := got.Differences[0]
	end := strings.HasPrefix(d.Pointer, "/decision/") || d.Pointer == "/execution/exit_code"
	files := d.Output != "" && (d.RecordedFile.Path == "" || d.NowFile.Path == "")
	var list []string
	if (end || files || ofBase(d)) && !f.given("work") {
		list = append(list, "--work")
	}
	if (end || files) && !f.given("read") {
		list = append(list, "--read")
	}
	return list
}

// ofBase reports whether the files before the run can explain a difference. The outputs
// are then equal. But one of them was created in one run, and modified or unchanged in
// another.
func ofBase(d reproduce.Counted) bool {
	return d.File == pack.PatchFile ||
		d.File == pack.EvidenceFile && (strings.HasPrefix(d.Pointer, "/action_results") || strings.HasPrefix(d.Pointer, "/unchanged"))
}

// ofStream reports whether a difference is in the output that a command printed.
func ofStream(d reproduce.Counted) bool {
	return (d.File == pack.EvidenceFile || d.File == "") && (strings.HasSuffix(d.Pointer, "/stdout_sha256") || strings.HasSuffix(d.Pointer, "/stderr_sha256"))
}

// hintOfRuns prints a possible cause of the differences. without lists the absent flags.
func hintOfRuns(a *cli.App, got reproduce.Result, without []string) {
	if got.Matches == 0 && len(without) > 0 {
		a.Term.Hint("the run may have had " + strings.Join(without, " or ") + ": give that again, as it was")
	}
	switch {
	case got.Matches == got.Runs:
	case got.Matches > 0:
		a.Term.Hint("flaky: the same run does not always end alike; something in it depends on time, chance or the machine")
	case got.Differences[0].Input != "":
		a.Term.Hint("give with --tree the folder whose inputs the run had")
	case ofBase(got.Differences[0]) && len(without) == 0:
		a.Term.Hint("give with --work the folder as it was")
	case ofStream(got.Differences[0]):
		a.Term.Hint("what commands print counts: have the intent send what has times or the like in it to /dev/null")
	case got.Runs == 1:
		a.Term.Hint("--runs 10 shows whether it always differs")
	}
}

// placeText names the place of a difference: an input, an output, a file of the pack,
// or a JSON Pointer into the RunResult.
func placeText(d reproduce.Divergence) string {
	switch {
	case d.Input != "":
		return "input " + canon.Cut(d.Input)
	case d.Output != "":
		return "output " + canon.Cut(d.Output)
	case d.File != "":
		return "file " + placeInFile(d)
	}
	return canon.Cut(d.Pointer)
}

func placeInFile(d reproduce.Divergence) string {
	text := d.File
	if d.Pointer != "" {
		text += "#" + canon.Cut(d.Pointer)
	}
	if d.About != "" {
		text += " (" + canon.Cut(d.About) + ")"
	}
	return text
}

// differenceDocument is one difference: of an input, an output, a file of the pack, or the
// RunResult. Recorded and Now are texts. For a file they hold its hash and size, or null
// for an absent file, or the change if only the change differs.
type differenceDocument struct {
	Runs     int     `json:"runs"`
	Recorded any     `json:"recorded"`
	Now      any     `json:"now"`
	Input    string  `json:"input,omitempty"`
	Output   string  `json:"output,omitempty"`
	File     string  `json:"file,omitempty"`
	Pointer  *string `json:"pointer,omitempty"`
	About    string  `json:"about,omitempty"`
}

// fileDocument is a file of a difference. changedDocument takes its place where the
// file is the same and only its change differs.
type fileDocument struct {
	SHA256    canon.ContentHash `json:"sha256"`
	SizeBytes int               `json:"size_bytes"`
}

type changedDocument struct {
	Change string `json:"change"`
}

// fileDocuments returns both sides of a difference between files. An absent file is
// nil.
func fileDocuments(d reproduce.Divergence) (recorded, now any) {
	if d.RecordedFile.Path == "" && d.NowFile.Path == "" {
		return changedDocument{d.Recorded}, changedDocument{d.Now}
	}
	file := func(f kernel.FileRef) any {
		if f.Path == "" {
			return nil
		}
		return fileDocument{f.SHA256, f.SizeBytes}
	}
	return file(d.RecordedFile), file(d.NowFile)
}

// reproducedDocument returns the result in the form that --format json prints.
func reproducedDocument(o *reproduce.Original, got reproduce.Result) any {
	list := make([]differenceDocument, len(got.Differences))
	for i, d := range got.Differences {
		list[i] = differenceDocument{d.Runs, d.Recorded, d.Now, d.Input, d.Output, d.File, nil, d.About}
		switch {
		case d.Input != "" || d.Output != "":
			list[i].Recorded, list[i].Now = fileDocuments(d.Divergence)
		case d.Pointer != "" || d.File == "":
			list[i].Pointer = &d.Pointer
		}
	}
	return struct {
		RunID       string               `json:"run_id"`
		Digest      canon.ContentHash    `json:"digest"`
		Runs        int                  `json:"runs"`
		Matches     int                  `json:"matches"`
		Differences []differenceDocument `json:"differences"`
	}{o.Result.RunID, o.Digest, got.Runs, got.Matches, list}
}
