package compare

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/fiador/fiador/evidence/report/page"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/durable"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/ledger"
)

// Written is what a comparison has left in its folder.
type Written struct {
	Text     []byte // compare-report.json
	Subjects []suitedir.Subject
	ReadOnly []string // version directories of baseline that can only be read, and got no evaluation.json
}

var errMoved = errors.New("the folder, or one in it, is another one than at the beginning: leave it alone until the comparison has ended")

// Write writes a comparison into the folder Out of its plan: evaluation.json in each version directory beneath it,
// report.html and compare-report.json. A signature of an earlier comparison is removed first. Each
// file takes its place as a whole. The error is a *result.RunError.
func (c *Compared) Write(out string) (w Written, err error) {
	defer func() {
		if err != nil {
			err = runerr.New(result.CodeEvidence, screen.Folder(out)+": the comparison cannot be kept: "+runerr.Reason(err),
				"give the folder of --out room and permission, or name another one", runerr.Because(err))
		}
	}()
	if err := os.MkdirAll(out, 0o777); err != nil {
		return w, err
	}
	if now, err := Resolved(out); err != nil || now != out {
		return w, errors.Join(err, errMoved)
	}
	root, err := os.OpenRoot(out)
	if err != nil {
		return w, err
	}
	defer root.Close()
	if err := durable.Remove(root, trial.SignatureFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return w, err
	}
	put := func(name, as string, text []byte, how func(*os.Root, string, []byte) error) error {
		w.Subjects = append(w.Subjects, suitedir.NewSubject(as, canon.Sum(text)))
		return how(root, name, text)
	}
	for _, e := range c.Evaluations {
		place := string(e.Version.Side) + "/" + e.Version.RunID
		w.Subjects = append(w.Subjects, suitedir.NewSubject(place+"/"+trial.RunFile, e.SHA256))
		if !e.beneath {
			continue
		}
		if now, err := Resolved(e.Path); err != nil || now != e.place {
			return w, errMoved
		}
		text, err := e.Bytes()
		if err == nil {
			err = put(filepath.Join(e.at, trial.EvaluationFile), place+"/"+trial.EvaluationFile, text, replaceApart)
		}
		if e.Version.Side == trial.Baseline && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) {
			w.ReadOnly = append(w.ReadOnly, e.Path)
			w.Subjects = w.Subjects[:len(w.Subjects)-1]
			err = nil
		}
		if err != nil {
			return w, err
		}
	}
	var html bytes.Buffer
	err = page.Write(&html, c.Page)
	if err == nil {
		err = put(suitedir.PageFile, suitedir.PageFile, html.Bytes(), replace)
	}
	if err == nil {
		w.Text, err = c.Bytes()
	}
	if err == nil {
		err = put(suitedir.CompareFile, suitedir.CompareFile, w.Text, replace)
	}
	return w, err
}

// Sign writes signature.json, about what Write has left and the reports beside it.
func (c *Compared) Sign(out string, cases canon.ContentHash, subjects []suitedir.Subject, key *ledger.Signer) error {
	slices.SortFunc(subjects, func(a, b suitedir.Subject) int { return canon.Compare(a.Name, b.Name) })
	text, err := suitedir.Attest(c.Comparison, cases, subjects, key)
	if err != nil {
		return runerr.Internal("the comparison could not be signed", err)
	}
	root, err := os.OpenRoot(out)
	if err == nil {
		defer root.Close()
		err = replace(root, trial.SignatureFile, text)
	}
	if err != nil {
		return runerr.New(result.CodeEvidence, screen.Folder(out)+": the signature cannot be kept: "+runerr.Reason(err), "give the folder room and permission", runerr.Because(err))
	}
	return nil
}

// replaceApart puts a text in its place in a version directory. The text becomes a file in the folder
// of the comparison first, since a temporary file that a kill leaves would break a seal. A
// directory on a file system of its own gets the file at once.
func replaceApart(root *os.Root, name string, text []byte) error {
	temp := tempPrefix + rand.Text()
	err := replace(root, temp, text)
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err == nil {
		return durable.SyncAll(root, []string{filepath.Dir(name)})
	}
	_ = root.Remove(temp) // it may not be there
	if errors.Is(err, syscall.EXDEV) {
		return replace(root, name, text)
	}
	return err
}

// replace puts a text in its place.
func replace(root *os.Root, name string, text []byte) error {
	return durable.Replace(root, name, text, 0o666)
}
