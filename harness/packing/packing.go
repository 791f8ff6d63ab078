// Package packing fills a run pack from a run: what was decided, what was executed, and
// the patch of the changes.
//
// It reads an execution that is still open, and writes nothing. Package harness puts the
// files in their place.
package packing

import (
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// Run is a run that gets a pack.
type Run struct {
	Result    result.RunResult
	Bytes     []byte // of the result, as printed
	Decision  kernel.Decision
	Execution *execute.Performed // open; nil: there was none
}

// Files returns the files of the run's pack by name, except ledger.jsonl and meta.json.
// The error is always a *result.RunError.
func (r Run) Files(rand io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{pack.RunFile: r.Bytes}
	policy, _, err := canon.Artifact(r.Result.Policy)
	if err != nil {
		return nil, runerr.Internal("the policy has no canonical form", err)
	}
	files[pack.PolicyFile] = policy
	if r.Decision.Bundle != nil {
		files[pack.BundleFile] = r.Decision.BundleBytes
	}
	if r.Execution == nil {
		return files, nil
	}
	docs, err := r.documents(rand)
	if err != nil {
		return nil, runerr.Of(err)
	}
	for name, recording := range map[string][]byte{pack.ModelFile: r.Execution.ModelIO, pack.ToolFile: r.Execution.ToolIO} {
		if recording != nil {
			files[name] = recording
		}
	}
	for name, doc := range docs {
		text, _, err := canon.Artifact(doc)
		if err != nil {
			return nil, runerr.Internal(name+" has no canonical form", err)
		}
		files[name] = text
	}
	return files, nil
}

// Check verifies the files of a pack before they are written.
func Check(files map[string][]byte, o verify.Options) error {
	for _, name := range pack.Names() {
		if why := pack.Oversize(name, files[name]); why != "" {
			return fileTooLarge(name, why)
		}
	}
	v := verify.Pack(pack.Of(files), o)
	if v.OK() {
		return nil
	}
	e := runerr.New(result.CodeEvidence, "the pack would contradict itself, so it was not written", "")
	if len(v.Violations) > 0 {
		f := v.Violations[0]
		e.RuleID, e.Message = f.Rule, e.Message+": "+strings.TrimSpace(f.Path+" "+f.Message)
	}
	return e
}

// documents returns the documents about the execution by the names of their files.
func (r Run) documents(rand io.Reader) (map[string]any, error) {
	results := r.results()
	if len(results) > pack.MaxResults {
		return nil, runerr.New(result.CodeEvidence, "the pack cannot hold what was changed: the limit is "+strconv.Itoa(pack.MaxResults)+" files",
			"do without --pack, or let the execution change fewer")
	}
	docs := map[string]any{pack.EvidenceFile: r.evidence(results)}
	var warnings []string
	if r.Result.Decision.Accepted {
		warnings = r.warnings(results)
		if len(results) > 0 {
			patch, err := r.patch(results)
			if err != nil {
				return nil, err
			}
			docs[pack.PatchFile] = patch
		}
	}
	runner, err := r.Execution.Runner(rand)
	if err != nil {
		return nil, err
	}
	runner.Warnings = warnings
	docs[pack.RunnerFile] = runner
	return docs, nil
}

// results returns the files that the execution changed. Removed files are included only
// if the execution is accepted, and only under paths that a patch can have.
func (r Run) results() []pack.ActionResult {
	code := r.Result.Execution.ExitCode
	still := map[string]bool{}
	for _, p := range r.Execution.Unchanged {
		still[p] = true
	}
	list := []pack.ActionResult{}
	for _, o := range r.Execution.Observed.Outputs {
		if still[o.Path] || r.called(o) {
			continue
		}
		a := pack.ActionResult{Path: o.Path, Action: pack.OpCreate, SHA256: evidence.Hash(o.SHA256), ExitCode: code}
		if r.Execution.Before(o.Path) == change.KindFile {
			a.Action = pack.OpModify
		}
		list = append(list, a)
	}
	if r.Result.Decision.Accepted {
		for _, c := range r.Execution.Accepted {
			if removes(c) && pack.PatchPath(c.Path) {
				list = append(list, pack.ActionResult{Path: c.Path, Action: pack.OpDelete, SHA256: canon.Sum(nil), ExitCode: code})
			}
		}
	}
	slices.SortFunc(list, func(a, b pack.ActionResult) int { return canon.Compare(a.Path, b.Path) })
	return list
}

// removes says whether a change is a delete in a patch: the path is empty now, or has a
// folder in the place of something else. A file that replaces something is no delete.
func removes(c change.Change) bool {
	return c.Kind == change.KindDeleted || c.Kind == change.KindFolder && c.Before != nil && c.Before.Kind != change.KindFolder
}

// warnings returns warnings, sorted, about accepted changes that are not in the patch:
// folders without a file, and entries removed under a name that no patch can have.
func (r Run) warnings(results []pack.ActionResult) []string {
	filled := map[string]bool{}
	for _, a := range results {
		if a.Action == pack.OpDelete {
			continue
		}
		for p := path.Dir(a.Path); p != "." && !filled[p]; p = path.Dir(p) {
			filled[p] = true
		}
	}
	var folders, removals []string
	for _, c := range r.Execution.Accepted {
		if c.Kind == change.KindFolder && !filled[c.Path] {
			folders = append(folders, c.Path)
		}
		if removes(c) && !pack.PatchPath(c.Path) {
			removals = append(removals, reason.Quoted(c.Path))
		}
	}
	list := append(evidence.Warn(evidence.EmptyFolder, folders), evidence.Warn(evidence.Removal, removals)...)
	slices.SortFunc(list, canon.Compare)
	return slices.Compact(list)
}

// Observation returns the evidence that a pack of this execution would have, and the
// operations of its patch without contents of files; a rejected execution has none. It
// reads only the entries from before the execution.
func (r Run) Observation() (pack.Evidence, []pack.Operation) {
	results := r.results()
	var list []pack.Operation
	if r.Result.Decision.Accepted {
		list = r.bareOperations(results)
	}
	return r.evidence(results), list
}

// bareOperations returns the operations of the patch without contents of files.
func (r Run) bareOperations(results []pack.ActionResult) []pack.Operation {
	executable, size := map[string]bool{}, map[string]int64{}
	for _, c := range r.Execution.Accepted {
		executable[c.Path] = c.Executable
	}
	for _, f := range r.Execution.Observed.Outputs {
		size[f.Path] = f.Size
	}
	list := make([]pack.Operation, 0, len(results))
	for _, a := range results {
		o := pack.Operation{Op: a.Action, Path: a.Path}
		if a.Action != pack.OpDelete {
			o.Executable, o.SizeBytes = executable[a.Path], size[a.Path]
		}
		if a.Action != pack.OpCreate {
			r.Execution.SetBefore(&o)
		}
		list = append(list, o)
	}
	pack.InOrder(list)
	return list
}

// called says whether an output is the unchanged response to a call.
func (r Run) called(f evidence.File) bool {
	return slices.ContainsFunc(r.Execution.Calls, func(c pack.CallEvidence) bool {
		return f.Path == pack.ResponsePath(c.Action) && evidence.Hash(f.SHA256) == c.ResponseHash
	})
}

func (r Run) evidence(results []pack.ActionResult) pack.Evidence {
	b := r.Decision
	e := pack.Evidence{
		ProposalID: b.Bundle.ID, ProposalHash: b.BundleHash, Status: r.status(),
		ActionResults: results, TestResults: []pack.TestResult{},
		Runs: []pack.RunEvidence{}, Calls: append([]pack.CallEvidence{}, r.Execution.Calls...), Unchanged: append([]string{}, r.Execution.Unchanged...),
		StartedAt: ledger.Timestamp(r.Execution.Started), CompletedAt: ledger.Timestamp(r.Execution.Ended),
		TotalDurationMS: r.Execution.DurationMS(), ExecutorID: "fiador", WorkingDir: ".",
	}
	slices.SortFunc(e.Unchanged, canon.Compare)
	for _, c := range r.Execution.Runs {
		e.Runs = append(e.Runs, pack.RunEvidence{
			Action: c.Action, Argv: c.Argv, ExitCode: c.Cause().ExitCode(),
			StdoutSHA256: evidence.Hash(c.Stdout.SHA256), StderrSHA256: evidence.Hash(c.Stderr.SHA256),
		})
		if c.Test {
			e.TestResults = append(e.TestResults, pack.TestOf(e.Runs[len(e.Runs)-1]))
		}
	}
	return e
}

// status says how much of the plan succeeded.
func (r Run) status() pack.Status {
	switch {
	case r.Execution.Done == r.Execution.Planned:
		return pack.StatusComplete
	case r.Execution.Done > 0:
		return pack.StatusPartial
	}
	return pack.StatusFailed
}

// patch returns the changes of an accepted execution that can be applied elsewhere.
func (r Run) patch(results []pack.ActionResult) (pack.Patch, error) {
	patch := pack.Patch{
		Version: pack.PatchVersion, SourceProposalID: r.Decision.Bundle.ID,
		SourceProposalHash: r.Decision.BundleHash, Operations: r.bareOperations(results),
	}
	for i, o := range patch.Operations {
		if o.Op == pack.OpDelete {
			continue
		}
		content, err := r.content(o.Path, pack.MaxPatchBytes-patch.TotalBytes)
		if err != nil {
			return patch, err
		}
		file := pack.File(o.Op, o.Path, content, o.Executable)
		file.Order, file.BeforeSHA256 = o.Order, o.BeforeSHA256
		if patch.TotalBytes += int64(len(*file.Content)); patch.TotalBytes > pack.MaxPatchBytes {
			return patch, patchTooLarge()
		}
		patch.Operations[i] = file
	}
	return patch, nil
}

func (r Run) content(name string, room int64) ([]byte, error) {
	var b []byte
	f, err := r.Execution.Content(name)
	if err == nil {
		defer f.Close()
		b, err = io.ReadAll(io.LimitReader(f, room+1))
	}
	if err != nil {
		return nil, runerr.Evidence("what the commands wrote could not be read", err)
	}
	if int64(len(b)) > room {
		return nil, patchTooLarge()
	}
	return b, nil
}

func patchTooLarge() error {
	return runerr.New(result.CodeEvidence, "the pack cannot hold what was written: the limit of a patch is "+strconv.Itoa(pack.MaxPatchBytes)+" bytes",
		"do without --pack, or let the execution leave less behind")
}

// fileTooLarge is the error for a file that readers refuse because of its size.
func fileTooLarge(name, why string) error {
	or := map[string]string{
		pack.BundleFile: ", or let the policy ask less", pack.ModelFile: ", or split the intent", pack.ToolFile: ", or split the intent",
		pack.RunFile: ", or let the execution change fewer files", pack.EvidenceFile: ", or let the execution change fewer files",
	}
	return runerr.New(result.CodeEvidence, "the pack cannot hold "+name+": "+why, "do without --pack"+or[name])
}
