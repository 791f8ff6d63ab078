package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// Asset is a text that the file of a case refers to.
type Asset struct {
	Href    string // assets/HASH.txt, or .bin if it is not UTF-8
	Kind    string
	Content []byte
}

// The kinds of assets that an answer has.
const (
	KindFullPayload = "full_payload"
	KindSnippets    = "retrieval_snippets"
	KindOther       = "other"
)

// NewAsset returns an asset under the name of its content.
func NewAsset(kind string, content []byte) Asset {
	end := ".txt"
	if !utf8.Valid(content) {
		end = ".bin"
	}
	return Asset{AssetsFolder + "/" + hash(content) + end, kind, content}
}

// ID returns the asset_id of an asset of a case.
func (a Asset) ID(caseID string) string { return caseID + "/" + a.Kind + "/" + hash(a.Content)[:16] }

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// OKCase is the file of a case with an answer. Bytes sets the first and the fourth member.
type OKCase struct {
	SchemaVersion string    `json:"schema_version"`
	CaseID        string    `json:"case_id"`
	Version       Side      `json:"version"`
	Status        Status    `json:"status"`
	Attempts      []Attempt `json:"attempts,omitempty"`
	Answered
}

var okPlan canon.Plan[OKCase]

// Bytes returns the file of the case.
func (c OKCase) Bytes() ([]byte, error) {
	c.SchemaVersion, c.Status = CaseVersion, OK
	text, err := okPlan.Canonical(&c)
	if err != nil {
		return nil, err
	}
	v, err := canon.ParseLiteral(text, len(text), math.MaxInt)
	if err != nil {
		return nil, err
	}
	members, _ := v.(map[string]any)
	maps.Copy(members, c.Body)
	if text, err = canon.Literal(members); err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}
