package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// The member that a draft lacks, with the time that stands there while a draft is read.
const (
	timestampMember = `,"timestamp":"`
	noTime          = "1970-01-01T00:00:00.000Z"
)

// Draft returns a record of a run as a client sends it to a server: its entry without
// timestamp, clock_behind_ms and submitter, which the server sets.
func (r Record) Draft() ([]byte, error) {
	if !r.Kind.OfRun() {
		return nil, faulty("no client submits a record of kind %q", r.Kind)
	}
	r.Submitter = ""
	r.Stamp(time.Unix(0, 0), "")
	entry, err := r.Entry()
	if err != nil {
		return nil, err
	}
	before, after, _ := bytes.Cut(entry, []byte(timestampMember+noTime+`"`))
	return append(before[:len(before):len(before)], after...), nil
}

// ParseDraft reads a draft. The timestamp of the record is the beginning of 1970.
func ParseDraft(draft []byte) (Record, error) {
	at := len(draft) - 1
	if work := bytes.LastIndex(draft, []byte(`,"work":{`)); work >= 0 {
		at = work
	}
	if at < 0 || bytes.Contains(draft, []byte(timestampMember)) {
		return Record{}, faulty("a draft is an object without timestamp")
	}
	entry := append(append(bytes.Clone(draft[:at]), timestampMember+noTime+`"`...), draft[at:]...)
	r, err := ParseRecord(entry)
	switch {
	case err != nil:
		return Record{}, err
	case !r.Kind.OfRun() || r.ClockBehindMS != 0 || r.Submitter != "":
		return Record{}, faulty("a draft is of a run, without clock_behind_ms and submitter")
	}
	return r, nil
}

// Errors about a run id that is recorded already.
var (
	ErrConflict = errors.New("the run id was recorded before, with other content")
	ErrEnded    = errors.New("the run id was recorded before, and its run has ended")
)

// After says whether a record can follow an older record of the same run id. It returns
// true if the older one is the same record already: a run has one begun and one end. The
// error is ErrConflict or ErrEnded.
func (r Record) After(old Record, index int64) (same bool, err error) {
	switch {
	case old.Kind.Ends() && r.Kind == KindBegun: // even if the same begun record exists
		err = ErrEnded
	case old.Kind == r.Kind && old.SameRun(r):
		return true, nil
	case old.Kind.Ends() || old.Kind == r.Kind || !r.EndOf(old):
		err = ErrConflict
	default:
		return false, nil
	}
	return false, fmt.Errorf("%w: run id %q, entry %d", err, r.RunID, index)
}
