// Package pack holds the run pack: a flat folder, or an archive of one, that proves one
// run to a reader who has nothing else. The format is that of specs/pack.md.
//
// A pack has no folder, no link, and only the files in [Names]. Every file is canonical
// JSON (RFC 8785) and one LF; ledger.jsonl has such a line per record.
//
// # Reading
//
// [Open] reads a folder or an archive once; all later steps use the data that was read.
// The reading is limited: no file beyond its limit, no more than [MaxEntries] names, no
// link followed, and only regular files opened. A pack that breaks a rule is read
// nevertheless, so that package verify can name the rule.
//
// # Writing
//
// [Create] and [Writer.Commit] leave a complete pack or none.
package pack

import (
	"slices"

	"github.com/fiador/fiador/kernel/canon"
)

// The files of a pack.
const (
	RunFile      = "run.json"      // the RunResult
	BundleFile   = "bundle.json"   // the bundle, unless REFUSE
	PolicyFile   = "policy.json"   // the policy of the RunResult
	EvidenceFile = "evidence.json" // the observations of an execution
	PatchFile    = "patch.json"    // the changes of an execution
	RunnerFile   = "runner.json"   // the machine
	ModelFile    = "model_io.json" // the prompts to a model and its answers
	ToolFile     = "tool_io.json"  // the requests to services of tools and what they gave
	LedgerFile   = "ledger.jsonl"  // the run's lines of the ledger
	MetaFile     = "meta.json"     // signature, receipt, and free members
)

// Names returns the files that a pack can have, sorted.
func Names() []string {
	return []string{BundleFile, EvidenceFile, LedgerFile, MetaFile, ModelFile, PatchFile, PolicyFile, RunFile, RunnerFile, ToolFile}
}

// MaxEntries is the maximum number of names of a folder or an archive that are read.
const MaxEntries = 256

// MaxTotalBytes is the maximum number of bytes unpacked from an archive: 256 MiB.
const MaxTotalBytes = 256 << 20

// MaxBytes returns the maximum size of a file of that name, in bytes. A larger file is
// not read.
func MaxBytes(name string) int64 {
	switch name {
	case PatchFile, ModelFile, ToolFile:
		return 128 << 20
	case RunFile, EvidenceFile:
		return 64 << 20
	case BundleFile:
		return 16 << 20
	}
	return 4 << 20
}

// Level says how thoroughly a pack is verified.
type Level string

// The levels.
const (
	Structural Level = "structural"
	Strict     Level = "strict"
)

// Kind is the kind of an entry.
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
	Text  []byte // of a file that is one of Names and within its limit; else nil
	Twice bool   // an archive has the name a second time; Text is of the first
}

// Pack is the content of a folder or an archive.
type Pack struct {
	Entries []Entry // by name, in code units
	More    bool    // there are more than MaxEntries
}

// File returns the text of a file of the pack, or nil.
func (p *Pack) File(name string) []byte {
	e, _ := p.Entry(name)
	return e.Text
}

// Of returns the pack of the files given by name, as a reader would read it: a file over
// its limit has no text.
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

// Entry returns the entry of a name.
func (p *Pack) Entry(name string) (Entry, bool) {
	i := slices.IndexFunc(p.Entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, false
	}
	return p.Entries[i], true
}

func (p *Pack) sort() {
	slices.SortFunc(p.Entries, func(a, b Entry) int { return canon.Compare(a.Name, b.Name) })
}
