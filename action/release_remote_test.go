//go:build linux

package action_test

import (
	"debug/buildinfo"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/harness/rehearsal"
)

// linkedBy returns what programs link beside the standard library and our own packages, each
// version once.
func linkedBy(t *testing.T, programs ...string) []debug.Module {
	t.Helper()
	var list []debug.Module
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range info.Deps {
			if m.Path != "github.com/fiador/fiador" && !slices.Contains(list, *m) {
				list = append(list, *m)
			}
		}
	}
	return list
}

// hasLicences demands that a text has the licences of all that programs link, and no other.
func hasLicences(t *testing.T, text string, programs ...string) {
	t.Helper()
	list := linkedBy(t, programs...)
	for _, m := range list {
		if !strings.Contains(text, "\n"+m.Path+" "+m.Version+" (") {
			t.Errorf("no licence of %s", m.Path)
		}
	}
	if n := strings.Count(text, "\n"+strings.Repeat("=", 80)+"\n"); n != len(list)+1 {
		t.Errorf("licences of %d modules, and %d are linked beside the standard library", n, len(list))
	}
}

// remote returns the archive of what --remote needs.
func (a archive) remote() string { return "fiador-remote" + strings.TrimPrefix(a.name, "fiador") }

// shims are the programs for workers.
func shims() []string { return []string{"fiador-shim-linux-amd64", "fiador-shim-linux-arm64"} }

// TestReleaseRemote: the second archive, unpacked over the first, changes no file of it, and
// --remote finds the helper and the shims without a further flag. The shims are those that
// checksums.txt names, for both architectures, and depend on no commit.
func TestReleaseRemote(t *testing.T) {
	t.Parallel()
	a := released(t)
	first, second := unpacked(t, gunzipped(t, a.bytes)), unpacked(t, gunzipped(t, a.in(t, a.remote())))
	dir := t.TempDir()
	var programs []string
	for name, m := range second {
		if had := first[name]; had != nil && had.text != m.text {
			t.Errorf("%s is another than in %s", name, a.name)
		}
		program := strings.HasPrefix(name, "fiador-")
		if m.Mode != map[bool]int64{true: 0o755, false: 0o644}[program] {
			t.Errorf("%s has mode %o", name, m.Mode)
		}
		if file := filepath.Join(dir, name); program {
			programs = append(programs, file)
			if err := rehearsal.WriteFile(file, []byte(m.text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := slices.Concat([]string{"LICENSE", "THIRD_PARTY_LICENSES_REMOTE.txt", "fiador-remote"}, shims())
	if names := slices.Sorted(maps.Keys(second)); !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	hasLicences(t, second["THIRD_PARTY_LICENSES_REMOTE.txt"].text, programs...)
	for _, name := range shims() {
		if second[name].text != string(a.in(t, name)) || strings.Contains(second[name].text, a.commit) {
			t.Errorf("%s is not that of the release, or names a commit", name)
		}
		info, err := buildinfo.ReadFile(filepath.Join(dir, name))
		if err != nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "GOARCH", Value: name[len(name)-5:]}) || !slices.Contains(info.Settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"}) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
	}

	program, err := os.ReadFile(a.program)
	if err := errors.Join(err, rehearsal.WriteFile(filepath.Join(dir, "fiador"), program, 0o755)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "remote.json")
	address := rehearsal.Closed(t)
	if err := os.WriteFile(file, []byte(`{"execution":"grpc://`+address+`","wait_ms":1000}`), 0o644); err != nil {
		t.Fatal(err)
	}
	asked := func(want string) {
		t.Helper()
		var stderr strings.Builder
		cmd := exec.Command(filepath.Join(dir, "fiador"), "doctor", "--remote", file)
		cmd.Stderr = &stderr
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v\n%slacks %s", err, stderr.String(), want)
		}
	}
	asked(address) // the helper says that the server cannot be reached
	for _, c := range [][2]string{{"fiador-remote", "fiador-remote"}, {"fiador-shim-linux-" + runtime.GOARCH, "the shim for " + runtime.GOARCH + " cannot be read"}} {
		if err := os.Remove(filepath.Join(dir, c[0])); err != nil {
			t.Fatal(err)
		}
		asked(c[1])
	}
}

// ledgerd returns the archive of the ledger server.
func (a archive) ledgerd() string { return "fiador-ledgerd" + strings.TrimPrefix(a.name, "fiador") }

// unpackedLedgerd writes the ledger server of the release into a folder.
func unpackedLedgerd(t *testing.T, a archive) (program string, files map[string]*member) {
	t.Helper()
	files = unpacked(t, gunzipped(t, a.in(t, a.ledgerd())))
	program = filepath.Join(t.TempDir(), "fiador-ledgerd")
	if m := files["fiador-ledgerd"]; m == nil || m.Mode != 0o755 {
		t.Fatalf("%+v", m)
	} else if err := rehearsal.WriteFile(program, []byte(m.text), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, files
}

// TestReleaseLedgerd: the archive of the ledger server has the program and the licences of all
// that it links, the one that asks for its source among them.
func TestReleaseLedgerd(t *testing.T) {
	t.Parallel()
	a := released(t)
	program, files := unpackedLedgerd(t, a)
	const licences = "THIRD_PARTY_LICENSES_LEDGERD.txt"
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"LICENSE", licences, "fiador-ledgerd"}) {
		t.Fatalf("%q", names)
	}
	hasLicences(t, files[licences].text, program)
	if text := files[licences].text; !strings.Contains(text, "\ngithub.com/hashicorp/golang-lru/v2 v2.0.7 (") || !strings.Contains(text, "Mozilla Public License, version 2.0") {
		t.Error("the licence of golang-lru is not there")
	}
	out, err := exec.Command(program, "key", "--origin", "example.com/log", "--key", filepath.Join(t.TempDir(), "key")).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "example.com/log+") {
		t.Errorf("%v: %s", err, out)
	}
}

// contains demands that each file of the SBOM contains what its programs link, and no more.
func contains(t *testing.T, a archive, contained map[string][]string) {
	t.Helper()
	holds := func(name string, programs ...string) {
		t.Helper()
		want := []string{"stdlib " + strings.TrimPrefix(runtime.Version(), "go")}
		for _, m := range linkedBy(t, programs...) {
			want = append(want, m.Path+" "+m.Version+" go.sum "+m.Sum)
		}
		slices.Sort(want)
		slices.Sort(contained[name])
		if !slices.Equal(contained[name], want) {
			t.Errorf("%s contains %q, and not %q", name, contained[name], want)
		}
	}
	holds(a.name, a.program)
	helper := filepath.Join(t.TempDir(), "fiador-remote")
	if err := rehearsal.WriteFile(helper, []byte(unpacked(t, gunzipped(t, a.in(t, a.remote())))["fiador-remote"].text), 0o755); err != nil {
		t.Fatal(err)
	}
	programs := []string{helper}
	for _, name := range shims() {
		holds(name, filepath.Join(a.dir, name))
		programs = append(programs, filepath.Join(a.dir, name))
	}
	holds(a.remote(), programs...)
	server, _ := unpackedLedgerd(t, a)
	holds(a.ledgerd(), server)
	if len(contained[a.image()]) != len(contained[a.name])+1 {
		t.Errorf("the image contains %q", contained[a.image()])
	}
}
