package harness

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/result"
)

// TestEveryReasonHasARecord: each reason of an execution that the sources can give has
// a record, each record is of one of them, and the pages of specs/ list them with the
// same titles.
func TestEveryReasonHasARecord(t *testing.T) {
	given := map[string]bool{}
	for _, file := range []string{"../evidence/evidence.go", "sandbox/judge.go", "execute.go", "exec.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				s, _ := strconv.Unquote(lit.Value)
				if id, _, _ := strings.Cut(s, " "); regexp.MustCompile(`^[A-Z]{3,}(_[A-Z]+)*$`).MatchString(id) {
					given[id] = true
				}
			}
			return true
		})
	}
	pages := map[string]string{}
	for _, name := range []string{"run-result.md", "reports.md"} {
		b, err := os.ReadFile("../specs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(b)
	}
	has := map[string]bool{}
	for _, r := range result.ExecutionRecords() {
		has[r.ID] = true
		if !given[r.ID] {
			t.Errorf("nothing gives the reason %s", r.ID)
		}
		if !strings.Contains(pages["reports.md"], "| `"+r.ID+"` | "+r.Title+" |\n") {
			t.Errorf("specs/reports.md has another title of %s than %q", r.ID, r.Title)
		}
		if !regexp.MustCompile("(?m)^\\| `" + r.ID + "( [^`]*)?` \\|").MatchString(pages["run-result.md"]) {
			t.Errorf("specs/run-result.md does not list %s", r.ID)
		}
	}
	for id := range given {
		if !has[id] {
			t.Errorf("the reason %s has no record", id)
		}
	}
}
