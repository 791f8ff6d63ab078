package gate.builtin

import future.keywords.not

# METADATA
# title: Action needs a risk review
# description: An action of high or unknown risk should be decided by somebody who knows what it touches
# custom:
#   id: RISK_REVIEW
#   since: 0.1.0
#   fix: split off the risky part, or lower the risk and say so in risk_level
deny contains {
	"id": "RISK_REVIEW", "path": path, "msg": msg,
	"fix": "split off the risky part, or lower the risk and say so in risk_level",
} if denied[_].risk_review[path] = msg

clarify contains {
	"id": "RISK_REVIEW", "path": path, "question": question,
	"options": ["change the plan", "proceed", "stop"],
} if asked[_].risk_review[path] = question

note contains {"id": "RISK_REVIEW", "path": path, "msg": msg} if noted[_].risk_review[path] = msg

risks := [{"code": "risk_review", "path": sprintf("/actions/%d", [i]), "value": value} |
	some i in flagged
	level := object.get(input.intent.actions[i], "risk_level", "unknown")
	tags := cut(concat(", ", object.get(input.intent.actions[i], "risk_tags", [])))
	value := trim_suffix(sprintf("risk level %s (%s)", [level, tags]), " ()")
]

# flagged has the actions of high risk, and those with a tag of the profile
# whose risk nobody has set to a known level.
flagged := {i | input.intent.actions[i].risk_level == "high"} | {i |
	some reviewed in data.profile.risk_tags
	lower(trim(input.intent.actions[i].risk_tags[_], " ")) == lower(trim(reviewed, " "))
	not input.intent.actions[i].risk_level in {"low", "medium"}
}
