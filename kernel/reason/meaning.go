package reason

// Meaning explains every reason with one id.
type Meaning struct{ ID, Title, Why, Fix string }

// Meanings returns the meaning of every reason that rejects an execution, by id.
func Meanings() []Meaning {
	const streams = "look at what the command printed: --evidence FOLDER keeps both streams"
	return []Meaning{
		{CallFailed, "A call has no answer",
			"The service refused the request or could not be reached, or the tool said that it failed",
			"look at the attempts in runner.json, which have the status of each; then correct the parameters, or run the intent again later"},
		{CallOutput, "The answer to a call cannot be used",
			"The adapter says how to read what the tool gave, and it cannot be read so, has more than is kept, or repeats a secret",
			"look at what the tool printed: --evidence FOLDER keeps both streams; then correct the adapter's transforms, or the parameters"},
		{CallRefused, "What a call would use is not what its adapter demands",
			"The program is not the file of executable_sha256, the server shows another tool than the one that is pinned, or the address leads where the adapter may not go",
			"install the version that the adapter names, or let the owner of the tools look at what has changed and pin it anew"},
		{CallTimeout, "A call took longer than it may",
			"timeout_ms of the adapter bounds attempts, waits and fallbacks of a call together, and so does what is left of the profile's timeout_ms",
			"ask for less, or give the call longer"},
		{Duplicate, "Another work item has made exactly this change",
			"The store has a success of another item that led from the same state to the same state, so one of the two is not needed",
			"drop one of the two items, or let one depend on the other"},
		{Exit, "The command ended with an exit code other than 0",
			"One number accepts an execution, and the command gave another; what it wrote is listed and not applied", streams},
		{InputMissing, "An input of the work item is missing",
			"input_files names what has to be there, as a regular file, before the agent starts",
			"make it, let the item that makes it come first as a dependency, or do not list it"},
		{MaxDelta, "The work item changed more than max_delta_size allows",
			"Every edited region of a text counts one, and so do each creation, deletion, change of mode, link and binary file",
			"split the item, or raise max_delta_size"},
		{MaxFiles, "The work item touched more files than max_files allows",
			"Files and links that were made, changed or removed count; a renamed one counts twice",
			"split the item, or raise max_files"},
		{MaxToolOps, "The work item used more tools than max_tool_ops allows",
			"Each action counts one, or each line of .agent-trace.jsonl, failed calls included",
			"split the item, or raise max_tool_ops"},
		{NotAllowed, "The work item changed a path that allow does not list",
			"With allow, an item may change those paths alone",
			"keep to those paths, or add the path to allow"},
		{NotExecutable, "The command cannot be executed",
			"The file is there and cannot be started: it is not marked as executable, or the kernel does not know its format",
			"say executable in the action that writes the file, or run it with its interpreter"},
		{NotFound, "There is no such command",
			"No folder of the sandbox's PATH has it, or the folder to start in, or the interpreter that a script names, is not there",
			"name a command that is there; fiador sandbox explain prints PATH and what is shown"},
		{OOM, "The command ran out of memory",
			"It was ended because everything inside together had more memory than memory_mb",
			"use less memory, or a profile with more memory_mb"},
		{OutputKind, "An output is not a regular file",
			"A link, a device, a pipe or a socket means something else wherever it is put, and a file cannot be written where a folder or a link stands",
			"write a regular file, and where nothing else stands"},
		{OutputLimit, "More files or bytes were written than the policy allows",
			"max_output_files and max_total_output_bytes bound everything that is written, accepted or not",
			"write less, keep what is needed for the moment in TMPDIR, or use a profile that allows more"},
		{OutputMissing, "A declared output is missing",
			"What was declared has to be there as a regular file when everything has ended",
			"write it, or do not declare it"},
		{OutputName, "An output has a name that not every system can hold",
			"A name that another system reads differently, or that differs from another one in case alone, is another file there",
			"use letters, digits, '.', '-' and '_' in names, and no two that differ in case alone"},
		{Protected, "The work item changed a path that is protected",
			"protect lists paths that stay as they are, and a file that the test's command names is among them unless output_files has it",
			"leave the path alone, or declare it in output_files"},
		{Signal, "A signal ended the command",
			"The number behind it is the signal's, and the exit code is 128 more", streams},
		{StateDrift, "The folder was changed while the work item ran",
			"An item is applied to the state on which it was tested, and to no other",
			"run the item again when nothing else changes the folder"},
		{StreamLimit, "The command printed more than is kept",
			"A stream that is cut does not show what was printed; 1048576 bytes of standard output and 262144 of standard error are kept, or max_total_output_bytes of each if that is less",
			"print less, or write it to a file"},
		{Test, "The test of the work item failed",
			"The number behind it is the test's exit code; the test ran on the change, in a sandbox of its own, and nothing was applied",
			"read test_output in the result, and mend what the test found"},
		{Timeout, "The command took longer than it may",
			"timeout_ms of the profile bounds all commands of an execution together, that of an action or a call one of them; everything inside was ended",
			"make it faster, or use a profile that gives it longer"},
		{Trace, "The agent's trace is missing or cannot be read",
			"The entry of the agent says that a trace is required, and .agent-trace.jsonl is not there, or a line of it has another form",
			"let the agent write a line for each use of a tool, or say optional in the agent's entry"},
		{WriteOutsideRoot, "Something was written or removed where that is not allowed",
			"Only what lies beneath the profile's allowed_write_roots is applied, and never an input, or what decides how other tools run",
			"write beneath one of the profile's allowed_write_roots, or keep what is needed for the moment in TMPDIR"},
	}
}

// MeaningOf returns the meaning of the reasons with an id. Any other id gets a meaning
// without words.
func MeaningOf(id string) Meaning {
	for _, m := range Meanings() {
		if m.ID == id {
			return m
		}
	}
	return Meaning{ID: id}
}

// Title returns the title of the reasons with an id, and "" for any other id.
func Title(id string) string { return MeaningOf(id).Title }
