//go:build linux && (amd64 || arm64)

package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/dispatch"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
)

// TestDecidedIsPerformed: documents of tools, adapters and servers that change while the policy
// decides make no difference to what is performed. The next registry refuses each of them.
func TestDecidedIsPerformed(t *testing.T) {
	h := harnesstest.NewTier(t, harnesstest.Tiers[0])
	x := harnesstest.NewExecutor(t, h, nil)
	files := mcpRegistry(sayReady+sayTools+sayAnswer, `,"transforms":{"output":[{"type":"parse","spec":"json"},{"type":"extract","spec":"$.content[0].text"}]}`)
	files["T/tool.json"] = harnesstest.Tool(`"A","B"`)
	files["T/B.json"] = harnesstest.CLI("B", `"executable":"echo","base_args":["decided"]`, "")
	calls := intents.Actions(`{"kind":"call","tool_id":"T","adapter_id":"A","params":{}}`, `{"kind":"call","tool_id":"T","adapter_id":"B","params":{}}`, intents.Sh("cat calls/*"))
	changes := map[string][2]string{
		"T/tool.json": {`"name":"t"`, `"name":"u"`}, "T/B.json": {`"decided"`, `"changed"`}, "T/A.json": {"[0].text", "[0].type"}, "servers/s.json": {"four", "five"},
	}
	dir, err := harnesstest.ToolsFolder(t, x.Deps.Specs, files)
	if err != nil {
		t.Fatal(err)
	}
	change := func(name string) {
		text := strings.Replace(files[name], changes[name][0], changes[name][1], 1)
		if text == files[name] {
			t.Fatalf("%s does not change", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	judged := 0
	x.Gate.Judge = harnesstest.JudgeFunc(func(in policy.Input) (kernel.Verdict, error) {
		judged++
		for name := range changes {
			change(name)
		}
		if err := os.Remove(filepath.Join(dir, dispatch.IndexFile)); err != nil {
			t.Error(err)
		}
		return harnesstest.Permissive(in)
	})
	index, err := os.ReadFile(filepath.Join(dir, dispatch.IndexFile))
	if err != nil {
		t.Fatal(err)
	}
	x.Gate.UseTools(harnesstest.OpenTools(t, x.Deps.Specs, dir))
	rep := x.Run(t, calls, harness.Folders{})
	if got := string(rep.Execution.Stdout.Bytes); got != "\"four\"\n\"decided\\n\"\n" || judged != 1 {
		t.Errorf("%q, judged %d times: %s", got, judged, rep.Bytes)
	}
	x.Gate.Judge = harnesstest.JudgeFunc(harnesstest.Permissive)
	for _, name := range []string{"T/tool.json", "T/A.json", "T/B.json", "servers/s.json", ""} {
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, dispatch.IndexFile), index, 0o644); err != nil {
			t.Fatal(err)
		}
		if x.Gate.UseTools(harnesstest.OpenTools(t, x.Deps.Specs, dir)); name == "" {
			x.Run(t, calls, harness.Folders{})
			continue
		}
		change(name)
		if re := x.Fails(t, calls, harness.Folders{}); re.Code != result.CodeProfile || !strings.Contains(re.Message, name) || !strings.Contains(re.Hint, "fiador tool index") {
			t.Errorf("%s: %v (%s)", name, re, re.Hint)
		}
	}
}
