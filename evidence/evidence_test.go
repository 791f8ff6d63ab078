package evidence

import (
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

func end(set func(*End)) *End {
	e := End{Argv: []string{"x"}, Stdout: Stream{SHA256: sha256.Sum256(nil)}, Stderr: Stream{SHA256: sha256.Sum256(nil)}}
	set(&e)
	return &e
}

// TestJudge tests the table of the package comment: the exit code and the reasons of each
// end, and which of several ends counts.
func TestJudge(t *testing.T) {
	exit := func(n int) *End { return end(func(e *End) { e.Code = n }) }
	signal := func(n int) *End { return end(func(e *End) { e.Signal = n }) }
	for _, tc := range []struct {
		name    string
		command *End
		reasons []string
		code    int
		want    []string
	}{
		{name: "nothing ran", code: 0},
		{name: "nothing ran and a file was not written", reasons: []string{"OUTPUT_KIND out/a"}, code: 125, want: []string{"OUTPUT_KIND out/a"}},
		{name: "success", command: exit(0), code: 0},
		{name: "exit 1", command: exit(1), code: 1, want: []string{"EXIT 1"}},
		{name: "exit 125 by itself", command: exit(125), code: 125, want: []string{"EXIT 125"}},
		{name: "exit 126 by itself", command: exit(126), code: 126, want: []string{"EXIT 126"}},
		{name: "exit 127 by itself", command: exit(127), code: 127, want: []string{"EXIT 127"}},
		{name: "exit 137 by itself", command: exit(137), code: 137, want: []string{"EXIT 137"}},
		{name: "exit 143 by itself", command: exit(143), code: 143, want: []string{"EXIT 143"}},
		{name: "exit 255", command: exit(255), code: 255, want: []string{"EXIT 255"}},
		{name: "hangup", command: signal(1), code: 129, want: []string{"SIGNAL 1"}},
		{name: "killed by itself", command: signal(9), code: 137, want: []string{"SIGNAL 9"}},
		{name: "terminated by itself", command: signal(15), code: 143, want: []string{"SIGNAL 15"}},
		{name: "the last signal", command: signal(64), code: 192, want: []string{"SIGNAL 64"}},

		{name: "timeout", command: end(func(e *End) { e.TimedOut, e.Signal = true, 15 }), code: 143, want: []string{"TIMEOUT"}},
		{name: "timeout that was killed", command: end(func(e *End) { e.TimedOut, e.Signal = true, 9 }), code: 143, want: []string{"TIMEOUT"}},
		{name: "timeout that ended well", command: end(func(e *End) { e.TimedOut = true }), code: 143, want: []string{"TIMEOUT"}},
		{name: "timeout with a code", command: end(func(e *End) { e.TimedOut, e.Code = true, 3 }), code: 143, want: []string{"TIMEOUT"}},
		{name: "out of memory", command: end(func(e *End) { e.OutOfMemory, e.Signal = true, 9 }), code: 137, want: []string{"OOM"}},
		{name: "out of memory with a code", command: end(func(e *End) { e.OutOfMemory, e.Code = true, 1 }), code: 137, want: []string{"OOM"}},
		{name: "survived what was out of memory", command: end(func(e *End) { e.OutOfMemory = true }), code: 0},
		{name: "out of memory before the timeout", command: end(func(e *End) { e.OutOfMemory, e.TimedOut, e.Signal = true, true, 9 }), code: 137, want: []string{"OOM"}},
		{name: "out of memory, time over, ended well", command: end(func(e *End) { e.OutOfMemory, e.TimedOut = true, true }), code: 143, want: []string{"TIMEOUT"}},
		{name: "not found", command: end(func(e *End) { e.NotFound, e.Code = true, 127 }), code: 127, want: []string{"NOT_FOUND"}},
		{name: "not executable", command: end(func(e *End) { e.NotExecutable, e.Code = true, 126 }), code: 126, want: []string{"NOT_EXECUTABLE"}},

		{name: "a success that breaks a limit", command: exit(0), reasons: []string{"OUTPUT_LIMIT"}, code: 125, want: []string{"OUTPUT_LIMIT"}},
		{name: "a failure that breaks a limit", command: exit(4), reasons: []string{"OUTPUT_LIMIT"}, code: 4, want: []string{"EXIT 4", "OUTPUT_LIMIT"}},
		{name: "reasons are sorted and stand once", command: exit(0), reasons: []string{"WRITE_OUTSIDE_ROOT b", "OUTPUT_LIMIT", "WRITE_OUTSIDE_ROOT a", "OUTPUT_LIMIT"},
			code: 125, want: []string{"OUTPUT_LIMIT", "WRITE_OUTSIDE_ROOT a", "WRITE_OUTSIDE_ROOT b"}},
		{name: "reasons are sorted by code unit", command: exit(0), reasons: []string{"OUTPUT_MISSING \uffee", "OUTPUT_MISSING \U0001f600", "OUTPUT_MISSING z"},
			code: 125, want: []string{"OUTPUT_MISSING z", "OUTPUT_MISSING \U0001f600", "OUTPUT_MISSING \uffee"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Observed{Command: tc.command, Reasons: slices.Clone(tc.reasons)}
			code, reasons := o.Judge()
			if code != tc.code || !slices.Equal(reasons, tc.want) {
				t.Errorf("exit code %d, reasons %q, want %d, %q", code, reasons, tc.code, tc.want)
			}
			if tc.command != nil && tc.reasons == nil && tc.command.Failed() != (tc.code != 0) {
				t.Errorf("failed: %v", tc.command.Failed())
			}
			if !slices.Equal(o.Reasons, tc.reasons) {
				t.Errorf("what was observed is now %q", o.Reasons)
			}
		})
	}
}

var (
	bundleHash = canon.Sum([]byte("bundle\n"))
	strictly   = kernel.PolicyProfile{
		Name: "p", TimeoutMS: 1000, MaxOutputFiles: 1, MaxTotalOutputBytes: 1024,
		AllowedCommands: []string{"node"}, AllowedWriteRoots: []string{"out"},
	}
)

func execution(t *testing.T, bundle canon.ContentHash, policy kernel.PolicyProfile, o Observed) kernel.Execution {
	t.Helper()
	e, err := Execution(bundle, policy, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestExecutionWithoutCommand: an execution without a command has an empty command with
// exit code 0.
func TestExecutionWithoutCommand(t *testing.T) {
	e := execution(t, bundleHash, strictly, Observed{})
	const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if e.Cmd == nil || len(e.Cmd) != 0 || e.ExitCode != 0 || e.StdoutSHA256 != empty || e.StderrSHA256 != empty {
		t.Errorf("%+v", e)
	}
	if e.Inputs == nil || e.Outputs == nil || e.OutputTruncated || e.TotalOutputBytes != 0 {
		t.Errorf("%+v", e)
	}
	b, err := canon.Canonical(e)
	if err != nil || strings.Contains(string(b), "null") {
		t.Errorf("%s (%v)", b, err)
	}
}

// TestExecutionValue: the value has what was observed, with lists sorted by path.
func TestExecutionValue(t *testing.T) {
	file := func(path, text string) File { return File{path, sha256.Sum256([]byte(text)), int64(len(text))} }
	o := Observed{
		Command: end(func(e *End) {
			e.Argv, e.Code = []string{"node", "a.js"}, 3
			e.Stdout = Stream{SHA256: sha256.Sum256([]byte("out")), Size: 3}
			e.Stderr = Stream{SHA256: sha256.Sum256([]byte("err")), Size: 3}
		}),
		Inputs:  []File{file("in/b", "22"), file("in/a", "1")},
		Outputs: []File{file("out/\uffee", "4444"), file("out/\U0001f600", "333"), file("out/z", "22"), file("out/a", "1"), file("out", "")},
	}
	e := execution(t, bundleHash, strictly, o)
	if !slices.Equal(e.Cmd, []string{"node", "a.js"}) || e.ExitCode != 3 || !slices.Equal(e.Reasons, []string{"EXIT 3"}) {
		t.Errorf("%+v", e)
	}
	if e.StdoutSHA256 != canon.Sum([]byte("out")) || e.StderrSHA256 != canon.Sum([]byte("err")) {
		t.Errorf("streams %s %s", e.StdoutSHA256, e.StderrSHA256)
	}
	var paths []string
	for _, f := range e.Outputs {
		paths = append(paths, f.Path)
	}
	// By UTF-16 code unit: a surrogate comes before U+FFEE.
	if want := []string{"out", "out/a", "out/z", "out/\U0001f600", "out/\uffee"}; !slices.Equal(paths, want) {
		t.Errorf("outputs %q, want %q", paths, want)
	}
	if e.Outputs[1] != (kernel.FileRef{Path: "out/a", SHA256: canon.Sum([]byte("1")), SizeBytes: 1}) {
		t.Errorf("output %+v", e.Outputs[1])
	}
	if e.TotalOutputBytes != 10 {
		t.Errorf("total %d", e.TotalOutputBytes)
	}
	if len(e.Inputs) != 2 || e.Inputs[0].Path != "in/a" {
		t.Errorf("inputs %+v", e.Inputs)
	}
	e.Cmd[0] = "changed"
	if o.Command.Argv[0] != "node" {
		t.Error("the value shares its argv with what was observed")
	}
}

// TestTruncated: the value shows a truncated stream, and a truncated list.
func TestTruncated(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Observed
		want bool
	}{
		{"nothing", Observed{Command: end(func(*End) {})}, false},
		{"standard output", Observed{Command: end(func(e *End) { e.Stdout.Truncated = true })}, true},
		{"standard error", Observed{Command: end(func(e *End) { e.Stderr.Truncated = true })}, true},
		{"outputs", Observed{Command: end(func(*End) {}), Cut: true}, true},
		{"outputs without a command", Observed{Cut: true}, true},
	} {
		if got := execution(t, bundleHash, strictly, tc.o).OutputTruncated; got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestSandboxID: the id depends on the bundle and the policy, and on nothing that was
// observed.
func TestSandboxID(t *testing.T) {
	want := execution(t, bundleHash, strictly, Observed{}).SandboxID
	if !strings.HasPrefix(want, "sbx_") || len(want) != len("sbx_")+16 {
		t.Fatalf("id %q", want)
	}
	policy := strictly
	if id, err := canon.ID("sbx_", map[string]any{"policy": policy, "bundle_sha256": string(bundleHash)}); err != nil || id != want {
		t.Errorf("id %q, want %q (%v)", want, id, err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		if id := execution(t, bundleHash, strictly, observed(random)).SandboxID; id != want {
			t.Fatalf("what was observed changes the id: %q, %q", id, want)
		}
	}
	seen := map[string]string{want: "the first"}
	other := func(what string, bundle canon.ContentHash, p kernel.PolicyProfile) {
		t.Helper()
		id := execution(t, bundle, p, Observed{}).SandboxID
		if same, known := seen[id]; known {
			t.Errorf("%s has the id of %s", what, same)
		}
		seen[id] = what
	}
	other("another bundle", canon.Sum([]byte("other\n")), strictly)
	for what, change := range map[string]func(*kernel.PolicyProfile){
		"another name":     func(p *kernel.PolicyProfile) { p.Name = "q" },
		"a network":        func(p *kernel.PolicyProfile) { p.AllowNetwork = true },
		"another time":     func(p *kernel.PolicyProfile) { p.TimeoutMS++ },
		"more files":       func(p *kernel.PolicyProfile) { p.MaxOutputFiles++ },
		"more bytes":       func(p *kernel.PolicyProfile) { p.MaxTotalOutputBytes++ },
		"another command":  func(p *kernel.PolicyProfile) { p.AllowedCommands = []string{"npm"} },
		"no command":       func(p *kernel.PolicyProfile) { p.AllowedCommands = []string{} },
		"another root":     func(p *kernel.PolicyProfile) { p.AllowedWriteRoots = []string{"dist"} },
		"one more command": func(p *kernel.PolicyProfile) { p.AllowedCommands = []string{"node", "npm"} },
	} {
		p := strictly
		change(&p)
		other(what, bundleHash, p)
	}
}

func TestHash(t *testing.T) {
	for _, text := range []string{"", "a", "\x00"} {
		if got, want := Hash(sha256.Sum256([]byte(text))), canon.Sum([]byte(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// observed returns random observations, also impossible ones.
func observed(r *rand.Rand) Observed {
	flag := func() bool { return r.IntN(6) == 0 }
	sum := func() [32]byte { return sha256.Sum256([]byte{byte(r.IntN(256))}) }
	pick := func(list ...int) int { return list[r.IntN(len(list))] }
	var o Observed
	if r.IntN(8) > 0 {
		o.Command = end(func(e *End) {
			e.Code = pick(0, 0, 0, 1, 2, 125, 126, 127, 128, 137, 143, 255)
			if flag() {
				e.Code, e.Signal = 0, pick(1, 2, 9, 11, 15, 64)
			}
			e.TimedOut, e.OutOfMemory, e.NotFound, e.NotExecutable = flag(), flag(), flag(), flag()
			e.Stdout = Stream{sum(), int64(r.IntN(2000)), flag()}
			e.Stderr = Stream{sum(), int64(r.IntN(2000)), flag()}
		})
	}
	vocabulary := []string{
		"OUTPUT_MISSING out/a", "OUTPUT_KIND out/b", `OUTPUT_NAME "out/\n"`, "OUTPUT_LIMIT", "STREAM_LIMIT /actions/0",
		"WRITE_OUTSIDE_ROOT src", "WRITE_OUTSIDE_ROOT src/a",
	}
	for range r.IntN(4) * r.IntN(2) {
		o.Reasons = append(o.Reasons, vocabulary[r.IntN(len(vocabulary))])
	}
	for i := range r.IntN(3) {
		o.Outputs = append(o.Outputs, File{"out/" + strconv.Itoa(9-i), sum(), int64(r.IntN(100))})
		o.Inputs = append(o.Inputs, File{"in/" + strconv.Itoa(9-i), sum(), int64(r.IntN(100))})
	}
	o.Cut = flag()
	return o
}

// TestAcceptedIsExitCodeZero tests RS8 on random observations. An execution is accepted
// exactly if its exit code is 0, and exactly then the reasons are empty. The result with
// the execution holds every invariant and its schema.
func TestAcceptedIsExitCodeZero(t *testing.T) {
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	accepted := 0
	for i := range 3000 {
		o := observed(random)
		e := execution(t, bundleHash, strictly, o)
		d := kernel.Conclude(kernel.Decision{Outcome: kernel.OutcomeBundle}, &e)
		if d.Accepted != (e.ExitCode == 0) || d.Accepted != (len(d.Reasons) == 0) || e.ExitCode < 0 || e.ExitCode > 255 {
			t.Fatalf("accepted %v, exit code %d, reasons %q: %+v", d.Accepted, e.ExitCode, d.Reasons, o)
		}
		if len(o.Reasons) > 0 && d.Accepted || !slices.IsSortedFunc(d.Reasons, canon.Compare) {
			t.Fatalf("accepted %v, reasons %q: %+v", d.Accepted, d.Reasons, o)
		}
		if d.Accepted {
			accepted++
		}
		if i%10 == 0 {
			holds(t, set, e, d)
		}
	}
	if accepted < 300 || accepted > 2700 {
		t.Errorf("%d of 3000 are accepted: the generator shows little", accepted)
	}
}

// holds checks a whole result with this execution in it.
func holds(t *testing.T, set *specs.Set, e kernel.Execution, d kernel.DecisionRecord) {
	t.Helper()
	r := result.RunResult{
		RunSchemaVersion: result.SchemaVersion, RunID: "r", StartedAt: "2026-01-01T00:00:00.000Z", CompletedAt: "2026-01-01T00:00:00.000Z",
		KernelVersion: kernel.Version, Policy: strictly, ExecutionMode: "execute-sandbox", ModelMode: "none",
		PolicyProvenance: result.Provenance{
			ProfileSHA256: bundleHash, CapabilitiesSHA256: bundleHash, Modules: []result.ModuleDigest{{Name: "builtin/a.rego", SHA256: bundleHash}},
			Limits: result.Limits{CPUCores: 1, Isolation: kernel.IsolationFull, MaxChildren: 1, MaxOutputFiles: 1, MaxTotalOutputBytes: 1024, MemoryMB: 64, TimeoutMS: 1000},
		},
		Intent:           result.IntentRef{Path: "i.json", SHA256: bundleHash},
		Bundle:           &result.BundleRef{BundleID: "bundle_0123456789abcdef", SHA256: bundleHash},
		KernelResultKind: kernel.OutcomeBundle, Execution: &e, Decision: d,
	}
	b, err := r.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := canon.Parse(b, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Checks(b, doc, &strictly) {
		if c.Status != result.Pass {
			t.Fatalf("%s: %s: %s", c.ID, c.Fault, b)
		}
	}
	if violations, err := set.Validate(specs.KindRunResult, doc.Value()); err != nil || len(violations) > 0 {
		t.Fatalf("%v %v: %s", violations, err, b)
	}
}
