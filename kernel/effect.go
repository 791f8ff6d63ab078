package kernel

// EffectKind is what an effect does to the world.
type EffectKind string

// The four kinds of effect.
const (
	EffectRead  EffectKind = "read"
	EffectWrite EffectKind = "write"
	EffectRun   EffectKind = "run"
	EffectCall  EffectKind = "call"
)

// Effect is one thing that an intent would do. Every effect needs a permit of the
// built-in policy. Its ID is kind:pointer, so that two effects of one action have two
// ids.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Pointer string     `json:"pointer"` // JSON Pointer into the intent as it was given

	// Path is the cleaned path of a read or write effect.
	Path string `json:"path,omitempty"`

	// Members of a run effect. Command is argv[0]; Env has the names only, sorted.
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Env     []string `json:"env,omitempty"`

	// Members of a call effect.
	ToolID    string `json:"tool_id,omitempty"`
	AdapterID string `json:"adapter_id,omitempty"`
}

// Finding is a fact that the kernel observed in an intent. A finding is no judgement:
// the policy decides what it means.
type Finding struct {
	Code   string `json:"code"`   // one of the Find constants
	Path   string `json:"path"`   // JSON Pointer into the intent as it was given
	Effect string `json:"effect"` // id of the effect that the finding is about, or ""
	Value  string `json:"value"`  // the text that the detector found, or ""
	Other  string `json:"other"`  // the second pointer or text of a pair, or ""
}
