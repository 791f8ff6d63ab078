package verify

import (
	"bytes"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/ledger"
)

// checkMeta checks ST12: a signature in meta.json is a signature of this pack, and a
// receipt is a receipt of its decision. Only a reader with the keys can check that they
// are valid (SG1 to SG10). A signature or a receipt of something else is refused without
// keys.
//
//   - dsse, where it is there, is a DSSE envelope of an in-toto statement whose subjects
//     are all files of the pack but meta.json, with their hashes, and which names the run
//   - receipt, where it is there, is a tlog-proof of the decision in ledger.jsonl
//
// All other members of meta.json are free.
func (s *strictLevel) checkMeta() {
	d := s.doc(pack.MetaFile)
	if d == nil || d.fault != "" {
		return
	}
	meta := s.object(pack.MetaFile)
	if meta == nil {
		s.fault("ST12", pack.MetaFile, "not an object")
		return
	}
	if value, there := meta[sign.MetaEnvelope]; there {
		for _, v := range sign.CheckEnvelope(s.pack, value) {
			s.fault("ST12", v.Path, "%s", v.Message)
		}
	}
	if value, there := meta[sign.MetaReceipt]; there {
		s.checkReceipt(value)
	}
}

// checkReceipt checks, without a key, that a receipt is about the last line of ledger.jsonl.
func (s *strictLevel) checkReceipt(value any) {
	here := pack.At(pack.MetaFile, sign.MetaReceipt)
	receipt, ok := value.(string)
	if !ok {
		s.fault("ST12", here, "not a text")
		return
	}
	proof, err := ledger.ParseProof([]byte(receipt))
	if err != nil {
		s.fault("ST12", here, "%s", err)
		return
	}
	lines := s.pack.File(pack.LedgerFile)
	if lines == nil {
		s.fault("ST12", here, "there is no ledger.jsonl that it could prove")
		return
	}
	lines = bytes.TrimSuffix(lines, []byte("\n"))
	last, err := ledger.ParseLine(lines[bytes.LastIndexByte(lines, '\n')+1:])
	switch {
	case err != nil: // ST11 reports it
	case !bytes.Equal(proof.Entry, last.Entry):
		s.fault("ST12", here, "it proves another entry than the last line of ledger.jsonl")
	case proof.Index != last.Seal.Size-1:
		s.fault("ST12", here, "it proves entry %d, and the last line of ledger.jsonl is entry %d", proof.Index, last.Seal.Size-1)
	}
	if c, err := ledger.ParseCheckpoint(proof.Note); err == nil && proof.Index >= c.Size {
		s.fault("ST12", here, "its checkpoint is of %d entries, and does not cover entry %d", c.Size, proof.Index)
	}
}
