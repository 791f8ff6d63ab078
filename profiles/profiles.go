// Package profiles holds the built-in policy profiles and the built-in policy.
//
// A profile is data: strict/profile.json, default/profile.json and dev/profile.json.
// One policy judges all three: the Rego modules of package gate.builtin in builtin/.
// Only this policy permits effects. In a profile.json "*" allows everything, and an
// absent list allows nothing.
//
// A rule of the policy has a record: a METADATA comment above one of the rules with its
// id. The record has title (the refuse_reason of a denial), description (why a question
// is asked), custom.id and custom.fix. It has custom.priority if a question does not
// have the usual priority.
//
// builtin/policy.stored has the compiled modules (policy.Store). It is made again after
// every change of a module, of the capabilities or of OPA; a test says when.
package profiles

//go:generate go test ../policy -count=1 -run ^TestStoredForm$ -update-stored

import (
	"embed"
	"io/fs"
)

//go:embed strict/profile.json default/profile.json dev/profile.json
//go:embed builtin/calls.rego
//go:embed builtin/clarity.rego
//go:embed builtin/commands.rego
//go:embed builtin/facts.rego
//go:embed builtin/interpreters.rego
//go:embed builtin/paths.rego
//go:embed builtin/permits.rego
//go:embed builtin/policy.stored
//go:embed builtin/risk.rego
//go:embed builtin/structure.rego
var files embed.FS

// FS returns the built-in profiles and policy modules, without the tests of the
// policy. It is read-only and safe for concurrent use.
func FS() fs.FS {
	return files
}
