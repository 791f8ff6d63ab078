package main

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/profiles"
)

type packVerifyFlags struct {
	packKeyFlags
	level    string
	policy   string
	format   string
	accepted bool
}

// packKeyFlags name the keys that must vouch for a pack.
type packKeyFlags struct {
	keys      []string
	ledgerKey string
}

func (f *packKeyFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.keys, "key", nil, "verifier key that has to have signed the pack, or a file with it; may be repeated, and then each has to")
	cmd.Flags().Var(&once{value: &f.ledgerKey}, "ledger-key", "verifier key of the ledger that has to have the run's record, or a file with it")
}

// packKeys holds the keys of the flags.
type packKeys struct {
	keys      []ledger.Verifier
	ledgerKey *ledger.Verifier
}

func (f packKeyFlags) open(cmd *cobra.Command) (k packKeys, err error) {
	if slices.Contains(f.keys, "") {
		return k, usage(helpHint(cmd), "--key is empty")
	}
	if err := notEmpty(cmd, "ledger-key"); err != nil {
		return k, err
	}
	for _, text := range f.keys {
		v, err := verifierKey("key", text)
		if err != nil {
			return packKeys{}, err
		}
		k.keys = append(k.keys, v)
	}
	if f.ledgerKey == "" {
		return k, nil
	}
	v, err := verifierKey("ledger-key", f.ledgerKey)
	k.ledgerKey = &v
	return k, err
}

// vouch checks each given key against a pack.
func (k packKeys) vouch(p *pack.Pack) sign.Authenticity {
	all := sign.Authenticate(p, nil, k.ledgerKey)
	for i := range k.keys {
		one := sign.Authenticate(p, &k.keys[i], nil)
		all.Signed = one.Signed && (all.Signed || i == 0)
		all.Violations = append(all.Violations, one.Violations...)
	}
	slices.SortStableFunc(all.Violations, func(x, y pack.Violation) int {
		return cmp.Or(canon.Compare(x.Rule, y.Rule), canon.Compare(x.Path, y.Path), canon.Compare(x.Message, y.Message))
	})
	all.Violations = slices.Compact(all.Violations)
	if len(all.Violations) > 0 {
		all.Signed, all.Recorded = false, nil
	}
	return all
}

func packVerifyCommand(a *app) *cobra.Command {
	var f packVerifyFlags
	cmd := &cobra.Command{
		Use:   "verify PACK...",
		Short: "check run packs, folders or archives",
		Long: `Verify holds every rule of a level against each pack and names each violation: the
rule, the file and pointer, and what is wrong. Strict, the default, recomputes
everything that can be recomputed; structural checks presence, shapes and references,
as other readers of the format do. fiador explain RULE says what a rule means.

A valid pack is one that agrees with itself: anybody can make one. With --key the
signature of that key has to cover every file, and with --ledger-key the ledger of that
key has to have the run's record; without them a pack is "unauthenticated".

Valid says nothing of the outcome: a REFUSE has a valid pack too, and the line names it.
--accepted asks for the outcome as well.

For a profile that is not built in, name it with --policy. Its limits are compared, and
not its text: fiador reproduce holds the digests of every module.

Exit codes:
  0  every pack is valid, accepted where that was asked for, and vouched for by the keys that were given
  1  at least one pack breaks a rule
  2  a pack could not be read, or a check could not be made`,
		Example: `  fiador pack verify ./pack
  fiador pack verify packs/* --format json
  fiador pack verify ./pack --key pack.pub --ledger-key gate.pub --accepted
  curl -s https://example.com/pack.tar.gz | fiador pack verify -
  fiador pack verify pack.tar.gz --level structural`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(helpHint(cmd), "PACK is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return verifyPacks(a, cmd, args, f) },
	}
	f.packKeyFlags.register(cmd)
	flags := cmd.Flags()
	f.level = string(pack.Strict)
	flags.Var(&once{value: &f.level}, "level", "strict or structural")
	flags.Var(&once{value: &f.policy}, "policy", "profile that the packs were made under (default: the built-in one that each names)")
	flags.BoolVar(&f.accepted, "accepted", false, "the run has to be accepted as well: a valid pack of another outcome is exit code 1")
	flags.StringVar(&f.format, "format", "human", "human, or json: one canonical object a line")
	complete(cmd, "level", string(pack.Strict), string(pack.Structural))
	complete(cmd, "policy", profiles.Names()...)
	complete(cmd, "format", "human", "json")
	return cmd
}

// verifiedPack is the result for one pack.
type verifiedPack struct {
	name    string
	err     error
	verdict verify.Verdict
	vouched sign.Authenticity
	hint    string // what to do about an invalid pack

	accepted bool // --accepted: the run must be accepted
}

// topHint returns the hint for an archive whose files all lie in one folder of it. The
// archive of a whole folder has this form. For other packs topHint returns empty.
func topHint(p *pack.Pack) string {
	dir := "."
	for _, e := range p.Entries {
		if path.Base(e.Name) == pack.RunFile {
			dir = path.Dir(e.Name)
			break
		}
	}
	apart := func(e pack.Entry) bool {
		above := e.Kind == pack.KindFolder && strings.HasPrefix(dir+"/", e.Name+"/")
		return !above && !strings.HasPrefix(e.Name, dir+"/")
	}
	if dir == "." || dir == "/" || p.More || slices.ContainsFunc(p.Entries, apart) {
		return ""
	}
	return "the files belong at the top of an archive: make it with fiador pack archive, or tar -C " + screen.ShellWord(dir) + " -czf FILE ."
}

// rejected reports whether the run is not accepted though --accepted demands it.
func (v verifiedPack) rejected() bool { return v.accepted && !v.verdict.Claims.Accepted }

// outcome describes the outcome of the run in words.
func (v verifiedPack) outcome() string {
	c := v.verdict.Claims
	switch {
	case c.Outcome != string(kernel.OutcomeBundle):
		return c.Outcome
	case c.Accepted:
		return c.Outcome + " accepted"
	}
	return c.Outcome + " rejected"
}

func verifyPacks(a *app, cmd *cobra.Command, names []string, f packVerifyFlags) error {
	if err := notEmpty(cmd, "policy"); err != nil {
		return err
	}
	if err := choice("level", f.level, []string{string(pack.Strict), string(pack.Structural)}); err != nil {
		return err
	}
	if err := choice("format", f.format, []string{"human", "json"}); err != nil {
		return err
	}
	given, err := givenProfile(a, f.policy)
	if err != nil {
		return err
	}
	keys, err := f.open(cmd)
	if err != nil {
		return err
	}
	o := packOptions(a, given)
	o.Level = pack.Level(f.level)
	debug.SetGCPercent(manyGC)
	debug.SetMemoryLimit(packMemory)
	var out bytes.Buffer
	for v := range inTurn(names, min(runtime.GOMAXPROCS(0), packWorkers), func(name string) verifiedPack { return verifyPack(a, name, o, keys, f.accepted) }) {
		if v.err != nil {
			a.status = max(a.status, a.report(v.err))
			continue
		}
		a.status = max(a.status, v.status())
		if f.format == "json" {
			if err := v.json(&out); err != nil {
				return err
			}
		} else {
			v.human(terminal{w: &out, color: a.page.color})
		}
	}
	if a.outTTY && f.format == "json" {
		return a.print(screen.JSON(out.Bytes()))
	}
	return a.print(out.Bytes())
}

// packWorkers is how many packs are verified at once. Above packMemory bytes the runtime
// returns memory as soon as possible: each pack may need some hundred MiB.
const (
	packWorkers = 4
	packMemory  = 1 << 30
)

func verifyPack(a *app, name string, o verify.Options, k packKeys, accepted bool) (v verifiedPack) {
	v = verifiedPack{name: canon.Clean(name), accepted: accepted}
	defer func() {
		if p := recover(); p != nil {
			v = verifiedPack{name: v.name, err: runerr.Panicked()}
		}
	}()
	p, err := readPack(a, name)
	if err != nil {
		v.err = err
		return v
	}
	v.verdict, v.vouched, v.hint = verify.Pack(p, o), k.vouch(p), topHint(p)
	return v
}

// violations returns the violations of the pack and those of its signatures and records.
func (v verifiedPack) violations() []pack.Violation {
	return slices.Concat(v.verdict.Violations, v.vouched.Violations)
}

// voucher names the keys that vouch for the pack.
func (v verifiedPack) voucher() string {
	var list []string
	if v.vouched.Signed {
		list = append(list, "signed")
	}
	if r := v.vouched.Recorded; r != nil {
		list = append(list, fmt.Sprintf("entry %d of %s", r.Index, r.Checkpoint.Origin))
	}
	if len(list) > 0 {
		return strings.Join(list, ", ")
	}
	if n := len(v.verdict.Claims.Signers); n > 0 {
		return "unauthenticated (" + screen.Count(n, "signature") + " not checked: --key)"
	}
	return "unauthenticated"
}

func (v verifiedPack) status() int {
	switch {
	case len(v.violations()) > 0:
		return exitRejected
	case len(v.verdict.NotChecked) > 0:
		return exitError
	case v.rejected():
		return exitRejected
	}
	return exitAccepted
}

func (v verifiedPack) human(t terminal) {
	for _, x := range v.violations() {
		t.line(t.paint(screen.Red, fmt.Sprintf("%-4s", x.Rule)), strings.TrimSpace(plain(x.Path)+"  "+plain(x.Message)))
	}
	for _, why := range v.verdict.NotChecked {
		t.line(t.paint(screen.Yellow, "not checked"), plain(why)+"; name its folder with --policy")
	}
	word, style := v.word()
	about := []string{string(v.verdict.Level)}
	if word == wordInvalid {
		about = append(about, screen.Count(len(v.violations())+v.verdict.More, "violation"))
	} else if word != wordUndecided {
		about = append(about, v.outcome(), v.voucher())
	}
	t.line(t.paint(style, word), plain(v.name), plain(strings.Join(about, ", ")))
	if word == wordInvalid {
		t.hint(v.hint)
	}
}

// The words for the result for a pack.
const (
	wordValid     = "VALID"
	wordInvalid   = "INVALID"
	wordUndecided = "UNDECIDED"
	wordRejected  = "NOT ACCEPTED" // valid, but the run is not accepted
)

// word returns one word for the result, and its colour.
func (v verifiedPack) word() (word, style string) {
	switch {
	case len(v.violations()) > 0:
		return wordInvalid, screen.Red
	case len(v.verdict.NotChecked) > 0:
		return wordUndecided, screen.Yellow
	case v.rejected():
		return wordRejected, screen.Red
	}
	return wordValid, screen.Green
}

func (v verifiedPack) json(out *bytes.Buffer) error {
	type violation struct {
		Rule    string `json:"rule"`
		Path    string `json:"path"`
		Message string `json:"message"`
	}
	word, _ := v.word()
	doc := struct {
		Outcome    string      `json:"outcome"`
		Accepted   bool        `json:"accepted"`
		Verdict    string      `json:"verdict"`
		Pack       string      `json:"pack"`
		Level      string      `json:"level"`
		Valid      bool        `json:"valid"`
		Signed     bool        `json:"signed"`
		Recorded   bool        `json:"recorded"`
		Violations []violation `json:"violations"`
		More       int         `json:"more"`
		NotChecked []string    `json:"not_checked"`
	}{
		v.verdict.Claims.Outcome, v.verdict.Claims.Accepted, strings.ToLower(strings.ReplaceAll(word, " ", "_")),
		v.name, string(v.verdict.Level), v.verdict.OK() && v.vouched.OK(), v.vouched.Signed, v.vouched.Recorded != nil,
		[]violation{}, v.verdict.More, orEmpty(v.verdict.NotChecked),
	}
	for _, x := range v.violations() {
		doc.Violations = append(doc.Violations, violation{x.Rule, x.Path, x.Message})
	}
	b, _, err := canon.Artifact(doc)
	out.Write(b)
	return err
}

// inTurn calls f for each item in workers goroutines. It yields the results in the order
// of the items. It keeps at most lookahead results per worker, even if the first item
// takes long.
func inTurn[T, R any](items []T, workers int, f func(T) R) func(func(R) bool) {
	const lookahead = 32
	type job struct {
		item T
		done chan R
	}
	return func(yield func(R) bool) {
		jobs, results := make(chan job, lookahead*workers), make(chan chan R, lookahead*workers)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			defer close(jobs)
			defer close(results)
			for _, item := range items {
				j := job{item, make(chan R, 1)}
				select {
				case results <- j.done:
					jobs <- j
				case <-stop:
					return
				}
			}
		}()
		for range workers {
			go func() {
				for j := range jobs {
					j.done <- f(j.item)
				}
			}()
		}
		for done := range results {
			if !yield(<-done) {
				return
			}
		}
	}
}
