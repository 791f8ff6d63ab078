package hook

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/harness/agent"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/shellwords"
)

// Line returns the question about a line that starts in a folder beneath a root, as the hook
// of a client asks it.
func Line(line, root, dir string) (agent.Question, error) {
	root, err := filepath.EvalSymlinks(root)
	at := place{root, filepath.Join(root, dir)}
	return agent.Question{Asker: "exec", Actions: at.commands(line), Context: agent.Context{Line: line}}, err
}

// commands returns the run actions of a line of a shell that starts in at.cwd. A line that is
// not made of plain words is one command of a shell.
func (at place) commands(line string) []agent.Action {
	cwd := at.cwd
	split, ok := shellwords.Split(line)
	rooted := strings.HasPrefix(split.Dir, "/")
	if !ok || rooted && !filepath.IsAbs(split.Dir) { // only a shell knows where such a folder is on Windows
		split = shellwords.Line{Commands: []shellwords.Command{{Argv: []string{"sh", "-c", line}}}}
	}
	if rooted {
		cwd = split.Dir
	} else if split.Dir != "" {
		cwd += "/" + split.Dir
	}
	dir := at.path(cwd)
	if dir == "." {
		dir = ""
	}
	var list []agent.Action
	for _, c := range split.Commands {
		a := agent.Action{Kind: kernel.ActionRun, Argv: c.Argv, Cwd: dir}
		if c.Piped {
			a.Stdin = new(string)
		}
		list = append(list, a)
	}
	return list
}

// patched returns the writes of a patch in the form of apply_patch. Clients read such a patch
// leniently, so a line that could be a header is one. An addition to a file is its content.
func patched(patch string, at place) ([]agent.Action, error) {
	var list []agent.Action
	now := -1
	file := func(path string, tags ...string) {
		path = at.path(path)
		if now = slices.IndexFunc(list, func(a agent.Action) bool { return a.Path == path }); now < 0 {
			list, now = append(list, write(path, "")), len(list)
		}
		list[now].RiskTags = append(list[now].RiskTags, tags...)
	}
	for line := range strings.FieldsFuncSeq(patch, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if text, added := strings.CutPrefix(line, "+"); added || strings.HasPrefix(line, "-") {
			if added && now >= 0 {
				*list[now].Content += text + "\n"
			}
			continue
		}
		header := strings.TrimSpace(line)
		verb, path, _ := strings.Cut(header, ": ")
		switch verb {
		case "*** Add File", "*** Update File", "*** Move to":
			file(path)
		case "*** Delete File":
			file(path, "destructive")
		case "*** Begin Patch", "*** End Patch", "*** End of File":
		default:
			if strings.HasPrefix(header, "***") {
				return nil, errors.New("the patch has a line that is not known: " + header)
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the patch names no file")
	}
	return list, nil
}
