package work

import (
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// Agent is the entry of an agent in the operator's list.
type Agent struct {
	Argv  []string `json:"argv"`
	Env   []string `json:"env"`   // names of variables
	Stdin string   `json:"stdin"` // what the agent reads: item, description or none
	Trace string   `json:"trace"` // whether it writes a trace: required or optional
}

type agentsDocument struct {
	Agents map[string]any `json:"agents"`
}

var (
	agentsDecoder canon.Decoder[agentsDocument]
	agentDecoder  canon.Decoder[Agent]
	agentPlan     canon.Plan[Agent]
)

// ReadAgents reads the operator's list of agents, by id. The error is a *Fault.
func ReadAgents(value any) (map[string]Agent, error) {
	var doc agentsDocument
	if err := decode(&agentsDecoder, &doc, "", value); err != nil {
		return nil, err
	}
	if len(doc.Agents) == 0 {
		return nil, fault("/agents", "the list names no agent", "")
	}
	agents := make(map[string]Agent, len(doc.Agents))
	for _, id := range canon.Names(doc.Agents) {
		a, at := Agent{Env: []string{}}, canon.Pointer("/agents", id)
		if !isID(id) {
			return nil, fault(at, canon.Quote(id)+" is no id", idHint)
		}
		if err := decode(&agentDecoder, &a, at, doc.Agents[id]); err != nil {
			return nil, err
		}
		if err := a.fault(at); err != nil {
			return nil, err
		}
		agents[id] = a
	}
	return agents, nil
}

func (a Agent) fault(at string) error {
	if len(a.Argv) == 0 || a.Argv[0] == "" {
		return fault(at+"/argv", "argv names no command", "put the command's name first, then its arguments, one string each")
	}
	if v := contract.CheckArguments(at+"/argv", a.Argv, contract.Argv); len(v) > 0 {
		return fault(v[0].Pointer, v[0].Msg, v[0].Hint)
	}
	switch a.Stdin {
	case "item", "description", "none":
	default:
		return fault(at+"/stdin", "stdin is item, description or none", "")
	}
	if a.Trace != "required" && a.Trace != "optional" {
		return fault(at+"/trace", "trace is required or optional", "")
	}
	known := map[string]bool{}
	for k, name := range a.Env {
		here := element(at+"/env", k)
		switch v := contract.CheckEnvironment("", map[string]string{name: ""}, contract.AllowList{All: true}); {
		case len(v) > 0:
			return fault(here, v[0].Msg, v[0].Hint)
		case known[name]:
			return fault(here, name+" stands twice", "name each variable once")
		}
		known[name] = true
	}
	return nil
}

// Bytes returns the canonical JSON of the entry and a line feed.
func (a Agent) Bytes() ([]byte, error) {
	text, _, err := agentPlan.Artifact(&a)
	return text, err
}

// intent is the document of an intent.
type intent struct {
	Goal    string   `json:"goal"`
	Context extra    `json:"context"`
	Actions []any    `json:"actions"`
	Outputs []string `json:"outputs"`
}

type extra struct {
	WorkItem Item `json:"work_item"`
}

// run is the document of an action that runs a command.
type run struct {
	Kind      string   `json:"kind"`
	Argv      []string `json:"argv"`
	Stdin     *string  `json:"stdin,omitempty"`
	TimeoutMS int      `json:"timeout_ms"`
}

var intentPlan canon.Plan[intent]

// Intent returns the intent of the item, in canonical JSON with a line feed: its own actions,
// or a run of its agent, and then its test. The error is a *Fault.
func (i Item) Intent(agent *Agent) ([]byte, error) {
	in := intent{Goal: i.Description, Outputs: i.OutputFiles}
	in.Actions = append(in.Actions, i.Actions...)
	if i.Actions == nil {
		if agent == nil {
			return nil, fault(i.at+"/agent_id", "no agent has the id "+canon.Quote(i.AgentID), "add the agent to the list of agents, or give the item actions")
		}
		work := run{Kind: "run", Argv: agent.Argv, TimeoutMS: i.Constraints.TimeoutMS}
		switch agent.Stdin {
		case "item":
			text, err := i.Bytes()
			if err != nil {
				return nil, fault(i.at, err.Error(), "")
			}
			stdin := string(text)
			work.Stdin = &stdin
		case "description":
			work.Stdin = &i.Description
		}
		in.Actions = append(in.Actions, work)
	}
	if i.Test != nil {
		in.Actions = append(in.Actions, run{Kind: "run", Argv: i.Test, TimeoutMS: i.TestTimeoutMS})
	}
	in.Context.WorkItem = i
	rest := &in.Context.WorkItem
	rest.Description, rest.Actions, rest.OutputFiles = "", nil, nil
	text, _, err := intentPlan.Artifact(&in)
	switch {
	case err != nil:
		return nil, fault(i.at, err.Error(), "")
	case len(text) > canon.MaxIntentBytes:
		return nil, fault(i.at, "the intent of the item has more than "+strconv.Itoa(canon.MaxIntentBytes)+" bytes", "say less, or split the item")
	}
	return text, nil
}

// intentFault returns what the kernel cannot read in the intent of the item, with a pointer
// into the item.
func (i *Item) intentFault() error {
	text, err := i.Intent(&Agent{Argv: []string{"agent"}})
	if err != nil {
		return err
	}
	doc, err := canon.Parse(text, canon.MaxIntentBytes)
	if err != nil {
		return fault(i.at, err.Error(), "")
	}
	_, err = kernel.ParseIntent(doc.Value())
	e, ok := err.(*kernel.IntentError)
	if !ok {
		return err
	}
	pointer := e.Pointer
	for _, m := range []struct{ from, to string }{
		{"/goal", "/description"}, {"/outputs", "/output_files"},
		{"/actions/" + strconv.Itoa(max(len(i.Actions), 1)) + "/argv", "/test_command"},
	} {
		if rest, ok := strings.CutPrefix(pointer, m.from); ok {
			pointer = m.to + rest
			if _, list := i.TestText.([]any); m.to == "/test_command" && !list {
				pointer = m.to
			}
		}
	}
	return fault(i.at+pointer, e.Msg, e.Hint)
}
