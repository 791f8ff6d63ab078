package harness

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// Evidence is stored in blobs: one for each decision, and one for each policy set, which
// many decisions share. A blob is a canonical JSON object and one LF. The documents in a
// blob are texts with exactly the bytes that their hashes cover. So every hash can be
// checked with jq and sha256sum (specs/evidence.schema.json).

// EvidenceVersion is the version of the format of evidence blobs.
const EvidenceVersion = "1.0.0"

// MaxBlobBytes is the maximum size of an evidence blob.
const MaxBlobBytes = ledger.MaxBlobBytes

// maxValues limits the values of one JSON text of evidence, and so the memory for
// reading it: about 100 bytes for each value.
const maxValues = 1 << 20

// The kinds of evidence blobs.
const (
	blobDecision  = "decision"
	blobPolicySet = "policy-set"
)

// testimony is the evidence of one decision, and the values read from it.
type testimony struct {
	intent   []byte // the bytes that were read
	input    []byte // artifact: the input document of the policy
	decision []byte // artifact: the decision before any execution
	result   []byte // the RunResult in its printed form
	policy   ledger.Blob

	res       result.RunResult
	canonical canon.ContentHash
	answer    Answer
}

// decisionBlob is the stored form of a testimony.
type decisionBlob struct {
	Version  string      `json:"schema_version"`
	Kind     string      `json:"kind"`
	Intent   string      `json:"intent_base64"`
	Input    string      `json:"input"`
	Decision string      `json:"decision"`
	Result   string      `json:"result"`
	Policy   ledger.Blob `json:"policy"`
}

// blob returns the testimony in its stored form.
func (t testimony) blob() ([]byte, error) {
	b, _, err := canon.Artifact(decisionBlob{
		EvidenceVersion, blobDecision, base64.StdEncoding.EncodeToString(t.intent), string(t.input), string(t.decision), string(t.result), t.policy,
	})
	return b, err
}

// record returns the ledger's record of the decision.
func (t testimony) record(evidence ledger.Blob) (ledger.Record, error) {
	_, provenance, err := canon.Artifact(t.res.PolicyProvenance)
	r := ledger.Record{
		Kind: ledger.KindDecision, RunID: t.res.RunID, IntentSHA256: canon.Sum(t.intent),
		ExecutionMode: t.res.ExecutionMode, Mode: t.res.ModelMode,
		Policy: t.res.Policy.Name, PolicySHA256: provenance, InputSHA256: canon.Sum(t.input), Kernel: t.res.KernelVersion,
		ResultKind: string(t.res.KernelResultKind), Accepted: t.res.Decision.Accepted, Reasons: ledger.Reasons(t.res.Decision.Reasons),
		DecisionSHA256: canon.Sum(t.decision), CanonicalSHA256: t.canonical, ResultSHA256: canon.Sum(t.result), Evidence: evidence,
	}
	if t.res.Bundle != nil {
		r.BundleSHA256 = t.res.Bundle.SHA256
	}
	return r, err
}

// decided is a decision before any execution.
type decided struct {
	Outcome      kernel.Outcome    `json:"outcome"`
	Reasons      []string          `json:"reasons"`
	Questions    []string          `json:"questions"`
	Findings     []decidedResult   `json:"findings"`
	Notes        []decidedResult   `json:"notes"`
	RefuseReason *string           `json:"refuse_reason"`
	Bundle       *result.BundleRef `json:"bundle"`
}

type decidedResult struct {
	Layer    string   `json:"layer"`
	ID       string   `json:"id"`
	Path     string   `json:"path"`
	Text     string   `json:"text"`
	Title    string   `json:"title"`
	Fix      string   `json:"fix"`
	Options  []string `json:"options"`
	Priority int      `json:"priority"`
}

func decisionDocument(d kernel.Decision) decided {
	doc := decided{
		Outcome: d.Outcome, Reasons: append([]string{}, d.Reasons...), Questions: append([]string{}, d.Questions()...),
		Findings: decidedResults(d.Findings), Notes: decidedResults(d.Notes),
	}
	if d.RefuseReason != "" {
		doc.RefuseReason = &d.RefuseReason
	}
	if d.Bundle != nil {
		doc.Bundle = &result.BundleRef{BundleID: d.Bundle.ID, SHA256: d.BundleHash}
	}
	return doc
}

func decidedResults(list []kernel.Result) []decidedResult {
	out := make([]decidedResult, len(list))
	for i, r := range list {
		out[i] = decidedResult{r.Module, r.ID, r.Path, r.Text, r.Title, r.Fix, append([]string{}, r.Options...), r.Priority}
	}
	return out
}

// policySet returns the blob of the policy that a gate decides by.
func policySet(f policy.Frozen, base string, builtin bool) ([]byte, error) {
	profile, _, err := canon.Artifact(f.Profile)
	if err != nil {
		return nil, err
	}
	set := policySetDocument{EvidenceVersion, blobPolicySet, base, builtin, string(profile), make([]layerDocument, len(f.Layers)), f.Capabilities}
	for i, l := range f.Layers {
		set.Layers[i] = layerDocument{l.Package, l.Embedded, make([]moduleDocument, len(l.Modules))}
		for j, m := range l.Modules {
			set.Layers[i].Modules[j] = documentOf(m)
		}
	}
	b, _, err := canon.Artifact(set)
	return b, err
}

type policySetDocument struct {
	Version      string            `json:"schema_version"`
	Kind         string            `json:"kind"`
	Base         string            `json:"base"`
	Builtin      bool              `json:"builtin"`
	Profile      string            `json:"profile"`
	Layers       []layerDocument   `json:"layers"`
	Capabilities canon.ContentHash `json:"capabilities_sha256"`
}

type layerDocument struct {
	Package  string           `json:"package"`
	Embedded bool             `json:"embedded"`
	Modules  []moduleDocument `json:"modules"`
}

// moduleDocument has the module's text, or its base64 if JSON cannot hold the text.
type moduleDocument struct {
	Name       string            `json:"name"`
	SHA256     canon.ContentHash `json:"sha256"`
	Text       *string           `json:"text,omitempty"`
	TextBase64 *string           `json:"text_base64,omitempty"`
}

func documentOf(m policy.Module) moduleDocument {
	doc := moduleDocument{Name: m.Name, SHA256: canon.Sum(m.Source)}
	text := string(m.Source)
	if _, err := canon.Canonical(text); err == nil {
		doc.Text = &text
		return doc
	}
	text = base64.StdEncoding.EncodeToString(m.Source)
	doc.TextBase64 = &text
	return doc
}

// thawed is a policy set that was read. Its gate has no Judge before compilation.
type thawed struct {
	gate       *Gate
	provenance canon.ContentHash
}

// thaw reads a policy set that fits its schema. The result gives the same bytes again.
// The error is a *fault.
func thaw(doc *policySetDocument, b ledger.Blob) (*thawed, error) {
	f := policy.Frozen{Capabilities: doc.Capabilities}
	var err error
	if f.Profile, err = policy.ReadFrozenProfile([]byte(doc.Profile)); err != nil {
		return nil, corrupt(blobPolicySet, "/profile", err.Error())
	}
	for i, layer := range doc.Layers {
		l, ok := layer.thaw()
		if !ok {
			return nil, corrupt(blobPolicySet, "/layers/"+strconv.Itoa(i), "a module is not base64")
		}
		f.Layers = append(f.Layers, l)
	}
	g := &Gate{Profile: f.Profile, Base: doc.Base, Builtin: doc.Builtin, Layers: f.Layers, set: new(frozenSet)}
	if again, err := policySet(f, g.Base, g.Builtin); err != nil || canon.Sum(again) != b.SHA256 {
		return nil, corrupt(blobPolicySet, "/layers", "a module does not have the hash that stands beside it, or is not written as it must be")
	}
	p, err := f.Provenance()
	if err != nil {
		return nil, corrupt(blobPolicySet, "", "it has no digests")
	}
	_, sum, err := canon.Artifact(p)
	if err != nil {
		return nil, corrupt(blobPolicySet, "", "it has no digests")
	}
	return &thawed{g, sum}, nil
}

// thaw reads a layer, and says whether every module can be read.
func (d layerDocument) thaw() (policy.Layer, bool) {
	l := policy.Layer{Package: d.Package, Embedded: d.Embedded}
	for _, doc := range d.Modules {
		m := policy.Module{Name: doc.Name}
		switch {
		case doc.TextBase64 != nil:
			var err error
			if m.Source, err = base64.StdEncoding.Strict().DecodeString(*doc.TextBase64); err != nil {
				return l, false
			}
		case doc.Text != nil:
			m.Source = []byte(*doc.Text)
		}
		l.Modules = append(l.Modules, m)
	}
	return l, true
}

// fault describes wrong evidence: a blob is missing, or differs from the recorded one.
type fault struct {
	status     Status
	document   string
	difference result.Difference
	detail     string
}

func (f *fault) Error() string { return f.document + ": " + f.detail }

func corrupt(document, pointer, detail string) *fault {
	return &fault{EvidenceCorrupt, document, result.Difference{Pointer: pointer}, detail}
}

// The readers of the documents of evidence.
var (
	decisionBlobs    canon.Decoder[decisionBlob]
	policySets       canon.Decoder[policySetDocument]
	decidedDocuments canon.Decoder[decided]
)

// fetch reads a blob, and checks its name, its size and its schema. The error is a
// *fault, or says that the blob could not be read.
func fetch[T any](read func(ledger.Blob) ([]byte, error), set *specs.Set, b ledger.Blob, kind string, reader *canon.Decoder[T]) (*T, error) {
	if b.Size > MaxBlobBytes {
		return nil, corrupt(kind, "", "the record gives the evidence "+strconv.FormatInt(b.Size, 10)+" bytes; the limit is "+strconv.Itoa(MaxBlobBytes))
	}
	text, err := read(b)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fault{EvidenceMissing, kind, result.Difference{}, string(b.SHA256) + " is not there"}
	case err != nil:
		return nil, runerr.Evidence("evidence "+string(b.SHA256)+" could not be read", err)
	case int64(len(text)) != b.Size || canon.Sum(text) != b.SHA256:
		return nil, corrupt(kind, "", "the bytes of "+string(b.SHA256)+" are not those that this name promises")
	}
	doc, err := parseText(text, MaxBlobBytes)
	if err != nil {
		return nil, corrupt(kind, "", err.Error())
	}
	violations, err := set.Validate(specs.KindEvidence, doc.Value())
	if err != nil {
		return nil, runerr.Internal("the evidence could not be held against its schema", err)
	}
	if len(violations) > 0 {
		return nil, corrupt(kind, violations[0].Pointer, violations[0].Msg)
	}
	if doc.Value().(map[string]any)["kind"] != kind {
		return nil, corrupt(kind, "/kind", "the evidence is of another kind")
	}
	blob, err := reader.Decode(doc.Value())
	if err != nil {
		return nil, corrupt(kind, "", err.Error())
	}
	return blob, nil
}

// parseText reads a text. The text must be canonical JSON and one LF, and within the
// limits.
func parseText(text []byte, limit int) (canon.Document, error) {
	if canon.Crowded(text, maxValues) {
		return canon.Document{}, errors.New("more than " + strconv.Itoa(maxValues) + " values")
	}
	doc, err := canon.Parse(text, limit)
	if err == nil && !bytes.Equal(append(bytes.Clone(doc.Bytes()), '\n'), text) {
		err = errors.New("not canonical JSON and one LF")
	}
	return doc, err
}

// testify reads the evidence of a record, and compares every hash and every member with
// the record. The error is a *fault, or says that a blob could not be read.
func testify(read func(ledger.Blob) ([]byte, error), set *specs.Set, rec ledger.Record) (testimony, error) {
	doc, err := fetch(read, set, rec.Evidence, blobDecision, &decisionBlobs)
	if err != nil {
		return testimony{}, err
	}
	t, err := readTestimony(doc)
	if err != nil {
		return testimony{}, err
	}
	told, err := t.record(rec.Evidence)
	if err != nil {
		return testimony{}, corrupt("result", "/policy_provenance", "it has no canonical form")
	}
	told.Timestamp, told.ClockBehindMS = rec.Timestamp, rec.ClockBehindMS
	a, err := rec.Entry()
	if err != nil {
		return testimony{}, runerr.Evidence("the record cannot be replayed", err)
	}
	b, err := told.Entry()
	if err != nil {
		return testimony{}, corrupt("result", "", "it says what no record can say: "+err.Error())
	}
	if !bytes.Equal(a, b) {
		f := corrupt("record", "", "the record and its evidence disagree")
		f.difference = firstDifference(a, b)
		return testimony{}, f
	}
	if t.answer.Outcome != t.res.KernelResultKind {
		return testimony{}, corrupt("decision", "/outcome", "the decision and the result disagree")
	}
	return t, nil
}

// readTestimony reads a decision blob that fits its schema.
func readTestimony(doc *decisionBlob) (t testimony, err error) {
	t = testimony{input: []byte(doc.Input), decision: []byte(doc.Decision), result: []byte(doc.Result), policy: doc.Policy}
	if t.intent, err = base64.StdEncoding.Strict().DecodeString(doc.Intent); err != nil {
		return t, corrupt(blobDecision, "/intent_base64", "not base64")
	}
	if t.answer, err = readAnswer(t.decision); err != nil {
		return t, corrupt("decision", "", err.Error())
	}
	if t.res, t.canonical, err = readResult(t.result); err != nil {
		return t, corrupt("result", "", err.Error())
	}
	return t, nil
}

func readAnswer(decision []byte) (Answer, error) {
	doc, err := parseText(decision, MaxBlobBytes)
	if err != nil {
		return Answer{}, err
	}
	d, err := decidedDocuments.Decode(doc.Value())
	if err != nil {
		return Answer{}, err
	}
	if d.Outcome == "" || d.Reasons == nil {
		return Answer{}, errors.New("it has no outcome or no reasons")
	}
	return Answer{Outcome: d.Outcome, Reasons: d.Reasons}, nil
}

// readResult reads a RunResult in its printed form, and computes the hash of its
// canonical subset. The RunResult must fulfil RS1..RS8, and have no other members than a
// RunResult has.
func readResult(text []byte) (result.RunResult, canon.ContentHash, error) {
	if canon.Crowded(text, maxValues) {
		return result.RunResult{}, "", errors.New("more than " + strconv.Itoa(maxValues) + " values")
	}
	var res result.RunResult
	if err := json.Unmarshal(text, &res); err != nil {
		return result.RunResult{}, "", errors.New("not a RunResult")
	}
	doc, err := sound(text, &res.Policy)
	if err != nil {
		return result.RunResult{}, "", errors.New(err.Message)
	}
	if again, err := res.Bytes(); err != nil || !bytes.Equal(again, text) {
		return result.RunResult{}, "", errors.New("not a RunResult of this version")
	}
	sum, failed := result.Digest(doc.Value().(map[string]any))
	return res, sum, failed
}

// firstDifference returns the first place at which two JSON texts differ. If one text
// cannot be read, the place is the whole document.
func firstDifference(a, b []byte) result.Difference {
	read := func(text []byte) any {
		if canon.Crowded(text, maxValues) {
			return nil
		}
		doc, err := canon.Parse(text, MaxBlobBytes)
		if err != nil {
			return nil
		}
		return doc.Value()
	}
	d, _ := result.Compare(read(a), read(b))
	return d
}
