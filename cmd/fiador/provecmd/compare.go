package provecmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// maxShown is how many bytes of a differing value are shown.
const maxShown = 4096

// Compare returns the command that compares the decisions of two RunResults.
func Compare(a *cli.App) *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "say whether two RunResults decided alike",
		Long: `Compare reads two RunResults, compares their canonical subsets, and prints the
first JSON Pointer at which they differ, with both values.

With --format json it prints one canonical object: same, and either the digest or the
pointer with a and b. A side without a value there has no value member.

Exit codes:
  0  the subsets are the same
  1  they differ
  2  a file could not be read, or is no RunResult`,
		Example: `  fiador compare here.json there.json
  fiador run intent.json | fiador compare recorded.json -`,
		Args: cli.ExactArgs("A", "B"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" && args[1] == "-" {
				return cli.Unfit("name a file for one of them", "standard input cannot be both results")
			}
			return compare(a, cmd, args[0], args[1], format)
		},
	}
	cli.FormatFlag(cmd, &format, "human", "json")
	return cmd
}

// comparison is what compare says about two results.
type comparison struct {
	Same    bool              `json:"same"`
	Digest  canon.ContentHash `json:"digest,omitempty"`
	Pointer *string           `json:"pointer,omitempty"`
	A       *side             `json:"a,omitempty"`
	B       *side             `json:"b,omitempty"`
}

// side is one result, with its value at the pointer.
type side struct {
	Result string `json:"result"`
	Value  *any   `json:"value,omitempty"`
}

// compare prints "same" with the digest, or the first JSON Pointer at which the
// canonical subsets differ. A difference is exit status 1. Both files must keep the
// invariants that a file alone can prove.
func compare(a *cli.App, cmd *cobra.Command, nameA, nameB, format string) error {
	fa, err := readProven(cmd.Context(), a, nameA)
	if err != nil {
		return err
	}
	fb, err := readProven(cmd.Context(), a, nameB)
	if err != nil {
		return err
	}
	d, differs := result.Compare(result.Subset(fa.Object), result.Subset(fb.Object))
	if !differs {
		hash, err := result.Digest(fa.Object)
		if err != nil {
			return err
		}
		return cli.PrintAs(a, format, comparison{Same: true, Digest: hash}, func(t cli.Terminal) { t.Line("same", string(hash)) })
	}
	va, err := shown(d.A, d.AbsentInA)
	if err != nil {
		return err
	}
	vb, err := shown(d.B, d.AbsentInB)
	if err != nil {
		return err
	}
	a.Status = cli.ExitRejected
	found := comparison{Pointer: &d.Pointer, A: &side{Result: fa.path}, B: &side{Result: fb.path}}
	if !d.AbsentInA {
		found.A.Value = &d.A
	}
	if !d.AbsentInB {
		found.B.Value = &d.B
	}
	return cli.PrintAs(a, format, found, func(t cli.Terminal) {
		fmt.Fprintf(t.W, "different  %s\n  %s  %s\n  %s  %s\n", screen.Plain(d.Pointer), screen.Plain(fa.path), va, screen.Plain(fb.path), vb)
	})
}

// shown returns a value as canonical JSON, cut after maxShown bytes.
func shown(v any, absent bool) (string, error) {
	if absent {
		return "(absent)", nil
	}
	b, err := canon.Canonical(v)
	if err != nil {
		return "", err
	}
	if len(b) > maxShown {
		return screen.Plain(string(b[:maxShown])) + fmt.Sprintf("… (%d bytes)", len(b)), nil
	}
	return screen.Plain(string(b)), nil
}
