package specs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/transcript"
)

// safeRunTable returns the body of the table of safe-run.md with this heading row,
// without the back quotes.
func safeRunTable(t *testing.T, heading string) [][]string {
	t.Helper()
	page, err := os.ReadFile("safe-run.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\n"+heading+"\n|---|")
	if !found {
		t.Fatalf("no table %s", heading)
	}
	var rows [][]string
	for line := range strings.Lines(after[strings.Index(after, "\n")+1:]) {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), " | ") {
			row = append(row, strings.Trim(strings.TrimSpace(cell), "`"))
		}
		rows = append(rows, row)
	}
	if len(rows) < 10 {
		t.Fatalf("table %s has only %d rows", heading, len(rows))
	}
	return rows
}

func unquoted(t *testing.T, cell string) string {
	t.Helper()
	s, err := strconv.Unquote(cell)
	if err != nil {
		t.Fatalf("%s: %v", cell, err)
	}
	return s
}

// metaLines returns the META lines that a package writes, without the parts that differ
// from run to run.
func metaLines(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s (%v)", dir, err)
	}
	var list []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if line, ok := metaLine(unquoted(t, lit.Value)); ok {
				list = append(list, line)
			}
			return true
		})
	}
	return list
}

// metaLine removes the parts that differ. A META line has words, a colon and perhaps
// more.
func metaLine(s string) (string, bool) {
	head := regexp.MustCompile(`^safe-run [a-z ]+:( [a-z]+=| second INT$)?`).FindString(s)
	return head, head != ""
}

// TestSafeRunMeta: the META lines of safe-run.md are those of the program.
func TestSafeRunMeta(t *testing.T) {
	var page []string
	for _, row := range safeRunTable(t, "| line | when | clause |") {
		line, ok := metaLine(row[0])
		if !ok {
			t.Errorf("%q is not a META line", row[0])
		}
		page = append(page, line)
	}
	code := slices.Concat(metaLines(t, filepath.Join("..", "harness", "saferun")),
		[]string{"safe-run start: cmd=", "safe-run exit: code="}) // of evidence/transcript, see TestSafeRunLines
	slices.Sort(page)
	slices.Sort(code)
	if code = slices.Compact(code); !slices.Equal(page, code) {
		t.Errorf("the page has\n%s\nand the program\n%s", strings.Join(page, "\n"), strings.Join(code, "\n"))
	}
}

// TestSafeRunLines: each line in safe-run.md has the text beside it.
func TestSafeRunLines(t *testing.T) {
	for _, row := range safeRunTable(t, "| line | text |") {
		line, text := unquoted(t, row[0]), unquoted(t, row[1])
		r := transcript.Run{
			Argv:   []string{"cmd"},
			Stdout: io.NewSectionReader(strings.NewReader(line), 0, int64(len(line))),
			Order: func(yield func(transcript.Span, error) bool) {
				yield(transcript.Span{Stream: transcript.Stdout, N: int64(len(line))}, nil)
			},
		}
		var log strings.Builder
		if err := r.WriteLedger(&log); err != nil {
			t.Fatal(err)
		}
		want := "=== STDOUT ===\n" + line + "\n=== STDERR ===\n\n--- BEGIN EVENTS ---\n" +
			"[SEQ=1][META] safe-run start: cmd=\"cmd\"\n[SEQ=2][STDOUT] " + text + "\n[SEQ=3][META] safe-run exit: code=0\n--- END EVENTS ---\n"
		if log.String() != want {
			t.Errorf("%q: log %q, want %q", line, log.String(), want)
		}
	}
}

// TestSafeRunQuoting: each word in safe-run.md is quoted as the table says.
func TestSafeRunQuoting(t *testing.T) {
	for _, row := range safeRunTable(t, "| word | in `cmd` |") {
		word := unquoted(t, row[0])
		if got := transcript.Quote([]string{"x", word}); got != "x "+row[1] {
			t.Errorf("%q: %s, want %s", word, got, row[1])
		}
	}
	if got := transcript.Quote([]string{"a=b", "a=b"}); got != "'a=b' a=b" {
		t.Errorf("a first word with =: %s", got)
	}
}
