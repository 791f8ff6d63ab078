// Package history owns what the store of a folder says of work items: the receipts, in the order
// in which they were made, which of them was applied, and the one that is pending. A store that
// is written to is locked (workspace.Store.Lock).
package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/evidence/receipt/verify"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// History is the history in a store.
type History struct {
	Store *workspace.Store
	Dir   string // the store on this machine
}

// Line is a line of history.jsonl: a receipt, in the order in which receipts were made.
type Line struct {
	ReceiptID   string            `json:"receipt_id"`
	ReceiptHash string            `json:"receipt_hash"`
	ItemID      string            `json:"item_id"`
	Key         string            `json:"key"`
	Before      string            `json:"before"`
	After       string            `json:"after"`
	Status      receipt.Status    `json:"status"`
	Plan        canon.ContentHash `json:"plan,omitempty"`
	Discarded   bool              `json:"discarded,omitempty"` // a success whose change was not applied
}

// Success says whether the change of the receipt was applied.
func (l Line) Success() bool { return l.Status == receipt.Success && !l.Discarded }

// States returns the states before and after.
func (l Line) States() (before, after receipt.Hash, err error) {
	before, err = receipt.ParseHash(l.Before)
	if err == nil {
		after, err = receipt.ParseHash(l.After)
	}
	return before, after, Error(err)
}

// check says what no line of a receipt has.
func (l *Line) check() error {
	_, _, err := l.States()
	h, hashErr := receipt.ParseHash(l.ReceiptHash)
	if err = cmp.Or(err, hashErr); err == nil && l.ReceiptID != receipt.ID(h) {
		err = errors.New("receipt_id is not that of receipt_hash")
	}
	return err
}

var (
	linePlan    canon.Plan[Line]
	lineDecoder canon.Decoder[Line]
)

// The files of a store that package history owns.
const (
	historyFile = "history.jsonl"
	PendingFile = "pending"
)

// Lines reads the history. A last line without its end was not written.
func (h History) Lines() ([]Line, error) {
	text, err := h.Store.Folder().ReadFile(historyFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Error(err)
	}
	var list []Line
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		doc, err := canon.Parse(line, len(line))
		if err != nil {
			return nil, damagedHistory(len(list)+1, err)
		}
		l, err := lineDecoder.Decode(doc.Value())
		if err == nil {
			err = l.check()
		}
		if err != nil {
			return nil, damagedHistory(len(list)+1, err)
		}
		list = append(list, *l)
	}
	return list, nil
}

func damagedHistory(n int, err error) error {
	return runerr.New(result.CodeEvidence, fmt.Sprintf("line %d of %s of the store cannot be read: %v", n, historyFile, err), "restore the file, or use another store", runerr.Because(err))
}

// Pending is the file that says that a receipt may not have been applied or noted yet.
type Pending struct {
	Line   Line   `json:"line"`
	RunID  string `json:"run_id"`
	Ledger string `json:"ledger,omitempty"` // folder or URL of the ledger that gets the decision; empty: none
	Key    string `json:"key,omitempty"`    // verifier key of the ledger that a URL names
}

var (
	pendingPlan    canon.Plan[Pending]
	pendingDecoder canon.Decoder[Pending]
)

func (h History) Pend(p Pending) error {
	text, _, err := pendingPlan.Artifact(&p)
	if err != nil {
		return runerr.Internal("the pending receipt has no canonical form", err)
	}
	return Error(durable.Replace(h.Store.Folder(), PendingFile, text, 0o600))
}

// Waiting returns what is pending, or nil. What has its line in the history is not.
func (h History) Waiting() (*Pending, error) {
	text, err := h.Store.Folder().ReadFile(PendingFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var p *Pending
	if err == nil {
		var doc canon.Document
		if doc, err = canon.Parse(text, len(text)); err == nil {
			p, err = pendingDecoder.Decode(doc.Value())
		}
		if err == nil {
			err = p.Line.check()
		}
	}
	if err != nil {
		return nil, Error(fmt.Errorf("%s: %w", PendingFile, err))
	}
	list, err := h.Lines()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(list, func(o Line) bool { return o.ReceiptID == p.Line.ReceiptID }) {
		return nil, Error(durable.Remove(h.Store.Folder(), PendingFile))
	}
	return p, nil
}

// Drop removes what is pending, and its receipt.
func (h History) Drop(p Pending) error {
	root := h.Store.Folder()
	return Error(errors.Join(root.RemoveAll(receipt.ReceiptsFolder+"/"+p.Line.ReceiptID), durable.Remove(root, PendingFile)))
}

// Settle adds a line to the history; nothing is pending then.
func (h History) Settle(l Line) error {
	text, _, err := linePlan.Artifact(&l)
	if err != nil {
		return runerr.Internal("the line of the history has no canonical form", err)
	}
	if err := h.add(text); err != nil {
		return Error(err)
	}
	return Error(durable.Remove(h.Store.Folder(), PendingFile))
}

// add appends to the history, behind the last whole line.
func (h History) add(text []byte) error {
	f, err := h.Store.Folder().OpenFile(historyFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	end, err := wholeLines(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.WriteAt(text, end)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && end == 0 {
		err = durable.SyncAll(h.Store.Folder(), []string{"."})
	}
	return err
}

// wholeLines returns the size of the lines of a file that have their end.
func wholeLines(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	var last [4096]byte
	for end := info.Size(); end > 0; end -= int64(len(last)) {
		from := max(0, end-int64(len(last)))
		n, err := f.ReadAt(last[:end-from], from)
		if err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(last[:n], '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
	}
	return 0, nil
}

// unfinished is the name of the folder of a receipt that is being written.
const unfinished = receipt.ReceiptsFolder + "/.new"

// StageFolder has what items have written, until they are integrated.
const StageFolder = "stage"

// Placed says whether a receipt is in its place.
func (h History) Placed(id string) (bool, error) {
	_, err := h.Store.Folder().Lstat(receipt.ReceiptsFolder + "/" + id)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, Error(err)
}

// Sweep removes what killed runs have left half-written.
func (h History) Sweep() error {
	root := h.Store.Folder()
	err := errors.Join(root.RemoveAll(StageFolder), root.RemoveAll(unfinished))
	names, readErr := fs.ReadDir(root.FS(), ".")
	for _, e := range names {
		if durable.Orphan(e.Name()) {
			err = errors.Join(err, root.Remove(e.Name()))
		}
	}
	return Error(errors.Join(err, readErr))
}

// Place puts the folder of a receipt in its place, as a whole.
func (h History) Place(id string, files map[string][]byte) error {
	root := h.Store.Folder()
	if err := root.RemoveAll(unfinished); err != nil {
		return err
	}
	folders := map[string]bool{unfinished: true, receipt.ReceiptsFolder: true}
	for name := range files {
		folders[path.Join(unfinished, path.Dir(name))] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o700
		}
		if err := writeNew(root, path.Join(unfinished, name), files[name], mode); err != nil {
			return err
		}
		names = append(names, path.Join(unfinished, name))
	}
	delete(folders, receipt.ReceiptsFolder)
	if err := durable.SyncAll(root, slices.AppendSeq(names, maps.Keys(folders))); err != nil {
		return err
	}
	if err := root.Rename(unfinished, receipt.ReceiptsFolder+"/"+id); err != nil {
		return err
	}
	return durable.SyncAll(root, []string{receipt.ReceiptsFolder})
}

func writeNew(root *os.Root, name string, text []byte, mode fs.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Receipt reads a receipt of the store.
func (h History) Receipt(id string) (receipt.Receipt, error) {
	root, err := h.Store.Folder().OpenRoot(receipt.ReceiptsFolder + "/" + id)
	if err != nil {
		return receipt.Receipt{}, Error(err)
	}
	defer root.Close()
	r, faults, err := verify.Read(root)
	if err != nil {
		return receipt.Receipt{}, Error(err)
	}
	if r == nil {
		return receipt.Receipt{}, Error(fmt.Errorf("receipt %s: %s", id, faults[0]))
	}
	return *r, nil
}

// Verified is a line of the history, its receipt, and what does not hold.
type Verified struct {
	Line
	Receipt receipt.Receipt
	Faults  []verify.Fault // the path begins with the id of the receipt
}

// Chain verifies the receipts of a store: each folder by itself, and that each names the one
// before it.
func (h History) Chain() ([]Verified, error) {
	lines, err := h.Lines()
	if err != nil {
		return nil, err
	}
	var list []Verified
	previous := ""
	for _, l := range lines {
		r, faults, err := verify.Folder(filepath.Join(h.Dir, receipt.ReceiptsFolder, l.ReceiptID))
		if err != nil {
			faults = append(faults, verify.Fault{Path: receipt.ReceiptFile, Msg: runerr.Reason(err)})
		}
		for _, m := range [][3]string{{"previous", r.Previous, previous}, {"receipt_hash", r.ReceiptHash, l.ReceiptHash}, {"core/after", r.Core.After, l.After}} {
			if err == nil && m[1] != m[2] {
				faults = append(faults, verify.Fault{Path: receipt.ReceiptFile + "#/" + m[0], Msg: "not what the history has"})
			}
		}
		for i := range faults {
			faults[i].Path = l.ReceiptID + "/" + faults[i].Path
		}
		list = append(list, Verified{l, r, faults})
		previous = l.ReceiptHash
	}
	return list, nil
}

// Find returns the folder of a receipt, which is named by its folder, by its id, or by the id
// of an item, whose newest receipt it is then. "": the store has none.
func Find(dir string, list []Line, name string) string {
	if info, err := os.Stat(filepath.Join(name, receipt.ReceiptFile)); err == nil && info.Mode().IsRegular() {
		return name
	}
	found := ""
	for _, l := range list {
		if l.ReceiptID == name || l.ItemID == name {
			found = filepath.Join(dir, receipt.ReceiptsFolder, l.ReceiptID)
		}
	}
	return found
}

// Error is the RunError for a store that cannot be used; nil for nil.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return runerr.New(result.CodeEvidence, "the store cannot be used: "+runerr.Reason(err), "give the store room and permission, or name another one with --store", runerr.Because(err))
}

// isCommit says whether a text is the name of a commit.
func isCommit(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// Head returns the commit that .git/HEAD of a folder leads to, read as text, or "". No program
// of git is asked.
func Head(tree string) string {
	read := func(name string) string {
		if !kernel.Beneath(filepath.ToSlash(filepath.Clean(name)), ".git") {
			return ""
		}
		root, err := os.OpenRoot(tree)
		if err != nil {
			return ""
		}
		defer root.Close()
		f, err := workspace.OpenFile(root, name)
		if err != nil {
			return ""
		}
		defer f.Close()
		text, _ := io.ReadAll(io.LimitReader(f, 8<<20))
		return string(text)
	}
	text := strings.TrimSpace(read(".git/HEAD"))
	if ref, ok := strings.CutPrefix(text, "ref: "); ok {
		if text = strings.TrimSpace(read(".git/" + ref)); text == "" {
			for line := range strings.Lines(read(".git/packed-refs")) {
				if id, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref {
					text = id
				}
			}
		}
	}
	if !isCommit(text) {
		return ""
	}
	return text
}
