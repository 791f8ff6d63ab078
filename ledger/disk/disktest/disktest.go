// Package disktest makes a ledger with every kind of entry, for the tests that read one.
// Tests alone import it.
package disktest

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/ledger"
	"github.com/fiador/fiador/ledger/disk"
)

// Key is the private key that signs the ledger, and nothing else.
func Key() string {
	return "PRIVATE+KEY+example.com/gate+dbdd19d8+" + base64.StdEncoding.EncodeToString([]byte("\x01fixture fixture fixture fixture "))
}

// digest returns a hash whose digits show the number n.
func digest(n int) canon.ContentHash {
	return canon.ContentHash("sha256:" + strings.Repeat(fmt.Sprintf("%04x", n), 16))
}

// Recorded makes a ledger with every kind of entry to read. Its bytes are the same
// each time.
func Recorded(dir string) error {
	key, err := ledger.ParseSigner(Key())
	if err != nil {
		return err
	}
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	if _, err := disk.Create(dir, key, disk.Options{Now: func() time.Time { return now }}); err != nil {
		return err
	}
	return record(dir, now, records)
}

// Work appends the records of two work items to the ledger of Recorded.
func Work(dir string) error {
	return record(dir, time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC), workRecords)
}

// record appends records, with 7 hours before each.
func record(dir string, now time.Time, recordsFor func(*disk.Log) ([]ledger.Record, error)) error {
	key, err := ledger.ParseSigner(Key())
	if err != nil {
		return err
	}
	log, err := disk.Open(dir, key, disk.Options{Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	defer log.Close()
	list, err := recordsFor(log)
	if err != nil {
		return err
	}
	for _, r := range list {
		now = now.Add(7 * time.Hour)
		if _, err := log.Append(context.Background(), r); err != nil {
			return err
		}
	}
	return nil
}

// workRecords returns the records of two work items: one of a plan with an end, and one
// that was killed.
func workRecords(log *disk.Log) ([]ledger.Record, error) {
	fixtures, err := records(log)
	if err != nil {
		return nil, err
	}
	state := func(n int) string { return "blake3:" + digest(n).Hex() }
	begun, ended, killed := fixtures[2], fixtures[3], fixtures[4]
	begun.RunID, ended.RunID, killed.RunID = "run_w", "run_w", "run_x"
	begun.Work = &ledger.Work{ItemID: "item-1", PlanSHA256: digest(0x9), Base: state(0xa)}
	ended.Work = &ledger.Work{ItemID: "item-1", PlanSHA256: digest(0x9), Before: state(0xb), After: state(0xc), Receipt: state(0xd)}
	killed.Work = &ledger.Work{ItemID: "item-2", Base: state(0xa)}
	return []ledger.Record{begun, ended, killed}, nil
}

// evidence is as much of the evidence of a decision as commands read here.
type evidence struct {
	Kind   string `json:"kind"`
	Result string `json:"result"`
}

var evidencePlan canon.Plan[evidence]

// records returns the records after the genesis.
func records(log *disk.Log) ([]ledger.Record, error) {
	const printed = `{"run_id":"run_a","text":"\u001b[2J"}` + "\n"
	text, _, err := evidencePlan.Artifact(&evidence{"decision", printed})
	if err != nil {
		return nil, err
	}
	blob, err := log.Put(text)
	if err != nil {
		return nil, err
	}
	intentA, intentB, intentC := digest(0xaaaa), digest(0xbbbb), digest(0xcccc)
	run := func(kind ledger.Kind, id string, intent canon.ContentHash) ledger.Record {
		return ledger.Record{
			Kind: kind, RunID: id, IntentSHA256: intent, ExecutionMode: "plan-only", Mode: "none", Policy: "default",
			PolicySHA256: digest(0x201), InputSHA256: digest(0x3), BundleSHA256: digest(0x4), Kernel: "0.1.0",
		}
	}
	decision := func(id string, intent canon.ContentHash, outcome string, reasons ...string) ledger.Record {
		r := run(ledger.KindDecision, id, intent)
		r.ResultKind, r.Accepted, r.Reasons = outcome, outcome == "BUNDLE" && len(reasons) == 0, reasons
		r.DecisionSHA256, r.CanonicalSHA256, r.ResultSHA256 = digest(0x5), digest(0x6), canon.Sum([]byte(printed))
		r.Evidence = blob
		if outcome == "REFUSE" {
			r.BundleSHA256 = ""
		}
		return r
	}
	missing := decision("run_b", intentB, "REFUSE", "CMD_NOT_ALLOWED", "PATH_ABSOLUTE")
	missing.Evidence = ledger.Blob{SHA256: digest(0x8), Size: 99}
	begun, failed := run(ledger.KindBegun, "run_c", intentC), decision("run_c", intentC, "BUNDLE", reason.Exit+" 1")
	killed := run(ledger.KindBegun, "42", intentC)
	for _, r := range []*ledger.Record{&begun, &failed, &killed} {
		r.ExecutionMode = "execute-sandbox"
	}
	asked := decision("run_d", intentA, "CLARIFY", "PLACEHOLDER")
	asked.Policy, asked.PolicySHA256 = "strict", digest(0x202)
	fault := run(ledger.KindError, "run_e", intentA)
	fault.InputSHA256, fault.BundleSHA256, fault.Code, fault.RuleID = "", "", "RUN_E007", "IV-02"
	differs := decision("run_f", intentA, "BUNDLE")
	differs.CanonicalSHA256 = digest(0x66)
	flipped := decision("run_g", intentB, "BUNDLE")
	flipped.PolicySHA256 = digest(0x203)
	formula := decision("run_h", digest(0xdddd), "REFUSE", "-2-3")
	formula.Policy, formula.PolicySHA256 = "-x", digest(0x204)
	return []ledger.Record{decision("run_a", intentA, "BUNDLE"), missing, begun, failed, killed, asked, fault, differs, flipped, formula}, nil
}
