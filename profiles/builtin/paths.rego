package gate.builtin

import future.keywords.not

# METADATA
# title: Path is absolute
# description: An absolute path names a place on one machine, outside what the gate can reason about
# custom:
#   id: PATH_ABSOLUTE
#   since: 0.1.0
#   fix: give the path relative to the working tree
deny contains {
	"id": "PATH_ABSOLUTE", "path": path, "msg": msg,
	"fix": "give the path relative to the working tree",
} if {
	input.findings[0]
	denied[_].path_absolute[path] = msg
}

# METADATA
# title: Path has a .. segment
# description: A path with a .. segment can leave the folder that was allowed
# custom:
#   id: PATH_TRAVERSAL
#   since: 0.1.0
#   fix: name the file without going through a parent folder
deny contains {
	"id": "PATH_TRAVERSAL", "path": path, "msg": msg,
	"fix": "name the file without going through a parent folder",
} if {
	input.findings[0]
	denied[_].path_traversal[path] = msg
}

# METADATA
# title: Path has a backslash
# description: A backslash is a separator on one system and a part of the name on another
# custom:
#   id: PATH_BACKSLASH
#   since: 0.1.0
#   fix: separate folders with a forward slash
deny contains {
	"id": "PATH_BACKSLASH", "path": path, "msg": msg,
	"fix": "separate folders with a forward slash",
} if {
	input.findings[0]
	denied[_].path_backslash[path] = msg
}

# METADATA
# title: Path has a control or invisible character
# description: A character that cannot be seen makes one path look like another
# custom:
#   id: PATH_CHARACTER
#   since: 0.1.0
#   fix: use visible characters only
deny contains {
	"id": "PATH_CHARACTER", "path": path, "msg": msg,
	"fix": "use visible characters only",
} if {
	input.findings[0]
	denied[_].path_character[path] = msg
}

# METADATA
# title: Path is not in the accepted form
# description: A path that is empty, too long, not in Unicode form NFC or without a file name means different files to different programs
# custom:
#   id: PATH_FORM
#   since: 0.1.0
#   fix: give a file name of ordinary length in Unicode form NFC
deny contains {
	"id": "PATH_FORM", "path": path, "msg": msg,
	"fix": "give a file name of ordinary length in Unicode form NFC",
} if {
	input.findings[0]
	denied[_].path_form[path] = msg
}

# METADATA
# title: Path is reserved for the bundle
# description: The bundle keeps its own outputs below commands/, calls/ and context/
# custom:
#   id: PATH_RESERVED
#   since: 0.1.0
#   fix: choose another top folder than commands, calls or context
deny contains {
	"id": "PATH_RESERVED", "path": path, "msg": msg,
	"fix": "choose another top folder than commands, calls or context",
} if {
	input.findings[0]
	denied[_].path_reserved[path] = msg
}

# METADATA
# title: Path leads into a control path
# description: Files of version control, CI, tools, agents or the gate itself decide what happens to everything else
# custom:
#   id: PATH_CONTROL
#   since: 0.1.0
#   fix: leave control paths to the people who own them
deny contains {
	"id": "PATH_CONTROL", "path": path, "msg": msg,
	"fix": "leave control paths to the people who own them",
} if {
	input.findings[0]
	denied[_].path_control[path] = msg
}

# METADATA
# title: Paths differ in case alone
# description: Where case does not count, two such paths are one file, and the judge of an execution accepts neither
# custom:
#   id: PATH_CASE
#   since: 0.1.0
#   fix: write each file and each folder in one case
deny contains {
	"id": "PATH_CASE", "path": path, "msg": msg,
	"fix": "write each file and each folder in one case",
} if {
	input.findings[0]
	denied[_].path_case[path] = msg
}

# METADATA
# title: File that instructs coding agents is written
# description: Who writes such a file tells every agent that works here next what to do
# custom:
#   id: AGENT_INSTRUCTIONS
#   since: 0.1.0
#   fix: leave the instructions to the people who own them, or have them agree
deny contains {
	"id": "AGENT_INSTRUCTIONS", "path": path, "msg": msg,
	"fix": "leave the instructions to the people who own them, or have them agree",
} if {
	input.findings[0]
	denied[_].agent_instructions[path] = msg
}

clarify contains {"id": "AGENT_INSTRUCTIONS", "path": path, "question": question, "options": ["no", "yes"]} if {
	input.findings[0]
	asked[_].agent_instructions[path] = question
}

note contains {"id": "AGENT_INSTRUCTIONS", "path": path, "msg": msg} if {
	input.findings[0]
	noted[_].agent_instructions[path] = msg
}

# METADATA
# title: Write outside allowed_write_roots
# description: A profile says beneath which folders an intent may write
# custom:
#   id: WRITE_OUTSIDE_ROOT
#   since: 0.1.0
#   fix: write beneath one of the profile's allowed_write_roots
deny contains {
	"id": "WRITE_OUTSIDE_ROOT", "path": concat("", [pointer, member]),
	"msg": sprintf(`"%s" is not beneath allowed_write_roots (%s)`, [
		cut(object.get(e, "path", "")), listed("allowed_write_roots"),
	]),
	"fix": "write beneath one of the profile's allowed_write_roots",
} if {
	some e in array.slice(outside, 0, most_listed)
	pointer := object.get(e, "pointer", "")
	member := {true: "", false: "/path"}[startswith(pointer, "/outputs/")]
}

outside := [e |
	some e in input.effects
	e.kind == "write"
	not e.id in inside
	not e.id in faulty
]

# faulty has the effects of which another rule of this file says all there is to
# say.
faulty := {f.effect | some ["deny", f] in weighed; startswith(f.code, "path_")}

# inside has the writes whose cleaned path lies strictly beneath a write root.
inside := {e.id |
	some e in input.effects
	e.kind == "write"
	strings.any_prefix_match(e.path, prefixes)
	not endswith(e.path, "/")
	e.path != ""
}

prefixes := {""} if {
	data.profile.allowed_write_roots == "*"
} else := {concat("", [root, "/"]) | some root in data.profile.allowed_write_roots}
