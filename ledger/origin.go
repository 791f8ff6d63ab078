package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxOriginBytes is the maximum size of origin.json, enough for thousands of keys.
const MaxOriginBytes = 1 << 20

// NameOrigin is the name of the file with the keys of a log.
const NameOrigin = "origin.json"

type originWire struct {
	Format string          `json:"format"`
	Origin string          `json:"origin"`
	Keys   []originKeyWire `json:"keys"`
}

type originKeyWire struct {
	Key  string `json:"key"`
	Note string `json:"note,omitempty"`
	Size int64  `json:"size"`
}

// Origin returns the name of the log.
func (k Keys) Origin() string { return k[0].Key.Origin() }

// Now returns the key that signs the next entry.
func (k Keys) Now() Verifier { return k[len(k)-1].Key }

// Marshal returns the keys as origin.json. The log's own records say the same; the file
// makes reading them unnecessary.
func (k Keys) Marshal() ([]byte, error) {
	w := originWire{Format: Format, Origin: k.Origin()}
	for _, k := range k {
		w.Keys = append(w.Keys, originKeyWire{Key: k.Key.String(), Note: string(k.Note), Size: k.Size})
	}
	b, _, err := canon.Artifact(w)
	return b, err
}

// ParseKeys reads origin.json. Notes are not checked. It refuses unknown members, another format, a key of another
// origin, and sizes that do not ascend from 1 on.
func ParseKeys(b []byte) (Keys, error) {
	bad := func(format string, args ...any) (Keys, error) {
		return nil, fmt.Errorf("%s: %s", NameOrigin, fmt.Sprintf(format, args...))
	}
	doc, err := canon.Parse(b, MaxOriginBytes)
	if err != nil {
		return bad("%s", err)
	}
	dec := json.NewDecoder(bytes.NewReader(doc.Bytes()))
	dec.DisallowUnknownFields()
	var w originWire
	if err := dec.Decode(&w); err != nil {
		return bad("it is not an object of format, origin and keys")
	}
	if w.Format != Format {
		return bad("format %q is not known; this program knows %q", canon.Cut(w.Format), Format)
	}
	var keys Keys
	for i, k := range w.Keys {
		v, err := ParseVerifier(k.Key)
		if err != nil || v.Origin() != w.Origin {
			return bad("/keys/%d is not a verifier key of %q", i, canon.Cut(w.Origin))
		}
		if i == 0 && k.Size != 1 || i > 0 && k.Size <= keys[i-1].Size {
			return bad("/keys/%d/size is not where that key can begin", i)
		}
		keys = append(keys, KeyFrom{Size: k.Size, Key: v, Note: []byte(k.Note)})
	}
	if len(keys) == 0 {
		return bad("it has no keys")
	}
	return keys, nil
}
