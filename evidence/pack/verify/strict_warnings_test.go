package verify

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// TestWarnings: a hundred of each kind are named, and a warning about more comes only
// after these. Removals whose shortened paths are equal are listed once.
func TestWarnings(t *testing.T) {
	folders := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("the patch does not have the empty folder out/%04d", i))
		}
		return list
	}
	long := "the patch does not have the removal of " + strconv.QuoteToASCII(canon.Cut(strings.Repeat("a/", 900)+"b"))
	const moreFolders, moreRemovals = "the patch does not have these, and 7 more empty folders", "the patch does not have these, and 7 more removals"
	for name, tc := range map[string]struct {
		list []string
		ok   bool
	}{
		"a hundred":           {folders(100), true},
		"more":                {append(folders(100), moreFolders), true},
		"a hundred and one":   {folders(101), false},
		"more than too few":   {append(folders(99), moreFolders), false},
		"more of another":     {append(folders(100), moreRemovals), false},
		"more twice":          {append(folders(100), moreFolders, "the patch does not have these, and 8 more empty folders"), false},
		"a number of no form": {append(folders(100), "the patch does not have these, and 07 more empty folders"), false},
		"cut":                 {[]string{long, moreRemovals}, true},
		"no UTF-8":            {[]string{`the patch does not have the removal of "out/\xff"`}, true},
		"not escaped":         {[]string{"the patch does not have the removal of \"out/\u00e9\""}, false},
		"a control path":      {[]string{"the patch does not have the empty folder .git"}, false},
		"above a root":        {[]string{"the patch does not have the empty folder build"}, true},
		"beside the roots":    {[]string{"the patch does not have the empty folder other"}, false},
	} {
		s := &strictLevel{verifier: &verifier{}, counts: map[string]int{}, paths: pathBook{}}
		run := &result.RunResult{Decision: kernel.DecisionRecord{Accepted: true}, Policy: kernel.PolicyProfile{AllowedWriteRoots: []string{"out", "build/page"}}}
		if s.checkWarnings(tc.list, run); (len(s.found) == 0) != tc.ok {
			t.Errorf("%s: %+v", name, s.found)
		}
	}
}
