package suitedir

import (
	"errors"
	"fmt"

	"github.com/fiador/fiador/evidence/dsse"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/grade"
	"github.com/fiador/fiador/ledger"
)

// The files of a comparison in its folder, beside trial.SignatureFile.
const (
	CompareFile = "compare-report.json"
	PageFile    = "report.html"
)

// StatementType is the type of the payload of a comparison's envelope: an in-toto statement.
const StatementType = "application/vnd.in-toto+json"

// The types of the statement that the envelope of a comparison has (in-toto Attestation
// Framework, Statement v1 and Test Result v0.1).
const (
	statementVersion = "https://in-toto.io/Statement/v1"
	testResult       = "https://in-toto.io/attestation/test-result/v0.1"
)

// Subject is a file that a statement is about.
type Subject struct {
	Name   string `json:"name"` // from the folder of the comparison
	Digest digest `json:"digest"`
}

type digest struct {
	SHA256 string `json:"sha256"` // 64 hexadecimal digits
}

// NewSubject returns a file of a name with its hash as a subject.
func NewSubject(name string, sum canon.ContentHash) Subject { return Subject{name, digest{sum.Hex()}} }

// statement says how the test of its subjects ended.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type predicate struct {
	Result        string    `json:"result"` // PASSED or FAILED
	Configuration []Subject `json:"configuration"`
	PassedTests   []string  `json:"passedTests,omitempty"`
	FailedTests   []string  `json:"failedTests,omitempty"`
}

var (
	statementPlan    canon.Plan[statement]
	statementDecoder canon.Decoder[statement]
)

// Attest returns signature.json of a comparison: an envelope whose payload is a statement about
// the subjects. Only a gate that passed is PASSED. The configuration is the document of the cases
// and, if a policy decided, the hash of policy_provenance.
func Attest(c grade.Comparison, cases canon.ContentHash, subjects []Subject, key *ledger.Signer) ([]byte, error) {
	p := predicate{Result: "FAILED", Configuration: []Subject{NewSubject("cases", cases)}}
	if c.PolicyProvenance != nil {
		text, err := canon.Canonical(c.PolicyProvenance)
		if err != nil {
			return nil, err
		}
		p.Configuration = append(p.Configuration, NewSubject("policy", canon.Sum(text)))
	}
	if c.Gate.Status == grade.GatePass {
		p.Result = "PASSED"
	}
	for _, one := range c.Cases {
		switch {
		case one.New == nil:
		case one.New.State == grade.StablePass && one.New.Errors == 0:
			p.PassedTests = append(p.PassedTests, one.CaseID)
		default:
			p.FailedTests = append(p.FailedTests, one.CaseID)
		}
	}
	text, err := statementPlan.Canonical(&statement{statementVersion, subjects, testResult, p})
	if err != nil {
		return nil, err
	}
	return enveloped(StatementType, text, key)
}

// Attested returns the subjects of signature.json of a comparison, and whether the statement says
// PASSED. One of the keys must have signed; without keys no signature is checked.
func Attested(text []byte, keys []ledger.Verifier) (subjects []Subject, passed bool, err error) {
	doc, err := canon.Parse(text, 2*MaxDocument)
	if err != nil {
		return nil, false, err
	}
	e, faults := dsse.Read(doc.Value(), StatementType, MaxDocument)
	if len(faults) > 0 {
		return nil, false, errors.New(faults[0].Pointer + " " + faults[0].Msg)
	}
	if _, err := signers(e, keys); err != nil {
		return nil, false, err
	}
	value, err := canon.Parse(e.Payload, MaxDocument)
	if err != nil {
		return nil, false, err
	}
	s, err := statementDecoder.Decode(value.Value())
	if err != nil {
		return nil, false, err
	}
	if s.Type != statementVersion || s.PredicateType != testResult {
		return nil, false, fmt.Errorf("the statement is no %s about a %s", statementVersion, testResult)
	}
	return s.Subject, s.Predicate.Result == "PASSED", nil
}

// signers returns the ids of those keys that have signed. Without keys there are none; with keys,
// none of which has signed, signers returns an error.
func signers(e dsse.Envelope, keys []ledger.Verifier) (ids []string, err error) {
	for _, key := range keys {
		if _, err := e.Check(key); err == nil {
			ids = append(ids, key.ID())
		}
	}
	if len(keys) > 0 && len(ids) == 0 {
		return nil, errors.New("no valid signature is of one of the given keys")
	}
	return ids, nil
}
