// Package finding owns the codes of what the kernel observes in an intent. Each is a fact
// without a judgement: what a finding means is for the policy to say.
package finding

// The codes of findings, a closed list.
const (
	Placeholder      = "placeholder"       // Value: the placeholder
	Contradiction    = "contradiction"     // Value: the two constraints' clash, Other: pointer of the second
	DoneUndefined    = "done_undefined"    // neither constraint nor action
	PathAbsolute     = "path_absolute"     // absolute, drive letter, UNC, or ~
	PathTraversal    = "path_traversal"    // a .. segment
	PathBackslash    = "path_backslash"    // a backslash
	PathCharacter    = "path_character"    // control, invisible or bidirectional character
	PathForm         = "path_form"         // empty, not NFC, too long, names no file
	PathReserved     = "path_reserved"     // below commands/, calls/ or context/
	PathControl      = "path_control"      // Value: the control path it falls into
	PathCase         = "path_case"         // a write that another one is but for its case; Other: pointer of that
	EnvGuarded       = "env_guarded"       // Value: a name for contract.IsGuarded
	EnvUnlisted      = "env_unlisted"      // Value: a name that is not in the profile's env_allow
	CmdPath          = "command_path"      // argv[0] is a path, not a name
	CmdCharacter     = "command_character" // argv[0] has a character outside printable ASCII
	CmdShell         = "command_shell"     // Value: the shell
	CmdWrapper       = "command_wrapper"   // Value: the wrapper
	InlineCode       = "inline_code"       // Value: the argument, or "stdin"
	Metacharacter    = "metacharacter"     // Value: the argument; only under a profile that denies it
	NetworkNeeded    = "network_needed"    // Value: the sub-command, or the package
	CmdUnread        = "command_unread"    // the commands take too many steps to read
	WriteTwice       = "write_twice"       // Value: path, Other: pointer of the first writer
	Unproduced       = "output_unproduced" // Value: the output's path
	InputWritten     = "input_written"     // Value: path, Other: pointer of the input
	ToolUnknown      = "tool_unknown"      // Value: a tool that the registry does not have
	AdapterUnknown   = "adapter_unknown"   // Value: an adapter that the tool does not have
	ParamsInvalid    = "params_invalid"    // Value: what is wrong with the parameters of a call
	ToolDeprecated   = "tool_deprecated"   // Value: a tool whose status is deprecated
	ToolExperimental = "tool_experimental" // Value: a tool whose status is experimental
	ToolInactive     = "tool_inactive"     // Value: a tool with another status, Other: the status
	HostNotAllowed   = "host_not_allowed"  // Value: a host of an adapter that the profile does not let it reach
	TooMany          = "findings_many"     // there are more; Value: how many are listed at most

	AgentPath = "agent_instructions" // Value: the file or folder of instructions that a write is about
)

// OfBinding returns the codes of what the binding of a call to a registry of tools observes.
func OfBinding() []string {
	return []string{ToolUnknown, AdapterUnknown, ParamsInvalid, ToolDeprecated, ToolExperimental, ToolInactive}
}

// Codes returns every code of this package.
func Codes() []string {
	return []string{
		Placeholder, Contradiction, DoneUndefined, PathAbsolute, PathTraversal, PathBackslash, PathCharacter, PathForm,
		PathReserved, PathControl, PathCase, EnvGuarded, EnvUnlisted, CmdPath, CmdCharacter, CmdShell,
		CmdWrapper, InlineCode, Metacharacter, NetworkNeeded, CmdUnread, WriteTwice, Unproduced, InputWritten, ToolUnknown, AdapterUnknown, ParamsInvalid,
		ToolDeprecated, ToolExperimental, ToolInactive, HostNotAllowed, TooMany, AgentPath,
	}
}
