package finding

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestCodes: Codes has the value of every constant.
func TestCodes(t *testing.T) {
	src, err := os.ReadFile("finding.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^\t[A-Z]\w+ += "(\w+)"`).FindAllStringSubmatch(string(src), -1) {
		want = append(want, m[1])
	}
	got := Codes()
	slices.Sort(got)
	slices.Sort(want)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("codes are %q, the constants have %q", got, want)
	}
}
