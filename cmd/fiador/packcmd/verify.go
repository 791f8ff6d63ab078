package packcmd

import (
	"bytes"
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
)

// packVerifyFlags are the flags of verify. level is a pack.Level (specs/pack.md,
// Levels). With accepted, a valid pack of a run that was not accepted is exit status 1
// too.
type packVerifyFlags struct {
	packs.KeyFlags
	level    string
	policy   string
	format   string
	accepted bool
}

// The values of --level and --format.
var (
	levels  = []string{string(pack.Strict), string(pack.Structural)}
	formats = []string{"human", "json"}
)

func verifyCommand(a *cli.App) *cobra.Command {
	var f packVerifyFlags
	cmd := &cobra.Command{
		Use:   "verify PACK...",
		Short: "check run packs, folders or archives",
		Long: `Verify checks each pack against every rule of a level and names each violation: the
rule, the file and pointer, and what is wrong. The level strict, the default, recomputes
everything that can be recomputed. The level structural checks presence, shapes and
references, as other readers of the format do. fiador explain RULE says what a rule
means.

A valid pack is one that agrees with itself: anybody can make one. With --key the
signature of that key must cover every file. With --ledger-key the ledger of that key
must have the run's record. The printed line says "promised" if a ledger server has
signed its place alone, and no checkpoint. Without both flags a pack is "unauthenticated".

A valid pack can have any outcome: a REFUSE has a valid pack too, and the printed line
names the outcome. With --accepted the run must be accepted as well.

If the profile of the pack is not built in, name it with --policy. Verify compares the
limits of that profile, but not its text; fiador reproduce compares the digests of all
its modules.

Exit codes:
  0  every pack is valid, accepted if --accepted asks for that, and authenticated by
     every key that was given
  1  at least one pack breaks a rule
  2  a pack could not be read, or a check could not be made`,
		Example: `  fiador pack verify ./pack
  fiador pack verify packs/* --format json
  fiador pack verify ./pack --key pack.pub --ledger-key gate.pub --accepted
  curl -s https://example.com/pack.tar.gz | fiador pack verify -
  fiador pack verify pack.tar.gz --level structural`,
		Args: cli.AtLeastOne("PACK"),
		RunE: func(cmd *cobra.Command, args []string) error { return verifyPacks(a, cmd, args, f) },
	}
	f.KeyFlags.Register(cmd)
	flags := cmd.Flags()
	f.level = string(pack.Strict)
	flags.Var(&cli.Once{Value: &f.level}, "level", "strict or structural")
	policies.ProfileFlag(cmd, &f.policy, "profile that the packs were made under (default: the built-in one that each names)")
	flags.BoolVar(&f.accepted, "accepted", false, "the run has to be accepted as well: a valid pack of another outcome is exit code 1")
	flags.StringVar(&f.format, "format", "human", "human, or json: one canonical object a line")
	cli.Complete(cmd, "level", levels...)
	cli.Complete(cmd, "format", formats...)
	return cmd
}

// verifyPacks verifies packs in parallel and prints the results in the order of the
// names. The worst pack decides the exit status: 0 valid, 1 a broken rule or a missing
// signature, 2 not read or not decided.
func verifyPacks(a *cli.App, cmd *cobra.Command, names []string, f packVerifyFlags) error {
	err := cmp.Or(cli.NotEmpty(cmd, "policy"), cli.Choice("level", f.level, levels), cli.Choice("format", f.format, formats))
	if err != nil {
		return err
	}
	given, err := policies.GivenProfile(a, f.policy)
	if err != nil {
		return err
	}
	keys, err := f.Open(cmd)
	if err != nil {
		return err
	}
	o := packs.Options(a, given)
	o.Level = pack.Level(f.level)
	debug.SetGCPercent(cli.ManyGC)
	debug.SetMemoryLimit(packMemory)
	var out bytes.Buffer
	for v := range inTurn(names, min(runtime.GOMAXPROCS(0), packWorkers), func(name string) packs.Verified { return verifyPack(a, name, o, keys, f.accepted) }) {
		if v.Err != nil {
			a.Status = max(a.Status, a.Report(v.Err))
			continue
		}
		a.Status = max(a.Status, v.Status())
		if f.format == "json" {
			b, _, err := canon.Artifact(v.Document())
			if err != nil {
				return err
			}
			out.Write(b)
		} else {
			v.Human(cli.Terminal{W: &out, Color: a.Page.Color})
		}
	}
	switch {
	case f.format != "json":
		return a.Say(out.Bytes())
	case a.OutTTY:
		return a.Print(screen.JSON(out.Bytes()))
	}
	return a.Print(out.Bytes())
}

// packWorkers is how many packs are verified at once. Above packMemory bytes the runtime
// returns memory as soon as possible: each pack may need some hundred MiB.
const (
	packWorkers = 4
	packMemory  = 1 << 30
)

// verifyPack reads and verifies one pack. A panic becomes the error of this pack, so
// that the others are still verified.
func verifyPack(a *cli.App, name string, o verify.Options, k packs.Keys, accepted bool) (v packs.Verified) {
	v = packs.Verified{Name: canon.Clean(name), Accepted: accepted}
	defer func() {
		if p := recover(); p != nil {
			v = packs.Verified{Name: v.Name, Err: runerr.Panicked()}
		}
	}()
	p, err := packs.Read(a, name)
	if err != nil {
		v.Err = err
		return v
	}
	v.Verdict, v.Vouched, v.Hint = verify.Pack(p, o), k.Vouch(p), packs.TopHint(p)
	return v
}

// inTurn calls f for each item, for workers items at once. It yields the results in the
// order of the items. It keeps at most lookahead results per worker, even if the first
// item takes long. After the caller has stopped, it begins only a few further items.
func inTurn[T, R any](items []T, workers int, f func(T) R) func(func(R) bool) {
	const lookahead = 32
	return func(yield func(R) bool) {
		results, busy := make(chan chan R, lookahead*workers), make(chan struct{}, workers)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			defer close(results)
			for _, item := range items {
				done := make(chan R, 1)
				select {
				case results <- done:
				case <-stop:
					return
				}
				busy <- struct{}{}
				go func() {
					done <- f(item)
					<-busy
				}()
			}
		}()
		for done := range results {
			if !yield(<-done) {
				return
			}
		}
	}
}
