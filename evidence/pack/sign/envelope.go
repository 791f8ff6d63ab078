package sign

import (
	"errors"
	"fmt"
	"maps"

	"github.com/fiador/fiador/evidence/dsse"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// maxPayloadBytes is the limit of the payload of a pack's envelope.
const maxPayloadBytes = 64 << 10

// PayloadType is the type of the payload of a pack's envelope.
const PayloadType = "application/vnd.in-toto+json"

// The members of meta.json that this program defines.
const (
	MetaEnvelope = "dsse"
	MetaReceipt  = "receipt"
)

// faults collects violations.
type faults []pack.Violation

func (f *faults) add(rule, path, format string, args ...any) {
	*f = append(*f, pack.Violation{Rule: rule, Path: path, Message: fmt.Sprintf(format, args...)})
}

// plain returns an envelope as a JSON value. Members of kept that this program's envelope
// does not have stay unchanged.
func plain(e dsse.Envelope, kept map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, kept)
	doc := e.Document()
	out["payloadType"], out["payload"], out["signatures"] = doc.PayloadType, doc.Payload, doc.Signatures
	return out
}

// readMeta reads meta.json: an object of strict JSON, in any layout.
func readMeta(e pack.Entry) (map[string]any, error) {
	if why := e.Unfit(); why != "" {
		return nil, errors.New(why)
	}
	if canon.Crowded(e.Text, pack.MaxValues) {
		return nil, pack.ErrCrowded
	}
	doc, err := canon.Parse(e.Text, len(e.Text))
	if err != nil {
		return nil, err
	}
	obj, ok := doc.Value().(map[string]any)
	if !ok {
		return nil, errors.New("not an object")
	}
	return obj, nil
}

// CheckEnvelope checks the envelope of a pack without a key: its form (SG1, SG2), and that
// its payload is a statement about the pack (SG5 to SG7). value is the envelope's member
// of meta.json.
func CheckEnvelope(p *pack.Pack, value any) []pack.Violation {
	var f faults
	if e, ok := readEnvelope(value, &f); ok {
		checkStatement(p, e.Payload, &f)
	}
	return f
}

// Signers returns the ids of the keys of an envelope's signatures, or nil if value is no
// envelope.
func Signers(value any) []string {
	e, _ := dsse.Read(value, PayloadType, maxPayloadBytes)
	return e.Signers()
}

// readEnvelope reads the envelope in meta.json. A fault of its form breaks SG1, and a
// contradiction between its signatures breaks SG2. After any fault there is no envelope.
func readEnvelope(value any, f *faults) (dsse.Envelope, bool) {
	e, wrong := dsse.Read(value, PayloadType, maxPayloadBytes)
	for _, w := range wrong {
		rule := ruleEnvelope
		if w.Twice {
			rule = ruleOneSignature
		}
		f.add(rule, pack.At(pack.MetaFile, MetaEnvelope)+w.Pointer, "%s", w.Msg)
	}
	return e, len(wrong) == 0
}
