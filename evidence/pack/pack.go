// Package pack holds the run pack: a flat folder, or an archive of one, that proves one
// run to whoever has nothing else. The format is that of specs/pack.md.
//
// A pack has no folder, no link and no other file than [Names]; every file is canonical
// JSON (RFC 8785) and one LF, but ledger.jsonl, which has such a line per record.
//
// # Reading
//
// [Open] reads a folder or an archive once, and everything after works on what it read.
// What it reads is bounded: no file beyond its limit, no more than [MaxEntries] names, no
// link followed, nothing opened that is no regular file. A pack that breaks a rule is
// read nevertheless, so that [Verify] can say which.
//
// # Verifying
//
// [Verify] holds a pack against the rules of one level. Structural is presence, shapes
// and references, as another reader of the format would check them. Strict recomputes
// everything that can be recomputed. A violation has a rule id, a path and a message;
// violations are sorted by these three (PK10).
//
// # Writing
//
// [Create] and [Writer.Commit] leave a complete pack or none.
package pack

import (
	"cmp"
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

// The files of a pack.
const (
	RunFile      = "run.json"      // the RunResult
	BundleFile   = "bundle.json"   // the bundle, unless REFUSE
	PolicyFile   = "policy.json"   // the policy of the RunResult
	EvidenceFile = "evidence.json" // what was observed of an execution
	PatchFile    = "patch.json"    // what an execution changed
	RunnerFile   = "runner.json"   // what the machine was
	ModelFile    = "model_io.json" // what a model was asked and has answered
	LedgerFile   = "ledger.jsonl"  // the run's lines of the ledger
	MetaFile     = "meta.json"     // signature, receipt, and whatever else
)

// Names are the files that a pack can have, sorted.
func Names() []string {
	return []string{BundleFile, EvidenceFile, LedgerFile, MetaFile, ModelFile, PatchFile, PolicyFile, RunFile, RunnerFile}
}

// MaxEntries is how many names of a folder or an archive are looked at.
const MaxEntries = 256

// MaxTotalBytes is how much of an archive is unpacked: 256 MiB.
const MaxTotalBytes = 256 << 20

// MaxBytes is the size of the largest file of that name that is read, in bytes.
func MaxBytes(name string) int64 {
	switch name {
	case PatchFile, ModelFile:
		return 128 << 20
	case RunFile, EvidenceFile:
		return 64 << 20
	case BundleFile:
		return 16 << 20
	}
	return 4 << 20
}

// Level says how far a pack is verified.
type Level string

// The levels.
const (
	Structural Level = "structural"
	Strict     Level = "strict"
)

// Kind is what stands under a name.
type Kind string

// The kinds.
const (
	KindFile   Kind = "file"
	KindFolder Kind = "folder"
	KindLink   Kind = "link"  // symbolic or, in an archive, hard
	KindOther  Kind = "other" // a device, a FIFO, a socket
)

// Entry is one name of a pack.
type Entry struct {
	Name  string
	Kind  Kind
	Size  int64  // bytes, of a file
	Text  []byte // of a file that is one of Names and not over its limit; else nil
	Twice bool   // an archive has the name a second time; Text is of the first
}

// Pack is what was read of a folder or an archive.
type Pack struct {
	Entries []Entry // by name, in code units
	More    bool    // there are more than MaxEntries
}

// File is the text of a file of the pack, or nil.
func (p *Pack) File(name string) []byte {
	for _, e := range p.Entries {
		if e.Name == name {
			return e.Text
		}
	}
	return nil
}

// Of is the pack of the files given by name, as it would be read: a file over its limit
// has no text.
func Of(files map[string][]byte) *Pack {
	p := &Pack{}
	for name, text := range files {
		e := Entry{Name: name, Kind: KindFile, Size: int64(len(text)), Text: text}
		switch {
		case e.Size > MaxBytes(name):
			e.Text = nil
		case text == nil:
			e.Text = []byte{}
		}
		p.Entries = append(p.Entries, e)
	}
	p.sort()
	return p
}

// entry returns the entry of a name.
func (p *Pack) entry(name string) (Entry, bool) {
	for _, e := range p.Entries {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

func (p *Pack) sort() {
	slices.SortFunc(p.Entries, func(a, b Entry) int { return canon.Compare(a.Name, b.Name) })
}

// Rule is the record of one rule. explain prints it, and the reference in docs/ is made
// from it. The exact meaning of a structural rule is in the doc comment of the method
// that checks it, and in the table of specs/pack.md.
type Rule struct {
	ID          string `json:"id"`
	Level       Level  `json:"level"`       // the lowest level that checks it
	Title       string `json:"title"`       // what is true in a pack that keeps the rule
	Description string `json:"description"` // why
}

// Violation is a broken rule of a pack.
type Violation struct {
	Rule    string `json:"rule"`
	Path    string `json:"path"` // a file of the pack, or FILE#POINTER; empty: the pack
	Message string `json:"message"`
}

// sortViolations is PK10. What stands twice stands once.
func sortViolations(list []Violation) []Violation {
	slices.SortFunc(list, func(a, b Violation) int {
		return cmp.Or(canon.Compare(a.Rule, b.Rule), canon.Compare(a.Path, b.Path), canon.Compare(a.Message, b.Message))
	})
	return slices.Compact(list)
}
