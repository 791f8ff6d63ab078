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

// signatureVersion is the schema_version of signature.json.
const signatureVersion = "signature.v1"

// signature is signature.json: an envelope with a version.
type signature struct {
	dsse.Document
	SchemaVersion string `json:"schema_version"`
}

var signaturePlan canon.Plan[signature]

// Sign returns signature.json: an envelope (DSSE) whose payload is run.json, with the signature
// of a key. The seal of run.json fixes all other files.
func Sign(run []byte, key *ledger.Signer) ([]byte, error) {
	e := dsse.Envelope{PayloadType: PayloadType}
	if err := e.Sign(run, key); err != nil {
		return nil, err
	}
	text, _, err := signaturePlan.Artifact(&signature{e.Document(), signatureVersion})
	return text, err
}

// Signed returns nil if one of the keys has signed run.json as it is. Without a seal, a signature
// of run.json would say nothing of the other files.
func Signed(files Files, sealed bool, keys []ledger.Verifier) error {
	if !sealed {
		return errors.New("run.json has no seal, so that its signature would prove nothing of the cases")
	}
	run, err := files.Read(trial.RunFile, MaxDocument)
	if err != nil {
		return err
	}
	text, err := files.Read(trial.SignatureFile, 2*MaxDocument)
	if err != nil {
		return err
	}
	doc, err := canon.Parse(text, 2*MaxDocument)
	if err != nil {
		return err
	}
	e, faults := dsse.Read(doc.Value(), PayloadType, MaxDocument)
	if len(faults) > 0 {
		return errors.New(faults[0].Pointer + " " + faults[0].Msg)
	}
	if !bytes.Equal(e.Payload, run) {
		return errors.New("run.json is not the one that was signed")
	}
	for _, key := range keys {
		if _, err := e.Check(key); err == nil {
			return nil
		}
	}
	return errors.New("no valid signature is of one of the given keys")
}
