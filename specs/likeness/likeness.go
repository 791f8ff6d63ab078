// Package likeness says what a document or a text seems to be, when it was given in the place
// of another one. It goes by members and first bytes, and proves nothing.
package likeness

import (
	"bytes"
	"strings"
)

// Likeness is what a document seems to be.
type Likeness struct {
	Kind string // the name of its schema, or empty
	What string // in words, with an article
	Use  string // what to do with it
}

// Not says that the document is not what was wanted.
func (l *Likeness) Not(wanted string) string {
	return "this is not " + wanted + "; it seems to be " + l.What
}

// form is a kind of document: it has all of these members, and one of any if there are any.
type form struct {
	Likeness
	all, any string // names, with spaces between them
}

func forms() []form {
	const (
		tools = "fiador tool check checks a folder of tools"
		pack  = "it belongs to a pack; fiador pack verify checks the folder of the pack"
		suite = "it belongs to a run of a suite; fiador suite verify checks the folder of the run"
		write = "write an intent, such as {\"goal\": \"what to do\"}; fiador demo shows one"
	)
	return []form{
		{Likeness{"run-result", "a RunResult", "fiador verify checks it"}, "run_schema_version", "kernel_result_kind decision run_id"},
		{Likeness{"run-result", "a RunResult", "fiador verify checks it"}, "kernel_result_kind decision", ""},
		{Likeness{"intent", "an intent", "fiador run decides it"}, "goal", ""},
		{Likeness{"bundle", "a bundle", "fiador run reads the intent that it was made from; fiador pack verify checks the pack of a bundle"}, "root_node source_intent_hash", ""},
		{Likeness{"execution-report", "an execution report", "the request is what fiador exec --request reads"}, "report_schema_version execution_id", ""},
		{Likeness{"execution-request", "an execution request", "fiador exec --request executes it"}, "execution_id tool_id", ""},
		{Likeness{"suite-case", "a case of a suite", "fiador suite run reads a list of cases"}, "case_id", "attempts status"},
		{Likeness{"tool", "a tool", tools}, "tool_id adapters", ""},
		{Likeness{"adapter", "an adapter of a tool", tools}, "adapter_id interface", ""},
		{Likeness{"tool-index", "the index of a folder of tools", tools}, "index_schema_version tools", ""},
		{Likeness{"model-adapters", "a list of model adapters", "give it to --model-adapters"}, "adapters", ""},
		{Likeness{"model-io", "a recording of model calls", "give it to --model-recording"}, "model_io_schema_version", ""},
		{Likeness{"tool-io", "a recording of tools", "give it to --tool-recording"}, "tool_io_schema_version", ""},
		{Likeness{"pack-evidence", "the evidence of an execution", pack}, "proposal_id action_results", ""},
		{Likeness{"pack-patch", "the patch of a pack", pack}, "patch_schema_version", ""},
		{Likeness{"pack-runner", "the runner of a pack", pack}, "runner_schema_version", ""},
		{Likeness{"work-plan", "a plan of work items", "fiador work check checks it"}, "plan_version items", ""},
		{Likeness{"work-receipt", "the receipt of a work item", "fiador work verify checks it"}, "core core_hash", ""},
		{Likeness{"suite-compare", "a comparison of two runs of a suite", suite}, "baseline new gate", ""},
		{Likeness{"suite-evaluation", "the evaluation of a run of a suite", suite}, "cases_sha256 evaluator_version", ""},
		{Likeness{"suite-run", "the run of a suite", suite}, "selected_case_ids", ""},
		{Likeness{"policy-input", "the input of a policy", "the intent in it is what fiador run reads"}, "effects findings intent", ""},
		{Likeness{"run-error", "a RunError", "fiador explain says what its code means"}, "code message", ""},
		{Likeness{"", "a record of a ledger", "fiador ledger show prints the entries of a ledger"}, "kind run_id", "intent_sha256 decision_sha256"},
		{Likeness{"", "a package.json", write}, "name version", "dependencies devDependencies scripts main bin exports license private type"},
		{Likeness{"", "a package.json", write}, "name dependencies", ""},
		{Likeness{"", "a lock file of npm", write}, "lockfileVersion", ""},
		{Likeness{"profile", "a policy profile", "give its folder to --policy; fiador policy check checks it"}, "", "allowed_commands allowed_write_roots allow_network extends env_allow max_output_files execution_modes"},
		{Likeness{"", "a SARIF report", "its results are findings; the intent is what fiador run reads"}, "version runs", ""},
		{Likeness{"", "a JSON Schema", "fiador schema intent prints the schema of intents"}, "$schema", "properties definitions $defs type $id"},
		{Likeness{"", "an OpenAPI description", write}, "", "openapi swagger"},
		{Likeness{"", "the settings of MCP servers", "fiador mcp wrap puts the gate before its servers"}, "mcpServers", ""},
		{Likeness{"", "the settings of a coding agent", "fiador hook install puts the hook into them"}, "", "hooks permissions"},
		{Likeness{"", "a message of JSON-RPC", "fiador mcp serve answers such messages"}, "jsonrpc", ""},
		{Likeness{"", "a signed envelope (DSSE)", "fiador pack verify checks the signature of a pack"}, "payload payloadType signatures", ""},
		{Likeness{"", "a software bill of materials", write}, "", "spdxVersion bomFormat"},
		{Likeness{"", "the settings of a compiler", write}, "compilerOptions", ""},
	}
}

// Of returns what a decoded document seems to be, and nil if it seems to be of the wanted
// kind, or of no known one.
func Of(doc any, wanted string) *Likeness {
	var found *Likeness
	switch v := doc.(type) {
	case map[string]any:
		for _, f := range forms() {
			if f.fits(v) {
				found = &f.Likeness
				break
			}
		}
	case []any:
		found = list(v)
	}
	if found == nil || found.Kind == wanted && wanted != "" {
		return nil
	}
	return found
}

// list says what a list seems to be by its first element.
func list(v []any) *Likeness {
	if len(v) == 0 {
		return nil
	}
	first, _ := v[0].(map[string]any)
	switch {
	case has(first, "agent_id"):
		return &Likeness{"work-plan", "a plan of work items", "fiador work check checks it"}
	case has(first, "case_id"):
		return &Likeness{"suite-cases", "a list of cases of a suite", "fiador suite run asks an agent each of them"}
	case has(first, "goal"):
		return &Likeness{"", "a list of intents", "write one intent a line into a .jsonl file; fiador check decides each of them"}
	}
	return nil
}

func (f form) fits(doc map[string]any) bool {
	for name := range strings.FieldsSeq(f.all) {
		if !has(doc, name) {
			return false
		}
	}
	for name := range strings.FieldsSeq(f.any) {
		if has(doc, name) {
			return true
		}
	}
	return f.any == ""
}

func has(doc map[string]any, name string) bool {
	_, ok := doc[name]
	return ok
}

// OfText returns what a text that is not JSON seems to be, or nil.
func OfText(src []byte) *Likeness {
	src = bytes.TrimLeft(src, " \t\r\n")
	for _, t := range []struct{ begins, what, use string }{
		{"\x1f\x8b", "a gzip archive", "fiador pack verify checks an archive of a pack"},
		{"PK\x03\x04", "a zip archive", "name the file in it"},
		{"package ", "a Rego module", "name its folder with --policy, --org-policy, or fiador policy check"},
		{"=== STDOUT ===", "a log of safe-run", "fiador transcript verify checks it"},
		{"c2sp.org/tlog-proof@v1", "a receipt of a ledger", "fiador ledger check-proof checks it"},
		{"-----BEGIN ", "a key or a certificate", "name it with a flag such as --ledger-key"},
		{"#!", "a script", "an intent names it in the argv of a run action"},
		{"<", "XML or HTML", "name a file of JSON"},
		{"---", "YAML", "an intent is JSON, such as {\"goal\": \"what to do\"}"},
		{"goal:", "YAML", "an intent is JSON, such as {\"goal\": \"what to do\"}"},
	} {
		if bytes.HasPrefix(src, []byte(t.begins)) {
			return &Likeness{What: t.what, Use: t.use}
		}
	}
	return nil
}
