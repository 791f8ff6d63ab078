package verify

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence"
	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
	"github.com/fiador/fiador/kernel/result"
)

// checkExecution checks ST6: the execution in a RunResult follows from the bundle, the
// policy and the evidence, except the values that are themselves observations.
//
//   - sandbox_id is that of the bundle and the policy
//   - inputs and outputs are sorted by path, each once; total_output_bytes is the sum. An
//     input that was changed is named by a reason
//   - cmd, exit_code and the hashes of the streams are those of the last command that
//     was started; [], 0 and the hash of nothing without one. exit_code is 125 instead
//     of 0 where a reason rejects the execution
//   - exit_code is the one that the reasons give, and none has another's form
//   - output_truncated is true with STREAM_LIMIT, and with nothing but it or OUTPUT_LIMIT
//   - outputs that were changed keep to the limits of the policy; they have names that
//     every system has, and that clash with no other; one outside the write roots, or on
//     a control path, is named by a reason
//   - no output lies in another one, or stands where something was deleted
func (s *strictLevel) checkExecution() {
	if s.run == nil || s.run.Execution == nil {
		return
	}
	run, e := s.run, s.run.Execution
	s.checkSandboxID(run)
	s.checkFiles("inputs", e.Inputs)
	s.checkFiles("outputs", e.Outputs)
	sum := 0
	for _, f := range e.Outputs {
		sum += f.SizeBytes
	}
	s.must(e.TotalOutputBytes == sum, "ST6", pack.RunFile+"#/execution/total_output_bytes", "%d, and the outputs have %d bytes", e.TotalOutputBytes, sum)
	var why reason.List
	for i, text := range run.Decision.Reasons {
		if err := why.Add(text); err != nil {
			s.fault("ST6", pack.At(pack.RunFile, "decision", "reasons", strconv.Itoa(i)), "%s %s", pack.Quoted(text), err)
		}
	}
	s.must(e.ExitCode == why.ExitCode(), "ST6", pack.RunFile+"#/execution/exit_code", "%d, and the reasons give %d", e.ExitCode, why.ExitCode())
	truncated := why.Has(reason.StreamLimit) || why.Has(reason.OutputLimit) && e.OutputTruncated
	s.must(e.OutputTruncated == truncated, "ST6", pack.RunFile+"#/execution/output_truncated", "%t does not go with the reasons", e.OutputTruncated)
	if s.evidence != nil {
		s.checkCommand(e, why)
		s.checkPlaces(run, e, why)
	}
	s.checkInputs(e, why)
}

// checkInputs compares the inputs with the results of files: a reason names each changed
// input. No response has the path of an input.
func (s *strictLevel) checkInputs(e *kernel.Execution, why reason.List) {
	taken := map[string]string{}
	for _, i := range s.plan.calls() {
		taken[pack.ResponsePath(i)] = "is where a response is put"
	}
	if s.evidence != nil {
		for _, a := range s.evidence.ActionResults {
			if !why.Names(reason.WriteOutsideRoot, a.Path) {
				taken[a.Path] = "was changed, and no reason says so"
			}
		}
	}
	for i, f := range e.Inputs {
		if what := taken[f.Path]; what != "" {
			s.fault("ST6", pack.At(pack.RunFile, "execution", "inputs", strconv.Itoa(i), "path"), "%s %s", pack.Quoted(f.Path), what)
		}
	}
}

func (s *strictLevel) checkSandboxID(run *result.RunResult) {
	if run.Bundle == nil {
		return
	}
	want, err := evidence.SandboxID(run.Bundle.SHA256, run.Policy)
	same := err != nil || run.Execution.SandboxID == want
	s.must(same, "ST6", pack.RunFile+"#/execution/sandbox_id", "not the one of this bundle and this policy, %s", want)
}

// checkFiles checks the order of a list of files, and the form of its paths.
func (s *strictLevel) checkFiles(name string, list []kernel.FileRef) {
	for i, f := range list {
		if i > 0 && canon.Compare(list[i-1].Path, f.Path) >= 0 {
			s.fault("ST6", pack.At(pack.RunFile, "execution", name, strconv.Itoa(i), "path"), "not sorted, or there twice")
		}
		if what := pack.PathFault(f.Path); what != "" {
			s.fault("ST6", pack.At(pack.RunFile, "execution", name, strconv.Itoa(i), "path"), "%s %s", pack.Quoted(f.Path), what)
		}
		if (f.SizeBytes == 0) != (f.SHA256 == noBytes) {
			s.fault("ST6", pack.At(pack.RunFile, "execution", name, strconv.Itoa(i), "size_bytes"), "%d does not go with the hash", f.SizeBytes)
		}
	}
}

// checkNested compares all outputs with each other. No output lies in another one or at
// a deleted path, and no unchanged output lies beneath a deleted path. A folder that was
// deleted and made again can contain written files and responses.
func (s *strictLevel) checkNested(e *kernel.Execution) {
	type place struct {
		path    string
		output  int // -1: deleted
		still   bool
		emptied bool // lies at or beneath a deleted path
	}
	unchanged := setOf(s.evidence.Unchanged)
	list := make([]place, 0, len(e.Outputs))
	for i, f := range e.Outputs {
		list = append(list, place{path: f.Path, output: i, still: unchanged[f.Path]})
	}
	for _, a := range s.evidence.ActionResults {
		if a.Action == pack.OpDelete {
			list = append(list, place{path: a.Path, output: -1})
		}
	}
	// The content of a folder comes directly after an entry with the folder's name.
	slices.SortFunc(list, func(x, y place) int { return cmp.Or(compareSegments(x.path, y.path), x.output-y.output) })
	var around []place
	for _, p := range list {
		for len(around) > 0 && !kernel.Beneath(p.path, around[len(around)-1].path) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && p.output >= 0 {
			up := around[len(around)-1]
			here := pack.At(pack.RunFile, "execution", "outputs", strconv.Itoa(p.output), "path")
			switch {
			case up.path == p.path && up.output < 0:
				s.fault("ST6", here, "%s was deleted", pack.Quoted(p.path))
			case up.path != p.path && up.output >= 0:
				s.fault("ST6", here, "%s lies in a file, %s", pack.Quoted(p.path), pack.Quoted(up.path))
			case up.emptied && p.still:
				s.fault("ST6", here, "%s is unchanged, and stood where something was deleted, at or above %s", pack.Quoted(p.path), pack.Quoted(up.path))
			}
		}
		p.emptied = p.output < 0 || len(around) > 0 && around[len(around)-1].emptied
		around = append(around, p)
	}
}

// noBytes is the hash of the empty text.
const noBytes canon.ContentHash = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// checkCommand compares the values about the command with the evidence of the last
// command that was started.
func (s *strictLevel) checkCommand(e *kernel.Execution, why reason.List) {
	last := pack.RunEvidence{Argv: []string{}, StdoutSHA256: noBytes, StderrSHA256: noBytes}
	action := -1
	if n := len(s.evidence.Runs); n > 0 {
		last = s.evidence.Runs[n-1]
		action = last.Action
	}
	s.must(slices.Equal(e.Cmd, last.Argv), "ST6", pack.RunFile+"#/execution/cmd", "not the last command that was started")
	s.must(e.StdoutSHA256 == last.StdoutSHA256, "ST6", pack.RunFile+"#/execution/stdout_sha256", "not that of the last command that was started")
	s.must(e.StderrSHA256 == last.StderrSHA256, "ST6", pack.RunFile+"#/execution/stderr_sha256", "not that of the last command that was started")
	const here = pack.RunFile + "#/decision/reasons"
	code := why.End.ExitCode()
	s.must(last.ExitCode == code, "ST6", here, "they give the last command the exit code %d, and the evidence %d", code, last.ExitCode)
	for _, n := range why.Streams {
		s.must(n == action, "ST6", here, "the last command that was started is action %d, and a stream of action %d was cut", action, n)
	}
}

// checkPlaces compares the changed outputs with the limits, the write roots, the control
// paths and each other. A file with a bad name is no output.
func (s *strictLevel) checkPlaces(run *result.RunResult, e *kernel.Execution, why reason.List) {
	changed := make(map[string]bool, len(s.evidence.ActionResults))
	for _, a := range s.evidence.ActionResults {
		changed[a.Path] = true
	}
	here := func(i int) string { return pack.At(pack.RunFile, "execution", "outputs", strconv.Itoa(i), "path") }
	var paths []string
	var positions []int
	bytes := 0
	for i, f := range e.Outputs {
		if !changed[f.Path] {
			continue
		}
		bytes += f.SizeBytes
		paths, positions = append(paths, f.Path), append(positions, i)
		view := s.paths.view(f.Path)
		inside := view.Control == "" && beneath(f.Path, run.Policy.AllowedWriteRoots)
		switch {
		case view.Fault != "":
			s.fault("ST6", here(i), "%s is no path that every system has: %s", pack.Quoted(f.Path), view.Fault)
		case !inside && !why.Names(reason.WriteOutsideRoot, f.Path):
			s.fault("ST6", here(i), "%s may not be written, and no reason says so", pack.Quoted(f.Path))
		}
	}
	clashes := s.paths.clashes(paths)
	for _, c := range clashes {
		s.fault("ST6", here(positions[c.index]), "%s %s %s", pack.Quoted(paths[c.index]), c.how, pack.Quoted(c.with))
	}
	if len(clashes) == 0 {
		s.checkNested(e)
	}
	n, most := len(paths), run.Policy.MaxOutputFiles
	s.must(n <= most, "ST6", pack.RunFile+"#/execution/outputs", "%d files, and the policy allows %d", n, most)
	s.must(bytes <= run.Policy.MaxTotalOutputBytes, "ST6", pack.RunFile+"#/execution/total_output_bytes", "%d, and the policy allows %d", bytes, run.Policy.MaxTotalOutputBytes)
}
