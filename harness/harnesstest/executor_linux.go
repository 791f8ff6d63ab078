//go:build linux && (amd64 || arm64)

package harnesstest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

// Permissive permits every effect, so that an intent reaches the sandbox.
func Permissive(in policy.Input) (kernel.Verdict, error) {
	var v kernel.Verdict
	for _, e := range in.Effects {
		v.Permits = append(v.Permits, e.ID)
	}
	return v, nil
}

// Tier is a host that has only one kind of isolation.
type Tier struct {
	*sandbox.Host
	Isolation sandbox.Isolation
}

func (h Tier) Start(ctx context.Context, r sandbox.Request) (*sandbox.Sandbox, error) {
	r.Most = h.Isolation
	return h.Host.Start(ctx, r)
}

// Tiers are the isolations under which a test runs.
var Tiers = []sandbox.Isolation{sandbox.Full, sandbox.Confined}

// given has the isolations that this machine has given to a test.
var given sync.Map

// tiers counts the hosts of tests that are running.
var tiers struct {
	sync.Mutex
	n int
}

// NewTier returns a host of one tier. If this machine cannot give the isolation, NewTier
// skips the test and says why. After the test, the host's folder for copies must be empty.
// When no other test has a host, no process may be left.
func NewTier(t *testing.T, isolation sandbox.Isolation) Tier {
	t.Helper()
	temp, err := os.MkdirTemp("", "fiador-test-")
	if err != nil {
		t.Fatal(err)
	}
	// A command that root starts runs as another user, who must reach the folder.
	if err := os.Chmod(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	tiers.Lock()
	tiers.n++
	tiers.Unlock()
	h := Tier{sandbox.NewHost(temp), isolation}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if list, err := os.ReadDir(temp); err != nil || len(list) > 0 {
			t.Errorf("left behind: %v (%v)", list, err)
		}
		tiers.Lock()
		defer tiers.Unlock()
		if tiers.n--; tiers.n == 0 {
			if list := childProcesses(t); len(list) > 0 {
				t.Errorf("processes left behind: %q", list)
			}
		}
		os.RemoveAll(temp)
	})
	if _, had := given.Load(isolation); had {
		return h
	}
	s, err := h.Start(t.Context(), sandbox.Request{
		Write: sandbox.Staged, Least: isolation, Limits: sandbox.Limits{MemoryMB: 64, CPUCores: 1, OutputFiles: 1, OutputBytes: 1024},
	})
	if err != nil {
		t.Skipf("%s isolation cannot be had here: %v", isolation, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	given.Store(isolation, true)
	return h
}

// childProcesses returns the names of the child processes of this one.
func childProcesses(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			list = append(list, string(b))
		}
	}
	return list
}

// Executor carries out intents under a profile that a test may change.
type Executor struct {
	Deps  harness.Deps
	Gate  *harness.Gate
	Tree  string // empty, for what names none
	model string // model mode; empty: none
}

// NewExecutor returns an executor under the default profile, with every command allowed,
// two minutes of time, and out as the only write root.
func NewExecutor(t *testing.T, runner execute.Runner, change func(*kernel.Profile)) Executor {
	t.Helper()
	d := Deps(t)
	d.Runner = runner
	gate := GateWith(t, d, JudgeFunc(Permissive))
	gate.Profile.AllowedCommands = kernel.AllowList{All: true}
	gate.Profile.AllowedWriteRoots = kernel.AllowList{Names: []string{"out"}}
	gate.Profile.EnvAllow = kernel.AllowList{All: true}
	gate.Profile.Isolation = kernel.IsolationConfined
	gate.Profile.TimeoutMS = 120000
	if change != nil {
		change(&gate.Profile)
	}
	Limited(gate)
	return Executor{Deps: d, Gate: gate, Tree: t.TempDir()}
}

// Limited copies the limits of the profile into the provenance.
func Limited(g *harness.Gate) {
	p := g.Profile
	g.Provenance.Limits = result.Limits{
		CPUCores: p.CPUCores, Isolation: p.Isolation, MaxChildren: p.MaxChildren, MaxOutputFiles: p.MaxOutputFiles,
		MaxTotalOutputBytes: p.MaxTotalOutputBytes, MemoryMB: p.MemoryMB, TimeoutMS: p.TimeoutMS,
	}
}

// Request returns the request of an intent with these members beside its goal.
func (x Executor) Request(members string, f harness.Folders) harness.Request {
	if f.Tree == "" {
		f.Tree = x.Tree
	}
	src := `{"goal":"Do it","constraints":["quickly"],` + members + `}`
	return harness.Request{Source: []byte(src), Path: "intent.json", Mode: harness.ModeExecuteSandbox, ModelMode: cmp.Or(x.model, harness.ModelNone), RunID: "r", Folders: f}
}

// Run carries out an intent and checks that the result is valid. It keeps the written
// files until the end of the test.
func (x Executor) Run(t *testing.T, members string, f harness.Folders) harness.Report {
	t.Helper()
	rep, err := harness.Run(t.Context(), x.Deps, x.Gate, x.Request(members, f))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if rep.Execution != nil {
			if err := rep.Execution.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	CheckExecuted(t, x, rep)
	return rep
}

// Fails carries out an intent that must end in an error and in no result.
func (x Executor) Fails(t *testing.T, members string, f harness.Folders) *result.RunError {
	t.Helper()
	rep, err := harness.Run(t.Context(), x.Deps, x.Gate, x.Request(members, f))
	var re *result.RunError
	if !errors.As(err, &re) {
		t.Fatalf("no error but %s", rep.Bytes)
	}
	if rep.Bytes != nil || rep.Execution != nil {
		t.Errorf("an error and a result: %s", rep.Bytes)
	}
	return re
}

// reasonForm is the closed vocabulary of an execution's reasons.
var reasonForm = regexp.MustCompile(`^(EXIT ([1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])|SIGNAL [1-9][0-9]?|TIMEOUT|OOM|NOT_FOUND|NOT_EXECUTABLE|OUTPUT_LIMIT|(STREAM_LIMIT|CALL_FAILED|CALL_OUTPUT|CALL_REFUSED|CALL_TIMEOUT) /actions/[0-9]+|(OUTPUT_MISSING|OUTPUT_KIND|OUTPUT_NAME|WRITE_OUTSIDE_ROOT)( .+)?)$`)

// CheckExecuted checks the bytes of an executed result by RS1..RS8, by the schema, and by
// the rules for members of executed results.
func CheckExecuted(t *testing.T, x Executor, rep harness.Report) {
	t.Helper()
	doc, err := canon.Parse(rep.Bytes, result.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	contract := x.Gate.Profile.Contract()
	for _, c := range result.Checks(rep.Bytes, doc, &contract) {
		if c.Status != result.Pass {
			t.Errorf("%s %s: %s", c.ID, c.Status, c.Fault)
		}
	}
	specstest.Valid(t, x.Deps.Specs, "run-result", rep.Bytes)
	e, d := rep.Result.Execution, rep.Result.Decision
	if e == nil {
		return
	}
	if d.Accepted != (e.ExitCode == 0) || d.Accepted != (len(d.Reasons) == 0) || e.OutputTruncated && d.Accepted {
		t.Errorf("accepted %v with exit code %d, reasons %q, truncated %v", d.Accepted, e.ExitCode, d.Reasons, e.OutputTruncated)
	}
	for _, r := range d.Reasons {
		if !reasonForm.MatchString(r) {
			t.Errorf("reason %q is not in the vocabulary", r)
		}
	}
	byPath := func(a, b kernel.FileRef) int { return canon.Compare(a.Path, b.Path) }
	total := 0
	for _, f := range e.Outputs {
		total += f.SizeBytes
	}
	if !slices.IsSortedFunc(e.Outputs, byPath) || !slices.IsSortedFunc(e.Inputs, byPath) || total != e.TotalOutputBytes {
		t.Errorf("outputs %v of %d bytes, inputs %v", e.Outputs, e.TotalOutputBytes, e.Inputs)
	}
	checkPacked(t, x.Deps.Specs, rep)
}

// Packed returns the pack of a report whose execution is still open, and checks the pack
// at level strict.
func Packed(t *testing.T, rep harness.Report) *pack.Pack {
	t.Helper()
	files, err := rep.Packing().Files(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if why := pack.Oversize(name, text); why != "" {
			t.Fatalf("%s: %s", name, why)
		}
	}
	if v := verify.Pack(pack.Of(files), verify.Options{Profile: func(string) *kernel.PolicyProfile { return &rep.Result.Policy }}); !v.OK() {
		t.Fatalf("%+v\n%s", v, bytes.Join([][]byte{files[pack.RunFile], files[pack.EvidenceFile], files[pack.PatchFile], files[pack.RunnerFile]}, nil))
	}
	return pack.Of(files)
}

// checkPacked packs an execution, and checks the pack and the schemas of its files.
func checkPacked(t *testing.T, set *specs.Set, rep harness.Report) {
	t.Helper()
	if rep.Execution == nil {
		return
	}
	p := Packed(t, rep)
	for name, kind := range map[string]specs.Kind{
		pack.EvidenceFile: "pack-evidence", pack.PatchFile: "pack-patch", pack.PolicyFile: "pack-policy", pack.RunnerFile: "pack-runner", pack.ModelFile: "model-io",
	} {
		if text := p.File(name); text != nil && len(text) <= result.MaxBytes {
			specstest.Valid(t, set, kind, text)
		}
	}
	if e, err := p.Evidence(); err != nil || (e.Status == pack.StatusComplete) != (rep.Execution.Done == rep.Execution.Planned) {
		t.Errorf("status %v with %d of %d actions (%v)", e, rep.Execution.Done, rep.Execution.Planned, err)
	}
}
