package transcript

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sound is the log that is damaged below:
//
//	=== STDOUT ===
//	one
//	base64:x
//	two
//	=== STDERR ===
//	err CR
//
//	--- BEGIN EVENTS ---
//	[SEQ=1][META] safe-run start: cmd="cmd"
//	[SEQ=2][STDOUT] one
//	[SEQ=3][STDERR] err
//	[SEQ=4][STDOUT] base64:YmFzZTY0Ong=
//	[SEQ=5][STDOUT] two
//	[SEQ=6][META] safe-run killed: after=5s
//	[SEQ=7][META] safe-run exit: code=3
//	--- END EVENTS ---
func sound(t testing.TB) string {
	r := runOf(stdout("one\n"), stderr("err\r\n"), stdout("base64:x\n"), stdout("two"))
	r.Notes, r.Code = []string{"safe-run killed: after=5s"}, 3
	return ledgerOf(t, r)
}

// TestDamaged: each damage has its message. In the log, the first text of a damage is
// replaced by the second; "" and "" mean the whole log.
func TestDamaged(t *testing.T) {
	for _, c := range []struct{ old, with, want string }{
		{"", "", "byte 0: the log is empty"},
		{"", "=== STD", "byte 7: the log is cut off in its first line"},
		{"", "one\nerr\ntwo\n", `byte 0: the first line is not "=== STDOUT ===": no log, or one of the merged view, which has no events to read back`},
		{"", "\ufeff=== STDOUT ===\n", `byte 0: the first line is not "=== STDOUT ===": no log, or one of the merged view, which has no events to read back`},
		{"", "=== STDOUT ===\n", `byte 15: there is no line "--- BEGIN EVENTS ---": the log is cut off or damaged`},
		{"", "=== STDOUT ===\none\n\n=== STDERR ===\nerr\n", `byte 39: there is no line "--- BEGIN EVENTS ---": the log is cut off or damaged`},
		{"", "=== STDOUT ===\n--- BEGIN EVENTS ---\n[SEQ=1][META] safe-run start: cmd=\"\"\n[SEQ=2][META] safe-run exit: code=0\n--- END EVENTS ---\n", `byte 15: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{"", "=== STDOUT ===\n\n=== STDERR ===\n--- BEGIN EVENTS ---\n[SEQ=1][META] safe-run start: cmd=\"\"\n[SEQ=2][META] safe-run exit: code=0\n--- END EVENTS ---\n", `byte 15: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{"=== STDOUT ===\n", "=== STDOUT ===\r\n", "byte 14: the ends of lines have been changed to CRLF"},
		{"=== STDOUT ===\n", "\n=== STDOUT ===\n", `byte 0: the first line is not "=== STDOUT ===": no log, or one of the merged view, which has no events to read back`},
		{"\n--- BEGIN", "\n-- BEGIN", `byte 304: there is no line "--- BEGIN EVENTS ---": the log is cut off or damaged`},
		{"EVENTS ---\n[SEQ=1]", "EVENTS ---\r\n[SEQ=1]", `byte 306: there is no line "--- BEGIN EVENTS ---": the log is cut off or damaged`},
		{"[META] safe-run exit: code=3\n--- END EVENTS ---\n", "[META] safe-run e", `byte 274: there is no "--- END EVENTS ---": the log is cut off`},
		{"--- END EVENTS ---\n", "", `byte 286: there is no "--- END EVENTS ---": the log is cut off`},
		{"--- END EVENTS ---\n", "--- END EVENTS ---", `byte 304: there is no "--- END EVENTS ---": the log is cut off`},
		{"--- END EVENTS ---\n", "--- END EVENTS ---\n\n", `byte 305: the log goes on behind "--- END EVENTS ---"`},
		{"--- END EVENTS ---\n", "--- END EVENTS ---\r\n", "byte 286, event 8: \"--- END EVENTS ---\\r\" is not an event"},
		{"--- END EVENTS ---\n", "--- END EVENTS ---\n--- END EVENTS ---\n", `byte 305: the log goes on behind "--- END EVENTS ---"`},
		{"[SEQ=7][META] safe-run exit: code=3\n", "", `byte 250: the events end without "safe-run exit:"`},
		{"[SEQ=1]", "[SEQ=0]", "byte 74, event 1: number 0 where 1 is due"},
		{"[SEQ=1][META] safe-run start: cmd=\"cmd\"\n", "", "byte 74, event 1: number 2 where 1 is due"},
		{"[SEQ=3]", "[SEQ=2]", "byte 134, event 3: number 2 where 3 is due"},
		{"[SEQ=3]", "[SEQ=4]", "byte 134, event 3: number 4 where 3 is due"},
		{"[SEQ=3]", "[SEQ=03]", `byte 134, event 3: the number "03" is not a canonical decimal one`},
		{"[SEQ=3]", "[SEQ=+3]", `byte 134, event 3: the number "+3" is not a canonical decimal one`},
		{"[SEQ=3]", "[SEQ=]", `byte 134, event 3: the number "" is not a canonical decimal one`},
		{"[SEQ=3]", "[SEQ=0000000000000000000000000000000000000003]", `byte 134, event 3: the number "0000000000000000000000000000000000000003" is not a canonical decimal one`},
		{"[SEQ=3]", "[SEQ=99999999999999999999]", `byte 134, event 3: the number "99999999999999999999" is not a canonical decimal one`},
		{"[SEQ=3]", "[seq=3]", `byte 134, event 3: "[seq=3][STDERR] err" is not an event`},
		{"[SEQ=3]", "a long line that is no event and is not quoted to its end, ", `byte 134, event 3: "a long line that is no event and is not "... is not an event`},
		{"[SEQ=3]", "[SEQ=3] ", `byte 134, event 3: "[SEQ=3] [STDERR] err" is not an event`},
		{"\n[SEQ=3]", "\n\n[SEQ=3]", `byte 134, event 3: "" is not an event`},
		{"[STDERR]", "[STDLOG]", `byte 134, event 3: "STDLOG" is not a stream`},
		{"[STDERR]", "[stderr]", `byte 134, event 3: "stderr" is not a stream`},
		{"[STDERR] err", "[STDERR]", "byte 134, event 3: no blank after the stream: blanks at the ends of lines have been taken away"},
		{"[STDERR] err", "[STDERR]err", `byte 134, event 3: no blank before the text "err"`},
		{"[STDERR] err", "[STDERR", `byte 134, event 3: "STDERR" is not a stream`},
		{"safe-run start", "safe-run Start", `byte 74, event 1: the first event is not "safe-run start:"`},
		{"cmd=\"cmd\"\n", "cmd=\"cmd\n", `byte 74, event 1: the start is not safe-run start: cmd="..."`},
		{"cmd=\"cmd\"\n", "cmd=\"\n", `byte 74, event 1: the start is not safe-run start: cmd="..."`},
		{"cmd=\"cmd\"\n", "cmd=cmd\n", `byte 74, event 1: the start is not safe-run start: cmd="..."`},
		{"cmd=\"cmd\"\n", "cmd=\"c\tmd\"\n", "byte 74, event 1: a META line with a control character"},
		{"cmd=\"cmd\"\n", "cmd=\"cmd\"\r\n", "byte 74, event 1: a META line with a control character"},
		{"cmd=\"cmd\"\n", "cmd=\"c\xffmd\"\n", "byte 74, event 1: the text is not valid UTF-8"},
		{"safe-run killed: after=5s", "safe-run start: cmd=\"cmd\"", "byte 210, event 6: a second start"},
		{"safe-run killed: after=5s", "safe-run exit: code=3", "byte 246, event 7: an event after the exit"},
		{"safe-run killed: after=5s", "safe-run killed:\u2028after=5s", "byte 210, event 6: a META line with a control character"},
		{"[SEQ=2][STDOUT] one", "[SEQ=2][META] one", "byte 132, event 3: output after a META line"},
		{"code=3", "code=03", "byte 250, event 7: the exit is not safe-run exit: code=N with N from 0 to 4294967295"},
		{"code=3", "code=-3", "byte 250, event 7: the exit is not safe-run exit: code=N with N from 0 to 4294967295"},
		{"code=3", "code=+3", "byte 250, event 7: the exit is not safe-run exit: code=N with N from 0 to 4294967295"},
		{"code=3", "code=4294967296", "byte 250, event 7: the exit is not safe-run exit: code=N with N from 0 to 4294967295"},
		{"code=3", "code=", "byte 250, event 7: the exit is not safe-run exit: code=N with N from 0 to 4294967295"},
		{"code=3", "code=3 ", "byte 250, event 7: the exit is not safe-run exit: code=N with N from 0 to 4294967295"},
		{"code=3", "status=3", "byte 250, event 7: the exit is not safe-run exit: code=N with N from 0 to 4294967295"},
		{"[STDERR] err", "[STDERR] err\r", "byte 51, event 3: the text has the CR of a CRLF"},
		{"[STDERR] err", "[STDERR] er", "byte 49, event 3: by the events STDERR ends here, and its section goes on"},
		{"[STDERR] err", "[STDERR] err!", "byte 50, event 3: the STDERR section does not have the text of the event: \"!\" where the section has \"\\r\\n\""},
		{"[STDERR] err", "[STDERR] eRr", "byte 48, event 3: the STDERR section does not have the text of the event: \"Rr\" where the section has \"rr\\r\\n\""},
		{"[STDERR] err", "[STDERR] e\xffr", "byte 134, event 3: the text is not valid UTF-8"},
		{"[STDERR] err", "[STDERR] base64:ZXJyDQ==", "byte 134, event 3: base64 of a line that is to stand as it is"},
		{"[STDERR] err", "[STDERR] base64:/3Jy", "byte 47, event 3: the STDERR section does not have the text of the event: \"\\xffrr\" where the section has \"err\\r\\n\""},
		{"[STDERR] err", "[STDOUT] err", "byte 19, event 3: the STDOUT section does not have the text of the event: \"err\" where the section has \"base64:x\\ntwo\\n=== STD\""},
		{"[STDOUT] two\n", "[STDERR] two\n", `byte 27, event 4: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{"YmFzZTY0Ong=", "YmFzZTY0Ong", "byte 154, event 4: the text is not canonical base64"},
		{"YmFzZTY0Ong=", "YmFzZTY0Onh=", "byte 154, event 4: the text is not canonical base64"},
		{"YmFzZTY0Ong=", "YmFz\rZTY0Ong=", "byte 154, event 4: the text is not canonical base64"},
		{"YmFzZTY0Ong=", "YmFzZTY0On_=", "byte 154, event 4: the text is not canonical base64"},
		{"YmFzZTY0Ong=", "YmFzZTY0OngK", "byte 154, event 4: base64 of more than one line"},
		{"YmFzZTY0Ong=", "Cv8=", "byte 154, event 4: base64 of more than one line"},
		{"YmFzZTY0Ong=", "eA==", "byte 154, event 4: base64 of a line that is to stand as it is"},
		{"YmFzZTY0Ong=", "", "byte 154, event 4: base64 of a line that is to stand as it is"},
		{"YmFzZTY0Ong=", "YmFzZTY0Onk=", "byte 26, event 4: the STDOUT section does not have the text of the event: \"y\" where the section has \"x\\ntwo\\n=== STDERR ===\""},
		{"base64:YmFzZTY0Ong=", "x", "byte 19, event 4: the STDOUT section does not have the text of the event: \"x\" where the section has \"base64:x\\ntwo\\n=== STD\""},
		{"one\nbase64:x\n", "one\r\rbase64:x\n", "byte 18, event 2: the line goes on in the STDOUT section with \"\\r\\r\""},
		{"one\nbase64:x\n", "one\nbase64:x\r\n", "byte 27, event 4: the line goes on in the STDOUT section with \"\\r\\n\""},
		{"one\nbase64:x\n", "onebase64:x\n", `byte 18, event 2: the line goes on in the STDOUT section with "ba"`},
		{"one\nbase64:x\n", "base64:x\none\n", "byte 15, event 2: the STDOUT section does not have the text of the event: \"one\" where the section has \"base64:x\\none\\ntwo\\n===\""},
		{"base64:x\ntwo\n", "base64:x\ntwo\r\n", `byte 31, event 5: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{"base64:x\ntwo\n", "base64:x\ntwo\nthree\n", `byte 31, event 5: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{"base64:x\ntwo\n", "base64:x\n", "byte 28, event 5: the STDOUT section does not have the text of the event: \"two\" where the section has \"=== STDERR ===\\nerr\\r\\n\""},
		{"=== STDERR ===", "=== STDERR == ", `byte 31, event 5: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{"err\r\n\n", "err\r\n\n\n", "byte 50, event 3: by the events STDERR ends here, and its section goes on"},
		{"err\r\n\n", "err\r\n", "byte 50, event 3: by the events STDERR ends here, and its section goes on"},
		{"err\r\n\n", "err\n", "byte 132, event 3: a line without LF comes before a line with LF"},
		{"err\r\n\n", "er", `byte 301: there is no line "--- BEGIN EVENTS ---": the log is cut off or damaged`},
		{"err\r\n\n", "err\r\n\n--- BEGIN EVENTS ---\n", "byte 52, event 3: by the events STDERR ends here, and its section goes on"},
		{"[SEQ=3][STDERR] err\n[SEQ=4][STDOUT] base64:YmFzZTY0Ong=\n[SEQ=5][STDOUT] two\n", "[SEQ=3][STDOUT] base64:YmFzZTY0Ong=\n[SEQ=4][STDOUT] two\n[SEQ=5][STDERR] err\n", "byte 170, event 4: a line without LF comes before a line with LF"},
		{"[SEQ=5][STDOUT] two\n[SEQ=6][META] safe-run killed: after=5s\n", "[SEQ=5][META] safe-run killed: after=5s\n[SEQ=6][STDOUT] two\n", "byte 230, event 6: output after a META line"},
	} {
		damaged(t, c.old, c.with, c.want)
	}
}

func damaged(t *testing.T, old, with, want string) {
	t.Helper()
	log := sound(t)
	if old == "" {
		log = with
	} else if n := strings.Replace(log, old, with, 1); n == log {
		t.Fatalf("%q is not in the log", old)
	} else {
		log = n
	}
	_, err := Open(strings.NewReader(log), int64(len(log)))
	var wrong *FormatError
	if !errors.As(err, &wrong) || err.Error() != want {
		t.Errorf("%q for %q:\n%v\nwant\n%s", with, old, err, want)
	}
}

// logOf returns a log of these sections and events, numbered. The two may disagree.
func logOf(stdout, stderr string, events ...string) string {
	log := stdoutHeader + stdout + stderrHeader + stderr + beginMarker
	for i, e := range slices.Concat([]string{`[META] safe-run start: cmd="cmd"`}, events, []string{"[META] safe-run exit: code=0"}) {
		log += fmt.Sprintf("[SEQ=%d]%s\n", i+1, e)
	}
	return log + endMarker
}

// TestSectionsAgree: disagreements of sections and events at their ends.
func TestSectionsAgree(t *testing.T) {
	for _, c := range []struct{ log, want string }{
		{logOf("one\ntwo", "err", "[STDOUT] one", "[STDOUT] two", "[STDERR] err"), ""},
		{logOf("\r", "\r\n", "[STDERR] ", "[STDOUT] \r"), ""},
		{logOf("", ""), ""},
		{logOf("", "", "[STDOUT] "), "byte 15, event 2: an event of no line: its text is empty and there is no LF"},
		{logOf("", "", "[STDERR] "), "byte 31, event 2: an event of no line: its text is empty and there is no LF"},
		{logOf("a\n", "", "[STDOUT] a", "[STDOUT] "), "byte 17, event 3: an event of no line: its text is empty and there is no LF"},
		{logOf("", "a\n", "[STDERR] a", "[STDERR] "), "byte 33, event 3: an event of no line: its text is empty and there is no LF"},
		{logOf("", "a\n", "[STDERR] a", "[STDERR] b"), "byte 33, event 3: the STDERR section ends before the line of the event"},
		{logOf("", "a", "[STDERR] a", "[STDERR] b"), "byte 32, event 2: the STDERR section ends before the LF of the line"},
		{logOf("", "ab", "[STDERR] abc"), "byte 33, event 2: the STDERR section ends before the line of the event"},
		{logOf("a", "", "[STDOUT] a", "[STDOUT] b"), `byte 17, event 3: the STDOUT section does not have the text of the event: "b" where the section has "=== STDERR ===\n"`},
		{logOf("a\n", ""), `byte 15: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{logOf("", "a\n"), "byte 31: by the events STDERR ends here, and its section goes on"},
		{logOf("", "\n"), "byte 31: by the events STDERR ends here, and its section goes on"},
		{logOf("a\n\n", "", "[STDOUT] a"), `byte 16, event 2: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{logOf("a\r", "", "[STDOUT] a"), `byte 16, event 2: by the events STDOUT ends here, and no "=== STDERR ===" follows`},
		{logOf("a\r\n", "", "[STDOUT] a\r"), "byte 17, event 2: the text has the CR of a CRLF"},
		{logOf("a\r\nb", "", "[STDOUT] a\r", "[STDOUT] b"), "byte 17, event 2: the text has the CR of a CRLF"},
		{logOf("\xff\r\n", "", "[STDOUT] base64:/w=="), `byte 16, event 2: the line goes on in the STDOUT section with "\r\n"`},
		{logOf("\xff\n", "", "[STDOUT] \xff"), "byte 95, event 2: the text is not valid UTF-8"},
		{logOf("base64:\n", "", "[STDOUT] base64:"), "byte 101, event 2: base64 of a line that is to stand as it is"},
		{logOf("a\n\n=== STDERR ===\n", "", "[STDOUT] a"), "byte 33: by the events STDERR ends here, and its section goes on"},
		{logOf("a\n\n=== STDERR ===\nb", "", "[STDOUT] a", "[STDERR] b"), "byte 34, event 3: by the events STDERR ends here, and its section goes on"},
		{logOf("o", "e", "[STDERR] e", "[STDOUT] o"), "byte 95, event 2: a line without LF comes before a line with LF"},
		{logOf("o", "e\n", "[STDOUT] o", "[STDERR] e"), "byte 96, event 2: a line without LF comes before a line with LF"},
		{logOf("o", "e\nf", "[STDOUT] o", "[STDERR] e", "[STDERR] f"), "byte 97, event 2: a line without LF comes before a line with LF"},
		{logOf("o\np\n", "e", "[STDOUT] o", "[STDERR] e", "[STDOUT] p"), "byte 116, event 3: a line without LF comes before a line with LF"},
	} {
		_, err := Open(strings.NewReader(c.log), int64(len(c.log)))
		var wrong *FormatError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &wrong) || err.Error() != c.want) {
			t.Errorf("%s%v\nwant\n%s", c.log, err, c.want)
		}
	}
}

// TestCutOff: no proper beginning of a log is a log.
func TestCutOff(t *testing.T) {
	inner := sound(t)
	for _, log := range []string{inner, ledgerOf(t, runOf(stdout(inner), stderr("e"))), ledgerOf(t, runOf(stdout("\xff"), stderr(inner)))} {
		for n := range log {
			_, err := Open(strings.NewReader(log[:n]), int64(n))
			var wrong *FormatError
			if !errors.As(err, &wrong) || wrong.Offset < 0 || wrong.Offset > int64(n) {
				t.Fatalf("the first %d bytes: %v", n, err)
			}
		}
	}
}

// TestDamagedAnywhere: after any byte is changed, inserted or removed, the result is no
// log, or it is the log of another run.
func TestDamagedAnywhere(t *testing.T) {
	log, taken, refused := sound(t), 0, 0
	try := func(changed string) {
		l, err := Open(strings.NewReader(changed), int64(len(changed)))
		if err != nil {
			refused++
			return
		}
		taken++
		again(t, l, changed)
	}
	for i := range log {
		try(log[:i] + log[i+1:])
		for _, b := range []string{"\n", "\r", "\x00", "\xff", " ", "0", "a", "=", "]", log[i : i+1]} {
			try(log[:i] + b + log[i:])
			try(log[:i] + b + log[i+1:])
		}
	}
	// Few changes make another log: changes of the command, a note, or the exit code.
	if taken == 0 || taken > refused/4 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
}

// TestCodes: exit codes up to those of Windows are written and read back.
func TestCodes(t *testing.T) {
	for _, code := range []int64{0, 1, 255, 256, 0xC0000005, maxCode} {
		r := runOf()
		if r.Code = int(code); int64(r.Code) != code {
			continue // an int has 32 bits here
		}
		if got := opened(t, ledgerOf(t, r)).Code(); int64(got) != code {
			t.Errorf("%d: %d", code, got)
		}
	}
}
