package verify

import (
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
)

// checkMeta checks ST12: a signature in meta.json is a signature of this pack, and a
// receipt is a receipt of its decision. Only a reader with the keys can check that they
// are valid (SG1 to SG10). A signature or a receipt of something else is refused without
// keys.
//
//   - dsse, where it is there, is a DSSE envelope of an in-toto statement whose subjects
//     are all files of the pack but meta.json, with their hashes, and which names the run
//   - receipt, where it is there, is a tlog-proof or an ack of the decision in ledger.jsonl;
//     it is there where the lines of ledger.jsonl have no seals
//
// All other members of meta.json are free.
func (s *strictLevel) checkMeta() {
	d, meta := s.doc(pack.MetaFile), s.object(pack.MetaFile)
	if d != nil && d.fault != "" {
		return
	}
	if d != nil && meta == nil {
		s.fault("ST12", pack.MetaFile, "not an object")
		return
	}
	var found []pack.Violation
	if value, there := meta[sign.MetaEnvelope]; there {
		found = sign.CheckEnvelope(s.pack, value)
	}
	for _, v := range append(found, sign.CheckReceipt(s.pack, meta)...) {
		s.fault("ST12", v.Path, "%s", v.Message)
	}
}
