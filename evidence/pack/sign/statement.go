package sign

import (
	"errors"
	"fmt"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// The types of the signed documents, and the version of the predicate.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://github.com/fiador/fiador/pack/v1"
	SchemaVersion = "1.0.0"
)

// predicate describes the run in a statement; all values are strings.
type predicate map[string]string

// predicateOf returns the predicate of a statement about the pack's run.
func predicateOf(p *pack.Pack) (predicate, error) {
	text := p.File(pack.RunFile)
	if text == nil {
		return nil, &pack.ReadError{File: pack.RunFile, Err: errors.New("missing")}
	}
	doc, err := pack.ParseExact(text)
	if err != nil {
		return nil, &pack.ReadError{File: pack.RunFile, Err: err}
	}
	run, _ := doc.Value().(map[string]any)
	id, hasID := run["run_id"].(string)
	version, hasVersion := run["kernel_version"].(string)
	if !hasID || !hasVersion {
		return nil, &pack.ReadError{File: pack.RunFile, Err: errors.New("not a RunResult")}
	}
	digest, err := result.Digest(run)
	if err != nil {
		return nil, &pack.ReadError{File: pack.RunFile, Err: err}
	}
	return predicate{
		"canonical_sha256": string(digest), "kernel_version": version, "pack_schema": SchemaVersion, "run_id": id,
	}, nil
}

// statement is an in-toto statement v1.
type statement struct {
	Type          string    `json:"_type"`
	Subjects      []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

// subject is a file that a statement covers.
type subject struct {
	Name   string `json:"name"`
	Digest digest `json:"digest"`
}

type digest struct {
	SHA256 string `json:"sha256"`
}

// Statement returns the document that a signature of the pack covers: an in-toto
// statement v1 as canonical JSON. Its subjects are all files except meta.json, by name,
// with their SHA-256; its predicate names the run. An entry that is no file of a pack
// gives an error that wraps ErrNotWhole.
func Statement(p *pack.Pack) ([]byte, error) {
	if err := p.Whole(); err != nil {
		return nil, err
	}
	about, err := predicateOf(p)
	if err != nil {
		return nil, err
	}
	st := statement{Type: StatementType, PredicateType: PredicateType, Predicate: about}
	for _, e := range p.Entries {
		if e.Name != pack.MetaFile {
			st.Subjects = append(st.Subjects, subject{e.Name, digest{canon.Sum(e.Text).Hex()}})
		}
	}
	return canon.Canonical(st)
}

// checkStatement compares a signed statement with the pack: SG5 is its form, SG6 its
// subjects, SG7 its predicate. Members that this version does not know are ignored.
func checkStatement(p *pack.Pack, payload []byte, f *faults) {
	where := pack.At(pack.MetaFile, MetaEnvelope, "payload")
	doc, err := canon.ParseCanonical(payload, maxPayloadBytes)
	if err != nil {
		f.add(ruleStatement, where, "not canonical JSON: %s", err)
		return
	}
	obj, _ := doc.Value().(map[string]any)
	for _, want := range []struct{ name, value string }{{"_type", StatementType}, {"predicateType", PredicateType}} {
		if obj[want.name] != want.value {
			f.add(ruleStatement, where, "%s is not %q", want.name, want.value)
			return
		}
	}
	checkSubjects(p, obj["subject"], f)
	checkPredicate(p, obj["predicate"], f)
}

// checkSubjects compares the subjects of a statement with the files of the pack.
func checkSubjects(p *pack.Pack, value any, f *faults) {
	signed, err := readSubjects(value)
	if err != nil {
		f.add(ruleStatement, pack.At(pack.MetaFile, MetaEnvelope, "payload"), "%s", err)
		return
	}
	for _, e := range p.Entries {
		want, covered := signed[e.Name]
		delete(signed, e.Name)
		why := e.Unfit()
		switch {
		case e.Name == pack.MetaFile: // it was read, because the statement is in it
		case why != "":
			f.add(ruleSubjects, e.Name, "%s, and no signature covers it", why)
		case !covered:
			f.add(ruleSubjects, e.Name, "not there when the pack was signed")
		case canon.Sum(e.Text).Hex() != want:
			f.add(ruleSubjects, e.Name, "not the file that was signed")
		}
	}
	for name := range signed {
		f.add(ruleSubjects, name, "signed, and not there")
	}
	if p.More {
		f.add(ruleSubjects, "", "%s", pack.MoreEntries())
	}
}

// readSubjects reads subjects: the SHA-256 of each name. A name that no signature
// covers, or a name that occurs twice, is an error.
func readSubjects(value any) (map[string]string, error) {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		return nil, errors.New("subject is not a list")
	}
	signed := make(map[string]string, len(list))
	for i, v := range list {
		obj, _ := v.(map[string]any)
		name, _ := obj["name"].(string)
		digest, _ := obj["digest"].(map[string]any)
		sum, _ := digest["sha256"].(string)
		_, again := signed[name]
		switch {
		case !pack.IsName(name) || name == pack.MetaFile:
			return nil, fmt.Errorf("subject %d is not a file that a signature covers", i)
		case again:
			return nil, fmt.Errorf("subject %d has the name of another", i)
		case canon.ContentHash("sha256:"+sum).Hex() != sum || sum == "":
			return nil, fmt.Errorf("subject %d has no SHA-256 in lower-case hex", i)
		}
		signed[name] = sum
	}
	return signed, nil
}

// checkPredicate compares the predicate of a statement with the run of the pack.
func checkPredicate(p *pack.Pack, value any, f *faults) {
	about, err := predicateOf(p)
	if err != nil {
		f.add(rulePredicate, pack.RunFile, "%s", errors.Unwrap(err))
		return
	}
	obj, _ := value.(map[string]any)
	for _, name := range canon.Names(about) {
		if obj[name] != about[name] {
			f.add(rulePredicate, pack.At(pack.MetaFile, MetaEnvelope, "payload"), "%s of the predicate is not %s", name, pack.Quoted(about[name]))
		}
	}
}
