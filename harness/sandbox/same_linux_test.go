//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/harness/tree"
)

// sameVar tells a process of this program to print the results that must be the same.
const sameVar = "FIADOR_TEST_SAME"

// samePrint begins the line with these results.
const samePrint = "FOUND "

// sameEverywhere prints what every command finds, for every user and in every tier.
const sameEverywhere = `umask; echo "$TZ $LANG $LC_ALL $SOURCE_DATE_EPOCH $PYTHONHASHSEED $PATH $GIVEN"; date -d @0 +%c; printf 'b\nA\na\n' | sort
ls -A "$HOME"; ls -A "$TMPDIR"; pwd | grep -o 'work$'; ls -1A; cat in/data; ulimit -c; ulimit -n; ulimit -d; ulimit -l; nproc
stat -c '%A %n' . a c c/d in in/data run; kill -l | wc -l; (kill -HUP $(sh -c 'echo $PPID'); echo deaf)
echo err >&2; sed s/d/D/ in/data >in/upper; chmod +x in/upper; ln -s upper in/link; rm b; mkdir -p out/deep`

// sameFull prints what is the same in every sandbox with a view of its own.
const sameFull = `env; hostname; id; pwd; tty; cat /etc/passwd /etc/group /etc/hosts /etc/nsswitch.conf /etc/resolv.conf; ulimit -a
stat -c '%A %u %g %N' /* /dev/* /dev/shm /tmp; cat /proc/sys/kernel/hostname /proc/self/uid_map | awk '{ print $1, $3 }'
ls -A / /tmp /dev/shm; cut -d: -f1 /proc/net/dev | sort; set -- /proc/[0-9]*; echo $#; readlink /proc/self/ns/* | wc -l
grep -E '^(Cap|Sig...:|NoNewPrivs|Seccomp:|Groups|Uid|Gid|Umask)' /proc/self/status; cut -d' ' -f5,6 /proc/self/mountinfo | sort`

// sameTools returns programs whose output has no reason to differ.
func sameTools() []Action {
	var list []Action
	for _, a := range []struct{ needs, script string }{
		{"python3", `python3 -c 'print(hash("a"), {"x", "y", "z"}); import locale, sys; print(locale.getpreferredencoding(), sys.flags)'`},
		{"perl", `perl -e 'print join(" ", map { "$_=$ENV{$_}" } grep { !/HOME|TMPDIR|PWD/ } sort keys %ENV), "\n"'`},
		{"gcc", `echo 'int main(void) { return 0; }' >m.c && gcc -o m m.c && sha256sum m && rm m m.c`},
		{"git", realGit + `git init -q r && cd r && GIT_AUTHOR_DATE=2000-01-01T00:00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00:00Z git commit -q --allow-empty -m x && git rev-parse HEAD && cd .. && rm -rf r`},
		{"node", `node -p 'process.env.TZ + new Date(0) + [3, 1, 2].sort() + Object.keys(process.env).filter(k => k != "PWD").sort()'`},
	} {
		if realInstalled(a.needs) {
			list = append(list, Action{Argv: []string{"sh", "-c", a.script}})
		}
	}
	return list
}

// found is the part of an execution's result that must be the same.
type found struct {
	Streams []string
	Changes []string
}

// lookAround performs the same actions in a work folder with the same content.
func lookAround(t *testing.T, tier Isolation, order []string) found {
	t.Helper()
	work := filepath.Join(t.TempDir(), "some work folder", "work")
	for _, name := range order {
		realFile(t, filepath.Join(work, name), "of "+name+"\n")
	}
	script := sameEverywhere
	if tier == Full {
		script += "\n" + sameFull
	}
	r := Request{
		Work: work, Write: Staged, Limits: limits(), Least: tier, Most: tier,
		Actions: append([]Action{
			{Path: "in/data", Content: []byte("data\n")}, {Path: "run", Content: []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 3\n"), Executable: true},
			{Argv: []string{"sh", "-c", script}, Env: []string{"GIVEN=given"}},
			{Argv: []string{"./run", "1 2", ""}, Dir: "."}, {Argv: []string{"sh", "-c", "kill -KILL $$"}}, {Argv: []string{"no-such-program"}},
		}, sameTools()...),
	}
	var f found
	h := NewHost("")
	defer h.Close()
	tools := len(r.Actions) - len(sameTools())
	for i, a := range r.Actions {
		if len(a.Argv) == 0 {
			continue
		}
		one := r
		one.Actions = append(slices.Clone(r.Actions[:2]), a)
		got, err := h.ranBy(one, time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i >= tools && got.code != 0 {
			t.Errorf("%s: exit %d: %s", a.Argv, got.code, got.stderr)
		}
		f.Streams = append(f.Streams, fmt.Sprintf("%s: exit %d %+v", a.Argv, got.code, end(got.end)), got.stdout, fmt.Sprintf("%x", got.sums))
		if got.stderr != "" {
			f.Streams = append(f.Streams, got.stderr)
		}
		for _, c := range got.changes {
			f.Changes = append(f.Changes, fmt.Sprintf("%s %s %d %x %v %s", c.Kind, c.Path, c.Size, c.SHA256, c.Executable, c.Target))
		}
	}
	return f
}

// end returns the end without measured values.
func end(e End) End {
	e.MaxRSS = 0
	return e
}

// sameElsewhere starts a program in other surroundings, which must be invisible inside.
const sameElsewhere = `umask 077; ulimit -S -s 4096; ulimit -S -n 512; ulimit -S -c 0; trap "" HUP INT TERM PIPE; cd /; exec "$0" "$@" </dev/null`

// TestSame executes the same in two work folders, as root and as an ordinary user.
func TestSame(t *testing.T) {
	for _, tier := range []Isolation{Full, Confined} {
		t.Run(string(tier), func(t *testing.T) {
			needTier(t, tier)
			one := lookAround(t, tier, []string{"a", "b", "c/d"})
			two := lookAround(t, tier, []string{"c/d", "b", "a"})
			wantSame(t, "another work folder", one, two)
			b, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv(sameVar) == string(tier) {
				fmt.Println(samePrint + string(b))
				return
			}
			if os.Geteuid() != 0 {
				return
			}
			out := asUser(t, []string{"/bin/sh", "-c", sameElsewhere}, "TestSame/"+string(tier), sameVar+"="+string(tier), "LC_ALL=de_DE", "TZ=Asia/Tokyo", "CDPATH=/", "ENV=/etc/passwd", "SHELL=/bin/false", "USER=x")
			_, line, _ := strings.Cut(out, samePrint)
			line, _, _ = strings.Cut(line, "\n")
			var other found
			if err := json.Unmarshal([]byte(line), &other); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			wantSame(t, "another user", one, other)
		})
	}
}

func wantSame(t *testing.T, what string, one, two found) {
	t.Helper()
	for _, pair := range [][2][]string{{one.Streams, two.Streams}, {one.Changes, two.Changes}} {
		if len(pair[0]) != len(pair[1]) {
			t.Errorf("%s: %d and %d of them:\n%s", what, len(pair[0]), len(pair[1]), differs(strings.Join(pair[0], "\n")+"\n", strings.Join(pair[1], "\n")+"\n"))
			continue
		}
		for i, s := range pair[0] {
			if s != pair[1][i] {
				t.Errorf("%s: %s", what, differs(s+"\n", pair[1][i]+"\n"))
			}
		}
	}
}

// ---- many runs ----

// sameRuns is the number of sandboxes that one process starts.
const sameRuns = "FIADOR_RUNS"

// belongings counts the resources of a process that it could fail to release.
type belongings struct{ descriptors, goroutines, mounts, cgroups, folders, children int }

func belongingsOf(t *testing.T, temp string) belongings {
	t.Helper()
	folders, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile("/proc/thread-self/children")
	if err != nil {
		children = nil // this kernel does not have the file
	}
	return belongings{
		descriptors: openFiles(), goroutines: runtime.NumGoroutine(), mounts: rehearsal.Mounts(t, filepath.Dir(temp)),
		cgroups: len(groupsOf(os.Getpid())), folders: len(folders), children: len(strings.Fields(string(children))),
	}
}

// settledBelongings counts until two counts in a row are equal. A goroutine that is about to
// end is counted until it has ended, but is not a resource to release.
func settledBelongings(t *testing.T, temp string) (b belongings) {
	t.Helper()
	if !eventually(time.Minute, func() bool { last := b; b = belongingsOf(t, temp); return b == last }) {
		t.Fatalf("what the process has changes, while it runs nothing: %+v", b)
	}
	return b
}

// keptBy says whether the process has the same resources later. It may have fewer
// goroutines, because one more may end after the first count.
func (b belongings) keptBy(later belongings) bool {
	ended := b.goroutines - later.goroutines
	later.goroutines = b.goroutines
	return later == b && ended >= 0
}

// TestManyRuns starts many sandboxes of every kind in one process.
func TestManyRuns(t *testing.T) {
	needTier(t, Full)
	runs := rehearsal.Count(4*manyKinds, 100)
	if s := os.Getenv(sameRuns); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		runs = n
	}
	base, err := os.MkdirTemp("", "many-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	work, temp := filepath.Join(base, "work"), filepath.Join(base, "temp")
	realFile(t, filepath.Join(work, "a"), "a\n")
	if err := os.Mkdir(temp, 0o755); err != nil {
		t.Fatal(err)
	}
	h := NewHost(temp)
	defer h.Close()
	var before belongings
	var took []time.Duration
	for i := range runs + manyKinds {
		if i == manyKinds { // every kind of run has happened once
			before = settledBelongings(t, temp)
		}
		began := time.Now()
		manyRun(t, h, i, work)
		took = append(took, time.Since(began))
	}
	var after belongings
	if !eventually(time.Minute, func() bool { after = belongingsOf(t, temp); return before.keptBy(after) }) {
		t.Errorf("before %d runs %+v, after them %+v", runs, before, after)
	}
	n := len(took) / 4
	t.Logf("%+v; a run took %v at first and %v at last", after, middle(took[:n]), middle(took[len(took)-n:]))
}

func TestManyRunsAsUser(t *testing.T) {
	testAsUser(t, "TestManyRuns", sameRuns+"="+os.Getenv(sameRuns))
}

func middle(list []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

// manyKinds is the number of kinds of run.
const manyKinds = 8

// manyRun starts one sandbox.
func manyRun(t *testing.T, h *Host, i int, work string) {
	t.Helper()
	r := Request{
		Work: work, Write: Staged, Limits: limits(), Grace: 10 * time.Millisecond,
		Actions: []Action{{Path: "made", Content: []byte("x")}, {Argv: []string{"sh", "-c", "echo $0; (sleep 600 &) >/dev/null 2>&1"}}},
	}
	limit, code, refused := actionTime, 0, false
	switch i % manyKinds {
	case 1:
		r.Work = ""
	case 2:
		r.Least, r.Most = Confined, Confined
	case 3:
		r.Limits.NoFork, r.Actions[1].Argv = true, []string{"true"}
	case 4:
		limit, code, r.Actions[1].Argv = 5*time.Millisecond, 143, []string{"sleep", "9"}
	case 5:
		r.Write, r.Protect, r.Hide = Direct, []string{"a"}, []string{"b"}
	case 6:
		refused, r.Read = true, []string{"/no/such/folder"}
	case 7:
		code, r.Actions[1].Argv = 127, []string{"no-such-program"}
	}
	got, err := h.ranBy(r, limit, nil)
	if refused != (err != nil) || got.code != code && err == nil {
		t.Fatalf("run %d: exit %d, %v: %s", i, got.code, err, got.stderr)
	}
}
