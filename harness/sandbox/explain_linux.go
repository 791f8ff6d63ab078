//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fiador/fiador/harness/sandbox/initproc"
)

// Explain compiles the plan of a request for one tier. The clauses are the promises of this
// machine if every step succeeds and no cgroup is available.
func (h *Host) Explain(tier Isolation, r Request) (Explained, error) {
	if tier == Full {
		r.Read = h.reads(r)
	}
	if e := r.unlistable(tier); e != nil {
		return Explained{}, e
	}
	s := &Sandbox{Isolation: tier, req: r, staging: stageNone}
	var plan initproc.Plan
	if tier == Full {
		src := map[string]source{}
		for _, p := range r.Read {
			info, err := os.Stat(p)
			if err != nil {
				return Explained{}, s.fail(StepFiles, err)
			}
			src[p] = source{path: p, file: !info.IsDir()}
		}
		src[WorkDir], src[TreeDir], src["inputs"], src["delta"] = source{path: r.Work}, source{path: r.Tree}, source{path: r.Inputs}, source{path: r.Delta}
		if r.Write == Staged {
			s.staging = stageOverlay
		}
		plan = fullPlan(h.with(s.group), r, s.staging == stageOverlay, src)
	} else {
		at := places{isolation: tier, work: r.Work, tmp: filepath.Join(os.TempDir(), scratchPrefix+"…"), files: map[string]bool{}}
		if r.Write == Staged {
			s.staging, at.work, at.staged = stageCopy, at.tmp+"/work", true
		}
		if h.root {
			at.id = hostID + 1
		}
		at.tmp += "/tmp"
		plan = confinedPlan(h.with(s.group), r, at)
	}
	return Explained{
		Isolation: tier, Steps: stepLines(plan), GiveUp: giveUpLines(plan.Confine),
		Env: r.environment("/tmp"), Clauses: h.clauses(s),
	}, nil
}

// stepLines returns the steps of a plan, one per line.
func stepLines(p initproc.Plan) []string {
	var list []string
	if p.PIDs {
		list = append(list, "start: process 1 of new user, mount, pid, ipc, uts and cgroup namespaces, and of a network namespace unless the network is open")
	} else {
		list = append(list, "start: a process in a session of its own")
	}
	for _, s := range p.Steps {
		line := s.Op + ":"
		for _, word := range []string{s.From, s.Name, strings.Join(s.Lower, " "), s.To} {
			if word != "" && !strings.HasSuffix(line, " "+word) {
				line += " " + word
			}
		}
		switch {
		case s.Op == initproc.OpFile:
			line += fmt.Sprintf(" (%d bytes)", len(s.Text))
		case s.Text != "":
			line += " " + s.Text
		}
		if s.ID != 0 {
			line += fmt.Sprintf(" uid and gid %d", s.ID)
		}
		if s.Bytes != 0 {
			line += fmt.Sprintf(" %d bytes, %d inodes", s.Bytes, s.Inodes)
		}
		list = append(list, strings.TrimSuffix(line, ":")+attributes(s.Attr))
	}
	return list
}

func attributes(attr uint64) string {
	var words []string
	for _, a := range []struct {
		bit  uint64
		name string
	}{{initproc.ReadOnly, "ro"}, {initproc.NoSUID, "nosuid"}, {initproc.NoDev, "nodev"}, {initproc.NoExec, "noexec"}} {
		if attr&a.bit != 0 {
			words = append(words, a.name)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " [" + strings.Join(words, ",") + "]"
}

func giveUpLines(c initproc.Confine) []string {
	list := []string{fmt.Sprintf("affinity: %d processors", c.CPUs)}
	if c.UID != 0 {
		list = append(list, fmt.Sprintf("ids: uid and gid %d, no other groups", c.UID))
	}
	list = append(list, "session keyring: a new one", "no_new_privs")
	if c.Landlock != nil {
		list = append(list, fmt.Sprintf("landlock: rights %#x, network %#x, scopes %#x", c.Landlock.FS, c.Landlock.Net, c.Landlock.Scoped))
		for _, r := range c.Landlock.Rules {
			list = append(list, fmt.Sprintf("landlock: %#x beneath %s", r.Access, r.Path))
		}
	}
	list = append(list, "capabilities: bounding set, ambient set and own sets empty; securebits locked")
	if len(c.Seccomp) > 0 {
		list = append(list, fmt.Sprintf("seccomp: %d instructions", len(c.Seccomp)/initproc.InsnSize))
	}
	for _, l := range c.Rlimits {
		list = append(list, fmt.Sprintf("rlimit: %s %d", rlimitNames.Get()[l.Resource], l.Value))
	}
	return list
}
