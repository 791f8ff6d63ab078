//go:build amd64 || arm64

package harness_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel/result"
)

// TestPromoteElsewhere: a folder other than the work folder takes the whole result if it
// fits, and otherwise nothing. What apply refuses is refused too, and the error names it.
func TestPromoteElsewhere(t *testing.T) {
	seen := map[string]string{"out/old": "old\n", "out/gone": "gone\n", "out/d/x": "x\n", "out/was": "file\n"}
	with := func(name, text string) map[string]string {
		things := map[string]string{name: text}
		for name, text := range seen {
			if _, ok := things[name]; !ok {
				things[name] = text
			}
		}
		return things
	}
	const applied = "out/e/\nout/n/f=new\nout/old=old,new\nout/was/g=g"
	for _, isolation := range harnesstest.Tiers {
		x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
		work, state := t.TempDir(), t.TempDir()
		for name, text := range seen {
			treetest.Put(t, filepath.Join(work, name), text)
		}
		rep := x.Run(t, intents.Actions(intents.Sh("cd out; echo new >>old; rm -r gone d was; mkdir e n was; echo new >n/f; echo g >was/g")), harness.Folders{Work: work})
		bare := x.Run(t, intents.Actions(intents.Sh("mkdir -p out/b/objects out/b/refs; echo ref: x >out/b/HEAD")), harness.Folders{})
		for name, tc := range map[string]struct {
			rep    harness.Report
			things map[string]string // a text that begins with -> is a link, a text that is / a folder
			at     string            // the promoted folder among these entries; empty: their parent
			fault  string            // empty: the result is applied
		}{
			"nothing there":      {rep: rep},
			"what was seen":      {rep: rep, things: seen},
			"done already":       {rep: rep, things: map[string]string{"out/old": "old\nnew\n", "out/n/f": "new\n", "out/e": "/"}},
			"a link above":       {rep, map[string]string{"away": "/", "out": "->away"}, "", `"out/e": a symbolic link stands at "out", above it`},
			"a link":             {rep, with("out/n/f", "->../old"), "", `"out/n/f": a symbolic link stands there`},
			"a link as a folder": {rep, with("out/n", "->d"), "", `"out/n": a symbolic link stands there`},
			"a file, changed":    {rep, with("out/old", "mine\n"), "", `"out/old": the file is sha256:`},
			"a file, new":        {rep, with("out/n/f", "mine\n"), "", `"out/n/f": a file stands there already, sha256:`},
			"a file as a folder": {rep, with("out/n", "mine\n"), "", `"out/n": a file stands there, sha256:`},
			"a file that goes":   {rep, with("out/gone", "mine\n"), "", `"out/gone": the file is sha256:`},
			"a file, a folder":   {rep, with("out/was", "mine\n"), "", `"out/was": the file is sha256:`},
			"a folder that goes": {rep, with("out/d/y", "mine\n"), "", `"out/d": the folder does not hold what the run saw in it: it holds 2`},
			"a git directory":    {rep, map[string]string{"HEAD": "x\n", "objects": "/", "refs": "/"}, "", `"out/old": the folder is a git directory, or becomes one`},
			"one above":          {rep, map[string]string{"HEAD": "x\n", "objects": "/", "refs": "/", "in": "/"}, "in", `".": the folder lies in a git directory, "`},
			"one that is made":   {bare, nil, "", `"out/b/HEAD": "out/b" is a git directory, or becomes one`},
			"a control path":     {rep, map[string]string{".github/workflows": "/"}, ".github/workflows", `".": the folder lies in a control path, "`},
		} {
			t.Run(string(isolation)+" "+name, func(t *testing.T) {
				site := t.TempDir()
				for name, text := range tc.things {
					place(t, filepath.Join(site, name), text)
				}
				before := promoted(t, site)
				err := tc.rep.Execution.Promote(t.Context(), state, filepath.Join(site, tc.at), nil)
				if list, err := os.ReadDir(state); err != nil || len(list) > 0 {
					t.Errorf("journals left: %v (%v)", list, err)
				}
				got, want := promoted(t, site), applied
				if tc.fault != "" {
					want = before
				}
				if got != want {
					t.Errorf("there is\n%s\nand not\n%s", got, want)
				}
				if tc.fault == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				var re *result.RunError
				if !errors.As(err, &re) || re.Code != result.CodeEvidence || re.Hint == "" || !strings.Contains(re.Message, tc.fault) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// place makes a file with the text. A text that begins with "->" makes a link to the rest
// of the text, and "/" makes a folder.
func place(t *testing.T, name, text string) {
	t.Helper()
	target, link := strings.CutPrefix(text, "->")
	if !link && text != "/" {
		treetest.Put(t, name, text)
		return
	}
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	switch {
	case err != nil:
	case link:
		err = os.Symlink(target, name)
	default:
		err = os.MkdirAll(name, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// promoted lists the content of a folder: files, links, and empty folders.
func promoted(t *testing.T, dir string) string {
	t.Helper()
	var lines []string
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			within := promoted(t, name)
			if within == "" {
				lines = append(lines, e.Name()+"/")
				continue
			}
			for line := range strings.SplitSeq(within, "\n") {
				lines = append(lines, e.Name()+"/"+line)
			}
		case e.Type().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, e.Name()+"="+strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ","))
		default:
			target, err := os.Readlink(name)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, e.Name()+"->"+target)
		}
	}
	return strings.Join(lines, "\n")
}
