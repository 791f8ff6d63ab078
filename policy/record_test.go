package policy

import (
	"context"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/profiles"

	"github.com/fiador/fiador/kernel"
)

const oneRecord = `{"records":{"placeholder":{"id":"OPEN","title":"Open","description":"Left open","severity":"deny","text":"{value}",
  "question":"what?","options":["b","a"],"fix":"close it","priority":7}}}`

// recorded returns a built-in layer of one module and a file of records.
func recorded(src, records string) Layer {
	return Layer{Package: Builtin, Modules: []Module{
		{Name: "builtin/a.rego", Source: []byte("package gate.builtin\n\nimport future.keywords.not\n\n" + src)},
		{Name: profiles.RecordsModule, Source: []byte(records)},
	}}
}

const fromRecords = `deny contains {"id": r.id, "path": f.path, "msg": f.value} if {
	some f in input.findings
	r := data.records[f.code]
	input.mode == "plan-only"
}

clarify contains {"id": r.id, "path": f.path, "question": r.question} if {
	some f in input.findings
	r := data.records[f.code]
	input.mode != "plan-only"
}
`

// TestRecordedLayer: the rules see the records, and an answer has the members of its record.
func TestRecordedLayer(t *testing.T) {
	e := newEngine(t, recorded(fromRecords, oneRecord))
	in := testInput(t)
	in.Findings = []kernel.Finding{{Code: finding.Placeholder, Path: "/goal", Value: "TBD"}}
	v, err := e.Eval(context.Background(), in)
	if err != nil || len(v.Deny) != 1 || v.Deny[0].ID != "OPEN" || v.Deny[0].Title != "Open" || v.Deny[0].Fix != "close it" || v.Deny[0].Text != "TBD" || v.Deny[0].Options != nil {
		t.Errorf("%+v, error %v", v, err)
	}
	in.Mode = "execute-sandbox"
	v, err = e.Eval(context.Background(), in)
	if err != nil || len(v.Clarify) != 1 || v.Clarify[0].Why != "Left open" || v.Clarify[0].Priority != 7 || strings.Join(v.Clarify[0].Options, "") != "ab" {
		t.Errorf("%+v, error %v", v, err)
	}
	rules, err := e.Rules()
	if err != nil || len(rules) != 1 || strings.Join(rules[0].Kinds, " ") != "clarify deny note" || rules[0].Module != profiles.RecordsModule || rules[0].Line != 1 {
		t.Errorf("%+v, error %v", rules, err)
	}
}

// TestRecordedErrors: a layer whose rules and records do not fit together does not load, and
// an answer that no record has is an error.
func TestRecordedErrors(t *testing.T) {
	meta := record("OPEN")
	for want, l := range map[string]Layer{
		"stands in a module; the layer's records are in builtin/records.json":             recorded(meta+fromRecords, oneRecord),
		`member "id" must come from a record`:                                             recorded(`deny contains {"id": "OPEN", "path": "", "msg": "m"}`, oneRecord),
		`member "msg" is missing`:                                                         recorded(`deny contains {"id": data.records.placeholder.id, "path": ""}`, oneRecord),
		`a second rule "deny"`:                                                            recorded(fromRecords+strings.Replace(fromRecords[:strings.Index(fromRecords, "clarify")], "plan-only", "x", 1), oneRecord),
		"/records/placeholder: id must match":                                             recorded(fromRecords, strings.Replace(oneRecord, "OPEN", "open", 1)),
		"/records/placeholder: it has no text":                                            recorded(fromRecords, strings.Replace(oneRecord, "{value}", "", 1)),
		`"data.records.placeholder" is neither data.profile nor the module's own package`: user(head0 + record("A_RULE") + `deny contains {"id": "A_RULE", "path": "", "msg": "m"} if data.records.placeholder`),
		"records.json:1:":                                                                 {Package: "gate.user.test", Modules: []Module{{Name: profiles.RecordsModule, Source: []byte(oneRecord)}}},
		`has no module`:                                                                   {Package: Builtin, Modules: recorded("", oneRecord).Modules[1:]},
		`member "id" must be a literal string`:                                            {Package: Builtin, Modules: recorded(fromRecords, "").Modules[:1]},
	} {
		_, err := New(context.Background(), testProfile(), []Layer{l}, patient())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	in := testInput(t)
	in.Findings = []kernel.Finding{{Code: finding.Placeholder, Path: "/goal", Value: "TBD"}}
	for want, src := range map[string]string{
		`id "OTHER" is not the rule's`: `deny contains {"id": concat("", ["OTH", "ER"]), "path": f.path, "msg": f.value} if some f in input.findings`,
		`member "msg" is undefined`:    `deny contains {"id": data.records[f.code].id, "path": f.path, "msg": data.records[f.code].none} if some f in input.findings`,
	} {
		e := newEngine(t, recorded(src, oneRecord))
		_, err := e.Eval(context.Background(), in)
		asError(t, err, KindEval, want)
	}
}
