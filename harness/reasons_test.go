package harness_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
)

// givenReasons are the ids of the reasons that the sources of executions give.
func givenReasons(t *testing.T) map[string]bool {
	t.Helper()
	ids := map[string]string{
		"Exited": reason.Exited(0).ID, "Signalled": reason.Signalled(0).ID, "Outside": reason.Outside("").ID, "Kind": reason.Kind("").ID,
		"Missing": reason.Missing("").ID, "Limit": reason.Limit().ID, "StreamCut": reason.StreamCut(0).ID, "Answer": reason.Answer(0).ID, "Refused": reason.Refused(0).ID,
		"Unanswered": reason.Unanswered(0).ID, "Late": reason.Late(0).ID,
		"OOM": reason.OOM, "Timeout": reason.Timeout, "NotFound": reason.NotFound, "NotExecutable": reason.NotExecutable, "OutputName": reason.OutputName,
		"Tested": reason.Tested(0).ID, "Duplicate": reason.Duplicate, "InputMissing": reason.InputMissing, "MaxDelta": reason.MaxDelta, "MaxFiles": reason.MaxFiles, "MaxToolOps": reason.MaxToolOps,
		"NotAllowed": reason.NotAllowed, "Protected": reason.Protected, "StateDrift": reason.StateDrift, "Trace": reason.Trace,
	}
	given := map[string]bool{}
	for _, root := range []string{".", "../evidence/evidence.go", "../kernel/work/admit.go"} {
		err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := sel.X.(*ast.Ident); ok && x.Name == "reason" && ids[sel.Sel.Name] != "" {
						given[ids[sel.Sel.Name]] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return given
}

// TestEveryReasonHasARecord: each reason of an execution that the sources can give has a
// record, and there are no other records. The pages of specs/ list the reasons with the
// same titles.
func TestEveryReasonHasARecord(t *testing.T) {
	given := givenReasons(t)
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
