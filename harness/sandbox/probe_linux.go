//go:build linux && (amd64 || arm64)

package sandbox

import (
	"context"
	"errors"
	"os"

	"github.com/fiador/fiador/harness/tree"
)

// Probe tries each tier with a plan that runs nothing and puts the work folder on an
// overlay. It returns, for each tier, whether the tier is available and why not.
func (h *Host) Probe(ctx context.Context) []Probe {
	var list []Probe
	for _, tier := range []Isolation{Full, Confined} {
		p := Probe{Isolation: tier}
		work, err := os.MkdirTemp(h.temp, scratchName()+"-")
		if err != nil {
			p.Err = &Error{Isolation: tier, Step: StepFiles, Msg: err.Error(), Cause: CauseTemp, Remedy: causes[CauseTemp].remedy}
			list = append(list, p)
			continue
		}
		s, err := h.Start(ctx, Request{
			Work: work, Write: Staged, Least: tier, Most: tier,
			Limits: Limits{MemoryMB: 64, CPUCores: 1, MaxChildren: 1, OutputFiles: 1, OutputBytes: kib},
		})
		switch {
		case err == nil:
			p.Clauses, p.Staging = s.Clauses, string(s.staging)
			err = s.Close()
			if err != nil {
				p.Err = &Error{Isolation: tier, Step: StepReport, Msg: err.Error()}
			}
		case !errors.As(err, &p.Err):
			p.Err = &Error{Isolation: tier, Step: StepReport, Msg: err.Error()}
		}
		_ = tree.RemoveAll(work)
		list = append(list, p)
	}
	return list
}
