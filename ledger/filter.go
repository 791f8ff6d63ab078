package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
)

// Filter selects records. A zero member selects all records. A list selects records that
// match one of its elements. A record must match all members.
type Filter struct {
	Since    string // first timestamp, in TimeFormat
	Until    string // last timestamp
	Kinds    []Kind
	Outcomes []string // of decisions
	Accepted *bool    // of decisions
	Profiles []string
	Intent   string   // a result of ParseHashPrefix
	Item     string   // id of a work item
	Reasons  []string // identifiers of reasons, codes of errors, or rule ids
}

// All says whether f selects every record.
func (f Filter) All() bool {
	return f.Since == "" && f.Until == "" && len(f.Kinds) == 0 && len(f.Outcomes) == 0 && f.Accepted == nil &&
		len(f.Profiles) == 0 && f.Intent == "" && f.Item == "" && len(f.Reasons) == 0
}

// Match says whether f selects a record.
func (f Filter) Match(r Record) bool {
	switch decision := r.Kind == KindDecision; {
	case f.Since != "" && r.Timestamp < f.Since, f.Past(r):
		return false
	case len(f.Kinds) > 0 && !slices.Contains(f.Kinds, r.Kind):
		return false
	case len(f.Outcomes) > 0 && !(decision && slices.Contains(f.Outcomes, r.ResultKind)):
		return false
	case f.Accepted != nil && !(decision && r.Accepted == *f.Accepted):
		return false
	case len(f.Profiles) > 0 && !slices.Contains(f.Profiles, r.Policy):
		return false
	case f.Intent != "" && !strings.HasPrefix(string(r.IntentSHA256), f.Intent):
		return false
	case f.Item != "" && r.work().ItemID != f.Item:
		return false
	}
	return len(f.Reasons) == 0 || slices.ContainsFunc(f.Reasons, r.because)
}

// Past says whether a record, and so every later one, is later than f selects.
func (f Filter) Past(r Record) bool { return f.Until != "" && r.Timestamp > f.Until }

// because says whether a record gives a reason. "EXIT" matches every "EXIT 1".
func (r Record) because(why string) bool {
	if r.Code != "" && (r.Code == why || r.RuleID == why) {
		return true
	}
	return slices.ContainsFunc(r.Reasons, func(has string) bool {
		return has == why || reason.ID(has) == why
	})
}

// minPrefix is the minimum number of digits of a hash prefix.
const minPrefix = 8

// ParseHashPrefix reads the beginning of a content hash, with or without its "sha256:".
func ParseHashPrefix(text string) (string, error) {
	digits := strings.TrimPrefix(text, "sha256:")
	if len(digits) < minPrefix || len(digits) > 64 {
		return "", errors.New("a hash is given by 8 to 64 of its digits")
	}
	if strings.Trim(digits, "0123456789abcdef") != "" {
		return "", errors.New("a hash has the digits 0 to 9 and a to f")
	}
	return "sha256:" + digits, nil
}

// ParseMoment reads a point in time. It accepts RFC 3339, a date, or a duration before
// now such as 90m, 24h, 7d or 1d12h. A date means its first millisecond in UTC, or with
// end its last.
func ParseMoment(text string, now time.Time, end bool) (string, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if t, err = time.Parse(time.DateOnly, text); err == nil && end {
			t = t.AddDate(0, 0, 1).Add(-time.Millisecond)
		}
	}
	if err != nil {
		var ago time.Duration
		ago, err = parseAgo(text)
		t = now.Add(-ago)
	}
	if t = t.UTC(); err == nil && (t.Year() < 0 || t.Year() > 9999) {
		err = errors.New("out of range")
	}
	if err != nil {
		return "", fmt.Errorf("%q is no time", canon.Cut(text))
	}
	return t.Format(TimeFormat), nil
}

// parseAgo reads whole numbers with units. A day has 24 hours.
func parseAgo(text string) (time.Duration, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	var sum time.Duration
	s := scanner{text: text}
	for first := true; first || s.at < len(text); first = false {
		n, ok := s.number()
		if !ok || s.at == len(text) {
			return 0, errors.New("not a duration")
		}
		unit, known := units[text[s.at]]
		if !known || n > int64((math.MaxInt64-sum)/unit) {
			return 0, errors.New("not a duration")
		}
		s.at++
		sum += time.Duration(n) * unit
	}
	return sum, nil
}

// Open holds the runs that have begun and not ended, in the records seen so far: killed
// runs, and running ones. Each value is the index of the run's begun record.
type Open map[string]int64

// See adds a record. Records come in their order.
func (o Open) See(index int64, r Record) {
	switch {
	case r.Kind == KindBegun:
		o[r.RunID] = index
	case r.Kind.Ends():
		delete(o, r.RunID)
	}
}
