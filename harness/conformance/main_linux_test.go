package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// tool is the safe-run binary, built from this source.
var tool string

func TestMain(m *testing.M) { os.Exit(withTool(m)) }

func withTool(m *testing.M) int {
	dir, err := os.MkdirTemp("", "conformance-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tool = filepath.Join(dir, "safe-run")
	if out, err := exec.Command("go", "build", "-o", tool, "../../cmd/safe-run").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building safe-run: %v\n%s", err, out)
		return 1
	}
	return rehearsal.Tests{M: m}.Run()
}

// environment returns the variables that the command gives a program.
func environment() []string { return []string{"PATH=" + os.Getenv("PATH"), "SAFE_RUN_BIN=" + tool} }

// folder returns a temporary folder by the path that pwd -P prints.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// embedded returns the vectors of this version whose ids begin with one of the prefixes.
func embedded(t *testing.T, prefixes ...string) []Vector {
	t.Helper()
	suite, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	var list []Vector
	for _, v := range suite.Vectors {
		for _, p := range prefixes {
			if strings.HasPrefix(v.ID, "safe-run-"+p) {
				list = append(list, v)
				break
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("no vector begins with any of %q", prefixes)
	}
	return list
}

// parsed returns the vectors of the text of a section safe_run.
func parsed(t *testing.T, section string) []Vector {
	t.Helper()
	suite, err := Parse("test.json", []byte(`{"version": "1.0", "m0_contract_version": "v0.1.0", "vectors": {"safe_run": `+section+`}}`), os.DirFS(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return suite.Vectors
}

// run returns the verdicts as text, one line for each fault, without passed vectors.
func run(t *testing.T, r Runner, vectors []Vector) string {
	t.Helper()
	if r.Dir == "" {
		r.Dir = folder(t)
	}
	if r.Env == nil {
		r.Env = environment()
	}
	var b strings.Builder
	seen := 0
	err := r.Run(t.Context(), vectors, func(v Verdict) {
		if v.Vector.ID != vectors[seen].ID {
			t.Errorf("the verdict on %s came in place %d", v.Vector.ID, seen)
		}
		seen++
		for _, f := range v.Faults {
			fmt.Fprintf(&b, "%s: %s | want %q | got %q\n", v.Vector.ID, f.What, f.Want, f.Got)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(vectors) {
		t.Errorf("%d verdicts on %d vectors", seen, len(vectors))
	}
	left, err := os.ReadDir(r.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind in the folder: %v, %v", left, err)
	}
	return b.String()
}

// clocked are the vectors of which a time of safe-run or of the vector decides: how long a command
// has after a signal, how long streams are held, which outputs count as one.
var clocked = []string{
	"safe-run-003", "safe-run-301", "safe-run-302", "safe-run-303", "safe-run-304", "safe-run-305", "safe-run-306", "safe-run-307",
	"safe-run-309", "safe-run-310", "safe-run-311", "safe-run-312", "safe-run-313", "safe-run-405", "safe-run-501",
}

// stalled says whether the faults of a vector show that such a time has passed: a command was
// killed after five seconds, streams were held for two, the program did not end, or two outputs
// counted as one. The log of 307 does not stand in its faults.
func stalled(id, faults string) bool {
	if !slices.Contains(clocked, id) {
		return false
	}
	for _, sign := range []string{"safe-run killed: after=5s", "safe-run output held: ", " did not end within ", `safe-run-307: exit code | want "3" | got "143"`} {
		if strings.Contains(faults, sign) {
			return true
		}
	}
	const event = `"\[SEQ=\d+\]\[STD(OUT|ERR)\] (one|two|three)\\n"`
	unordered := regexp.MustCompile(`^(safe-run-501: [a-z: ]*log differs at line \d+ \| want ` + event + ` \| got ` + event + `\n)+$`)
	return id == "safe-run-501" && unordered.MatchString(faults)
}

// runPatiently is run. Vectors of which a time has decided are run again, by themselves.
func runPatiently(t *testing.T, r Runner, vectors []Vector) (faults string) {
	t.Helper()
	rehearsal.Again(t, 3, func(int) string {
		found := run(t, r, vectors)
		of := map[string]string{}
		for line := range strings.Lines(found) {
			id, _, _ := strings.Cut(line, ": ")
			of[id] += line
		}
		vectors = slices.DeleteFunc(slices.Clone(vectors), func(v Vector) bool { return of[v.ID] == "" })
		if slices.ContainsFunc(vectors, func(v Vector) bool { return !stalled(v.ID, of[v.ID]) }) {
			faults = found
			return ""
		}
		return found
	})
	return faults
}

// script writes an executable script of sh and returns its argv.
func script(t *testing.T, text string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	if err := writeProgram(name, "#!/bin/sh\n"+text+"\n", 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{name}
}

// TestStalled: a log that lacks something is no sign of a stall.
func TestStalled(t *testing.T) {
	line := func(id string, f Fault) string {
		return fmt.Sprintf("%s: %s | want %q | got %q\n", id, f.What, f.Want, f.Got)
	}
	log := func(id, events, got string) string {
		head := strings.Repeat("=", maxLine) + "\n"
		return line(id, difference("log", head+events, head+got))
	}
	const one, two, exit = "[SEQ=2][STDOUT] one\n", "[SEQ=3][STDERR] two\n", "[SEQ=4][META] safe-run exit: code=1\n"
	for _, c := range []struct {
		id, faults string
		want       bool
	}{
		{"safe-run-501", log("safe-run-501", one+two+exit, "[SEQ=2][STDERR] two\n[SEQ=3][STDOUT] one\n"+exit), true},
		{"safe-run-501", log("safe-run-501", one+two+exit, one+exit), false},
		{"safe-run-301", log("safe-run-301", exit, "[SEQ=4][META] safe-run killed: after=5s\n"+exit), true},
		{"safe-run-301", log("safe-run-301", one+exit, exit), false},
		{"safe-run-101", log("safe-run-101", exit, "[SEQ=4][META] safe-run killed: after=5s\n"+exit), false},
		{"safe-run-003", line("safe-run-003", Fault{What: "the program did not end within 30s and was killed"}), true},
	} {
		if got := stalled(c.id, c.faults); got != c.want {
			t.Errorf("%t: %s", got, c.faults)
		}
	}
}
