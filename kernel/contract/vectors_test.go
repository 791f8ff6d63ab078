package contract_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/contract"
)

// names holds the names of all vectors, which are unique in their folder.
type names map[string]bool

func (n names) add(t *testing.T, name string) {
	t.Helper()
	if name == "" || n[name] {
		t.Errorf("two vectors are called %q, or one has no name", name)
	}
	n[name] = true
}

// readVectors decodes a file of specs/vectors/execution. The file must be plain ASCII
// and must have no member that v lacks.
func readVectors(t *testing.T, name string, v any) {
	t.Helper()
	src, err := os.ReadFile("../../specs/vectors/execution/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", name, i)
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type limitFile struct {
	About  string
	Limits []struct {
		Name         string
		Default      *int
		Min, Max     int
		Unit, Clause string
	}
	Vectors []struct {
		Name, Limit string
		Value       int
		Holds       bool
	}
	Kept []struct {
		Name                  string
		Total, Stdout, Stderr int
	}
}

func TestLimitVectors(t *testing.T) {
	var file limitFile
	readVectors(t, "limits.json", &file)
	list := contract.Limits()
	if len(file.Limits) != len(list) {
		t.Fatalf("%d limits, and the vectors have %d", len(list), len(file.Limits))
	}
	byName := map[string]contract.Limit{}
	for i, want := range file.Limits {
		got := list[i]
		byName[got.Name] = got.Limit
		if got.Name != want.Name || got.Limit.Min != want.Min || got.Limit.Max != want.Max || got.Unit != want.Unit || got.Clause != want.Clause ||
			got.Limit.HasDefault() != (want.Default != nil) || want.Default != nil && *want.Default != got.Limit.Default {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	seen := names{}
	for _, v := range file.Vectors {
		seen.add(t, v.Name)
		if l, ok := byName[v.Limit]; !ok || l.Holds(v.Value) != v.Holds {
			t.Errorf("%s: %d is within %+v: %v", v.Name, v.Value, l, !v.Holds)
		}
	}
	for _, v := range file.Kept {
		seen.add(t, v.Name)
		if stdout, stderr := contract.KeptBytes(v.Total); stdout != v.Stdout || stderr != v.Stderr {
			t.Errorf("%s: %d and %d", v.Name, stdout, stderr)
		}
	}
}

// TestLimitVectorsAreAtTheBounds: every limit has vectors at its default, at both
// bounds and just outside the bounds.
func TestLimitVectorsAreAtTheBounds(t *testing.T) {
	var file limitFile
	readVectors(t, "limits.json", &file)
	for _, l := range contract.Limits() {
		want := map[string]int{"min": l.Limit.Min, "max": l.Limit.Max, "min-1": l.Limit.Min - 1, "max+1": l.Limit.Max + 1}
		if l.Limit.HasDefault() {
			want["default"] = l.Limit.Default
		}
		for _, v := range file.Vectors {
			if at, ok := strings.CutPrefix(v.Name, l.Name+": "); ok && v.Limit == l.Name {
				if value, ok := want[at]; !ok || value != v.Value || v.Holds == strings.HasSuffix(at, "1") {
					t.Errorf("%s: %d", v.Name, v.Value)
				}
				delete(want, at)
			}
		}
		if len(want) > 0 {
			t.Errorf("%s has no vectors for %v", l.Name, want)
		}
	}
}

// allowed is an allowlist in the form of the vectors.
type allowed contract.AllowList

func (a *allowed) UnmarshalJSON(b []byte) error {
	if string(b) == `"*"` {
		a.All = true
		return nil
	}
	return json.Unmarshal(b, &a.Names)
}

type inputVector struct {
	Name, Why, Check string

	Command        string
	CommandBase64  []byte `json:"command_base64"`
	Argument       string
	ArgumentBase64 []byte `json:"argument_base64"`
	Destination    contract.Destination
	Path           string
	PathBase64     []byte `json:"path_base64"`
	Env            map[string]string
	EnvBase64      map[string][]byte `json:"env_base64"`
	Allowed        allowed

	Clean  string
	Expect []string
}

// run makes the vector's check. It returns the clean path, if there is one, and the
// violations.
func (v inputVector) run(t *testing.T) (clean string, list []contract.Violation) {
	one := func(violation *contract.Violation) {
		if violation != nil {
			list = append(list, *violation)
		}
	}
	switch v.Check {
	case contract.IV01:
		one(contract.CheckCommand("/argv/0", v.Command+string(v.CommandBase64), contract.AllowList(v.Allowed)))
	case contract.IV02:
		one(contract.CheckArgument("/argv/1", v.Argument+string(v.ArgumentBase64), v.Destination))
		all := contract.CheckArguments("/argv", []string{"a", v.Argument + string(v.ArgumentBase64)}, v.Destination)
		if !slices.Equal(all, list) {
			t.Errorf("%s: alone %v, in a list %v", v.Name, list, all)
		}
	case contract.IV03:
		var violation *contract.Violation
		clean, violation = contract.CheckPath("/path", v.Path+string(v.PathBase64))
		one(violation)
	case contract.IV04:
		env := map[string]string{}
		for name, value := range v.Env {
			env[name] = value
		}
		for name, value := range v.EnvBase64 {
			env[name] = string(value)
		}
		list = contract.CheckEnvironment("/env", env, contract.AllowList(v.Allowed))
	default:
		t.Errorf("%s: no check %q", v.Name, v.Check)
	}
	return clean, list
}

func inputVectors(t *testing.T) []inputVector {
	t.Helper()
	var file struct {
		About   string
		Vectors []inputVector
	}
	readVectors(t, "iv.json", &file)
	return file.Vectors
}

func TestInputVectors(t *testing.T) {
	seen := names{}
	for _, v := range inputVectors(t) {
		seen.add(t, v.Name)
		clean, list := v.run(t)
		if clean != v.Clean {
			t.Errorf("%s: clean path %q, want %q", v.Name, clean, v.Clean)
		}
		got := []string{}
		for _, violation := range list {
			got = append(got, violation.ID+" "+violation.Pointer)
			checkWording(t, v.Name, violation)
		}
		if v.Expect == nil || !slices.Equal(got, v.Expect) {
			t.Errorf("%s: got %q, want %q", v.Name, got, v.Expect)
		}
	}
}

// checkWording checks what Violation promises about messages.
func checkWording(t *testing.T, name string, v contract.Violation) {
	t.Helper()
	for _, text := range []string{v.Msg, v.Hint} {
		if text == "" || len(text) > 2000 || strings.HasSuffix(text, ".") || strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
			t.Errorf("%s: words %q", name, text)
		}
	}
}

// TestInputVectorsAreEnough: every check of a text has vectors that pass and vectors
// that fail.
func TestInputVectorsAreEnough(t *testing.T) {
	pass, refuse, all := map[string]int{}, map[string]int{}, names{}
	for _, v := range inputVectors(t) {
		all[v.Name] = true
		if len(v.Expect) == 0 {
			pass[v.Check]++
		} else {
			refuse[v.Check]++
		}
	}
	if len(all) < 120 {
		t.Errorf("%d vectors", len(all))
	}
	for _, id := range []string{contract.IV01, contract.IV02, contract.IV03, contract.IV04} {
		if pass[id] < 10 || refuse[id] < 10 {
			t.Errorf("%s: %d vectors pass and %d do not, want 10 of each", id, pass[id], refuse[id])
		}
	}
}

func TestExitCodeVectors(t *testing.T) {
	var file struct {
		About  string
		Ranges []struct {
			First, Last     int
			Meaning, Action string
			Signal          *int
		}
		Outside []int
	}
	readVectors(t, "exit-codes.json", &file)
	next := 0
	for _, r := range file.Ranges {
		if r.First != next || r.Last < r.First {
			t.Fatalf("range from %d to %d where %d comes next", r.First, r.Last, next)
		}
		for ; next <= r.Last; next++ {
			want := contract.Interpretation{Code: next, Meaning: r.Meaning, Action: r.Action}
			if r.Signal != nil {
				want.Signal = *r.Signal + next - r.First
			}
			if got := contract.Interpret(next); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
	}
	if next != 256 || len(file.Outside) < 4 {
		t.Errorf("the ranges end before %d, and %d numbers are outside", next, len(file.Outside))
	}
	for _, code := range file.Outside {
		if got := contract.Interpret(code); got != (contract.Interpretation{Code: code}) {
			t.Errorf("%+v", got)
		}
	}
}

// access is the access that a vector of levels.json expects from a level.
type access struct {
	Name          string
	Reads, Writes []string
}

func (want access) check(t *testing.T, got contract.FSAccess) {
	t.Helper()
	if !slices.Equal(got.Reads(), want.Reads) || !slices.Equal(got.Writes(), want.Writes) {
		t.Errorf("%s: reads %q, writes %q", want.Name, got.Reads(), got.Writes())
	}
}

func TestLevelVectors(t *testing.T) {
	var file struct {
		About  string
		Levels []struct {
			Level contract.FSLevel
			access
		}
		Profiles []struct {
			Profile string
			Level   contract.FSLevel
			access
		}
		Network []struct {
			Name       string
			Allow      bool
			Hosts      allowed
			Registries []string
			Level      contract.NetLevel
		}
	}
	readVectors(t, "levels.json", &file)
	seen := names{}
	for _, v := range file.Levels {
		seen.add(t, v.Name)
		v.check(t, v.Level.Access())
	}
	for _, v := range file.Profiles {
		seen.add(t, v.Name)
		got, ok := contract.ProfileAccess(v.Profile)
		if ok != (v.Level != "") || got.Level != v.Level {
			t.Errorf("%s: %v, %+v", v.Name, ok, got)
		}
		v.check(t, got)
	}
	for _, v := range file.Network {
		seen.add(t, v.Name)
		if got := contract.NetworkLevel(v.Allow, contract.AllowList(v.Hosts), v.Registries); got != v.Level {
			t.Errorf("%s: %s", v.Name, got)
		}
	}
}

func TestHostVectors(t *testing.T) {
	var file struct {
		About   string
		Entries []struct {
			Name, Entry string
			OK          bool
		}
		Within []struct {
			Name, Entry, By string
			OK              bool
		}
		Reach []struct {
			Name, Host  string
			Allow, Deny []string
			Port        int
			OK, Private bool
		}
		Names []struct{ Name, Spelled, As string }
	}
	readVectors(t, "hosts.json", &file)
	seen := names{}
	for _, v := range file.Entries {
		seen.add(t, v.Name)
		if _, wrong := contract.ParseHost(v.Entry); (wrong == "") != v.OK {
			t.Errorf("%s: %q", v.Name, wrong)
		}
	}
	for _, v := range file.Within {
		seen.add(t, v.Name)
		if got := contract.HostWithin(v.Entry, v.By); got != v.OK {
			t.Errorf("%s: %t", v.Name, got)
		}
	}
	for _, v := range file.Reach {
		seen.add(t, v.Name)
		allow, _, wrong := contract.ParseHosts(v.Allow)
		deny, _, alsoWrong := contract.ParseHosts(v.Deny)
		if private, ok := (contract.Hosts{Allow: allow, Deny: deny}).Allows(v.Host, v.Port); ok != v.OK || private != v.Private || wrong+alsoWrong != "" {
			t.Errorf("%s: %t, private %t, %s%s", v.Name, ok, private, wrong, alsoWrong)
		}
	}
	for _, v := range file.Names {
		seen.add(t, v.Name)
		if got, ok := contract.HostName(v.Spelled); ok != (v.As != "") || ok && got != v.As {
			t.Errorf("%s: %q, %t", v.Name, got, ok)
		}
	}
}
