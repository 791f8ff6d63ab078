package gate.builtin

import future.keywords.not

# METADATA
# title: Placeholder left open
# description: A placeholder leaves open what would be done
# custom:
#   id: PLACEHOLDER
#   since: 0.1.0
#   fix: put what is meant in its place, or put a word that is only mentioned in quotes
#   priority: 80
deny contains {
	"id": "PLACEHOLDER", "path": path, "msg": msg,
	"fix": "put what is meant in its place, or put a word that is only mentioned in quotes",
} if {
	input.findings[0]
	denied[_].placeholder[path] = msg
}

clarify contains {"id": "PLACEHOLDER", "path": path, "question": question} if {
	input.findings[0]
	asked[_].placeholder[path] = question
}

note contains {"id": "PLACEHOLDER", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].placeholder[path] = msg
}

# METADATA
# title: Constraints contradict each other
# description: No plan can satisfy two constraints that exclude each other
# custom:
#   id: CONTRADICTION
#   since: 0.1.0
#   fix: drop one of the two constraints
#   priority: 90
deny contains {
	"id": "CONTRADICTION", "path": path, "msg": msg,
	"fix": "drop one of the two constraints",
} if {
	input.findings[0]
	denied[_].contradiction[path] = msg
}

clarify contains {"id": "CONTRADICTION", "path": path, "question": question} if {
	input.findings[0]
	asked[_].contradiction[path] = question
}

note contains {"id": "CONTRADICTION", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].contradiction[path] = msg
}

# METADATA
# title: Nothing says what done means
# description: Without a constraint or an action nothing says when the goal is reached
# custom:
#   id: DONE_UNDEFINED
#   since: 0.1.0
#   fix: add a constraint that can be checked, or the actions to take
#   priority: 70
deny contains {
	"id": "DONE_UNDEFINED", "path": path, "msg": msg,
	"fix": "add a constraint that can be checked, or the actions to take",
} if {
	input.findings[0]
	denied[_].done_undefined[path] = msg
}

clarify contains {"id": "DONE_UNDEFINED", "path": path, "question": question} if {
	input.findings[0]
	asked[_].done_undefined[path] = question
}

note contains {"id": "DONE_UNDEFINED", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].done_undefined[path] = msg
}
