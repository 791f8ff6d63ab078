package gate.builtin_test

import future.keywords.not

import data.gate.builtin

# No profile permits an effect of this shape: no deny needs to say so, for an effect
# without a permit is refused.
test_no_permit if {
	effects := [
		{"id": "fly:/actions/0", "kind": "fly", "pointer": "/actions/0", "path": "out/a", "listed": true},
		{"id": "x", "pointer": "/actions/0", "path": "out/a", "listed": true},
		listed(object.union(write("out/a"), {"kind": "fly", "command": "node", "adapter_id": "search"})),
		{"kind": "write", "pointer": "/actions/0", "path": "out/a", "listed": true},
		read("a"), unlisted(read("a")), write("out/a"), unlisted(write("out/a")),
		run("node", []), unlisted(run("node", [])), call("search"), unlisted(call("search")),
		object.union(write("out/a"), {"listed": "true"}), object.union(run("node", []), {"listed": 1}),
		object.union(call("search"), {"listed": null}),
	]
	every profile in [strict, dev, bare] {
		every effect in effects {
			builtin.permit == set() with input as document([], [effect], []) with data.profile as profile
		}
	}
}

test_no_permit_without_findings_member if {
	doc := object.remove(document([], [listed(read("a"))], []), ["findings"])
	builtin.permit == set() with input as doc with data.profile as dev
}

test_permit if {
	effects := [
		read("src/a"), write("out/a"), output("out/a/b"), run("node", []), run("anything", ["CI", "TERM"]),
		object.remove(run("npm", []), ["env"]), call("search"),
	]
	every profile in [strict, dev, bare] {
		every effect in effects {
			doc := document([], [listed(effect)], [])
			builtin.permit == {effect.id} with input as doc with data.profile as profile
			builtin.deny == set() with input as doc with data.profile as profile
		}
	}
}

test_denied_finding_takes_the_permit if {
	effects := [listed(read("a")), listed(write("a")), listed(run("a", [])), listed(call("search"))]
	every effect in effects {
		every code in {"path_absolute", "path_traversal", "command_character", "nobody_knows"} {
			doc := document([], [effect], [about(code, effect)])
			builtin.permit == set() with input as doc with data.profile as dev
		}
	}
}

test_noted_and_asked_findings_leave_the_permit if {
	every weight in {"note", "clarify"} {
		doc := document([], [listed(write("out/a"))], [about("write_twice", write("out/a"))])
		builtin.permit == {"write:/actions/0"} with input as doc with data.profile as weighing(weight)
	}
	doc := document([], [listed(write("out/a"))], [about("write_twice", write("out/a"))])
	builtin.permit == set() with input as doc with data.profile as weighing("deny")
}

test_permits_are_one_by_one if {
	doc := document([], [listed(read("a")), unlisted(write("etc/a")), listed(output("out/b"))], [])
	builtin.permit == {"read:/inputs/0", "write:/outputs/0"} with input as doc with data.profile as strict
}

test_write_outside_root_says_where_and_why if {
	doc := document([], [unlisted(write("etc/a")), unlisted(output("b"))], [])
	{[d.path, d.msg] | some d in builtin.deny} == {
		["/actions/0/path", `"etc/a" is not beneath allowed_write_roots (out, pkg/gen)`],
		["/outputs/0", `"b" is not beneath allowed_write_roots (out, pkg/gen)`],
	} with input as doc
		with data.profile as strict
}

test_of_many_writes_a_thousand_are_listed if {
	every case in [["", "/outputs/1001", "/outputs/1001"], ["/path", "/actions/1001/path", "/actions/1001"]] {
		pointers := [trim_suffix(replace(case[1], "1001", sprintf("%d", [i])), "/path") | some i in numbers.range(1, 1003)]
		doc := document([], [object.union(unlisted(output("o")), {"id": p, "pointer": p}) | some p in pointers], [])
		denied := builtin.deny with input as doc with data.profile as strict
		count({d | some d in denied; d.id == "WRITE_OUTSIDE_ROOT"; endswith(d.path, case[0])}) == 1000
		{[d.path, d.msg] | some d in denied; d.id == "FINDINGS_MANY"} == {[case[2], "there are more than 1000 findings"]}
	}
}

test_write_outside_root_without_members if {
	doc := document([], [{"kind": "write", "listed": false}], [])
	{[d.id, d.path, d.msg] | some d in builtin.deny} == {[
		"WRITE_OUTSIDE_ROOT", "/path", `"" is not beneath allowed_write_roots (none)`,
	]} with input as doc
		with data.profile as bare
}

test_path_fault_is_the_only_word_on_a_path if {
	doc := document([], [unlisted(write("../a"))], [about("path_traversal", write("../a"))])
	{d.id | some d in builtin.deny} == {"PATH_TRAVERSAL"} with input as doc with data.profile as strict
}

test_other_denials_leave_write_outside_root if {
	doc := document([], [unlisted(write("etc/a"))], [about("write_twice", write("etc/a"))])
	{d.id | some d in builtin.deny} == {"WRITE_TWICE", "WRITE_OUTSIDE_ROOT"} with input as doc
		with data.profile as weighing("deny")
}

test_command_not_allowed if {
	every command in {"curl", "", "./node", sprintf("%0200d", [0])} {
		doc := document([], [unlisted(run(command, []))], [])
		denied := builtin.deny with input as doc with data.profile as strict
		{[d.id, d.path, d.msg] | some d in denied} == {[
			"CMD_NOT_ALLOWED", "/actions/0/argv/0",
			sprintf(`"%s" is not in allowed_commands (node, npm)`, [builtin.cut(command)]),
		]}
	}
}

test_command_not_allowed_without_members if {
	every profile in [strict, dev, bare] {
		doc := document([], [{"kind": "run", "listed": false}], [])
		{[d.id, d.path] | some d in builtin.deny} == {["CMD_NOT_ALLOWED", "/argv/0"]} with input as doc
			with data.profile as profile
	}
}

test_command_path_is_no_name if {
	named := object.union(strict, {"allowed_commands": ["node", "bin/x"]})
	finding := about("command_path", run("bin/x", []))
	doc := document([], [unlisted(run("bin/x", []))], [finding])
	{d.msg | some d in builtin.deny} == {
		`"bin/x" is a path, not a name in allowed_commands (node, bin/x)`,
	} with input as doc
		with data.profile as named
	builtin.permit == set() with input as doc with data.profile as named
	every_command := document([], [listed(run("bin/x", []))], [finding])
	builtin.deny == set() with input as every_command with data.profile as dev
	builtin.permit == {"run:/actions/0"} with input as every_command with data.profile as dev
}

test_code_of_a_command_matters_only_if_it_is_listed if {
	every code in {"inline_code", "command_wrapper", "command_shell", "network_needed"} {
		finding := about(code, run("node", []))
		allowed := document([], [listed(run("node", []))], [finding])
		{d.id | some d in builtin.deny} == {choice[code][0]} with input as allowed with data.profile as strict
		builtin.permit == set() with input as allowed with data.profile as strict
		{n.id | some n in builtin.note} == {choice[code][0]} with input as allowed with data.profile as dev
		builtin.permit == {"run:/actions/0"} with input as allowed with data.profile as dev

		stray := document([], [unlisted(run("bash", []))], [finding])
		{d.id | some d in builtin.deny} == {"CMD_NOT_ALLOWED"} with input as stray with data.profile as strict
		builtin.note == set() with input as stray with data.profile as dev
	}
}

test_network_needed_says_nothing_where_there_is_one if {
	effect := listed(run("npm", []))
	doc := document([], [effect], [about("network_needed", effect)])
	every profile in [strict, object.union(strict, {"allow_network": false}), object.union(strict, {"allow_network": "true"})] {
		{d.id | some d in builtin.deny} == {"NETWORK_NEEDED"} with input as doc with data.profile as profile
		builtin.permit == set() with input as doc with data.profile as profile
	}
	builtin.deny == set() with input as doc with data.profile as object.union(strict, {"allow_network": true})
	builtin.permit == {effect.id} with input as doc with data.profile as object.union(strict, {"allow_network": true})
}

test_unsafe_name_is_said_of_a_stray_command_too if {
	effect := unlisted(run("n\u043ede", []))
	finding := about("command_character", effect)
	{d.id | some d in builtin.deny} == {"CMD_NAME_UNSAFE", "CMD_NOT_ALLOWED"} with input as document([], [effect], [finding])
		with data.profile as strict
	{d.id | some d in builtin.deny} == {"CMD_NAME_UNSAFE"} with input as document([], [listed(effect)], [finding])
		with data.profile as dev
}

test_code_findings_of_other_effects_are_never_moot if {
	every code in {"inline_code", "command_wrapper", "command_shell", "network_needed"} {
		doc := document([], [unlisted(run("bash", [])), listed(write("out/a"))], [about(code, write("out/a"))])
		{d.id | some d in builtin.deny} == {"CMD_NOT_ALLOWED", choice[code][0]} with input as object.union(doc, {"effects": [
			object.union(doc.effects[0], {"id": "run:/actions/1"}), doc.effects[1],
		]})
			with data.profile as strict
	}
}

test_env_not_allowed if {
	effect := listed(run("node", ["CI"]))
	doc := document([], [effect], [stray_name("CI")])
	{[d.id, d.path, d.msg] | some d in builtin.deny} == {[
		"ENV_NOT_ALLOWED", "/actions/0/env/CI", `environment name "CI" is not in env_allow (none)`,
	]} with input as doc
		with data.profile as strict
	builtin.permit == set() with input as doc with data.profile as strict
	{d.msg | some d in builtin.deny} == {`environment name "CI" is not in env_allow (A, B)`} with input as doc
		with data.profile as object.union(strict, {"env_allow": ["A", "B"]})
	count(builtin.deny) == 1 with input as doc with data.profile as object.remove(strict, ["env_allow"])
}

test_guarded_env_is_never_allowed if {
	effect := listed(run("node", ["LD_PRELOAD"]))
	doc := document([], [effect], [object.union(about("env_guarded", effect), {"value": "LD_PRELOAD"})])
	every profile in [strict, dev, object.union(strict, {"env_allow": ["LD_PRELOAD"]}), object.union(strict, {"env_allow": "*"})] {
		{d.id | some d in builtin.deny} == {"ENV_GUARDED"} with input as doc with data.profile as profile
		builtin.permit == set() with input as doc with data.profile as profile
	}
}

limited(files, bytes) := object.union(dev, {"max_output_files": files, "max_total_output_bytes": bytes})

test_output_files if {
	paths := ["out/a", "out/b", "out/a"]
	effects := [object.union(write(paths[i]), {"pointer": sprintf("/actions/%d", [i]), "listed": true}) | some i in [0, 1, 2]]
	every case in [[effects, "/actions"], [array.concat(effects, [listed(output("out/b"))]), "/outputs"]] {
		doc := document([], case[0], [])
		{[d.id, d.path, d.msg] | some d in builtin.deny} == {[
			"OUTPUT_FILES", case[1], "2 files are written or declared, more than max_output_files (1)",
		]} with input as doc
			with data.profile as limited(1, 1024)
		builtin.deny == set() with input as doc with data.profile as limited(2, 1024)
	}
	reads := document([], [listed(read("a")), listed(read("b"))], [])
	builtin.deny == set() with input as reads with data.profile as limited(1, 1024)
}

test_output_bytes if {
	# 5 bytes of text, 1, 2 and 3 bytes in base64, and what writes nothing
	actions := [{"content": "a\u00e9\u4e2d"}, {"content": ""}, {"content_base64": "AA=="}, {"content_base64": "AAA="}, {"content_base64": "AAAA"}, {"argv": ["x"]}]
	doc := document(actions, [], [])
	builtin.deny == set() with input as doc with data.profile as limited(1, 12)
	{[d.id, d.path, d.msg] | some d in builtin.deny} == {[
		"OUTPUT_BYTES", "/actions", "12 bytes are written, more than max_total_output_bytes (11)",
	]} with input as doc
		with data.profile as limited(1, 11)
}

test_call_not_allowed if {
	cases := [
		[strict, call("search"), `adapter "search" of the call is not in model_adapters (none)`],
		[dev, call("Search"), `adapter "Search" of the call is not in model_adapters (search)`],
		[dev, call(""), "the call names no adapter"],
		[object.union(dev, {"model_adapters": "*"}), call(""), "the call names no adapter"],
		[object.union(dev, {"model_adapters": ["*"]}), call("search"), `adapter "search" of the call is not in model_adapters (*)`],
		[object.union(dev, {"model_adapters": "search"}), call("search"), `adapter "search" of the call is not in model_adapters (none)`],
		[bare, call("search"), `adapter "search" of the call is not in model_adapters (none)`],
	]
	every case in cases {
		[profile, effect, msg] = case
		denied := builtin.deny with input as document([], [unlisted(effect)], []) with data.profile as profile
		{[d.id, d.path, d.msg] | some d in denied} == {["CALL_NOT_ALLOWED", "/actions/0", msg]}
	}
	every profile in [dev, object.union(dev, {"model_adapters": "*"})] {
		{[d.id, d.path] | some d in builtin.deny} == {["CALL_NOT_ALLOWED", ""]} with input as document([], [{"kind": "call", "listed": false}], [])
			with data.profile as profile
	}
}

test_tool_not_allowed if {
	denied := builtin.deny with input as document([], [unlisted(bound("TL-003", "ADP-001")), unlisted(command("rg"))], [])
		with data.profile as strict
	{[d.id, d.path, d.msg] | some d in denied} == {
		["TOOL_NOT_ALLOWED", "/actions/0", `tool "TL-003/ADP-001" is not in allowed_tools (none)`],
		["CMD_NOT_ALLOWED", "/actions/0", `"rg" is not in allowed_commands (node, npm)`],
	}
}

test_tool_permitted if {
	effects := [listed(bound("TL-003", "ADP-001")), listed(command("rg"))]
	builtin.deny == set() with input as document([], effects, []) with data.profile as strict
	builtin.permit == {"call:/actions/0", "run:/actions/0"} with input as document([], effects, []) with data.profile as strict
}

# A call that could not be bound is denied for the reason alone, and permitted by nothing.
test_call_not_bound if {
	every code, id in {"tool_unknown": "TOOL_UNKNOWN", "adapter_unknown": "ADAPTER_UNKNOWN", "params_invalid": "PARAMS_INVALID"} {
		every effect in [listed(call("A")), unlisted(call("A"))] {
			doc := document([], [effect], [about(code, effect)])
			{d.id | some d in builtin.deny} == {id} with input as doc with data.profile as dev
			builtin.permit == set() with input as doc with data.profile as dev
		}
	}
}

test_tool_status if {
	effect := listed(bound("TL-003", "ADP-001"))
	asked := builtin.clarify with input as document([], [effect], [about("tool_experimental", effect)])
		with data.profile as object.union(strict, {"severity": {"TOOL_EXPERIMENTAL": "clarify"}})
	{q.id | some q in asked} == {"TOOL_EXPERIMENTAL"}
	noted := builtin.note with input as document([], [effect], [about("tool_deprecated", effect)]) with data.profile as dev
	{n.id | some n in noted} == {"TOOL_DEPRECATED"}
	denied := builtin.deny with input as document([], [effect], [about("tool_inactive", effect)]) with data.profile as dev
	{d.id | some d in denied} == {"TOOL_INACTIVE"}
}

# An action's risk_level and risk_tags, and what strict says it is of, or "".
risk_cases := [
	[{}, ""],
	[{"risk_level": "unknown"}, ""],
	[{"risk_level": "low"}, ""],
	[{"risk_level": "medium", "risk_tags": ["payment"]}, ""],
	[{"risk_level": "low", "risk_tags": ["destructive"]}, ""],
	[{"risk_tags": ["network"]}, ""],
	[{"risk_level": "high"}, "risk level high"],
	[{"risk_level": "high", "risk_tags": ["network"]}, "risk level high (network)"],
	[{"risk_level": "unknown", "risk_tags": ["x", "payment"]}, "risk level unknown (x, payment)"],
	[{"risk_tags": ["Destructive"]}, "risk level unknown (Destructive)"],
	[{"risk_tags": ["  PAYMENT "]}, "risk level unknown (  PAYMENT )"],
	[{"risk_level": "none", "risk_tags": ["payment"]}, "risk level none (payment)"],
]

test_risk_review if {
	every case in risk_cases {
		doc := document([{}, case[0]], [], [])
		asked := builtin.clarify with input as doc with data.profile as strict
		asked == {{"id": "RISK_REVIEW", "path": "/actions/1", "question": sprintf("Should action 2 go ahead? It is of %s", [text])} |
			text := case[1]
			text != ""
		}
	}
}

test_risk_review_weights if {
	doc := document([{"risk_level": "high"}], [], [])
	{[d.id, d.path, d.msg] | some d in builtin.deny} == {[
		"RISK_REVIEW", "/actions/0", "action 1 is of risk level high",
	]} with input as doc
		with data.profile as weighing("deny")
	{[n.id, n.path, n.msg] | some n in builtin.note} == {[
		"RISK_REVIEW", "/actions/0", "action 1 is of risk level high",
	]} with input as doc
		with data.profile as weighing("note")
	{c.id | some c in builtin.clarify} == {"RISK_REVIEW"} with input as doc with data.profile as bare
}

test_risk_tags_matter_only_to_profiles_that_list_them if {
	doc := document([{"risk_tags": ["payment"]}], [], [])
	every profile in [default_profile, dev, bare] {
		builtin.deny == set() with input as doc with data.profile as profile
		builtin.clarify == set() with input as doc with data.profile as profile
		builtin.note == set() with input as doc with data.profile as profile
	}
}
