package verify

import (
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
)

// TestCrowded: a file with too many values is not decoded, however it is written.
func TestCrowded(t *testing.T) {
	for _, end := range []string{"\n", "", " \n"} {
		d := decode(pack.PolicyFile, []byte("["+strings.Repeat("0,", pack.MaxValues)+"0]"+end))
		if d.fault != "more than 500000 values" || d.inexact != d.fault || d.value != nil || d.exact {
			t.Errorf("%q: %q, %q", end, d.fault, d.inexact)
		}
	}
}
