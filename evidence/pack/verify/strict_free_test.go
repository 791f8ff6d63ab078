package verify

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// unsaid lists values that a pack without a ledger line and a signature has once and
// cannot prove, by the reason.
var unsaid = map[string][]string{
	"another intent would give it, and a pack does not have the intent": {
		"bundle.json#/source_intent_hash", "bundle.json#/root_node/goal", "bundle.json#/root_node/constraints/N",
		"bundle.json#/outputs/N/path", "bundle.json#/outputs/N/content", "bundle.json#/outputs/N/encoding", "bundle.json#/outputs/N/executable",
		"run.json#/intent/path", "run.json#/intent/sha256", "run.json#/decision/reasons/N",
	},
	"another policy text would give it, and a pack does not have the policy": {
		"run.json#/policy_provenance/capabilities_sha256",
		"run.json#/policy_provenance/modules/N/sha256",
	},
	"a name, a time or a version that nothing else has": {
		"run.json#/run_id", "run.json#/started_at", "run.json#/completed_at", "run.json#/kernel_version", // of a REFUSE
		"evidence.json#/executor_id", "runner.json#/runner_id",
	},
	"it was asked for, and nothing came of it": {
		"run.json#/execution_mode", // of what was not accepted
		"run.json#/model_mode",     // of a plan without a call
	},
	"it was observed, and nothing else comes of it": {
		"evidence.json#/action_results/N/action",                                     // of an execution that was rejected
		"evidence.json#/runs/N/stdout_sha256", "evidence.json#/runs/N/stderr_sha256", // but those of the last command
		"run.json#/execution/outputs/N/sha256",                                          // of a file that is unchanged
		"patch.json#/operations/N/before_sha256", "patch.json#/operations/N/executable", // of what a command wrote
		"model_io.json#/interactions/N/latency_ms",
		"runner.json#/limits/max_memory_bytes", "runner.json#/limits/max_output_files", // narrower ones
		"runner.json#/limits/max_total_output_bytes", "runner.json#/limits/timeout_ms",
		"runner.json#/peak_memory_bytes", "runner.json#/plan_sha256",
		"runner.json#/platform/arch", "runner.json#/platform/go_version", "runner.json#/platform/kernel_release", "runner.json#/platform/landlock_abi",
		"runner.json#/sandbox/layers/N/mechanism",
	},
	"the ledger's key says whether it is true": {
		"ledger.jsonl#/N/_seal/root", "ledger.jsonl#/N/_seal/size", "ledger.jsonl#/N/_seal/sig", "ledger.jsonl#/N/timestamp", "ledger.jsonl#/N/submitter", "meta.json#/receipt",
	},
}

// TestNothingElseIsFree changes every value of every file of the base packs, one at a
// time, into others of the same form. The hashes of the bundle and the policy are
// computed again. The changes are: another digit, one more and one less, the other truth
// value, every other member of an enumeration, and texts without digits from other packs
// at that place. The strict level finds each of these changes, except those in unsaid.
func TestNothingElseIsFree(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	options, values := builtin(t), newOthers(t)
	free := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(basePacks(t))) {
		changes := 0
		eachChange(t, name, values, func(file, pointer string, p *pack.Pack) {
			changes++
			if Pack(p, options).OK() {
				free[file+"#"+indexless(pointer)] = true
			}
		})
		if changes < 50 {
			t.Errorf("%s: only %d changes", name, changes)
		}
	}
	for why, list := range unsaid {
		for _, f := range list {
			if !free[f] {
				t.Errorf("%s: a change of it is found, and not because %s", f, why)
			}
			delete(free, f)
		}
	}
	for _, f := range slices.Sorted(maps.Keys(free)) {
		t.Errorf("%s can be changed, and nothing is found", f)
	}
}

// indexless returns a pointer with N for every index.
func indexless(pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		if _, err := strconv.Atoi(token); err == nil {
			tokens[i] = "N"
		}
	}
	return strings.Join(tokens, "/")
}

// eachChange calls each with a base pack with one changed value, for each value and each
// of its replacements.
func eachChange(t *testing.T, name string, elsewhere others, each func(file, pointer string, p *pack.Pack)) {
	t.Helper()
	base := basePacks(t)[name]
	whole, err := newDraft(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range whole.names() {
		leaves(whole.values[file], "", func(pointer string, old any) {
			if file == pack.BundleFile && (strings.HasSuffix(pointer, "/id") || strings.HasSuffix(pointer, "/content_hash")) {
				return // is computed again
			}
			for _, value := range elsewhere.of(file, pointer, old) {
				each(file, pointer, exchanged(t, base, file, pointer, value))
			}
		})
	}
}

// exchanged returns a base pack with one value changed.
func exchanged(t *testing.T, base json.RawMessage, file, pointer string, value any) *pack.Pack {
	t.Helper()
	d, err := newDraft(base)
	if err != nil {
		t.Fatal(err)
	}
	to, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	anew := map[string][]string{pack.BundleFile: {"contents", "ids", "bundle", "sandbox"}, pack.RunFile: {"sandbox", "policy"}, pack.PatchFile: {"patch"}}[file]
	if strings.HasSuffix(pointer, "sandbox_id") || strings.HasSuffix(pointer, "_bytes") {
		anew = nil
	}
	for _, c := range []change{{Set: file + "#" + pointer, To: to}, {Rehash: anew}} {
		if err := d.do(c); err != nil && c.Set != "" {
			t.Fatalf("%s#%s: %v", file, pointer, err)
		}
	}
	return d.inMemory(t)
}

// others are possible replacements of a value.
type others struct {
	enums map[string][][]string      // by file
	texts map[string]map[string]bool // by file and pointer without indices: what the base packs have there
}

func newOthers(t *testing.T) others {
	t.Helper()
	o := others{map[string][][]string{}, map[string]map[string]bool{}}
	for file, name := range map[string]string{
		pack.RunFile: "run-result", pack.BundleFile: "bundle", pack.EvidenceFile: "pack-evidence", pack.PatchFile: "pack-patch",
		pack.RunnerFile: "pack-runner", pack.ModelFile: "model-io", pack.ToolFile: "tool-io", pack.LedgerFile: "ledger-record",
	} {
		text, known := specs.Schema(name)
		var schema any
		if err := json.Unmarshal(text, &schema); err != nil || !known {
			t.Fatal(name, err)
		}
		o.enums[file] = enumsOf(schema)
	}
	for _, base := range basePacks(t) {
		d, err := newDraft(base)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range d.names() {
			leaves(d.values[file], "", func(pointer string, v any) {
				place := file + "#" + indexless(pointer)
				if o.texts[place] == nil {
					o.texts[place] = map[string]bool{}
				}
				if text, ok := v.(string); ok && !strings.ContainsAny(text, "0123456789") {
					o.texts[place][text] = true
				}
			})
		}
	}
	return o
}

// enumsOf lists the enumerations of a schema.
func enumsOf(schema any) (list [][]string) {
	switch v := schema.(type) {
	case []any:
		for _, w := range v {
			list = append(list, enumsOf(w)...)
		}
	case map[string]any:
		var enum []string
		members, _ := v["enum"].([]any)
		for _, m := range members {
			if text, ok := m.(string); ok {
				enum = append(enum, text)
			}
		}
		if len(enum) > 0 {
			list = append(list, enum)
		}
		for _, w := range v {
			list = append(list, enumsOf(w)...)
		}
	}
	return list
}

// of returns the replacements of a value, each once.
func (o others) of(file, pointer string, old any) []any {
	list := another(old)
	text, ok := old.(string)
	if !ok {
		return list
	}
	texts := maps.Clone(o.texts[file+"#"+indexless(pointer)])
	for _, enum := range o.enums[file] {
		if slices.Contains(enum, text) {
			for _, member := range enum {
				texts[member] = true
			}
		}
	}
	delete(texts, text)
	for _, other := range slices.Sorted(maps.Keys(texts)) {
		list = append(list, other)
	}
	return list
}

// leaves visits every text, number, truth value and null.
func leaves(v any, pointer string, visit func(pointer string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			leaves(v[name], canon.Pointer(pointer, name), visit)
		}
	case []any:
		for i, w := range v {
			leaves(w, pointer+"/"+strconv.Itoa(i), visit)
		}
	default:
		visit(pointer, v)
	}
}

// another returns values of the same form: another digit, another second, one more and
// one less.
func another(v any) []any {
	switch v := v.(type) {
	case bool:
		return []any{!v}
	case json.Number:
		n, _ := strconv.Atoi(string(v))
		return []any{n + 1, n - 1}
	case string:
		b := []byte(v)
		for i := len(b) - 1; i >= 0; i-- {
			if asciiDigit(b[i]) {
				b[i] = '0' + (b[i]-'0'+1)%10
				return []any{string(b)}
			}
		}
		return []any{v + "x"}
	}
	return []any{"x"}
}
