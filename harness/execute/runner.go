package execute

import (
	"cmp"
	"encoding/binary"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/ledger"
)

// Runner returns the facts about the machine of an execution: runner.json, of a pack and
// of the evidence. The limits are those of the execution.
func (p *Performed) Runner(rand io.Reader) (pack.Runner, error) {
	id, err := runnerID(p.Started, rand)
	if err != nil {
		return pack.Runner{}, err
	}
	machine := p.facts.Machine
	code, reasons := p.Observed.Judge()
	profile, box, tier := p.task.Profile, p.task.Sandbox, evidence.TierAt(kernel.Isolation(p.Isolation))
	return pack.Runner{
		Version: pack.RunnerVersion, RunnerID: id, RunnerVersion: kernel.Version,
		Platform: pack.Platform{
			OS: named(machine.OS), Arch: named(machine.Arch), NodeVersion: "v0.0.0", NpmVersion: "0.0.0",
			GoVersion: machine.GoVersion, KernelRelease: machine.KernelRelease, LandlockABI: machine.LandlockABI,
		},
		Sandbox: pack.RunnerSandbox{
			Backend: tier.Backend, IsolationLevel: tier.Level, NetworkBlocked: !box.Network && !box.Listed, FilesystemReadonly: !p.Direct(),
			Layers: append([]pack.Layer{}, p.Clauses...),
		},
		Limits: pack.RunnerLimits{
			TimeoutMS: int(p.task.Budget.Milliseconds()), MaxOutputFiles: p.task.Rules.MaxFiles, MaxTotalOutputBytes: int(p.task.Rules.MaxBytes),
			MaxMemoryBytes: int64(box.Limits.MemoryMB) << 20,
		},
		Commands:   pack.RunnerCommands{Allowlist: sorted(profile.Contract().AllowedCommands), Blocklist: []string{}, Shell: "none"},
		WriteRoots: sorted(p.task.Rules.Roots),
		Context:    pack.RunnerContext{WorkingDir: ".", EnvAllowlist: sorted(profile.EnvAllow.Names), Locale: "C.UTF-8", Timezone: "UTC"},
		Timing: pack.Timing{
			StartedAt: ledger.Timestamp(p.Started), CompletedAt: ledger.Timestamp(p.Ended), DurationMS: p.DurationMS(), Phases: []pack.Phase{},
		},
		Exit: p.runnerExit(code), Reasons: append([]string{}, reasons...),
		PlanSHA256: p.PlanHash, PeakMemoryBytes: p.PeakMemory, Attempts: p.Attempts,
		Stdout: runnerStream(p.Stdout, p.Observed.Command), Stderr: runnerStream(p.Stderr, p.Observed.Command),
		Connections: p.connections(),
	}, nil
}

// connections returns what the commands asked for, by actions of the intent. A name that
// repeats a secret is withheld.
func (p *Performed) connections() []evidence.Connection {
	list := p.box.Connections()
	for i := range list {
		list[i].Action = p.task.intended(list[i].Action)
		if s := p.task.Secrets; s != nil && s.Repeats([]byte(list[i].Name)) {
			list[i].Name = "withheld"
		}
	}
	return list
}

// RunnerRecord returns runner.json in its written form: canonical JSON and one LF.
func (p *Performed) RunnerRecord(rand io.Reader) ([]byte, error) {
	r, err := p.Runner(rand)
	if err != nil {
		return nil, err
	}
	b, _, err := canon.Artifact(r)
	return b, err
}

func (p *Performed) runnerExit(code int) pack.RunnerExit {
	x := pack.RunnerExit{Code: code}
	if end := p.Observed.Command; end != nil {
		why := end.Cause().ID
		x.OOMKilled, x.TimeoutKilled = why == reason.OOM, why == reason.Timeout
		if end.Signal != 0 && !end.Test {
			x.Signal = contract.SignalName(end.Signal)
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

// runnerID returns the time and 64 random bits, in the form of pack.RunnerIDLayout and base 36.
func runnerID(t time.Time, rand io.Reader) (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return "", runerr.Internal("no randomness for a runner id", err)
	}
	return t.UTC().Format(pack.RunnerIDLayout) + strconv.FormatUint(binary.BigEndian.Uint64(b[:]), 36), nil
}

// sorted returns a new list without duplicates, ordered by UTF-16 code units. It is never nil.
func sorted(list []string) []string {
	out := append([]string{}, list...)
	slices.SortFunc(out, canon.Compare)
	return slices.Compact(out)
}

// named returns the name that Node.js gives to a system or an architecture of Go.
func named(goName string) string {
	names := map[string]string{"windows": "win32", "amd64": "x64", "386": "ia32"}
	return cmp.Or(names[goName], goName)
}
