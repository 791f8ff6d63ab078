package ledger

import (
	"bytes"
	"encoding/binary"
)

// skimmer reads a decision in one pass, without copies. It reads only the layout that
// almost every line of a ledger has. It accepts nothing that ParseRecord refuses, but
// refuses records that ParseRecord accepts; so ParseRecord reads what it refuses.
type skimmer struct {
	rest []byte
	bad  bool
}

// skim reads the entry of a line if it is a decision without clock_behind_ms and work. It sets
// what read sets, except for the whole record.
func (l *lineOf) skim() bool {
	s := skimmer{rest: l.entry}
	s.next(`{"accepted":`)
	accepted := s.one("true", "false") == "true"
	s.next(`,"bundle_sha256":`)
	bundle := !s.has("null")
	if bundle {
		s.hash(`"sha256:`)
		s.next(`"`)
	}
	s.hash(`,"canonical_sha256":"sha256:`)
	s.hash(`","decision_sha256":"sha256:`)
	s.hash(`","evidence":{"sha256":"sha256:`)
	s.next(`","size":`)
	s.number()
	s.next(`},"execution_mode":"`)
	s.one("plan-only", "execute-sandbox")
	s.hash(`","input_sha256":"sha256:`)
	s.hash(`","intent_sha256":"sha256:`)
	s.next(`","kernel":{"version":"`)
	kernel := s.token()
	s.next(`},"kind":"decision","mode":"`)
	s.one("none", "record", "replay")
	s.next(`","policy":"`)
	policy := s.token()
	s.hash(`,"policy_sha256":"sha256:`)
	s.next(`","reasons":[`)
	reasons := s.reasons()
	s.next(`],"result_kind":"`)
	result := s.one("BUNDLE", "CLARIFY", "REFUSE")
	s.hash(`","result_sha256":"sha256:`)
	s.next(`","run_id":"`)
	run := s.token()
	s.next(`,"timestamp":"`)
	time := s.token()
	if s.next("}"); s.bad || len(s.rest) > 0 {
		return false
	}
	if !isKernel(kernel) || !isPolicy(policy) || !isRunID(run) || !timestamp(time) || outcome(result, accepted, bundle, reasons) != nil {
		return false
	}
	l.kind, l.time, l.run = KindDecision, timeText(time), keyOfRun(run)
	return true
}

// has skips a text, if it comes next.
func (s *skimmer) has(lit string) bool {
	if len(s.rest) < len(lit) || string(s.rest[:len(lit)]) != lit {
		return false
	}
	s.rest = s.rest[len(lit):]
	return true
}

// one skips one of some texts, which must come next, and returns it.
func (s *skimmer) one(lits ...string) string {
	for _, lit := range lits {
		if s.has(lit) {
			return lit
		}
	}
	s.bad = true
	return ""
}

// next skips a text that must come next.
func (s *skimmer) next(lit string) {
	if !s.has(lit) {
		s.bad = true
	}
}

// token skips a text and the quote that ends it.
func (s *skimmer) token() []byte {
	end := max(bytes.IndexByte(s.rest, '"'), 0)
	t := s.rest[:end]
	s.rest = s.rest[end:]
	s.next(`"`)
	return t
}

// number skips a number.
func (s *skimmer) number() {
	n := scanner{text: string(s.rest[:min(len(s.rest), maxSize)])}
	_, ok := n.number()
	s.bad, s.rest = s.bad || !ok, s.rest[n.at:]
}

// reasons skips the elements of a list of reasons, and returns their number.
func (s *skimmer) reasons() (n int) {
	var last []byte
	for begin := `"`; s.has(begin); begin = `,"` {
		t := s.token()
		n++
		s.bad = s.bad || n > maxReasons || !isReason(string(t)) || bytes.Compare(last, t) >= 0
		last = t
	}
	return n
}

// hash skips a text that must come next, and the 64 digits of a hash.
func (s *skimmer) hash(lit string) {
	if s.next(lit); len(s.rest) < 64 {
		s.bad = true
		return
	}
	// Eight digits are checked at once: in a byte below 0x80, the sum with 0x80-c has the
	// top bit if the byte is at least c.
	const each, top = 0x0101010101010101, 0x8080808080808080
	all, low := uint64(top), uint64(top)
	for i := 0; i < 64; i += 8 {
		b := binary.LittleEndian.Uint64(s.rest[i:])
		low &^= b
		b &^= top
		all &= (b+(0x80-'0')*each)&^(b+(0x7f-'9')*each) | (b+(0x80-'a')*each)&^(b+(0x7f-'f')*each)
	}
	s.bad, s.rest = s.bad || all&low != top, s.rest[64:]
}
