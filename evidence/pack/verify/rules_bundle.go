package verify

import (
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// bundleRules checks the rules for a bundle.json that is an object, even if the outcome
// is REFUSE. A node is root_node, or an element of terminal_nodes.
//
//	BS1  schema_version is a text and not empty
//	BS3  outputs is a list of objects; path of each is a text, and not before that of the
//	     one ahead of it
//	BS4  root_node and each of terminal_nodes is an object; constraints of it is a list of
//	     texts in ascending order; so is source_constraints of each output that has it
//	BS5  unresolved_questions of the bundle and of each node is a list of objects with
//	     priority, a whole number, and id, a text; by priority, the highest first, then id
//	BS6  terminal_nodes is a list of objects; id of each is a text, and not before that of
//	     the one ahead of it
//	BS7  path of an output does not begin with a slash or a letter and a colon, and has no
//	     segment ".." and no backslash
//	BS8  reading and writing the document loses nothing (roundTrip)
//
// Texts are in the order of UTF-16 code units. There is no BS2 at this level.
func (v *verifier) bundleRules() {
	bundle := v.object(pack.BundleFile)
	if bundle == nil {
		return
	}
	v.must(text(bundle, "schema_version") != "", "BS1", pack.BundleFile+"#/schema_version", "missing or empty")
	v.bundleOutputs(bundle)
	v.questions(bundle, "unresolved_questions")
	v.node(bundle["root_node"], "root_node")
	v.sortedBy("id", "BS6", bundle, "terminal_nodes", func(i string, node map[string]any) { v.node(node, "terminal_nodes", i) })
	fault := v.doc(pack.BundleFile).roundTrip()
	v.must(fault == "", "BS8", pack.BundleFile, "%s", fault)
}

func (v *verifier) bundleOutputs(bundle map[string]any) {
	v.sortedBy("path", "BS3", bundle, "outputs", func(i string, out map[string]any) {
		if _, ok := out["source_constraints"]; ok {
			v.sortedTexts("BS4", pack.BundleFile, out, "outputs", i, "source_constraints")
		}
		path := text(out, "path")
		if fault := outputPathFault(path); fault != "" {
			v.add("BS7", pack.At(pack.BundleFile, "outputs", i, "path"), "%s %s", pack.Quoted(path), fault)
		}
	})
}

// sortedBy notes a violation of a rule if a member of the bundle is no list of objects in
// ascending order of a text in them. It calls each for every object.
func (v *verifier) sortedBy(text, rule string, bundle map[string]any, member string, each func(i string, obj map[string]any)) {
	list, ok := bundle[member].([]any)
	if !ok {
		v.add(rule, pack.At(pack.BundleFile, member), "missing or not a list")
		return
	}
	last := ""
	for i, one := range list {
		obj, ok := one.(map[string]any)
		if !ok {
			v.add(rule, pack.At(pack.BundleFile, member, strconv.Itoa(i)), "not an object")
			continue
		}
		each(strconv.Itoa(i), obj)
		s, ok := obj[text].(string)
		switch {
		case !ok:
			v.add(rule, pack.At(pack.BundleFile, member, strconv.Itoa(i), text), "missing or not a text")
			continue
		case canon.Compare(last, s) > 0:
			v.add(rule, pack.At(pack.BundleFile, member, strconv.Itoa(i), text), "%s stands behind %s", pack.Quoted(s), pack.Quoted(last))
		}
		last = s
	}
}

// outputPathFault says why a path breaks BS7, or returns "".
func outputPathFault(path string) string {
	switch {
	case pack.IsAbsolute(path):
		return "is absolute"
	case strings.Contains(path, `\`):
		return "has a backslash"
	case pack.HasParent(path):
		return `has a ".." segment`
	}
	return ""
}

// node checks BS4 and BS5 for a node at a place.
func (v *verifier) node(value any, path ...string) {
	node, ok := value.(map[string]any)
	if !ok {
		v.add("BS4", pack.At(pack.BundleFile, path...), "missing or not an object")
		return
	}
	v.sortedTexts("BS4", pack.BundleFile, node, append(path[:len(path):len(path)], "constraints")...)
	v.questions(node, append(path[:len(path):len(path)], "unresolved_questions")...)
}

// questions checks BS5 for the list at a place.
func (v *verifier) questions(holder map[string]any, path ...string) {
	list, ok := holder["unresolved_questions"].([]any)
	if !ok {
		v.add("BS5", pack.At(pack.BundleFile, path...), "missing or not a list")
		return
	}
	var last struct {
		priority int64
		id       string
		known    bool
	}
	for i, one := range list {
		question, _ := one.(map[string]any)
		priority, hasPriority := canon.Whole(question["priority"])
		id, hasID := question["id"].(string)
		switch {
		case !hasPriority || !hasID:
			v.add("BS5", pack.At(pack.BundleFile, path...)+"/"+strconv.Itoa(i), "not an object with a priority and an id")
		case last.known && priority > last.priority:
			v.add("BS5", pack.At(pack.BundleFile, path...)+"/"+strconv.Itoa(i), "priority %d stands behind %d", priority, last.priority)
		case last.known && priority == last.priority && canon.Compare(last.id, id) > 0:
			v.add("BS5", pack.At(pack.BundleFile, path...)+"/"+strconv.Itoa(i), "%s stands behind %s", pack.Quoted(id), pack.Quoted(last.id))
		}
		last.priority, last.id, last.known = priority, id, hasPriority && hasID
	}
}
