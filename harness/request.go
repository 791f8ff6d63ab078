package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/kernel/text"
	"github.com/fiador/fiador/specs"
)

// MaxRequestBytes is the size limit of an execution request in bytes: of the
// file, and of its canonical JSON.
const MaxRequestBytes = 1 << 20

// What a request says of a stream.
const (
	StreamCaptured = "captured" // whatever comes is recorded
	StreamExpected = "expected" // something has to come
)

// ExecRequest is one command to execute in the sandbox (code execution contract,
// "Execution Contract Schema"). Every limit is set and within its bounds, and
// every list but Write is there.
type ExecRequest struct {
	ExecutionID string
	ToolID      string
	AdapterID   string // empty where no adapter is named
	Inputs      ExecInputs
	Sandbox     ExecSandbox
	Outputs     ExecOutputs
	Metadata    ExecMetadata
}

// ExecInputs is what is executed, and with what. Nothing here has a NUL but
// Stdin may. Paths are clean and relative to the work folder.
type ExecInputs struct {
	Command          string
	Arguments        []string
	Environment      map[string]string
	WorkingDirectory string // "." is the work folder itself
	InputFiles       []string
	Stdin            *string // nil: none is given
}

// Argv is the command and its arguments.
func (in ExecInputs) Argv() []string { return append([]string{in.Command}, in.Arguments...) }

// ExecSandbox is the limits that a request asks for. It may only narrow what a
// profile allows.
type ExecSandbox struct {
	TimeoutMS   int
	MemoryMB    int
	CPUCores    int
	Read        []string // clean, relative or absolute; nil is all of the work folder, and nothing beyond it
	Write       []string // clean and relative; nil leaves it to the profile, empty is none
	Deny        []string // clean and relative
	Network     bool     // the host's network; no list of hosts narrows it
	NetworkDeny []string // hosts; empty where there is a network
	MaxChildren int
	AllowFork   bool
}

// ExecOutputs is what a request expects afterwards.
type ExecOutputs struct {
	Stdout      string   // StreamCaptured or StreamExpected
	Stderr      string   // likewise
	ExitCode    *int     // nil where none is expected
	OutputFiles []string // clean and relative, never the work folder itself
	Artifacts   []ArtifactSpec
}

// ExecMetadata is who asks and why. What is not given is empty.
type ExecMetadata struct {
	RequestedBy string
	RequestedAt string // a date, or a date and time with offset, as given
	Purpose     string
	EvidenceRef string
}

// ParseExecRequest reads an execution request. A text whose first byte that is no
// white space is "{" is read as JSON (canon.Parse), every other as strict YAML
// (parseYAML); schema and checks see the same values either way. name is what
// messages call the file.
//
// The error is always a *result.RunError: RUN_E001 for a request that is too
// large, RUN_E002 for one that is neither strict JSON nor strict YAML, RUN_E003
// for one that breaks its schema or asks for what cannot be had. Its details have
// the file, the line, and the pointer of the value at fault, "" being the whole
// request. RUN_E002 has no pointer where the structure is not known.
func ParseExecRequest(set *specs.Set, name string, src []byte) (ExecRequest, error) {
	text, err := readRequest(name, src)
	if err != nil {
		return ExecRequest{}, err
	}
	violations, err := set.Validate(specs.KindExecutionRequest, text.doc.Value())
	if err != nil {
		return ExecRequest{}, runerr.Internal("the request could not be held against its schema", err)
	}
	if len(violations) > 0 {
		return ExecRequest{}, text.violated(violations)
	}
	doc, _ := text.doc.Value().(map[string]any)
	req := requestOf(doc)
	for _, f := range []*requestFault{req.textFault(), req.pathFault(), unsupported(doc), req.dateFault()} {
		if f != nil {
			e := text.invalid(f.pointer, f.msg, f.hint)
			e.RuleID = f.rule
			return ExecRequest{}, e
		}
	}
	return req, nil
}

// requestText is a request that was read, and where its values stand.
type requestText struct {
	name string
	src  []byte
	root *yaml.Node // nil for JSON
	doc  canon.Document
}

func readRequest(name string, src []byte) (requestText, error) {
	t := requestText{name: name, src: src}
	if len(src) > MaxRequestBytes {
		return t, t.tooLarge()
	}
	if trimmed := bytes.TrimLeft(src, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		doc, err := canon.Parse(src, MaxRequestBytes)
		if err != nil {
			return t, t.notJSON(err)
		}
		t.doc = doc
	} else {
		doc, root, fault := parseYAML(src)
		if fault != nil {
			return t, t.notYAML(fault)
		}
		t.doc, t.root = doc, root
	}
	if len(t.doc.Bytes()) > MaxRequestBytes {
		return t, t.tooLarge()
	}
	return t, nil
}

func (t requestText) tooLarge() *result.RunError {
	return &result.RunError{
		Code:    result.CodeUnreadable,
		Message: t.name + ": larger than the limit of " + strconv.Itoa(MaxRequestBytes) + " bytes",
		RuleID:  contract.IV05,
		Hint:    "keep large contents out of the request: name them in inputs.input_files",
		Details: map[string]any{"file": t.name},
	}
}

// fault is the RunError for a fault on a line, at a pointer unless it is nil.
func (t requestText) fault(code result.Code, line int, near bool, pointer *string, msg string) *result.RunError {
	at := "line " + strconv.Itoa(line)
	if near {
		at = "near " + at
	}
	e := &result.RunError{Code: code, Details: map[string]any{"file": t.name, "line": line}}
	if pointer != nil {
		e.Details["pointer"] = *pointer
		if *pointer != "" {
			at += ", " + *pointer
		}
	}
	e.Message = t.name + ": " + at + ": " + msg
	return e
}

func (t requestText) notJSON(err error) *result.RunError {
	var ce *canon.Error
	if !errors.As(err, &ce) {
		return runerr.Internal("the file could not be parsed", err)
	}
	var pointer *string
	if ce.Pointer != "" {
		pointer = &ce.Pointer
	}
	e := t.fault(result.CodeNotJSON, t.lineAt(int(ce.Offset)), false, pointer, ce.Msg)
	e.Details["offset"] = ce.Offset
	e.Cause = err
	e.Hint = `a file that begins with "{" is read as JSON; every other one is read as YAML`
	return e
}

func (t requestText) notYAML(f *yamlFault) *result.RunError {
	var pointer *string
	if f.pointer != "" {
		pointer = &f.pointer
	}
	e := t.fault(result.CodeNotJSON, f.line, f.near, pointer, f.msg)
	e.Hint = "only YAML that every reader reads alike is accepted; a request in JSON is read too"
	return e
}

func (t requestText) violated(violations []specs.Violation) *result.RunError {
	first, hint := violations[0], "fiador schema execution-request prints what a request may hold"
	if first.Rule == "type" && strings.HasPrefix(first.Msg, "must be a string,") {
		hint = "put the value in double quotes"
	}
	e := t.invalid(first.Pointer, first.Msg, hint)
	e.RuleID = runerr.SchemaCheck(first)
	if n := len(violations) - 1; n > 0 {
		list := make([]any, len(violations))
		for i, v := range violations {
			list[i] = map[string]any{"pointer": v.Pointer, "message": v.Msg}
		}
		e.Message += " (and " + strconv.Itoa(n+violations[n].More) + " more)"
		e.Details["violations"] = list
	}
	return e
}

// invalid is the RunError for a value that is well-formed and still not valid.
func (t requestText) invalid(pointer, msg, hint string) *result.RunError {
	line := 0
	if t.root != nil {
		line = yamlLine(t.root, pointer)
	} else {
		line = t.lineAt(canon.Locate(t.src, []string{pointer})[0].Start)
	}
	e := t.fault(result.CodeNotIntent, line, false, &pointer, msg)
	e.Hint = hint
	return e
}

// lineAt is the number of the line, from 1 on, that a byte stands in.
func (t requestText) lineAt(offset int) int {
	return 1 + bytes.Count(t.src[:min(max(offset, 0), len(t.src))], []byte{'\n'})
}

// member is a document that the schema has accepted, read by name. What is
// absent has the zero value.
type member map[string]any

func (m member) below(name string) member {
	v, _ := m[name].(map[string]any)
	return v
}

func (m member) text(name string) string {
	v, _ := m[name].(string)
	return v
}

func (m member) number(name string, otherwise int) int {
	v, _ := m[name].(json.Number)
	if n, err := strconv.Atoi(v.String()); err == nil {
		return n
	}
	return otherwise
}

// list is never nil.
func (m member) list(name string) []string {
	v, _ := m[name].([]any)
	out := make([]string, len(v))
	for i := range v {
		out[i], _ = v[i].(string)
	}
	return out
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// requestOf applies the defaults of the contract to a document that the schema has
// accepted.
func requestOf(doc member) ExecRequest {
	in, box, out, meta := doc.below("inputs"), doc.below("sandbox"), doc.below("outputs"), doc.below("metadata")
	files, processes := box.below("filesystem"), box.below("processes")
	req := ExecRequest{
		ExecutionID: doc.text("execution_id"),
		ToolID:      doc.text("tool_id"),
		AdapterID:   doc.text("adapter_id"),
		Inputs: ExecInputs{
			Command:          in.text("command"),
			Arguments:        in.list("arguments"),
			Environment:      map[string]string{},
			WorkingDirectory: or(in.text("working_directory"), "."),
			InputFiles:       in.list("input_files"),
		},
		Sandbox: ExecSandbox{
			TimeoutMS:   box.number("timeout_ms", contract.TimeoutMS().Default),
			MemoryMB:    box.number("memory_mb", contract.MemoryMB().Default),
			CPUCores:    box.number("cpu_cores", contract.CPUCores().Default),
			Deny:        files.list("deny"),
			Network:     box.below("network")["enabled"] == true,
			NetworkDeny: box.below("network").list("deny"),
			MaxChildren: processes.number("max_children", contract.MaxChildren().Default),
			AllowFork:   processes["allow_fork"] != false,
		},
		Outputs: ExecOutputs{
			Stdout:      or(out.text("stdout"), StreamCaptured),
			Stderr:      or(out.text("stderr"), StreamCaptured),
			OutputFiles: out.list("output_files"),
			Artifacts:   artifactSpecs(out["artifacts"]),
		},
		Metadata: ExecMetadata{
			RequestedBy: meta.text("requested_by"),
			RequestedAt: meta.text("requested_at"),
			Purpose:     meta.text("purpose"),
			EvidenceRef: meta.text("evidence_ref"),
		},
	}
	if text, given := in["stdin"].(string); given {
		req.Inputs.Stdin = &text
	}
	for name := range in.below("environment") {
		req.Inputs.Environment[name] = in.below("environment").text(name)
	}
	if _, given := files["read"]; given {
		req.Sandbox.Read = files.list("read")
	}
	if _, given := files["write"]; given {
		req.Sandbox.Write = files.list("write")
	}
	if _, given := out["exit_code"]; given {
		code := out.number("exit_code", 0)
		req.Outputs.ExitCode = &code
	}
	return req
}

// requestFault is what no schema says about a value: where, what, what to do, and the
// input check of the contract that says so, if it is one.
type requestFault struct{ pointer, msg, hint, rule string }

func faultOf(v *contract.Violation) *requestFault {
	return &requestFault{v.Pointer, v.Msg, v.Hint, v.ID}
}

// textFault looks for what no argument (IV-02) and no variable (IV-04) of a process can
// hold.
func (r ExecRequest) textFault() *requestFault {
	if v := contract.CheckArgument("/inputs/command", r.Inputs.Command, contract.Argv); v != nil {
		return faultOf(v)
	}
	if list := contract.CheckArguments("/inputs/arguments", r.Inputs.Arguments, contract.Argv); len(list) > 0 {
		return faultOf(&list[0])
	}
	if list := contract.CheckVariables("/inputs/environment", r.Inputs.Environment); len(list) > 0 {
		return faultOf(&list[0])
	}
	return nil
}

// pathFault is the first path that is not as its place demands (IV-03).
func (r ExecRequest) pathFault() *requestFault {
	var artifacts []string
	for _, a := range r.Outputs.Artifacts {
		artifacts = append(artifacts, a.Path)
	}
	for _, place := range []struct {
		pointer string
		paths   []string
		rule    pathRule
	}{
		{"/inputs/working_directory", []string{r.Inputs.WorkingDirectory}, pathRule{folder: true, single: true}},
		{"/inputs/input_files", r.Inputs.InputFiles, pathRule{}},
		{"/sandbox/filesystem/read", r.Sandbox.Read, pathRule{folder: true, absolute: true}},
		{"/sandbox/filesystem/write", r.Sandbox.Write, pathRule{folder: true}},
		{"/sandbox/filesystem/deny", r.Sandbox.Deny, pathRule{folder: true}},
		{"/outputs/output_files", r.Outputs.OutputFiles, pathRule{}},
		{"/outputs/artifacts", artifacts, pathRule{member: "/path"}},
	} {
		for i, p := range place.paths {
			at := place.pointer
			if !place.rule.single {
				at += "/" + strconv.Itoa(i) + place.rule.member
			}
			if v := place.rule.check(at, p); v != nil {
				return faultOf(v)
			}
		}
	}
	return nil
}

// pathRule is what a path may be besides a clean relative path of a file.
type pathRule struct {
	folder   bool // the work folder itself, "."
	absolute bool
	single   bool   // the path stands alone, not in a list
	member   string // of the list's elements that the path is, with a slash; or empty
}

// check is IV-03 for a path that has to be in its clean form, without characters that do
// not show.
func (rule pathRule) check(at, p string) *contract.Violation {
	refuse := func(msg, hint string) *contract.Violation {
		return &contract.Violation{ID: contract.IV03, Pointer: at, Msg: "path " + strconv.Quote(canon.Cut(p)) + " " + msg, Hint: hint}
	}
	if strings.ContainsFunc(p, func(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Cf) }) {
		return refuse("holds a character that does not show", "name the path without it")
	}
	below, root := p, ""
	if rule.absolute && strings.HasPrefix(p, "/") {
		below, root = p[1:], "/"
	}
	if strings.Trim(below, "/") == "" && root != "" {
		return refuse("is the root of the whole file system", "name the folders that have to be read")
	}
	clean, v := contract.CheckPath(at, below)
	switch {
	case v != nil:
		return v
	case clean == "." && !rule.folder:
		return refuse("is the work folder itself, not a file", "name a file in it")
	case root+clean != p:
		return refuse("is not in its clean form", "write it as "+strconv.Quote(root+clean))
	}
	return nil
}

// unsupported is the first thing that the contract knows and this version cannot
// do.
func unsupported(doc member) *requestFault {
	network := doc.below("sandbox").below("network")
	switch {
	case len(network.list("allow")) > 0:
		return &requestFault{"/sandbox/network/allow", "host allow-lists are not supported by this version",
			"leave the list empty: without a network no host can be reached", ""}
	case network["enabled"] == true && len(network.list("deny")) > 0:
		return &requestFault{"/sandbox/network/deny", "hosts of a network cannot be denied by this version",
			"leave the list empty, or set enabled to false: without a network no host can be reached", ""}
	}
	return nil
}

// dateFault looks for a date that has the right form and is in no calendar.
func (r ExecRequest) dateFault() *requestFault {
	at := r.Metadata.RequestedAt
	if at == "" {
		return nil
	}
	_, asDate := time.Parse(time.DateOnly, at)
	_, asTime := time.Parse(time.RFC3339Nano, at)
	if asDate == nil || asTime == nil {
		return nil
	}
	return &requestFault{"/metadata/requested_at", strconv.Quote(at) + " is no date that there is", "write it as in 2026-01-16T09:30:00Z", ""}
}

// Artifact is the normalised request as canonical JSON and one LF, and the hash of
// these bytes. Every default is written out and what is not given is left out, so
// that two spellings of one request, in JSON or YAML, have one hash. The bytes are
// a request again, and the same one.
func (r ExecRequest) Artifact() ([]byte, canon.ContentHash, error) {
	return canon.Artifact(r.plain())
}

func (r ExecRequest) plain() map[string]any {
	environment := map[string]any{}
	for name, value := range r.Inputs.Environment {
		environment[name] = value
	}
	files := map[string]any{"deny": anys(r.Sandbox.Deny)}
	if r.Sandbox.Read != nil {
		files["read"] = anys(r.Sandbox.Read)
	}
	if r.Sandbox.Write != nil {
		files["write"] = anys(r.Sandbox.Write)
	}
	artifacts := make([]any, len(r.Outputs.Artifacts))
	for i, a := range r.Outputs.Artifacts {
		artifacts[i] = a.plain()
	}
	out := map[string]any{
		"stdout": r.Outputs.Stdout, "stderr": r.Outputs.Stderr,
		"output_files": anys(r.Outputs.OutputFiles), "artifacts": artifacts,
	}
	if r.Outputs.ExitCode != nil {
		out["exit_code"] = *r.Outputs.ExitCode
	}
	in := map[string]any{
		"command": r.Inputs.Command, "arguments": anys(r.Inputs.Arguments), "environment": environment,
		"working_directory": r.Inputs.WorkingDirectory, "input_files": anys(r.Inputs.InputFiles),
	}
	if r.Inputs.Stdin != nil {
		in["stdin"] = *r.Inputs.Stdin
	}
	doc := map[string]any{
		"execution_id": r.ExecutionID, "tool_id": r.ToolID, "inputs": in,
		"sandbox": map[string]any{
			"timeout_ms": r.Sandbox.TimeoutMS, "memory_mb": r.Sandbox.MemoryMB, "cpu_cores": r.Sandbox.CPUCores,
			"filesystem": files,
			"network":    map[string]any{"enabled": r.Sandbox.Network, "allow": []any{}, "deny": anys(r.Sandbox.NetworkDeny)},
			"processes":  map[string]any{"max_children": r.Sandbox.MaxChildren, "allow_fork": r.Sandbox.AllowFork},
		},
		"outputs":  out,
		"metadata": r.Metadata.plain(),
	}
	if r.AdapterID != "" {
		doc["adapter_id"] = r.AdapterID
	}
	return doc
}

// Intent is the request as an intent of one run action, as canonical JSON and one LF. Its
// goal is the purpose of the request, and what an intent has no member for stands in
// context.request.
func (r ExecRequest) Intent() ([]byte, error) {
	action := map[string]any{"kind": string(kernel.ActionRun), "argv": anys(r.Inputs.Argv())}
	if len(r.Inputs.Environment) > 0 {
		action["env"] = r.plain()["inputs"].(map[string]any)["environment"]
	}
	if r.Inputs.WorkingDirectory != "." {
		action["cwd"] = r.Inputs.WorkingDirectory
	}
	if r.Inputs.Stdin != nil {
		action["stdin"] = *r.Inputs.Stdin
	}
	rest := r.plain()
	delete(rest, "inputs")
	delete(rest["outputs"].(map[string]any), "output_files")
	goal := execGoal
	if !text.IsBlank(r.Metadata.Purpose) {
		goal = r.Metadata.Purpose
		delete(rest["metadata"].(map[string]any), "purpose")
	}
	return execIntent(goal, action, map[string]any{
		"inputs": anys(r.Inputs.InputFiles), "outputs": anys(r.Outputs.OutputFiles), "context": map[string]any{"request": rest},
	})
}

// anys is a list as canon.Canonical writes it fastest.
func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// plain is the members that have a value.
func (m ExecMetadata) plain() map[string]any {
	out := map[string]any{}
	for name, v := range map[string]string{
		"requested_by": m.RequestedBy, "requested_at": m.RequestedAt, "purpose": m.Purpose, "evidence_ref": m.EvidenceRef,
	} {
		if v != "" {
			out[name] = v
		}
	}
	return out
}
