package packcmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/cli/packs"
	"github.com/fiador/fiador/cmd/fiador/cli/policies"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// packShowFlags are the flags of show. file is the name of one file of the pack, which
// is printed as it is; the pack is then not verified.
type packShowFlags struct {
	policy string
	file   string
	format string
}

func showCommand(a *cli.App) *cobra.Command {
	var f packShowFlags
	cmd := &cobra.Command{
		Use:   "show PACK",
		Short: "show what a run pack says",
		Long: `Show prints for people what a pack says of its run. It names the outcome, the policy,
what was executed and changed, the machine, and the hash of every file. The last lines
say whether the pack is valid: what an invalid pack says is worth nothing.

With --format json it prints one canonical object. The object has files, verified (as
pack verify prints it), the documents of the pack, signers, and the place in a ledger.

--file prints the bytes of one file and nothing else. On a terminal characters that do
not show are escaped.

Exit codes:
  0  shown, and the pack is valid
  1  shown, and the pack breaks a rule
  2  it could not be read, or a check could not be made`,
		Example: `  fiador pack show ./pack
  fiador pack show pack.tar.gz --file run.json | fiador verify -`,
		Args: cli.ExactArgs("PACK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.NotEmpty(cmd, "policy", "file"); err != nil {
				return err
			}
			if f.file != "" && cmd.Flags().Changed("format") {
				return cli.Unfit("leave one of the two out", "--file prints a file as it is, and --format a summary")
			}
			return showPack(a, args[0], f)
		},
	}
	cli.FormatFlag(cmd, &f.format, "human", "json")
	flags := cmd.Flags()
	policies.ProfileFlag(cmd, &f.policy, "profile that the pack was made under (default: the built-in one that it names)")
	flags.StringVar(&f.file, "file", "", "file of the pack to print as it is")
	cli.Complete(cmd, "file", pack.Names()...)
	return cmd
}

// showPack prints what a pack says, and its verdict last. The exit status is that of
// the verdict. What was executed is left out of an invalid pack.
func showPack(a *cli.App, name string, f packShowFlags) error {
	if f.file != "" {
		if err := cli.Choice("file", f.file, pack.Names()); err != nil {
			return err
		}
	}
	p, given, err := packs.ReadUnder(a, f.policy, name)
	if err != nil {
		return err
	}
	if f.file != "" {
		return printPacked(a, p, name, f.file)
	}
	v := packs.Verified{Name: canon.Clean(name), Verdict: verify.Pack(p, packs.Options(a, given)), Hint: packs.TopHint(p)}
	a.Status = v.Status()
	return cli.PrintAs(a, f.format, documentOf(p, v), func(t cli.Terminal) {
		s := packSheet{t: t, p: p}
		s.run()
		if a.Status != cli.ExitRejected {
			s.execution()
		}
		s.files()
		s.claims(v.Verdict.Claims)
		v.Human(t)
	})
}

// packDocument is a pack in the form that --format json prints. An invalid pack has no
// documents: what it says is worth nothing.
type packDocument struct {
	Verified any            `json:"verified"`
	Digest   string         `json:"digest,omitempty"`
	Run      any            `json:"run,omitempty"`
	Evidence *pack.Evidence `json:"evidence,omitempty"`
	Runner   *pack.Runner   `json:"runner,omitempty"`
	Files    []packedFile   `json:"files"`
	Signers  []string       `json:"signers"`
	Recorded *packedEntry   `json:"recorded,omitempty"` // a proof of it is in the pack
	Promise  *packedEntry   `json:"promise,omitempty"`  // or the promise of a ledger's server
}

// packedFile is one entry of a pack. An entry that is no regular file has no size.
type packedFile struct {
	Name   string            `json:"name"`
	Kind   string            `json:"kind,omitempty"`
	Size   *int              `json:"size,omitempty"`
	SHA256 canon.ContentHash `json:"sha256,omitempty"`
}

// packedEntry is the place in a ledger that the receipt of a pack names. Of an ack it is
// promised.
type packedEntry struct {
	Origin string `json:"origin"`
	Index  int64  `json:"index"`
}

func documentOf(p *pack.Pack, v packs.Verified) packDocument {
	d := packDocument{Verified: v.Document(), Signers: cli.OrEmpty(v.Verdict.Claims.Signers)}
	for _, e := range p.Entries {
		if e.Text == nil {
			d.Files = append(d.Files, packedFile{Name: e.Name, Kind: fmt.Sprint(e.Kind)})
			continue
		}
		d.Files = append(d.Files, packedFile{Name: e.Name, Size: new(len(e.Text)), SHA256: canon.Sum(e.Text)})
	}
	d.Files = cli.OrEmpty(d.Files)
	if c := v.Verdict.Claims; c.Origin != "" {
		entry := &packedEntry{c.Origin, c.Index}
		if c.Promised {
			d.Promise = entry
		} else {
			d.Recorded = entry
		}
	}
	if v.Status() == cli.ExitRejected {
		return d
	}
	if doc, err := canon.Parse(p.File(pack.RunFile), result.MaxBytes); err == nil {
		d.Run = doc.Value()
		if obj, ok := doc.Value().(map[string]any); ok {
			hash, _ := result.Digest(obj)
			d.Digest = string(hash)
		}
	}
	d.Evidence, _ = p.Evidence()
	d.Runner, _ = p.Runner()
	return d
}

// printPacked prints one file of a pack as it is. On a terminal it escapes invisible
// characters. A file that the pack lacks is a RUN_E006.
func printPacked(a *cli.App, p *pack.Pack, name, file string) error {
	text := p.File(file)
	if text == nil {
		return runerr.New(result.CodeEvidence, "pack "+cli.Quoted(name)+" has no "+file, "fiador pack show lists its files", runerr.File(file))
	}
	if a.OutTTY {
		text = screen.JSON(text)
	}
	return a.Print(text)
}

// packSheet prints a pack for people.
type packSheet struct {
	t cli.Terminal
	p *pack.Pack
}

// row prints a name and a text. The text comes from the pack, so characters that do not
// show are escaped.
func (s packSheet) row(name, format string, args ...any) {
	s.t.Line(s.t.Paint(screen.Dim, fmt.Sprintf("%-9s", name)), screen.Plain(fmt.Sprintf(format, args...)))
}

// run prints the contents of run.json, even if the file breaks its schema.
func (s packSheet) run() {
	doc, err := canon.Parse(s.p.File(pack.RunFile), result.MaxBytes)
	if err != nil {
		return
	}
	get := func(pointer string) string {
		v, _ := canon.Lookup(doc.Value(), pointer)
		switch v := v.(type) {
		case string:
			return v
		case bool:
			return strconv.FormatBool(v)
		}
		return "?"
	}
	s.row("run", "%s", get("/run_id"))
	s.row("started", "%s", get("/started_at"))
	s.row("intent", "%s  %s", get("/intent/path"), get("/intent/sha256"))
	s.row("profile", "%s, %s, model mode %s", get("/policy/name"), get("/execution_mode"), get("/model_mode"))
	accepted := map[string]string{"true": "accepted", "false": "rejected"}[get("/decision/accepted")]
	s.row("outcome", "%s, %s", get("/kernel_result_kind"), accepted)
	if reasons, ok := canon.Lookup(doc.Value(), "/decision/reasons"); ok {
		list, _ := reasons.([]any)
		for _, r := range list {
			s.row("reason", "%v", r)
		}
	}
	if obj, ok := doc.Value().(map[string]any); ok {
		if hash, err := result.Digest(obj); err == nil {
			s.row("digest", "%s", hash)
		}
	}
}

// execution prints the execution of a valid pack: evidence.json first, and then
// runner.json. It prints nothing for a pack without an execution.
func (s packSheet) execution() {
	e, err := s.p.Evidence()
	if err != nil || e == nil {
		return
	}
	hash, _ := e.Hash()
	s.row("evidence", "%s, %s", e.Status, hash)
	for _, r := range e.Runs {
		s.row("command", "%s: exit code %d", strings.Join(r.Argv, " "), r.ExitCode)
	}
	for _, c := range e.Calls {
		s.row("call", "%s: prompt %s", c.AdapterID, c.PromptHash)
	}
	for _, r := range e.ActionResults {
		s.row(string(r.Action), "%s  %s", r.Path, r.SHA256)
	}
	for _, name := range e.Unchanged {
		s.row("unchanged", "%s", name)
	}
	r, err := s.p.Runner()
	if err != nil || r == nil {
		return
	}
	s.row("machine", "%s %s, kernel %s, %s", r.Platform.OS, r.Platform.Arch, r.Platform.KernelRelease, r.Platform.GoVersion)
	s.row("sandbox", "%s, isolation %s, %d ms", r.Sandbox.Backend, r.Sandbox.IsolationLevel, r.Timing.DurationMS)
	for _, l := range r.Sandbox.Layers {
		s.row("layer", "%s: %s, %s", l.Clause, l.Status, l.Mechanism)
	}
	for _, w := range r.Warnings {
		s.row("warning", "%s", w)
	}
}

// claims prints the claims that only a key can confirm.
func (s packSheet) claims(c verify.Claims) {
	for _, id := range c.Signers {
		s.row("signed", "%s  (not checked: pack verify --key)", id)
	}
	if c.Origin != "" {
		s.row(map[bool]string{false: "recorded", true: "promised"}[c.Promised], "entry %d of %s  (not checked: pack verify --ledger-key)", c.Index, c.Origin)
	}
}

// files prints name, size in bytes and hash of each file, and the kind of an entry that
// is no regular file.
func (s packSheet) files() {
	for _, e := range s.p.Entries {
		if e.Text == nil {
			s.row("file", "%s  %s, not read", e.Name, e.Kind)
			continue
		}
		s.row("file", "%s  %d bytes  %s", e.Name, len(e.Text), canon.Sum(e.Text))
	}
}
