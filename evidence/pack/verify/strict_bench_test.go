package verify

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// BenchmarkManyOperations verifies a pack whose patch has a thousand operations; digest
// hashes the same bytes.
func BenchmarkManyOperations(b *testing.B) {
	files := many(b, 1000)
	size := 0
	for _, text := range files {
		size += len(text)
	}
	options := builtin(b)
	for _, level := range []pack.Level{pack.Structural, pack.Strict} {
		b.Run(string(level), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if v := Pack(pack.Of(files), options.at(level)); !v.OK() {
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

// many returns the files of an execution that has left a thousand files, of a few KiB
// each.
func many(t testing.TB, n int) map[string][]byte {
	t.Helper()
	d, err := newDraft(basePacks(t)["recorded"])
	if err != nil {
		t.Fatal(err)
	}
	files := d.files(t)
	delete(files, pack.LedgerFile)
	delete(files, pack.MetaFile)
	var outputs, results, operations []any
	total, size := 0, 0
	add := func(path, content string, executable bool) {
		sum := string(canon.Sum([]byte(content)))
		outputs = append(outputs, map[string]any{"path": path, "sha256": sum, "size_bytes": len(content)})
		results = append(results, map[string]any{"path": path, "sha256": sum, "action": "create", "exit_code": 0})
		operations = append(operations, map[string]any{
			"path": path, "op": "create", "content": content, "encoding": "utf8", "executable": executable, "order": 0, "size_bytes": len(content),
		})
		total, size = total+len(content), size+len(content)
	}
	add("out/done.sh", "done\n", true)
	for i := range n - 1 {
		add(fmt.Sprintf("out/packages/module_%04d/index.js", i), strings.Repeat(fmt.Sprintf("export const name = \"module %d\";\n", i), 100), false)
	}
	files[pack.RunFile] = changed(t, files[pack.RunFile], func(m map[string]any) {
		e := m["execution"].(map[string]any)
		e["outputs"], e["total_output_bytes"] = outputs, size
	})
	files[pack.EvidenceFile] = changed(t, files[pack.EvidenceFile], func(m map[string]any) { m["action_results"] = results })
	files[pack.PatchFile] = changed(t, files[pack.PatchFile], func(m map[string]any) { m["operations"], m["total_bytes"] = operations, total })
	return files
}

// TestManyOperationsHold: the pack of the benchmark breaks no rule.
func TestManyOperationsHold(t *testing.T) {
	if v := Pack(pack.Of(many(t, 1000)), builtin(t)); !v.OK() {
		t.Errorf("%+v", v)
	}
}
