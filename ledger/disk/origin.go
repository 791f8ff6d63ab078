package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// origin is origin.json: the keys that sign, each from a size of the tree on. The log's
// own records say the same; the file makes reading them unnecessary.
type origin struct {
	name string
	keys ledger.Keys
}

// maxOriginBytes is the maximum size of origin.json, enough for thousands of keys.
const maxOriginBytes = 1 << 20

type originWire struct {
	Format string          `json:"format"`
	Origin string          `json:"origin"`
	Keys   []originKeyWire `json:"keys"`
}

type originKeyWire struct {
	Key  string `json:"key"`
	Size int64  `json:"size"`
}

// now returns the key that signs the next entry.
func (o origin) now() ledger.Verifier { return o.keys[len(o.keys)-1].Key }

func (o origin) marshal() ([]byte, error) {
	w := originWire{Format: ledger.Format, Origin: o.name}
	for _, k := range o.keys {
		w.Keys = append(w.Keys, originKeyWire{Key: k.Key.String(), Size: k.Size})
	}
	b, _, err := canon.Artifact(w)
	return b, err
}

// parseOrigin reads origin.json. It refuses unknown members, another format, a key of another
// origin, and sizes that do not ascend from 1 on.
func parseOrigin(b []byte) (origin, error) {
	bad := func(format string, args ...any) (origin, error) {
		return origin{}, fmt.Errorf("%s: %s", nameOrigin, fmt.Sprintf(format, args...))
	}
	doc, err := canon.Parse(b, maxOriginBytes)
	if err != nil {
		return bad("%s", err)
	}
	dec := json.NewDecoder(bytes.NewReader(doc.Bytes()))
	dec.DisallowUnknownFields()
	var w originWire
	if err := dec.Decode(&w); err != nil {
		return bad("it is not an object of format, origin and keys")
	}
	if w.Format != ledger.Format {
		return bad("format %q is not known; this program knows %q", canon.Cut(w.Format), ledger.Format)
	}
	o := origin{name: w.Origin}
	for i, k := range w.Keys {
		v, err := ledger.ParseVerifier(k.Key)
		if err != nil || v.Origin() != w.Origin {
			return bad("/keys/%d is not a verifier key of %q", i, canon.Cut(w.Origin))
		}
		if i == 0 && k.Size != 1 || i > 0 && k.Size <= o.keys[i-1].Size {
			return bad("/keys/%d/size is not where that key can begin", i)
		}
		o.keys = append(o.keys, ledger.KeyFrom{Size: k.Size, Key: v})
	}
	if len(o.keys) == 0 {
		return bad("it has no keys")
	}
	return o, nil
}

// The errors of a place without a ledger.
var (
	ErrNoLedger  = errors.New("there is no ledger in this folder")
	ErrNotFolder = errors.New("it is not a folder")
)

// readOrigin reads the origin of a ledger. A missing file gives ErrNoLedger.
func readOrigin(fsys files) (origin, error) {
	b, err := readFile(fsys, nameOrigin, maxOriginBytes)
	if isNotExist(err) {
		return origin{}, ErrNoLedger
	}
	if err != nil {
		return origin{}, err
	}
	return parseOrigin(b)
}
