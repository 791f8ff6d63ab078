package verify

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// warned counts the warnings about one kind of change that a patch does not have.
type warned struct {
	odd func(path string) string

	named int
	cut   bool // a named path is truncated
	more  bool // a warning says that there are more
}

// checkWarnings compares the warnings of runner.json with the possible ones. An accepted
// execution with more than writes in its plan gives a warning for each empty folder, and
// for each removal under a path that no patch can have. The first hundred of each kind
// are named. A pack cannot prove that they are true.
func (s *strictLevel) checkWarnings(list []string, run *result.RunResult) {
	if list == nil {
		return
	}
	here := func(i int) string { return pack.At(pack.RunnerFile, "warnings", strconv.Itoa(i)) }
	switch {
	case len(list) == 0:
		s.fault("ST9", pack.At(pack.RunnerFile, "warnings"), "empty; a run without warnings does not have it")
		return
	case !run.Decision.Accepted:
		s.fault("ST9", pack.At(pack.RunnerFile, "warnings"), "an execution that was rejected has none")
		return
	case s.plan.whole && s.plan.files == len(s.plan.actions):
		s.fault("ST9", pack.At(pack.RunnerFile, "warnings"), "a plan that only writes files leaves nothing to warn of")
		return
	}
	filled := s.filled()
	kinds := map[evidence.Unpatched]*warned{
		evidence.EmptyFolder: {odd: func(p string) string { return s.oddFolder(p, filled, run.Policy.AllowedWriteRoots) }},
		evidence.Removal:     {odd: oddRemoval},
	}
	for i, text := range list {
		if i > 0 && list[i-1] == text {
			s.fault("ST9", here(i), "there twice")
		}
		if what := readWarning(kinds, text); what != "" {
			s.fault("ST9", here(i), "%s %s", pack.Quoted(text), what)
		}
	}
	for _, kind := range []evidence.Unpatched{evidence.EmptyFolder, evidence.Removal} {
		// Long paths are truncated, and equal ones are then listed once.
		if k := kinds[kind]; k.named > evidence.MaxWarned || k.more && (k.named == 0 || k.named < evidence.MaxWarned && !k.cut) {
			s.fault("ST9", pack.At(pack.RunnerFile, "warnings"), "%d say %q, where the first %d of more are named", k.named, kind.Words(), evidence.MaxWarned)
		}
	}
}

// readWarning reads one warning, and says what is wrong with it.
func readWarning(kinds map[evidence.Unpatched]*warned, text string) string {
	w, ok := evidence.ParseWarning(text)
	if !ok || w.More > 0 && kinds[w.Kind].more {
		return "is no warning of this program"
	}
	k := kinds[w.Kind]
	if w.More > 0 {
		k.more = true
		return ""
	}
	k.named++
	k.cut = k.cut || strings.HasSuffix(w.Path, `\u2026"`)
	return k.odd(w.Path)
}

// filled says whether the patch writes a file in a folder, at any depth.
func (s *strictLevel) filled() func(folder string) bool {
	var files []string // sorted, unless ST7 is broken
	if s.evidence != nil {
		for _, a := range s.evidence.ActionResults {
			if a.Action != pack.OpDelete {
				files = append(files, a.Path)
			}
		}
	}
	return func(folder string) bool {
		i, there := slices.BinarySearchFunc(files, folder+"/", canon.Compare)
		return there || i < len(files) && strings.HasPrefix(files[i], folder+"/")
	}
}

// oddFolder says why no accepted execution leaves this folder empty.
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

// oddRemoval says why no warning names this removal. The path in a warning is quoted,
// and the patch has every removal that a patch can have.
func oddRemoval(text string) string {
	path, err := strconv.Unquote(text)
	switch {
	case err != nil || strconv.QuoteToASCII(path) != text:
		return "is not quoted"
	case pack.PatchPath(path) && !strings.HasSuffix(path, "…"):
		return "is of a path that a patch can have"
	}
	return ""
}
