package verify

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// structural checks the pack by the rules of the structural level. It reads the pack as
// another reader of the format would: JSON of any spelling, unknown members, and only
// the types that a rule names. A member that a rule names must exist and have its type,
// unless the rule says that it may be missing.
//
// For each name in the pack, the first rule that applies counts:
//
//	PK7   the name is not empty, ".", "..", valid UTF-8, and has neither a control
//	      character nor a slash or backslash; no archive has it twice
//	PK6   no link
//	PK12  a regular file, and not over its limit (MaxBytes)
//	PK2   a name of Names; in all no more than MaxEntries. Of a pack with more names
//	      nothing else is said, for which of them were read is chance
//
// Of the files:
//
//	PK1   run.json and policy.json are there. Where run.json is an object, bundle.json is
//	      there unless its kernel_result_kind is REFUSE, and evidence.json and runner.json
//	      are where its execution is an object. A name that is no file is there
//	PK3   run.json is an object. It has run_schema_version, run_id, started_at,
//	      completed_at, kernel_version, policy, intent, kernel_result_kind, decision and
//	      model_mode, of any type; kernel_result_kind is BUNDLE, CLARIFY or REFUSE. bundle
//	      and execution may be missing and are null then
//	PK4   bundle.json is an object; the rules for what is in it are BS1 to BS8
//	PK5   where run.json#/bundle is an object and bundle.json is there, sha256 of it is
//	      "sha256:" and the SHA-256 of bundle.json in lower-case hex: of its canonical form
//	      and one LF, whatever its layout; of its bytes where it has no canonical form
//	PK8   patch.json, runner.json, model_io.json, tool_io.json and evidence.json are objects
//	      where they are there; the rules for what is in them are PS1 to PS9, RN1 to RN12,
//	      MI1 to MI11, and TI1 to TI11. policy.json is JSON and, where run.json has a policy, of the same
//	      canonical form
//	PK9   see ledgerRules
//	PK11  meta.json is JSON
func (v *verifier) structural() {
	if v.pack.More {
		v.add("PK2", "", "more than %d names", pack.MaxEntries)
		return
	}
	for _, e := range v.pack.Entries {
		v.entry(e)
	}
	v.required()
	v.run()
	v.policyFile()
	for _, name := range []string{pack.EvidenceFile, pack.PatchFile, pack.RunnerFile, pack.ModelFile, pack.ToolFile} {
		if d := v.doc(name); d != nil && v.object(name) == nil {
			v.add("PK8", name, "%s", d.noObject())
		}
	}
	if d := v.doc(pack.BundleFile); d != nil && v.object(pack.BundleFile) == nil {
		v.add("PK4", pack.BundleFile, "%s", d.noObject())
	}
	if d := v.doc(pack.MetaFile); d != nil && d.fault != "" {
		v.add("PK11", pack.MetaFile, "%s", d.fault)
	}
	v.bundleRules()
	v.patchRules()
	v.runnerRules()
	for name, faults := range map[string]func(any) []pack.Violation{pack.ModelFile: pack.ModelIOFaults, pack.ToolFile: pack.ToolIOFaults} {
		if obj := v.object(name); obj != nil {
			for _, f := range faults(obj) {
				v.add(f.Rule, f.Path, "%s", f.Message)
			}
		}
	}
	v.ledgerRules()
}

// entry checks PK2, PK6, PK7 and PK12 for one name.
func (v *verifier) entry(e pack.Entry) {
	path := canon.Cut(strings.ToValidUTF8(e.Name, "\ufffd"))
	fault := nameFault(e.Name)
	switch {
	case fault != "":
		v.add("PK7", path, "the name %s", fault)
	case e.Twice:
		v.add("PK7", path, "the archive has the name twice")
	case e.Kind == pack.KindLink:
		v.add("PK6", path, "a link")
	case e.Kind == pack.KindFolder:
		v.add("PK12", path, "a folder")
	case e.Kind != pack.KindFile:
		v.add("PK12", path, "no regular file")
	case !pack.IsName(e.Name):
		v.add("PK2", path, "no file of a pack")
	case e.Text == nil:
		v.add("PK12", path, "more than %d bytes", pack.MaxBytes(e.Name))
	}
}

// nameFault says why a name is not clean, or returns "".
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name == "." || name == "..":
		return "is a folder's"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsAny(name, `/\`):
		return "has a slash or a backslash"
	case pack.HasControl(name):
		return "has a control character"
	}
	return ""
}

// required checks PK1.
func (v *verifier) required() {
	need := func(name, why string) {
		_, there := v.pack.Entry(name)
		v.must(there, "PK1", name, "missing; %s", why)
	}
	run := v.object(pack.RunFile)
	need(pack.RunFile, "every pack has it")
	need(pack.PolicyFile, "every pack has it")
	if run != nil && run["kernel_result_kind"] != any(string(kernel.OutcomeRefuse)) {
		need(pack.BundleFile, "every pack but that of a REFUSE has it")
	}
	if _, executed := run["execution"].(map[string]any); executed {
		need(pack.EvidenceFile, "the run was executed")
		need(pack.RunnerFile, "the run was executed")
	}
}

// run checks PK3 and PK5.
func (v *verifier) run() {
	d := v.doc(pack.RunFile)
	if d == nil {
		return
	}
	run := v.object(pack.RunFile)
	if run == nil {
		v.add("PK3", pack.RunFile, "%s", d.noObject())
		return
	}
	// Every reader of the format expects these members.
	for _, name := range []string{
		"run_schema_version", "run_id", "started_at", "completed_at", "kernel_version", "policy", "intent", "kernel_result_kind",
		"decision", "model_mode",
	} {
		_, there := run[name]
		v.must(there, "PK3", pack.RunFile+"#/"+name, "missing")
	}
	if _, ok := run["kernel_result_kind"]; ok {
		switch kernel.Outcome(text(run, "kernel_result_kind")) {
		case kernel.OutcomeBundle, kernel.OutcomeClarify, kernel.OutcomeRefuse:
		default:
			v.add("PK3", pack.At(pack.RunFile, "kernel_result_kind"), "none of BUNDLE, CLARIFY, REFUSE")
		}
	}
	bundle, ok := run["bundle"].(map[string]any)
	if d := v.doc(pack.BundleFile); ok && d != nil {
		v.must(text(bundle, "sha256") == string(d.sum()), "PK5", pack.RunFile+"#/bundle/sha256", "not the SHA-256 of bundle.json")
	}
}

// policyFile checks PK8 for policy.json.
func (v *verifier) policyFile() {
	d := v.doc(pack.PolicyFile)
	if d == nil {
		return
	}
	if d.fault != "" {
		v.add("PK8", pack.PolicyFile, "%s", d.fault)
		return
	}
	policy, ok := v.object(pack.RunFile)["policy"]
	v.must(!ok || sameJSON(d.value, policy), "PK8", pack.PolicyFile, "not the policy of run.json")
}

// sameJSON says whether two decoded values have the same canonical form.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameJSON)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(a, b)
	}
	return a == b // a text, a boolean or null
}

// sameNumber says whether two numbers are the same double. A number too large for a
// double equals only such numbers.
func sameNumber(a, b json.Number) bool {
	x, err := strconv.ParseFloat(string(a), 64)
	if err != nil {
		return false
	}
	y, err := strconv.ParseFloat(string(b), 64)
	return err == nil && x == y
}

// sortedTexts notes a violation of a rule if a member is no list of texts in ascending
// order of code units. Equal texts may follow each other.
func (v *verifier) sortedTexts(rule, file string, holder map[string]any, path ...string) {
	list, ok := holder[path[len(path)-1]].([]any)
	if !ok {
		v.add(rule, pack.At(file, path...), "missing or not a list")
		return
	}
	last, lastOK := "", false
	for i, one := range list {
		s, ok := one.(string)
		switch {
		case !ok:
			v.add(rule, pack.At(file, path...)+"/"+strconv.Itoa(i), "not a text")
		case lastOK && canon.Compare(last, s) > 0:
			v.add(rule, pack.At(file, path...)+"/"+strconv.Itoa(i), "%s stands behind %s", pack.Quoted(s), pack.Quoted(last))
		}
		last, lastOK = s, ok
	}
}
