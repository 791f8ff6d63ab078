package grade

// Unit is a step of a trace: a call with its result, a retrieval, an output, or an event of an
// unknown type.
type Unit struct {
	Kind    UnitKind
	Tool    string // of a call; the type of an unknown event
	Place   string // "events[2]": of a call, that of the call; "final_output" of the last output
	Result  string // of a call with a result, the place of the result
	Args    any    // of a call; of a retrieval, its query
	Status  string // of a result: ok or error; empty: there is none
	Payload any    // of a result; the documents of a retrieval; the content of an output
	Sum     string // hash of a payload that is an asset, if the file has it; else its href
	TS      float64
	Latency float64 // of a result, in milliseconds; below 0: not known
}

// UnitKind is the kind of a unit.
type UnitKind string

// The kinds of units.
const (
	UnitCall      UnitKind = "call"
	UnitRetrieval UnitKind = "retrieval"
	UnitOutput    UnitKind = "output"
	UnitOther     UnitKind = "other" // is shown, and is never a divergence
)

// Mark says how the two units of a row differ.
type Mark string

// The marks.
const (
	Equal     Mark = "equal"
	Different Mark = "changed"
	OnlyOld   Mark = "removed" // on baseline alone
	OnlyNew   Mark = "added"
)

// Row is one row of two traces beside each other.
type Row struct {
	Mark          Mark
	Baseline, New *Unit
	Changes       []Edit // of a row that is changed
}

// Edit is a member that differs.
type Edit struct {
	Part     string // arguments, status, payload, documents or content
	Pointer  string
	From, To string // the JSON of the values; of a long string, its hash; empty: absent
}

// Alignment is two traces beside each other.
type Alignment struct {
	Rows        []Row
	Approximate bool // the traces are too long for the shortest difference
	Divergence  *Divergence
}
