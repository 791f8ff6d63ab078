package verify

import (
	"crypto/sha256"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
)

// BenchmarkVerify verifies an executed pack at both levels; digest hashes the same bytes.
func BenchmarkVerify(b *testing.B) {
	r := vectorRun{base: basePacks(b), options: builtin(b)}
	files := r.apply(b, &packVector{Base: "executed"}).files(b)
	size := 0
	for _, text := range files {
		size += len(text)
	}
	for _, level := range []pack.Level{pack.Structural, pack.Strict} {
		b.Run(string(level), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if v := Pack(pack.Of(files), r.options.at(level)); !v.OK() {
					b.Fatal(v)
				}
			}
		})
	}
	b.Run("digest", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			for _, text := range files {
				sha256.Sum256(text)
			}
		}
	})
}
