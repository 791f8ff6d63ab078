package suite

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/trial"
)

// MaxCase is the size of the largest file of a case that is read.
const MaxCase = 4 * MaxBody

// resume reads a directory that an earlier run has left. Cases that count keep their files.
func (s *session) resume() error {
	was, err := s.dir.Read(trial.RunFile, MaxCase)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // killed before the first request
	}
	if err != nil {
		return err
	}
	value, err := canon.ParseLiteral(was, len(was), MaxValues)
	if err != nil {
		return other("run.json cannot be read: " + err.Error())
	}
	old, _ := value.(object)
	for _, m := range []struct {
		name string
		now  any
	}{
		{"cases_sha256", s.doc.CasesSHA256}, {"selected_case_ids", s.doc.SelectedCaseIDs}, {"limits", s.doc.Limits}, {"run_id", s.doc.RunID}, {"version", s.doc.Version},
		{"run_group", s.doc.RunGroup},
	} {
		if !same(old[m.name], m.now) {
			return other("the directory has another " + m.name)
		}
	}
	if agent, _ := old["agent"].(object); agent["transport"] != any(s.doc.Agent.Transport) {
		return other("the agent was asked in another way")
	}
	for _, c := range s.Cases {
		if err := s.take(c.ID); err != nil {
			return err
		}
	}
	return nil
}

// other is the error for a directory of another run.
func other(why string) error {
	return runerr.New(result.CodeProfile, "--resume: "+why, "give the cases, the limits and the agent of that run, or use another --run-id")
}

// object is a decoded object.
type object = map[string]any

// same says whether a decoded value is the one that a Go value is written as.
func same(old, now any) bool {
	a, errA := canon.Literal(old)
	b, errB := canon.Canonical(now)
	return errA == nil && errB == nil && slices.Equal(a, b)
}

// take takes the file of a case from before, if it counts.
func (s *session) take(id string) error {
	text, err := s.dir.Read(id+".json", MaxCase)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	value, err := canon.ParseLiteral(text, len(text), 10*MaxValues)
	if err != nil {
		return nil // no file of this program; it runs again
	}
	doc, _ := value.(object)
	if doc["schema_version"] != any(trial.CaseVersion) || doc["case_id"] != any(id) || doc["version"] != any(string(s.side)) {
		return nil
	}
	failure, _ := doc["runner_failure"].(object)
	class, _ := failure["class"].(string)
	name, _ := failure["error_name"].(string)
	again := class == string(trial.Other) && (name == "interrupted" || name == "internal")
	if class != "" && (again || s.Resume == Errors) {
		return nil
	}
	err = s.adopt(id, value)
	if err == nil {
		err = s.adoptMeta(id, doc)
	}
	if err != nil {
		return nil // an asset is missing: it runs again
	}
	s.kept[id] = trial.Class(class)
	return nil
}

// adopt notes the assets that the file of a case names.
func (s *session) adopt(id string, value any) error {
	switch v := value.(type) {
	case object:
		for _, name := range canon.Names(v) {
			href, _ := v[name].(string)
			if kind, ok := kinds(name); ok && strings.HasPrefix(href, trial.AssetsFolder+"/") {
				if err := s.dir.Adopt(kind, id, href); err != nil {
					return err
				}
			} else if err := s.adopt(id, v[name]); err != nil {
				return err
			}
		}
	case []any:
		for _, one := range v {
			if err := s.adopt(id, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// adoptMeta notes the descriptions of the bodies of all attempts. The file of a case names that
// of the last one alone.
func (s *session) adoptMeta(id string, doc object) error {
	list, _ := doc["attempts"].([]any)
	for i, one := range list {
		attempt, _ := one.(object)
		if _, body := attempt["full_body_saved_to"].(string); body {
			if err := s.dir.Adopt(trial.KindFailureMeta, id, asset.MetaHref(id, string(s.side), i+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

// kinds returns the kind of asset that a member of a case leads to.
func kinds(member string) (trial.Kind, bool) {
	switch member {
	case "full_body_saved_to":
		return trial.KindFullBody, true
	case "full_body_meta_saved_to":
		return trial.KindFailureMeta, true
	case "payload_asset_href":
		return trial.KindFullPayload, true
	case "snippets_asset_href":
		return trial.KindSnippets, true
	case "extensions_href", "stderr_saved_to":
		return trial.KindOther, true
	}
	return "", false
}
