package sign

import (
	"bytes"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/ledger"
)

// Receipt says where a log has an entry: it is a proof, or the ack of a server whose
// checkpoint has not come in time. fiador run --receipt writes the same text.
type Receipt struct {
	Origin string // of the log
	Index  int64  // of the entry

	Proof ledger.Proof // without an ack
	Size  int64        // of the tree of the proof's checkpoint
	Ack   *ledger.Ack
}

// ReadReceipt reads a receipt and checks its form alone.
func ReadReceipt(text string) (Receipt, error) {
	if ledger.IsAck([]byte(text)) {
		a, err := ledger.ParseAck([]byte(text))
		return Receipt{Origin: a.Origin, Index: a.Index, Ack: &a}, err
	}
	p, err := ledger.ParseProof([]byte(text))
	if err != nil {
		return Receipt{}, err
	}
	c, err := ledger.ParseCheckpoint(p.Note)
	return Receipt{Origin: c.Origin, Index: p.Index, Proof: p, Size: c.Size}, err
}

// of says whether the receipt is of an entry.
func (r Receipt) of(entry []byte) bool {
	if r.Ack != nil {
		return r.Ack.Leaf == ledger.LeafHash(entry)
	}
	return bytes.Equal(r.Proof.Entry, entry)
}

// says is what the receipt does about an entry.
func (r Receipt) says() string {
	if r.Ack != nil {
		return "promises"
	}
	return "proves"
}

// Sealed says whether the lines of ledger.jsonl have seals. The lines of a folder have them,
// and the entries of a server do not. A colon follows the name of a member alone: no text of a
// record has a quote.
func Sealed(lines []byte) bool { return bytes.Contains(lines, []byte(`"_seal":`)) }

// ReadLine reads a line of ledger.jsonl. Without a seal the line is the entry.
func ReadLine(b []byte, sealed bool) (ledger.Line, error) {
	if sealed {
		return ledger.ParseLine(b)
	}
	_, err := ledger.ParseRecord(b)
	return ledger.Line{Entry: b}, err
}

// CheckReceipt checks, without a key, that the receipt in meta.json is about the last line of
// ledger.jsonl. Lines without seals have one: nothing else says which log has them. meta is
// nil without meta.json.
func CheckReceipt(p *pack.Pack, meta map[string]any) []pack.Violation {
	var f faults
	here := pack.At(pack.MetaFile, MetaReceipt)
	lines := p.File(pack.LedgerFile)
	value, there := meta[MetaReceipt]
	text, ok := value.(string)
	switch {
	case !there && (len(lines) == 0 || Sealed(lines)):
		return nil
	case !there:
		f.add(ruleReceipt, pack.MetaFile, "no receipt, and the lines of ledger.jsonl have no seals")
		return f
	case !ok:
		f.add(ruleReceipt, here, "not a text")
		return f
	}
	r, err := ReadReceipt(text)
	switch {
	case err != nil:
		f.add(ruleReceipt, here, "%s", err)
		return f
	case lines == nil:
		f.add(ruleReceipt, here, "there is no ledger.jsonl that it could prove")
		return f
	}
	sealed := Sealed(lines)
	lines = bytes.TrimSuffix(lines, []byte("\n"))
	last, err := ReadLine(lines[bytes.LastIndexByte(lines, '\n')+1:], sealed)
	switch {
	case err != nil: // ST11 reports it
	case !r.of(last.Entry):
		f.add(ruleReceipt, here, "it %s another entry than the last line of ledger.jsonl", r.says())
	case sealed && r.Index != last.Seal.Size-1:
		f.add(ruleReceipt, here, "it %s entry %d, and the last line of ledger.jsonl is entry %d", r.says(), r.Index, last.Seal.Size-1)
	}
	if r.Ack == nil && r.Index >= r.Size {
		f.add(ruleReceipt, here, "its checkpoint is of %d entries, and does not cover entry %d", r.Size, r.Index)
	}
	return f
}
