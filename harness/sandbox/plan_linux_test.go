//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fiador/fiador/harness/sandbox/cgroup"
	"github.com/fiador/fiador/harness/sandbox/initproc"
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
// the architecture (TestFilter proves the effect of the filter).
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
// folders and its devices. Below version 3 the filter refuses the calls that Landlock does
// not control.
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

// instructions returns the instructions of a filter.
func instructions(f initproc.Filter) []initproc.Insn {
	var list []initproc.Insn
	for at := range slices.Chunk(f, initproc.InsnSize) {
		list = append(list, initproc.Insn{Code: binary.LittleEndian.Uint16(at), JT: at[2], JF: at[3], K: binary.LittleEndian.Uint32(at[4:])})
	}
	return list
}

// sysCall is the input of a filter for one system call.
type sysCall struct {
	arch   uint32
	number uint32
	args   [6]uint64
}

// word returns the result of a load at an offset of seccomp_data on these little-endian
// machines.
func (s sysCall) word(offset uint32) (uint32, bool) {
	switch {
	case offset == 0:
		return s.number, true
	case offset == 4:
		return s.arch, true
	case offset >= 16 && offset < 64 && offset%4 == 0:
		arg := s.args[(offset-16)/8]
		return uint32(arg >> (32 * (offset / 4 % 2))), true
	}
	return 0, false
}

// filtering runs a filter as the kernel does. Every jump leads forwards, so filtering ends.
func filtering(list []initproc.Insn, s sysCall) (uint32, error) {
	var acc uint32
	for pc := 0; pc < len(list); pc++ {
		in, jump := list[pc], false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			word, ok := s.word(in.K)
			if !ok {
				return 0, fmt.Errorf("instruction %d loads from %d", pc, in.K)
			}
			acc = word
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= in.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K, nil
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump = acc == in.K
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			jump = acc > in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump = acc&in.K != 0
		default:
			return 0, fmt.Errorf("instruction %d has the code %#x", pc, in.Code)
		}
		if jump {
			pc += int(in.JT)
		} else {
			pc += int(in.JF)
		}
	}
	return 0, fmt.Errorf("the filter ends without an answer")
}

const (
	retAllowed  = "allow"
	retKilled   = "kill"
	retPerm     = "EPERM"
	retNoSys    = "ENOSYS"
	retNoFamily = "EAFNOSUPPORT"
	retNothing  = "done, without being done"
)

func answer(ret uint32) string {
	switch {
	case ret == 0x7fff0000:
		return retAllowed
	case ret == 0x80000000:
		return retKilled
	case ret == 0x00050000:
		return retNothing
	case ret>>16 == 0x0005:
		return unix.ErrnoName(syscall.Errno(ret & 0xffff))
	}
	return fmt.Sprintf("%#x", ret)
}

// planFilters are the filters of the golden plans, and one for each option.
func planFilters() map[string][]initproc.Insn {
	filters := map[string][]initproc.Insn{
		"old Landlock": filter(filterOptions{noTruncate: true}),
		"everything":   filter(filterOptions{families: []uint32{unix.AF_UNIX}, noFork: true, noTruncate: true, shared: true, uncounted: true, setID: true}),
	}
	for _, c := range planCases() {
		if p := c.compile(); p.Confine.Seccomp != nil {
			filters[c.name] = instructions(p.Confine.Seccomp)
		}
	}
	return filters
}

// TestFilterIsWellFormed: filters meet the requirements of the kernel and of this
// interpreter.
func TestFilterIsWellFormed(t *testing.T) {
	for name, list := range planFilters() {
		if len(list) == 0 || len(list) > 4096 {
			t.Errorf("%s: %d instructions", name, len(list))
		}
		for pc, in := range list {
			jumps := in.Code&7 == unix.BPF_JMP
			if end := pc + 1 + int(max(in.JT, in.JF)); jumps && end >= len(list) || !jumps && in.JT+in.JF != 0 {
				t.Errorf("%s: instruction %d leads to %d of %d", name, pc, end, len(list))
			}
		}
		if last := list[len(list)-1]; last.Code != unix.BPF_RET|unix.BPF_K {
			t.Errorf("%s: ends with %#x", name, last.Code)
		}
	}
}

// TestFilterArchitecture: a call of another architecture kills the process, whatever its
// number. The filter checks the architecture first.
func TestFilterArchitecture(t *testing.T) {
	foreign := []uint32{
		unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_ARMEB,
		unix.AUDIT_ARCH_PPC64LE, unix.AUDIT_ARCH_RISCV64, 0, 0xffffffff,
	}
	for name, list := range planFilters() {
		for _, arch := range foreign {
			for _, number := range []uint32{0, unix.SYS_READ, unix.SYS_EXECVE, newestKnown, newestKnown + 1, 0x40000000, 0xffffffff} {
				got, err := filtering(list, sysCall{arch: arch, number: number})
				if a := answer(got); err != nil || (a == retKilled) != (arch != auditArch) {
					t.Errorf("%s: architecture %#x, number %d: %s, %v", name, arch, number, a, err)
				}
			}
		}
	}
}

// TestFilterEveryNumber: the filter refuses exactly the numbers of the lists, and examines
// the arguments of exactly the calls whose arguments decide.
func TestFilterEveryNumber(t *testing.T) {
	asked := []int{unix.SYS_CLONE, unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_IOCTL, unix.SYS_PERSONALITY, unix.SYS_PRLIMIT64, unix.SYS_SETPRIORITY, unix.SYS_MMAP, unix.SYS_SETSOCKOPT}
	for _, c := range slices.Concat(modes, modesHere) {
		asked = append(asked, c.number)
	}
	for name, list := range planFilters() {
		strict := name == "everything"
		want := map[int]string{}
		for _, n := range slices.Concat(refused, refusedHere) {
			want[n] = retPerm
		}
		for _, n := range refusedQuietly {
			want[n] = retNoSys
		}
		if strict || strings.HasSuffix(name, "-no-fork") || name == "full-small" {
			for _, n := range forks {
				want[n] = retPerm
			}
		}
		if strict || name == "old Landlock" {
			want[unix.SYS_TRUNCATE] = retPerm
		}
		confined := strings.HasPrefix(name, "confined")
		if strict || confined {
			for _, n := range slices.Concat(refusedShared, refusedOwners, ownersHere) {
				want[n] = retPerm
			}
			for _, n := range refusedAttributes {
				want[n] = unix.ErrnoName(unix.EOPNOTSUPP)
			}
		}
		if strict || name == "full-uncounted" {
			want[unix.SYS_MEMFD_CREATE] = retNoSys
			for _, n := range []int{unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET} {
				want[n] = retPerm
			}
		}
		if strict || confined || name == "full-copy" || strings.HasPrefix(name, "full-direct") {
			want[unix.SYS_OPENAT2] = retNoSys
		}
		for n := 0; n <= newestKnown+100; n++ {
			if slices.Contains(asked, n) {
				continue
			}
			expect := want[n]
			switch {
			case n > newestKnown:
				expect = retNoSys
			case expect == "":
				expect = retAllowed
			}
			got, err := filtering(list, sysCall{arch: auditArch, number: uint32(n)})
			if a := answer(got); err != nil || a != expect {
				t.Errorf("%s: call %d is answered by %s and not %s (%v)", name, n, a, expect, err)
			}
		}
		for _, n := range []uint32{0x40000000, 0x40000000 | unix.SYS_READ, 0x40000000 | unix.SYS_EXECVE, 0x7fffffff, 0x80000000, 0xffffffff} {
			if got, _ := filtering(list, sysCall{arch: auditArch, number: n}); answer(got) != retNoSys {
				t.Errorf("%s: call %#x is answered by %s", name, n, answer(got))
			}
		}
	}
}

// TestFilterArguments: the calls whose arguments decide.
func TestFilterArguments(t *testing.T) {
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM
	filters := planFilters()
	plain, noFork, confined, open, uncounted := filters["full-exec"], filters["full-no-fork"], filters["confined-exec"], filters["confined-network"], filters["full-uncounted"]
	if plain == nil || noFork == nil || confined == nil || open == nil || uncounted == nil {
		t.Fatal("a golden plan is gone")
	}
	type row struct {
		what   string
		list   []initproc.Insn
		number int
		args   [6]uint64
		want   string
	}
	rows := []row{
		{"fork", plain, unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, retAllowed},
		{"vfork", plain, unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, retAllowed},
		{"thread", plain, unix.SYS_CLONE, [6]uint64{thread}, retAllowed},
		{"fork with high bits", plain, unix.SYS_CLONE, [6]uint64{0xffffffff00000000 | uint64(unix.SIGCHLD)}, retAllowed},
		{"fork where none is allowed", noFork, unix.SYS_CLONE, [6]uint64{uint64(unix.SIGCHLD)}, retPerm},
		{"vfork where none is allowed", noFork, unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_VFORK}, retPerm},
		{"thread where no fork is allowed", noFork, unix.SYS_CLONE, [6]uint64{thread}, retAllowed},
		{"thread in a namespace where no fork is allowed", noFork, unix.SYS_CLONE, [6]uint64{thread | unix.CLONE_NEWUSER}, retPerm},
		{"terminal size", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCGWINSZ}, retAllowed},
		{"terminal mode", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TCGETS}, retAllowed},
		{"typing", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSTI}, retPerm},
		{"typing with high bits", plain, unix.SYS_IOCTL, [6]uint64{0, 0x100000000 | unix.TIOCSTI}, retPerm},
		{"selection", plain, unix.SYS_IOCTL, [6]uint64{0, 0x541c}, retPerm},
		{"line discipline", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCSETD}, retPerm},
		{"console", plain, unix.SYS_IOCTL, [6]uint64{0, unix.TIOCCONS}, retPerm},
		{"usual personality", plain, unix.SYS_PERSONALITY, [6]uint64{0}, retAllowed},
		{"which personality", plain, unix.SYS_PERSONALITY, [6]uint64{0xffffffff}, retAllowed},
		{"fixed addresses", plain, unix.SYS_PERSONALITY, [6]uint64{0x0040000}, retAllowed},
		{"32 bits", plain, unix.SYS_PERSONALITY, [6]uint64{0x0008}, retPerm},
		{"addresses that can be executed", plain, unix.SYS_PERSONALITY, [6]uint64{0x0400000}, retPerm},
		{"addresses below 64 KiB", plain, unix.SYS_PERSONALITY, [6]uint64{0x0100000}, retPerm},
	}
	for _, r := range []struct {
		what    string
		number  int
		args    [6]uint64
		without string // the answer where no cgroup counts memory
	}{
		{"private memory", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, retAllowed},
		{"shared memory", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, retPerm},
		{"shared memory, with more flags", unix.SYS_MMAP, [6]uint64{0, 4096, 3, 1<<32 | unix.MAP_SHARED | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE}, retPerm},
		{"a shared file", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_SHARED}, retAllowed},
		{"a private file", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_PRIVATE}, retAllowed},
		{"memory that grows downwards", unix.SYS_MMAP, [6]uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_GROWSDOWN}, retPerm},
		{"a pair of streams", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, retAllowed},
		{"a pair of packet sockets", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, retAllowed},
		{"a pair of datagram sockets", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, retPerm},
		{"a pair of raw sockets", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, retPerm},
		{"a socket that others find", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, retNoFamily},
		{"a sending buffer", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.SO_SNDBUF}, retNothing},
		{"a receiving buffer", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.SOL_SOCKET, unix.SO_RCVBUF}, retAllowed},
		{"another option of that number", unix.SYS_SETSOCKOPT, [6]uint64{3, unix.IPPROTO_TCP, unix.SO_SNDBUF}, retAllowed},
	} {
		rows = append(rows, row{r.what, plain, r.number, r.args, retAllowed}, row{r.what + ", uncounted", uncounted, r.number, r.args, r.without})
	}
	for _, flag := range []uint64{
		unix.CLONE_NEWNS, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC, unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET, unix.CLONE_NEWCGROUP,
	} {
		rows = append(rows, row{"namespace " + strconv.FormatUint(flag, 16), plain, unix.SYS_CLONE, [6]uint64{flag | uint64(unix.SIGCHLD)}, retPerm})
	}
	families := map[uint64][3]string{ // in a full sandbox, in a confined one, in one with a network
		unix.AF_UNIX: {retAllowed, retNoFamily, retNoFamily}, unix.AF_INET: {retAllowed, retNoFamily, retAllowed}, unix.AF_INET6: {retAllowed, retNoFamily, retAllowed},
		unix.AF_UNSPEC: {retNoFamily, retNoFamily, retNoFamily}, 0x100000000: {retNoFamily, retNoFamily, retNoFamily}, 0xffffffff: {retNoFamily, retNoFamily, retNoFamily},
	}
	for _, f := range []uint64{unix.AF_NETLINK, unix.AF_PACKET, unix.AF_ALG, unix.AF_VSOCK, unix.AF_BLUETOOTH, unix.AF_CAN, unix.AF_TIPC, unix.AF_XDP, unix.AF_KEY, unix.AF_RDS} {
		families[f] = [3]string{retNoFamily, retNoFamily, retNoFamily}
	}
	for f, want := range families {
		for i, list := range [][]initproc.Insn{plain, confined, open} {
			rows = append(rows, row{fmt.Sprintf("family %d in filter %d", f, i), list, unix.SYS_SOCKET, [6]uint64{f, unix.SOCK_STREAM}, want[i]})
		}
	}
	for _, r := range rows {
		got, err := filtering(r.list, sysCall{arch: auditArch, number: uint32(r.number), args: r.args})
		if a := answer(got); err != nil || a != r.want {
			t.Errorf("%s: %s and not %s (%v)", r.what, a, r.want, err)
		}
	}
}

// refusedNames lists the refused calls again, by name.
var refusedNames = map[string]int{
	"clone3": unix.SYS_CLONE3, "io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER,
	"io_uring_register": unix.SYS_IO_URING_REGISTER, "memfd_secret": unix.SYS_MEMFD_SECRET, "fanotify_init": unix.SYS_FANOTIFY_INIT,
	"fanotify_mark": unix.SYS_FANOTIFY_MARK, "statmount": unix.SYS_STATMOUNT, "listmount": unix.SYS_LISTMOUNT,
	"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
	"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN, "fsconfig": unix.SYS_FSCONFIG,
	"fsmount": unix.SYS_FSMOUNT, "fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT,
	"quotactl": unix.SYS_QUOTACTL, "quotactl_fd": unix.SYS_QUOTACTL_FD, "acct": unix.SYS_ACCT, "swapon": unix.SYS_SWAPON, "swapoff": unix.SYS_SWAPOFF,
	"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS,
	"ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
	"process_madvise": unix.SYS_PROCESS_MADVISE, "kcmp": unix.SYS_KCMP, "sched_setaffinity": unix.SYS_SCHED_SETAFFINITY, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
	"sched_setscheduler": unix.SYS_SCHED_SETSCHEDULER, "sched_setparam": unix.SYS_SCHED_SETPARAM, "sched_setattr": unix.SYS_SCHED_SETATTR, "ioprio_set": unix.SYS_IOPRIO_SET,
	"move_pages": unix.SYS_MOVE_PAGES, "migrate_pages": unix.SYS_MIGRATE_PAGES,
	"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "userfaultfd": unix.SYS_USERFAULTFD,
	"kexec_load": unix.SYS_KEXEC_LOAD, "kexec_file_load": unix.SYS_KEXEC_FILE_LOAD, "init_module": unix.SYS_INIT_MODULE,
	"finit_module": unix.SYS_FINIT_MODULE, "delete_module": unix.SYS_DELETE_MODULE, "reboot": unix.SYS_REBOOT, "syslog": unix.SYS_SYSLOG,
	"lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE, "nfsservctl": unix.SYS_NFSSERVCTL, "vhangup": unix.SYS_VHANGUP,
	"add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY, "keyctl": unix.SYS_KEYCTL,
	"settimeofday": unix.SYS_SETTIMEOFDAY, "clock_settime": unix.SYS_CLOCK_SETTIME, "clock_adjtime": unix.SYS_CLOCK_ADJTIME,
	"adjtimex": unix.SYS_ADJTIMEX, "sethostname": unix.SYS_SETHOSTNAME, "setdomainname": unix.SYS_SETDOMAINNAME,
}

// refusedOnAMD64 are the names of those that only amd64 has.
var refusedOnAMD64 = []string{
	"iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs", "_sysctl", "create_module", "get_kernel_syms", "query_module",
}

// TestFilterPage: specs/sandbox.md names exactly the system calls that are refused.
func TestFilterPage(t *testing.T) {
	numbers := slices.Concat(refused, refusedQuietly)
	for name, n := range refusedNames {
		if !slices.Contains(numbers, n) {
			t.Errorf("%s is not refused", name)
		}
	}
	if len(numbers) != len(refusedNames) {
		t.Errorf("%d calls are refused, and %d have a name here", len(numbers), len(refusedNames))
	}
	if auditArch == unix.AUDIT_ARCH_X86_64 && len(refusedHere) != len(refusedOnAMD64) {
		t.Errorf("%d calls of amd64 are refused, and %d have a name here", len(refusedHere), len(refusedOnAMD64))
	}
	var shown []string
	rows := sandboxTable(t, "System calls")
	if above := fmt.Sprintf("a number above %d,", newestKnown); !strings.Contains(rows[1][2], above) {
		t.Errorf("the page does not say %q: %v", above, rows[1])
	}
	for _, row := range rows {
		if row[1] != retNoSys && row[1] != retPerm {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(row[2], -1) {
			if n, known := refusedNames[m[1]]; known && slices.Contains(refusedQuietly, n) != (row[1] == retNoSys) {
				t.Errorf("the page answers %s by %s", m[1], row[1])
			}
			shown = append(shown, m[1])
		}
	}
	var want []string
	for name := range refusedNames {
		want = append(want, name)
	}
	want = append(want, refusedOnAMD64...)
	slices.Sort(want)
	slices.Sort(shown)
	if !slices.Equal(shown, want) {
		t.Errorf("%s names\n%v\nand refused are\n%v", sandboxMD, shown, want)
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
	for id, k := range causes {
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
