package receipt

import (
	"strings"
	"testing"
)

// TestHash: the hash of nothing is the one that the BLAKE3 paper's test vectors begin with.
func TestHash(t *testing.T) {
	const empty = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
	h := Sum(nil)
	if h.String() != empty {
		t.Errorf("%s", h)
	}
	if got, err := ParseHash(empty); err != nil || got != h {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "blake3:", empty[7:], empty + "0", empty[:70], strings.ToUpper(empty), "sha256:" + empty[7:], empty[:70] + "g", "blake3:" + strings.Repeat("é", 32)} {
		if got, err := ParseHash(bad); err == nil {
			t.Errorf("%q is %s", bad, got)
		}
	}
}

// TestReadNode: what Node writes is read, and nothing else is.
func TestReadNode(t *testing.T) {
	h := Sum(nil)
	entries := []Entry{{Folder, "b", h}, {File, "a", h}, {Link, "é", h}, {Executable, "a.b", h}}
	text := string(Node(entries))
	got, err := ReadNode([]byte(text))
	if err != nil || len(got) != 4 || got[0].Name != "a" || got[1] != (Entry{Executable, "a.b", h}) {
		t.Fatalf("%v, %v", got, err)
	}
	if again := string(Node(got)); again != text {
		t.Errorf("%q, want %q", again, text)
	}
	line := "100644 " + h.Hex() + " a\x00"
	for _, bad := range []string{
		"", "fiador-tree-1", "fiador-tree-2\n", text[:len(text)-1], text + "x", text + "\x00", nodeStart + line + line,
		nodeStart + strings.Replace(line, " a\x00", " b\x00", 1) + line, nodeStart + strings.Replace(line, "100644", "100600", 1),
		nodeStart + strings.ToUpper(line), nodeStart + "100644  " + h.Hex() + " a\x00", nodeStart + strings.Replace(line, " a\x00", " .git\x00", 1),
		nodeStart + strings.Replace(line, " a\x00", " ..\x00", 1), nodeStart + strings.Replace(line, " a\x00", " a/b\x00", 1),
		nodeStart + strings.Replace(line, " a\x00", " \xff\x00", 1), nodeStart + strings.Replace(line, " a\x00", " \x00", 1),
	} {
		if got, err := ReadNode([]byte(bad)); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func FuzzReadNode(f *testing.F) {
	f.Add(Node([]Entry{{File, "a", Sum(nil)}, {Folder, "b", Sum(nil)}}))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ReadNode(text)
		if err == nil && string(Node(list)) != string(text) {
			t.Errorf("%q becomes %q", text, Node(list))
		}
	})
}
