package gate.builtin

import future.keywords.not

# An effect is permitted when its kind and the profile say so and no denied
# finding is about it. An effect of another kind than the four never is, and
# without a list of findings none is.

# METADATA
# title: Input that may be read
# description: Inputs are staged read-only, and no denied finding is about this one
permit contains id if {
	is_array(input.findings)
	some id in (readable - blocked)
}

# METADATA
# title: Write beneath a write root
# description: The path is beneath one of allowed_write_roots, and no denied finding is about it
permit contains id if {
	is_array(input.findings)
	some id in (inside - blocked)
}

# METADATA
# title: Allowed command
# description: The command is in allowed_commands, its environment names are in env_allow, and no denied finding is about it
permit contains id if {
	is_array(input.findings)
	some id in (startable - blocked)
}

# METADATA
# title: Call of an allowed adapter
# description: The adapter is one of model_adapters, and no denied finding is about the call
permit contains id if {
	is_array(input.findings)
	some id in (bound - blocked)
}

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
