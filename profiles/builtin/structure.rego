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

# METADATA
# title: More outputs than max_output_files
# description: A profile says how many files an execution may write
# custom:
#   id: OUTPUT_FILES
#   since: 0.1.0
#   fix: write fewer files, or split the intent
deny contains {
	"id": "OUTPUT_FILES", "path": pointer,
	"msg": sprintf("%d files are written or declared, more than max_output_files (%d)", [files, data.profile.max_output_files]),
	"fix": "write fewer files, or split the intent",
} if {
	count(input.effects) > data.profile.max_output_files
	files := count({e.path | some e in input.effects; e.kind == "write"})
	files > data.profile.max_output_files
	pointer := {true: "/outputs", false: "/actions"}[startswith(input.effects[count(input.effects) - 1].pointer, "/outputs/")]
}

# METADATA
# title: More bytes than max_total_output_bytes
# description: A profile says how many bytes an execution may write
# custom:
#   id: OUTPUT_BYTES
#   since: 0.1.0
#   fix: write less, or split the intent
deny contains {
	"id": "OUTPUT_BYTES", "path": "/actions",
	"msg": sprintf("%d bytes are written, more than max_total_output_bytes (%d)", [bytes, data.profile.max_total_output_bytes]),
	"fix": "write less, or split the intent",
} if {
	data.profile.max_total_output_bytes < 1048576 # the most that an intent can have
	bytes := sum([n | some b in encoded; n := (((count(b) / 4) * 3) + count(trim_right(b, "="))) - count(b)])
	bytes > data.profile.max_total_output_bytes
}

# encoded has what each action writes, in base64, which shows how many bytes it has.
encoded := array.concat(
	[a.content_base64 | some a in input.intent.actions],
	[base64.encode(a.content) | some a in input.intent.actions],
)
