package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fiador/fiador/harness/rehearsal"
)

// bombEnv names the bomb that a child process of this test binary runs.
const bombEnv = "FIADOR_TEST_BOMB"

// dataEnv makes a child process of this test binary take memory that no watchdog sees.
const dataEnv = "FIADOR_TEST_DATA"

// Main runs the tests, or a bomb in their place if the environment names one, and returns the
// exit status. Only the end of its process ends a goroutine that the watchdog leaves running.
func Main(m *testing.M) int {
	if name := os.Getenv(bombEnv); name != "" {
		return runBomb(name)
	}
	if os.Getenv(dataEnv) != "" {
		return takeData()
	}
	if rehearsal.Raced {
		neverLimited()
	}
	return rehearsal.Tests{M: m}.Run()
}

// bomb is a policy that does not end, and the expected way of stopping it.
type bomb struct {
	name string
	body string // body of a deny
	want string // part of the output; "" if the machine's speed decides
}

const (
	byCancel   = "timeout"
	byWatchdog = "watchdog"
	byBound    = "would make more than 16 MiB"
	byAnswer   = "no error"
	byMemory   = "more than 768 MiB of memory: the process must end"
)

func bombs() []bomb {
	return []bomb{
		// Evaluations that notice the cancellation.
		{"comprehension", "n := numbers.range(1, 100000)\n\tcount([1 | some x in n; some y in n; x + y < 0]) > 0", byCancel},
		{"comprehension under not", "n := numbers.range(1, 100000)\n\tnot count([1 | some x in n; some y in n; x + y < 0]) > 0", byCancel},
		{"walk", chain(40, "[input.mode]", "[a%d, a%d]") + "some p, v\n\twalk(a40, [p, v])\n\tcount(p) < 0", ""},

		// Evaluations that do not notice it.
		{"doubling array written", chain(30, "[input.mode]", "[a%d, a%d]") + `json.marshal(a30) == ""`, byWatchdog},
		{"doubling array hashed", chain(30, "[input.mode]", "[a%d, a%d]") + "x := {a30}\n\tcount(x) > 1", byWatchdog},
		{"doubling set", chain(30, "{input.mode}", `{[a%d, 1], [a%d, 2]}`) + "count(a30) > 2", byWatchdog},
		{"doubling string", chain(40, "input.mode", `concat("", [a%d, a%d])`) + `a40 == ""`, ""},
		{"squared number", chain(28, "1e300 + count(input.mode)", "a%d * a%d") + "a28 < 0", ""},
		{"wide format", `x := concat("", [s | some _ in numbers.range(1, 1000); s := "%0999999d"])` + "\n\t" + `sprintf(x, numbers.range(1, 1000)) == input.mode`, ""},
		{"memory", chain(30, "[input.mode]", "[a%d, a%d]") + `json.marshal(a30) == ""`, byMemory},

		// Compilation.
		{"doubling type", chain(30, "[1]", "[a%d, a%d]") + strings.ReplaceAll(chain(30, "[2]", "[a%d, a%d]"), "a", "b") + "a30 == b30", byWatchdog},
	}
}

// memoryBombs returns policies of a few bytes that would take memory if time did not
// end them.
func memoryBombs() []bomb {
	return []bomb{
		{"long texts", `s := concat("", [x | some _ in numbers.range(1, 8); x := sprintf("%01000000d", [1])])` + "\n\t" + `concat("", [s | some i in numbers.range(1, 400)]) == ""`, byBound},
		{"nested formats", chain(40, `sprintf("%0999999d", [1])`, `sprintf("%%s%%s", [a%d, a%d])`) + `a40 == ""`, byBound},
		{"nested templates", chain(40, `sprintf("%0999999d", [1])`, "$\"{a%d}{a%d}\"") + `a40 == ""`, byBound},
		{"texts kept", `s := sprintf("%01000000d", [1])` + "\n\t" + `x := [t | some i in numbers.range(1, 100000); t := concat("", [s, s, s, s, s, s, s, format_int(i, 10)])]` + "\n\tcount(x) < 0", ""},
		{"texts taken apart", `s := sprintf("%0999999d", [1])` + "\n\t" + `x := [t | some i in numbers.range(1, 100000); t := split(concat("", [s, format_int(i, 10)]), "")]` + "\n\tcount(x) < 0", ""},
		{"texts read", `s := replace(sprintf("%0800000d", [1]), "0", "[],")` + "\n\t" + `x := [t | some i in numbers.range(1, 100000); t := json.unmarshal(concat("", ["[", s, format_int(i, 10), "]"]))]` + "\n\tcount(x) < 0", ""},
		{"characters", `s := sprintf("%0999999d\u00e9", [1])` + "\n\t" + `x := [t | some i in numbers.range(1, 100000); t := indexof_n(s, "1")]` + "\n\tcount(x) < 0", ""},
		{"lists", `a := numbers.range(1, 1000000)` + "\n\t" + `x := [b | some i in numbers.range(1, 100000); b := array.concat(array.slice(a, 0, 900000), [i])]` + "\n\tcount(x) < 0", ""},
		{"numbers", `x := [b | some i in numbers.range(1, 100000); b := numbers.range(i, i + 1000000)]` + "\n\tcount(x) < 0", ""},
		{"elements of an array", `x := [i | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000)]` + "\n\tcount(x) < 0", ""},
		{"elements of a set", `x := {[i, j] | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000)}` + "\n\tcount(x) < 0", ""},
		{"elements of an object", `x := {k: [i, j] | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); k := [j, i]}` + "\n\tcount(x) < 0", ""},
		{"paths", chain(17, "[input.mode]", "[a%d, a%d]") + "x := {p | some p, v; walk(a17, [p, v])}\n\tcount(x) < 0", ""},
		{"patterns kept", `x := [i | some i in numbers.range(1, 100000); regex.match(concat("", [p | some j in numbers.range(1, 300); p := sprintf("%da{1000}", [i])]), input.mode)]` + "\n\tcount(x) < 0", ""},
		{"pattern of classes", `p := concat("", ["\\pL" | some _ in numbers.range(1, 100000)])` + "\n\t" + `x := [i | some i in numbers.range(1, 1000); regex.match(concat("", [p, format_int(i, 10)]), input.mode)]` + "\n\tcount(x) < 0", ""},
		{"template of patterns", `p := concat("", ["<a{1000}b{1000}c{1000}>" | some _ in numbers.range(1, 5000)])` + "\n\t" + `regex.template_match(p, input.mode, "<", ">")`, ""},
		{"glob", `p := concat("", ["{a,b*,c?d}" | some _ in numbers.range(1, 100000)])` + "\n\t" + `x := [i | some i in numbers.range(1, 1000); glob.match(concat("", [p, format_int(i, 10)]), [], input.mode)]` + "\n\tcount(x) < 0", ""},
		{"graph of layers", `g := {sprintf("%d.%d", [l, n]): [sprintf("%d.%d", [l + 1, m]) | some m in numbers.range(1, 9)] | some l in numbers.range(1, 40); some n in numbers.range(1, 9)}` + "\n\t" + `count(graph.reachable(g, {"1.1"})) < 0`, byAnswer},
		{"address blocks", `x := [m | some i in numbers.range(1, 1000); m := net.cidr_merge([a | some j in numbers.range(1, 16000); a := sprintf("2001:db8:%x::%x/128", [i, j * 2])])]` + "\n\tcount(x) < 0", ""},
		{"digits of a fraction", chain(40, "1e-300 + 0 * count(input.mode)", "a%d * a%d") + "a40 == 1", ""},
		{"many names", `x := [m | some i in numbers.range(1, 1000); m := urlquery.decode_object(replace(sprintf("%0999999d", [i]), "0", "a&"))]` + "\n\tcount(x) < 0", ""},
		{"places of a character", chain(16, "input.mode", `concat("", [a%d, a%d])`) + `x := [t | some i in numbers.range(1, 100000); t := [indexof_n(a16, "e"), i]]` + "\n\tcount(x) < 0", ""},
		{"objects joined", `a := {format_int(i, 10): i | some i in numbers.range(1, 400000)}` + "\n\t" + `x := [o | some i in numbers.range(1, 1000); o := object.union(a, {"k": i})]` + "\n\tcount(x) < 0", ""},
	}
}

// chain assigns a0, and then each further variable from the one before, which it uses
// twice.
func chain(steps int, first, next string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0 := %s\n\t", first)
	for i := range steps {
		fmt.Fprintf(&b, "a%d := "+next+"\n\t", i+1, i, i)
	}
	return b.String()
}

// runBomb runs a bomb. It prints the mapped memory at the end, in MiB, and the error. A
// bomb that memory or a bound ends has all the time that it needs. So has every step that is
// not the one that must end the bomb: a slow machine must not end it there.
func runBomb(name string) int {
	for i, b := range slices.Concat(bombs(), memoryBombs()) {
		if b.name != name {
			continue
		}
		debug.SetMemoryLimit(512 << 20) // as the program does
		lim := DefaultLimits()
		lim.Compile, lim.Deadline, lim.Grace = patient().Compile, 500*time.Millisecond, 200*time.Millisecond
		switch {
		case b.name == "doubling type":
			lim.Compile = 500 * time.Millisecond
		case b.want == byCancel:
			lim.Grace = patient().Grace
		case b.want == byMemory:
			lim = patient()
		case i >= len(bombs()):
			lim.Deadline = patient().Deadline
			if b.want == "" { // a bomb that the time ends, at no fixed moment
				lim.Deadline = time.Duration(rehearsal.Count(500, 2000)) * time.Millisecond
			}
		}
		e, err := New(context.Background(), testProfile(), []Layer{user(head0 + deny("A_RULE", b.body))}, lim)
		if err == nil {
			_, err = e.Eval(context.Background(), Input{Mode: "plan-only", Intent: map[string]any{}})
		}
		var pe *Error
		if !errors.As(err, &pe) {
			pe = &Error{Msg: byAnswer, Kind: KindTimeout}
		}
		fmt.Printf("%d %s %s\n", mappedMemory()>>20, pe.Kind, pe)
		return 0
	}
	return 1
}

// TestWatchdog runs every bomb in a process of its own, because some bombs end only
// with the process.
func TestWatchdog(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Memory)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range slices.Concat(bombs(), memoryBombs()) {
		t.Run(b.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe)
			cmd.Env = append(os.Environ(), bombEnv+"="+b.name)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %.1000s", err, out)
			}
			var mib uint64
			var kind Kind
			if _, err := fmt.Sscan(string(out), &mib, &kind); err != nil {
				t.Fatalf("%v: %.1000s", err, out)
			}
			t.Logf("%s; peak %d MiB", strings.TrimSpace(string(out)), peakMiB(cmd.ProcessState))
			if kind != KindTimeout && kind != KindWatchdog && kind != KindLimit || !strings.Contains(string(out), b.want) {
				t.Errorf("ended with %q, want %q", out, b.want)
			}
			if peak := peakMiB(cmd.ProcessState); peak > 1024 {
				t.Errorf("%d MiB of memory were taken", peak)
			}
		})
	}
}

// TestWatched tests the promises of watched, without a policy.
func TestWatched(t *testing.T) {
	soon := Limits{Deadline: time.Millisecond, Grace: time.Millisecond, Poll: time.Millisecond, MemoryBytes: 1 << 40}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancelLate := context.WithCancel(context.Background())
	defer cancelLate()
	vain, cancelVain := context.WithCancel(context.Background())
	defer cancelVain()

	tests := []struct {
		name string
		ctx  context.Context
		lim  func(*Limits)
		f    func(stopped <-chan struct{}) (int, error)
		kind Kind // "" if the answer is accepted
		want string
	}{
		{"an answer", nil, func(l *Limits) { l.Deadline = time.Minute }, func(<-chan struct{}) (int, error) { return 7, nil }, "", ""},
		{"an answer after the stop", nil, func(l *Limits) { l.Grace = time.Minute }, func(s <-chan struct{}) (int, error) { <-s; return 7, nil }, KindTimeout, "work took longer than 1ms"},
		{"an error after the stop", nil, func(l *Limits) { l.Grace = time.Minute }, func(s <-chan struct{}) (int, error) { <-s; return 0, errors.New("other") }, KindTimeout, "work took longer than 1ms"},
		{"no answer", nil, nil, func(<-chan struct{}) (int, error) { select {} }, KindWatchdog, "does not stop: the process must end"},
		{"a panic", nil, func(l *Limits) { l.Deadline = time.Minute }, func(<-chan struct{}) (int, error) { panic("runtime text") }, KindEval, "work failed inside the policy engine"},
		{"memory", nil, func(l *Limits) { l.MemoryBytes, l.Deadline = 1, time.Minute }, func(<-chan struct{}) (int, error) { select {} }, KindWatchdog, "of memory: the process must end"},
		{"cancelled before", cancelled, nil, func(<-chan struct{}) (int, error) { return 7, nil }, KindTimeout, "cancelled by the caller"},
		{"cancelled meanwhile", late, func(l *Limits) { l.Deadline, l.Grace = time.Minute, time.Minute }, func(s <-chan struct{}) (int, error) { cancelLate(); <-s; return 7, nil }, KindTimeout, "cancelled by the caller"},
		{"cancelled in vain", vain, func(l *Limits) { l.Deadline = time.Minute }, func(<-chan struct{}) (int, error) { cancelVain(); select {} }, KindWatchdog, "cancelled by the caller and does not stop: the process must end"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lim, ctx := soon, test.ctx
			if test.lim != nil {
				test.lim(&lim)
			}
			if ctx == nil {
				ctx = context.Background()
			}
			stopped := make(chan struct{})
			work := task{what: "work", failed: KindEval, stop: func() { close(stopped) }}
			v, err := watched(ctx, lim, work, func() (int, error) { return test.f(stopped) })
			if test.kind == "" {
				if v != 7 || err != nil {
					t.Errorf("answer is %d, %v", v, err)
				}
				return
			}
			asError(t, err, test.kind, test.want)
			if v != 0 {
				t.Errorf("answer %d stands beside the error", v)
			}
		})
	}
}

// TestCancelledByCaller cancels a real evaluation through its context.
func TestCancelledByCaller(t *testing.T) {
	e := newEngine(t, user(head0+deny("A_RULE", bombs()[0].body)))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := e.Eval(ctx, testInput(t))
	asError(t, err, KindTimeout, "evaluating the policy was cancelled by the caller")
	_, err = New(ctx, testProfile(), []Layer{user(head0 + deny("A_RULE", "input.mode"))}, patient())
	asError(t, err, KindTimeout, "compiling the policy was cancelled by the caller")
}

// TestDefaultLimits compares the limits of a zero Limits with specs/policy-contract.md.
func TestDefaultLimits(t *testing.T) {
	want := Limits{
		Compile: 5 * time.Second, Deadline: time.Second, Embedded: 30 * time.Second, Grace: 500 * time.Millisecond, Poll: 5 * time.Millisecond,
		MemoryBytes: 768 << 20, Results: 1000, MessageBytes: 2048, ModuleBytes: 1 << 20, BundleBytes: 8 << 20,
	}
	if got := (Limits{}).orDefault(); got != want {
		t.Errorf("limits are %+v", got)
	}
	want.Results = 5
	if got := (Limits{Results: 5}).orDefault(); got != want {
		t.Errorf("limits are %+v", got)
	}
}
