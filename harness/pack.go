package harness

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
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// Packed returns the files of a run's pack by name, except ledger.jsonl and meta.json.
// For an execution, Packed reads the report's Execution, which must be open. The error
// is always a *result.RunError.
func (rep Report) Packed(rand io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{pack.RunFile: rep.Bytes}
	policy, _, err := canon.Artifact(rep.Result.Policy)
	if err != nil {
		return nil, runerr.Internal("the policy has no canonical form", err)
	}
	files[pack.PolicyFile] = policy
	if rep.Decision.Bundle != nil {
		files[pack.BundleFile] = rep.Decision.BundleBytes
	}
	if rep.Execution == nil {
		return files, nil
	}
	k := packing{rep: rep, p: rep.Execution}
	docs, err := k.documents(rand)
	if err != nil {
		return nil, runerr.Of(err)
	}
	if k.p.ModelIO != nil {
		files[pack.ModelFile] = k.p.ModelIO
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

// verified checks packed files by the rules.
func verified(files map[string][]byte, o verify.Options) error {
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
	for _, f := range v.Violations {
		e.RuleID, e.Message = f.Rule, e.Message+": "+strings.TrimSpace(f.Path+" "+f.Message)
		break
	}
	return e
}

// packing is an execution during its packing.
type packing struct {
	rep Report
	p   *Performed

	warnings []string
}

func (k *packing) documents(rand io.Reader) (map[string]any, error) {
	results := k.results()
	if len(results) > pack.MaxResults {
		return nil, runerr.New(result.CodeEvidence, "the pack cannot hold what was changed: the limit is "+strconv.Itoa(pack.MaxResults)+" files",
			"do without --pack, or let the execution change fewer")
	}
	docs := map[string]any{pack.EvidenceFile: k.evidence(results)}
	if k.rep.Result.Decision.Accepted {
		k.warn(results)
		if len(results) > 0 {
			patch, err := k.patch(results)
			if err != nil {
				return nil, err
			}
			docs[pack.PatchFile] = patch
		}
	}
	runner, err := k.p.Runner(rand)
	if err != nil {
		return nil, err
	}
	if len(k.warnings) > 0 {
		runner.Warnings = sorted(k.warnings)
	}
	docs[pack.RunnerFile] = runner
	return docs, nil
}

// results returns the files that the execution changed. Removed files are included only
// if the execution is accepted, and only under paths that a patch can have.
func (k *packing) results() []pack.ActionResult {
	code := k.rep.Result.Execution.ExitCode
	still := map[string]bool{}
	for _, p := range k.p.Unchanged {
		still[p] = true
	}
	list := []pack.ActionResult{}
	for _, o := range k.p.Observed.Outputs {
		if still[o.Path] || k.called(o) {
			continue
		}
		r := pack.ActionResult{Path: o.Path, Action: pack.OpCreate, SHA256: evidence.Hash(o.SHA256), ExitCode: code}
		if kind, _, _ := k.p.box.Before(o.Path); kind == change.KindFile {
			r.Action = pack.OpModify
		}
		list = append(list, r)
	}
	if k.rep.Result.Decision.Accepted {
		for _, c := range k.p.Accepted {
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

// warn warns about accepted changes that are not in the patch: folders without a file,
// and entries removed under a name that no patch can have.
func (k *packing) warn(results []pack.ActionResult) {
	filled := map[string]bool{}
	for _, r := range results {
		if r.Action == pack.OpDelete {
			continue
		}
		for p := path.Dir(r.Path); p != "." && !filled[p]; p = path.Dir(p) {
			filled[p] = true
		}
	}
	var folders, removals []string
	for _, c := range k.p.Accepted {
		if c.Kind == change.KindFolder && !filled[c.Path] {
			folders = append(folders, c.Path)
		}
		if removes(c) && !pack.PatchPath(c.Path) {
			removals = append(removals, reason.Quoted(c.Path))
		}
	}
	k.warnings = append(evidence.Warn(evidence.EmptyFolder, folders), evidence.Warn(evidence.Removal, removals)...)
}

// Observation returns the evidence that a pack of this execution would have, and the
// operations of its patch without contents of files; a rejected execution has none. It
// reads only the entries from before the execution.
func (rep Report) Observation() (pack.Evidence, []pack.Operation) {
	k := packing{rep: rep, p: rep.Execution}
	results := k.results()
	var list []pack.Operation
	if rep.Result.Decision.Accepted {
		list = k.bareOperations(results)
	}
	return k.evidence(results), list
}

// bareOperations returns the operations of the patch without contents of files.
func (k *packing) bareOperations(results []pack.ActionResult) []pack.Operation {
	executable, size := map[string]bool{}, map[string]int64{}
	for _, c := range k.p.Accepted {
		executable[c.Path] = c.Executable
	}
	for _, f := range k.p.Observed.Outputs {
		size[f.Path] = f.Size
	}
	list := make([]pack.Operation, 0, len(results))
	for _, r := range results {
		o := pack.Operation{Op: r.Action, Path: r.Path}
		if r.Action != pack.OpDelete {
			o.Executable, o.SizeBytes = executable[r.Path], size[r.Path]
		}
		if r.Action != pack.OpCreate {
			k.p.stood(&o)
		}
		list = append(list, o)
	}
	pack.InOrder(list)
	return list
}

// called says whether an output is the unchanged response to a call.
func (k *packing) called(f evidence.File) bool {
	return slices.ContainsFunc(k.p.Calls, func(c pack.CallEvidence) bool {
		return f.Path == pack.ResponsePath(c.Action) && evidence.Hash(f.SHA256) == c.ResponseHash
	})
}

func (k *packing) evidence(results []pack.ActionResult) pack.Evidence {
	b := k.rep.Decision
	e := pack.Evidence{
		ProposalID: b.Bundle.ID, ProposalHash: b.BundleHash, Status: k.status(),
		ActionResults: results, TestResults: []pack.TestResult{},
		Runs: []pack.RunEvidence{}, Calls: append([]pack.CallEvidence{}, k.p.Calls...), Unchanged: slices.Clone(k.p.Unchanged),
		StartedAt: ledger.Timestamp(k.p.Started), CompletedAt: ledger.Timestamp(k.p.Ended),
		TotalDurationMS: k.p.milliseconds(), ExecutorID: "fiador", WorkingDir: ".",
	}
	if e.Unchanged == nil {
		e.Unchanged = []string{}
	}
	slices.SortFunc(e.Unchanged, canon.Compare)
	for _, r := range k.p.Runs {
		code := r.Cause().ExitCode()
		e.Runs = append(e.Runs, pack.RunEvidence{
			Action: r.Action, Argv: r.Argv, ExitCode: code,
			StdoutSHA256: evidence.Hash(r.Stdout.SHA256), StderrSHA256: evidence.Hash(r.Stderr.SHA256),
		})
	}
	return e
}

// status says how much of the plan succeeded.
func (k *packing) status() pack.Status {
	switch {
	case k.p.Done == k.p.Planned:
		return pack.StatusComplete
	case k.p.Done > 0:
		return pack.StatusPartial
	}
	return pack.StatusFailed
}

// patch returns the changes of an accepted execution that can be applied elsewhere.
func (k *packing) patch(results []pack.ActionResult) (pack.Patch, error) {
	patch := pack.Patch{
		Version: pack.PatchVersion, SourceProposalID: k.rep.Decision.Bundle.ID,
		SourceProposalHash: k.rep.Decision.BundleHash, Operations: []pack.Operation{},
	}
	executable := map[string]bool{}
	for _, c := range k.p.Accepted {
		executable[c.Path] = c.Executable
	}
	for _, r := range results {
		o, err := k.operation(r, executable[r.Path], pack.MaxPatchBytes-patch.TotalBytes)
		if err != nil {
			return patch, err
		}
		if o.Content != nil {
			patch.TotalBytes += int64(len(*o.Content))
		}
		if patch.TotalBytes > pack.MaxPatchBytes {
			return patch, patchTooLarge()
		}
		patch.Operations = append(patch.Operations, o)
	}
	pack.InOrder(patch.Operations)
	return patch, nil
}

func (k *packing) operation(r pack.ActionResult, executable bool, room int64) (pack.Operation, error) {
	o := pack.Operation{Op: pack.OpDelete, Path: r.Path}
	if r.Action != pack.OpDelete {
		content, err := k.content(r.Path, room)
		if err != nil {
			return o, err
		}
		o = pack.File(r.Action, r.Path, content, executable)
	}
	if r.Action != pack.OpCreate {
		k.p.stood(&o)
	}
	return o, nil
}

func (k *packing) content(name string, room int64) ([]byte, error) {
	f, err := k.p.Content(name)
	if err != nil {
		return nil, runerr.Evidence("what the commands wrote could not be read", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, room+1))
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
	e := runerr.New(result.CodeEvidence, "the pack cannot hold "+name+": "+why, "do without --pack")
	switch name {
	case pack.BundleFile:
		e.Hint += ", or let the policy ask less"
	case pack.RunFile, pack.EvidenceFile:
		e.Hint += ", or let the execution change fewer files"
	case pack.ModelFile:
		e.Hint += ", or split the intent"
	}
	return e
}
