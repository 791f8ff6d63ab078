package trial

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
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
	Body           map[string]any // members as decoded JSON, numbers as the agent spelt them
	ExtensionsHref string         // of an asset with the members that Body has no place for, or empty
	Normalizations []Repair       // sorted by their pointers
	Unresolved     []Unresolved   // references that lead nowhere, sorted by their pointers
	Assets         []Asset        // each once, in the order of their use
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

// maxFaults is how many faults are named.
const maxFaults = 20

const (
	msgRoot     = "the answer is not an object"
	msgMissing  = "the member is missing"
	msgText     = "not a string"
	msgNumber   = "not a number"
	msgList     = "not an array"
	msgObject   = "not an object"
	msgContent  = "neither a string nor an object"
	msgWord     = "not one of the words that the contract lists"
	msgCase     = "not the case_id of the request"
	msgVersion  = "not the version of the request"
	msgCall     = "an earlier tool_call has this call_id"
	msgResult   = "an earlier tool_result has this call_id"
	msgNames    = "the reference does not have exactly the one identifier of its kind"
	msgNoResult = "no tool_result has this call_id"
	msgNoDoc    = "no retrieval has this doc_id"
	msgNoEvent  = "no event has this index"
	msgNoAsset  = "no asset of this answer has this href or id"
	msgNoJSON   = "the value has no form in JSON"
)

// Normalize makes the body of a case from the decoded answer of an agent. The answer was redacted
// before, and Normalize does not change it. The body is valid if there are no faults. Faults are
// sorted by their pointers. Behind the first 20 stands how many more there are.
func Normalize(answer any, want Want) (Answered, []Fault) {
	sent, ok := answer.(map[string]any)
	if !ok {
		return Answered{}, []Fault{{"", msgRoot}}
	}
	n := &normalizer{want: want, calls: map[string]any{}, results: map[string]bool{}, docs: map[string]bool{}, named: map[string]bool{}, kept: map[[2]string]bool{}}
	root := object{n, "", make(map[string]any, len(sent)), sent}
	extensions := root.sort()
	n.events(root)
	var href string
	if len(extensions) > 0 {
		href = n.keep(KindOther, append(n.content("", extensions), '\n')).Href
	}
	n.actions(root)
	n.final(root)
	slices.SortFunc(n.repairs, func(a, b Repair) int { return canon.Compare(a.Pointer, b.Pointer) })
	slices.SortFunc(n.unresolved, func(a, b Unresolved) int { return canon.Compare(a.Pointer, b.Pointer) })
	slices.SortStableFunc(n.faults, func(a, b Fault) int { return canon.Compare(a.Pointer, b.Pointer) })
	if more := len(n.faults) - maxFaults; more > 0 {
		n.faults = append(n.faults[:maxFaults], Fault{"", strconv.Itoa(more) + " more faults"})
	}
	return Answered{root.members, href, n.repairs, n.unresolved, n.assets}, n.faults
}

// ours says whether a member of a case comes from us alone. What an answer says there is ignored.
func ours(name string) bool {
	switch name {
	case "schema_version", "case_id", "version", "status", "attempts", "extensions_href", "normalizations", "evidence_unresolved":
		return true
	}
	return false
}

// sort puts the members of an answer into the body, and returns those that the body has no place
// for.
func (o object) sort() (extensions map[string]any) {
	extensions = make(map[string]any)
	for name, v := range o.sent {
		switch name {
		case "case_id":
			o.same(name, o.n.want.CaseID, msgCase)
		case "version":
			o.same(name, string(o.n.want.Version), msgVersion)
		case "workflow_id", "proposed_actions", "events", "final_output":
			o.members[name] = v
		case "token_usage", "trace_anchor":
			part, whole := fitting(name, v)
			if part != nil {
				o.members[name] = part
			}
			if !whole {
				extensions[name] = v
			}
		default:
			if !ours(name) {
				extensions[name] = v
			}
		}
	}
	o.text("workflow_id", false)
	return extensions
}

// fitting returns the numbers of token_usage, or the short strings of trace_anchor, and whether v is
// no more than that. A trace_anchor may be a short string itself.
func fitting(name string, v any) (part any, whole bool) {
	fits := func(v any) bool {
		_, number := v.(json.Number)
		s, text := v.(string)
		return number && name == "token_usage" || text && len(s) <= 256 && name == "trace_anchor"
	}
	members, ok := v.(map[string]any)
	if !ok {
		if name == "trace_anchor" && fits(v) {
			return v, true
		}
		return nil, false
	}
	kept := make(map[string]any, len(members))
	for name, v := range members {
		if fits(v) {
			kept[name] = v
		}
	}
	return kept, len(kept) == len(members)
}

// normalizer is the state of one call of Normalize.
type normalizer struct {
	want       Want
	count      int                // of the events
	calls      map[string]any     // call_id of a tool_call: its ts
	results    map[string]bool    // call_ids of tool_results
	docs       map[string]bool    // doc_ids of retrievals
	named      map[string]bool    // hrefs and ids of assets
	kept       map[[2]string]bool // kinds and hrefs of assets
	assets     []Asset
	repairs    []Repair
	unresolved []Unresolved
	faults     []Fault
}

func (n *normalizer) fault(at, msg string) { n.faults = append(n.faults, Fault{at, msg}) }

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

// object is an object at a pointer. Names of members are ours and need no escapes in a pointer.
type object struct {
	n       *normalizer
	at      string
	members map[string]any // of the case
	sent    map[string]any // of the answer
}

func (o object) fault(name, msg string) { o.n.fault(o.at+"/"+name, msg) }

// repair sets a member, and notes the rule.
func (o object) repair(name string, v any, rule RepairRule) {
	o.members[name] = v
	o.n.repairs = append(o.n.repairs, Repair{o.at + "/" + name, rule})
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

func (o object) text(name string, must bool) (string, bool) {
	return get[string](o, name, msgText, must)
}

// word returns a string of a closed list.
func (o object) word(name string, must bool, list ...string) (string, bool) {
	s, ok := o.text(name, must)
	if ok && !slices.Contains(list, s) {
		o.fault(name, msgWord)
		return "", false
	}
	return s, ok
}

func (o object) risk(must bool) { o.word("risk_level", must, "high", "medium", "low", "unknown") }

// same makes a fault of a member that is not the text of the request.
func (o object) same(name, text, msg string) {
	if s, ok := o.sent[name].(string); !ok || s != text {
		o.fault(name, msg)
	}
}

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
			o.n.fault(o.at+"/"+name+"/"+strconv.Itoa(i), msgText)
		}
		texts = append(texts, s)
	}
	return texts
}

// objects returns the objects of a list that must be there, and puts them in its place.
func (o object) objects(name string) (objects []object) {
	list := slices.Clone(o.list(name, true))
	for i, v := range list {
		at := o.at + "/" + name + "/" + strconv.Itoa(i)
		if sent, ok := v.(map[string]any); ok {
			members := without(sent)
			list[i] = members
			objects = append(objects, object{o.n, at, members, sent})
		} else {
			o.n.fault(at, msgObject)
		}
	}
	if list != nil {
		o.members[name] = list
	}
	return objects
}

// without returns a copy of an object without the members that name files: a reader of the case would
// take the agent's texts in them for ours. The data of calls, results and outputs keep all members.
func without(members map[string]any) map[string]any {
	kept := make(map[string]any, len(members))
	for name, v := range members {
		switch {
		case name == "args" || name == "params" || name == "payload_summary" || name == "content":
			kept[name] = v
		case !namesFile(name):
			kept[name] = within(v)
		}
	}
	return kept
}

// within returns a value whose objects are without the members that name files.
func within(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return without(v)
	case []any:
		kept := make([]any, len(v))
		for i, element := range v {
			kept[i] = within(element)
		}
		return kept
	}
	return v
}

func namesFile(name string) bool {
	switch name {
	case "path", "dir", "file", "href":
		return true
	}
	return slices.ContainsFunc([]string{"_href", "_path", "_dir", "_file", "_saved_to", "_sha256"}, func(end string) bool { return strings.HasSuffix(name, end) })
}
