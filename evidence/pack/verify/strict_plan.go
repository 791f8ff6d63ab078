package verify

import (
	"slices"
	"strconv"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel"
)

// plan is the plan of a bundle, read from its outputs.
type plan struct {
	actions []planned           // by position
	files   int                 // write actions
	last    map[string]*planned // the last write of each path
	whole   bool                // there is a bundle, and its actions are the actions of an intent
}

// planned is one action.
type planned struct {
	kernel.Action
	output kernel.Output
	at     int         // position of the output
	bound  bool        // a call that a tool performs
	tool   kernel.Tool // the digests of such a call
}

// calls returns the positions of the calls of a whole plan.
func (p plan) calls() []int {
	var list []int
	for i, a := range p.actions {
		if p.whole && a.Kind == kernel.ActionCall {
			list = append(list, i)
		}
	}
	return list
}

// modelCalls returns the positions of the calls of models.
func (p plan) modelCalls() []int {
	return slices.DeleteFunc(p.calls(), p.isBound)
}

// isBound says whether a tool performs the action at a position.
func (p plan) isBound(i int) bool { return i < len(p.actions) && p.actions[i].bound }

// readPlan makes the plan of a bundle that was made again.
func (s *strictLevel) readPlan(b *kernel.Bundle, again kernel.Rebuilt) {
	p := plan{actions: make([]planned, len(again.Actions)), last: map[string]*planned{}}
	for i, a := range again.Actions {
		p.actions[i] = planned{a, b.Outputs[again.At[i]], again.At[i], again.Tools[i].ToolSHA256 != "", again.Tools[i]}
		if a.Kind == kernel.ActionWrite {
			p.files++
			p.last[a.Path] = &p.actions[i]
		}
	}
	s.plan = p
}

func outputAt(i int, tokens ...string) string {
	return pack.At(pack.BundleFile, append([]string{"outputs", strconv.Itoa(i)}, tokens...)...)
}

// checkFilePaths checks that the kernel allows writes to the paths of files. Every
// policy denies the others.
func (s *strictLevel) checkFilePaths(b *kernel.Bundle) bool {
	ok := true
	for i, o := range b.Outputs {
		if o.Type != "file" {
			continue
		}
		if what := s.paths.wrong(o.Path); what != "" {
			s.fault("ST4", outputAt(i, "path"), "%s %s", pack.Quoted(o.Path), what)
			ok = false
		}
		if s.paths.reserved(o.Path) {
			s.fault("ST4", outputAt(i, "path"), "%s is below a folder that the bundle uses itself", pack.Quoted(o.Path))
			ok = false
		}
	}
	return ok
}
