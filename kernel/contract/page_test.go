package contract_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/contract"
)

// tables maps each heading of a page to the tables under it. Each row is a string; the
// two lines of a table's head are left out.
func tables(page string) map[string][][]string {
	got := map[string][][]string{}
	heading, row := "", 0
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "#"); ok {
			heading = strings.TrimLeft(title, "# ")
		}
		if !strings.HasPrefix(line, "|") {
			row = 0
			continue
		}
		if row++; row == 1 {
			got[heading] = append(got[heading], nil)
		}
		if last := len(got[heading]) - 1; row > 2 {
			got[heading][last] = append(got[heading][last], strings.Trim(line, "| "))
		}
	}
	return got
}

func row(cells ...string) string { return strings.Join(cells, " | ") }

func code(s string) string { return "`" + s + "`" }

func listed(words []string) string {
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// without drops the cell at the index from every row. The cell has words for people.
func without(rows []string, at int) []string {
	var out []string
	for _, r := range rows {
		if cells := strings.Split(r, " | "); len(cells) > at {
			out = append(out, row(slices.Delete(cells, at, at+1)...))
		}
	}
	return out
}

// TestPage: the tables of specs/execution.md equal those of the program.
func TestPage(t *testing.T) {
	src, err := os.ReadFile("../../specs/execution.md")
	if err != nil {
		t.Fatal(err)
	}
	page := tables(string(src))
	check := func(heading string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: the page has\n%s\nand the program\n%s", heading, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	table := func(heading string) []string {
		t.Helper()
		if len(page[heading]) == 0 {
			t.Fatalf("no table under %q", heading)
		}
		return page[heading][0]
	}
	check("Limits", without(table("Limits"), 1), limitRows())
	check("File system", table("File system"), fsRows())
	check("Network", firstCells(table("Network")), []string{code(string(contract.Offline)), code(string(contract.Registry)), code(string(contract.API)), code(string(contract.Open))})
	check("Built-in profiles", table("Built-in profiles"), profileRows())
	check("Exit codes", table("Exit codes"), exitRows())
	check("IV-02", firstCells(table("IV-02: argument sanitization")),
		[]string{code(string(contract.Argv)), code(string(contract.ArgvPlain)), code(string(contract.Shell))})
	check("IV-04", table("IV-04: environment filtering"), guardedRows())
	for _, text := range []string{
		"``" + contract.ShellMetacharacters + "``",
		fmt.Sprintf("at most %d bytes", contract.MaxEnvNameBytes),
		fmt.Sprintf("at most %d bytes", contract.StdinBytes().Max),
		fmt.Sprintf("at most %d, with at most %d bytes", contract.InputFiles().Max, contract.InputFilesBytes().Max),
		fmt.Sprintf(" %d is also the code", contract.ExitForbidden),
	} {
		if !strings.Contains(string(src), text) {
			t.Errorf("the page does not say %q", text)
		}
	}
}

func firstCells(rows []string) []string {
	var out []string
	for _, r := range rows {
		cell, _, _ := strings.Cut(r, " | ")
		out = append(out, cell)
	}
	return out
}

func limitRows() []string {
	var out []string
	for _, l := range contract.Limits() {
		dflt := "none"
		if l.Limit.HasDefault() {
			dflt = strconv.Itoa(l.Limit.Default)
		}
		out = append(out, row(code(l.Name), dflt, strconv.Itoa(l.Limit.Min), strconv.Itoa(l.Limit.Max), l.Unit, l.Clause))
	}
	return out
}

func fsRows() []string {
	var out []string
	for _, l := range contract.FSLevels() {
		a := l.Access()
		out = append(out, row(code(string(l)), listed(a.Reads()), listed(a.Writes())))
	}
	return out
}

func profileRows() []string {
	var out []string
	for _, name := range []string{"strict", "default", "dev"} {
		a, _ := contract.ProfileAccess(name)
		out = append(out, row(code(name), code(string(a.Level)), listed(a.Reads()), listed(a.Writes())))
	}
	return out
}

func exitRows() []string {
	var out []string
	for _, r := range contract.ExitCodes() {
		codes := strconv.Itoa(r.First)
		if r.Last > r.First {
			codes += " to " + strconv.Itoa(r.Last)
		}
		out = append(out, row(codes, code(r.Meaning), code(r.Action)))
	}
	return out
}

func guardedRows() []string {
	var out []string
	for _, g := range contract.Guarded() {
		var names []string
		for name := range strings.FieldsSeq(g.Names) {
			names = append(names, code(name))
		}
		out = append(out, row(g.Why, strings.Join(names, " ")))
	}
	return out
}
