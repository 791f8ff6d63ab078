package report

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"

	"github.com/fiador/fiador/evidence/screen"
)

// The objects of SARIF, with the members that are written.

type wireText struct {
	Text string `json:"text"`
}

type artifact struct {
	Location    *artifactLocation `json:"location,omitempty"`
	ParentIndex *int              `json:"parentIndex,omitempty"`
	Description *wireText         `json:"description,omitempty"`
	Roles       []string          `json:"roles"`
	Hashes      map[string]string `json:"hashes,omitempty"`
}

type artifactLocation struct {
	URI         string    `json:"uri"`
	Index       *int      `json:"index,omitempty"`
	Description *wireText `json:"description,omitempty"`
}

type reportingDescriptor struct {
	ID                   string            `json:"id"`
	Name                 string            `json:"name,omitempty"`
	ShortDescription     wireText          `json:"shortDescription"`
	FullDescription      wireText          `json:"fullDescription"`
	Help                 wireText          `json:"help"`
	HelpURI              string            `json:"helpUri,omitempty"`
	DefaultConfiguration map[string]string `json:"defaultConfiguration"`
}

type wireResult struct {
	RuleID              string            `json:"ruleId"`
	RuleIndex           int               `json:"ruleIndex"`
	Level               string            `json:"level"`
	Message             wireText          `json:"message"`
	Locations           []wireLocation    `json:"locations"`
	PartialFingerprints map[string]string `json:"partialFingerprints"`
	Properties          map[string]string `json:"properties"`
}

type wireLocation struct {
	PhysicalLocation struct {
		ArtifactLocation artifactLocation `json:"artifactLocation"`
		Region           wireRegion       `json:"region"`
	} `json:"physicalLocation"`
	LogicalLocations []logicalLocation `json:"logicalLocations,omitempty"`
}

type wireRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn"`
	EndLine     int `json:"endLine"`
	EndColumn   int `json:"endColumn"`
}

type logicalLocation struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

// wire returns the rule for SARIF. A required text that is missing gets a default.
func (r sarifRule) wire() reportingDescriptor {
	title := cmp.Or(r.title, r.id)
	why := cmp.Or(r.why, title)
	short := func(s string) wireText { return wireText{message(cut(screen.Plain(s), sarifDescription))} }
	return reportingDescriptor{
		ID: r.id, Name: r.name(),
		ShortDescription: short(title), FullDescription: short(why), Help: short(cmp.Or(r.fix, why)), HelpURI: r.uri(),
		DefaultConfiguration: map[string]string{"level": r.level},
	}
}

// uri returns the place in the pages of the program that describes the rule. A rule of somebody
// else's layer has none.
func (r sarifRule) uri() string {
	if r.page == "" {
		return ""
	}
	return pagesURI + r.page
}

func (r sarifResult) wire(rule int, src source, file int) wireResult {
	var at wireLocation
	at.PhysicalLocation.ArtifactLocation = artifactLocation{URI: uri(src.path), Index: &file}
	at.PhysicalLocation.Region = wireRegion{
		StartLine: r.region.start.Line, StartColumn: r.region.start.Column,
		EndLine: r.region.end.Line, EndColumn: r.region.end.Column,
	}
	if r.hasPointer {
		at.LogicalLocations = []logicalLocation{{r.pointer}}
	}
	properties := map[string]string{"outcome": r.outcome}
	for name, text := range map[string]string{"layer": r.layer, "fix": r.fix} {
		if text != "" {
			properties[name] = text
		}
	}
	return wireResult{
		RuleID: r.rule, RuleIndex: rule, Level: r.level, Message: wireText{cmp.Or(r.text, r.rule)},
		Locations:           []wireLocation{at},
		PartialFingerprints: map[string]string{"fiadorFinding/v1": hex.EncodeToString(r.print[:])},
		Properties:          properties,
	}
}

// jsonWriter writes a JSON text in parts. The first error ends it.
type jsonWriter struct {
	w   *bufio.Writer
	err error
}

func (j *jsonWriter) text(s string) *jsonWriter {
	if j.err == nil {
		_, j.err = j.w.WriteString(s)
	}
	return j
}

func (j *jsonWriter) value(v any) *jsonWriter {
	b, err := json.Marshal(v)
	if j.err == nil {
		j.err = err
	}
	return j.text(string(screen.JSON(b)))
}

// list writes n values, each on a line of its own.
func (j *jsonWriter) list(n int, at func(int) any) {
	j.text("[")
	for k := range n {
		if k > 0 {
			j.text(",")
		}
		j.text("\n").value(at(k))
	}
	j.text("]")
}
