package profile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

const least = `{"name":"mine","allow_network":false,"timeout_ms":1000,"max_output_files":1,"max_total_output_bytes":1024,"allowed_commands":["node"],"allowed_write_roots":"*"}`

func schemas(t testing.TB) *specs.Set {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// asError requires an error of KindProfile. Its text must contain want and must not have a
// line break.
func asError(t *testing.T, err error, want string) *policy.Error {
	t.Helper()
	e, ok := errors.AsType[*policy.Error](err)
	switch {
	case !ok:
		t.Fatalf("error is %v, want a *policy.Error that contains %q", err, want)
	case e.Kind != policy.KindProfile:
		t.Errorf("kind is %q, want %q (%v)", e.Kind, policy.KindProfile, e)
	case !strings.Contains(e.Error(), want) || strings.ContainsAny(e.Error(), "\n\r"):
		t.Errorf("error %q does not contain %q in one line", e, want)
	}
	return e
}

func TestParseProfile(t *testing.T) {
	base := kernel.Profile{
		Name: "mine", TimeoutMS: 1000, MaxOutputFiles: 1, MaxTotalOutputBytes: 1024,
		AllowedCommands:   kernel.AllowList{Names: []string{"node"}},
		AllowedWriteRoots: kernel.AllowList{All: true},
		EnvAllow:          kernel.AllowList{Names: []string{}},
		ExecutionModes:    []string{"plan-only", "execute-sandbox"},
		ModelModes:        []string{"none"},
		ModelAdapters:     kernel.AllowList{Names: []string{}},
		RiskTags:          []string{},
		Severity:          map[string]kernel.Severity{},
		MemoryMB:          512, MaxChildren: 10, CPUCores: 1,
		Isolation: kernel.IsolationFull,
	}
	full := base
	full.AllowNetwork = true
	full.NetworkHosts, full.Registries = kernel.AllowList{Names: []string{"a.example"}}, []string{"b.example"}
	full.EnvAllow = kernel.AllowList{Names: []string{"CI", "A"}}
	full.ExecutionModes = []string{"plan-only"}
	full.ModelModes = []string{"record", "none"}
	full.ModelAdapters = kernel.AllowList{Names: []string{"b", "a"}}
	full.RiskTags = []string{"payment"}
	full.Severity = map[string]kernel.Severity{"PLACEHOLDER": "note"}
	full.MemoryMB, full.MaxChildren, full.CPUCores = 64, 0, 4
	full.Isolation = kernel.IsolationNone

	more := strings.TrimSuffix(least, "}")
	tests := []struct {
		name, src string
		want      kernel.Profile
	}{
		{"least", least, base},
		{"with $schema", more + `,"$schema":"profile.schema.json"}`, base},
		{"numbers in another form", strings.Replace(least, "1000", "1e3", 1), base},
		{"full", strings.Replace(more, "false", "true", 1) + `,"env_allow":["CI","A"],"execution_modes":["plan-only"],"model_modes":["record","none"],` +
			`"model_adapters":["b","a"],"risk_tags":["payment"],"severity":{"PLACEHOLDER":"note"},"memory_mb":64,"max_children":0,"cpu_cores":4,"isolation":"none","network_hosts":["a.example"],"registries":["b.example"]}`, full},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse([]byte(test.src), "mine", schemas(t))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("profile is\n%+v\nwant\n%+v", got, test.want)
			}
		})
	}
}

func TestParseProfileErrors(t *testing.T) {
	more := strings.TrimSuffix(least, "}")
	tests := []struct{ name, src, want string }{
		{"empty", "", ""},
		{"no JSON", "nope", "is not a JSON value"},
		{"too large", `"` + strings.Repeat("a", MaxBytes) + `"`, ""},
		{"duplicate member", more + `,"name":"mine"}`, "name"},
		{"not an object", `[]`, ""},
		{"another name", strings.Replace(least, `"mine"`, `"yours"`, 1), `profile is named "yours", but it is loaded as "mine"`},
		{"extends", more + `,"extends":"strict"}`, `a built-in profile extends no other`},
		{"unknown isolation", more + `,"isolation":"partial"}`, `"/isolation": must be one of "full", "confined", "none", not "partial"`},
		{"isolation in another case", more + `,"isolation":"None"}`, `"/isolation": `},
		{"empty isolation", more + `,"isolation":""}`, `"/isolation": `},
		{"isolation is a boolean", more + `,"isolation":false}`, `"/isolation": `},
		{"isolation is null", more + `,"isolation":null}`, `"/isolation": `},
		{"unknown member", more + `,"timeout":1}`, `"/timeout": unknown member "timeout"; did you mean "timeout_ms"`},
		{"no commands", strings.Replace(least, `["node"]`, `[]`, 1), "/allowed_commands"},
		{"wrong star", strings.Replace(least, `"*"`, `"**"`, 1), "/allowed_write_roots"},
		{"timeout too small", strings.Replace(least, "1000", "999", 1), "/timeout_ms"},
		{"timeout is a text", strings.Replace(least, "1000", `"1000"`, 1), "/timeout_ms"},
		{"timeout is a fraction", strings.Replace(least, "1000", "1000.5", 1), "/timeout_ms"},
		{"unknown severity", more + `,"severity":{"PLACEHOLDER":"ignore"}}`, "/severity/PLACEHOLDER"},
		{"unknown mode", more + `,"model_modes":["all"]}`, "/model_modes/0"},
	}
	for _, name := range []string{"allow_network", "timeout_ms", "max_output_files", "max_total_output_bytes", "allowed_commands", "allowed_write_roots"} {
		src := least
		for _, member := range strings.SplitAfter(strings.Trim(least, "{}"), ",") {
			if strings.HasPrefix(member, `"`+name+`"`) {
				src = strings.Replace(strings.Replace(src, member, "", 1), ",}", "}", 1)
			}
		}
		tests = append(tests, struct{ name, src, want string }{"without " + name, src, `member "` + name + `" is missing`})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := Parse([]byte(test.src), "mine", schemas(t))
			e := asError(t, err, test.want)
			t.Log(e)
			if !reflect.DeepEqual(p, kernel.Profile{}) {
				t.Errorf("a profile stands beside the error: %+v", p)
			}
			for _, goText := range []string{"json:", "invalid character", "strconv", "unmarshal", "map["} {
				if strings.Contains(err.Error(), goText) {
					t.Errorf("error %q has text of the Go runtime", err)
				}
			}
		})
	}
}

func TestLoadProfile(t *testing.T) {
	fsys := fstest.MapFS{"a/mine/profile.json": {Data: []byte(least)}, "a/other/profile.json": {Data: []byte(least)}}
	p, err := Load(fsys, "a/mine", schemas(t))
	if err != nil || p.Name != "mine" {
		t.Errorf("profile %+v, error %v", p, err)
	}
	_, err = Load(fsys, "a/other", schemas(t))
	asError(t, err, `a/other/profile.json: profile is named "mine"`)
	_, err = Load(fsys, "a/none", schemas(t))
	asError(t, err, "a/none/profile.json: profile cannot be read")
}

// TestBuiltinProfiles loads the three built-in profiles and compares them with the
// table of specs/policy-profile.md.
func TestBuiltinProfiles(t *testing.T) {
	star := kernel.AllowList{All: true}
	list := func(names ...string) kernel.AllowList { return kernel.AllowList{Names: names} }
	tests := []struct {
		name                 string
		timeout, files, size int
		commands, roots, env kernel.AllowList
		models               string
		isolation            kernel.Isolation
	}{
		{"strict", 30000, 200, 10485760, list("node", "npm"), list("out", "dist", "build"), list(), "none", kernel.IsolationFull},
		{"default", 60000, 500, 52428800, list("node", "npm", "npx"), list("out", "dist", "build", "tmp"), list(), "none", kernel.IsolationFull},
		{"dev", 300000, 1000, 104857600, star, star, star, "none record replay", kernel.IsolationConfined},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := Load(os.DirFS("../../profiles"), test.name, schemas(t))
			if err != nil {
				t.Fatal(err)
			}
			if p.AllowNetwork || p.TimeoutMS != test.timeout || p.MaxOutputFiles != test.files || p.MaxTotalOutputBytes != test.size {
				t.Errorf("profile is %+v", p)
			}
			for _, l := range []struct {
				name      string
				got, want kernel.AllowList
			}{
				{"allowed_commands", p.AllowedCommands, test.commands},
				{"allowed_write_roots", p.AllowedWriteRoots, test.roots},
				{"env_allow", p.EnvAllow, test.env},
			} {
				if l.got.All != l.want.All || strings.Join(l.got.Names, " ") != strings.Join(l.want.Names, " ") {
					t.Errorf("%s is %+v, want %+v", l.name, l.got, l.want)
				}
			}
			if got := strings.Join(p.ModelModes, " "); got != test.models {
				t.Errorf("model modes are %q, want %q", got, test.models)
			}
			if p.Isolation != test.isolation {
				t.Errorf("isolation is %q, want %q", p.Isolation, test.isolation)
			}
		})
	}
}

func FuzzParseProfile(f *testing.F) {
	for _, name := range []string{"strict", "default", "dev"} {
		src, err := fs.ReadFile(os.DirFS("../../profiles"), name+"/profile.json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src, name)
	}
	f.Add([]byte(least), "mine")
	f.Add([]byte(`{"name":"mine","extends":"strict"}`), "mine")
	f.Add([]byte(`{"name":"mine","allowed_commands":[]}`), "mine")
	f.Add([]byte("\xef\xbb\xbf{}"), "")
	set := schemas(f)
	f.Fuzz(func(t *testing.T, src []byte, name string) {
		p, err := Parse(src, name, set)
		if err != nil {
			var e *policy.Error
			if !errors.As(err, &e) || e.Kind != policy.KindProfile || strings.ContainsAny(e.Error(), "\n\r\x1b") {
				t.Fatalf("error is %#v", err)
			}
			return
		}
		if p.Name != name || !contract.TimeoutMS().Holds(p.TimeoutMS) || !contract.MaxOutputFiles().Holds(p.MaxOutputFiles) ||
			!contract.MaxTotalOutputBytes().Holds(p.MaxTotalOutputBytes) || !contract.MemoryMB().Holds(p.MemoryMB) ||
			!contract.MaxChildren().Holds(p.MaxChildren) || !contract.CPUCores().Holds(p.CPUCores) {
			t.Fatalf("profile is out of bounds: %+v", p)
		}
		if !p.Isolation.AtLeast(kernel.IsolationNone) {
			t.Fatalf("isolation is %q", p.Isolation)
		}
		if (len(p.AllowedCommands.Names) == 0) != p.AllowedCommands.All || (len(p.AllowedWriteRoots.Names) == 0) != p.AllowedWriteRoots.All {
			t.Fatalf("a list allows nothing, or all beside names: %+v", p)
		}
		doc, err := canon.Parse(src, MaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(doc.Bytes(), name, set)
		if err != nil {
			t.Fatalf("canonical form: %v", err)
		}
		a, _, err := canon.Artifact(p)
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := canon.Artifact(again)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("canonical form gives another profile:\n%s\n%s", a, b)
		}
	})
}

// TestFrozenAdapters: a resolved profile with a list of adapters reads from the same
// bytes as before "*" became one of the values.
func TestFrozenAdapters(t *testing.T) {
	for text, want := range map[string]kernel.AllowList{
		`[]`: {Names: []string{}}, `["search","ask"]`: {Names: []string{"search", "ask"}}, `["*"]`: {Names: []string{"*"}}, `"*"`: {All: true},
	} {
		p, err := Parse([]byte(least), "mine", schemas(t))
		if err != nil {
			t.Fatal(err)
		}
		artifact, _, err := canon.Artifact(p)
		if err != nil {
			t.Fatal(err)
		}
		old := bytes.Replace(artifact, []byte(`"model_adapters":[]`), []byte(`"model_adapters":`+text), 1)
		got, err := ReadFrozen(old)
		if err != nil || !reflect.DeepEqual(got.ModelAdapters, want) {
			t.Errorf("%s is read as %+v, error %v", text, got.ModelAdapters, err)
		}
		if again, _, err := canon.Artifact(got); err != nil || !bytes.Equal(again, old) {
			t.Errorf("%s is written as %s, error %v", text, again, err)
		}
	}
	if (kernel.AllowList{Names: []string{"*"}}).Contains("search") {
		t.Error(`a list with the name "*" is everything`)
	}
}
