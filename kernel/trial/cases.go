package trial

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/text"
)

// CaseSuffix follows the id of a case in the name of its file.
const CaseSuffix = ".json"

// Case is one case of a suite.
type Case struct {
	ID, Title, Suite string
	Input            any // user, and perhaps context
	Expected         any // nil: nothing but what is always judged
	Metadata         any
	Severity         string // critical, high, medium, low, or empty
	Tags             []string
	Idempotent       bool     // the agent may be asked again after a request that may have acted
	NotJudged        []string // members of Expected that other evaluators judge, sorted
}

// Cases are the cases of a suite, in the order of the document.
type Cases []Case

// CasesError says which case or which selection is wrong, and what to do.
type CasesError struct {
	Pointer string // JSON Pointer of the place in the document; empty: the whole, or a selection
	Msg     string
	Hint    string
}

// Error returns the message and the hint.
func (e *CasesError) Error() string { return e.Msg + ": " + e.Hint }

// notJudged are the members of expected that belong to other evaluators.
const notJudged = text.Words("assumption_state planning_gate repl_policy semantic tool_telemetry")

// ReadCases reads the cases of a decoded document that fits its schema: a list of cases, or
// an object with the member cases. The error is always a *CasesError, about the first case that
// is wrong.
func ReadCases(value any) (Cases, error) {
	list, plain := value.([]any)
	at := ""
	if !plain {
		doc, _ := value.(map[string]any)
		list, _ = doc["cases"].([]any)
		at = "/cases"
	}
	if len(list) == 0 {
		return nil, &CasesError{at, "there is no case", "write at least one case"}
	}
	cases := make(Cases, len(list))
	first := make(map[string]int, len(list))
	for i, one := range list {
		c := readCase(one)
		folded := strings.ToLower(c.ID)
		j, twice := first[folded]
		what, hint := IDFault(c.ID), "choose another id: the result of the case is the file ID.json"
		switch {
		case what != "":
		case Reserved(folded):
			what = "is the name of another file of a run"
		case twice && cases[j].ID == c.ID:
			what, hint = "is the id of the case "+at+"/"+strconv.Itoa(j), "give each case an id of its own"
		case twice:
			what, hint = "differs from "+canon.Quote(cases[j].ID)+" in case alone", "give each case an id of its own"
		}
		if what != "" {
			return nil, &CasesError{at + "/" + strconv.Itoa(i) + "/id", "the id " + canon.Quote(c.ID) + " " + what, hint}
		}
		first[folded], cases[i] = i, c
		if err := patterns(c, at+"/"+strconv.Itoa(i)+"/expected"); err != nil {
			return nil, err
		}
	}
	return cases, nil
}

// Regex comes before a text of must_include and must_not_include that is a pattern of RE2.
const Regex = "regex:"

// patterns returns an error about the first pattern of a case that does not compile.
func patterns(c Case, at string) error {
	expected, _ := c.Expected.(map[string]any)
	for _, member := range []string{"must_include", "must_not_include"} {
		list, _ := expected[member].([]any)
		for i, one := range list {
			given, _ := one.(string)
			pattern, is := strings.CutPrefix(given, Regex)
			if _, err := regexp.Compile(pattern); is && err != nil {
				pointer := at + "/" + member + "/" + strconv.Itoa(i)
				return &CasesError{pointer, "the pattern cannot be used: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "), "write a pattern of RE2, or a text without " + Regex}
			}
		}
	}
	return nil
}

func readCase(value any) Case {
	obj, _ := value.(map[string]any)
	metadata, _ := obj["metadata"].(map[string]any)
	expected, _ := obj["expected"].(map[string]any)
	c := Case{
		ID: TextOf(obj, "id"), Title: TextOf(obj, "title"), Suite: TextOf(obj, "suite"),
		Input: obj["input"], Expected: obj["expected"], Metadata: obj["metadata"],
		Severity: TextOf(metadata, "severity"),
	}
	c.Idempotent, _ = metadata["idempotent"].(bool)
	tags, _ := metadata["tags"].([]any)
	for _, tag := range tags {
		if tag, ok := tag.(string); ok {
			c.Tags = append(c.Tags, tag)
		}
	}
	for _, name := range canon.Names(expected) {
		if notJudged.Has(name) {
			c.NotJudged = append(c.NotJudged, name)
		}
	}
	return c
}

// TextOf returns a member that is a text, or "".
func TextOf(obj map[string]any, name string) string {
	s, _ := obj[name].(string)
	return s
}

// IDFault says why the id of a case or of a run cannot be the name of a file on every system, or
// returns "".
func IDFault(id string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	switch {
	case id == "" || len(id) > 128 || strings.Trim(id, letters+"._-") != "" || !strings.Contains(letters, id[:1]):
		return "is not 1 to 128 letters, digits, dots, underscores and hyphens that begin with a letter or a digit"
	case strings.HasSuffix(id, "."):
		return "ends in a dot, which Windows drops"
	case pathname.Inspect(id).Fault != "":
		return "is the name of a device on Windows"
	}
	return ""
}

// Reserved says whether ID.json is a file that is no case.
func Reserved(id string) bool {
	return slices.Contains([]string{RunFile, EvaluationFile, SignatureFile}, id+CaseSuffix)
}

// Select returns the cases that have one of the ids and one of the tags, in the order of
// the document. An empty list of ids or of tags demands nothing. An id or a tag that no case has
// is an error, and so is a selection without a case. The error is always a *CasesError.
func (c Cases) Select(only, tags []string) ([]Case, error) {
	ids, known := make([]string, len(c)), []string{}
	for i, one := range c {
		ids[i] = one.ID
		known = append(known, one.Tags...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if err := missing("id", only, ids); err != nil {
		return nil, err
	}
	if err := missing("tag", tags, known); err != nil {
		return nil, err
	}
	var list []Case
	for _, one := range c {
		tagged := func(tag string) bool { return slices.Contains(one.Tags, tag) }
		if (len(only) == 0 || slices.Contains(only, one.ID)) && (len(tags) == 0 || slices.ContainsFunc(tags, tagged)) {
			list = append(list, one)
		}
	}
	if len(list) == 0 {
		return nil, &CasesError{"", "no case is selected", "no case has one of these ids and one of these tags"}
	}
	return list, nil
}

// missing returns an error about the first name that is not known.
func missing(what string, names, known []string) error {
	for _, name := range names {
		if slices.Contains(known, name) {
			continue
		}
		hint := "the " + what + "s stand in the document of the cases"
		if near := text.Nearest(name, known, nil); near != "" {
			hint = "did you mean " + canon.Quote(near) + "?"
		}
		return &CasesError{"", "no case has the " + what + " " + canon.Quote(name), hint}
	}
	return nil
}
