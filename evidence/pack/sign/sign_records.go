package sign

import "github.com/fiador/fiador/evidence/pack"

// WithKeys is the level of the rules that need a key. Authenticate checks them; Verify
// does not.
const WithKeys pack.Level = "keys"

// Rules returns the records of the rules that Authenticate checks.
func Rules() []pack.Rule {
	list := []pack.Rule{
		{ID: ruleEnvelope, Title: "the envelope is a DSSE envelope of an in-toto statement", Description: "What cannot be read in one way only is not held against a key"},
		{ID: ruleOneSignature, Title: "a key has one signature", Description: "Of two signatures with one key id, each reader could take another"},
		{ID: ruleSignedBy, Title: "the key has signed the pack", Description: "A pack without the signature that is asked for is as good as one that anybody made"},
		{ID: ruleSignature, Title: "the signature is one of the payload", Description: "A payload that was changed, or a signature that was copied, is not what the key has signed"},
		{ID: ruleStatement, Title: "the payload is an in-toto statement about a pack", Description: "A key may sign other things than packs, and a statement of another kind says nothing of this one"},
		{ID: ruleSubjects, Title: "the subjects are the files of the pack", Description: "A file that was added, taken away or changed after the signature is covered by nothing"},
		{ID: rulePredicate, Title: "the predicate names the run of the pack", Description: "Whoever reads the statement alone must not take it for that of another run"},
		{ID: ruleSeals, Title: "the ledger's key has signed the seal of each line, or no line has one", Description: "Lines of another ledger, or of none, look the same; entries of a server have no seals"},
		{ID: ruleReceipt, Title: "the receipt is a proof under a checkpoint of the ledger's key, or an ack that it has signed", Description: "A seal says that the ledger had a tree; only a proof shows that the decision is in it, and an ack promises it"},
		{ID: ruleRecorded, Title: "the receipt is that of the decision of the pack's run", Description: "A receipt of another run is as genuine, and proves nothing about this one"},
	}
	for i := range list {
		list[i].Level = WithKeys
	}
	return list
}
