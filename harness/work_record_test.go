package harness

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// keeper is a Recorder that keeps the last record.
type keeper struct{ last ledger.Record }

func (k *keeper) Put(b []byte) (ledger.Blob, error) {
	return ledger.Blob{SHA256: canon.Sum(b), Size: int64(len(b))}, nil
}

func (k *keeper) Append(_ context.Context, rec ledger.Record) (ledger.Receipt, error) {
	k.last = rec
	return ledger.Receipt{Record: rec}, nil
}

func (k *keeper) Blob(ledger.Blob) ([]byte, error) { return nil, nil }

// TestRecordsNameTheWork: a begun and a decision name the work item of the account, and
// none if it has none. An error names none.
func TestRecordsNameTheWork(t *testing.T) {
	sealed, err := canon.Parse([]byte("{}"), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, work := range []*ledger.Work{nil, {ItemID: "item", Base: "blake3:" + strings.Repeat("0", 64)}} {
		kept := &keeper{}
		a := &account{to: kept, work: work}
		for kind, write := range map[ledger.Kind]func() error{
			ledger.KindBegun:    func() error { return a.begin(t.Context(), kernel.Decision{}) },
			ledger.KindDecision: func() error { return a.decide(t.Context(), &Report{}, sealed) },
		} {
			if err := write(); err != nil || kept.last.Kind != kind || !reflect.DeepEqual(kept.last.Work, work) {
				t.Errorf("%s of %+v: %+v (%v)", kind, work, kept.last, err)
			}
		}
		failed := &account{to: kept, work: work}
		if _ = failed.fail(t.Context(), context.Canceled); kept.last.Kind != ledger.KindError || kept.last.Work != nil {
			t.Errorf("an error of %+v: %+v", work, kept.last)
		}
	}
}
