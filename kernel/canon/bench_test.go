package canon

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// intentOf is an intent of about size bytes, indented as people write it.
func intentOf(size int) []byte {
	var b bytes.Buffer
	b.WriteString("{\n  \"goal\": \"build the site and keep it stateless\",\n  \"constraints\": [\"no network\", \"at most 3 files\"],\n  \"actions\": [")
	for i := 0; b.Len() < size-180; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "\n    {\n      \"kind\": \"write\",\n      \"path\": \"out/page-%d.txt\",\n      \"content\": \"caf\u00e9 number %d\\nsecond line\",\n      \"executable\": false\n    }", i, i)
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes()
}

var sizes = []struct {
	name string
	size int
}{{"1KB", 1 << 10}, {"100KB", 100 << 10}, {"1MB", 1 << 20}}

func BenchmarkParse(b *testing.B) {
	run := func(name string, src []byte) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, err := Parse(src, MaxIntentBytes); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, s := range sizes {
		run(s.name, intentOf(s.size))
	}
	run("1MB-one-string", []byte(`{"goal":"`+strings.Repeat("x", 1<<20-20)+`"}`))
	run("1MB-of-numbers", []byte("["+strings.Repeat("1,", 1<<19-2)+"1]"))
}

func BenchmarkCanonical(b *testing.B) {
	for _, s := range sizes {
		doc, err := Parse(intentOf(s.size), MaxIntentBytes)
		if err != nil {
			b.Fatal(err)
		}
		type wrapper struct{ V any }
		for name, v := range map[string]any{"value": doc.Value(), "struct": wrapper{doc.Value()}} {
			b.Run(name+"/"+s.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(doc.Bytes())))
				for b.Loop() {
					if _, err := Canonical(v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	for b.Loop() {
		Compare("allowed_write_roots", "allowed_write_rooms")
	}
}
