//go:build linux && (amd64 || arm64)

package packing_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/harness/packing"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// TestPackedPatch: a patch has the state of every change before and after. Its order is
// one in which it can be applied.
func TestPackedPatch(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), nil)
			work := t.TempDir()
			treetest.Put(t, filepath.Join(work, "out", "old"), "old\n")
			treetest.Put(t, filepath.Join(work, "out", "gone"), "gone\n")
			treetest.Put(t, filepath.Join(work, "out", "same"), "same\n")
			treetest.Put(t, filepath.Join(work, "out", "was"), "a file\n")
			rep := x.Run(t, `"outputs":["out/same"],`+intents.Actions(intents.Sh("echo more >>out/old; rm out/gone out/was; mkdir out/was out/empty; echo in >out/was/in; "+
				`printf 'a\000b' >out/zero; printf '\377' >out/latin; printf 'caf\303\251 \342\202\254' >out/text; : >out/none; printf '#!/bin/sh\n' >out/run; chmod +x out/run`)), harness.Folders{Work: work})
			if !rep.Result.Decision.Accepted {
				t.Fatalf("%s", rep.Bytes)
			}
			p := harnesstest.Packed(t, rep)
			patch, err := p.Patch()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range patch.Operations {
				b, err := o.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.TrimSpace(strings.Join([]string{
					strconv.Itoa(o.Order), string(o.Op), o.Path, o.Encoding, strconv.Quote(string(b)), strconv.FormatBool(o.Executable),
				}, " ")))
				if (o.BeforeSHA256 != "") != (slices.Contains([]string{"out/old", "out/gone"}, o.Path) || o.Path == "out/was") {
					t.Errorf("%s: before %q", o.Path, o.BeforeSHA256)
				}
			}
			want := []string{
				`0 delete out/gone  "" false`,
				`0 delete out/was  "" false`,
				`1 create out/latin base64 "\xff" false`,
				`1 create out/none utf8 "" false`,
				`1 modify out/old utf8 "old\nmore\n" false`,
				`1 create out/run utf8 "#!/bin/sh\n" true`,
				`1 create out/text utf8 "café €" false`,
				`1 create out/was/in utf8 "in\n" false`,
				`1 create out/zero base64 "a\x00b" false`,
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			e, err := p.Evidence()
			if err != nil || !slices.Equal(e.Unchanged, []string{"out/same"}) {
				t.Errorf("unchanged %v (%v)", e.Unchanged, err)
			}
			r, err := p.Runner()
			if err != nil || !slices.Contains(r.Warnings, "the patch does not have the empty folder out/empty") {
				t.Errorf("warnings %v (%v)", r.Warnings, err)
			}
		})
	}
}

// patchOps returns the operations of the patch of a pack, as "OP PATH", and the warnings.
func patchOps(t *testing.T, p *pack.Pack) (ops, warnings []string) {
	t.Helper()
	patch, err := p.Patch()
	if err != nil {
		t.Fatal(err)
	}
	if patch != nil {
		for _, o := range patch.Operations {
			ops = append(ops, string(o.Op)+" "+o.Path)
		}
	}
	r, err := p.Runner()
	if err != nil {
		t.Fatal(err)
	}
	return ops, r.Warnings
}

// TestPackedEmptyFolders: warnings name the folders without a file, whatever else changed,
// and at most as many as a pack has room for.
func TestPackedEmptyFolders(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), func(p *kernel.Profile) { p.MaxOutputFiles = 10000 })
	const first = "the patch does not have the empty folder "
	work := t.TempDir()
	treetest.Put(t, filepath.Join(work, "out", "was"), "a file\n")
	for _, tc := range []struct {
		name, script string
		f            harness.Folders
		ops, want    []string
	}{
		{"nothing else", "mkdir -p out/a/b", harness.Folders{}, nil, []string{first + "out", first + "out/a", first + "out/a/b"}},
		{"beside a file", "mkdir -p out/a/b out/c; echo >out/a/f", harness.Folders{}, []string{"create out/a/f"}, []string{first + "out/a/b", first + "out/c"}},
		{"in the place of a file", "rm out/was; mkdir out/was", harness.Folders{Work: work}, []string{"delete out/was"}, []string{first + "out/was"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rep := x.Run(t, intents.Actions(intents.Sh(tc.script)), tc.f)
			if ops, warnings := patchOps(t, harnesstest.Packed(t, rep)); !slices.Equal(ops, tc.ops) || !slices.Equal(warnings, tc.want) {
				t.Errorf("operations %q, warnings %q", ops, warnings)
			}
		})
	}
	segment := strings.Repeat("x", 240)
	deep := "out/" + strings.Join([]string{segment, segment, segment, segment}, "/")
	rep := x.Run(t, intents.Actions(intents.Sh("mkdir -p "+deep+" && cd "+deep+" && seq 1000 5999 | xargs mkdir")), harness.Folders{})
	_, warnings := patchOps(t, harnesstest.Packed(t, rep))
	if n := len(warnings); n != 101 || warnings[100] != "the patch does not have these, and 4905 more empty folders" || warnings[99] != first+deep+"/1094" {
		t.Errorf("%d warnings: %.2000q", n, warnings)
	}
}

// badNames are names that files can have, but paths of a patch cannot.
func badNames() []string {
	return []string{
		`a\b`, "a\nb", "tab\tend", "\u0085next", " lead", "\u3000wide", "\ufeffmark", "trail ", "wide\u2003", "\xff", "caf\xe9", "\ufffe", "x\ufdd0",
		`..\..\up`, "\x7f",
	}
}

// TestPackedBadNames: a warning names, quoted, each removed file whose name no patch can
// have. The rest of the pack is whole.
func TestPackedBadNames(t *testing.T) {
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{All: true} })
			work := t.TempDir()
			names := append(badNames(), "C:x", "d:")
			want := []string{}
			for _, name := range names {
				treetest.Put(t, filepath.Join(work, name), "1")
				want = append(want, "the patch does not have the removal of "+strconv.QuoteToASCII(name))
			}
			treetest.Put(t, filepath.Join(work, "old", "good"), "1")
			rep := x.Run(t, intents.Actions(intents.Sh("rm -f ./* .[!.]* ..?*; rm old/good; echo >new")), harness.Folders{Work: work})
			if !rep.Result.Decision.Accepted {
				t.Fatalf("%s", rep.Bytes)
			}
			ops, warnings := patchOps(t, harnesstest.Packed(t, rep))
			if !slices.Equal(ops, []string{"create new", "delete old/good"}) || !slices.Equal(warnings, slices.Sorted(slices.Values(want))) {
				t.Errorf("operations %q, warnings\n%q\nwant\n%q", ops, warnings, slices.Sorted(slices.Values(want)))
			}

			// Nothing is left for a patch.
			rep = x.Run(t, intents.Actions(intents.Sh("rm -f ./* .[!.]* ..?*; true")), harness.Folders{Work: work})
			p := harnesstest.Packed(t, rep)
			if _, warnings = patchOps(t, p); !rep.Result.Decision.Accepted || p.File(pack.PatchFile) != nil || !slices.Equal(warnings, slices.Sorted(slices.Values(want))) {
				t.Errorf("warnings %q", warnings)
			}
			// A rejected execution removes nothing.
			rep = x.Run(t, intents.Actions(intents.Sh("rm -f ./* .[!.]* ..?*; exit 1")), harness.Folders{Work: work})
			if _, warnings = patchOps(t, harnesstest.Packed(t, rep)); len(warnings) > 0 {
				t.Errorf("rejected: warnings %q", warnings)
			}
		})
	}
}

// TestPackedManyBadNames: the number of warnings about removed files is bounded, and so is
// the length of each.
func TestPackedManyBadNames(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	work := t.TempDir()
	segment := strings.Repeat("x", 250)
	long := filepath.Join(work, "out", segment, segment, segment, segment)
	for i := range 150 {
		treetest.Put(t, filepath.Join(work, "out", "many", strconv.Itoa(i)+`\`), "1")
	}
	for _, name := range []string{strings.Repeat("a", 16), strings.Repeat("a", 17)} { // 1024 and 1025 characters
		treetest.Put(t, filepath.Join(long, name), "1")
	}
	rep := x.Run(t, intents.Actions(intents.Sh("rm out/many/*; cd out/x*/x*/x*/x* && rm *")), harness.Folders{Work: work})
	if !rep.Result.Decision.Accepted {
		t.Fatalf("%s", rep.Bytes)
	}
	ops, warnings := patchOps(t, harnesstest.Packed(t, rep))
	if len(ops) != 1 || len(ops[0]) != len("delete ")+1024 {
		t.Errorf("operations %q", ops)
	}
	if n := len(warnings); n != 101 || warnings[100] != "the patch does not have these, and 51 more removals" {
		t.Errorf("%d warnings: %.2000q", n, warnings)
	}
}

// TestPatchPath: a patch can have exactly the paths that verification accepts.
func TestPatchPath(t *testing.T) {
	for _, p := range append(badNames(), "", "/a", "C:x", "c:", "a/../b", "./a", "a/./b", "a//b", "a/", "a/ ", strings.Repeat("a", 1025)) {
		if pack.PatchPath(p) {
			t.Errorf("%q can stand in a patch", p)
		}
	}
	for _, p := range []string{"a", "a/b", "a b", "a/ b", "caf\u00e9", "cafe\u0301", "con", "ab:c", "out/C:x", "~", "...", strings.Repeat("\u20ac", 1024)} {
		if !pack.PatchPath(p) {
			t.Errorf("%q cannot stand in a patch", p)
		}
	}
}

// TestPackOverLimit: a file of a pack that no reader would read is not written, and this
// is no contradiction.
func TestPackOverLimit(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	rep := x.Run(t, intents.Actions(intents.Sh("mkdir out; echo a >out/a")), harness.Folders{})
	files, err := rep.Packing().Files(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	warning := `"` + strings.Repeat("w", 4096) + `"`
	list := strings.Repeat(warning+",", 1100) + warning
	files[pack.RunnerFile] = bytes.Replace(files[pack.RunnerFile], []byte(`"write_roots"`), []byte(`"warnings":[`+list+`],"write_roots"`), 1)
	var re *result.RunError
	if err := packing.Check(files, verify.Options{Profile: func(string) *kernel.PolicyProfile { return &rep.Result.Policy }}); !errors.As(err, &re) || re.Code != result.CodeEvidence ||
		!strings.HasPrefix(re.Message, "the pack cannot hold runner.json: it has ") || !strings.HasSuffix(re.Message, " bytes, and the limit is 4194304") || re.Hint == "" {
		t.Errorf("%v", err)
	}
}

// TestPackedInputs: an input is observed once, under its clean path, however the intent
// spells the path. It is protected there.
func TestPackedInputs(t *testing.T) {
	tree := t.TempDir()
	treetest.Put(t, filepath.Join(tree, "i/1"), "1")
	treetest.Put(t, filepath.Join(tree, "i/2"), "22")
	for _, isolation := range harnesstest.Tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{All: true} })
			clean := x.Run(t, intents.Actions(intents.Sh("cat i/1"))+`,"inputs":["i/1","i/2"]`, harness.Folders{Tree: tree}).Result.Execution
			for _, inputs := range []string{`["i//2","./i//1","i/1","i/1"]`, `["./i"]`, `["i/./1","i"]`, `["."]`} {
				rep := x.Run(t, intents.Actions(intents.Sh("cat i/1"))+`,"inputs":`+inputs, harness.Folders{Tree: tree})
				if e := rep.Result.Execution; !rep.Result.Decision.Accepted || !slices.Equal(e.Inputs, clean.Inputs) || len(e.Inputs) != 2 {
					t.Errorf("%s: %s", inputs, rep.Bytes)
				}
				rep = x.Run(t, intents.Actions(intents.Sh("rm -f i/1"))+`,"inputs":`+inputs, harness.Folders{Tree: tree})
				if got := rep.Result.Decision.Reasons; !slices.Equal(got, []string{"WRITE_OUTSIDE_ROOT i/1"}) {
					t.Errorf("%s: reasons %q", inputs, got)
				}
			}
		})
	}
}

// TestOutputsUnchangedLimits: declared outputs that nothing changed count like written
// ones.
func TestOutputsUnchangedLimits(t *testing.T) {
	work := t.TempDir()
	for name, size := range map[string]int{"a": 600, "b": 600, "c": 1025, "d": 1024, "e": 0, "f": 0} {
		treetest.Put(t, filepath.Join(work, "out", name), strings.Repeat("x", size))
	}
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), func(p *kernel.Profile) { p.MaxOutputFiles, p.MaxTotalOutputBytes = 2, 1024 })
	for _, tc := range []struct {
		script, outputs string
		want, reasons   []string
	}{
		{"true", `["out/d"]`, []string{"out/d"}, nil},
		{"true", `["out/c"]`, nil, []string{"OUTPUT_LIMIT"}},
		{"true", `["out/b","out/a"]`, []string{"out/a"}, []string{"OUTPUT_LIMIT"}},
		{"true", `["out/a","out/./a"]`, []string{"out/a"}, nil},
		{"true", `["out/f","out/e","out/a"]`, []string{"out/a", "out/e"}, []string{"OUTPUT_LIMIT"}},
		{"head -c 424 /dev/zero >out/new", `["out/a"]`, []string{"out/a", "out/new"}, nil},
		{"head -c 425 /dev/zero >out/new", `["out/a"]`, []string{"out/new"}, []string{"OUTPUT_LIMIT"}},
		{"echo >out/new; echo >out/too", `["out/e"]`, []string{"out/new", "out/too"}, []string{"OUTPUT_LIMIT"}},
		{"echo >out/a; echo >out/b", `["out/a","out/b"]`, []string{"out/a", "out/b"}, nil},
		{"exit 3", `["out/c"]`, nil, []string{"EXIT 3", "OUTPUT_LIMIT"}},
	} {
		rep := x.Run(t, intents.Actions(intents.Sh(tc.script))+`,"outputs":`+tc.outputs, harness.Folders{Work: work})
		var got []string
		for _, f := range rep.Result.Execution.Outputs {
			got = append(got, f.Path)
		}
		if cut := rep.Result.Execution.OutputTruncated; !slices.Equal(got, tc.want) || !slices.Equal(rep.Result.Decision.Reasons, tc.reasons) || cut != slices.Contains(tc.reasons, "OUTPUT_LIMIT") {
			t.Errorf("%s with %s: outputs %q, reasons %q, truncated %t", tc.script, tc.outputs, got, rep.Result.Decision.Reasons, cut)
		}
	}
}

// TestPackedRejected: the pack of a rejected execution has no patch.
func TestPackedRejected(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	for _, tc := range []struct {
		members string
		status  pack.Status
		results int
	}{
		{intents.Actions(intents.Sh("mkdir out; echo a >out/a; exit 3")), pack.StatusFailed, 1},
		{intents.Actions(intents.Write("out/a", "a"), intents.Sh("exit 3"), intents.Sh("true")), pack.StatusPartial, 1},
		{intents.Actions(intents.Write("out/a", "a"), intents.Sh("echo b >b")), pack.StatusComplete, 2},
		{intents.Actions(intents.Sh("kill -9 $$")), pack.StatusFailed, 0},
	} {
		p := harnesstest.Packed(t, x.Run(t, tc.members, harness.Folders{}))
		e, err := p.Evidence()
		if err != nil || e.Status != tc.status || len(e.ActionResults) != tc.results {
			t.Errorf("%s: %s", tc.members, p.File(pack.EvidenceFile))
		}
		if p.File(pack.PatchFile) != nil {
			t.Errorf("%s has a patch", tc.members)
		}
	}
}

// TestPackedTwice: two executions of one intent differ only in what is declared to differ.
func TestPackedTwice(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	var seen [2]map[string]any
	for i := range seen {
		p := harnesstest.Packed(t, x.Run(t, intents.Actions(intents.Sh("mkdir out; echo a >out/a; echo b; echo c >&2")), harness.Folders{}))
		seen[i] = map[string]any{}
		for _, name := range []string{pack.BundleFile, pack.PatchFile, pack.PolicyFile} {
			seen[i][name] = string(p.File(name))
		}
		var e map[string]any
		if err := json.Unmarshal(p.File(pack.EvidenceFile), &e); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"started_at", "completed_at", "total_duration_ms"} {
			if _, ok := e[name]; !ok {
				t.Errorf("no %s", name)
			}
			delete(e, name)
		}
		seen[i][pack.EvidenceFile] = e
	}
	a, errA := canon.Canonical(seen[0])
	b, errB := canon.Canonical(seen[1])
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%s\n%s (%v, %v)", a, b, errA, errB)
	}
}

// TestPackedTooLarge: if a patch cannot hold a change, there is an error and no pack.
func TestPackedTooLarge(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	x.Gate.Profile.MaxTotalOutputBytes, x.Gate.Profile.MaxOutputFiles = 100<<20, 10
	harnesstest.Limited(x.Gate)
	rep, err := harness.Run(t.Context(), x.Deps, x.Gate, x.Request(intents.Actions(intents.Sh("mkdir out; head -c 60000000 /dev/zero >out/a")), harness.Folders{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rep.Execution.Close()
	if !rep.Result.Decision.Accepted {
		t.Fatalf("%s", rep.Bytes)
	}
	if files, err := rep.Packing().Files(rand.Reader); err == nil || files != nil || !strings.Contains(err.Error(), "52428800") {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestPackNeverContradicts: a pack that would break a rule is not written.
func TestPackNeverContradicts(t *testing.T) {
	x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, sandbox.Full), nil)
	rep := x.Run(t, intents.Actions(intents.Sh("mkdir out; echo a >out/a")), harness.Folders{})
	files, err := rep.Packing().Files(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	files[pack.PatchFile] = bytes.Replace(files[pack.PatchFile], []byte(`"a\n"`), []byte(`"b\n"`), 1)
	if err := packing.Check(files, verify.Options{Profile: func(string) *kernel.PolicyProfile { return &rep.Result.Policy }}); err == nil || !strings.Contains(err.Error(), "contradict") {
		t.Errorf("%v", err)
	}
}
