package workflow

import (
	"bytes"
	"io"
	"maps"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/workflow/history"
	"github.com/fiador/fiador/harness/workspace"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/work"
)

func newReader(text []byte) io.Reader { return bytes.NewReader(text) }

// keyOf returns what the lookup of earlier runs compares: the item without its name, the
// agent, and the policy.
func (it *item) keyOf() (receipt.Hash, error) {
	text, err := it.Key()
	if err != nil {
		return receipt.Hash{}, runerr.Internal("the item has no canonical form", err)
	}
	rest, _, err := keyPlan.Artifact(&keyed{it.agent, it.Gate.Provenance})
	if err != nil {
		return receipt.Hash{}, runerr.Internal("the policy has no canonical form", err)
	}
	return receipt.Sum(append(text, rest...)), nil
}

// keyed is what the key covers besides the item.
type keyed struct {
	Agent  *work.Agent       `json:"agent,omitempty"`
	Policy result.Provenance `json:"policy"`
}

var keyPlan canon.Plan[keyed]

// core returns the core of the receipt.
func (it *item) core(rep harness.Report, subject []byte) (receipt.Core, error) {
	_, policy, err := canon.Artifact(rep.Result.PolicyProvenance)
	c := receipt.Core{
		ReceiptVersion: receipt.Version, ItemHash: receipt.Sum(subject).String(), AgentID: it.AgentID,
		Base: it.base.String(), Before: it.before.String(), After: it.before.String(),
		Status: receipt.StatusOf(rep.Result.KernelResultKind, rep.Result.Decision.Reasons), Reasons: append([]string{}, rep.Result.Decision.Reasons...),
		Artifacts: []receipt.Artifact{}, Delta: it.tried.counted, Trace: it.trace, Tests: it.tests,
		Scratch: append([]string{}, it.Scratch...), Policy: rep.Result.Policy.Name, PolicySHA256: policy, IntentSHA256: rep.Result.Intent.SHA256,
	}
	if c.Trace.Coverage == "" {
		c.Trace.Coverage = receipt.None
	}
	if rep.Result.Bundle != nil {
		c.BundleSHA256 = rep.Result.Bundle.SHA256
	}
	if c.Status == receipt.Success {
		c.After, c.Artifacts = it.after.String(), append(c.Artifacts, it.tried.artifacts...)
	}
	return c, err
}

// ephemeral returns the rest of the receipt.
func (it *item) ephemeral(rep harness.Report, packed map[string][]byte) receipt.Ephemeral {
	e := receipt.Ephemeral{
		RunID: rep.Result.RunID, StartedAt: rep.Result.StartedAt, CompletedAt: rep.Result.CompletedAt, Streams: map[string]string{}, Pack: map[string]string{}, Head: history.Head(it.Tree),
		Metrics: receipt.Metrics{ToolOpsCount: it.trace.Ops, DeltaSize: it.tried.counted.Total, FilesTouched: len(it.tried.paths())},
	}
	if p := rep.Execution; p != nil {
		e.Metrics.ExecutionTimeMS, e.Isolation, e.Workspace = p.DurationMS(), p.Isolation, p.Staging()
	}
	if it.tests != nil {
		e.Metrics.TestsPassed, e.Metrics.TestsFailed = it.tests.Passed, it.tests.Failed
	}
	for name, text := range it.streams {
		e.Streams[name] = receipt.Sum(text).String()
	}
	for name, text := range packed {
		e.Pack[name] = receipt.Sum(text).String()
	}
	return e
}

// write makes the receipt, notes that it is pending, and puts its folder in its place.
func (it *item) write(rep harness.Report) error {
	subject, err := receipt.Subject{Agent: it.agent, Item: it.Item}.Bytes()
	if err != nil {
		return runerr.Internal("the item has no canonical form", err)
	}
	core, err := it.core(rep, subject)
	if err != nil {
		return runerr.Internal("the policy has no canonical form", err)
	}
	packed, err := rep.Pack(it.Deps.Rand)
	if err != nil {
		return err
	}
	previous := ""
	if n := len(it.lines); n > 0 {
		previous = it.lines[n-1].ReceiptHash
	}
	if it.receipt, err = receipt.New(core, it.ephemeral(rep, packed), previous); err != nil {
		return runerr.Internal("the receipt has no canonical form", err)
	}
	files, err := it.files(packed, subject)
	if err != nil {
		return err
	}
	if err := it.Pend(history.Pending{Line: it.line(it.receipt), RunID: rep.Result.RunID, Ledger: it.Ledger, Key: it.LedgerKey}); err != nil {
		return err
	}
	return history.Error(it.Place(it.receipt.ReceiptID, files))
}

// files returns the files of the receipt's folder.
func (it *item) files(packed map[string][]byte, subject []byte) (map[string][]byte, error) {
	text, err := it.receipt.Bytes()
	if err != nil {
		return nil, runerr.Internal("the receipt has no canonical form", err)
	}
	files := map[string][]byte{receipt.ReceiptFile: text, receipt.ItemFile: subject}
	maps.Copy(files, it.streams)
	for name, script := range receipt.Scripts(it.receipt) {
		files[name] = []byte(script)
	}
	for name, text := range packed {
		files[receipt.PackFolder+"/"+name] = text
	}
	if it.receipt.Core.Status == receipt.Success {
		n := &nodes{store: it.Store, files: files}
		if _, err := receipt.After(n, it.before, it.receipt.Core.Artifacts); err != nil {
			return nil, runerr.Internal("the change does not fit the state", err)
		}
	}
	return files, nil
}

// nodes notes the nodes that are read.
type nodes struct {
	store *workspace.Store
	files map[string][]byte
}

// Node returns the text of a node.
func (n *nodes) Node(h receipt.Hash) ([]byte, error) {
	text, err := n.store.Node(h)
	n.files[receipt.NodesFolder+"/"+h.Hex()] = text
	return text, err
}

// Put does nothing.
func (n *nodes) Put(receipt.Hash, []byte) {}

// answer returns the result of the item.
func (it *item) answer() receipt.Result {
	r := receipt.ResultOf(it.receipt)
	r.ID, r.TestOutput = it.ID, it.output
	if r.Status == receipt.Denied && it.denial != "" {
		r.DenialReason = it.denial
	}
	return r
}
