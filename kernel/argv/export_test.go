package argv

import (
	"strings"

	"github.com/fiador/fiador/kernel/text"
)

// Tables returns the lists of this detector by name.
func Tables() map[string][]string {
	tables := map[string][]string{"shells": strings.Fields(string(shells)), "wrappers": strings.Fields(string(wrappers))}
	for w := range strings.FieldsSeq(string(findStarts)) {
		tables["wrappers"] = append(tables["wrappers"], "find "+w)
	}
	for _, r := range runners {
		tables["runners"] = append(tables["runners"], strings.Fields(string(r.names))...)
		tables["inline_code"] = append(tables["inline_code"], r.table()...)
		tables["path_arguments"] = append(tables["path_arguments"], eachWith(r.names, r.paths)...)
	}
	for _, p := range interpreters {
		tables["interpreters"] = append(tables["interpreters"], strings.Fields(string(p.names))...)
		tables["inline_code"] = append(tables["inline_code"], p.table()...)
		if p.paths != "" {
			tables["path_arguments"] = append(tables["path_arguments"], eachWith(p.names, p.paths+" SCRIPT")...)
		}
	}
	for _, g := range registries {
		tables["network_needed"] = append(tables["network_needed"], g.table()...)
	}
	return tables
}

// table lists the forms of inline code for the interpreter's names.
func (p interpreter) table() []string {
	list := eachWith(p.names, p.code+" "+p.codeSubs)
	if p.builtin != "" {
		list = append(list, eachWith(p.names, p.loads)...)
	}
	for w := range strings.FieldsSeq(string(p.modules)) {
		for name := range strings.FieldsSeq(string(p.names)) {
			list = append(list, name+" "+string(p.module)+" "+w)
		}
	}
	if p.text {
		list = append(list, eachWith(p.names, "PROGRAM")...)
	}
	if !p.data {
		list = append(list, eachWith(p.names, "STDIN")...)
	}
	return list
}

func eachWith(names, options text.Words) []string {
	var list []string
	for name := range strings.FieldsSeq(string(names)) {
		for option := range strings.FieldsSeq(string(options)) {
			list = append(list, name+" "+option)
		}
	}
	return list
}

// table lists the forms of inline code for the runner's names.
func (r runner) table() []string {
	list := eachWith(r.names, r.code+" "+r.always+" "+r.shells+" "+r.stores)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], ":", " ")
	}
	if r.shell {
		list = append(list, eachWith(r.names, "STDIN")...)
	}
	return list
}

// table lists the arguments that need a network.
func (g registry) table() []string {
	list := eachWith(g.names, g.packages+" "+g.starts+" "+g.option)
	if g.itself {
		list = append(list, strings.Fields(string(g.names))...)
	}
	for i := range list {
		list[i] += " URL"
	}
	for _, entry := range eachWith(g.names, g.asks) {
		list = append(list, strings.ReplaceAll(entry, ":", " "))
	}
	return list
}
