package work

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// Agent is the entry of an agent in the operator's list, and its document.
type Agent struct {
	Argv  []string `json:"argv"`
	Env   []string `json:"env"`   // names of variables
	Stdin string   `json:"stdin"` // what the agent reads: item, description or none
	Trace string   `json:"trace"` // whether it writes a trace: required or optional
}

type agents struct {
	Agents map[string]any `json:"agents"`
}

var (
	agentsDecoder canon.Decoder[agents]
	agentDecoder  canon.Decoder[Agent]
)

// ReadAgents reads the operator's list of agents, by id. The error is a *Fault.
func ReadAgents(value any) (map[string]Agent, error) {
	var doc agents
	if err := decode(&agentsDecoder, &doc, "", value); err != nil {
		return nil, err
	}
	list := make(map[string]Agent, len(doc.Agents))
	for _, id := range canon.Names(doc.Agents) {
		a, err := ReadAgent(canon.Pointer("/agents", id), doc.Agents[id])
		if err != nil {
			return nil, err
		}
		list[id] = a
	}
	return list, nil
}

// ReadAgent reads the entry of an agent, which stands at a pointer. The error is a *Fault.
func ReadAgent(at string, value any) (Agent, error) {
	a := Agent{Env: []string{}}
	if err := decode(&agentDecoder, &a, at, value); err != nil {
		return a, err
	}
	return a, a.fault(at)
}

func (a Agent) fault(at string) error {
	if len(a.Argv) == 0 || a.Argv[0] == "" {
		return fault(at+"/argv", "argv names no command", "put the command's name first")
	}
	if v := contract.CheckArguments(at+"/argv", a.Argv, contract.Argv); len(v) > 0 {
		return fault(v[0].Pointer, v[0].Msg, v[0].Hint)
	}
	for k, name := range a.Env {
		here := element(at+"/env", k)
		if v := contract.CheckEnvironment("", map[string]string{name: ""}, contract.AllowList{All: true}); len(v) > 0 {
			return fault(here, v[0].Msg, v[0].Hint)
		}
		if slices.Contains(a.Env[:k], name) {
			return fault(here, canon.Quote(name)+" stands twice", "name each variable once")
		}
	}
	return nil
}

// intent is the document of an intent.
type intent struct {
	Goal    string `json:"goal"`
	Context struct {
		WorkItem Item `json:"work_item"`
	} `json:"context"`
	Actions []any    `json:"actions"`
	Outputs []string `json:"outputs"`
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
	in := intent{Goal: i.Description, Outputs: i.OutputFiles, Actions: slices.Clone(i.Actions)}
	whole, err := i.Bytes()
	switch {
	case err != nil:
		return nil, fault(i.at, err.Error(), "")
	case i.Actions == nil && agent == nil:
		return nil, fault(i.at+"/agent_id", "no agent has the id "+canon.Quote(i.AgentID), "add the agent to the list of agents, or give the item actions")
	case i.Actions == nil:
		work := run{Kind: "run", Argv: agent.Argv, TimeoutMS: i.Constraints.TimeoutMS}
		if agent.Stdin == "item" {
			text := string(whole)
			work.Stdin = &text
		} else if agent.Stdin == "description" {
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
	if err == nil {
		_, err = kernel.ParseIntent(doc.Value())
	}
	e, ok := err.(*kernel.IntentError)
	if !ok {
		return err
	}
	pointer, test := e.Pointer, "/actions/"+strconv.Itoa(max(len(i.Actions), 1))+"/argv"
	for _, m := range [][2]string{{"/goal", "/description"}, {"/outputs", "/output_files"}, {test, "/test_command"}} {
		if rest, ok := strings.CutPrefix(pointer, m[0]); ok {
			pointer = m[1] + rest
		}
	}
	if _, text := i.TestText.(string); text && strings.HasPrefix(pointer, "/test_command/") {
		pointer = "/test_command" // which has no words
	}
	return fault(i.at+pointer, e.Msg, e.Hint)
}
