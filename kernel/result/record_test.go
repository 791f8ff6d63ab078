package result

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// complete reports each member that a record lacks.
func complete(t *testing.T, r Record) {
	t.Helper()
	for name, text := range map[string]string{"title": r.Title, "why": r.Why, "fix": r.Fix, "since": r.Since} {
		if strings.TrimSpace(text) == "" || strings.HasSuffix(text, ".") {
			t.Errorf("%s of %s is %q", name, r.ID, text)
		}
	}
}

// TestExecutionRecords: the records are sorted, without duplicates and complete.
// TestEveryReasonHasARecord proves that each reason has one.
func TestExecutionRecords(t *testing.T) {
	last := ""
	for _, r := range ExecutionRecords() {
		if r.ID <= last || r.Kind != RecordExecution {
			t.Errorf("%s (%s) comes after %s", r.ID, r.Kind, last)
		}
		last = r.ID
		complete(t, r)
	}
}

// TestEveryCodeHasARecord: each error code of the source and each check has one record.
// There is no other record, and each is complete.
func TestEveryCodeHasARecord(t *testing.T) {
	want := map[string]RecordKind{"SCHEMA": RecordInvariant}
	f, err := parser.ParseFile(token.NewFileSet(), "error.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && strings.HasPrefix(s, "RUN_E") && len(s) == len("RUN_E000") {
				want[s] = RecordError
			}
		}
		return true
	})
	if len(want) < 8 {
		t.Fatalf("only %d error codes found", len(want)-1)
	}
	doc, err := canon.Parse([]byte("{}"), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Checks(nil, doc, nil) {
		want[c.ID] = RecordInvariant
		if c.Title == "" {
			t.Errorf("%s has no title", c.ID)
		}
	}
	seen := map[string]bool{}
	for _, r := range Records() {
		if seen[r.ID] || want[r.ID] != r.Kind {
			t.Errorf("record %s stands twice, or is of something else (%q)", r.ID, want[r.ID])
		}
		seen[r.ID] = true
		complete(t, r)
	}
	for id := range want {
		if !seen[id] {
			t.Errorf("%s has no record", id)
		}
	}
}
