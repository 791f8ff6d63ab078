package profiles

import (
	"io/fs"
	"strings"
	"sync"
)

// Rule is a built-in rule as its text describes it.
type Rule struct {
	Title string
	Asks  bool // the rule can ask instead of denying
}

// Names returns the names of the built-in profiles, from narrow to wide. A profile that
// is not built in cannot have one of these names.
func Names() []string { return []string{"strict", "default", "dev"} }

// Modules returns the names of the built-in modules, sorted.
var Modules = sync.OnceValue(func() []string {
	names, _ := fs.Glob(files, "builtin/*.rego")
	return names
})

// Rules returns the rules of the built-in modules by id. It reads records and heads
// from the text of the modules, without a policy engine.
var Rules = sync.OnceValue(func() map[string]Rule {
	rules := map[string]Rule{}
	for _, name := range Modules() {
		text, _ := fs.ReadFile(files, name)
		title, asks := "", false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if t, ok := strings.CutPrefix(line, "# title: "); ok {
				title = t
			}
			if id, ok := strings.CutPrefix(line, "#   id: "); ok {
				rules[id] = Rule{Title: title, Asks: rules[id].Asks}
			}
			asks = asks && strings.HasPrefix(line, `"id"`) || strings.HasPrefix(line, "clarify contains {")
			if _, rest, ok := strings.Cut(line, `"id": "`); ok && asks {
				id, _, _ := strings.Cut(rest, `"`)
				rules[id] = Rule{Title: rules[id].Title, Asks: true}
			}
		}
	}
	return rules
})
