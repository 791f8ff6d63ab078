package gate.builtin_test

strict := {
	"name": "strict", "allowed_commands": ["node", "npm"], "allowed_write_roots": ["out", "pkg/gen"],
	"env_allow": [], "model_adapters": [],
	"risk_tags": ["destructive", "payment"], "severity": severities("deny", "clarify"),
}

default_profile := object.union(strict, {"name": "default", "risk_tags": [], "severity": severities("deny", "clarify")})

dev := {
	"name": "dev", "allowed_commands": "*", "allowed_write_roots": "*", "env_allow": "*",
	"model_adapters": ["search"], "risk_tags": [], "severity": severities("note", "note"),
}

# bare has no member but a name.
bare := {"name": "bare"}

# weighing is strict with one weight for every rule that has a choice.
weighing(weight) := object.union(strict, {"severity": severities(weight, weight)})

severities(commands, others) := object.union(
	{id: commands | some id in {"INLINE_CODE", "CMD_WRAPPER", "SHELL_COMMAND", "NETWORK_NEEDED"}},
	{id: others |
		some id in {
			"AGENT_INSTRUCTIONS", "PLACEHOLDER", "CONTRADICTION", "DONE_UNDEFINED", "RISK_REVIEW",
			"WRITE_TWICE", "OUTPUT_UNPRODUCED", "INPUT_WRITTEN",
		}
	},
)

document(actions, effects, findings) := {
	"intent": {"goal": "g", "constraints": [], "context": {}, "actions": actions, "inputs": [], "outputs": []},
	"effects": effects,
	"findings": findings,
}

found(code, path, effect, value, other) := document([], [], [{
	"code": code, "path": path, "effect": effect, "value": value, "other": other,
}])

read(path) := {"id": "read:/inputs/0", "kind": "read", "pointer": "/inputs/0", "path": path}

write(path) := {"id": "write:/actions/0", "kind": "write", "pointer": "/actions/0", "path": path}

output(path) := {"id": "write:/outputs/0", "kind": "write", "pointer": "/outputs/0", "path": path}

run(command, env) := {
	"id": "run:/actions/0", "kind": "run", "pointer": "/actions/0",
	"command": command, "argv": [command], "env": env,
}

call(adapter) := {
	"id": "call:/actions/0", "kind": "call", "pointer": "/actions/0",
	"tool_id": "t", "adapter_id": adapter,
}

# bound is a call of a tool, and command the process of one.
bound(tool, adapter) := object.union(call(adapter), {"tool_id": tool, "tool": {"type": "cli"}})

command(name) := object.union(run(name, []), {"pointer": "/actions/0", "tool": {"type": "cli"}})

# listed and unlisted say what the kernel says of an effect under the profile.
listed(effect) := object.union(effect, {"listed": true})

unlisted(effect) := object.union(effect, {"listed": false})

stray_name(name) := {
	"code": "env_unlisted", "path": concat("", ["/actions/0/env/", name]), "effect": "run:/actions/0",
	"value": name, "other": "",
}

about(code, effect) := {"code": code, "path": "/actions/0/x", "effect": effect.id, "value": "v", "other": ""}
