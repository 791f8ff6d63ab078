package result

// RecordKind says what a [Record] is about.
type RecordKind string

// The kinds of record.
const (
	RecordError     RecordKind = "error"     // a RunError code: no decision was made
	RecordInvariant RecordKind = "invariant" // what a RunResult must fulfil
	RecordRule      RecordKind = "rule"      // a reason of a decision
	RecordExecution RecordKind = "execution" // a reason for which an execution is rejected
	RecordPack      RecordKind = "pack"      // what a run pack must fulfil
)

// Record is what there is to say about one code: explain prints it, and the
// reference in docs/ is made from it.
type Record struct {
	ID    string     `json:"id"`
	Kind  RecordKind `json:"kind"`
	Title string     `json:"title"`
	Why   string     `json:"why"`
	Fix   string     `json:"fix"`
	Since string     `json:"since"` // version of the program that has it first
}

// Records are the records of every error code and every invariant, in their
// order (TestEveryCodeHasARecord).
func Records() []Record {
	failure := func(code Code, title, why, fix string) Record {
		return Record{ID: string(code), Kind: RecordError, Title: title, Why: why, Fix: fix, Since: "0.1.0"}
	}
	invariant := func(id, title, why string) Record {
		return Record{ID: id, Kind: RecordInvariant, Title: title, Why: why, Fix: "do not use the result: run the intent again", Since: "0.1.0"}
	}
	return []Record{
		failure(CodeUnreadable, "A file could not be read",
			"A file is missing, may not be read, is no file, is over its size limit, or gave no byte for five seconds; with details.usage the call lacks something, has something too many, or names what is not there",
			"name a file that exists, may be read and is within the limit that the message gives"),
		failure(CodeNotJSON, "Not strict JSON",
			"Two readers of lenient JSON can see two documents, so only I-JSON (RFC 7493) is read: no duplicate names, no lone surrogates, no numbers that a double cannot hold; of YAML, in which an execution request may be written, only what every reader reads alike",
			"mend the text at the byte and the pointer that the message gives"),
		failure(CodeNotIntent, "Not a valid intent or execution request",
			"A member that is unknown, missing or of the wrong type could weaken a gate, and a limit outside its bounds is not the one that was meant, so none is passed over",
			"mend the member that the message names; fiador schema intent prints what an intent may hold, fiador schema execution-request what an execution request may"),
		failure(CodeProfile, "The profile cannot be used",
			"The profile or a layer of its policy is invalid, or it does not allow the mode that was asked for; with details.usage the call combines what does not go together, or chooses what is no choice",
			"fiador policy check names what is wrong with a profile; fiador policy show prints what it allows"),
		failure(CodeSandbox, "The sandbox could not be set up as the policy demands",
			"Isolation that cannot be had is an error, never silently weaker; neither is an execution whole that was interrupted, or a call that no model and no recording has answered",
			"fiador doctor says what this machine can give and what is in the way; --mode plan-only gives the decision and the bundle without it; of a call the message names the adapter and the prompt"),
		failure(CodeEvidence, "Evidence is missing or contradicts itself",
			"A result that contradicts itself, or what it names, proves nothing; neither does an execution whose writes were rejected, or could not be read or applied; a decision that could not be recorded in the ledger that was asked for does not count",
			"mend what the message names and run it again; keep a result as it was printed; details.reasons names what a command may not do"),
		failure(CodeInternal, "No answer that counts",
			"The policy gave no usable answer (an error, an undefined or malformed value, a limit, the deadline), output could not be written, or the program is at fault",
			"the message names the rule or the file; an answer that does not count is never taken for a permission"),
		invariant("RS1", "schema version present", "A reader has to know by which version a result is to be read"),
		invariant("RS2", "outcome is one of three", "There is no fourth outcome that a reader could take for a permission"),
		invariant("RS3", "fields fit the outcome", "A REFUSE has a reason and no bundle, a CLARIFY has questions, a BUNDLE has a bundle"),
		invariant("RS3a", "execution fits the mode", "A result says that something ran exactly if it did"),
		invariant("RS4", "references are whole", "An id without its hash, or a hash of another form, leads to nothing"),
		invariant("RS5", "policy is the resolved profile", "The limits that a result names are those of the profile that it names"),
		invariant("RS6", "nothing of the machine", "Paths of this machine would make equal decisions differ, and leak"),
		invariant("RS7", "bytes are canonical", "Equal decisions have equal bytes (RFC 8785)"),
		invariant("RS8", "decision fits the outcome", "Accepted is a BUNDLE that was not executed, or whose execution ended with 0, and nothing else"),
		invariant("SCHEMA", "document fits its schema", "Members that the schema does not know could be read as something that was not decided"),
	}
}

// ExecutionRecords are the records of every reason for which an execution is rejected,
// by id. In a result a number, a path or a pointer follows some of them.
func ExecutionRecords() []Record {
	reason := func(id, title, why, fix string) Record {
		return Record{ID: id, Kind: RecordExecution, Title: title, Why: why, Fix: fix, Since: "0.1.0"}
	}
	const streams = "look at what the command printed: --evidence FOLDER keeps both streams"
	return []Record{
		reason("EXIT", "The command ended with an exit code other than 0",
			"One number accepts an execution, and the command gave another; what it wrote is listed and not applied", streams),
		reason("NOT_EXECUTABLE", "The command cannot be executed",
			"The file is there and cannot be started: it is not marked as executable, or the kernel does not know its format",
			"say executable in the action that writes the file, or run it with its interpreter"),
		reason("NOT_FOUND", "There is no such command",
			"No folder of the sandbox's PATH has it, or the folder to start in, or the interpreter that a script names, is not there",
			"name a command that is there; fiador sandbox explain prints PATH and what is shown"),
		reason("OOM", "The command ran out of memory",
			"It was ended because everything inside together had more memory than memory_mb",
			"use less memory, or a profile with more memory_mb"),
		reason("OUTPUT_KIND", "An output is not a regular file",
			"A link, a device, a pipe or a socket means something else wherever it is put, and a file cannot be written where a folder or a link stands",
			"write a regular file, and where nothing else stands"),
		reason("OUTPUT_LIMIT", "More files or bytes were written than the policy allows",
			"max_output_files and max_total_output_bytes bound everything that is written, accepted or not",
			"write less, keep what is needed for the moment in TMPDIR, or use a profile that allows more"),
		reason("OUTPUT_MISSING", "A declared output is missing",
			"What was declared has to be there as a regular file when everything has ended",
			"write it, or do not declare it"),
		reason("OUTPUT_NAME", "An output has a name that not every system can hold",
			"A name that another system reads differently, or that differs from another one in case alone, is another file there",
			"use letters, digits, '.', '-' and '_' in names, and no two that differ in case alone"),
		reason("SIGNAL", "A signal ended the command",
			"The number behind it is the signal's, and the exit code is 128 more", streams),
		reason("STREAM_LIMIT", "The command printed more than is kept",
			"A stream that is cut does not show what was printed; 1048576 bytes of standard output and 262144 of standard error are kept, or max_total_output_bytes of each if that is less",
			"print less, or write it to a file"),
		reason("TIMEOUT", "The command took longer than it may",
			"timeout_ms of the profile bounds all commands of an execution together, that of an action or a call one of them; everything inside was ended",
			"make it faster, or use a profile that gives it longer"),
		reason("WRITE_OUTSIDE_ROOT", "Something was written or removed where that is not allowed",
			"Only what lies beneath the profile's allowed_write_roots is applied, and never an input, or what decides how other tools run",
			"write beneath one of the profile's allowed_write_roots, or keep what is needed for the moment in TMPDIR"),
	}
}
