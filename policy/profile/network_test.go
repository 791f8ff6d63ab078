package profile

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
)

// networked returns the members of a whole profile with a network and these members.
func networked(members string) string {
	return strings.Replace(strings.TrimPrefix(strings.TrimSuffix(least, "}"), `{"name":"mine",`), "false", "true", 1) + members
}

// TestProfileNetwork: the lists of hosts decide the level, and a profile whose lists do not
// go with allow_network is refused. A profile without lists has no member for them in its
// canonical form.
func TestProfileNetwork(t *testing.T) {
	offline := strings.Replace(networked(""), "true", "false", 1)
	for _, test := range []struct {
		members, want, hint string
		level               contract.NetLevel
	}{
		{members: offline, level: contract.Offline},
		{members: networked(`,"registries":["packages.example.net","*.packages.example"]`), level: contract.Registry},
		{members: networked(`,"network_hosts":["api.example.org:8443"]`), level: contract.API},
		{members: networked(`,"network_hosts":["private:localhost:8080"],"registries":["packages.example"]`), level: contract.API},
		{members: networked(`,"network_hosts":"*"`), level: contract.Open},
		{members: networked(""), want: "no host is listed", hint: `"network_hosts": "*"`},
		{members: offline + `,"network_hosts":["example.org"]`, want: "allow_network is false", hint: "leave the list out"},
		{members: offline + `,"registries":["example.org"]`, want: "allow_network is false", hint: "leave the list out"},
		{members: offline + `,"network_hosts":"*"`, want: "allow_network is false", hint: "leave the list out"},
		{members: networked(`,"network_hosts":"*","registries":["packages.example"]`), want: "which is every host", hint: "leave one"},
		{members: networked(`,"network_hosts":[]`), want: `"/network_hosts"`},
		{members: networked(`,"registries":[]`), want: `"/registries"`},
		{members: networked(`,"registries":"*"`), want: `"/registries"`},
		{members: networked(`,"network_hosts":["a.example.org","EXAMPLE.org"]`), want: `"/network_hosts/1"`},
		{members: networked(`,"network_hosts":["example.org:65536"]`), want: `"/network_hosts/0": the port`},
		{members: networked(`,"registries":["127.0.0.1"]`), want: `"/registries/0"`},
	} {
		got, err := resolveMine(t, test.members)
		if test.want != "" {
			if e := asError(t, err, test.want); !strings.Contains(e.Hint, test.hint) || !reflect.DeepEqual(got, Resolved{}) {
				t.Errorf("%s: hint %q, profile %+v", test.members, e.Hint, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.members, err)
			continue
		}
		b, err := canon.Canonical(got.Profile)
		if level := got.Profile.NetLevel(); level != test.level || err != nil {
			t.Errorf("%s: level %s, error %v", test.members, level, err)
		}
		for _, name := range []string{"network_hosts", "registries"} {
			if strings.Contains(string(b), name) != strings.Contains(test.members, name) {
				t.Errorf("%s: canonical form %s", test.members, b)
			}
		}
	}
}

// TestExtendsNarrowsHosts: with a base that has lists, an entry counts that lies within one
// of the base, and of two entries the narrower one. Whatever the profile leaves out, it is
// no wider than the base.
func TestExtendsNarrowsHosts(t *testing.T) {
	set := schemas(t)
	list := func(names ...string) kernel.AllowList { return kernel.AllowList{Names: names} }
	base := must(resolveMine(t, networked(`,"network_hosts":["*.example.org","private:db.example:5432"],"registries":["packages.example"]`))).Profile
	open := must(resolveMine(t, networked(`,"network_hosts":"*"`))).Profile
	for _, test := range []struct {
		base       kernel.Profile
		members    string
		hosts      kernel.AllowList
		registries []string
		want       string
	}{
		{base, `"timeout_ms":1000`, base.NetworkHosts, base.Registries, ""},
		{base, `"network_hosts":["api.example.org","a.b.example.org","example.com"]`, list("api.example.org"), base.Registries, ""},
		{base, `"network_hosts":["db.example:5432"]`, list("db.example:5432"), base.Registries, ""},
		{base, `"network_hosts":["packages.example"]`, list("packages.example"), base.Registries, ""},
		{base, `"registries":["x.example.org:443"]`, base.NetworkHosts, []string{"x.example.org:443"}, ""},
		{base, `"allow_network":false`, kernel.AllowList{}, nil, ""},
		{base, `"allow_network":false,"registries":["packages.example"]`, list(), nil, "allow_network is false"},
		{base, `"network_hosts":["example.org"]`, list(), nil, "nothing is left of it"},
		{base, `"network_hosts":["private:packages.example:443"]`, list("packages.example"), base.Registries, ""},
		{base, `"network_hosts":"*"`, list(), nil, "cannot stand beside"},
		{open, `"network_hosts":["a.example"]`, list("a.example"), nil, ""},
		{open, `"registries":["packages.example"]`, list(), nil, "which is every host"},
		{builtinProfiles(t)["dev"], `"allow_network":true`, kernel.AllowList{}, nil, ""},
		{builtinProfiles(t)["dev"], `"allow_network":true,"network_hosts":["a.example"]`, list(), nil, `"dev" allows nothing`},
	} {
		src := []byte(`{"name":"mine","extends":"dev",` + test.members + `}`)
		got, err := Resolve(src, func(string) (kernel.Profile, error) { return test.base, nil }, set)
		if test.want != "" {
			asError(t, err, test.want)
			continue
		}
		p := got.Profile
		if err != nil || !reflect.DeepEqual(p.NetworkHosts, test.hosts) || !reflect.DeepEqual(p.Registries, test.registries) || p.WiderThan(test.base) != nil {
			t.Errorf("%s: %+v and %q, error %v, wider by %v", test.members, p.NetworkHosts, p.Registries, err, p.WiderThan(test.base))
		}
	}
}

// TestHostEntriesOfProfiles: a profile may list exactly the entries that
// specs/vectors/execution/hosts.json accepts.
func TestHostEntriesOfProfiles(t *testing.T) {
	var file struct {
		Entries []struct {
			Name, Entry string
			OK          bool
		}
	}
	src := must(os.ReadFile("../../specs/vectors/execution/hosts.json"))
	if err := json.Unmarshal(src, &file); err != nil || len(file.Entries) < 30 {
		t.Fatalf("%d entries, error %v", len(file.Entries), err)
	}
	for _, v := range file.Entries {
		for _, member := range []string{"network_hosts", "registries"} {
			_, err := resolveMine(t, networked(`,"`+member+`":[`+string(must(json.Marshal(v.Entry)))+`]`))
			if (err == nil) != v.OK {
				t.Errorf("%s in %s: %v", v.Name, member, err)
			}
		}
	}
}
