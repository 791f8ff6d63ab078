// Package verify owns the rules that a version directory of a suite keeps (specs/suite.md, Rules).
// It is strict about the artifact contract, and tolerant about what the contract does not name.
package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// Entry is an entry of a directory that is neither a folder nor a regular file.
type Entry struct {
	Name string
	What string // follows the name in a sentence
}

// Directory reads the regular files of a version directory. Names are slash paths from it.
type Directory interface {
	// Sum returns the SHA-256 of a file as 64 hexadecimal digits, and its size.
	Sum(name string) (sha256 string, size int64)
	// Content returns the bytes of a file.
	Content(name string) []byte
	// Document returns the decoded value of a JSON file, and how it breaks a schema. A file that
	// is no JSON has one fault.
	Document(name, schema string) (value any, faults []trial.Fault)
}

// Violation is a broken rule of a version directory.
type Violation struct {
	Rule    string `json:"rule"`
	Path    string `json:"path"`    // a file of the directory; empty: the directory
	Pointer string `json:"pointer"` // JSON Pointer in this file; empty: the whole
	Msg     string `json:"message"`
}

// Verdict says how a version directory keeps the rules.
type Verdict struct {
	Violations []Violation // sorted by path, pointer, rule and message; at most MaxViolations
	More       int         // violations beyond MaxViolations
	Sealed     bool        // run.json has the hashes of all other files
}

// Rules that an evaluator counts against one case: the directory is judged all the same.
const (
	RuleCaseMissing = "SU4"  // counts if the directory is not sealed
	RuleFileMissing = "SU13" // counts if the directory is not sealed
	RuleUnresolved  = "SU19"
)

// MaxViolations is the greatest number of violations that a Verdict has.
const MaxViolations = 1000

// maxFound is the greatest number of violations that are collected.
const maxFound = 20 * MaxViolations

// OK says whether the directory keeps all rules.
func (v Verdict) OK() bool { return len(v.Violations) == 0 }

// Verify checks a version directory with these regular files and other entries by the rules
// of specs/suite.md. Of a document that does not fit its schema, it says nothing else.
func Verify(d Directory, names []string, others []Entry) Verdict {
	v := &verifier{dir: d, names: map[string]bool{}, assets: map[string]bool{}, selected: map[string]bool{}}
	for _, name := range names {
		v.names[name] = true
		v.assets[name] = strings.HasPrefix(name, trial.AssetsFolder+"/") && name != trial.ManifestFile
	}
	for _, other := range others {
		v.add("SU2", place{file: canon.Cut(other.Name)}, "%s", other.What)
	}
	if v.names[trial.RunFile] {
		v.run = v.document("SU1", trial.RunFile, "suite-run")
	} else {
		v.add("SU1", place{file: trial.RunFile}, "missing")
	}
	v.version = trial.TextOf(v.run.obj, "version")
	items := v.manifest()
	v.selection()
	for _, name := range names {
		if isCase(name) {
			v.caseFile(name)
		}
	}
	if v.run.obj != nil {
		id := trial.TextOf(v.run.obj, "run_id")
		v.must(cleanPath(id) && !strings.Contains(id, "/") && len(id) <= 255, "SU1", v.run, "run_id", "%s cannot name a folder", canon.Quote(id))
		v.paths(v.run, v.run.obj)
		v.href(v.run, "cases_href", false)
		v.additions()
		v.stats()
		v.seal(names, items)
	}
	slices.SortFunc(v.found, func(a, b Violation) int {
		return cmp.Or(canon.Compare(a.Path, b.Path), canon.Compare(a.Pointer, b.Pointer), canon.Compare(a.Rule, b.Rule), canon.Compare(a.Msg, b.Msg))
	})
	verdict := Verdict{Violations: slices.Compact(v.found), More: v.more, Sealed: v.run.obj["artifacts"] != nil}
	if n := len(verdict.Violations); n > MaxViolations {
		verdict.Violations, verdict.More = verdict.Violations[:MaxViolations], verdict.More+n-MaxViolations
	}
	return verdict
}

// isCase says whether a file of a directory is one of a case.
func isCase(name string) bool {
	id, json := strings.CutSuffix(name, trial.CaseSuffix)
	return json && !strings.Contains(name, "/") && !trial.Reserved(id)
}

// verifier is a directory during its verification.
type verifier struct {
	dir      Directory
	names    map[string]bool // the regular files
	assets   map[string]bool // what a reference to an asset can name
	run      place           // the object is nil if run.json does not fit its schema
	version  string          // of run.json, or empty
	failed   int             // cases with status runner_error
	broken   bool            // the files of cases are not those that are selected, or one does not fit its schema
	selected map[string]bool // by id
	found    []Violation
	more     int
}

// place is an object in a document.
type place struct {
	file, pointer string
	obj           map[string]any
}

// at returns the place of a member.
func (p place) at(name string) place {
	obj, _ := p.obj[name].(map[string]any)
	return place{p.file, canon.Pointer(p.pointer, name), obj}
}

// each returns the places of the elements of a member.
func (p place) each(name string) []place {
	list, _ := p.obj[name].([]any)
	out, pointer := make([]place, len(list)), canon.Pointer(p.pointer, name)+"/"
	for i, one := range list {
		obj, _ := one.(map[string]any)
		out[i] = place{p.file, pointer + strconv.Itoa(i), obj}
	}
	return out
}

// number returns a member that is a number.
func (p place) number(name string) (float64, bool) {
	n, ok := p.obj[name].(json.Number)
	f, err := strconv.ParseFloat(string(n), 64)
	return f, ok && err == nil
}

func (v *verifier) add(rule string, p place, format string, args ...any) {
	if len(v.found) == maxFound {
		v.more++
		return
	}
	v.found = append(v.found, Violation{rule, p.file, p.pointer, fmt.Sprintf(format, args...)})
}

// must notes a violation at a member unless a condition holds.
func (v *verifier) must(holds bool, rule string, p place, member, format string, args ...any) {
	if !holds {
		v.add(rule, p.at(member), format, args...)
	}
}

// document reads a file, and notes how it breaks its schema. The object is nil if it does.
func (v *verifier) document(rule, name, schema string) place {
	value, faults := v.dir.Document(name, schema)
	for _, f := range faults {
		v.add(rule, place{file: name, pointer: f.Pointer}, "%s", f.Msg)
	}
	obj, _ := value.(map[string]any)
	if len(faults) > 0 {
		obj = nil
	}
	return place{file: name, obj: obj}
}

// selection checks SU3 and SU4.
func (v *verifier) selection() {
	list, _ := v.run.obj["selected_case_ids"].([]any)
	seen := map[string]bool{}
	for i, id := range list {
		id, _ := id.(string)
		p := place{file: trial.RunFile, pointer: "/selected_case_ids/" + strconv.Itoa(i)}
		folded := strings.ToLower(id)
		switch {
		case seen[folded]:
			v.add("SU3", p, "the id %s is there twice, perhaps in another case of letters", canon.Quote(id))
		case !cleanPath(id) || strings.Contains(id, "/") || trial.Reserved(folded):
			v.add("SU3", p, "the id %s cannot name the file of a case", canon.Quote(id))
		case !v.names[id+trial.CaseSuffix]:
			v.add(RuleCaseMissing, place{file: id + trial.CaseSuffix}, "missing: the case is selected")
			v.broken = true
		}
		seen[folded] = true
		v.selected[id] = true
	}
}

// caseFile checks SU5 to SU20 for the file of a case.
func (v *verifier) caseFile(name string) {
	id := strings.TrimSuffix(name, trial.CaseSuffix)
	if v.run.obj != nil && !v.selected[id] {
		v.add("SU5", place{file: name}, "no selected case has this file")
		v.broken = true
	}
	c := v.document("SU6", name, "suite-case")
	if c.obj == nil {
		v.broken = true
		return
	}
	v.must(trial.TextOf(c.obj, "case_id") == id, "SU5", c, "case_id", "%s, in the file of %s", canon.Quote(trial.TextOf(c.obj, "case_id")), canon.Quote(id))
	v.sameVersion(c, "version")
	v.attempts(c)
	v.paths(c, c.obj)
	other := []string{"runner_failure"}
	if trial.TextOf(c.obj, "status") == string(trial.RunnerError) {
		v.failed++
		v.failure(c, c.at("runner_failure"))
		other = []string{"proposed_actions", "events", "final_output"}
	} else {
		v.answer(c)
	}
	for _, member := range other {
		_, there := c.obj[member]
		v.must(!there, "SU8", c, member, "a case with status %s has no such member", trial.TextOf(c.obj, "status"))
	}
	v.href(c, "extensions_href", false)
}

// sameVersion checks SU7 for a member, which may be absent or null.
func (v *verifier) sameVersion(p place, member string) {
	version, there := p.obj[member].(string)
	v.must(!there || v.version == "" || version == v.version, "SU7", p, member, "%s, and %s in run.json", canon.Quote(version), canon.Quote(v.version))
}

// attempts checks SU9, and the hrefs of attempts.
func (v *verifier) attempts(c place) {
	list := c.each("attempts")
	for i, a := range list {
		n, _ := a.number("attempt")
		v.must(n == float64(i+1), "SU9", a, "attempt", "not %d", i+1)
		_, there := a.obj["error_class"]
		v.must(!there || a.obj["outcome"] == string(trial.RunnerError), "SU9", a, "error_class", "an attempt with outcome ok has no error_class")
		if i == len(list)-1 {
			v.must(a.obj["outcome"] == c.obj["status"], "SU9", a, "outcome", "the last attempt has another outcome than the case")
		}
		v.href(a, "full_body_saved_to", true)
		v.href(a, "stderr_saved_to", true)
	}
}

// answer checks SU18 and SU19, and the files of events.
func (v *verifier) answer(c place) {
	results, documents, events := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, e := range c.each("events") {
		index := strconv.Itoa(i)
		events[index], events["events["+index+"]"] = true, true
		switch trial.TextOf(e.obj, "type") {
		case "tool_result":
			results[trial.TextOf(e.obj, "call_id")] = true
			v.sum(e, "", "payload_asset_sha256", v.href(e, "payload_asset_href", false))
		case "retrieval":
			list, _ := e.obj["doc_ids"].([]any)
			for _, id := range list {
				id, _ := id.(string)
				documents[id] = true
			}
			v.href(e, "snippets_asset_href", false)
		}
	}
	known := map[string]map[string]bool{"tool_result": results, "retrieval_doc": documents, "event": events, "asset": v.assets}
	noted := unresolved(c)
	for _, action := range c.each("proposed_actions") {
		for _, ref := range action.each("evidence_refs") {
			kind := trial.TextOf(ref.obj, "kind")
			own := trial.Identifier(kind)
			for _, member := range []string{"call_id", "doc_id", "id"} {
				_, there := ref.obj[member]
				v.must(member == own || !there, "SU18", ref, member, "a reference to a %s has %s alone", kind, own)
			}
			id := trial.TextOf(ref.obj, own)
			if !known[kind][id] && !noted[ref.pointer] && !noted[kind+" "+id] {
				v.add(RuleUnresolved, ref, "there is no %s %s", kind, canon.Quote(id))
			}
		}
	}
}

// unresolved returns the references that a case lists in evidence_unresolved: their pointers, or
// a kind, a space and an identifier.
func unresolved(c place) map[string]bool {
	noted := map[string]bool{}
	list, _ := c.obj["evidence_unresolved"].([]any)
	for _, one := range list {
		switch one := one.(type) {
		case string:
			noted[one] = true
		case map[string]any:
			kind := trial.TextOf(one, "kind")
			noted[trial.TextOf(one, "pointer")] = true
			noted[kind+" "+trial.TextOf(one, trial.Identifier(kind))] = true
		}
	}
	return noted
}
