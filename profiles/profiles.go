// Package profiles holds the built-in policy profiles and the built-in policy.
//
// A profile is data: strict/profile.json, default/profile.json and dev/profile.json.
// One policy judges all three: the Rego modules of package gate.builtin in builtin/.
// Only this policy permits effects. In a profile.json "*" allows everything, and an
// absent list allows nothing.
//
// builtin/records.json has a record for each code of a finding (Record). It says what a
// finding means, and is data.records in the Rego.
//
// builtin/policy.stored has the compiled modules (policy.Store). It is made again after
// every change of a module, of the records, of the capabilities or of OPA; a test says
// when.
package profiles

//go:generate go test ../policy -count=1 -run ^TestStoredForm$ -update-stored

import (
	"embed"
	"io/fs"
)

//go:embed strict/profile.json default/profile.json dev/profile.json
//go:embed builtin/decide.rego builtin/records.json builtin/policy.stored
var files embed.FS

// FS returns the built-in profiles and policy modules, without the tests of the
// policy. It is read-only and safe for concurrent use.
func FS() fs.FS {
	return files
}
