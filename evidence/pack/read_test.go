package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// archive is a gzip-compressed tar archive of headers, each with the text "x".
func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range names {
		h := &tar.Header{Name: name, Mode: 0o644, Size: 1, Typeflag: tar.TypeReg}
		if strings.HasSuffix(name, "/") {
			h.Size, h.Typeflag = 0, tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDamagedArchives: an archive is read to its end, and nothing may follow it.
func TestDamagedArchives(t *testing.T) {
	whole := archive(t, "run.json", "policy.json")
	if _, err := ReadArchive(bytes.NewReader(whole)); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-8] ^= 1 // its CRC
	var padded bytes.Buffer
	z := gzip.NewWriter(&padded)
	plain, err := gzip.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(z, plain); err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(append(make([]byte, 5000), 'x')); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"nothing": nil, "no archive": []byte("run.json"), "its sum is another": flipped,
		"cut in its sum": whole[:len(whole)-4], "cut in a file": whole[:len(whole)/2],
		"bytes behind it": append(bytes.Clone(whole), 'x'), "a second one behind it": append(bytes.Clone(whole), whole...),
		"bytes behind the last file": padded.Bytes(),
	} {
		if p, err := ReadArchive(bytes.NewReader(text)); err == nil {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// TestArchiveNames: the names in an archive, and two entries with one name.
func TestArchiveNames(t *testing.T) {
	p, err := ReadArchive(bytes.NewReader(archive(t, "./", "./run.json", "policy.json", "policy.json", "sub/", "sub", "../up", "/abs")))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range p.Entries {
		word := e.Name + " " + string(e.Kind)
		if e.Twice {
			word += " twice"
		}
		got = append(got, word)
	}
	want := []string{"../up file", "/abs file", "policy.json file twice", "run.json file", "sub folder twice"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCreate: a pack appears complete, at an empty place.
func TestCreate(t *testing.T) {
	parent := t.TempDir()
	empty := func() []string {
		t.Helper()
		list, err := os.ReadDir(parent)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, d := range list {
			names = append(names, d.Name())
		}
		return names
	}
	dir := filepath.Join(parent, "p")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there before it is complete: %v", err)
	}
	if err := w.Stage(map[string][]byte{RunFile: []byte("1\n"), PolicyFile: []byte("2\n")}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there before it is put there: %v", err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := empty(); !slices.Equal(got, []string{"p"}) {
		t.Errorf("%q", got)
	}
	p, err := Open(dir)
	if err != nil || string(p.File(RunFile)) != "1\n" || len(p.Entries) != 2 {
		t.Errorf("%v (%v)", p, err)
	}
	if _, err := Create(dir); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("over a pack: %v", err)
	}
	w, err = Create(filepath.Join(parent, "q"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Stage(map[string][]byte{RunFile: nil, "other": nil}); err == nil {
		t.Error("a file that no pack has was written")
	}
	w, err = Create(filepath.Join(parent, "r"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "r"), []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Stage(map[string][]byte{RunFile: nil}); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("over what came meanwhile: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(parent, "r")); err != nil || string(b) != "somebody's" {
		t.Errorf("%q (%v)", b, err)
	}
	if got := empty(); !slices.Equal(got, []string{"p", "r"}) {
		t.Errorf("left behind: %q", got)
	}
}

// TestEncodings: text that canonical JSON can hold is stored unchanged, and everything
// else is base64. The bytes can be read back.
func TestEncodings(t *testing.T) {
	for content, encoding := range map[string]string{
		"": "utf8", "a\n": "utf8", "caf\u00e9 \U0001f600": "utf8", "a\x00b": "base64", "\xff": "base64", "\ufffe": "base64", "\ufdd0": "base64",
		strings.Repeat("\x01", 100): "base64", strings.Repeat("\"\n", 100): "base64", "\x01 and some text behind it": "utf8",
	} {
		o := File(OpCreate, "out/a", []byte(content), false)
		b, err := o.Bytes()
		if err != nil || string(b) != content || o.Encoding != encoding || o.SizeBytes != int64(len(content)) {
			t.Errorf("%q: %q, %s, %d (%v)", content, b, o.Encoding, o.SizeBytes, err)
		}
		text, err := canon.Canonical(o)
		if err != nil {
			t.Fatal(err)
		}
		if doc, err := canon.Parse(text, len(text)); err != nil || !bytes.Equal(doc.Bytes(), text) {
			t.Errorf("%q: %s (%v)", content, text, err)
		}
	}
	for _, bad := range []string{"YQ", "YQ=", "YR==", "Y Q==", "*"} {
		if b, err := (Operation{Content: &bad, Encoding: "base64"}).Bytes(); err == nil {
			t.Errorf("%q is %q", bad, b)
		}
	}
}

// TestInOrder: deletes come first if something takes the place of a deleted path, also
// on a file system that ignores case.
func TestInOrder(t *testing.T) {
	for _, tc := range []struct{ in, want []string }{
		{[]string{"create b", "delete a"}, []string{"0 delete a", "0 create b"}},
		{[]string{"create a/b", "delete a", "modify 0"}, []string{"0 delete a", "1 modify 0", "1 create a/b"}},
		{[]string{"delete out/keep", "create out/KEEP"}, []string{"0 delete out/keep", "1 create out/KEEP"}},
		{[]string{"delete ab", "create a/b"}, []string{"0 create a/b", "0 delete ab"}},
		{nil, nil},
	} {
		var list []Operation
		for _, s := range tc.in {
			op, name, _ := strings.Cut(s, " ")
			list = append(list, Operation{Op: Op(op), Path: name})
		}
		InOrder(list)
		var got []string
		for _, o := range list {
			got = append(got, fmt.Sprintf("%d %s %s", o.Order, o.Op, o.Path))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, want %q", tc.in, got, tc.want)
		}
	}
}
