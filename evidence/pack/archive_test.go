package pack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/packtest"
)

// archiveOf is a pack's archive.
func archiveOf(t testing.TB, p *pack.Pack) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.WriteArchive(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// samplePack returns every file that a pack can have, one of them empty and one large.
func samplePack() map[string][]byte {
	files := map[string][]byte{}
	for i, name := range pack.Names() {
		files[name] = bytes.Repeat([]byte(name+"\n"), i*i*i)
	}
	// 200 KB that compress badly: more than one block of deflate.
	sum := sha256.Sum256(nil)
	for range 200_000 / len(sum) {
		sum = sha256.Sum256(sum[:])
		files[pack.PatchFile] = append(files[pack.PatchFile], sum[:]...)
	}
	return files
}

// The SHA-256 of the archive of samplePack, and of the tar archive inside.
//
// goldenTar is a promise: it never changes. goldenArchive depends on the compression of
// the Go release that builds the program. If only goldenArchive differs with a new
// release, take the hash that the test prints. Then write in CHANGELOG.md that archives
// of this version have other bytes than those of the version before.
const (
	goldenTar     = "c1ce7fd3de24e2ff7c950ae00b2550fbe5bc6677305b45a9fa7b44a7cc6f708d"
	goldenArchive = "373bb1f0a86297254e09144836b54bc083a4fc116dc46631c04499adc182c9a6"
)

// TestArchiveBytes: the bytes of an archive are the same on every machine, and each
// time.
func TestArchiveBytes(t *testing.T) {
	b := archiveOf(t, pack.Of(samplePack()))
	if again := archiveOf(t, pack.Of(samplePack())); !bytes.Equal(b, again) {
		t.Error("the same pack gives other bytes the second time")
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if got := hexSum(plain); got != goldenTar {
		t.Errorf("the tar archive has the SHA-256 %s, and not %s", got, goldenTar)
	}
	if got := hexSum(b); got != goldenArchive {
		t.Errorf("the archive has the SHA-256 %s, and not %s; see goldenArchive", got, goldenArchive)
	}
	if !bytes.Equal(b[:10], []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}) {
		t.Errorf("the gzip header is %x", b[:10])
	}
	r := tar.NewReader(bytes.NewReader(plain))
	for _, name := range pack.Names() {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		plainHeader := h.Uid == 0 && h.Gid == 0 && h.Uname == "" && h.Gname == "" && h.Format == tar.FormatUSTAR
		if h.Name != name || h.Mode != 0o644 || h.ModTime.Unix() != 0 || !plainHeader || h.Typeflag != tar.TypeReg {
			t.Errorf("the entry of %s is %+v", name, h)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("behind the last file: %v", err)
	}
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestArchiveRoundTrip(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"sample": samplePack(), "nothing": {}, "one": {pack.RunFile: []byte("{}\n")}, "empty": {pack.RunFile: {}},
	} {
		p := pack.Of(files)
		got, err := pack.ReadArchive(bytes.NewReader(archiveOf(t, p)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(p.Entries)+len(got.Entries) > 0 && !reflect.DeepEqual(got, p) {
			t.Errorf("%s: another pack is read", name)
		}
	}
}

func FuzzArchive(f *testing.F) {
	f.Add([]byte("\x02\x03abcdefgh"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, src []byte) {
		files := map[string][]byte{}
		for _, name := range pack.Names() {
			if len(src) < 2 {
				break
			}
			n := min(int(binary.BigEndian.Uint16(src)), len(src)-2)
			files[name] = src[2 : 2+n]
			src = src[2+n:]
		}
		p := pack.Of(files)
		got, err := pack.ReadArchive(bytes.NewReader(archiveOf(t, p)))
		if err != nil || len(got.Entries) != len(p.Entries) {
			t.Fatalf("%v, %d entries", err, len(got.Entries))
		}
		for _, e := range got.Entries {
			if !bytes.Equal(e.Text, files[e.Name]) {
				t.Errorf("%s is another file", e.Name)
			}
		}
	})
}

func TestArchiveRefuses(t *testing.T) {
	good := pack.Of(samplePack())
	large := packtest.Files(good)
	for _, name := range []string{pack.PatchFile, pack.ModelFile} {
		large[name] = make([]byte, pack.MaxBytes(name))
	}
	for name, c := range map[string]struct {
		pack *pack.Pack
		want string
	}{
		"a name":     {packtest.With(good, "../x", []byte("x")), `not a whole pack: "../x" is no file of a pack`},
		"a link":     {packtest.Linked(good, pack.RunFile), `not a whole pack: "run.json" is no regular file`},
		"a large":    {packtest.Altered(good, pack.RunFile, func(e *pack.Entry) { e.Text, e.Size = nil, 1<<40 }), `not a whole pack: "run.json" has more than 67108864 bytes`},
		"twice":      {packtest.Twice(good, pack.RunFile), `not a whole pack: "run.json" stands in the archive more than once`},
		"many names": {packtest.More(good), "not a whole pack: it has more than 256 names"},
		"too large":  {pack.Of(large), "not a whole pack: an archive of it would unpack to more than 268435456 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := c.pack.WriteArchive(&b); !errors.Is(err, pack.ErrNotWhole) || err.Error() != c.want || b.Len() > 0 {
				t.Errorf("%v after %d bytes, and not %s", err, b.Len(), c.want)
			}
		})
	}
	if err := good.WriteArchive(brokenWriter{}); err == nil {
		t.Error("an archive that could not be written was")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestArchivesOfTar: an archive that tar makes of a folder is read like the folder, and
// tar unpacks the archive of WriteArchive.
func TestArchivesOfTar(t *testing.T) {
	program, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("tar is not installed")
	}
	files, dir := samplePack(), t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Fatalf("tar %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	made := filepath.Join(t.TempDir(), "made.tgz")
	for _, what := range [][]string{{"."}, pack.Names(), {"./run.json", "patch.json"}} {
		run(append([]string{"czf", made, "-C", dir}, what...)...)
		p, err := pack.Open(made)
		if err != nil {
			t.Fatal(err)
		}
		want := pack.Of(files)
		if len(what) == 2 {
			want = pack.Of(map[string][]byte{pack.RunFile: files[pack.RunFile], pack.PatchFile: files[pack.PatchFile]})
		}
		if !reflect.DeepEqual(p, want) {
			t.Errorf("tar czf %s: another pack is read", strings.Join(what, " "))
		}
	}
	ours, there := filepath.Join(t.TempDir(), "ours.tgz"), t.TempDir()
	if err := os.WriteFile(ours, archiveOf(t, pack.Of(files)), 0o600); err != nil {
		t.Fatal(err)
	}
	run("xzf", ours, "-C", there)
	p, err := pack.ReadFolder(there)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p, pack.Of(files)) {
		t.Error("tar unpacks another pack")
	}
}
