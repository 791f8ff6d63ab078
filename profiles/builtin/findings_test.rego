package gate.builtin_test

import future.keywords.not

import data.gate.builtin

# The codes that deny whatever the profile, with the message for value "v".
always := {
	"path_absolute": ["PATH_ABSOLUTE", `"v" is absolute`],
	"path_traversal": ["PATH_TRAVERSAL", `"v" has a ".." segment`],
	"path_backslash": ["PATH_BACKSLASH", `"v" has a backslash`],
	"path_character": ["PATH_CHARACTER", `"v" has a control, invisible or bidirectional character`],
	"path_form": ["PATH_FORM", `"v" is empty, too long, not in Unicode form NFC, or names no file`],
	"path_reserved": ["PATH_RESERVED", `"v" is below a folder that the bundle uses itself`],
	"path_control": ["PATH_CONTROL", `the path leads into the control path "v"`],
	"path_case": ["PATH_CASE", `"v" is written in another case too`],
	"env_guarded": ["ENV_GUARDED", `environment name "v" can decide what code runs`],
	"command_character": ["CMD_NAME_UNSAFE", `"v" has a character outside printable ASCII`],
	"command_unread": ["CMD_UNREAD", `the commands up to action 1 take too many steps to read`],
	"findings_many": ["FINDINGS_MANY", `there are more than v findings`],
	"metacharacter": ["SHELL_METACHARACTER", `"v" has a character to which a shell gives a meaning`],
	"nobody_knows": ["UNKNOWN_FINDING", `no rule handles the finding "nobody_knows"`],
	"": ["UNKNOWN_FINDING", `no rule handles the finding ""`],
}

# The codes whose weight a profile chooses: id, message, question, options.
choice := {
	"inline_code": [
		"INLINE_CODE", `"v" passes code to an interpreter`,
		`Is it meant that "v" in constraint 3 passes code to an interpreter?`, ["no", "yes"],
	],
	"command_wrapper": [
		"CMD_WRAPPER", `"v" starts another command`,
		`Is it meant that "v" in constraint 3 starts another command?`, ["no", "yes"],
	],
	"command_shell": [
		"SHELL_COMMAND", `"v" is a shell`,
		`Is it meant that constraint 3 runs the shell "v"?`, ["no", "yes"],
	],
	"network_needed": [
		"NETWORK_NEEDED", `"v" cannot be done without a network`,
		`Is it meant that "v" in constraint 3 has no network?`, ["no", "yes"],
	],
	"agent_instructions": [
		"AGENT_INSTRUCTIONS", `"v" instructs coding agents`,
		`Is it meant that constraint 3 writes "v", which instructs coding agents?`, ["no", "yes"],
	],
	"placeholder": [
		"PLACEHOLDER", `"v" in constraint 3 is a placeholder`,
		`What does "v" in constraint 3 stand for?`, null,
	],
	"contradiction": [
		"CONTRADICTION", `constraint 3 and action 12 contradict each other (v)`,
		`Which holds, constraint 3 or action 12? They contradict each other (v)`, null,
	],
	"done_undefined": [
		"DONE_UNDEFINED", `there is no constraint and no action`,
		`What has to be true for the goal to be reached?`, null,
	],
	"write_twice": [
		"WRITE_TWICE", `"v" is also written by action 12`,
		`Which write to "v" is meant, that of action 12 or that of constraint 3?`, null,
	],
	"output_unproduced": [
		"OUTPUT_UNPRODUCED", `no action produces the output "v"`,
		`Which action produces the output "v"?`, null,
	],
	"input_written": [
		"INPUT_WRITTEN", `"v" is an input and is also written`,
		`Is the input "v" meant to be overwritten?`, ["no", "yes"],
	],
}

test_no_findings_no_results if {
	every profile in [strict, default_profile, dev, bare] {
		builtin.deny == set() with input as document([], [], []) with data.profile as profile
		builtin.clarify == set() with input as document([], [], []) with data.profile as profile
		builtin.note == set() with input as document([], [], []) with data.profile as profile
		builtin.permit == set() with input as document([], [], []) with data.profile as profile
	}
}

test_always_denied_in_every_profile if {
	every profile in [strict, default_profile, dev, bare, weighing("note")] {
		every code, record in always {
			doc := found(code, "/actions/0/path", "write:/actions/0", "v", "")
			[id, msg] = record
			denied := builtin.deny with input as doc with data.profile as profile
			{[d.id, d.path, d.msg] | some d in denied} == {[id, "/actions/0/path", msg]}
			builtin.clarify == set() with input as doc with data.profile as profile
			builtin.note == set() with input as doc with data.profile as profile
		}
	}
}

test_severity_cannot_soften_what_always_denies if {
	soft := {id: "note" | some id in {"PATH_ABSOLUTE", "CMD_NAME_UNSAFE", "UNKNOWN_FINDING", "", "null"}}
	every code, record in always {
		denied := builtin.deny with input as found(code, "/x", "", "v", "")
			with data.profile as object.union(strict, {"severity": soft})
		{d.id | some d in denied} == {record[0]}
	}
}

test_choice_denies if {
	every code, record in choice {
		doc := found(code, "/constraints/2", "", "v", "/actions/11/path")
		denied := builtin.deny with input as doc with data.profile as weighing("deny")
		{[d.id, d.path, d.msg] | some d in denied} == {[record[0], "/constraints/2", record[1]]}
		builtin.clarify == set() with input as doc with data.profile as weighing("deny")
		builtin.note == set() with input as doc with data.profile as weighing("deny")
	}
}

test_choice_asks if {
	every code, record in choice {
		doc := found(code, "/constraints/2", "", "v", "/actions/11/path")
		asked := builtin.clarify with input as doc with data.profile as weighing("clarify")
		{[c.id, c.path, c.question] | some c in asked} == {[record[0], "/constraints/2", record[2]]}
		object.get(data.records[code], "options", null) == record[3]
		builtin.deny == set() with input as doc with data.profile as weighing("clarify")
		builtin.note == set() with input as doc with data.profile as weighing("clarify")
	}
}

test_choice_notes if {
	every code, record in choice {
		doc := found(code, "/constraints/2", "", "v", "/actions/11/path")
		builtin.note == {{"id": record[0], "path": "/constraints/2", "msg": record[1]}} with input as doc
			with data.profile as weighing("note")
		builtin.deny == set() with input as doc with data.profile as weighing("note")
		builtin.clarify == set() with input as doc with data.profile as weighing("note")
	}
}

test_choice_is_strict_where_the_profile_does_not_choose if {
	unsaid := [
		bare, object.union(strict, {"severity": null}),
		{"severity": {"INLINE_CODE": "ignore", "PLACEHOLDER": "off"}},
	]
	every profile in unsaid {
		every code, record in choice {
			doc := found(code, "/goal", "", "v", "/goal")
			denied := {d.id | some d in builtin.deny} with input as doc with data.profile as profile
			asked := {c.id | some c in builtin.clarify} with input as doc with data.profile as profile
			noted := {n.id | some n in builtin.note} with input as doc with data.profile as profile
			[denied, asked, noted] == strictly(code, record[0])
		}
	}
}

strictly(code, id) := [{id}, set(), set()] if {
	code in {"inline_code", "command_wrapper", "command_shell", "network_needed"}
} else := [set(), {id}, set()]

test_placeholder_questions_are_worded_exactly if {
	goal := found("placeholder", "/goal", "", "<environment>", "")
	{c.question | some c in builtin.clarify} == {`What does "<environment>" in the goal stand for?`} with input as goal
		with data.profile as strict
	third := found("placeholder", "/constraints/2", "", "TBD", "")
	{c.question | some c in builtin.clarify} == {`What does "TBD" in constraint 3 stand for?`} with input as third
		with data.profile as strict
}

test_every_placeholder_is_asked_about if {
	two := document([], [], [
		{"code": "placeholder", "path": "/goal", "effect": "", "value": "<a>", "other": ""},
		{"code": "placeholder", "path": "/goal", "effect": "", "value": "<b>", "other": ""},
	])
	count(builtin.clarify) == 2 with input as two with data.profile as strict
}

test_value_is_not_read_as_a_template if {
	doc := found("placeholder", "/goal", "", "{place} %s {{.}}", "")
	{c.question | some c in builtin.clarify} == {`What does "{place} %s {{.}}" in the goal stand for?`} with input as doc
		with data.profile as strict
}

test_places if {
	places := {
		"/goal": "the goal", "/constraints/0": "constraint 1", "/actions/9/argv/1": "action 10",
		"/inputs/3": "input 4", "/outputs/0": "output 1",
		"/constraints": "/constraints", "/constraints/": "/constraints/", "/constraints/x": "/constraints/x",
		"/context/a/b": "/context/a/b", "stateless": "stateless", "": "", "a/actions/0": "a/actions/0",
	}
	every pointer, words in places {
		builtin.place(pointer) == words
	}
}

test_finding_without_members_still_denies if {
	{[d.id, d.path] | some d in builtin.deny} == {["PATH_ABSOLUTE", ""], ["UNKNOWN_FINDING", ""]} with input as document(
		[], [],
		[{"code": "path_absolute"}, {}],
	)
		with data.profile as strict
}

test_finding_weighs_without_any_profile if {
	{d.id | some d in builtin.deny} == {"PATH_ABSOLUTE"} with input as found("path_absolute", "/inputs/0", "", "/x", "")
	{c.id | some c in builtin.clarify} == {"PLACEHOLDER"} with input as found("placeholder", "/goal", "", "TBD", "")
}

# A path instead of a command name is CMD_NOT_ALLOWED's to judge, not unknown.
test_command_path_alone_says_nothing if {
	every profile in [strict, default_profile, dev, bare] {
		doc := found("command_path", "/actions/0/argv/0", "run:/actions/0", "./x", "")
		builtin.deny == set() with input as doc with data.profile as profile
		builtin.clarify == set() with input as doc with data.profile as profile
		builtin.note == set() with input as doc with data.profile as profile
	}
}

test_cut_keeps_messages_short if {
	long := sprintf("%0200d", [0])
	count(builtin.cut(long)) == 121
	endswith(builtin.cut(long), "…")
	builtin.cut("short") == "short"
	builtin.cut(sprintf("%0120d", [0])) == sprintf("%0120d", [0])
}
