package adapter

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/adapter/answer"
	"github.com/fiador/fiador/kernel/adapter/params"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
)

// Finding is a fact about the parameters of a call.
type Finding struct {
	Code    string // finding.ParamsInvalid
	Pointer string // JSON Pointer into the parameters as they were given; "" is all of them
	Value   string // the text that was found, cut by canon.Cut
	Why     string // what is wrong, lower-case
}

// maxFindings is how many findings of one binding are listed.
const maxFindings = 100

// input is one input transform that was read.
type input struct {
	rename   map[string]string
	values   map[string]map[string]any // of map
	defaults map[string]any
	check    *params.Schema
	byTool   bool // the schema is the tool's params
}

// inputFault reads the input transforms.
func (a *Adapter) inputFault() error {
	for i, step := range a.Transforms.Input {
		at := element("/transforms/input", i) + "/spec"
		in, err := readInput(at, step)
		if err != nil {
			return err
		}
		a.input = append(a.input, in)
	}
	return nil
}

func readInput(at string, step answer.Step) (in input, err error) {
	spec, isObject := step.Spec.(map[string]any)
	if step.Type == "validate" && step.Spec == "json_schema" {
		return input{byTool: true}, nil
	}
	if !isObject {
		return in, fault(at, "the spec of "+canon.Quote(step.Type)+" is not an object", "write an object with the names of parameters")
	}
	switch step.Type {
	case "rename":
		in.rename = map[string]string{}
		target := map[string]bool{}
		for _, from := range canon.Names(spec) {
			to, ok := spec[from].(string)
			if !ok || to == "" || target[to] {
				return in, fault(canon.Pointer(at, from), "not a name of its own", "give each parameter another name")
			}
			in.rename[from], target[to] = to, true
		}
	case "map":
		in.values = map[string]map[string]any{}
		for _, name := range canon.Names(spec) {
			table, ok := spec[name].(map[string]any)
			if !ok {
				return in, fault(canon.Pointer(at, name), "not an object", "write the new value of each value")
			}
			in.values[name] = table
		}
	case "default":
		in.defaults = spec
	case "validate":
		in.check, err = params.New(at, spec)
	default:
		return in, fault(at, "no input transform "+canon.Quote(step.Type), "use rename, map, default or validate")
	}
	return in, err
}

// binding is the work on the parameters of one call.
type binding struct {
	params map[string]any
	given  map[string]string // of a parameter, its pointer as it was given; "" if a default made it
	used   map[string]bool
	list   []Finding
}

func (b *binding) refuse(at, value, why string) {
	if len(b.list) < maxFindings {
		b.list = append(b.list, Finding{finding.ParamsInvalid, canon.Cut(at), canon.Cut(value), canon.Cut(why)})
	}
}

// at returns the pointer at which a parameter was given.
func (b *binding) at(name string) string { return b.given[name] }

// take returns the value of a parameter, and notes that something uses it.
func (b *binding) take(name string) any {
	b.used[name] = true
	return b.params[name]
}

// transform applies the input transforms to a copy of the parameters. The schema of the tool
// is applied first, unless a transform says where.
func (b *binding) transform(t *Tool, list []input) {
	if t.params != nil && !slices.ContainsFunc(list, func(in input) bool { return in.byTool }) {
		list = append([]input{{byTool: true}}, list...)
	}
	for _, in := range list {
		check := in.check
		if in.byTool {
			check = t.params
		}
		b.rename(in.rename)
		for _, name := range canon.Names(in.values) {
			v, there := b.params[name]
			if !there {
				continue
			}
			text, ok := scalar(v)
			to, known := in.values[name][text]
			if !ok || !known {
				b.refuse(b.at(name), text, "not a value that the adapter has a value for")
				continue
			}
			b.params[name] = to
		}
		for _, name := range canon.Names(in.defaults) {
			if _, there := b.params[name]; !there {
				b.params[name], b.given[name] = in.defaults[name], ""
			}
		}
		if check != nil {
			check.Check("", b.params, func(at, value, why string) {
				if len(b.list) < maxFindings {
					b.refuse(b.back(at), value, why)
				}
			})
		} else if in.byTool {
			b.refuse("", "", "the tool has no schema of its parameters")
		}
	}
}

// rename gives parameters other names, all at once.
func (b *binding) rename(names map[string]string) {
	moved, from := make(map[string]any), map[string]string{}
	for _, name := range canon.Names(names) {
		if v, there := b.params[name]; there {
			moved[names[name]], from[names[name]] = v, b.at(name)
			delete(b.params, name)
			delete(b.given, name)
		}
	}
	for _, name := range canon.Names(moved) {
		if _, there := b.params[name]; there {
			b.refuse(from[name], name, "the adapter calls it by a name that another parameter has")
		}
	}
	maps.Copy(b.params, moved)
	maps.Copy(b.given, from)
}

// back returns the pointer as given of a place in the transformed parameters.
func (b *binding) back(at string) string {
	token, rest, deeper := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	given, renamed := b.given[strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")]
	switch {
	case at == "" || !renamed:
		return at
	case given == "" || !deeper:
		return given
	}
	return given + "/" + rest
}

// rest refuses the parameters that nothing uses.
func (b *binding) rest() {
	for _, name := range canon.Names(b.params) {
		if !b.used[name] {
			b.refuse(b.at(name), name, "the adapter has no place for this parameter")
		}
	}
}

// scalar returns the text of a string, a number in canonical form, or true or false.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return map[bool]string{true: "true", false: "false"}[v], true
	case json.Number:
		return string(v), true
	}
	return "", false
}

// texts returns the texts of a value: of a list those of its elements, of null none. It
// refuses objects, and lists in lists.
func (b *binding) texts(name string) ([]string, bool) {
	v := b.take(name)
	list, many := v.([]any)
	if v == nil {
		return nil, true
	}
	if !many {
		list = []any{v}
	}
	out := make([]string, 0, len(list))
	for i, one := range list {
		text, ok := scalar(one)
		if !ok {
			at := b.at(name)
			if many && at != "" {
				at = element(at, i)
			}
			b.refuse(at, params.TypeOf(one), "not a text, a number, true or false")
			return nil, false
		}
		out = append(out, text)
	}
	return out, true
}

// text returns the one text of a parameter, and false for null, and if there is none.
func (b *binding) text(name string) (string, bool) {
	if _, many := b.params[name].([]any); many {
		b.used[name] = true
		b.refuse(b.at(name), "array", "a list, where one value stands")
		return "", false
	}
	list, ok := b.texts(name)
	if !ok || len(list) == 0 {
		return "", false
	}
	return list[0], true
}

// operationParam is the parameter that picks an operation.
const operationParam = "operation"

// operation returns the operation that the parameters pick. It may be absent if there is
// only one.
func (b *binding) operation(mapping map[string]string) (string, bool) {
	names := canon.Names(mapping)
	v, there := b.params[operationParam]
	b.used[operationParam] = true
	if !there && len(names) == 1 {
		return names[0], true
	}
	name, _ := v.(string)
	if there && slices.Contains(names, name) {
		return name, true
	}
	why := "the adapter has no such operation"
	if !there {
		why = "no operation is named, and the adapter has several"
	}
	b.refuse(b.at(operationParam), name, why)
	return "", false
}
