package provecmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/fingerprint"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// maxFingerprint is the largest size of a fingerprint to read, in bytes.
const maxFingerprint = 4 << 20

// fingerprintFlags are the flags of fingerprint. vectors prints a line for each vector
// too. against is a file to compare with, or - for standard input.
type fingerprintFlags struct {
	vectors bool
	against string
	format  string
}

// Fingerprint returns the command that decides every vector on this machine.
func Fingerprint(a *cli.App) *cobra.Command {
	var f fingerprintFlags
	cmd := &cobra.Command{
		Use:   "fingerprint",
		Short: "print one line that is the same wherever fiador decides alike",
		Long: `Fingerprint decides the built-in vectors: some hundred intents under the built-in
profiles. It prints one line with the hash of all canonical subsets and errors. Two
machines that print the same line decide alike, under the same policy text. The line
says nothing about the machine or the build. Nothing is executed: an intent that needs
an execution ends in RUN_E005, and that error is hashed.

With --vectors a line for each vector, with its hash, stands above that line. The hash
of the last line is the SHA-256 of the lines above it. With --against FILE (or - for
standard input) none of these lines is printed. FILE holds what another machine
printed, and fingerprint names each vector that differs or that only one side has. It
can name vectors only if FILE was made with --vectors.

The result of each vector is also compared with what the vector expects, except for
the digests of the policy text. A vector that does not hold is named on standard error.

With --format json it prints one canonical object: the fingerprint, and with --vectors
its prints. With --against the object has match, here, there, and the vectors that
differ. FILE is always what fiador fingerprint prints without --format.

Exit codes:
  0  the line was printed; with --against: both fingerprints are the same
  1  a vector does not hold on this machine; with --against: or the fingerprints differ
  2  not every vector was decided, or FILE could not be read or is no fingerprint`,
		Example: `  fiador fingerprint
  fiador fingerprint --vectors >here.txt
  fiador fingerprint --against there.txt`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed("against")
			if given && f.vectors {
				return cli.Unfit("leave one of them out", "--vectors prints a fingerprint, and --against compares with one")
			}
			if given && f.against == "" {
				return cli.Usage("as in --against there.txt", "--against names no file")
			}
			return printFingerprint(cmd.Context(), a, f, specs.RunVectors())
		},
	}
	cli.FormatFlag(cmd, &f.format, "human", "json")
	cmd.Flags().BoolVar(&f.vectors, "vectors", false, "print the hash of each vector as well")
	cmd.Flags().StringVar(&f.against, "against", "", "file with the fingerprint of another machine, or - for standard input: say what differs")
	return cmd
}

// printFingerprint prints the fingerprint of this machine, or how another one differs
// from it. The exit status is 1 for a difference, and for a vector that does not hold
// here.
func printFingerprint(ctx context.Context, a *cli.App, f fingerprintFlags, vectors fs.FS) error {
	// A file is read first, so that an error in it is reported at once. Standard input is
	// read last: the program that writes to a pipe may need as long as this machine.
	var there fingerprint.Fingerprint
	var err error
	if f.against != "" && f.against != "-" {
		if there, err = readFingerprint(ctx, a, f.against); err != nil {
			return err
		}
	}
	here, err := fingerprintHere(ctx, a, vectors)
	if err == nil && f.against == "-" {
		there, err = readFingerprint(ctx, a, f.against)
	}
	switch {
	case err != nil:
		return err
	case f.against != "":
		return against(a, f.format, here, there)
	case f.format == "json":
		d := printed(here)
		if f.vectors {
			d.Prints = here.Prints
		}
		return cli.PrintJSON(a, d)
	case f.vectors:
		return a.Print(here.Text())
	}
	return a.Print(here.Line())
}

// fingerprintDocument is a fingerprint in the form that --format json prints.
type fingerprintDocument struct {
	Kernel  string              `json:"kernel_version"`
	Vectors int                 `json:"vectors"`
	SHA256  canon.ContentHash   `json:"sha256"`
	Prints  []fingerprint.Print `json:"prints,omitempty"`
}

func printed(f fingerprint.Fingerprint) fingerprintDocument {
	return fingerprintDocument{f.Kernel, f.Vectors, f.SHA256, nil}
}

// compared is how the fingerprints of two machines differ. Without the prints of the other
// machine no vector is named.
type compared struct {
	Match  bool                `json:"match"`
	Here   fingerprintDocument `json:"here"`
	There  fingerprintDocument `json:"there"`
	Differ []differing         `json:"differ"`
}

// differing is a vector that differs or that only one side has.
type differing struct {
	Name string `json:"name"`
	How  string `json:"how"` // differs, only here or only there
}

// fingerprintHere decides the vectors on this machine (specs/determinism.md). It names
// those that fail on standard error, and makes the exit status 1 for them.
func fingerprintHere(ctx context.Context, a *cli.App, folder fs.FS) (fingerprint.Fingerprint, error) {
	debug.SetGCPercent(cli.ManyGC)
	vectors, err := fingerprint.ReadVectors(folder)
	if err != nil {
		return fingerprint.Fingerprint{}, notRun(err)
	}
	// No vector depends on time or on the amount of memory. An emulated machine may be
	// slow.
	limits := policy.DefaultLimits()
	limits.Compile, limits.Deadline, limits.MemoryBytes = time.Hour, time.Hour, 4<<30
	open := func(ctx context.Context, profile string) (*harness.Gate, error) {
		return harness.OpenGate(ctx, harness.Sources{Builtin: profiles.FS(), Profile: profile}, a.Specs, limits)
	}
	prints, err := fingerprint.Take(ctx, a.Specs, open, runtime.GOMAXPROCS(0), vectors)
	if err != nil {
		return fingerprint.Fingerprint{}, err
	}
	for _, p := range prints {
		if p.Fault != "" {
			a.Status = cli.ExitRejected
			a.Term.Message(p.Name + " does not hold on this machine: " + p.Fault)
		}
	}
	return fingerprint.New(prints), nil
}

// readFingerprint reads what another machine printed. Its error names the line at
// fault, and an encoding that another system may have made of the file.
func readFingerprint(ctx context.Context, a *cli.App, name string) (fingerprint.Fingerprint, error) {
	src, err := a.ReadUpTo(ctx, name, maxFingerprint, fingerprintHint)
	if err != nil {
		return fingerprint.Fingerprint{}, err
	}
	f, err := fingerprint.Parse(src.Bytes)
	if err == nil {
		return f, nil
	}
	e := runerr.New(result.CodeEvidence, src.Path+": no fingerprint: "+canon.Clean(err.Error()),
		fingerprintHint, runerr.File(src.Path), runerr.Because(err))
	if how := otherwise(src.Bytes); how != "" {
		e.Message, e.Hint = src.Path+": no fingerprint: "+how+": "+canon.Clean(err.Error()), "keep the bytes that fiador fingerprint prints: UTF-8, and lines that end in LF"
	}
	if fe, ok := errors.AsType[*fingerprint.ParseError](err); ok {
		e.Details["line"] = fe.Line
	}
	return f, e
}

// otherwise names the encoding of a text that another system has changed, or returns
// empty.
func otherwise(text []byte) string {
	begins := func(with string) bool { return bytes.HasPrefix(text, []byte(with)) }
	switch {
	case begins("\xff\xfe"), begins("\xfe\xff"), len(text) > 1 && (text[0] == 0) != (text[1] == 0):
		return "it is UTF-16"
	case begins("\ufeff"):
		return "it begins with a byte order mark (BOM)"
	case bytes.Contains(text, []byte("\r\n")):
		return "its lines end in CRLF"
	}
	return ""
}

const fingerprintHint = `make the file on the other machine with "fiador fingerprint --vectors", and copy it whole`

// against prints the differences between the fingerprints of this machine and another.
func against(a *cli.App, format string, here, there fingerprint.Fingerprint) error {
	found := compared{Match: bytes.Equal(here.Line(), there.Line()), Here: printed(here), There: printed(there), Differ: []differing{}}
	if !found.Match {
		a.Status = cli.ExitRejected
		found.Differ = cli.OrEmpty(vectorsThatDiffer(here, there))
		if there.Prints == nil && format != "json" {
			a.Term.Hint(fingerprintHint + ": that names the vectors which differ")
		}
	}
	return cli.PrintAs(a, format, found, func(t cli.Terminal) {
		if found.Match {
			fmt.Fprintf(t.W, "%s  %s", t.Paint(screen.Green, "MATCH"), here.Line())
			return
		}
		if here.Kernel != there.Kernel {
			fmt.Fprintf(t.W, "another kernel version: %s here, %s there\n", here.Kernel, screen.Plain(there.Kernel))
		}
		differ := t.Paint(screen.Red, "DIFFERENT")
		if there.Prints == nil {
			fmt.Fprintf(t.W, "%s\n  here   %s  there  %s", differ, here.Line(), there.Line())
			return
		}
		counts := map[string]int{}
		for _, d := range found.Differ {
			counts[d.How]++
			fmt.Fprintf(t.W, "%-10s  %s\n", d.How, screen.Plain(d.Name))
		}
		verb := "differ"
		if counts["differs"] == 1 {
			verb = "differs"
		}
		fmt.Fprintf(t.W, "%s  %s here, %d there: %d %s, %d only here, %d only there\n", differ,
			screen.Count(here.Vectors, "vector"), there.Vectors, counts["differs"], verb, counts["only here"], counts["only there"])
	})
}

// vectorsThatDiffer lists the vectors that two fingerprints do not share, by name.
func vectorsThatDiffer(here, there fingerprint.Fingerprint) (list []differing) {
	if there.Prints == nil {
		return nil
	}
	type sides struct{ here, there canon.ContentHash }
	hashes := map[string]sides{}
	for _, p := range here.Prints {
		hashes[p.Name] = sides{here: p.SHA256}
	}
	for _, p := range there.Prints {
		hashes[p.Name] = sides{hashes[p.Name].here, p.SHA256}
	}
	for _, name := range slices.SortedFunc(maps.Keys(hashes), canon.Compare) {
		how := "differs"
		switch s := hashes[name]; {
		case s.here == s.there:
			continue
		case s.there == "":
			how = "only here"
		case s.here == "":
			how = "only there"
		}
		list = append(list, differing{name, how})
	}
	return list
}
