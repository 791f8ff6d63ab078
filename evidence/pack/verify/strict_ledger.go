package verify

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/ledger"
)

// checkLedger checks ST11: ledger.jsonl has exactly the ledger's lines about this run:
// for an execution a line of kind begun, and then the line of the decision.
//
//   - each line is a canonical ledger line (specs/ledger.md), with one LF behind it, or each
//     is an entry without a seal; seals ascend, and times do not go back
//   - what a record says of the run follows from run.json: result_sha256 and
//     canonical_sha256 with all else. input_sha256, decision_sha256 and evidence do not,
//     for a pack does not have what they are hashes of
//   - begun is the beginning of that very decision
//
// Only a reader with the key can check that the seals are signed, and that the lines are
// in a ledger.
func (s *strictLevel) checkLedger() {
	text := s.pack.File(pack.LedgerFile)
	if text == nil || s.run == nil {
		return
	}
	records, ok := s.readLines(text)
	if !ok {
		return
	}
	kinds := []ledger.Kind{ledger.KindDecision}
	if s.run.Execution != nil {
		kinds = []ledger.Kind{ledger.KindBegun, ledger.KindDecision}
	}
	if !slices.EqualFunc(records, kinds, func(r ledger.Record, k ledger.Kind) bool { return r.Kind == k }) {
		s.fault("ST11", pack.LedgerFile, "not one line of each of these kinds: %q", kinds)
		return
	}
	last := len(records) - 1
	end := records[last]
	if want, ok := s.record(s.run, end); ok {
		s.compareRecords(last, end, want)
	}
	s.must(last == 0 || end.EndOf(records[0]), "ST11", pack.LedgerFile+"#/0", "not the beginning of what line 1 is the decision of")
}

// maxRunLines is the number of lines that are read. More lines are a violation, whatever
// their content.
const maxRunLines = 3

// readLines reads the records of at most maxRunLines lines. It returns false if a line is
// none of a ledger. Seals that do not ascend and times that go back are violations too.
func (s *strictLevel) readLines(text []byte) ([]ledger.Record, bool) {
	body, complete := bytes.CutSuffix(text, []byte("\n"))
	if !complete {
		s.fault("ST11", pack.LedgerFile, "no LF at the end")
		return nil, false
	}
	var records []ledger.Record
	size, time, sealed := int64(0), "", sign.Sealed(text)
	for i, line := range bytes.SplitN(body, []byte("\n"), maxRunLines) {
		here := pack.At(pack.LedgerFile, strconv.Itoa(i))
		if len(line) > ledger.MaxLineBytes {
			s.fault("ST11", here, "more than %d bytes", ledger.MaxLineBytes)
			return nil, false
		}
		l, err := sign.ReadLine(line, sealed)
		var r ledger.Record
		if err == nil {
			r, err = ledger.ParseRecord(l.Entry)
		}
		switch {
		case err != nil:
			s.fault("ST11", here, "%s", err)
			return nil, false
		case sealed && l.Seal.Size <= size:
			s.fault("ST11", pack.At(pack.LedgerFile, strconv.Itoa(i), "_seal", "size"), "%d, and the line before has %d", l.Seal.Size, size)
		case r.Timestamp < time:
			s.fault("ST11", pack.At(pack.LedgerFile, strconv.Itoa(i), "timestamp"), "before that of the line before")
		}
		size, time = l.Seal.Size, r.Timestamp
		records = append(records, r)
	}
	return records, true
}

// record returns the ledger's record of the decision in a RunResult. Values that do not
// follow from the result come from r.
func (s *strictLevel) record(run *result.RunResult, r ledger.Record) (ledger.Record, bool) {
	_, provenance, err := canon.Artifact(s.object(pack.RunFile)["policy_provenance"])
	digest, failed := result.Digest(s.object(pack.RunFile))
	if err != nil || failed != nil {
		return r, false
	}
	r.RunID, r.IntentSHA256, r.ExecutionMode, r.Mode = run.RunID, run.Intent.SHA256, run.ExecutionMode, run.ModelMode
	r.Policy, r.PolicySHA256, r.Kernel = run.Policy.Name, provenance, run.KernelVersion
	r.ResultKind, r.Accepted, r.Reasons = string(run.KernelResultKind), run.Decision.Accepted, ledger.Reasons(run.Decision.Reasons)
	r.CanonicalSHA256, r.ResultSHA256, r.BundleSHA256 = digest, canon.Sum(s.pack.File(pack.RunFile)), ""
	if run.Bundle != nil {
		r.BundleSHA256 = run.Bundle.SHA256
	}
	return r, true
}

// compareRecords names each member of a record that differs from what run.json gives.
func (s *strictLevel) compareRecords(line int, got, want ledger.Record) {
	for _, m := range []struct {
		name  string
		equal bool
	}{
		{"accepted", got.Accepted == want.Accepted},
		{"bundle_sha256", got.BundleSHA256 == want.BundleSHA256},
		{"canonical_sha256", got.CanonicalSHA256 == want.CanonicalSHA256},
		{"execution_mode", got.ExecutionMode == want.ExecutionMode},
		{"intent_sha256", got.IntentSHA256 == want.IntentSHA256},
		{"kernel", got.Kernel == want.Kernel},
		{"mode", got.Mode == want.Mode},
		{"policy", got.Policy == want.Policy},
		{"policy_sha256", got.PolicySHA256 == want.PolicySHA256},
		{"reasons", slices.Equal(got.Reasons, want.Reasons)},
		{"result_kind", got.ResultKind == want.ResultKind},
		{"result_sha256", got.ResultSHA256 == want.ResultSHA256},
		{"run_id", got.RunID == want.RunID},
	} {
		if !m.equal {
			s.fault("ST11", pack.At(pack.LedgerFile, strconv.Itoa(line), m.name), "not what run.json gives")
		}
	}
}
