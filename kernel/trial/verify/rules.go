package verify

// Rules of a version directory that an evaluator counts against one case: the directory is
// judged all the same.
const (
	RuleCaseMissing = "SU4"  // counts if the directory is not sealed
	RuleFileMissing = "SU13" // counts if the directory is not sealed
	RuleUnresolved  = "SU19"
)

// Rule is one rule of a version directory.
type Rule struct {
	ID   string `json:"id"`
	Text string `json:"text"` // what is true in a directory that keeps the rule
}

// Rules returns the rules that Verify checks, in the order of their numbers.
func Rules() []Rule {
	return []Rule{
		{"SU1", "run.json is there, and fits the schema suite-run"},
		{"SU2", "there are only regular files and folders"},
		{"SU3", "the selected ids are unique, also in another case of letters, and each can name a file"},
		{RuleCaseMissing, "every selected case has its file ID.json"},
		{"SU5", "every other JSON file beside run.json is the file of a selected case, and has its case_id"},
		{"SU6", "the file of a case fits the schema suite-case"},
		{"SU7", "run.json, the cases, the descriptions of bodies and the manifest name one version"},
		{"SU8", "a case has either an answer or a failure, as its status says"},
		{"SU9", "attempts are numbered from 1 without gaps, only a failed one has an error_class, and the last one's outcome is the status"},
		{"SU10", "an http_error has its status"},
		{"SU11", "a failure has a snippet and a file of its body, or neither of them"},
		{"SU12", "an href is a clean path beneath the directory, and that of a body lies in assets"},
		{RuleFileMissing, "an href leads to a regular file"},
		{"SU14", "a file has the hash and the size that a document gives for it"},
		{"SU15", "a body snippet is the beginning of the file of the body"},
		{"SU16", "a body is truncated exactly if it is known to have had more bytes than were written"},
		{"SU17", "the description of a body fits the schema suite-failure-meta, and names the case and the class of the failure"},
		{"SU18", "a reference to evidence has exactly the identifier of its kind"},
		{RuleUnresolved, "a reference to evidence leads to a result, a document, an event or an asset of the case, or is listed in evidence_unresolved"},
		{"SU20", "no member that is a path is absolute"},
		{"SU21", "assets/manifest.json fits the schema suite-assets-manifest"},
		{"SU22", "no two assets of the manifest have one asset_id, or one href, case and kind"},
		{"SU23", "the seal has the hash of every case and of the manifest, and of nothing else"},
		{"SU24", "a sealed directory has no other file but those of its manifest, which has a hash for each"},
		{"SU25", "run_group and agent have the members that specs/suite.md names"},
		{"SU26", "stats count the selected cases"},
	}
}
