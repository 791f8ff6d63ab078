package trial

import (
	"maps"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
)

// Asset is a text that the file of a case refers to.
type Asset struct {
	Href    string // assets/HASH.txt, or .bin if it is not UTF-8; a description has a name of its own
	Kind    Kind
	SHA256  string // of the content
	Content []byte
}

// Kind is what an asset is, as the manifest names it.
type Kind string

// The kinds (§7.2 of the artifact contract).
const (
	KindFullBody    Kind = "full_body"
	KindFailureMeta Kind = "failure_meta"
	KindFullPayload Kind = "full_payload"
	KindSnippets    Kind = "retrieval_snippets"
	KindOther       Kind = "other"
)

// NewAsset returns an asset under the name of its content.
func NewAsset(kind Kind, content []byte) Asset {
	end := ".txt"
	if !utf8.Valid(content) {
		end = ".bin"
	}
	sha := canon.Sum(content).Hex()
	return Asset{AssetsFolder + "/" + sha + end, kind, sha, content}
}

// ID returns the asset_id of an asset of a case.
func (a Asset) ID(caseID string) string {
	of := a.SHA256
	if !strings.Contains(a.Href, of) {
		of = canon.Sum([]byte(a.Href + "\n" + of)).Hex() // two files with names of their own can have one content
	}
	return caseID + "/" + string(a.Kind) + "/" + of[:16]
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
