package harness_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

func modulesOf(p result.Provenance) []string {
	var names []string
	for _, m := range p.Modules {
		if !strings.HasPrefix(m.Name, "builtin/") {
			names = append(names, m.Name)
		}
	}
	return names
}

// TestSources opens valid sources, and checks the profile, the layers and the names in the
// provenance.
func TestSources(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	org := func(name string) policy.Folder {
		return *harnesstest.Folder(map[string]string{"rules.rego": harnesstest.Asking("gate.org." + name), "below/more.rego": "package gate.org." + name + "\n" + harnesstest.Quiet("MORE"), "rules_test.rego": "package x"})
	}
	repo := harnesstest.Folder(map[string]string{"rules.rego": harnesstest.Asking("gate.repo.tree")})
	whole := `{"name":"whole","allow_network":false,"timeout_ms":1000,"max_output_files":1,"max_total_output_bytes":1024,"allowed_commands":"*","allowed_write_roots":["a"]}`
	tests := []struct {
		name    string
		src     harness.Sources
		profile string
		extends string
		modules string
	}{
		{"built in", harness.Sources{Profile: "default"}, "default", "", ""},
		{"built in, with a file that is not looked at", harness.Sources{Profile: "dev", File: "x.json"}, "dev", "", ""},
		{"data and Rego", harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal, "a.rego": harnesstest.Asking("gate.user.mine"), "b/c.rego": "package gate.user.mine\n" + harnesstest.Quiet("CC")}), "mine", "strict", "user/mine/a.rego user/mine/b/c.rego"},
		{"data alone", harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal, "README.md": "x", "a_test.rego": "package x"}), "mine", "strict", ""},
		{"whole", harnesstest.Mine(map[string]string{"profile.json": whole}), "whole", "", ""},
		{"a hyphen in the name", harnesstest.Mine(map[string]string{"profile.json": `{"name":"my-own_1","extends":"dev"}`, "a.rego": harnesstest.Asking("gate.user.my_own_1")}), "my-own_1", "dev", "user/my_own_1/a.rego"},
		{"another file", harness.Sources{User: harnesstest.Folder(map[string]string{"ci.json": harnesstest.Minimal, "profile.json": "broken", "a.rego": "broken"}), File: "ci.json"}, "mine", "strict", ""},
		{"a file below", harness.Sources{User: harnesstest.Folder(map[string]string{"ci/profile.json": harnesstest.Minimal, "a.rego": "broken"}), File: "ci/profile.json"}, "mine", "strict", ""},
		{"organisation", harness.Sources{Profile: "strict", Org: []policy.Folder{org("acme")}}, "strict", "", "org/acme/below/more.rego org/acme/rules.rego"},
		{"two organisations", harness.Sources{Profile: "strict", Org: []policy.Folder{org("b"), org("a")}}, "strict", "", "org/a/below/more.rego org/a/rules.rego org/b/below/more.rego org/b/rules.rego"},
		{"tree", harness.Sources{Profile: "strict", Repo: repo}, "strict", "", "repo/tree/rules.rego"},
		{"all", harness.Sources{User: harnesstest.Folder(map[string]string{"profile.json": harnesstest.Minimal, "a.rego": harnesstest.Asking("gate.user.mine")}), File: harness.ProfileFile, Org: []policy.Folder{org("acme")}, Repo: repo},
			"mine", "strict", "org/acme/below/more.rego org/acme/rules.rego repo/tree/rules.rego user/mine/a.rego"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.src.Builtin = profiles.FS()
			o, err := test.src.Read(set, harnesstest.Endless())
			if err != nil {
				t.Fatal(err)
			}
			r, err := test.src.Resolve(set)
			if err != nil || !reflect.DeepEqual(r, o.Resolved) || r.Profile.Name != test.profile || r.Extends != test.extends {
				t.Errorf("resolved %+v, opened %+v, error %v", r, o.Resolved, err)
			}
			if (o.Origins == nil) != (test.src.User == nil) {
				t.Errorf("origins %+v", o.Origins)
			}
			if o.Layers[0].Package != policy.Builtin || !o.Layers[0].Embedded {
				t.Errorf("the first layer is %s", o.Layers[0].Package)
			}
			for _, l := range o.Layers[1:] {
				if l.Embedded || len(l.Modules) == 0 {
					t.Errorf("layer %s with %d modules, embedded %v", l.Package, len(l.Modules), l.Embedded)
				}
			}
			gate, err := harness.OpenGate(t.Context(), test.src, set, harnesstest.Endless())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(modulesOf(gate.Provenance), " "); got != test.modules {
				t.Errorf("modules %s, want %s", got, test.modules)
			}
			if len(gate.Provenance.Modules) < 2 || !reflect.DeepEqual(gate.Profile, o.Profile) {
				t.Errorf("gate %+v", gate)
			}
			if _, digest, err := canon.Artifact(gate.Profile); err != nil || digest != gate.Provenance.ProfileSHA256 {
				t.Errorf("the profile's digest is %s, want %s (%v)", gate.Provenance.ProfileSHA256, digest, err)
			}
		})
	}
}

// TestSourcesErrors: every error is RUN_E004. It names the file, and the line if there is
// one.
func TestSourcesErrors(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	user := func(json string) harness.Sources { return harnesstest.Mine(map[string]string{"profile.json": json}) }
	withRego := func(src string) harness.Sources {
		return harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal, "a.rego": src})
	}
	special := func(name string, file *fstest.MapFile) harness.Sources {
		s := harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal})
		s.User.FS.(fstest.MapFS)[name] = file
		return s
	}
	org := func(files ...map[string]string) harness.Sources {
		s := harness.Sources{Profile: "strict"}
		for _, f := range files {
			s.Org = append(s.Org, *harnesstest.Folder(f))
		}
		return s
	}
	acme := map[string]string{"a.rego": harnesstest.Asking("gate.org.acme")}
	large := strings.Repeat(" ", profile.MaxBytes) + harnesstest.Minimal
	tests := []struct {
		name string
		src  harness.Sources
		want string
		file string // of the details
		line int
	}{
		{"no profile", harness.Sources{}, `unknown profile ""`, "", 0},
		{"unknown profile", harness.Sources{Profile: "stric"}, `unknown profile "stric"`, "", 0},
		{"the built-in folder", harness.Sources{Profile: "builtin"}, `unknown profile "builtin"`, "", 0},

		{"no profile.json", harnesstest.Mine(map[string]string{"a.rego": "x"}), "policy: shown/profile.json: there is no such file: a profile is a folder with a profile.json", "shown/profile.json", 0},
		{"not a regular file", special("profile.json", &fstest.MapFile{Mode: fs.ModeDir}), "policy: shown/profile.json: profile is not a regular file", "shown/profile.json", 0},
		{"a pipe", special("profile.json", &fstest.MapFile{Mode: fs.ModeNamedPipe}), "profile is not a regular file", "shown/profile.json", 0},
		{"a device", special("profile.json", &fstest.MapFile{Mode: fs.ModeDevice}), "profile is not a regular file", "shown/profile.json", 0},
		{"too large", user(large), "shown/profile.json: profile has 1048610 bytes; the limit is 1048576", "shown/profile.json", 0},
		{"empty", user(""), "shown/profile.json:1:1: ", "shown/profile.json", 1},
		{"not JSON", user("{"), "shown/profile.json:1:2: ", "shown/profile.json", 1},
		{"byte order mark", user("\ufeff" + harnesstest.Minimal), "shown/profile.json:1:1: ", "shown/profile.json", 1},
		{"a member twice", user(`{"name":"mine","name":"mine","extends":"dev"}`), "shown/profile.json:1:16: ", "shown/profile.json", 1},
		{"unknown member", user(`{"name":"mine","extends":"dev","comands":[]}`), `shown/profile.json:1:42: "/comands": unknown member "comands"`, "shown/profile.json", 1},
		{"reserved name", user(`{"name":"dev","extends":"dev"}`), `shown/profile.json:1:9: the name "dev" is that of a built-in profile`, "shown/profile.json", 1},
		{"extends nobody", user(`{"name":"mine","extends":"mine"}`), `shown/profile.json:1:26: "/extends": `, "shown/profile.json", 1},
		{"nothing left", user(`{"name":"mine","extends":"strict","allowed_commands":["bash"]}`), `nothing is left of it: "strict" allows only node, npm`, "shown/profile.json", 1},
		{"member missing", user(`{"name":"mine"}`), `shown/profile.json: member "allow_network" is missing`, "shown/profile.json", 0},

		{"Rego of another package", withRego(harnesstest.Asking("gate.user.other")), `policy: shown/a.rego:1: package "gate.user.other" does not belong to layer "gate.user.mine"`, "shown/a.rego", 1},
		{"Rego with a hyphen", harnesstest.Mine(map[string]string{"profile.json": `{"name":"my-own","extends":"dev"}`, "a.rego": harnesstest.Asking("gate.user.my-own")}), "shown/a.rego", "shown/a.rego", 1},
		{"syntax", withRego("package gate.user.mine\n\ndeny contains {"), "policy: shown/a.rego:", "shown/a.rego", 3},
		{"permit", withRego(harnesstest.Asking("gate.user.mine") + "permit contains \"x\"\n"), `shown/a.rego:9: only layer "gate.builtin" may define rule "permit"`, "shown/a.rego", 9},
		{"mistyped member", withRego(harnesstest.Asking("gate.user.mine") + "x if input.efects\n"), `shown/a.rego:9: undefined ref: input.efects`, "shown/a.rego", 9},
		{"module in a folder", harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal, "b/c.rego": "package gate.user.mine\n"}), "shown/b/c.rego: module defines none of", "shown/b/c.rego", 0},
		{"module that is a pipe", special("a.rego", &fstest.MapFile{Mode: fs.ModeNamedPipe}), "shown/a.rego: module is not a regular file", "shown/a.rego", 0},
		{"module that is too large", withRego(harnesstest.Asking("gate.user.mine") + strings.Repeat("#", 1<<20)), "shown/a.rego: module has ", "shown/a.rego", 0},

		{"organisation without a module", org(map[string]string{"README.md": "x", "a_test.rego": "package x"}), "policy: shown: no policy module (*.rego) is in this folder", "shown", 0},
		{"organisation with a user's package", org(map[string]string{"a.rego": harnesstest.Asking("gate.user.acme")}), `policy: shown/a.rego: package "gate.user.acme" must be gate.org.NAME`, "shown/a.rego", 0},
		{"organisation without a name", org(map[string]string{"a.rego": harnesstest.Asking("gate.org")}), `package "gate.org" must be gate.org.NAME`, "shown/a.rego", 0},
		{"organisation of two packages", org(map[string]string{"a.rego": harnesstest.Asking("gate.org.a"), "b.rego": harnesstest.Asking("gate.org.b")}), `shown/b.rego:1: package "gate.org.b" does not belong to layer "gate.org.a"`, "shown/b.rego", 1},
		{"two organisations of one package", org(acme, acme), `layer "gate.org.acme" is given twice`, "", 0},
		{"organisation that does not load", org(map[string]string{"a.rego": harnesstest.Asking("gate.org.acme") + "deny := 1\n"}), `policy: shown/a.rego:9: rule "deny" must be a set`, "shown/a.rego", 9},
		{"tree without a module", harness.Sources{Profile: "dev", Repo: harnesstest.Folder(nil)}, "shown: no policy module (*.rego) is in this folder", "shown", 0},
		{"tree with an organisation's package", harness.Sources{Profile: "dev", Repo: harnesstest.Folder(acme)}, `shown/a.rego: package "gate.org.acme" must be gate.repo.NAME`, "shown/a.rego", 0},
		{"tree that does not load", harness.Sources{Profile: "dev", Repo: harnesstest.Folder(map[string]string{"a.rego": harnesstest.Asking("gate.repo.x"), "b.rego": "package gate.repo.x\n" + harnesstest.Quiet("BB") + "x := http.send({})\n"})}, `shown/b.rego:8: undefined function "http.send"`, "shown/b.rego", 8},
		{"no folder", harness.Sources{Profile: "dev", Repo: &policy.Folder{FS: fstest.MapFS{}, Dir: "none", Show: "shown"}}, "policy: shown: policy folder cannot be read", "shown", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.src.Builtin = profiles.FS()
			gate, err := harness.OpenGate(t.Context(), test.src, set, harnesstest.Endless())
			var re *result.RunError
			if !errors.As(err, &re) || gate != nil {
				t.Fatalf("gate %v, error %v", gate, err)
			}
			if re.Code != result.CodeProfile || !strings.Contains(re.Message, test.want) {
				t.Errorf("%s %q, want %q", re.Code, re.Message, test.want)
			}
			file, _ := re.Details["file"].(string)
			at, _ := re.Details["line"].(int)
			if file != test.file || at != test.line {
				t.Errorf("details %v, want file %q and line %d", re.Details, test.file, test.line)
			}
			specstest.Valid(t, set, specs.KindRunError, re.Line())
		})
	}
}

// TestProfileOnDisk tests files that only a real file system has.
func TestProfileOnDisk(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	open := func(dir string) error {
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_, err = harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), User: &policy.Folder{FS: root.FS(), Dir: ".", Show: "shown"}, File: harness.ProfileFile}, set, harnesstest.Endless())
		return err
	}
	write := func(dir, name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write(dir, "profile.json", harnesstest.Minimal)
	write(dir, "a.rego", harnesstest.Asking("gate.user.mine"))
	if err := open(dir); err != nil {
		t.Error(err)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(filepath.Join(dir, "profile.json"), 0); err != nil {
			t.Fatal(err)
		}
		if err := open(dir); err == nil || !strings.Contains(err.Error(), "shown/profile.json: profile cannot be read") {
			t.Errorf("error %v", err)
		}
	}

	outside, links := t.TempDir(), t.TempDir()
	write(outside, "profile.json", harnesstest.Minimal)
	if err := os.Symlink(filepath.Join(outside, "profile.json"), filepath.Join(links, "profile.json")); err != nil {
		t.Skip(err)
	}
	if err := open(links); err == nil || !strings.Contains(err.Error(), "shown/profile.json: profile cannot be read") {
		t.Errorf("a link out of the folder: %v", err)
	}
	write(links, "real.json", harnesstest.Minimal)
	if err := os.Remove(filepath.Join(links, "profile.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real.json", filepath.Join(links, "profile.json")); err != nil {
		t.Fatal(err)
	}
	if err := open(links); err != nil {
		t.Errorf("a link within the folder: %v", err)
	}
	if err := os.Mkdir(filepath.Join(links, "rules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("rules", filepath.Join(links, "more")); err != nil {
		t.Fatal(err)
	}
	if err := open(links); err == nil || !strings.Contains(err.Error(), "shown/more: a link to a folder is not followed") {
		t.Errorf("a link to a folder: %v", err)
	}
}

// TestSeverityOfUnknownRule: a severity that no rule reads is an error with a hint. For a
// rule of the user's own a severity is allowed if the rule stands under two names.
func TestSeverityOfUnknownRule(t *testing.T) {
	set := harnesstest.Deps(t).Specs
	one := "package gate.user.mine\n\n" + harnesstest.Meta("MINE") + `note contains {"id": "MINE", "path": "", "msg": "m"} if data.profile.severity.MINE == "note"` + "\n"
	own := one + `deny contains {"id": "MINE", "path": "", "msg": "m"} if data.profile.severity.MINE == "deny"` + "\n"
	tests := []struct {
		name, severity, rego, want, hint string
	}{
		{"of a choice", `{"PLACEHOLDER":"deny"}`, "", "", ""},
		{"none", `{}`, "", "", ""},
		{"mistyped", `{"PLACEHOLDERS":"deny"}`, "", `shown/profile.json: severity of "PLACEHOLDERS" is no profile's choice`, `did you mean "PLACEHOLDER"? one of: AGENT_INSTRUCTIONS, CMD_WRAPPER, CONTRADICTION,`},
		{"of a rule without a choice", `{"PATH_TRAVERSAL":"note"}`, "", `severity of "PATH_TRAVERSAL" is no profile's choice`, "one of: AGENT_INSTRUCTIONS, CMD_WRAPPER, CONTRADICTION, DONE_UNDEFINED, INLINE_CODE, INPUT_WRITTEN, NETWORK_NEEDED, OUTPUT_UNPRODUCED, PLACEHOLDER, RISK_REVIEW, SHELL_COMMAND, TOOL_DEPRECATED, TOOL_EXPERIMENTAL, WRITE_TWICE"},
		{"of the kernel's", `{"NOT_PERMITTED":"note"}`, "", `severity of "NOT_PERMITTED"`, "one of: "},
		{"the first of two", `{"ZZ":"note","AA":"note"}`, "", `severity of "AA"`, "one of: "},
		{"of its own rule", `{"MINE":"note"}`, own, "", ""},
		{"of its own rule of one weight", `{"MINE":"note"}`, one, `severity of "MINE" is no profile's choice`, "one of: "},
		{"of no rule of its own", `{"MINE":"note"}`, "", `severity of "MINE"`, "one of: "},
		{"mistyped, of its own rule", `{"MINES":"note"}`, own, `severity of "MINES"`, `did you mean "MINE"?`},
		{"of an organisation's rule", `{"ASK":"note"}`, own, `severity of "ASK"`, "one of: AGENT_INSTRUCTIONS, CMD_WRAPPER, CONTRADICTION, DONE_UNDEFINED, INLINE_CODE, INPUT_WRITTEN, MINE,"},
	}
	whole := `{"name":"mine","allow_network":false,"timeout_ms":1000,"max_output_files":1,"max_total_output_bytes":1024,"allowed_commands":["node"],"allowed_write_roots":["a"],"severity":`
	for _, test := range tests {
		for _, json := range []string{`{"name":"mine","extends":"dev","severity":` + test.severity + `}`, whole + test.severity + `}`} {
			files := map[string]string{"profile.json": json}
			if test.rego != "" {
				files["a.rego"] = test.rego
			}
			src := harnesstest.Mine(files)
			src.Org = []policy.Folder{*harnesstest.Folder(map[string]string{"a.rego": harnesstest.Asking("gate.org.acme")})}
			_, err := harness.OpenGate(t.Context(), src, set, harnesstest.Endless())
			if test.want == "" {
				if err != nil {
					t.Errorf("%s: %v", test.name, err)
				}
				continue
			}
			var re *result.RunError
			if !errors.As(err, &re) || re.Code != result.CodeProfile || !strings.Contains(re.Message, test.want) || !strings.HasPrefix(re.Hint, test.hint) {
				t.Errorf("%s: %v, hint %q", test.name, err, re.Hint)
			}
		}
	}
}

// TestSameProfileElsewhere: the place of a policy on a machine is in errors and in no
// result. The canonical subset of a run is the same from any folder.
func TestSameProfileElsewhere(t *testing.T) {
	s := newStage(t)
	files := fstest.MapFS{
		"profile.json": {Data: []byte(harnesstest.Minimal)}, "a.rego": {Data: []byte(harnesstest.Asking("gate.user.mine"))},
		"b/c.rego": {Data: []byte("package gate.user.mine\n" + harnesstest.Quiet("CC"))},
	}
	org := fstest.MapFS{"x.rego": {Data: []byte(harnesstest.Asking("gate.org.acme"))}}
	below := fstest.MapFS{}
	for name, f := range files {
		below["home/u/policies/"+name] = f
	}
	disk := t.TempDir()
	if err := os.CopyFS(disk, files); err != nil {
		t.Fatal(err)
	}
	var gates []*harness.Gate
	for _, f := range []policy.Folder{
		{FS: files, Dir: "."},
		{FS: files, Dir: ".", Show: "/home/u/policies"},
		{FS: below, Dir: "home/u/policies", Show: `C:\policies`},
		{FS: os.DirFS(disk), Dir: ".", Show: disk},
	} {
		src := harness.Sources{Builtin: profiles.FS(), User: &f, File: harness.ProfileFile, Org: []policy.Folder{{FS: org, Dir: ".", Show: f.Show}}}
		gates = append(gates, s.open(t, src))
	}
	if got, want := modulesOf(gates[0].Provenance), []string{"org/acme/x.rego", "user/mine/a.rego", "user/mine/b/c.rego"}; !slices.Equal(got, want) {
		t.Errorf("modules %v, want %v", got, want)
	}
	decided := 0
	for i := 0; i < len(s.posed["strict"]); i += 4 {
		v := s.posed["strict"][i].Vector
		rep, err := s.runOn(t, gates[0], v)
		want := harnesstest.Answer(t, rep, err)
		if err == nil {
			decided++
		}
		for j, gate := range gates[1:] {
			rep, err := s.runOn(t, gate, v)
			if got := harnesstest.Answer(t, rep, err); got != want {
				t.Errorf("%s from folder %d gives\n%s\nnot\n%s", v.Name, j+1, got, want)
			}
		}
	}
	if decided < 20 {
		t.Errorf("%d decisions", decided)
	}
}

// TestGateStandsStill: a gate decides by the files that were read when it was opened.
func TestGateStandsStill(t *testing.T) {
	s := newStage(t)
	src := harnesstest.Mine(map[string]string{"profile.json": harnesstest.Minimal, "a.rego": harnesstest.Asking("gate.user.mine")})
	gate := s.open(t, src)
	delete(src.User.FS.(fstest.MapFS), "a.rego")
	src.User.FS.(fstest.MapFS)["profile.json"].Data = []byte(`{"name":"mine","extends":"dev"}`)
	d, err := s.posed["strict"][0].decide(t, gate)
	if err != nil || gate.Profile.TimeoutMS != s.Gates["strict"].Profile.TimeoutMS {
		t.Errorf("profile %+v, error %v", gate.Profile, err)
	}
	p := gate.Judge.(*policy.Engine).Provenance()
	if len(modulesOf(p)) != 1 || d.Outcome != "REFUSE" && !slices.Contains(d.Reasons, "ASK /goal") {
		t.Errorf("%s for %v under %v", d.Outcome, d.Reasons, modulesOf(p))
	}
}

// TestOpenGatePanics: a file system that panics opens no gate.
func TestOpenGatePanics(t *testing.T) {
	src := harness.Sources{Builtin: profiles.FS(), Profile: "strict", Repo: &policy.Folder{Dir: "."}}
	gate, err := harness.OpenGate(t.Context(), src, harnesstest.Deps(t).Specs, harnesstest.Endless())
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeInternal || gate != nil {
		t.Errorf("gate %v, error %v", gate, err)
	}
}

// TestOpenGateTimeout: a policy that takes too long to compile opens no gate.
func TestOpenGateTimeout(t *testing.T) {
	limits := harnesstest.Endless()
	limits.Compile, limits.Poll = time.Nanosecond, time.Nanosecond
	gate, err := harness.OpenGate(t.Context(), harness.Sources{Builtin: profiles.FS(), Profile: "strict"}, harnesstest.Deps(t).Specs, limits)
	var re *result.RunError
	if !errors.As(err, &re) || re.Code != result.CodeInternal || gate != nil || !strings.Contains(re.Message, "compiling the policy took longer than 1ns") {
		t.Errorf("gate %v, error %v", gate, err)
	}
}
