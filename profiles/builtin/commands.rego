package gate.builtin

import future.keywords.not

# METADATA
# title: Command has a character outside printable ASCII
# description: A name with a look-alike or invisible character can pass for another command
# custom:
#   id: CMD_NAME_UNSAFE
#   since: 0.1.0
#   fix: name the command in printable ASCII
deny contains {
	"id": "CMD_NAME_UNSAFE", "path": path, "msg": msg,
	"fix": "name the command in printable ASCII",
} if {
	input.findings[0]
	denied[_].command_character[path] = msg
}

# METADATA
# title: Command not in allowed_commands
# description: A profile says which commands an intent may run, by name
# custom:
#   id: CMD_NOT_ALLOWED
#   since: 0.1.0
#   fix: use one of the profile's allowed_commands
deny contains {
	"id": "CMD_NOT_ALLOWED", "path": concat("", [object.get(e, "pointer", ""), "/argv/0"]),
	"msg": sprintf(`"%s" is %s allowed_commands (%s)`, [
		cut(object.get(e, "command", "")), misfit, listed("allowed_commands"),
	]),
	"fix": "use one of the profile's allowed_commands",
} if {
	some e in input.effects
	e.kind == "run"
	not e.id in runnable
	misfit := {true: "a path, not a name in", false: "not in"}[object.get(e, "id", "") in path_commands]
}

# runnable has the run effects whose command the profile allows.
runnable := {e.id |
	some e in input.effects
	e.kind == "run"
	allows(data.profile.allowed_commands, e.command)
	not e.id in path_commands
}

# path_commands has the run effects whose command is a path, which is in no list.
path_commands := {f.effect |
	data.profile.allowed_commands != "*"
	some f in input.findings
	f.code == "command_path"
}

# moot has what need not be said of a command that is not allowed.
moot := {e.id: {"inline_code", "command_wrapper", "command_shell", "network_needed"} |
	some e in input.effects
	e.kind == "run"
	not e.id in runnable
}

# METADATA
# title: Commands too long to read
# description: What so many arguments start cannot be told within the steps that the reading of an intent may take
# custom:
#   id: CMD_UNREAD
#   since: 0.1.0
#   fix: give the arguments in a file, or split the intent
deny contains {
	"id": "CMD_UNREAD", "path": path, "msg": msg,
	"fix": "give the arguments in a file, or split the intent",
} if {
	input.findings[0]
	denied[_].command_unread[path] = msg
}

# METADATA
# title: Environment name not in env_allow
# description: Environment variables can change what an allowed command does
# custom:
#   id: ENV_NOT_ALLOWED
#   since: 0.1.0
#   fix: leave the variable out, or name it in the profile's env_allow
deny contains {
	"id": "ENV_NOT_ALLOWED", "path": concat("", [object.get(e, "pointer", ""), "/env/", token]),
	"msg": sprintf(`environment name "%s" is not in env_allow (%s)`, [cut(name), listed("env_allow")]),
	"fix": "leave the variable out, or name it in the profile's env_allow",
} if {
	some [e, name] in array.slice(stray, 0, most_listed)
	token := replace(replace(name, "~", "~0"), "/", "~1")
}

# stray has the environment names that are not allowed, with their effects.
stray := [[e, name] |
	some e in input.effects
	e.kind == "run"
	some name in e.env
	not allows(data.profile.env_allow, name)
	not [e.id, name] in guarded
]

# guarded is made once; a rule by effect would be asked again for every name.
guarded := {[f.effect, f.value] |
	some f in input.findings
	f.code == "env_guarded"
}

# METADATA
# title: Environment name that can decide what code runs
# description: Such a variable makes an allowed command load or start something else, so no env_allow allows it
# custom:
#   id: ENV_GUARDED
#   since: 0.1.0
#   fix: leave the variable out
deny contains {
	"id": "ENV_GUARDED", "path": path, "msg": msg,
	"fix": "leave the variable out",
} if {
	input.findings[0]
	denied[_].env_guarded[path] = msg
}
