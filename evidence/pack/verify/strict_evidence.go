package verify

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/reason"
)

// ownEvidence checks what the schema of evidence.json does not: the times exist in the
// calendar, and test_results has at most the one test of a work item.
func (s *strictLevel) ownEvidence(e *pack.Evidence) {
	s.ownTime("ST7", pack.At(pack.EvidenceFile, "started_at"), e.StartedAt)
	s.ownTime("ST7", pack.At(pack.EvidenceFile, "completed_at"), e.CompletedAt)
	s.must(len(e.TestResults) <= 1, "ST7", pack.At(pack.EvidenceFile, "test_results"), "more than one test")
}

// checkEvidence checks ST7: the evidence belongs to the bundle's plan and to the
// execution in the RunResult.
//
//   - proposal_id and proposal_hash are the bundle's
//   - runs are the commands of the plan, calls its calls, in their order, from the first
//     on, with their argv and adapter; what comes behind one that failed did not run. The
//     command of a tool, and the fallback that answered, are not in the plan
//   - status is complete exactly if all of the plan ran well; the test of a work item, its last
//     action, does not run after something forbidden
//   - action_results and unchanged are sorted by path and, together with the responses
//     of calls, are the outputs of the execution; what was deleted is in addition. A
//     response that was changed, or could not be put into its place, is named by a reason
//   - a plan that starts nothing leaves just the files that it writes, as it writes them
//   - a test result is that of the last command, and a reason says so if the test failed
//   - the execution lies within the run (RN9 and ST9 have its own order)
//   - total_duration_ms is what lies between the two times, give or take one
func (s *strictLevel) checkEvidence() {
	e := s.evidence
	if e == nil {
		return
	}
	from, _ := moment(e.StartedAt)
	to, _ := moment(e.CompletedAt)
	d := to.Sub(from).Milliseconds() - e.TotalDurationMS
	s.must(d >= -1 && d <= 1, "ST7", pack.EvidenceFile+"#/total_duration_ms", "not what lies between the two times")
	if s.bundle != nil && e.ProposalID != s.bundle.ID {
		s.fault("ST7", pack.At(pack.EvidenceFile, "proposal_id"), "not the id of the bundle, %s", s.bundle.ID)
	}
	if s.run == nil || s.run.Execution == nil {
		return
	}
	s.checkWithin(e)
	s.must(s.run.Bundle == nil || e.ProposalHash == s.run.Bundle.SHA256, "ST7", pack.EvidenceFile+"#/proposal_hash", "not the hash of the bundle")
	s.checkResults(e)
	s.checkTest(e)
	if s.plan.whole && s.bundle.Status == "complete" {
		s.checkProgress(e)
		s.checkWritten(e)
	}
}

// checkTest compares the test of a work item with the last command that was started.
func (s *strictLevel) checkTest(e *pack.Evidence) {
	failed := reason.Read(s.run.Decision.Reasons).End.ID == reason.Test
	if len(e.TestResults) != 1 {
		s.must(!failed, "ST7", pack.At(pack.EvidenceFile, "test_results"), "a reason says that a test failed, and there is none")
		return
	}
	here := pack.At(pack.EvidenceFile, "test_results", "0")
	if len(e.Runs) == 0 {
		s.fault("ST7", here, "no command was started")
		return
	}
	last := e.Runs[len(e.Runs)-1]
	want := pack.TestOf(last)
	s.must(e.TestResults[0] == want, "ST7", here, "not that of the last command")
	s.must(s.bundle == nil || last.Action == len(s.plan.actions)-1, "ST7", here, "the test is not the last action of the plan")
	s.must(failed != want.Passed, "ST7", here, "the reasons do not tell the same of the test")
}

// checkWithin compares the times of the execution with the times of the run. Texts of
// one form sort like their times.
func (s *strictLevel) checkWithin(e *pack.Evidence) {
	switch {
	case e.StartedAt < s.run.StartedAt:
		s.fault("ST7", pack.At(pack.EvidenceFile, "started_at"), "before the run, which started at %s", s.run.StartedAt)
	case e.CompletedAt > s.run.CompletedAt:
		s.fault("ST7", pack.At(pack.EvidenceFile, "completed_at"), "after the run, which ended at %s", s.run.CompletedAt)
	}
}

// checkResults compares the results of files with the outputs of the execution.
func (s *strictLevel) checkResults(e *pack.Evidence) {
	x := s.run.Execution
	told := make(map[string]canon.ContentHash, len(e.ActionResults)) // hashes of outputs; empty for unchanged ones
	for i, a := range e.ActionResults {
		here := func(name string) string { return pack.At(pack.EvidenceFile, "action_results", strconv.Itoa(i), name) }
		if i > 0 && canon.Compare(e.ActionResults[i-1].Path, a.Path) >= 0 {
			s.fault("ST7", here("path"), "not sorted, or there twice")
		}
		if a.ExitCode != x.ExitCode {
			s.fault("ST7", here("exit_code"), "not that of the execution, %d", x.ExitCode)
		}
		if a.Action != pack.OpDelete {
			told[a.Path] = a.SHA256
			continue
		}
		if a.SHA256 != noBytes {
			s.fault("ST7", here("sha256"), "not the hash of no bytes, and the file is gone")
		}
		if what := s.paths.unremovable(a.Path, s.run.Policy.AllowedWriteRoots); what != "" {
			s.fault("ST7", here("path"), "%s %s", pack.Quoted(a.Path), what)
		}
		if !s.run.Decision.Accepted {
			s.fault("ST7", here("action"), "an execution that was rejected removes nothing")
		}
	}
	for i, p := range e.Unchanged {
		if i > 0 && canon.Compare(e.Unchanged[i-1], p) >= 0 {
			s.fault("ST7", pack.At(pack.EvidenceFile, "unchanged", strconv.Itoa(i)), "not sorted, or there twice")
		}
		if _, both := told[p]; both {
			s.fault("ST7", pack.At(pack.EvidenceFile, "unchanged", strconv.Itoa(i)), "%s was changed", pack.Quoted(p))
		}
		told[p] = ""
	}
	s.addResponses(e, told)
	for i, f := range x.Outputs {
		switch h, known := told[f.Path]; {
		case !known:
			s.fault("ST7", pack.At(pack.RunFile, "execution", "outputs", strconv.Itoa(i)), "%s is not in the evidence", pack.Quoted(f.Path))
		case h != "" && h != f.SHA256:
			s.fault("ST7", pack.At(pack.RunFile, "execution", "outputs", strconv.Itoa(i), "sha256"), "not the hash that the evidence has")
		}
		delete(told, f.Path)
	}
	for _, p := range canon.Names(told) {
		s.fault("ST7", pack.EvidenceFile, "%s is no output of the execution", pack.Quoted(p))
	}
}

// addResponses adds the responses of calls to the expected outputs. If a response could
// not be written, which ends the execution, or was changed, a reason names it. A file in
// its place is then an ordinary file.
func (s *strictLevel) addResponses(e *pack.Evidence, told map[string]canon.ContentHash) {
	if len(e.Calls) == 0 {
		return
	}
	why := reason.Read(s.run.Decision.Reasons)
	for i, c := range e.Calls {
		p := pack.ResponsePath(c.Action)
		excused := why.Names(reason.WriteOutsideRoot, p) || endsAt(e, i) && (why.Names(reason.OutputKind, p) || why.Has(reason.OutputLimit))
		_, stands := s.outputs[p]
		switch _, changed := told[p]; {
		case changed && !excused:
			s.fault("ST7", pack.At(pack.EvidenceFile, "calls", strconv.Itoa(i)), "the response was changed, and no reason says so")
		case changed:
		case stands || !excused:
			told[p] = c.ResponseHash
		}
	}
}

// endsAt says whether a call can be the action that failed: no action ran after it.
func endsAt(e *pack.Evidence, call int) bool {
	behind := func(r pack.RunEvidence) bool { return r.Action > e.Calls[call].Action }
	return call == len(e.Calls)-1 && e.Status != pack.StatusComplete && !slices.ContainsFunc(e.Runs, behind)
}

// checkProgress compares runs, calls and status with the plan.
func (s *strictLevel) checkProgress(e *pack.Evidence) {
	runs, calls, done := e.Runs, e.Calls, 0
	failed, stuck := false, false // an action failed; the failed one may be a write
	refused := func(i int) bool { return slices.Contains(s.run.Decision.Reasons, reason.Refused(i).String()) }
	for i := range s.plan.actions {
		a := &s.plan.actions[i]
		switch a.Kind {
		case kernel.ActionRun:
			if failed = s.run.PolicyProvenance.ToolsSHA256 != "" && refused(i); failed {
				break
			}
			if len(runs) == 0 || runs[0].Action != i {
				stuck = true
				break
			}
			if !slices.Equal(runs[0].Argv, a.Argv) {
				s.fault("ST7", pack.At(pack.EvidenceFile, "runs", strconv.Itoa(len(e.Runs)-len(runs)), "argv"), "not the command of action %d", i)
			}
			failed = runs[0].ExitCode != 0 || s.cut(i)
			runs = runs[1:]
		case kernel.ActionCall:
			failed = a.bound && s.unanswered(i) && !s.leaked(calls, i)
			if a.bound && len(runs) > 0 && runs[0].Action == i {
				failed = failed || runs[0].ExitCode != 0 || s.cut(i)
				runs = runs[1:]
			}
			if failed {
				break
			}
			if len(calls) == 0 || calls[0].Action != i {
				stuck = true
				break
			}
			if !a.bound && calls[0].AdapterID != a.AdapterID {
				s.fault("ST7", pack.At(pack.EvidenceFile, "calls", strconv.Itoa(len(e.Calls)-len(calls)), "adapter_id"), "not the adapter of action %d", i)
			}
			calls = calls[1:]
		}
		if failed || stuck {
			break
		}
		done++
	}
	run, call := strconv.Itoa(len(e.Runs)-len(runs)), strconv.Itoa(len(e.Calls)-len(calls))
	s.must(len(runs) == 0, "ST7", pack.At(pack.EvidenceFile, "runs", run), "no command that the plan has next, or one behind an action that failed")
	s.must(len(calls) == 0, "ST7", pack.At(pack.EvidenceFile, "calls", call), "no call that the plan has next, or one behind an action that failed")
	s.checkStatus(e, done, failed, stuck)
}

// leaked says whether a call that has a reason is answered nevertheless: then a file, which was
// written later, repeats the secret of the call.
func (s *strictLevel) leaked(calls []pack.CallEvidence, action int) bool {
	return len(calls) > 0 && calls[0].Action == action && slices.Contains(s.run.Decision.Reasons, reason.Answer(action).String())
}

// cut says whether a reason says that a stream of an action was truncated.
func (s *strictLevel) cut(action int) bool {
	return slices.Contains(s.run.Decision.Reasons, reason.StreamCut(action).String())
}

// unanswered says whether a reason says that a call of a tool has no answer.
func (s *strictLevel) unanswered(action int) bool {
	return slices.ContainsFunc([]reason.Reason{reason.Refused(action), reason.Unanswered(action), reason.Late(action), reason.Answer(action)}, func(r reason.Reason) bool {
		return slices.Contains(s.run.Decision.Reasons, r.String())
	})
}

// checkStatus compares the status with the progress of the plan: to the end, or to an
// action that failed. The failed action is the one at position done, or a write between
// the last command or call and the next.
func (s *strictLevel) checkStatus(e *pack.Evidence, done int, failed, stuck bool) {
	here := pack.At(pack.EvidenceFile, "status")
	if reason.Read(s.run.Decision.Reasons).Has(reason.InputMissing) { // then nothing is started
		s.must(e.Status == pack.StatusFailed && len(e.Runs)+len(e.Calls) == 0, "ST7", here, "%s, and an input of the work item was missing", e.Status)
		return
	}
	first, most := done, done // minimum and maximum number of successful actions
	fits := func() bool {
		return e.Status == pack.StatusFailed && first == 0 || e.Status == pack.StatusPartial && most > 0
	}
	untested := stuck && s.untested(done) && fits()
	if !failed {
		first, most = s.firstWrite(done), max(done-1, 0)
	}
	switch {
	case e.Status == pack.StatusComplete:
		s.must(!failed && !stuck, "ST7", here, "complete, and not all of the plan ran well")
		return
	case s.run.Decision.Accepted:
		s.fault("ST7", here, "%s, and the execution is accepted", e.Status)
	case !failed && !untested && !s.unwritten(first, done):
		s.fault("ST7", here, "%s, and no action failed", e.Status)
	}
	s.must(untested || fits(), "ST7", here, "%s, and at least %d and at most %d actions ran well", e.Status, first, most)
}

// untested says whether what is forbidden can have kept the test of a work item, which is the
// last action, from being started.
func (s *strictLevel) untested(done int) bool {
	last := len(s.plan.actions) - 1
	return done == last && s.plan.actions[last].Kind == kernel.ActionRun && reason.Read(s.run.Decision.Reasons).End.ID == ""
}

// firstWrite returns the first action before a position that may have failed without a
// process or an answer: a write, or a call whose response could not be written.
func (s *strictLevel) firstWrite(end int) int {
	for end > 0 {
		switch s.plan.actions[end-1].Kind {
		case kernel.ActionWrite:
			end--
		case kernel.ActionCall:
			return end - 1
		default:
			return end
		}
	}
	return end
}

// unwritten says whether a reason says that one of these actions could not write its
// file.
func (s *strictLevel) unwritten(first, end int) bool {
	why := reason.Read(s.run.Decision.Reasons)
	for i := first; i < end; i++ {
		p := s.plan.actions[i].output.Path
		if s.plan.actions[i].Kind == kernel.ActionCall {
			p = pack.ResponsePath(i)
		}
		if why.Names(reason.OutputKind, p) {
			return true
		}
	}
	return end > first && why.Has(reason.OutputLimit)
}

// checkWritten compares the outputs of an accepted plan without commands and calls with
// the files that it writes.
func (s *strictLevel) checkWritten(e *pack.Evidence) {
	if !s.run.Decision.Accepted || s.plan.files != len(s.plan.actions) {
		return
	}
	unchanged := setOf(e.Unchanged)
	written := 0
	for i, f := range s.run.Execution.Outputs {
		a := s.plan.last[f.Path]
		switch {
		case a != nil && a.output.ContentHash != f.SHA256.Hex():
			s.fault("ST7", pack.At(pack.RunFile, "execution", "outputs", strconv.Itoa(i), "sha256"), "not the hash of what action %d writes", *a.output.Action)
		case a == nil && !unchanged[f.Path]:
			s.fault("ST7", pack.At(pack.RunFile, "execution", "outputs", strconv.Itoa(i)), "no action writes %s", pack.Quoted(f.Path))
		}
		if a != nil {
			written++
		}
	}
	s.must(written == len(s.plan.last), "ST7", pack.RunFile+"#/execution/outputs", "%d of %d files that the plan writes are missing", len(s.plan.last)-written, len(s.plan.last))
	for i, a := range e.ActionResults {
		if a.Action == pack.OpDelete {
			s.fault("ST7", pack.At(pack.EvidenceFile, "action_results", strconv.Itoa(i), "action"), "no action removes a file")
		}
	}
}
