package sandboxes

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/profiles"
)

// Profile says whether a profile can execute on this machine.
type Profile struct {
	Name      string `json:"name"`
	Isolation string `json:"isolation"` // the least that the profile asks for
	Executes  bool   `json:"executes"`
	Why       string `json:"why,omitempty"` // why it cannot execute
}

// Profiles says for each built-in profile, and for a given one, whether it can execute on
// the machine with these probes.
func Profiles(a *cli.App, probes []sandbox.Probe, given *kernel.Profile) ([]Profile, error) {
	var list []Profile
	for _, name := range profiles.Names() {
		r, err := harness.Sources{Builtin: profiles.FS(), Profile: name}.Resolve(a.Specs)
		if err != nil {
			return nil, err
		}
		list = append(list, judged(r.Profile, probes))
	}
	if given != nil && !slices.ContainsFunc(list, func(p Profile) bool { return p.Name == given.Name }) {
		list = append(list, judged(*given, probes))
	}
	return list, nil
}

// judged holds a profile against what the probes found: the first isolation that can be had,
// is enough, and enforces the network level.
func judged(p kernel.Profile, probes []sandbox.Probe) Profile {
	told := Profile{Name: p.Name, Isolation: string(p.Isolation)}
	if !slices.Contains(p.ExecutionModes, harness.ModeExecuteSandbox) {
		told.Why = "it does not allow execute-sandbox"
		return told
	}
	told.Why = "commands are executed on Linux (amd64, arm64) alone"
	for _, probe := range probes {
		switch {
		case probe.Isolation != sandbox.Full && probe.Isolation != sandbox.Isolation(p.Isolation):
		case probe.Err != nil:
			told.Why = probe.Err.Error()
		case !slices.Contains(sandbox.Levels(probe.Isolation), p.NetLevel()):
			told.Why = string(probe.Isolation) + " isolation cannot enforce its network level, " + string(p.NetLevel())
		default:
			told.Executes, told.Why = true, ""
			return told
		}
	}
	return told
}

// Named adds to the error of a sandbox that could not be had which built-in profiles can
// execute on this machine. It returns other errors as they are.
func Named(ctx context.Context, a *cli.App, err error) error {
	re, ok := errors.AsType[*result.RunError](err)
	if !ok || re.Code != result.CodeSandbox || re.Details["isolation"] == nil {
		return err
	}
	host := sandbox.NewHost("")
	defer host.Close()
	list, failed := Profiles(a, host.Probe(ctx), nil)
	if failed != nil || ctx.Err() != nil {
		return err
	}
	var names []string
	for _, p := range list {
		if p.Executes {
			names = append(names, p.Name)
		}
	}
	told := *re
	told.Hint = re.Remedy() + "; built-in profiles that can execute here: " + strings.Join(names, ", ")
	if len(names) == 0 {
		told.Hint = re.Remedy() + "; no built-in profile can execute here"
	}
	return &told
}
