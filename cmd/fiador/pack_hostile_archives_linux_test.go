package main

import (
	"archive/tar"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// tarball writes the archive of a pack.
type tarball struct {
	t   *testing.T
	buf bytes.Buffer
	tar *tar.Writer
	at  string
}

func (b *tarball) header(h tar.Header, text string) {
	b.t.Helper()
	if h.Mode == 0 {
		h.Mode = 0o644
	}
	if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
		h.Size = int64(len(text))
	}
	if err := b.tar.WriteHeader(&h); err != nil {
		b.t.Fatal(err)
	}
	if _, err := io.WriteString(b.tar, text); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tarball) file(name, text string) { b.header(tar.Header{Name: name}, text) }

// whole adds the files of a whole pack, except for the named ones.
func (b *tarball) whole(without ...string) {
	b.t.Helper()
	files, err := filepath.Glob(wholeAt(b.at) + "/*")
	if err != nil || len(files) == 0 {
		b.t.Fatal(files, err)
	}
	for _, f := range files {
		if name := filepath.Base(f); !strings.Contains(" "+strings.Join(without, " ")+" ", " "+name+" ") {
			b.file(name, b.read(name))
		}
	}
}

func (b *tarball) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(wholeAt(b.at), name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// tarred makes an archive. fill adds its entries, and change changes the bytes of the tar
// archive.
func tarred(fill func(b *tarball), change func(plain []byte) []byte) func(t *testing.T, at string) {
	return func(t *testing.T, at string) {
		t.Helper()
		b := &tarball{t: t, at: at}
		b.tar = tar.NewWriter(&b.buf)
		fill(b)
		if err := b.tar.Close(); err != nil {
			t.Fatal(err)
		}
		plain := b.buf.Bytes()
		if change != nil {
			plain = change(plain)
		}
		writeFileAt(t, at, gzipped(t, plain))
	}
}

func writeFileAt(t *testing.T, at string, text []byte) {
	t.Helper()
	if err := os.WriteFile(at, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func gzipped(t *testing.T, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// packedAs changes the bytes of the compressed archive of a whole pack.
func packedAs(change func(b []byte) []byte) func(t *testing.T, at string) {
	return func(t *testing.T, at string) {
		t.Helper()
		tarred(func(b *tarball) { b.whole() }, nil)(t, at)
		text, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		writeFileAt(t, at, change(text))
	}
}

// bomb makes an archive with one file of size zeros. The archive is a thousand times
// smaller.
func bomb(name string, size int64) func(t *testing.T, at string) {
	return func(t *testing.T, at string) {
		t.Helper()
		var head bytes.Buffer
		if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o644, Format: tar.FormatGNU}); err != nil {
			t.Fatal(err)
		}
		// One chunk of zeros, flushed, can be repeated any number of times.
		const chunk = 16 << 20
		var first, again bytes.Buffer
		z, err := flate.NewWriter(&first, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		zeros := make([]byte, chunk)
		if _, err := z.Write(append(head.Bytes(), zeros...)); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		again.Write(first.Bytes())
		n := first.Len()
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		unit := first.Bytes()[n:]
		out := append([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}, again.Bytes()...)
		for written := int64(chunk); written < size; written += chunk {
			out = append(out, unit...)
		}
		writeFileAt(t, at, out)
	}
}

// paxRecord returns a record of a PAX header. Its length includes its own digits.
func paxRecord(key, value string) string {
	n := len(key) + len(value) + 3
	for {
		s := fmt.Sprintf("%d %s=%s\n", n, key, value)
		if len(s) == n {
			return s
		}
		n = len(s)
	}
}

// paxFile adds a file with a PAX header of these records, which tar.Writer would not
// write.
func (b *tarball) paxFile(name, stored string, records ...string) {
	b.t.Helper()
	if err := b.tar.Flush(); err != nil {
		b.t.Fatal(err)
	}
	body := strings.Join(records, "")
	b.buf.Write(ustar(b.t, "PaxHeaders/x", 'x', int64(len(body))))
	b.buf.WriteString(padded(body))
	b.buf.Write(ustar(b.t, name, '0', int64(len(stored))))
	b.buf.WriteString(padded(stored))
}

func padded(s string) string { return s + strings.Repeat("\x00", (512-len(s)%512)%512) }

// ustar returns a header block.
func ustar(t *testing.T, name string, kind byte, size int64) []byte {
	t.Helper()
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00", size, 0))
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

func hostileArchives() []hostilePack {
	list := slipping()
	list = append(list, linkedArchives()...)
	list = append(list, damagedArchives()...)
	sparseFile := func(name string, size int64) func(b *tarball) {
		return func(b *tarball) {
			b.whole(name)
			b.paxFile("GNUSparseFile.0/"+name, padded("0\n"),
				paxRecord("GNU.sparse.major", "1"), paxRecord("GNU.sparse.minor", "0"),
				paxRecord("GNU.sparse.name", name), paxRecord("GNU.sparse.realsize", fmt.Sprint(size)))
		}
	}
	return append(list,
		hostilePack{name: "an archive with a file twice", make: tarred(func(b *tarball) {
			b.whole()
			b.file("run.json", b.read("run.json"))
		}, nil), code: 1, says: "run.json"},
		hostilePack{name: "an archive with a file twice, one with a point", make: tarred(func(b *tarball) {
			b.whole()
			b.file("./run.json", "{}\n")
		}, nil), code: 1, says: "run.json"},
		hostilePack{name: "an archive with a file and a folder of one name", make: tarred(func(b *tarball) {
			b.whole()
			b.header(tar.Header{Name: "run.json/", Typeflag: tar.TypeDir}, "")
		}, nil), code: 1, says: "run.json"},
		hostilePack{name: "an archive with many files", make: tarred(func(b *tarball) {
			for i := range rehearsal.Count(20_000, 100_000) {
				b.file(fmt.Sprintf("f%06d", i), "")
			}
		}, nil), code: 1, says: "PK"},
		hostilePack{name: "an archive with a giant name", make: tarred(func(b *tarball) {
			b.whole()
			b.paxFile("x", "", paxRecord("path", strings.Repeat("n", 900_000)))
		}, nil), code: 2, says: "a name of 900000 bytes"},
		hostilePack{name: "an archive with a giant header", make: tarred(func(b *tarball) {
			b.whole()
			b.paxFile("x", "", paxRecord("path", strings.Repeat("n", 10<<20)))
		}, nil), code: 2, says: "damaged"},
		hostilePack{name: "an archive with giant names", make: tarred(func(b *tarball) {
			for i := range 250 {
				b.paxFile("x", "", paxRecord("path", fmt.Sprint(i)+strings.Repeat("\x1b", 900_000)))
			}
		}, nil), code: 2, says: "a name of 900001 bytes"},
		hostilePack{name: "an archive with names that do not show", make: tarred(func(b *tarball) {
			b.whole()
			for _, name := range []string{"a\nVALID", "\x1b[2J", "\u202ex", "\xff\xfe"} {
				b.paxFile("x", "", paxRecord("path", name))
			}
		}, nil), code: 1, says: "PK2"},
		hostilePack{name: "an archive with a file of holes", make: tarred(sparseFile("run.json", 10<<30), nil), code: 1, says: "PK"},
		hostilePack{name: "an archive with a file of holes that is read", make: tarred(sparseFile("patch.json", 100<<20), nil), code: 1, says: ""},
		hostilePack{name: "a bomb", make: bomb("run.json", 10<<30), code: 2, says: "unpacks to more than"},
		hostilePack{name: "a bomb of another name", make: bomb("other", 10<<30), code: 2, says: "unpacks to more than"},
		hostilePack{name: "a bomb that is read", make: bomb("patch.json", 128<<20), code: 2, says: ""},
	)
}

// slipping returns archives with a name that leads out of the folder.
func slipping() []hostilePack {
	var list []hostilePack
	for _, name := range []string{
		"../x", "../../secret", "/abs", "/tmp/fiador-hostile", "a/../../x", "./../x", "run.json/../../x", "..", "../", "/", "a/b", "a/", ".", "..\\x", `C:\x`,
		"//run.json", "./run.json/", "././bundle.json", "RUN.JSON", "run.json ", "run.json.", "CON",
	} {
		list = append(list, hostilePack{name: fmt.Sprintf("an archive with the name %q", name), make: tarred(func(b *tarball) {
			b.whole()
			h := tar.Header{Name: name}
			if strings.HasSuffix(name, "/") {
				h.Typeflag = tar.TypeDir
				b.header(h, "")
				return
			}
			b.header(h, "slipped\n")
		}, nil), code: 1, says: "PK"})
	}
	return list
}

// linkedArchives returns archives with entries that are no files.
func linkedArchives() []hostilePack {
	entry := func(h tar.Header) func(t *testing.T, at string) {
		h.Name = "run.json"
		return tarred(func(b *tarball) {
			b.whole("run.json")
			b.header(h, "")
		}, nil)
	}
	return []hostilePack{
		{name: "an archive with a link to a secret", make: entry(tar.Header{Typeflag: tar.TypeSymlink, Linkname: "../../secret"}), code: 1, says: "PK6"},
		{name: "an archive with a link to a file in it", make: entry(tar.Header{Typeflag: tar.TypeSymlink, Linkname: "bundle.json"}), code: 1, says: "PK6"},
		{name: "an archive with a hard link", make: entry(tar.Header{Typeflag: tar.TypeLink, Linkname: "bundle.json"}), code: 1, says: "PK6"},
		{name: "an archive with a hard link to elsewhere", make: entry(tar.Header{Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), code: 1, says: "PK6"},
		{name: "an archive with a device", make: entry(tar.Header{Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}), code: 1, says: "PK12"},
		{name: "an archive with a disk", make: entry(tar.Header{Typeflag: tar.TypeBlock, Devmajor: 8}), code: 1, says: "PK12"},
		{name: "an archive with a FIFO", make: entry(tar.Header{Typeflag: tar.TypeFifo}), code: 1, says: "PK12"},
		{name: "an archive with a link, and a file through it", make: tarred(func(b *tarball) {
			b.whole()
			b.header(tar.Header{Name: "out", Typeflag: tar.TypeSymlink, Linkname: ".."}, "")
			b.file("out/x", "slipped\n")
		}, nil), code: 1, says: "PK"},
	}
}

// damagedArchives returns files that are no archives, or incomplete ones.
func damagedArchives() []hostilePack {
	return []hostilePack{
		{name: "an archive that is empty", make: func(t *testing.T, at string) { writeFileAt(t, at, nil) }, code: 2, says: "not a gzip archive"},
		{name: "an archive that is none", make: func(t *testing.T, at string) { writeFileAt(t, at, []byte("{}\n")) }, code: 2, says: "not a gzip archive"},
		{name: "an archive of nothing", make: func(t *testing.T, at string) { writeFileAt(t, at, gzipped(t, nil)) }, code: 1, says: "PK1"},
		{name: "an archive of what is no tar", make: func(t *testing.T, at string) { writeFileAt(t, at, gzipped(t, []byte(strings.Repeat("no tar", 1000)))) }, code: 2, says: "damaged"},
		{name: "an archive in an archive", make: packedAs(func(b []byte) []byte { return gzippedPlain(b) }), code: 2, says: "damaged"},
		{name: "an archive that is cut", make: packedAs(func(b []byte) []byte { return b[:len(b)/2] }), code: 2, says: "damaged"},
		{name: "an archive without its check sum", make: packedAs(func(b []byte) []byte { return b[:len(b)-8] }), code: 2, says: "damaged"},
		{name: "an archive with another check sum", make: packedAs(func(b []byte) []byte { b[len(b)-8] ^= 1; return b }), code: 2, says: "damaged"},
		{name: "an archive with something behind it", make: packedAs(func(b []byte) []byte { return append(b, "PK\x03\x04 or a script"...) }), code: 2, says: ""},
		{name: "two archives", make: packedAs(func(b []byte) []byte { return append(b, b...) }), code: 2, says: ""},
		{name: "an archive with something behind its end", make: tarred(func(b *tarball) { b.whole() }, func(plain []byte) []byte { return append(plain, "hidden"...) }), code: 2, says: ""},
		{name: "an archive with an archive behind its end", make: tarred(func(b *tarball) { b.whole() }, func(plain []byte) []byte { return append(plain, plain...) }), code: 2, says: ""},
		{name: "an archive whose file is cut", make: tarred(func(b *tarball) { b.whole() }, func(plain []byte) []byte { return plain[:600] }), code: 2, says: "damaged"},
	}
}

func gzippedPlain(plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(plain)
	_ = z.Close()
	return b.Bytes()
}
