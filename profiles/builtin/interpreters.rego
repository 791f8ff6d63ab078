package gate.builtin

import future.keywords.not

# METADATA
# title: Interpreter given inline code
# description: Code in an argument or on standard input runs without standing in any file that was reviewed
# custom:
#   id: INLINE_CODE
#   since: 0.1.0
#   fix: write the code to a file in an action of its own and run that file
deny contains {
	"id": "INLINE_CODE", "path": path, "msg": msg,
	"fix": "write the code to a file in an action of its own and run that file",
} if {
	input.findings[0]
	denied[_].inline_code[path] = msg
}

clarify contains {"id": "INLINE_CODE", "path": path, "question": question, "options": ["no", "yes"]} if {
	input.findings[0]
	asked[_].inline_code[path] = question
}

note contains {"id": "INLINE_CODE", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].inline_code[path] = msg
}

# METADATA
# title: Command starts another command
# description: A wrapper runs a command that allowed_commands never sees
# custom:
#   id: CMD_WRAPPER
#   since: 0.1.0
#   fix: run the wrapped command itself, and set its environment in env
deny contains {
	"id": "CMD_WRAPPER", "path": path, "msg": msg,
	"fix": "run the wrapped command itself, and set its environment in env",
} if {
	input.findings[0]
	denied[_].command_wrapper[path] = msg
}

clarify contains {"id": "CMD_WRAPPER", "path": path, "question": question, "options": ["no", "yes"]} if {
	input.findings[0]
	asked[_].command_wrapper[path] = question
}

note contains {"id": "CMD_WRAPPER", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].command_wrapper[path] = msg
}

# METADATA
# title: Shell as command
# description: A shell runs whatever its script says, which allowed_commands never sees
# custom:
#   id: SHELL_COMMAND
#   since: 0.1.0
#   fix: run each command in an action of its own
deny contains {
	"id": "SHELL_COMMAND", "path": path, "msg": msg,
	"fix": "run each command in an action of its own",
} if {
	input.findings[0]
	denied[_].command_shell[path] = msg
}

clarify contains {"id": "SHELL_COMMAND", "path": path, "question": question, "options": ["no", "yes"]} if {
	input.findings[0]
	asked[_].command_shell[path] = question
}

note contains {"id": "SHELL_COMMAND", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].command_shell[path] = msg
}

# METADATA
# title: Command needs a network
# description: The profile gives commands no network, and without one this cannot be done
# custom:
#   id: NETWORK_NEEDED
#   since: 0.1.0
#   fix: leave it out, or use a profile with allow_network
deny contains {
	"id": "NETWORK_NEEDED", "path": path, "msg": msg,
	"fix": "leave it out, or use a profile with allow_network",
} if {
	input.findings[0]
	denied[_].network_needed[path] = msg
}

clarify contains {"id": "NETWORK_NEEDED", "path": path, "question": question, "options": ["no", "yes"]} if {
	input.findings[0]
	asked[_].network_needed[path] = question
}

note contains {"id": "NETWORK_NEEDED", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].network_needed[path] = msg
}

# networked has what need not be said where commands have a network.
networked contains "network_needed" if data.profile.allow_network == true

# METADATA
# title: Shell metacharacter in an argument (IV-02)
# description: The profile denies characters that a shell would give a meaning to, also where no shell reads them
# custom:
#   id: SHELL_METACHARACTER
#   since: 0.1.0
#   fix: leave the character out, pass the value in a file, or use a profile that takes it as data
deny contains {
	"id": "SHELL_METACHARACTER", "path": path, "msg": msg,
	"fix": "leave the character out, pass the value in a file, or use a profile that takes it as data",
} if {
	input.findings[0]
	denied[_].metacharacter[path] = msg
}
