package kernel

import (
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

// Bundle is the plan that an allowed intent becomes, or, incomplete, what is
// still open about one. Its fields and hash domains are those of
// specs/bundle.md; scores are whole numbers from 0 to 100.
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

// Entropy measures what is open about a node.
type Entropy struct {
	UnresolvedRefs     int `json:"unresolved_refs"`
	SchemaGaps         int `json:"schema_gaps"`
	ContradictionCount int `json:"contradiction_count"`
	BranchingFactor    int `json:"branching_factor"`
	EntropyScore       int `json:"entropy_score"`
}

// Density measures what is settled about a node.
type Density struct {
	ConcreteConstraints int `json:"concrete_constraints"`
	SpecifiedOutputs    int `json:"specified_outputs"`
	ConstraintDepth     int `json:"constraint_depth"`
	DensityScore        int `json:"density_score"`
}

// Question is one thing to settle before the intent can be allowed.
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
	ContentHash       string   `json:"content_hash"` // bare hex, over the decoded bytes
	SourceConstraints []string `json:"source_constraints"`
	Confidence        int      `json:"confidence"`
	Action            *int     `json:"action"`   // position in the intent, from 0; null for an instruction
	Encoding          string   `json:"encoding"` // utf8 or base64
	Executable        bool     `json:"executable"`
}

// Stats counts a bundle.
type Stats struct {
	TotalNodes         int `json:"total_nodes"`
	TerminalNodes      int `json:"terminal_nodes"`
	MaxDepth           int `json:"max_depth"`
	TotalOutputs       int `json:"total_outputs"`
	UnresolvedCount    int `json:"unresolved_count"`
	AvgTerminalEntropy int `json:"avg_terminal_entropy"`
	AvgTerminalDensity int `json:"avg_terminal_density"`
}

// newBundle builds the bundle of an intent, complete without questions and
// incomplete with them, and its bytes: canonical JSON and one LF.
func newBundle(in Intent, findings []Finding, questions []Question) (*Bundle, []byte, error) {
	_, source, err := canon.Artifact(in.Normalised())
	if err != nil {
		return nil, nil, err
	}
	node, err := newNode(in, findings, questions)
	if err != nil {
		return nil, nil, err
	}
	b := &Bundle{
		SchemaVersion: BundleSchemaVersion, KernelVersion: Version, SourceIntentHash: source.Hex(),
		Status: "complete", RootNode: node, TerminalNodes: []Node{node}, Outputs: []Output{},
		UnresolvedQuestions: questions,
	}
	if len(questions) > 0 {
		b.Status, b.TerminalNodes = "incomplete", []Node{}
	} else if b.Outputs, err = in.outputs(node); err != nil {
		return nil, nil, err
	}
	b.Stats = Stats{
		TotalNodes: 1, TerminalNodes: len(b.TerminalNodes), TotalOutputs: len(b.Outputs),
		UnresolvedCount:    len(questions),
		AvgTerminalEntropy: node.Entropy.EntropyScore, AvgTerminalDensity: node.Density.DensityScore,
	}
	idless, hash, err := canon.Artifact(b.plain())
	if err != nil {
		return nil, nil, err
	}
	b.ID = "bundle_" + hash.Hex()[:16]
	// "id" stands before every other member, so the bytes need not be made anew.
	bytes := make([]byte, 0, len(idless)+len(b.ID)+len(`"id":"",`))
	bytes = append(append(append(bytes, `{"id":"`...), b.ID...), `",`...)
	return b, append(bytes, idless[1:]...), nil
}

func newNode(in Intent, findings []Finding, questions []Question) (Node, error) {
	id, err := canon.ID("node_", map[string]any{
		"constraints": anyList(in.Constraints), "goal": in.Goal, "parent_id": nil,
	})
	if err != nil {
		return Node{}, err
	}
	node := Node{
		ID: id, Status: "terminal", Goal: in.Goal, Constraints: in.Constraints,
		Entropy: in.entropy(findings, len(questions)), Density: in.density(findings),
		Children: []string{}, UnresolvedQuestions: questions,
	}
	if len(questions) > 0 {
		node.Status = "blocked"
	}
	return node, nil
}

func (in Intent) entropy(findings []Finding, open int) Entropy {
	e := Entropy{BranchingFactor: min(10, 1+open)}
	for _, f := range findings {
		switch f.Code {
		case finding.Placeholder:
			e.UnresolvedRefs++
		case finding.Contradiction:
			e.ContradictionCount++
		}
	}
	for _, absent := range []bool{len(in.Constraints) == 0, len(in.Actions) == 0, in.specifiedOutputs() == 0} {
		if absent {
			e.SchemaGaps++
		}
	}
	e.EntropyScore = roundedHundredth(30*min(100, 10*e.UnresolvedRefs) + 25*min(100, 33*e.SchemaGaps) +
		25*min(100, 20*e.ContradictionCount) + 20*divideHalfUp(100*(e.BranchingFactor-1), 9))
	return e
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

func (in Intent) density(findings []Finding) Density {
	open := map[string]bool{}
	for _, f := range findings {
		if f.Code == finding.Placeholder && f.Path != "/goal" {
			open[f.Path] = true
		}
	}
	d := Density{
		ConcreteConstraints: len(in.Constraints) - len(open),
		SpecifiedOutputs:    in.specifiedOutputs(),
		ConstraintDepth:     min(1, len(in.Constraints)),
	}
	d.DensityScore = min(100, roundedHundredth(40*min(100, 20*d.ConcreteConstraints)+60*min(100, 34*d.SpecifiedOutputs)))
	return d
}

// divideHalfUp is a/b rounded half up, for a >= 0 and b > 0.
func divideHalfUp(a, b int) int { return (2*a + b) / (2 * b) }

func roundedHundredth(a int) int { return divideHalfUp(a, 100) }

// outputs turns the actions into what the plan produces, by path and then by
// position. An intent without actions gives one instruction.
func (in Intent) outputs(node Node) ([]Output, error) {
	confidence := roundedHundredth(60*node.Density.DensityScore + 40*(100-node.Entropy.EntropyScore))
	list := make([]Output, 0, len(in.Actions)+1)
	for i, a := range in.Actions {
		out, err := a.output(i)
		if err != nil {
			return nil, err
		}
		list = append(list, out)
	}
	if len(in.Actions) == 0 {
		list = append(list, textOutput("instruction", "context/"+node.ID+".md", in.instruction()))
	}
	for i := range list {
		var err error
		list[i].ID, err = canon.ID("out_", map[string]any{
			"content": list[i].Content, "path": list[i].Path, "type": list[i].Type,
		})
		if err != nil {
			return nil, err
		}
		list[i].Confidence = confidence
	}
	slices.SortStableFunc(list, func(a, b Output) int { return canon.Compare(a.Path, b.Path) })
	return list, nil
}

func textOutput(kind, path, content string) Output {
	return Output{
		Type: kind, Path: path, Content: content, ContentHash: canon.Sum([]byte(content)).Hex(),
		SourceConstraints: []string{}, Encoding: "utf8",
	}
}

func (a Action) output(position int) (Output, error) {
	var out Output
	switch a.Kind {
	case ActionWrite:
		out = textOutput("file", pathname.Clean(a.Path), a.Content)
		out.Executable = a.Executable
		if a.Base64 {
			raw, err := decodeBase64(a.Content)
			if err != nil {
				return Output{}, err
			}
			out.Encoding, out.ContentHash = "base64", canon.Sum(raw).Hex()
		}
	case ActionRun:
		content, err := canon.Canonical(a.command())
		if err != nil {
			return Output{}, err
		}
		out = textOutput("command", fmt.Sprintf("commands/%03d.json", position+1), string(content))
	case ActionCall:
		call := map[string]any{"tool_id": a.ToolID, "params": a.Params}
		if a.AdapterID != "" {
			call["adapter_id"] = a.AdapterID
		}
		content, err := canon.Canonical(call)
		if err != nil {
			return Output{}, err
		}
		out = textOutput("config", fmt.Sprintf("calls/%03d.json", position+1), string(content))
	}
	out.Action = &position
	return out, nil
}

// command is the content of a command output: argv, cwd and env always, stdin
// and timeout_ms where the intent gives them.
func (a Action) command() map[string]any {
	env := make(map[string]any, len(a.Env))
	for name, value := range a.Env {
		env[name] = value
	}
	cwd := pathname.Clean(a.Cwd)
	if cwd == "" {
		cwd = "."
	}
	cmd := map[string]any{"argv": anyList(a.Argv), "cwd": cwd, "env": env}
	if a.Stdin != nil {
		cmd["stdin"] = *a.Stdin
	}
	if a.TimeoutMS != 0 {
		cmd["timeout_ms"] = a.TimeoutMS
	}
	return cmd
}

// instruction is the goal and the constraints as Markdown in which every given
// line is indented code, so that none of them can pass for a heading.
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
