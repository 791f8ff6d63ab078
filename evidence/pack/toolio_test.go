package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/adapter"
	"github.com/fiador/fiador/kernel/canon"
)

// toolRecording is a recording of an attempt that failed, and of one that was answered.
func toolRecording() ToolIO {
	one := ToolInteraction{
		Action: 2, AdapterID: "A", AdapterSHA256: canon.Sum([]byte("A")), RequestHash: canon.Sum([]byte("r")), Attempt: 1, Code: 503,
		Failure: adapter.FailServer, RetryAfterMS: 5, Unsent: true, ResponseHash: canon.Sum(nil), LatencyMS: 1,
	}
	two := one
	two.I, two.Attempt, two.Code, two.Failure, two.RetryAfterMS, two.Unsent = 1, 2, 0, "", 0, false
	two.ResponseContent, two.ResponseHash = "é\n", canon.Sum([]byte("é\n"))
	return ToolIO{Version: ToolVersion, Mode: ModeRecord, Interactions: []ToolInteraction{one, two}}
}

// TestToolIORules spoils a recording in every way that a rule about tools alone forbids, and in
// one way for each rule that model_io.json has too.
func TestToolIORules(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(doc, one, two map[string]any)
		want  []string
	}{
		{"as it was made", func(_, _, _ map[string]any) {}, nil},
		{"no attempt", func(d, _, _ map[string]any) { d["interactions"] = []any{} }, nil},
		{"no version", func(d, _, _ map[string]any) { delete(d, "tool_io_schema_version") }, []string{"TI1 #/tool_io_schema_version"}},
		{"no action", func(_, a, _ map[string]any) { delete(a, "action") }, []string{"TI2 #/interactions/0/action", "TI8 #/interactions/1/attempt"}},
		{"an action beyond all", func(_, a, b map[string]any) { a["action"], b["action"] = json.Number("256"), json.Number("256") }, []string{"TI2 #/interactions/0/action", "TI2 #/interactions/1/action"}},
		{"no adapter", func(_, a, b map[string]any) { a["adapter_id"], b["adapter_id"] = "", "" }, []string{"TI2 #/interactions/0/adapter_id", "TI2 #/interactions/1/adapter_id"}},
		{"mode none", func(d, _, _ map[string]any) { d["mode"] = "none" }, []string{"TI3 #/mode"}},
		{"no list", func(d, _, _ map[string]any) { d["interactions"] = "x" }, []string{"TI4 #/interactions"}},
		{"another position", func(_, _, b map[string]any) { b["i"] = json.Number("2") }, []string{"TI5 #/interactions/1/i"}},
		{"no digest of the adapter", func(_, a, _ map[string]any) { delete(a, "adapter_sha256") }, []string{"TI6 #/interactions/0/adapter_sha256"}},
		{"a short hash", func(_, a, _ map[string]any) { a["request_hash"] = "sha256:00" }, []string{"TI6 #/interactions/0/request_hash"}},
		{"another response", func(_, _, b map[string]any) { b["response_content"] = "x" }, []string{"TI7 #/interactions/1/response_hash"}},
		{"an attempt twice", func(_, _, b map[string]any) { b["attempt"] = json.Number("1") }, []string{"TI8 #/interactions/1/attempt"}},
		{"an attempt of another adapter", func(_, _, b map[string]any) { b["adapter_id"] = "B" }, []string{"TI8 #/interactions/1/attempt"}},
		{"another order", func(d, a, b map[string]any) { a["i"], b["i"] = json.Number("1"), json.Number("0") }, []string{"TI5 #/interactions/0/i", "TI5 #/interactions/1/i", "TI9 #/interactions/1/i"}},
		{"no code", func(_, a, _ map[string]any) { delete(a, "code") }, []string{"TI10 #/interactions/0/code"}},
		{"another failure", func(_, a, _ map[string]any) { a["failure"] = adapter.FailExit }, []string{"TI10 #/interactions/0/failure"}},
		{"a failure that is a number", func(_, a, _ map[string]any) { a["failure"] = json.Number("1") }, []string{"TI10 #/interactions/0/failure"}},
		{"a response of what failed", func(_, a, _ map[string]any) { respond(a, "x") }, []string{"TI10 #/interactions/0/response_content"}},
		{"a code of what was answered", func(_, _, b map[string]any) { b["code"] = json.Number("500") }, []string{"TI10 #/interactions/1"}},
		{"unsent, and answered", func(_, _, b map[string]any) { b["unsent"] = true }, []string{"TI10 #/interactions/1"}},
		{"unsent is false", func(_, a, _ map[string]any) { a["unsent"] = false }, []string{"TI10 #/interactions/0/unsent"}},
		{"a wait after an answer", func(_, _, b map[string]any) { b["retry_after_ms"] = json.Number("5") }, []string{"TI10 #/interactions/1"}},
		{"a wait before now", func(_, a, _ map[string]any) { a["retry_after_ms"] = json.Number("-5") }, []string{"TI11 #/interactions/0/retry_after_ms"}},
		{"half a latency", func(_, a, _ map[string]any) { a["latency_ms"] = json.Number("0.5") }, []string{"TI11 #/interactions/0/latency_ms"}},
		{"too long", func(_, _, b map[string]any) { respond(b, strings.Repeat("a", MaxResponseBytes+1)) }, []string{"TI11 #/interactions/1/response_content"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := toolRecording().Bytes()
			if err != nil {
				t.Fatal(err)
			}
			read, err := canon.Parse(b, len(b))
			if err != nil {
				t.Fatal(err)
			}
			doc := read.Value().(map[string]any)
			test.spoil(doc, interactionOf(doc, 0), interactionOf(doc, 1))
			var got []string
			for _, v := range SortViolations(ToolIOFaults(doc)) {
				got = append(got, v.Rule+" "+strings.TrimPrefix(v.Path, ToolFile))
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("violations %q, want %q", got, test.want)
			}
			if b, _, err = canon.Artifact(doc); err != nil {
				t.Fatal(err)
			}
			_, err = ParseToolIO(b)
			if _, broken := errors.AsType[*RecordingError](err); broken != (len(test.want) > 0) || err != nil && !broken {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestToolIOBytes: a written recording is read unchanged. Other bytes of the same meaning, and
// each member that is removed, are refused.
func TestToolIOBytes(t *testing.T) {
	m := toolRecording()
	b, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseToolIO(b); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%s is read as %+v (%v)", b, got, err)
	}
	for name, text := range map[string][]byte{
		"no line feed": bytes.TrimSuffix(b, []byte("\n")), "white space": bytes.Replace(b, []byte(","), []byte(", "), 1),
		"another version": bytes.Replace(b, []byte(`"1.0.0"`), []byte(`"1.0.1"`), 1), "another member": bytes.Replace(b, []byte(`"mode"`), []byte(`"m":1,"mode"`), 1),
		"a wait of nothing": bytes.Replace(b, []byte(`"retry_after_ms":5`), []byte(`"retry_after_ms":0`), 1), "nothing": nil,
	} {
		if _, err := ParseToolIO(text); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	read, err := canon.Parse(b, len(b))
	if err != nil {
		t.Fatal(err)
	}
	doc := read.Value().(map[string]any)
	for i, may := range [][]string{{"retry_after_ms", "unsent"}, nil} {
		one := interactionOf(doc, i)
		for name, value := range one {
			delete(one, name)
			text, _, err := canon.Artifact(doc)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseToolIO(text); (err == nil) != slices.Contains(may, name) {
				t.Errorf("without %s of %d: %v", name, i, err)
			}
			one[name] = value
		}
	}
}
