// Package testimony owns the evidence of decisions that a ledger keeps in blobs, both
// ways: it writes the evidence of a decision and of a policy, and reads them against a
// record. It decides nothing again.
package testimony

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"strconv"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/specs"
)

// Evidence is stored in blobs: one for each decision, and one for each policy set, which
// many decisions share. A blob is a canonical JSON object and one LF. The documents in a
// blob are texts with exactly the bytes that their hashes cover. So every hash can be
// checked with jq and sha256sum (specs/evidence.schema.json).

// Version is the version of the format of evidence blobs.
const Version = "1.0.0"

// MaxBlobBytes is the maximum size of an evidence blob.
const MaxBlobBytes = ledger.MaxBlobBytes

// MaxValues limits the values of one JSON text of evidence, and so the memory for
// reading it: about 100 bytes for each value.
const MaxValues = 1 << 20

// The kinds of evidence blobs.
const (
	KindDecision  = "decision"
	KindPolicySet = "policy-set"
)

// Decided is the evidence of one decision, and the values read from it.
type Decided struct {
	Intent   []byte // the bytes that were read
	Input    []byte // artifact: the input document of the policy
	Decision []byte // artifact: the decision before any execution
	Result   []byte // the RunResult in its printed form
	Policy   ledger.Blob
	Work     *ledger.Work // the record's alone: no blob has it

	RunResult result.RunResult
	Canonical canon.ContentHash
	Answer    Answered
}

// Answered is a policy's decision about an intent, before any execution.
type Answered struct {
	Outcome kernel.Outcome `json:"outcome"`
	Reasons []string       `json:"reasons"`
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

// Blob returns the evidence in its stored form.
func (t Decided) Blob() ([]byte, error) {
	b, _, err := canon.Artifact(decisionBlob{
		Version, KindDecision, base64.StdEncoding.EncodeToString(t.Intent), string(t.Input), string(t.Decision), string(t.Result), t.Policy,
	})
	return b, err
}

// Record returns the ledger's record of the decision.
func (t Decided) Record(evidence ledger.Blob) (ledger.Record, error) {
	_, provenance, err := canon.Artifact(t.RunResult.PolicyProvenance)
	r := ledger.Record{
		Kind: ledger.KindDecision, RunID: t.RunResult.RunID, IntentSHA256: canon.Sum(t.Intent),
		ExecutionMode: t.RunResult.ExecutionMode, Mode: t.RunResult.ModelMode,
		Policy: t.RunResult.Policy.Name, PolicySHA256: provenance, InputSHA256: canon.Sum(t.Input), Kernel: t.RunResult.KernelVersion,
		ResultKind: string(t.RunResult.KernelResultKind), Accepted: t.RunResult.Decision.Accepted, Reasons: ledger.Reasons(t.RunResult.Decision.Reasons),
		DecisionSHA256: canon.Sum(t.Decision), CanonicalSHA256: t.Canonical, ResultSHA256: canon.Sum(t.Result), Evidence: evidence, Work: t.Work,
	}
	if t.RunResult.Bundle != nil {
		r.BundleSHA256 = t.RunResult.Bundle.SHA256
	}
	return r, err
}

// DecisionDocument is a decision before any execution.
type DecisionDocument struct {
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

// DocumentOf returns the document of a decision.
func DocumentOf(d kernel.Decision) DecisionDocument {
	doc := DecisionDocument{
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

// PolicyBlob returns the blob of the policy that a gate decides by.
func PolicyBlob(f policy.Frozen, base string, builtin bool) ([]byte, error) {
	profile, _, err := canon.Artifact(f.Profile)
	if err != nil {
		return nil, err
	}
	set := policySetDocument{Version, KindPolicySet, base, builtin, string(profile), make([]layerDocument, len(f.Layers)), f.Capabilities}
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

// PolicySet is a policy set that was read: the policy, and the profile that a gate of it
// is named after.
type PolicySet struct {
	policy.Frozen
	Base       string
	Builtin    bool
	Provenance canon.ContentHash
}

// ReadPolicySet reads a policy set. The result gives the same bytes again. The error is
// a *Fault, a *ReadError, or the error of a schema that cannot be used.
func ReadPolicySet(read func(ledger.Blob) ([]byte, error), set *specs.Set, b ledger.Blob) (*PolicySet, error) {
	doc, err := fetch(read, set, b, KindPolicySet, &policySets)
	if err != nil {
		return nil, err
	}
	return thaw(doc, b)
}

func thaw(doc *policySetDocument, b ledger.Blob) (*PolicySet, error) {
	f := policy.Frozen{Capabilities: doc.Capabilities}
	var err error
	if f.Profile, err = profile.ReadFrozen([]byte(doc.Profile)); err != nil {
		return nil, Corrupt(KindPolicySet, "/profile", err.Error())
	}
	for i, layer := range doc.Layers {
		l, ok := layer.thaw()
		if !ok {
			return nil, Corrupt(KindPolicySet, "/layers/"+strconv.Itoa(i), "a module is not base64")
		}
		f.Layers = append(f.Layers, l)
	}
	set := &PolicySet{Frozen: f, Base: doc.Base, Builtin: doc.Builtin}
	if again, err := PolicyBlob(f, set.Base, set.Builtin); err != nil || canon.Sum(again) != b.SHA256 {
		return nil, Corrupt(KindPolicySet, "/layers", "a module does not have the hash that stands beside it, or is not written as it must be")
	}
	p, err := f.Provenance()
	if err != nil {
		return nil, Corrupt(KindPolicySet, "", "it has no digests")
	}
	if _, set.Provenance, err = canon.Artifact(p); err != nil {
		return nil, Corrupt(KindPolicySet, "", "it has no digests")
	}
	return set, nil
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

// What is wrong with evidence.
const (
	StatusMissing = "EVIDENCE-MISSING" // a blob is missing
	StatusCorrupt = "EVIDENCE-CORRUPT" // a blob differs from the record, or contradicts itself
)

// Fault describes wrong evidence: a blob is missing, or differs from the recorded one.
type Fault struct {
	Status     string // StatusMissing or StatusCorrupt
	Document   string
	Difference result.Difference
	Detail     string
}

// Error returns the message.
func (f *Fault) Error() string { return f.Document + ": " + f.Detail }

// Corrupt returns the fault of evidence that is there and wrong.
func Corrupt(document, pointer, detail string) *Fault {
	return &Fault{StatusCorrupt, document, result.Difference{Pointer: pointer}, detail}
}

// ReadError says that evidence could not be read, so that nothing is known about it.
type ReadError struct {
	Msg string
	Err error
}

// Error returns the message.
func (e *ReadError) Error() string { return e.Msg + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// The readers of the documents of evidence.
var (
	decisionBlobs    canon.Decoder[decisionBlob]
	policySets       canon.Decoder[policySetDocument]
	decidedDocuments canon.Decoder[DecisionDocument]
)

// fetch reads a blob, and checks its name, its size and its schema. The error is a
// *Fault, a *ReadError, or the error of a schema that cannot be used.
func fetch[T any](read func(ledger.Blob) ([]byte, error), set *specs.Set, b ledger.Blob, kind string, reader *canon.Decoder[T]) (*T, error) {
	if b.Size > MaxBlobBytes {
		return nil, Corrupt(kind, "", "the record gives the evidence "+strconv.FormatInt(b.Size, 10)+" bytes; the limit is "+strconv.Itoa(MaxBlobBytes))
	}
	text, err := read(b)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Fault{StatusMissing, kind, result.Difference{}, string(b.SHA256) + " is not there"}
	case err != nil:
		return nil, &ReadError{"evidence " + string(b.SHA256) + " could not be read", err}
	case int64(len(text)) != b.Size || canon.Sum(text) != b.SHA256:
		return nil, Corrupt(kind, "", "the bytes of "+string(b.SHA256)+" are not those that this name promises")
	}
	doc, err := Parse(text, MaxBlobBytes)
	if err != nil {
		return nil, Corrupt(kind, "", err.Error())
	}
	violations, err := set.Validate(specs.KindEvidence, doc.Value())
	if err != nil {
		return nil, err
	}
	if len(violations) > 0 {
		return nil, Corrupt(kind, violations[0].Pointer, violations[0].Msg)
	}
	if doc.Value().(map[string]any)["kind"] != kind {
		return nil, Corrupt(kind, "/kind", "the evidence is of another kind")
	}
	blob, err := reader.Decode(doc.Value())
	if err != nil {
		return nil, Corrupt(kind, "", err.Error())
	}
	return blob, nil
}

// Parse reads a text. The text must be canonical JSON and one LF, and within the
// limits.
func Parse(text []byte, limit int) (canon.Document, error) {
	if canon.Crowded(text, MaxValues) {
		return canon.Document{}, errors.New("more than " + strconv.Itoa(MaxValues) + " values")
	}
	doc, err := canon.Parse(text, limit)
	if err == nil && !bytes.Equal(append(bytes.Clone(doc.Bytes()), '\n'), text) {
		err = errors.New("not canonical JSON and one LF")
	}
	return doc, err
}

// Read reads the evidence of a record, and compares every hash and every member with the
// record. Its error is like that of ReadPolicySet.
func Read(read func(ledger.Blob) ([]byte, error), set *specs.Set, rec ledger.Record) (Decided, error) {
	doc, err := fetch(read, set, rec.Evidence, KindDecision, &decisionBlobs)
	if err != nil {
		return Decided{}, err
	}
	t, err := readDecided(doc)
	if err != nil {
		return Decided{}, err
	}
	t.Work = rec.Work
	told, err := t.Record(rec.Evidence)
	if err != nil {
		return Decided{}, Corrupt("result", "/policy_provenance", "it has no canonical form")
	}
	told.Timestamp, told.ClockBehindMS, told.Submitter = rec.Timestamp, rec.ClockBehindMS, rec.Submitter
	a, err := rec.Entry()
	if err != nil {
		return Decided{}, &ReadError{"the record cannot be replayed", err}
	}
	b, err := told.Entry()
	if err != nil {
		return Decided{}, Corrupt("result", "", "it says what no record can say: "+err.Error())
	}
	if !bytes.Equal(a, b) {
		f := Corrupt("record", "", "the record and its evidence disagree")
		f.Difference = FirstDifference(a, b)
		return Decided{}, f
	}
	if t.Answer.Outcome != t.RunResult.KernelResultKind {
		return Decided{}, Corrupt("decision", "/outcome", "the decision and the result disagree")
	}
	return t, nil
}

// readDecided reads a decision blob that fits its schema.
func readDecided(doc *decisionBlob) (t Decided, err error) {
	t = Decided{Input: []byte(doc.Input), Decision: []byte(doc.Decision), Result: []byte(doc.Result), Policy: doc.Policy}
	if t.Intent, err = base64.StdEncoding.Strict().DecodeString(doc.Intent); err != nil {
		return t, Corrupt(KindDecision, "/intent_base64", "not base64")
	}
	if t.Answer, err = readAnswer(t.Decision); err != nil {
		return t, Corrupt("decision", "", err.Error())
	}
	if t.RunResult, t.Canonical, err = ReadResult(t.Result); err != nil {
		return t, Corrupt("result", "", err.Error())
	}
	return t, nil
}

func readAnswer(decision []byte) (Answered, error) {
	doc, err := Parse(decision, MaxBlobBytes)
	if err != nil {
		return Answered{}, err
	}
	d, err := decidedDocuments.Decode(doc.Value())
	if err != nil {
		return Answered{}, err
	}
	if d.Outcome == "" || d.Reasons == nil {
		return Answered{}, errors.New("it has no outcome or no reasons")
	}
	return Answered{Outcome: d.Outcome, Reasons: d.Reasons}, nil
}

// ReadResult reads a RunResult in its printed form, and computes the hash of its
// canonical subset. The RunResult must fulfil RS1..RS8, and have no other members than a
// RunResult has.
func ReadResult(text []byte) (result.RunResult, canon.ContentHash, error) {
	if canon.Crowded(text, MaxValues) {
		return result.RunResult{}, "", errors.New("more than " + strconv.Itoa(MaxValues) + " values")
	}
	var res result.RunResult
	if err := json.Unmarshal(text, &res); err != nil {
		return result.RunResult{}, "", errors.New("not a RunResult")
	}
	doc, unsound := result.Sound(text, &res.Policy)
	if unsound != nil {
		return result.RunResult{}, "", errors.New(unsound.Error())
	}
	if again, err := res.Bytes(); err != nil || !bytes.Equal(again, text) {
		return result.RunResult{}, "", errors.New("not a RunResult of this version")
	}
	sum, failed := result.Digest(doc.Value().(map[string]any))
	return res, sum, failed
}

// FirstDifference returns the first place at which two JSON texts differ. If one text
// cannot be read, the place is the whole document.
func FirstDifference(a, b []byte) result.Difference {
	read := func(text []byte) any {
		if canon.Crowded(text, MaxValues) {
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
