package trial

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/text"
)

// Want is what an answer has to be for, and how it is read.
type Want struct {
	CaseID       string
	Version      Side
	Limits       Limits
	Strict       bool     // nothing is repaired (--strict-agent)
	WarnEvidence bool     // a reference that leads nowhere is noted, and is no fault (--evidence=warn)
	Redactions   []string // the rules that have redacted the answer, sorted
}

// Answered is what an answer adds to the file of a case.
type Answered struct {
	Body           map[string]any `json:"-"`                             // members as decoded JSON, numbers as the agent spelt them
	ExtensionsHref string         `json:"extensions_href,omitempty"`     // of an asset with the members that Body has no place for
	Normalizations []Repair       `json:"normalizations,omitempty"`      // sorted by their pointers
	Unresolved     []Unresolved   `json:"evidence_unresolved,omitempty"` // references that lead nowhere, sorted by their pointers
	Assets         []Asset        `json:"-"`                             // each once, in the order of their use
}

// Repair says that a value of the case is not what the agent sent.
type Repair struct {
	Pointer string     `json:"pointer"` // into the case
	Rule    RepairRule `json:"rule"`
}

// RepairRule is the name of a repair.
type RepairRule string

// The repairs. A strict reading makes none of them, and finds a fault at each place.
const (
	ListAbsent    RepairRule = "list_absent"       // an absent list is empty
	RiskAbsent    RepairRule = "risk_level_absent" // an absent risk_level is unknown
	StatusTimeout RepairRule = "status_timeout"    // the status timeout is error, with the error_code timeout
	LatencyAbsent RepairRule = "latency_absent"    // an absent latency_ms is the time from the call to its result
	DocID         RepairRule = "doc_id"            // the id of a document is its doc_id
	ContentJSON   RepairRule = "content_json"      // JSON content that is no object is its text
)

// Fault is a place that does not fit.
type Fault struct {
	Pointer string // JSON Pointer into the answer; empty: the whole
	Msg     string // no text of the agent
}

const (
	maxFaults = 20 // that are named

	msgRoot    = "the answer is not an object"
	msgMissing = "the member is missing"
	msgText    = "not a string"
	msgNumber  = "not a number"
	msgList    = "not an array"
	msgObject  = "not an object"
	msgContent = "neither a string nor an object"
	msgWord    = "not a value that is allowed here"
	msgTwin    = "an earlier event of this type has this call_id"
	msgNames   = "the reference does not have exactly the one identifier of its kind"
	msgNothing = "the reference leads to nothing in this answer"
	msgNoJSON  = "the value has no form in JSON"
)

// Normalize makes the body of a case from the decoded answer of an agent. The answer was redacted
// before, and Normalize does not change it. The body is valid if there are no faults. Faults are
// sorted by their pointers. Behind the first 20 stands how many more there are.
func Normalize(answer any, want Want) (Answered, []Fault) {
	sent, ok := answer.(map[string]any)
	if !ok {
		return Answered{}, []Fault{{"", msgRoot}}
	}
	n := &normalizer{want: want, calls: set{}, known: map[string]set{"tool_result": {}, "retrieval_doc": {}, "event": {}, "asset": {}}}
	root, extensions := n.sort(sent)
	n.events(root)
	if len(extensions) > 0 {
		n.ExtensionsHref = n.keep(KindOther, append(n.content("", extensions), '\n')).Href
	}
	n.actions(root)
	n.final(root)
	n.Body = root.members
	slices.SortFunc(n.Normalizations, func(a, b Repair) int { return canon.Compare(a.Pointer, b.Pointer) })
	slices.SortFunc(n.Unresolved, func(a, b Unresolved) int { return canon.Compare(a.Pointer, b.Pointer) })
	slices.SortStableFunc(n.faults, func(a, b Fault) int { return canon.Compare(a.Pointer, b.Pointer) })
	if more := len(n.faults) - maxFaults; more > 0 {
		n.faults = append(n.faults[:maxFaults], Fault{"", strconv.Itoa(more) + " more faults"})
	}
	return n.Answered, n.faults
}

// normalizer is the state of one call of Normalize.
type normalizer struct {
	want   Want
	calls  set            // call_ids of tool_calls, with the ts of each
	known  map[string]set // identifiers that a reference of a kind may have, with the form that is stored
	faults []Fault
	Answered
}

type set map[string]any

func (n *normalizer) fault(at, msg string) { n.faults = append(n.faults, Fault{at, msg}) }

// sort returns the members of an answer that belong to the body, and the others.
func (n *normalizer) sort(sent map[string]any) (root object, extensions map[string]any) {
	root = object{n, "", make(map[string]any, len(sent))}
	extensions = make(map[string]any)
	for name, v := range sent {
		switch name {
		case "schema_version", "case_id", "version", "status", "attempts", "extensions_href", "normalizations", "evidence_unresolved": // ours
		case "workflow_id", "proposed_actions", "events", "final_output":
			root.members[name] = without(v)
		case "token_usage", "trace_anchor":
			fit, all := fitting(name, v)
			if len(fit) > 0 {
				root.members[name] = fit
			}
			if !all {
				extensions[name] = v
			}
		default:
			extensions[name] = v
		}
	}
	object{n, "", sent}.text("case_id", false, n.want.CaseID)
	object{n, "", sent}.text("version", false, string(n.want.Version))
	root.text("workflow_id", false)
	return root, extensions
}

// fitting returns the numbers of token_usage, or the short strings of trace_anchor that name no file,
// and whether the member is an object of these alone.
func fitting(name string, v any) (fit map[string]any, all bool) {
	members, ok := v.(map[string]any)
	fit = make(map[string]any, len(members))
	for k, v := range members {
		_, number := v.(json.Number)
		s, text := v.(string)
		if number && name == "token_usage" || text && len(s) <= 256 && name == "trace_anchor" && !NamesFile(k) {
			fit[k] = v
		}
	}
	return fit, ok && len(fit) == len(members)
}

// object is an object of the case. Names of members are ours and need no escapes in a pointer.
type object struct {
	n       *normalizer
	at      string // its pointer
	members map[string]any
}

func (o object) fault(name, msg string) { o.n.fault(o.at+"/"+name, msg) }

// repair sets a member, and notes the rule.
func (o object) repair(name string, v any, rule RepairRule) {
	o.members[name] = v
	o.n.Normalizations = append(o.n.Normalizations, Repair{o.at + "/" + name, rule})
}

// absent says whether a member is absent and a repair may add it.
func (o object) absent(name string) bool {
	_, there := o.members[name]
	return !there && !o.n.want.Strict
}

// get returns a member of one type. Another type is a fault, and so is a member that must be there
// and is not.
func get[T any](o object, name, msg string, must bool) (T, bool) {
	v, there := o.members[name]
	t, fits := v.(T)
	if there && !fits {
		o.fault(name, msg)
	} else if !there && must {
		o.fault(name, msgMissing)
	}
	return t, fits
}

// text returns a string, which is one of allowed if there are any.
func (o object) text(name string, must bool, allowed ...string) (string, bool) {
	s, ok := get[string](o, name, msgText, must)
	if ok && allowed != nil && !slices.Contains(allowed, s) {
		o.fault(name, msgWord)
		return "", false
	}
	return s, ok
}

func (o object) risk(must bool) { o.text("risk_level", must, "high", "medium", "low", "unknown") }

// list returns a list. A list that must be there and is absent becomes an empty one.
func (o object) list(name string, must bool) []any {
	if must && o.absent(name) {
		o.repair(name, []any{}, ListAbsent)
	}
	list, _ := get[[]any](o, name, msgList, must)
	return list
}

// texts returns the strings of a list.
func (o object) texts(name string, must bool) (texts []string) {
	for i, v := range o.list(name, must) {
		s, ok := v.(string)
		if !ok {
			o.fault(name+"/"+strconv.Itoa(i), msgText)
		}
		texts = append(texts, s)
	}
	return texts
}

// objects returns the objects of a list that must be there.
func (o object) objects(name string) (objects []object) {
	for i, v := range o.list(name, true) {
		at := name + "/" + strconv.Itoa(i)
		members, ok := v.(map[string]any)
		if !ok {
			o.fault(at, msgObject)
			continue
		}
		objects = append(objects, object{o.n, o.at + "/" + at, members})
	}
	return objects
}

// NamesFile says whether a member has the name of one that is a path.
func NamesFile(name string) bool {
	last := name[strings.LastIndexByte(name, '_')+1:]
	return slices.Contains([]string{"path", "dir", "file", "href"}, last) || strings.HasSuffix(name, "_saved_to")
}

// Data are the members whose values are data of an agent or of a caller: no member in them names a
// file of ours.
const Data = text.Words("args content headers params payload payload_summary provenance")

// without returns a copy of a value without the members that name files, except in data: a reader of
// the case would take the agent's texts in them for ours.
func without(v any) any {
	switch v := v.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, member := range v {
			if Data.Has(name) {
				kept[name] = member
			} else if !NamesFile(name) && !strings.HasSuffix(name, "_sha256") {
				kept[name] = without(member)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, element := range v {
			kept[i] = without(element)
		}
		return kept
	}
	return v
}

// content returns the bytes of a string, or the JSON text of another value.
func (n *normalizer) content(at string, v any) []byte {
	if s, ok := v.(string); ok {
		return []byte(s)
	}
	text, err := canon.Literal(v)
	if err != nil {
		n.fault(at, msgNoJSON)
	}
	return text
}

// keep adds an asset, unless the answer has it already.
func (n *normalizer) keep(kind Kind, content []byte) Asset {
	a := NewAsset(kind, content)
	known, id := n.known["asset"], a.ID(n.want.CaseID)
	if known[id] == nil || known[a.Href] == nil {
		known[id], known[a.Href] = id, a.Href
		n.Assets = append(n.Assets, a)
	}
	return a
}
