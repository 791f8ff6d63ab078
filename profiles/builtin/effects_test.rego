package gate.builtin_test

import future.keywords.not

import data.gate.builtin

# Every profile must refuse an effect of this shape: no deny needs to say so,
# for an effect without a permit is refused.
test_no_permit if {
	cases := [
		[dev, {"id": "fly:/actions/0", "kind": "fly", "pointer": "/actions/0", "path": "out/a"}],
		[dev, {"id": "x", "pointer": "/actions/0", "path": "out/a"}],
		[dev, object.union(write("out/a"), {"kind": "fly", "command": "node", "adapter_id": "search"})],
		[dev, {"kind": "write", "pointer": "/actions/0", "path": "out/a"}],
		[dev, read("")],
		[dev, {"id": "read:/inputs/0", "kind": "read", "pointer": "/inputs/0"}],
		[dev, write("")],
		[dev, {"id": "write:/actions/0", "kind": "write", "pointer": "/actions/0"}],
		[dev, run("", [])],
		[dev, {"id": "run:/actions/0", "kind": "run", "pointer": "/actions/0"}],
		[dev, call("")],
		[dev, {"id": "call:/actions/0", "kind": "call", "pointer": "/actions/0"}],
		[object.union(dev, {"model_adapters": "*"}), call("")],
		[object.union(dev, {"model_adapters": "*"}), {"id": "call:/actions/0", "kind": "call", "pointer": "/actions/0"}],
		[object.union(dev, {"model_adapters": [""]}), call("")],
		[bare, write("out/a")],
		[bare, run("node", [])],
		[bare, call("search")],
	]
	every case in cases {
		[profile, effect] = case
		builtin.permit == set() with input as document([], [effect], []) with data.profile as profile
	}
}

test_no_permit_without_findings_member if {
	doc := object.remove(document([], [read("a")], []), ["findings"])
	builtin.permit == set() with input as doc with data.profile as dev
}

test_permit if {
	cases := [
		[strict, read("src/a")], [bare, read("src/a")],
		[strict, write("out/a")], [strict, output("out/a/b")], [strict, write("pkg/gen/a")], [dev, write("a")],
		[strict, run("node", [])], [dev, run("anything", ["CI", "TERM"])], [dev, run("./x", [])],
		[object.union(strict, {"env_allow": ["CI"]}), run("npm", ["CI"])],
		[strict, object.remove(run("npm", []), ["env"])],
		[dev, call("search")], [object.union(dev, {"model_adapters": "*"}), call("anything")],
	]
	every case in cases {
		[profile, effect] = case
		doc := document([], [effect], [])
		builtin.permit == {effect.id} with input as doc with data.profile as profile
		builtin.deny == set() with input as doc with data.profile as profile
	}
}

test_denied_finding_takes_the_permit if {
	effects := [read("a"), write("a"), run("a", []), call("search")]
	every effect in effects {
		every code in {"path_absolute", "path_traversal", "command_character", "nobody_knows"} {
			doc := document([], [effect], [about(code, effect)])
			builtin.permit == set() with input as doc with data.profile as dev
		}
	}
}

test_noted_and_asked_findings_leave_the_permit if {
	every weight in {"note", "clarify"} {
		doc := document([], [write("out/a")], [about("write_twice", write("out/a"))])
		builtin.permit == {"write:/actions/0"} with input as doc with data.profile as weighing(weight)
	}
	doc := document([], [write("out/a")], [about("write_twice", write("out/a"))])
	builtin.permit == set() with input as doc with data.profile as weighing("deny")
}

test_permits_are_one_by_one if {
	doc := document([], [read("a"), write("etc/a"), output("out/b")], [])
	builtin.permit == {"read:/inputs/0", "write:/outputs/0"} with input as doc with data.profile as strict
}

test_write_outside_root if {
	cases := {
		"etc/a": false, "out": false, "outx/a": false, "Out/a": false, "out/": false, "": false,
		"pkg/a": false, "pkg/gen": false, "pkg/generated/a": false, "a/out/b": false, "/out/a": false,
		"out/a": true, "out/a/b": true, "pkg/gen/a": true,
	}
	every path, inside in cases {
		ids := {d.id | some d in builtin.deny} with input as document([], [write(path)], []) with data.profile as strict
		ids == {true: set(), false: {"WRITE_OUTSIDE_ROOT"}}[inside]
	}
}

test_write_outside_root_says_where_and_why if {
	doc := document([], [write("etc/a"), output("b")], [])
	{[d.path, d.msg] | some d in builtin.deny} == {
		["/actions/0/path", `"etc/a" is not beneath allowed_write_roots (out, pkg/gen)`],
		["/outputs/0", `"b" is not beneath allowed_write_roots (out, pkg/gen)`],
	} with input as doc
		with data.profile as strict
}

test_of_many_writes_and_names_a_thousand_are_listed if {
	outputs := [output(sprintf("o%d", [i])) | some i in numbers.range(1, 1003)]
	writes := [object.union(e, {"id": e.path, "pointer": e.path}) | some e in outputs]
	names := {sprintf("N%d", [i]) | some i in numbers.range(1, 1002)}
	doc := document([], array.concat(writes, [run("node", names)]), [])
	denied := builtin.deny with input as doc with data.profile as strict
	count({d | some d in denied; d.id == "WRITE_OUTSIDE_ROOT"}) == 1000
	count({d | some d in denied; d.id == "ENV_NOT_ALLOWED"}) == 1000
	{[d.path, d.msg] | some d in denied; d.id == "FINDINGS_MANY"} == {
		["o1001", "there are more than 1000 findings"], ["/actions/0", "there are more than 1000 findings"],
	}
	builtin.permit == set() with input as doc with data.profile as strict
}

test_write_outside_root_without_members if {
	doc := document([], [{"kind": "write"}], [])
	{[d.id, d.path, d.msg] | some d in builtin.deny} == {[
		"WRITE_OUTSIDE_ROOT", "/path", `"" is not beneath allowed_write_roots (none)`,
	]} with input as doc
		with data.profile as bare
}

test_path_fault_is_the_only_word_on_a_path if {
	doc := document([], [write("../a")], [about("path_traversal", write("../a"))])
	{d.id | some d in builtin.deny} == {"PATH_TRAVERSAL"} with input as doc with data.profile as strict
}

test_other_denials_leave_write_outside_root if {
	doc := document([], [write("etc/a")], [about("write_twice", write("etc/a"))])
	{d.id | some d in builtin.deny} == {"WRITE_TWICE", "WRITE_OUTSIDE_ROOT"} with input as doc
		with data.profile as weighing("deny")
}

test_command_not_allowed if {
	every command in {"curl", "Node", "node ", "nodejs", "", "./node", "/usr/bin/node"} {
		doc := document([], [run(command, [])], [])
		denied := builtin.deny with input as doc with data.profile as strict
		{[d.id, d.path, d.msg] | some d in denied} == {[
			"CMD_NOT_ALLOWED", "/actions/0/argv/0",
			sprintf(`"%s" is not in allowed_commands (node, npm)`, [command]),
		]}
	}
}

test_command_not_allowed_without_members if {
	every profile in [strict, dev, bare] {
		doc := document([], [{"kind": "run"}], [])
		{[d.id, d.path] | some d in builtin.deny} == {["CMD_NOT_ALLOWED", "/argv/0"]} with input as doc
			with data.profile as profile
	}
}

test_command_path_is_no_name if {
	listed := object.union(strict, {"allowed_commands": ["node", "bin/x"]})
	doc := document([], [run("bin/x", [])], [about("command_path", run("bin/x", []))])
	{d.msg | some d in builtin.deny} == {
		`"bin/x" is a path, not a name in allowed_commands (node, bin/x)`,
	} with input as doc
		with data.profile as listed
	builtin.permit == set() with input as doc with data.profile as listed
	builtin.deny == set() with input as doc with data.profile as dev
	builtin.permit == {"run:/actions/0"} with input as doc with data.profile as dev
}

test_code_of_a_command_matters_only_if_it_is_allowed if {
	every code in {"inline_code", "command_wrapper", "command_shell", "network_needed"} {
		allowed := document([], [run("node", [])], [about(code, run("node", []))])
		{d.id | some d in builtin.deny} == {choice[code][0]} with input as allowed with data.profile as strict
		builtin.permit == set() with input as allowed with data.profile as strict

		stray := document([], [run("bash", [])], [about(code, run("bash", []))])
		{d.id | some d in builtin.deny} == {"CMD_NOT_ALLOWED"} with input as stray with data.profile as strict

		{n.id | some n in builtin.note} == {choice[code][0]} with input as stray with data.profile as dev
		builtin.deny == set() with input as stray with data.profile as dev
		builtin.permit == {"run:/actions/0"} with input as stray with data.profile as dev
	}
}

test_network_needed_says_nothing_where_there_is_one if {
	effect := run("npm", [])
	doc := document([], [effect], [about("network_needed", effect)])
	every profile in [strict, object.union(strict, {"allow_network": false}), object.union(strict, {"allow_network": "true"})] {
		{d.id | some d in builtin.deny} == {"NETWORK_NEEDED"} with input as doc with data.profile as profile
		builtin.permit == set() with input as doc with data.profile as profile
	}
	builtin.deny == set() with input as doc with data.profile as object.union(strict, {"allow_network": true})
	builtin.permit == {effect.id} with input as doc with data.profile as object.union(strict, {"allow_network": true})
}

test_unsafe_name_is_said_of_a_stray_command_too if {
	doc := document([], [run("n\u043ede", [])], [about("command_character", run("n\u043ede", []))])
	{d.id | some d in builtin.deny} == {"CMD_NAME_UNSAFE", "CMD_NOT_ALLOWED"} with input as doc with data.profile as strict
	{d.id | some d in builtin.deny} == {"CMD_NAME_UNSAFE"} with input as doc with data.profile as dev
}

test_code_findings_of_other_effects_are_never_moot if {
	every code in {"inline_code", "command_wrapper", "command_shell", "network_needed"} {
		doc := document([], [write("out/a")], [about(code, write("out/a"))])
		{d.id | some d in builtin.deny} == {choice[code][0]} with input as doc with data.profile as strict
	}
}

test_env_matters_only_to_commands if {
	doc := document([], [object.union(read("a"), {"env": ["CI"]})], [])
	builtin.deny == set() with input as doc with data.profile as strict
}

test_env_not_allowed if {
	doc := document([], [run("node", ["CI", "A/B~C"])], [])
	{[d.id, d.path, d.msg] | some d in builtin.deny} == {
		["ENV_NOT_ALLOWED", "/actions/0/env/CI", `environment name "CI" is not in env_allow (none)`],
		["ENV_NOT_ALLOWED", "/actions/0/env/A~1B~0C", `environment name "A/B~C" is not in env_allow (none)`],
	} with input as doc
		with data.profile as strict
	builtin.permit == set() with input as doc with data.profile as strict

	some_allowed := object.union(strict, {"env_allow": ["CI"]})
	{d.path | some d in builtin.deny} == {"/actions/0/env/A~1B~0C"} with input as doc with data.profile as some_allowed
	builtin.permit == set() with input as doc with data.profile as some_allowed
	count(builtin.deny) == 2 with input as doc with data.profile as object.remove(strict, ["env_allow"])
}

test_guarded_env_is_never_allowed if {
	named := object.union(strict, {"env_allow": ["CI", "LD_PRELOAD"]})
	effect := run("node", ["CI", "LD_PRELOAD"])
	doc := document([], [effect], [object.union(about("env_guarded", effect), {"value": "LD_PRELOAD"})])
	every profile in [strict, dev, named, object.union(named, {"env_allow": "*"})] {
		"ENV_GUARDED" in {d.id | some d in builtin.deny} with input as doc with data.profile as profile
		builtin.permit == set() with input as doc with data.profile as profile
	}
	{[d.id, d.path] | some d in builtin.deny} == {
		["ENV_GUARDED", "/actions/0/x"], ["ENV_NOT_ALLOWED", "/actions/0/env/CI"],
	} with input as doc
		with data.profile as strict
}

limited(files, bytes) := object.union(dev, {"max_output_files": files, "max_total_output_bytes": bytes})

test_output_files if {
	paths := ["out/a", "out/b", "out/a"]
	effects := [object.union(write(paths[i]), {"pointer": sprintf("/actions/%d", [i])}) | some i in [0, 1, 2]]
	every case in [[effects, "/actions"], [array.concat(effects, [output("out/b")]), "/outputs"]] {
		doc := document([], case[0], [])
		{[d.id, d.path, d.msg] | some d in builtin.deny} == {[
			"OUTPUT_FILES", case[1], "2 files are written or declared, more than max_output_files (1)",
		]} with input as doc
			with data.profile as limited(1, 1024)
		builtin.deny == set() with input as doc with data.profile as limited(2, 1024)
	}
	reads := document([], [read("a"), read("b")], [])
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
		[object.union(dev, {"model_adapters": [""]}), call(""), "the call names no adapter"],
		[object.union(dev, {"model_adapters": ["*"]}), call("search"), `adapter "search" of the call is not in model_adapters (*)`],
		[object.union(dev, {"model_adapters": "search"}), call("search"), `adapter "search" of the call is not in model_adapters (none)`],
		[bare, call("search"), `adapter "search" of the call is not in model_adapters (none)`],
	]
	every case in cases {
		[profile, effect, msg] = case
		denied := builtin.deny with input as document([], [effect], []) with data.profile as profile
		{[d.id, d.path, d.msg] | some d in denied} == {["CALL_NOT_ALLOWED", "/actions/0", msg]}
	}
	every profile in [dev, object.union(dev, {"model_adapters": "*"})] {
		{[d.id, d.path] | some d in builtin.deny} == {["CALL_NOT_ALLOWED", ""]} with input as document([], [{"kind": "call"}], [])
			with data.profile as profile
	}
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
		asked == {{
			"id": "RISK_REVIEW", "path": "/actions/1", "question": sprintf("Should action 2 go ahead? It is of %s", [text]),
			"options": ["change the plan", "proceed", "stop"],
		} |
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
