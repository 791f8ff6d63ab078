package specs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// kindOf returns the kind of a file of a suite, by its place.
func kindOf(file string) Kind {
	switch name := filepath.Base(file); {
	case name == "cases.json":
		return KindSuiteCases
	case name == "run.json":
		return KindSuiteRun
	case name == "manifest.json":
		return KindSuiteManifest
	case strings.HasSuffix(name, ".meta.json"):
		return KindSuiteFailureMeta
	}
	return KindSuiteCase
}

// TestSuiteFixtures: the schemas accept the cases of two suites and the directories that keep
// the contract, and refuse every document of the directories that do not.
func TestSuiteFixtures(t *testing.T) {
	root := rehearsal.NeedFixture(t, "agent-qa-toolkit")
	s, o := newSet(t), secondOpinion(t)
	read := 0
	for _, pattern := range []string{"*/cases.json", "minimal-v1/*/r1/*.json", "minimal-v1/*/r1/assets/*.json", "demo/runs/*/*.json", "demo/runs/*/demo/*.json"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			kind := kindOf(file)
			if filepath.Base(file) == "evaluation.json" {
				continue
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read++
			valid := !strings.Contains(pattern, "demo/runs")
			list, err := s.Validate(kind, value(t, string(src)))
			if err != nil {
				t.Fatal(err)
			}
			check(t, s, o, kind, value(t, string(src)), found(list))
			if (len(list) == 0) != valid {
				t.Errorf("%s is valid: %t: %q", strings.TrimPrefix(file, root), !valid, found(list))
			}
		}
	}
	if read < 28 {
		t.Errorf("only %d documents are read", read)
	}
}
