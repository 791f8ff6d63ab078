package kernel

import (
	"maps"
	"slices"

	"github.com/fiador/fiador/kernel/argv"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/prose"
)

// DetectorTables returns the closed lists of the detectors by name, each sorted. A
// specification is checked against them. The names are control_paths, agent_paths,
// reserved_roots, shells, wrappers, runners, interpreters, inline_code,
// placeholder_words, contradiction_terms, network_needed and path_arguments. An example
// of inline_code is "node -e"; a word in capitals, such as STDIN, is a description. An
// example of contradiction_terms is "stateless / stateful".
func DetectorTables() map[string][]string {
	tables := pathname.Tables()
	maps.Copy(tables, argv.Tables())
	maps.Copy(tables, prose.Tables())
	for _, list := range tables {
		slices.Sort(list)
	}
	return tables
}
