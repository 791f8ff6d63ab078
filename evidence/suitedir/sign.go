package suitedir

import (
	"bytes"
	"errors"

	"github.com/fiador/fiador/evidence/dsse"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/ledger"
)

// PayloadType is the type of the payload of a run's envelope, which is run.json.
const PayloadType = "application/vnd.fiador.suite-run+json"

// signature is signature.json: an envelope with a version.
type signature struct {
	dsse.Document
	SchemaVersion string `json:"schema_version"`
}

var signaturePlan canon.Plan[signature]

// Sign returns signature.json: an envelope (DSSE) whose payload is run.json, with the signature
// of a key. The seal of run.json fixes all other files.
func Sign(run []byte, key *ledger.Signer) ([]byte, error) { return enveloped(PayloadType, run, key) }

// enveloped returns a payload in signature.json.
func enveloped(payloadType string, payload []byte, key *ledger.Signer) ([]byte, error) {
	e := dsse.Envelope{PayloadType: payloadType}
	if err := e.Sign(payload, key); err != nil {
		return nil, err
	}
	text, _, err := signaturePlan.Artifact(&signature{e.Document(), "signature.v1"})
	return text, err
}

// Signed returns the ids of the keys that have signed run.json as it is; an error if none has.
// Without a seal, a signature of run.json would say nothing of the other files.
func (d *Dir) Signed(sealed bool, keys []ledger.Verifier) ([]string, error) {
	if !sealed {
		return nil, errors.New("run.json has no seal, so that its signature would prove nothing of the cases")
	}
	run, text := d.Content(trial.RunFile), d.Content(trial.SignatureFile)
	if d.err != nil {
		return nil, d.err
	}
	doc, err := canon.Parse(text, 2*MaxDocument)
	if err != nil {
		return nil, err
	}
	e, faults := dsse.Read(doc.Value(), PayloadType, MaxDocument)
	if len(faults) > 0 {
		return nil, errors.New(faults[0].Pointer + " " + faults[0].Msg)
	}
	if !bytes.Equal(e.Payload, run) {
		return nil, errors.New("run.json is not the one that was signed")
	}
	return signers(e, keys)
}
