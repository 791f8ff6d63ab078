package suitedir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/kernel/trial/verify"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/specs"
)

// Checked says how the folder of a comparison keeps its rules (specs/evaluation.md).
type Checked struct {
	Violations []verify.Violation
	Signed     bool     // by one of the keys that were given
	Elsewhere  []string // files of runs that do not lie at their places beneath the folder, sorted
}

// comparison is the folder of a comparison during its verification.
type comparison struct {
	Checked
	path    string
	files   *asset.Files
	schemas *specs.Set
}

// Comparison verifies the folder of a comparison: its document, the signature if there is one or
// keys are given, each file that was signed, and the version directories beneath the folder. The
// error says that a file cannot be read.
func Comparison(path string, keys []ledger.Verifier, schemas *specs.Set) (Checked, error) {
	files, err := asset.Open(path)
	if err != nil {
		return Checked{}, err
	}
	defer files.Close()
	c := &comparison{path: path, files: files, schemas: schemas}
	text, err := files.Read(CompareFile, MaxDocument)
	if err != nil {
		return Checked{}, err
	}
	doc, err := c.document(text)
	if err != nil {
		c.add(CompareFile, "%s", err.Error())
		return c.Checked, nil
	}
	signature, err := files.Read(trial.SignatureFile, 2*MaxDocument)
	switch {
	case err == nil:
		err = c.signature(signature, doc, canon.Sum(text), keys)
	case !errors.Is(err, fs.ErrNotExist):
	case len(keys) > 0:
		c.add(trial.SignatureFile, "missing: nobody has signed the comparison")
		err = nil
	default:
		err = c.directories(doc)
	}
	return c.Checked, err
}

// compared is what compare-report.json says of the runs, and the status of its gate.
type compared struct {
	sides  map[trial.Side]*grade.Side
	status string
}

var sideDecoder canon.Decoder[grade.Side]

// document reads compare-report.json. Its faults are violations.
func (c *comparison) document(text []byte) (doc compared, err error) {
	parsed, err := canon.ParseCanonical(bytes.TrimSuffix(text, []byte("\n")), MaxDocument)
	if err != nil {
		return doc, err
	}
	faults, err := c.schemas.Validate(specs.KindSuiteCompare, parsed.Value())
	if err != nil {
		return doc, err
	}
	for _, f := range faults {
		return doc, errors.New(f.Pointer + ": " + f.Msg)
	}
	members, _ := parsed.Value().(map[string]any)
	gate, _ := members["gate"].(map[string]any)
	doc = compared{map[trial.Side]*grade.Side{}, trial.TextOf(gate, "status")}
	for _, side := range []trial.Side{trial.Baseline, trial.New} {
		if value := members[string(side)]; value != nil {
			if doc.sides[side], err = sideDecoder.Decode(value); err != nil {
				return doc, err
			}
		}
	}
	return doc, nil
}

func (c *comparison) add(file, format string, args ...any) {
	c.Violations = append(c.Violations, verify.Violation{Rule: "comparison", Path: file, Msg: fmt.Sprintf(format, args...)})
}

// signature checks signature.json, and every file that it names.
func (c *comparison) signature(text []byte, doc compared, sum canon.ContentHash, keys []ledger.Verifier) error {
	subjects, passed, err := Attested(text, keys)
	if err != nil {
		c.add(trial.SignatureFile, "%s", err.Error())
		return nil
	}
	c.Signed = len(keys) > 0
	if passed != (doc.status == grade.GatePass) {
		c.add(trial.SignatureFile, "the statement says another result than the gate")
	}
	if !slices.Contains(subjects, NewSubject(CompareFile, sum)) {
		c.add(trial.SignatureFile, "the statement is not about this %s", CompareFile)
	}
	for _, s := range subjects {
		now, _, err := c.files.Hash(s.Name, MaxFile)
		switch {
		case err != nil && c.elsewhere(s.Name):
			c.Elsewhere = append(c.Elsewhere, s.Name)
		case errors.Is(err, fs.ErrNotExist):
			c.add(s.Name, "missing: it was signed")
		case err != nil:
			c.add(s.Name, "%s", err.Error())
		case now != s.Digest.SHA256:
			c.add(s.Name, "not the file that was signed")
		}
	}
	return c.directories(doc)
}

// elsewhere says whether a file is of a version directory (SIDE/RUN_ID/FILE) that does not stand
// beneath the folder: there is nothing, or a link. A directory that stands there has not lost what
// was signed.
func (c *comparison) elsewhere(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || !asset.CheckHref(name) {
		return false
	}
	for _, folder := range []string{parts[0], path.Join(parts[0], parts[1])} {
		info, err := os.Lstat(filepath.Join(c.path, folder))
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// directories checks the version directories of the comparison that lie beneath the folder.
func (c *comparison) directories(doc compared) error {
	for _, side := range []trial.Side{trial.Baseline, trial.New} {
		runs := doc.sides[side]
		if runs == nil {
			continue
		}
		for i, id := range runs.RunIDs {
			name := path.Join(string(side), id)
			if file := path.Join(name, trial.RunFile); c.elsewhere(file) {
				c.Elsewhere = append(c.Elsewhere, file)
				continue
			}
			run, err := c.files.Read(path.Join(name, trial.RunFile), MaxDocument)
			if errors.Is(err, fs.ErrNotExist) {
				c.add(path.Join(name, trial.RunFile), "missing")
				continue
			}
			if err != nil {
				return err
			}
			if i < len(runs.RunSHA256) && canon.Sum(run) != runs.RunSHA256[i] {
				c.add(name, "not the run that was compared")
				continue
			}
			if err := c.directory(name); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(c.Violations, func(a, b verify.Violation) int {
		return cmp.Or(canon.Compare(a.Path, b.Path), canon.Compare(a.Pointer, b.Pointer), canon.Compare(a.Rule, b.Rule), canon.Compare(a.Msg, b.Msg))
	})
	slices.Sort(c.Elsewhere)
	c.Elsewhere = slices.Compact(c.Elsewhere)
	return nil
}

// directory checks a version directory beneath the folder.
func (c *comparison) directory(name string) error {
	d, err := Open(filepath.Join(c.path, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	defer d.Close()
	v, err := d.Verify()
	for _, f := range v.Violations {
		f.Path = name + "/" + f.Path
		c.Violations = append(c.Violations, f)
	}
	return err
}
