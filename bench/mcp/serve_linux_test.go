package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs"
)

// scratch is a folder that ends with the tests.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "fiador-mcp-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	m.Run()
}

// program builds fiador once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "fiador")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/fiador")
	cmd.Dir = "../.."
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return path, nil
})

// fiador returns the command of the program in a folder.
func fiador(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	return cmd
}

// output returns what a command prints, and its exit status.
func output(t *testing.T, cmd *exec.Cmd) (text string, status int) {
	t.Helper()
	out, err := cmd.Output()
	if e := new(exec.ExitError); errors.As(err, &e) && e.ExitCode() == 1 {
		return string(out), 1
	} else if errors.As(err, &e) {
		return string(e.Stderr), e.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

func put(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// scene makes a profile and a tree with a layer of its own, and returns the flags that name them.
func scene(t *testing.T) (flags []string) {
	t.Helper()
	dir := t.TempDir()
	put(t, dir+"/profile/profile.json", `{"name":"asked","extends":"dev"}`)
	put(t, dir+"/tree/.fiador/policy/site.rego", `package gate.repo.site

# METADATA
# title: A file of the owner
# description: The owner alone writes it
# custom: {id: OF_THE_OWNER, fix: write another file}
deny contains {"id": "OF_THE_OWNER", "path": sprintf("/actions/%d", [i]), "msg": "the owner's"} if {
	some i, a in input.intent.actions
	contains(object.get(a, "path", ""), "owner")
}

# METADATA
# title: A file for somebody
# description: It is not clear for whom
# custom: {id: FOR_WHOM}
clarify contains {"id": "FOR_WHOM", "path": sprintf("/actions/%d", [i]), "question": "For whom?"} if {
	some i, a in input.intent.actions
	contains(object.get(a, "path", ""), "somebody")
}
`)
	return []string{"--policy", dir + "/profile", "--tree", dir + "/tree"}
}

// outcomes are intents by the outcome that they have in the scene.
var outcomes = map[string]map[string]any{"BUNDLE": writing("out/é <&"), "CLARIFY": writing("out/somebody"), "REFUSE": writing("out/owner")}

func writing(path string) map[string]any {
	return map[string]any{"goal": "Write", "constraints": []any{"short"}, "actions": []any{map[string]any{"kind": "write", "path": path, "content": "x"}}}
}

// running is an intent that writes a file and runs a script of the shell.
func running(script string) map[string]any {
	intent := writing("out/first")
	intent["actions"] = append(intent["actions"].([]any), map[string]any{"kind": "run", "argv": []any{"sh", "-c", script}})
	return intent
}

// serving starts fiador mcp serve, and returns a session of the SDK's client.
func serving(t *testing.T, version string, flags ...string) *sdk.ClientSession {
	t.Helper()
	cmd := fiador(t, t.TempDir(), append([]string{"mcp", "serve"}, flags...)...)
	var said strings.Builder
	cmd.Stderr = &said
	c, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil).
		Connect(soon(t), &sdk.CommandTransport{Command: cmd}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil || said.Len() > 0 {
			t.Errorf("at the end: %v, %s", err, &said)
		}
	})
	return c
}

// asked calls a tool with an intent.
func asked(t *testing.T, c *sdk.ClientSession, tool string, intent any) *sdk.CallToolResult {
	t.Helper()
	r, err := c.CallTool(soon(t), &sdk.CallToolParams{Name: tool, Arguments: map[string]any{"intent": intent}})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// answered returns the one answer of a tool, which says the same as a text and as a structure.
func answered(t *testing.T, r *sdk.CallToolResult) (doc map[string]any, text string) {
	t.Helper()
	if r.IsError || len(r.Content) != 1 {
		t.Fatalf("%+v", r)
	}
	text = r.Content[0].(*sdk.TextContent).Text
	doc = decoded(t, json.RawMessage(text))
	if other := decoded(t, r.StructuredContent); !reflect.DeepEqual(doc, other) {
		t.Errorf("the text says %v, and the structure %v", doc, other)
	}
	return doc, text
}

// lasting returns a RunResult without its ids and times.
func lasting(t *testing.T, result map[string]any) map[string]any {
	t.Helper()
	result = maps.Clone(result)
	for _, name := range []string{"run_id", "started_at", "completed_at"} {
		if result[name] == nil {
			t.Errorf("no %s in %v", name, result)
		}
		delete(result, name)
	}
	if execution, ok := result["execution"].(map[string]any); ok {
		execution = maps.Clone(execution)
		delete(execution, "sandbox_id")
		result["execution"] = execution
	}
	return result
}

// typed returns what the program says of an intent at the command line. The file has the name and
// the bytes that the server gives the intent.
func typed(t *testing.T, intent any, args ...string) map[string]any {
	t.Helper()
	text, _, err := canon.Artifact(intent)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, dir+"/intent", string(text))
	out, status := output(t, fiador(t, dir, args...))
	if status > 1 {
		t.Fatalf("fiador %s: exit status %d, %s", args[0], status, out)
	}
	return decoded(t, json.RawMessage(out))
}

// TestServeBegins: in every version of the protocol that the SDK's client speaks, and with the one
// that it begins with by itself, the server says what it is and what it has.
func TestServeBegins(t *testing.T) {
	flags := scene(t)
	for _, version := range []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} {
		c := serving(t, version, flags...)
		want := version
		if version == "" || version == "2026-07-28" {
			want = "2025-11-25" // the server does not know the newest one, and the client begins again
		}
		r := c.InitializeResult()
		if r.ProtocolVersion != want || r.ServerInfo.Name != "fiador" || r.ServerInfo.Version != kernel.Version || r.Instructions != "" {
			t.Errorf("%s: %+v %+v", version, r, r.ServerInfo)
		}
		if got := decoded(t, r.Capabilities); !reflect.DeepEqual(got, map[string]any{"tools": map[string]any{}, "resources": map[string]any{}}) {
			t.Errorf("%s: capabilities %v", version, got)
		}
		if err := c.Ping(soon(t), nil); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if doc, _ := answered(t, asked(t, c, "fiador_decide", outcomes["REFUSE"])); doc["kernel_result_kind"] != "REFUSE" {
			t.Errorf("%s: %v", version, doc)
		}
		if _, err := c.ListPrompts(soon(t), nil); code(err) != jsonrpc.CodeMethodNotFound {
			t.Errorf("%s: prompts: %v", version, err)
		}
	}
}

// code returns the code of an error of the server, or 0.
func code(err error) int64 {
	if e := new(jsonrpc.Error); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// TestServe: with and without fiador_run and a ledger, the SDK's client gets what the command line
// says.
func TestServe(t *testing.T) {
	for _, run := range []bool{false, true} {
		for _, ledger := range []bool{false, true} {
			t.Run(fmt.Sprintf("run %v, ledger %v", run, ledger), func(t *testing.T) {
				flags := scene(t)
				var all, record []string
				if ledger {
					dir := t.TempDir()
					record = []string{"--ledger", dir + "/gate", "--ledger-key", dir + "/gate.key"}
					if said, status := output(t, fiador(t, dir, "ledger", "init", dir+"/gate", "--origin", "example.com/gate", "--key", dir+"/gate.key")); status != 0 {
						t.Fatal(said)
					}
				}
				all = slices.Concat(flags, record)
				if run {
					all = append(all, "--allow-run")
				}
				c := serving(t, "", all...)
				tools(t, c, run)
				resources(t, c, flags)
				wrongCalls(t, c, run)
				decides(t, c, flags, record)
				many(t, c)
				cancels(t, c)
			})
		}
	}
}

// tools checks the list of tools, and what their schemas say of arguments.
func tools(t *testing.T, c *sdk.ClientSession, run bool) {
	t.Helper()
	want := []string{"fiador_decide", "fiador_explain"}
	if run {
		want = append(want, "fiador_run")
	}
	var names []string
	for tool, err := range c.Tools(soon(t), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
		var schema jsonschema.Schema
		text, err := json.Marshal(tool.InputSchema)
		if err == nil {
			err = json.Unmarshal(text, &schema)
		}
		if err != nil {
			t.Fatal(err)
		}
		resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
		if err != nil {
			t.Fatal(err)
		}
		for arguments, fit := range map[string]bool{`{"intent":{}}`: true, `{"intent":[]}`: false, `{}`: false, `{"intent":{},"tree":"/"}`: false} {
			if err := resolved.Validate(decoded(t, json.RawMessage(arguments))); (err == nil) != fit {
				t.Errorf("%s %s: %v", tool.Name, arguments, err)
			}
		}
		if tool.Description == "" || tool.OutputSchema != nil {
			t.Errorf("%+v", tool)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %q, want %q", names, want)
	}
}

// resources checks that the resources are the profile and the rules, those of the tree too.
func resources(t *testing.T, c *sdk.ClientSession, flags []string) {
	t.Helper()
	var list []string
	for r, err := range c.Resources(soon(t), nil) {
		if err != nil {
			t.Fatal(err)
		}
		read, err := c.ReadResource(soon(t), &sdk.ReadResourceParams{URI: r.URI})
		if err != nil || len(read.Contents) != 1 || read.Contents[0].URI != r.URI || read.Contents[0].MIMEType != r.MIMEType {
			t.Fatalf("%s: %+v (%v)", r.URI, read, err)
		}
		list = append(list, r.URI+" "+r.MIMEType)
		text := read.Contents[0].Text
		if r.URI == "fiador://rules" {
			if !strings.Contains(text, "\nOF_THE_OWNER  A file of the owner. ") || !strings.Contains(text, "\nCMD_NOT_ALLOWED  ") {
				t.Errorf("the rules are %s", text)
			}
			continue
		}
		shown, status := output(t, fiador(t, t.TempDir(), append([]string{"policy", "show", flags[1], "--format", "json"}, flags[2:]...)...))
		if sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))); status != 0 || decoded(t, json.RawMessage(shown))["profile_sha256"] != sum {
			t.Errorf("the profile is %s, and fiador policy show says %s", text, shown)
		}
	}
	if want := []string{"fiador://policy application/json", "fiador://rules text/plain"}; !slices.Equal(list, want) {
		t.Errorf("the resources are %q", list)
	}
	for _, err := range c.ResourceTemplates(soon(t), nil) {
		t.Errorf("a template of resources (%v)", err)
	}
	if _, err := c.ReadResource(soon(t), &sdk.ReadResourceParams{URI: "file:///etc/hostname"}); code(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("another resource: %v", err)
	}
}

// wrongCalls checks that calls of other tools and with other arguments are refused.
func wrongCalls(t *testing.T, c *sdk.ClientSession, run bool) {
	t.Helper()
	fit := map[string]any{"intent": outcomes["BUNDLE"]}
	calls := map[string][]any{"fiador_decide": nil, "fiador_explain": nil, "fiador_nothing": {fit}}
	if run {
		calls["fiador_run"] = nil
	} else {
		calls["fiador_run"] = []any{fit}
	}
	for name, wrong := range calls {
		if wrong == nil {
			for member, value := range map[string]any{"policy": "dev", "tree": "/", "mode": "execute-sandbox", "ledger": t.TempDir()} {
				wrong = append(wrong, map[string]any{"intent": fit["intent"], member: value})
			}
			wrong = append(wrong, nil, map[string]any{"intent": "{}"}, fit["intent"])
		}
		for _, arguments := range wrong {
			if r, err := c.CallTool(soon(t), &sdk.CallToolParams{Name: name, Arguments: arguments}); code(err) != jsonrpc.CodeInvalidParams {
				t.Errorf("%s %v: %+v (%v)", name, arguments, r, err)
			}
		}
	}
	r := asked(t, c, "fiador_decide", map[string]any{"goal": 1})
	if text := r.Content[0].(*sdk.TextContent).Text; !r.IsError || decoded(t, json.RawMessage(text))["code"] != "RUN_E003" {
		t.Errorf("an intent that breaks its schema: %s", text)
	}
}

// decides checks decisions and explanations against the command line, and the records.
func decides(t *testing.T, c *sdk.ClientSession, flags, record []string) {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	for outcome, intent := range outcomes {
		result, text := answered(t, asked(t, c, "fiador_decide", intent))
		want := lasting(t, typed(t, intent, append([]string{"run", "intent"}, flags...)...))
		if got := lasting(t, result); !reflect.DeepEqual(got, want) || got["kernel_result_kind"] != outcome {
			t.Errorf("%s:\n got %v\nwant %v", outcome, got, want)
		}
		if faults, err := set.Validate(specs.KindRunResult, result); err != nil || len(faults) > 0 {
			t.Errorf("%s: %v (%v)", outcome, faults, err)
		}
		if record != nil {
			shown, status := output(t, fiador(t, t.TempDir(), "ledger", "show", result["run_id"].(string), "--result", "--ledger", record[1]))
			if status != 0 || shown != text {
				t.Errorf("%s: the ledger has %s, and the answer is %s", outcome, shown, text)
			}
		}
		explanation, _ := answered(t, asked(t, c, "fiador_explain", intent))
		explained(t, explanation, intent, flags)
	}
}

// explained checks an explanation against that of the command line.
func explained(t *testing.T, got map[string]any, intent any, flags []string) {
	t.Helper()
	said := typed(t, intent, append([]string{"explain", "--intent", "intent", "--format", "json"}, flags...)...)
	want := map[string]any{"outcome": said["outcome"], "reasons": []any{}}
	for _, f := range said["findings"].([]any) {
		f := f.(map[string]any)
		source := f["source"].(map[string]any)
		reason := map[string]any{"id": f["id"], "pointer": f["path"], "text": f["text"], "decides": f["decides"], "file": source["file"], "line": source["line"]}
		if f["fix"] != "" {
			reason["fix"] = f["fix"]
		}
		want["reasons"] = append(want["reasons"].([]any), reason)
	}
	if !reflect.DeepEqual(got, want) || (got["outcome"] == "BUNDLE") != (len(got["reasons"].([]any)) == 0) {
		t.Errorf("explained:\n got %v\nwant %v", got, want)
	}
}

// many checks that 64 decisions at once are those that one alone has.
func many(t *testing.T, c *sdk.ClientSession) {
	t.Helper()
	want := map[string]map[string]any{}
	for outcome, intent := range outcomes {
		result, _ := answered(t, asked(t, c, "fiador_decide", intent))
		want[outcome] = lasting(t, result)
	}
	kinds := slices.Sorted(maps.Keys(outcomes))
	answers := make([]*sdk.CallToolResult, 64)
	var all sync.WaitGroup
	for n := range answers {
		all.Go(func() {
			var err error
			if answers[n], err = c.CallTool(soon(t), &sdk.CallToolParams{Name: "fiador_decide", Arguments: map[string]any{"intent": outcomes[kinds[n%3]]}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ids := map[any]bool{}
	for n, r := range answers {
		if r == nil {
			continue
		}
		result, _ := answered(t, r)
		ids[result["run_id"]] = true
		if got := lasting(t, result); !reflect.DeepEqual(got, want[kinds[n%3]]) {
			t.Errorf("%d: %v", n, got)
		}
	}
	if len(ids) != len(answers) {
		t.Errorf("%d answers have %d ids", len(answers), len(ids))
	}
}

// cancels checks that after calls that are cancelled at any point the session goes on.
func cancels(t *testing.T, c *sdk.ClientSession) {
	t.Helper()
	var all sync.WaitGroup
	for n := range 32 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
			defer cancel()
			_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "fiador_decide", Arguments: map[string]any{"intent": outcomes["BUNDLE"]}})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if doc, _ := answered(t, asked(t, c, "fiador_decide", outcomes["CLARIFY"])); doc["kernel_result_kind"] != "CLARIFY" {
		t.Errorf("%v", doc)
	}
}

// TestServeRuns: fiador_run says what fiador run says of an execution, and nothing outside the
// sandbox changes. A call that is cancelled ends its processes, and the session goes on.
func TestServeRuns(t *testing.T) {
	flags := scene(t)
	executing := append([]string{"run", "intent", "--mode", "execute-sandbox"}, flags...)
	dir := t.TempDir()
	put(t, dir+"/intent", `{"goal":"Do","constraints":["now"],"actions":[{"kind":"run","argv":["true"]}]}`)
	if said, status := output(t, fiador(t, dir, executing...)); status != 0 {
		t.Skipf("this machine has no sandbox: %s", said)
	}
	c := serving(t, "", append(slices.Clone(flags), "--allow-run")...)
	outside := t.TempDir()
	for script, accepted := range map[string]bool{"echo said; echo é >out/second; touch " + outside + "/a; true": true, "exit 3": false} {
		intent := running(script)
		result, _ := answered(t, asked(t, c, "fiador_run", intent))
		got, want := lasting(t, result), lasting(t, typed(t, intent, executing...))
		if !reflect.DeepEqual(got, want) || got["execution"] == nil || got["decision"].(map[string]any)["accepted"] != accepted {
			t.Errorf("%s:\n got %v\nwant %v", script, got, want)
		}
	}
	if result, _ := answered(t, asked(t, c, "fiador_run", outcomes["REFUSE"])); result["execution"] != nil || result["kernel_result_kind"] != "REFUSE" {
		t.Errorf("%v", result)
	}
	for _, path := range []string{outside, flags[3]} {
		if list, err := os.ReadDir(path); err != nil || len(list) > 1 || len(list) == 1 && list[0].Name() != ".fiador" {
			t.Errorf("%s has %v (%v)", path, list, err)
		}
	}
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	mark := fmt.Sprintf("600.%06d", os.Getpid())
	ended := make(chan error)
	go func() {
		_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "fiador_run", Arguments: map[string]any{"intent": running("sleep " + mark)}})
		ended <- err
	}()
	until(t, "the command runs", func() bool { return has(t, mark) })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	until(t, "the cancelled command has ended", func() bool { return !has(t, mark) })
	if err := c.Ping(soon(t), nil); err != nil {
		t.Error(err)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for ctx := soon(t); !holds(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// has says whether a process has a word in its command line.
func has(t *testing.T, word string) bool {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(path string) bool {
		text, err := os.ReadFile(path) // a process that has ended has no file
		return err == nil && strings.Contains(string(text), word)
	})
}
