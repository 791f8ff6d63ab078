package specs

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

const (
	hashText = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	hexText  = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
)

// documents has one valid document per kind with every member set, so that a test can
// spoil each.
func documents() map[Kind]string {
	policy := `{"name":"default","allow_network":false,"timeout_ms":60000,"max_output_files":500,
		"max_total_output_bytes":52428800,"allowed_commands":["node"],"allowed_write_roots":["out"]}`
	actions := `[
		{"kind":"write","path":"out/a.txt","content":"x","executable":true,"id":"a","risk_level":"low","risk_tags":["t"]},
		{"kind":"run","argv":["node","x.js"],"env":{"CI":"1"},"cwd":"src","stdin":"y","timeout_ms":1000,"id":"b","risk_level":"high","risk_tags":["t"]},
		{"kind":"call","tool_id":"t","adapter_id":"a","params":{"free":[1e30,null]},"id":"c","risk_level":"unknown","risk_tags":["t"]},
		{"kind":"write","path":"out/b.bin","content_base64":"AA=="}]`
	intent := `{"goal":"g","constraints":["c"],"context":{"free":{"deep":[[1.5]]}},"actions":` + actions + `,"inputs":["src/x"],"outputs":["out/b"]}`
	question := `{"id":"q_e998204a25e84f35","text":"t","expected_answer_type":"choice","why_needed":"w","information_gain":80,"priority":80,"options":["a"]}`
	node := `{"id":"node_cb87f9a0e0f81b82","parent_id":null,"status":"terminal","goal":"g","constraints":["c"],
		"entropy":{"unresolved_refs":1,"schema_gaps":2,"contradiction_count":0,"branching_factor":2,"entropy_score":22},
		"density":{"concrete_constraints":1,"specified_outputs":0,"constraint_depth":1,"density_score":8},
		"children":["node_cb87f9a0e0f81b82"],"unresolved_questions":[` + question + `]}`
	return map[Kind]string{
		KindIntent: `{"$schema":"intent.schema.json",` + intent[1:],
		KindProfile: `{"$schema":"profile.schema.json","name":"mine","allow_network":false,"timeout_ms":60000,"max_output_files":500,"max_total_output_bytes":52428800,
			"extends":"default","allowed_commands":["node"],"allowed_write_roots":["out/a"],"env_allow":["CI"],
			"execution_modes":["plan-only"],"model_modes":["none"],"model_adapters":["a"],"risk_tags":["t"],
			"severity":{"INLINE_CODE":"deny"},"memory_mb":512,"max_children":10,"cpu_cores":1,"isolation":"none"}`,
		KindAgentAnswer: `{"outcome":"FAILED","accepted":false,"path":"a.jsonl","line":2,"run_id":"r","bundle_id":"bundle_0123456789abcdef",
			"execution":{"accepted":false,"exit_code":1,"outputs":0,"output_bytes":0,"stderr":["e"]},"code":"RUN_E003","message":"m","remedy":"r","usage":true,
			"findings":[{"id":"EXIT","level":"execution","text":"t","fix":"f","pointer":"","line":1,"column":1,"options":["a"],"question_id":"ask_0123456789abcdef","answerable":false}]}`,
		KindRunError: `{"code":"RUN_E003","message":"m","rule_id":"RS3a","details":{"offset":3,"ok":true,"pointer":"/a","violations":[{"pointer":"/a","more":2},"s"]}}`,
		KindRunResult: `{"run_schema_version":"1.1.0","run_id":"run_20260105T101500Z_0123456789abcdef",
			"started_at":"2026-01-05T10:15:00.000Z","completed_at":"2026-01-05T10:15:00.001Z","kernel_version":"0.1.0","policy":` + policy + `,
			"policy_provenance":{"profile_sha256":"` + hashText + `","capabilities_sha256":"` + hashText + `",
				"modules":[{"name":"builtin/paths.rego","sha256":"` + hashText + `"}],
				"limits":{"cpu_cores":1,"isolation":"confined","max_children":10,"max_output_files":500,"max_total_output_bytes":52428800,"memory_mb":512,"timeout_ms":60000}},
			"execution_mode":"execute-sandbox","model_mode":"none","intent":{"path":"intent.json","sha256":"` + hashText + `"},
			"bundle":{"bundle_id":"bundle_fb637399cbc3bb77","sha256":"` + hashText + `"},"kernel_result_kind":"BUNDLE",
			"execution":{"sandbox_id":"sbx_0123456789abcdef","cmd":["node"],"exit_code":0,"stdout_sha256":"` + hashText + `","stderr_sha256":"` + hashText + `",
				"outputs":[{"path":"out/a","sha256":"` + hashText + `","size_bytes":1}],"inputs":[{"path":"src/x","sha256":"` + hashText + `","size_bytes":1}],
				"total_output_bytes":1,"output_truncated":false},
			"decision":{"accepted":true,"reasons":["r"],"validated_by_kernel":true},"clarify_questions":["q"],"refuse_reason":"r"}`,
		KindPolicyInput: `{"contract":"1.3.0","mode":"plan-only","model_mode":"none","kernel_version":"0.1.0","intent_sha256":"` + hashText + `","intent":` + intent + `,
			"effects":[{"id":"write:/actions/0","kind":"write","pointer":"/actions/0","listed":true,"path":"out/a.txt"},
				{"id":"read:/inputs/0","kind":"read","pointer":"/inputs/0","listed":true,"path":"src/x"},
				{"id":"run:/actions/1","kind":"run","pointer":"/actions/1","listed":false,"command":"node","argv":["node","x.js"],"env":["CI"]},
				{"id":"call:/actions/2","kind":"call","pointer":"/actions/2","listed":false,"tool_id":"t","adapter_id":""}],
			"findings":[{"code":"placeholder","path":"/goal","effect":"","value":"<environment>","other":""}],
			"answers":[{"question_id":"ask_0123456789abcdef","id":"WRITE_TWICE","path":"/actions/1","question":"q","answer":"a"}]}`,
		KindEvidence: `{"schema_version":"1.0.0","kind":"policy-set","profile":"{}\n","base":"default","builtin":false,"capabilities_sha256":"` + hashText + `",
			"layers":[{"package":"gate.builtin","embedded":true,"modules":[{"name":"builtin/a.rego","sha256":"` + hashText + `","text":"package gate.builtin\n"},
				{"name":"builtin/b.rego","sha256":"` + hashText + `","text_base64":"/w=="}]}]}`,
		KindTool: `{"tool_id":"TL-1","name":"n","version":"1.0.0","status":"active","description":"d","params":{"type":"object","properties":{"a":{"enum":[1.5]}}},"adapters":["A","B"]}`,
		KindServer: `{"url":"https://a.example/mcp","command":["serve"],"env":{"A":"1"},"auth":{"secret_env":"T","secret_file":"f","header":"X-Key","token_url":"https://a.example/t","client_id":"c","scope":"s"},
			"tools":{"read file":"` + hashText + `"}}`,
		KindToolIndex: `{"index_schema_version":"1.0.0","tools":[{"tool_id":"T","name":"n","version":"1.0.0","status":"active","file":"T/tool.yaml","size_bytes":1,"sha256":"` + hashText + `",
				"adapters":[{"adapter_id":"A","name":"n","tool_id":"T","type":"cli","version":"1.0.0","status":"active","file":"T/A.yaml","size_bytes":2,"sha256":"` + hashText + `"}]}],
			"servers":[{"name":"S","file":"servers/S.yaml","size_bytes":3,"sha256":"` + hashText + `"}]}`,
		KindAdapter: `{"adapter_id":"A","name":"n","version":"1.0.0-rc.1","tool_id":"T","type":"cli","deterministic":true,
			"interface":{"cli":{"executable":"rg","executable_sha256":"` + hashText + `","base_args":["-q"],"arg_mapping":{"a":"{value}"},"arg_order":["a"],"env_mapping":{"b":"B"},"stdin":"c","secrets":{"S":{"env":"T"}}},
				"api":{"base_url":"https://a.example","auth_method":"oauth","headers":{"Accept":"x"},"endpoint_mapping":{"get":"GET /r"},"auth":{"secret_env":"T"}},
				"sdk":{"language":"python","package":"p","import_path":"m","function_mapping":{"f":"run"}},"mcp":{"server":"S","transport":"stdio","tool_mapping":{"r":"read"}}},
			"transforms":{"input":[{"type":"rename","spec":{"a":"b"}},{"type":"default","spec":{"a":[1.5]}}],"output":[{"type":"parse","spec":"json"}]},
			"errors":{"retry":{"max_attempts":10,"backoff_ms":30000,"retryable_codes":[-32000,599]},"fallback":{"adapter_id":"B","condition":"any"}},
			"sandbox_override":{"timeout_ms":1000,"memory_mb":64,"network":{"enabled":true,"allow":["a.example","*.a.example:443","private:localhost:8080"]}},
			"metadata":{"author":"a","created":"2026-01-16","updated":"2026-01-16T09:30:00.5+01:00","status":"active"}}`,
		KindSuiteCases: `{"schema_version":"cases.v1","cases":[{"id":"a","title":"t","suite":"s","input":{"user":"u","context":{"free":[1]}},
			"expected":{"policy":"REFUSE","action_required":["a"],"tool_required":["b"],"tool_forbidden":["c"],"tool_sequence":["b"],"tool_success":true,"max_tool_calls":3,"max_latency_ms":4,"max_tokens":5,
				"trace_integrity":true,"json_schema":{"type":["x",1.5]},"must_include":["regex:a"],"must_not_include":["d"],"equals":"","json_equals":{"value":[null],"ignore":["/a"]},
				"retrieval_required":{"doc_ids":["d"]},"evidence_required_for_actions":true,"assumption_state":1,"semantic":"s","tool_telemetry":[],"planning_gate":null,"repl_policy":{"a":1}},
			"metadata":{"severity":"critical","tags":["t"],"idempotent":false,"kind":["free"]}},
			{"id":"b.x","input":{"user":""},"expected":{"policy":{"t":"BUNDLE"},"tool_sequence":{"mode":"exact","tools":["b"]},"tool_success":{"allow_errors":["b"]}}}]}`,
		KindSuiteRun: `{"schema_version":"run.v1","run_id":"r","version":"new","generated_at":"2026-01-02T03:04:16Z","base_url":"http://127.0.0.1:1","cases_path":"c.json","out_dir":".","selected_case_ids":["a"],"runner_version":"1",
			"repo_commit":"c","dirty":false,"node_version":"v","timeout_ms":1.5,"retries":0,"concurrency":1,"retry_policy":{"classes":["timeout"],"backoff":"exponential","jitter":true},
			"limits":{"max_body_bytes":1,"max_inline_snippet_bytes":2,"max_payload_inline_bytes":3},"stats":{"cases_total":1,"cases_completed":1,"cases_failed":0,"duration_ms":3},"more":{"free":[1]}}`,
		KindSuiteCase: `{"schema_version":"case.v1","case_id":"a","version":"baseline","status":"ok","workflow_id":"w","attempts":[{"attempt":1,"started_at":"2026-01-02","latency_ms":1,"outcome":"runner_error","error_class":"timeout","error_name":"n"}],
			"proposed_actions":[{"action_id":"a","action_type":"t","tool_name":"n","params":{"free":1},"risk_level":"low","risk_tags":["t"],"evidence_refs":[{"kind":"tool_result","call_id":"c"},{"kind":"retrieval_doc","doc_id":"d"},{"kind":"event","id":"events[0]"},{"kind":"asset","id":"x"}]}],
			"events":[{"type":"tool_call","ts":1.5,"call_id":"c","action_id":"a","tool":"n","args":{},"risk_level":"high","risk_tags":[]},{"type":"tool_result","ts":2,"call_id":"c","action_id":"a","status":"ok","latency_ms":1,"payload_summary":"s","payload_asset_href":"assets/a","payload_asset_sha256":"x"},
				{"type":"retrieval","ts":3,"query":"q","doc_ids":["d"],"snippets_hashes":["h"],"snippets_asset_href":"assets/s"},{"type":"final_output","ts":4,"content_type":"text","content":"c"},{"type":"other","ts":5,"free":[]}],
			"final_output":{"content_type":"json","content":{"a":1},"output_hash":"h","redactions_applied":["r"]}}`,
		KindSuiteCompare: `{"baseline":{"run_ids":["r-01"],"run_sha256":["` + hashText + `"],"sealed":true,"signed_by":["k+0123abcd"]},
			"cases":[{"baseline":{"errors":0,"failed":["equals"],"k":2,"n":3,"root_cause":{"confidence":"low","evidence":[],"name":"unknown"},"runs":3,"state":"flaky"},"case_id":"a","class":"regression","confidence":"tested","divergence":{"baseline":"events[0]","from":"1","headline":"refund: argument /a changed","kind":"arguments","new":"final_output","pointer":"/a","to":"2","tool":"refund"},
			"new":{"actions":[{"executed":true,"intent_sha256":"` + hashText + `","outcome":"REFUSE","reasons":["a"],"subject":"events[2]","tool":"refund"}],"errors":0,"failed":["equals"],"k":1,"n":3,"root_cause":{"confidence":"medium","evidence":["events[3]"],"name":"tool_failure"},"runs":3,"state":"flaky"},"p":0.5,"p_adjusted":0.5,"severity":"critical","suite":"s","title":"A","trace":"changed"}],
			"changed_provenance":[{"from":"a","name":"provenance.model","to":""}],"evaluated_at":"2026-01-02T03:04:05Z","evaluator_version":"0.1.0",
			"gate":{"exit_code":1,"limits":{"allow_removed":false,"alpha":0.05,"max_flaky":1,"max_infra":0,"max_regressions":0,"max_weak_rate":0.25,"min_answers":0.95,"min_pass_rate":0.5},"reasons":[{"cases":["a"],"code":"regression","count":1,"limit":0},{"cases":["a"],"code":"policy_violation","count":1,"limit":0},{"cases":["a"],"code":"pass_rate","count":0,"limit":0.5}],"status":"fail"},
			"new":{"run_ids":["r-01"],"run_sha256":["` + hashText + `"],"sealed":true,"signed_by":["k+0123abcd"]},
			"schema_version":"compare.v1","suites":[{"cases":1,"classes":{"regression":1},"suite":"s"}],
			"summary":{"answers":{"baseline":{"k":3,"n":3,"rate":1},"new":{"k":3,"n":3,"rate":1}},"b":1,"c":0,"classes":{"regression":1},"delta":[-0.333333,-0.333333,-0.333333],"pass_share":{"baseline":{"high":0.793451,"k":0,"low":0,"n":1,"rate":0},"new":{"high":0.793451,"k":0,"low":0,"n":1,"rate":0}},"sign_p":0.5}}`,
		KindSuiteEvaluation: `{"cases":[{"actions":[{"executed":false,"intent_sha256":"` + hashText + `","outcome":"BUNDLE","reasons":[],"subject":"proposed_actions[0]","tool":"t"}],"assertions":[{"actual":"b","evidence":["final_output"],"expected":"a","id":"must_include:0","kind":"must_include","outcome":"fail","reason":"the output does not have the text"}],"case_id":"a","notes":["semantic is not judged: it belongs to another evaluator"],"root_cause":{"confidence":"medium","evidence":["final_output"],"name":"output_mismatch"},"verdict":"fail"}],
			"cases_sha256":"` + hashText + `","evaluated_at":"2026-01-02T03:04:05Z","evaluator_version":"0.1.0",
			"policy_provenance":{"capabilities_sha256":"` + hashText + `","limits":{"cpu_cores":1,"isolation":"full","max_children":1,"max_output_files":1,"max_total_output_bytes":1024,"memory_mb":64,"timeout_ms":1000},"modules":[{"name":"builtin/a.rego","sha256":"` + hashText + `"}],"profile_sha256":"` + hashText + `","tools_sha256":"` + hashText + `"},
			"run_id":"r-01","run_sha256":"` + hashText + `","schema_version":"evaluation.v1","summary":{"fail":1},"version":"new"}`,
		KindSuiteFailureMeta: `{"schema_version":"failure-meta.v1","case_id":"a","version":"new","class":"timeout","content_type":null,"encoding":"gzip","bytes_written":1,"bytes_total":null,"truncated":true,"sha256":"x","headers":{"free":1},"note":"n"}`,
		KindSuiteManifest:    `{"schema_version":"assets-manifest.v1","generated_at":"2026-01-02T03:04:16.123+01:00","items":[{"asset_id":"a","href":"assets/a","kind":"other","case_id":null,"side":null,"size_bytes":1,"sha256":"x"}]}`,
		KindWorkAgents:       `{"agents":{"agent-1":{"argv":["agent","--once"],"env":["TOKEN"],"stdin":"item","trace":"required"}}}`,
		KindWorkPlan: `{"plan_version":"1.0.0","scratch":["node_modules/**"],"items":[{"id":"a","agent_id":"agent-1","description":"d","dependencies":["b"],
			"constraints":{"max_files":5,"max_tool_ops":20,"max_delta_size":50,"timeout_ms":60000},"budget":{"time_estimate_ms":30000,"complexity":"medium"},
			"input_files":["src/x"],"output_files":["/docs/a.md"],"test_command":["node","t.mjs"],"test_timeout_ms":1000,"actions":` + actions + `,"allow":["docs/**"],"protect":["*.md"]}]}`,
		KindModelAdapters: `{"adapters":[{"id":"local/gpt","base_url":"http://127.0.0.1:8080/v1","model":"m","key_env":"MODEL_KEY"}]}`,
		KindModelIO: `{"model_io_schema_version":"1.0.0","adapter_id":"a","model_id":"m","mode":"replay","interactions":[{"i":0,"prompt_hash":"` + hashText + `",
			"response_hash":"` + hashText + `","response_content":"{}","tokens_input":1,"tokens_output":2,"latency_ms":3}]}`,
		KindToolIO: `{"tool_io_schema_version":"1.0.0","mode":"record","interactions":[{"i":0,"action":1,"adapter_id":"A","adapter_sha256":"` + hashText + `","request_hash":"` + hashText + `",
			"attempt":1,"code":503,"failure":"status_5xx","retry_after_ms":1000,"unsent":false,"response_hash":"` + hashText + `","response_content":"","latency_ms":3}]}`,
		KindLedgerRecord: `{"accepted":false,"bundle_sha256":"` + hashText + `","canonical_sha256":"` + hashText + `","clock_behind_ms":3,
			"decision_sha256":"` + hashText + `","evidence":{"sha256":"` + hashText + `","size":9},"execution_mode":"execute-sandbox","input_sha256":"` + hashText + `",
			"intent_sha256":"` + hashText + `","kernel":{"version":"0.1.0"},"kind":"decision","mode":"none","policy":"default","policy_sha256":"` + hashText + `",
			"reasons":["EXIT 1","OUTPUT_KIND"],"result_kind":"BUNDLE","result_sha256":"` + hashText + `","run_id":"run_1","timestamp":"2026-01-05T10:15:00.000Z"}`,
		KindBundle: `{"id":"bundle_29a22533fc41a771","schema_version":"0.1.0","kernel_version":"0.1.0","source_intent_hash":"` + hexText + `","status":"complete",
			"root_node":` + node + `,"terminal_nodes":[` + node + `],"unresolved_questions":[` + question + `],
			"outputs":[{"id":"out_483c595b0c29a236","type":"file","path":"out/a.txt","content":"x","content_hash":"` + hexText + `",
				"source_constraints":[],"confidence":57,"action":0,"encoding":"utf8","executable":false}],
			"stats":{"total_nodes":1,"terminal_nodes":1,"max_depth":0,"total_outputs":1,"unresolved_count":1,"avg_terminal_entropy":22,"avg_terminal_density":8}}`,
	}
}

// value decodes src as the pipeline does.
func value(t testing.TB, src string) any {
	t.Helper()
	doc, err := canon.Parse([]byte(src), 64<<20)
	if err != nil {
		t.Fatalf("test document: %v", err)
	}
	return doc.Value()
}

// spoil returns v with the value at pointer replaced by the decoded src, or removed if
// src is empty.
func spoil(t testing.TB, v any, pointer, src string) any {
	t.Helper()
	return spoilAt(t, v, strings.Split(pointer, "/")[1:], src)
}

func spoilAt(t testing.TB, v any, tokens []string, src string) any {
	t.Helper()
	if len(tokens) == 0 {
		return value(t, src)
	}
	token, rest := strings.NewReplacer("~1", "/", "~0", "~").Replace(tokens[0]), tokens[1:]
	switch c := v.(type) {
	case map[string]any:
		c = maps.Clone(c)
		if len(rest) == 0 && src == "" {
			delete(c, token)
		} else {
			c[token] = spoilAt(t, c[token], rest, src)
		}
		return c
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i >= len(c) {
			t.Fatalf("no element %q", token)
		}
		c = slices.Clone(c)
		c[i] = spoilAt(t, c[i], rest, src)
		return c
	}
	t.Fatalf("nothing at %q", token)
	return nil
}

// found formats violations as "POINTER RULE".
func found(list []Violation) []string {
	out := []string{}
	for _, v := range list {
		out = append(out, v.Pointer+" "+v.Rule)
	}
	return out
}

func newSet(t testing.TB) *Set {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func quoted(n int, of string) string { return `"` + strings.Repeat(of, n) + `"` }

func many(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
