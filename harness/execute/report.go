package execute

import (
	"slices"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/reason"
)

// Report returns the answer to a request after its execution. The execution met the
// request if the report has no reasons.
func (p *Performed) Report(r request.Request) request.Report {
	code, reasons := p.Observed.Judge()
	if r.Outputs.ExitCode != nil && code == *r.Outputs.ExitCode && p.Observed.Command != nil && code == p.Observed.Command.Code {
		reasons = slices.DeleteFunc(reasons, func(s string) bool { return s == reason.Exited(code).String() })
	}
	means := Interpret(p.Observed.Command, code)
	rep := request.Report{
		ExecutionID: r.ExecutionID, ToolID: r.ToolID, AdapterID: r.AdapterID, Metadata: r.Metadata, Artifacts: p.Artifacts,
		ExitCode: code, Interpretation: means.Meaning, Action: means.Action, Reasons: reasons,
		Stdout: reportStream(p.Stdout), Stderr: reportStream(p.Stderr),
		Ephemeral: request.Ephemeral{StartedAt: p.Started, CompletedAt: p.Ended, Duration: p.Ended.Sub(p.Started), PeakMemoryBytes: p.PeakMemory, Clauses: p.Clauses},
	}
	for _, f := range p.Observed.Outputs {
		rep.OutputFiles = append(rep.OutputFiles, kernel.FileRef{Path: f.Path, SHA256: evidence.Hash(f.SHA256), SizeBytes: int(f.Size)})
	}
	return rep
}

// Interpret returns the meaning of an exit code, by its cause. end is nil if nothing was started. A signal from outside the
// sandbox is neither a timeout nor a lack of memory.
func Interpret(end *evidence.End, code int) contract.Interpretation {
	in := contract.Interpret(code)
	if end != nil && end.Signal != 0 && code == 128+end.Signal && !end.TimedOut && !end.OutOfMemory {
		in.Meaning, in.Action = contract.MeaningSignal, contract.ActionLogSignal
	}
	return in
}

func reportStream(c command.Captured) request.Stream {
	return request.Stream{SHA256: evidence.Hash(c.SHA256), SizeBytes: len(c.Bytes), Truncated: c.Truncated}
}
