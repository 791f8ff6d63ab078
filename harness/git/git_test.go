package git

import (
	"strings"
	"testing"
)

// TestLockHint: the hint names a lock of another git, and only a lock.
func TestLockHint(t *testing.T) {
	f := &Failure{128, "fatal: cannot lock ref 'HEAD': Unable to create '/a b/.git/HEAD.lock': File exists."}
	if hint := Remedy(f, ""); !strings.Contains(hint, `remove "/a b/.git/HEAD.lock"`) || Remedy(&Failure{128, "fatal: Unable to create '/a': Permission denied"}, "other") != "other" {
		t.Error(hint)
	}
}
