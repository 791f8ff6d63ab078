package canon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// canonicalOf is the canonical form of any text.
func canonicalOf(tb testing.TB, src string) []byte {
	tb.Helper()
	doc, err := Parse([]byte(src), 1<<30)
	if err != nil {
		tb.Fatal(err)
	}
	return doc.Bytes()
}

// runResultText is the result of a run with an execution, of about 4 KB.
func runResultText(tb testing.TB) []byte {
	hash := string(Sum(nil))
	results := make([]string, 8)
	for i := range results {
		results[i] = fmt.Sprintf(`{"action_index":%d,"command":["node","build.js","--page","%d"],"duration_class":"short","exit_code":0,"kind":"command",
			"stderr_sha256":%q,"stdout_sha256":%q,"truncated":false}`, i, i, hash, hash)
	}
	text := `{"bundle":{"bundle_id":"bundle_0123456789abcdef","sha256":"HASH"},"completed_at":"2026-01-02T03:04:05.007Z",
		"decision":{"accepted":true,"reasons":["every output is a caf\u00e9 \"menu\"\nand nothing else"],"validated_by_kernel":true},
		"execution":{"exit_code":0,"outputs":[{"path":"out/index.html","sha256":"HASH","size_bytes":20480},
		{"path":"out/style.css","sha256":"HASH","size_bytes":1024}],"results":[` + strings.Join(results, ",") + `]},
		"execution_mode":"execute-sandbox","intent":{"path":"intent.json","sha256":"HASH"},"kernel_result_kind":"BUNDLE",
		"kernel_version":"0.1.0","model_mode":"none","policy":{"allow_network":false,"allowed_commands":["node","npm","npx"],
		"allowed_write_roots":["out","dist","build","tmp"],"max_output_files":500,"max_total_output_bytes":52428800,
		"name":"default","timeout_ms":60000},"policy_provenance":{"capabilities_sha256":"HASH","limits":{"cpu_cores":1,
		"isolation":"full","max_children":10,"max_output_files":500,"max_total_output_bytes":52428800,"memory_mb":512,
		"timeout_ms":60000},"modules":[{"name":"builtin/paths.rego","sha256":"HASH"}],"profile_sha256":"HASH"},
		"run_id":"run_20260102T030405Z_0123456789abcdef","run_schema_version":"1.1.0","started_at":"2026-01-02T03:04:05.006Z"}`
	return canonicalOf(tb, strings.ReplaceAll(text, "HASH", hash))
}

// objectsOf is a list of n objects, each with a string that line makes up to
// size bytes.
func objectsOf(tb testing.TB, n, size int, line string) []byte {
	content, err := json.Marshal(strings.Repeat(line, size/len(line)))
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"content":%s,"encoding":"utf8","op":"create","order":%d,"path":"src/part-%04d.txt","size_bytes":%d}`, content, i, i, size)
	}
	return canonicalOf(tb, "["+b.String()[1:]+"]")
}

// BenchmarkParseCanonical reads the same texts by Parse and by ParseCanonical.
func BenchmarkParseCanonical(b *testing.B) {
	const prose = "A line of text in plain English, about as long as people write them.\n"
	for _, in := range []struct {
		name string
		src  []byte
	}{
		{"result-4KB", runResultText(b)},
		{"10MB-of-lines", objectsOf(b, 1000, 10<<10, prose)},
		{"10MB-unescaped", objectsOf(b, 1000, 10<<10, strings.ReplaceAll(prose, "\n", " "))},
		{"10MB-of-code", objectsOf(b, 1000, 10<<10, "\tif err := f(x, \"name\"); err != nil {\n\t\treturn nil, fmt.Errorf(\"read: %w\", err)\n\t}\n")},
		{"10MB-of-greek", objectsOf(b, 1000, 10<<10, "Μια γραμμή κειμένου σε απλά ελληνικά.\n")},
		{"10MB-of-chinese", objectsOf(b, 1000, 10<<10, "一行普通的中文文本,大约和人们平时写的一样长。\n")},
		{"1000-objects", objectsOf(b, 1000, 20, "short content ")},
		{"1MB-of-integers", []byte("[" + strings.Repeat("1,", 1<<19-2) + "1]")},
		{"1MB-of-fractions", []byte("[" + strings.Repeat("0.125,-1e-7,", 1<<20/12) + "1]")},
	} {
		for _, by := range []struct {
			name  string
			parse func([]byte, int) (Document, error)
		}{{"Parse", Parse}, {"ParseCanonical", ParseCanonical}} {
			b.Run(in.name+"/"+by.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(in.src)))
				for b.Loop() {
					if _, err := by.parse(in.src, len(in.src)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
