package sign

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// The limits of an envelope. A value over its limit is not decoded.
const (
	MaxSignatures     = 16
	maxPayloadBytes   = 64 << 10
	maxSignatureBytes = 1 << 10
	maxKeyIDBytes     = 256
)

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

// must adds a violation unless a condition holds.
func (f *faults) must(holds bool, rule, path, format string, args ...any) {
	if !holds {
		f.add(rule, path, format, args...)
	}
}

// envelope is a DSSE envelope in the form of a pack.
type envelope struct {
	payload    []byte
	signatures []signature
}

// signature is one signature of an envelope.
type signature struct {
	keyID string
	sig   []byte
}

// encoding returns the signed bytes: the pre-authentication encoding of DSSE v1.
func encoding(payloadType string, payload []byte) []byte {
	b := []byte("DSSEv1 ")
	b = append(strconv.AppendInt(b, int64(len(payloadType)), 10), ' ')
	b = append(append(b, payloadType...), ' ')
	b = append(strconv.AppendInt(b, int64(len(payload)), 10), ' ')
	return append(b, payload...)
}

// of returns the signature of a key.
func (e envelope) of(keyID string) (signature, int) {
	i := slices.IndexFunc(e.signatures, func(s signature) bool { return s.keyID == keyID })
	if i < 0 {
		return signature{}, i
	}
	return e.signatures[i], i
}

type signatureDocument struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// plain returns the envelope as a JSON value. Members of kept that this program's
// envelope does not have stay unchanged.
func (e envelope) plain(kept map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, kept)
	signatures := make([]signatureDocument, len(e.signatures))
	for i, s := range e.signatures {
		signatures[i] = signatureDocument{s.keyID, base64.StdEncoding.EncodeToString(s.sig)}
	}
	out["payloadType"], out["signatures"] = PayloadType, signatures
	out["payload"] = base64.StdEncoding.EncodeToString(e.payload)
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
		checkStatement(p, e.payload, &f)
	}
	return f
}

// Signers returns the ids of the keys of an envelope's signatures, or nil if value is no
// envelope.
func Signers(value any) []string {
	var ids []string
	if e, ok := readEnvelope(value, new(faults)); ok {
		for _, s := range e.signatures {
			ids = append(ids, s.keyID)
		}
	}
	return ids
}

// readEnvelope reads the envelope in meta.json. A fault of its form breaks SG1, and a
// contradiction between its signatures breaks SG2. After any fault there is no envelope.
func readEnvelope(value any, f *faults) (envelope, bool) {
	before := len(*f)
	var e envelope
	obj, ok := value.(map[string]any)
	if !ok {
		f.add(ruleEnvelope, pack.At(pack.MetaFile, MetaEnvelope), "not an object")
		return e, false
	}
	f.must(obj["payloadType"] == PayloadType, ruleEnvelope, pack.At(pack.MetaFile, MetaEnvelope, "payloadType"), "not %q", PayloadType)
	var fault string
	e.payload, fault = bytesOf(obj["payload"], maxPayloadBytes)
	f.must(fault == "", ruleEnvelope, pack.At(pack.MetaFile, MetaEnvelope, "payload"), "%s", fault)
	list, ok := obj["signatures"].([]any)
	switch {
	case !ok || len(list) == 0:
		f.add(ruleEnvelope, pack.At(pack.MetaFile, MetaEnvelope, "signatures"), "not a list of signatures")
	case len(list) > MaxSignatures:
		f.add(ruleEnvelope, pack.At(pack.MetaFile, MetaEnvelope, "signatures"), "more than %d signatures", MaxSignatures)
		list = nil
	}
	for i, v := range list {
		e.signatures = append(e.signatures, readSignature(v, strconv.Itoa(i), f))
	}
	for i, s := range e.signatures {
		if _, first := e.of(s.keyID); first < i && s.keyID != "" {
			f.add(ruleOneSignature, pack.At(pack.MetaFile, MetaEnvelope, "signatures", strconv.Itoa(i), "keyid"), "%s a second time", pack.Quoted(s.keyID))
		}
	}
	return e, len(*f) == before
}

func readSignature(value any, index string, f *faults) (s signature) {
	obj, ok := value.(map[string]any)
	if !ok {
		f.add(ruleEnvelope, pack.At(pack.MetaFile, MetaEnvelope, "signatures", index), "not an object")
		return s
	}
	here := pack.At(pack.MetaFile, MetaEnvelope, "signatures", index)
	s.keyID, _ = obj["keyid"].(string)
	f.must(s.keyID != "" && len(s.keyID) <= maxKeyIDBytes, ruleEnvelope, here+"/keyid", "not a text of 1 to %d bytes", maxKeyIDBytes)
	var fault string
	s.sig, fault = bytesOf(obj["sig"], maxSignatureBytes)
	f.must(fault == "", ruleEnvelope, here+"/sig", "%s", fault)
	return s
}

// bytesOf decodes standard base64. It accepts only one spelling of the bytes.
func bytesOf(value any, most int) (b []byte, fault string) {
	text, ok := value.(string)
	switch {
	case !ok || text == "":
		return nil, "not a text in base64"
	case len(text) > base64.StdEncoding.EncodedLen(most):
		return nil, fmt.Sprintf("more than %d bytes", most)
	case strings.ContainsAny(text, "\r\n"): // the decoder would ignore them
		return nil, "not standard base64"
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, "not standard base64"
	}
	return b, ""
}
