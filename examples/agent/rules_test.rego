package gate.user.agent_test

import data.gate.user.agent

asked(name) := {[q.id, q.path] |
	questions := agent.clarify with input as data.intents[name]
	some q in questions
}

test_a_normal_day_passes if asked("routine") == set()

test_each_of_these_is_asked if {
	asked("asks") == {["COMMAND_ASKS", e.pointer] | some e in data.intents.asks.effects}
}

test_lines_of_a_shell_are_asked if {
	asked("lines") == {["LINE_NOT_PLAIN", "/actions/0"], ["LINE_NOT_PLAIN", "/actions/1"]}
}
