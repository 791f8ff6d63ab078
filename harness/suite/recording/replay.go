// Package recording answers as a recorded agent did: a version directory of a suite is an agent
// (replay:DIR), a server, and the demo of fiador suite.
package recording

import (
	"context"
	"errors"
	"io/fs"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/harness/suite"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
)

// object is a decoded object.
type object = map[string]any

// Replay is an agent that answers as a recorded one did: from a version directory, without
// waiting.
type Replay struct {
	Files *asset.Files
	RunID string // of the recording
}

// OpenReplay opens a version directory as an agent.
func OpenReplay(dir string) (*Replay, error) {
	files, err := asset.Open(dir)
	if err != nil {
		return nil, err
	}
	r := &Replay{Files: files}
	doc, err := r.document(trial.RunFile)
	if err == nil && (doc["schema_version"] != any(trial.RunVersion)) {
		err = errors.New("run.json is none of " + trial.RunVersion)
	}
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	r.RunID, _ = doc["run_id"].(string)
	return r, nil
}

// Close closes the directory.
func (r *Replay) Close() error { return r.Files.Close() }

// Place names the recording.
func (r *Replay) Place() (base, url string) { return "replay:" + r.RunID, "replay:" + r.RunID }

// Kind returns replay.
func (r *Replay) Kind() trial.Agent { return trial.Agent{Transport: "replay"} }

// document reads a document of the directory.
func (r *Replay) document(name string) (object, error) {
	text, err := r.Files.Read(name, suite.MaxCase)
	if err != nil {
		return nil, err
	}
	value, err := canon.ParseLiteral(text, len(text), 10*suite.MaxValues)
	if err != nil {
		return nil, err
	}
	doc, ok := value.(object)
	if !ok {
		return nil, errors.New(name + " is no object")
	}
	return doc, nil
}

// Ask returns what the recording has for a case.
func (r *Replay) Ask(_ context.Context, q suite.Request) suite.Observed {
	doc, err := r.document(q.CaseID + trial.CaseSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist) || trial.Reserved(q.CaseID):
		return nothing(suite.NotRecorded)
	case err != nil || doc["schema_version"] != any(trial.CaseVersion):
		return nothing(suite.Unreadable)
	}
	if failure, ok := doc["runner_failure"].(object); ok {
		return r.failure(failure)
	}
	var text []byte
	answer, err := trial.Restore(doc, func(href string) ([]byte, error) { return r.Files.Read(href, suite.MaxCase) })
	if err == nil {
		text, err = canon.Literal(answer)
	}
	if err != nil {
		return nothing(suite.Unreadable)
	}
	output, _ := doc["final_output"].(object)
	return suite.Observed{Status: 200, Body: text, Whole: true, Redacted: redactions(output)}
}

// nothing is what an attempt shows if the recording has nothing for the case.
func nothing(why string) suite.Observed {
	return suite.Observed{Recorded: &trial.Failure{Class: trial.Other, ErrorName: why}}
}

// failure returns the failure that the recording has, with its body.
func (r *Replay) failure(doc object) suite.Observed {
	text := func(name string) string { s, _ := doc[name].(string); return s }
	f := trial.Failure{Class: trial.Class(text("class")), ErrorName: canon.Cut(canon.Clean(text("error_name"))), ErrorMessage: text("error_message")}
	status, there := canon.Whole(doc["status"])
	switch f.Class {
	case trial.HTTPError:
		if !there || status < 100 || status > 999 {
			return nothing(suite.Unreadable)
		}
		f.Status = int(status)
	case trial.Timeout, trial.InvalidJSON, trial.SchemaMismatch, trial.NetworkError, trial.Other:
	default:
		return nothing(suite.Unreadable)
	}
	o := suite.Observed{Recorded: &f, Redacted: redactions(doc)}
	if href := text("full_body_saved_to"); href != "" {
		body, err := r.Files.Read(href, suite.MaxBody)
		if err != nil {
			return nothing(suite.Unreadable)
		}
		o.Body, o.Whole = body, true
	}
	meta, err := r.document(text("full_body_meta_saved_to"))
	if err != nil {
		return o
	}
	o.Whole = meta["truncated"] != any(true)
	o.Encoding, _ = meta["encoding"].(string)
	if n, ok := canon.Whole(meta["bytes_total"]); ok {
		o.Total = &n
	}
	headers, _ := meta["headers"].(object)
	for _, name := range canon.Names(headers) {
		if o.Header == nil {
			o.Header = map[string]string{}
		}
		o.Header[name], _ = headers[name].(string)
	}
	return o
}

// redactions returns the rules that have redacted a part of a case, as the part says.
func redactions(doc object) (rules []string) {
	list, _ := doc["redactions_applied"].([]any)
	for _, one := range list {
		if rule, ok := one.(string); ok {
			rules = append(rules, canon.Cut(canon.Clean(rule)))
		}
	}
	return rules
}
