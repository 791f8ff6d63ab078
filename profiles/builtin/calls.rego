package gate.builtin

import future.keywords.not

# METADATA
# title: Call without an allowed adapter
# description: A call leaves the sandbox, so it has to name an adapter, and one that the profile allows
# custom:
#   id: CALL_NOT_ALLOWED
#   since: 0.1.0
#   fix: use one of the profile's model_adapters, or do without the call
deny contains {
	"id": "CALL_NOT_ALLOWED", "path": object.get(e, "pointer", ""),
	"msg": unbound(e),
	"fix": "use one of the profile's model_adapters, or do without the call",
} if {
	some e in input.effects
	e.kind == "call"
	not e.id in bound
}

bound := {e.id |
	some e in input.effects
	e.kind == "call"
	e.adapter_id != ""
	allows(data.profile.model_adapters, e.adapter_id)
}

unbound(e) := "the call names no adapter" if {
	object.get(e, "adapter_id", "") == ""
} else := sprintf(`adapter "%s" of the call is not in model_adapters (%s)`, [cut(e.adapter_id), listed("model_adapters")])
