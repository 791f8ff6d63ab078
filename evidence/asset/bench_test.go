package asset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fiador/fiador/evidence/asset"
	"github.com/fiador/fiador/kernel/trial"
)

// BenchmarkRead lists and hashes 2 000 files, half of them assets.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	ok(b, os.Mkdir(filepath.Join(dir, "assets"), 0o755))
	for i := range 1000 {
		text := make([]byte, 8<<10)
		ok(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), text, 0o600), os.WriteFile(filepath.Join(dir, "assets", fmt.Sprint(i)), text, 0o600))
	}
	f, err := asset.Open(dir)
	ok(b, err)
	defer f.Close()
	for b.Loop() {
		names, _, err := f.Names()
		ok(b, err)
		for _, name := range names {
			_, _, err := f.Hash(name, 1<<20)
			ok(b, err)
		}
	}
}

// BenchmarkCase keeps an asset and writes a case, one after the other.
func BenchmarkCase(b *testing.B) {
	d, err := asset.Create(b.TempDir(), "new", "r")
	ok(b, err)
	defer d.Close()
	for i := 0; b.Loop(); i++ {
		_, _, err := d.Keep(trial.KindFullBody, "c", fmt.Append(nil, i))
		ok(b, err, d.Write(fmt.Sprintf("c%d.json", i), make([]byte, 4<<10)))
	}
}
