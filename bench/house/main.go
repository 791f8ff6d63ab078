// Command house measures the Go packages of one checkout or more, each a column of the
// table that it prints:
//
//	go run -C bench ./house FOLDER...
//
// It leaves out the benchmark, modules inside the module, and testdata. A package that no
// command imports counts as lines of tests: it has their fixtures.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

// house is what was counted in one checkout.
type house struct {
	code, tests, comments, filled, statements int // lines
	lines, files                              map[string]int
	methods                                   map[string]int
	functions                                 []int
	work, errors, documents                   int
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: house FOLDER...")
		os.Exit(2)
	}
	var columns [][]string
	for _, root := range os.Args[1:] {
		h := newHouse()
		if err := h.measure(root); err != nil {
			fmt.Fprintln(os.Stderr, "house:", err)
			os.Exit(1)
		}
		columns = append(columns, h.column())
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t"+strings.Join(os.Args[1:], "\t"))
	for i, what := range rows {
		fmt.Fprint(w, what)
		for _, c := range columns {
			fmt.Fprint(w, "\t", c[i])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

func newHouse() house {
	return house{lines: map[string]int{}, files: map[string]int{}, methods: map[string]int{}}
}

// rows names what column returns.
var rows = []string{
	"packages", "lines of the median package", "lines of the largest package", "files of the median package", "files of the largest package",
	"lines of a function, p95", "lines of the longest function", "lines with a comment, of those that are not blank",
	"package variables and init functions that work before main", "lines of code without tests", "lines of statements: without comments, blank lines, imports, generated code", "lines of tests",
	"RunError literals outside harness/runerr", "methods of the largest type", "map[string]any{ outside kernel/canon",
}

func (h *house) column() []string {
	slices.Sort(h.functions)
	middle := func(m map[string]int) string {
		list := slices.Sorted(func(yield func(int) bool) {
			for _, n := range m {
				if !yield(n) {
					return
				}
			}
		})
		return fmt.Sprint(list[len(list)/2])
	}
	most := func(m map[string]int) string {
		name := ""
		for k, n := range m {
			if n > m[name] || n == m[name] && k < name {
				name = k
			}
		}
		return fmt.Sprintf("%d %s", m[name], name)
	}
	return []string{
		fmt.Sprint(len(h.lines)), middle(h.lines), most(h.lines), middle(h.files), most(h.files),
		fmt.Sprint(h.functions[len(h.functions)*95/100]), fmt.Sprint(h.functions[len(h.functions)-1]),
		fmt.Sprintf("%.1f %%", 100*float64(h.comments)/float64(h.filled)),
		fmt.Sprint(h.work), fmt.Sprint(h.code), fmt.Sprint(h.statements), fmt.Sprint(h.tests),
		fmt.Sprint(h.errors), most(h.methods), fmt.Sprint(h.documents),
	}
}

// source is a file that is no test.
type source struct {
	pkg  string
	set  *token.FileSet
	file *ast.File
	text []byte
}

func (h *house) measure(root string) error {
	var list []source
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, module := os.Stat(filepath.Join(name, "go.mod"))
			if rel != "." && (rel == "bench" || module == nil || d.Name() == "testdata" || d.Name()[0] == '.') {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			h.tests += bytes.Count(text, []byte("\n"))
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		list = append(list, source{path.Dir(filepath.ToSlash(rel)), set, file, text})
		return err
	})
	if err != nil {
		return err
	}
	used := reached(list)
	for _, s := range list {
		if used[s.pkg] {
			h.file(s)
		} else {
			h.tests += bytes.Count(s.text, []byte("\n"))
		}
	}
	if len(h.functions) == 0 {
		return fmt.Errorf("%s has no functions", root)
	}
	return nil
}

// reached returns the packages of commands, and those that they import.
func reached(list []source) map[string]bool {
	packages, used := map[string]bool{}, map[string]bool{}
	for _, s := range list {
		packages[s.pkg] = true
	}
	var reach func(pkg string)
	reach = func(pkg string) {
		if used[pkg] {
			return
		}
		used[pkg] = true
		for _, s := range list {
			if s.pkg != pkg {
				continue
			}
			for _, i := range s.file.Imports {
				name := strings.Trim(i.Path.Value, `"`)
				for other := range packages {
					if strings.HasSuffix(name, "/"+other) {
						reach(other)
					}
				}
			}
		}
	}
	for _, s := range list {
		if s.file.Name.Name == "main" {
			reach(s.pkg)
		}
	}
	return used
}

func (h *house) file(s source) {
	pkg, set, f := s.pkg, s.set, s.file
	commented, imports := map[int]bool{}, map[int]bool{}
	mark := func(lines map[int]bool, n ast.Node) {
		for i := set.Position(n.Pos()).Line; i <= set.Position(n.End()).Line; i++ {
			lines[i] = true
		}
	}
	for _, c := range f.Comments {
		mark(commented, c)
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			mark(imports, g)
		}
	}
	number := 0
	for line := range bytes.Lines(s.text) {
		number++
		h.code++
		h.lines[pkg]++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		h.filled++
		if commented[number] {
			h.comments++
		}
		if !imports[number] && !bytes.HasPrefix(line, []byte("//")) && !ast.IsGenerated(f) {
			h.statements++
		}
	}
	h.files[pkg]++
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			h.functions = append(h.functions, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1)
			if d.Recv != nil {
				h.methods[pkg+"."+receiver(d.Recv.List[0].Type)]++
			} else if d.Name.Name == "init" {
				h.work++
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR && slices.ContainsFunc(v.Values, works) {
					h.work++
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		switch text := written(lit.Type); {
		case (text == "RunError" && pkg == "kernel/result" || text == "result.RunError") && pkg != "harness/runerr":
			h.errors++
		case text == "map[string]any" && pkg != "kernel/canon":
			h.documents++
		}
		return true
	})
}

// receiver is the name of the type that a method has.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		default:
			return written(e)
		}
	}
}

// written is a name or the type of a map as the source spells it; empty for other types.
func written(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return written(x.X) + "." + x.Sel.Name
	case *ast.MapType:
		return "map[" + written(x.Key) + "]" + written(x.Value)
	}
	return ""
}

// idle are calls that do next to nothing before main.
var idle = []string{"string", "errors.New", "make", "new", "len"}

// works says whether the value of a package variable is a call that does something. What
// stands in a function is called later.
func works(value ast.Expr) (found bool) {
	ast.Inspect(value, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			_, conversion := n.Fun.(*ast.ArrayType)
			found = found || !conversion && !slices.Contains(idle, written(n.Fun))
		}
		return !found
	})
	return found
}
