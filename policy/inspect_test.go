package policy

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
)

// TestInspect: each fault is found at once, and none that another one causes.
func TestInspect(t *testing.T) {
	good := head0 + deny("GOOD_RULE", "input.mode")
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"sound":     {map[string]string{"a.rego": good}, nil},
		"no module": {nil, nil},
		"a broken module, and a rule that uses its helper": {map[string]string{
			"a.rego": head0 + deny("A_RULE", "helper(input.mode)\n\tinput.gaol"), "b.rego": head0 + "helper(x) if {\n\tx ==\n}\n",
		}, []string{`a.rego:12: undefined ref: input.gaol`, "b.rego:7: unexpected } token"}},
		"a record in a broken module": {map[string]string{
			"a.rego": head0 + `deny contains {"id": "A_RULE", "path": "", "msg": "m"}`, "b.rego": head0 + deny("A_RULE", "x =="),
		}, []string{"b.rego:12: unexpected } token"}},
		"faults of several stages in one rule": {map[string]string{
			"a.rego": head0 + deny("A_RULE", "x > 1\n\tinput.gaol\n\tdata.profile.nme\n\tdata.other"),
		}, []string{"a.rego:11: var x is unsafe", "a.rego:12: undefined ref: input.gaol", `a.rego:13: data.profile has no member "nme"`, `a.rego:14: "data.other" is neither`}},
		"a rule that uses a rule at fault": {map[string]string{
			"a.rego": head0 + deny("A_RULE", "helper") + "helper if count(1) > 1\n",
		}, []string{"a.rego:14: count: invalid argument(s)"}},
		"an import that a rule at fault uses": {map[string]string{
			"a.rego": "package gate.user.test\nimport input.intent\n" + deny("GOOD_RULE", "input.mode") + deny("A_RULE", "count(1) > 1\n\tintent.goal"),
		}, []string{"a.rego:18: count: invalid argument(s)"}},
		"each head": {map[string]string{
			"a.rego": head0 + deny("GOOD_RULE", "input.mode") + `deny contains {"path": "", "msg": "m"} if input.gaol` + "\n" + `note contains {"id": "GOOD_RULE", "path": "", "msg": "m", "fix": ""}` + "\ndeny := 1\n",
		}, []string{`a.rego:14: rule "deny": member "id" is missing`, `a.rego:15: rule "note": unknown member "fix"`, `a.rego:16: rule "deny" must be a set`}},
		"each record": {map[string]string{
			"a.rego": head0 + strings.Replace(deny("A_RULE", "input.mode"), "# title: Title of A_RULE\n", "", 1) + strings.Replace(deny("B_RULE", "input.mode"), "#   id: B_RULE", "#   id: b", 1) + deny("C_RULE", "input.mode") + deny("C_RULE", "input.mode"),
		}, []string{`a.rego:5: record "A_RULE" needs a title`, "a.rego:13: custom.id must be a string", `a.rego:31: record "C_RULE" stands a second time`, `a.rego:36: a second rule "deny" has the id "C_RULE"`}},
		"packages": {map[string]string{"a.rego": "package gate.user.other\n", "b.rego": good, "c.rego": "package gate.org.test\n"},
			[]string{`a.rego:1: package "gate.user.other" does not belong`, `c.rego:1: package "gate.org.test" does not belong`}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := fstest.MapFS{"profile.json": {Data: []byte("{}")}}
			for file, src := range tc.files {
				fsys[file] = &fstest.MapFile{Data: []byte(src)}
			}
			found := Inspect(context.Background(), Folder{FS: fsys, Dir: "."}, "gate.user.test", patient())
			ok := len(found.Faults) == len(tc.want)
			for i := range min(len(found.Faults), len(tc.want)) {
				ok = ok && strings.HasPrefix(found.Faults[i].Error(), tc.want[i]) && (found.Faults[i].Line == 0) == (found.Faults[i].Column == 0)
			}
			if !ok {
				t.Errorf("faults are\n%v\nwant\n%v", found.Faults, strings.Join(tc.want, "\n"))
			}
		})
	}
}

// TestInspectPrefix: the first module that names a package of the prefix names the layer.
func TestInspectPrefix(t *testing.T) {
	fsys := fstest.MapFS{"a.rego": {Data: []byte("package other\n")}, "b.rego": {Data: []byte(strings.ReplaceAll(head0+deny("A_RULE", "input.gaol"), "gate.user", "gate.org"))}}
	found := Inspect(context.Background(), Folder{FS: fsys, Dir: "."}, PrefixAny, patient())
	if found.Layer.Package != "gate.org.test" || len(found.Faults) != 2 {
		t.Errorf("layer %q, faults %v", found.Layer.Package, found.Faults)
	}
	delete(fsys, "b.rego")
	fsys["c.rego"] = &fstest.MapFile{Data: []byte("package other\nx ==\n")}
	found = Inspect(context.Background(), Folder{FS: fsys, Dir: "."}, PrefixAny, patient())
	if found.Layer.Package != "" || len(found.Faults) != 2 || found.Parsed {
		t.Errorf("layer %q, faults %v", found.Layer.Package, found.Faults)
	}
}
