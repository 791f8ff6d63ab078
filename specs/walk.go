package specs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// A Fault is one place at which a value breaks its schema.
type Fault struct {
	Pointer string
	Msg     string
}

// Walk checks a decoded value by a schema. It decides as gojsonschema
// does (TestShapeAgreesWithSchema of evidence/pack/verify), and is much faster. It names the
// first most faults, and counts the others. If most is 0, it stops at the first fault.
//
// The kinds are adapter, bundle, intent, model-io, pack-evidence, pack-patch, pack-policy,
// pack-runner, profile, run-result, server, tool, tool-index, tool-io, work-receipt and those of
// suites. For any other kind every value is a fault.
func Walk(kind Kind, v any, most int) (named []Fault, more int) {
	w := walk{most: most}
	root := walked(kind)
	if root == nil {
		w.fault("no schema")
	} else {
		w.value(root, v)
	}
	return w.named, w.more
}

// walked returns the shape of a kind, which is precomputed in shapes.go.
func walked(kind Kind) *shape {
	switch kind {
	case KindAdapter:
		return &adapterShape
	case KindBundle:
		return &bundleShape
	case KindIntent:
		return &intentShape
	case KindModelIO:
		return &modelIOShape
	case KindPackEvidence:
		return &packEvidenceShape
	case KindPackPatch:
		return &packPatchShape
	case KindPackPolicy:
		return &packPolicyShape
	case KindPackRunner:
		return &packRunnerShape
	case KindProfile:
		return &profileShape
	case KindRunResult:
		return &runResultShape
	case KindServer:
		return &serverShape
	case KindSuiteManifest:
		return &suiteManifestShape
	case KindSuiteCase:
		return &suiteCaseShape
	case KindSuiteCases:
		return &suiteCasesShape
	case KindSuiteFailureMeta:
		return &suiteFailureMetaShape
	case KindSuiteRun:
		return &suiteRunShape
	case KindTool:
		return &toolShape
	case KindToolIndex:
		return &toolIndexShape
	case KindToolIO:
		return &toolIOShape
	case KindWorkReceipt:
		return &workReceiptShape
	}
	return nil
}

// walk is the path to the current value, and the faults so far.
type walk struct {
	path  []step
	most  int
	named []Fault
	more  int
}

// step is a member, or an element.
type step struct {
	name  string
	index int // -1 for a member
}

func (w *walk) fault(format string, args ...any) {
	if len(w.named) == w.most {
		w.more++
		return
	}
	pointer := ""
	for _, p := range w.path {
		if p.index < 0 {
			pointer = canon.Pointer(pointer, p.name)
		} else {
			pointer += "/" + strconv.Itoa(p.index)
		}
	}
	w.named = append(w.named, Fault{pointer, fmt.Sprintf(format, args...)})
}

// stopped says whether the value is wrong, and nobody asks for the faults.
func (w *walk) stopped() bool { return w.most == 0 && w.more > 0 }

func (w *walk) enter(s step) { w.path = append(w.path, s) }
func (w *walk) leave()       { w.path = w.path[:len(w.path)-1] }

// faultAt notes a fault in a member.
func (w *walk) faultAt(name, format string, args ...any) {
	w.enter(step{name, -1})
	w.fault(format, args...)
	w.leave()
}

// value checks a value by a shape. Free data and a null that the shape allows are right.
func (w *walk) value(s *shape, v any) {
	if s == nil || w.stopped() || v == nil && slices.Contains(s.types, "null") {
		return
	}
	kind := s.types[0]
	if len(s.types) > 1 && slices.Contains(s.types, typeOf(v)) {
		kind = typeOf(v)
	}
	switch kind {
	case "object":
		w.object(s, v)
	case "array":
		w.list(s, v)
	case "string":
		w.text(s, v)
	case "integer":
		if n, ok := canon.Whole(v); !ok || n < s.low || n > s.high {
			w.fault("not a whole number from %d to %d", s.low, s.high)
		}
	case "number":
		if _, ok := v.(json.Number); !ok {
			w.fault("not a number")
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			w.fault("neither true nor false")
		}
	default:
		w.fault("of a type that is not checked here: %s", kind)
	}
	if branch := s.in(v); branch != s {
		w.value(branch, v)
	}
}

func (w *walk) object(s *shape, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		w.fault("not an object")
		return
	}
	known := 0
	for _, k := range s.members {
		one, there := m[k.name]
		if !there {
			if k.required {
				w.faultAt(k.name, "missing")
			}
			continue
		}
		known++
		w.enter(step{k.name, -1})
		w.value(k.shape, one)
		w.leave()
	}
	w.together(s, m)
	if known == len(m) || !s.closed && s.other == nil {
		return
	}
	if s.other == nil && w.most == 0 {
		w.more++
		return
	}
	extra := slices.DeleteFunc(slices.Collect(maps.Keys(m)), s.knows)
	slices.SortFunc(extra, canon.Compare)
	for i, name := range extra {
		if s.other != nil {
			w.enter(step{name, -1})
			if s.naming != nil {
				w.text(s.naming, name)
			}
			w.value(s.other, m[name])
			w.leave()
			continue
		}
		if len(w.named) == w.most {
			w.more += len(extra) - i
			return
		}
		w.faultAt(name, "unknown member %s", strconv.Quote(strings.ToValidUTF8(canon.Cut(name), "\ufffd")))
	}
}

// together checks which members an object has, and how many.
func (w *walk) together(s *shape, m map[string]any) {
	has := func(name string) bool { _, there := m[name]; return there }
	if s.either != nil && !slices.ContainsFunc(s.either, has) {
		w.fault("none of the members %s", strings.Join(s.either, ", "))
	}
	for _, c := range s.clash {
		if has(c.name) && has(c.beside) {
			w.faultAt(c.name, "beside the member %s", c.beside)
		}
	}
	if s.other != nil && s.maxMembers >= 0 && len(m) > s.maxMembers {
		w.fault("more than %d members", s.maxMembers)
	}
}

func (w *walk) list(s *shape, v any) {
	list, ok := v.([]any)
	switch {
	case !ok:
		w.fault("not an array")
		return
	case len(list) > s.maxItems:
		w.fault("more than %d elements", s.maxItems)
		return
	case len(list) < s.minItems:
		w.fault("fewer than %d elements", s.minItems)
		return
	}
	for i, one := range list {
		w.enter(step{index: i})
		w.value(s.items, one)
		w.leave()
	}
}

func (w *walk) text(s *shape, v any) {
	text, ok := v.(string)
	switch {
	case ok && s.takes(text):
	case s.enum != nil:
		w.fault("not one of %s", words(s.enum))
	case s.form != nil:
		w.fault("not %s", s.form.words(s))
	case !ok && w.inObject():
		w.fault("not a string")
	case s.minLength > 0 || w.inObject():
		w.fault("not a string of %d to %d characters", max(0, s.minLength), s.maxLength)
	default:
		w.fault("not a string of at most %d characters", s.maxLength)
	}
}

// inObject says whether the current value is a member.
func (w *walk) inObject() bool { return len(w.path) > 0 && w.path[len(w.path)-1].index < 0 }

func words(enum []any) string {
	list, null := make([]string, len(enum)), ""
	for i, one := range enum {
		list[i], _ = one.(string)
		if one == nil {
			null = ", or null"
		}
	}
	return strconv.Quote(strings.TrimSpace(strings.Join(list, " "))) + null
}
