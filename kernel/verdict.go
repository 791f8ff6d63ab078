package kernel

// Result is one answer of a policy rule, with what its record says.
type Result struct {
	Module string // layer package, for example gate.builtin
	ID     string // rule id, [A-Z][A-Z0-9_]{1,31}
	Path   string // JSON Pointer into the intent
	Text   string // msg of a deny or note, question of a clarify
	Fix    string // of the answer, else of the rule's record; may be empty

	// Options belongs to a clarify only.
	Options []string // sorted by code unit; nil when the answer is free text

	// From the rule's METADATA.
	Title    string
	Why      string // description
	Priority int    // 0..100, of a clarify; 60 where the rule states none
}

// Verdict holds the answers of all policy layers, before the kernel decides. Each list
// is sorted by module, id, path and text.
type Verdict struct {
	Permits []string // effect ids that gate.builtin permitted, sorted
	Deny    []Result
	Clarify []Result
	Note    []Result
}
