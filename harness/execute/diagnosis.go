package execute

import (
	"fmt"
	"slices"

	"github.com/fiador/fiador/evidence"
)

// Diagnosis says why an execution failed, if the machine knows more than the reasons
// say, and how to solve the problem. The text is for people: on another machine it
// differs.
func (p *Performed) Diagnosis() (msg, hint string) {
	end := p.Observed.Command
	if end == nil || !end.Failed() || end.TimedOut || end.OutOfMemory || end.NotFound {
		return "", ""
	}
	if end.NotExecutable {
		at := p.task.Sandbox.Actions[p.Runs[len(p.Runs)-1].Action]
		if file, reserved := p.box.Reserved(end.Argv[0], at.Dir); reserved {
			return fmt.Sprintf("%q may be executed by its owner or group alone, and the command is started as somebody else", file), "let others execute it: chmod o+x"
		}
		return "", ""
	}
	had, most := p.PeakMemory, int64(p.task.Sandbox.Limits.MemoryMB)<<20
	if p.bounded() {
		had = p.resident // a cgroup also counts files that were read; RLIMIT_DATA counts one process
	}
	if had >= most-most/8 {
		return fmt.Sprintf("the command probably ran out of memory: it had %d of %d MiB when it failed", had>>20, most>>20), "give it more memory, or let it fail"
	}
	if file, group, found := p.box.Foreign(); found {
		return fmt.Sprintf("file %q cannot be changed inside: it belongs to group %d, which the sandbox does not have", file, group), "give it the group of the folder: chgrp"
	}
	return "", ""
}

// FailedAttempt says how the last attempt of a call failed, or "". The reasons do not have
// the code that a service or a server gave.
func (p *Performed) FailedAttempt() string {
	if len(p.Attempts) == 0 {
		return ""
	}
	last := p.Attempts[len(p.Attempts)-1]
	if last.Failure == "" {
		return ""
	}
	text := fmt.Sprintf("action %d: adapter %q failed: %s", last.Action, last.AdapterID, last.Failure)
	if last.Code != 0 {
		text += fmt.Sprintf(", code %d", last.Code)
	}
	return text
}

// bounded says whether a cgroup counts the memory.
func (p *Performed) bounded() bool {
	return slices.ContainsFunc(p.Clauses, func(c evidence.Clause) bool {
		return c.Clause == evidence.ClauseMemory && c.Status == evidence.Enforced
	})
}
