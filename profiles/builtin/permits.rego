package gate.builtin

import future.keywords.not

# An effect is permitted when its kind and the profile say so and no denied
# finding is about it. An effect of another kind than the four never is, and
# without a list of findings none is.
permit contains id if {
	is_array(input.findings)
	some id in (allowed - blocked)
}

allowed := union({readable, inside, startable, bound})

readable := {e.id |
	some e in input.effects
	e.kind == "read"
	e.path != ""
}

startable := {e.id |
	some e in input.effects
	e.kind == "run"
	e.id in runnable
	every name in object.get(e, "env", []) {
		allows(data.profile.env_allow, name)
	}
}
