package settings_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/settings"
)

const line = `'/opt/fiador' hook claude-code || exit 2`

type hook struct {
	Matcher string    `json:"matcher"`
	Hooks   []command `json:"hooks"`
}

type command struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Timeout int    `json:"timeout"`
}

// hookEntry is the entry of a hook at a path.
func hookEntry(timeout int, path ...string) settings.Entry {
	return settings.Entry{Path: path, Value: hook{"*", []command{{"command", line, timeout}}}, Ours: func(v any) bool {
		text, err := json.Marshal(v)
		return err == nil && strings.Contains(string(text), "/opt/fiador")
	}}
}

func wrap(server string) settings.Wrap {
	return settings.Wrap{Path: []string{"mcpServers", server}, Command: "/opt/fiador", Args: []string{"mcp", "gate", "--server", server, "--"},
		Ours: func(command string, args []string) int {
			if command != "/opt/fiador" {
				return -1
			}
			return slices.Index(args, "--") + 1
		}}
}

// kinds are the edits that clients need.
var kinds = map[string][]settings.Edit{
	"hook":   {hookEntry(30, "hooks", "PreToolUse")},
	"hooks":  {hookEntry(30, "hooks", "PreToolUse"), hookEntry(9, "hooks", "Other"), hookEntry(7, "deeper", "and", "deeper")},
	"cursor": {settings.Entry{Name: "version", Value: 1}, hookEntry(30, "hooks", "preToolUse")},
	"server": {settings.Entry{Path: []string{"mcpServers"}, Name: "fiador", Value: command{"stdio", "/opt/fiador", 1}, Ours: hookEntry(0).Ours}},
	"wrap":   {wrap("one"), wrap("two")},
}

// place returns a file at a path beneath a new folder, with a text unless it is nil.
func place(t testing.TB, name string, text []byte) (settings.File, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	if text != nil {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return settings.File{Root: root, Name: name}, dir
}

// tree returns the texts of all files beneath a folder, and its folders with "/".
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			got[name+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(path)
		got[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func must(t testing.TB) func(settings.Change, error) settings.Change {
	return func(c settings.Change, err error) settings.Change {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// value reads a text by another reader than the package does.
func value(t testing.TB, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if text = strings.TrimPrefix(text, mark); strings.TrimSpace(text) != "" {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	return v
}

// TestFiles: over all files and kinds of edits, Apply adds the edits to the value, takes no
// byte away, and changes nothing the second time. Remove gives the old bytes, and leaves
// nothing behind.
func TestFiles(t *testing.T) {
	if len(files) < 50 {
		t.Fatalf("only %d files", len(files))
	}
	for what, text := range files {
		for kind, edits := range kinds {
			if kind == "wrap" && !strings.Contains(text, `"two"`) {
				continue
			}
			t.Run(what+"/"+kind, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				f, dir := place(t, "s.json", []byte(text))
				before := tree(t, dir)
				dry := f
				dry.DryRun = true
				planned := must(t)(dry.Apply(ctx, edits...))
				if got := tree(t, dir); !maps.Equal(got, before) {
					t.Fatalf("a dry run wrote %q", got)
				}
				c := must(t)(f.Apply(ctx, edits...))
				after := tree(t, dir)
				if string(c.Before) != text || string(planned.After) != after["s.json"] || string(c.After) != after["s.json"] || after["s.json.fiador-backup"] != text || len(after) != 2 {
					t.Fatalf("%+v, files %q", c, after)
				}
				added(t, text, after["s.json"], kind)
				if c := must(t)(f.Apply(ctx, edits...)); string(c.After) != string(c.Before) || !maps.Equal(tree(t, dir), after) {
					t.Errorf("the second time: %q", c.After)
				}
				must(t)(f.Remove(ctx, edits...))
				if got := tree(t, dir); !maps.Equal(got, before) {
					t.Errorf("removed:\n%q, want\n%q, was\n%q", got, before, after)
				}
			})
		}
	}
}

// added fails the test unless after is text and edits of a kind.
func added(t *testing.T, text, after, kind string) {
	t.Helper()
	if rest := after; kind != "wrap" && strings.TrimLeft(strings.TrimPrefix(text, mark), " \t\r\n") != "" {
		for _, c := range []byte(text) { // all bytes are there, in their order
			i := strings.IndexByte(rest, c)
			if i < 0 {
				t.Fatalf("bytes are missing from %q", after)
			}
			rest = rest[i+1:]
		}
	}
	want, got := value(t, text), value(t, after)
	sub := func(m map[string]any, name string) map[string]any {
		if m[name] == nil {
			m[name] = map[string]any{}
		}
		return m[name].(map[string]any)
	}
	one := func(m map[string]any, name string, timeout int) {
		list, _ := m[name].([]any)
		m[name] = append(list, any(value(t, string(encoded(t, hookEntry(timeout).Value)))))
	}
	switch kind {
	case "hook":
		one(sub(want, "hooks"), "PreToolUse", 30)
	case "hooks":
		one(sub(want, "hooks"), "PreToolUse", 30)
		one(sub(want, "hooks"), "Other", 9)
		one(sub(sub(want, "deeper"), "and"), "deeper", 7)
	case "cursor":
		want["version"] = 1.0
		one(sub(want, "hooks"), "preToolUse", 30)
	case "server":
		sub(want, "mcpServers")["fiador"] = map[string]any{"command": "/opt/fiador", "timeout": 1.0, "type": "stdio"}
	case "wrap":
		for _, name := range []string{"one", "two"} {
			server := sub(sub(want, "mcpServers"), name)
			old, _ := server["args"].([]any)
			server["args"] = append([]any{"mcp", "gate", "--server", name, "--", server["command"]}, old...)
			server["command"] = "/opt/fiador"
		}
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("the value is\n%v, want\n%v", got, want)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestLooks: what a user sees in the file.
func TestLooks(t *testing.T) {
	small := settings.Entry{Path: []string{"hooks", "Pre"}, Value: struct {
		Run  string   `json:"run"`
		None []string `json:"none"`
	}{"us", []string{}}, Ours: func(any) bool { return false }}
	for text, want := range map[string]string{
		"":                                       "{\n  \"hooks\": {\n    \"Pre\": [\n      {\n        \"none\": [],\n        \"run\": \"us\"\n      }\n    ]\n  }\n}\n",
		"{\r\n\t\"a\": 1\r\n}":                   "{\r\n\t\"a\": 1,\r\n\t\"hooks\": {\r\n\t\t\"Pre\": [\r\n\t\t\t{\r\n\t\t\t\t\"none\": [],\r\n\t\t\t\t\"run\": \"us\"\r\n\t\t\t}\r\n\t\t]\r\n\t}\r\n}",
		`{"a":1}`:                                `{"a":1,"hooks":{"Pre":[{"none":[],"run":"us"}]}}`,
		"{\n    \"hooks\": {},\n    \"b\": 2\n}": "{\n    \"hooks\": {\n        \"Pre\": [\n            {\n                \"none\": [],\n                \"run\": \"us\"\n            }\n        ]\n    },\n    \"b\": 2\n}",
		"{\n  \"hooks\": {\"Pre\": [1, 2]}\n}":   "{\n  \"hooks\": {\"Pre\": [1, 2, {\"none\":[],\"run\":\"us\"}]}\n}",
		"{\n  \"hooks\": {\n    \"Pre\": [\n      1\n    ]\n  }\n}": "{\n  \"hooks\": {\n    \"Pre\": [\n      1,\n      {\n        \"none\": [],\n        \"run\": \"us\"\n      }\n    ]\n  }\n}",
	} {
		f, dir := place(t, "f", []byte(text))
		must(t)(f.Apply(t.Context(), small))
		if got := tree(t, dir)["f"]; got != want {
			t.Errorf("%q becomes\n%s\nwant\n%s", text, got, want)
		}
	}
	f, dir := place(t, "f", []byte(files["servers of MCP, four spaces, lists"]))
	must(t)(f.Apply(t.Context(), kinds["wrap"]...))
	want := `{
    "mcpServers": {
        "one": {
            "command": "/opt/fiador",
            "args": [
                "mcp",
                "gate",
                "--server",
                "one",
                "--",
                "npx",
                "-y",
                "server-one"
            ]
        },
        "two": {
            "args": [
                "mcp",
                "gate",
                "--server",
                "two",
                "--",
                "uvx"
            ],
            "command": "/opt/fiador"
        }
    }
}`
	if got := tree(t, dir)["f"]; got != want {
		t.Errorf("wrapped:\n%s", got)
	}
}

// TestAbsent: a missing file and its folders are made and removed again. If a user has
// added something, it stays.
func TestAbsent(t *testing.T) {
	ctx, edits := t.Context(), kinds["cursor"]
	f, dir := place(t, ".cursor/a/hooks.json", nil)
	if c := must(t)(f.Remove(ctx, edits...)); c.Before != nil || c.After != nil {
		t.Errorf("%+v", c)
	}
	c := must(t)(f.Apply(ctx, edits...))
	if got := tree(t, dir); c.Before != nil || len(got) != 3 || got[f.Name] != string(c.After) || !strings.HasPrefix(string(c.After), "{\n  \"version\": 1,") && !strings.Contains(string(c.After), "\"version\": 1") {
		t.Errorf("%+v, %q", c, got)
	}
	if text, err := settings.Snippet(edits...); err != nil || text != string(c.After) {
		t.Errorf("the snippet is %q, %v", text, err)
	}
	if c := must(t)(f.Remove(ctx, edits...)); c.After != nil || len(tree(t, dir)) > 0 {
		t.Errorf("%+v leaves %q", c, tree(t, dir))
	}
	must(t)(f.Apply(ctx, edits...))
	if err := os.WriteFile(filepath.Join(dir, ".cursor/mcp.json"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	must(t)(f.Remove(ctx, edits...))
	if got := tree(t, dir); len(got) != 2 {
		t.Errorf("left: %q", got)
	}
	must(t)(f.Apply(ctx, edits...))
	if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(strings.Replace(string(c.After), "1,", "2,", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t)(f.Remove(ctx, edits...))
	if got := tree(t, dir); strings.Contains(got[f.Name], "fiador") || got[f.Name] == "" {
		t.Errorf("a file that the user changed: %q", got)
	}
}

// TestChangedBetween: what was changed between Apply and Remove stays, and the backup too.
func TestChangedBetween(t *testing.T) {
	ctx := t.Context()
	for what, c := range map[string]struct{ old, from, to, want string }{
		"a member behind":       {"{\n  \"a\": 1\n}\n", "\n  }\n}", "\n  },\n  \"b\": 2\n}", "{\n  \"a\": 1,\n  \"b\": 2\n}\n"},
		"another value":         {"{\n  \"a\": 1\n}\n", "1", "2", "{\n  \"a\": 2\n}\n"},
		"an element behind":     {`{"hooks":{"PreToolUse":[1]}}`, "]}}", ",2]}}", `{"hooks":{"PreToolUse":[1,2]}}`},
		"an element in front":   {`{"a":1}`, `"PreToolUse":[`, `"PreToolUse":[2, `, `{"a":1,"hooks":{"PreToolUse":[2]}}`},
		"another event":         {`{"a":1}`, `"hooks":{`, `"hooks":{"Stop":[],`, `{"a":1,"hooks":{"Stop":[]}}`},
		"the member in front":   {`{"a":1}`, `"a":1,`, ``, `{}`},
		"a second one of ours":  {`{"a":1}`, `"PreToolUse":[`, `"PreToolUse":["/opt/fiador",5,`, `{"a":1,"hooks":{"PreToolUse":[5]}}`},
		"all written otherwise": {`{"a":1}`, `{"a":1,"hooks":{"PreToolUse":[`, "{\n\"hooks\":\n{\"PreToolUse\":\t[ ", "{}"},
	} {
		t.Run(what, func(t *testing.T) {
			f, dir := place(t, "f", []byte(c.old))
			after := string(must(t)(f.Apply(ctx, kinds["hook"]...)).After)
			changed := strings.Replace(after, c.from, c.to, 1)
			if changed == after {
				t.Fatalf("nothing changed in %q", after)
			}
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			must(t)(f.Remove(ctx, kinds["hook"]...))
			if got := tree(t, dir); got["f"] != c.want || got["f.fiador-backup"] != c.old {
				t.Errorf("%q became %q, want %q", changed, got, c.want)
			}
			must(t)(f.Apply(ctx, kinds["hook"]...))
			if got := tree(t, dir); got["f.fiador-backup"] != c.old {
				t.Errorf("the backup was overwritten: %q", got)
			}
			must(t)(f.Remove(ctx, kinds["hook"]...))
			if got := tree(t, dir); got["f"] != c.want {
				t.Errorf("the second time: %q, want %q", got, c.want)
			}
		})
	}
}

// TestOlder: an entry of another version is replaced, of several one stays, and Remove gives
// the old bytes. So does each of two edits that were put in one after the other.
func TestOlder(t *testing.T) {
	ctx, text := t.Context(), files["servers of MCP, odd"]
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		f, dir := place(t, "f", []byte(text))
		older := wrap("one")
		older.Args = []string{"old", "--"}
		must(t)(f.Apply(ctx, older))
		must(t)(f.Apply(ctx, wrap("one"), hookEntry(30, "hooks")))
		must(t)(f.Apply(ctx, wrap("two"), hookEntry(31, "hooks")))
		got := tree(t, dir)["f"]
		if strings.Contains(got, "old") || strings.Contains(got, "30") || strings.Count(got, "exit 2") != 1 {
			t.Errorf("updated: %q", got)
		}
		must(t)(f.Remove(ctx, hookEntry(1, "hooks")))
		for _, i := range order {
			must(t)(f.Remove(ctx, kinds["wrap"][i]))
		}
		if got := tree(t, dir); len(got) != 1 || got["f"] != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}

// TestOlderAlone: a file that Apply made, with an entry of another version, has no backup,
// and Remove removes it. If the backup is gone, the next one is the file without the entry.
func TestOlderAlone(t *testing.T) {
	ctx := t.Context()
	f, dir := place(t, "d/f", nil)
	must(t)(f.Apply(ctx, hookEntry(1, "hooks")))
	must(t)(f.Apply(ctx, hookEntry(2, "hooks")))
	if got := tree(t, dir); len(got) != 2 || !strings.Contains(got["d/f"], `"timeout": 2`) {
		t.Errorf("%q", got)
	}
	must(t)(f.Remove(ctx, hookEntry(3, "hooks")))
	if got := tree(t, dir); len(got) > 0 {
		t.Errorf("%q", got)
	}
	f, dir = place(t, "f", []byte(`{"a": 1}`))
	must(t)(f.Apply(ctx, hookEntry(1, "hooks")))
	if err := os.Remove(filepath.Join(dir, "f.fiador-backup")); err != nil {
		t.Fatal(err)
	}
	must(t)(f.Apply(ctx, hookEntry(2, "hooks")))
	if got := tree(t, dir); got["f.fiador-backup"] != `{"a": 1}` {
		t.Errorf("%q", got)
	}
}

// TestMeanwhile: a file that another program writes while Apply or Remove works keeps that
// program's text, and nothing is left behind.
func TestMeanwhile(t *testing.T) {
	f, dir := place(t, "f", nil)
	e, n, failed := hookEntry(1, "hooks"), 0, 0
	other := func() string { return `{"hooks":[` + strconv.Itoa(n) + `]}` }
	e.Ours = func(any) bool {
		n++
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte(other()), 0o644); err != nil {
			t.Error(err)
		}
		return n%2 == 0
	}
	for _, change := range []func(context.Context, ...settings.Edit) (settings.Change, error){f.Apply, f.Remove} {
		for range 2 { // each begins with another answer of Ours
			n++
			if err := os.WriteFile(filepath.Join(dir, "f"), []byte(other()), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := change(t.Context(), e)
			if err != nil {
				failed++
			}
			if got := tree(t, dir); got["f"] != other() || len(got) != 1 || err != nil && !strings.Contains(err.Error(), "try again") {
				t.Errorf("%q, %v, want %q", got, err, other())
			}
		}
	}
	if failed == 0 {
		t.Error("no change met another program")
	}
}

// TestRefused: what is refused keeps its bytes, and the message names the file, the place
// and the remedy.
func TestRefused(t *testing.T) {
	type prepared = func(t *testing.T, dir, name string)
	text := func(s string) prepared {
		return func(t *testing.T, dir, name string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for what, c := range map[string]struct {
		make prepared
		want string
	}{
		"a comment":              {text("{\n  // mine\n  \"a\": 1\n}"), `line 2, column 3: found "/" where a member name in double quotes or } must stand; JSON has no comments`},
		"a comment of blocks":    {text(`{"a": /* x */ 1}`), "line 1, column 7, /a: found "},
		"a name twice":           {text(`{"a":{"b":1,"\u0062":2}}`), `line 1, column 13, /a/b: member "b" stands twice in one object; keep one of them`},
		"a comma too many":       {text(`{"a":1,}`), "line 1, column 7: found a comma before }; remove it"},
		"half a file":            {text(`{"a":`), "line 1, column 6, /a: the text ends where a value must stand"},
		"behind a mark":          {text(mark + `{"a":tru}`), `line 1, column 6, /a: "tru" is not a JSON value; use true, false, null, a number, or a string in double quotes`},
		"UTF-16":                 {text("\xff\xfe{\x00}\x00"), "UTF-16 byte order mark"},
		"an array":               {text(`[1]`), `line 1, column 1: an object must stand here`},
		"hooks of another type":  {text(`{"hooks":[]}`), `line 1, column 10, /hooks: an object must stand here`},
		"hooks are null":         {text(`{"hooks":null}`), `line 1, column 10, /hooks: an object must stand here`},
		"the list is an object":  {text(`{"hooks":{"PreToolUse":{}}}`), `line 1, column 24, /hooks/PreToolUse: an array must stand here`},
		"behind a mark, a place": {text(mark + `{"hooks":1}`), `line 1, column 10, /hooks: `},
		"the name is taken":      {text(`{"m":{"fiador":"x"}}`), `line 1, column 16, /m/fiador: a member that is not Fiador's has this name`},
		"no command":             {text(`{"s":{"url":"x"}}`), `line 1, column 6, /s: an object with the text "command" must stand here`},
		"args of another type":   {text(`{"s":{"command":"x","args":"y"}}`), `line 1, column 28, /s/args: an array of texts must stand here`},
		"args of numbers":        {text(`{"s":{"command":"x","args":[1]}}`), `an array of texts must stand here`},
		"too large":              {text(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`), "more than 1048576 bytes"},
		"too large with us":      {text(`{"a":"` + strings.Repeat("x", 1<<20-10) + `"}`), "the limit is 1048576"},
		"a folder": {func(t *testing.T, dir, name string) {
			if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
	} {
		t.Run(what, func(t *testing.T) {
			f, dir := place(t, "f.json", nil)
			c.make(t, dir, f.Name)
			refused(t, f, dir, c.want)
		})
	}
}

// refused fails the test unless the file is refused with a message, and stays.
func refused(t *testing.T, f settings.File, dir, want string) {
	t.Helper()
	before := tree(t, dir)
	_, err := f.Apply(context.Background(), hookEntry(1, "hooks", "PreToolUse"),
		settings.Entry{Path: []string{"m"}, Name: "fiador", Value: 1, Ours: func(any) bool { return false }},
		settings.Wrap{Path: []string{"s"}, Command: "x", Ours: func(string, []string) int { return -1 }})
	var r *settings.Refused
	if !errors.As(err, &r) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `"`+f.Name+`" is not changed: `) ||
		!strings.HasSuffix(err.Error(), "put the entry in by hand") {
		t.Errorf("%v, want %s", err, want)
	}
	if got := tree(t, dir); !maps.Equal(got, before) {
		t.Errorf("changed: %q", got)
	}
}
