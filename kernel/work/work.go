// Package work owns the rules of work items: their documents, the order of a plan, the intent
// of an item, how large a change is, and what admits it (specs/work.md). It performs nothing.
//
// ReadPlan and ReadAgents read decoded documents (canon.Document.Value) that fit their schemas
// in package specs. They return a *Fault for what no schema can find.
package work

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
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

// Error returns the message, behind the pointer if there is one.
func (f *Fault) Error() string { return strings.TrimPrefix(f.Pointer+": "+f.Msg, ": ") }

// Constraints bound what one item may do.
type Constraints struct {
	MaxFiles     int `json:"max_files"`
	MaxToolOps   int `json:"max_tool_ops"`
	MaxDeltaSize int `json:"max_delta_size"`
	TimeoutMS    int `json:"timeout_ms"`
}

// Item is the document of a work item, with its defaults filled in.
type Item struct {
	ID            string      `json:"id,omitempty"`
	AgentID       string      `json:"agent_id"`
	Description   string      `json:"description,omitempty"`
	Dependencies  []string    `json:"dependencies,omitzero"` // ids, each once
	Constraints   Constraints `json:"constraints"`
	Budget        any         `json:"budget,omitempty"`       // as it was given; it decides nothing
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

// plan is the form of a document that has a version.
type plan struct {
	Version string   `json:"plan_version"`
	Items   []any    `json:"items"`
	Scratch []string `json:"scratch"`
}

var (
	planDecoder canon.Decoder[plan]
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
func ReadPlan(value any) (p Plan, err error) {
	doc, at := plan{Items: []any{value}}, ""
	object, _ := value.(map[string]any)
	if list, bare := value.([]any); bare {
		doc.Items = list
	} else if _, several := object["items"]; several {
		at = "/items"
		if err := decode(&planDecoder, &doc, "", value); err != nil {
			return p, err
		}
	} else {
		p.One = true
	}
	if n := len(doc.Items); n > MaxItems {
		return p, fault(at, "the plan has "+strconv.Itoa(n)+" items, and may have "+strconv.Itoa(MaxItems), "split the plan")
	}
	if p.Scratch, err = readGlobs("/scratch", doc.Scratch); err != nil {
		return p, err
	}
	for k, one := range doc.Items {
		here := element(at, k)
		if p.One {
			here = ""
		}
		item, err := readItem(here, one)
		if err != nil {
			return p, err
		}
		p.Items = append(p.Items, item)
	}
	return p, p.idFault()
}

// readItem reads one item.
func readItem(at string, value any) (Item, error) {
	const ms = 300_000
	i := Item{Constraints: Constraints{MaxFiles: 10, MaxToolOps: 50, MaxDeltaSize: 100, TimeoutMS: ms}, TestTimeoutMS: ms, at: at}
	if err := decode(&itemDecoder, &i, at, value); err != nil {
		return i, err
	}
	object, _ := value.(map[string]any)
	constraints, _ := object["constraints"].(map[string]any)
	i.given = canon.Names(object, constraints)
	i.readTest()
	if err := i.readPaths(); err != nil {
		return i, err
	}
	return i, i.intentFault()
}

// readPaths makes files clean and relative, and looks at globs.
func (i *Item) readPaths() (err error) {
	for _, m := range []struct {
		name string
		list *[]string
		read func(at string, list []string) ([]string, error)
	}{
		{"/input_files", &i.InputFiles, readFiles}, {"/output_files", &i.OutputFiles, readFiles},
		{"/allow", &i.Allow, readGlobs}, {"/protect", &i.Protect, readGlobs},
	} {
		if m.list == &i.Allow && i.Allow == nil {
			continue
		}
		if *m.list, err = m.read(i.at+m.name, *m.list); err != nil {
			return err
		}
	}
	return nil
}

// readFiles returns paths relative to the tree, each once. A leading slash is the tree's root.
func readFiles(at string, list []string) ([]string, error) {
	files := []string{}
	known := map[string]bool{}
	for k, given := range list {
		path := strings.TrimPrefix(pathname.Clean(given), "/")
		view := pathname.Inspect(path)
		switch {
		case view.Fault != "" || strings.HasSuffix(given, "/"):
			return nil, fault(element(at, k), canon.Quote(given)+" is no path of a file in the tree ("+cmp.Or(view.Fault, finding.PathForm)+")", "name a file relative to the tree, without ..")
		case view.Control != "" || path == Trace:
			return nil, fault(element(at, k), canon.Quote(given)+" is no file of a work item, because of "+cmp.Or(view.Control, path), "leave it out")
		case !known[path]:
			known[path] = true
			files = append(files, path)
		}
	}
	return files, nil
}

// readGlobs returns patterns without a leading slash, which is the tree's root.
func readGlobs(at string, list []string) ([]string, error) {
	globs := []string{}
	for k, given := range list {
		glob := strings.TrimPrefix(given, "/")
		segments := strings.Split(glob, "/")
		if slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." }) || strings.Contains(glob, `\`) || strings.ContainsFunc(glob, text.IsHostile) {
			return nil, fault(element(at, k), canon.Quote(given)+" matches no path in the tree", "write names between single slashes, with *, ** and ?; NAME/** is all that a folder holds")
		}
		globs = append(globs, glob)
	}
	return globs, nil
}

// readTest reads the test as an argv. A blank text gives an argv that no intent may have.
func (i *Item) readTest() {
	switch given := i.TestText.(type) {
	case string:
		i.Test = strings.Split(given, " ")
		special := func(word string) bool { return word == "" || strings.Trim(word, wordBytes) != "" }
		if slices.ContainsFunc(i.Test, special) && strings.TrimSpace(given) != "" {
			i.Test = []string{"sh", "-c", given}
		}
	case []any:
		for _, word := range given {
			s, _ := word.(string) // the schema has nothing else
			i.Test = append(i.Test, s)
		}
	}
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
		at, limit string
		value     *int
		most      int
	}{
		{"/constraints/max_files", "max_output_files", &i.Constraints.MaxFiles, maxOutputFiles},
		{"/constraints/timeout_ms", "timeout_ms", &i.Constraints.TimeoutMS, timeoutMS},
		{"/test_timeout_ms", "timeout_ms", &i.TestTimeoutMS, timeoutMS},
	} {
		most := strconv.Itoa(m.most)
		if *m.value > m.most && slices.Contains(i.given, m.at[strings.LastIndexByte(m.at, '/')+1:]) {
			return i, fault(i.at+m.at, strconv.Itoa(*m.value)+" is more than the profile's "+m.limit+", "+most, "ask for "+most+" at most, or use a profile that allows more")
		}
		*m.value = min(*m.value, m.most)
	}
	return i, nil
}
