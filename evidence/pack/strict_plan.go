package pack

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// plan is what a bundle would do, as its outputs say it.
type plan struct {
	actions []planned           // by position
	files   int                 // write actions
	last    map[string]*planned // the last write of each path, by path
	whole   bool                // there is a bundle, and its actions are those of an intent
}

// planned is one action.
type planned struct {
	output kernel.Output
	at     int // position of the output

	// Of a command.
	argv []string

	// Of a call.
	adapter string
	params  map[string]any
}

// calls are the positions of the calls of a plan that is whole.
func (p plan) calls() []int {
	var list []int
	for i, a := range p.actions {
		if p.whole && a.output.Type == "config" {
			list = append(list, i)
		}
	}
	return list
}

// checkOutputs holds each output against what it says of itself, and makes the plan.
func (s *strictLevel) checkOutputs(b *kernel.Bundle) {
	before := s.counts["ST4"]
	p := plan{actions: make([]planned, 0, len(b.Outputs)), last: map[string]*planned{}}
	for i, o := range b.Outputs {
		s.checkOutput(b, i, o)
		if i > 0 && !placed(b.Outputs[i-1], o) {
			s.fault("ST4", outputAt(i), "not in the order of paths and actions")
		}
		if o.Action == nil {
			continue
		}
		a := planned{output: o, at: i}
		s.checkAction(&a)
		p.actions = append(p.actions, a)
	}
	slices.SortStableFunc(p.actions, func(a, b planned) int { return *a.output.Action - *b.output.Action })
	for i := range p.actions {
		a := &p.actions[i]
		if *a.output.Action != i {
			s.fault("ST4", outputAt(a.at, "action"), "the actions are not numbered from 0 on without a gap")
			break
		}
		if a.output.Type == "file" {
			p.files++
			p.last[a.output.Path] = a
		}
	}
	if len(p.actions) == 0 && len(b.Outputs) != 1 && b.Status == "complete" {
		s.fault("ST4", at(BundleFile, "outputs"), "%d outputs without an action, where there is one instruction", len(b.Outputs))
	}
	if len(p.actions) > 0 && len(p.actions) != len(b.Outputs) {
		s.fault("ST4", at(BundleFile, "outputs"), "an instruction beside actions")
	}
	p.whole = s.counts["ST4"] == before
	s.plan = p
}

func outputAt(i int, tokens ...string) string {
	return at(BundleFile, append([]string{"outputs", strconv.Itoa(i)}, tokens...)...)
}

// placed says whether a comes before b, by path and then by position.
func placed(a, b kernel.Output) bool {
	if c := canon.Compare(a.Path, b.Path); c != 0 {
		return c < 0
	}
	return a.Action != nil && b.Action != nil && *a.Action < *b.Action
}

// checkOutput holds id, hash and place of an output against its content and type.
func (s *strictLevel) checkOutput(b *kernel.Bundle, i int, o kernel.Output) {
	s.checkIDOf(outputAt(i, "id"), "out_", o.ID, map[string]any{"content": o.Content, "path": o.Path, "type": o.Type})
	content := []byte(o.Content)
	if o.Encoding == "base64" {
		var ok bool
		if content, ok = unbase64(o.Content); !ok {
			s.fault("ST4", outputAt(i, "content"), "not base64")
			return
		}
	}
	if o.ContentHash != canon.Sum(content).Hex() {
		s.fault("ST4", outputAt(i, "content_hash"), "not the SHA-256 of the content")
	}
	if o.Type == "file" {
		s.checkFilePath(i, o.Path)
	} else if o.Encoding != "utf8" || o.Executable {
		s.fault("ST4", outputAt(i), "only a file can be base64 or executable")
	}
	switch {
	case (o.Action == nil) != (o.Type == "instruction"):
		s.fault("ST4", outputAt(i, "action"), "null for an instruction, and for nothing else")
	case o.Type == "instruction" && (o.Path != "context/"+b.RootNode.ID+".md" || o.Content != instruction(b.RootNode)):
		s.fault("ST4", outputAt(i), "not the instruction of the node")
	case o.Type == "schema":
		s.fault("ST4", outputAt(i, "type"), "no intent gives a schema")
	}
}

// unbase64 decodes base64 as an intent can have it: the standard one, in the one
// spelling that bytes have in it.
func unbase64(text string) ([]byte, bool) {
	if strings.ContainsAny(text, "\r\n") { // the decoder skips them
		return nil, false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	return b, err == nil
}

// checkFilePath holds the path of a file against what the kernel lets nothing be written
// to: every policy denies it.
func (s *strictLevel) checkFilePath(i int, path string) {
	if what := s.paths.wrong(path); what != "" {
		s.fault("ST4", outputAt(i, "path"), "%s %s", quoted(path), what)
	}
	if s.paths.reserved(path) {
		s.fault("ST4", outputAt(i, "path"), "%s is below a folder that the bundle uses itself", quoted(path))
	}
}

// checkAction reads the content of a command or a call, which is canonical JSON.
func (s *strictLevel) checkAction(a *planned) {
	folder, read := "commands", (*shape).command
	switch a.output.Type {
	case "command":
	case "config":
		folder, read = "calls", (*shape).call
	default:
		return
	}
	if want := fmt.Sprintf("%s/%03d.json", folder, *a.output.Action+1); a.output.Path != want {
		s.fault("ST4", outputAt(a.at, "path"), "not %s", want)
	}
	doc, err := canon.ParseCanonical([]byte(a.output.Content), len(a.output.Content))
	if err != nil {
		s.fault("ST4", outputAt(a.at, "content"), "not canonical JSON: %s", err)
		return
	}
	r := s.shape("ST4", BundleFile)
	r.path = []step{{name: "outputs"}, {index: a.at}, {name: "content"}}
	read(r, doc.Value(), a)
}

// command is the content of a command output.
func (r *shape) command(v any, a *planned) {
	any := func(string) bool { return true }
	o := r.object(v)
	a.argv = o.texts("argv", 1024, any, "a string")
	if len(a.argv) == 0 && o.of != nil {
		o.fault("argv", "empty")
	}
	if cwd := o.form("cwd", any, "a string"); cwd != "." && (cwd == "" || pathname.Clean(cwd) != cwd) {
		o.fault("cwd", "not a clean path")
	}
	o.within("env", func(v interface{}) {
		env, ok := v.(map[string]interface{})
		if !ok {
			r.fault("not an object")
		}
		for _, v := range env {
			if _, ok := v.(string); !ok {
				r.fault("not an object of strings")
				return
			}
		}
	})
	if o.has("stdin") {
		o.form("stdin", any, "a string")
	}
	if o.has("timeout_ms") {
		o.whole("timeout_ms", 1, canon.MaxSafeInteger)
	}
	o.done()
}

// call is the content of a config output.
func (r *shape) call(v any, a *planned) {
	o := r.object(v)
	o.form("tool_id", func(s string) bool { return s != "" }, "a string that is not empty")
	if o.has("adapter_id") {
		a.adapter = o.form("adapter_id", func(s string) bool { return s != "" }, "a string that is not empty")
	}
	o.within("params", func(v any) {
		var ok bool
		if a.params, ok = v.(map[string]any); !ok {
			r.fault("not an object")
		}
	})
	o.done()
}

// instruction is what stands in a bundle for an intent without actions: goal and
// constraints as Markdown in which each of their lines is indented code.
func instruction(n kernel.Node) string {
	var b strings.Builder
	indented := func(text string) {
		for line := range strings.SplitSeq(text, "\n") {
			b.WriteString("    " + line + "\n")
		}
	}
	b.WriteString("# Goal\n\n")
	indented(n.Goal)
	for i, c := range n.Constraints {
		b.WriteString("\n## Constraint " + strconv.Itoa(i+1) + "\n\n")
		indented(c)
	}
	return b.String()
}
