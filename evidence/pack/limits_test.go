package pack

import (
	"errors"
	"strings"
	"testing"
)

// TestOversize: a file is read if Oversize finds no fault, and is not read otherwise.
func TestOversize(t *testing.T) {
	long := func(name string, more int64) []byte {
		return []byte(`"` + strings.Repeat("x", int(MaxBytes(name)+more)-3) + "\"\n")
	}
	many := func(n int) []byte { return []byte("[" + strings.Repeat("0,", n-1) + "0]\n") }
	for name, tc := range map[string]struct {
		file, want string
		text       []byte
	}{
		"at the limit":       {BundleFile, "", long(BundleFile, 0)},
		"over it":            {BundleFile, "it has 16777217 bytes, and the limit is 16777216", long(BundleFile, 1)},
		"of another file":    {RunnerFile, "it has 4194305 bytes, and the limit is 4194304", long(RunnerFile, 1)},
		"as many values":     {RunFile, "", many(MaxValues)},
		"more values":        {RunFile, "it has more than 500000 values", many(MaxValues + 1)},
		"in texts":           {RunFile, "", []byte(`"` + strings.Repeat(",", MaxValues+1) + "\"\n")},
		"lines of a ledger":  {LedgerFile, "", many(MaxValues + 1)},
		"nothing":            {PolicyFile, "", nil},
		"a file of no limit": {"other", "", []byte("x")},
	} {
		got := Oversize(tc.file, tc.text)
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if tc.file == LedgerFile || tc.file == "other" {
			continue
		}
		p := Of(map[string][]byte{tc.file: tc.text})
		_, err := ParseExact(p.Entries[0].Text)
		unread := p.Entries[0].Text == nil || errors.Is(err, ErrCrowded)
		if unread != (got != "") {
			t.Errorf("%s: unread %t", name, unread)
		}
	}
}
