package verify

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
)

// richPacks returns the packs of testdata/rich.json, which have values that the base
// packs do not have.
func richPacks(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	var rich struct {
		About string                     `json:"about"`
		Packs map[string]json.RawMessage `json:"packs"`
	}
	text, err := os.ReadFile("testdata/rich.json")
	if err == nil {
		err = json.Unmarshal(text, &rich)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rich.Packs
}

// freely returns the options for the verification of the packs. Two profiles are not built
// in, and the options have their seven members.
func freely(t *testing.T, packs map[string]json.RawMessage) Options {
	t.Helper()
	o := builtin(t)
	known := o.Profile
	own := map[string]*kernel.PolicyProfile{}
	for _, name := range []string{"user", "service"} {
		var of struct {
			Policy kernel.PolicyProfile `json:"policy.json"`
		}
		if err := json.Unmarshal(packs[name], &of); err != nil {
			t.Fatal(err)
		}
		own[of.Policy.Name] = &of.Policy
	}
	o.Profile = func(name string) *kernel.PolicyProfile {
		if p := own[name]; p != nil {
			return p
		}
		return known(name)
	}
	return o
}

// alter is one change of a pack: its kind, and its place.
type alter struct {
	what  string // changed, removed or added
	file  string
	place string // pointer
	pack  *pack.Pack
}

// tabled returns the changes of a pack that strict may miss, by words in the table "What
// a pack cannot prove" of specs/pack.md.
func tabled() map[string][]string {
	return map[string][]string{
		"`source_intent_hash`, goal, constraints, contents": {
			"changed bundle.json#/source_intent_hash", "changed bundle.json#/outputs/N/path", "changed bundle.json#/outputs/N/content",
			"changed bundle.json#/outputs/N/executable", "changed bundle.json#/root_node/goal", "changed bundle.json#/root_node/constraints/N",
		},
		"`intent` and":                  {"changed run.json#/intent/path", "changed run.json#/intent/sha256"},
		"`decision.reasons` of the run": {"changed run.json#/decision/reasons/N", "added run.json#/decision/reasons/N", "removed run.json#/decision/reasons/N"},
		"digests of modules":            {"changed run.json#/policy_provenance/modules/N/sha256", "changed run.json#/policy_provenance/capabilities_sha256"},
		"of the index of tools":         {"changed run.json#/policy_provenance/tools_sha256", "added run.json#/policy_provenance/tools_sha256", "removed run.json#/policy_provenance/tools_sha256"},
		"`attempts`":                    {"changed runner.json#/attempts/N/duration_ms", "added runner.json#/attempts"},
		"`network_blocked` where the policy allows the network": {"changed runner.json#/sandbox/network_blocked"},
		"`latency_ms`, `retry_after_ms` and `unsent`": {
			"changed tool_io.json#/interactions/N/latency_ms", "changed tool_io.json#/interactions/N/retry_after_ms", "added tool_io.json#/interactions/N/retry_after_ms",
			"removed tool_io.json#/interactions/N/retry_after_ms", "added tool_io.json#/interactions/N/unsent", "removed tool_io.json#/interactions/N/unsent",
		},
		"names of modules":             {"changed run.json#/policy_provenance/modules/N/name", "removed run.json#/policy_provenance/modules/N", "added run.json#/policy_provenance/modules/N"},
		"the title in `refuse_reason`": {"changed run.json#/refuse_reason"},
		"`profile_sha256` and the limits": {
			"changed run.json#/policy_provenance/profile_sha256", "changed run.json#/policy_provenance/limits/cpu_cores",
			"changed run.json#/policy_provenance/limits/isolation", "changed run.json#/policy_provenance/limits/max_children",
			"changed run.json#/policy_provenance/limits/memory_mb",
		},
		"`model_mode` of a plan without a call":         {"changed run.json#/model_mode"},
		"`execution_mode` of what was not accepted":     {"changed run.json#/execution_mode"},
		"`kernel_version` of a REFUSE":                  {"changed run.json#/kernel_version"},
		"run id, times of the run":                      {"changed run.json#/run_id", "changed run.json#/started_at", "changed run.json#/completed_at"},
		"`executor_id`, the random part of `runner_id`": {"changed evidence.json#/executor_id", "changed runner.json#/runner_id"},
		"hashes of outputs that did not change":         {"changed run.json#/execution/outputs/N/sha256"},
		"`inputs` of the execution": {
			"changed run.json#/execution/inputs/N/path", "changed run.json#/execution/inputs/N/sha256", "changed run.json#/execution/inputs/N/size_bytes",
			"removed run.json#/execution/inputs/N", "added run.json#/execution/inputs/N",
		},
		"`output_truncated` beside `OUTPUT_LIMIT`":                     {"changed run.json#/execution/output_truncated"},
		"`status` beside `OUTPUT_LIMIT`":                               {"changed evidence.json#/status"},
		"whether the last command of an accepted execution was a test": {"removed evidence.json#/test_results/N"},
		"hashes of streams of commands but the last":                   {"changed evidence.json#/runs/N/stdout_sha256", "changed evidence.json#/runs/N/stderr_sha256"},
		"created, modified or there already":                           {"changed evidence.json#/action_results/N/action"},
		"`before_sha256`":                                              {"changed patch.json#/operations/N/before_sha256", "removed patch.json#/operations/N/before_sha256"},
		"`executable` where a command was started":                     {"changed patch.json#/operations/N/executable"},
		"`model_id` where no call was come to":                         {"changed model_io.json#/model_id"},
		"`exit.signal` of a command that was over its time or memory":  {"removed runner.json#/exit/signal"},
		"`size_bytes` of a stream that was cut":                        {"changed runner.json#/stdout/size_bytes"},
		"of `runner.json` `limits` and `write_roots` that are narrower": {
			"changed runner.json#/limits/max_memory_bytes", "changed runner.json#/limits/max_output_files", "changed runner.json#/limits/max_total_output_bytes",
			"changed runner.json#/limits/timeout_ms", "added runner.json#/write_roots/N", "removed runner.json#/write_roots/N",
		},
		"as an exec can ask for, `warnings`": {"changed runner.json#/warnings/N", "added runner.json#/warnings/N", "added runner.json#/warnings", "removed runner.json#/warnings"},
		"mechanisms of clauses":              {"changed runner.json#/sandbox/layers/N/mechanism"},
		"the platform": {
			"changed runner.json#/platform/arch", "changed runner.json#/platform/go_version", "changed runner.json#/platform/kernel_release",
			"changed runner.json#/platform/landlock_abi",
		},
		"`plan_sha256` and the peak of memory": {"changed runner.json#/plan_sha256", "changed runner.json#/peak_memory_bytes"},
		"`submitter` and the receipt of a ledger": {
			"added ledger.jsonl#/N/submitter", "removed ledger.jsonl#/N/submitter", "removed meta.json#",
		},
	}
}

// TestOnlyTheTableIsFree removes each member, element and file of every pack. It adds
// those that other packs have, and variants of the last. It changes the values of the
// rich packs, of a CLARIFY and of a REFUSE. The table names every change that strict
// does not find.
func TestOnlyTheTableIsFree(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	free := whatIsFree(t)
	table := unprovenTable(t)
	for words, list := range tabled() {
		if !strings.Contains(table, words) {
			t.Errorf("the table in specs/pack.md does not say %q", words)
		}
		for _, f := range list {
			if free[f] == "" {
				t.Errorf("%s is found", f)
			}
			delete(free, f)
		}
	}
	for _, f := range slices.Sorted(maps.Keys(free)) {
		t.Errorf("%s, in the pack %q, is not found, and not in the table", f, free[f])
	}
}

// unprovenTable returns the table of the things that a pack cannot prove.
func unprovenTable(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../specs/pack.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### What a pack cannot prove by itself\n")
	section, _, _ = strings.Cut(section, "\n#")
	var rows strings.Builder
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|") {
			rows.WriteString(line)
		}
	}
	return rows.String()
}

// whatIsFree returns the changes that are not found, each with a pack that has this
// change.
func whatIsFree(t *testing.T) map[string]string {
	t.Helper()
	packs := basePacks(t)
	rich := richPacks(t)
	maps.Copy(packs, rich)
	options, e := freely(t, packs), newElsewhere(t, packs)
	var mu sync.Mutex
	free := map[string]string{}
	t.Run("packs", func(t *testing.T) {
		for name, base := range packs {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				whole, err := newDraft(base)
				if err != nil {
					t.Fatal(err)
				}
				files := whole.files(t)
				if v := Pack(pack.Of(files), options); !v.OK() {
					t.Fatalf("%+v", v)
				}
				n := 0
				each := func(a alter) {
					if n++; !Pack(a.pack, options).OK() || reflect.DeepEqual(a.pack, pack.Of(files)) {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					free[a.what+" "+a.file+"#"+indexless(a.place)] = name
				}
				altering{e, t, base, whole, each}.all(rich[name] != nil || name == "clarify" || name == "refuse")
				if n < 100 {
					t.Errorf("only %d changes", n)
				}
			})
		}
	})
	return free
}

// elsewhere has the values of packs at a place: by file and pointer without indices.
type elsewhere struct {
	others
	packs    map[string]json.RawMessage
	members  map[string]map[string]any // of objects
	elements map[string][]any          // of lists
}

func newElsewhere(t *testing.T, packs map[string]json.RawMessage) elsewhere {
	t.Helper()
	e := elsewhere{newOthers(t), packs, map[string]map[string]any{}, map[string][]any{
		// Elements for lists that are empty in all packs.
		"runner.json#/timing/phases":      {map[string]any{"name": "start", "duration_ms": 1}},
		"runner.json#/commands/blocklist": {"curl"},
		"evidence.json#/test_results":     {map[string]any{"test_id": "a", "passed": true, "exit_code": 0, "stdout_sha256": string(noBytes), "stderr_sha256": string(noBytes)}},
	}}
	for _, name := range slices.Sorted(maps.Keys(packs)) {
		d, err := newDraft(packs[name])
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range d.names() {
			leaves(d.values[file], "", func(pointer string, v any) {
				place := file + "#" + indexless(pointer)
				if e.texts[place] == nil {
					e.texts[place] = map[string]bool{}
				}
			})
			nodes(d.values[file], "", func(pointer string, v any) { e.note(file+"#"+indexless(pointer), v) })
		}
	}
	return e
}

// maxElsewhere is how many elements of one list are tried in others.
const maxElsewhere = 2

func (e elsewhere) note(place string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if e.members[place] == nil {
			e.members[place] = map[string]any{}
		}
		maps.Copy(e.members[place], v)
	case []any:
		for _, one := range v {
			if len(e.elements[place]) < maxElsewhere {
				e.elements[place] = append(e.elements[place], one)
			}
		}
	}
}

// nodes visits every object and every list.
func nodes(v any, pointer string, visit func(pointer string, v any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(pointer, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			nodes(v[name], canon.Pointer(pointer, name), visit)
		}
	case []any:
		visit(pointer, v)
		for i, w := range v {
			nodes(w, canon.Pointer(pointer, strconv.Itoa(i)), visit)
		}
	}
}

// altering is a pack that is changed at one place after the other.
type altering struct {
	elsewhere
	t     *testing.T
	base  json.RawMessage
	whole *draft
	each  func(alter)
}

// all changes a member or an element. It removes it, and it adds one from another pack
// or a variant of the last. It changes values if asked to.
func (a altering) all(values bool) {
	for _, file := range a.whole.names() {
		a.redo("removed", file, "", func(d *draft) error { return d.remove(file) })
		if file == pack.MetaFile {
			continue // is free
		}
		if values {
			leaves(a.whole.values[file], "", func(pointer string, old any) { a.values(file, pointer, old) })
		}
		nodes(a.whole.values[file], "", func(pointer string, v any) {
			switch v := v.(type) {
			case map[string]any:
				a.object(file, pointer, v)
			case []any:
				a.list(file, pointer, v)
			}
		})
	}
	a.files()
}

func (a altering) values(file, pointer string, old any) {
	if file == pack.BundleFile && (strings.HasSuffix(pointer, "/id") || strings.HasSuffix(pointer, "/content_hash")) {
		return // is computed again
	}
	list := a.of(file, pointer, old)
	if text, ok := old.(string); ok {
		list = append(list, text+" x", renamed(text))
	}
	for _, value := range list {
		a.each(alter{"changed", file, pointer, exchanged(a.t, a.base, file, pointer, value)})
	}
}

func (a altering) object(file, pointer string, v map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		at := canon.Pointer(pointer, name)
		a.redo("removed", file, at, func(d *draft) error { return d.remove(file + "#" + at) })
	}
	others := a.members[file+"#"+indexless(pointer)]
	for _, name := range slices.Sorted(maps.Keys(others)) {
		if _, there := v[name]; !there {
			at := canon.Pointer(pointer, name)
			a.redo("added", file, at, func(d *draft) error { return d.set(file+"#"+at, others[name]) })
		}
	}
}

func (a altering) list(file, pointer string, v []any) {
	for i := range v {
		at := canon.Pointer(pointer, strconv.Itoa(i))
		a.redo("removed", file, at, func(d *draft) error { return d.remove(file + "#" + at) })
	}
	more := slices.Clone(a.elements[file+"#"+indexless(pointer)])
	if len(v) > 0 {
		a.redo("removed", file, pointer+"/0", func(d *draft) error { return d.set(file+"#"+pointer, []any{}) })
		more = append(more, v[len(v)-1], variant(v[len(v)-1]))
	}
	for _, one := range more {
		for _, list := range [][]any{append([]any{one}, v...), append(slices.Clone(v), one)} {
			a.redo("added", file, pointer+"/0", func(d *draft) error { return d.set(file+"#"+pointer, list) })
		}
	}
}

// files adds the files of other packs.
func (a altering) files() {
	for _, from := range slices.Sorted(maps.Keys(a.packs)) {
		other, err := newDraft(a.packs[from])
		if err != nil {
			a.t.Fatal(err)
		}
		for _, file := range other.names() {
			if _, there := a.whole.values[file]; !there && file != pack.MetaFile {
				a.redo("added", file, "", func(d *draft) error { return d.set(file, other.values[file]) })
			}
		}
	}
}

// redo calls each with the changed pack, with its hashes computed again.
func (a altering) redo(what, file, pointer string, do func(d *draft) error) {
	d, err := newDraft(a.base)
	if err == nil {
		err = do(d)
	}
	if err != nil {
		a.t.Fatal(file, err)
	}
	_ = d.do(change{Rehash: rehashed(file)}) // hashes that cannot be computed again stay
	a.each(alter{what, file, pointer, d.inMemory(a.t)})
}

// variant is a value under another name.
func variant(v any) any {
	switch v := v.(type) {
	case string:
		return renamed(v)
	case map[string]any:
		out := maps.Clone(v)
		for _, name := range []string{"path", "name"} {
			if text, ok := v[name].(string); ok {
				out[name] = renamed(text)
			}
		}
		return out
	}
	return v
}

// renamed is a path with another last segment.
func renamed(path string) string {
	i := strings.LastIndexByte(path, '/') + 1
	return path[:i] + "x" + path[i:]
}

func rehashed(file string) []string {
	switch file {
	case pack.BundleFile:
		return []string{"contents", "ids", "bundle", "sandbox"}
	case pack.RunFile:
		return []string{"sandbox", "policy"}
	case pack.PatchFile:
		return []string{"patch"}
	}
	return nil
}
