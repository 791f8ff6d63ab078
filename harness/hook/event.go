package hook

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/fiador/fiador/harness/agent"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// MaxEventBytes is the largest event that is read.
const MaxEventBytes = 1 << 20

// event is what a client says about a call before it makes the call.
type event struct {
	doc  map[string]any
	tool string
	cwd  string
	// input has the arguments of the call. Some tools have a text instead.
	input map[string]any
	text  string
}

// Call is a call of a tool that a client asks about. Question is what is decided, and has
// neither inputs nor actions if there is nothing to decide. A call that runs a Line of a
// shell can be answered with another one.
type Call struct {
	Question  agent.Question
	Undecided bool // a read, and reads are not decided
	Line      string
	Dir       string // the folder of the line, relative to Root
	Root      string // of the project

	client Client
	event  event
	shell  tool // the tool that runs Line
}

// Options say how events become questions. Tree is the root of the project; empty: the
// client's own, or the folder with .git at or above the folder of the event.
type Options struct {
	Tree  string
	Reads bool // reads are decided too
	Env   func(name string) string
}

// Read returns the call of an event. An event that the client does not send before a tool
// runs is an error, and so is an input that a known tool does not have.
func (c Client) Read(src []byte, o Options) (Call, error) {
	e, err := c.parse(src)
	if err != nil {
		return Call{}, err
	}
	at, err := c.place(o, e.cwd)
	if err != nil {
		return Call{}, err
	}
	call := Call{client: c, event: e, Root: at.root, Question: agent.Question{Asker: c.Name, Context: agent.Context{
		Client: c.Name, SessionID: e.string(c.members.session), ToolUseID: e.string(c.members.call),
	}}}
	if to, known := c.tools[e.tool]; known {
		return call, call.fill(to, at, o.Reads)
	}
	name := kernel.ToolOfClient + c.Name + "/" + e.tool
	if c.server != nil {
		if server, tool, ok := c.server(e); ok && !strings.ContainsAny(server, "/#") {
			name = kernel.ToolOfServer + server + "/" + tool
		}
	}
	var arguments any = e.input
	if e.input == nil {
		arguments = textInput{e.text}
	}
	call.Question.Actions = []agent.Action{agent.Call(name, arguments, "")}
	return call, nil
}

// textInput is the input of a tool that takes a text.
type textInput struct {
	Input string `json:"input"`
}

// parse reads an event strictly.
func (c Client) parse(src []byte) (e event, err error) {
	doc, err := canon.Parse(src, MaxEventBytes)
	if err != nil {
		return e, fmt.Errorf("the event of %s: %w", c.Product, err)
	}
	var ok bool
	if e.doc, ok = doc.Value().(map[string]any); !ok {
		return e, fmt.Errorf("the event of %s is no object", c.Product)
	}
	if c.event != "" && e.string("hook_event_name") != c.event {
		return e, fmt.Errorf("/hook_event_name of the event is %s, and %s asks by %s: install the hook for that event", canon.Quote(e.string("hook_event_name")), c.Product, c.event)
	}
	e.tool, e.cwd = e.string(c.members.tool), e.string("cwd")
	if e.tool == "" {
		return e, fmt.Errorf("the event of %s has no /%s", c.Product, c.members.tool)
	}
	switch input := e.doc[c.members.input].(type) {
	case map[string]any:
		e.input = input
	case string:
		e.text = input
	default:
		return e, fmt.Errorf("the event of %s has no /%s", c.Product, c.members.input)
	}
	return e, nil
}

func (e event) string(name string) string {
	s, _ := e.doc[name].(string)
	return s
}

// need returns a text of the input.
func (e event) need(name string) (string, error) {
	if name == "" {
		return e.text, nil
	}
	s, ok := e.input[name].(string)
	if !ok {
		return "", fmt.Errorf("tool %s has no text %q in its input: this version of the client is not known", canon.Quote(e.tool), name)
	}
	return s, nil
}

// fill makes the question about a tool that is known.
func (call *Call) fill(to tool, at place, decideReads bool) error {
	target, err := call.event.need(to.target)
	if to.does == reads && call.event.input[to.target] == nil {
		target, err = ".", nil // the whole folder
	}
	if err != nil {
		return err
	}
	switch to.does {
	case runs:
		return call.run(to, target, at)
	case writes:
		text, err := call.event.need(to.text)
		call.Question.Actions = []agent.Action{write(at.path(target), text)}
		return err
	case patches:
		call.Question.Actions, err = patched(target, at)
		return err
	}
	path := at.path(target)
	call.Undecided = !decideReads || path == "."
	call.Question.Inputs = []string{path}
	return nil
}

func write(path, text string) agent.Action {
	return agent.Action{Kind: kernel.ActionWrite, Path: path, Content: &text}
}

// run makes the question about a line of a shell.
func (call *Call) run(to tool, line string, at place) error {
	if given, ok := call.event.input[to.dir]; ok && to.dir != "" {
		dir, ok := given.(string)
		if !ok {
			return errors.New("the folder of the command is no text")
		}
		at.cwd = at.beyond(dir)
	}
	call.Line, call.shell = line, to
	call.Dir = at.path(at.cwd)
	call.Question.Actions, call.Question.Context.Line = at.commands(line), line
	return nil
}

// Rewritten returns the answer that allows the call with another line. It is the only answer
// that allows anything: the line runs in a sandbox. Dir is where the line starts, so a client
// gets no folder besides.
func (call Call) Rewritten(line string) (Answer, error) {
	input := maps.Clone(call.event.input)
	input[call.shell.target] = line
	out, _, err := canon.Artifact(call.client.rewrite(input))
	return Answer{Stdout: out}, err
}
