package specs

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/fiador/fiador/kernel/canon"
)

// opinion is an independent validator over the same schemas.
type opinion map[Kind]*jsonschema.Schema

func secondOpinion(t testing.TB) opinion {
	t.Helper()
	o := opinion{}
	for _, name := range Names() {
		src, _ := Schema(name)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
		if err != nil {
			t.Fatal(err)
		}
		id := doc.(map[string]any)["$id"].(string)
		c := jsonschema.NewCompiler()
		c.UseLoader(jsonschema.SchemeURLLoader{})
		if err := c.AddResource(id, doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s, err := c.Compile(id)
		if err != nil {
			t.Fatalf("%s is no valid draft-07 schema: %v", name, err)
		}
		o[Kind(name)] = s
	}
	return o
}

// places lists the pointers at which the second validator finds faults. A name that
// propertyNames refuses is listed without a pointer, because that error's location is
// not reliable.
func places(err error) map[string]bool {
	out := map[string]bool{}
	verr, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return out
	}
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		at := ""
		for _, token := range e.InstanceLocation {
			at = canon.Pointer(at, token)
		}
		out[at] = true
		switch k := e.ErrorKind.(type) {
		case *kind.AdditionalProperties:
			for _, p := range k.Properties {
				out[canon.Pointer(at, p)] = true
			}
		case *kind.PropertyNames:
			out[canon.Pointer("name", k.Property)] = true
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(verr)
	return out
}

// confirms says whether the second validator has a fault at the place of v.
func confirms(at map[string]bool, v Violation) bool {
	if v.Rule == "propertyNames" {
		return at["name"+v.Pointer[strings.LastIndex(v.Pointer, "/"):]]
	}
	return at[v.Pointer]
}

// check validates v, compares the violations with want, and asks the second validator.
func check(t *testing.T, s *Set, o opinion, k Kind, v any, want []string) []Violation {
	t.Helper()
	list, err := s.Validate(k, v)
	if err != nil {
		t.Fatal(err)
	}
	if got := found(list); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	other := o[k].Validate(v)
	if (other == nil) != (len(list) == 0) {
		t.Errorf("second opinion: %v; ours: %q", other, found(list))
	}
	at := places(other)
	for _, violation := range list {
		if !confirms(at, violation) {
			t.Errorf("second opinion has nothing at %q: %v", violation.Pointer, other)
		}
		if violation.Msg == "" || strings.Contains(violation.Msg, "%!") || strings.Contains(violation.Msg, "<nil>") {
			t.Errorf("%s: message %q", violation.Pointer, violation.Msg)
		}
	}
	return list
}

func TestValid(t *testing.T) {
	s, o := newSet(t), secondOpinion(t)
	for k, doc := range documents() {
		t.Run(string(k), func(t *testing.T) { check(t, s, o, k, value(t, doc), []string{}) })
	}
	more := []struct {
		kind Kind
		doc  string
	}{
		{KindIntent, `{"goal":"g"}`},
		{KindIntent, `{"goal":"g","actions":[{"kind":"run","argv":["n"],"timeout_ms":1e3}]}`},
		{KindIntent, `{"goal":"g","actions":[{"kind":"run","argv":["n"],"timeout_ms":1000.0}]}`},
		{KindIntent, `{"goal":"g","actions":[{"kind":"write","path":"","content":""}]}`},
		{KindIntent, `{"goal":"g","context":{"a":{"b":[null,1e300,{"$ref":"http://localhost/x"}]}}}`},
		{KindProfile, `{"name":"p"}`},
		{KindProfile, `{"name":"p","allowed_commands":"*","allowed_write_roots":"*","env_allow":"*","model_adapters":[],"risk_tags":[]}`},
		{KindProfile, `{"name":"p","model_adapters":"*"}`},
		{KindProfile, `{"name":"p","model_adapters":["a b","\u00e9"]}`},
		{KindModelAdapters, `{"adapters":[{"id":"a","base_url":"https://localhost","model":"m"}]}`},
		{KindWorkPlan, `{"id":"a","agent_id":"b","description":"d","test_command":"go test"}`},
		{KindWorkPlan, `[{"id":"a","agent_id":"b","description":"d"},{"id":"c","agent_id":"b","description":"d","constraints":{},"budget":{}}]`},
		{KindModelIO, `{"model_io_schema_version":"1.0.0","adapter_id":"a","model_id":"m","mode":"record","interactions":[]}`},
		{KindToolIO, `{"tool_io_schema_version":"1.0.0","mode":"replay","interactions":[]}`},
		{KindProfile, `{"name":"p","allowed_write_roots":["a","a/b.c",".config","..a/...","a b"],"allowed_commands":["g++","[","node.exe","a-b_c","x@1"]}`},
		{KindRunError, `{"code":"RUN_E001","message":"m"}`},
		{KindSuiteCases, `[{"id":"a","input":{"user":"u"},"expected":{}}]`},
		{KindSuiteCases, `[]`},
		{KindSuiteCase, failedCase},
		{KindEvidence, `{"schema_version":"1.0.0","kind":"decision","intent_base64":"e30=","input":"{}\n","decision":"{}\n","result":"{}\n","policy":{"sha256":"` + hashText + `","size":1}}`},
	}
	for _, c := range more {
		t.Run(c.doc, func(t *testing.T) { check(t, s, o, c.kind, value(t, c.doc), []string{}) })
	}
	for _, pointer := range []string{"/bundle", "/execution"} {
		t.Run(pointer, func(t *testing.T) {
			check(t, s, o, KindRunResult, spoil(t, value(t, documents()[KindRunResult]), pointer, "null"), []string{})
		})
	}
	check(t, s, o, KindBundle, spoil(t, value(t, documents()[KindBundle]), "/outputs/0/action", "null"), []string{})
}

// failedCase is the file of a case without an answer.
const failedCase = `{"schema_version":"case.v1","case_id":"a","version":"new","status":"runner_error","runner_failure":{"class":"other","url":"u","attempt":1,"timeout_ms":1,"latency_ms":2,"status":503,
	"error_name":"n","body_snippet":null,"full_body_saved_to":null,"full_body_meta_saved_to":null,"type":"free"}}`

func TestInvalid(t *testing.T) {
	const rr, in, pr, pi, re, bu, ev, lr = KindRunResult, KindIntent, KindProfile, KindPolicyInput, KindRunError, KindBundle, KindEvidence, KindLedgerRecord
	const ma, mi, wp, wa = KindModelAdapters, KindModelIO, KindWorkPlan, KindWorkAgents
	const ad, to, se, ti = KindAdapter, KindTool, KindServer, KindToolIndex
	cases := []struct {
		kind        Kind
		pointer, to string // an empty to removes the member
		want        []string
	}{
		{in, "", `[]`, []string{" type"}},
		{in, "", `null`, []string{" type"}},
		{in, "", `{}`, []string{" required"}},
		{in, "/goal", ``, []string{" required"}},
		{in, "/goal", `null`, []string{"/goal type"}},
		{in, "/goal", `""`, []string{"/goal minLength"}},
		{in, "/gaol", `"g"`, []string{"/gaol additionalProperties"}},
		{in, "/a.b~1c~0", `1`, []string{"/a.b~1c~0 additionalProperties"}},
		{in, "/", `1`, []string{"/ additionalProperties"}},
		{in, "/context", `[]`, []string{"/context type"}},
		{in, "/actions", `{}`, []string{"/actions type"}},
		{in, "/actions/0", `"write"`, []string{"/actions/0 type"}},
		{in, "/actions/0", `{}`, []string{"/actions/0 required"}},
		{in, "/actions/0/kind", ``, []string{"/actions/0 required"}},
		{in, "/actions/0/kind", `"wirte"`, []string{"/actions/0/kind enum"}},
		{in, "/actions/0/kind", `3`, []string{"/actions/0/kind type"}},
		{in, "/actions/0/path", ``, []string{"/actions/0 required"}},
		{in, "/actions/0/content", ``, []string{"/actions/0 anyOf"}},
		{in, "/actions/0/content_base64", `"AA=="`, []string{"/actions/0/content_base64 dependencies"}},
		{in, "/actions/0/argv", `["a"]`, []string{"/actions/0/argv additionalProperties"}},
		{in, "/actions/0/executable", `1`, []string{"/actions/0/executable type"}},
		{in, "/actions/0/id", `"-a"`, []string{"/actions/0/id pattern"}},
		{in, "/actions/0/id", `"a\n"`, []string{"/actions/0/id pattern"}},
		{in, "/actions/0/id", `""`, []string{"/actions/0/id minLength"}},
		{in, "/actions/0/risk_level", `"High"`, []string{"/actions/0/risk_level enum"}},
		{in, "/actions/0/risk_tags", `[1]`, []string{"/actions/0/risk_tags/0 type"}},
		{in, "/actions/1/argv", ``, []string{"/actions/1 required"}},
		{in, "/actions/1/argv", `[]`, []string{"/actions/1/argv minItems"}},
		{in, "/actions/1/argv", `"node x.js"`, []string{"/actions/1/argv type"}},
		{in, "/actions/1/argv/1", `7`, []string{"/actions/1/argv/1 type"}},
		{in, "/actions/1/content", `"x"`, []string{"/actions/1/content additionalProperties"}},
		{in, "/actions/1/env/A.B", `"x"`, []string{"/actions/1/env/A.B propertyNames"}},
		{in, "/actions/1/env/1A", `"x"`, []string{"/actions/1/env/1A propertyNames"}},
		{in, "/actions/1/env/", `"x"`, []string{"/actions/1/env/ propertyNames"}},
		{in, "/actions/1/env/CI", `1`, []string{"/actions/1/env/CI type"}},
		{in, "/actions/1/env/A\x00~1B", `1`, []string{"/actions/1/env/A\x00~1B type", "/actions/1/env/A\x00~1B propertyNames"}},
		{in, "/actions/1/timeout_ms", `1.5`, []string{"/actions/1/timeout_ms type"}},
		{in, "/actions/1/timeout_ms", `"1000"`, []string{"/actions/1/timeout_ms type"}},
		{in, "/actions/2/params", ``, []string{"/actions/2 required"}},
		{in, "/actions/2/params", `[]`, []string{"/actions/2/params type"}},
		{in, "/actions/2/tool_id", ``, []string{"/actions/2 required"}},
		{in, "/actions/2/tool_id", `""`, []string{"/actions/2/tool_id minLength"}},
		{in, "/actions/2/argv", `[]`, []string{"/actions/2/argv additionalProperties"}},
		{in, "/inputs/0", `{}`, []string{"/inputs/0 type"}},
		{in, "/outputs/0", `null`, []string{"/outputs/0 type"}},

		{ad, "/interface/cli/executable", ``, []string{"/interface/cli required"}},
		{ad, "/interface/cli/arg_mapping/a b", `"x"`, []string{"/interface/cli/arg_mapping/a b propertyNames"}},
		{ad, "/interface/cli/shell", `true`, []string{"/interface/cli/shell additionalProperties"}},
		{ad, "/interface/mcp/transport", `"pipe"`, []string{"/interface/mcp/transport enum"}},
		{ad, "/errors/retry/max_attempts", `0`, []string{"/errors/retry/max_attempts minimum"}},
		{ad, "/errors/retry/max_attempts", `11`, []string{"/errors/retry/max_attempts maximum"}},
		{ad, "/errors/retry/backoff_ms", `30001`, []string{"/errors/retry/backoff_ms maximum"}},
		{ad, "/errors/fallback", `[]`, []string{"/errors/fallback type"}},
		{ad, "/interface/cli/executable_sha256", `"sha256:00"`, []string{"/interface/cli/executable_sha256 minLength"}},
		{ad, "/sandbox_override/network/allow/0", `"A.example"`, []string{"/sandbox_override/network/allow/0 pattern"}},
		{ad, "/sandbox_override/network/allow/0", `"private:localhost"`, []string{"/sandbox_override/network/allow/0 pattern"}},
		{ad, "/transforms/input/0/spec", `3`, []string{"/transforms/input/0/spec type"}},
		{ad, "/transforms/input/0/type", `"drop"`, []string{"/transforms/input/0/type enum"}},
		{ad, "/tool_id", `"../T"`, []string{"/tool_id pattern"}},
		{ad, "/metadata/created", `"yesterday, at noon"`, []string{"/metadata/created pattern"}},
		{to, "/adapters", `[]`, []string{"/adapters minItems"}},
		{to, "/status", `"Active"`, []string{"/status pattern"}},
		{to, "/params", `[]`, []string{"/params type"}},
		{se, "/tools/x", `"sha256:x"`, []string{"/tools/x minLength"}},
		{se, "/url", `"ftp://a.example"`, []string{"/url pattern"}},
		{ti, "/tools/0/adapters/0/type", `"rpc"`, []string{"/tools/0/adapters/0/type enum"}},
		{ti, "/tools/0/file", `"/etc/passwd"`, []string{"/tools/0/file pattern"}},

		{rr, "/run_schema_version", `"1.0.1"`, []string{"/run_schema_version const"}},
		{rr, "/run_schema_version", ``, []string{" required"}},
		{rr, "/run_id", `"a/b"`, []string{"/run_id pattern"}},
		{rr, "/started_at", `"2026-01-05T10:15:00Z"`, []string{"/started_at minLength"}},
		{rr, "/completed_at", `"2026-01-05 10:15:00.000Z"`, []string{"/completed_at pattern"}},
		{rr, "/kernel_version", `"v0.1.0"`, []string{"/kernel_version pattern"}},
		{rr, "/policy/extends", `"strict"`, []string{"/policy/extends additionalProperties"}},
		{rr, "/policy/name", `"Default"`, []string{"/policy/name pattern"}},
		{rr, "/policy/allowed_commands", `"*"`, []string{"/policy/allowed_commands type"}},
		{rr, "/policy/allowed_commands/0", `"bin/node"`, []string{"/policy/allowed_commands/0 pattern"}},
		{rr, "/policy_provenance/profile_sha256", `"` + hexText + `"`, []string{"/policy_provenance/profile_sha256 pattern"}},
		{rr, "/policy_provenance/limits/cpu_cores", ``, []string{"/policy_provenance/limits required"}},
		{rr, "/policy_provenance/limits/isolation", ``, []string{"/policy_provenance/limits required"}},
		{rr, "/policy_provenance/limits/isolation", `"partial"`, []string{"/policy_provenance/limits/isolation enum"}},
		{rr, "/execution_mode", `"execute"`, []string{"/execution_mode enum"}},
		{rr, "/model_mode", `null`, []string{"/model_mode type"}},
		{rr, "/intent/sha256", `"sha256:` + strings.ToUpper(hexText) + `"`, []string{"/intent/sha256 pattern"}},
		{rr, "/bundle/bundle_id", `"bundle_FB637399CBC3BB77"`, []string{"/bundle/bundle_id pattern"}},
		{rr, "/bundle", `"x"`, []string{"/bundle type"}},
		{rr, "/bundle", ``, []string{" required"}},
		{rr, "/kernel_result_kind", `"bundle"`, []string{"/kernel_result_kind enum"}},
		{rr, "/execution", ``, []string{" required"}},
		{rr, "/execution", `[]`, []string{"/execution type"}},
		{rr, "/execution/outputs/0/mode", `420`, []string{"/execution/outputs/0/mode additionalProperties"}},
		{rr, "/decision/accepted", `"yes"`, []string{"/decision/accepted type"}},
		{rr, "/sandbox_path", `"/tmp/x"`, []string{"/sandbox_path additionalProperties"}},
		{rr, "/model_io_path", `"/tmp/x"`, []string{"/model_io_path additionalProperties"}},

		{pr, "", `{}`, []string{" required"}},
		{pr, "/name", `"My Profile"`, []string{"/name pattern"}},
		{pr, "/allowed_commands", `[]`, []string{"/allowed_commands minItems"}},
		{pr, "/allowed_write_roots", `[]`, []string{"/allowed_write_roots minItems"}},
		{pr, "/env_allow", `[]`, []string{"/env_allow minItems"}},
		{pr, "/allowed_commands", `"node"`, []string{"/allowed_commands maxLength"}},
		{pr, "/allowed_commands", `""`, []string{"/allowed_commands pattern"}},
		{pr, "/allowed_commands", `null`, []string{"/allowed_commands type"}},
		{pr, "/allowed_commands", `["*"]`, []string{"/allowed_commands/0 pattern"}},
		{pr, "/allowed_commands", `["/bin/sh"]`, []string{"/allowed_commands/0 pattern"}},
		{pr, "/allowed_commands", `["nöde"]`, []string{"/allowed_commands/0 pattern"}},
		{pr, "/allowed_commands", `["a b"]`, []string{"/allowed_commands/0 pattern"}},
		{pr, "/allowed_write_roots", `["/out"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["out/"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["a//b"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["."]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["a/./b"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `[".."]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["a/../b"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["a\\b"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["a\u0000"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/allowed_write_roots", `["*"]`, []string{"/allowed_write_roots/0 pattern"}},
		{pr, "/env_allow", `["A=B"]`, []string{"/env_allow/0 pattern"}},
		{pr, "/extends", `"mine"`, []string{"/extends enum"}},
		{pr, "/isolation", `"partial"`, []string{"/isolation enum"}},
		{pr, "/isolation", `""`, []string{"/isolation enum"}},
		{pr, "/execution_modes", `[]`, []string{"/execution_modes minItems"}},
		{pr, "/execution_modes", `["run"]`, []string{"/execution_modes/0 enum"}},
		{pr, "/model_modes", `["replay","x"]`, []string{"/model_modes/1 enum"}},
		{pr, "/model_adapters", `["*"]`, []string{"/model_adapters/0 pattern"}},
		{pr, "/model_adapters", `[""]`, []string{"/model_adapters/0 minLength"}},
		{pr, "/model_adapters", `"a"`, []string{"/model_adapters pattern"}},
		{pr, "/model_adapters", `"**"`, []string{"/model_adapters maxLength"}},
		{pr, "/severity/inline_code", `"deny"`, []string{"/severity/inline_code propertyNames"}},
		{pr, "/severity/X", `"deny"`, []string{"/severity/X propertyNames"}},
		{pr, "/severity/INLINE_CODE", `"allow"`, []string{"/severity/INLINE_CODE enum"}},

		{ma, "/adapters", `[]`, []string{"/adapters minItems"}},
		{ma, "/adapters/0/id", `"a b"`, []string{"/adapters/0/id pattern"}},
		{ma, "/adapters/0/id", `"*"`, []string{"/adapters/0/id pattern"}},
		{ma, "/adapters/0/base_url", ``, []string{"/adapters/0 required"}},
		{ma, "/adapters/0/base_url", `"ftp://localhost"`, []string{"/adapters/0/base_url pattern"}},
		{ma, "/adapters/0/model", `""`, []string{"/adapters/0/model minLength"}},
		{ma, "/adapters/0/key_env", `"A-B"`, []string{"/adapters/0/key_env pattern"}},
		{ma, "/adapters/0/key", `"secret"`, []string{"/adapters/0/key additionalProperties"}},
		{mi, "/model_io_schema_version", `"v1.0.0"`, []string{"/model_io_schema_version pattern"}},
		{mi, "/mode", `"none"`, []string{"/mode enum"}},
		{mi, "/interactions/0/i", `-1`, []string{"/interactions/0/i minimum"}},
		{mi, "/interactions/0/prompt_hash", `"` + hexText + `"`, []string{"/interactions/0/prompt_hash minLength"}},
		{mi, "/interactions/0/response_content", ``, []string{"/interactions/0 required"}},
		{mi, "/interactions/0/latency_ms", `1.5`, []string{"/interactions/0/latency_ms type"}},
		{wp, "", `"x"`, []string{" type"}},
		{wp, "", `[]`, []string{" minItems"}},
		{wp, "", `[{}]`, []string{"/0 required", "/0 required", "/0 required"}},
		{wp, "", `[3]`, []string{"/0 type"}},
		{wp, "", `{}`, []string{" required", " required", " required"}},
		{wp, "", `{"id":"a","agent_id":"b","description":"d","item":1}`, []string{"/item additionalProperties"}},
		{wp, "", `{"id":"a","agent_id":"b","description":"d","budgte":{}}`, []string{"/budgte additionalProperties"}},
		{wp, "/plan_version", ``, []string{" required"}},
		{wp, "/plan_version", `"2.0.0"`, []string{"/plan_version const"}},
		{wp, "/items", `[]`, []string{"/items minItems"}},
		{wp, "/id", `"a"`, []string{"/id additionalProperties"}},
		{wp, "/items/0/id", `"-a"`, []string{"/items/0/id pattern"}},
		{wp, "/items/0/constraints/max_files", `0`, []string{"/items/0/constraints/max_files minimum"}},
		{wp, "/items/0/constraints/max_tool_ops", `100001`, []string{"/items/0/constraints/max_tool_ops maximum"}},
		{wp, "/items/0/constraints/timeout_ms", `999`, []string{"/items/0/constraints/timeout_ms minimum"}},
		{wp, "/items/0/test_command", `""`, []string{"/items/0/test_command minLength"}},
		{wp, "/items/0/test_command", `[]`, []string{"/items/0/test_command minItems"}},
		{wp, "/items/0/test_command", `3`, []string{"/items/0/test_command type"}},
		{wp, "/items/0/actions", `[]`, []string{"/items/0/actions minItems"}},
		{wp, "/items/0/actions/1/argv", ``, []string{"/items/0/actions/1 required"}},
		{wp, "/items/0/budget/complexity", `"huge"`, []string{"/items/0/budget/complexity enum"}},
		{wa, "/agents/a b", `{}`, []string{"/agents/a b required", "/agents/a b required", "/agents/a b required", "/agents/a b propertyNames"}},
		{wa, "/agents/agent-1/stdin", `"text"`, []string{"/agents/agent-1/stdin enum"}},
		{wa, "/agents/agent-1/trace", ``, []string{"/agents/agent-1 required"}},
		{wa, "/agents/agent-1/env", `["A=B"]`, []string{"/agents/agent-1/env/0 pattern"}},
		{KindToolIO, "/interactions/0/attempt", `0`, []string{"/interactions/0/attempt minimum"}},
		{KindToolIO, "/interactions/0/failure", `"nonzero"`, []string{"/interactions/0/failure enum"}},
		{KindToolIO, "/interactions/0/retry_after_ms", `0`, []string{"/interactions/0/retry_after_ms minimum"}},
		{KindToolIO, "/interactions/0/adapter_sha256", ``, []string{"/interactions/0 required"}},
		{KindSuiteCases, "/cases/0/inputs", `1`, []string{"/cases/0/inputs additionalProperties"}},
		{KindSuiteCases, "/cases/0/expected/must_inclde", `[]`, []string{"/cases/0/expected/must_inclde additionalProperties"}},
		{KindSuiteCases, "/cases/0/expected/policy", `"ALLOW"`, []string{"/cases/0/expected/policy pattern"}},
		{KindSuiteCases, "/cases/0/expected/tool_sequence", `{"mode":"subsequence","tools":[]}`, []string{"/cases/0/expected/tool_sequence/mode enum"}},
		{KindSuiteCases, "/cases/0/expected/must_include/0", `""`, []string{"/cases/0/expected/must_include/0 minLength"}},
		{KindSuiteCases, "/cases/0/expected/retrieval_required", `["d"]`, []string{"/cases/0/expected/retrieval_required type"}},
		{KindSuiteCases, "/cases/0/input/user", ``, []string{"/cases/0/input required"}},
		{KindSuiteCases, "/cases/0/metadata/severity", `"critcal"`, []string{"/cases/0/metadata/severity enum"}},
		{KindSuiteCases, "/cases/1/id", `"../x"`, []string{"/cases/1/id pattern"}},
		{KindSuiteCases, "/schema_version", ``, []string{" required"}},
		{KindSuiteCases, "", `{"id":"a","input":{"user":"u"}}`, []string{" required", " required", "/id additionalProperties", "/input additionalProperties"}},
		{KindSuiteRun, "/version", `"old"`, []string{"/version enum"}},
		{KindSuiteRun, "/generated_at", `"yesterday"`, []string{"/generated_at pattern"}},
		{KindSuiteRun, "/dirty", `null`, []string{"/dirty type"}},
		{KindSuiteRun, "/retry_policy/backoff", `"linear"`, []string{"/retry_policy/backoff const"}},
		{KindSuiteRun, "/stats/cases_total", `"1"`, []string{"/stats/cases_total type"}},
		{KindSuiteCase, "/status", `"error"`, []string{"/status enum"}},
		{KindSuiteCase, "/status", `"runner_error"`, []string{" required"}},
		{KindSuiteCase, "/final_output/content", `["a"]`, []string{"/final_output/content type"}},
		{KindSuiteCase, "/events/0/ts", `"1"`, []string{"/events/0/ts type"}},
		{KindSuiteCase, "/events/1/call_id", ``, []string{"/events/1 required"}},
		{KindSuiteCase, "/events/1/status", `"timeout"`, []string{"/events/1/status enum"}},
		{KindSuiteCase, "/proposed_actions/0/risk_level", ``, []string{"/proposed_actions/0 required"}},
		{KindSuiteCase, "/proposed_actions/0/evidence_refs/1/doc_id", ``, []string{"/proposed_actions/0/evidence_refs/1 required"}},
		{KindSuiteCase, "/proposed_actions/0/evidence_refs/1/kind", `"thought"`, []string{"/proposed_actions/0/evidence_refs/1/kind enum"}},
		{KindSuiteCase, "/attempts/0/error_class", `"dns"`, []string{"/attempts/0/error_class enum"}},
		{KindSuiteCase, "", strings.Replace(failedCase, `"body_snippet":null,`, "", 1), []string{"/runner_failure required"}},
		{KindSuiteCase, "", strings.Replace(failedCase, `"other"`, `"dns"`, 1), []string{"/runner_failure/class enum"}},
		{KindSuiteEvaluation, "/cases/0/verdict", `"ok"`, []string{"/cases/0/verdict enum"}},
		{KindSuiteEvaluation, "/cases/0/actions", `null`, []string{}},
		{KindSuiteEvaluation, "/cases/0/actions/0/outcome", `"ALLOW"`, []string{"/cases/0/actions/0/outcome enum"}},
		{KindSuiteEvaluation, "/cases/0/assertions/0/id", `"must_include:x"`, []string{"/cases/0/assertions/0/id pattern"}},
		{KindSuiteEvaluation, "/evaluated_at", `"2026-01-02"`, []string{"/evaluated_at minLength"}},
		{KindSuiteEvaluation, "/summary/fail", `0`, []string{"/summary/fail minimum"}},
		{KindSuiteCompare, "/baseline", `null`, []string{}},
		{KindSuiteCompare, "/new", `null`, []string{"/new type"}},
		{KindSuiteCompare, "/cases/0/class", `"worse"`, []string{"/cases/0/class enum"}},
		{KindSuiteCompare, "/cases/0/p", `1.5`, []string{"/cases/0/p maximum"}},
		{KindSuiteCompare, "/cases/0/new/state", `"absent"`, []string{"/cases/0/new/state enum"}},
		{KindSuiteCompare, "/cases/0/divergence/new", `null`, []string{}},
		{KindSuiteCompare, "/cases/0/divergence/kind", `"call"`, []string{"/cases/0/divergence/kind enum"}},
		{KindSuiteCompare, "/summary/delta", `[0,0]`, []string{"/summary/delta minItems"}},
		{KindSuiteCompare, "/summary/classes/better", `1`, []string{"/summary/classes/better additionalProperties"}},
		{KindSuiteCompare, "/gate/status", `"rejected"`, []string{"/gate/status enum"}},
		{KindSuiteCompare, "/gate/exit_code", `3`, []string{"/gate/exit_code maximum"}},
		{KindSuiteCompare, "/gate/limits/alpha", `0.51`, []string{"/gate/limits/alpha maximum"}},
		{KindSuiteFailureMeta, "/bytes_total", `"1"`, []string{"/bytes_total type"}},
		{KindSuiteManifest, "/items/0/side", `"old"`, []string{"/items/0/side enum"}},
		{KindSuiteManifest, "/items/0/case_id", ``, []string{"/items/0 required"}},

		{pi, "/effects", ``, []string{" required"}},
		{pi, "/intent/outputs", ``, []string{"/intent required"}},
		{pi, "/intent/actions/0/argv", `["a"]`, []string{"/intent/actions/0/argv additionalProperties"}},
		{pi, "/effects/0/kind", `"delete"`, []string{"/effects/0/kind enum"}},
		{pi, "/effects/0/argv", `["a"]`, []string{"/effects/0/argv additionalProperties"}},
		{pi, "/effects/0/path", ``, []string{"/effects/0 required"}},
		{pi, "/effects/1/listed", ``, []string{"/effects/1 required"}},
		{pi, "/effects/1/listed", `"true"`, []string{"/effects/1/listed type"}},
		{pi, "/effects/2/env", ``, []string{"/effects/2 required"}},
		{pi, "/effects/3/adapter_id", ``, []string{"/effects/3 required"}},
		{pi, "/effects/3/id", `"x:/a"`, []string{"/effects/3/id pattern"}},
		{pi, "/findings/0/code", `"typo"`, []string{"/findings/0/code enum"}},
		{pi, "/now", `"x"`, []string{"/now additionalProperties"}},

		{re, "/code", `"RUN_E008"`, []string{"/code pattern"}},
		{re, "/message", `""`, []string{"/message minLength"}},
		{re, "/message", ``, []string{" required"}},
		{re, "/rule_id", `"rs3"`, []string{"/rule_id pattern"}},
		{re, "/details/Bad", `1`, []string{"/details/Bad propertyNames"}},
		{re, "/details/a", `null`, []string{"/details/a type"}},
		{re, "/details/a", `1.5`, []string{"/details/a type"}},
		{re, "/details/a", `[{"b":[]}]`, []string{"/details/a/0/b type"}},
		{re, "/stack", `"x"`, []string{"/stack additionalProperties"}},

		{bu, "/id", `"bundle_x"`, []string{"/id minLength"}},
		{bu, "/source_intent_hash", `"` + hashText + `"`, []string{"/source_intent_hash maxLength"}},
		{bu, "/status", `"partial"`, []string{"/status enum"}},
		{bu, "/root_node/parent_id", `"x"`, []string{"/root_node/parent_id pattern"}},
		{bu, "/root_node/parent_id", `3`, []string{"/root_node/parent_id type"}},
		{bu, "/root_node/children", `["x"]`, []string{"/root_node/children/0 minLength"}},
		{bu, "/outputs/0/action", `"0"`, []string{"/outputs/0/action type"}},
		{bu, "/outputs/0/source_constraints", `["c"]`, []string{"/outputs/0/source_constraints maxItems"}},
		{bu, "/outputs/0/action", ``, []string{"/outputs/0 required"}},
		{bu, "/unresolved_questions/0/expected_answer_type", `"date"`, []string{"/unresolved_questions/0/expected_answer_type enum"}},
		{bu, "/stats/total_outputs", `true`, []string{"/stats/total_outputs type"}},

		{lr, "", `{}`, []string{" required"}},
		{lr, "/kind", `"Decision"`, []string{"/kind enum"}},
		{lr, "/kind", `"begun"`, []string{
			"/accepted type", "/canonical_sha256 additionalProperties", "/decision_sha256 additionalProperties", "/evidence additionalProperties",
			"/reasons additionalProperties", "/result_kind type", "/result_sha256 additionalProperties",
		}},
		{lr, "/_seal", `{}`, []string{"/_seal required", "/_seal required", "/_seal required"}},
		{lr, "/bundle_sha256", `"` + hexText + `"`, []string{"/bundle_sha256 pattern"}},
		{lr, "/clock_behind_ms", `0`, []string{"/clock_behind_ms minimum"}},
		{lr, "/evidence/size", `null`, []string{"/evidence/size type"}},
		{lr, "/kernel/name", `"k"`, []string{"/kernel/name additionalProperties"}},
		{lr, "/reasons/0", `"EXIT one"`, []string{"/reasons/0 pattern"}},
		{lr, "/run_id", `".a"`, []string{"/run_id pattern"}},
		{lr, "/timestamp", `"2026-01-05 10:15:00.000Z"`, []string{"/timestamp pattern"}},

		{ev, "/kind", `"policy"`, []string{"/kind enum"}},
		{ev, "/kind", ``, []string{" required"}},
		{ev, "/schema_version", `"1.0.1"`, []string{"/schema_version const"}},
		{ev, "/intent_base64", `""`, []string{"/intent_base64 additionalProperties"}},
		{ev, "/profile", `{}`, []string{"/profile type"}},
		{ev, "/layers", `[]`, []string{"/layers minItems"}},
		{ev, "/layers/0/modules", `[]`, []string{"/layers/0/modules minItems"}},
		{ev, "/layers/0/modules/0/text", ``, []string{"/layers/0/modules/0 anyOf"}},
		{ev, "/layers/0/modules/0/text_base64", `""`, []string{"/layers/0/modules/0/text_base64 dependencies"}},
		{ev, "/layers/0/modules/0/sha256", `"` + hexText + `"`, []string{"/layers/0/modules/0/sha256 pattern"}},
	}
	s, o := newSet(t), secondOpinion(t)
	docs := documents()
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s %s %.40s", c.kind, c.pointer, c.to), func(t *testing.T) {
			check(t, s, o, c.kind, spoil(t, value(t, docs[c.kind]), c.pointer, c.to), c.want)
		})
	}
}

// TestBounds compares the documented bounds with the schemas: both ends are valid, and
// values beyond them are not.
func TestBounds(t *testing.T) {
	s, o, docs := newSet(t), secondOpinion(t), documents()
	ints := []struct {
		kind     Kind
		pointers string
		lo, hi   int
	}{
		{KindIntent, "/actions/1/timeout_ms", 1, 600000},
		{KindProfile, "/timeout_ms", 1000, 600000},
		{KindRunResult, "/policy/timeout_ms /policy_provenance/limits/timeout_ms", 1000, 600000},
		{KindProfile, "/max_output_files", 1, 10000},
		{KindRunResult, "/policy/max_output_files /policy_provenance/limits/max_output_files", 1, 10000},
		{KindProfile, "/max_total_output_bytes", 1024, 1073741824},
		{KindRunResult, "/policy/max_total_output_bytes /policy_provenance/limits/max_total_output_bytes", 1024, 1073741824},
		{KindProfile, "/memory_mb", 64, 4096},
		{KindRunResult, "/policy_provenance/limits/memory_mb", 64, 4096},
		{KindProfile, "/max_children", 0, 100},
		{KindRunResult, "/policy_provenance/limits/max_children", 0, 100},
		{KindProfile, "/cpu_cores", 1, 4},
		{KindRunResult, "/policy_provenance/limits/cpu_cores", 1, 4},
		{KindRunResult, "/execution/exit_code", 0, 255},
		{KindRunResult, "/execution/total_output_bytes /execution/outputs/0/size_bytes", 0, 1073741824},
		{KindRunResult, "/execution/inputs/0/size_bytes", 0, 67108864},
		{KindBundle, "/outputs/0/confidence /root_node/entropy/entropy_score /root_node/density/density_score /stats/avg_terminal_entropy " +
			"/stats/avg_terminal_density /unresolved_questions/0/priority /unresolved_questions/0/information_gain", 0, 100},
		{KindBundle, "/root_node/entropy/branching_factor", 1, 10},
		{KindBundle, "/root_node/entropy/schema_gaps", 0, 3},
		{KindBundle, "/outputs/0/action", 0, 255},
	}
	for _, c := range ints {
		for pointer := range strings.FieldsSeq(c.pointers) {
			t.Run(string(c.kind)+pointer, func(t *testing.T) {
				for n, want := range map[int][]string{c.lo: {}, c.hi: {}, c.lo - 1: {pointer + " minimum"}, c.hi + 1: {pointer + " maximum"}} {
					check(t, s, o, c.kind, spoil(t, value(t, docs[c.kind]), pointer, fmt.Sprint(n)), want)
				}
			})
		}
	}
	sizes := []struct {
		kind    Kind
		pointer string
		max     int
		item    string // of a list; one character of a string
		rule    string
	}{
		{KindIntent, "/goal", 65536, "ä", "maxLength"},
		{KindIntent, "/constraints", 1000, `"c"`, "maxItems"},
		{KindIntent, "/constraints/0", 8192, "𝄞", "maxLength"},
		{KindIntent, "/actions", 256, `{"kind":"run","argv":["n"]}`, "maxItems"},
		{KindIntent, "/inputs", 1000, `""`, "maxItems"},
		{KindIntent, "/inputs/0", 1024, "a", "maxLength"},
		{KindIntent, "/outputs", 10000, `"o"`, "maxItems"},
		{KindIntent, "/outputs/0", 1024, "a", "maxLength"},
		{KindIntent, "/actions/0/path", 1024, "a", "maxLength"},
		{KindIntent, "/actions/0/content", 1048576, "a", "maxLength"},
		{KindIntent, "/actions/3/content_base64", 1048576, "A", "maxLength"},
		{KindIntent, "/actions/0/id", 128, "a", "maxLength"},
		{KindIntent, "/actions/0/risk_tags", 32, `"t"`, "maxItems"},
		{KindIntent, "/actions/0/risk_tags/0", 64, "t", "maxLength"},
		{KindIntent, "/actions/1/argv", 1024, `"a"`, "maxItems"},
		{KindIntent, "/actions/1/argv/0", 131072, "a", "maxLength"},
		{KindIntent, "/actions/1/env/CI", 32768, "a", "maxLength"},
		{KindIntent, "/actions/1/cwd", 1024, "a", "maxLength"},
		{KindIntent, "/actions/1/stdin", 1048576, "a", "maxLength"},
		{KindIntent, "/actions/2/tool_id", 256, "a", "maxLength"},
		{KindIntent, "/actions/2/adapter_id", 256, "a", "maxLength"},
		{KindProfile, "/name", 64, "a", "maxLength"},
		{KindProfile, "/allowed_commands", 256, `"a"`, "maxItems"},
		{KindProfile, "/allowed_commands/0", 128, "a", "maxLength"},
		{KindProfile, "/allowed_write_roots", 256, `"a"`, "maxItems"},
		{KindProfile, "/allowed_write_roots/0", 1024, "a", "maxLength"},
		{KindRunResult, "/execution/outputs", 10000, `{"path":"a","sha256":"` + hashText + `","size_bytes":0}`, "maxItems"},
		{KindRunResult, "/execution/inputs", 1000, `{"path":"a","sha256":"` + hashText + `","size_bytes":0}`, "maxItems"},
		{KindRunError, "/message", 8192, "a", "maxLength"},
		{KindPolicyInput, "/effects", 13048, `{"id":"read:/inputs/0","kind":"read","pointer":"/inputs/0","listed":true,"path":"p"}`, "maxItems"},
	}
	for _, c := range sizes {
		t.Run(string(c.kind)+c.pointer, func(t *testing.T) {
			of := func(n int) string {
				if c.rule == "maxItems" {
					return many(n, c.item)
				}
				return quoted(n, c.item)
			}
			check(t, s, o, c.kind, spoil(t, value(t, docs[c.kind]), c.pointer, of(c.max)), []string{})
			check(t, s, o, c.kind, spoil(t, value(t, docs[c.kind]), c.pointer, of(c.max+1)), []string{c.pointer + " " + c.rule})
		})
	}
	t.Run("env", func(t *testing.T) {
		env := map[string]string{}
		for i := range 64 {
			env[fmt.Sprintf("A%d", i)] = ""
		}
		check(t, s, o, KindIntent, spoil(t, value(t, docs[KindIntent]), "/actions/1/env", encode(t, env)), []string{})
		env["B"] = ""
		check(t, s, o, KindIntent, spoil(t, value(t, docs[KindIntent]), "/actions/1/env", encode(t, env)), []string{"/actions/1/env maxProperties"})
		long := strings.Repeat("A", 128)
		check(t, s, o, KindIntent, spoil(t, value(t, docs[KindIntent]), "/actions/1/env", `{"`+long+`":""}`), []string{})
		check(t, s, o, KindIntent, spoil(t, value(t, docs[KindIntent]), "/actions/1/env", `{"`+long+`A":""}`), []string{"/actions/1/env/" + long + "A propertyNames"})
	})
}

func TestMessages(t *testing.T) {
	cases := []struct {
		kind        Kind
		pointer, to string
		msg, near   string
	}{
		{KindIntent, "", `[]`, `must be an object, not a list`, ""},
		{KindIntent, "/goal", ``, `missing member "goal"`, ""},
		{KindIntent, "/goal", `""`, `is empty`, ""},
		{KindIntent, "/goal", quoted(65537, "a"), `has 65537 characters, may have at most 65536`, ""},
		{KindIntent, "/gaol", `1`, `unknown member "gaol"; did you mean "goal"?`, "goal"},
		{KindIntent, "/Goal", `1`, `unknown member "Goal"; did you mean "goal"?`, "goal"},
		{KindIntent, "/colour", `1`, `unknown member "colour"`, ""},
		{KindIntent, "/input", `1`, `unknown member "input"; did you mean "inputs"?`, "inputs"},
		{KindIntent, "/actions/1/timeoutMs", `1`, `unknown member "timeoutMs"; did you mean "timeout_ms"?`, "timeout_ms"},
		{KindIntent, "/actions/1/argvs", `1`, `unknown member "argvs"; did you mean "argv"?`, "argv"},
		{KindIntent, "/actions/0/argv", `[]`, `unknown member "argv"; it belongs to kind "run"`, ""},
		{KindIntent, "/actions/0/kind", `"rum"`, `must be one of "write", "run", "call", not "rum"`, ""},
		{KindIntent, "/actions/0/content", ``, `missing member "content" or "content_base64"`, ""},
		{KindIntent, "/actions/0/content_base64", `""`, `"content_base64" cannot stand next to "content"`, ""},
		{KindIntent, "/actions/1/argv", `[]`, `has 0 entries, needs at least 1`, ""},
		{KindIntent, "/actions/1/timeout_ms", `600001`, `must be at most 600000, not 600001`, ""},
		{KindIntent, "/actions/1/timeout_ms", `0`, `must be at least 1, not 0`, ""},
		{KindIntent, "/actions/1/timeout_ms", `1.5`, `must be a whole number, not 1.5`, ""},
		{KindIntent, "/actions/1/env/1A", `""`, `"1A" does not fit as a name: letters, digits and underscore, first no digit; 1 to 128 characters`, ""},
		{KindIntent, "/outputs", many(10001, `""`), `has 10001 entries, may have at most 10000`, ""},
		{KindIntent, "/outputs", many(300000, `""`), `has 300000 entries, may have at most 10000`, ""},
		{KindIntent, "/context", `false`, `must be an object, not false`, ""},
		{KindIntent, "/context", `null`, `must be an object, not null`, ""},
		{KindRunResult, "/bundle", `1e30`, `must be an object or null, not 1e+30`, ""},
		{KindRunResult, "/run_schema_version", `"2"`, `must be "1.1.0", not "2"`, ""},
		{KindProfile, "/allowed_commands", `"node"`, `must be a list, or "*" for all, not "node"`, ""},
		{KindProfile, "/max_total_output_bytes", `1073741825`, `must be at most 1073741824, not 1073741825`, ""},
		{KindRunError, "/code", `"RUN_E999"`, `"RUN_E999" does not fit: stable code: RUN_E001 to RUN_E007, 8 characters`, ""},
	}
	s, docs := newSet(t), documents()
	for _, c := range cases {
		t.Run(c.msg, func(t *testing.T) {
			list, err := s.Validate(c.kind, spoil(t, value(t, docs[c.kind]), c.pointer, c.to))
			if err != nil || len(list) != 1 {
				t.Fatalf("got %+v, %v", list, err)
			}
			if list[0].Msg != c.msg || list[0].Near != c.near || list[0].More != 0 {
				t.Errorf("got %+v\nwant %q, near %q", list[0], c.msg, c.near)
			}
		})
	}
	t.Run("cut", func(t *testing.T) {
		list, err := s.Validate(KindIntent, value(t, `{"goal":"g",`+quoted(100000, "é")+`:1}`))
		if err != nil || len(list) != 1 || len(list[0].Msg) > 300 || len(list[0].Pointer) > 260 {
			t.Errorf("got %+v, %v", list, err)
		}
	})
}

// TestWording searches every message of the table above for text of the library or of
// Go.
func TestWording(t *testing.T) {
	s, docs := newSet(t), documents()
	foreign := regexp.MustCompile(`json:|map\[|interface [{c]|[Mm]ust validate|<nil>|%!|strconv|\*big|regexp|\.$|^[A-Z]`)
	for k, doc := range docs {
		for _, to := range []string{`null`, `true`, `3`, `"\u0000"`, `""`, `[]`, `[[]]`, `{}`, `{"x y":1}`} {
			for _, pointer := range pointers(value(t, doc)) {
				list, err := s.Validate(k, spoil(t, value(t, doc), pointer, to))
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range list {
					if foreign.MatchString(v.Msg) || v.Msg == "" || v.Rule == "" {
						t.Errorf("%s %s: %q", k, v.Pointer, v.Msg)
					}
				}
			}
		}
	}
}

// TestSecondOpinion spoils every place of every document in many ways. Both validators
// must agree on validity.
func TestSecondOpinion(t *testing.T) {
	s, o := newSet(t), secondOpinion(t)
	refused := 0
	for k, doc := range documents() {
		for _, pointer := range pointers(value(t, doc)) {
			for _, to := range []string{``, `null`, `true`, `0`, `-1`, `1.5`, `1e30`, `""`, `"*"`, `"a b/../c"`, `[]`, `[""]`, `{}`, `{"kind":"run"}`} {
				if to == "" && (pointer == "" || regexp.MustCompile(`/[0-9]+$`).MatchString(pointer)) {
					continue
				}
				v := spoil(t, value(t, doc), pointer, to)
				list, err := s.Validate(k, v)
				if err != nil {
					t.Fatal(err)
				}
				other := o[k].Validate(v)
				if (other == nil) != (len(list) == 0) {
					t.Errorf("%s, %s set to %s: second opinion %v; ours %q", k, pointer, to, other, found(list))
				}
				at := places(other)
				for _, violation := range list {
					refused++
					if !confirms(at, violation) {
						t.Errorf("%s, %s set to %s: second opinion has nothing at %s", k, pointer, to, violation.Pointer)
					}
				}
			}
		}
	}
	if refused < 2000 {
		t.Errorf("only %d violations: the test has lost its teeth", refused)
	}
}

// pointers lists every place of v.
func pointers(v any) []string {
	out := []string{""}
	switch c := v.(type) {
	case map[string]any:
		for name, member := range c {
			for _, p := range pointers(member) {
				out = append(out, "/"+name+p)
			}
		}
	case []any:
		for i, item := range c {
			for _, p := range pointers(item) {
				out = append(out, fmt.Sprintf("/%d%s", i, p))
			}
		}
	}
	slices.Sort(out)
	return out
}
