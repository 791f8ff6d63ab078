package judge

import (
	"strconv"

	"github.com/fiador/fiador/kernel/canon"
)

// Subject is something that an agent proposed or did, and that a policy decides.
type Subject struct {
	Place                            string // "proposed_actions[0]" or "events[2]"
	ActionID, ActionType, Tool, Risk string // as the agent says; a call has no ActionType
	RiskTags                         []string
	Params                           any
	Executed                         bool // nothing proves that it was not: see Subjects
}

// Subjects returns every proposed action; then every call that is not exactly what an action with
// its action_id proposed: the same tool with the same arguments, numbers as they are spelt, and the
// same risk where the call has one; and then every result that is no error, and has neither a call
// nor an action. Actions that share an id count each, since each of them is a subject.
//
// A call is executed, unless each call with its call_id has a later result that is an error, and no
// result with this call_id is none. A timeout is no error here: it proves nothing. An action is
// executed if a call with its id, tool and arguments is, whatever the risk of the call, or if a
// result that is no error names the action, and no call of the result does.
func Subjects(doc map[string]any) []Subject { return read(doc).subjects() }

func (t told) subjects() []Subject {
	executed, named, stray := t.executed()
	proposed, done := map[string]bool{}, map[string]bool{} // by exactly; proposed with the risk
	for i, call := range t.calls {
		form := exactly(call.obj, "tool", "args")
		done[form] = form != "" && (done[form] || executed[i])
	}
	subjects := make([]Subject, 0, len(t.actions))
	add := func(e event, tool, params string, executed bool) {
		var tags []string
		for _, tag := range list(e.obj, "risk_tags") {
			text, _ := tag.(string)
			tags = append(tags, text)
		}
		subjects = append(subjects, Subject{
			e.place, textOf(e.obj, "action_id"), textOf(e.obj, "action_type"), textOf(e.obj, tool), textOf(e.obj, "risk_level"), tags, e.obj[params], executed,
		})
	}
	for _, action := range t.actions {
		form := exactly(action.obj, "tool_name", "params")
		level, tags := literal(action.obj["risk_level"]), literal(action.obj["risk_tags"])
		for _, risk := range [...]string{" ", level + " ", " " + tags, level + " " + tags} { // of calls with none, one or both
			proposed[form+risk] = form != ""
		}
		add(action, "tool_name", "params", done[form] || named[textOf(action.obj, "action_id")])
	}
	for i, call := range t.calls {
		risk := " "
		if level, there := call.obj["risk_level"]; there {
			risk = literal(level) + risk
		}
		if tags, there := call.obj["risk_tags"]; there {
			risk += literal(tags)
		}
		if form := exactly(call.obj, "tool", "args"); !proposed[form+risk] {
			add(call, "tool", "args", executed[i])
		}
	}
	for _, result := range stray {
		subjects = append(subjects, Subject{Place: result.place, ActionID: textOf(result.obj, "action_id"), Executed: true})
	}
	return subjects
}

// exactly returns a text that an action and a call share if the call is what the action proposed;
// "" if nothing can be exactly this.
func exactly(of map[string]any, tool, params string) string {
	_, named := of["action_id"].(string)
	if _, ok := of[params].(map[string]any); !ok || !named {
		return ""
	}
	return literal([]any{of["action_id"], of[tool], of[params]})
}

// event is an event or an action of an answer.
type event struct {
	obj   map[string]any // nil: it is no object
	at    int
	place string
}

// told is what an answer says, whatever the types of its members are.
type told struct{ actions, events, calls, results []event }

func read(doc map[string]any) (t told) {
	t.actions, t.events = eventsOf(doc, "proposed_actions"), eventsOf(doc, "events")
	for _, e := range t.events {
		switch textOf(e.obj, "type") {
		case "tool_call":
			t.calls = append(t.calls, e)
		case "tool_result":
			t.results = append(t.results, e)
		}
	}
	return t
}

func eventsOf(doc map[string]any, name string) (of []event) {
	for i, v := range list(doc, name) {
		obj, _ := v.(map[string]any)
		of = append(of, event{obj, i, name + "[" + strconv.Itoa(i) + "]"})
	}
	return of
}

// executed says of each call whether it is executed, and has the action_ids that results name and
// their calls do not, and the results that have neither a call nor an action.
func (t told) executed() (executed []bool, named map[string]bool, stray []event) {
	named = map[string]bool{}
	calls, open, happened := map[string][]int{}, map[string]int{}, map[string]bool{}
	names := map[[2]string]bool{} // call_id and action_id of a call
	for _, e := range t.events {
		id, ok := e.obj["call_id"].(string)
		switch kind := textOf(e.obj, "type"); {
		case kind == "tool_call":
			if ok {
				calls[id] = append(calls[id], len(executed))
				open[id]++
				if action, has := e.obj["action_id"].(string); has {
					names[[2]string{id, action}] = true
				}
			}
			executed = append(executed, true)
		case kind != "tool_result" || !ok:
		case !excuses(e):
			happened[id] = true
		case open[id] > 0:
			open[id]--
		}
	}
	for id, of := range calls {
		for _, i := range of {
			executed[i] = open[id] > 0 || happened[id]
		}
	}
	actions := byText(t.actions, "action_id")
	for _, result := range t.results {
		id, ok := result.obj["call_id"].(string)
		action, has := result.obj["action_id"].(string)
		switch {
		case excuses(result) || ok && has && names[[2]string{id, action}]:
		case has && len(actions[action]) > 0:
			named[action] = true
		case !ok || len(calls[id]) == 0:
			stray = append(stray, result)
		}
	}
	return executed, named, stray
}

// excuses says whether a result proves that its call was not executed.
func excuses(result event) bool {
	return result.obj["status"] == "error" && result.obj["error_code"] != "timeout"
}

func textOf(obj map[string]any, name string) string {
	s, _ := obj[name].(string)
	return s
}

func list(obj map[string]any, name string) []any {
	l, _ := obj[name].([]any)
	return l
}

// literal returns the JSON of a value with numbers as they are spelt; "" if it has none.
func literal(v any) string {
	b, err := canon.Literal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
