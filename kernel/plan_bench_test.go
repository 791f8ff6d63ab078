package kernel

import (
	"fmt"
	"testing"
)

// BenchmarkBundleBytes writes the bundle of a small intent, and one of 100 outputs.
func BenchmarkBundleBytes(b *testing.B) {
	for _, outputs := range []int{1, 100} {
		b.Run(fmt.Sprint(outputs), func(b *testing.B) {
			actions := make([]any, outputs)
			for i := range actions {
				actions[i] = map[string]any{"kind": "write", "path": fmt.Sprintf("out/page-%d.txt", i), "content": "café\nsecond line\n"}
			}
			in, err := ParseIntent(map[string]any{"goal": "build the site", "constraints": []any{"no network"}, "actions": actions})
			if err != nil {
				b.Fatal(err)
			}
			bundle, _, err := newBundle(in, nil, []Question{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := bundlePlan.Artifact(bundle); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
