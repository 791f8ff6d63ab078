# Package gate.builtin decides what an intent may do.
#
# The kernel gives the facts: input.findings has what it found in the intent, and
# listed says of each effect whether the profile lists it. The rules below permit what
# is listed, and turn every other fact into a finding of their own. A finding has a
# code, and the record of this code (records.json, data.records) says what the finding
# means: the id of the answer, its severity and its texts. A profile can choose the
# severity of a finding whose record has a question.
package gate.builtin

import future.keywords.not

# Permits. An effect is permitted if the profile lists it and no denied finding is
# about it. An effect without the fact, of another kind, or without a list of findings,
# is not permitted.

# METADATA
# title: Input that may be read
# description: Inputs are staged read-only, and no denied finding is about this one
permit contains e.id if {
	denied := blocked
	some e in input.effects
	e.kind == "read"
	e.listed == true
	not e.id in denied
}

# METADATA
# title: Write beneath a write root
# description: The path is beneath one of allowed_write_roots, and no denied finding is about it
permit contains e.id if {
	denied := blocked
	some e in input.effects
	e.kind == "write"
	e.listed == true
	not e.id in denied
}

# METADATA
# title: Allowed command
# description: The command is in allowed_commands, its environment names are in env_allow, and no denied finding is about it
permit contains e.id if {
	denied := blocked
	some e in input.effects
	e.kind == "run"
	e.listed == true
	not e.id in denied
}

# METADATA
# title: Call of an allowed adapter
# description: The adapter is one of model_adapters, and no denied finding is about the call
permit contains e.id if {
	denied := blocked
	some e in input.effects
	e.kind == "call"
	e.listed == true
	not e.id in denied
}

# blocked has the effects that a denied finding is about. Without a list of findings it
# is undefined, and nothing is permitted.
blocked := {f.effect | some ["deny", _, f] in judged} if is_array(input.findings)

# Answers. The gate adds the title, the reason, the fix and the options of the record.

deny contains {"id": record.id, "path": f.path, "msg": fill(record.text, record, f)} if {
	some ["deny", record, f] in judged
}

clarify contains {"id": record.id, "path": f.path, "question": fill(record.question, record, f)} if {
	some ["clarify", record, f] in judged
}

note contains {"id": record.id, "path": f.path, "msg": fill(record.text, record, f)} if {
	some ["note", record, f] in judged
}

# judged has every finding with its severity and its record.
judged := [[severity(record), record, f] |
	some given in found
	not unsaid(given)
	[record, f] := known(object.union({"code": "", "path": "", "effect": "", "value": "", "other": ""}, given))
]

found contains f if some f in input.findings

# known returns the record of a finding. A finding without a record is denied.
known(f) := [record, f] if {
	record := data.records[f.code]
} else := [data.records.finding_unknown, object.union(f, {"value": cut(f.code)})]

severity(record) := chosen if {
	record.question
	chosen := data.profile.severity[record.id]
	chosen in {"deny", "clarify", "note"}
} else := record.severity

# unsaid holds for a finding that says nothing under this profile: about the arguments of
# a command that is denied anyway, about a network that the profile gives, and that a
# command is a path, which is said of a command that the profile does not list.
unsaid(f) if {
	f.code in {"inline_code", "command_wrapper", "command_shell", "network_needed"}
	f.effect in stopped
}

unsaid(f) if {
	f.code == "network_needed"
	data.profile.allow_network == true
}

unsaid(f) if f.code == "command_path"

# Effects that the profile does not list.

strays := [e | some e in input.effects; e.listed == false]

# stopped has the commands among them.
stopped := {e.id | some e in strays; e.kind == "run"}

# whole gives an effect the members that a finding needs.
whole(e) := object.union({"id": "", "pointer": "", "path": "", "command": "", "tool_id": "", "adapter_id": "", "tool": null}, e)

found contains f if {
	strays[0]
	some f in unlisted
}

# The intent does not have the arguments of a tool's command: its call is at fault.
unlisted contains {"code": code, "effect": e.id, "path": concat("", [e.pointer, member]), "value": cut(e.command)} if {
	some stray in strays
	stray.kind == "run"
	e := whole(stray)
	code := {true: "command_not_a_name", false: "command_unlisted"}[e.id in paths]
	member := {true: "/argv/0", false: ""}[is_null(e.tool)]
}

# A call is that of a model, or that of a tool if it is bound to one. A call that could not
# be bound has a finding that says why.
unlisted contains {"code": code, "effect": e.id, "path": e.pointer, "value": cut(e.adapter_id)} if {
	some stray in strays
	stray.kind == "call"
	e := whole(stray)
	is_null(e.tool)
	not e.id in unbound
	code := {true: "adapter_missing", false: "adapter_unlisted"}[e.adapter_id == ""]
}

unlisted contains {"code": "tool_unlisted", "effect": e.id, "path": e.pointer, "value": cut(value)} if {
	some stray in strays
	stray.kind == "call"
	e := whole(stray)
	is_object(e.tool)
	value := trim_suffix(concat("/", [e.tool_id, e.adapter_id]), "/")
}

unbound := {f.effect | some f in input.findings; f.code in {"tool_unknown", "adapter_unknown", "params_invalid"}}

# Of the writes outside the roots so many are listed, as of the kernel's findings.
most_listed := 1000

unlisted contains {"code": "write_unlisted", "effect": e.id, "path": concat("", [e.pointer, member]), "value": cut(e.path)} if {
	some stray in array.slice(outside, 0, most_listed)
	e := whole(stray)
	member := {true: "", false: "/path"}[startswith(e.pointer, "/outputs/")]
}

unlisted contains {"code": "findings_many", "path": outside[most_listed].pointer, "value": sprintf("%d", [most_listed])}

# outside has the writes beneath no root. A fault of the path says all there is to say.
outside := [e |
	some e in strays
	e.kind == "write"
	not e.id in faulty
]

faulty := {f.effect | some f in input.findings; startswith(f.code, "path_")}

# paths has the run effects whose command is a path, where not every command is allowed.
paths := {f.effect | data.profile.allowed_commands != "*"; some f in input.findings; f.code == "command_path"}

# Actions of high risk, and those with a tag of the profile whose risk nobody has set to
# a known level.

found contains risk(i) if input.intent.actions[i].risk_level == "high"

found contains risk(i) if {
	some reviewed in data.profile.risk_tags
	lower(trim(input.intent.actions[i].risk_tags[_], " ")) == lower(trim(reviewed, " "))
	not input.intent.actions[i].risk_level in {"low", "medium"}
}

risk(i) := {"code": "risk_review", "path": sprintf("/actions/%d", [i]), "value": value} if {
	level := object.get(input.intent.actions[i], "risk_level", "unknown")
	tags := cut(concat(", ", object.get(input.intent.actions[i], "risk_tags", [])))
	value := trim_suffix(sprintf("risk level %s (%s)", [level, tags]), " ()")
}

# More outputs than the profile allows.

found contains {"code": "output_files", "path": pointer, "value": sprintf("%d", [n]), "other": sprintf("%d", [most])} if {
	most := data.profile.max_output_files
	count(input.effects) > most
	n := count({e.path | some e in input.effects; e.kind == "write"})
	n > most
	pointer := {true: "/outputs", false: "/actions"}[startswith(input.effects[count(input.effects) - 1].pointer, "/outputs/")]
}

found contains {"code": "output_bytes", "path": "/actions", "value": sprintf("%d", [n]), "other": sprintf("%d", [most])} if {
	most := data.profile.max_total_output_bytes
	most < 1048576 # the most that an intent can have
	n := sum([size | some b in encoded; size := (((count(b) / 4) * 3) + count(trim_right(b, "="))) - count(b)])
	n > most
}

# encoded has what each action writes, in base64, which shows how many bytes it has.
encoded := array.concat(
	[a.content_base64 | some a in input.intent.actions],
	[base64.encode(a.content) | some a in input.intent.actions],
)

# Texts.

fill(text, record, f) := strings.replace_n(
	{"{value}": f.value, "{place}": place(f.path), "{other}": place(f.other), "{list}": listed(record)},
	text,
)

# place says in words where a pointer leads.
place(pointer) := sprintf("%s %d", [noun, to_number(index) + 1]) if {
	["", list, index] = array.slice(split(pointer, "/"), 0, 3)
	noun := {"constraints": "constraint", "actions": "action", "inputs": "input", "outputs": "output"}[list]
	index != ""
	trim(index, "0123456789") == ""
} else := object.get({"/goal": "the goal"}, pointer, pointer)

# listed shows the allow-list of the profile that the text of a record names.
listed(record) := object.get({"": "none"}, text, text) if {
	text := cut(concat(", ", [name | some name in data.profile[object.get(record, "list", "")]]))
}

# cut keeps a message short, whatever the value in it.
cut(text) := concat("", [substring(text, 0, 120), {true: "…", false: ""}[count(text) > 120]])
