package packs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/ledger"
)

// KeyFlags name the keys that must authenticate a pack.
type KeyFlags struct {
	keys      []string
	ledgerKey string
}

// Register adds the flags to a command.
func (f *KeyFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.keys, "key", nil, "verifier key that must have signed the pack, or a file with this key; may be repeated: then each key must have signed")
	cmd.Flags().Var(&cli.Once{Value: &f.ledgerKey}, "ledger-key", "verifier key of the ledger that must have the run's record, or a file with this key")
}

// Keys holds the keys of the flags.
type Keys struct {
	Keys      []ledger.Verifier
	LedgerKey *ledger.Verifier
}

// Open reads the keys. It refuses an empty name: a flag without a key would check
// nothing.
func (f KeyFlags) Open(cmd *cobra.Command) (k Keys, err error) {
	if slices.Contains(f.keys, "") {
		return k, cli.Usage(cli.HelpHint(cmd), "--key is empty")
	}
	if err := cli.NotEmpty(cmd, "ledger-key"); err != nil {
		return k, err
	}
	for _, text := range f.keys {
		v, err := ledgers.VerifierKey("key", text)
		if err != nil {
			return Keys{}, err
		}
		k.Keys = append(k.Keys, v)
	}
	k.LedgerKey, err = ledgers.GivenKey("ledger-key", f.ledgerKey)
	return k, err
}

// Vouch checks each given key against a pack (specs/pack.md, Rules that need a key).
// Every key must have signed. With one violation the pack counts as neither signed nor
// recorded.
func (k Keys) Vouch(p *pack.Pack) sign.Authenticity {
	all := sign.Authenticate(p, nil, k.LedgerKey)
	for i := range k.Keys {
		one := sign.Authenticate(p, &k.Keys[i], nil)
		all.Signed = one.Signed && (all.Signed || i == 0)
		all.Violations = append(all.Violations, one.Violations...)
	}
	all.Violations = pack.SortViolations(all.Violations)
	if len(all.Violations) > 0 {
		all.Signed, all.Recorded = false, nil
	}
	return all
}

// Verified is the result for one pack. If Err is set, the pack could not be read and
// the verdict is empty.
type Verified struct {
	Name    string
	Err     error
	Verdict verify.Verdict
	Vouched sign.Authenticity
	Hint    string // what to do about an invalid pack

	Accepted bool // --accepted: the run must be accepted
}

// TopHint returns the hint for an archive whose files all lie in one folder of it. The
// archive of a whole folder has this form. For other packs topHint returns empty.
func TopHint(p *pack.Pack) string {
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

// outcome describes the outcome of the run in words.
func (v Verified) outcome() string {
	c := v.Verdict.Claims
	switch {
	case c.Outcome != string(kernel.OutcomeBundle):
		return c.Outcome
	case c.Accepted:
		return c.Outcome + " accepted"
	}
	return c.Outcome + " rejected"
}

// violations returns the violations of the pack and those of its signatures and records.
func (v Verified) violations() []pack.Violation {
	return slices.Concat(v.Verdict.Violations, v.Vouched.Violations)
}

// voucher says how the given keys authenticate the pack.
func (v Verified) voucher() string {
	var list []string
	if v.Vouched.Signed {
		list = append(list, "signed")
	}
	if r := v.Vouched.Recorded; r != nil {
		promised := map[bool]string{true: "promised as "}[r.Promised]
		list = append(list, fmt.Sprintf("%sentry %d of %s", promised, r.Index, r.Origin))
	}
	if len(list) > 0 {
		return strings.Join(list, ", ")
	}
	if n := len(v.Verdict.Claims.Signers); n > 0 {
		return "unauthenticated (" + screen.Count(n, "signature") + " not checked: --key)"
	}
	return "unauthenticated"
}

// Status returns the exit status for the pack: 0 valid, 1 invalid, 2 undecided. A valid
// pack whose run had to be accepted and is not has 1 too.
func (v Verified) Status() int {
	_, _, status := v.result()
	return status
}

// Human writes the result for people.
func (v Verified) Human(t cli.Terminal) {
	for _, x := range v.violations() {
		t.Line(t.Paint(screen.Red, fmt.Sprintf("%-4s", x.Rule)), strings.TrimSpace(screen.Plain(x.Path)+"  "+screen.Plain(x.Message)))
	}
	for _, why := range v.Verdict.NotChecked {
		t.Line(t.Paint(screen.Yellow, "not checked"), screen.Plain(why)+"; name its folder with --policy")
	}
	word, style, _ := v.result()
	about := []string{string(v.Verdict.Level)}
	if word == wordInvalid {
		about = append(about, screen.Count(len(v.violations())+v.Verdict.More, "violation"))
	} else if word != wordUndecided {
		about = append(about, v.outcome(), v.voucher())
	}
	t.Line(t.Paint(style, word), screen.Plain(v.Name), screen.Plain(strings.Join(about, ", ")))
	if word == wordInvalid {
		t.Hint(v.Hint)
	}
}

// The words for the result for a pack.
const (
	wordValid     = "VALID"
	wordInvalid   = "INVALID"
	wordUndecided = "UNDECIDED"
	wordRejected  = "NOT ACCEPTED" // valid, but the run is not accepted
)

// result returns one word for the result, its colour and its exit status.
func (v Verified) result() (word, style string, status int) {
	switch {
	case len(v.violations()) > 0:
		return wordInvalid, screen.Red, cli.ExitRejected
	case len(v.Verdict.NotChecked) > 0:
		return wordUndecided, screen.Yellow, cli.ExitError
	case v.Accepted && !v.Verdict.Claims.Accepted:
		return wordRejected, screen.Red, cli.ExitRejected
	}
	return wordValid, screen.Green, cli.ExitAccepted
}

// Document returns the result in the form that --format json prints.
func (v Verified) Document() any {
	word, _, _ := v.result()
	recorded := v.Vouched.Recorded
	promised := recorded != nil && recorded.Promised
	return struct {
		Outcome    string           `json:"outcome"`
		Accepted   bool             `json:"accepted"`
		Verdict    string           `json:"verdict"`
		Pack       string           `json:"pack"`
		Level      pack.Level       `json:"level"`
		Valid      bool             `json:"valid"`
		Signed     bool             `json:"signed"`
		Recorded   bool             `json:"recorded"`
		Promised   bool             `json:"promised,omitempty"` // and not recorded: the receipt is an ack
		Violations []pack.Violation `json:"violations"`
		More       int              `json:"more"`
		NotChecked []string         `json:"not_checked"`
	}{
		v.Verdict.Claims.Outcome, v.Verdict.Claims.Accepted, strings.ToLower(strings.ReplaceAll(word, " ", "_")),
		v.Name, v.Verdict.Level, v.Verdict.OK() && v.Vouched.OK(), v.Vouched.Signed, recorded != nil && !promised, promised,
		cli.OrEmpty(v.violations()), v.Verdict.More, cli.OrEmpty(v.Verdict.NotChecked),
	}
}
