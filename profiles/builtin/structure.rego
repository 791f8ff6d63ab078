package gate.builtin

import future.keywords.not

# METADATA
# title: Path is written twice
# description: Of two writes to one path only the last one stays
# custom:
#   id: WRITE_TWICE
#   since: 0.1.0
#   fix: write each path once
deny contains {
	"id": "WRITE_TWICE", "path": path, "msg": msg,
	"fix": "write each path once",
} if {
	input.findings[0]
	denied[_].write_twice[path] = msg
}

clarify contains {"id": "WRITE_TWICE", "path": path, "question": question} if {
	input.findings[0]
	asked[_].write_twice[path] = question
}

note contains {"id": "WRITE_TWICE", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].write_twice[path] = msg
}

# METADATA
# title: No action produces the output
# description: An output that nothing produces would be missing after the run
# custom:
#   id: OUTPUT_UNPRODUCED
#   since: 0.1.0
#   fix: add the action that produces the output, or leave the output out
deny contains {
	"id": "OUTPUT_UNPRODUCED", "path": path, "msg": msg,
	"fix": "add the action that produces the output, or leave the output out",
} if {
	input.findings[0]
	denied[_].output_unproduced[path] = msg
}

clarify contains {"id": "OUTPUT_UNPRODUCED", "path": path, "question": question} if {
	input.findings[0]
	asked[_].output_unproduced[path] = question
}

note contains {"id": "OUTPUT_UNPRODUCED", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].output_unproduced[path] = msg
}

# METADATA
# title: Input is also written
# description: What an action reads from such an input depends on when it reads it
# custom:
#   id: INPUT_WRITTEN
#   since: 0.1.0
#   fix: write to another path than the input's
deny contains {
	"id": "INPUT_WRITTEN", "path": path, "msg": msg,
	"fix": "write to another path than the input's",
} if {
	input.findings[0]
	denied[_].input_written[path] = msg
}

clarify contains {"id": "INPUT_WRITTEN", "path": path, "question": question, "options": ["no", "yes"]} if {
	input.findings[0]
	asked[_].input_written[path] = question
}

note contains {"id": "INPUT_WRITTEN", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].input_written[path] = msg
}
