package dispatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

const examples = "../../examples/tools"

// TestExamples: the three adapters of the code execution contract load as they are, and the
// index of the examples is current.
func TestExamples(t *testing.T) {
	got, current, err := MakeIndex(specstest.NewSpecs(t), examples)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(examples, IndexFile))
	if err != nil || string(got) != string(want) || !current {
		t.Errorf("the index is stale (%v): go run ./cmd/fiador tool index examples/tools", err)
	}
}

func openExamples(t *testing.T) *Registry {
	t.Helper()
	r, err := Open(specstest.NewSpecs(t), examples)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func params(t *testing.T, text string) map[string]any {
	t.Helper()
	doc, err := canon.Parse([]byte(text), canon.MaxIntentBytes)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value().(map[string]any)
}

// TestBind binds calls of the examples.
func TestBind(t *testing.T) {
	r := openExamples(t)
	for _, c := range []struct {
		tool, adapter, params, code, request string
	}{
		{"TL-003", "", `{"pattern":"x","path":"a b","ignore_case":true,"max_count":3}`, "", `"argv":["rg","--json","--no-heading","x","a b","-i","-m","3"]`},
		{"TL-003", "ADP-001", `{"pattern":"x"}`, "", `"argv":["rg","--json","--no-heading","x"]`},
		{"TL-003", "ADP-009", `{"pattern":"x"}`, finding.AdapterUnknown, ""},
		{"TL-004", "", `{}`, finding.ToolUnknown, ""},
		{"TL-003", "", `{"pattern":"-x"}`, finding.ParamsInvalid, ""},
		{"TL-003", "", `{"patern":"x"}`, finding.ParamsInvalid, ""},
		{"TL-100", "", `{"operation":"get_resource","id":"a/b"}`, finding.ToolInactive, `"path":"/resources/a%2Fb"`},
		{"TL-200", "", `{"operation":"read_file","path":"a"}`, "", `"argv":["mcp-server-filesystem","."]`},
	} {
		call, found, err := r.Bind(c.tool, c.adapter, params(t, c.params))
		code := ""
		if len(found) > 0 {
			code = found[0].Code
		}
		if err != nil || code != c.code || (call != nil) != (c.request != "") {
			t.Errorf("%s %s: %v %v %v", c.tool, c.params, call, found, err)
		} else if call != nil && !strings.Contains(string(call.Bound[0].Request), c.request) {
			t.Errorf("%s: %s", c.tool, call.Bound[0].Request)
		}
	}
	if !r.Has("TL-003") || r.Has("TL-004") || !r.SHA256().Valid() {
		t.Error("the index is not the one of the examples")
	}
}

const (
	tool = "tool_id: T\nname: t\nversion: \"1.0.0\"\nstatus: active\nadapters: [A, B]\n"
	cliA = "adapter_id: A\nname: a\nversion: \"1.0.0\"\ntool_id: T\ntype: cli\ninterface:\n  cli:\n    executable: a\n    arg_mapping:\n      z: \"{value}\"\n      b: \"-b\"\n"
)

var cliB = strings.Replace(cliA, "adapter_id: A", "adapter_id: B", 1)

// write makes a folder of files, by their names.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func whole(more map[string]string) map[string]string {
	files := map[string]string{"T/tool.yaml": tool, "T/A.yaml": cliA, "T/B.yaml": cliB}
	for name, text := range more {
		if files[name] = text; text == "" {
			delete(files, name)
		}
	}
	return files
}

// TestFaults: a folder with a fault has no index, and the error says where the fault is.
func TestFaults(t *testing.T) {
	set := specstest.NewSpecs(t)
	fallback := func(to string) string {
		return "errors:\n  fallback:\n    adapter_id: " + to + "\n    condition: any\n"
	}
	remote := "adapter_id: A\nname: a\nversion: \"1.0.0\"\ntool_id: T\ntype: api\ninterface:\n  api:\n    base_url: https://HOST/v1\n    endpoint_mapping:\n      get: GET /\n" +
		"sandbox_override:\n  network:\n    enabled: true\n    allow: [a.example]\n"
	service := strings.Replace(strings.Replace(remote, "HOST", "a.example", 1), "    endpoint_mapping", "    headers: {}\n    endpoint_mapping", 1)
	oauth := strings.Replace(service, "    headers: {}\n", "    auth_method: oauth\n    auth:\n      secret_env: S\n      client_id: c\n      scope: a\n      token_url: https://HOST/t\n", 1)
	mcp := "adapter_id: A\nname: a\nversion: \"1.0.0\"\ntool_id: T\ntype: mcp\ninterface:\n  mcp:\n    server: S\n    transport: stdio\n    tool_mapping:\n      r: read\n"
	var bomb strings.Builder
	for c := 'b'; c <= 'z'; c++ {
		fmt.Fprintf(&bomb, "%c: &%c [*%c, *%c, *%c]\n", c, c, c-1, c-1, c-1)
	}
	for name, c := range map[string]struct {
		files   map[string]string
		code    result.Code
		pointer string
		line    int
	}{
		"no fault":            {whole(nil), "", "", 0},
		"no tool":             {whole(map[string]string{"T/tool.yaml": ""}), result.CodeProfile, "", 0},
		"two notations":       {whole(map[string]string{"T/A.json": "{}"}), result.CodeProfile, "", 0},
		"no adapter":          {whole(map[string]string{"T/B.yaml": ""}), result.CodeProfile, "", 0},
		"one too many":        {whole(map[string]string{"T/C.yaml": cliA}), result.CodeProfile, "", 0},
		"not strict":          {whole(map[string]string{"T/A.yaml": cliA + "name: yes\n"}), result.CodeNotJSON, "/name", 12},
		"octal number":        {whole(map[string]string{"T/A.yaml": cliA + "sandbox_override:\n  timeout_ms: 010000\n"}), result.CodeNotJSON, "/sandbox_override/timeout_ms", 13},
		"alias":               {whole(map[string]string{"T/A.yaml": strings.Replace(cliA, "name: a", "name: &n a", 1) + "metadata:\n  author: *n\n"}), result.CodeNotJSON, "/name", 2},
		"aliases of aliases":  {whole(map[string]string{"T/A.yaml": "a: &a [x, x]\n" + bomb.String() + cliA}), result.CodeNotJSON, "/a", 1},
		"deep":                {whole(map[string]string{"T/A.yaml": "metadata: " + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + "\n" + cliA}), result.CodeNotJSON, "", 1},
		"deep by indentation": {whole(map[string]string{"T/A.yaml": "metadata:\n" + strings.Repeat("- ", 50_000) + "x\n" + cliA}), result.CodeNotJSON, "", 2},
		"tag":                 {whole(map[string]string{"T/A.yaml": strings.Replace(cliA, "name: a", "name: !!binary YQ==", 1)}), result.CodeNotJSON, "/name", 2},
		"pattern bomb":        {whole(map[string]string{"T/tool.yaml": tool + "params: {properties: {z: {pattern: \"(a?){1000}a{1000}\"}}}\n"}), result.CodeProfile, "/params/properties/z/pattern", 6},
		"too large":           {whole(map[string]string{"T/A.yaml": cliA + strings.Repeat("#", MaxBytes)}), result.CodeUnreadable, "", 0},
		"unknown member":      {whole(map[string]string{"T/A.yaml": cliA + "nane: x\n"}), result.CodeProfile, "/nane", 12},
		"other tool":          {whole(map[string]string{"T/A.yaml": strings.Replace(cliA, "tool_id: T", "tool_id: U", 1)}), result.CodeProfile, "/tool_id", 4},
		"other file":          {whole(map[string]string{"T/A.yaml": cliB}), result.CodeProfile, "/adapter_id", 1},
		"other folder":        {whole(map[string]string{"T/tool.yaml": strings.Replace(tool, "tool_id: T", "tool_id: U", 1)}), result.CodeProfile, "/tool_id", 1},
		"its own order":       {whole(map[string]string{"T/A.yaml": cliA + "    arg_order: [z, b]\n"}), result.CodeProfile, "/interface/cli/arg_order", 12},
		"template":            {whole(map[string]string{"T/A.yaml": strings.Replace(cliA, "{value}", "{valeu}", 1)}), result.CodeProfile, "/interface/cli/arg_mapping/z", 10},
		"its own fallback":    {whole(map[string]string{"T/A.yaml": cliA + fallback("A")}), result.CodeProfile, "/errors/fallback/adapter_id", 14},
		"cycle":               {whole(map[string]string{"T/A.yaml": cliA + fallback("B"), "T/B.yaml": cliB + fallback("A")}), result.CodeProfile, "/errors/fallback/adapter_id", 14},
		"no such fallback":    {whole(map[string]string{"T/A.yaml": cliA + fallback("C")}), result.CodeProfile, "/errors/fallback/adapter_id", 14},
		"host":                {whole(map[string]string{"T/A.yaml": strings.Replace(remote, "HOST", "b.example", 1)}), result.CodeProfile, "/interface/api/base_url", 8},
		"listed host":         {whole(map[string]string{"T/A.yaml": strings.Replace(remote, "HOST", "a.example", 1)}), "", "", 0},
		"address":             {whole(map[string]string{"T/A.yaml": strings.Replace(remote, "https://HOST", "http://a.example", 1)}), result.CodeProfile, "/interface/api/base_url", 8},
		"broken header":       {whole(map[string]string{"T/A.yaml": strings.Replace(service, "{}", `{"X-A": "b\r\nX-C: d"}`, 1)}), result.CodeProfile, "/interface/api/headers/X-A", 9},
		"header twice":        {whole(map[string]string{"T/A.yaml": strings.Replace(service, "{}", `{"X-a": "b", "X-A": "b"}`, 1)}), result.CodeProfile, "/interface/api/headers/X-a", 9},
		"headers":             {whole(map[string]string{"T/A.yaml": service}), "", "", 0},
		"host of a token":     {whole(map[string]string{"T/A.yaml": strings.Replace(oauth, "HOST", "b.example", 1)}), result.CodeProfile, "/interface/api/auth/token_url", 14},
		"listed token":        {whole(map[string]string{"T/A.yaml": strings.Replace(oauth, "HOST", "a.example", 1)}), "", "", 0},
		"no server":           {whole(map[string]string{"T/A.yaml": mcp}), result.CodeProfile, "/interface/mcp/server", 8},
		"no pin":              {whole(map[string]string{"T/A.yaml": mcp, "servers/S.yaml": "command: [s]\n"}), result.CodeProfile, "/interface/mcp/tool_mapping/r", 11},
		"pinned":              {whole(map[string]string{"T/A.yaml": mcp, "servers/S.yaml": "command: [s]\ntools:\n  read: \"" + string(canon.Sum(nil)) + "\"\n"}), "", "", 0},
		"other transport":     {whole(map[string]string{"T/A.yaml": mcp, "servers/S.yaml": "url: https://a.example\n"}), result.CodeProfile, "/interface/mcp/transport", 9},
		"websocket":           {whole(map[string]string{"T/A.yaml": strings.Replace(mcp, "stdio", "websocket", 1)}), result.CodeProfile, "/interface/mcp/transport", 9},
		"server is both":      {whole(map[string]string{"servers/S.yaml": "command: [s]\nurl: https://a.example\n"}), result.CodeProfile, "", 1},
		"name of a folder":    {whole(map[string]string{"a b/tool.yaml": tool}), result.CodeProfile, "", 0},
		"name of a server":    {whole(map[string]string{"servers/a b.yaml": tool}), result.CodeProfile, "", 0},
		"files that are none": {whole(map[string]string{"README.md": "x", ".git/x": "x", "T/README.md": "x", "T/A/examples/e.json": "x"}), "", "", 0},
	} {
		_, _, err := MakeIndex(set, write(t, c.files))
		var re *result.RunError
		if err != nil && !errors.As(err, &re) {
			t.Fatalf("%s: %v", name, err)
		}
		if re == nil {
			re = &result.RunError{}
		}
		pointer, _ := re.Details["pointer"].(string)
		line, _ := re.Details["line"].(int)
		if re.Code != c.code || pointer != c.pointer || c.line != line || re.Code != "" && re.Hint == "" {
			t.Errorf("%s: %s at %q line %d: %s (%s)", name, re.Code, pointer, line, re.Message, re.Hint)
		}
	}
}

// TestNotations: YAML and JSON of one document have one digest if their members have one
// order, and another digest if arg_mapping has another order.
func TestNotations(t *testing.T) {
	set := specstest.NewSpecs(t)
	digest := func(name, text string) canon.ContentHash {
		files := whole(map[string]string{"T/A.yaml": "", name: text})
		b, _, err := MakeIndex(set, write(t, files))
		if err != nil {
			t.Fatal(err)
		}
		var index Index
		if err := json.Unmarshal(b, &index); err != nil {
			t.Fatal(err)
		}
		return index.Tools[0].Adapters[0].SHA256
	}
	inJSON := `{"name":"a","adapter_id":"A","version":"1.0.0","tool_id":"T","type":"cli","interface":{"cli":{"executable":"a","arg_mapping":{"z":"{value}","b":"-b"}}}}`
	first := digest("T/A.yaml", cliA)
	if got := digest("T/A.json", inJSON); got != first {
		t.Errorf("JSON has %s, YAML %s", got, first)
	}
	flow := "adapter_id: A\nname: a\nversion: \"1.0.0\"\ntool_id: T\ntype: cli\ninterface: {cli: {executable: a, arg_mapping: {z: \"{value}\", b: \"-b\"}}}\n"
	if got := digest("T/A.yaml", flow); got != first {
		t.Errorf("YAML on one line has %s, on several %s", got, first)
	}
	if got := digest("T/A.json", strings.Replace(inJSON, `"z":"{value}","b":"-b"`, `"b":"-b","z":"{value}"`, 1)); got == first {
		t.Error("the order of the arguments is not in the digest")
	}
}

// served are an adapter that a server answers, and the server.
var served = map[string]string{
	"T/A.yaml":       "adapter_id: A\nname: a\nversion: \"1.0.0\"\ntool_id: T\ntype: mcp\ninterface:\n  mcp:\n    server: S\n    transport: stdio\n    tool_mapping:\n      r: read\n",
	"servers/S.yaml": "command: [s]\ntools:\n  read: \"" + string(canon.Sum(nil)) + "\"\n",
}

// TestStale: a registry uses no document that is not the one of its index, and reads no
// other document.
func TestStale(t *testing.T) {
	set := specstest.NewSpecs(t)
	made := func() string {
		dir := write(t, whole(map[string]string{"U/tool.yaml": strings.ReplaceAll(tool, ": T", ": U"), "U/A.yaml": strings.Replace(cliA, ": T", ": U", 1), "U/B.yaml": strings.Replace(cliB, ": T", ": U", 1)}))
		b, _, err := MakeIndex(set, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, IndexFile), b, 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		code   result.Code
	}{
		"nothing":          {func(string) error { return nil }, ""},
		"tool":             {put("T/tool.yaml", strings.Replace(tool, "name: t", "name: u", 1)), result.CodeProfile},
		"adapter":          {put("T/A.yaml", strings.Replace(cliA, "executable: a", "executable: b", 1)), result.CodeProfile},
		"order":            {put("T/A.yaml", strings.Replace(cliA, "      z: \"{value}\"\n      b: \"-b\"\n", "      b: \"-b\"\n      z: \"{value}\"\n", 1)), result.CodeProfile},
		"comment":          {put("T/A.yaml", "# x\n"+cliA), ""},
		"other adapter":    {put("T/B.yaml", "x"), ""},
		"other tool":       {put("U/tool.yaml", "x"), ""},
		"no adapter":       {func(dir string) error { return os.Remove(filepath.Join(dir, "T/A.yaml")) }, result.CodeProfile},
		"no index":         {func(dir string) error { return os.Remove(filepath.Join(dir, IndexFile)) }, result.CodeProfile},
		"index, no JSON":   {put(IndexFile, "{"), result.CodeNotJSON},
		"index, spaces":    {put(IndexFile, "{ }\n"), result.CodeProfile},
		"index, no member": {put(IndexFile, "{}\n"), result.CodeProfile},
		"index, no end":    {ends(""), result.CodeProfile},
		"index, two ends":  {ends("\n\n"), result.CodeProfile},
		"index, more":      {ends("\n{}\n"), result.CodeNotJSON},
		"index, too large": {ends("\n" + strings.Repeat(" ", maxIndex)), result.CodeUnreadable},
		"link": {func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "T/A.yaml"), filepath.Join(dir, "T/X.yaml")); err != nil {
				return err
			}
			return os.Symlink("X.yaml", filepath.Join(dir, "T/A.yaml"))
		}, result.CodeProfile},
		"link of a folder": {func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "T"), filepath.Join(dir, "X")); err != nil {
				return err
			}
			return os.Symlink("X", filepath.Join(dir, "T"))
		}, result.CodeProfile},
		"server": {func(dir string) error {
			return errors.Join(serve(set, dir), put("servers/S.yaml", strings.Replace(served["servers/S.yaml"], "[s]", "[t]", 1))(dir))
		}, result.CodeProfile},
		"pin of a server": {func(dir string) error {
			return errors.Join(serve(set, dir), put("servers/S.yaml", strings.Replace(served["servers/S.yaml"], string(canon.Sum(nil)), string(canon.Sum([]byte("x"))), 1))(dir))
		}, result.CodeProfile},
		"no server": {func(dir string) error {
			return errors.Join(serve(set, dir), os.Remove(filepath.Join(dir, "servers/S.yaml")))
		}, result.CodeProfile},
		"same server": {func(dir string) error { return serve(set, dir) }, ""},
		"server as link": {func(dir string) error {
			return errors.Join(serve(set, dir), os.Rename(filepath.Join(dir, "servers/S.yaml"), filepath.Join(dir, "servers/X.yaml")), os.Symlink("X.yaml", filepath.Join(dir, "servers/S.yaml")))
		}, result.CodeProfile},
	} {
		dir := made()
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		var re *result.RunError
		r, err := Open(set, dir)
		if err == nil {
			_, _, err = r.Bind("T", "A", nil)
			_ = r.Close()
		}
		if err != nil && !errors.As(err, &re) {
			t.Fatalf("%s: %v", name, err)
		}
		if re == nil && c.code != "" || re != nil && (re.Code != c.code || re.Hint == "" && re.Code != result.CodeNotJSON) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(set, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there is opened")
	}
}

// serve puts an adapter that a server answers into a folder, and indexes it.
func serve(set *specs.Set, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, "servers"), 0o755); err != nil {
		return err
	}
	for name, text := range served {
		if err := put(name, text)(dir); err != nil {
			return err
		}
	}
	b, _, err := MakeIndex(set, dir)
	return errors.Join(err, put(IndexFile, string(b))(dir))
}

func put(name, text string) func(dir string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
}

// ends gives the index another end than its line feed.
func ends(end string) func(dir string) error {
	return func(dir string) error {
		b, err := os.ReadFile(filepath.Join(dir, IndexFile))
		if err != nil {
			return err
		}
		return put(IndexFile, strings.TrimSuffix(string(b), "\n")+end)(dir)
	}
}

// TestReadOnce: a tool, an adapter or a server that changes after it was read makes no
// difference.
func TestReadOnce(t *testing.T) {
	set := specstest.NewSpecs(t)
	dir := write(t, whole(nil))
	if err := serve(set, dir); err != nil {
		t.Fatal(err)
	}
	r, err := Open(set, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	first := map[string]*Call{}
	for _, at := range []string{"A", "B"} {
		if first[at], _, err = r.Bind("T", at, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"T/tool.yaml", "T/A.yaml", "T/B.yaml", "servers/S.yaml", IndexFile} {
		if err := put(name, "changed: true\n")(dir); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range first {
		again, _, err := r.Bind("T", at, nil)
		if err != nil || again.Bound[0].RequestHash != want.Bound[0].RequestHash || again.Tool.SHA256 != want.Tool.SHA256 {
			t.Errorf("%s: %v %v", at, again, err)
		}
	}
	if s := first["A"].Bound[0].Adapter.Server; s == nil || s.Command[0] != "s" {
		t.Errorf("the server is %v", s)
	}
}

// TestListed: which addresses an adapter's list of hosts has.
func TestListed(t *testing.T) {
	for _, c := range []struct {
		address, entry string
		want           bool
	}{
		{"https://a.example/v1", "a.example", true}, {"https://A.Example", "a.example", true}, {"https://a.example:443", "a.example", true},
		{"https://a.example:8443", "a.example", false}, {"https://a.example:8443", "a.example:8443", true}, {"https://a.example", "a.example:443", true},
		{"https://x.a.example", "*.a.example", true}, {"https://a.example", "*.a.example", false}, {"https://y.x.a.example", "*.a.example", false},
		{"https://xa.example", "a.example", false}, {"http://localhost:8080", "private:localhost:8080", true}, {"http://localhost:8081", "private:localhost:8080", false},
		{"http://localhost", "localhost", false}, {"http://localhost:8080", "localhost:8080", false}, {"http://localhost", "private:localhost:80", true},
		{"https://127.0.0.1", "a.example", false}, {"http://a.example:80", "private:a.example:80", false}, {"https://b.example", "a.example", false},
	} {
		if got := listed(c.address, []string{c.entry}); got != c.want {
			t.Errorf("%s in %s: %v", c.address, c.entry, got)
		}
	}
}
