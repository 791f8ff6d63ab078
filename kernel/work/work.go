// Package work owns the rules of work items: their documents, the order of a plan, the intent
// of an item, how large a change is, and what admits it (specs/work.md). It performs nothing.
//
// ReadPlan and ReadAgents read decoded documents (canon.Document.Value) and return a *Fault
// for what cannot be used, whether the schema in package specs finds it or not.
package work

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/text"
)

// The limits of a plan.
const (
	MaxItems = 1000
	MaxBytes = 4 << 20 // of the document
)

// Trace is the file at the root of a tree in which an agent notes its tool calls. No state has
// it.
const Trace = ".agent-trace.jsonl"

// Fault says what cannot be used in a document, and where.
type Fault struct {
	Pointer string // JSON Pointer into the document
	Msg     string // lower-case
	Hint    string // what to do, or empty
}

// Error returns the message behind the pointer.
func (f *Fault) Error() string { return f.Pointer + ": " + f.Msg }

// Constraints bound what one item may do.
type Constraints struct {
	MaxFiles     int `json:"max_files"`
	MaxToolOps   int `json:"max_tool_ops"`
	MaxDeltaSize int `json:"max_delta_size"`
	TimeoutMS    int `json:"timeout_ms"`
}

// Budget is what the author expects. It is shown and decides nothing.
type Budget struct {
	TimeEstimateMS *int   `json:"time_estimate_ms,omitempty"`
	Complexity     string `json:"complexity,omitempty"`
}

// Item is the document of a work item, with its defaults filled in.
type Item struct {
	ID            string      `json:"id,omitempty"`
	AgentID       string      `json:"agent_id"`
	Description   string      `json:"description,omitempty"`
	Dependencies  []string    `json:"dependencies,omitzero"` // ids, each once
	Constraints   Constraints `json:"constraints"`
	Budget        *Budget     `json:"budget,omitempty"`
	InputFiles    []string    `json:"input_files"`            // clean and relative to the tree, each once
	OutputFiles   []string    `json:"output_files,omitzero"`  // likewise
	TestText      any         `json:"test_command,omitempty"` // as it was given: a text or a list
	TestTimeoutMS int         `json:"test_timeout_ms"`
	Actions       []any       `json:"actions,omitzero"` // as in an intent; nil: the agent runs
	Allow         []string    `json:"allow,omitzero"`   // globs; nil: everything
	Protect       []string    `json:"protect"`          // globs

	Test []string `json:"-"` // argv; nil: no test

	at    string   // pointer of the item in its document
	given []string // the constraints that the document has, and test_timeout_ms
}

// Plan is the document of a plan.
type Plan struct {
	Items   []Item
	Scratch []string // globs of files that no state has
	One     bool     // the document was a single item
}

// planDocument is the form of a plan that has a version.
type planDocument struct {
	Version string   `json:"plan_version"`
	Items   []any    `json:"items"`
	Scratch []string `json:"scratch"`
}

var (
	planDecoder canon.Decoder[planDocument]
	itemDecoder canon.Decoder[Item]
	itemPlan    canon.Plan[Item]
)

func fault(at, msg, hint string) *Fault { return &Fault{Pointer: canon.Cut(at), Msg: msg, Hint: hint} }

func element(at string, i int) string { return at + "/" + strconv.Itoa(i) }

// decode reads a value into to, which has the defaults.
func decode[T any](d *canon.Decoder[T], to *T, at string, value any) error {
	err := d.Into(to, value)
	if de, ok := err.(*canon.DecodeError); ok {
		return fault(at+de.Pointer, de.Msg, "")
	}
	return err
}

// ReadPlan reads a plan: an item, a list of items, or an object with items. The error is a
// *Fault.
func ReadPlan(value any) (Plan, error) {
	doc, at := planDocument{Version: "1.0.0"}, ""
	object, _ := value.(map[string]any)
	_, several := object["items"]
	list, bare := value.([]any)
	switch {
	case bare:
		doc.Items = list
	case several:
		at = "/items"
		doc.Version = ""
		if err := decode(&planDecoder, &doc, "", value); err != nil {
			return Plan{}, err
		}
	default:
		doc.Items = []any{value}
	}
	p := Plan{One: !bare && !several}
	switch {
	case doc.Version != "1.0.0":
		return Plan{}, fault("/plan_version", "not a version that is known", "write 1.0.0")
	case len(doc.Items) == 0:
		return Plan{}, fault(at, "the plan has no item", "")
	case len(doc.Items) > MaxItems:
		return Plan{}, fault(at, "the plan has "+strconv.Itoa(len(doc.Items))+" items, and may have "+strconv.Itoa(MaxItems), "split the plan")
	}
	var err error
	if p.Scratch, err = readGlobs("/scratch", doc.Scratch); err != nil {
		return Plan{}, err
	}
	for i, one := range doc.Items {
		here := element(at, i)
		if p.One {
			here = ""
		}
		item, err := readItem(here, one)
		if err != nil {
			return Plan{}, err
		}
		p.Items = append(p.Items, item)
	}
	return p, p.fault()
}

// readItem reads one item.
func readItem(at string, value any) (Item, error) {
	i := Item{
		Constraints:  Constraints{MaxFiles: 10, MaxToolOps: 50, MaxDeltaSize: 100, TimeoutMS: defaultTimeoutMS},
		Dependencies: []string{}, TestTimeoutMS: defaultTimeoutMS, at: at,
	}
	if err := decode(&itemDecoder, &i, at, value); err != nil {
		return i, err
	}
	object, _ := value.(map[string]any)
	constraints, _ := object["constraints"].(map[string]any)
	i.given = canon.Names(constraints)
	if _, ok := object["test_timeout_ms"]; ok {
		i.given = append(i.given, "test_timeout_ms")
	}
	for _, check := range []func() error{i.memberFault, i.boundFault, i.readPaths, i.readTest, i.intentFault} {
		if err := check(); err != nil {
			return i, err
		}
	}
	return i, nil
}

const defaultTimeoutMS = 300_000

// memberFault looks at the members that an item must have, and at ids.
func (i *Item) memberFault() error {
	for _, m := range []struct{ name, id string }{{"id", i.ID}, {"agent_id", i.AgentID}} {
		switch {
		case m.id == "":
			return fault(i.at, strconv.Quote(m.name)+" is missing", "")
		case !isID(m.id):
			return fault(i.at+"/"+m.name, canon.Quote(m.id)+" is no id", idHint)
		}
	}
	if i.Description == "" {
		return fault(i.at, `"description" is missing`, "say in a sentence what is to be done")
	}
	for k, id := range i.Dependencies {
		here := element(i.at+"/dependencies", k)
		switch {
		case !isID(id):
			return fault(here, canon.Quote(id)+" is no id", idHint)
		case strings.EqualFold(id, i.ID):
			return fault(here, "the item "+i.ID+" waits for itself", "leave the dependency out")
		}
	}
	if i.Actions != nil && len(i.Actions) == 0 {
		return fault(i.at+"/actions", "the list is empty", "leave it out, and the agent runs")
	}
	if b := i.Budget; b != nil && b.Complexity != "" && !slices.Contains([]string{"low", "medium", "high"}, b.Complexity) {
		return fault(i.at+"/budget/complexity", "not low, medium or high", "")
	}
	return nil
}

const idHint = "begin with a letter or a digit, then use letters, digits, '.', '_' and '-', 128 at most"

// isID says whether a text can be the id of an item or an agent.
func isID(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return s != "" && len(s) <= 128 && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"._-") == ""
}

// boundFault looks at numbers.
func (i *Item) boundFault() error {
	c, ms := i.Constraints, contract.TimeoutMS()
	for _, m := range []struct {
		name             string
		value, low, high int
	}{
		{"/constraints/max_files", c.MaxFiles, 1, 10_000},
		{"/constraints/max_tool_ops", c.MaxToolOps, 0, 100_000},
		{"/constraints/max_delta_size", c.MaxDeltaSize, 0, 1_000_000},
		{"/constraints/timeout_ms", c.TimeoutMS, ms.Min, ms.Max},
		{"/test_timeout_ms", i.TestTimeoutMS, ms.Min, ms.Max},
	} {
		if m.value < m.low || m.value > m.high {
			return fault(i.at+m.name, "not from "+strconv.Itoa(m.low)+" to "+strconv.Itoa(m.high), "")
		}
	}
	return nil
}

// readPaths makes files clean and relative, and looks at globs.
func (i *Item) readPaths() (err error) {
	if i.InputFiles, err = readFiles(i.at+"/input_files", i.InputFiles); err != nil {
		return err
	}
	if i.OutputFiles, err = readFiles(i.at+"/output_files", i.OutputFiles); err != nil {
		return err
	}
	if i.Allow != nil {
		if i.Allow, err = readGlobs(i.at+"/allow", i.Allow); err != nil {
			return err
		}
	}
	i.Protect, err = readGlobs(i.at+"/protect", i.Protect)
	return err
}

// readFiles returns paths relative to the tree, each once. A leading slash is the tree's root.
func readFiles(at string, list []string) ([]string, error) {
	files := make([]string, 0, len(list))
	known := map[string]bool{}
	for k, given := range list {
		path := strings.TrimPrefix(pathname.Clean(given), "/")
		view := pathname.Inspect(path)
		switch {
		case strings.HasSuffix(given, "/") && path != "":
			return nil, fault(element(at, k), canon.Quote(given)+" is a folder", "name files")
		case view.Fault != "":
			return nil, fault(element(at, k), canon.Quote(given)+" is no path of a file in the tree: "+view.Fault, "name a file relative to the tree, without ..")
		case view.Control != "":
			return nil, fault(element(at, k), canon.Quote(given)+" is a control path: "+view.Control, "leave it out; fiador detectors lists control paths")
		case path == Trace:
			return nil, fault(element(at, k), path+" is no part of a state", "leave it out")
		case !known[path]:
			known[path] = true
			files = append(files, path)
		}
	}
	return files, nil
}

// readGlobs returns patterns without a leading slash, which is the tree's root.
func readGlobs(at string, list []string) ([]string, error) {
	globs := make([]string, 0, len(list))
	for k, given := range list {
		glob := strings.TrimPrefix(given, "/")
		segments := strings.Split(glob, "/")
		switch {
		case strings.HasSuffix(glob, "/"):
			return nil, fault(element(at, k), canon.Quote(given)+" matches no file", "write "+canon.Quote(given+"**")+" for all that a folder holds")
		case slices.Contains(segments, "") || slices.Contains(segments, ".") || slices.Contains(segments, "..") || len(glob) > 1024 ||
			strings.Contains(glob, `\`) || strings.ContainsFunc(glob, text.IsHostile):
			return nil, fault(element(at, k), canon.Quote(given)+" matches no path in the tree", "write names between single slashes, with *, ** and ?")
		}
		globs = append(globs, glob)
	}
	return globs, nil
}

// readTest reads the test as an argv.
func (i *Item) readTest() error {
	at := i.at + "/test_command"
	switch given := i.TestText.(type) {
	case nil:
		return nil
	case string:
		if strings.Trim(given, " \t\r\n") == "" {
			return fault(at, "the command is empty", "leave it out for an item without a test")
		}
		i.Test = strings.Split(given, " ")
		if slices.ContainsFunc(i.Test, func(word string) bool { return word == "" || strings.Trim(word, wordBytes) != "" }) {
			i.Test = []string{"sh", "-c", given}
		}
		return nil
	case []any:
		for k, word := range given {
			s, ok := word.(string)
			if !ok {
				return fault(element(at, k), "not a string", "")
			}
			i.Test = append(i.Test, s)
		}
		if len(i.Test) > 0 {
			return nil
		}
	}
	return fault(at, "neither a command nor a list of its words", "")
}

// wordBytes are the bytes of a word that a shell leaves as it is.
const wordBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=@%+,-"

// Bytes returns the canonical JSON of the item and a line feed.
func (i Item) Bytes() ([]byte, error) {
	text, _, err := itemPlan.Artifact(&i)
	return text, err
}

// Key returns Bytes without the members on which what is done does not depend.
func (i Item) Key() ([]byte, error) {
	i.ID, i.Dependencies, i.Budget = "", nil, nil
	return i.Bytes()
}

// Narrow returns the item under the limits of a profile. A default above one yields; a value
// that the document has is a *Fault there.
func (i Item) Narrow(timeoutMS, maxOutputFiles int) (Item, error) {
	for _, m := range []struct {
		name, at, limit string
		value           *int
		most            int
	}{
		{"max_files", "/constraints/max_files", "max_output_files", &i.Constraints.MaxFiles, maxOutputFiles},
		{"timeout_ms", "/constraints/timeout_ms", "timeout_ms", &i.Constraints.TimeoutMS, timeoutMS},
		{"test_timeout_ms", "/test_timeout_ms", "timeout_ms", &i.TestTimeoutMS, timeoutMS},
	} {
		if *m.value <= m.most {
			continue
		}
		if slices.Contains(i.given, m.name) {
			most := strconv.Itoa(m.most)
			return i, fault(i.at+m.at, strconv.Itoa(*m.value)+" is more than the profile's "+m.limit+", "+most, "ask for "+most+" at most, or use a profile that allows more")
		}
		*m.value = m.most
	}
	return i, nil
}
