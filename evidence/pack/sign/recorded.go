package sign

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// maxLines is the maximum number of lines of ledger.jsonl that are read. A run has two.
const maxLines = 64

// decisionLine is the line of a decision.
type decisionLine struct {
	ledger.Line
	record ledger.Record
	number int // from 0 on
}

func lineAt(number int) string { return pack.At(pack.LedgerFile, strconv.Itoa(number)) }

// checkRecorded checks SG8 to SG10. After a new violation it returns no record.
func checkRecorded(p *pack.Pack, meta map[string]any, key ledger.Verifier, f *faults) *Recorded {
	before := len(*f)
	line, sealed, ok := checkLines(p, key, f)
	if !ok {
		return nil
	}
	where := pack.At(pack.MetaFile, MetaReceipt)
	text, ok := meta[MetaReceipt].(string)
	if !ok {
		f.add(ruleReceipt, pack.MetaFile, "no receipt")
		return nil
	}
	receipt, err := ReadReceipt(text)
	if err != nil {
		f.add(ruleReceipt, where, "%s", err)
		return nil
	}
	keys, checkpoint := ledger.Keys{{Size: 0, Key: key}}, ledger.Checkpoint{}
	if receipt.Ack != nil {
		_, err = keys.OpenAck(receipt.Ack.Note)
	} else {
		_, checkpoint, err = keys.CheckProof(receipt.Proof)
	}
	if err != nil {
		f.add(ruleReceipt, where, "%s", err)
		return nil
	}
	switch {
	case !receipt.of(line.Entry):
		f.add(ruleRecorded, where, "%s another entry than that of %s", receipt.says(), lineAt(line.number))
	case sealed && receipt.Index != line.Seal.Size-1:
		f.add(ruleRecorded, where, "%s entry %d, and %s has the seal of entry %d", receipt.says(), receipt.Index, lineAt(line.number), line.Seal.Size-1)
	case sealed && checkpoint.Size == line.Seal.Size && checkpoint.Root != line.Seal.Root:
		f.add(ruleRecorded, where, "has a checkpoint with another root than the seal of %s", lineAt(line.number))
	}
	checkRun(p, line, f)
	if len(*f) > before {
		return nil
	}
	return &Recorded{Origin: receipt.Origin, Index: receipt.Index, Promised: receipt.Ack != nil, Checkpoint: checkpoint}
}

// checkRun checks that a decision belongs to the pack's run.
func checkRun(p *pack.Pack, line decisionLine, f *faults) {
	about, err := predicateOf(p)
	if err != nil {
		f.add(ruleRecorded, pack.RunFile, "%s", errors.Unwrap(err))
		return
	}
	if id := about["run_id"]; line.record.RunID != id {
		f.add(ruleRecorded, lineAt(line.number), "of the run %s, and %s is of %s", pack.Quoted(line.record.RunID), pack.RunFile, pack.Quoted(id))
	}
	if sum := about["canonical_sha256"]; line.record.CanonicalSHA256 != canon.ContentHash(sum) {
		f.add(ruleRecorded, lineAt(line.number), "of a result with the canonical hash %s, and %s has %s", pack.Quoted(string(line.record.CanonicalSHA256)), pack.RunFile, pack.Quoted(sum))
	}
}

// checkLines checks SG8, and finds the decision. sealed says whether the lines have seals.
func checkLines(p *pack.Pack, key ledger.Verifier, f *faults) (decision decisionLine, sealed, ok bool) {
	text, complete := bytes.CutSuffix(p.File(pack.LedgerFile), []byte{'\n'})
	if !complete {
		f.add(ruleSeals, pack.LedgerFile, "no complete line")
		return decision, false, false
	}
	lines := bytes.SplitN(text, []byte{'\n'}, maxLines+1)
	if len(lines) > maxLines {
		f.add(ruleSeals, pack.LedgerFile, "more than %d lines", maxLines)
		return decision, false, false
	}
	sealed = Sealed(text)
	last := int64(0)
	for i, b := range lines {
		line, err := checkLine(b, sealed, key)
		if err == nil && sealed && line.Seal.Size <= last {
			err = errors.New("the seal is of a tree that is not larger than that of the line before")
		}
		if err == nil && ok {
			err = errors.New("the run has ended before")
		}
		if err != nil {
			f.add(ruleSeals, lineAt(i), "%s", err)
			return decision, sealed, false
		}
		last = line.Seal.Size
		if line.record.Kind == ledger.KindDecision {
			line.number = i
			decision, ok = line, true
		}
	}
	if !ok {
		f.add(ruleSeals, pack.LedgerFile, "no line of a decision")
	}
	return decision, sealed, ok
}

// checkLine reads a line. Its seal, if lines have seals, was signed by the key.
func checkLine(b []byte, sealed bool, key ledger.Verifier) (line decisionLine, err error) {
	if line.Line, err = ReadLine(b, sealed); err != nil {
		return line, err
	}
	if sealed {
		switch err := key.CheckSeal(line.Seal); {
		case errors.Is(err, ledger.ErrUnknownKey):
			return line, fmt.Errorf("the seal is signed with another key than %s", pack.Quoted(key.ID()))
		case err != nil:
			return line, fmt.Errorf("the seal is not signed by %s", pack.Quoted(key.ID()))
		}
	}
	line.record, err = ledger.ParseRecord(line.Entry)
	return line, err
}
