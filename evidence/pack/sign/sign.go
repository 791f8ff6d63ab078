// Package sign signs run packs and checks their signatures and receipts with keys. It owns
// the statement that a key signs, the place of its envelope in meta.json, and the rules SG1
// to SG10.
package sign

import (
	"errors"
	"fmt"
	"maps"

	"github.com/fiador/fiador/evidence/dsse"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// The rules of signatures, and of the statements of a ledger.
const (
	ruleEnvelope     = "SG1"
	ruleOneSignature = "SG2"
	ruleSignedBy     = "SG3"
	ruleSignature    = "SG4"
	ruleStatement    = "SG5"
	ruleSubjects     = "SG6"
	rulePredicate    = "SG7"
	ruleSeals        = "SG8"
	ruleReceipt      = "SG9"
	ruleRecorded     = "SG10"
)

// ErrOtherStatement says that other keys have signed a different statement about the
// pack.
var ErrOtherStatement = errors.New("others have signed it when it had other files, or under another version of the statement")

// Pack returns the meta.json of the pack with a signature of key: a DSSE envelope whose
// payload is [Statement]. A signature of the same key is replaced. The signatures
// of other keys and all other members stay. Other keys must have signed the same
// statement, else the error is ErrOtherStatement. The same pack and key give the same
// bytes.
//
// Pack does not verify the pack.
func Pack(p *pack.Pack, key *ledger.Signer) ([]byte, error) {
	statement, err := Statement(p)
	if err != nil {
		return nil, err
	}
	meta, kept, e, err := signedBefore(p)
	if err != nil {
		return nil, err
	}
	e.PayloadType = PayloadType
	switch err := e.Sign(statement, key); {
	case errors.Is(err, dsse.ErrOtherPayload):
		return nil, ErrOtherStatement
	case err != nil:
		return nil, err
	}
	meta[MetaEnvelope] = plain(e, kept)
	text, _, err := canon.Artifact(meta)
	if err == nil && int64(len(text)) > pack.MaxBytes(pack.MetaFile) {
		return nil, fmt.Errorf("%s would have more than %d bytes", pack.MetaFile, pack.MaxBytes(pack.MetaFile))
	}
	return text, err
}

// signedBefore returns meta.json as a value that can be changed, and its envelope, as it
// is and decoded. All are empty if there is none.
func signedBefore(p *pack.Pack) (meta, kept map[string]any, e dsse.Envelope, err error) {
	meta = map[string]any{}
	entry, ok := p.Entry(pack.MetaFile)
	if !ok {
		return meta, nil, e, nil
	}
	there, err := readMeta(entry)
	if err != nil {
		return nil, nil, e, &pack.ReadError{File: pack.MetaFile, Err: err}
	}
	maps.Copy(meta, there)
	value, signed := there[MetaEnvelope]
	if !signed {
		return meta, nil, e, nil
	}
	var f faults
	if e, ok = readEnvelope(value, &f); !ok {
		return nil, nil, e, &pack.ReadError{File: f[0].Path, Err: errors.New(f[0].Message)}
	}
	kept, _ = value.(map[string]any)
	return meta, kept, e, nil
}

// Authenticity is the result of the checks with keys. With violations, Signed and
// Recorded are both unset. Without a key nothing was checked, and the pack is
// unauthenticated.
type Authenticity struct {
	Signed     bool             // the key has signed the pack with all its files, unchanged
	Recorded   *Recorded        // the place where the ledger's key says that the decision is recorded; or nil
	Violations []pack.Violation // sorted
}

// Recorded is the place of a decision in a ledger.
type Recorded struct {
	Origin     string            // of the ledger
	Index      int64             // of the record, from 0 on
	Promised   bool              // a server has signed the promise of that place, and no checkpoint that covers it came in time
	Checkpoint ledger.Checkpoint // covers the record, if it is not only promised
}

// OK says whether there are no violations.
func (a Authenticity) OK() bool { return len(a.Violations) == 0 }

// Authenticate checks a pack with two keys, each of which may be nil.
//
// With key: meta.json has a valid signature of the key (SG1 to SG4), of a statement
// (SG5). Its subjects are exactly the files of the pack, except meta.json, with their
// hashes (SG6). Its predicate is the predicate of the pack's run (SG7). Statements of
// other keys are not checked, except the form of the envelope.
//
// With ledgerKey: the key has signed the seals of all lines of ledger.jsonl (SG8). Entries of
// a server have no seals. The receipt in meta.json proves, or is a server's promise (SG9),
// that the decision among these lines is in the key's log, and the decision belongs to the
// pack's run (SG10). A seal alone proves that the log had a tree; it does not prove that the
// line is in the log. So about a line before the decision at most the seal is known.
//
// If a given key finds nothing to check, this is a violation. Authenticate does not
// verify the pack. Trust the pack only if it is also valid at the strict level.
func Authenticate(p *pack.Pack, key, ledgerKey *ledger.Verifier) Authenticity {
	if key == nil && ledgerKey == nil {
		return Authenticity{}
	}
	var f faults
	meta := map[string]any{}
	if e, ok := p.Entry(pack.MetaFile); ok {
		var err error
		if meta, err = readMeta(e); err != nil {
			f.add(ruleEnvelope, pack.MetaFile, "%s", err)
			return Authenticity{Violations: f}
		}
	}
	if key != nil {
		checkSigned(p, meta, *key, &f)
	}
	var recorded *Recorded
	if ledgerKey != nil {
		recorded = checkRecorded(p, meta, *ledgerKey, &f)
	}
	if len(f) > 0 {
		return Authenticity{Violations: pack.SortViolations(f)}
	}
	return Authenticity{Signed: key != nil, Recorded: recorded}
}

// checkSigned checks SG1 to SG7.
func checkSigned(p *pack.Pack, meta map[string]any, key ledger.Verifier, f *faults) {
	value, ok := meta[MetaEnvelope]
	if !ok {
		f.add(ruleSignedBy, pack.MetaFile, "not signed")
		return
	}
	e, ok := readEnvelope(value, f)
	if !ok {
		return
	}
	switch i, err := e.Check(key); {
	case errors.Is(err, dsse.ErrNotSigned):
		f.add(ruleSignedBy, pack.At(pack.MetaFile, MetaEnvelope, "signatures"), "none is of the key %s", pack.Quoted(key.ID()))
		return
	case err != nil:
		f.add(ruleSignature, pack.At(pack.MetaFile, MetaEnvelope, "signatures", fmt.Sprint(i), "sig"), "not a signature of the payload by %s", pack.Quoted(key.ID()))
		return
	}
	checkStatement(p, e.Payload, f)
}
