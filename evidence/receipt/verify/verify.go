// Package verify holds the folder of a receipt against itself. It makes every hash again, and
// the later state from the earlier one and the patch. A receipt that holds is consistent: who
// has made it, only a ledger can prove.
package verify

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	packverify "github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// Fault is a member, or a file, that does not hold.
type Fault struct{ Path, Msg string }

// String returns the path and the message.
func (f Fault) String() string { return f.Path + ": " + f.Msg }

// MaxFileBytes is the size of the largest file of a receipt's folder besides the pack.
const MaxFileBytes = 64 << 20

// folder is a receipt's folder that is verified.
type folder struct {
	root    *os.Root
	receipt receipt.Receipt
	faults  []Fault

	// Files of the pack; nil: not there.
	result   *result.RunResult
	evidence *pack.Evidence
	runner   *pack.Runner
	patch    *pack.Patch
}

func (f *folder) fault(path, format string, args ...any) {
	f.faults = append(f.faults, Fault{path, fmt.Sprintf(format, args...)})
}

// must adds a fault of a member of the receipt, unless ok. It returns ok.
func (f *folder) must(ok bool, member, format string, args ...any) bool {
	if !ok {
		f.fault(receipt.ReceiptFile+"#/"+member, format, args...)
	}
	return ok
}

// Folder verifies the folder of a receipt. Without faults, everything in it goes together. The
// error says that the folder, or its RECEIPT.json, cannot be read.
func Folder(dir string) (receipt.Receipt, []Fault, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return receipt.Receipt{}, nil, err
	}
	defer root.Close()
	f := &folder{root: root}
	r, faults, err := Read(root)
	if err != nil || r == nil {
		return receipt.Receipt{}, faults, err
	}
	f.receipt, f.faults = *r, faults
	f.hashes()
	f.pack(filepath.Join(dir, receipt.PackFolder))
	f.agree()
	f.ran()
	f.state()
	f.patched()
	f.files()
	return f.receipt, f.faults, nil
}

var receiptDecoder canon.Decoder[receipt.Receipt]

// Read reads RECEIPT.json, in its one form. Its hashes are not looked at. The receipt is nil
// if the file is none; the faults say why.
func Read(root *os.Root) (*receipt.Receipt, []Fault, error) {
	text, err := readFile(root, receipt.ReceiptFile)
	if err != nil {
		return nil, nil, err
	}
	bad := func(format string, args ...any) (*receipt.Receipt, []Fault, error) {
		return nil, []Fault{{receipt.ReceiptFile, fmt.Sprintf(format, args...)}}, nil
	}
	doc, err := canon.Parse(text, MaxFileBytes)
	if err != nil {
		return bad("%v", err)
	}
	if string(text) != string(doc.Bytes())+"\n" {
		return bad("not canonical JSON and one LF")
	}
	if named, more := specs.Walk(specs.KindWorkReceipt, doc.Value(), 1); len(named)+more > 0 {
		return bad("%s %s", named[0].Pointer, named[0].Msg)
	}
	r, err := receiptDecoder.Decode(doc.Value())
	if err != nil {
		return bad("%v", err)
	}
	return r, nil, nil
}

func readFile(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	if err == nil && len(text) > MaxFileBytes {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("larger than a receipt's file can be")}
	}
	return text, err
}

// hashes makes the hashes of the receipt again.
func (f *folder) hashes() {
	r := f.receipt
	again, err := receipt.New(r.Core, r.Ephemeral, r.Previous)
	if err != nil {
		f.fault(receipt.ReceiptFile, "no canonical form: %v", err)
		return
	}
	for _, m := range [][3]string{
		{"core_hash", r.CoreHash, again.CoreHash}, {"receipt_hash", r.ReceiptHash, again.ReceiptHash}, {"receipt_id", r.ReceiptID, again.ReceiptID},
	} {
		f.must(m[1] == m[2], m[0], "not that of the receipt, which is %s", m[2])
	}
	for name, want := range r.Ephemeral.Streams {
		f.hashOf(name, "ephemeral/streams/"+name, want)
	}
	for name, want := range r.Ephemeral.Pack {
		f.hashOf(receipt.PackFolder+"/"+name, "ephemeral/pack/"+name, want)
	}
	f.hashOf(receipt.ItemFile, "core/item_hash", r.Core.ItemHash)
	for name, want := range receipt.Scripts(r) {
		if text, err := readFile(f.root, name); err != nil || string(text) != want {
			f.fault(name, "not the script of this receipt")
		}
	}
}

// hashOf compares the hash of a file.
func (f *folder) hashOf(name, member, want string) {
	text, err := readFile(f.root, name)
	if err != nil {
		f.fault(name, "cannot be read")
		return
	}
	got := receipt.Sum(text).String()
	f.must(got == want, member, "not the hash of %s, which is %s", name, got)
}

// entries returns the names in a folder. One that cannot be read has none.
func entries(root *os.Root, folder string) iter.Seq[string] {
	return func(yield func(string) bool) {
		list, _ := fs.ReadDir(root.FS(), folder)
		for _, e := range list {
			if !yield(e.Name()) {
				return
			}
		}
	}
}

// pack verifies the pack of the run.
func (f *folder) pack(dir string) {
	p, err := pack.ReadFolder(dir)
	if err != nil {
		f.fault(receipt.PackFolder, "cannot be read")
		return
	}
	for _, v := range packverify.Pack(p, packverify.Options{}).Violations {
		f.fault(receipt.PackFolder+"/"+v.Path, "%s %s", v.Rule, v.Message)
	}
	for name := range entries(f.root, receipt.PackFolder) {
		if f.receipt.Ephemeral.Pack[name] == "" {
			f.fault(receipt.PackFolder+"/"+name, "a file that the receipt does not have")
		}
	}
	f.result = decoded(p, pack.RunFile, &runDecoder)
	f.evidence = decoded(p, pack.EvidenceFile, &evidenceDecoder)
	f.runner = decoded(p, pack.RunnerFile, &runnerDecoder)
	f.patch = decoded(p, pack.PatchFile, &patchDecoder)
}

var (
	runDecoder      canon.Decoder[result.RunResult]
	evidenceDecoder canon.Decoder[pack.Evidence]
	runnerDecoder   canon.Decoder[pack.Runner]
	patchDecoder    canon.Decoder[pack.Patch]
)

// decoded decodes a file of the pack, whose form packverify has checked. nil: it is not there.
func decoded[T any](p *pack.Pack, name string, d *canon.Decoder[T]) *T {
	text := p.File(name)
	doc, err := canon.Parse(text, len(text))
	if err != nil {
		return nil
	}
	v, err := d.Decode(doc.Value())
	if err != nil {
		return nil
	}
	return v
}

// agree compares the receipt with the result of the run.
func (f *folder) agree() {
	run, core := f.result, f.receipt.Core
	if run == nil {
		f.fault(receipt.PackFolder+"/"+pack.RunFile, "not there, or not a result")
		return
	}
	_, provenance, _ := canon.Artifact(run.PolicyProvenance)
	var bundle canon.ContentHash
	if run.Bundle != nil {
		bundle = run.Bundle.SHA256
	}
	for _, m := range []struct {
		member string
		same   bool
	}{
		{"core/status", core.Status == receipt.StatusOf(run.KernelResultKind, run.Decision.Reasons)},
		{"core/reasons", slices.Equal(core.Reasons, run.Decision.Reasons)},
		{"core/policy", core.Policy == run.Policy.Name},
		{"core/policy_sha256", core.PolicySHA256 == provenance},
		{"core/intent_sha256", core.IntentSHA256 == run.Intent.SHA256},
		{"core/bundle_sha256", core.BundleSHA256 == bundle},
		{"ephemeral/run_id", f.receipt.Ephemeral.RunID == run.RunID},
		{"ephemeral/started_at", f.receipt.Ephemeral.StartedAt == run.StartedAt},
		{"ephemeral/completed_at", f.receipt.Ephemeral.CompletedAt == run.CompletedAt},
	} {
		f.must(m.same, m.member, "not what the result of the run has")
	}
}

// nodes reads the nodes of the folder.
type nodes struct {
	root *os.Root
	used map[string]bool
	bad  string // the file that is missing, or damaged
}

// Node returns the text of a node.
func (n *nodes) Node(h receipt.Hash) ([]byte, error) {
	n.used[h.Hex()] = true
	name := receipt.NodesFolder + "/" + h.Hex()
	text, err := readFile(n.root, name)
	if err != nil || receipt.Sum(text) != h {
		n.bad = name
	}
	return text, err
}

// Put does nothing: the nodes of the later state are made again.
func (n *nodes) Put(receipt.Hash, []byte) {}

// state makes the later state again. The nodes are exactly those on the way to the artifacts,
// and that of before itself.
func (f *folder) state() {
	core, n := f.receipt.Core, &nodes{f.root, map[string]bool{}, ""}
	for i, a := range core.Artifacts {
		f.must(i == 0 || canon.Compare(core.Artifacts[i-1].Path, a.Path) < 0, "core/artifacts", "not sorted, or a path is there twice")
	}
	if core.Status == receipt.Success {
		if !f.after(n) {
			return // not all of the way was seen
		}
	} else {
		f.must(core.After == core.Before && len(core.Artifacts) == 0, "core/after", "a run without success changes nothing")
	}
	for name := range entries(f.root, receipt.NodesFolder) {
		if !n.used[name] {
			f.fault(receipt.NodesFolder+"/"+name, "a file that no receipt has")
		}
	}
}

// after makes the state after a success from the one before it, and says whether it can.
func (f *folder) after(n *nodes) bool {
	before, err := receipt.ParseHash(f.receipt.Core.Before)
	var after receipt.Hash
	if err == nil {
		after, err = receipt.After(n, before, f.receipt.Core.Artifacts)
	}
	switch {
	case n.bad != "":
		f.fault(n.bad, "missing, or another one")
	case f.must(err == nil, "core/artifacts", "%v", err):
		f.must(after.String() == f.receipt.Core.After, "core/after", "not the state that before becomes by the artifacts, which is %s", after)
	}
	return err == nil
}

// patched compares the artifacts with the patch of the pack. What it removes and no state has is
// an empty folder, or one with nothing but scratch.
func (f *folder) patched() {
	written, gone := map[string]pack.Operation{}, map[string]bool{}
	if f.patch != nil {
		for _, o := range f.patch.Operations {
			if gone[o.Path] = true; o.Op != pack.OpDelete || o.BeforeSHA256 != "" {
				written[o.Path] = o
			}
		}
	}
	for i, a := range f.receipt.Core.Artifacts {
		o, stands := written[a.Path]
		delete(written, a.Path)
		same := stands && o.Op != pack.OpDelete && contentHash(o) == a.After && (a.Mode == receipt.Executable) == o.Executable && (a.Op == receipt.Modify || o.Op == pack.OpCreate)
		if a.Op == receipt.Delete {
			same = !pack.PatchPath(a.Path) || anyAbove(gone, a.Path)
		}
		f.must(same, fmt.Sprintf("core/artifacts/%d", i), "not what the patch of the pack has at %q", a.Path)
	}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		f.fault(receipt.PackFolder+"/"+pack.PatchFile, "%q is no artifact", name)
	}
}

// anyAbove says whether the map has a path or a folder above it.
func anyAbove(paths map[string]bool, p string) bool {
	for {
		if paths[p] {
			return true
		}
		i := strings.LastIndexByte(p, '/')
		if i < 0 {
			return false
		}
		p = p[:i]
	}
}

// contentHash returns the hash of the content that an operation writes.
func contentHash(o pack.Operation) string {
	text, err := o.Bytes()
	if err != nil {
		return ""
	}
	return receipt.Sum(text).String()
}

// files refuses files that no receipt has.
func (f *folder) files() {
	known := []string{receipt.ReceiptFile, receipt.ItemFile, receipt.PackFolder, receipt.NodesFolder}
	known = slices.AppendSeq(known, maps.Keys(f.receipt.Ephemeral.Streams))
	known = slices.AppendSeq(known, maps.Keys(receipt.Scripts(f.receipt)))
	entries, err := fs.ReadDir(f.root.FS(), ".")
	if err != nil {
		f.fault(".", "cannot be read")
	}
	for _, e := range entries {
		folder := e.Name() == receipt.PackFolder || e.Name() == receipt.NodesFolder
		if !slices.Contains(known, e.Name()) || folder != e.IsDir() {
			f.fault(e.Name(), "a file that no receipt has")
		}
	}
}
