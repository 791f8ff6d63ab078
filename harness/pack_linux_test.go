//go:build linux && (amd64 || arm64)

package harness

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
)

// packed is the pack of a report whose execution is still open. It holds at strict.
func packed(t *testing.T, rep Report) *pack.Pack {
	t.Helper()
	files, err := rep.Packed(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := Verified(files, rep.Result.Policy); err != nil {
		t.Fatalf("%v\n%s", err, bytes.Join([][]byte{files[pack.RunFile], files[pack.EvidenceFile], files[pack.PatchFile], files[pack.RunnerFile]}, nil))
	}
	return pack.Of(files)
}

// checkPacked packs what was executed: whatever an execution did, its pack holds, and
// its files hold their schemas.
func checkPacked(t *testing.T, rep Report) {
	t.Helper()
	if rep.Execution == nil {
		return
	}
	p := packed(t, rep)
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]specs.Kind{
		pack.EvidenceFile: "pack-evidence", pack.PatchFile: "pack-patch", pack.PolicyFile: "pack-policy", pack.RunnerFile: "pack-runner", pack.ModelFile: "model-io",
	} {
		if text := p.File(name); text != nil && len(text) <= result.MaxBytes {
			valid(t, set, kind, text)
		}
	}
	if e, err := p.Evidence(); err != nil || (e.Status == pack.StatusComplete) != (rep.Execution.Done == rep.Execution.Planned) {
		t.Errorf("status %v with %d of %d actions (%v)", e, rep.Execution.Done, rep.Execution.Planned, err)
	}
}

// TestPackedPatch: a patch says of every change what it was and what it has become, in
// an order in which it can be carried out.
func TestPackedPatch(t *testing.T) {
	for _, isolation := range tiers {
		t.Run(string(isolation), func(t *testing.T) {
			x := newExecutor(t, newTier(t, isolation), nil)
			work := t.TempDir()
			put(t, filepath.Join(work, "out", "old"), "old\n")
			put(t, filepath.Join(work, "out", "gone"), "gone\n")
			put(t, filepath.Join(work, "out", "same"), "same\n")
			put(t, filepath.Join(work, "out", "was"), "a file\n")
			rep := x.run(t, `"outputs":["out/same"],`+actions(sh("echo more >>out/old; rm out/gone out/was; mkdir out/was out/empty; echo in >out/was/in; "+
				`printf 'a\000b' >out/zero; printf '\377' >out/latin; printf 'caf\303\251 \342\202\254' >out/text; : >out/none; printf '#!/bin/sh\n' >out/run; chmod +x out/run`)), Folders{Work: work})
			if !rep.Result.Decision.Accepted {
				t.Fatalf("%s", rep.Bytes)
			}
			p := packed(t, rep)
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

// TestPackedRejected: the pack of an execution that was rejected has no patch.
func TestPackedRejected(t *testing.T) {
	x := newExecutor(t, newTier(t, sandbox.Full), nil)
	for _, tc := range []struct {
		members string
		status  pack.Status
		results int
	}{
		{actions(sh("mkdir out; echo a >out/a; exit 3")), pack.StatusFailed, 1},
		{actions(write("out/a", "a"), sh("exit 3"), sh("true")), pack.StatusPartial, 1},
		{actions(write("out/a", "a"), sh("echo b >b")), pack.StatusComplete, 2},
		{actions(sh("kill -9 $$")), pack.StatusFailed, 0},
	} {
		p := packed(t, x.run(t, tc.members, Folders{}))
		e, err := p.Evidence()
		if err != nil || e.Status != tc.status || len(e.ActionResults) != tc.results {
			t.Errorf("%s: %s", tc.members, p.File(pack.EvidenceFile))
		}
		if p.File(pack.PatchFile) != nil {
			t.Errorf("%s has a patch", tc.members)
		}
	}
}

// TestPackedTwice: two executions of one intent differ in nothing but what is said to.
func TestPackedTwice(t *testing.T) {
	x := newExecutor(t, newTier(t, sandbox.Full), nil)
	var seen [2]map[string]any
	for i := range seen {
		p := packed(t, x.run(t, actions(sh("mkdir out; echo a >out/a; echo b; echo c >&2")), Folders{}))
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

// TestPackedTooLarge: what a patch cannot hold is an error, and no pack.
func TestPackedTooLarge(t *testing.T) {
	x := newExecutor(t, newTier(t, sandbox.Full), nil)
	x.gate.Profile.MaxTotalOutputBytes, x.gate.Profile.MaxOutputFiles = 100<<20, 10
	limited(x.gate)
	rep, err := Run(t.Context(), x.deps, x.gate, x.request(actions(sh("mkdir out; head -c 60000000 /dev/zero >out/a")), Folders{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rep.Execution.Close()
	if !rep.Result.Decision.Accepted {
		t.Fatalf("%s", rep.Bytes)
	}
	if files, err := rep.Packed(rand.Reader); err == nil || files != nil || !strings.Contains(err.Error(), "52428800") {
		t.Errorf("%d files, %v", len(files), err)
	}
}

// TestPackNeverContradicts: a pack that would break a rule is not written.
func TestPackNeverContradicts(t *testing.T) {
	x := newExecutor(t, newTier(t, sandbox.Full), nil)
	rep := x.run(t, actions(sh("mkdir out; echo a >out/a")), Folders{})
	files, err := rep.Packed(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	files[pack.PatchFile] = bytes.Replace(files[pack.PatchFile], []byte(`"a\n"`), []byte(`"b\n"`), 1)
	if err := Verified(files, rep.Result.Policy); err == nil || !strings.Contains(err.Error(), "contradict") {
		t.Errorf("%v", err)
	}
}
