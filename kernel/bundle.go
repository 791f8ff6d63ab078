package kernel

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/pathname"
)

// BundleSchemaVersion is the version of the bundle format.
const BundleSchemaVersion = "0.1.0"

// Bundle is the plan of an allowed intent. An incomplete bundle lists what is still
// open in the intent. specs/bundle.md gives the fields and hash domains; scores are
// whole numbers from 0 to 100.
type Bundle struct {
	ID                  string     `json:"id,omitempty"`
	SchemaVersion       string     `json:"schema_version"`
	KernelVersion       string     `json:"kernel_version"`
	SourceIntentHash    string     `json:"source_intent_hash"`
	Status              string     `json:"status"` // complete or incomplete
	RootNode            Node       `json:"root_node"`
	TerminalNodes       []Node     `json:"terminal_nodes"`
	Outputs             []Output   `json:"outputs"`
	UnresolvedQuestions []Question `json:"unresolved_questions"`
	Stats               Stats      `json:"stats"`
}

// Node is one goal with its constraints. An intent has exactly one.
type Node struct {
	ID                  string     `json:"id"`
	ParentID            *string    `json:"parent_id"`
	Status              string     `json:"status"` // terminal, or blocked while questions are open
	Goal                string     `json:"goal"`
	Constraints         []string   `json:"constraints"`
	Entropy             Entropy    `json:"entropy"`
	Density             Density    `json:"density"`
	Children            []string   `json:"children"`
	UnresolvedQuestions []Question `json:"unresolved_questions"`
}

// Entropy measures how much of a node is open.
type Entropy struct {
	UnresolvedRefs     int `json:"unresolved_refs"`
	SchemaGaps         int `json:"schema_gaps"`
	ContradictionCount int `json:"contradiction_count"`
	BranchingFactor    int `json:"branching_factor"`
	EntropyScore       int `json:"entropy_score"`
}

// Density measures how much of a node is settled.
type Density struct {
	ConcreteConstraints int `json:"concrete_constraints"`
	SpecifiedOutputs    int `json:"specified_outputs"`
	ConstraintDepth     int `json:"constraint_depth"`
	DensityScore        int `json:"density_score"`
}

// Question is one point to settle before the intent can be allowed.
type Question struct {
	ID                 string   `json:"id"`
	Text               string   `json:"text"`
	ExpectedAnswerType string   `json:"expected_answer_type"` // choice or text
	WhyNeeded          string   `json:"why_needed"`
	InformationGain    int      `json:"information_gain"`
	Priority           int      `json:"priority"`
	Options            []string `json:"options,omitempty"`
}

// Output is one thing that the plan produces or does.
type Output struct {
	ID                string   `json:"id"`
	Type              string   `json:"type"` // file, command, config or instruction
	Path              string   `json:"path"`
	Content           string   `json:"content"`
	ContentHash       string   `json:"content_hash"` // bare hex; covers the decoded bytes
	SourceConstraints []string `json:"source_constraints"`
	Confidence        int      `json:"confidence"`
	Action            *int     `json:"action"`   // position in the intent, from 0; null for an instruction
	Encoding          string   `json:"encoding"` // utf8 or base64
	Executable        bool     `json:"executable"`
}

// Stats holds the counts of a bundle.
type Stats struct {
	TotalNodes         int `json:"total_nodes"`
	TerminalNodes      int `json:"terminal_nodes"`
	MaxDepth           int `json:"max_depth"`
	TotalOutputs       int `json:"total_outputs"`
	UnresolvedCount    int `json:"unresolved_count"`
	AvgTerminalEntropy int `json:"avg_terminal_entropy"`
	AvgTerminalDensity int `json:"avg_terminal_density"`
}

// These plans write a bundle and the domains of its ids.
var (
	bundlePlan     canon.Plan[Bundle]
	nodePlan       canon.Plan[nodeDomain]
	outputPlan     canon.Plan[outputDomain]
	questionPlan   canon.Plan[questionDomain]
	commandPlan    canon.Plan[command]
	callPlan       canon.Plan[call]
	normalisedPlan canon.Plan[Normalised]
)

// nodeDomain holds the members that the id of a node covers.
type nodeDomain struct {
	Constraints []string `json:"constraints"`
	Goal        string   `json:"goal"`
	ParentID    *string  `json:"parent_id"`
}

// outputDomain holds the members that the id of an output covers.
type outputDomain struct {
	Content string `json:"content"`
	Path    string `json:"path"`
	Type    string `json:"type"`
}

// questionDomain holds the members that the id of a question covers.
type questionDomain struct {
	ExpectedAnswerType string `json:"expected_answer_type"`
	Text               string `json:"text"`
	WhyNeeded          string `json:"why_needed"`
}

// newBundle returns the bundle of an intent and its bytes: canonical JSON and one LF.
// The bundle is complete without questions, and incomplete with them.
func newBundle(in Intent, findings []Finding, questions []Question) (*Bundle, []byte, error) {
	// Of every text only the hash or a copy is kept, so that all share the room of the first.
	room, source, err := normalisedPlan.ArtifactIn(make([]byte, 0, 4<<10), in.Normalised())
	if err != nil {
		return nil, nil, err
	}
	b := &Bundle{KernelVersion: Version, SourceIntentHash: source.Hex(), UnresolvedQuestions: questions}
	if b.Outputs, err = in.outputs(room); err != nil {
		return nil, nil, err
	}
	bytes, err := b.make(in, countFound(findings), room)
	return b, bytes, err
}

// make fills in what follows from the intent, from the counts of its findings, and from
// values that b has already. b must have the kernel version, the source hash, the
// questions, and one output without id for each action. make overwrites room.
func (b *Bundle) make(in Intent, f found, room []byte) ([]byte, error) {
	node, err := newNode(in, f, b.UnresolvedQuestions, room)
	if err != nil {
		return nil, err
	}
	b.SchemaVersion, b.Status, b.RootNode, b.TerminalNodes = BundleSchemaVersion, "complete", node, []Node{node}
	if len(b.UnresolvedQuestions) > 0 {
		b.Status, b.TerminalNodes, b.Outputs = "incomplete", []Node{}, []Output{}
	} else if b.Outputs, err = in.finish(b.Outputs, node, room); err != nil {
		return nil, err
	}
	b.Stats = Stats{
		TotalNodes: 1, TerminalNodes: len(b.TerminalNodes), TotalOutputs: len(b.Outputs),
		UnresolvedCount:    len(b.UnresolvedQuestions),
		AvgTerminalEntropy: node.Entropy.EntropyScore, AvgTerminalDensity: node.Density.DensityScore,
	}
	idless, hash, err := bundlePlan.ArtifactIn(room, b)
	if err != nil {
		return nil, err
	}
	b.ID = "bundle_" + hash.Hex()[:16]
	// "id" sorts before every other member, so the bytes need not be encoded again.
	bytes := make([]byte, 0, len(idless)+len(b.ID)+len(`"id":"",`))
	bytes = append(append(append(bytes, `{"id":"`...), b.ID...), `",`...)
	return append(bytes, idless[1:]...), nil
}

func newNode(in Intent, f found, questions []Question, room []byte) (Node, error) {
	id, err := nodePlan.ID(room, "node_", &nodeDomain{Constraints: in.Constraints, Goal: in.Goal})
	if err != nil {
		return Node{}, err
	}
	node := Node{
		ID: id, Status: "terminal", Goal: in.Goal, Constraints: in.Constraints,
		Entropy: in.entropy(f, len(questions)), Density: in.density(f),
		Children: []string{}, UnresolvedQuestions: questions,
	}
	if len(questions) > 0 {
		node.Status = "blocked"
	}
	return node, nil
}

// found holds the counts of the findings in the goal and the constraints of an intent.
type found struct {
	placeholders   int
	open           int // constraints with a placeholder
	contradictions int // pairs
}

func countFound(findings []Finding) found {
	var f found
	open := map[string]bool{}
	for _, one := range findings {
		switch one.Code {
		case finding.Placeholder:
			f.placeholders++
			if one.Path != "/goal" {
				open[one.Path] = true
			}
		case finding.Contradiction:
			f.contradictions++
		}
	}
	f.open = len(open)
	return f
}

func (in Intent) entropy(f found, open int) Entropy {
	e := Entropy{UnresolvedRefs: f.placeholders, SchemaGaps: in.gaps(), ContradictionCount: f.contradictions, BranchingFactor: min(10, 1+open)}
	e.EntropyScore = roundedHundredth(30*min(100, 10*e.UnresolvedRefs) + 25*min(100, 33*e.SchemaGaps) +
		25*min(100, 20*e.ContradictionCount) + 20*divideHalfUp(100*(e.BranchingFactor-1), 9))
	return e
}

// gaps counts how many of constraints, actions and outputs the intent lacks.
func (in Intent) gaps() int {
	n := 0
	for _, absent := range []bool{len(in.Constraints) == 0, len(in.Actions) == 0, in.specifiedOutputs() == 0} {
		if absent {
			n++
		}
	}
	return n
}

// specifiedOutputs counts write actions and declared outputs.
func (in Intent) specifiedOutputs() int {
	n := len(in.Outputs)
	for _, a := range in.Actions {
		if a.Kind == ActionWrite {
			n++
		}
	}
	return n
}

func (in Intent) density(f found) Density {
	d := Density{
		ConcreteConstraints: len(in.Constraints) - f.open,
		SpecifiedOutputs:    in.specifiedOutputs(),
		ConstraintDepth:     min(1, len(in.Constraints)),
	}
	d.DensityScore = min(100, roundedHundredth(40*min(100, 20*d.ConcreteConstraints)+60*min(100, 34*d.SpecifiedOutputs)))
	return d
}

// divideHalfUp is a/b rounded half up, for a >= 0 and b > 0.
func divideHalfUp(a, b int) int { return (2*a + b) / (2 * b) }

func roundedHundredth(a int) int { return divideHalfUp(a, 100) }

// outputs returns one output for each action, without id.
func (in Intent) outputs(room []byte) ([]Output, error) {
	list := make([]Output, 0, len(in.Actions))
	for i, a := range in.Actions {
		out, err := a.output(i, in.calls[i].tool(), room)
		if err != nil {
			return nil, err
		}
		list = append(list, out)
	}
	return list, nil
}

// finish gives the outputs their ids and their confidence, and sorts them by path and
// then by position. An intent without actions gets one instruction.
func (in Intent) finish(list []Output, node Node, room []byte) ([]Output, error) {
	confidence := roundedHundredth(60*node.Density.DensityScore + 40*(100-node.Entropy.EntropyScore))
	if len(list) == 0 {
		list = append(list, textOutput("instruction", "context/"+node.ID+".md", in.instruction(), room))
	}
	for i := range list {
		var err error
		list[i].ID, err = outputPlan.ID(room, "out_", &outputDomain{list[i].Content, list[i].Path, list[i].Type})
		if err != nil {
			return nil, err
		}
		list[i].Confidence = confidence
	}
	slices.SortStableFunc(list, func(a, b Output) int { return canon.Compare(a.Path, b.Path) })
	return list, nil
}

func textOutput(kind, path, content string, room []byte) Output {
	return Output{
		Type: kind, Path: path, Content: content, ContentHash: canon.Sum(append(room[:0], content...)).Hex(),
		SourceConstraints: []string{}, Encoding: "utf8",
	}
}

// output returns the output of an action, without id. tool is that of a bound call.
func (a Action) output(position int, tool Tool, room []byte) (Output, error) {
	var content []byte
	var err error
	switch a.Kind {
	case ActionRun:
		content, err = commandPlan.CanonicalIn(room, a.command())
	case ActionCall:
		content, err = callPlan.CanonicalIn(room, &call{
			AdapterID: a.AdapterID, AdapterSHA256: tool.AdapterSHA256, Params: a.Params,
			ServerSHA256: tool.ServerSHA256, ToolID: a.ToolID, ToolSHA256: tool.ToolSHA256,
		})
	default:
		return a.outputOf(position, a.Content, room)
	}
	if err != nil {
		return Output{}, err
	}
	return a.outputOf(position, string(content), room)
}

// outputOf returns the output of an action with the given content.
func (a Action) outputOf(position int, content string, room []byte) (Output, error) {
	var out Output
	switch a.Kind {
	case ActionWrite:
		out = textOutput("file", pathname.Clean(a.Path), content, room)
		out.Executable = a.Executable
		if a.Base64 {
			raw, err := DecodeBase64(content)
			if err != nil {
				return Output{}, err
			}
			out.Encoding, out.ContentHash = "base64", canon.Sum(raw).Hex()
		}
	case ActionRun:
		out = textOutput("command", fmt.Sprintf("commands/%03d.json", position+1), content, room)
	case ActionCall:
		out = textOutput("config", fmt.Sprintf("calls/%03d.json", position+1), content, room)
	}
	out.Action = &position
	return out, nil
}

// command is the content of a command output. It always has argv, cwd and env; it has
// stdin and timeout_ms where the intent gives them.
type command struct {
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"`
	Env       map[string]string `json:"env"`
	Stdin     *string           `json:"stdin,omitempty"`
	TimeoutMS int               `json:"timeout_ms,omitempty"`
}

func (a Action) command() *command {
	c := &command{a.Argv, cmp.Or(pathname.Clean(a.Cwd), "."), a.Env, a.Stdin, a.TimeoutMS}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	return c
}

// call is the content of a config output. It always has tool_id and params; it has
// adapter_id where the intent gives it, and the hashes of the documents of a bound call.
type call struct {
	AdapterID     string            `json:"adapter_id,omitempty"`
	AdapterSHA256 canon.ContentHash `json:"adapter_sha256,omitempty"`
	Params        map[string]any    `json:"params"`
	ServerSHA256  canon.ContentHash `json:"server_sha256,omitempty"`
	ToolID        string            `json:"tool_id"`
	ToolSHA256    canon.ContentHash `json:"tool_sha256,omitempty"`
}

// instruction returns the goal and the constraints as Markdown. Every given line is
// indented code, so that no given line can pass for a heading.
func (in Intent) instruction() string {
	var b strings.Builder
	b.WriteString("# Goal\n\n")
	indent(&b, in.Goal)
	for i, c := range in.Constraints {
		b.WriteString("\n## Constraint " + strconv.Itoa(i+1) + "\n\n")
		indent(&b, c)
	}
	return b.String()
}

func indent(b *strings.Builder, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("    " + line + "\n")
	}
}
