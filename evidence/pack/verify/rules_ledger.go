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
// object: its _seal is an object, its kind is begun, decision or error, and its run_id
// is a text that is not empty. A line has at most ledger.MaxLineBytes. There are at most
// 1000 lines; further lines are not read. The strict level checks the run and the
// content of a line.
//
// The path of a fault is the path of the line's value in the list of the lines.
func (v *verifier) ledgerRules() {
	text := v.pack.File(pack.LedgerFile)
	if text == nil {
		return
	}
	if len(text) == 0 {
		v.add("PK9", pack.LedgerFile, "no line")
	}
	for i := 0; len(text) > 0; i++ {
		if i == maxLedgerLines {
			v.add("PK9", pack.LedgerFile, "more than %d lines", maxLedgerLines)
			return
		}
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		v.ledgerLine(strconv.Itoa(i), line)
		text = rest
	}
}

func (v *verifier) ledgerLine(i string, line []byte) {
	if len(line) > ledger.MaxLineBytes {
		v.add("PK9", pack.At(pack.LedgerFile, i), "more than %d bytes", ledger.MaxLineBytes)
		return
	}
	value, fault := lenient(line)
	record, ok := value.(map[string]any)
	switch {
	case fault != "":
		v.add("PK9", pack.At(pack.LedgerFile, i), "%s", fault)
		return
	case !ok:
		v.add("PK9", pack.At(pack.LedgerFile, i), "not a JSON object")
		return
	}
	if _, ok := record["_seal"].(map[string]any); !ok {
		v.add("PK9", pack.At(pack.LedgerFile, i, "_seal"), "missing or not an object")
	}
	if kind, _ := record["kind"].(string); !ledger.Kind(kind).OfRun() {
		v.add("PK9", pack.At(pack.LedgerFile, i, "kind"), "none of begun, decision, error")
	}
	if id, _ := record["run_id"].(string); id == "" {
		v.add("PK9", pack.At(pack.LedgerFile, i, "run_id"), "missing or empty")
	}
}
