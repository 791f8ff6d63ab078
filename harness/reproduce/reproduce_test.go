package reproduce

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
)

// packOf decides an intent and packs the run.
func packOf(t *testing.T, d harness.Deps, gate *harness.Gate, req harness.Request) *pack.Pack {
	t.Helper()
	rep, err := harness.Run(t.Context(), d, gate, req)
	if err != nil {
		t.Fatal(err)
	}
	return packRun(t, rep)
}

func packRun(t *testing.T, rep harness.Report) *pack.Pack {
	t.Helper()
	files, err := rep.Packing().Files(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Execution != nil {
		if err := rep.Execution.Close(); err != nil {
			t.Fatal(err)
		}
	}
	contract := rep.Result.Policy
	v := verify.Pack(pack.Of(files), verify.Options{Profile: func(string) *kernel.PolicyProfile { return &contract }})
	if !v.OK() {
		t.Fatalf("the pack is not valid: %+v", v)
	}
	return pack.Of(files)
}

func original(t *testing.T, p *pack.Pack) *Original {
	t.Helper()
	o, err := Read(p)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// planIntents returns an intent for each outcome.
func planIntents() map[kernel.Outcome]string {
	return map[kernel.Outcome]string{
		kernel.OutcomeBundle:  `{"goal":"Write","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":"1"}]}`,
		kernel.OutcomeClarify: `{"goal":"TODO","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":"1"}]}`,
		kernel.OutcomeRefuse:  `{"goal":"Write","constraints":["c"],"actions":[{"kind":"write","path":"etc/a","content":"1"}]}`,
	}
}

func planRequest(source string) harness.Request {
	return harness.Request{Source: []byte(source), Path: "intent.json", Mode: harness.ModePlanOnly, ModelMode: harness.ModelNone}
}

// TestReproduce: a plan of each outcome is the same again, as often as it is made. The
// digest is that of its canonical subset.
func TestReproduce(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = rand.Reader
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	for outcome, source := range planIntents() {
		t.Run(string(outcome), func(t *testing.T) {
			p := packOf(t, d, gate, planRequest(source))
			o := original(t, p)
			if o.Result.KernelResultKind != outcome {
				t.Fatalf("the outcome is %s", o.Result.KernelResultKind)
			}
			if err := errors.Join(o.CheckIntent("i", []byte(source)), o.CheckGate(gate)); err != nil {
				t.Fatal(err)
			}
			var begun []int
			got, err := o.Reproduce(t.Context(), d, gate, Again{Source: []byte(source), Path: "else.json", Runs: 3, Begin: func(i int) { begun = append(begun, i) }})
			if err != nil || got.Runs != 3 || got.Matches != 3 || len(got.Differences) != 0 || len(begun) != 3 || begun[2] != 2 {
				t.Fatalf("%+v, begun %v, %v", got, begun, err)
			}
			doc, err := canon.Parse(p.File(pack.RunFile), result.MaxBytes)
			if err != nil {
				t.Fatal(err)
			}
			if sum, err := result.Digest(doc.Value().(map[string]any)); err != nil || sum != o.Digest {
				t.Errorf("digest %s, %v", o.Digest, err)
			}
		})
	}
}

// TestReproduceRecordsNothing: Reproduce does not use an existing Recorder.
func TestReproduceRecordsNothing(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = rand.Reader
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	source := planIntents()[kernel.OutcomeBundle]
	o := original(t, packOf(t, d, gate, planRequest(source)))
	m := harnesstest.NewMemory()
	d.Recorder = m
	got, err := o.Reproduce(t.Context(), d, gate, Again{Source: []byte(source), Path: "i", Runs: 1})
	if err != nil || got.Matches != 1 || len(m.Records) != 0 {
		t.Errorf("%+v, %d records, %v", got, len(m.Records), err)
	}
}

// TestReproduceAnotherIntent: a text with one more byte is another intent, and the error
// names both hashes.
func TestReproduceAnotherIntent(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	source := planIntents()[kernel.OutcomeBundle]
	o := original(t, packOf(t, d, gate, planRequest(source)))
	for _, other := range []string{"", source + "\n", strings.Replace(source, "Write", "write", 1)} {
		var re *result.RunError
		err := o.CheckIntent("other.json", []byte(other))
		if !errors.As(err, &re) || re.Code != result.CodeEvidence || re.Hint == "" ||
			!strings.Contains(re.Message, string(canon.Sum([]byte(source)))) || !strings.Contains(re.Message, string(canon.Sum([]byte(other)))) {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// changedBuiltin returns the built-in policy with one more line in a file.
func changedBuiltin(t *testing.T, file, line string) fs.FS {
	t.Helper()
	changed := fstest.MapFS{}
	err := fs.WalkDir(profiles.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(profiles.FS(), name)
		changed[name] = &fstest.MapFile{Data: b}
		return err
	})
	if err != nil || changed[file] == nil {
		t.Fatal(file, err)
	}
	changed[file].Data = append(changed[file].Data, line...)
	return changed
}

// TestReproduceUnderAnotherPolicy: the error names the first part that differs from the
// policy that decided, and says what to do about it.
func TestReproduceUnderAnotherPolicy(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = rand.Reader
	own := `{"name":"mine","extends":"default"}`
	org := func(rule string) policy.Folder {
		return *harnesstest.Folder(map[string]string{"rules.rego": "package gate.org.acme\n\n" + harnesstest.Quiet(rule)})
	}
	repo := func(rule string) *policy.Folder {
		return harnesstest.Folder(map[string]string{"rules.rego": "package gate.repo.tree\n\n" + harnesstest.Quiet(rule)})
	}
	user := func(profile, rule string) harness.Sources {
		return harnesstest.Mine(map[string]string{"profile.json": profile, "a.rego": "package gate.user.mine\n\n" + harnesstest.Quiet(rule)})
	}
	built := harness.Sources{Builtin: profiles.FS(), Profile: "default"}
	with := func(s harness.Sources, change func(*harness.Sources)) harness.Sources {
		change(&s)
		return s
	}
	for _, tc := range []struct {
		name          string
		then, now     harness.Sources
		pointer, says string
		hint          string
	}{
		{"another profile", built, with(built, func(s *harness.Sources) { s.Profile = "dev" }), "/policy/name", `the profile of the pack is "default", and here it is "dev"`, "--policy"},
		{"an organisation's layer is missing", with(built, func(s *harness.Sources) { s.Org = []policy.Folder{org("AA")} }), built,
			"/policy_provenance/modules/2", `policy module "org/acme/rules.rego" decided in the pack and is missing here`, "--org-policy"},
		{"an organisation's layer is extra", built, with(built, func(s *harness.Sources) { s.Org = []policy.Folder{org("AA")} }),
			"/policy_provenance/modules/2", `policy module "org/acme/rules.rego" is extra: it did not decide in the pack`, "leave out the --org-policy"},
		{"an organisation's layer is another", with(built, func(s *harness.Sources) { s.Org = []policy.Folder{org("AA")} }), with(built, func(s *harness.Sources) { s.Org = []policy.Folder{org("BB")} }),
			"/policy_provenance/modules/2", `policy module "org/acme/rules.rego" has another text: sha256:`, "--org-policy"},
		{"the tree's layer is missing", with(built, func(s *harness.Sources) { s.Repo = repo("AA") }), built,
			"/policy_provenance/modules/2", `policy module "repo/tree/rules.rego" decided in the pack and is missing here`, "--tree"},
		{"the tree's layer is another", with(built, func(s *harness.Sources) { s.Repo = repo("AA") }), with(built, func(s *harness.Sources) { s.Repo = repo("BB") }),
			"/policy_provenance/modules/2", `policy module "repo/tree/rules.rego" has another text: sha256:`, "--tree"},
		{"the profile's Rego is another", user(own, "AA"), user(own, "BB"),
			"/policy_provenance/modules/2", `policy module "user/mine/a.rego" has another text: sha256:`, "--policy"},
		{"the profile's data is another", user(own, "AA"), user(`{"name":"mine","extends":"default","memory_mb":256}`, "AA"),
			"/policy_provenance/limits/memory_mb", "limits/memory_mb of the policy is 512 in the pack and 256 here", "--policy"},
		{"the profile's data is another, and no limit", user(own, "AA"), user(`{"name":"mine","extends":"default","severity":{"WRITE_TWICE":"deny"}}`, "AA"),
			"/policy_provenance/profile_sha256", "profile_sha256 of the policy is \"sha256:", "--policy"},
		{"the program's policy is another", built, with(built, func(s *harness.Sources) { s.Builtin = changedBuiltin(t, "builtin/decide.rego", "# more\n") }),
			"/policy_provenance/modules/0", `policy module "builtin/decide.rego" has another text: sha256:`, "use the fiador that made the pack"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gates := map[string]*harness.Gate{}
			for which, s := range map[string]harness.Sources{"then": tc.then, "now": tc.now} {
				gate, err := harness.OpenGate(t.Context(), s, d.Specs, harnesstest.Endless())
				if err != nil {
					t.Fatal(which, err)
				}
				gates[which] = gate
			}
			o := original(t, packOf(t, d, gates["then"], planRequest(intents.Simple)))
			if err := o.CheckGate(gates["then"]); err != nil {
				t.Errorf("the policy itself: %v", err)
			}
			var re *result.RunError
			err := o.CheckGate(gates["now"])
			if !errors.As(err, &re) {
				t.Fatalf("no difference: %v", err)
			}
			if re.Code != result.CodeProfile || re.Details["pointer"] != tc.pointer || !strings.HasPrefix(re.Message, tc.says) || !strings.Contains(re.Hint, tc.hint) {
				t.Errorf("%v, hint %q, details %v", err, re.Hint, re.Details)
			}
			if o.Gated() != (tc.then.Repo != nil) {
				t.Errorf("gated: %v", o.Gated())
			}
		})
	}
}

// TestReproduceUnderAnotherLanguage: another set of capabilities is another policy too.
func TestReproduceUnderAnotherLanguage(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	o := original(t, packOf(t, d, gate, planRequest(intents.Simple)))
	other := harnesstest.Copy(gate)
	other.Provenance.CapabilitiesSHA256 = canon.Sum(nil)
	var re *result.RunError
	if err := o.CheckGate(other); !errors.As(err, &re) || re.Details["pointer"] != "/policy_provenance/capabilities_sha256" || !strings.HasPrefix(re.Hint, "use the fiador that made") {
		t.Errorf("%v", err)
	}
}

// swayed returns a copy of a gate with the same digests. Its judge gives the policy's own
// answer or no permit, as refuse says for the number of the question.
func swayed(gate *harness.Gate, refuse func(n int) bool) *harness.Gate {
	other, n := harnesstest.Copy(gate), 0
	other.Judge = judgeOf{gate.Judge, func() bool { n++; return refuse(n) }}
	return other
}

type judgeOf struct {
	harness.Judge
	refuse func() bool
}

func (j judgeOf) Eval(ctx context.Context, in policy.Input) (kernel.Verdict, error) {
	if j.refuse() {
		return kernel.Verdict{}, nil
	}
	return j.Judge.Eval(ctx, in)
}

// TestReproduceFlaky: differences are counted by their place, in the order in which they
// were found.
func TestReproduceFlaky(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = rand.Reader
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	o := original(t, packOf(t, d, gate, planRequest(intents.Simple)))
	got, err := o.Reproduce(t.Context(), d, swayed(gate, func(n int) bool { return n%2 == 0 }), Again{Source: []byte(intents.Simple), Path: "i", Runs: 5})
	if err != nil || got.Runs != 5 || got.Matches != 3 || len(got.Differences) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if c := got.Differences[0]; c.Runs != 2 || c.Pointer != "/bundle" || !strings.HasPrefix(c.Recorded, `{"bundle_id":"bundle_`) || c.Now != "null" || len(c.Recorded) > 300 {
		t.Errorf("%+v", c)
	}
}

// TestReproduceAnotherBundle: the bytes of the bundle are compared with those of the new
// run.
func TestReproduceAnotherBundle(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = rand.Reader
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	p := packOf(t, d, gate, planRequest(intents.Simple))
	files := map[string][]byte{}
	for _, e := range p.Entries {
		files[e.Name] = e.Text
	}
	files[pack.BundleFile] = append([]byte(" "), files[pack.BundleFile]...)
	got, err := original(t, pack.Of(files)).Reproduce(t.Context(), d, gate, Again{Source: []byte(intents.Simple), Path: "i", Runs: 1})
	if err != nil || got.Matches != 0 || len(got.Differences) != 1 || got.Differences[0].File != pack.BundleFile || got.Differences[0].Recorded == got.Differences[0].Now {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestReproduceWithoutAnswer: a run that ends in an error is no difference. If there are
// several runs, the message says which run it was.
func TestReproduceWithoutAnswer(t *testing.T) {
	d := harnesstest.Deps(t)
	d.Rand = rand.Reader
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	o := original(t, packOf(t, d, gate, planRequest(intents.Simple)))
	for runs, says := range map[int]string{1: "internal error: no decision was made", 3: "run 2 of 3: internal error: no decision was made"} {
		panicking := swayed(gate, func(n int) bool {
			if n == min(runs, 2) {
				panic("no")
			}
			return false
		})
		got, err := o.Reproduce(t.Context(), d, panicking, Again{Source: []byte(intents.Simple), Path: "i", Runs: runs})
		var re *result.RunError
		if !errors.As(err, &re) || re.Code != result.CodeInternal || re.Message != says || got.Runs != 0 {
			t.Errorf("%d runs: %+v, %v", runs, got, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var re *result.RunError
	if got, err := o.Reproduce(ctx, d, gate, Again{Source: []byte(intents.Simple), Path: "i", Runs: 2}); !errors.As(err, &re) || !strings.HasPrefix(re.Message, "interrupted") || got.Runs != 0 {
		t.Errorf("interrupted: %+v, %v", got, err)
	}
}

// TestNoOriginal: a pack without a run of this kernel cannot be reproduced, and the error
// says why.
func TestNoOriginal(t *testing.T) {
	d := harnesstest.Deps(t)
	gate := harnesstest.OpenBuiltin(t, d.Specs, "default")
	p := packOf(t, d, gate, planRequest(intents.Simple))
	run := string(p.File(pack.RunFile))
	change := func(old, now string) string {
		t.Helper()
		if !strings.Contains(run, old) {
			t.Fatalf("no %s in %s", old, run)
		}
		return strings.Replace(run, old, now, 1)
	}
	for name, tc := range map[string]struct{ run, says string }{
		"another kernel":  {change(`"kernel_version":"`+kernel.Version, `"kernel_version":"9.8.7`), `the pack is of kernel "9.8.7" and this is kernel "` + kernel.Version + `"`},
		"no kernel":       {change(`"kernel_version"`, `"kernel_versiom"`), `the pack is of kernel ""`},
		"no file":         {"", "run.json of the pack cannot be read"},
		"not JSON":        {"{", "run.json of the pack cannot be read"},
		"a list":          {"[]\n", "run.json of the pack cannot be read"},
		"contradicting":   {change(`"accepted":true`, `"accepted":false`), "run.json of the pack cannot be read"},
		"another member":  {change(`{"bundle"`, `{"a":1,"bundle"`), "run.json of the pack cannot be read"},
		"a kernel number": {change(`"kernel_version":"`+kernel.Version+`"`, `"kernel_version":1`), "run.json of the pack cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string][]byte{pack.BundleFile: p.File(pack.BundleFile), pack.PolicyFile: p.File(pack.PolicyFile)}
			if tc.run != "" {
				files[pack.RunFile] = []byte(tc.run)
			}
			o, err := Read(pack.Of(files))
			var re *result.RunError
			if o != nil || !errors.As(err, &re) || re.Code != result.CodeEvidence || !strings.HasPrefix(re.Message, tc.says) || re.Hint == "" {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestFirstFile: in two lists by path, the first file that is not in both lists is named,
// with its state on either side.
func TestFirstFile(t *testing.T) {
	ref := func(path, text string) kernel.FileRef {
		return kernel.FileRef{Path: path, SHA256: canon.Sum([]byte(text)), SizeBytes: len(text)}
	}
	a, b := ref("a", "1"), ref("b", "2")
	text := func(f kernel.FileRef) string { return fileText(f) }
	for name, tc := range map[string]struct {
		then, now []kernel.FileRef
		want      Divergence
	}{
		"nothing":      {},
		"the same":     {[]kernel.FileRef{a, b}, []kernel.FileRef{a, b}, Divergence{}},
		"missing":      {[]kernel.FileRef{a, b}, []kernel.FileRef{b}, Divergence{Output: "a", Recorded: text(a), Now: "missing", RecordedFile: a}},
		"missing last": {[]kernel.FileRef{a, b}, []kernel.FileRef{a}, Divergence{Output: "b", Recorded: text(b), Now: "missing", RecordedFile: b}},
		"extra":        {[]kernel.FileRef{b}, []kernel.FileRef{a, b}, Divergence{Output: "a", Recorded: "nothing", Now: text(a), NowFile: a}},
		"extra last":   {[]kernel.FileRef{a}, []kernel.FileRef{a, b}, Divergence{Output: "b", Recorded: "nothing", Now: text(b), NowFile: b}},
		"another":      {[]kernel.FileRef{a, b}, []kernel.FileRef{a, ref("b", "333")}, Divergence{Output: "b", Recorded: text(b), Now: text(ref("b", "333")), RecordedFile: b, NowFile: ref("b", "333")}},
	} {
		got, differs := firstFile(tc.then, tc.now)
		if got != tc.want || differs != (tc.want != Divergence{}) {
			t.Errorf("%s: %+v, %v", name, got, differs)
		}
	}
}
