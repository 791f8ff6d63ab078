package pack

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// unsaid is what a pack without a ledger line and a signature says once and cannot prove,
// by the reason for it.
var unsaid = map[string][]string{
	"another intent would give it, and a pack does not have the intent": {
		"bundle.json#/source_intent_hash", "bundle.json#/root_node/goal", "bundle.json#/root_node/constraints/N",
		"bundle.json#/outputs/N/path", "bundle.json#/outputs/N/content", "bundle.json#/outputs/N/executable",
		"run.json#/intent/path", "run.json#/intent/sha256", "run.json#/decision/reasons/N",
	},
	"another policy text would give it, and a pack does not have the policy": {
		"run.json#/policy_provenance/capabilities_sha256",
		"run.json#/policy_provenance/modules/N/name", "run.json#/policy_provenance/modules/N/sha256",
	},
	"a name, a time or a version that nothing else has": {
		"run.json#/run_id", "run.json#/started_at", "run.json#/completed_at", "run.json#/kernel_version", // of a REFUSE
		"evidence.json#/executor_id", "runner.json#/runner_id",
	},
	"it was observed, and nothing else comes of it": {
		"evidence.json#/runs/N/stdout_sha256", "evidence.json#/runs/N/stderr_sha256", // but those of the last command
		"run.json#/execution/outputs/N/sha256",                                          // of a file that is unchanged
		"patch.json#/operations/N/before_sha256", "patch.json#/operations/N/executable", // of what a command wrote
		"model_io.json#/interactions/N/latency_ms",
		"runner.json#/peak_memory_bytes", "runner.json#/plan_sha256",
		"runner.json#/platform/go_version", "runner.json#/platform/kernel_release", "runner.json#/platform/landlock_abi",
		"runner.json#/sandbox/layers/N/mechanism",
	},
	"the ledger's key says whether it is true": {
		"ledger.jsonl#/N/_seal/root", "ledger.jsonl#/N/_seal/sig", "ledger.jsonl#/N/timestamp", "meta.json#/receipt",
	},
}

// TestNothingElseIsFree changes every value of every file of the base packs, one at a
// time, into another one of the same form, with the hashes of the bundle and the policy
// made anew. The strict level finds each of these changes, but for what is unsaid.
func TestNothingElseIsFree(t *testing.T) {
	options := builtin(t)
	free := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(basePacks(t))) {
		changes := 0
		eachChange(t, name, func(file, pointer string, p *Pack) {
			changes++
			if Verify(p, options).OK() {
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

// indexless is a pointer with N for every index.
func indexless(pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		if _, err := strconv.Atoi(token); err == nil {
			tokens[i] = "N"
		}
	}
	return strings.Join(tokens, "/")
}

// eachChange gives a base pack with one value changed, for each value that it has.
func eachChange(t *testing.T, name string, each func(file, pointer string, p *Pack)) {
	t.Helper()
	base := basePacks(t)[name]
	whole, err := newDraft(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range whole.names() {
		leaves(whole.values[file], "", func(pointer string, old any) {
			d, err := newDraft(base)
			if err != nil {
				t.Fatal(err)
			}
			to, err := json.Marshal(another(old))
			if err != nil {
				t.Fatal(err)
			}
			if file == BundleFile && (strings.HasSuffix(pointer, "/id") || strings.HasSuffix(pointer, "/content_hash")) {
				return // is made anew
			}
			anew := map[string][]string{BundleFile: {"contents", "ids", "bundle", "sandbox"}, RunFile: {"sandbox", "policy"}, PatchFile: {"patch"}}[file]
			if strings.HasSuffix(pointer, "sandbox_id") || strings.HasSuffix(pointer, "_bytes") {
				anew = nil
			}
			for _, c := range []change{{Set: file + "#" + pointer, To: to}, {Rehash: anew}} {
				if err := d.do(c); err != nil && c.Set != "" {
					t.Fatalf("%s#%s: %v", file, pointer, err)
				}
			}
			each(file, pointer, d.inMemory(t))
		})
	}
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

// another is a value of the same form: another digit, another second, one more.
func another(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case json.Number:
		n, _ := strconv.Atoi(string(v))
		return n + 1
	case string:
		b := []byte(v)
		for i := len(b) - 1; i >= 0; i-- {
			if asciiDigit(b[i]) {
				b[i] = '0' + (b[i]-'0'+1)%10
				return string(b)
			}
		}
		return v + "x"
	}
	return "x"
}
