package ledger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// Records have a narrow form: objects with known and sorted member names, texts of
// printable ASCII without quotes and escapes, and whole numbers. scanner reads only this
// form. So every text that it reads is canonical, and a million records take seconds. The
// texts of a record are parts of one text, without copies.
type scanner struct {
	text string
	at   int
}

func (s *scanner) next(lit string) bool {
	ok := strings.HasPrefix(s.text[s.at:], lit)
	if ok {
		s.at += len(lit)
	}
	return ok
}

// token reads a text in quotes.
func (s *scanner) token() (string, bool) {
	if !s.next(`"`) {
		return "", false
	}
	for i := s.at; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			t := s.text[s.at:i]
			s.at = i + 1
			return t, true
		case c < 0x20 || c > 0x7e || c == '\\':
			return "", false
		}
	}
	return "", false
}

// number reads a whole number from 0 to canon.MaxSafeInteger.
func (s *scanner) number() (int64, bool) {
	end := s.at
	for end < len(s.text) && s.text[end] >= '0' && s.text[end] <= '9' {
		end++
	}
	t := s.text[s.at:end]
	if len(t) == 0 || len(t) > 16 || len(t) > 1 && t[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseInt(t, 10, 64)
	s.at = end
	return n, err == nil && n <= canon.MaxSafeInteger
}

// list reads an array.
func (s *scanner) list(element func() bool) bool {
	if !s.next("[") {
		return false
	}
	if s.next("]") {
		return true
	}
	for {
		if !element() {
			return false
		}
		if s.next("]") {
			return true
		}
		if !s.next(",") {
			return false
		}
	}
}

// Every error of ParseRecord wraps ErrRecord.
var ErrRecord = errors.New("not a ledger record")

func faulty(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRecord, fmt.Sprintf(format, args...))
}

// ParseRecord reads an entry. Entry writes the result with the same bytes.
func ParseRecord(entry []byte) (Record, error) {
	if len(entry) > MaxEntryBytes {
		return Record{}, faulty("more than %d bytes", MaxEntryBytes)
	}
	s := &scanner{text: string(entry)}
	kind, err := kindOf(s.text)
	if err != nil {
		return Record{}, err
	}
	r := Record{Kind: kind, Former: kind == KindBegun && !strings.HasPrefix(s.text, `{"accepted":`)}
	first := true
	if !s.next("{") {
		return Record{}, faulty("not an object")
	}
	for _, m := range r.members() {
		name, optional := strings.CutSuffix(m, "?")
		start := s.at
		if ok := (first || s.next(",")) && s.next(`"`) && s.next(name) && s.next(`":`); !ok {
			if s.at = start; optional {
				continue
			}
			return Record{}, faulty("member %q is not where it belongs", name)
		}
		first = false
		if !r.read(s, name) {
			return Record{}, faulty("member %q has a value that it cannot have", name)
		}
	}
	if !s.next("}") || s.at != len(entry) {
		return Record{}, faulty("a member or a text that does not belong there, at byte %d", s.at)
	}
	if err := r.check(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// kindOf finds the kind before the members are read, because read needs it.
func kindOf(entry string) (Kind, error) {
	i := strings.Index(entry, `"kind":"`)
	if i < 0 {
		return "", faulty("no kind")
	}
	s := &scanner{text: entry, at: i + len(`"kind":`)}
	text, ok := s.token()
	if _, known := members.Get()[Kind(text)]; !ok || !known {
		return "", faulty("unknown kind %q", canon.Cut(text))
	}
	return Kind(text), nil
}

// read reads the value of a member of the record. The record's kind is known.
func (r *Record) read(s *scanner, name string) (ok bool) {
	switch name {
	case "kind":
		_, ok = s.token()
		return ok
	case "timestamp":
		r.Timestamp, ok = s.token()
		return ok && timestamp(r.Timestamp)
	case "clock_behind_ms":
		r.ClockBehindMS, ok = s.number()
		return ok && r.ClockBehindMS > 0
	}
	switch {
	case strings.HasSuffix(name, "_sha256"):
		return r.readHash(s, name)
	case r.Kind.OfRun():
		return r.readOfRun(s, name)
	}
	return r.readOfLedger(s, name)
}

// readHash reads a member that is a hash. The hash of a bundle may be null.
func (r *Record) readHash(s *scanner, name string) bool {
	switch name {
	case "bundle_sha256":
		return s.next("null") || s.hash(&r.BundleSHA256)
	case "intent_sha256":
		return s.hash(&r.IntentSHA256)
	case "policy_sha256":
		return s.hash(&r.PolicySHA256)
	case "input_sha256":
		return s.hash(&r.InputSHA256)
	case "decision_sha256":
		return s.hash(&r.DecisionSHA256)
	case "canonical_sha256":
		return s.hash(&r.CanonicalSHA256)
	case "result_sha256":
		return s.hash(&r.ResultSHA256)
	}
	return false
}

// readOfRun reads a member of a record that belongs to a run.
func (r *Record) readOfRun(s *scanner, name string) (ok bool) {
	switch name {
	case "accepted", "result_kind":
		return r.readOutcome(s, name)
	case "run_id":
		r.RunID, ok = s.token()
		return ok && RunID(r.RunID)
	case "submitter":
		r.Submitter, ok = s.token()
		return ok && SubmitterName(r.Submitter)
	case "policy":
		r.Policy, ok = s.token()
		return ok && isPolicy(r.Policy)
	case "execution_mode":
		r.ExecutionMode, ok = s.token()
		return ok && (r.ExecutionMode == "plan-only" || r.ExecutionMode == "execute-sandbox")
	case "mode":
		r.Mode, ok = s.token()
		return ok && (r.Mode == "none" || r.Mode == "record" || r.Mode == "replay")
	case "kernel":
		ok = s.next(`{"version":`)
		if ok {
			r.Kernel, ok = s.token()
		}
		return ok && isKernel(r.Kernel) && s.next("}")
	case "reasons":
		return s.list(func() bool {
			t, ok := s.token()
			r.Reasons = append(r.Reasons, t)
			return ok && isReason(t) && len(r.Reasons) <= maxReasons
		})
	case "evidence":
		return s.next(`{"sha256":`) && s.hash(&r.Evidence.SHA256) && s.next(`,"size":`) && s.count(&r.Evidence.Size) && s.next("}")
	case "work":
		return r.readWork(s)
	case "code":
		r.Code, ok = s.token()
		n, found := strings.CutPrefix(r.Code, "RUN_E0")
		return ok && found && len(n) == 2 && digits(n)
	case "rule_id":
		r.RuleID, ok = s.token()
		return ok && RuleID(r.RuleID)
	}
	return false
}

// readWork reads the work of a begun or of a decision.
func (r *Record) readWork(s *scanner) bool {
	w := new(Work)
	r.Work = w
	ok := r.Kind == KindBegun && s.state(`{"base":`, &w.Base) ||
		r.Kind == KindDecision && s.state(`{"after":`, &w.After) && s.state(`,"before":`, &w.Before)
	if !ok || !s.next(`,"item_id":`) {
		return false
	}
	if w.ItemID, ok = s.token(); !ok || !ItemID(w.ItemID) {
		return false
	}
	if s.next(`,"plan_sha256":`) && !s.hash(&w.PlanSHA256) {
		return false
	}
	return (r.Kind == KindBegun || s.state(`,"receipt":`, &w.Receipt)) && s.next("}")
}

// state reads a text that must come next, and the hash of a state or a receipt.
func (s *scanner) state(lit string, to *string) (ok bool) {
	if !s.next(lit) {
		return false
	}
	*to, ok = s.token()
	hex, found := strings.CutPrefix(*to, "blake3:")
	return ok && found && len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// readOutcome reads the outcome of a run, which is null if the run has only begun.
func (r *Record) readOutcome(s *scanner, name string) (ok bool) {
	switch {
	case r.Kind == KindBegun:
		return s.next("null")
	case name == "accepted":
		r.Accepted = s.next("true")
		return r.Accepted || s.next("false")
	}
	r.ResultKind, ok = s.token()
	return ok && (r.ResultKind == "BUNDLE" || r.ResultKind == "CLARIFY" || r.ResultKind == "REFUSE")
}

// readOfLedger reads a member of a record about the ledger itself: a genesis, a key
// rotation, a repair.
func (r *Record) readOfLedger(s *scanner, name string) (ok bool) {
	switch name {
	case "format":
		r.Format, ok = s.token()
		return ok && r.Format == Format
	case "origin":
		r.Origin, ok = s.token()
		return ok && CheckOrigin(r.Origin) == nil
	case "key":
		r.Key, ok = s.token()
		if ok {
			_, err := ParseVerifier(r.Key)
			ok = err == nil
		}
		return ok
	case "repairs":
		return s.list(func() bool {
			var p Repair
			ok := s.repair(&p)
			r.Repairs = append(r.Repairs, p)
			return ok && len(r.Repairs) <= maxRepairs
		}) && len(r.Repairs) > 0
	}
	return false
}

func (s *scanner) hash(to *canon.ContentHash) bool {
	const length = len("sha256:") + 64
	rest := s.text[s.at:]
	if len(rest) < length+2 || rest[0] != '"' || rest[length+1] != '"' {
		return false
	}
	*to = canon.ContentHash(rest[1 : length+1])
	s.at += length + 2
	return to.Valid()
}

func (s *scanner) count(to *int64) (ok bool) {
	*to, ok = s.number()
	return ok
}

// repair reads a repair. The one of a torn tail has a hash, and no other has one.
func (s *scanner) repair(p *Repair) (ok bool) {
	if !s.next(`{"bytes":`) || !s.count(&p.Bytes) || !s.next(`,"offset":`) || !s.count(&p.Offset) {
		return false
	}
	if s.next(`,"sha256":`) && !s.hash(&p.SHA256) || !s.next(`,"what":`) {
		return false
	}
	p.What, ok = s.token()
	switch p.What {
	case RepairTornTail:
		return ok && p.SHA256 != "" && s.next("}")
	case RepairNewline, RepairCheckpoint:
		return ok && p.SHA256 == "" && s.next("}")
	}
	return false
}

// check compares members with each other.
func (r Record) check() error {
	if r.Kind != KindDecision {
		return nil
	}
	for i := 1; i < len(r.Reasons); i++ {
		if r.Reasons[i-1] >= r.Reasons[i] {
			return faulty("reasons are not sorted")
		}
	}
	return outcome(r.ResultKind, r.Accepted, r.BundleSHA256 != "", len(r.Reasons))
}

// outcome compares the members of an outcome with each other.
func outcome(kind string, accepted, bundle bool, reasons int) error {
	if bundle != (kind != "REFUSE") {
		return faulty("a %s with or without a bundle_sha256", kind)
	}
	if accepted && (kind != "BUNDLE" || reasons > 0) {
		return faulty("accepted, and yet %s or with reasons", kind)
	}
	return nil
}

// timestamp says whether t is a valid time in the layout TimeFormat.
func timestamp[T string | []byte](t T) bool {
	if len(t) != len(TimeFormat) {
		return false
	}
	for i := range len(t) {
		c, layout := t[i], TimeFormat[i]
		if digit := layout >= '0' && layout <= '9'; digit && (c < '0' || c > '9') || !digit && c != layout {
			return false
		}
	}
	two := func(i int) int { return int(t[i]-'0')*10 + int(t[i+1]-'0') }
	month, day := two(5), two(8)
	if month < 1 || month > 12 || day < 1 || two(11) > 23 || two(14) > 59 || two(17) > 59 {
		return false
	}
	year := two(0)*100 + two(2)
	days := [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days++
	}
	return day <= days
}

// RunID says whether a text is a valid run id: 1 to 128 letters, digits, '.', '_' or
// '-', the first a letter or digit.
func RunID(s string) bool { return isRunID(s) }

// ItemID says whether a text is a valid id of a work item. Its form is that of a run id.
func ItemID(s string) bool { return isRunID(s) }

func isRunID[T string | []byte](s T) bool {
	return word(s, 128, "._-") && !strings.ContainsRune("._-", rune(s[0]))
}

// SubmitterName says whether a record can contain a text as the name of its submitter.
func SubmitterName(s string) bool { return word(s, 64, "-_.") }

// RuleID says whether a record can contain a text as the rule of an error.
func RuleID(s string) bool { return word(s, 64, "-_.") }

func isPolicy[T string | []byte](s T) bool { return word(s, 64, "-_.") }

func isKernel[T string | []byte](s T) bool { return word(s, 64, "-_.+") }

// word says whether s has 1 to most ASCII letters, digits and characters of extra.
func word[T string | []byte](s T, most int, extra string) bool {
	if len(s) == 0 || len(s) > most {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && strings.IndexByte(extra, c) < 0 {
			return false
		}
	}
	return true
}

// isReason says whether s is an identifier, or an identifier with a number of 1 to 5
// digits.
func isReason(s string) bool {
	id, n, numbered := strings.Cut(s, " ")
	return word(id, 64, "_-.") && (!numbered || n != "" && len(n) <= 5 && digits(n))
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }
