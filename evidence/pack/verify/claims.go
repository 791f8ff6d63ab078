package verify

import (
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
)

// Claims are the statements of a pack about itself, for people. A valid pack does not
// make them true; only keys prove who has signed. A missing or unreadable claim is
// empty.
type Claims struct {
	Outcome  string // of the run: BUNDLE, CLARIFY or REFUSE
	Accepted bool
	Signers  []string // ids of the keys of the signatures in meta.json
	Origin   string   // of the ledger of the receipt in meta.json
	Index    int64    // of the decision in that ledger, if there is an origin
	Promised bool     // the receipt is a server's ack, and no proof
}

func (v *verifier) claims() Claims {
	var c Claims
	run := v.object(pack.RunFile)
	c.Outcome = text(run, "kernel_result_kind")
	decision, _ := run["decision"].(map[string]any)
	c.Accepted = decision["accepted"] == true
	meta := v.object(pack.MetaFile)
	c.Signers = sign.Signers(meta[sign.MetaEnvelope])
	if r, err := sign.ReadReceipt(text(meta, sign.MetaReceipt)); err == nil {
		c.Origin, c.Index, c.Promised = r.Origin, r.Index, r.Ack != nil
	}
	return c
}
