package fingerprint

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

func builtVectors(t *testing.T) []Vector {
	t.Helper()
	list, err := ReadVectors(specs.RunVectors())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// opener opens the gates of a folder such as profiles.FS, with the limits of a bench.
func opener(set *specs.Set, builtin fs.FS) func(context.Context, string) (*harness.Gate, error) {
	limits := policy.DefaultLimits()
	limits.Compile, limits.Deadline, limits.MemoryBytes = time.Hour, time.Hour, 4<<30
	return func(ctx context.Context, profile string) (*harness.Gate, error) {
		return harness.OpenGate(ctx, harness.Sources{Builtin: builtin, Profile: profile}, set, limits)
	}
}

func prints(t *testing.T, open func(context.Context, string) (*harness.Gate, error), workers int, vectors []Vector) []Print {
	t.Helper()
	list, err := Take(t.Context(), harnesstest.Deps(t).Specs, open, workers, vectors)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRunVectorsAreAll: the built-in vectors are all vectors of all files, by name and in
// order.
func TestRunVectorsAreAll(t *testing.T) {
	var want []string
	for _, f := range harnesstest.LoadVectors(t) {
		for _, v := range f.Vectors {
			want = append(want, strings.TrimSuffix(filepath.Base(f.Path), ".json")+"/"+v.Name)
		}
	}
	slices.SortFunc(want, canon.Compare)
	var got []string
	for _, v := range builtVectors(t) {
		got = append(got, v.Name)
	}
	if !slices.Equal(got, want) || len(got) < 120 {
		t.Errorf("%d vectors are built in, %d are in the files: %q and %q", len(got), len(want), got, want)
	}
}

// TestPrintsAgree: every vector holds. Its print is the hash of the result of the vectors'
// own test, whatever the number of workers and processors.
func TestPrintsAgree(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	vectors := builtVectors(t)
	set := harnesstest.Deps(t).Specs
	with := func(procs, workers int) Fingerprint {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		return New(prints(t, opener(set, profiles.FS()), workers, vectors))
	}
	first, again := with(1, 1), with(5, 15)
	for _, p := range first.Prints {
		if p.Fault != "" {
			t.Errorf("%s does not hold: %s", p.Name, p.Fault)
		}
	}
	if !bytes.Equal(again.Text(), first.Text()) {
		t.Errorf("five processors give\n%s\nand not\n%s", again.Text(), first.Text())
	}
	byName := map[string]canon.ContentHash{}
	for _, p := range first.Prints {
		byName[p.Name] = p.SHA256
	}
	b := harnesstest.NewBench(t)
	for _, f := range harnesstest.LoadVectors(t) {
		for _, v := range f.Vectors {
			name := strings.TrimSuffix(filepath.Base(f.Path), ".json") + "/" + v.Name
			if want := printOf(t, b, v); byName[name] != want {
				t.Errorf("%s has print %s, and a run of its own gives %s", name, byName[name], want)
			}
		}
	}
}

// printOf computes the print of a vector in another way: from a run of its own, and for an
// error from the expectation in the file.
func printOf(t *testing.T, b *harnesstest.Bench, v *harnesstest.Vector) canon.ContentHash {
	t.Helper()
	rep, err := b.Run(t, v)
	if err != nil {
		return canon.Sum(append(mustCanonical(t, v.Expect), '\n'))
	}
	_, subset := harnesstest.Document(t, rep)
	if subset["policy_provenance"] == nil {
		t.Fatalf("%s: the canonical subset does not name the policy", v.Name)
	}
	return canon.Sum(append(mustCanonical(t, subset), '\n'))
}

func mustCanonical(t *testing.T, v any) []byte {
	t.Helper()
	text, err := canon.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPrintsSeeThePolicyText: one more comment in a module of the policy changes the print
// of every decision and of no error. Every vector still holds.
func TestPrintsSeeThePolicyText(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	changed := fstest.MapFS{}
	commented := 0
	err := fs.WalkDir(profiles.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := fs.ReadFile(profiles.FS(), name)
		if commented == 0 && strings.HasSuffix(name, ".rego") && !strings.HasSuffix(name, "_test.rego") {
			src = append(src, "\n# changed\n"...)
			commented++
		}
		changed[name] = &fstest.MapFile{Data: src}
		return err
	})
	if err != nil || commented == 0 {
		t.Fatalf("%d modules changed: %v", commented, err)
	}
	set, vectors := harnesstest.Deps(t).Specs, builtVectors(t)
	was := prints(t, opener(set, profiles.FS()), 2, vectors)
	is := prints(t, opener(set, changed), 2, vectors)
	decisions := 0
	for i, v := range vectors {
		_, failed := v.expect.Value().(map[string]any)["error"]
		if (was[i].SHA256 == is[i].SHA256) != failed || is[i].Fault != "" {
			t.Errorf("%s: an error %t, print %s and then %s, fault %q", v.Name, failed, was[i].SHA256, is[i].SHA256, is[i].Fault)
		}
		if !failed {
			decisions++
		}
	}
	if decisions < 100 || New(was).SHA256 == New(is).SHA256 {
		t.Errorf("%d decisions, and the fingerprint is %s", decisions, New(is).SHA256)
	}
}

// TestPrintsFindFaults: a vector with another result does not hold, and no failure passes
// as an answer.
func TestPrintsFindFaults(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	d := harnesstest.Deps(t)
	vectors := slices.DeleteFunc(builtVectors(t), func(v Vector) bool {
		return v.Name != "modes/execute, REFUSE (default)" && v.Name != "modes/execute, BUNDLE (default)"
	})
	with := func(judge harnesstest.JudgeFunc) func(context.Context, string) (*harness.Gate, error) {
		return func(context.Context, string) (*harness.Gate, error) { return harnesstest.GateWith(t, d, judge), nil }
	}
	sound := opener(d.Specs, profiles.FS())
	was := prints(t, sound, 2, vectors)
	if len(was) != 2 {
		t.Fatalf("%d of the two vectors are there", len(was))
	}
	for _, c := range []struct {
		name   string
		open   func(context.Context, string) (*harness.Gate, error)
		vector string
		fault  string
	}{
		{"nothing", sound, "modes/execute, REFUSE (default)", ""},
		{"nothing, RUN_E005", sound, "modes/execute, BUNDLE (default)", ""},
		{"says nothing", with(func(policy.Input) (kernel.Verdict, error) { return kernel.Verdict{}, nil }),
			"modes/execute, REFUSE (default)", `/canonical/decision/reasons/0 is "NOT_PERMITTED /actions/0", and the vector says "PATH_TRAVERSAL /actions/0/path"`},
		{"panics", with(func(policy.Input) (kernel.Verdict, error) { panic("secret") }),
			"modes/execute, BUNDLE (default)", "it ends in RUN_E007, and the vector says RUN_E005"},
		{"no gate", func(context.Context, string) (*harness.Gate, error) {
			return nil, &result.RunError{Code: result.CodeProfile, Message: "no gate"}
		}, "modes/execute, BUNDLE (default)", "it ends in RUN_E004, and the vector says RUN_E005"},
	} {
		is := prints(t, c.open, 2, vectors)
		for i, p := range is {
			if p.Name != c.vector {
				continue
			}
			if !strings.HasPrefix(p.Fault, c.fault) || (c.fault == "") != (p.Fault == "") || (p.SHA256 == was[i].SHA256) != (c.fault == "") {
				t.Errorf("%s: %s has fault %q and print %s, was %s", c.name, p.Name, p.Fault, p.SHA256, was[i].SHA256)
			}
		}
	}
}

// TestPrintsEnd: an interrupted computation gives no prints, and neither does an
// evaluation that does not stop. Each gate is opened once.
func TestPrintsEnd(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Policies)
	d, vectors := harnesstest.Deps(t), builtVectors(t)
	var mutex sync.Mutex
	count := map[string]int{}
	sound := opener(d.Specs, profiles.FS())
	counted := func(ctx context.Context, profile string) (*harness.Gate, error) {
		mutex.Lock()
		defer mutex.Unlock()
		count[profile]++
		return sound(ctx, profile)
	}
	prints(t, counted, 2, vectors)
	for profile, n := range count {
		if n != 1 {
			t.Errorf("the gate of %q is opened %d times", profile, n)
		}
	}
	if len(count) < len(profiles.Names()) {
		t.Errorf("only the gates of %v are opened", count)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := func(_ context.Context, profile string) (*harness.Gate, error) {
		defer cancel()
		return sound(t.Context(), profile)
	}
	list, err := Take(ctx, d.Specs, stopped, 2, vectors)
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeInternal || list != nil {
		t.Errorf("interrupted: %d prints, error %v", len(list), err)
	}
	endless := func(context.Context, string) (*harness.Gate, error) {
		return harnesstest.GateWith(t, d, harnesstest.JudgeFunc(func(policy.Input) (kernel.Verdict, error) {
			return kernel.Verdict{}, &policy.Error{Kind: policy.KindWatchdog, Msg: "does not stop"}
		})), nil
	}
	if list, err = Take(t.Context(), d.Specs, endless, 2, vectors); !errors.As(err, &re) || list != nil {
		t.Errorf("endless: %d prints, error %v", len(list), err)
	}
}

// TestRunVectorsErrors: a faulty folder of vectors gives an error, and not a fingerprint
// of fewer vectors.
func TestRunVectorsErrors(t *testing.T) {
	one := func(more string) string {
		return `{"about":"a","vectors":[{"name":"n","why":"w","profile":"strict","mode":"plan-only","model_mode":"none",` + more + `}]}`
	}
	sound := one(`"intent":{},"expect":{"error":"RUN_E003"}`)
	for _, c := range []struct{ name, text, want string }{
		{"sound", sound, ""},
		{"no JSON", "{", "EOF"},
		{"unknown member", one(`"intnet":{},"expect":{}`), `"intnet"`},
		{"no intent", one(`"expect":{}`), "exactly one intent"},
		{"two intents", one(`"intent":{},"intent_text":"","expect":{}`), "exactly one intent"},
		{"times below 0", one(`"intent_repeat":{"before":"","unit":"a","times":-1,"after":""},"expect":{}`), "exactly one intent"},
		{"no expectation", one(`"intent":{}`), `expect of "n"`},
		{"text behind", sound + "{}", "behind"},
		{"line feed in the name", strings.Replace(sound, `"n"`, `"n\nm"`, 1), "not plain"},
		{"trailing blank in the name", strings.Replace(sound, `"n"`, `"n "`, 1), "not plain"},
		{"twice", strings.Replace(sound, `[{`, `[`+strings.TrimSuffix(strings.SplitN(sound, "[", 2)[1], "]}")+`,{`, 1), "twice"},
		{"none", `{"about":"a","vectors":[]}`, "no vectors"},
	} {
		list, err := ReadVectors(fstest.MapFS{"a.json": {Data: []byte(c.text)}})
		if c.want == "" {
			if err != nil || len(list) != 1 || list[0].Name != "a/n" {
				t.Errorf("%s: %v, error %v", c.name, list, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || list != nil {
			t.Errorf("%s: %d vectors, error %v", c.name, len(list), err)
		}
	}
	list, err := ReadVectors(fstest.MapFS{})
	if err == nil || list != nil {
		t.Errorf("an empty folder gives %v", list)
	}
	// If no intent can be made from a vector, the computation ends.
	bad := one(`"intent_base64":"!","expect":{"error":"RUN_E003"}`)
	if list, err = ReadVectors(fstest.MapFS{"a.json": {Data: []byte(bad)}}); err != nil {
		t.Fatal(err)
	}
	set := harnesstest.Deps(t).Specs
	if got, err := Take(t.Context(), set, opener(set, profiles.FS()), 2, list); err == nil || got != nil {
		t.Errorf("an intent that is no base64 gives %v", got)
	}
}

// sample is a fingerprint of two vectors.
func sample() Fingerprint {
	return New([]Print{
		{Name: "a/One", SHA256: canon.Sum([]byte("1"))},
		{Name: "a/one, and (two)", SHA256: canon.Sum([]byte("2"))},
	})
}

// TestFingerprintText: a fingerprint that was written and read is the same, and its hash
// is the SHA-256 of the lines above it.
func TestFingerprintText(t *testing.T) {
	f := sample()
	text := string(f.Text())
	above, last, _ := strings.Cut(text, "fiador-fingerprint ")
	if want := "kernel=" + kernel.Version + " vectors=2 " + string(canon.Sum([]byte(above))) + "\n"; last != want {
		t.Errorf("the last line ends with %q, not %q", last, want)
	}
	for _, src := range []string{text, strings.TrimSuffix(text, "\n"), string(f.Line()), strings.TrimSuffix(string(f.Line()), "\n")} {
		got, err := Parse([]byte(src))
		if err != nil || strings.TrimSuffix(string(got.Text()), "\n") != strings.TrimSuffix(src, "\n") {
			t.Errorf("%q reads back as %q, error %v", src, got.Text(), err)
		}
	}
}

// TestParseFingerprintErrors: a text that was truncated, changed, joined or reordered is
// no fingerprint, and the error names the line.
func TestParseFingerprintErrors(t *testing.T) {
	text, line := string(sample().Text()), string(sample().Line())
	lines := strings.SplitAfter(text, "\n")
	for _, c := range []struct {
		name, text string
		line       int
		want       string
	}{
		{"empty", "", 1, "neither"},
		{"blank", "\n\n", 1, "neither"},
		{"a result", `{"bundle":null}` + "\n", 1, "neither"},
		{"cut", lines[0] + lines[1], 2, "cut off"},
		{"cut in a line", text[:100], 2, "neither"},
		{"blank line", lines[0] + "\n" + lines[1] + line, 2, "neither"},
		{"carriage returns", strings.ReplaceAll(text, "\n", "\r\n"), 1, "neither"},
		{"two blank lines at the end", text + "\n", 4, "behind"},
		{"two fingerprints", text + text, 4, "behind"},
		{"other order", lines[1] + lines[0] + line, 2, "order of names"},
		{"one twice", lines[0] + lines[0] + line, 2, "order of names"},
		{"one missing", lines[0] + line, 2, "1 lines of vectors"},
		{"one changed", strings.Replace(text, "a/one", "a/ond", 1), 3, "was changed"},
		{"upper-case hash", strings.ToUpper(lines[0]) + lines[1] + line, 1, "neither"},
		{"a name with a trailing blank", strings.Replace(text, "(two)\n", "(two) \n", 1), 2, "neither"},
		{"a name with an escape", strings.Replace(text, "(two)", "\x1b[2J", 1), 2, `\x1b[2J`},
		{"a long name", strings.Replace(text, "(two)", strings.Repeat("x", 300), 1), 2, "neither"},
		{"no name", lines[0][:71] + "\n" + line, 1, "neither"},
		{"last line without hash", "fiador-fingerprint kernel=0.1.0 vectors=2\n", 1, "is not"},
		{"last line with a word more", strings.TrimSuffix(line, "\n") + " x\n", 1, "is not"},
		{"last line of another kind", strings.Replace(line, "fingerprint", "fingerprints", 1), 1, "is not"},
		{"no vectors", strings.Replace(line, "vectors=2", "vectors=0", 1), 1, "is not"},
		{"+2 vectors", strings.Replace(line, "vectors=2", "vectors=+2", 1), 1, "is not"},
		{"02 vectors", strings.Replace(line, "vectors=2", "vectors=02", 1), 1, "is not"},
		{"very many vectors", strings.Replace(line, "vectors=2", "vectors=1048577", 1), 1, "is not"},
		{"more than a number holds", strings.Replace(line, "vectors=2", "vectors=99999999999999999999", 1), 1, "is not"},
		{"no kernel", strings.Replace(line, "kernel="+kernel.Version, "kernel=", 1), 1, "is not"},
		{"no member", strings.Replace(line, "kernel=", "kernal=", 1), 1, "is not"},
	} {
		f, err := Parse([]byte(c.text))
		var fe *ParseError
		if !errors.As(err, &fe) || fe.Line != c.line || !strings.Contains(fe.Msg, c.want) || f.Prints != nil || f.SHA256 != "" {
			t.Errorf("%s: error %v, fingerprint %v", c.name, err, f)
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%s: the message has a character that does not print: %q", c.name, err)
		}
	}
}

// FuzzParseFingerprint: an accepted text is written again with the same bytes.
func FuzzParseFingerprint(f *testing.F) {
	f.Add(sample().Text())
	f.Add(sample().Line())
	f.Add([]byte("sha256:"))
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := Parse(src)
		if err != nil {
			return
		}
		if text := got.Text(); !bytes.Equal(bytes.TrimSuffix(text, []byte("\n")), bytes.TrimSuffix(src, []byte("\n"))) {
			t.Errorf("%q gives %q", src, text)
		}
		if got.Prints != nil && New(got.Prints).SHA256 != got.SHA256 {
			t.Errorf("%q does not have the hash of its lines", src)
		}
	})
}
