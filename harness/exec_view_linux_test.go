//go:build linux && (amd64 || arm64)

package harness_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/harness/tree/treetest"
	"github.com/fiador/fiador/kernel/result"
)

// TestRequestSeesWhatItLists: if a request lists what it reads, its command sees these
// paths of the work folder, and its input files. It also sees the folders that it writes,
// without their content. It does not even see the name of anything else. What it cannot
// see is neither lost nor reported.
func TestRequestSeesWhatItLists(t *testing.T) {
	held := map[string]string{"in/a": "a\n", "in/b": "b\n", "sub/keep": "keep\n", "out/old": "old\n", "out/deep/x": "x\n", "secret/s": "canary\n", "top": "top\n"}
	all := slices.Sorted(func(yield func(string) bool) {
		for p := range held {
			if !yield(p) {
				return
			}
		}
	})
	const list = `find . -mindepth 1 | sort | sed "s,^..,," | tr "\n" " "`
	for _, tc := range []struct {
		name, script, inputs, files, outputs string
		stdout                               string
		reasons                              []string
		after                                map[string]string // paths that are new or have changed afterwards; empty: gone
	}{
		{name: "everything", script: list, files: "deny: []", stdout: "in in/a in/b out out/deep out/deep/x out/old secret secret/s sub sub/keep top "},
		{name: "a file", script: list, files: "read: [in/a], write: [out]", stdout: "in in/a out "},
		{name: "a folder", script: list, files: "read: [in], write: []", stdout: "in in/a in/b "},
		{name: "all of it", script: list, files: "read: [.], deny: [secret, in/b]", stdout: "in in/a out out/deep out/deep/x out/old sub sub/keep top "},
		{name: "nothing but an input", script: list, inputs: "input_files: [sub/keep]", files: "read: []", stdout: "sub sub/keep "},
		{name: "a path that is denied beneath", script: list, files: "read: [in, out], deny: [in/b, out/deep]", stdout: "in in/a out out/old "},
		{name: "where it starts", script: "pwd | sed s,.*/,,; ls -A; ls ..", inputs: "working_directory: sub", files: "read: [top]", stdout: "sub\nsub\ntop\n"},
		{name: "what is not there", script: "for p in secret secret/s out in/b none; do test -e $p && echo $p; done; cat secret/s in/b; true", files: "read: [in/a, none]", stdout: ""},
		{name: "by the name on the machine", script: "cat WORK/secret/s WORK/in/b; ls WORK; true", files: "read: [in/a]", stdout: ""},
		{name: "a new file beside the old", script: "echo new >out/new", files: "read: [in], write: [out]", after: map[string]string{"out/new": "new\n"}},
		{name: "over a file that it cannot see", script: "echo new >out/old", files: "read: [in], write: [out]", after: map[string]string{"out/old": "new\n"}},
		{name: "the same as it cannot see", script: "echo old >out/old", files: "read: [in], write: [out]", after: map[string]string{"out/old": "old\n"}},
		{name: "a folder made again", script: "rm -rf out; mkdir out; echo new >out/new", files: "read: [in], write: [out]", after: map[string]string{"out/new": "new\n"}},
		{name: "a folder that it cannot see", script: "mkdir sub; echo new >sub/new", files: "read: [in], write: [.]", after: map[string]string{"sub/new": "new\n"}},
		{name: "a folder that is gone as it cannot see", script: "rm -rf out", files: "read: [in], write: [.]"},
		{name: "a write folder that is gone", script: "rmdir out", files: "read: [in], write: [out]", reasons: []string{"WRITE_OUTSIDE_ROOT out"}},
		{name: "the folder of a file that it sees", script: "rm -rf in", files: "read: [in/a], write: [.]", reasons: []string{"WRITE_OUTSIDE_ROOT in"}},
		{name: "all that it sees", script: "rm -rf in", files: "read: [in], write: [.]", after: map[string]string{"in/a": "", "in/b": ""}},
		{name: "a file for a folder that it cannot see", script: "echo >sub", files: "read: [in], write: [.]", reasons: []string{"WRITE_OUTSIDE_ROOT sub"}},
		{name: "outputs that it cannot see", script: "true", files: "read: [in]", outputs: "output_files: [sub/keep, in/a], artifacts: [{path: top}, {path: in/b}]", reasons: []string{"OUTPUT_MISSING /outputs/artifacts/0", "OUTPUT_MISSING sub/keep"}},
		{name: "outputs that are denied", script: "true", files: "deny: [sub]", outputs: "output_files: [sub/keep]", reasons: []string{"OUTPUT_MISSING sub/keep"}},
	} {
		for _, isolation := range harnesstest.Tiers {
			t.Run(tc.name+"/"+string(isolation), func(t *testing.T) {
				x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), usualTime)
				work := t.TempDir()
				for p, text := range held {
					treetest.Put(t, filepath.Join(work, p), text)
				}
				members := shell(strings.ReplaceAll(tc.script, "WORK", work)) + "\nsandbox: {filesystem: {" + tc.files + "}}\noutputs: {" + tc.outputs + "}"
				if tc.inputs != "" {
					members = strings.Replace(members, "arguments", tc.inputs+", arguments", 1)
				}
				rep, p, err := answered(t, x, members, work)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(rep.Reasons, tc.reasons) || string(p.Stdout.Bytes) != tc.stdout {
					t.Errorf("reasons %q, want %q; stdout %q, want %q; stderr %q", rep.Reasons, tc.reasons, p.Stdout.Bytes, tc.stdout, p.Stderr.Bytes)
				}
				for _, f := range rep.OutputFiles {
					if _, changed := tc.after[f.Path]; !changed && f.Path != "in/a" && f.Path != "sub" {
						t.Errorf("%s is told of", f.Path)
					}
				}
				for _, p := range slices.Concat(all, []string{"out/new", "sub/new"}) {
					want, changed := tc.after[p]
					if !changed {
						want = held[p]
					}
					if got, _ := os.ReadFile(filepath.Join(work, p)); string(got) != want {
						t.Errorf("%s holds %q, want %q", p, got, want)
					}
				}
			})
		}
	}
}

// TestRequestOpensNothing: in a folder of another user, root's sandbox lets a command read
// only some files. A request that lists the folder opens no more of them.
func TestRequestOpensNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can have files of several owners")
	}
	h := harnesstest.NewTier(t, sandbox.Full)
	for _, files := range []string{"deny: []", "read: [in]"} {
		work := t.TempDir()
		for p, mode := range map[string]os.FileMode{"in/private": 0o600, "in/open": 0o644, "in/closed/a": 0o644, "in/own": 0o600} {
			treetest.Put(t, filepath.Join(work, p), p+"\n")
			if err := os.Chmod(filepath.Join(work, p), mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(os.Chmod(filepath.Join(work, "in/closed"), 0o700), os.Chown(work, 12345, 12345), os.Chown(filepath.Join(work, "in/own"), 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		rep, p, err := answered(t, harnesstest.NewExecutor(t, h, usualTime), shell("cat in/private in/open in/closed/a in/own; true")+"\nsandbox: {filesystem: {"+files+"}}", work)
		if err != nil || len(rep.Reasons) > 0 || string(p.Stdout.Bytes) != "in/open\nin/own\n" {
			t.Errorf("%s: %q, %q, %v", files, rep.Reasons, p.Stdout.Bytes, err)
		}
	}
}

// TestDeniedLink: a path to deny that is a symbolic link, or leads through one, is
// refused. Otherwise the command would see its target under the target's own name.
func TestDeniedLink(t *testing.T) {
	work := t.TempDir()
	treetest.Put(t, filepath.Join(work, "secret/s"), "canary\n")
	if err := os.Symlink("secret", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	for _, isolation := range harnesstest.Tiers {
		x := harnesstest.NewExecutor(t, harnesstest.NewTier(t, isolation), usualTime)
		for _, files := range []string{"deny: [none, link]", "deny: [none, link/s]", "read: [.], deny: [none, link/s]"} {
			_, p, err := answered(t, x, shell("cat link/s")+"\nsandbox: {filesystem: {"+files+"}}", work)
			var re *result.RunError
			if !errors.As(err, &re) || re.Details["pointer"] != "/sandbox/filesystem/deny/1" || re.Hint != "deny what it leads to" {
				t.Errorf("%s, %s: %v, %+v", isolation, files, err, p)
			}
		}
	}
}
