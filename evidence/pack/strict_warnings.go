package pack

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// maxWarned is how many paths warnings name of one kind.
const maxWarned = 100

// warned is what warnings say of one kind of thing that a patch does not have.
type warned struct {
	before string // the words ahead of a path
	many   string // what more of them are called
	odd    func(path string) string

	named int
	cut   bool   // a path that is named is cut
	more  string // the warning that there are more
}

// checkWarnings holds the warnings of runner.json against those that are given: of an
// accepted execution whose plan does more than write files, for each folder that was left
// empty, and each removal under a path that no patch can have. Of each the first hundred
// are named. Whether they are true the pack does not tell.
func (s *strictLevel) checkWarnings(list []string, run *result.RunResult) {
	if list == nil {
		return
	}
	here := func(i int) string { return at(RunnerFile, "warnings", strconv.Itoa(i)) }
	switch {
	case len(list) == 0:
		s.fault("ST9", at(RunnerFile, "warnings"), "empty; a run without warnings does not have it")
		return
	case !run.Decision.Accepted:
		s.fault("ST9", at(RunnerFile, "warnings"), "an execution that was rejected has none")
		return
	case s.plan.whole && s.plan.files == len(s.plan.actions):
		s.fault("ST9", at(RunnerFile, "warnings"), "a plan that only writes files leaves nothing to warn of")
		return
	}
	filled := s.filled()
	kinds := []*warned{
		{before: "the empty folder ", many: " more empty folders", odd: func(p string) string { return s.oddFolder(p, filled, run.Policy.AllowedWriteRoots) }},
		{before: "the removal of ", many: " more removals", odd: oddRemoval},
	}
	for i, text := range list {
		if i > 0 && list[i-1] == text {
			s.fault("ST9", here(i), "there twice")
		}
		if what := readWarning(kinds, text); what != "" {
			s.fault("ST9", here(i), "%s %s", quoted(text), what)
		}
	}
	for _, k := range kinds {
		// Long paths are cut, and what is then the same stands once.
		if k.named > maxWarned || k.more != "" && (k.named == 0 || k.named < maxWarned && !k.cut) {
			s.fault("ST9", at(RunnerFile, "warnings"), "%d say %q, where the first %d of more are named", k.named, strings.TrimSpace(k.before), maxWarned)
		}
	}
}

// readWarning reads one warning, and says what is wrong with it.
func readWarning(kinds []*warned, text string) string {
	for _, k := range kinds {
		if path, ok := strings.CutPrefix(text, "the patch does not have "+k.before); ok {
			k.named++
			k.cut = k.cut || strings.HasSuffix(path, `\u2026"`)
			return k.odd(path)
		}
		number, ok := strings.CutPrefix(strings.TrimSuffix(text, k.many), "the patch does not have these, and ")
		if n, err := strconv.Atoi(number); ok && strings.HasSuffix(text, k.many) && err == nil && n > 0 && strconv.Itoa(n) == number && k.more == "" {
			k.more = text
			return ""
		}
	}
	return "is no warning of this program"
}

// filled says whether a folder has a file that the patch puts into place, at any depth.
func (s *strictLevel) filled() func(folder string) bool {
	var files []string // sorted, or ST7 is broken
	if s.evidence != nil {
		for _, a := range s.evidence.ActionResults {
			if a.Action != OpDelete {
				files = append(files, a.Path)
			}
		}
	}
	return func(folder string) bool {
		i, there := slices.BinarySearchFunc(files, folder+"/", canon.Compare)
		return there || i < len(files) && strings.HasPrefix(files[i], folder+"/")
	}
}

// oddFolder says why no execution that is accepted leaves this folder empty.
func (s *strictLevel) oddFolder(path string, filled func(string) bool, roots []string) string {
	above := func(root string) bool { return kernel.Beneath(root, path) }
	switch what := s.paths.wrong(path); {
	case what != "":
		return what
	case filled(path):
		return "is of a folder that is not empty"
	case !beneath(path, roots) && !slices.ContainsFunc(roots, above):
		return "lies beneath no write root of the policy"
	}
	return ""
}

// oddRemoval says why no warning has this removal: it is quoted, and the patch has those
// that a patch can have.
func oddRemoval(text string) string {
	path, err := strconv.Unquote(text)
	switch {
	case err != nil || strconv.QuoteToASCII(path) != text:
		return "is not quoted"
	case PatchPath(path) && !strings.HasSuffix(path, "…"):
		return "is of a path that a patch can have"
	}
	return ""
}
