package runerr

import (
	"errors"
	"testing"

	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// TestTypedErrors: each typed error has its code, its message and its details.
func TestTypedErrors(t *testing.T) {
	cause := errors.New("cause")
	for want, e := range map[string]*result.RunError{
		`{"code":"RUN_E006","details":{"file":"f","hint":"h","pointer":"/p","n":1},"message":"m","rule_id":"R"}`: New(result.CodeEvidence, "m", "h", Rule("R"), File("f"), At("/p"), With("n", 1), Because(cause)),
		`{"code":"RUN_E006","details":{"hint":"h"},"message":"what: cause"}`:                                     hinted(Evidence("what", cause)),
		`{"code":"RUN_E007","details":{"hint":"h"},"message":"policy: cause"}`:                                   hinted(Policy(&policy.Error{Kind: policy.KindLimit, Msg: "cause"})),
		`{"code":"RUN_E004","details":{"hint":"h"},"message":"policy: cause"}`:                                   hinted(Load(&policy.Error{Kind: policy.KindLimit, Msg: "cause"})),
		`{"code":"RUN_E001","details":{"file":"f","hint":"h"},"message":"f: larger than the limit of 3 bytes"}`:  hinted(Read(Text{Name: "f"}, &canon.Error{Kind: canon.KindSize, Offset: 3})),
		`{"code":"RUN_E005","details":{"errno":1,"hint":"h","isolation":"full","step":"s"},"message":"no sandbox: full isolation: s: operation not permitted"}`: hinted(
			Sandbox(t.Context(), &sandbox.Error{Isolation: sandbox.Full, Step: "s", Errno: 1})),
	} {
		doc, err := canon.Parse([]byte(want), len(want))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(e.Line()); got != string(doc.Bytes())+"\n" {
			t.Errorf("%s", got)
		}
	}
	if e := Evidence("m", cause); !errors.Is(e, cause) {
		t.Error("the cause is lost")
	}
}

func hinted(e *result.RunError) *result.RunError {
	e.Hint = "h"
	return e
}
