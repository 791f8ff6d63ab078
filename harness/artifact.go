package harness

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
)

// ArtifactSpec is a file that a request wants back in its report. Name and MediaType are
// the requester's words, and empty where there are none.
type ArtifactSpec struct {
	Path, Name, MediaType string
}

// Artifact is one as it is in the work folder afterwards.
type Artifact struct {
	ArtifactSpec
	SHA256    canon.ContentHash
	SizeBytes int64
}

// artifactSpecs reads a list that the schema has accepted.
func artifactSpecs(list any) []ArtifactSpec {
	var specs []ArtifactSpec
	items, _ := list.([]any)
	for _, item := range items {
		m, _ := item.(map[string]any)
		specs = append(specs, ArtifactSpec{Path: member(m).text("path"), Name: member(m).text("name"), MediaType: member(m).text("media_type")})
	}
	return specs
}

func (a ArtifactSpec) plain() map[string]any {
	doc := map[string]any{"path": a.Path}
	if a.Name != "" {
		doc["name"] = a.Name
	}
	if a.MediaType != "" {
		doc["media_type"] = a.MediaType
	}
	return doc
}

func (a Artifact) plain() map[string]any {
	doc := a.ArtifactSpec.plain()
	doc["sha256"], doc["size_bytes"] = string(a.SHA256), a.SizeBytes
	return doc
}

// artifacts are those of a list that are there, in its order, as many as the contract
// allows bytes together. The reasons say which are missing, unless the command failed, and
// whether there were too many bytes.
func (p *Performed) artifacts(specs []ArtifactSpec) (list []Artifact, reasons []string) {
	left := int64(contract.ArtifactsBytes().Max)
	at := kindsOf(p.Changes)
	for i, a := range specs {
		f, there := p.after(at, a.Path)
		switch {
		case there && f.Size > left:
			return list, append(reasons, reason.OutputLimit)
		case there:
			left -= f.Size
			list = append(list, Artifact{a, evidence.Hash(f.SHA256), f.Size})
		case p.Done == p.Planned && at[a.Path] != change.KindFile:
			reasons = append(reasons, reason.OutputMissing+" /outputs/artifacts/"+strconv.Itoa(i))
		}
	}
	return list, reasons
}

// after is the regular file that stands at a path afterwards, as far as the command could
// have seen it. A file that is beyond a limit or has a bad name is not there.
func (p *Performed) after(at map[string]change.Kind, name string) (evidence.File, bool) {
	if i := slices.IndexFunc(p.Observed.Outputs, func(f evidence.File) bool { return f.Path == name }); i >= 0 {
		return p.Observed.Outputs[i], true
	}
	if !asBefore(at, name) || !p.task.Sandbox.Shows(name) {
		return evidence.File{}, false
	}
	kind, sum, size := p.box.Before(name)
	return evidence.File{Path: name, SHA256: sum, Size: size}, kind == change.KindFile
}
