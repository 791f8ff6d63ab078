package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// recordingDocument is a recording of n calls as a decoded document.
func recordingDocument(t testing.TB, n int) map[string]any {
	t.Helper()
	b, err := recordingOf(n).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := canon.Parse(b, len(b))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value().(map[string]any)
}

func recordingOf(n int) ModelIO {
	tokens := int64(7)
	m := ModelIO{Version: ModelVersion, AdapterID: "a", ModelID: "m", Mode: ModeRecord}
	for i := range n {
		response := fmt.Sprintf("{\"i\": %d}\n", i)
		m.Interactions = append(m.Interactions, Interaction{
			I: i, PromptHash: canon.Sum([]byte{byte(i)}), ResponseHash: canon.Sum([]byte(response)), ResponseContent: response, TokensInput: &tokens,
		})
	}
	return m
}

// interactionOf returns interaction i of a document; changes of it change the document.
func interactionOf(doc map[string]any, i int) map[string]any {
	return doc["interactions"].([]any)[i].(map[string]any)
}

func respond(one map[string]any, content string) {
	one["response_content"], one["response_hash"] = content, string(canon.Sum([]byte(content)))
}

// TestModelIORules spoils a recording in every way that a rule forbids.
func TestModelIORules(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(doc map[string]any)
		want  []string
	}{
		{"as it was made", func(map[string]any) {}, nil},
		{"no call", func(d map[string]any) { d["interactions"] = []any{} }, nil},
		{"other members", func(d map[string]any) { d["more"], interactionOf(d, 0)["more"] = "x", "y" }, nil},
		{"another version", func(d map[string]any) { d["model_io_schema_version"] = "10.20.30" }, nil},
		{"the next version", func(d map[string]any) { d["model_io_schema_version"], d["more"] = "1.0.1", "x" }, nil},
		{"no version", func(d map[string]any) { delete(d, "model_io_schema_version") }, []string{"MI1 #/model_io_schema_version"}},
		{"half a version", func(d map[string]any) { d["model_io_schema_version"] = "1.0" }, []string{"MI1 #/model_io_schema_version"}},
		{"a version with a zero", func(d map[string]any) { d["model_io_schema_version"] = "1.00.0" }, []string{"MI1 #/model_io_schema_version"}},
		{"a version with more", func(d map[string]any) { d["model_io_schema_version"] = "1.0.0\n" }, []string{"MI1 #/model_io_schema_version"}},
		{"a version that is a number", func(d map[string]any) { d["model_io_schema_version"] = json.Number("1") }, []string{"MI1 #/model_io_schema_version"}},
		{"no adapter", func(d map[string]any) { d["adapter_id"] = "" }, []string{"MI2 #/adapter_id"}},
		{"no model", func(d map[string]any) { delete(d, "model_id") }, []string{"MI2 #/model_id"}},
		{"a model that is a list", func(d map[string]any) { d["model_id"] = []any{"m"} }, []string{"MI2 #/model_id"}},
		{"no mode", func(d map[string]any) { delete(d, "mode") }, []string{"MI3 #/mode"}},
		{"mode none", func(d map[string]any) { d["mode"] = "none" }, []string{"MI3 #/mode"}},
		{"no interactions", func(d map[string]any) { delete(d, "interactions") }, []string{"MI4 #/interactions"}},
		{"interactions that are an object", func(d map[string]any) { d["interactions"] = map[string]any{} }, []string{"MI4 #/interactions"}},
		{"an interaction that is a text", func(d map[string]any) { d["interactions"].([]any)[1] = "x" }, []string{"MI4 #/interactions/1"}},
		{"too many", func(d map[string]any) {
			d["interactions"] = slices.Repeat([]any{interactionOf(d, 0)}, MaxInteractions+1)
		}, []string{"MI4 #/interactions"}},
		{"no position", func(d map[string]any) { delete(interactionOf(d, 1), "i") }, []string{"MI5 #/interactions/1/i"}},
		{"a position that is a text", func(d map[string]any) { interactionOf(d, 1)["i"] = "1" }, []string{"MI5 #/interactions/1/i"}},
		{"a position that is a fraction", func(d map[string]any) { interactionOf(d, 1)["i"] = json.Number("1.5") }, []string{"MI5 #/interactions/1/i"}},
		{"another position", func(d map[string]any) { interactionOf(d, 2)["i"] = json.Number("7") }, []string{"MI5 #/interactions/2/i"}},
		{"a position below 0", func(d map[string]any) { interactionOf(d, 0)["i"] = json.Number("-1") }, []string{"MI5 #/interactions/0/i"}},
		{"prompt hash without a name", func(d map[string]any) { interactionOf(d, 0)["prompt_hash"] = strings.Repeat("0", 64) }, []string{"MI6 #/interactions/0/prompt_hash"}},
		{"prompt hash in capitals", func(d map[string]any) {
			interactionOf(d, 0)["prompt_hash"] = "sha256:" + strings.Repeat("A", 64)
		}, []string{"MI6 #/interactions/0/prompt_hash"}},
		{"no response hash", func(d map[string]any) { delete(interactionOf(d, 0), "response_hash") }, []string{"MI6 #/interactions/0/response_hash"}},
		{"another response", func(d map[string]any) { interactionOf(d, 1)["response_content"] = "x" }, []string{"MI7 #/interactions/1/response_hash"}},
		{"no response", func(d map[string]any) { delete(interactionOf(d, 1), "response_content") }, []string{"MI7 #/interactions/1/response_content"}},
		{"a response that is an object", func(d map[string]any) { interactionOf(d, 1)["response_content"] = map[string]any{} }, []string{"MI7 #/interactions/1/response_content"}},
		{"one twice", func(d map[string]any) {
			d["interactions"].([]any)[1] = maps.Clone(interactionOf(d, 0))
		}, []string{"MI5 #/interactions/1/i", "MI8 #/interactions/1"}},
		{"another order", func(d map[string]any) {
			list := d["interactions"].([]any)
			list[0], list[1] = list[1], list[0]
		}, []string{"MI5 #/interactions/0/i", "MI5 #/interactions/1/i", "MI9 #/interactions/1/i"}},
		{"a response that is the longest", func(d map[string]any) { respond(interactionOf(d, 0), strings.Repeat("a", MaxResponseBytes)) }, nil},
		{"a response that is too long", func(d map[string]any) { respond(interactionOf(d, 0), strings.Repeat("a", MaxResponseBytes+1)) }, []string{"MI11 #/interactions/0/response_content"}},
		{"a response whose bytes are too many", func(d map[string]any) {
			respond(interactionOf(d, 0), strings.Repeat("\u00e9", MaxResponseBytes/2+1))
		}, []string{"MI11 #/interactions/0/response_content"}},
		{"responses that are too long together", func(d map[string]any) {
			long := maps.Clone(interactionOf(d, 0))
			respond(long, strings.Repeat("a", MaxResponseBytes))
			var list []any
			for i := range 101 {
				one := maps.Clone(long)
				one["i"] = json.Number(fmt.Sprint(i))
				list = append(list, one)
			}
			d["interactions"] = list
		}, []string{"MI11 #/interactions"}},
		{"fewer tokens than none", func(d map[string]any) { interactionOf(d, 0)["tokens_input"] = json.Number("-1") }, []string{"MI11 #/interactions/0/tokens_input"}},
		{"half a token", func(d map[string]any) { interactionOf(d, 0)["tokens_output"] = json.Number("0.5") }, []string{"MI11 #/interactions/0/tokens_output"}},
		{"a latency that is a text", func(d map[string]any) { interactionOf(d, 0)["latency_ms"] = "1" }, []string{"MI11 #/interactions/0/latency_ms"}},
		{"several faults", func(d map[string]any) { d["mode"], d["adapter_id"] = "x", nil }, []string{"MI2 #/adapter_id", "MI3 #/mode"}},
	}
	// Faults that only ParseModelIO refuses, not the rules for every reader.
	beyond := map[string]string{"other members": "ST1 ", "another version": "ST10 #/model_io_schema_version", "the next version": "ST10 #/model_io_schema_version"}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			doc := recordingDocument(t, 3)
			test.spoil(doc)
			var got []string
			for _, v := range SortViolations(ModelIOFaults(doc)) {
				got = append(got, v.Rule+" "+strings.TrimPrefix(v.Path, ModelFile))
				if v.Message == "" || !strings.HasPrefix(v.Path, ModelFile) {
					t.Errorf("violation %+v", v)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("violations %q, want %q", got, test.want)
			}
			b, _, err := canon.Artifact(doc)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ParseModelIO(b)
			var e *RecordingError
			switch {
			case len(test.want) > 0 && !errors.As(err, &e):
				t.Errorf("error %v", err)
			case len(test.want) > 0 && (!slices.Contains(test.want, e.Rule+" "+strings.TrimPrefix(e.Path, ModelFile)) || e.More != len(test.want)-1):
				t.Errorf("error %v", e)
			case len(test.want) == 0 && beyond[test.name] == "" && err != nil:
				t.Errorf("error %v", err)
			case beyond[test.name] != "" && (!errors.As(err, &e) || e.Rule+" "+strings.TrimPrefix(e.Path, ModelFile) != beyond[test.name]):
				t.Errorf("error %v, want one of %s", err, beyond[test.name])
			}
		})
	}
	for _, v := range []any{nil, "x", []any{}, json.Number("1")} {
		if got := ModelIOFaults(v); len(got) != 1 || got[0].Rule != "MI1" || got[0].Path != ModelFile {
			t.Errorf("%v: %+v", v, got)
		}
	}
}

// TestModelIOBytes: a written recording is read unchanged, and other bytes of the same
// meaning are refused.
func TestModelIOBytes(t *testing.T) {
	for _, m := range []ModelIO{recordingOf(3), {Version: "1.0.0", AdapterID: "\u00e9", ModelID: "m\n", Mode: ModeReplay, Interactions: []Interaction{}}} {
		b, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseModelIO(b)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s is read as %+v, error %v", b, got, err)
		}
		sum, err := m.Hash()
		if err != nil || sum != canon.Sum(bytes.TrimSuffix(b, []byte("\n"))) {
			t.Errorf("hash %s, error %v", sum, err)
		}
		for name, text := range map[string][]byte{
			"no line feed": bytes.TrimSuffix(b, []byte("\n")), "two line feeds": append(slices.Clone(b), '\n'), "white space": bytes.Replace(b, []byte(","), []byte(", "), 1),
			"another order": bytes.Replace(b, []byte(`"mode"`), []byte(`"\u006dode"`), 1), "a fraction": bytes.Replace(b, []byte(`"i":0`), []byte(`"i":0.0`), 1), "nothing": nil, "half": b[:len(b)/2],
		} {
			if _, err := ParseModelIO(text); err == nil && !bytes.Equal(text, b) {
				t.Errorf("%s is accepted", name)
			}
		}
	}
	if _, err := (ModelIO{AdapterID: "\xff"}).Bytes(); err == nil {
		t.Error("what is no text is written")
	}
}

// TestModelIOCrowded: a text that would fill the memory of its reader is refused. A long
// answer is accepted.
func TestModelIOCrowded(t *testing.T) {
	doc := recordingDocument(t, 1)
	respond(interactionOf(doc, 0), strings.Repeat(`[{"a":"\\"},`, MaxResponseBytes/12))
	b, _, err := canon.Artifact(doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseModelIO(b); err != nil {
		t.Errorf("a long answer: %v", err)
	}
	for _, one := range []string{"{}", "[]", "0", `""`} {
		list := strings.Repeat(one+",", MaxValues+1) + one
		_, err := ParseModelIO([]byte(`{"interactions":[` + list + "]}\n"))
		if err == nil || err.Error() != "more than 500000 values" {
			t.Errorf("%s: %v", one, err)
		}
	}
	var e *canon.Error
	if _, err := ParseModelIO(bytes.Repeat([]byte("[,"), int(MaxBytes(ModelFile))/2+1)); !errors.As(err, &e) || e.Kind != canon.KindSize {
		t.Errorf("what is too long as well: %v", err)
	}
}

func TestPrompt(t *testing.T) {
	params := map[string]any{"messages": []any{map[string]any{"content": "\u00e9\n"}}, "n": json.Number("1")}
	got, err := Prompt(params, "m")
	if want := "{\"messages\":[{\"content\":\"\u00e9\\n\"}],\"model\":\"m\",\"n\":1}"; string(got) != want || err != nil {
		t.Errorf("prompt %s, error %v", got, err)
	}
	if len(params) != 2 {
		t.Errorf("the params were changed: %v", params)
	}
	for _, params := range []map[string]any{nil, {}, {"model": "m"}} {
		if got, err := Prompt(params, "m"); string(got) != `{"model":"m"}` || err != nil {
			t.Errorf("%v: prompt %s, error %v", params, got, err)
		}
	}
	for _, model := range []any{"M", "", nil, true, []any{"m"}, map[string]any{}} {
		if got, err := Prompt(map[string]any{"model": model}, "m"); err == nil || got != nil {
			t.Errorf("%v: prompt %s", model, got)
		}
	}
}

func TestResponsePath(t *testing.T) {
	for action, want := range map[int]string{0: "calls/001.response.json", 98: "calls/099.response.json", 255: "calls/256.response.json"} {
		if got := ResponsePath(action); got != want {
			t.Errorf("%d is at %s", action, got)
		}
	}
}

func TestResponseFault(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "{}\n": "", "\u00e9\U0001f600\u007f\x1b": "", strings.Repeat("a", MaxResponseBytes): "",
		strings.Repeat("a", MaxResponseBytes+1): "more than", "\xff": "UTF-8", "a\x00": "NUL", "\xed\xa0\x80": "UTF-8", "\ufdd0": "character", "\U0010ffff": "character",
	} {
		got := ResponseFault([]byte(text))
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.20q: %q, want %q", text, got, want)
		}
		if got != "" {
			continue
		}
		m := recordingOf(1)
		m.Interactions[0].ResponseContent, m.Interactions[0].ResponseHash = text, canon.Sum([]byte(text))
		b, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseModelIO(b); err != nil || again.Interactions[0].ResponseContent != text {
			t.Errorf("%.20q is not read again: %v", text, err)
		}
	}
}

// FuzzParseModelIO: a recording that is read is written with the same bytes.
func FuzzParseModelIO(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		b, err := recordingOf(n).Bytes()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseModelIO(b)
		if err != nil {
			return
		}
		again, err := m.Bytes()
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%q is written as %q, error %v", b, again, err)
		}
	})
}
