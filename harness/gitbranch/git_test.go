package gitbranch

import (
	"strings"
	"testing"
)

// TestLockHint: the hint names a lock of another git, and only a lock.
func TestLockHint(t *testing.T) {
	f := &failure{128, "fatal: cannot lock ref 'HEAD': Unable to create '/a b/.git/HEAD.lock': File exists."}
	if hint := remedy(f, ""); !strings.Contains(hint, `remove "/a b/.git/HEAD.lock"`) || remedy(&failure{128, "fatal: Unable to create '/a': Permission denied"}, "other") != "other" {
		t.Error(hint)
	}
}
