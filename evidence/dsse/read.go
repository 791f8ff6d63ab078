package dsse

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxSignatures is the maximum number of signatures of an envelope.
const MaxSignatures = 16

// The limits of a signature. A value over its limit is not decoded.
const (
	maxSignatureBytes = 1 << 10
	maxKeyIDBytes     = 256
)

// Fault says what is wrong with a value that should be an envelope.
type Fault struct {
	Pointer string // JSON Pointer of the place, from the envelope on
	Msg     string
	Twice   bool // the form is good, but a key has a second signature
}

// Read reads an envelope with a payload of one type. value is the decoded JSON form, as
// of [canon.Document.Value]; Read ignores members that [Document] does not have. Read
// does not decode a payload of more than maxPayload bytes. After any fault there is no
// envelope. Read checks no signature.
func Read(value any, payloadType string, maxPayload int) (Envelope, []Fault) {
	obj, ok := value.(map[string]any)
	if !ok {
		return Envelope{}, []Fault{{Msg: "not an object"}}
	}
	var f faults
	f.must(obj["payloadType"] == payloadType, "/payloadType", "not %q", payloadType)
	e := Envelope{PayloadType: payloadType, Payload: f.bytes(obj["payload"], maxPayload, "/payload")}
	list, ok := obj["signatures"].([]any)
	switch {
	case !ok || len(list) == 0:
		f.must(false, "/signatures", "not a list of signatures")
	case len(list) > MaxSignatures:
		f.must(false, "/signatures", "more than %d signatures", MaxSignatures)
		list = nil
	}
	for i, v := range list {
		e.Signatures = append(e.Signatures, f.signature(v, "/signatures/"+strconv.Itoa(i)))
	}
	for i, s := range e.Signatures {
		if e.of(s.KeyID) < i && s.KeyID != "" {
			f = append(f, Fault{Pointer: "/signatures/" + strconv.Itoa(i) + "/keyid", Msg: canon.Quote(s.KeyID) + " a second time", Twice: true})
		}
	}
	if len(f) > 0 {
		return Envelope{}, f
	}
	return e, nil
}

// faults collects faults.
type faults []Fault

// must adds a fault unless a condition holds.
func (f *faults) must(holds bool, pointer, format string, args ...any) {
	if !holds {
		*f = append(*f, Fault{Pointer: pointer, Msg: fmt.Sprintf(format, args...)})
	}
}

func (f *faults) signature(value any, here string) (s Signature) {
	obj, ok := value.(map[string]any)
	if !ok {
		f.must(false, here, "not an object")
		return s
	}
	s.KeyID, _ = obj["keyid"].(string)
	f.must(s.KeyID != "" && len(s.KeyID) <= maxKeyIDBytes, here+"/keyid", "not a text of 1 to %d bytes", maxKeyIDBytes)
	s.Sig = f.bytes(obj["sig"], maxSignatureBytes, here+"/sig")
	return s
}

// bytes decodes standard base64. It accepts only one spelling of the bytes.
func (f *faults) bytes(value any, most int, here string) []byte {
	text, ok := value.(string)
	switch {
	case !ok || text == "":
		f.must(false, here, "not a text in base64")
		return nil
	case len(text) > base64.StdEncoding.EncodedLen(most):
		f.must(false, here, "more than %d bytes", most)
		return nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	// The decoder ignores line feeds.
	f.must(err == nil && !strings.ContainsAny(text, "\r\n"), here, "not standard base64")
	return b
}
