package verify

import (
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/result"
)

// strictRules returns the records of the rules that the strict level adds. RS1 to RS8
// and RS3a are the rules of every RunResult.
func strictRules() []pack.Rule {
	list := []pack.Rule{
		{ID: "ST1", Title: "every file is canonical JSON and one LF", Description: "Of two spellings each reader could take another, and only one has the hash"},
		{ID: "ST2", Title: "run.json is a RunResult, with no other members", Description: "A member that no rule knows, or of another type, can be read as something that was not decided"},
		{ID: "ST3", Title: "the files are those of the outcome", Description: "A plan beside a refusal, or a patch of what was never executed, would be taken for what was allowed"},
		{ID: "ST4", Title: "the bundle is what the kernel makes of its plan", Description: "Ids, hashes, counts and scores that do not follow from the plan were made up"},
		{ID: "ST5", Title: "the plan keeps to the policy, and its limits are told as they are", Description: "What the policy denies was not allowed, whatever the outcome says"},
		{ID: "ST6", Title: "the execution is that of this bundle and policy, and agrees with itself", Description: "Sums, ids, exit code and reasons follow from what was observed; one that does not was changed"},
		{ID: "ST7", Title: "the evidence is that of this plan and this execution", Description: "Evidence of another run, or of a plan that was not carried out so, proves nothing"},
		{ID: "ST8", Title: "the patch is what the evidence says has become of files", Description: "A content, a path or an operation that nothing has observed would be put into a tree"},
		{ID: "ST9", Title: "what enforced the policy had no wider limits, and saw this end", Description: "A sandbox with wider limits did not enforce the policy that decided"},
		{ID: "ST10", Title: "the recording is that of the calls that were made", Description: "An answer that belongs to no call, or to another prompt, is not what the run was given"},
		{ID: "ST11", Title: "the ledger lines are those of this run", Description: "A line of another run is as well sealed, and says nothing of this one"},
		{ID: "ST12", Title: "a signature and a receipt are about this pack", Description: "One of another pack holds under its key, and vouches for nothing here; entries without seals and receipt are of no log"},
		{ID: "ST13", Title: "the recording of services is that of the attempts that were made", Description: "An answer that belongs to no attempt, or to another request, is not what the run was given"},
	}
	for _, r := range result.Records() {
		if r.Kind == result.RecordInvariant && r.ID != "SCHEMA" {
			list = append(list, pack.Rule{ID: r.ID, Title: r.Title, Description: r.Why})
		}
	}
	for i := range list {
		list[i].Level = pack.Strict
	}
	return list
}
