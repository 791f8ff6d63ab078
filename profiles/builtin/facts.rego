# Package gate.builtin decides what an intent may do. This file turns what the
# kernel found into what the rules say: denied, asked and noted have for each
# finding its code, its pointer and the text, and a rule takes those of its code.
# It begins with input.findings[0] unless risks, too, can give it one: the index of
# the rules then passes over all of them where the kernel found nothing.
package gate.builtin

import future.keywords.not

# chosen has the codes whose weight is the profile's choice: the rule to look
# up in severity, and the weight where severity does not give one.
chosen := {
	"inline_code": ["INLINE_CODE", "deny"],
	"command_wrapper": ["CMD_WRAPPER", "deny"],
	"command_shell": ["SHELL_COMMAND", "deny"],
	"network_needed": ["NETWORK_NEEDED", "deny"],
	"agent_instructions": ["AGENT_INSTRUCTIONS", "clarify"],
	"placeholder": ["PLACEHOLDER", "clarify"],
	"contradiction": ["CONTRADICTION", "clarify"],
	"done_undefined": ["DONE_UNDEFINED", "clarify"],
	"write_twice": ["WRITE_TWICE", "clarify"],
	"output_unproduced": ["OUTPUT_UNPRODUCED", "clarify"],
	"input_written": ["INPUT_WRITTEN", "clarify"],
	"risk_review": ["RISK_REVIEW", "clarify"],
	"command_path": [null, "none"],
}

# weight is deny for a code that chosen does not have; null is no member name.
weight(code) := object.get({"deny": "deny", "clarify": "clarify", "note": "note"}, given, strictest) if {
	[rule, strictest] := object.get(chosen, code, [null, "deny"])
	given := object.get(severity, rule, strictest)
}

default severity := {}

severity := data.profile.severity if is_object(data.profile.severity)

# words are the messages of denials and notes, questions those of questions.
words := {
	"path_absolute": `"{value}" is absolute`,
	"path_traversal": `"{value}" has a ".." segment`,
	"path_backslash": `"{value}" has a backslash`,
	"path_character": `"{value}" has a control, invisible or bidirectional character`,
	"path_form": `"{value}" is empty, too long, not in Unicode form NFC, or names no file`,
	"path_reserved": `"{value}" is below a folder that the bundle uses itself`,
	"path_control": `the path leads into the control path "{value}"`,
	"path_case": `"{value}" is written in another case too`,
	"env_guarded": `environment name "{value}" can decide what code runs`,
	"agent_instructions": `"{value}" instructs coding agents`,
	"command_character": `"{value}" has a character outside printable ASCII`,
	"inline_code": `"{value}" passes code to an interpreter`,
	"command_wrapper": `"{value}" starts another command`,
	"command_shell": `"{value}" is a shell`,
	"command_unread": `the commands up to {place} take too many steps to read`,
	"findings_many": `there are more than {value} findings`,
	"network_needed": `"{value}" cannot be done without a network`,
	"metacharacter": `"{value}" has a character to which a shell gives a meaning`,
	"placeholder": `"{value}" in {place} is a placeholder`,
	"contradiction": `{place} and {other} contradict each other ({value})`,
	"done_undefined": `there is no constraint and no action`,
	"write_twice": `"{value}" is also written by {other}`,
	"output_unproduced": `no action produces the output "{value}"`,
	"input_written": `"{value}" is an input and is also written`,
	"risk_review": `{place} is of {value}`,
}

questions := {
	"agent_instructions": `Is it meant that {place} writes "{value}", which instructs coding agents?`,
	"inline_code": `Is it meant that "{value}" in {place} passes code to an interpreter?`,
	"command_wrapper": `Is it meant that "{value}" in {place} starts another command?`,
	"command_shell": `Is it meant that {place} runs the shell "{value}"?`,
	"network_needed": `Is it meant that "{value}" in {place} has no network?`,
	"placeholder": `What does "{value}" in {place} stand for?`,
	"contradiction": `Which holds, {place} or {other}? They contradict each other ({value})`,
	"done_undefined": `What has to be true for the goal to be reached?`,
	"write_twice": `Which write to "{value}" is meant, that of {other} or that of {place}?`,
	"output_unproduced": `Which action produces the output "{value}"?`,
	"input_written": `Is the input "{value}" meant to be overwritten?`,
	"risk_review": `Should {place} go ahead? It is of {value}`,
}

denied := [{f.code: {f.path: fill(words, f)}} | some ["deny", f] in weighed]

asked := [{f.code: {f.path: fill(questions, f)}} | some ["clarify", f] in weighed]

noted := [{f.code: {f.path: fill(words, f)}} | some ["note", f] in weighed]

# METADATA
# title: Finding that no rule handles
# description: A finding whose meaning nobody has decided is not passed over
# custom:
#   id: UNKNOWN_FINDING
#   since: 0.1.0
#   fix: use a policy of the same version as the kernel
deny contains {
	"id": "UNKNOWN_FINDING", "path": path,
	"msg": sprintf(`no rule handles the finding "%s"`, [cut(code)]),
	"fix": "use a policy of the same version as the kernel",
} if {
	input.findings[0]
	denied[_][code][path]
	not words[code]
}

# METADATA
# title: More findings than are judged
# description: Of an intent with so many faults nobody reads every one, and those beyond the limit are not looked at
# custom:
#   id: FINDINGS_MANY
#   since: 0.1.0
#   fix: mend the findings that are listed, or split the intent
deny contains {
	"id": "FINDINGS_MANY", "path": path, "msg": msg,
	"fix": "mend the findings that are listed, or split the intent",
} if some [path, msg] in crowded

crowded contains [path, msg] if {
	input.findings[0]
	denied[_].findings_many[path] = msg
}

# Of writes outside the roots, and of environment names, so many are listed.
crowded contains [path, crowd] if {
	e := outside[most_listed]
	path := e.pointer
}

crowded contains [path, crowd] if {
	[e, _] := stray[most_listed]
	path := e.pointer
}

crowd := fill(words, {"code": "findings_many", "path": "", "value": sprintf("%d", [most_listed]), "other": ""})

most_listed := 1000

# blocked has the effects that a denied finding is about.
blocked := {f.effect | some ["deny", f] in weighed}

weighed := [[weight(f.code), f] |
	some given in array.concat(input.findings, risks)
	f := object.union({"code": "", "path": "", "effect": "", "value": "", "other": ""}, given)
	not moot[f.effect][f.code]
	not networked[f.code]
]

fill(texts, f) := strings.replace_n(
	{"{value}": f.value, "{place}": place(f.path), "{other}": place(f.other)},
	object.get(texts, f.code, f.code),
)

# place says in words where a pointer leads.
place(pointer) := sprintf("%s %d", [noun, to_number(index) + 1]) if {
	["", list, index] = array.slice(split(pointer, "/"), 0, 3)
	noun := {"constraints": "constraint", "actions": "action", "inputs": "input", "outputs": "output"}[list]
	index != ""
	trim(index, "0123456789") == ""
} else := object.get({"/goal": "the goal"}, pointer, pointer)

# allows says whether an allow-list has a name; "*" has every name.
allows("*", name) if name != ""

allows(list, name) if name in list

# listed shows an allow-list of the profile in a message.
listed(member) := object.get({"": "none"}, text, text) if {
	text := cut(concat(", ", [name | some name in data.profile[member]]))
}

# cut keeps a message short, whatever the value in it.
cut(text) := concat("", [substring(text, 0, 120), {true: "…", false: ""}[count(text) > 120]])
