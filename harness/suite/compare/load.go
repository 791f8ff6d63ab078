// Package compare loads runs of a suite, has a policy decide what their agents did, judges them
// with package grade, and writes what a comparison leaves (specs/evaluation.md). It changes no
// run, and asks no agent.
package compare

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fiador/fiador/evidence/redact"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/kernel/trial/verify"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/specs"
)

// object is a decoded object.
type object = map[string]any

// Version is a version directory that was verified. What was verified is what is judged: each
// document was read once.
type Version struct {
	Path     string
	Side     trial.Side
	RunID    string
	Group    string            // id of the runs that belong together
	Index    int               // among these, from 1 on
	Of       int               // how many these are
	SHA256   canon.ContentHash // of run.json
	Sealed   bool
	Valid    bool     // no violation is counted against a case
	SignedBy []string // ids of the keys that were asked for and have signed

	run     object
	ids     []string // of the selected cases
	cases   map[string]grade.Artifact
	actions map[string][]grade.Action // of each case, what a policy said; nil: none was asked
	dir     *suitedir.Opened
	rules   *redact.Rules // of secrets that another runner has left

	place   string // path without links
	at      string // path from the folder of the comparison
	beneath bool   // the directory lies beneath that folder

	metas map[string]bool // the files that describe bodies; nil: not looked for
}

// Close closes the directory.
func (v *Version) Close() error { return v.dir.Close() }

// broken is the error for a directory that is not judged.
func broken(path, why, hint string) error {
	return runerr.New(result.CodeEvidence, screen.Folder(path)+": "+why, hint, runerr.File(screen.Folder(path)))
}

// Load reads a version directory. With keys, one of them must have signed it. The error is a
// *result.RunError: RUN_E001 if the directory cannot be read, RUN_E006 if it breaks a rule that is
// not counted against one of its cases.
func Load(path string, keys []ledger.Verifier, rules *redact.Rules) (_ *Version, err error) {
	d, err := suitedir.Open(path)
	if err != nil {
		return nil, runerr.Unreadable(screen.Folder(path), runerr.Reason(err), "name a version directory, such as runs/new/nightly, or a folder with those of one run")
	}
	v := &Version{Path: path, dir: d, rules: rules, cases: map[string]grade.Artifact{}}
	defer func() {
		if err != nil {
			_ = d.Close()
		}
	}()
	verdict, err := d.Verify()
	if err != nil {
		return nil, runerr.Unreadable(screen.Folder(path), runerr.Reason(err), "compare when nothing writes in the folder")
	}
	counted, err := count(path, d, verdict)
	if err != nil {
		return nil, err
	}
	v.Sealed, v.Valid = verdict.Sealed, verdict.OK()
	if len(keys) > 0 {
		if v.SignedBy, err = d.Signed(v.Sealed, keys); err != nil {
			return nil, broken(path, "the signature is not accepted: "+runerr.Reason(err), "name the key of suite run --sign or suite bless --sign, or sign the run with a key that is trusted")
		}
	}
	if v.place, err = Resolved(path); err != nil {
		return nil, runerr.Unreadable(screen.Folder(path), runerr.Reason(err), "compare when nothing writes in the folder")
	}
	v.describe(d)
	for file := range counted {
		if id := strings.TrimSuffix(file, trial.CaseSuffix); !slices.Contains(v.ids, id) {
			return nil, broken(path, "a violation is about "+screen.Plain(file)+", which the run did not select", "run fiador suite verify, which names every violation")
		}
	}
	list := make([]grade.Artifact, len(v.ids))
	for i, id := range v.ids {
		list[i] = artifact(d, id, counted[id+trial.CaseSuffix])
	}
	each(len(list), func(i int) { redacted(&list[i], rules) })
	for i, id := range v.ids {
		v.cases[id] = list[i]
	}
	return v, nil
}

// each calls do with every number below n, on all cores.
func each(n int, do func(i int)) {
	var workers sync.WaitGroup
	var last atomic.Int64
	var fault atomic.Pointer[any] // a panic, which the caller gets
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			defer func() {
				if e := recover(); e != nil {
					fault.Store(&e)
				}
			}()
			for i := last.Add(1); i <= int64(n); i = last.Add(1) {
				do(int(i - 1))
			}
		})
	}
	workers.Wait()
	if e := fault.Load(); e != nil {
		panic(*e)
	}
}

// count returns the violations that are counted against a case, by its file: a file that an
// unsealed directory lacks, and references that lead nowhere. Any other violation is an error.
func count(path string, d *suitedir.Opened, v verify.Verdict) (map[string][]verify.Violation, error) {
	counted := map[string][]verify.Violation{}
	for _, f := range v.Violations {
		if id := ownerOf(d, f); id != "" && !v.Sealed {
			f.Path, f.Pointer = id+trial.CaseSuffix, "assets"
		}
		id, isCase := strings.CutSuffix(f.Path, trial.CaseSuffix)
		lacks := !v.Sealed && (f.Rule == verify.RuleCaseMissing || f.Rule == verify.RuleFileMissing)
		if v.More > 0 || !isCase || strings.Contains(id, "/") || trial.Reserved(id) || !lacks && f.Rule != verify.RuleUnresolved {
			return nil, broken(path, "the directory is not valid: "+f.Rule+" "+screen.Plain(f.Path+f.Pointer+": "+f.Msg), "run fiador suite verify, which names every violation")
		}
		counted[f.Path] = append(counted[f.Path], f)
	}
	return counted, nil
}

// ownerOf returns the id of the case of an asset that the manifest names and the directory lacks;
// "" for any other violation, and for an asset of the run.
func ownerOf(d *suitedir.Opened, f verify.Violation) string {
	index, isHref := strings.CutSuffix(strings.TrimPrefix(f.Pointer, "/items/"), "/href")
	n, err := strconv.Atoi(index)
	if f.Path != trial.ManifestFile || f.Rule != verify.RuleFileMissing || !isHref || err != nil {
		return ""
	}
	value, _ := d.Document(trial.ManifestFile, string(specs.KindSuiteManifest))
	doc, _ := value.(object)
	items, _ := doc["items"].([]any)
	if n >= len(items) {
		return ""
	}
	item, _ := items[n].(object)
	return trial.TextOf(item, "case_id")
}

// describe takes over what run.json says.
func (v *Version) describe(d *suitedir.Opened) {
	value, _ := d.Document(trial.RunFile, string(specs.KindSuiteRun))
	v.run, _ = value.(object)
	text := func(name string) string { s, _ := v.run[name].(string); return s }
	v.Side, v.RunID = trial.Side(text("version")), text("run_id")
	v.Group, v.Index, v.Of = v.RunID, 1, 1
	if group, ok := v.run["run_group"].(object); ok {
		v.Group, _ = group["run_id"].(string)
		n, _ := canon.Whole(group["index"])
		of, _ := canon.Whole(group["of"])
		v.Index, v.Of = int(n), int(min(of, suite.MaxRepeats)) // a greater number would only cost memory
	}
	list, _ := v.run["selected_case_ids"].([]any)
	for _, one := range list {
		id, _ := one.(string)
		v.ids = append(v.ids, id)
	}
	sum, _ := d.Sum(trial.RunFile)
	v.SHA256 = canon.ContentHash("sha256:" + sum)
}

// artifact returns the file of a case, before redaction.
func artifact(d *suitedir.Opened, id string, counted []verify.Violation) (a grade.Artifact) {
	for _, f := range counted {
		if f.Rule == verify.RuleCaseMissing {
			return a
		}
		a.Unresolved = append(a.Unresolved, f.Pointer)
	}
	value, _ := d.Document(id+trial.CaseSuffix, string(specs.KindSuiteCase))
	a.Doc, _ = value.(object)
	return a
}

// redacted makes of the file of a case what is judged. Secrets that it still has are redacted.
func redacted(a *grade.Artifact, rules *redact.Rules) {
	if a.Doc == nil {
		return
	}
	redactor := rules.Redactor()
	a.Doc, _ = redactor.Value(a.Doc).(object)
	noted, _ := a.Doc["evidence_unresolved"].([]any)
	for _, one := range noted {
		a.Unresolved = append(a.Unresolved, pointerOf(one))
	}
	slices.Sort(a.Unresolved)
	a.Unresolved = slices.Compact(a.Unresolved)
	a.Secrets = redactor.Applied()
	for _, part := range []string{"final_output", "runner_failure"} {
		doc, _ := a.Doc[part].(object)
		list, _ := doc["redactions_applied"].([]any)
		for _, one := range list {
			rule, _ := one.(string)
			a.Secrets = append(a.Secrets, canon.Cut(canon.Clean(rule)))
		}
	}
	slices.Sort(a.Secrets)
	a.Secrets = slices.Compact(a.Secrets)
}

// pointerOf returns the pointer of a reference that a runner has listed as one that leads nowhere:
// a JSON Pointer, an object with one, or a copy of the reference.
func pointerOf(one any) string {
	switch one := one.(type) {
	case string:
		return canon.Cut(canon.Clean(one))
	case object:
		pointer, _ := one["pointer"].(string)
		return canon.Cut(canon.Clean(pointer))
	}
	return ""
}

// Cases returns the copy of the cases that the run has kept, with the hash of the document.
func (v *Version) Cases() ([]byte, error) {
	href, _ := v.run["cases_href"].(string)
	want, _ := v.run["cases_sha256"].(string)
	if href == "" || want == "" {
		return nil, errors.New("the run of " + screen.Folder(v.Path) + " has no copy of its cases")
	}
	text := v.dir.Content(href)
	if string(canon.Sum(text)) != want {
		return nil, errors.New("the copy of the cases in " + screen.Folder(v.Path) + " is not the document that was run: redaction has changed it")
	}
	return text, nil
}

// CasesPath returns the name of the document of the cases, as run.json has it.
func (v *Version) CasesPath() string {
	path, _ := v.run["cases_path"].(string)
	return canon.Cut(canon.Clean(path))
}

// CasesOf returns the copy of the cases that the first run has kept, if all runs had the same
// cases: new cannot choose the cases that judge it.
func CasesOf(all []*Version) ([]byte, error) {
	const hint = "name the document of the cases with --cases"
	if len(all) == 0 {
		return nil, runerr.New(result.CodeProfile, "there is no run of new", "name its version directory with --new, or the folder of suite run --out")
	}
	if v := OtherCases(all); v != nil {
		return nil, broken(v.Path, "the run had other cases than that of "+screen.Folder(all[0].Path), hint)
	}
	text, err := all[0].Cases()
	if err != nil {
		return nil, runerr.New(result.CodeEvidence, runerr.Reason(err), hint)
	}
	return text, nil
}

// OtherCases returns the first run that had other cases than the first of all; nil: all had the same.
func OtherCases(all []*Version) *Version {
	for _, v := range all {
		if trial.TextOf(v.run, "cases_sha256") != trial.TextOf(all[0].run, "cases_sha256") {
			return v
		}
	}
	return nil
}

// Signable returns an error if a directory has no seal: a signature would prove nothing of it.
func (p *Plan) Signable() error {
	for _, v := range slices.Concat(p.Baseline, p.New) {
		if !v.Sealed {
			return broken(v.Path, "the directory has no seal, so that a signature would prove nothing of the cases", "let the run end, or sign a comparison of sealed runs")
		}
	}
	return nil
}
