package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/lazy"
)

// Names returns the names of the built-in profiles, from narrow to wide. A profile that
// is not built in cannot have one of these names.
func Names() []string { return []string{"strict", "default", "dev"} }

// PackageName returns the last part of the Rego package of a profile or layer with this name.
func PackageName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Modules returns the names of the built-in modules and of their records, sorted.
func Modules() []string { return modules.Get() }

var modules = lazy.Value[[]string]{Make: func() []string {
	names, _ := fs.Glob(files, "builtin/*.rego")
	return append(names, RecordsModule)
}}

// RecordsModule is the name of the records of the built-in policy among its modules.
const RecordsModule = "builtin/records.json"

// Record says what a finding means. The records of a policy are in one object, by the code
// of the finding. Several codes can have one ID: one of their records has the title, the
// description and the other members about the ID, and the others have only texts and a
// severity.
type Record struct {
	ID          string   `json:"id"`          // of the answers
	Title       string   `json:"title"`       // the refuse_reason of a denial
	Description string   `json:"description"` // why a question is asked
	Severity    string   `json:"severity"`    // deny, clarify or note, where the profile does not choose
	Text        string   `json:"text"`        // of a denial or a note; it can have {value}, {place}, {other} and {list}
	Question    string   `json:"question"`    // the same for a question; with it, a profile can choose the severity
	List        string   `json:"list"`        // the member of the profile that {list} shows
	Options     []string `json:"options"`     // answers to the question; without them the answer is free
	Priority    *int     `json:"priority"`    // of the question, 0 to 100; nil is the usual priority
	Answerable  bool     `json:"answerable"`  // an answer in the intent settles the question
	Settling    []string `json:"settling"`    // the options that do; without them each does
	Needs       string   `json:"needs"`       // what settles the question otherwise: policy, or the usual intent
	Fix         string   `json:"fix"`
	Since       string   `json:"since"` // first version of the policy that has the rule
}

// maxRecords is the greatest size of a file of records, in bytes.
const maxRecords = 1 << 20

var recordFiles canon.Decoder[struct {
	Records map[string]Record `json:"records"`
}]

// ReadRecords reads a file of records, and returns its document too. An error names the
// place in the file.
func ReadRecords(src []byte) (byCode map[string]Record, doc map[string]any, err error) {
	parsed, err := canon.Parse(src, maxRecords)
	if err != nil {
		return nil, nil, err
	}
	file, err := recordFiles.Decode(parsed.Value())
	if err != nil {
		return nil, nil, err
	}
	titles := map[string]bool{}
	for _, code := range slices.Sorted(maps.Keys(file.Records)) {
		r := file.Records[code]
		if what := r.fault(titles[r.ID]); what != "" {
			return nil, nil, fmt.Errorf("%s: %s", canon.Pointer("/records", code), what)
		}
		titles[r.ID] = titles[r.ID] || r.Title != ""
	}
	for code, r := range file.Records {
		if !titles[r.ID] {
			return nil, nil, fmt.Errorf("%s: no record of %q has a title", canon.Pointer("/records", code), r.ID)
		}
	}
	if len(file.Records) == 0 {
		return nil, nil, errors.New("it has no record")
	}
	doc, _ = parsed.Value().(map[string]any)
	return file.Records, doc, nil
}

// fault says what is wrong with a record, or returns "". titled says whether another record
// of its ID has the title.
func (r Record) fault(titled bool) string {
	about := r.Title != "" || r.Description != "" || r.Fix != "" || r.Since != "" || r.Priority != nil || len(r.Options) > 0 ||
		r.Answerable || len(r.Settling) > 0 || r.Needs != ""
	switch {
	case r.Text == "":
		return "it has no text"
	case r.Severity != "deny" && r.Severity != "clarify" && r.Severity != "note":
		return "severity is neither deny nor clarify nor note"
	case r.Severity != "deny" && r.Question == "":
		return "without a question, severity must be deny"
	case about && (r.Title == "" || r.Description == ""):
		return "it needs a title and a description"
	case about && titled:
		return fmt.Sprintf("another record of %q has a title", r.ID)
	case r.Priority != nil && (*r.Priority < 0 || *r.Priority > 100):
		return "priority is not from 0 to 100"
	case slices.ContainsFunc(r.Settling, func(o string) bool { return !slices.Contains(r.Options, o) }):
		return "settling has what is no option"
	}
	return Settles(r.Question != "", r.Answerable, r.Settling, r.Needs)
}

// Settles says what is wrong with the members of a record about what settles a question,
// or returns "". asks says whether the record belongs to a rule that asks.
func Settles(asks, answerable bool, settling []string, needs string) string {
	switch {
	case answerable && !asks:
		return "answerable belongs to a rule that asks a question"
	case len(settling) > 0 && !answerable:
		return "settling belongs to a rule that is answerable"
	case needs != "" && needs != "intent" && needs != "policy":
		return "needs is neither intent nor policy"
	case needs != "" && (answerable || !asks):
		return "needs belongs to a rule that asks a question and is not answerable"
	}
	return ""
}

// Rule is a built-in rule, as its records describe it.
type Rule struct {
	Title string
	Asks  bool // the rule can ask instead of denying
}

// Rules returns the built-in rules by id.
func Rules() map[string]Rule { return rules.Get() }

var rules = lazy.Value[map[string]Rule]{Make: func() map[string]Rule {
	src, _ := fs.ReadFile(files, RecordsModule)
	records, _, _ := ReadRecords(src) // a test proves that there is no error
	rules := map[string]Rule{}
	for _, r := range records {
		rule := rules[r.ID]
		if r.Title != "" {
			rule.Title = r.Title
		}
		rule.Asks = rule.Asks || r.Question != ""
		rules[r.ID] = rule
	}
	return rules
}}
