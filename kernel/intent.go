// Package kernel holds the values and the total functions of a decision: Decide turns an
// Intent and a policy's Verdict into one of three outcomes. The policy judges the Effects
// and the Findings of the Intent.
//
// The package is pure: it reads no clock, no randomness, no environment and no file,
// starts no goroutine and prints nothing. Equal inputs give equal results on every
// machine.
package kernel

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/text"
)

// Version is the kernel version that every RunResult and bundle names. It is a
// constant of the source: a build cannot change it.
const Version = "0.1.0"

// ActionKind says what an action does.
type ActionKind string

// The three kinds of action.
const (
	ActionWrite ActionKind = "write"
	ActionRun   ActionKind = "run"
	ActionCall  ActionKind = "call"
)

// Action is one step of an intent. Only the members of its kind are set.
type Action struct {
	Kind      ActionKind
	ID        string
	RiskLevel string // high, medium, low, unknown, or empty when the intent states none
	RiskTags  []string

	// Members of a write. Content is the text, or standard base64 where Base64 is set.
	Path       string
	Content    string
	Base64     bool
	Executable bool

	// Members of a run.
	Argv      []string
	Env       map[string]string
	Cwd       string  // empty: the root of the working tree
	Stdin     *string // nil: no standard input
	TimeoutMS int     // 0: the timeout of the profile

	// Members of a call. The run action of an execution request has the first two too.
	ToolID    string
	AdapterID string
	Params    map[string]any
}

// Intent is what an agent wants to do. The strings of Goal, Constraints, Inputs and
// Outputs are normalised (specs/intent.md, "Normalisation"). Context and actions stay
// as they were given.
type Intent struct {
	Goal        string
	Constraints []string
	Actions     []Action
	Inputs      []string
	Outputs     []string

	context map[string]any
	actions []any

	calls map[int]Call // by action; nil: no registry of tools

	// given holds the constraints before they were deduplicated and sorted, so that a
	// finding can point to the constraint's position in the document.
	given []string
}

// IntentError says why a document is not an intent. The error code outside the kernel
// is RUN_E003.
type IntentError struct {
	Pointer string // JSON Pointer of the faulty member
	Msg     string
	Hint    string // what to do, or empty
	Rule    string // the input check of the execution contract that refuses it, or empty
}

// Error returns the message of the error, with its pointer.
func (e *IntentError) Error() string {
	if e.Pointer == "" {
		return e.Msg
	}
	return e.Pointer + ": " + e.Msg
}

// ParseIntent reads an intent from a decoded canonical document (canon.Document.Value).
// It is total: for every document it returns an intent or an *IntentError. It refuses
// values that it would misread, and faults that no schema can express. Such a fault is
// a goal that only looks filled, content that is not base64, or a NUL where the
// operating system would cut a string. ParseIntent does not check the form of ids: the
// pipeline first checks specs/intent.schema.json.
func ParseIntent(doc any) (Intent, error) {
	r := &reader{}
	in := r.intent(doc)
	if r.err != nil {
		return Intent{}, r.err
	}
	return in, nil
}

// CheckAnswers refuses an answer in context.answers that says nothing. The schema has
// checked the form of the answers. The error is an *IntentError.
func (in Intent) CheckAnswers() error {
	answers, _ := in.context["answers"].(map[string]any)
	for _, id := range canon.Names(answers) {
		if s, _ := answers[id].(string); text.IsBlank(s) {
			return &IntentError{Pointer: canon.Cut(canon.Pointer("/context/answers", id)), Msg: "the answer is blank", Hint: "answer the question, or leave the answer out"}
		}
	}
	return nil
}

// Normalised is the document that Bundle.source_intent_hash covers. It always has the
// six members; an absent member is empty.
type Normalised struct {
	Actions     []any          `json:"actions"`
	Constraints []string       `json:"constraints"`
	Context     map[string]any `json:"context"`
	Goal        string         `json:"goal"`
	Inputs      []string       `json:"inputs"`
	Outputs     []string       `json:"outputs"`
}

// Normalised returns the normalised document of an intent.
func (in Intent) Normalised() *Normalised {
	return &Normalised{in.actions, in.Constraints, in.context, in.Goal, in.Inputs, in.Outputs}
}

// reader reads a decoded document and keeps the first error. After an error every
// method returns a zero value.
type reader struct {
	err *IntentError
}

func (r *reader) fail(pointer, msg string) {
	if r.err == nil {
		r.err = &IntentError{Pointer: canon.Cut(pointer), Msg: msg}
	}
}

func (r *reader) hint(text string) {
	if r.err != nil && r.err.Hint == "" {
		r.err.Hint = text
	}
}

func (r *reader) intent(doc any) Intent {
	obj, ok := doc.(map[string]any)
	if !ok {
		r.fail("", "an intent is a JSON object")
		return Intent{}
	}
	r.only(obj, "", "$schema", "goal", "constraints", "context", "actions", "inputs", "outputs")
	r.str(obj, "", "$schema", false, maxSchemaRunes) // for editors
	in := Intent{context: map[string]any{}, actions: []any{}}
	in.Goal = r.goal(obj)
	in.given = r.stringList(obj, "", "constraints", contract.MaxConstraints, contract.MaxConstraintRunes)
	for i, c := range in.given {
		in.given[i] = text.NormaliseConstraint(c)
	}
	in.Constraints = sortedSet(in.given)
	in.Inputs = r.paths(obj, "inputs", contract.MaxInputs)
	in.Outputs = r.paths(obj, "outputs", contract.MaxOutputs)
	if v, ok := obj["context"]; ok {
		if in.context, ok = v.(map[string]any); !ok {
			r.fail("/context", "context is a JSON object")
		}
	}
	if v, ok := obj["actions"]; ok {
		if in.actions, ok = v.([]any); !ok {
			r.fail("/actions", "actions is a list")
		}
	}
	if len(in.actions) > contract.MaxActions {
		r.fail("/actions", "more than "+strconv.Itoa(contract.MaxActions)+" actions")
	}
	for i, v := range in.actions {
		if r.err != nil {
			return Intent{}
		}
		in.Actions = append(in.Actions, r.action(v, "/actions/"+strconv.Itoa(i)))
	}
	in.requested()
	return in
}

func (r *reader) goal(obj map[string]any) string {
	v, ok := obj["goal"]
	if !ok {
		r.fail("", `"goal" is missing`)
		r.hint(`add "goal": what the agent wants, in a sentence`)
		return ""
	}
	s, ok := v.(string)
	if !ok {
		r.fail("/goal", "goal is a string")
		return ""
	}
	r.length(s, "/goal", contract.MaxGoalRunes)
	s = text.NormaliseGoal(s)
	if text.IsBlank(s) {
		r.fail("/goal", "the goal is blank")
		r.hint("say in a sentence what the agent wants")
	}
	return s
}

// only refuses a member of obj that is not among known.
func (r *reader) only(obj map[string]any, at string, known ...string) {
	var unknown []string
	for name := range obj {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		first := slices.MinFunc(unknown, canon.Compare)
		r.fail(canon.Pointer(at, first), "unknown member "+canon.Quote(first))
	}
}

func (r *reader) length(s, at string, most int) {
	if utf8.RuneCountInString(s) > most {
		r.fail(at, "longer than "+strconv.Itoa(most)+" characters")
	}
}

// str reads a member that is a string of at most most characters. It refuses a missing
// member only if the member is required.
func (r *reader) str(obj map[string]any, at, name string, required bool, most int) string {
	v, ok := obj[name]
	if !ok {
		if required {
			r.fail(at, strconv.Quote(name)+" is missing")
		}
		return ""
	}
	s, ok := v.(string)
	if !ok {
		r.fail(canon.Pointer(at, name), name+" is a string")
		return ""
	}
	r.length(s, canon.Pointer(at, name), most)
	return s
}

// passes reports the first violation of an input check.
func (r *reader) passes(list []contract.Violation) {
	if r.err == nil && len(list) > 0 {
		v := list[0]
		r.err = &IntentError{Pointer: canon.Cut(v.Pointer), Msg: v.Msg, Hint: v.Hint, Rule: v.ID}
	}
}

// noNUL refuses a string that the operating system would cut at a NUL byte.
func (r *reader) noNUL(s, at string) {
	if strings.Contains(s, "\x00") {
		r.fail(at, "a NUL character cannot stand here")
		r.hint(`remove \u0000`)
	}
}

// stringList reads a member that is a list of at most most strings, each of at most runes
// characters. A missing member is an empty list.
func (r *reader) stringList(obj map[string]any, at, name string, most, runes int) []string {
	v, ok := obj[name]
	if !ok {
		return []string{}
	}
	p := canon.Pointer(at, name)
	list, ok := v.([]any)
	if !ok {
		r.fail(p, name+" is a list of strings")
		return nil
	}
	if len(list) > most {
		r.fail(p, "more than "+strconv.Itoa(most)+" "+name)
		return nil
	}
	out := make([]string, 0, len(list))
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			r.fail(p+"/"+strconv.Itoa(i), "not a string")
			return nil
		}
		if len(s) > runes {
			r.length(s, p+"/"+strconv.Itoa(i), runes)
		}
		out = append(out, s)
	}
	return out
}

// paths reads a list of at most most paths, and normalises each. It refuses a NUL.
func (r *reader) paths(obj map[string]any, name string, most int) []string {
	list := r.stringList(obj, "", name, most, contract.MaxPathRunes)
	for i, s := range list {
		if strings.Contains(s, "\x00") {
			r.noNUL(s, "/"+name+"/"+strconv.Itoa(i))
		}
		list[i] = text.Normalise(s)
	}
	return list
}

const (
	maxIDRunes     = 128
	maxTagRunes    = 64
	maxEnvRunes    = 32768
	maxToolRunes   = 256
	maxSchemaRunes = 2048
)

// action reads one action. It refuses a member that the kind of the action does not have.
func (r *reader) action(v any, at string) Action {
	obj, ok := v.(map[string]any)
	if !ok {
		r.fail(at, "an action is a JSON object")
		return Action{}
	}
	a := Action{
		Kind:      ActionKind(r.str(obj, at, "kind", true, maxTagRunes)),
		ID:        r.str(obj, at, "id", false, maxIDRunes),
		RiskLevel: r.str(obj, at, "risk_level", false, maxTagRunes),
		RiskTags:  r.stringList(obj, at, "risk_tags", contract.MaxRiskTags, maxTagRunes),
	}
	if r.err != nil {
		return a
	}
	switch a.RiskLevel {
	case "", "high", "medium", "low", "unknown":
	default:
		r.fail(at+"/risk_level", "risk_level is high, medium, low or unknown")
	}
	switch a.Kind {
	case ActionWrite:
		r.write(obj, at, &a)
	case ActionRun:
		r.run(obj, at, &a)
	case ActionCall:
		r.call(obj, at, &a)
	default:
		r.fail(at+"/kind", "kind is write, run or call")
	}
	return a
}

func (r *reader) write(obj map[string]any, at string, a *Action) {
	r.only(obj, at, "kind", "id", "risk_level", "risk_tags", "path", "content", "content_base64", "executable")
	a.Path = r.str(obj, at, "path", true, contract.MaxPathRunes)
	r.noNUL(a.Path, at+"/path")
	_, text := obj["content"]
	_, b64 := obj["content_base64"]
	switch {
	case text == b64:
		r.fail(at, `a write has either "content" or "content_base64"`)
	case text:
		a.Content = r.str(obj, at, "content", true, canon.MaxIntentBytes)
	default:
		a.Content, a.Base64 = r.str(obj, at, "content_base64", true, canon.MaxIntentBytes), true
		if _, err := DecodeBase64(a.Content); err != nil {
			r.fail(at+"/content_base64", "not standard base64 with padding (RFC 4648, section 4)")
		}
	}
	if v, ok := obj["executable"]; ok {
		if a.Executable, ok = v.(bool); !ok {
			r.fail(at+"/executable", "executable is true or false")
		}
	}
}

// DecodeBase64 accepts only the canonical base64 spelling: no line breaks and no stray
// bits.
func DecodeBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, base64.CorruptInputError(strings.IndexAny(s, "\r\n"))
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}

// Bytes returns the bytes that a write puts into its file.
func (a Action) Bytes() []byte {
	if !a.Base64 {
		return []byte(a.Content)
	}
	b, _ := DecodeBase64(a.Content) // ParseIntent has checked that it decodes
	return b
}

// run reads the members of a run. It refuses an argv without a command, and what IV-02 and
// IV-04 refuse under every profile.
func (r *reader) run(obj map[string]any, at string, a *Action) {
	r.only(obj, at, "kind", "id", "risk_level", "risk_tags", "argv", "env", "cwd", "stdin", "timeout_ms")
	if _, ok := obj["argv"]; !ok {
		r.fail(at, `"argv" is missing`)
	}
	a.Argv = r.stringList(obj, at, "argv", contract.MaxArgs, contract.MaxArgRunes)
	r.passes(contract.CheckArguments(at+"/argv", a.Argv, contract.Argv))
	if r.err == nil && (len(a.Argv) == 0 || a.Argv[0] == "") {
		r.fail(at+"/argv", "argv names no command")
		r.hint("put the command's name first, then its arguments, one string each")
	}
	a.Cwd = r.str(obj, at, "cwd", false, contract.MaxPathRunes)
	r.noNUL(a.Cwd, at+"/cwd")
	if _, ok := obj["stdin"]; ok {
		s := r.str(obj, at, "stdin", true, canon.MaxIntentBytes)
		a.Stdin = &s
	}
	if v, ok := obj["timeout_ms"]; ok {
		a.TimeoutMS = r.integer(v, at+"/timeout_ms", 1, contract.TimeoutMS().Max)
	}
	a.Env = r.env(obj, at)
}

// integer reads a whole number from least to most, both included.
func (r *reader) integer(v any, at string, least, most int) int {
	num, ok := v.(json.Number)
	n, err := strconv.Atoi(string(num))
	if !ok || err != nil || n < least || n > most {
		r.fail(at, "not a whole number from "+strconv.Itoa(least)+" to "+strconv.Itoa(most))
		return 0
	}
	return n
}

// env reads the environment of a run: at most contract.MaxEnv names, each with a string.
func (r *reader) env(obj map[string]any, at string) map[string]string {
	v, ok := obj["env"]
	if !ok {
		return nil
	}
	p := at + "/env"
	members, ok := v.(map[string]any)
	if !ok {
		r.fail(p, "env is an object of strings")
		return nil
	}
	if len(members) > contract.MaxEnv {
		r.fail(p, "more than "+strconv.Itoa(contract.MaxEnv)+" names")
		return nil
	}
	env := make(map[string]string, len(members))
	for _, name := range canon.Names(members) {
		env[name] = r.str(members, p, name, true, maxEnvRunes)
	}
	r.passes(contract.CheckVariables(p, env))
	return env
}

// call reads the members of a call. Its params are any JSON object.
func (r *reader) call(obj map[string]any, at string, a *Action) {
	r.only(obj, at, "kind", "id", "risk_level", "risk_tags", "tool_id", "adapter_id", "params")
	a.ToolID = r.str(obj, at, "tool_id", true, maxToolRunes)
	a.AdapterID = r.str(obj, at, "adapter_id", false, maxToolRunes)
	if r.err == nil && a.ToolID == "" {
		r.fail(at+"/tool_id", "tool_id is empty")
	}
	v, ok := obj["params"]
	if !ok {
		r.fail(at, `"params" is missing`)
		return
	}
	if a.Params, ok = v.(map[string]any); !ok {
		r.fail(at+"/params", "params is a JSON object")
	}
}

// sortedSet returns the non-empty strings of list, without duplicates, sorted by code
// unit.
func sortedSet(list []string) []string {
	out := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
	slices.SortFunc(out, canon.Compare)
	return append([]string{}, slices.Compact(out)...)
}
