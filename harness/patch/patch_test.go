package patch

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// grown returns a folder with files. A text that begins with "-> " is the target of a
// symbolic link. A name with a slash at its end is a folder. "x:" before a text makes the
// file executable.
func grown(t *testing.T, things map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "tree")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range things {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		if err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(text, "-> ")
		content, executable := strings.CutPrefix(text, "x:")
		mode := fs.FileMode(0o644)
		if executable {
			mode = 0o755
		}
		switch {
		case link:
			err = os.Symlink(target, p)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		default:
			err = errors.Join(os.WriteFile(p, []byte(content), mode), os.Chmod(p, mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func creates(name, text string) pack.Operation {
	return pack.File(pack.OpCreate, name, []byte(text), false)
}

func modifies(name, old, text string) pack.Operation {
	o := pack.File(pack.OpModify, name, []byte(text), false)
	o.BeforeSHA256 = canon.Sum([]byte(old))
	return o
}

func deletes(name, old string) pack.Operation {
	return pack.Operation{Op: pack.OpDelete, Path: name, BeforeSHA256: canon.Sum([]byte(old))}
}

func deletesFolder(name string) pack.Operation {
	return pack.Operation{Op: pack.OpDelete, Path: name}
}

func runnable(o pack.Operation) pack.Operation { o.Executable = true; return o }

// planLines returns a plan as text, one line for each thing.
func planLines(p *Plan) string {
	var lines []string
	state := func(f *FileState) string {
		switch {
		case f == nil:
			return "-"
		case f.Executable:
			return fmt.Sprintf("%d,x", f.Size)
		}
		return fmt.Sprint(f.Size)
	}
	for _, s := range p.Steps {
		line := fmt.Sprintf("%s: %s to %s", s.Path, state(s.Before), state(s.After))
		if s.Folder {
			line = fmt.Sprintf("%s: folder of %d goes", s.Path, s.Entries)
		}
		lines = append(lines, line)
	}
	for _, f := range p.Refused {
		lines = append(lines, "refused "+f.Path+": "+f.Why)
	}
	for _, f := range p.Conflicts {
		lines = append(lines, "conflict "+f.Path+": "+f.Why)
	}
	return strings.Join(lines, "\n")
}

func mustPlan(t *testing.T, dir string, ops []pack.Operation, how Options) *Plan {
	t.Helper()
	p, err := NewPlan(dir, ops, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestPlanPatch: what each operation finds, and its effect, without and with Overwrite.
func TestPlanPatch(t *testing.T) {
	sum := func(s string) string { return string(canon.Sum([]byte(s))) }
	same := func(s string) [2]string { return [2]string{s, s} }
	for name, tc := range map[string]struct {
		things map[string]string
		op     pack.Operation
		want   [2]string
	}{
		"create, nothing":          {nil, creates("out/f", "new"), same("out/f: - to 3")},
		"create, the same":         {map[string]string{"out/f": "new"}, creates("out/f", "new"), same("")},
		"create, the same, x":      {map[string]string{"out/f": "x:new"}, runnable(creates("out/f", "new")), same("")},
		"create, empty":            {map[string]string{"out/f": ""}, creates("out/f", ""), same("")},
		"create, another mode":     {map[string]string{"out/f": "x:new"}, creates("out/f", "new"), [2]string{"conflict out/f: a file of that content stands there, and it can be executed", "out/f: 3,x to 3"}},
		"create, another mode, x":  {map[string]string{"out/f": "new"}, runnable(creates("out/f", "new")), [2]string{"conflict out/f: a file of that content stands there, and it cannot be executed", "out/f: 3 to 3,x"}},
		"create, a file":           {map[string]string{"out/f": "mine"}, creates("out/f", "new"), [2]string{"conflict out/f: a file stands there already, " + sum("mine"), "out/f: 4 to 3"}},
		"create, a folder":         {map[string]string{"out/f/": ""}, creates("out/f", "new"), same("conflict out/f: a folder stands there")},
		"create, a link in":        {map[string]string{"out/f": "-> g", "out/g": "new"}, creates("out/f", "new"), same("conflict out/f: a symbolic link stands there")},
		"create, a link out":       {map[string]string{"out/f": "-> /etc/passwd"}, creates("out/f", "new"), same("conflict out/f: a symbolic link stands there")},
		"create, a link nowhere":   {map[string]string{"out/f": "-> nowhere"}, creates("out/f", "new"), same("conflict out/f: a symbolic link stands there")},
		"create, below a link in":  {map[string]string{"out": "-> real", "real/": ""}, creates("out/f", "new"), same(`conflict out/f: a symbolic link stands at "out", above it`)},
		"create, below a link out": {map[string]string{"out": "-> /tmp"}, creates("out/f", "new"), same(`conflict out/f: a symbolic link stands at "out", above it`)},
		"create, below a file":     {map[string]string{"out": "x"}, creates("out/a/f", "new"), same(`conflict out/a/f: a file stands at "out", above it`)},

		"modify, as seen":      {map[string]string{"f": "old"}, modifies("f", "old", "newer"), same("f: 3 to 5")},
		"modify, done":         {map[string]string{"f": "newer"}, modifies("f", "old", "newer"), same("")},
		"modify, mode alone":   {map[string]string{"f": "old"}, runnable(modifies("f", "old", "old")), same("f: 3 to 3,x")},
		"modify, another":      {map[string]string{"f": "mine"}, modifies("f", "old", "newer"), [2]string{"conflict f: the file is " + sum("mine") + ", and the run saw " + sum("old"), "f: 4 to 5"}},
		"modify, nothing":      {nil, modifies("f", "old", "newer"), [2]string{"conflict f: nothing stands there, and the run saw a file", "f: - to 5"}},
		"modify, a folder":     {map[string]string{"f/": ""}, modifies("f", "old", "newer"), same("conflict f: a folder stands there")},
		"modify, a link":       {map[string]string{"f": "-> g", "g": "old"}, modifies("f", "old", "newer"), same("conflict f: a symbolic link stands there")},
		"modify, no hash":      {map[string]string{"f": "old"}, pack.File(pack.OpModify, "f", []byte("newer"), false), [2]string{"conflict f: a file stands there, " + sum("old") + ", and the run saw none", "f: 3 to 5"}},
		"modify, below a link": {map[string]string{"d": "-> e", "e/f": "old"}, modifies("d/f", "old", "newer"), same(`conflict d/f: a symbolic link stands at "d", above it`)},

		"delete, as seen":      {map[string]string{"f": "old"}, deletes("f", "old"), same("f: 3 to -")},
		"delete, done":         {nil, deletes("a/f", "old"), same("")},
		"delete, another":      {map[string]string{"f": "mine"}, deletes("f", "old"), [2]string{"conflict f: the file is " + sum("mine") + ", and the run saw " + sum("old"), "f: 4 to -"}},
		"delete, a folder":     {map[string]string{"f/": ""}, deletes("f", "old"), same("conflict f: a folder stands there")},
		"delete, a link":       {map[string]string{"f": "-> g"}, deletes("f", "old"), same("conflict f: a symbolic link stands there")},
		"delete, below a link": {map[string]string{"d": "-> e", "e/f": "old"}, deletes("d/f", "old"), same(`conflict d/f: a symbolic link stands at "d", above it`)},
		"folder goes, empty":   {map[string]string{"d/": ""}, deletesFolder("d"), same("d: folder of 0 goes")},
		"folder goes, done":    {nil, deletesFolder("d"), same("")},
		"folder goes, full":    {map[string]string{"d/a": "a", "d/e/b": "b", "d/l": "-> /etc"}, deletesFolder("d"), [2]string{"conflict d: the folder that the run deleted is not empty: it holds 4", "d: folder of 4 goes"}},
		"folder goes, a file":  {map[string]string{"d": "a"}, deletesFolder("d"), [2]string{"conflict d: a file stands there, " + sum("a") + ", and the run saw none", "d: 1 to -"}},
		"folder goes, a link":  {map[string]string{"d": "-> /etc"}, deletesFolder("d"), same("conflict d: a symbolic link stands there")},
		"folder goes, with git": {map[string]string{"d/.git/config": ""}, deletesFolder("d"), [2]string{
			"refused d/.git: \".git\" is a control path, and the patch deletes the folder \"d\"\nrefused d/.git/config: \".git\" is a control path, and the patch deletes the folder \"d\"\nconflict d: the folder that the run deleted is not empty: it holds 2",
			"d: folder of 2 goes\nrefused d/.git: \".git\" is a control path, and the patch deletes the folder \"d\"\nrefused d/.git/config: \".git\" is a control path, and the patch deletes the folder \"d\"",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := grown(t, tc.things)
			for i, want := range tc.want {
				if got := planLines(mustPlan(t, dir, []pack.Operation{tc.op}, Options{Overwrite: i == 1})); got != want {
					t.Errorf("overwrite %v: %s\nwhich should be\n%s", i == 1, got, want)
				}
			}
		})
	}
}

// TestPlanPatchFileBecomesFolder: a file that is deleted makes room for a folder.
func TestPlanPatchFileBecomesFolder(t *testing.T) {
	ops := []pack.Operation{deletes("x", "old"), creates("x/y", "new")}
	for text, want := range map[string]string{
		"old":  "x: 3 to -\nx/y: - to 3",
		"mine": "x/y: - to 3\nconflict x: the file is " + string(canon.Sum([]byte("mine"))) + ", and the run saw " + string(canon.Sum([]byte("old"))),
	} {
		if got := planLines(mustPlan(t, grown(t, map[string]string{"x": text}), ops, Options{})); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := planLines(mustPlan(t, grown(t, map[string]string{"x/y": "new"}), ops, Options{})); got != "" {
		t.Errorf("done: %s", got)
	}
	if got := planLines(mustPlan(t, grown(t, map[string]string{"x": "-> z", "z/": ""}), ops, Options{Overwrite: true})); !strings.Contains(got, "conflict x: a symbolic link") || !strings.Contains(got, "conflict x/y: ") {
		t.Errorf("a link: %s", got)
	}
}

// TestPlanPatchForbidden: paths that no patch may have, whatever is at the path.
func TestPlanPatchForbidden(t *testing.T) {
	for name, tc := range map[string]struct {
		path      string
		workflows bool
		within    string
		keep      string
		want      string
	}{
		"git":                 {path: ".git/config", want: `".git" is a control path`},
		"git below":           {path: "a/.GIT/hooks/x", want: `".git" is a control path`},
		"git, allowed":        {path: ".git/config", workflows: true, want: `".git" is a control path`},
		"own":                 {path: ".fiador/policy/x.rego", workflows: true, want: `".fiador" is a control path`},
		"workflow":            {path: ".github/workflows/ci.yml", want: `".github/workflows" is a control path`},
		"workflow, allowed":   {path: ".github/workflows/ci.yml", workflows: true},
		"others, allowed":     {path: ".gitlab-ci.yml", workflows: true},
		"git in a workflow":   {path: ".github/workflows/.git/config", workflows: true, want: `".git" is a control path`},
		"workflow below":      {path: "a/.github/workflows/ci.yml", workflows: true, want: `".github/workflows" is a control path`},
		"workflow, short":     {path: "github~1/workflows/ci.yml", workflows: true, want: `".github/workflows" is a control path`},
		"workflow, case":      {path: ".github/Workflows/ci.yml", workflows: true, want: `".github/workflows" is a control path`},
		"hooks":               {path: ".husky/pre-commit", workflows: true, want: `".husky" is a control path`},
		"in .github":          {within: ".github", path: "workflows/ci.yml", want: `".github/workflows" is a control path`},
		"in .github, allowed": {within: ".github", path: "workflows/ci.yml", workflows: true, want: `".github/workflows" is a control path`},
		"in .git":             {within: ".git/hooks", path: "pre-commit", want: `the folder lies in a control path, ".git"`},
		"the pack":            {path: "p/run.json", keep: "p", want: "the pack itself is there"},
		"above the pack":      {path: "a", keep: "a/p", want: "the pack itself is there"},
		"beside the pack":     {path: "pp", keep: "p"},
		"absolute":            {path: "/etc/x", want: "the path cannot be used (path_absolute)"},
		"out":                 {path: "../x", want: "the path cannot be used (path_traversal)"},
		"device":              {path: "out/nul", want: "the path cannot be used (path_form)"},
		"line end":            {path: "out/a\nb", want: "the path cannot be used (path_character)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := grown(t, map[string]string{tc.within + "/": ""})
			how := Options{Workflows: tc.workflows, Overwrite: true}
			if tc.keep != "" {
				how.Keep = []string{tc.keep}
			}
			p := mustPlan(t, filepath.Join(dir, tc.within), []pack.Operation{creates(tc.path, "x")}, how)
			got := ""
			if len(p.Refused) > 0 {
				got = p.Refused[0].Why
			}
			if got != tc.want || (len(p.Steps) > 0) != (tc.want == "") {
				t.Errorf("%q, %d steps", got, len(p.Steps))
			}
		})
	}
	for _, w := range WorkflowPaths() {
		if p := mustPlan(t, grown(t, nil), []pack.Operation{creates(w, "x")}, Options{}); len(p.Refused) != 1 {
			t.Errorf("%s is no control path", w)
		}
	}
}

// TestPlanPatchOrder: everything is in the order of paths.
func TestPlanPatchOrder(t *testing.T) {
	dir := grown(t, map[string]string{"z": "mine", "a": "mine", "gone": "old"})
	ops := []pack.Operation{deletes("gone", "old"), creates("b", "1"), creates("\U0001f600", "2"), creates("\ufb00", "3"), creates("z", "n"), creates("a", "n"), creates("c/.git", ""), creates("b2/.git", "")}
	p := mustPlan(t, dir, ops, Options{})
	var got []string
	for _, s := range p.Steps {
		got = append(got, s.Path)
	}
	for _, f := range slices.Concat(p.Refused, p.Conflicts) {
		got = append(got, f.Path)
	}
	if want := "b gone \U0001f600 \ufb00 b2/.git c/.git a z"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
	if c, m, d := p.Counts(); c != 3 || m != 0 || d != 1 {
		t.Errorf("%d, %d, %d", c, m, d)
	}
}

func TestPlanPatchDamaged(t *testing.T) {
	text := base64.StdEncoding.EncodeToString([]byte("x")) + "!"
	_, err := NewPlan(grown(t, nil), []pack.Operation{{Op: pack.OpCreate, Path: "a", Content: &text, Encoding: "base64"}}, Options{})
	var re *pack.ReadError
	if !errors.As(err, &re) {
		t.Errorf("%v", err)
	}
	if _, err := NewPlan(filepath.Join(t.TempDir(), "nowhere"), nil, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestAcceptedPatch(t *testing.T) {
	for run, want := range map[string]string{
		`{"kernel_result_kind":"REFUSE","decision":{"accepted":false},"execution":null}`:  "the run was not allowed: its outcome is REFUSE",
		`{"kernel_result_kind":"CLARIFY","decision":{"accepted":false},"execution":null}`: "the run was not allowed: its outcome is CLARIFY",
		`{"kernel_result_kind":"BUNDLE","decision":{"accepted":true},"execution":null}`:   "the run was planned and not executed, so it has no files",
		`{"kernel_result_kind":"BUNDLE","decision":{"accepted":true}}`:                    "the run was planned and not executed, so it has no files",
		`{"kernel_result_kind":"BUNDLE","decision":{"accepted":false},"execution":{}}`:    "the execution was rejected",
		`{"kernel_result_kind":"BUNDLE","decision":{},"execution":{}}`:                    "the execution was rejected",
		`{"kernel_result_kind":"BUNDLE","execution":{}}`:                                  "the execution was rejected",
		`{"decision":{"accepted":true},"execution":{}}`:                                   "the run was not allowed: its outcome is ",
	} {
		p := pack.Of(map[string][]byte{pack.RunFile: []byte(run), pack.PatchFile: []byte(`{"operations":[]}`)})
		patch, err := Accepted(p)
		var no *NotAcceptedError
		if !errors.As(err, &no) || no.Why != want || patch != nil {
			t.Errorf("%s: %v", run, err)
		}
	}
	sound := `{"kernel_result_kind":"BUNDLE","decision":{"accepted":true},"execution":{}}`
	if patch, err := Accepted(pack.Of(map[string][]byte{pack.RunFile: []byte(sound)})); patch != nil || err != nil {
		t.Errorf("without a patch: %v, %v", patch, err)
	}
	for _, run := range []string{"", "[", `{"decision":7}`} {
		if _, err := Accepted(pack.Of(map[string][]byte{pack.RunFile: []byte(run)})); err == nil {
			t.Errorf("%q is accepted", run)
		}
	}
}
