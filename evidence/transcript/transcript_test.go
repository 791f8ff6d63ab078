package transcript

import (
	"encoding/base64"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// chunk is the data of one read.
type chunk struct {
	stream Stream
	text   string
}

func stdout(text string) chunk { return chunk{Stdout, text} }
func stderr(text string) chunk { return chunk{Stderr, text} }

func section(s string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(s), 0, int64(len(s)))
}

// runOf returns the run of a command that wrote these chunks.
func runOf(chunks ...chunk) Run {
	var text [3]string
	for _, c := range chunks {
		text[c.stream] += c.text
	}
	return Run{
		Argv: []string{"cmd"}, Stdout: section(text[Stdout]), Stderr: section(text[Stderr]),
		Order: func(yield func(Span, error) bool) {
			for _, c := range chunks {
				if !yield(Span{c.stream, int64(len(c.text))}, nil) {
					return
				}
			}
		},
	}
}

// model returns the log of a run, and its merged view, made in memory literally by the
// package's comment.
func model(r Run, chunks []chunk) (log, merged string) {
	var raw, partial [3]string
	seq := 0
	var events, view strings.Builder
	event := func(s Stream, text string) {
		seq++
		fmt.Fprintf(&events, "[SEQ=%d][%v] %s\n", seq, s, text)
	}
	line := func(s Stream, line, end string) {
		view.WriteString(line + end)
		switch {
		case !utf8.ValidString(line) || strings.HasPrefix(line, "base64:"):
			event(s, "base64:"+base64.StdEncoding.EncodeToString([]byte(line)))
		case end == "\n":
			event(s, strings.TrimSuffix(line, "\r"))
		default:
			event(s, line)
		}
	}
	event(Meta, `safe-run start: cmd="`+Quote(r.Argv)+`"`)
	for _, c := range chunks {
		raw[c.stream] += c.text
		lines := strings.Split(partial[c.stream]+c.text, "\n")
		for _, l := range lines[:len(lines)-1] {
			line(c.stream, l, "\n")
		}
		partial[c.stream] = lines[len(lines)-1]
	}
	for _, s := range []Stream{Stdout, Stderr} {
		if partial[s] != "" {
			line(s, partial[s], "")
		}
	}
	for _, n := range r.Notes {
		event(Meta, n)
	}
	event(Meta, fmt.Sprintf("safe-run exit: code=%d", r.Code))
	return "=== STDOUT ===\n" + raw[Stdout] + "\n=== STDERR ===\n" + raw[Stderr] +
		"\n--- BEGIN EVENTS ---\n" + events.String() + "--- END EVENTS ---\n", view.String()
}

// ledgerOf returns the log of a run.
func ledgerOf(t testing.TB, r Run) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteLedger(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// opened opens a log that must be valid.
func opened(t testing.TB, log string) *Log {
	t.Helper()
	l, err := Open(strings.NewReader(log), int64(len(log)))
	if err != nil {
		t.Fatalf("%v\n%s", err, short(log))
	}
	return l
}

// eventsOf returns the events as the lines of the log.
func eventsOf(t testing.TB, l *Log) (lines []string) {
	t.Helper()
	for e, err := range l.Events() {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("[SEQ=%d][%v] %s", e.Seq, e.Stream, e.Text))
	}
	return lines
}

func text(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func short(s string) string {
	if len(s) > 2000 {
		return s[:1000] + "\n[...]\n" + s[len(s)-1000:]
	}
	return s
}

// pieces are sizes of pieces. Small ones put borders everywhere in short texts.
var pieces = []int{1, 2, 3, 5, 7, 16, 64, piece}

// check writes the log of a run and reads it back, and compares both with the model.
func check(t testing.TB, r Run, chunks []chunk, pieces ...int) *Log {
	t.Helper()
	want, merged := model(r, chunks)
	var l *Log
	for _, piece := range pieces {
		var log, view strings.Builder
		if err := r.writeLedger(&log, Quote(r.Argv), piece); err != nil {
			t.Fatal(err)
		}
		if log.String() != want {
			t.Fatalf("pieces of %d:\n%s\nwant\n%s", piece, short(log.String()), short(want))
		}
		if err := r.writeMerged(&view, piece); err != nil || view.String() != merged {
			t.Fatalf("pieces of %d: merged: %v\n%q\nwant\n%q", piece, err, short(view.String()), short(merged))
		}
		var err error
		if l, err = open(strings.NewReader(want), int64(len(want)), piece); err != nil {
			t.Fatalf("pieces of %d: %v\n%s", piece, err, short(want))
		}
		checkLog(t, l, r, want, merged)
	}
	return l
}

// checkLog compares the content of a log with the run.
func checkLog(t testing.TB, l *Log, r Run, log, merged string) {
	t.Helper()
	var view strings.Builder
	if err := l.WriteMerged(&view); err != nil || view.String() != merged {
		t.Fatalf("merged of the log: %v\n%q\nwant\n%q", err, short(view.String()), short(merged))
	}
	_, events, _ := strings.Cut(log[strings.LastIndex(log, beginMarker):], beginMarker)
	if got := strings.Join(eventsOf(t, l), "\n") + "\n--- END EVENTS ---\n"; got != events {
		t.Fatalf("events\n%s\nwant\n%s", short(got), short(events))
	}
	if got, want := text(t, l.Stdout()), text(t, io.NewSectionReader(r.Stdout, 0, r.Stdout.Size())); got != want {
		t.Fatalf("stdout %q, want %q", short(got), short(want))
	}
	if got, want := text(t, l.Stderr()), text(t, io.NewSectionReader(r.Stderr, 0, r.Stderr.Size())); got != want {
		t.Fatalf("stderr %q, want %q", short(got), short(want))
	}
	if l.Command() != Quote(r.Argv) || l.Code() != r.Code || !slices.Equal(l.Notes(), r.Notes) {
		t.Fatalf("command %q, code %d, notes %q", l.Command(), l.Code(), l.Notes())
	}
	again(t, l, log)
}

// again writes a log again.
func again(t testing.TB, l *Log, log string) {
	t.Helper()
	var b strings.Builder
	if err := l.run().writeLedger(&b, l.Command(), l.piece); err != nil {
		t.Fatal(err)
	}
	if b.String() != log {
		t.Fatalf("written again\n%s\nwant\n%s", short(b.String()), short(log))
	}
}

// TestContractExample reads the contract's log, and writes it again, except for its
// command, because the contract does not give the argv.
func TestContractExample(t *testing.T) {
	const log = `=== STDOUT ===
Hello, world!

=== STDERR ===
Warning: deprecated API

--- BEGIN EVENTS ---
[SEQ=1][META] safe-run start: cmd="echo 'Hello, world!' >&2 echo 'Warning: deprecated API'"
[SEQ=2][STDOUT] Hello, world!
[SEQ=3][STDERR] Warning: deprecated API
[SEQ=4][META] safe-run exit: code=0
--- END EVENTS ---
`
	l := opened(t, log)
	again(t, l, log)
	if got := text(t, l.Stdout()) + text(t, l.Stderr()); got != "Hello, world!\nWarning: deprecated API\n" {
		t.Errorf("%q", got)
	}
	if l.Command() != `echo 'Hello, world!' >&2 echo 'Warning: deprecated API'` || l.Code() != 0 || len(l.Notes()) != 0 {
		t.Errorf("%q, %d, %q", l.Command(), l.Code(), l.Notes())
	}
	chunks := []chunk{stdout("Hello, world!\n"), stderr("Warning: deprecated API\n")}
	r := runOf(chunks...)
	r.Argv = []string{"echo", "Hello, world!", ">&2", "echo", "Warning: deprecated API"}
	if got, want := ledgerOf(t, r), strings.Replace(log, ">&2", "'>&2'", 1); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	check(t, r, chunks, pieces...)
}

// TestPackageExample: the example of the package's comment is a correct log.
func TestPackageExample(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(f.Doc.Text(), "has this log:\n\n")
	if !found {
		t.Fatal("no example")
	}
	var want strings.Builder
	for line := range strings.Lines(example) {
		if line != "\n" && !strings.HasPrefix(line, "\t") {
			break
		}
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	chunks := []chunk{stdout("building\n"), stderr("warning: old\r\n"), stdout("base64:eA\ndone")}
	r := runOf(chunks...)
	r.Argv, r.Code = []string{"make", "a b", "TARGET=all"}, 3
	got := strings.ReplaceAll(ledgerOf(t, r), "\r", "") // a comment cannot contain CR
	if got+"\n" != want.String() {
		t.Errorf("%s\nwant\n%s", got, want.String())
	}
	check(t, r, chunks, pieces...)
}

// TestLines: the events of each line. The events are those between start and exit.
func TestLines(t *testing.T) {
	b64 := func(s string) string { return "base64:" + base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, c := range map[string]struct {
		chunks []chunk
		events []string
	}{
		"no output":                {nil, nil},
		"no stdout":                {[]chunk{stderr("e\n")}, []string{"2 STDERR e"}},
		"empty lines":              {[]chunk{stdout("\n\n")}, []string{"2 STDOUT ", "3 STDOUT "}},
		"empty line of each":       {[]chunk{stdout("\n"), stderr("\n")}, []string{"2 STDOUT ", "3 STDERR "}},
		"blanks stay":              {[]chunk{stdout(" a \t\n")}, []string{"2 STDOUT  a \t"}},
		"CRLF":                     {[]chunk{stdout("a\r\n\r\nb\n")}, []string{"2 STDOUT a", "3 STDOUT ", "4 STDOUT b"}},
		"CRCRLF":                   {[]chunk{stdout("a\r\r\n")}, []string{"2 STDOUT a\r"}},
		"CR of CRLF comes later":   {[]chunk{stdout("a"), stdout("\r"), stderr("e\n"), stdout("\n")}, []string{"2 STDERR e", "3 STDOUT a"}},
		"lone CR":                  {[]chunk{stdout("10%\r20%\n")}, []string{"2 STDOUT 10%\r20%"}},
		"lone CR at the end":       {[]chunk{stdout("10%\r")}, []string{"2 STDOUT 10%\r"}},
		"nothing but CR":           {[]chunk{stdout("\r"), stderr("\r\n")}, []string{"2 STDERR ", "3 STDOUT \r"}},
		"no last newline":          {[]chunk{stdout("a\nb")}, []string{"2 STDOUT a", "3 STDOUT b"}},
		"no last newline of both":  {[]chunk{stderr("e"), stdout("o")}, []string{"2 STDOUT o", "3 STDERR e"}},
		"no last newline, stderr":  {[]chunk{stderr("e"), stdout("o\n")}, []string{"2 STDOUT o", "3 STDERR e"}},
		"no last newline, stdout":  {[]chunk{stdout("o"), stderr("e\nf\n")}, []string{"2 STDERR e", "3 STDERR f", "4 STDOUT o"}},
		"order of the LF":          {[]chunk{stdout("a"), stderr("e\n"), stdout("b\n")}, []string{"2 STDERR e", "3 STDOUT ab"}},
		"in turn":                  {[]chunk{stdout("a\n"), stderr("e\n"), stdout("b\n"), stderr("f\n")}, []string{"2 STDOUT a", "3 STDERR e", "4 STDOUT b", "5 STDERR f"}},
		"nothing read":             {[]chunk{stdout(""), stdout("a\n"), stderr(""), stdout("")}, []string{"2 STDOUT a"}},
		"invalid UTF-8":            {[]chunk{stdout("a\xffb\nc\n")}, []string{"2 STDOUT " + b64("a\xffb"), "3 STDOUT c"}},
		"invalid UTF-8 keeps CR":   {[]chunk{stdout("\xff\r\n")}, []string{"2 STDOUT " + b64("\xff\r")}},
		"invalid UTF-8, no LF":     {[]chunk{stdout("\xff")}, []string{"2 STDOUT " + b64("\xff")}},
		"cut UTF-8 at the end":     {[]chunk{stdout("ab\xe2\x82")}, []string{"2 STDOUT " + b64("ab\xe2\x82")}},
		"surrogate":                {[]chunk{stdout("\xed\xa0\x80\n")}, []string{"2 STDOUT " + b64("\xed\xa0\x80")}},
		"overlong":                 {[]chunk{stdout("\xc0\x80\n")}, []string{"2 STDOUT " + b64("\xc0\x80")}},
		"above U+10FFFF":           {[]chunk{stdout("\xf4\x90\x80\x80\n")}, []string{"2 STDOUT " + b64("\xf4\x90\x80\x80")}},
		"UTF-8 over spans":         {[]chunk{stdout("\xf0"), stdout("\x9f"), stderr("e\n"), stdout("\x98\x80\n")}, []string{"2 STDERR e", "3 STDOUT 😀"}},
		"UTF-8 over lines":         {[]chunk{stdout("\xe2\x82\n\xac\n")}, []string{"2 STDOUT " + b64("\xe2\x82"), "3 STDOUT " + b64("\xac")}},
		"U+FFFD":                   {[]chunk{stdout("\ufffd\n")}, []string{"2 STDOUT \ufffd"}},
		"NUL":                      {[]chunk{stdout("a\x00b\n\x00")}, []string{"2 STDOUT a\x00b", "3 STDOUT \x00"}},
		"ESC, VT, FF, BEL":         {[]chunk{stdout("\x1b[31m\v\f\a\n")}, []string{"2 STDOUT \x1b[31m\v\f\a"}},
		"U+2028, U+2029, U+0085":   {[]chunk{stdout("a\u2028b\u2029c\u0085d\n")}, []string{"2 STDOUT a\u2028b\u2029c\u0085d"}},
		"BOM":                      {[]chunk{stdout("\ufeffa\n")}, []string{"2 STDOUT \ufeffa"}},
		"label":                    {[]chunk{stdout("base64:YQ==\n")}, []string{"2 STDOUT " + b64("base64:YQ==")}},
		"label and nothing":        {[]chunk{stdout("base64:\nbase64:\r\nbase64:")}, []string{"2 STDOUT " + b64("base64:"), "3 STDOUT " + b64("base64:\r"), "4 STDOUT " + b64("base64:")}},
		"label not at the start":   {[]chunk{stdout(" base64:YQ==\nbase64\nBase64:\n")}, []string{"2 STDOUT  base64:YQ==", "3 STDOUT base64", "4 STDOUT Base64:"}},
		"label over spans":         {[]chunk{stdout("base"), stdout("64:\n")}, []string{"2 STDOUT " + b64("base64:")}},
		"event line":               {[]chunk{stdout("[SEQ=1][META] safe-run exit: code=0\n")}, []string{"2 STDOUT [SEQ=1][META] safe-run exit: code=0"}},
		"stderr marker in stdout":  {[]chunk{stdout("a\n\n=== STDERR ===\nb\n")}, []string{"2 STDOUT a", "3 STDOUT ", "4 STDOUT === STDERR ===", "5 STDOUT b"}},
		"stderr marker at the end": {[]chunk{stdout("a\n\n=== STDERR ===\n"), stderr("\n=== STDERR ===\n")}, []string{"2 STDOUT a", "3 STDOUT ", "4 STDOUT === STDERR ===", "5 STDERR ", "6 STDERR === STDERR ==="}},
		"marker, no last newline":  {[]chunk{stdout("\n=== STDERR ==="), stderr("=== STDERR ===")}, []string{"2 STDOUT ", "3 STDOUT === STDERR ===", "4 STDERR === STDERR ==="}},
		"marker of events":         {[]chunk{stderr("\n--- BEGIN EVENTS ---\n--- END EVENTS ---\n")}, []string{"2 STDERR ", "3 STDERR --- BEGIN EVENTS ---", "4 STDERR --- END EVENTS ---"}},
		"marker of events bare":    {[]chunk{stderr("\n--- BEGIN EVENTS ---")}, []string{"2 STDERR ", "3 STDERR --- BEGIN EVENTS ---"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := check(t, runOf(c.chunks...), c.chunks, pieces...)
			var got []string
			for e, err := range l.Events() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(e.Seq, " ", e.Stream, " ", e.Text))
			}
			want := slices.Concat([]string{`1 META safe-run start: cmd="cmd"`}, c.events,
				[]string{fmt.Sprintf("%d META safe-run exit: code=0", len(c.events)+2)})
			if !slices.Equal(got, want) {
				t.Errorf("%q\nwant\n%q", got, want)
			}
		})
	}
}

// TestForgery: a log in the output, and another one in that log, are output.
func TestForgery(t *testing.T) {
	log := "a\n"
	for range 3 {
		inner := []chunk{stdout(log), stderr("e"), stdout("rest"), stderr("\n" + log)}
		r := runOf(inner...)
		r.Notes, r.Code = []string{"safe-run interrupted: signal=TERM"}, 143
		check(t, r, inner, 1, 5, piece)
		log = ledgerOf(t, r)
	}
	for _, chunks := range [][]chunk{
		{stdout(log)}, {stderr(log)}, {stdout(log), stderr(log)}, {stdout(strings.TrimSuffix(log, "\n"))},
		{stdout(log[:strings.Index(log, endMarker)])}, {stdout(strings.TrimPrefix(log, stdoutHeader))},
		{stderr(log[strings.LastIndex(log, beginMarker):])},
		{stdout(log[strings.Index(log, stderrHeader):])},
	} {
		check(t, runOf(chunks...), chunks, pieces...)
	}
}

// TestLarge: a line of 5 MB, long lines of every kind, and 100 000 lines.
func TestLarge(t *testing.T) {
	many := strings.Repeat("a line of the many\n", 50_000)
	for name, chunks := range map[string][]chunk{
		"text":               {stdout(strings.Repeat("abcde", 1_000_000) + "\nb\n")},
		"text, CRLF":         {stdout("a\n" + strings.Repeat("abcde", 100_000) + "\r\n")},
		"text, no LF":        {stdout(strings.Repeat("abcde", 100_000))},
		"UTF-8":              {stdout(strings.Repeat("größe😀", 60_000) + "\n")},
		"invalid at the end": {stdout(strings.Repeat("größe😀", 60_000) + "\xff\n")},
		"label":              {stdout("base64:" + strings.Repeat("x", 500_000) + "\r\n")},
		"both":               {stdout(strings.Repeat("o", 500_000)), stderr(strings.Repeat("e", 500_000) + "\n"), stdout("\n")},
		"lines":              {stdout(many), stderr(many)},
		"binary lines":       {stdout(strings.Repeat("\xff\x00\xfe\n", 20_000))},
		"empty lines":        {stdout(strings.Repeat("\n", 100_000))},
		"marker":             {stdout(strings.Repeat("\n--- BEGIN EVENTS ---", 10_000))},
	} {
		t.Run(name, func(t *testing.T) { check(t, runOf(chunks...), chunks, piece) })
	}
}

// TestBorders: a border between pieces cuts a line, at every place.
func TestBorders(t *testing.T) {
	for _, line := range []string{"a😀é€b\r\n", "\xf0\x9f\x98\n", "\xe2\x82\xac\xe2\x82\r\n", "base64:\r\n", "€"} {
		for before := range len(line) + 2 {
			chunks := []chunk{stdout(strings.Repeat("x", piece-before-1) + "\n" + line + "\nlast")}
			check(t, runOf(chunks...), chunks, piece)
			chunks = []chunk{stdout(strings.Repeat("ä", piece)[:2*(piece-before)/2] + line + "last")}
			check(t, runOf(chunks...), chunks, piece)
		}
	}
}

// TestOrderOfSpans: every way to cut one output in two gives the same events, if no LF
// of the other stream comes between.
func TestOrderOfSpans(t *testing.T) {
	const text = "é\r\n€\n😀\n\xff\r\nbase64:\r\nend\r"
	want := ledgerOf(t, runOf(stdout(text)))
	for i := range len(text) {
		for j := i; j <= len(text); j++ {
			chunks := []chunk{stdout(text[:i]), stdout(text[i:j]), stderr(""), stdout(text[j:])}
			for _, piece := range []int{1, 3, piece} {
				var b strings.Builder
				if err := runOf(chunks...).writeLedger(&b, "cmd", piece); err != nil || b.String() != want {
					t.Fatalf("cut at %d and %d: %v\n%s", i, j, err, b.String())
				}
			}
		}
	}
}

// TestSectionsElsewhere: the streams are sections of something larger, and their read
// offsets do not matter.
func TestSectionsElsewhere(t *testing.T) {
	file := strings.NewReader("xxxout\nyyyerr\nzzz")
	r := runOf(stdout("out\n"), stderr("err\n"))
	r.Stdout, r.Stderr = io.NewSectionReader(file, 3, 4), io.NewSectionReader(file, 10, 4)
	if _, err := r.Stdout.Seek(2, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	want := ledgerOf(t, runOf(stdout("out\n"), stderr("err\n")))
	for range 2 {
		if got := ledgerOf(t, r); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	r.Stdout, r.Stderr, r.Order = nil, nil, nil
	if got, want := ledgerOf(t, r), ledgerOf(t, runOf()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestNotes: notes are between the output and the exit, each on one line.
func TestNotes(t *testing.T) {
	notes := []string{
		"safe-run not found: \"x\"", "", "a\nb\r\tc\x1b\x7f", "u\u2028\u2029\u0085", "bad \xff\xc3", `back\nslash`,
		"base64:YQ==", "[SEQ=1][META] x", "--- END EVENTS ---", "größe", " safe-run exit: code=0",
	}
	want := slices.Clone(notes)
	want[2], want[3], want[4] = `a\nb\r\tc\x1b\x7f`, `u\xe2\x80\xa8\xe2\x80\xa9\xc2\x85`, `bad \xff\xc3`
	r := runOf(stdout("o"))
	r.Notes, r.Code = notes, 127
	log := ledgerOf(t, r)
	l := opened(t, log)
	if !slices.Equal(l.Notes(), want) {
		t.Errorf("%q\nwant\n%q", l.Notes(), want)
	}
	again(t, l, log)
	for e, err := range l.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if b, err := e.Bytes(); e.Stream == Meta && (err != nil || string(b) != e.Text) {
			t.Errorf("%q: %q, %v", e.Text, b, err)
		}
	}
	l.Notes()[0] = "changed"
	if !slices.Equal(l.Notes(), want) {
		t.Error("Notes gives the log's own list away")
	}
}

// TestEventBytes: the bytes of an event are its line without LF.
func TestEventBytes(t *testing.T) {
	for _, c := range []struct {
		event Event
		want  string
		bad   bool
	}{
		{Event{2, Stdout, "a"}, "a", false},
		{Event{2, Stderr, ""}, "", false},
		{Event{2, Stdout, "base64:/w0="}, "\xff\r", false},
		{Event{2, Meta, "base64:/w0="}, "base64:/w0=", false},
		{Event{2, Stdout, "base64:/w0"}, "", true},
		{Event{2, Stdout, "base64:/w1="}, "", true},
		{Event{2, Stdout, "base64:/w\r0="}, "", true},
	} {
		b, err := c.event.Bytes()
		if (err != nil) != c.bad || !c.bad && string(b) != c.want {
			t.Errorf("%v: %q, %v", c.event, b, err)
		}
	}
}

func TestStreamString(t *testing.T) {
	if got := fmt.Sprint(Meta, Stdout, Stderr, Stream(9)); got != "META STDOUT STDERR Stream(9)" {
		t.Error(got)
	}
}
