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

// Effect is one thing an intent would do. Every effect needs a permit of the
// built-in policy; its ID is kind:pointer, so that two effects of one action
// are two.
type Effect struct {
	ID      string     `json:"id"`
	Kind    EffectKind `json:"kind"`
	Pointer string     `json:"pointer"` // JSON Pointer into the intent as given

	// Path is the cleaned path of a read or write effect.
	Path string `json:"path,omitempty"`

	// Run effects. Command is argv[0]; Env has the names only, sorted.
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Env     []string `json:"env,omitempty"`

	// Call effects.
	ToolID    string `json:"tool_id,omitempty"`
	AdapterID string `json:"adapter_id,omitempty"`
}

// Finding is a fact that the kernel observed in an intent. It carries no
// judgement: what a finding means is for the policy to say.
type Finding struct {
	Code   string `json:"code"`   // one of the Find constants
	Path   string `json:"path"`   // JSON Pointer into the intent as given
	Effect string `json:"effect"` // id of the effect it is about, or ""
	Value  string `json:"value"`  // the text it fired on, or ""
	Other  string `json:"other"`  // the second pointer or text of a pair, or ""
}

// The codes of findings, a closed list.
const (
	FindPlaceholder   = "placeholder"       // Value: the placeholder
	FindContradiction = "contradiction"     // Value: the two constraints' clash, Other: pointer of the second
	FindDoneUndefined = "done_undefined"    // neither constraint nor action
	FindPathAbsolute  = "path_absolute"     // absolute, drive letter, UNC, or ~
	FindPathTraversal = "path_traversal"    // a .. segment
	FindPathBackslash = "path_backslash"    // a backslash
	FindPathCharacter = "path_character"    // control, invisible or bidirectional character
	FindPathForm      = "path_form"         // empty, not NFC, too long, names no file
	FindPathReserved  = "path_reserved"     // below commands/, calls/ or context/
	FindPathControl   = "path_control"      // Value: the control path it falls into
	FindPathCase      = "path_case"         // a write that another one is but for its case; Other: pointer of that
	FindEnvGuarded    = "env_guarded"       // Value: a name of contract.Guarded
	FindCmdPath       = "command_path"      // argv[0] is a path, not a name
	FindCmdCharacter  = "command_character" // argv[0] has a character outside printable ASCII
	FindCmdShell      = "command_shell"     // Value: the shell
	FindCmdWrapper    = "command_wrapper"   // Value: the wrapper
	FindInlineCode    = "inline_code"       // Value: the argument, or "stdin"
	FindMetacharacter = "metacharacter"     // Value: the argument; only under a profile that denies it
	FindNetworkNeeded = "network_needed"    // Value: the sub-command, or the package
	FindCmdUnread     = "command_unread"    // the commands take too many steps to read
	FindWriteTwice    = "write_twice"       // Value: path, Other: pointer of the first writer
	FindUnproduced    = "output_unproduced" // Value: the output's path
	FindInputWritten  = "input_written"     // Value: path, Other: pointer of the input
	FindTooMany       = "findings_many"     // there are more; Value: how many are listed at most

	FindAgentPath = "agent_instructions" // Value: the file or folder of instructions that a write is about
)
