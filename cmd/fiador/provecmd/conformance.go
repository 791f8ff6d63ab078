package provecmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/conformance"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// atOnce is how many vectors run at the same time. Most vectors only wait.
const atOnce = 8

// Conformance returns the group of commands that hold a wrapper against its contract.
func Conformance(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "conformance",
		Short: "test another program against a contract",
		Long: `Conformance runs the vectors of a contract against any program that claims to keep it.

Exit codes:
  0  every vector passed
  1  a vector failed
  2  the vectors could not be run`,
		Example: `  fiador conformance safe-run -- ./safe-run`,
	}, conformanceSafeRunCommand(a))
}

// conformanceFlags are the flags of conformance safe-run. only is a pattern of
// path.Match over the ids of vectors. noCompare leaves out the runs of "fiador
// safe-run" itself.
type conformanceFlags struct {
	vectors   string
	names     string
	only      string
	format    string
	noCompare bool
}

// conformanceSafeRunCommand takes the program after --. Flags end at the first
// argument, so flags of the program need no escape.
func conformanceSafeRunCommand(a *cli.App) *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "safe-run [flags] -- CMD [ARG...]",
		Short: "test a command logger against the safe-run contract",
		Long: `Safe-run calls CMD ARG... once for every vector, followed by the words of the
vector, in a new folder. It compares the exit code, the streams and the log with what
the vector expects. Processes that CMD started and left running are killed, except those
that have cleared their environment. Unless --no-compare is given, "fiador safe-run" is
called in the same way. Both must then do the same, byte for byte, except for the name
of the log and the path of the folder.

CMD is made absolute, and so is each ARG that has a slash and is the path of a file
here. CMD gets PATH and SAFE_RUN_BIN of the environment, LC_ALL=C, and a HOME and a
TMPDIR of its own. It also gets the variables of the vector, and nothing else.

The vectors are those of this version, or those of --vectors FILE. Then the golden
logs are in the folder named expected beside FILE. --log-names=rfc sets
SAFE_RUN_LOG_NAMES=rfc and expects names such as 20240115T103000Z-pid7-FAIL.log.

Exit codes:
  0  every vector passed
  1  a vector failed; what was expected and what was seen stands beneath it
  2  the vectors could not be read or run`,
		Example: `  fiador conformance safe-run -- ./safe-run
  fiador conformance safe-run --only 'safe-run-3*' -- sh docs/wrappers/safe-run.sh
  fiador conformance safe-run --vectors vectors.json --log-names rfc -- ./safe-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return conformanceSafeRun(cmd.Context(), a, cmd, f, args)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&f.vectors, "vectors", "", "file of vectors (default: those of this version)")
	flags.StringVar(&f.names, "log-names", string(conformance.Contract), "contract or rfc")
	flags.StringVar(&f.only, "only", "*", "run only the vectors whose id this pattern matches")
	flags.StringVar(&f.format, "format", "human", "human or json")
	flags.BoolVar(&f.noCompare, "no-compare", false, "do not compare with \"fiador safe-run\"")
	cli.Complete(cmd, "log-names", string(conformance.Contract), string(conformance.RFC))
	cli.Complete(cmd, "format", "human", "json")
	return cmd
}

// conformanceSafeRun runs the vectors against a program (specs/safe-run.md,
// Conformance). It prints each verdict as soon as the vector has ended. A failed vector
// is exit status 1. Vectors that cannot be read, chosen or run are exit status 2.
func conformanceSafeRun(ctx context.Context, a *cli.App, cmd *cobra.Command, f conformanceFlags, args []string) error {
	if err := errors.Join(cli.Choice("--log-names", f.names, []string{string(conformance.Contract), string(conformance.RFC)}),
		cli.Choice("format", f.format, []string{"human", "json"})); err != nil {
		return err
	}
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return cli.Usage(programHint, "unexpected argument %q", canon.Clean(args[0]))
	}
	program, err := program(a, args)
	if err != nil {
		return err
	}
	suite, err := suite(ctx, a, f.vectors)
	if err != nil {
		return err
	}
	vectors, err := selected(suite.Vectors, f.only)
	if err != nil {
		return err
	}
	r := conformance.Runner{Program: program, Names: conformance.LogNames(f.names), Env: passed(a), Parallel: atOnce}
	if !f.noCompare {
		self, err := os.Executable()
		if err != nil {
			return notRun(err)
		}
		r.Reference = []string{self, "safe-run"}
	}
	if r.Dir, err = os.MkdirTemp("", "fiador-conformance-"); err != nil {
		return notRun(err)
	}
	defer os.RemoveAll(r.Dir)
	if r.Dir, err = filepath.EvalSymlinks(r.Dir); err != nil {
		return notRun(err)
	}
	report := &conformanceReport{format: f.format, left: suite.Left}
	var printed error
	err = r.Run(ctx, vectors, func(v conformance.Verdict) {
		if b := report.verdict(v, a.Page); len(b) > 0 && printed == nil {
			printed = a.Say(b)
		}
	})
	if err := errors.Join(printed, notRun(err)); err != nil {
		return err
	}
	a.RejectIf(report.failed > 0)
	return report.summary(a)
}

// passed returns the environment of a program under test: PATH, and SAFE_RUN_BIN with
// an absolute path. Each vector adds its own variables.
func passed(a *cli.App) []string {
	env := []string{"PATH=" + a.Env("PATH")}
	if bin := a.Env("SAFE_RUN_BIN"); bin != "" {
		env = append(env, "SAFE_RUN_BIN="+absolute(bin))
	}
	return env
}

// programHint is the hint for a program that is missing or cannot be found.
const programHint = "put the program after --, as in: fiador conformance safe-run -- ./safe-run"

// program returns the command line of the program under test, with absolute paths,
// because each vector runs in a folder of its own. It refuses a program that cannot be
// found.
func program(a *cli.App, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, cli.Usage(programHint, "CMD is missing")
	}
	found, err := exec.LookPath(args[0])
	if errors.Is(err, exec.ErrNotFound) {
		return nil, cli.Usage(programHint, "program %q is not in PATH", canon.Clean(args[0]))
	}
	if err != nil {
		return nil, cli.Usage(programHint, "program %q: %s", canon.Clean(args[0]), runerr.Reason(errors.Unwrap(err)))
	}
	program := []string{found}
	if program[0], err = filepath.Abs(found); err != nil {
		return nil, notRun(err)
	}
	for _, arg := range args[1:] {
		program = append(program, absolute(arg))
	}
	return program, nil
}

// absolute makes a relative path absolute if the file exists, and returns any other word
// as it is. A word without a slash is no path.
func absolute(word string) string {
	if !strings.ContainsRune(word, filepath.Separator) || filepath.IsAbs(word) {
		return word
	}
	if _, err := os.Stat(word); err != nil {
		return word
	}
	if abs, err := filepath.Abs(word); err == nil {
		return abs
	}
	return word
}

// suite reads a file of vectors, or returns the vectors of this version if name is empty.
func suite(ctx context.Context, a *cli.App, name string) (conformance.Suite, error) {
	if name == "" {
		return conformance.Embedded()
	}
	src, err := a.Read(ctx, name, conformance.MaxFileBytes)
	if err != nil {
		return conformance.Suite{}, err
	}
	suite, err := conformance.Parse(src.Path, src.Bytes, os.DirFS(filepath.Dir(name)))
	if err == nil {
		return suite, nil
	}
	e := runerr.New(result.CodeNotJSON, err.Error(), "name a file of vectors; specs/safe-run.md says what stands in one", runerr.File(src.Path), runerr.Because(err))
	if fe, ok := errors.AsType[*conformance.FileError](err); ok && fe.Pointer != "" {
		e.Details["pointer"] = fe.Pointer
	}
	return suite, e
}

// selected returns the vectors whose id matches a pattern. It refuses a malformed
// pattern, and one that matches nothing: a test of nothing would pass.
func selected(vectors []conformance.Vector, only string) ([]conformance.Vector, error) {
	if _, err := path.Match(only, ""); err != nil {
		return nil, cli.Usage("as in --only 'safe-run-3*'", "--only %q is no pattern", canon.Clean(only))
	}
	kept := slices.DeleteFunc(slices.Clone(vectors), func(v conformance.Vector) bool {
		ok, _ := path.Match(only, v.ID)
		return !ok
	})
	if len(kept) == 0 {
		return nil, cli.Usage("as in --only 'safe-run-3*'", "--only %q matches no vector", canon.Clean(only))
	}
	return kept, nil
}

// notRun returns the RunError for vectors that could not be run, and nil for nil.
func notRun(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		err = errors.New("interrupted")
	}
	return runerr.New(result.CodeEvidence, "the vectors could not be run: "+canon.Clean(err.Error()), "", runerr.Because(err))
}

// conformanceReport counts verdicts and prints them as words or as a document.
type conformanceReport struct {
	format         string
	left           map[string]int
	passed, failed int
	list           []vectorDocument
}

// verdict returns the text to print as soon as one vector has ended.
func (r *conformanceReport) verdict(v conformance.Verdict, t cli.Terminal) []byte {
	ok := len(v.Faults) == 0
	if ok {
		r.passed++
	} else {
		r.failed++
	}
	if r.format == "json" {
		r.list = append(r.list, document(v))
		return nil
	}
	var b bytes.Buffer
	name := screen.Plain(v.Vector.ID) + " " + screen.Plain(v.Vector.Name)
	if ok {
		fmt.Fprintf(&b, "%s %s\n", t.Paint(screen.Green, "ok"), name)
		return b.Bytes()
	}
	fmt.Fprintf(&b, "%s %s\n", t.Paint(screen.Red, "FAIL"), name)
	for _, f := range v.Faults {
		fmt.Fprintf(&b, "  %s\n", screen.Plain(f.What))
		if f.Want != "" || f.Got != "" {
			fmt.Fprintf(&b, "    want  %s\n    got   %s\n", shownOrNothing(f.Want), shownOrNothing(f.Got))
		}
	}
	return b.Bytes()
}

// shownOrNothing makes an empty text visible.
func shownOrNothing(s string) string { return cmp.Or(screen.Plain(s), "nothing") }

// vectorDocument is the verdict on one vector in the JSON of the report. Invisible
// characters are escaped in it.
type vectorDocument struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Passed bool            `json:"passed"`
	Faults []faultDocument `json:"faults"`
}

type faultDocument struct {
	What string `json:"what"`
	Want string `json:"want"`
	Got  string `json:"got"`
}

func document(v conformance.Verdict) vectorDocument {
	doc := vectorDocument{v.Vector.ID, v.Vector.Name, len(v.Faults) == 0, []faultDocument{}}
	for _, f := range v.Faults {
		doc.Faults = append(doc.Faults, faultDocument{screen.Plain(f.What), screen.Plain(f.Want), screen.Plain(f.Got)})
	}
	return doc
}

// summary prints the counts, or the whole document if the format is json. Vectors about
// other tools are left out, and counted by the section that has them.
func (r *conformanceReport) summary(a *cli.App) error {
	if r.format == "json" {
		return cli.PrintJSON(a, struct {
			Passed  int              `json:"passed"`
			Failed  int              `json:"failed"`
			Vectors []vectorDocument `json:"vectors"`
			LeftOut map[string]int   `json:"left_out"`
		}{r.passed, r.failed, r.list, r.left})
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d passed, %d failed\n", screen.Count(r.passed+r.failed, "vector"), r.passed, r.failed)
	if len(r.left) > 0 {
		total := 0
		var sections []string
		for _, name := range slices.Sorted(maps.Keys(r.left)) {
			total += r.left[name]
			sections = append(sections, fmt.Sprintf("%s %d", screen.Plain(name), r.left[name]))
		}
		fmt.Fprintf(&b, "%s of other tools left out: %s\n", screen.Count(total, "vector"), strings.Join(sections, ", "))
	}
	return a.Say(b.Bytes())
}
