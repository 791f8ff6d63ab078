package profile

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/specs"
)

// builtinNames are the names of the built-in profiles, from narrow to wide.
func builtinNames() []string { return []string{"strict", "default", "dev"} }

// builtinProfile returns a function that loads a built-in profile and refuses every
// other name.
func builtinProfile(set *specs.Set) func(string) (kernel.Profile, error) {
	return func(name string) (kernel.Profile, error) { return Load(os.DirFS("../../profiles"), name, set) }
}

func builtinProfiles(t *testing.T) map[string]kernel.Profile {
	t.Helper()
	base, profiles := builtinProfile(schemas(t)), map[string]kernel.Profile{}
	for _, name := range builtinNames() {
		profiles[name] = must(base(name))
	}
	return profiles
}

// resolve returns the profile of a profile.json with these members and a name.
func resolveMine(t *testing.T, members string) (Resolved, error) {
	t.Helper()
	set := schemas(t)
	return Resolve([]byte(`{"name":"mine",`+members+`}`), builtinProfile(set), set)
}

// randomProfile returns a document that fits the schema. Every member may be absent,
// numbers are anywhere within their bounds, and lists are in any order. Lists also have
// names that no built-in profile has. With twice, a list may have a name more than
// once.
func randomProfile(r *rand.Rand, base kernel.Profile, twice bool) map[string]any {
	m := map[string]any{"name": "mine"}
	maybe := func(name string, value func() any) {
		percent := 40
		if name == "env_allow" || name == "model_adapters" || name == "allowed_tools" {
			percent = 12 // most built-in profiles would leave nothing of them
		}
		if r.IntN(100) < percent {
			m[name] = value()
		}
	}
	within := func(b contract.Limit, near int) func() any {
		return func() any {
			switch r.IntN(4) {
			case 0:
				return b.Min
			case 1:
				return b.Max
			case 2:
				return near
			}
			return b.Min + r.IntN(b.Max-b.Min+1)
		}
	}
	some := func(least, most int, pool ...string) func() any {
		return func() any {
			list := []any{}
			for range least + r.IntN(most-least+1) {
				if one := pool[r.IntN(len(pool))]; twice || !slices.Contains(list, any(one)) {
					list = append(list, one)
				}
			}
			return list
		}
	}
	maybe("allow_network", func() any { return r.IntN(2) == 0 })
	maybe("timeout_ms", within(contract.TimeoutMS(), base.TimeoutMS))
	maybe("max_output_files", within(contract.MaxOutputFiles(), base.MaxOutputFiles))
	maybe("max_total_output_bytes", within(contract.MaxTotalOutputBytes(), base.MaxTotalOutputBytes))
	maybe("allowed_commands", some(1, 5, "node", "npm", "npx", "Node", "bash", "node.exe", "-", "~"))
	maybe("allowed_write_roots", some(1, 6, "out", "out/a", "out/a/b", "out/ab", "outer", "dist", "build/x", "build", "tmp", "Out", "out ", "..out", "o", "src", "\u00e9"))
	maybe("env_allow", some(1, 4, "CI", "HOME", "ci", "_"))
	maybe("execution_modes", some(1, 2, "plan-only", "execute-sandbox"))
	maybe("model_modes", some(1, 3, "none", "record", "replay"))
	maybe("model_adapters", some(0, 3, "search", "Search", " "))
	maybe("allowed_tools", some(0, 3, "TL-001", "TL-001/A", "TL-*", "TL-001/A@sha256:"+strings.Repeat("0", 64), "mcp:s", "mcp:s/t", "mcp:s/t@sha256:"+strings.Repeat("0", 64), "mcp:*", "client:c/t"))
	maybe("risk_tags", some(0, 6, "destructive", "Destructive", "payment", "credential", "mine", " "))
	maybe("severity", func() any {
		s := map[string]any{}
		ids := slices.Sorted(maps.Keys(base.Severity))
		for range r.IntN(5) {
			s[append(ids, "MINE", "M2")[r.IntN(len(ids)+2)]] = []string{"deny", "clarify", "note"}[r.IntN(3)]
		}
		return s
	})
	maybe("memory_mb", within(contract.MemoryMB(), base.MemoryMB))
	maybe("max_children", within(contract.MaxChildren(), base.MaxChildren))
	maybe("cpu_cores", within(contract.CPUCores(), base.CPUCores))
	maybe("shell_metacharacters", func() any { return []string{"data", "deny"}[r.IntN(2)] })
	maybe("isolation", func() any { return []string{"full", "confined", "none"}[r.IntN(3)] })
	return m
}

// TestExtendsOnlyNarrows resolves random profiles with each built-in profile as base.
// The outcome allows nothing that the base does not allow. Narrowing the outcome by the
// same document gives the same outcome. Each origin is right. A refused document leaves
// nothing of a list.
func TestExtendsOnlyNarrows(t *testing.T) {
	set := schemas(t)
	load := builtinProfile(set)
	profiles := builtinProfiles(t)
	from := map[string]int{}
	resolved, refused := 0, 0
	for i := range 2500 {
		r := rand.New(rand.NewPCG(11, uint64(i)))
		extends, twice := builtinNames()[i%3], i%5 == 0
		base := profiles[extends]
		doc := randomProfile(r, base, twice)
		doc["extends"] = extends
		src := must(json.Marshal(doc))
		got, err := Resolve(src, load, set)
		if err != nil {
			refused++
			if e := asError(t, err, `nothing is left of it: "`+extends+`" allows `); !leavesNothing(doc, base, e.Msg) {
				t.Errorf("%s\nis refused: %v", src, err)
			}
			continue
		}
		resolved++
		if wider := got.Profile.WiderThan(base); len(wider) > 0 || got.Profile.Name != "mine" || got.Extends != extends {
			t.Errorf("%s\nis wider by %v: %+v", src, wider, got)
		}
		again, err := Resolve(src, func(string) (kernel.Profile, error) { return got.Profile, nil }, set)
		if err != nil || !reflect.DeepEqual(sets(membersOf(t, again.Profile)), sets(membersOf(t, got.Profile))) {
			t.Errorf("%s\nis narrowed to\n%+v\nand again to\n%+v (error %v)", src, got.Profile, again.Profile, err)
		}
		checkOrigins(t, src, doc, got, base, twice)
		for _, o := range got.Origins {
			from[o.Member+" "+o.From]++
		}
	}
	if resolved < 1000 || refused < 300 {
		t.Errorf("%d resolved, %d refused", resolved, refused)
	}
	for _, name := range policy.Members() {
		if name == "network_hosts" || name == "registries" {
			continue // no built-in profile has them: TestExtendsNarrowsHosts
		}
		if from[name+" "+FromBase] == 0 || from[name+" "+FromProfile] == 0 && name != "severity" || from[name+" "+FromAbsent] > 0 {
			t.Errorf("member %s is from %v", name, from)
		}
	}
	for _, name := range []string{"allowed_commands", "allowed_write_roots", "risk_tags", "severity"} {
		if from[name+" "+FromBoth] == 0 {
			t.Errorf("member %s is never from both", name)
		}
	}
}

// leavesNothing says whether the member that msg names has nothing that base allows.
func leavesNothing(doc map[string]any, base kernel.Profile, msg string) bool {
	_, rest, _ := strings.Cut(msg, `member "`)
	name, _, _ := strings.Cut(rest, `"`)
	list, _ := doc[name].([]any)
	for _, v := range list {
		one := v.(string)
		switch name {
		case "allowed_write_roots":
			for _, root := range base.AllowedWriteRoots.Names {
				if strings.HasPrefix(one+"/", root+"/") || strings.HasPrefix(root+"/", one+"/") {
					return false
				}
			}
		case "allowed_commands":
			if base.AllowedCommands.Contains(one) {
				return false
			}
		case "env_allow":
			if base.EnvAllow.Contains(one) {
				return false
			}
		case "model_adapters":
			if base.ModelAdapters.Contains(one) {
				return false
			}
		case "allowed_tools":
			if base.AllowedTools.All {
				return false
			}
		default:
			allowed := map[string][]string{"execution_modes": base.ExecutionModes, "model_modes": base.ModelModes}[name]
			if slices.Contains(allowed, one) {
				return false
			}
		}
	}
	return len(list) > 0
}

// membersOf returns the members of a profile as JSON has them, without the name.
func membersOf(t *testing.T, p kernel.Profile) map[string]any {
	t.Helper()
	m := must(asJSON(p)).(map[string]any)
	delete(m, "name")
	return m
}

func asJSON(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	err = json.Unmarshal(b, &out)
	return out, err
}

// sets returns the members with their lists as sets.
func sets(m map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range m {
		out[name] = asSet(v)
	}
	return out
}

// asSet returns a list sorted and without duplicates, and any other value unchanged.
func asSet(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.(string)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// checkOrigins checks every origin against the document, the outcome and the base. A
// joined list has the order of the profile; its origin is the base only if the base has
// the same order. If twice is set, lists may have duplicates, and the origin of a
// member is not checked.
func checkOrigins(t *testing.T, src []byte, doc map[string]any, got Resolved, base kernel.Profile, twice bool) {
	t.Helper()
	value, beneath := membersOf(t, got.Profile), membersOf(t, base)
	var names []string
	for _, o := range got.Origins {
		names = append(names, o.Member)
		asked, given := doc[o.Member]
		if given != (o.Asked != nil) || given && !reflect.DeepEqual(must(asJSON(o.Asked)), must(asJSON(asked))) {
			t.Errorf("%s\nmember %s is said to ask for %v", src, o.Member, o.Asked)
		}
		if twice {
			continue
		}
		want := FromBoth
		switch {
		case given && reflect.DeepEqual(asSet(value[o.Member]), asSet(must(asJSON(asked)))):
			want = FromProfile
		case reflect.DeepEqual(value[o.Member], beneath[o.Member]):
			want = FromBase
		}
		if o.From != want {
			t.Errorf("%s\nmember %s is %v, said to be from %s, want %s", src, o.Member, value[o.Member], o.From, want)
		}
	}
	if !slices.Equal(names, policy.Members()) {
		t.Errorf("origins are of %v", names)
	}
}

// TestNarrow tests each way of joining. from is the origin of the member that want
// gives.
func TestNarrow(t *testing.T) {
	profiles := builtinProfiles(t)
	tests := []struct {
		name, extends, member, asked string
		want, from                   string
	}{
		{"less time", "strict", "timeout_ms", "1000", "1000", FromProfile},
		{"more time", "strict", "timeout_ms", "600000", "30000", FromBase},
		{"the same time", "strict", "timeout_ms", "3e4", "30000", FromProfile},
		{"no child", "dev", "max_children", "0", "0", FromProfile},
		{"more children", "dev", "max_children", "100", "10", FromBase},
		{"more memory", "default", "memory_mb", "4096", "512", FromBase},
		{"less memory", "default", "memory_mb", "64", "64", FromProfile},
		{"more cores", "dev", "cpu_cores", "4", "1", FromBase},
		{"fewer files", "dev", "max_output_files", "1", "1", FromProfile},
		{"more bytes", "strict", "max_total_output_bytes", "1073741824", "10485760", FromBase},
		{"confined where full is asked of", "strict", "isolation", `"confined"`, `"full"`, FromBase},
		{"none where full is asked of", "default", "isolation", `"none"`, `"full"`, FromBase},
		{"none where confined is asked of", "dev", "isolation", `"none"`, `"confined"`, FromBase},
		{"the same isolation", "dev", "isolation", `"confined"`, `"confined"`, FromProfile},
		{"data where nothing is asked", "dev", "shell_metacharacters", `"data"`, `null`, FromBase},
		{"metacharacters denied", "dev", "shell_metacharacters", `"deny"`, `"deny"`, FromProfile},
		{"more isolation", "dev", "isolation", `"full"`, `"full"`, FromProfile},
		{"a network", "dev", "allow_network", "true", "false", FromBase},
		{"no network", "dev", "allow_network", "false", "false", FromProfile},

		{"some of the commands", "default", "allowed_commands", `["npx","node","bash"]`, `["npx","node"]`, FromBoth},
		{"one command", "default", "allowed_commands", `["npm"]`, `["npm"]`, FromProfile},
		{"all commands and one more", "strict", "allowed_commands", `["node","npm","bash"]`, `["node","npm"]`, FromBase},
		{"any commands of all", "dev", "allowed_commands", `["bash"]`, `["bash"]`, FromProfile},
		{"environment of all", "dev", "env_allow", `["CI"]`, `["CI"]`, FromProfile},
		{"a root below", "strict", "allowed_write_roots", `["out/a"]`, `["out/a"]`, FromProfile},
		{"roots below, beside and beyond", "strict", "allowed_write_roots", `["src","out/a","outer","dist"]`, `["out/a","dist"]`, FromBoth},
		{"a root and one below it", "strict", "allowed_write_roots", `["out/a","out"]`, `["out/a","out"]`, FromProfile},
		{"roots of all", "dev", "allowed_write_roots", `["src"]`, `["src"]`, FromProfile},
		{"one mode", "strict", "execution_modes", `["plan-only"]`, `["plan-only"]`, FromProfile},
		{"model modes of dev", "dev", "model_modes", `["replay","none"]`, `["replay","none"]`, FromProfile},
		{"model modes of strict", "strict", "model_modes", `["none","replay"]`, `["none"]`, FromBase},
		{"no adapter", "strict", "model_adapters", `[]`, `[]`, FromProfile},
		{"no adapter of all", "dev", "model_adapters", `[]`, `[]`, FromProfile},
		{"adapters of all", "dev", "model_adapters", `["search","ask","search"]`, `["search","ask"]`, FromProfile},

		{"no risk tag", "strict", "risk_tags", `[]`, `["destructive","irreversible","credential","payment","production"]`, FromBase},
		{"another risk tag", "strict", "risk_tags", `["mine"]`, `["destructive","irreversible","credential","payment","production","mine"]`, FromBoth},
		{"a risk tag upon none", "dev", "risk_tags", `["mine"]`, `["mine"]`, FromProfile},
		{"no risk tag upon none", "dev", "risk_tags", `[]`, `[]`, FromProfile},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := resolveMine(t, `"extends":"`+test.extends+`","`+test.member+`":`+test.asked)
			if err != nil {
				t.Fatal(err)
			}
			want := membersOf(t, profiles[test.extends])
			b, err := json.Marshal(must(asJSON(got.Profile)).(map[string]any)[test.member])
			if err != nil || string(b) != test.want {
				t.Errorf("%s is %s, want %s (%v)", test.member, b, test.want, err)
			}
			for _, o := range got.Origins {
				if o.Member == test.member && o.From != test.from || o.Member != test.member && (o.From != FromBase || o.Asked != nil) {
					t.Errorf("origin %+v", o)
				}
			}
			have := membersOf(t, got.Profile)
			delete(want, test.member)
			delete(have, test.member)
			if !reflect.DeepEqual(have, want) {
				t.Errorf("the other members are\n%v\nwant\n%v", have, want)
			}
		})
	}
}

// TestNarrowSeverity: for each rule the stricter of the two severities counts.
func TestNarrowSeverity(t *testing.T) {
	profiles := builtinProfiles(t)
	for _, extends := range builtinNames() {
		for _, asked := range []kernel.Severity{kernel.SeverityNote, kernel.SeverityClarify, kernel.SeverityDeny} {
			for id, old := range profiles[extends].Severity {
				got, err := resolveMine(t, fmt.Sprintf(`"extends":%q,"severity":{%q:%q}`, extends, id, asked))
				if err != nil {
					t.Fatal(err)
				}
				want := maps.Clone(profiles[extends].Severity)
				from := FromBase
				if asked.Stricter(old) {
					want[id], from = asked, FromBoth
				}
				if !maps.Equal(got.Profile.Severity, want) || got.Origins[11].Member != "severity" || got.Origins[11].From != from {
					t.Errorf("%s with %s %s gives %v from %s", extends, id, asked, got.Profile.Severity, got.Origins[11].From)
				}
			}
		}
	}
	got, err := resolveMine(t, `"extends":"dev","severity":{"MINE":"note"}`)
	if err != nil || got.Profile.Severity["MINE"] != kernel.SeverityNote || len(got.Profile.Severity) != len(profiles["dev"].Severity)+1 {
		t.Errorf("severities are %v (error %v)", got.Profile.Severity, err)
	}
}

// TestNarrowDeeperBase has a base whose roots lie below those of the profile.
func TestNarrowDeeperBase(t *testing.T) {
	set := schemas(t)
	deep := builtinProfiles(t)["strict"]
	deep.AllowedWriteRoots.Names = []string{"pkg/gen", "out/a", "out/b"}
	tests := []struct{ asked, want, from string }{
		{`["pkg"]`, `[pkg/gen]`, FromBoth},
		{`["pkg","out"]`, `[pkg/gen out/a out/b]`, FromBase},
		{`["out"]`, `[out/a out/b]`, FromBoth},
		{`["out/a/x","out"]`, `[out/a/x out/a out/b]`, FromBoth},
		{`["out/b","out/b/c"]`, `[out/b out/b/c]`, FromProfile},
		{`["pk","out/ab"]`, "", ""},
	}
	for _, test := range tests {
		src := `{"name":"mine","extends":"strict","allowed_write_roots":` + test.asked + `}`
		got, err := Resolve([]byte(src), func(string) (kernel.Profile, error) { return deep, nil }, set)
		if test.want == "" {
			asError(t, err, `"strict" allows only pkg/gen, out/a, out/b`)
			continue
		}
		if err != nil || fmt.Sprint(got.Profile.AllowedWriteRoots.Names) != test.want || got.Origins[5].From != test.from {
			t.Errorf("%s gives %v from %s, error %v", test.asked, got.Profile.AllowedWriteRoots, got.Origins[5].From, err)
		}
		if wider := got.Profile.WiderThan(deep); len(wider) > 0 {
			t.Errorf("%s is wider by %v", test.asked, wider)
		}
	}
}

func TestNarrowErrors(t *testing.T) {
	more := strings.TrimPrefix(strings.TrimSuffix(least, "}"), `{"name":"mine",`)
	tests := []struct{ name, members, want string }{
		{"all commands", `"extends":"strict","allowed_commands":"*"`, `member "allowed_commands": "*" cannot stand beside "extends": "strict" allows only node, npm`},
		{"all roots", `"extends":"default","allowed_write_roots":"*"`, `member "allowed_write_roots": "*" cannot stand beside "extends": "default" allows only out, dist, build, tmp`},
		{"all of the environment", `"extends":"strict","env_allow":"*"`, `member "env_allow": "*" cannot stand beside "extends": "strict" allows nothing`},
		{"all of all", `"extends":"dev","allowed_commands":"*"`, `"dev" allows everything; leave the member out to keep that`},
		{"no command in common", `"extends":"strict","allowed_commands":["bash","npx"]`, `member "allowed_commands": nothing is left of it: "strict" allows only node, npm`},
		{"no root in common", `"extends":"strict","allowed_write_roots":["outer","ou","src/out"]`, `member "allowed_write_roots": nothing is left of it: "strict" allows only out, dist, build`},
		{"root in another case", `"extends":"strict","allowed_write_roots":["Out"]`, "nothing is left of it"},
		{"no environment in common", `"extends":"default","env_allow":["CI"]`, `member "env_allow": nothing is left of it: "default" allows nothing`},
		{"no adapter in common", `"extends":"default","model_adapters":["search"]`, `member "model_adapters": nothing is left of it: "default" allows nothing`},
		{"all adapters", `"extends":"strict","model_adapters":"*"`, `member "model_adapters": "*" cannot stand beside "extends": "strict" allows nothing`},
		{"all adapters of all", `"extends":"dev","model_adapters":"*"`, `"dev" allows everything; leave the member out to keep that`},
		{"all in a list of adapters", `"extends":"dev","model_adapters":["*"]`, "/model_adapters/0"},
		{"no model mode in common", `"extends":"strict","model_modes":["record"]`, `member "model_modes": nothing is left of it: "strict" allows `},
		{"the first of two", `"extends":"strict","env_allow":["CI"],"allowed_commands":["bash"]`, `member "allowed_commands"`},
		{"extends nobody", `"extends":"loose"`, `"/extends"`},
		{"extends itself", `"extends":"mine"`, `"/extends"`},
		{"extends in another case", `"extends":"Strict"`, `"/extends"`},
		{"extends nothing", `"extends":""`, `"/extends"`},
		{"extends a list", `"extends":["strict"]`, `"/extends"`},
		{"extends null", `"extends":null`, `"/extends"`},
		{"no list", `"extends":"strict","allowed_commands":[]`, "/allowed_commands"},
		{"a null list", `"extends":"strict","allowed_commands":null`, "/allowed_commands"},
		{"a null number", `"extends":"strict","timeout_ms":null`, "/timeout_ms"},
		{"above its bound", `"extends":"strict","timeout_ms":600001`, "/timeout_ms"},
		{"root above", `"extends":"strict","allowed_write_roots":["out/.."]`, "/allowed_write_roots/0"},
		{"root with a slash", `"extends":"strict","allowed_write_roots":["out/"]`, "/allowed_write_roots/0"},
		{"root that is all", `"extends":"strict","allowed_write_roots":["."]`, "/allowed_write_roots/0"},
		{"unknown isolation", `"extends":"strict","isolation":"partial"`, `"/isolation": must be one of "full", "confined", "none", not "partial"`},
		{"unknown isolation of a whole profile", more + `,"isolation":"namespaces"`, `"/isolation": `},
		{"nothing but a name", `"severity":{}`, `member "allow_network" is missing; give it, or add "extends" to take it from a built-in profile`},
	}
	for _, name := range policy.Members()[:6] {
		var m map[string]any
		if err := json.Unmarshal([]byte(least), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "name")
		delete(m, name)
		tests = append(tests, struct{ name, members, want string }{
			"without " + name, strings.Trim(string(must(json.Marshal(m))), "{}"), `member "` + name + `" is missing`,
		})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := resolveMine(t, test.members)
			asError(t, err, test.want)
			if !reflect.DeepEqual(got, Resolved{}) {
				t.Errorf("a profile stands beside the error: %+v", got)
			}
		})
	}
}

// TestReservedNames: no profile can use the name of a built-in profile.
func TestReservedNames(t *testing.T) {
	set := schemas(t)
	for _, name := range builtinNames() {
		for _, src := range []string{
			strings.Replace(least, `"mine"`, `"`+name+`"`, 1),
			`{"name":"` + name + `","extends":"` + name + `"}`,
			`{"name":"` + name + `"}`,
		} {
			_, err := Resolve([]byte(src), builtinProfile(set), set)
			asError(t, err, `the name "`+name+`" is that of a built-in profile; give this one a name of its own`)
		}
	}
	for _, name := range []string{"Strict", " strict", "stri\u0441t", ""} {
		_, err := Resolve([]byte(`{"name":"`+name+`","extends":"dev"}`), builtinProfile(set), set)
		asError(t, err, "/name")
	}
}

// TestWholeProfile: a profile that extends no other profile gets what it states, even
// if it is wider than every built-in profile.
func TestWholeProfile(t *testing.T) {
	got, err := resolveMine(t, strings.TrimPrefix(strings.TrimSuffix(least, "}"), `{"name":"mine",`)+`,"model_adapters":["search"],"severity":{"PLACEHOLDER":"note"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got.Extends != "" || !got.Profile.AllowedWriteRoots.All || len(got.Profile.WiderThan(builtinProfiles(t)["strict"])) == 0 {
		t.Errorf("profile is %+v", got)
	}
	for i, o := range got.Origins {
		from := FromProfile
		if i > 5 && o.Member != "model_adapters" && o.Member != "severity" {
			from = FromAbsent
		}
		if o.Member != policy.Members()[i] || o.From != from || (o.Asked == nil) != (from == FromAbsent) {
			t.Errorf("origin %d is %+v", i, o)
		}
	}
}

// TestIsolationOfAWholeProfile: the isolation is the one that the profile states, or
// else full. WiderThan names it if it is weaker than that of strict.
func TestIsolationOfAWholeProfile(t *testing.T) {
	more := strings.TrimPrefix(strings.TrimSuffix(least, "}"), `{"name":"mine",`)
	for asked, want := range map[string]kernel.Isolation{
		"":                        kernel.IsolationFull,
		`,"isolation":"full"`:     kernel.IsolationFull,
		`,"isolation":"confined"`: kernel.IsolationConfined,
		`,"isolation":"none"`:     kernel.IsolationNone,
	} {
		got, err := resolveMine(t, more+asked)
		if err != nil || got.Profile.Isolation != want {
			t.Errorf("%q gives %q, error %v", asked, got.Profile.Isolation, err)
		}
		wider := slices.Contains(got.Profile.WiderThan(builtinProfiles(t)["strict"]), "isolation")
		if wider != (want != kernel.IsolationFull) {
			t.Errorf("%q: wider by isolation is %v", asked, wider)
		}
	}
}

// TestWiderThan widens and narrows each member alone.
func TestWiderThan(t *testing.T) {
	type change struct {
		member string
		by     func(p *kernel.Profile)
	}
	names := func(l ...string) kernel.AllowList { return kernel.AllowList{Names: l} }
	wider := []change{
		{"allow_network", func(p *kernel.Profile) { p.AllowNetwork = true }},
		{"timeout_ms", func(p *kernel.Profile) { p.TimeoutMS++ }},
		{"max_output_files", func(p *kernel.Profile) { p.MaxOutputFiles++ }},
		{"max_total_output_bytes", func(p *kernel.Profile) { p.MaxTotalOutputBytes++ }},
		{"allowed_commands", func(p *kernel.Profile) { p.AllowedCommands = names("node", "npm", "bash") }},
		{"allowed_commands", func(p *kernel.Profile) { p.AllowedCommands = kernel.AllowList{All: true} }},
		{"allowed_commands", func(p *kernel.Profile) { p.AllowedCommands = names("Node") }},
		{"allowed_write_roots", func(p *kernel.Profile) { p.AllowedWriteRoots = names("outer") }},
		{"allowed_write_roots", func(p *kernel.Profile) { p.AllowedWriteRoots = names("ou") }},
		{"allowed_write_roots", func(p *kernel.Profile) { p.AllowedWriteRoots = names("out/a", "a/out") }},
		{"allowed_write_roots", func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{All: true, Names: []string{"out"}} }},
		{"env_allow", func(p *kernel.Profile) { p.EnvAllow = names("CI") }},
		{"env_allow", func(p *kernel.Profile) { p.EnvAllow = kernel.AllowList{All: true} }},
		{"execution_modes", func(p *kernel.Profile) { p.ExecutionModes = append(slices.Clone(p.ExecutionModes), "other") }},
		{"model_modes", func(p *kernel.Profile) { p.ModelModes = []string{"replay"} }},
		{"model_adapters", func(p *kernel.Profile) { p.ModelAdapters = names("search") }},
		{"model_adapters", func(p *kernel.Profile) { p.ModelAdapters = kernel.AllowList{All: true} }},
		{"allowed_tools", func(p *kernel.Profile) { p.AllowedTools = names("TL-001") }},
		{"allowed_tools", func(p *kernel.Profile) { p.AllowedTools = kernel.AllowList{All: true} }},
		{"risk_tags", func(p *kernel.Profile) { p.RiskTags = p.RiskTags[1:] }},
		{"risk_tags", func(p *kernel.Profile) { p.RiskTags = nil }},
		{"memory_mb", func(p *kernel.Profile) { p.MemoryMB++ }},
		{"max_children", func(p *kernel.Profile) { p.MaxChildren++ }},
		{"cpu_cores", func(p *kernel.Profile) { p.CPUCores++ }},
		{"isolation", func(p *kernel.Profile) { p.Isolation = kernel.IsolationConfined }},
		{"isolation", func(p *kernel.Profile) { p.Isolation = kernel.IsolationNone }},
		{"isolation", func(p *kernel.Profile) { p.Isolation = "" }},
		{"network_hosts", func(p *kernel.Profile) { p.NetworkHosts = names("example.org") }},
		{"network_hosts", func(p *kernel.Profile) { p.NetworkHosts = kernel.AllowList{All: true} }},
		{"registries", func(p *kernel.Profile) { p.Registries = []string{"example.org"} }},
	}
	narrower := []change{
		{"timeout_ms", func(p *kernel.Profile) { p.TimeoutMS-- }},
		{"max_output_files", func(p *kernel.Profile) { p.MaxOutputFiles-- }},
		{"max_total_output_bytes", func(p *kernel.Profile) { p.MaxTotalOutputBytes-- }},
		{"allowed_commands", func(p *kernel.Profile) { p.AllowedCommands = names("node") }},
		{"allowed_commands", func(p *kernel.Profile) { p.AllowedCommands = names() }},
		{"allowed_write_roots", func(p *kernel.Profile) { p.AllowedWriteRoots = names("out/a", "dist", "build") }},
		{"execution_modes", func(p *kernel.Profile) { p.ExecutionModes = []string{"plan-only"} }},
		{"model_modes", func(p *kernel.Profile) { p.ModelModes = nil }},
		{"risk_tags", func(p *kernel.Profile) { p.RiskTags = append(slices.Clone(p.RiskTags), "mine") }},
		{"memory_mb", func(p *kernel.Profile) { p.MemoryMB-- }},
		{"max_children", func(p *kernel.Profile) { p.MaxChildren-- }},
		{"shell_metacharacters", func(p *kernel.Profile) { p.ShellMetacharacters = kernel.MetacharactersDeny }},
	}
	strict := builtinProfiles(t)["strict"]
	for id, severity := range strict.Severity {
		if severity == kernel.SeverityNote {
			continue // nothing is wider
		}
		wider = append(wider, change{"severity", func(p *kernel.Profile) {
			p.Severity = maps.Clone(p.Severity)
			p.Severity[id] = kernel.SeverityNote
		}})
	}
	seen := map[string]bool{}
	for i, c := range wider {
		p := strict
		c.by(&p)
		seen[c.member] = true
		if got := p.WiderThan(strict); !slices.Equal(got, []string{c.member}) {
			t.Errorf("change %d of %s is wider by %v", i, c.member, got)
		}
	}
	for i, c := range narrower {
		p := strict
		c.by(&p)
		if got := p.WiderThan(strict); got != nil {
			t.Errorf("narrower %s, %d, is wider by %v", c.member, i, got)
		}
		seen[c.member] = true // the member counts, even if no value is wider than that of strict
		if got := strict.WiderThan(p); !slices.Equal(got, []string{c.member}) {
			t.Errorf("without change %d of %s it is wider by %v", i, c.member, got)
		}
	}
	for _, name := range policy.Members() {
		if !seen[name] {
			t.Errorf("no change of %s", name)
		}
	}
	for _, one := range []kernel.Isolation{kernel.IsolationConfined, kernel.IsolationFull} {
		p, q := strict, strict
		p.Isolation, q.Isolation = one, kernel.IsolationConfined
		if got := p.WiderThan(q); got != nil {
			t.Errorf("isolation %s is wider than confined by %v", one, got)
		}
	}
}

// TestBuiltinProfilesAreOrdered: each profile is no wider than itself and the profiles
// behind it, and all give severities for the same rules. WiderThan and narrow rely on
// the second property.
func TestBuiltinProfilesAreOrdered(t *testing.T) {
	profiles := builtinProfiles(t)
	want := slices.Sorted(maps.Keys(profiles["strict"].Severity))
	for i, name := range builtinNames() {
		for _, other := range builtinNames()[i:] {
			if wider := profiles[name].WiderThan(profiles[other]); wider != nil {
				t.Errorf("%s is wider than %s by %v", name, other, wider)
			}
		}
		for _, other := range builtinNames()[:i] {
			if profiles[name].WiderThan(profiles[other]) == nil {
				t.Errorf("%s is no wider than %s", name, other)
			}
		}
		if got := slices.Sorted(maps.Keys(profiles[name].Severity)); !slices.Equal(got, want) {
			t.Errorf("%s weighs %v, strict %v", name, got, want)
		}
		for id, s := range profiles[name].Severity {
			if strict := profiles["strict"].Severity[id]; s.Stricter(strict) || len(id) < 2 {
				t.Errorf("%s weighs %s as %s, strict as %s", name, id, s, strict)
			}
		}
	}
}
