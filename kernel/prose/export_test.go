package prose

import "strings"

// Tables returns the lists of both detectors of this package by name.
func Tables() map[string][]string {
	return map[string][]string{"placeholder_words": placeholderTable(), "contradiction_terms": contradictionTable()}
}

// placeholderTable returns the closed list in the form of the specification.
func placeholderTable() []string {
	list := append(strings.Fields(string(markerWords)), "YOUR_…", "???", "<name>", "{{name}}", "[insert …]", "[your …]",
		"[fill in …]", "[enter your …]", "[add your …]", "lorem ipsum", "fill in here", "fill me in")
	for w := range strings.FieldsSeq(string(openVerbs + " " + closedVerbs)) {
		list = append(list, "to be "+w)
	}
	for w := range strings.FieldsSeq(string(quietBrackets)) {
		list = append(list, "["+w+"]")
	}
	return list
}

// contradictionTable returns the closed list in the form of the specification.
func contradictionTable() []string {
	var list []string
	for _, o := range opposites {
		list = append(list, strings.Join(strings.Fields(string(o.a)), ", ")+" / "+strings.Join(strings.Fields(string(o.b)), ", "))
	}
	return list
}
