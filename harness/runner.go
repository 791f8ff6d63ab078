package harness

import (
	"encoding/binary"
	"io"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
)

// Runner is what the machine says of an execution: runner.json, of a pack and of the
// evidence. The limits are those that the execution had.
func (p *Performed) Runner(rand io.Reader) (pack.Runner, error) {
	from, to := p.times()
	id, err := runnerID(from, rand)
	if err != nil {
		return pack.Runner{}, err
	}
	release, landlock := sandbox.Platform()
	code, reasons := p.Observed.Judge()
	profile := p.task.Profile
	return pack.Runner{
		Version: pack.RunnerVersion, RunnerID: id, RunnerVersion: kernel.Version,
		Platform: pack.Platform{
			OS: systemName(runtime.GOOS), Arch: machineName(runtime.GOARCH), NodeVersion: "v0.0.0", NpmVersion: "0.0.0",
			GoVersion: runtime.Version(), KernelRelease: release, LandlockABI: landlock,
		},
		Sandbox: p.runnerSandbox(),
		Limits: pack.RunnerLimits{
			TimeoutMS: int(p.task.Budget.Milliseconds()), MaxOutputFiles: p.task.Rules.MaxFiles, MaxTotalOutputBytes: int(p.task.Rules.MaxBytes),
			MaxMemoryBytes: int64(p.task.Sandbox.Limits.MemoryMB) << 20,
		},
		Commands:   pack.RunnerCommands{Allowlist: sorted(profile.Contract().AllowedCommands), Blocklist: []string{}, Shell: "none"},
		WriteRoots: sorted(p.task.Rules.Roots),
		Context:    pack.RunnerContext{WorkingDir: ".", EnvAllowlist: sorted(profile.EnvAllow.Names), Locale: "C.UTF-8", Timezone: "UTC"},
		Timing: pack.Timing{
			StartedAt: timestamp(from), CompletedAt: timestamp(to), DurationMS: p.milliseconds(), Phases: []pack.Phase{},
		},
		Exit: p.runnerExit(code), Reasons: append([]string{}, reasons...),
		PlanSHA256: p.PlanHash, PeakMemoryBytes: p.PeakMemory,
		Stdout: runnerStream(p.Stdout, p.Observed.Command), Stderr: runnerStream(p.Stderr, p.Observed.Command),
	}, nil
}

// RunnerRecord is runner.json as it is written: canonical JSON and one LF.
func (p *Performed) RunnerRecord(rand io.Reader) ([]byte, error) {
	r, err := p.Runner(rand)
	if err != nil {
		return nil, err
	}
	b, _, err := canon.Artifact(r)
	return b, err
}

// milliseconds is how long the execution took, as its timestamps say it.
func (p *Performed) milliseconds() int64 {
	from, to := p.times()
	return to.UnixMilli() - from.UnixMilli()
}

func (p *Performed) runnerSandbox() pack.RunnerSandbox {
	r := p.task.Sandbox
	s := pack.RunnerSandbox{
		Backend: "none", IsolationLevel: "none", NetworkBlocked: !r.Network, FilesystemReadonly: r.Write == sandbox.Staged,
		Layers: []pack.Layer{},
	}
	switch p.Isolation {
	case sandbox.Full:
		s.Backend, s.IsolationLevel = "container", "strict"
	case sandbox.Confined:
		s.Backend, s.IsolationLevel = "process", "standard"
	}
	for _, c := range p.Clauses {
		s.Layers = append(s.Layers, pack.Layer{Clause: c.Clause, Mechanism: c.Mechanism, Status: c.Status})
	}
	return s
}

func (p *Performed) runnerExit(code int) pack.RunnerExit {
	x := pack.RunnerExit{Code: code}
	if end := p.Observed.Command; end != nil {
		why := end.Cause().ID
		x.OOMKilled, x.TimeoutKilled = why == reason.OOM, why == reason.Timeout
		if end.Signal != 0 {
			x.Signal = signalName(syscall.Signal(end.Signal))
		}
	}
	return x
}

func runnerStream(c command.Captured, end *evidence.End) pack.RunnerStream {
	if end == nil {
		return pack.RunnerStream{SHA256: canon.Sum(nil)}
	}
	return pack.RunnerStream{SHA256: evidence.Hash(c.SHA256), KeptBytes: len(c.Bytes), SizeBytes: c.Size, Truncated: c.Truncated}
}

func runnerID(t time.Time, rand io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return "", runerr.Internal("no randomness for a runner id", err)
	}
	return "runner_" + t.UTC().Format("20060102_150405") + "_" + strconv.FormatUint(binary.BigEndian.Uint64(b[:]), 36), nil
}

func sorted(list []string) []string {
	out := append([]string{}, list...)
	slices.SortFunc(out, canon.Compare)
	return slices.Compact(out)
}

func systemName(goos string) string {
	if goos == "windows" {
		return "win32"
	}
	return goos
}

func machineName(goarch string) string {
	switch goarch {
	case "amd64":
		return "x64"
	case "386":
		return "ia32"
	}
	return goarch
}

// signalName is the name of a signal, SIG before it, or its number after SIG.
func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGHUP: "SIGHUP", syscall.SIGINT: "SIGINT", syscall.SIGQUIT: "SIGQUIT", syscall.SIGILL: "SIGILL", syscall.SIGTRAP: "SIGTRAP",
		syscall.SIGABRT: "SIGABRT", syscall.SIGBUS: "SIGBUS", syscall.SIGFPE: "SIGFPE", syscall.SIGKILL: "SIGKILL", syscall.SIGSEGV: "SIGSEGV",
		syscall.SIGPIPE: "SIGPIPE", syscall.SIGALRM: "SIGALRM", syscall.SIGTERM: "SIGTERM",
	}
	if name, ok := names[s]; ok {
		return name
	}
	return "SIG" + strconv.Itoa(int(s))
}
