package result

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// Status is the outcome of a check.
type Status string

// The three outcomes of a check. A check that could not be made does not count as a
// pass.
const (
	Pass       Status = "ok"
	Fail       Status = "FAIL"
	NotChecked Status = "not checked"
)

// Check is the outcome of one invariant for one document.
type Check struct {
	ID     string // RS1..RS8, RS3a
	Title  string
	Status Status
	Fault  string // what is wrong, or why the check was not made; empty for a pass
	Note   string // of a pass: what the check does not cover

	// NotOfVersion is set where a check was not made because the version of the
	// document does not have the invariant. The document then lacks nothing.
	NotOfVersion bool
}

// Checks checks RS1..RS8 and RS3a for a RunResult. raw is the file's bytes, and doc is
// their decoded value. policy is the profile that the result names, or nil if the
// caller does not have it; RS5 is then not checked. Every check is made, even if other
// checks fail.
//
// Each invariant has vectors that break it in specs/vectors/result/. TestResultVectors
// runs them.
func Checks(raw []byte, doc canon.Document, policy *kernel.PolicyProfile) []Check {
	list := checks(raw, doc, policy)
	titles := map[string]string{}
	for _, r := range Records() {
		titles[r.ID] = r.Title
	}
	for i, c := range list {
		list[i].Title = titles[c.ID]
	}
	return list
}

// checks is Checks without the titles.
func checks(raw []byte, doc canon.Document, policy *kernel.PolicyProfile) []Check {
	obj, _ := doc.Value().(map[string]any)
	d := document{obj}
	list := []Check{
		{ID: "RS1", Fault: d.schemaVersion()},
		{ID: "RS2", Fault: d.outcome()},
		{ID: "RS3", Fault: d.fields()},
		{ID: "RS3a", Fault: d.mode()},
		{ID: "RS4", Fault: d.references()},
		{ID: "RS5", Fault: d.policy(policy)},
		{ID: "RS6", Fault: d.noLeak()},
		{ID: "RS7", Fault: d.canonical(raw, doc)},
		{ID: "RS8", Fault: d.decision()},
	}
	for i, c := range list {
		switch {
		case c.ID == "RS3a" && EditionOf(d.str("run_schema_version")) == Contract && !d.has("execution_mode"):
			list[i].Status, list[i].Fault, list[i].NotOfVersion = NotChecked, "version "+ContractVersion+" has no execution_mode", true
		case c.ID == "RS5" && policy == nil:
			list[i].Status, list[i].Fault = NotChecked, "the profile that the result names is not at hand"
		case c.Fault != "":
			list[i].Status = Fail
		default:
			list[i].Status = Pass
		}
	}
	return list
}

// UnsoundError says why a result that was read is not sound.
type UnsoundError struct {
	ID    string // of the first invariant that the result breaks; empty if it cannot be read
	Fault string // in the result; empty if it cannot be read
	Err   error  // of the reading
}

// Error returns the message.
func (e *UnsoundError) Error() string {
	if e.Err != nil {
		return "the result cannot be read back"
	}
	return "the result breaks an invariant: " + e.Fault
}

// Unwrap returns the error of the reading, or nil.
func (e *UnsoundError) Unwrap() error { return e.Err }

// Sound reads a result and names the first invariant that the result breaks.
func Sound(raw []byte, policy *kernel.PolicyProfile) (canon.Document, *UnsoundError) {
	doc, err := canon.ParseCanonical(bytes.TrimSuffix(raw, []byte("\n")), MaxBytes)
	if err != nil { // RS7 says what is not canonical
		doc, err = canon.Parse(raw, MaxBytes)
	}
	if err != nil {
		return canon.Document{}, &UnsoundError{Err: err}
	}
	for _, c := range checks(raw, doc, policy) {
		if c.Status != Pass {
			return canon.Document{}, &UnsoundError{ID: c.ID, Fault: c.Fault}
		}
	}
	return doc, nil
}

// document reads members leniently. A member that is absent or has another type reads
// as a zero value, and the check that needs the member reports the fault.
type document struct{ obj map[string]any }

func (d document) str(name string) string {
	s, _ := d.obj[name].(string)
	return s
}

func (d document) has(name string) bool {
	_, ok := d.obj[name]
	return ok
}

func (d document) child(name string) (document, bool) {
	obj, ok := d.obj[name].(map[string]any)
	return document{obj}, ok
}

// only returns a copy with those members that known also has.
func (d document) only(known map[string]any) map[string]any {
	out := maps.Clone(d.obj)
	maps.DeleteFunc(out, func(name string, _ any) bool { _, ok := known[name]; return !ok })
	return out
}

// null says whether the member is present and null.
func (d document) null(name string) bool {
	v, ok := d.obj[name]
	return ok && v == nil
}

// fault is what may be wrong with a document, and whether it is.
type fault struct {
	is   bool
	text string
}

// first returns the text of the first fault that a document has, or "".
func first(list ...fault) string {
	for _, f := range list {
		if f.is {
			return f.text
		}
	}
	return ""
}

// schemaVersion is RS1. Like the checks below, it returns what is wrong, or "".
func (d document) schemaVersion() string {
	if d.str("run_schema_version") == "" {
		return "/run_schema_version is missing or empty"
	}
	return ""
}

// outcome is RS2.
func (d document) outcome() string {
	switch kernel.Outcome(d.str("kernel_result_kind")) {
	case kernel.OutcomeBundle, kernel.OutcomeClarify, kernel.OutcomeRefuse:
		return ""
	}
	return "/kernel_result_kind is none of BUNDLE, CLARIFY, REFUSE"
}

// fields is RS3: the members that an outcome has, and those that it does not have.
func (d document) fields() string {
	kind := kernel.Outcome(d.str("kernel_result_kind"))
	_, bundle := d.child("bundle")
	questions, _ := d.obj["clarify_questions"].([]any)
	clarify, refuse := kind == kernel.OutcomeClarify, kind == kernel.OutcomeRefuse
	return first(
		fault{d.outcome() != "", "the outcome that the fields should fit is not known"},
		fault{!refuse && !bundle, "/bundle is null or missing in a " + string(kind)},
		fault{refuse && !d.null("bundle"), "/bundle is not null in a REFUSE"},
		fault{clarify && !allFilled(questions), "/clarify_questions is missing, empty or has an empty question in a CLARIFY"},
		fault{!clarify && d.has("clarify_questions"), "/clarify_questions is there without a CLARIFY"},
		fault{refuse && d.str("refuse_reason") == "", "/refuse_reason is missing or empty in a REFUSE"},
		fault{!refuse && d.has("refuse_reason"), "/refuse_reason is there without a REFUSE"},
		fault{kind != kernel.OutcomeBundle && !d.null("execution"), "/execution is not null in a " + string(kind)},
	)
}

func allFilled(list []any) bool {
	for _, v := range list {
		if s, _ := v.(string); s == "" {
			return false
		}
	}
	return len(list) > 0
}

// mode is RS3a.
func (d document) mode() string {
	bundle := kernel.Outcome(d.str("kernel_result_kind")) == kernel.OutcomeBundle
	_, executed := d.child("execution")
	decision, _ := d.child("decision")
	plan, execute := d.str("execution_mode") == "plan-only", d.str("execution_mode") == "execute-sandbox"
	return first(
		fault{!plan && !execute, "/execution_mode is neither plan-only nor execute-sandbox"},
		fault{plan && executed, "/execution is there in mode plan-only"},
		fault{plan && bundle && decision.obj["accepted"] != true, "/decision/accepted is not true for a BUNDLE in mode plan-only"},
		fault{execute && bundle && !executed, "/execution is missing for a BUNDLE in mode execute-sandbox"},
		fault{execute && !bundle && executed, "/execution is there without a BUNDLE"},
	)
}

// references is RS4: the hashes of the intent and the bundle have their form.
func (d document) references() string {
	intent, _ := d.child("intent")
	bundle, there := d.child("bundle")
	none := d.null("bundle")
	return first(
		fault{!canon.ContentHash(intent.str("sha256")).Valid(), "/intent/sha256 is not sha256: and 64 lower-case hex digits"},
		fault{!none && !there, "/bundle is missing or neither null nor an object"},
		fault{!none && !canon.ContentHash(bundle.str("sha256")).Valid(), "/bundle/sha256 is not sha256: and 64 lower-case hex digits"},
		fault{!none && bundle.str("bundle_id") == "", "/bundle/bundle_id is missing or empty"},
	)
}

var policyPlan canon.Plan[kernel.PolicyProfile]

// policy is RS5. A result of a later version may have members of policy that are not known.
func (d document) policy(want *kernel.PolicyProfile) string {
	if want == nil {
		return ""
	}
	expected, err := policyPlan.Canonical(want)
	if err != nil {
		return "the resolved profile has no canonical form"
	}
	given := d.obj["policy"]
	if policy, ok := d.child("policy"); ok && EditionOf(d.str("run_schema_version")) == Later {
		known, _ := canon.ParseCanonical(expected, len(expected)) // a later version may have members that these lack
		members, _ := known.Value().(map[string]any)
		given = policy.only(members)
	}
	got, err := canon.Canonical(given)
	if err != nil || !bytes.Equal(got, expected) {
		return "/policy is not the profile " + want.Name
	}
	return ""
}

// noLeak is RS6: no path is absolute.
func (d document) noLeak() string {
	intent, _ := d.child("intent")
	if absolute(intent.str("path")) {
		return "/intent/path is absolute"
	}
	for _, name := range []string{"sandbox_path", "model_io_path"} {
		if d.has(name) {
			return "/" + name + " stands in a public result"
		}
	}
	for _, f := range d.executed() {
		if absolute(f.str("path")) {
			return f.at + "/path is absolute"
		}
	}
	return ""
}

// executed returns the inputs and outputs of the execution.
func (d document) executed() (files []executedFile) {
	execution, _ := d.child("execution")
	for _, name := range []string{"inputs", "outputs"} {
		list, _ := execution.obj[name].([]any)
		for i, v := range list {
			obj, _ := v.(map[string]any)
			files = append(files, executedFile{document{obj}, name, "/execution/" + name + "/" + strconv.Itoa(i)})
		}
	}
	return files
}

// executedFile is one input or output of an execution, with its pointer.
type executedFile struct {
	document
	list, at string
}

// absolute says whether path is absolute on any system.
func absolute(path string) bool {
	return strings.HasPrefix(path, "/") || strings.HasPrefix(path, `\`) || pathname.HasDrive(path)
}

// canonical is RS7. The files of an execution are in the order of their paths.
func (d document) canonical(raw []byte, doc canon.Document) string {
	if body, ended := bytes.CutSuffix(raw, []byte("\n")); !ended || !bytes.Equal(body, doc.Bytes()) {
		return "the bytes are not RFC 8785 canonical JSON and one LF"
	}
	files := d.executed()
	for i, f := range files[min(1, len(files)):] {
		before := files[i]
		if f.list == before.list && canon.Compare(before.str("path"), f.str("path")) >= 0 {
			return f.at + " is not in the order of the paths, each once"
		}
	}
	return ""
}

// decision is RS8.
func (d document) decision() string {
	decision, there := d.child("decision")
	accepted, said := decision.obj["accepted"].(bool)
	bundle := kernel.Outcome(d.str("kernel_result_kind")) == kernel.OutcomeBundle
	execution, executed := d.child("execution")
	executed = executed && bundle
	total, _ := execution.obj["total_output_bytes"].(json.Number)
	return first(
		fault{!there, "/decision is missing"},
		fault{!said, "/decision/accepted is neither true nor false"},
		fault{decision.obj["validated_by_kernel"] != true, "/decision/validated_by_kernel is not true"},
		fault{!bundle && accepted, "/decision/accepted is true without a BUNDLE"},
		fault{executed && accepted != (execution.obj["exit_code"] == json.Number("0")), "/decision/accepted and /execution/exit_code disagree"},
		fault{executed && (total == "" || total != d.outputBytes()), "/execution/total_output_bytes is not the sum of the sizes of /execution/outputs"},
	)
}

// outputBytes returns the sum of the sizes of all outputs. It is empty if no number in
// a document can hold the sum.
func (d document) outputBytes() json.Number {
	sum := int64(0)
	for _, f := range d.executed() {
		if f.list != "outputs" {
			continue
		}
		n, _ := f.obj["size_bytes"].(json.Number)
		size, err := strconv.ParseInt(string(n), 10, 64)
		if err != nil || size < 0 || size > canon.MaxSafeInteger-sum {
			return ""
		}
		sum += size
	}
	return json.Number(strconv.FormatInt(sum, 10))
}
