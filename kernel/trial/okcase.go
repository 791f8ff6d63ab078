package trial

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
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

// keep adds an asset, unless the answer has it already.
func (n *normalizer) keep(kind string, content []byte) Asset {
	a := NewAsset(kind, content)
	if id := [2]string{kind, a.Href}; !n.kept[id] {
		n.kept[id] = true
		n.named[a.Href], n.named[a.ID(n.want.CaseID)] = true, true
		n.assets = append(n.assets, a)
	}
	return a
}

// OKCase is the file of a case with an answer.
type OKCase struct {
	CaseID   string
	Version  Side
	Attempts []Attempt
	Answered
}

// envelope is what the file of a case has besides the members of its body.
type envelope struct {
	SchemaVersion  string       `json:"schema_version"`
	CaseID         string       `json:"case_id"`
	Version        Side         `json:"version"`
	Status         Status       `json:"status"`
	Attempts       []Attempt    `json:"attempts,omitempty"`
	ExtensionsHref string       `json:"extensions_href,omitempty"`
	Normalizations []Repair     `json:"normalizations,omitempty"`
	Unresolved     []Unresolved `json:"evidence_unresolved,omitempty"`
}

var envelopePlan canon.Plan[envelope]

// Bytes returns the file of the case.
func (c OKCase) Bytes() ([]byte, error) {
	text, err := envelopePlan.Canonical(&envelope{CaseVersion, c.CaseID, c.Version, OK, c.Attempts, c.ExtensionsHref, c.Normalizations, c.Unresolved})
	if err != nil {
		return nil, err
	}
	all, err := parseObject(text)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, c.Body)
	if text, err = canon.Literal(all); err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

func parseObject(text []byte) (map[string]any, error) {
	v, err := canon.ParseLiteral(text, len(text), math.MaxInt)
	if members, ok := v.(map[string]any); ok || err != nil {
		return members, err
	}
	return nil, fmt.Errorf("the text is not an object: verify the directory")
}

// Restore returns the answer that a decoded case with the status ok was made from: the envelope is
// left out, and the texts of assets are put back. Normalize makes the same case of this answer. The
// function read returns the content of an asset. Restore changes nothing that doc has.
func Restore(doc map[string]any, read func(href string) ([]byte, error)) (map[string]any, error) {
	answer := maps.Clone(doc)
	maps.DeleteFunc(answer, func(name string, _ any) bool { return ours(name) })
	if href, ok := doc["extensions_href"].(string); ok {
		text, err := read(href)
		if err != nil {
			return nil, err
		}
		extensions, err := parseObject(text)
		if err != nil {
			return nil, err
		}
		maps.Copy(answer, extensions)
	}
	list, _ := doc["events"].([]any)
	events := slices.Clone(list)
	for i, v := range list {
		event, ok := v.(map[string]any)
		if !ok {
			continue
		}
		event = maps.Clone(event)
		events[i] = event
		for _, prefix := range [...]string{"payload", "snippets"} {
			if err := restore(event, prefix, read); err != nil {
				return nil, err
			}
		}
	}
	if list != nil {
		answer["events"] = events
	}
	return answer, nil
}

// restore puts a text back into an event.
func restore(event map[string]any, prefix string, read func(href string) ([]byte, error)) error {
	href, ok := event[prefix+"_asset_href"].(string)
	if !ok {
		return nil
	}
	text, err := read(href)
	if err != nil {
		return err
	}
	name := prefix
	if _, inline := event[name]; inline {
		name = "payload_summary" // was over the limit, and payload was not
	}
	event[name] = string(text)
	if event[prefix+"_asset_type"] == "json" {
		event[name], err = canon.ParseLiteral(text, len(text), math.MaxInt)
	}
	return err
}
