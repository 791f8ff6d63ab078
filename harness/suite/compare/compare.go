package compare

import (
	"cmp"
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/report/page"
	"github.com/fiador/fiador/evidence/screen"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/kernel/grade/align"
	"github.com/fiador/fiador/kernel/grade/judge"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// Plan is a comparison.
type Plan struct {
	Baseline, New []*Version // the runs of each side; no baseline: every case is added
	Cases         trial.Cases
	CasesSHA256   canon.ContentHash
	Limits        grade.Limits
	ReportOnly    bool

	Gate    *harness.Gate // decides what agents did; nil: nobody asks
	Deps    harness.Deps
	Decided func(harness.End) // is told of each decision; may be nil

	Schema  func(schema, value any) (fault string, err error)
	Out     string // folder of the report, without links
	At      string // evaluated_at
	Program string // evaluator_version
}

// Close closes the directories of both sides.
func (p *Plan) Close() {
	for _, v := range slices.Concat(p.Baseline, p.New) {
		_ = v.Close()
	}
}

// Compared is what a comparison has found.
type Compared struct {
	grade.Comparison
	Evaluations []Evaluated // of each version directory, baseline first
	Page        page.Report
}

// Evaluated is the evaluation of a version directory.
type Evaluated struct {
	*Version
	grade.Evaluation
}

// Compare judges every run of both sides, and compares the sides. It reads nothing but the kept
// texts that the page shows. The error is a *result.RunError.
func (p *Plan) Compare(ctx context.Context) (*Compared, error) {
	if err := p.sides(); err != nil {
		return nil, err
	}
	known := map[string]trial.Case{}
	for _, c := range p.Cases {
		known[c.ID] = c
	}
	ids := map[string]bool{}
	for _, v := range slices.Concat(p.Baseline, p.New) {
		for _, id := range v.ids {
			if _, ok := known[id]; !ok {
				return nil, broken(v.Path, "the run has the case "+canon.Quote(id)+", and the cases have not", "name the document of the cases with --cases")
			}
			ids[id] = true
		}
	}
	for _, v := range slices.Concat(p.Baseline, p.New) {
		at, err := filepath.Rel(p.Out, v.place)
		v.at, v.beneath = at, err == nil && filepath.IsLocal(at)
	}
	if err := p.decide(ctx, slices.Concat(p.Baseline, p.New)); err != nil {
		return nil, err
	}
	done := &Compared{Page: page.Report{Details: map[string]page.Case{}}}
	evaluations := map[*Version]*grade.Evaluation{}
	for _, v := range slices.Concat(p.Baseline, p.New) {
		evaluations[v] = p.evaluation(v)
	}
	list := slices.SortedFunc(maps.Keys(ids), canon.Compare)
	pairs, sides := make([]grade.Pair, len(list)), make([][2]*chosen, len(list))
	each(len(list), func(i int) {
		if ctx.Err() != nil {
			return
		}
		c := known[list[i]]
		c.Title = p.redacting()(c.Title)
		pair := grade.Pair{Case: c, Baseline: p.judge(p.Baseline, c), New: p.judge(p.New, c)}
		b, n := shown(p.Baseline, pair.Baseline, passed), shown(p.New, pair.New, failed)
		if b != nil && n != nil {
			pair.Alignment = align.Align(b.Doc, n.Doc)
		}
		pairs[i], sides[i] = pair, [2]*chosen{b, n}
	})
	if ctx.Err() != nil {
		return nil, runerr.Interrupted()
	}
	left := inlined
	for i, pair := range pairs {
		note(p.Baseline, pair.ID, pair.Baseline, evaluations)
		note(p.New, pair.ID, pair.New, evaluations)
		input, _ := pair.Input.(object)
		user, _ := input["user"].(string)
		done.Page.Details[pair.ID] = page.Case{Input: p.redacting()(user), Alignment: pair.Alignment, Baseline: p.detail(sides[i][0], &left), New: p.detail(sides[i][1], &left)}
	}
	done.Comparison = grade.Compare(pairs, p.Limits, p.ReportOnly)
	done.EvaluatedAt, done.EvaluatorVersion = p.At, p.Program
	if p.Gate != nil {
		done.PolicyProvenance = &p.Gate.Provenance
	}
	done.New, done.ChangedProvenance = *side(p.New), []grade.Change{}
	if len(p.Baseline) > 0 {
		done.Baseline, done.ChangedProvenance = side(p.Baseline), changes(p.Baseline[0], p.New[0])
	}
	for _, v := range slices.Concat(p.Baseline, p.New) {
		done.Evaluations = append(done.Evaluations, Evaluated{v, *evaluations[v]})
	}
	done.Page.Comparison = done.Comparison
	for _, v := range slices.Concat(p.Baseline, p.New) {
		if err := v.dir.Err(); err != nil {
			return nil, runerr.Unreadable(screen.Folder(v.Path), runerr.Reason(err), "compare when nothing writes in the folder")
		}
	}
	return done, nil
}

// sides checks that the directories are those of two sides, each run once.
func (p *Plan) sides() error {
	if len(p.New) == 0 {
		return runerr.New(result.CodeProfile, "there is no run of new", "name its version directory with --new, or the folder of suite run --out")
	}
	for _, s := range []struct {
		side trial.Side
		list []*Version
	}{{trial.Baseline, p.Baseline}, {trial.New, p.New}} {
		for _, v := range s.list {
			if v.Side != s.side {
				return broken(v.Path, "run.json says "+string(v.Side)+", but the directory was given as "+string(s.side), "make a baseline of a run with fiador suite bless")
			}
		}
		if err := together(s.list); err != nil {
			return err
		}
		slices.SortFunc(s.list, func(a, b *Version) int { return cmp.Or(a.Index-b.Index, canon.Compare(a.RunID, b.RunID)) })
	}
	return nil
}

// together checks that runs belong together, each of them named once.
func together(list []*Version) error {
	seen, places := map[string]string{}, map[int]bool{}
	for _, v := range list {
		if other, twice := seen[v.RunID]; twice {
			return broken(v.Path, "the run "+canon.Quote(v.RunID)+" is also that of "+screen.Folder(other), "name each run once")
		}
		if v.Group != list[0].Group {
			return broken(v.Path, "the run does not belong to "+canon.Quote(list[0].Group), "name the directories of one run and its repeats")
		}
		if places[v.Index] {
			return broken(v.Path, "another run is the same repeat of "+canon.Quote(v.Group), "name each repeat once")
		}
		seen[v.RunID], places[v.Index] = v.Path, true
	}
	return nil
}

// judge judges a case in every run of a side that selected it.
func (p *Plan) judge(side []*Version, c trial.Case) (runs []grade.Run) {
	redact := p.redacting()
	of := 0
	for _, v := range side {
		of = max(of, v.Of)
		a, selected := v.cases[c.ID]
		if !selected {
			continue
		}
		run := judge.Judge(c, a, grade.Given{Policy: p.Gate != nil, Actions: v.actions[c.ID], Schema: p.Schema, Redact: redact})
		run.RunID = v.RunID
		runs = append(runs, run)
	}
	if len(runs) == 0 {
		return nil
	}
	// Deleting a failed repeat breaks no seal, so a repeat that is not there counts as missing, and so
	// does one that did not select the case.
	for len(runs) < max(of, len(side)) {
		runs = append(runs, grade.Run{Verdict: grade.Missing, Cause: &grade.RootCause{Name: "missing_case", Confidence: "high", Evidence: []string{}}})
	}
	return runs
}

// note adds the judgements of a case to the evaluations of a side.
func note(side []*Version, id string, runs []grade.Run, evaluations map[*Version]*grade.Evaluation) {
	for _, v := range side {
		if _, selected := v.cases[id]; !selected {
			continue
		}
		run, e := runs[0], evaluations[v]
		runs = runs[1:]
		e.Cases = append(e.Cases, grade.EvaluatedCase{
			CaseID: id, Verdict: run.Verdict, Assertions: run.Assertions, RootCause: run.Cause, Notes: run.Notes, Actions: run.Actions,
		})
		e.Summary[run.Verdict]++
	}
}

// redacting returns a function that redacts texts of the cases, and cuts them to 64 KiB. Texts of
// the agent are redacted when a directory is loaded.
func (p *Plan) redacting() func(text string) string {
	const most = 64 << 10
	redactor := p.New[0].rules.Redactor()
	return func(text string) string {
		return string(redactor.Bytes([]byte(text[:min(len(text), most)]), len(text) > most))
	}
}

// evaluation returns the evaluation of a version directory, without its cases.
func (p *Plan) evaluation(v *Version) *grade.Evaluation {
	e := &grade.Evaluation{
		SchemaVersion: grade.EvaluationVersion, RunID: v.RunID, Version: v.Side, EvaluatedAt: p.At, EvaluatorVersion: p.Program,
		CasesSHA256: p.CasesSHA256, RunSHA256: v.SHA256, Cases: []grade.EvaluatedCase{}, Summary: map[grade.Verdict]int{},
	}
	if p.Gate != nil {
		e.PolicyProvenance = &p.Gate.Provenance
	}
	return e
}

func passed(v grade.Verdict) bool { return v == grade.Pass || v == grade.Weak }

func failed(v grade.Verdict) bool { return v == grade.Fail }

// chosen is the run of a case that stands for its side.
type chosen struct {
	grade.Run
	of *Version
}

// shown returns the first run that the page is to show, else the first; nil: there is none.
func shown(side []*Version, runs []grade.Run, wanted func(grade.Verdict) bool) *chosen {
	if len(runs) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(runs, func(r grade.Run) bool { return wanted(r.Verdict) }))
	n := slices.IndexFunc(side, func(v *Version) bool { return v.RunID == runs[i].RunID })
	return &chosen{runs[i], side[n]}
}

// side describes the runs of a side.
func side(list []*Version) *grade.Side {
	s := &grade.Side{Sealed: true}
	for _, v := range list {
		s.RunIDs, s.RunSHA256 = append(s.RunIDs, v.RunID), append(s.RunSHA256, v.SHA256)
		s.Sealed = s.Sealed && v.Sealed
	}
	for _, id := range list[0].SignedBy { // of keys that have signed every run
		if !slices.ContainsFunc(list, func(v *Version) bool { return !slices.Contains(v.SignedBy, id) }) {
			s.SignedBy = append(s.SignedBy, id)
		}
	}
	slices.Sort(s.SignedBy)
	s.SignedBy = slices.Compact(s.SignedBy)
	return s
}

// changes returns what run.json says of the agent and of the run, where new differs.
func changes(old, now *Version) []grade.Change {
	list := []grade.Change{}
	was, is := described(old), described(now)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, name := range slices.SortedFunc(maps.Keys(names), canon.Compare) {
		if was[name] != is[name] {
			list = append(list, grade.Change{Name: name, From: was[name], To: is[name]})
		}
	}
	return list
}

// described returns what can change an agent's answers, by name: who and how the agent is, the
// cases, and the limits.
func described(v *Version) map[string]string {
	run, _ := v.rules.Redactor().Value(v.run).(object)
	d := map[string]string{}
	for _, name := range []string{"agent", "limits", "provenance", "retry_policy"} {
		members, _ := run[name].(object)
		for _, member := range canon.Names(members) {
			d[name+"."+canon.Cut(canon.Clean(member))] = said(members[member])
		}
	}
	for _, name := range []string{"cases_sha256", "repo_commit", "retries", "runner_version", "timeout_ms"} {
		if value, there := run[name]; there {
			d[name] = said(value)
		}
	}
	return d
}

// said returns a value as a text of at most 256 bytes.
func said(value any) string {
	if s, ok := value.(string); ok {
		return canon.Cut(canon.Clean(s))
	}
	text, err := canon.Literal(value)
	if err != nil {
		return ""
	}
	return canon.Cut(string(text))
}

// The most that the page has of kept texts.
const (
	inlineBody = 16 << 10 // of one
	inlined    = 4 << 20  // of all
)

// detail returns a run as the page shows it.
func (p *Plan) detail(c *chosen, left *int) *page.Shown {
	if c == nil {
		return nil
	}
	s := &page.Shown{Run: c.Run}
	for _, b := range bodies(c.Doc) {
		if !slices.Contains(c.of.dir.Names, b.Name) {
			continue // an unsealed directory lacks it, which is counted against the case
		}
		b.SHA256, b.Size = c.of.dir.Sum(b.Name)
		if b.Size <= inlineBody && int(b.Size) <= *left {
			b.Text = c.of.rules.Redactor().Bytes(c.of.dir.Content(b.Name), false)
			*left -= len(b.Text)
		}
		if c.of.beneath {
			b.Href = path.Join(filepath.ToSlash(c.of.at), b.Name)
		}
		s.Bodies = append(s.Bodies, b)
	}
	return s
}

// bodies returns the kept texts that the file of a case names, without their content.
func bodies(doc object) (list []page.Body) {
	add := func(label string, from object, member string) {
		name, ok := from[member].(string)
		if ok && name != "" && !slices.ContainsFunc(list, func(b page.Body) bool { return b.Name == name }) {
			list = append(list, page.Body{Label: label, Name: name})
		}
	}
	each := func(member string, do func(i string, one object)) {
		items, _ := doc[member].([]any)
		for i, one := range items {
			item, _ := one.(object)
			do(strconv.Itoa(i), item)
		}
	}
	each("attempts", func(_ string, a object) {
		n := said(a["attempt"])
		add("body of attempt "+n, a, "full_body_saved_to")
		add("standard error of attempt "+n, a, "stderr_saved_to")
	})
	failure, _ := doc["runner_failure"].(object)
	add("body of the last attempt", failure, "full_body_saved_to")
	each("events", func(i string, e object) {
		add("payload of events["+i+"]", e, "payload_asset_href")
		add("snippets of events["+i+"]", e, "snippets_asset_href")
	})
	add("what else the agent said", doc, "extensions_href")
	return list
}

// Why returns why an assertion of a case failed on new, in the first run in which it did.
func (c *Compared) Why(caseID, assertion string) string {
	for _, e := range c.Evaluations {
		i, there := slices.BinarySearchFunc(e.Evaluation.Cases, caseID, func(one grade.EvaluatedCase, id string) int { return canon.Compare(one.CaseID, id) })
		if e.Version.Side != trial.New || !there {
			continue
		}
		for _, a := range e.Evaluation.Cases[i].Assertions {
			if a.ID != assertion || !a.Failed() {
				continue
			}
			why := a.Reason
			if a.Expected != "" {
				why += "; expected " + a.Expected
			}
			if a.Actual != "" {
				why += "; got " + a.Actual
			}
			return why
		}
	}
	return ""
}
