package verify

import (
	"bytes"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/ledger"
)

const maxLedgerLines = 1000

// ledgerRules checks PK9: ledger.jsonl has at least one line. A line is the text before
// each LF, and the text behind the last LF if it is not empty. Each line is a JSON
// object: its kind is begun, decision or error, and its run_id is a text that is not
// empty. If one has a _seal, it is an object in each: entries of a server have none. A line
// has at most ledger.MaxLineBytes. There are at most 1000 lines; further lines are not
// read. The strict level checks the run and the content of a line.
//
// The path of a fault is the path of the line's value in the list of the lines.
func (v *verifier) ledgerRules() {
	lines := v.pack.File(pack.LedgerFile)
	if lines == nil {
		return
	}
	v.must(len(lines) > 0, "PK9", pack.LedgerFile, "no line")
	var bare []string // lines without a seal
	sealed := false
	for i := 0; len(lines) > 0; i++ {
		if i == maxLedgerLines {
			v.add("PK9", pack.LedgerFile, "more than %d lines", maxLedgerLines)
			break
		}
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		if record := v.ledgerLine(strconv.Itoa(i), line); record != nil {
			seal, there := record["_seal"]
			if _, ok := seal.(map[string]any); !ok {
				bare = append(bare, strconv.Itoa(i))
			}
			sealed = sealed || there
		}
		lines = rest
	}
	for _, i := range bare {
		v.must(!sealed, "PK9", pack.At(pack.LedgerFile, i, "_seal"), "missing or not an object")
	}
}

// ledgerLine checks one line. It returns nil for a line that is no record.
func (v *verifier) ledgerLine(i string, line []byte) map[string]any {
	if len(line) > ledger.MaxLineBytes {
		v.add("PK9", pack.At(pack.LedgerFile, i), "more than %d bytes", ledger.MaxLineBytes)
		return nil
	}
	value, fault := lenient(line)
	record, ok := value.(map[string]any)
	switch {
	case fault != "":
		v.add("PK9", pack.At(pack.LedgerFile, i), "%s", fault)
		return nil
	case !ok:
		v.add("PK9", pack.At(pack.LedgerFile, i), "not a JSON object")
		return nil
	}
	kind := ledger.Kind(text(record, "kind"))
	v.must(kind.OfRun(), "PK9", pack.At(pack.LedgerFile, i, "kind"), "none of begun, decision, error")
	v.must(text(record, "run_id") != "", "PK9", pack.At(pack.LedgerFile, i, "run_id"), "missing or empty")
	return record
}
