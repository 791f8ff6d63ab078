package policycmd

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/report"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/scaffold"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/devel"
	"github.com/fiador/fiador/profiles"
)

// testFlags are the flags of test. run is a regular expression over PACKAGE.NAME.
// threshold is the least coverage in percent, 0 to 100, and counts only with coverage.
type testFlags struct {
	policy    string
	format    string
	run       string
	threshold float64
	coverage  bool
	verbose   bool
	data      bool
}

// testCommand runs the tests of a policy (specs/policy-contract.md, Tests). A given
// --threshold implies --coverage.
func testCommand(a *cli.App) *cobra.Command {
	var f testFlags
	cmd := &cobra.Command{
		Use:   "test PATH",
		Short: "run the Rego tests of a policy",
		Long: `Test runs every rule named test_NAME in the *_test.rego files of a policy, under
the frozen list of functions. A test passes when it is true.

A test sees its layer's package, data.profile (resolved), and data.intents. The last
has the input of the rules for each intent of the folder intents/, by file name. So

  count(acme.deny) == 1 with input as data.intents.friday

tests a rule with an intent as an agent would write it. An intent of that folder
that the policy cannot decide is a failed test.

With --data, test runs nothing and prints data.profile and data.intents, for
opa test --bundle PATH, which takes them from PATH/data.json.

Exit codes:
  0  every test passes, and the coverage is at least the threshold
  1  a test fails, or the coverage is less
  2  there is no test, or the policy cannot be compiled`,
		Example: `  fiador policy test ./acme
  fiador policy test ./acme --coverage --threshold 100
  fiador policy test ./acme --run friday --format junit
  fiador policy test ./acme --data >data.json`,
		Args: cli.ExactArgs("PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return testPolicy(cmd.Context(), a, args[0], f, cmd.Flags().Changed("threshold"))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.policy, "policy", "default", "built-in profile under which a layer without a profile is tested")
	cli.FormatFlag(cmd, &f.format, "text", "json", "junit")
	flags.StringVar(&f.run, "run", "", "only tests whose PACKAGE.NAME matches this regular expression")
	flags.BoolVar(&f.coverage, "coverage", false, "say which lines no test reaches")
	flags.Float64Var(&f.threshold, "threshold", 0, "least coverage in percent, 0 to 100; implies --coverage")
	flags.BoolVar(&f.data, "data", false, "run nothing, and print what the tests see as data, for opa test")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "list the tests that pass as well")
	cli.Complete(cmd, "policy", profiles.Names()...)
	return cmd
}

// testPolicy compiles the policy, runs its tests and decides its example intents. An
// intent that the policy cannot decide counts as a failed test. The exit status is 1
// for a failed test or too little coverage, and 2 without any test.
func testPolicy(ctx context.Context, a *cli.App, name string, f testFlags, threshold bool) error {
	if err := cli.Choice("policy", f.policy, profiles.Names()); err != nil {
		return err
	}
	if !(f.threshold >= 0 && f.threshold <= 100) {
		return cli.Usage("a percentage from 0 to 100", "threshold %v cannot be used", f.threshold)
	}
	var run *regexp.Regexp
	if f.run != "" {
		var err error
		if run, err = regexp.Compile(f.run); err != nil {
			return cli.Usage("a regular expression, such as friday or ^gate.user.acme", "--run %q cannot be used", f.run)
		}
	}
	f.coverage = f.coverage || threshold
	d, err := openDesk(a, name, f.policy)
	if err != nil {
		return err
	}
	// A policy that no run can use is refused before any test runs.
	gate, err := d.gate(ctx, a)
	if err != nil {
		return err
	}
	tests, err := d.tests()
	if err != nil {
		return err
	}
	intents, err := d.intents(ctx, a)
	if err != nil {
		return err
	}
	suite := devel.Suite{Profile: d.open.Profile, Layer: d.layer(), Tests: tests, Intents: intents, Run: run}
	data, err := suite.Data()
	if err != nil {
		return err
	}
	if f.data {
		return a.Print(data)
	}
	hintStale(a, d, name, data)
	tested, err := devel.Test(ctx, suite, policy.DefaultLimits())
	if ctx.Err() != nil {
		return runerr.New(result.CodeInternal, "interrupted: not every test ran", "run it again")
	}
	if err != nil {
		return runerr.Load(err)
	}
	// A test evaluates single rules. Only the whole policy shows whether an intent can be
	// decided.
	for _, name := range sortedNames(intents) {
		if _, err := gate.Judge.Eval(ctx, intents[name]); err != nil {
			tested.Cases = append(tested.Cases, devel.Case{
				Package: d.layer().Package, Name: intentsFolder + "/" + name, File: screen.Folder(filepath.Join(d.dir, intentsFolder, name)), Line: 1,
				Fault: "not decided: " + runerr.Load(err).Message,
			})
		}
	}
	t := testedPolicy{tested, f}
	a.RejectIf(!t.good())
	return printTested(a, t, screen.Folder(name))
}

// hintStale says that a data.json gives opa test another profile, or other intents, than the
// tests see here.
func hintStale(a *cli.App, d desk, name string, data []byte) {
	if d.folder == nil {
		return
	}
	old, err := fs.ReadFile(d.folder.FS, path.Join(d.folder.Dir, scaffold.DataFile))
	if err == nil && !bytes.Equal(old, data) {
		a.Term.Hint(fmt.Sprintf("%q is for opa test, and is old; fiador policy test %s --data prints it anew", asGiven(filepath.Join(d.dir, scaffold.DataFile)), typed(name)))
	}
}

// testedPolicy is the result of a test run.
type testedPolicy struct {
	devel.Tested
	testFlags
}

// percent returns the share of lines that the tests reach, rounded down to a tenth.
func (t testedPolicy) percent() float64 {
	lines, missed := t.lines()
	if lines == 0 {
		return 100
	}
	return float64((lines-missed)*1000/lines) / 10
}

// lines returns how many lines count, and how many of them no test reaches.
func (t testedPolicy) lines() (lines, missed int) {
	for _, c := range t.Coverage {
		lines += c.Lines
		missed += len(c.Missed)
	}
	return lines, missed
}

// good reports whether all tests pass and the coverage is at least the threshold.
func (t testedPolicy) good() bool {
	return t.failed() == 0 && (!t.coverage || t.reached())
}

// reached reports whether the coverage is at least the threshold, by the exact share of
// lines.
func (t testedPolicy) reached() bool {
	lines, missed := t.lines()
	return float64(lines-missed)*100 >= t.threshold*float64(lines)
}

// failed returns the number of failed tests.
func (t testedPolicy) failed() int {
	n := 0
	for _, c := range t.Cases {
		if !c.Pass {
			n++
		}
	}
	return n
}

// printTested prints the result in its format. In JUnit too little coverage is a failed
// test of its own, because readers of JUnit see nothing else.
func printTested(a *cli.App, t testedPolicy, name string) error {
	if t.format != "junit" {
		return cli.PrintAs(a, t.format, t.document(), t.text)
	}
	var list []report.Test
	for _, c := range t.Cases {
		list = append(list, report.Test{Class: c.Package, Name: c.Name, Fault: c.Fault})
	}
	if t.coverage && !t.reached() {
		list = append(list, report.Test{Class: name, Name: "coverage", Fault: t.coverageLine()})
	}
	var out bytes.Buffer
	if err := report.JUnit(&out, name, list); err != nil {
		return err
	}
	return a.Print(out.Bytes())
}

// text prints the failed tests, with --verbose the others too, the lines that no test
// reaches, and the verdict.
func (t testedPolicy) text(to cli.Terminal) {
	for _, c := range t.Cases {
		at := fmt.Sprintf("%s:%d", c.File, c.Line)
		switch {
		case !c.Pass:
			to.Line(to.Paint(screen.Red, "FAIL"), screen.Plain(c.Name), to.Paint(screen.Dim, screen.Plain(at)))
			to.Line("      " + screen.Plain(c.Fault))
		case t.verbose:
			to.Line(to.Paint(screen.Green, "ok  "), screen.Plain(c.Name), to.Paint(screen.Dim, screen.Plain(at)))
		}
	}
	if t.coverage {
		for _, c := range t.Coverage {
			if len(c.Missed) > 0 {
				to.Line(screen.Plain(c.File), fmt.Sprintf("%d of %s missed:", len(c.Missed), screen.Count(c.Lines, "line")), lineRanges(c.Missed))
			}
		}
	}
	style, verdict := screen.Green, "ok"
	if !t.good() {
		style, verdict = screen.Red, "FAIL"
	}
	line := []string{to.Paint(style, verdict), fmt.Sprintf("%s, %d failed", screen.Count(len(t.Cases), "test"), t.failed())}
	if t.coverage {
		line = append(line, t.coverageLine())
	}
	to.Line(line...)
}

func (t testedPolicy) coverageLine() string {
	text := "coverage " + strconv.FormatFloat(t.percent(), 'f', 1, 64) + " %"
	if t.threshold > 0 {
		text += ", at least " + strconv.FormatFloat(t.threshold, 'f', -1, 64) + " % asked for"
	}
	return text
}

// lineRanges writes ascending line numbers as 3, 5-7.
func lineRanges(lines []int) string {
	var parts []string
	for i := 0; i < len(lines); {
		k := i
		for k+1 < len(lines) && lines[k+1] == lines[k]+1 {
			k++
		}
		if part := strconv.Itoa(lines[i]); k == i {
			parts = append(parts, part)
		} else {
			parts = append(parts, part+"-"+strconv.Itoa(lines[k]))
		}
		i = k + 1
	}
	return strings.Join(parts, ", ")
}

// document returns the result in the form that --format json prints. The member
// coverage is there only if coverage was asked for.
func (t testedPolicy) document() any {
	type coverage struct {
		Percent float64         `json:"percent"`
		Files   []devel.Covered `json:"files"`
	}
	doc := struct {
		Passed   bool         `json:"passed"`
		Tests    []devel.Case `json:"tests"`
		Coverage *coverage    `json:"coverage,omitempty"`
	}{Passed: t.good(), Tests: t.Cases}
	if t.coverage {
		doc.Coverage = &coverage{t.percent(), t.Coverage}
	}
	return doc
}
