package contract_test

import (
	"cmp"
	"io/fs"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/contract"
)

// TestLevelsWiden: each file system level gives what the level before it gives, and
// something more.
func TestLevelsWiden(t *testing.T) {
	var before contract.FSAccess
	for _, l := range contract.FSLevels() {
		a := l.Access()
		for _, list := range [][2][]string{{before.Reads(), a.Reads()}, {before.Writes(), a.Writes()}} {
			for _, word := range list[0] {
				if !slices.Contains(list[1], word) {
					t.Errorf("%s does not give %s", l, word)
				}
			}
		}
		if len(a.Reads())+len(a.Writes()) <= len(before.Reads())+len(before.Writes()) {
			t.Errorf("%s gives no more than the level before it", l)
		}
		before = a
	}
	if a := contract.FSLevel("").Access(); a != (contract.FSAccess{}) {
		t.Errorf("no level gives %+v", a)
	}
}

// TestBuiltInProfilesHaveAccess: every built-in profile has an access.
func TestBuiltInProfilesHaveAccess(t *testing.T) {
	paths, err := filepath.Glob("../../profiles/*/profile.json")
	if err != nil || len(paths) < 3 {
		t.Fatalf("%d profiles (%v)", len(paths), err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path))
		if _, ok := contract.ProfileAccess(name); !ok {
			t.Errorf("%s has no access", name)
		}
	}
}

// TestGuardedNames: the list is sorted and without duplicates, and IsGuarded finds each
// of its entries.
func TestGuardedNames(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range contract.Guarded() {
		list := strings.Split(g.Names, " ")
		if g.Why == "" || !slices.IsSorted(list) {
			t.Errorf("group %q: %q", g.Why, list)
		}
		for _, entry := range list {
			if seen[entry] || strings.Trim(entry, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_*") != "" {
				t.Errorf("entry %q", entry)
			}
			seen[entry] = true
			name := strings.Replace(entry, "*", "X", 1)
			if !contract.IsGuarded(name) || !contract.IsGuarded(strings.TrimSuffix(entry, "*")) {
				t.Errorf("%s is not guarded", name)
			}
			if v := contract.CheckEnvironment("", map[string]string{name: ""}, contract.AllowList{All: true, Names: []string{name}}); len(v) != 1 {
				t.Errorf("%s is named and allowed: %v", name, v)
			}
		}
	}
	for _, name := range []string{"LD_PRELOAD", "LD_LIBRARY_PATH", "PATH"} { // names that the contract states
		if !contract.IsGuarded(name) {
			t.Errorf("%s is not guarded", name)
		}
	}
}

// TestSecretsStayOut: no message has the value of an argument or a variable.
func TestSecretsStayOut(t *testing.T) {
	const secret = "hunter2"
	for _, spoil := range []string{"\x00", "\xff", ";", " "} {
		var list []contract.Violation
		list = append(list, contract.CheckArguments("", []string{secret + spoil, spoil + secret}, contract.Shell)...)
		list = append(list, contract.CheckEnvironment("", map[string]string{"A": secret + spoil, "PATH": secret}, contract.AllowList{All: true})...)
		if len(list) < 3 {
			t.Errorf("%q: %d violations", spoil, len(list))
		}
		for _, v := range list {
			if strings.Contains(v.Pointer+v.Msg+v.Hint, secret) {
				t.Errorf("%q: %v", spoil, v)
			}
		}
	}
}

// TestKeptBytesBelowNone: a total below zero keeps nothing.
func TestKeptBytesBelowNone(t *testing.T) {
	if stdout, stderr := contract.KeptBytes(math.MinInt); stdout != 0 || stderr != 0 {
		t.Errorf("keeps %d and %d", stdout, stderr)
	}
}

// FuzzCheckPath: a path that passes is valid for io/fs, stays beneath its folder on
// every system, and passes again unchanged.
func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{"a/./b//c", "..", ".", "a\\b", "~", "C:", "./~", "./C:", ". ./x", ".\u200b.", "\xff", "a\x00", "/", "", "..."} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		clean, v := contract.CheckPath("/p", p)
		if v != nil {
			if clean != "" || v.ID != contract.IV03 || v.Pointer != "/p" {
				t.Errorf("%q: %q, %+v", p, clean, v)
			}
			checkWording(t, p, *v)
			return
		}
		if !fs.ValidPath(clean) || !filepath.IsLocal(clean) || strings.ContainsAny(clean, "\\\x00") || strings.HasPrefix(clean, "~") {
			t.Errorf("%q becomes %q", p, clean)
		}
		if again, v := contract.CheckPath("", clean); v != nil || again != clean {
			t.Errorf("%q becomes %q and then %q, %v", p, clean, again, v)
		}
	})
}

// FuzzCheckArgument: an argument that passes for a stricter destination passes for a
// milder one. An argument that passes for a shell has no character that splits a
// command or a word.
func FuzzCheckArgument(f *testing.F) {
	for _, a := range []string{"", "a b", "$(x)", "a;b", "~", "\xff", "a\x00", "-x", "\n"} {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, a string) {
		passes := func(to contract.Destination) bool { return contract.CheckArgument("", a, to) == nil }
		if passes(contract.Shell) && !passes(contract.ArgvPlain) || passes(contract.ArgvPlain) && !passes(contract.Argv) {
			t.Errorf("%q passes where it is stricter alone", a)
		}
		if passes(contract.Shell) != passes("") {
			t.Errorf("%q: no destination is not the strictest", a)
		}
		if passes(contract.Shell) && (a == "" || strings.ContainsAny(a, contract.ShellMetacharacters+" \t\n\v\f\r~\x00")) {
			t.Errorf("%q passes", a)
		}
	})
}

// TestActionHint: every exit code has a hint, except that of success.
func TestActionHint(t *testing.T) {
	for _, r := range contract.ExitCodes() {
		if hint := contract.ActionHint(r.Action); (hint == "") != (r.First == contract.ExitSuccess) {
			t.Errorf("%d: %q", r.First, hint)
		}
	}
}

// FuzzHost: the name of a host is in its compared form, and that form again. An entry that
// can be read lies within itself, and allows the host that it names.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"a.example", "A.example.", "*.a.example", "private:a.example:1", "a.example:65535", "127.0.0.1", "\u212a", "a..b", ".", "*", "0x7f.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if name, ok := contract.HostName(s); ok {
			if again, ok := contract.HostName(name); !ok || again != name || strings.ToLower(strings.TrimSuffix(s, ".")) != name {
				t.Errorf("%q becomes %q and then %q", s, name, again)
			}
			if _, err := netip.ParseAddr(name); err == nil {
				t.Errorf("%q is an address", s)
			}
		}
		h, wrong := contract.ParseHost(s)
		if wrong != "" {
			return
		}
		if !contract.HostWithin(s, s) {
			t.Errorf("%q is not within itself", s)
		}
		port := cmp.Or(h.Port, 443)
		private, ok := contract.Hosts{Allow: []contract.Host{h}}.Allows(strings.Replace(h.Name, "*", "x", 1), port)
		if !ok || private != h.Private {
			t.Errorf("%q does not allow its host", s)
		}
		if _, ok := (contract.Hosts{Allow: []contract.Host{h}, Deny: []contract.Host{h}}).Allows(h.Name, port); ok {
			t.Errorf("%q does not deny its host", s)
		}
	})
}
