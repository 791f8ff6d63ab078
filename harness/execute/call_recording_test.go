package execute

import (
	"errors"
	"testing"

	"github.com/fiador/fiador/harness/model"
	"github.com/fiador/fiador/kernel/result"
)

// unrecorded is a Caller without a recording.
type unrecorded struct {
	unasked
	err error
}

func (u unrecorded) Recording() ([]byte, error) { return nil, u.err }

// TestRecordingFails: the error of a recording that fails says what to do, if something
// can be done.
func TestRecordingFails(t *testing.T) {
	for hint, err := range map[string]error{"split the intent": &model.Error{Msg: "too long", Next: "split the intent"}, "": errors.New("too long")} {
		w := &performance{p: &Performed{}, task: Task{Caller: unrecorded{unasked{t}, err}, Calls: map[int]ModelCall{0: {}}}}
		var re *result.RunError
		if got := w.recording(); !errors.As(got, &re) || re.Code != result.CodeEvidence || re.Message != "what was answered could not be recorded: too long" || re.Hint != hint {
			t.Errorf("%v, hint %q", got, re.Hint)
		}
	}
}
