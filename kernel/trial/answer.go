package trial

// Want is what an answer has to be for, and how it is read.
type Want struct {
	CaseID       string
	Version      Side
	Limits       Limits
	Strict       bool     // nothing is repaired (--strict-agent)
	WarnEvidence bool     // a reference that leads nowhere is noted, and is no fault (--evidence=warn)
	Redactions   []string // the rules that have redacted the answer, sorted
}

// Asset is a text that the file of a case refers to.
type Asset struct {
	Href    string // assets/HASH.txt, or .bin if it is not UTF-8
	Kind    string // full_payload, retrieval_snippets or other
	Content []byte
}

// Fault is a place that does not fit.
type Fault struct {
	Pointer string // JSON Pointer; empty: the whole
	Msg     string
}
