package execute

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
)

// artifacts returns the listed files that exist, in the order of the list. Their sizes
// together stay within the limit of the contract. The reasons name missing files, unless
// the command failed, and say whether there were too many bytes.
func (p *Performed) artifacts(specs []request.ArtifactSpec) (list []request.Artifact, reasons []reason.Reason) {
	left := int64(contract.ArtifactsBytes().Max)
	at := byPath(p.Changes)
	for i, a := range specs {
		f, there := p.after(at, a.Path)
		switch {
		case there && f.Size > left:
			return list, append(reasons, reason.Limit())
		case there:
			left -= f.Size
			list = append(list, request.Artifact{ArtifactSpec: a, SHA256: evidence.Hash(f.SHA256), SizeBytes: f.Size})
		case p.Done == p.Planned && at[a.Path].Kind != change.KindFile:
			reasons = append(reasons, reason.Missing("/outputs/artifacts/"+strconv.Itoa(i)))
		}
	}
	return list, reasons
}

// after returns the regular file at a path after the execution, if the command could
// have seen it. A file beyond a limit, or with a bad name, counts as missing.
func (p *Performed) after(at map[string]change.Change, name string) (evidence.File, bool) {
	if i := slices.IndexFunc(p.Observed.Outputs, func(f evidence.File) bool { return f.Path == name }); i >= 0 {
		return p.Observed.Outputs[i], true
	}
	if !asBefore(at, name) || !p.task.Sandbox.Shows(name) {
		return evidence.File{}, false
	}
	kind, sum, size := p.box.Before(name)
	return evidence.File{Path: name, SHA256: sum, Size: size}, kind == change.KindFile
}

// expected adds a reason for each missing expectation of the command.
func (w *performance) expected() {
	o, want := &w.p.Observed, w.task.Expect
	if want.Stdout && w.p.Stdout.Size == 0 {
		o.Reject(reason.Missing("/outputs/stdout"))
	}
	if want.Stderr && w.p.Stderr.Size == 0 {
		o.Reject(reason.Missing("/outputs/stderr"))
	}
	if want.Code != 0 && o.Command != nil && !o.Command.Failed() {
		o.Reject(reason.Exited(0))
	}
	var missing []reason.Reason
	w.p.Artifacts, missing = w.p.artifacts(want.Artifacts)
	o.Reject(missing...)
}
