package ledger

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Indexed returns an entry with its index as one more member, in canonical form. entry
// must be an entry that ParseRecord reads.
func Indexed(kind Kind, entry []byte, index int64) []byte {
	const name = "index"
	at := 1
	for _, m := range members.Get()[kind] {
		if m > name {
			// Texts have no quotes, and no object inside a record has a member of this
			// name before it.
			at = bytes.Index(entry, []byte(`"`+m+`":`))
			break
		}
	}
	b := append(make([]byte, 0, len(entry)+32), entry[:at]...)
	b = append(strconv.AppendInt(append(b, `"`+name+`":`...), index, 10), ',')
	return append(b, entry[at:]...)
}

// columns are the columns of a table of records.
var columns = []string{
	"index", "timestamp", "kind", "run_id", "result_kind", "accepted", "reasons", "policy", "mode", "execution_mode",
	"intent_sha256", "bundle_sha256", "policy_sha256", "input_sha256", "decision_sha256", "canonical_sha256", "result_sha256",
	"evidence_sha256", "evidence_size", "kernel_version", "code", "rule_id", "clock_behind_ms", "format", "origin", "key", "repairs",
	"work_item_id", "work_plan_sha256", "work_base", "work_before", "work_after", "work_receipt",
}

// Columns returns the names of the columns of a table of records.
func Columns() []string { return slices.Clone(columns) }

// Row returns a record as a row of Columns. A member that is missing or null gives an
// empty cell. Reasons are joined with "|". Repairs are a JSON array.
//
// A cell gets an apostrophe in front if a spreadsheet could take it for a formula, or if
// it begins with an apostrophe. Without that one apostrophe it is the value.
func (r Record) Row(index int64) []string {
	work := r.work()
	row := []string{
		strconv.FormatInt(index, 10), r.Timestamp, string(r.Kind), r.RunID, r.ResultKind, "", strings.Join(r.Reasons, "|"),
		r.Policy, r.Mode, r.ExecutionMode,
		string(r.IntentSHA256), string(r.BundleSHA256), string(r.PolicySHA256), string(r.InputSHA256), string(r.DecisionSHA256),
		string(r.CanonicalSHA256), string(r.ResultSHA256), string(r.Evidence.SHA256), "", r.Kernel, r.Code, r.RuleID, "",
		r.Format, r.Origin, r.Key, r.repairs(),
		work.ItemID, string(work.PlanSHA256), work.Base, work.Before, work.After, work.Receipt,
	}
	if r.Kind == KindDecision {
		row[5], row[18] = strconv.FormatBool(r.Accepted), strconv.FormatInt(r.Evidence.Size, 10)
	}
	if r.ClockBehindMS != 0 {
		row[22] = strconv.FormatInt(r.ClockBehindMS, 10)
	}
	for i, cell := range row {
		row[i] = Cell(cell)
	}
	return row
}

// Cell returns a text as a cell of a table.
func Cell(cell string) string {
	if cell != "" && strings.IndexByte("=+-@'", cell[0]) >= 0 {
		return "'" + cell
	}
	return cell
}

// repairs returns the repairs of a record as its entry has them.
func (r Record) repairs() string {
	if len(r.Repairs) == 0 {
		return ""
	}
	var b []byte
	for i, p := range r.Repairs {
		b = append(b, "[,"[min(i, 1)])
		b = append(strconv.AppendInt(append(b, `{"bytes":`...), p.Bytes, 10), `,"offset":`...)
		b = strconv.AppendInt(b, p.Offset, 10)
		if p.SHA256 != "" {
			b = append(b, `,"sha256":"`+string(p.SHA256)+`"`...)
		}
		b = append(b, `,"what":"`+p.What+`"}`...)
	}
	return string(append(b, ']'))
}
