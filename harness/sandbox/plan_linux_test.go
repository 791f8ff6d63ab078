//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/sandbox/cgroup"
	"github.com/fiador/fiador/harness/sandbox/initproc"
	"github.com/fiador/fiador/harness/sandbox/seccomp"
)

var updatePlans = flag.Bool("update", false, "write the golden plans")

// A plan depends on values alone. The plans of these tests depend on the hosts and requests
// below, not on the machine that runs the tests.

const (
	planFolder = "../../specs/vectors/execution/plans"
	sandboxMD  = "../../specs/sandbox.md"
)

// planHost is a machine with every feature: merged /usr, Landlock 7, an ordinary user.
func planHost() host {
	return host{
		system:   []string{"/usr"},
		links:    []string{"/bin=usr/bin", "/sbin=usr/sbin", "/lib=usr/lib", "/lib64=usr/lib64"},
		etc:      slices.Concat(etcPaths, etcNetwork),
		landlock: 7,
	}
}

// planRequest is the request of `fiador exec` under the profile default.
func planRequest() Request {
	return Request{
		Work: "/home/user/site", Write: Staged, Protect: []string{".git", ".fiador", ".github"},
		Limits:  Limits{MemoryMB: 512, CPUCores: 1, MaxChildren: 10, OutputFiles: 500, OutputBytes: 52428800},
		Actions: []Action{{Argv: []string{"node", "build.js"}}},
	}
}

// planCase is one plan with the values that it is compiled from.
type planCase struct {
	name, about string
	tier        Isolation
	host        host
	req         Request
	staged      bool              // in memory, on an overlay
	sources     map[string]source // full
	at          places            // confined and none
}

// compile makes the plan.
func (c planCase) compile() initproc.Plan {
	if c.tier == Full {
		return fullPlan(c.host, c.req, c.staged, c.sources)
	}
	return confinedPlan(c.host, c.req, c.at)
}

// fullCase is a case of a full sandbox, and otherCase one without a view of its own; change
// changes the usual case.
func fullCase(name, about string, change func(*planCase)) planCase {
	c := planCase{name: name, about: about, tier: Full, host: planHost(), req: planRequest(), staged: true}
	change(&c)
	if c.sources == nil {
		c.sources = map[string]source{WorkDir: {path: c.req.Work}, TreeDir: {path: c.req.Tree}, "inputs": {path: c.req.Inputs}, "delta": {path: c.req.Delta}}
		for _, p := range c.req.Read {
			c.sources[p] = source{path: p, file: filepath.Ext(p) != ""}
		}
	}
	return c
}

func otherCase(name, about string, change func(*planCase)) planCase {
	c := planCase{name: name, about: about, tier: Confined, host: planHost(), req: planRequest()}
	const scratch = "/tmp/fiador-sandbox-1000-2000-3000"
	c.at = places{isolation: Confined, work: scratch + "/work", tmp: scratch + "/tmp", staged: true, others: 40 + initThreads, files: map[string]bool{}}
	change(&c)
	for _, p := range c.req.Read {
		c.at.files[p] = filepath.Ext(p) != ""
	}
	return c
}

// planCases are the golden plans, each in a file of its name.
func planCases() []planCase {
	const scratch = "/tmp/fiador-sandbox-1000-2000-3000"
	ownID := func(c *planCase) { c.host.root, c.host.id, c.at.id, c.at.others = true, hostID, hostID+1001, 0 }
	return []planCase{
		fullCase("full-strict", "an intent under strict: no work folder, and so no overlay", func(c *planCase) {
			c.req.Work = ""
			c.req.Limits = Limits{MemoryMB: 512, CPUCores: 1, MaxChildren: 10, OutputFiles: 200, OutputBytes: 10485760}
		}),
		fullCase("full-default", "an intent under default: work folder, inputs and tree", func(c *planCase) {
			c.req.Inputs, c.req.Tree = scratch, "/home/user/tree"
		}),
		fullCase("full-dev", "an intent under dev: a file and a folder to read, more limits, two processors", func(c *planCase) {
			c.req.Inputs, c.req.Tree, c.req.Read = scratch, "/home/user/tree", []string{"/opt/sdk", "/home/user/versions.txt"}
			c.req.Limits = Limits{MemoryMB: 4096, CPUCores: 2, MaxChildren: 100, OutputFiles: 1000, OutputBytes: 104857600}
		}),
		fullCase("full-exec", "a command in a folder, as fiador exec has it", func(*planCase) {}),
		fullCase("full-inputs", "inputs alone: the only lower layer of the overlay", func(c *planCase) {
			c.req.Work, c.req.Inputs = "", scratch
		}),
		fullCase("full-delta", "changes of an earlier execution over the work folder", func(c *planCase) {
			c.req.Delta, c.req.Inputs = "/home/user/changes", scratch
		}),
		fullCase("full-uncounted", "where no cgroup counts memory", func(c *planCase) { c.host.uncounted = true }),
		fullCase("full-hide", "paths of the work folder that a request denies", func(c *planCase) {
			c.req.Hide = []string{"secrets", "config/key.pem"}
		}),
		fullCase("full-copy", "where there is no overlay: the copy is the work folder", func(c *planCase) {
			c.staged, c.req.Work = false, scratch+"/work"
		}),
		fullCase("full-direct", "direct writes: the work folder itself", func(c *planCase) {
			c.staged, c.req.Write = false, Direct
		}),
		fullCase("full-direct-roots", "direct writes under write roots", func(c *planCase) {
			c.staged, c.req.Write, c.req.Roots = false, Direct, []string{"out", "dist"}
		}),
		fullCase("full-network", "a profile with allow_network", func(c *planCase) {
			c.req.Network = true
		}),
		fullCase("full-listed", "a profile with network_hosts or registries", func(c *planCase) {
			c.req.Listed = true
		}),
		fullCase("full-no-fork", "allow_fork false: the command's own process gives up", func(c *planCase) {
			c.req.Limits.NoFork = true
		}),
		fullCase("full-small", "the least of each limit", func(c *planCase) {
			c.req.Limits = Limits{MemoryMB: 64, CPUCores: 1, MaxChildren: 0, OutputFiles: 1, OutputBytes: 1024}
		}),
		fullCase("full-unmerged", "a machine of folders and no links, without parts of /etc", func(c *planCase) {
			c.host.system, c.host.links = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}, nil
			c.host.etc = []string{"/etc/ld.so.cache"}
		}),
		fullCase("full-root", "started by root: what the init may not open is handed over", func(c *planCase) {
			c.host.root, c.host.id = true, hostID
			c.req.Inputs, c.req.Tree = scratch, "/home/user/tree"
			c.sources = map[string]source{
				WorkDir: {path: c.req.Work, fd: 5}, TreeDir: {path: c.req.Tree, fd: 6}, "inputs": {path: c.req.Inputs, fd: 7},
			}
		}),
		otherCase("confined-exec", "Landlock and seccomp alone: a copy is the work folder", func(*planCase) {}),
		otherCase("confined-run", "an intent with tree and paths to read", func(c *planCase) {
			c.req.Tree, c.req.Read = "/home/user/tree", []string{"/opt/sdk", "/home/user/versions.txt"}
		}),
		otherCase("confined-direct", "direct writes under write roots", func(c *planCase) {
			c.req.Write, c.req.Roots = Direct, []string{"out", "dist"}
			c.at.work, c.at.staged = c.req.Work, false
		}),
		otherCase("confined-network", "a profile with allow_network", func(c *planCase) {
			c.req.Network = true
		}),
		otherCase("confined-no-fork", "allow_fork false", func(c *planCase) {
			c.req.Limits.NoFork = true
		}),
		otherCase("confined-root", "started by root: an id that nobody else has", ownID),
		otherCase("none", "a profile that asks for no isolation: limits only", func(c *planCase) {
			c.tier, c.at.isolation = None, None
		}),
		otherCase("none-root", "the same, started by root", func(c *planCase) {
			ownID(c)
			c.tier, c.at.isolation = None, None
		}),
	}
}

// planRequestJSON is a request as golden plans name it.
type planRequestJSON struct {
	Work        string   `json:"work"`
	Write       Write    `json:"write"`
	Inputs      string   `json:"inputs,omitempty"`
	Delta       string   `json:"delta,omitempty"`
	Tree        string   `json:"tree,omitempty"`
	Read        []string `json:"read,omitempty"`
	Deny        []string `json:"deny,omitempty"`
	Roots       []string `json:"direct_write_roots,omitempty"`
	Network     bool     `json:"network"`
	Listed      bool     `json:"listed_hosts,omitempty"`
	MemoryMB    int      `json:"memory_mb"`
	CPUCores    int      `json:"cpu_cores"`
	MaxChildren int      `json:"max_children"`
	AllowFork   bool     `json:"allow_fork"`
	OutputFiles int      `json:"output_files"`
	OutputBytes int64    `json:"output_bytes"`
}

// planHostJSON is a machine as golden plans name it.
type planHostJSON struct {
	Folders  []string `json:"folders"`
	Links    []string `json:"links"`
	Etc      []string `json:"etc"`
	Landlock int      `json:"landlock"`
	Root     bool     `json:"root"`
}

// goldenPlan is a file of specs/vectors/execution/plans.
type goldenPlan struct {
	About       string          `json:"about"`
	Isolation   Isolation       `json:"isolation"`
	Host        planHostJSON    `json:"host"`
	Request     planRequestJSON `json:"request"`
	Steps       []string        `json:"steps"`
	HandedOver  []string        `json:"handed_over"` // paths that the supervisor opened
	GiveUp      []string        `json:"give_up"`
	Last        bool            `json:"last_step"`
	Environment []string        `json:"environment"`
	Dir         string          `json:"dir"`
}

func golden(c planCase) goldenPlan {
	p, l := c.compile(), c.req.Limits
	g := goldenPlan{
		About: c.about, Isolation: c.tier,
		Host: planHostJSON{append([]string{}, c.host.system...), append([]string{}, c.host.links...), append([]string{}, c.host.etc...), c.host.landlock, c.host.root},
		Request: planRequestJSON{
			c.req.Work, c.req.Write, c.req.Inputs, c.req.Delta, c.req.Tree, c.req.Read, c.req.Hide, c.req.Roots, c.req.Network, c.req.Listed,
			l.MemoryMB, l.CPUCores, l.MaxChildren, !l.NoFork, l.OutputFiles, l.OutputBytes,
		},
		Steps: stepLines(p), HandedOver: []string{}, GiveUp: giveUp(p.Confine), Last: p.Confine.Last,
		Environment: p.Actions[0].Env, Dir: p.Actions[0].Dir,
	}
	for _, s := range p.Steps {
		if s.FD != 0 {
			g.HandedOver = append(g.HandedOver, s.Name)
		}
	}
	return g
}

// giveUp returns what a command gives up, without the length of the filter, which depends on
// the architecture (TestPlanFilter proves which filter it is).
func giveUp(c initproc.Confine) []string {
	list := giveUpLines(c)
	for i, line := range list {
		if strings.HasPrefix(line, "seccomp:") {
			list[i] = "seccomp"
		}
	}
	return list
}

// checkGolden compares a value with a golden file of plain ASCII.
func checkGolden(t *testing.T, name string, v any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsFunc(b.Bytes(), func(r rune) bool { return r >= 0x7f }) {
		t.Errorf("%s is not plain ASCII", name)
	}
	file := filepath.Join(planFolder, name)
	if *updatePlans {
		if err := os.MkdirAll(planFolder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s is not what is compiled (%v): look at the difference after go test ./harness/sandbox -run Plan -update", file, err)
	}
}

// TestPlanGolden: every step of a plan, and what a command gives up, equals the files of
// specs/vectors/execution/plans, and there is no other file.
func TestPlanGolden(t *testing.T) {
	want := map[string]bool{"landlock.json": true}
	for _, c := range planCases() {
		want[c.name+".json"] = true
		checkGolden(t, c.name+".json", golden(c))
	}
	entries, err := os.ReadDir(planFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !want[e.Name()] {
			t.Errorf("%s is no golden plan", e.Name())
		}
	}
}

// TestPlanLandlock: the rights that a plan requests from each version of Landlock, in both
// tiers.
func TestPlanLandlock(t *testing.T) {
	type version struct {
		Landlock int      `json:"landlock"`
		Full     []string `json:"full"`
		Confined []string `json:"confined"`
	}
	var list []version
	for _, v := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
		of := func(c planCase) (list []string) {
			c.host.landlock = v
			for _, line := range giveUp(c.compile().Confine) {
				if rest, ok := strings.CutPrefix(line, "landlock: "); ok {
					list = append(list, rest)
				}
			}
			return list
		}
		got := version{v, append([]string{}, of(fullCase("", "", func(*planCase) {}))...), []string{}}
		if v > 0 { // without Landlock there is no confined sandbox (prepareConfined)
			got.Confined = of(otherCase("", "", func(*planCase) {}))
		}
		list = append(list, got)
	}
	checkGolden(t, "landlock.json", map[string]any{
		"about": "What a command in the folder of full-exec.json and confined-exec.json gives up through each version of Landlock: rights as bits of landlock(7).", "versions": list,
	})
}

// index of the first step with an operation, or -1.
func stepAt(p initproc.Plan, op string) int {
	return slices.IndexFunc(p.Steps, func(s initproc.Step) bool { return s.Op == op })
}

// TestPlanOrder: a plan of a full sandbox starts with its ids. It opens everything before it
// builds, builds before it removes the old root, seals the new root, and rehearses last.
func TestPlanOrder(t *testing.T) {
	building := []string{
		initproc.OpDir, initproc.OpFile, initproc.OpLink, initproc.OpPlace, initproc.OpTmpfs, initproc.OpStage, initproc.OpOverlay,
		initproc.OpCover, initproc.OpHide, initproc.OpProc,
	}
	inside := []string{initproc.OpSeal, initproc.OpHostname, initproc.OpLoopback, initproc.OpEnter, initproc.OpRehearse}
	for _, c := range planCases() {
		p := c.compile()
		if last := p.Steps[len(p.Steps)-1].Op; last != initproc.OpRehearse {
			t.Errorf("%s: the last step is %q", c.name, last)
		}
		if c.tier != Full {
			if p.PIDs || stepAt(p, initproc.OpReaper) < 0 || stepAt(p, initproc.OpGuard) != 0 {
				t.Errorf("%s: nobody takes care of what loses its parent: %v", c.name, stepLines(p))
			}
			continue
		}
		first := []string{initproc.OpIdentity, initproc.OpGuard, initproc.OpPrivate}
		for i, op := range first {
			if p.Steps[i].Op != op {
				t.Errorf("%s: step %d is %q and not %q", c.name, i, p.Steps[i].Op, op)
			}
		}
		root, pivot := stepAt(p, initproc.OpRoot), stepAt(p, initproc.OpPivot)
		for i, s := range p.Steps {
			switch {
			case s.Op == initproc.OpOpen && i > root:
				t.Errorf("%s: %s is opened after the root was made", c.name, s.From)
			case slices.Contains(building, s.Op) && (i < root || i > pivot):
				t.Errorf("%s: %s %s is not between root and pivot", c.name, s.Op, s.To)
			case slices.Contains(inside, s.Op) && i < pivot:
				t.Errorf("%s: %s is before the pivot", c.name, s.Op)
			}
		}
		if !p.PIDs || stepAt(p, initproc.OpSeal) != pivot+1 || stepAt(p, initproc.OpEnter) < 0 {
			t.Errorf("%s: %v", c.name, stepLines(p)[pivot:])
		}
	}
}

// TestPlanSources: a plan shows exactly what it opens, each once. All of it is read-only
// except direct writes and copies. No mount keeps set-id bits, and only the devices of /dev
// are usable.
func TestPlanSources(t *testing.T) {
	for _, c := range planCases() {
		if c.tier != Full {
			continue
		}
		opened, shown := map[string]initproc.Step{}, map[string]int{}
		for _, s := range c.compile().Steps {
			switch s.Op {
			case initproc.OpOpen:
				if _, twice := opened[s.Name]; twice {
					t.Errorf("%s: %s is opened twice", c.name, s.Name)
				}
				opened[s.Name] = s
			case initproc.OpPlace:
				shown[s.Name]++
			case initproc.OpOverlay:
				for _, name := range s.Lower {
					shown[name]++
				}
			}
			if s.Op == initproc.OpPlace || s.Op == initproc.OpOverlay {
				for _, name := range append([]string{s.Name}, s.Lower...) {
					if _, ok := opened[name]; !ok && name != "" {
						t.Errorf("%s: %s was never opened", c.name, name)
					}
				}
			}
		}
		for name, s := range opened {
			device := strings.HasPrefix(name, "/dev/")
			writable := name == WorkDir && !c.staged
			switch {
			case shown[name] != 1:
				t.Errorf("%s: %s is shown %d times", c.name, name, shown[name])
			case s.Attr&initproc.NoSUID == 0,
				s.Attr&initproc.NoDev == 0 && !device,
				s.Attr&initproc.NoExec == 0 && (device || strings.HasPrefix(name, "/etc/")),
				s.Attr&initproc.ReadOnly == 0 && !writable:
				t.Errorf("%s: %s has the attributes%s", c.name, name, attributes(s.Attr))
			}
		}
	}
}

// TestPlanEtc: a plan shows only the listed parts of the host's /etc, and those for the
// network only with a network. It writes the rest of /etc itself.
func TestPlanEtc(t *testing.T) {
	written := []string{"etc/passwd", "etc/group", "etc/hosts", "etc/nsswitch.conf", "etc/resolv.conf"}
	for _, c := range planCases() {
		allowed := slices.Clone(etcPaths)
		if c.req.Network {
			allowed = append(allowed, etcNetwork...)
		}
		if c.req.Listed {
			allowed = append(allowed, etcCertificates)
		}
		p := c.compile()
		for _, s := range p.Steps {
			switch {
			case s.Op == initproc.OpOpen && (s.From == "/etc" || strings.HasPrefix(s.From, "/etc/") && !slices.Contains(allowed, s.From)):
				t.Errorf("%s: %s is opened", c.name, s.From)
			case s.Op == initproc.OpFile && strings.HasPrefix(s.To, "etc/") && s.Text != "" && !slices.Contains(written, s.To):
				t.Errorf("%s: %s is written", c.name, s.To)
			case s.Op == initproc.OpPlace && strings.HasPrefix(s.To, "etc/") && !slices.Contains(allowed, s.Name):
				t.Errorf("%s: %s is shown", c.name, s.Name)
			}
		}
		if c.tier != Confined {
			continue
		}
		allowed = append(allowed, readable...)
		if c.req.Network {
			allowed = append(allowed, "/etc/hosts")
		}
		for _, r := range p.Confine.Landlock.Rules {
			if r.Path == "/" || r.Path == "/etc" || strings.HasPrefix(r.Path, "/etc/") && !slices.Contains(allowed, r.Path) {
				t.Errorf("%s: %#x beneath %s", c.name, r.Access, r.Path)
			}
		}
	}
}

// TestPlanNetwork: a sandbox has a network of its own unless its profile has the host's.
// Only its own network has a loopback interface to bring up.
func TestPlanNetwork(t *testing.T) {
	const always = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	for _, c := range planCases() {
		h := &Host{host: c.host}
		sys := h.processAttr(&Sandbox{Isolation: c.tier, req: c.req})
		want := uintptr(always)
		if !c.req.Network {
			want |= unix.CLONE_NEWNET
		}
		if c.tier != Full {
			want = 0
		}
		p := c.compile()
		if sys.Cloneflags != want || !sys.Setsid {
			t.Errorf("%s: born with %#x and not %#x", c.name, sys.Cloneflags, want)
		}
		if lo := stepAt(p, initproc.OpLoopback) >= 0; lo != (c.tier == Full && !c.req.Network) {
			t.Errorf("%s: loopback %v", c.name, lo)
		}
		if at := stepAt(p, initproc.OpListen); (at >= 0) != c.req.Listed || at >= 0 && at < stepAt(p, initproc.OpLoopback) {
			t.Errorf("%s: the step listen is at %d", c.name, at)
		}
		if c.tier == Full {
			checkBirth(t, c, sys)
			continue
		}
		if net := p.Confine.Landlock != nil && p.Confine.Landlock.Net != 0; net == c.req.Network && c.tier == Confined {
			t.Errorf("%s: Landlock holds TCP: %v", c.name, net)
		}
	}
}

// checkBirth: commands have one id inside. Outside, their id is no account and never root's.
func checkBirth(t *testing.T, c planCase, sys *syscall.SysProcAttr) {
	t.Helper()
	outside := os.Geteuid()
	if c.host.root {
		outside = c.host.id
	}
	for _, m := range [][]syscall.SysProcIDMap{sys.UidMappings, sys.GidMappings} {
		if len(m) != 1 || m[0].ContainerID != Inside || m[0].Size != 1 {
			t.Errorf("%s: ids %v", c.name, m)
		}
	}
	if got := sys.UidMappings[0].HostID; got != outside {
		t.Errorf("%s: uid %d outside and not %d", c.name, got, outside)
	}
	if c.host.root && (sys.Credential == nil || sys.Credential.Uid != Inside || sys.GidMappings[0].HostID != c.host.id) {
		t.Errorf("%s: root's init keeps %v", c.name, sys.Credential)
	}
}

// TestPlanWrites: Landlock lets a command write only to its work folder, its temporary
// folders and its devices.
func TestPlanWrites(t *testing.T) {
	const write = llFirst&^llReadRun | llRefer | llTruncate
	for _, c := range planCases() {
		p := c.compile()
		if c.tier == None {
			if p.Confine.Landlock != nil || p.Confine.Seccomp != nil {
				t.Errorf("%s gives up more than it says", c.name)
			}
			continue
		}
		allowed := []string{"/tmp", "/dev/shm", WorkDir}
		if c.tier == Confined {
			allowed = []string{c.at.tmp, c.at.work}
		}
		if c.req.Roots != nil {
			root := allowed[len(allowed)-1]
			allowed = allowed[:len(allowed)-1]
			for _, r := range c.req.Roots {
				allowed = append(allowed, root+"/"+r)
			}
		}
		var got []string
		for _, r := range p.Confine.Landlock.Rules {
			switch device := strings.HasPrefix(r.Path, "/dev/") && r.Path != "/dev/shm"; {
			case device && r.Access&write&^(llWriteFile|llTruncate) != 0:
				t.Errorf("%s: %#x beneath %s", c.name, r.Access, r.Path)
			case !device && r.Access&write != 0:
				got = append(got, r.Path)
			}
		}
		slices.Sort(got)
		slices.Sort(allowed)
		if !slices.Equal(got, allowed) {
			t.Errorf("%s: writes beneath %v and not %v", c.name, got, allowed)
		}
	}
}

// TestPlanLimits: the limits of a request apply to its processes. If the init could not work
// under them, the command's own process sets them.
func TestPlanLimits(t *testing.T) {
	for _, c := range planCases() {
		p, l := c.compile(), c.req.Limits
		got := map[int]uint64{}
		for _, r := range p.Confine.Rlimits {
			got[r.Resource] = r.Value
		}
		if got[unix.RLIMIT_DATA] != uint64(l.MemoryMB)<<20 || got[unix.RLIMIT_CORE] != 0 || p.Confine.CPUs != l.CPUCores {
			t.Errorf("%s: %v, %d processors", c.name, got, p.Confine.CPUs)
		}
		if n := got[unix.RLIMIT_NPROC]; n < uint64(l.Tasks()) {
			t.Errorf("%s: %d processes, and %d are allowed", c.name, n, l.Tasks())
		}
		if size, bounded := got[unix.RLIMIT_FSIZE]; bounded != !c.staged || bounded && size != uint64(l.OutputBytes) {
			t.Errorf("%s: files of %d bytes, %v", c.name, size, bounded)
		}
		if p.Confine.Last != (l.NoFork || l.MaxChildren == 0 || l.MemoryMB < 256) {
			t.Errorf("%s: last step %v", c.name, p.Confine.Last)
		}
		if i := stepAt(p, initproc.OpStage); i >= 0 && (p.Steps[i].Bytes < l.OutputBytes || p.Steps[i].Inodes < int64(l.OutputFiles)) {
			t.Errorf("%s: no room for what may be written: %+v", c.name, p.Steps[i])
		}
	}
}

// TestPlanIsAValue: compiling twice gives the same bytes, and decoding them gives the same
// plan. Both the form that is hashed and the form that the init reads hold the whole plan.
func TestPlanIsAValue(t *testing.T) {
	for _, c := range planCases() {
		a, err := json.Marshal(c.compile())
		if err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(c.compile())
		var back initproc.Plan
		if err := json.Unmarshal(a, &back); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %v, the same twice: %v", c.name, err, bytes.Equal(a, b))
		}
		if again, _ := json.Marshal(back); !bytes.Equal(a, again) || !reflect.DeepEqual(stepLines(back), stepLines(c.compile())) {
			t.Errorf("%s: does not come back as it was", c.name)
		}
		plan := c.compile()
		read, err := initproc.DecodePlan(plan.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(read); !bytes.Equal(a, again) {
			t.Errorf("%s: the init does not read what was compiled", c.name)
		}
	}
}

// TestPlanFilter: the filter of each plan has the options that its name stands for.
// TestFilterEveryNumber and TestFilterArguments prove what an option refuses.
func TestPlanFilter(t *testing.T) {
	check := func(c planCase, want seccomp.Options) {
		t.Helper()
		if !bytes.Equal(c.compile().Confine.Seccomp, seccomp.Filter(want)) {
			t.Errorf("%s, Landlock %d: the filter is not that of %+v", c.name, c.host.landlock, want)
		}
	}
	for _, c := range planCases() {
		if c.tier == None {
			continue // TestPlanWrites: no filter
		}
		direct := c.name == "full-copy" || strings.HasPrefix(c.name, "full-direct")
		want := seccomp.Options{
			NoFork: strings.HasSuffix(c.name, "-no-fork") || c.name == "full-small",
			Shared: c.tier == Confined, SetID: c.tier == Confined || direct,
			Uncounted: c.name == "full-uncounted",
		}
		if c.tier == Full || c.name == "confined-network" {
			want.Families = []uint32{unix.AF_INET, unix.AF_INET6}
		}
		if c.tier == Full && !direct && !slices.Contains([]string{"full-default", "full-dev", "full-root", "full-uncounted"}, c.name) {
			want.Families = append(want.Families, unix.AF_UNIX)
		}
		check(c, want)
		if c.tier == Confined { // a full sandbox protects by its mounts what Landlock does not
			c.host.landlock = 3
			check(c, want)
			c.host.landlock, want.NoTruncate = 2, true
			check(c, want)
			c.host.uncounted, want.Uncounted = true, true
			check(c, want)
		}
	}
}

// sandboxTable returns the first table beneath a heading of specs/sandbox.md, without its
// header.
func sandboxTable(t *testing.T, heading string) [][]string {
	t.Helper()
	b, err := os.ReadFile(sandboxMD)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(b), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", sandboxMD, heading)
	}
	var rows [][]string
	for line := range strings.Lines(after) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 || strings.HasPrefix(line, "## ") {
				break
			}
			continue
		}
		rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
	}
	if len(rows) < 3 {
		t.Fatalf("%s: no table beneath %q", sandboxMD, heading)
	}
	return rows[2:]
}

// TestPlanEnvironmentPage: specs/sandbox.md lists exactly the environment of a command in a
// full sandbox.
func TestPlanEnvironmentPage(t *testing.T) {
	b, err := os.ReadFile(sandboxMD)
	if err != nil {
		t.Fatal(err)
	}
	if want := "\n```\n" + strings.Join(environment("/tmp"), "\n") + "\n```\n"; !strings.Contains(string(b), want) {
		t.Errorf("%s does not have:%s", sandboxMD, want)
	}
}

// TestPlanCausesPage: specs/sandbox.md lists every known cause, its meaning, its remedy, and
// whether weaker isolation is also a remedy.
func TestPlanCausesPage(t *testing.T) {
	want := map[string][]string{}
	for id, k := range causes.Get() {
		remedy, weaker := strings.CutSuffix(k.remedy, "; or use a profile whose isolation is confined")
		want[id] = []string{k.means, remedy, map[bool]string{true: "yes", false: "no"}[weaker]}
	}
	shown := map[string][]string{}
	for _, row := range sandboxTable(t, "Causes and remedies") {
		shown[strings.Trim(row[0], "`")] = []string{row[1], strings.ReplaceAll(row[3], "`", ""), row[4]}
	}
	for id := range want {
		if !slices.Equal(shown[id], want[id]) {
			t.Errorf("%s says of %s\n%q\nand the program\n%q", sandboxMD, id, shown[id], want[id])
		}
	}
	if len(shown) != len(want) {
		t.Errorf("%s has %d causes, the program %d", sandboxMD, len(shown), len(want))
	}
}

// TestPlanClausesPage: specs/sandbox.md lists every clause, with each mechanism that it can
// have and the reach of that mechanism.
func TestPlanClausesPage(t *testing.T) {
	want := map[string]bool{}
	group1 := &cgroup.Group{Held: cgroup.Limits{Memory: 1, Tasks: 1, CPUs: 1}}
	for _, tier := range []Isolation{Full, Confined, None} {
		for _, landlock := range []int{0, 1, 3, 6} {
			for _, root := range []bool{false, true} {
				for _, g := range []*cgroup.Group{nil, group1} {
					for _, staging := range []staging{stageNone, stageOverlay, stageCopy} {
						for _, r := range []Request{{}, {Network: true}, {Listed: true}, {Limits: Limits{MaxChildren: 1}}} {
							if tier == Confined && landlock == 0 || tier != Full && (staging == stageOverlay || r.Listed) {
								continue
							}
							h := &Host{host: host{landlock: landlock, root: root}}
							for _, c := range h.clauses(&Sandbox{Isolation: tier, req: r, staging: staging, group: g}) {
								mechanism := regexp.MustCompile(`of \d+ processes`).ReplaceAllString(c.Mechanism, "of N processes")
								mechanism = regexp.MustCompile(`Landlock \d+`).ReplaceAllString(mechanism, "Landlock V")
								want[strings.Join([]string{c.Clause, mechanism, string(c.Status)}, " | ")] = true
							}
						}
					}
				}
			}
		}
	}
	shown := map[string]bool{}
	for _, row := range sandboxTable(t, "Clauses") {
		shown[strings.Join([]string{strings.Trim(row[0], "`"), row[1], row[2]}, " | ")] = true
	}
	for line := range want {
		if !shown[line] {
			t.Errorf("%s does not have: %s", sandboxMD, line)
		}
	}
	for line := range shown {
		if !want[line] {
			t.Errorf("%s has what no sandbox says: %s", sandboxMD, line)
		}
	}
}
