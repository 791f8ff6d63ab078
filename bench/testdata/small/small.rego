# A small policy as somebody writes it by hand for opa: it reads the finished input of
# Fiador's policies, and denies what a profile does not list.
package small

default allow := false

allow if count(deny) == 0

deny contains sprintf("%s: command %s is not allowed", [e.id, e.command]) if {
	some e in input.effects
	e.kind == "run"
	not e.command in data.profile.allowed_commands
}

deny contains sprintf("%s: %s lies outside the write roots", [e.id, e.path]) if {
	some e in input.effects
	e.kind == "write"
	not inside(e.path)
}

deny contains sprintf("%s: no adapter is allowed", [e.id]) if {
	some e in input.effects
	e.kind == "call"
}

deny contains sprintf("%s at %s", [f.code, f.path]) if some f in input.findings

inside(path) if {
	some root in data.profile.allowed_write_roots
	startswith(path, sprintf("%s/", [root]))
}
