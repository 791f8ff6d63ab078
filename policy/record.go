package policy

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/profiles"
)

// Rule is the record of one rule id: the content of its METADATA or of its record in the
// file of records, and its place.
type Rule struct {
	ID          string   `json:"id"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Fix         string   `json:"fix,omitempty"`
	Since       string   `json:"since,omitempty"` // first version of the policy that has the rule
	Priority    int      `json:"priority"`
	Kinds       []string `json:"kinds"` // those of deny, clarify and note that use the id
	Layer       string   `json:"layer"`
	Module      string   `json:"module"`
	File        string   `json:"file"` // as the author finds the file
	Line        int      `json:"line"` // line of the METADATA block, or of the record in its file

	// Of a rule that asks (profiles.Record).
	Answerable bool     `json:"answerable,omitempty"`
	Settling   []string `json:"settling,omitempty"`
	Needs      string   `json:"needs,omitempty"`

	options []string // of a question that gives none itself
}

// Settled says in words what settles a question of the rule. It is empty if the rule asks
// none.
func (r Rule) Settled() string {
	switch {
	case !slices.Contains(r.Kinds, ruleClarify):
		return ""
	case len(r.Settling) > 0:
		return "an answer in the intent: " + strings.Join(r.Settling, ", ")
	case r.Answerable:
		return "an answer in the intent"
	case kernel.Need(r.Needs) == kernel.NeedPolicy:
		return "another profile"
	}
	return "another intent"
}

// joinRecords joins the records of a layer's modules and checks them against the heads:
// every id has a record, and every record has an id.
//
// may says of an id whether it can stand in a module that could not be read.
func joinRecords(l Layer, list []Rule, heads []head, may func(id string) bool) (map[string]Rule, []*Error) {
	if file := l.records(); file != nil {
		records, err := fileRecords(*file, list)
		if err != nil {
			return nil, []*Error{err}
		}
		return records, nil
	}
	var errs []*Error
	records := make(map[string]Rule, len(list))
	for _, r := range list {
		if old, dup := records[r.ID]; dup {
			errs = append(errs, recordErrorf(r, "record %q stands a second time; the first is at %s:%d", r.ID, old.Module, old.Line))
			continue
		}
		r.Layer = l.Package
		records[r.ID] = r
	}
	for _, h := range heads {
		if h.id == "" {
			continue
		}
		r, ok := records[h.id]
		if !ok {
			if !may(h.id) {
				e := moduleErrorf(h.module, h.line, "rule %q has no METADATA with custom.id %q", h.rule, h.id)
				e.Rule, e.Column = h.id, h.column
				errs = append(errs, e)
			}
			continue
		}
		r.Kinds = append(r.Kinds, h.rule)
		slices.Sort(r.Kinds)
		records[h.id] = r
	}
	// A record that no rule uses is refused: explain would print a rule that cannot fire.
	for _, id := range slices.Sorted(maps.Keys(records)) {
		r := records[id]
		if len(r.Kinds) == 0 {
			if !may(id) {
				errs = append(errs, recordErrorf(r, "no rule uses record %q", id))
			}
		} else if fault := profiles.Settles(slices.Contains(r.Kinds, ruleClarify), r.Answerable, r.Settling, r.Needs); fault != "" {
			errs = append(errs, recordErrorf(r, "record %q: custom.%s", id, fault))
		}
	}
	return records, errs
}

// fileRecords returns the rules that a file of records describes: each can deny, and one
// with a question can ask or note. In such a layer no module has records of its own.
func fileRecords(file Module, list []Rule) (map[string]Rule, *Error) {
	if len(list) > 0 {
		return nil, recordErrorf(list[0], "record %q stands in a module; the layer's records are in %s", list[0].ID, file.Name)
	}
	byCode, _, err := profiles.ReadRecords(file.Source)
	if err != nil {
		return nil, file.Errorf(0, "%v", err)
	}
	codes := slices.Sorted(maps.Keys(byCode))
	pointers := make([]string, len(codes))
	for i, code := range codes {
		pointers[i] = canon.Pointer("/records", code)
	}
	at := canon.Locate(file.Source, pointers)
	rules := map[string]Rule{}
	for i, code := range codes {
		from := byCode[code]
		r := rules[from.ID]
		if r.ID = from.ID; !validID(r.ID) {
			return nil, file.Errorf(0, "%s: id must match [A-Z][A-Z0-9_]{1,31}", pointers[i])
		}
		if from.Title != "" {
			r = Rule{
				ID: r.ID, Title: from.Title, Description: from.Description, Fix: from.Fix, Since: from.Since, Priority: kernel.DefaultPriority,
				Kinds: r.Kinds, Layer: Builtin, Module: file.Name, Line: 1 + bytes.Count(file.Source[:at[i].Start], []byte{'\n'}),
				Answerable: from.Answerable, Settling: from.Settling, Needs: from.Needs,
				options: slices.SortedFunc(slices.Values(from.Options), canon.Compare),
			}
			if from.Priority != nil {
				r.Priority = *from.Priority
			}
		}
		if r.Kinds == nil {
			r.Kinds = []string{ruleDeny}
		}
		if from.Question != "" {
			r.Kinds = []string{ruleClarify, ruleDeny, ruleNote}
		}
		rules[r.ID] = r
	}
	return rules, nil
}

// moduleRecords reads the METADATA of a module.
func moduleRecords(name string, mod *ast.Module) (records []Rule, errs []*Error) {
	for _, a := range mod.Annotations {
		id, ok := a.Custom["id"]
		if !ok { // an ordinary comment
			continue
		}
		r, err := readRecord(name, id, a)
		if err != nil {
			errs = append(errs, err)
		}
		if validID(r.ID) {
			records = append(records, r)
		}
	}
	return records, errs
}

// readRecord reads one METADATA block, which has a custom.id.
func readRecord(module string, id any, a *ast.Annotations) (Rule, *Error) {
	r := Rule{Title: a.Title, Description: a.Description, Priority: kernel.DefaultPriority, Module: module, Line: LineOf(a.Location)}
	r.ID, _ = id.(string)
	if !validID(r.ID) {
		return r, recordErrorf(r, `custom.id must be a string that matches [A-Z][A-Z0-9_]{1,31}`)
	}
	if strings.TrimSpace(r.Title) == "" || strings.TrimSpace(r.Description) == "" {
		return r, recordErrorf(r, "record %q needs a title and a description", r.ID)
	}
	for _, m := range []struct {
		name string
		to   *string
	}{{"fix", &r.Fix}, {"since", &r.Since}, {"needs", &r.Needs}} {
		if v, ok := a.Custom[m.name]; ok {
			if *m.to, ok = v.(string); !ok {
				return r, recordErrorf(r, "record %q: custom.%s must be a string", r.ID, m.name)
			}
		}
	}
	if p, ok := a.Custom["priority"]; ok {
		if r.Priority, ok = wholeNumber(p); !ok || r.Priority < 0 || r.Priority > 100 {
			return r, recordErrorf(r, "record %q: custom.priority must be an integer from 0 to 100", r.ID)
		}
	}
	if v, ok := a.Custom["answerable"]; ok {
		if r.Answerable, ok = v.(bool); !ok {
			return r, recordErrorf(r, "record %q: custom.answerable must be true or false", r.ID)
		}
	}
	if v, ok := a.Custom["settling"]; ok {
		list, _ := v.([]any)
		for _, one := range list {
			option, ok := one.(string)
			if !ok {
				return r, recordErrorf(r, "record %q: custom.settling must be a list of options, each a string in quotes", r.ID)
			}
			r.Settling = append(r.Settling, option)
		}
		if len(r.Settling) == 0 {
			return r, recordErrorf(r, "record %q: custom.settling must be a list of options", r.ID)
		}
	}
	return r, nil
}

// wholeNumber reads an integer in any form in which the METADATA reader of an OPA
// version may represent it.
func wholeNumber(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case float64:
		return int(v), v == float64(int(v))
	case json.Number:
		n, err := strconv.Atoi(v.String())
		return n, err == nil
	}
	return 0, false
}

func recordErrorf(r Rule, format string, args ...any) *Error {
	e := moduleErrorf(r.Module, r.Line, format, args...)
	e.Rule, e.Column = r.ID, min(r.Line, 1) // a METADATA block begins its line
	return e
}
