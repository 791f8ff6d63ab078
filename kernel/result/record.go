package result

import "github.com/fiador/fiador/kernel/reason"

// RecordKind says what a [Record] is about.
type RecordKind string

// The kinds of record.
const (
	RecordError     RecordKind = "error"     // a RunError code: no decision was made
	RecordInvariant RecordKind = "invariant" // a condition that a RunResult must fulfil
	RecordRule      RecordKind = "rule"      // a reason of a decision
	RecordExecution RecordKind = "execution" // a reason for which an execution is rejected
	RecordPack      RecordKind = "pack"      // a condition that a run pack must fulfil
	RecordChange    RecordKind = "change"    // a finding about a changed path
)

// Record describes one code. The command explain prints it, and the reference in docs/
// is made from it.
type Record struct {
	ID    string     `json:"id"`
	Kind  RecordKind `json:"kind"`
	Title string     `json:"title"`
	Why   string     `json:"why"`
	Fix   string     `json:"fix"`
	Since string     `json:"since"` // first version of the program that has the code
}

// Records returns the records of every error code and every invariant, in their order
// (TestEveryCodeHasARecord).
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
			"mend the text at the line and the column that the message gives"),
		failure(CodeNotIntent, "Not a valid intent or execution request",
			"A member that is unknown, missing or of the wrong type could weaken a gate, and a limit outside its bounds is not the one that was meant, so none is passed over",
			"mend the member that the message names; fiador schema intent prints what an intent may hold, fiador schema execution-request what an execution request may"),
		failure(CodeProfile, "The profile or the tools cannot be used",
			"The profile or a layer of its policy is invalid, or it does not allow the mode that was asked for; a folder of tools has a fault, or is not what its index says; with details.usage the call combines what does not go together, or chooses what is no choice",
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

// RecordOf returns the record of an error code or an invariant. Any other id gets a record
// that has nothing but the id.
func RecordOf(id string) Record {
	for _, r := range Records() {
		if r.ID == id {
			return r
		}
	}
	return Record{ID: id}
}

// ExecutionRecords returns the records of every reason to reject an execution, by id.
// In a result, some of these ids are followed by a number, a path or a pointer.
func ExecutionRecords() []Record {
	var list []Record
	for _, m := range reason.Meanings() {
		list = append(list, Record{ID: m.ID, Kind: RecordExecution, Title: m.Title, Why: m.Why, Fix: m.Fix, Since: "0.1.0"})
	}
	return list
}
