package pack_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
)

// within ends a test whose work hangs.
func within(t *testing.T, what string, work func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); work() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Fatal(what + " does not end")
	}
}

// TestHostileEntries: an entry that is no regular file is not opened; only its kind is
// recorded. A file over its limit is not read.
func TestHostileEntries(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.Symlink(secret, at(pack.RunFile)),
		syscall.Mkfifo(at(pack.BundleFile), 0o644),
		os.Mkdir(at(pack.PolicyFile), 0o755),
		os.Symlink(pack.PatchFile, at(pack.PatchFile)),
		os.WriteFile(at(pack.RunnerFile), []byte("{}\n"), 0o644), os.Truncate(at(pack.RunnerFile), pack.MaxBytes(pack.RunnerFile)+1),
		os.WriteFile(at(pack.MetaFile), []byte("{}\n"), 0o644), os.Truncate(at(pack.MetaFile), pack.MaxBytes(pack.MetaFile)),
		os.WriteFile(at("other"), []byte("other"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	within(t, "Open", func() {
		p, err := pack.Open(dir)
		if err != nil {
			t.Error(err)
			return
		}
		want := []pack.Entry{
			{Name: pack.BundleFile, Kind: pack.KindOther}, {Name: pack.MetaFile, Kind: pack.KindFile, Size: pack.MaxBytes(pack.MetaFile)}, {Name: "other", Kind: pack.KindFile, Size: 5},
			{Name: pack.PatchFile, Kind: pack.KindLink}, {Name: pack.PolicyFile, Kind: pack.KindFolder}, {Name: pack.RunFile, Kind: pack.KindLink},
			{Name: pack.RunnerFile, Kind: pack.KindFile, Size: pack.MaxBytes(pack.RunnerFile) + 1},
		}
		if len(p.Entries) != len(want) || p.More {
			t.Errorf("%d entries", len(p.Entries))
			return
		}
		for i, e := range p.Entries {
			if e.Name != want[i].Name || e.Kind != want[i].Kind || e.Kind == pack.KindFile && e.Size != want[i].Size || (e.Text != nil) != (e.Name == pack.MetaFile) {
				t.Errorf("%s: kind %s, %d bytes, read %v", e.Name, e.Kind, e.Size, e.Text != nil)
			}
		}
	})
}

// TestManyEntries: at most MaxEntries names are read.
func TestManyEntries(t *testing.T) {
	dir := t.TempDir()
	for i := range pack.MaxEntries + 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := pack.Open(dir)
	if err != nil || len(p.Entries) != pack.MaxEntries || !p.More {
		t.Fatalf("%v", err)
	}
	if v := verify.Pack(p, verify.Options{}); len(v.Violations) == 0 {
		t.Error("valid")
	}
}

// TestChangedWhileRead: if a file is replaced while it is read, the reading ends. The
// result is the content of a regular file at that place: never the target of a link, and
// never a mixture.
func TestChangedWhileRead(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	whole := [][]byte{bytes.Repeat([]byte("a"), 60_000), bytes.Repeat([]byte("b"), 90_000)}
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() { changeInTurn(t, dir, secret, whole, stop) })
	read, failed := 0, 0
	within(t, "Open", func() {
		for end := time.Now().Add(time.Second); time.Now().Before(end) || read+failed < 200; {
			p, err := pack.Open(dir)
			if err != nil {
				failed++
				continue
			}
			read++
			if text := p.File(pack.RunFile); text != nil && !slices.ContainsFunc(whole, func(w []byte) bool { return bytes.Equal(w, text) }) {
				t.Errorf("%d bytes that nobody put there: %.20q", len(text), text)
				return
			}
			_ = verify.Pack(p, verify.Options{})
		}
	})
	close(stop)
	changing.Wait()
	t.Logf("%d read, %d not", read, failed)
}

// changeInTurn puts different things in the place of run.json, one after the other.
func changeInTurn(t *testing.T, dir, secret string, whole [][]byte, stop <-chan struct{}) {
	next, place := filepath.Join(t.TempDir(), "next"), filepath.Join(dir, pack.RunFile)
	makers := []func() error{
		func() error { return os.WriteFile(next, whole[0], 0o644) },
		func() error { return os.Symlink(secret, next) },
		func() error { return syscall.Mkfifo(next, 0o644) },
		func() error { return os.WriteFile(next, whole[1], 0o644) },
		func() error { return os.Symlink("/dev/zero", next) },
	}
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if err := errors.Join(makers[i%len(makers)](), os.Rename(next, place)); err != nil {
			t.Error(err)
			return
		}
		if i%7 == 0 {
			if err := os.Remove(place); err != nil {
				t.Error(err)
				return
			}
		}
	}
}
