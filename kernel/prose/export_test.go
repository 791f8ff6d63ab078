package prose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

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
	words := sideWords()
	var list []string
	for _, o := range opposites {
		list = append(list, strings.Join(words[o.a], ", ")+" / "+strings.Join(words[o.b], ", "))
	}
	return list
}

// sideWords returns the words of each side, by the word that is shown for it: that word, and
// those that the source of sideOf lists.
func sideWords() map[string][]string {
	f, err := parser.ParseFile(token.NewFileSet(), "opposite.go", nil, 0)
	if err != nil {
		return nil
	}
	words := map[string][]string{}
	for _, o := range opposites {
		words[o.a], words[o.b] = []string{o.a}, []string{o.b}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.CaseClause)
		if !ok {
			return true
		}
		for _, e := range c.List {
			if lit, ok := e.(*ast.BasicLit); ok {
				w, _ := strconv.Unquote(lit.Value)
				words[sideOf(w)] = append(words[sideOf(w)], w)
			}
		}
		return true
	})
	return words
}
