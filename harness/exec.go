package harness

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/harness/command"
	"github.com/fiador/fiador/harness/execute"
	"github.com/fiador/fiador/harness/request"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy/profile"
)

// Exec says how one command is executed: an intent of one run action, or one line whose
// commands are the run actions, and choices of the caller that no intent can express. A limit can only be narrower than the profile's.
type Exec struct {
	Argv      []string
	Line      string // a line for sh, in the place of Argv; its commands are the actions of the intent
	Env       map[string]string
	Dir       string // beneath the work folder
	Work      string // host folder
	Write     sandbox.Write
	Read      []string          // absolute host paths
	Show      []string          // paths beneath the work folder; commands see no other path in it, except writable ones; nil: they see all
	Hide      []string          // beneath the work folder
	Isolation sandbox.Isolation // exactly this isolation; empty: the strongest that is possible
	Timeout   time.Duration     // 0: the profile's
	Limits    ExecLimits
	Roots     []string // writable folders, beneath the profile's; nil: the profile's
	Expect    execute.Expect
	Outputs   []string        // files that must exist after the execution
	Bytes     int64           // of all outputs; 0: the profile's
	Offline   bool            // no network, whatever the profile allows
	Hosts     *contract.Hosts // the hosts that the command may reach, each within the profile's; nil: the profile's
	Inputs    sandbox.Inputs
	Streams   Streams
	Packed    bool   // things that no pack can hold reject the execution: symbolic links, truncated streams
	From      string // JSON Pointer of the request's member with the limits; empty: the caller sets the limits
}

// tooWide is the RunError for a limit beyond the profile's or the contract's limit.
// member is the place of the limit in a request.
func (x Exec) tooWide(member, msg, hint string) error {
	e := runerr.Mode(msg, hint)
	if x.From != "" {
		e.Details = map[string]any{"pointer": x.From + member}
	}
	return e
}

// Streams are the source and the destinations of a command's streams. A nil stdin is
// empty; a nil destination gets nothing.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// ExecLimits are limits of one command. A nil member means the profile's limit.
type ExecLimits struct {
	MemoryMB, CPUCores, MaxChildren *int
	NoFork                          bool
}

// ProfileGate returns a gate with limits and without a judge. Such a gate decides no
// intent.
func ProfileGate(r profile.Resolved) *Gate {
	return &Gate{Profile: r.Profile, Builtin: r.Origins == nil, Base: Open{Resolved: r}.base()}
}

// Confinement is the sandbox of one command under the profile.
func (g *Gate) Confinement(work string, write sandbox.Write, read []string) sandbox.Request {
	level := g.Profile.NetLevel()
	return sandbox.Request{
		Work: work, Write: write, Read: read, Protect: execute.Protected(), Network: level == contract.Open, Listed: level == contract.Registry || level == contract.API,
		Limits: g.Limits(), Least: sandbox.Isolation(g.Profile.Isolation),
	}
}

// Exec returns a command as a task under the gate's profile. The task has the profile's
// limits; it does not ask the policy, because Run does. The error is always a
// *result.RunError: the profile does not allow a limit.
func (g *Gate) Exec(x Exec) (execute.Task, error) {
	p := g.Profile
	if !slices.Contains(p.ExecutionModes, ModeExecuteSandbox) {
		return execute.Task{}, runerr.Mode("profile "+strconv.Quote(p.Name)+" does not allow execute-sandbox", "use a profile that does")
	}
	t := execute.Task{
		Profile: p,
		Sandbox: g.Confinement(x.Work, x.Write, x.Read),
		Rules:   g.Rules(), Budget: time.Duration(p.TimeoutMS) * time.Millisecond, Inputs: x.Inputs, Cut: !x.Packed,
	}
	t.Sandbox.Hide, t.Sandbox.Inputs, t.Expect = x.Hide, x.Inputs.Dir, x.Expect
	hosts := g.hosts()
	if x.Hosts != nil {
		hosts, t.Sandbox.Network, t.Sandbox.Listed = *x.Hosts, false, true
	}
	if x.Offline {
		t.Sandbox.Network, t.Sandbox.Listed = false, false
	}
	if err := g.narrow(&t, x); err != nil {
		return execute.Task{}, err
	}
	if len(x.Inputs.Files) == 0 {
		t.Sandbox.Inputs = ""
	}
	if x.Show != nil {
		t.Sandbox.Show, t.Sandbox.Folders = x.Show, append(slices.Clone(t.Rules.Roots), x.Dir)
	}
	if x.Write == sandbox.Direct && !t.Rules.AnyRoot {
		t.Sandbox.Roots = append([]string{}, t.Rules.Roots...)
	}
	t.Rules.Links, t.Rules.Declared = !x.Packed, x.Outputs
	t.Sandbox.Actions = []sandbox.Action{{Argv: x.Argv, Env: variables(x.Env), Dir: x.Dir, Hosts: hosts}}
	t.Stdin = append(t.Stdin, x.Streams.Stdin)
	stdout, stderr := contract.KeptBytes(int(t.Rules.MaxBytes))
	t.Stdout = command.Stream{Keep: int64(stdout), Tee: x.Streams.Stdout}
	t.Stderr = command.Stream{Keep: int64(stderr), Tee: x.Streams.Stderr}
	return t, nil
}

// planned returns the task of an allowed intent: all its actions as a run, or its one
// command as an exec.
func (g *Gate) planned(req Request, intent kernel.Intent, inputs sandbox.Inputs, tools map[int]execute.ToolCall, progress func(action, of int)) (t execute.Task, err error) {
	if req.Exec == nil {
		t = g.task(req, intent, inputs, tools, progress)
	} else {
		x, a := *req.Exec, intent.Actions[0]
		x.Outputs, x.Inputs = cleanPaths(intent.Outputs), inputs
		if x.Line != "" {
			x.Argv = []string{"sh", "-c", x.Line}
		} else {
			x.Argv, x.Env, x.Dir = a.Argv, a.Env, pathname.Clean(a.Cwd)
		}
		t, err = g.Exec(x)
	}
	if asked := tools[0]; asked != nil && err == nil && intent.Actions[0].Kind == kernel.ActionRun {
		narrowTo(&t, asked[0].Adapter)
	}
	return t, err
}

// narrow applies the limits of the call, within the limits of the profile.
func (g *Gate) narrow(t *execute.Task, x Exec) error {
	p, l := g.Profile, &t.Sandbox.Limits
	for _, m := range []struct {
		member string
		asked  *int
		most   int
		bounds contract.Limit
		set    *int
	}{
		{"/memory_mb", x.Limits.MemoryMB, p.MemoryMB, contract.MemoryMB(), &l.MemoryMB},
		{"/cpu_cores", x.Limits.CPUCores, p.CPUCores, contract.CPUCores(), &l.CPUCores},
		{"/processes/max_children", x.Limits.MaxChildren, p.MaxChildren, contract.MaxChildren(), &l.MaxChildren},
	} {
		if m.asked == nil {
			continue
		}
		if err := x.within(p.Name, m.member, *m.asked, m.most, m.bounds); err != nil {
			return err
		}
		*m.set = *m.asked
	}
	l.NoFork = x.Limits.NoFork
	if x.Timeout != 0 {
		if err := x.within(p.Name, "/timeout_ms", int(x.Timeout.Milliseconds()), p.TimeoutMS, contract.TimeoutMS()); err != nil {
			return err
		}
		t.Budget = x.Timeout
	}
	if x.Bytes > 0 && x.Bytes < t.Rules.MaxBytes {
		t.Rules.MaxBytes, l.OutputBytes = x.Bytes, x.Bytes
	}
	if x.Isolation != "" {
		if !x.Isolation.AtLeast(t.Sandbox.Least) {
			return runerr.New(result.CodeProfile, "isolation "+string(x.Isolation)+" is weaker than profile "+strconv.Quote(p.Name)+" demands ("+string(p.Isolation)+")",
				"leave --isolation out, or use a profile that allows it")
		}
		t.Sandbox.Least, t.Sandbox.Most = x.Isolation, x.Isolation
	}
	return g.narrowRoots(t, x)
}

func (g *Gate) narrowRoots(t *execute.Task, x Exec) error {
	if x.Roots == nil {
		return nil
	}
	for i, root := range x.Roots {
		beneath := t.Rules.AnyRoot || slices.ContainsFunc(t.Rules.Roots, func(r string) bool { return kernel.Beneath(root, r) })
		if !beneath {
			return x.tooWide("/filesystem/write/"+strconv.Itoa(i), strconv.Quote(root)+" is beneath none of the profile's allowed_write_roots",
				"name folders beneath them, or use a profile that allows more")
		}
	}
	t.Rules.Roots, t.Rules.AnyRoot = x.Roots, slices.Contains(x.Roots, ".")
	return nil
}

func (x Exec) within(profile, member string, asked, most int, bounds contract.Limit) error {
	what := path.Base(member) + " " + strconv.Itoa(asked)
	switch {
	case !bounds.Holds(asked):
		return x.tooWide(member, what+" is not from "+strconv.Itoa(bounds.Min)+" to "+strconv.Itoa(bounds.Max),
			"these are the limits of the contract; specs/execution.md has all of them")
	case asked > most:
		return x.tooWide(member, what+" is more than profile "+strconv.Quote(profile)+" allows ("+strconv.Itoa(most)+")",
			"ask for less, or use a profile that allows more")
	}
	return nil
}

// ReadFault says why commands cannot see a path of the host at its place, or returns "".
// The path is absolute and clean.
func ReadFault(p string) string {
	if p == "/" {
		return "it would show the whole machine"
	}
	for _, taken := range []string{sandbox.WorkDir, sandbox.TreeDir, "/proc", "/dev", "/sys", "/tmp"} {
		if p == taken || taken != "/tmp" && kernel.Beneath(p, taken) {
			return "commands have a " + taken + " of their own"
		}
	}
	if p == "/etc" {
		return "commands have an /etc of their own: name what is needed of it"
	}
	return ""
}

// readable refuses host paths in a request that the caller does not allow, and paths
// that commands cannot see.
func readable(paths, allowed []string) error {
	for i, p := range paths {
		if p[0] != '/' {
			continue
		}
		why := ReadFault(p)
		if !slices.ContainsFunc(allowed, func(root string) bool { return kernel.Beneath(p, root) }) {
			why = "beneath no --read"
		}
		if why != "" {
			return runerr.New(result.CodeProfile, "/sandbox/filesystem/read: "+canon.Quote(p)+": "+why,
				"list it in input_files if it is in the work folder; a path of the host has to be named with --read as well", runerr.At("/sandbox/filesystem/read/"+strconv.Itoa(i)))
		}
	}
	return nil
}

// hidable refuses to hide a path that is a symbolic link or leads through one, because
// the target would be visible under its own name.
func hidable(work string, denied []string) error {
	for i, p := range denied {
		at := work
		for name := range strings.SplitSeq(p, "/") {
			at = filepath.Join(at, name)
			if info, err := os.Lstat(at); err != nil || info.Mode()&fs.ModeSymlink == 0 {
				continue
			}
			return runerr.New(result.CodeSandbox, "/sandbox/filesystem/deny: "+canon.Quote(p)+" is a symbolic link, or leads through one",
				"deny what it leads to", runerr.At("/sandbox/filesystem/deny/"+strconv.Itoa(i)))
		}
	}
	return nil
}

// hosts returns the hosts that commands may reach under the profile. The profile's loader has
// read each entry; a list with another one allows nothing.
func (g *Gate) hosts() contract.Hosts {
	allow, _, _ := contract.ParseHosts(g.Profile.Hosts().Names)
	return contract.Hosts{Allow: allow}
}

// requestedHosts returns the hosts that a request allows and denies, or nil if it lists none.
// It refuses a network that the profile does not have, a host that lies within no list of
// the profile, and hosts to deny where everything can be reached.
func (g *Gate) requestedHosts(n request.Network) (*contract.Hosts, error) {
	level, lists := g.Profile.NetLevel(), g.Profile.Hosts()
	refuse := func(member, msg, hint string) error {
		at := "/sandbox/network/" + member
		return runerr.New(result.CodeProfile, at+": "+msg, hint, runerr.At(at))
	}
	switch {
	case !n.Enabled:
		return nil, nil
	case level == contract.Offline:
		return nil, refuse("enabled", "profile "+strconv.Quote(g.Profile.Name)+" allows no network", "set it to false, or use a profile with allow_network")
	case len(n.Allow) == 0 && len(n.Deny) == 0:
		return nil, nil
	case len(n.Allow) == 0 && level == contract.Open:
		return nil, refuse("deny", "profile "+strconv.Quote(g.Profile.Name)+" lets everything be reached, and a host cannot be taken away from that", "list the hosts to reach in allow, or use a profile that lists hosts")
	}
	for i, entry := range n.Allow {
		within := func(by string) bool { return contract.HostWithin(entry, by) }
		if !lists.All && !slices.ContainsFunc(lists.Names, within) {
			return nil, refuse("allow/"+strconv.Itoa(i), strconv.Quote(entry)+" lies within no host of profile "+strconv.Quote(g.Profile.Name), "name hosts of its network_hosts and registries, or use a profile that lists more")
		}
	}
	hosts := g.hosts()
	if len(n.Allow) > 0 {
		hosts.Allow, _, _ = contract.ParseHosts(n.Allow)
	}
	hosts.Deny, _, _ = contract.ParseHosts(n.Deny)
	return &hosts, nil
}

// absolute returns the absolute paths of a list; these are outside the work folder.
func absolute(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p[0] != '/' })
}

// Intent returns the command as an intent of one run action, as canonical JSON and one
// LF. The standard input in it is the empty text, because the real input can be any
// bytes. The error, a *result.RunError, is about bytes that no JSON text can hold
// (IV-02, IV-04).
func (x Exec) Intent() ([]byte, error) {
	faults := append(contract.CheckArguments("/actions/0/argv", x.Argv, contract.Argv), contract.CheckVariables("/actions/0/env", x.Env)...)
	if len(faults) > 0 {
		return nil, runerr.Violated(result.CodeNotIntent, &faults[0])
	}
	return request.CommandIntent(x.Argv, x.Env)
}

// Requested returns the run of an execution request in the folder work. Host paths that
// the request reads must lie beneath the paths in read, which the caller sets: the
// author of the request may be the party to confine. The error is always a
// *result.RunError.
func (g *Gate) Requested(r request.Request, name, work string, read []string) (Request, error) {
	if err := readable(r.Sandbox.Filesystem.Read, read); err != nil {
		return Request{}, err
	}
	if err := hidable(work, r.Sandbox.Filesystem.Deny); err != nil {
		return Request{}, err
	}
	hosts, err := g.requestedHosts(r.Sandbox.Network)
	if err != nil {
		return Request{}, err
	}
	source, err := r.Intent()
	if err != nil {
		return Request{}, err
	}
	x := g.requestedExec(r, work)
	x.Hosts = hosts
	return Request{
		Source: source, Path: name, Mode: ModeExecuteSandbox, ModelMode: ModelNone,
		Folders: Folders{Tree: work, Work: work}, Exec: &x,
	}, nil
}

// requestedExec returns the choices of a request besides its intent. A limit that is the
// contract's default becomes the profile's limit if that is smaller.
func (g *Gate) requestedExec(r request.Request, work string) Exec {
	s := r.Sandbox
	for _, m := range []struct {
		asked  *int
		limit  contract.Limit
		allows int
	}{
		{&s.TimeoutMS, contract.TimeoutMS(), g.Profile.TimeoutMS}, {&s.MemoryMB, contract.MemoryMB(), g.Profile.MemoryMB},
		{&s.CPUCores, contract.CPUCores(), g.Profile.CPUCores}, {&s.Processes.MaxChildren, contract.MaxChildren(), g.Profile.MaxChildren},
	} {
		if *m.asked == m.limit.Default {
			*m.asked = min(*m.asked, m.allows)
		}
	}
	expect := execute.Expect{Stdout: r.Outputs.Stdout == request.Expected, Stderr: r.Outputs.Stderr == request.Expected, Artifacts: r.Outputs.Artifacts}
	if r.Outputs.ExitCode != nil {
		expect.Code = *r.Outputs.ExitCode
	}
	return Exec{
		Expect: expect, Work: work, Write: sandbox.Staged,
		Read: absolute(s.Filesystem.Read), Show: r.Shown(), Hide: s.Filesystem.Deny, Timeout: time.Duration(s.TimeoutMS) * time.Millisecond,
		Limits: ExecLimits{MemoryMB: &s.MemoryMB, CPUCores: &s.CPUCores, MaxChildren: &s.Processes.MaxChildren, NoFork: !s.Processes.AllowFork}, Offline: !s.Network.Enabled,
		Roots: s.Filesystem.Write, From: "/sandbox", Bytes: int64(contract.OutputFilesBytes().Max),
		Streams: Streams{Stdin: textReader(r.Inputs.Stdin)},
	}
}
