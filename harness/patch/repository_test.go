package patch

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
)

// TestPatchGitDirectories: nothing is put into a folder that git takes for the inside of a
// repository, or taken from it. This holds in whatever way the tree and the patch together
// make the folder.
func TestPatchGitDirectories(t *testing.T) {
	bare := func(folder string) []pack.Operation {
		return []pack.Operation{
			creates(folder+"HEAD", "ref: refs/heads/main\n"), creates(folder+"config", "[core]\n"),
			creates(folder+"objects/keep", ""), creates(folder+"refs/keep", ""),
		}
	}
	for name, tc := range map[string]struct {
		tree map[string]string
		dir  string // beneath the tree
		how  Options
		ops  []pack.Operation
		want string // refused paths
	}{
		"created":             {ops: append(bare("docs/"), creates("docs/sub/a", ""), creates("a", "")), want: "docs/HEAD docs/config docs/objects/keep docs/refs/keep docs/sub/a"},
		"created at the top":  {ops: append(bare(""), creates("a/b", "")), want: "HEAD a/b config objects/keep refs/keep"},
		"deep":                {ops: bare("a/b/c/"), want: "a/b/c/HEAD a/b/c/config a/b/c/objects/keep a/b/c/refs/keep"},
		"with commondir":      {ops: []pack.Operation{creates("w/HEAD", ""), creates("w/commondir", "../x")}, want: "w/HEAD w/commondir"},
		"in another case":     {ops: []pack.Operation{creates("Docs/head", ""), creates("docs/Objects/a", ""), creates("DOCS/ref\u017f", "")}, want: "DOCS/ref\u017f Docs/head docs/Objects/a"},
		"the rest of one":     {tree: map[string]string{"docs/HEAD": "", "docs/objects/": ""}, ops: []pack.Operation{creates("docs/refs/a", ""), creates("docs/config", "")}, want: "docs/config docs/refs/a"},
		"of both, case aside": {tree: map[string]string{"Docs/head": "", "docs/refs/": ""}, ops: []pack.Operation{creates("DOCS/objects/a", "")}, want: "DOCS/objects/a"},
		"links":               {tree: map[string]string{"docs/HEAD": "-> x", "docs/objects": "-> y", "docs/refs": "-> z"}, ops: []pack.Operation{creates("docs/config", "")}, want: "docs/config"},
		"there already": {
			tree: map[string]string{"b.git/HEAD": "", "b.git/objects/": "", "b.git/refs/": "", "b.git/config": "old"},
			ops:  []pack.Operation{creates("b.git/hooks/post-update", ""), modifies("b.git/config", "old", "new"), deletes("b.git/HEAD", ""), creates("c", "")},
			want: "b.git/HEAD b.git/config b.git/hooks/post-update",
		},
		"the folder itself":   {tree: map[string]string{"HEAD": "", "objects/": "", "refs/": ""}, ops: []pack.Operation{creates("hooks/post-update", "")}, want: "hooks/post-update"},
		"above the folder":    {tree: map[string]string{"HEAD": "", "objects/": "", "refs/": "", "hooks/": ""}, dir: "hooks", ops: []pack.Operation{creates("post-update", "")}, want: "."},
		"far above":           {tree: map[string]string{"HEAD": "", "commondir": "", "hooks/x/y/": ""}, dir: "hooks/x/y", ops: []pack.Operation{creates("a", "")}, want: "."},
		"removed":             {tree: map[string]string{"d/b/HEAD": "", "d/b/objects/": "", "d/b/refs/": ""}, how: Options{Overwrite: true}, ops: []pack.Operation{deletesFolder("d")}, want: "d"},
		"removed, and itself": {tree: map[string]string{"b/HEAD": "", "b/objects/": "", "b/refs/": ""}, how: Options{Overwrite: true}, ops: []pack.Operation{deletesFolder("b")}, want: "b"},

		"HEAD alone":                  {tree: map[string]string{"docs/objects/": ""}, ops: []pack.Operation{creates("docs/HEAD", ""), creates("docs/a", "")}},
		"no HEAD":                     {ops: []pack.Operation{creates("objects/a", ""), creates("refs/a", ""), creates("commondir", "")}},
		"apart":                       {ops: []pack.Operation{creates("a/HEAD", ""), creates("b/objects/a", ""), creates("b/refs/a", "")}},
		"beside one":                  {tree: map[string]string{"b.git/HEAD": "", "b.git/objects/": "", "b.git/refs/": ""}, ops: []pack.Operation{creates("a", ""), creates("b.gitx/a", "")}},
		"a link to one":               {tree: map[string]string{"b/HEAD": "", "b/objects/": "", "b/refs/": "", "l": "-> b"}, ops: []pack.Operation{creates("a", "")}},
		"what is removed is not left": {tree: map[string]string{"a/HEAD": "x", "a/objects/": ""}, ops: []pack.Operation{deletes("a/HEAD", "x"), creates("a/b", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(grown(t, tc.tree), tc.dir)
			p := mustPlan(t, dir, tc.ops, tc.how)
			var got []string
			for _, f := range p.Refused {
				got = append(got, f.Path)
				if !strings.Contains(f.Why, "git directory") {
					t.Errorf("%s: %s", f.Path, f.Why)
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("refused %q, want %q", got, tc.want)
			}
			if !slices.IsSortedFunc(p.Refused, func(a, b Fault) int { return strings.Compare(a.Path, b.Path) }) {
				t.Errorf("out of order: %q", got)
			}
			if len(p.Conflicts) > 0 && tc.want == "" {
				t.Errorf("conflicts %v", p.Conflicts)
			}
		})
	}
}
