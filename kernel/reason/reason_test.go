package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/fiador/fiador/kernel/contract"
)

// TestEveryIDHasAMeaning: each id has one title, why and fix, in the order of the ids.
func TestEveryIDHasAMeaning(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ids, described []string
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, spec := range g.Specs {
				id, _ := strconv.Unquote(spec.(*ast.ValueSpec).Values[0].(*ast.BasicLit).Value)
				ids = append(ids, id)
			}
		}
	}
	for _, m := range Meanings() {
		described = append(described, m.ID)
		if m.Title == "" || m.Why == "" || m.Fix == "" || Title(m.ID) != m.Title {
			t.Errorf("%+v", m)
		}
	}
	if !slices.Equal(ids, described) || !slices.IsSorted(ids) || Title("") != "" {
		t.Errorf("the ids are %q and the meanings those of %q", ids, described)
	}
}

// TestMakersAndParse: what a maker writes is read as the same value.
func TestMakersAndParse(t *testing.T) {
	for _, c := range []struct {
		made Reason
		text string
		exit int
	}{
		{Exited(3), "EXIT 3", 3},
		{Tested(2), "TEST 2", 2},
		{Reason{NotAllowed, "a b"}, "NOT_ALLOWED a b", contract.ExitForbidden},
		{Reason{ID: MaxDelta}, "MAX_DELTA", contract.ExitForbidden},
		{Signalled(9), "SIGNAL 9", 137},
		{Outside("a b"), "WRITE_OUTSIDE_ROOT a b", contract.ExitForbidden},
		{Kind("a"), "OUTPUT_KIND a", contract.ExitForbidden},
		{Missing("/outputs/stdout"), "OUTPUT_MISSING /outputs/stdout", contract.ExitForbidden},
		{Reason{OutputName, Quoted("\n")}, `OUTPUT_NAME "\n"`, contract.ExitForbidden},
		{Limit(), "OUTPUT_LIMIT", contract.ExitForbidden},
		{StreamCut(2), "STREAM_LIMIT /actions/2", contract.ExitForbidden},
		{Reason{ID: OOM}, "OOM", contract.ExitOOM},
		{Reason{ID: Timeout}, "TIMEOUT", contract.ExitTimeout},
		{Reason{ID: NotFound}, "NOT_FOUND", contract.ExitNotFound},
		{Reason{ID: NotExecutable}, "NOT_EXECUTABLE", contract.ExitNotExecutable},
		{Reason{ID: WriteOutsideRoot}, "WRITE_OUTSIDE_ROOT", contract.ExitForbidden},
	} {
		read, err := Parse(c.text)
		if c.made.String() != c.text || err != nil || read != c.made || read.ExitCode() != c.exit || Read([]string{c.text}).ExitCode() != c.exit {
			t.Errorf("%q is written, and %q read as %+v with exit code %d (%v)", c.made, c.text, read, read.ExitCode(), err)
		}
	}
}

// TestParseRefuses: a text of another form is no reason.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "OTHER", "exit 1", "EXIT", "EXIT ", "EXIT 0", "EXIT 256", "EXIT 01", "EXIT -1", "EXIT 1 ", "SIGNAL 0", "SIGNAL 128", "OOM ", "TIMEOUT 1", "OUTPUT_LIMIT a",
		"OUTPUT_KIND ", "STREAM_LIMIT", "STREAM_LIMIT /actions/", "STREAM_LIMIT /actions/-1", "STREAM_LIMIT /actions/01", "STREAM_LIMIT 1", "STREAM_LIMIT /actions/1/x",
	} {
		if r, err := Parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
}

// TestList: one end of the command counts, an id alone names every path.
func TestList(t *testing.T) {
	var l List
	for _, c := range []struct{ text, fault string }{
		{"STREAM_LIMIT /actions/1", ""}, {"OUTPUT_KIND", ""}, {`WRITE_OUTSIDE_ROOT "\n"`, ""}, {"EXIT 0", "is not EXIT as a result has it"},
		{"EXIT 4", ""}, {"OOM x", "stands beside another end of the command"}, {"NO", "is no reason for which an execution is rejected"},
	} {
		if err := l.Add(c.text); (err != nil) != (c.fault != "") || err != nil && err.Error() != c.fault {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	switch {
	case l.End != Exited(4), l.ExitCode() != 4, !slices.Equal(l.Streams, []int{1}), !l.Has(StreamLimit), l.Has(Exit), l.Has(OutputLimit):
		t.Errorf("%+v", l)
	case !l.Names(OutputKind, "any"), !l.Names(WriteOutsideRoot, "\n"), l.Names(WriteOutsideRoot, "any"), (List{}).Names(OutputKind, ""):
		t.Errorf("%+v names other paths", l)
	case (List{}).ExitCode() != 0:
		t.Error("an empty list has an exit code")
	}
}

func TestFindings(t *testing.T) {
	for _, c := range []struct {
		text, id, pointer string
		ok                bool
	}{
		{"A /b", "A", "/b", true}, {"A ", "A", "", true}, {"A", "A", "", false}, {"A b", "A", "b", false}, {"A /b c", "A", "/b c", true},
	} {
		id, pointer, ok := ParseFinding(c.text)
		if id != c.id || pointer != c.pointer || ok != c.ok || ok && Finding(id, pointer) != c.text || ID(c.text) != c.id {
			t.Errorf("%q: %q %q %t", c.text, id, pointer, ok)
		}
	}
	for text, want := range map[string]string{"A /b": "A", "EXIT 3": "EXIT 3", "EXIT": "EXIT", "EXIT ": "EXIT", "SIGNAL 9": "SIGNAL 9", "OUTPUT_KIND a": "OUTPUT_KIND"} {
		if got := Brief(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}
