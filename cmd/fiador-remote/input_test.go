package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// TestTree: the Directory messages say what the list says, in any order of its lines.
func TestTree(t *testing.T) {
	k := newTask(t, "")
	for i, p := range []string{"a-b", "a/b", "a/b-c/d", "a.b/c", "a0", "z", "é/ü", "deep/er/and/deeper/file", "deep/er-", "\u2028", "with space/\n"} {
		k.file(p, fmt.Append(nil, i%3), i%2 == 0) // some have the same bytes
	}
	digests := map[digest]bool{}
	var all blobs
	for range 20 {
		rand.Shuffle(len(k.inputs), func(i, j int) { k.inputs[i], k.inputs[j] = k.inputs[j], k.inputs[i] })
		all = blobs{}
		root, err := all.addTree(k.ready()["root"].(string))
		must(t, err)
		digests[root] = true
	}
	if len(digests) != 1 {
		t.Fatalf("%d digests of one tree", len(digests))
	}
	l := newLiar()
	for _, b := range all {
		data := b.data
		if b.source != "" {
			var err error
			data, err = os.ReadFile(b.source)
			must(t, err)
		}
		l.put(data)
	}
	var got, want []string
	for root := range digests {
		must(t, l.tree(root.proto(), "", func(p string, n *repb.FileNode) {
			got = append(got, fmt.Sprint(p, n.Digest.Hash, n.Digest.SizeBytes, n.IsExecutable))
		}))
	}
	for _, in := range k.inputs {
		want = append(want, fmt.Sprint(in.Path, in.SHA256, in.Size, in.Executable))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	empty := blobs{}
	if root := empty.directories(nil); root.size != 0 || root != digestOf(nil) {
		t.Errorf("an empty root is %v", root)
	}
}

// TestRootListRefused: nothing is sent for a list that is wrong.
func TestRootListRefused(t *testing.T) {
	hash := strings.Repeat("a", 64)
	line := func(path string) string {
		return fmt.Sprintf(`{"path":%q,"sha256":%q,"size":1,"executable":false,"source":"/dev/null"}`, path, hash)
	}
	l := newLiar().serve(t)
	h := startInside(t)
	h.greet(helloTo(l.address))
	for _, c := range []struct{ name, list, message string }{
		{"twice", line("a") + "\n" + line("a"), "cannot both be files"},
		{"file and folder", line("a/b") + "\n" + line("a") + "\n" + line("a-"), "cannot both be files"},
		{"above", line("../a"), "clean relative path"},
		{"above inside", line("a/../b"), "clean relative path"},
		{"dots", line(".."), "clean relative path"},
		{"absolute", line("/a"), "clean relative path"},
		{"dot", line("./a"), "clean relative path"},
		{"root", line("."), "clean relative path"},
		{"empty", line(""), "clean relative path"},
		{"slash at the end", line("a/"), "clean relative path"},
		{"NUL", strings.ReplaceAll(line("aX"), "X", `\u0000`), "clean relative path"},
		{"member", `{"path":"a","link":"b"}`, "unknown field"},
		{"hash", strings.Replace(line("a"), "aaa", "AAA", 1), "no valid digest"},
		{"short hash", strings.Replace(line("a"), "aaa", "", 1), "no valid digest"},
		{"size", strings.Replace(line("a"), ":1", ":-1", 1), "no valid digest"},
		{"two sizes", line("a") + "\n" + strings.Replace(line("b"), ":1", ":2", 1), "another file of its hash"},
		{"source", strings.Replace(line("a"), "/dev/null", "null", 1), "not an absolute path"},
		{"not UTF-8", strings.ReplaceAll(line("aX"), "X", "\xff"), "UTF-8"},
		{"two values", line("a") + " {}", "more than one value"},
		{"more behind", line("a") + " x", "more than one value"},
		{"half a line", line("a")[:20], "unexpected EOF"},
		{"blank line", line("a") + "\n\n" + line("b"), "line 2"},
		{"long line", line(strings.Repeat("a", maxLine)), "too long"},
	} {
		k := newTask(t, "is not run").set("id", c.name)
		request := k.ready()
		must(t, os.WriteFile(request["root"].(string), []byte(c.list), 0o600))
		h.send(request)
		if a := h.want("failed"); a.ID != c.name || a.Kind != kindConfig || !strings.Contains(a.Message, c.message) || a.MayHaveRun {
			t.Errorf("%s: got %+v, want %q", c.name, a, c.message)
		}
	}
	if len(l.calls) != 1 {
		t.Errorf("calls: %v", l.calls)
	}
}

// TestExecuteRefused: a request that is wrong fails alone.
func TestExecuteRefused(t *testing.T) {
	full := t.TempDir()
	must(t, os.WriteFile(filepath.Join(full, "b"), []byte("mine"), 0o600))
	playAll(t, []lie{
		{name: "no argv", task: func(k *task) { k.set("argv", []string{}) }, want: kindConfig, message: "argv"},
		{name: "no outputs", task: func(k *task) { k.set("outputs", []string{}).set("max_bytes", []int64{}) }, want: kindConfig, message: "outputs"},
		{name: "too many outputs", task: func(k *task) { k.set("outputs", make([]string, 33)).set("max_bytes", make([]int64, 33)) }, want: kindConfig, message: "at most 32"},
		{name: "long output", task: func(k *task) { k.set("outputs", []string{strings.Repeat("x", 4097)}) }, want: kindConfig, message: "4096 bytes"},
		{name: "no bound", task: func(k *task) { k.set("max_bytes", []int64{}) }, want: kindConfig, message: "max_bytes"},
		{name: "negative bound", task: func(k *task) { k.set("max_bytes", []int64{-1}) }, want: kindConfig, message: "bound"},
		{name: "no timeout", task: func(k *task) { k.set("timeout_ms", 0) }, want: kindConfig, message: "timeout_ms"},
		{name: "output above", task: func(k *task) { k.set("outputs", []string{"../b"}) }, want: kindConfig, message: "clean"},
		{name: "one name twice", task: func(k *task) { k.set("outputs", []string{"a/b", "c/b"}).set("max_bytes", []int64{1, 1}) }, want: kindConfig, message: "name"},
	})
	l := newLiar().serve(t)
	h := startInside(t)
	h.greet(helloTo(l.address))
	for out, message := range map[string]string{full: "file exists", filepath.Join(full, "none"): "no such file", "relative": "absolute"} {
		request := newTask(t, "is not run by a liar").ready()
		request["out"] = out
		h.send(request)
		a := h.next()
		if a.Type == "accepted" {
			a = h.next()
		}
		if a.Type != "failed" || a.Kind != kindConfig || !strings.Contains(a.Message, message) {
			t.Errorf("%s: got %+v", out, a)
		}
	}
	if mine, err := os.ReadFile(filepath.Join(full, "b")); err != nil || string(mine) != "mine" {
		t.Errorf("%q, %v", mine, err)
	}
}

// TestChanged: a file that is not what the list says is never completed at the server.
func TestChanged(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789"), 400_000)
	for _, size := range []string{"small", "large"} {
		data := map[string][]byte{"small": []byte("0123456789"), "large": large}[size]
		other := bytes.Clone(data)
		other[len(other)/2] = 'x'
		for name, change := range map[string]func(string) error{
			"other bytes":  func(p string) error { return os.WriteFile(p, other, 0o600) },
			"fewer bytes":  func(p string) error { return os.Truncate(p, int64(len(data)-1)) },
			"more bytes":   func(p string) error { return os.WriteFile(p, append(bytes.Clone(data), 'x'), 0o600) },
			"gone":         os.Remove,
			"link to it":   func(p string) error { return replace(p, func() error { return os.Symlink(p+".moved", p) }) },
			"folder":       func(p string) error { return replace(p, func() error { return os.Mkdir(p, 0o700) }) },
			"other letter": func(p string) error { return os.WriteFile(p, bytes.ToUpper(other), 0o600) },
		} {
			t.Run(size+" "+name, func(t *testing.T) {
				l := newLiar().serve(t)
				k := newTask(t, "is not run").file("in/fine", []byte("fine"), false).file("in/changed", data, false)
				request := k.ready()
				must(t, change(k.inputs[1].Source))
				h := startInside(t)
				h.greet(helloTo(l.address))
				h.send(request)
				a := h.want("failed")
				if a.Kind != kindChanged || !strings.Contains(a.Message, `"in/changed" changed while it was uploaded`) || a.MayHaveRun {
					t.Errorf("got %+v", a)
				}
				if _, ok := l.get(k.inputs[1].SHA256); ok || l.count("Execute") > 0 {
					t.Error("the server has the blob, or the action")
				}
				if _, ok := l.get(digestOf(other).hash); ok {
					t.Error("the server has other bytes")
				}
			})
		}
	}
}

func replace(p string, with func() error) error {
	if err := os.Rename(p, p+".moved"); err != nil {
		return err
	}
	return with()
}

// TestStderr: inline, as a blob, too large, and false.
func TestStderr(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	for _, c := range []struct {
		name, inline, blob, want string
		digest                   digest
	}{
		{name: "inline", inline: "said", want: "said"},
		{name: "blob", blob: "said", digest: digestOf([]byte("said")), want: "said"},
		{name: "both", inline: "said", blob: "said", digest: digestOf([]byte("said")), want: "said"},
		{name: "long inline", inline: long, want: long[:maxText]},
		{name: "long blob", blob: long, digest: digestOf([]byte(long)), want: long[:maxText]},
		{name: "absent blob", digest: digestOf([]byte("gone"))},
		{name: "wrong size", blob: "said", digest: digest{digestOf([]byte("said")).hash, 3}},
		{name: "not UTF-8", inline: "a\xffb", want: "a\ufffdb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLiar()
			l.put([]byte(c.blob))
			l.result = func(r *repb.ActionResult) { r.StderrRaw, r.StderrDigest = []byte(c.inline), c.digest.proto() }
			l.serve(t)
			h := startInside(t)
			h.greet(helloTo(l.address))
			h.send(newTask(t, "is not run by a liar").ready())
			h.want("accepted")
			if a := h.want("done"); a.Stderr != c.want {
				t.Errorf("got %d bytes, want %d", len(a.Stderr), len(c.want))
			}
		})
	}
}
