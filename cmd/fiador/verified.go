package main

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

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
		t.line(t.paint(screen.Red, fmt.Sprintf("%-4s", x.Rule)), strings.TrimSpace(screen.Plain(x.Path)+"  "+screen.Plain(x.Message)))
	}
	for _, why := range v.verdict.NotChecked {
		t.line(t.paint(screen.Yellow, "not checked"), screen.Plain(why)+"; name its folder with --policy")
	}
	word, style := v.word()
	about := []string{string(v.verdict.Level)}
	if word == wordInvalid {
		about = append(about, screen.Count(len(v.violations())+v.verdict.More, "violation"))
	} else if word != wordUndecided {
		about = append(about, v.outcome(), v.voucher())
	}
	t.line(t.paint(style, word), screen.Plain(v.name), screen.Plain(strings.Join(about, ", ")))
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
