package result

import (
	"bytes"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// TestLineIsCanonicalAndShows: the remedy is details.hint, and the line is canonical.
// Characters that are not printable are written as text, from any source.
func TestLineIsCanonicalAndShows(t *testing.T) {
	details := map[string]any{"file": "a\u202eb", "violations": []any{map[string]any{"pointer": "/x\u2028"}}, "offset": 3}
	for _, tc := range []struct {
		e    RunError
		want string
	}{
		{RunError{Code: CodeNotJSON, Message: "m"}, `{"code":"RUN_E002","details":{"hint":"mend the text at the line and the column that the message gives"},"message":"m"}`},
		{RunError{Code: CodeUnreadable, Message: "m", Hint: "h\u0085"}, `{"code":"RUN_E001","details":{"hint":"h<U+0085>"},"message":"m"}`},
		{
			RunError{Code: CodeNotIntent, Message: "\u009b31m \u2066\u200b\ufeff\U000e0041 \x7f \x1b é 😀\n", RuleID: "RS1", Hint: "mend it", Details: details},
			`{"code":"RUN_E003","details":{"file":"a<U+202E>b","hint":"mend it","offset":3,"violations":[{"pointer":"/x<U+2028>"}]},` +
				`"message":"<U+009B>31m <U+2066><U+200B><U+FEFF><U+E0041> <U+007F> \u001b é 😀\n","rule_id":"RS1"}`,
		},
	} {
		line := tc.e.Line()
		if string(line) != tc.want+"\n" {
			t.Errorf("got  %s\nwant %s", line, tc.want)
		}
		if doc, err := canon.Parse(line, MaxBytes); err != nil || !bytes.Equal(append(doc.Bytes(), '\n'), line) {
			t.Errorf("%s is not canonical (%v)", line, err)
		}
	}
	if _, there := details["hint"]; there {
		t.Error("the details of the error were changed")
	}
}
