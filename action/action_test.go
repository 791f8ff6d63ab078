//go:build linux

// Package action_test runs the GitHub action's scripts as a runner does, with a
// release made by .ci/release.
package action_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/open-policy-agent/opa/v1/util"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel"
)

const (
	allowed  = `{"goal":"Write the notes","constraints":["keep it short"],"actions":[{"kind":"write","path":"out/a.txt","content":"x"}]}`
	asked    = `{"goal":"Deploy to <environment>","constraints":["keep it short"]}`
	refused  = `{"goal":"Fetch","constraints":["fast"],"actions":[{"kind":"run","argv":["curl","example.com"]}]}`
	unlawful = `{"goal":"x","##[set-output name=outcome]":"accepted"}`
)

// needed are the commands that the scripts call.
var needed = strings.Fields("bash cat chmod curl grep gzip mkdir mktemp rm sed sh sha256sum tar tr uname")

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "action")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	release = sync.OnceValues(func() (archive, error) { return build(dir) })
	status := m.Run()
	os.RemoveAll(dir)
	os.Exit(status)
}

// archive is one file of a release.
type archive struct {
	name    string // fiador_0.1.0_linux_amd64.tar.gz
	version string // v0.1.0
	bytes   []byte
	program string // path of the unpacked program
	dir     string // folder of the release
	commit  string // of the source that it was made of
	public  string // key that signed it, as PEM
}

var release func() (archive, error)

// downloads are what go says of modules that it did not have.
var downloads = regexp.MustCompile(`(?m)^go: downloading .*\n`)

// build makes a release for this machine, of the files of this work tree as a commit of
// their own. It looks at every folder of the source, so that go test does not use a cached
// result of an older source.
func build(dir string) (archive, error) {
	err := filepath.WalkDir("..", func(name string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "dist") {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return archive{}, err
	}
	a := archive{version: "v" + kernel.Version, program: filepath.Join(dir, "fiador"), public: filepath.Join(dir, "release.pem")}
	a.name, a.dir = "fiador_"+kernel.Version+"_linux_"+runtime.GOARCH+".tar.gz", filepath.Join(dir, a.version)
	cmd := exec.Command("bash", "-c", `set -euo pipefail
mkdir "$1/source"
git -C .. ls-files -z --cached --others --exclude-standard | tar -C .. --null -T - --ignore-failed-read -cf - 2>/dev/null | tar -C "$1/source" -xf -
cd "$1/source"
git init -q . && git add -A && git commit -qm "a release"
git rev-parse HEAD >"$1/commit"
CGO_ENABLED=0 go run -trimpath ./cmd/fiador pack keygen --name example.com/release --key "$1/release.key" --pem "$1/release.pem" >"$1/release.pub"
cd "$1"
source/.ci/release "$2" "$2" --key release.key "linux/$3"
tar -xzf "$2/$4" fiador`, "bash", dir, a.version, runtime.GOARCH, a.name)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "TZ=Asia/Kathmandu",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := cmd.CombinedOutput()
	if said := downloads.ReplaceAllString(string(out), ""); err != nil || said != "" {
		return archive{}, fmt.Errorf("%v\n%s", err, said)
	}
	commit, err := os.ReadFile(filepath.Join(dir, "commit"))
	if err != nil {
		return archive{}, err
	}
	a.commit = strings.TrimSpace(string(commit))
	a.bytes, err = os.ReadFile(filepath.Join(a.dir, a.name))
	return a, err
}

func released(t *testing.T) archive {
	t.Helper()
	tools(t)
	a, err := release()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tools skips a test where a command is not there.
func tools(t *testing.T) {
	t.Helper()
	for _, name := range needed {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed, and a release names a commit")
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skipf("there is no release for %s", runtime.GOARCH)
	}
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// runner is the place of one job: RUNNER_TEMP, a workspace, and the files through
// which a step speaks.
type runner struct {
	t    *testing.T
	dir  string
	path string // PATH
	env  map[string]string
}

func newRunner(t *testing.T, env map[string]string) *runner {
	t.Helper()
	r := &runner{t: t, dir: t.TempDir(), path: os.Getenv("PATH")}
	for _, d := range []string{"temp", "work", "commands"} {
		if err := os.Mkdir(filepath.Join(r.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.env = map[string]string{"RUNNER_TEMP": filepath.Join(r.dir, "temp"), "NO_PROXY": "*", "HOME": r.dir}
	for _, name := range []string{"PATH", "OUTPUT", "STEP_SUMMARY"} {
		r.env["GITHUB_"+name] = r.put("commands/"+name, "")
	}
	maps.Copy(r.env, env)
	return r
}

func (r *runner) put(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := rehearsal.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *runner) get(name string) string {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// command writes a command that stands in front of the machine's own.
func (r *runner) command(name, script string) {
	r.t.Helper()
	path := r.put("first/"+name, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if first := filepath.Dir(path); !strings.HasPrefix(r.path, first+":") {
		r.path = first + ":" + r.path
	}
}

// without leaves only those of the machine's commands that the scripts call, less some.
func (r *runner) without(missing ...string) {
	r.t.Helper()
	bin := filepath.Join(r.dir, "only")
	if err := os.Mkdir(bin, 0o755); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range needed {
		if path, err := exec.LookPath(name); err == nil && !slices.Contains(missing, name) {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	r.path = bin
}

// run runs a command in the workspace and returns its exit status and its output.
func (r *runner) run(argv ...string) (int, string) {
	r.t.Helper()
	program, err := exec.LookPath(argv[0])
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(program, argv[1:]...)
	cmd.Dir = filepath.Join(r.dir, "work")
	cmd.Stdin = strings.NewReader(allowed)
	cmd.Env = []string{"PATH=" + r.path}
	for k, v := range r.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.CombinedOutput()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		r.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// outputs are the values that the steps set; the last value of a name counts.
func (r *runner) outputs() map[string]string {
	r.t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(r.get("commands/OUTPUT")) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			r.t.Errorf("output %q", line)
		}
		got[name] = value
	}
	return got
}

// script is the path of one of the action's scripts.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var shells = []string{"bash", "sh"}

// mirror is a folder with one archive in the place of a release, and the inputs
// that install it.
func mirror(t *testing.T, version, name string, b []byte) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, version), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, version, name), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"INPUT_VERSION": version, "INPUT_SHA256": sum(b), "INPUT_BASE_URL": fileURL(dir)}
}

func fileURL(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// small is the archive of a program that says its name.
func small(t *testing.T) []byte { return tarball(t, file("fiador", "#!/bin/sh\necho I am small\n")) }

type member struct {
	tar.Header
	text string
}

func file(name, text string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text))}, text}
}

func link(kind byte, name, to string) member {
	return member{tar.Header{Name: name, Typeflag: kind, Linkname: to, Mode: 0o755}, ""}
}

func tarball(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, m := range members {
		if err := w.WriteHeader(&m.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, m.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// here is the name of the archive of v1.2.3 for this machine.
func here() string { return "fiador_1.2.3_linux_" + runtime.GOARCH + ".tar.gz" }

// notInstalled demands that an installation failed and left nothing.
func notInstalled(t *testing.T, r *runner, status int, out, want string) {
	t.Helper()
	if status != 2 || !strings.Contains(out, want) || !strings.Contains(out, "::error title=fiador::") {
		t.Errorf("status %d, want 2 and %q:\n%s", status, want, out)
	}
	if left, _ := os.ReadDir(filepath.Join(r.dir, "temp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if said := r.get("commands/PATH") + r.get("commands/OUTPUT"); said != "" {
		t.Errorf("commands %q", said)
	}
}

// installed demands that an installation put a program, and nothing else, where
// the commands say.
func installed(t *testing.T, r *runner, status int, out, program string) string {
	t.Helper()
	if status != 0 {
		t.Fatalf("status %d:\n%s", status, out)
	}
	path := r.outputs()["program"]
	if bin := strings.TrimSuffix(r.get("commands/PATH"), "\n"); path != filepath.Join(bin, program) {
		t.Errorf("program %q, folder %q", path, bin)
	}
	var files []string
	err := filepath.WalkDir(filepath.Join(r.dir, "temp"), func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil || !slices.Equal(files, []string{path}) {
		t.Errorf("installed %v, want %v; %v", files, path, err)
	}
	return path
}

func TestInstallRelease(t *testing.T) {
	t.Parallel()
	a := released(t)
	for _, shell := range shells {
		r := newRunner(t, mirror(t, a.version, a.name, a.bytes))
		status, out := r.run(shell, script(t, "install.sh"))
		path := installed(t, r, status, out, "fiador")
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := os.ReadFile(a.program); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the program is not that of the archive; %v", shell, err)
		}
		if want := "fiador " + strings.TrimPrefix(a.version, "v") + "\n"; !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, want %q", shell, out, want)
		}
	}
}

// TestInstallSource: without a version and a checksum the program is built from the source
// around the script. One of the two alone is no release, and no source either.
func TestInstallSource(t *testing.T) {
	t.Parallel()
	a := released(t)
	source := map[string]string{"INPUT_VERSION": "", "INPUT_SHA256": "", "INPUT_BASE_URL": "https://nowhere.invalid"}
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPROXY").Output()
	var env map[string]string
	if err := errors.Join(err, json.Unmarshal(out, &env)); err != nil {
		t.Fatal(err)
	}
	for _, shell := range shells {
		r := newRunner(t, source)
		maps.Copy(r.env, env)
		status, out := r.run(shell, script(t, "install.sh"))
		installed(t, r, status, out, "fiador")
		if want := "fiador " + strings.TrimPrefix(a.version, "v") + "\n"; !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, want %q", shell, out, want)
		}
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"no go", nil, "go is not installed"},
		{"go that fails", nil, "the program could not be built"},
		{"version alone", map[string]string{"INPUT_VERSION": a.version}, "INPUT_SHA256 is empty or not set"},
		{"checksum alone", map[string]string{"INPUT_SHA256": sum(a.bytes)}, "INPUT_VERSION is empty or not set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, source)
			maps.Copy(r.env, c.env)
			r.without("go")
			if c.name == "go that fails" {
				r.command("go", "exit 1")
			}
			status, out := r.run("sh", script(t, "install.sh"))
			notInstalled(t, r, status, out, c.want)
		})
	}
}

func TestInstallChecksums(t *testing.T) {
	t.Parallel()
	tools(t)
	b := small(t)
	right, wrong := sum(b), sum([]byte("other"))
	named := func(sum string) string { return sum + "  " + here() }
	other := wrong + "  fiador_1.2.3_plan9_amd64.tar.gz"
	for _, c := range []struct{ name, sha256, want string }{
		{"alone", right, ""},
		{"named", named(right), ""},
		{"among others", "\n" + other + "\n\n" + named(right) + "\n" + wrong + "  README\n", ""},
		{"binary mark", right + " *" + here() + "\n", ""},
		{"CRLF and capitals", other + "\r\n" + strings.ToUpper(right) + "  " + here() + "\r\n", ""},
		{"twice the same", named(right) + "\n" + named(right), ""},
		{"wrong", wrong, "has the checksum " + right + ", and not " + wrong},
		{"wrong by name", named(wrong), "has the checksum " + right},
		{"none for this platform", other, "has no checksum for " + here()},
		{"for another version", right + "  fiador_1.2.4_linux_" + runtime.GOARCH + ".tar.gz", "has no checksum for " + here()},
		{"empty", "", "INPUT_SHA256 is empty or not set"},
		{"blank", " \n\n", "has no checksum for"},
		{"short", right[:63], "line 1 of sha256 is not a checksum"},
		{"long", right + "0", "line 1 of sha256 is not a checksum"},
		{"prefix", "sha256:" + right, "line 1 of sha256 is not a checksum"},
		{"not hexadecimal", "g" + right[1:], "line 1 of sha256 is not a checksum"},
		{"pattern", strings.Repeat("*", 64), "line 1 of sha256 is not a checksum"},
		{"one bad line", named(right) + "\nrubbish", "line 2 of sha256 is not a checksum"},
		{"three fields", named(right) + " x", "line 1 of sha256 is not a checksum"},
		{"contradiction", named(right) + "\n" + named(wrong), "has two checksums for " + here()},
		{"nameless among named", right + "\n" + other, "without a name among several"},
		{"two nameless", right + "\n" + right, "without a name among several"},
		{"shell text", "$(touch pwned)", "line 1 of sha256 is not a checksum"},
	} {
		for _, shell := range shells {
			t.Run(c.name+" "+shell, func(t *testing.T) {
				t.Parallel()
				r := newRunner(t, mirror(t, "v1.2.3", here(), b))
				r.env["INPUT_SHA256"] = c.sha256
				status, out := r.run(shell, script(t, "install.sh"))
				if c.want == "" {
					installed(t, r, status, out, "fiador")
				} else {
					notInstalled(t, r, status, out, c.want)
				}
			})
		}
	}
}

// TestInstallArchives: whatever is in an archive, the installation writes one file, or
// none.
func TestInstallArchives(t *testing.T) {
	t.Parallel()
	tools(t)
	good := file("fiador", "#!/bin/sh\necho I am small\n")
	whole := small(t)
	for _, c := range []struct {
		name  string
		bytes []byte
		want  string
	}{
		{"other files", tarball(t, file("LICENSE", "free"), good, file("lib/fiador", "no")), ""},
		{"names that lead out", tarball(t, file("../evil", "x"), good, file("../../evil", "x"), file("/tmp/fiador-evil", "x")), ""},
		{"a link elsewhere", tarball(t, link(tar.TypeSymlink, "bin", "../../work"), file("bin/evil", "x"), good), ""},
		{"a symbolic link", tarball(t, link(tar.TypeSymlink, "fiador", "/bin/true")), "is not a file"},
		{"a hard link", tarball(t, file("x", "x"), link(tar.TypeLink, "fiador", "x")), "fiador"},
		{"a folder", tarball(t, member{tar.Header{Name: "fiador/", Typeflag: tar.TypeDir, Mode: 0o755}, ""}), "does not hold the file fiador once"},
		{"a pipe", tarball(t, link(tar.TypeFifo, "fiador", "")), "is not a file"},
		{"a link and then a file", tarball(t, link(tar.TypeSymlink, "fiador", "../../../work/evil"), good), "does not hold the file fiador once"},
		{"twice", tarball(t, good, good), "does not hold the file fiador once"},
		{"below", tarball(t, file("./fiador", "x"), file("fiador_1.2.3/fiador", "x")), "does not hold the file fiador once"},
		{"nothing", tarball(t), "does not hold the file fiador once"},
		{"empty", tarball(t, file("fiador", "")), "is not a file"},
		{"no program", tarball(t, file("fiador", "\x7fELF nothing")), "does not run here"},
		{"a program that fails", tarball(t, file("fiador", "#!/bin/sh\nexit 1\n")), "does not run here"},
		{"truncated", whole[:len(whole)/2], "cannot be read"},
		{"no archive", []byte("<html>"), "cannot be read"},
		{"no byte", nil, "cannot be read"},
	} {
		for _, shell := range shells {
			t.Run(c.name+" "+shell, func(t *testing.T) {
				t.Parallel()
				r := newRunner(t, mirror(t, "v1.2.3", here(), c.bytes))
				status, out := r.run(shell, script(t, "install.sh"))
				if c.want == "" {
					installed(t, r, status, out, "fiador")
				} else {
					notInstalled(t, r, status, out, c.want)
				}
				for _, name := range []string{"evil", "temp/evil", "work/evil"} {
					if _, err := os.Lstat(filepath.Join(r.dir, name)); err == nil {
						t.Errorf("%s was written", name)
					}
				}
				if _, err := os.Lstat("/tmp/fiador-evil"); err == nil {
					t.Error("/tmp/fiador-evil was written")
				}
			})
		}
	}

	t.Run("truncated on the way", func(t *testing.T) {
		t.Parallel()
		a := released(t)
		r := newRunner(t, mirror(t, a.version, a.name, a.bytes[:len(a.bytes)-1]))
		r.env["INPUT_SHA256"] = sum(a.bytes)
		r.command("tar", "touch unpacked")
		status, out := r.run("bash", script(t, "install.sh"))
		notInstalled(t, r, status, out, "and not "+sum(a.bytes))
		if _, err := os.Lstat(filepath.Join(r.dir, "work", "unpacked")); err == nil {
			t.Error("it was unpacked before its checksum was right")
		}
	})
}

func TestInstallPlatforms(t *testing.T) {
	t.Parallel()
	tools(t)
	for _, c := range []struct{ system, machine, archive, program string }{
		{"Linux", "x86_64", "linux_amd64", "fiador"},
		{"Linux", "aarch64", "linux_arm64", "fiador"},
		{"Darwin", "x86_64", "darwin_amd64", "fiador"},
		{"Darwin", "arm64", "darwin_arm64", "fiador"},
		{"MINGW64_NT-10.0-26100", "x86_64", "windows_amd64", "fiador.exe"},
		{"MSYS_NT-10.0-26100", "x86_64", "windows_amd64", "fiador.exe"},
		{"MINGW64_NT-10.0-26100", "aarch64", "", ""},
		{"Linux", "riscv64", "", ""},
		{"Linux", "i686", "", ""},
		{"Linux", "", "", ""},
		{"SunOS", "x86_64", "", ""},
		{"Linux_amd64", "x86_64", "", ""},
		{"", "", "", ""},
	} {
		for _, shell := range shells {
			t.Run(c.system+" "+c.machine+" "+shell, func(t *testing.T) {
				t.Parallel()
				b := tarball(t, file("fiador", "#!/bin/sh\necho a\n"), file("fiador.exe", "#!/bin/sh\necho b\n"))
				r := newRunner(t, mirror(t, "v1.2.3", "fiador_1.2.3_"+c.archive+".tar.gz", b))
				r.command("uname", `case $1 in -s) echo "`+c.system+`" ;; -m) echo "`+c.machine+`" ;; esac`)
				status, out := r.run(shell, script(t, "install.sh"))
				if c.archive == "" {
					notInstalled(t, r, status, out, "there is no release for "+c.system+" "+c.machine)
				} else {
					installed(t, r, status, out, c.program)
				}
			})
		}
	}
}

func TestInstallMissingCommands(t *testing.T) {
	t.Parallel()
	tools(t)
	for _, c := range []struct {
		missing []string
		want    string
	}{
		{nil, ""},
		{[]string{"curl"}, "curl is not installed"},
		{[]string{"sha256sum"}, "neither sha256sum nor shasum is installed"},
		{[]string{"uname"}, "there is no release for"},
		{[]string{"tar"}, "cannot be read"},
		{[]string{"gzip"}, "cannot be read"},
		{[]string{"grep"}, "is not a release"},
	} {
		for _, shell := range shells {
			t.Run(strings.Join(c.missing, " ")+" "+shell, func(t *testing.T) {
				t.Parallel()
				r := newRunner(t, mirror(t, "v1.2.3", here(), small(t)))
				r.without(c.missing...)
				status, out := r.run(shell, script(t, "install.sh"))
				if c.want == "" {
					installed(t, r, status, out, "fiador")
				} else {
					notInstalled(t, r, status, out, c.want)
				}
			})
		}
	}

	t.Run("shasum instead", func(t *testing.T) {
		t.Parallel()
		path, err := exec.LookPath("sha256sum")
		if err != nil {
			t.Fatal(err)
		}
		r := newRunner(t, mirror(t, "v1.2.3", here(), small(t)))
		r.without("sha256sum")
		r.command("shasum", `[ "$*" = "-a 256" ] && exec `+path)
		status, out := r.run("sh", script(t, "install.sh"))
		installed(t, r, status, out, "fiador")
	})
}

func TestInstallInputs(t *testing.T) {
	t.Parallel()
	tools(t)
	for _, c := range []struct{ name, value, want string }{
		{"INPUT_VERSION", "1.2.3", "is not a release"},
		{"INPUT_VERSION", "v1", "is not a release"},
		{"INPUT_VERSION", "latest", "is not a release"},
		{"INPUT_VERSION", "v1.2.3/../v1.2.3", "is not a release"},
		{"INPUT_VERSION", "v1.2.3\nv1.2.3", "is not a release"},
		{"INPUT_VERSION", "v1.2.3\n::notice::x", "is not a release"},
		{"INPUT_VERSION", "v1.2.3-$(touch pwned)", "is not a release"},
		{"INPUT_VERSION", "v1.2.4", "could not be downloaded"},
		{"INPUT_BASE_URL", "http://127.0.0.1:1", "neither https:// nor file://"},
		{"INPUT_BASE_URL", "--config=x", "neither https:// nor file://"},
		{"INPUT_BASE_URL", "file:///nowhere", "could not be downloaded"},
		{"INPUT_BASE_URL", "https://127.0.0.1:1", "could not be downloaded"},
		{"INPUT_BASE_URL", "file:///{a,b}$(touch pwned)", "could not be downloaded"},
	} {
		r := newRunner(t, mirror(t, "v1.2.3", here(), small(t)))
		r.command("sleep", "")
		r.env[c.name] = c.value
		status, out := r.run("bash", script(t, "install.sh"))
		notInstalled(t, r, status, out, c.want)
		if n := strings.Count("\n"+out, "\n::"); n != 1 {
			t.Errorf("%q: %d commands:\n%s", c.value, n, out)
		}
	}
	// Nothing in a URL is a pattern.
	r := newRunner(t, mirror(t, "v1.2.3", here(), small(t)))
	r.put("m[1-2]{a,b}/v1.2.3/"+here(), string(small(t)))
	r.env["INPUT_BASE_URL"] = fileURL(r.dir) + "/m[1-2]{a,b}/"
	status, out := r.run("bash", script(t, "install.sh"))
	installed(t, r, status, out, "fiador")
}

// TestVariablesThatAreNotSet: a script that is called without one of its variables ends
// with status 2.
func TestVariablesThatAreNotSet(t *testing.T) {
	t.Parallel()
	a := released(t)
	empties := strings.Fields("INPUT_ORG_POLICY INPUT_CHANGED INPUT_COVERS INPUT_SARIF INPUT_RUN_ID INPUT_BASELINE INPUT_NEW INPUT_CASES INPUT_OUT INPUT_LIMITS INPUT_TOOLS INPUT_KEYS INPUT_SIGN")
	for name, may := range map[string][]string{"install.sh": nil, "check.sh": empties} {
		inputs := func() map[string]string {
			if name == "install.sh" {
				return mirror(t, "v1.2.3", here(), small(t))
			}
			return checkInputs(a)
		}
		variables := append(slices.Sorted(maps.Keys(inputs())), "RUNNER_TEMP", "GITHUB_OUTPUT")
		if name == "install.sh" {
			variables = append(variables, "GITHUB_PATH")
		} else {
			variables = append(variables, "GITHUB_STEP_SUMMARY")
		}
		for _, variable := range variables {
			for _, shell := range shells {
				for _, empty := range []bool{false, true} {
					if empty && slices.Contains(may, variable) {
						continue
					}
					r := newRunner(t, inputs())
					r.put("work/intents/a.json", allowed)
					delete(r.env, variable)
					if empty {
						r.env[variable] = ""
					}
					status, out := r.run(shell, script(t, name))
					if status != 2 || !strings.Contains(out, variable+" is ") {
						t.Errorf("%s without %s (empty: %t): status %d\n%s", name, variable, empty, status, out)
					}
				}
			}
		}
	}
}

// TestInstallOverHTTPS: redirects are followed, but only to https.
func TestInstallOverHTTPS(t *testing.T) {
	t.Parallel()
	tools(t)
	b := small(t)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(b) }))
	defer plain.Close()
	secret := t.TempDir()
	if err := os.WriteFile(filepath.Join(secret, "a"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	var s *httptest.Server
	s = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		place := "/v1.2.3/" + here()
		to := map[string]string{
			"/secure" + place: s.URL + "/direct" + place, "/plain" + place: plain.URL, "/file" + place: fileURL(secret) + "/a",
		}[q.URL.Path]
		switch {
		case to != "":
			http.Redirect(w, q, to, http.StatusFound)
		case q.URL.Path == "/direct"+place:
			w.Write(b)
		default:
			http.NotFound(w, q)
		}
	}))
	defer s.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for path, want := range map[string]string{
		"direct": "", "direct/": "", "secure": "", "plain": "could not be downloaded", "file": "could not be downloaded", "nowhere": "could not be downloaded",
	} {
		r := newRunner(t, map[string]string{"INPUT_VERSION": "v1.2.3", "INPUT_SHA256": sum(b), "INPUT_BASE_URL": s.URL + "/" + path})
		r.env["CURL_CA_BUNDLE"] = r.put("authority.pem", string(authority))
		status, out := r.run("bash", script(t, "install.sh"))
		if want == "" {
			installed(t, r, status, out, "fiador")
		} else {
			notInstalled(t, r, status, out, want)
		}
	}
}

// checkInputs are the defaults.
func checkInputs(a archive) map[string]string {
	return map[string]string{
		"FIADOR_PROGRAM": a.program, "INPUT_INTENTS": "intents", "INPUT_POLICY": "default", "INPUT_ORG_POLICY": "",
		"INPUT_TREE": ".", "INPUT_WORKING_DIRECTORY": ".", "INPUT_REPORT_ONLY": "false", "INPUT_CHANGED": "", "INPUT_COVERS": "", "INPUT_SARIF": "",
		"INPUT_MODE": "check", "INPUT_RUNS": "runs", "INPUT_RUN_ID": "", "INPUT_BASELINE": "", "INPUT_NEW": "", "INPUT_CASES": "", "INPUT_OUT": "",
		"INPUT_LIMITS": "", "INPUT_SUITE_POLICY": "none", "INPUT_TOOLS": "", "INPUT_KEYS": "", "INPUT_SIGN": "",
	}
}

// checked demands of a check its exit status, its outputs and its summary.
func checked(t *testing.T, r *runner, status, want int, outcome, summary, out string) {
	t.Helper()
	if status != want {
		t.Errorf("status %d, want %d:\n%s", status, want, out)
	}
	if got := r.outputs(); len(got) != 2 || got["status"] != fmt.Sprint(want) || got["outcome"] != outcome {
		t.Errorf("outputs %v, want status %d and outcome %s", got, want, outcome)
	}
	if got := r.get("commands/STEP_SUMMARY"); !strings.HasPrefix(got, "# fiador: "+summary) || len(got) >= 1<<20 {
		t.Errorf("summary of %d bytes: %.300s", len(got), got)
	}
	if left, _ := os.ReadDir(filepath.Join(r.dir, "temp")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "::") && strings.Contains(line, "##[") {
			t.Errorf("the runner obeys %q", line)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	a := released(t)
	tree := map[string]string{
		"intents/a.json":              allowed,
		"rejected/a.json":             allowed,
		"rejected/b.json":             refused,
		"asked.json":                  asked,
		"unlawful.json":               unlawful,
		"broken/##[warning]x.json":    `{"goal":`,
		"broken/a.json":               allowed,
		"none/README.md":              "no intent",
		"lines.jsonl":                 allowed + "\n" + allowed + "\n",
		" a  b/it's \"$HOME\" *.json": allowed,
		"new\nline/in\ntents/a.json":  allowed,
		"new\nline/b\n.json":          refused,
		"-x.json":                     allowed,
		"--policy=dev":                allowed,
		"#[x]":                        refused,
		"mine/profile.json":           `{"name":"mine","extends":"default","bogus":1}`,
		"layer/x.rego":                "package gate.org.x\n)",
	}
	for _, c := range []struct {
		name    string
		set     map[string]string
		status  int
		outcome string
		summary string
		says    string
	}{
		{"allowed", nil, 0, "accepted", "ACCEPTED, 1 intent", "1 BUNDLE"},
		{"one rejected", map[string]string{"INPUT_INTENTS": "rejected"}, 1, "rejected", "REJECTED, 1 of 2 intents", "::error file=rejected/b.json,line="},
		{"a question", map[string]string{"INPUT_INTENTS": "asked.json"}, 1, "rejected", "REJECTED", "::warning file=asked.json"},
		{"several lines", map[string]string{"INPUT_INTENTS": "\nintents\nlines.jsonl\n\nrejected/a.json\n"}, 0, "accepted", "ACCEPTED, 4 intents", ""},
		{"one line of two rejected", map[string]string{"INPUT_INTENTS": "intents\nrejected"}, 1, "rejected", "REJECTED, 1 of 3", ""},
		{"pattern", map[string]string{"INPUT_INTENTS": "rejec*/**/*.json"}, 1, "rejected", "REJECTED, 1 of 2", ""},
		{"unlawful", map[string]string{"INPUT_INTENTS": "unlawful.json"}, 2, "error", "ERROR", `#\u0023[set-output name=outcome]`},
		{"unreadable", map[string]string{"INPUT_INTENTS": "broken"}, 2, "error", "ERROR", `#\u0023[warning]x.json`},
		{"missing", map[string]string{"INPUT_INTENTS": "intents\nnowhere.json"}, 2, "error", "ERROR", "nowhere.json: no such file"},
		{"no intent", map[string]string{"INPUT_INTENTS": "none"}, 2, "error", "ERROR, no decision was made", "none: no intent found"},
		{"no intent in one", map[string]string{"INPUT_INTENTS": "intents\nnone"}, 2, "error", "ERROR, no decision was made", ""},
		{"pattern of nothing", map[string]string{"INPUT_INTENTS": "none/*.json"}, 2, "error", "ERROR, no decision was made", ""},
		{"a blank line", map[string]string{"INPUT_INTENTS": "intents\n  \n"}, 2, "error", "ERROR", ""},
		{"standard input", map[string]string{"INPUT_INTENTS": "-"}, 2, "error", "ERROR, no decision about 1 of 1 intent", "no intent found"},

		{"spaces", map[string]string{"INPUT_INTENTS": " a  b"}, 0, "accepted", "ACCEPTED, 1 intent", ""},
		{"spaces and quotes", map[string]string{"INPUT_INTENTS": " a  b/it's \"$HOME\" *.json"}, 0, "accepted", "ACCEPTED, 1 intent", ""},
		{"newlines below a folder", map[string]string{"INPUT_INTENTS": "."}, 2, "error", "ERROR", `b\n.json`},
		{"newlines by a pattern", map[string]string{"INPUT_INTENTS": "new?line"}, 1, "rejected", "REJECTED, 1 of 2", `new\nline/b\n.json`},
		{"newline in the tree", map[string]string{"INPUT_TREE": "new\nline", "INPUT_INTENTS": "new?line/in*"}, 0, "accepted", "ACCEPTED, 1 intent", ""},
		{"a name with a dash", map[string]string{"INPUT_INTENTS": "-x.json"}, 0, "accepted", "ACCEPTED, 1 intent", ""},
		{"a name like a flag", map[string]string{"INPUT_INTENTS": "--policy=dev\n#[x]"}, 1, "rejected", "REJECTED, 1 of 2", ""},
		{"flags", map[string]string{"INPUT_INTENTS": "--report-only\nrejected"}, 2, "error", "ERROR", "no such file"},
		{"shell text", map[string]string{"INPUT_INTENTS": "$(touch pwned)`touch pwned`;touch pwned"}, 2, "error", "ERROR", "no such file"},
		{"shell text elsewhere", map[string]string{"INPUT_POLICY": "$(touch pwned)", "INPUT_TREE": "`touch pwned`"}, 2, "error", "ERROR", ""},

		{"strict", map[string]string{"INPUT_POLICY": "strict"}, 0, "accepted", "ACCEPTED", `profile "strict"`},
		{"unknown profile", map[string]string{"INPUT_POLICY": "lenient"}, 2, "error", "ERROR, no decision was made", "::error title=RUN_E004"},
		{"invalid profile", map[string]string{"INPUT_POLICY": "mine"}, 2, "error", "ERROR, no decision was made", "::error file=mine/profile.json,line=1,title=RUN_E004"},
		{"invalid layer", map[string]string{"INPUT_ORG_POLICY": "layer"}, 2, "error", "ERROR, no decision was made", "::error file=layer/x.rego,line=2,title=RUN_E004"},
		{"two profiles", map[string]string{"INPUT_POLICY": "default\ndev"}, 2, "error", "ERROR, no decision was made", ""},
		{"missing layer", map[string]string{"INPUT_ORG_POLICY": "none\nnowhere"}, 2, "error", "ERROR, no decision was made", "nowhere"},
		{"missing tree", map[string]string{"INPUT_TREE": "nowhere"}, 2, "error", "ERROR, no decision was made", "nowhere"},

		{"working directory", map[string]string{"INPUT_WORKING_DIRECTORY": "rejected", "INPUT_INTENTS": "."}, 1, "rejected", "REJECTED, 1 of 2", "::error file=b.json,"},
		{"missing working directory", map[string]string{"INPUT_WORKING_DIRECTORY": "-nowhere"}, 2, "error", "ERROR, no decision was made", "cannot be entered"},

		{"report only", map[string]string{"INPUT_REPORT_ONLY": "true", "INPUT_INTENTS": "rejected"}, 0, "rejected", "REJECTED, 1 of 2", "REPORT ONLY"},
		{"report only, allowed", map[string]string{"INPUT_REPORT_ONLY": "true"}, 0, "accepted", "ACCEPTED", "REPORT ONLY"},
		{"report only, undecided", map[string]string{"INPUT_REPORT_ONLY": "true", "INPUT_INTENTS": "rejected\nbroken"}, 2, "error", "ERROR", ""},
		{"report only, nothing", map[string]string{"INPUT_REPORT_ONLY": "true", "INPUT_INTENTS": "none"}, 2, "error", "ERROR", ""},
		{"report elsewhere", map[string]string{"INPUT_SARIF": "no/such/folder"}, 2, "error", "ERROR, no decision was made", ""},
		{"report to standard output", map[string]string{"INPUT_SARIF": "-"}, 2, "error", "ERROR, no decision was made", ""},

		{"no program", map[string]string{"FIADOR_PROGRAM": "/nowhere/fiador"}, 2, "error", "ERROR, no decision was made", ""},
		{"a program that is killed", map[string]string{"FIADOR_PROGRAM": "killed"}, 2, "error", "ERROR, no decision was made", ""},
		{"a program with another status", map[string]string{"FIADOR_PROGRAM": "other"}, 2, "error", "ERROR, no decision was made", ""},
	} {
		for _, shell := range shells {
			t.Run(c.name+" "+shell, func(t *testing.T) {
				t.Parallel()
				r := newRunner(t, checkInputs(a))
				for name, text := range tree {
					r.put("work/"+name, text)
				}
				r.command("killed", "kill -KILL $$")
				r.command("other", "exit 3")
				maps.Copy(r.env, c.set)
				status, out := r.run(shell, script(t, "check.sh"))
				checked(t, r, status, c.status, c.outcome, c.summary, out)
				if !strings.Contains(out, c.says) {
					t.Errorf("not %q:\n%s", c.says, out)
				}
				if _, err := os.Lstat(filepath.Join(r.dir, "work", "pwned")); err == nil {
					t.Error("an input was run")
				}
			})
		}
	}
}

// TestCheckChange: the inputs changed and covers ask about the change of a clone, in the words of
// the action. A clone without the history is no decision.
func TestCheckChange(t *testing.T) {
	t.Parallel()
	a := released(t)
	const history = `git init -q -b main; git add -A; git commit -q -m one; git checkout -q -b topic; mkdir -p out; echo x >out/a.txt
git add out; git commit -q -m none; git tag none; echo "$INTENT" >intents/new.json; git add -A; git commit -q -m intent; git tag announced
echo y >README; git add -A; git commit -q -m more`
	for _, c := range []struct {
		name, at        string
		changed, covers string
		status          int
		outcome         string
		summary, says   string
	}{
		{"no intent", "none", "main", "", 0, "accepted", "ACCEPTED, the change brings no intent", "this change brings no intent"},
		{"no intent, path", "none", "", "main..HEAD", 1, "rejected", "REJECTED, 1 changed path is not announced", "::error file=out/a.txt,line=1,"},
		{"intent", "announced", "main", "", 0, "accepted", "ACCEPTED, 1 intent", "1 BUNDLE"},
		{"announced", "announced", "", "main..HEAD", 0, "accepted", "ACCEPTED, 1 intent", "1 BUNDLE"},
		{"both", "announced", "main", "main..HEAD", 0, "accepted", "ACCEPTED, 1 intent", "1 BUNDLE"},
		{"one path more", "topic", "", "main..HEAD", 1, "rejected", "REJECTED, 1 changed path is not announced", "::error file=README,line=1,"},
		{"all intents", "topic", "", "", 0, "accepted", "ACCEPTED, 2 intents", "2 BUNDLE"},
		{"unknown base", "topic", "nowhere", "", 2, "error", "ERROR, no decision was made", "fetch-depth: 0"},
		{"a flag", "topic", "--report-only", "", 2, "error", "ERROR, no decision was made", "a revision begins with -"},
		{"shell text", "topic", "$(touch pwned)", "", 2, "error", "ERROR, no decision was made", "git has no such commit here"},
		{"no range", "topic", "", "main", 2, "error", "ERROR, no decision was made", "is no range"},
	} {
		for _, shell := range shells {
			t.Run(c.name+" "+shell, func(t *testing.T) {
				t.Parallel()
				r := newRunner(t, checkInputs(a))
				maps.Copy(r.env, map[string]string{
					"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "INTENT": allowed,
				})
				r.put("work/intents/old.json", allowed)
				if status, out := r.run("sh", "-ec", history+"; git checkout -q "+c.at); status != 0 {
					t.Fatal(out)
				}
				r.env["INPUT_CHANGED"], r.env["INPUT_COVERS"] = c.changed, c.covers
				status, out := r.run(shell, script(t, "check.sh"))
				checked(t, r, status, c.status, c.outcome, c.summary, out)
				if !strings.Contains(out, c.says) {
					t.Errorf("not %q:\n%s", c.says, out)
				}
				if _, err := os.Lstat(filepath.Join(r.dir, "work", "pwned")); err == nil {
					t.Error("an input was run")
				}
			})
		}
	}
}

// TestCheckWithoutOutputs: a check that sets no outputs ends with status 2 too.
func TestCheckWithoutOutputs(t *testing.T) {
	t.Parallel()
	a := released(t)
	for _, c := range []struct{ name, value, want string }{
		{"INPUT_INTENTS", "\n\n", "intents names nothing"},
		{"INPUT_REPORT_ONLY", "True", `report-only "True" is neither true nor false`},
		{"INPUT_REPORT_ONLY", "1\n%0A::x::", `report-only "1 %250A::x::" is neither`},
		{"RUNNER_TEMP", "/nowhere", ""},
		{"GITHUB_OUTPUT", "/nowhere/x", ""},
		{"GITHUB_STEP_SUMMARY", "/nowhere/x", ""},
		{"GITHUB_STEP_SUMMARY", "/dev/full", ""},
		{"GITHUB_OUTPUT", "/dev/full", ""},
	} {
		for _, shell := range shells {
			r := newRunner(t, checkInputs(a))
			r.put("work/intents/a.json", allowed)
			r.env[c.name] = c.value
			status, out := r.run(shell, script(t, "check.sh"))
			if got := r.outputs(); status != 2 || !strings.Contains(out, c.want) || len(got) > 0 {
				t.Errorf("%s=%q: status %d, outputs %v\n%s", c.name, c.value, status, got, out)
			}
		}
	}
}

func TestCheckPolicies(t *testing.T) {
	t.Parallel()
	a := released(t)
	const layer = `package gate.org.%[1]s

# METADATA
# title: Notes
# description: A reason
# custom:
#   id: %[2]s
deny contains {"id": "%[2]s", "path": "", "msg": "not on Fridays"} if input.intent.goal == "Write the notes"
`
	for _, c := range []struct {
		name, policy, org, want string
		status                  int
	}{
		{"profile", "../gate/my\nown profile", "", `profile "own"`, 1},
		{"profile file", "../gate/my\nown profile/profile.json", "", `profile "own"`, 1},
		{"one layer", "default", "../gate/org one", "ORG_ONE", 1},
		{"two layers", "default", "\n../gate/org one\n../gate/org two\n", "ORG_TWO", 1},
		{"none", "default", "\n", "1 BUNDLE", 0},
	} {
		r := newRunner(t, checkInputs(a))
		r.put("work/intents/a.json", allowed)
		r.put("gate/my\nown profile/profile.json", `{"name":"own","extends":"default","allowed_write_roots":["dist"]}`)
		r.put("gate/org one/a.rego", fmt.Sprintf(layer, "one", "ORG_ONE"))
		r.put("gate/org two/a.rego", fmt.Sprintf(layer, "two", "ORG_TWO"))
		r.env["INPUT_POLICY"], r.env["INPUT_ORG_POLICY"] = c.policy, c.org
		status, out := r.run("bash", script(t, "check.sh"))
		if status != c.status || !strings.Contains(out, c.want) {
			t.Errorf("%s: status %d, want %d and %q:\n%s", c.name, status, c.status, c.want, out)
		}
	}
}

func TestCheckSARIF(t *testing.T) {
	t.Parallel()
	a := released(t)
	for _, shell := range shells {
		r := newRunner(t, checkInputs(a))
		r.put("work/intents/b.json", refused)
		r.env["INPUT_SARIF"] = "a b=c.sarif"
		status, out := r.run(shell, script(t, "check.sh"))
		checked(t, r, status, 1, "rejected", "REJECTED", out)
		var log struct {
			Version string
			Runs    []struct{ Results []any }
		}
		if err := json.Unmarshal([]byte(r.get("work/a b=c.sarif")), &log); err != nil || log.Version != "2.1.0" || len(log.Runs[0].Results) != 1 {
			t.Errorf("%+v, %v", log, err)
		}
	}
}

// TestCheckSummary: the check keeps the text of the summary, and a long report stays below
// one megabyte. GitHub takes nothing beyond that.
func TestCheckSummary(t *testing.T) {
	t.Parallel()
	a := released(t)
	r := newRunner(t, checkInputs(a))
	r.put("work/intents/b.json", refused)
	r.put("commands/STEP_SUMMARY", "before\n")
	if status, out := r.run("sh", script(t, "check.sh")); status != 1 {
		t.Errorf("status %d:\n%s", status, out)
	}
	if got := r.get("commands/STEP_SUMMARY"); !strings.HasPrefix(got, "before\n# fiador: REJECTED") {
		t.Errorf("summary %.200s", got)
	}

	r = newRunner(t, checkInputs(a))
	long := strings.Repeat("x", 1000)
	var lines strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&lines, `{"goal":"Fetch","constraints":["fast"],"actions":[{"kind":"run","argv":["%s%d"]}]}`+"\n", long, i)
	}
	r.put("work/intents/many.jsonl", lines.String())
	status, out := r.run("bash", script(t, "check.sh"))
	checked(t, r, status, 1, "rejected", "REJECTED, 2000 of 2000 intents", out[max(0, len(out)-1000):])
	if n := len(r.get("commands/STEP_SUMMARY")); n < 1<<16 {
		t.Errorf("a summary of %d bytes shows nothing about the limit", n)
	}
}

// document reads a YAML file into v.
func document(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := util.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// composite is what action.yml holds.
type composite struct {
	Name, Description string
	Inputs            map[string]struct {
		Description string
		Required    bool
		Default     *string
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

type step struct {
	Name, ID, Shell, Run, Uses string
	Env                        map[string]string
}

var (
	expression = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)
	inputValue = regexp.MustCompile(`^\$\{\{ inputs\.([a-z0-9-]+) \}\}$`)
	stepValue  = regexp.MustCompile(`^\$\{\{ steps\.([a-z]+)\.outputs\.([a-z]+)(?: \|\| '([a-z0-9]+)')? \}\}$`)
)

// TestActionFile: every input is used, only in the environment of a step, and under a name
// that the step's script demands.
func TestActionFile(t *testing.T) {
	t.Parallel()
	var a composite
	document(t, "action.yml", &a)
	if a.Name == "" || a.Description == "" || a.Runs.Using != "composite" || len(a.Runs.Steps) != 2 {
		t.Fatalf("%+v", a)
	}
	used := map[string]bool{}
	for _, s := range a.Runs.Steps {
		if s.Uses != "" || s.Shell != "bash" || expression.MatchString(s.Run+s.Name) {
			t.Errorf("step %+v", s)
		}
		m := regexp.MustCompile(`^bash "\$GITHUB_ACTION_PATH/([a-z]+\.sh)"$`).FindStringSubmatch(s.Run)
		if m == nil {
			t.Fatalf("step %s runs %q", s.ID, s.Run)
		}
		text, err := os.ReadFile(m[1])
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for _, name := range regexp.MustCompile(`\b(INPUT|FIADOR)_[A-Z0-9_]+`).FindAllString(string(text), -1) {
			want[name] = true
		}
		if got, want := slices.Sorted(maps.Keys(s.Env)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
			t.Errorf("step %s sets %v, its script reads %v", s.ID, got, want)
		}
		for name, value := range s.Env {
			in := inputValue.FindStringSubmatch(value)
			if in == nil {
				if !stepValue.MatchString(value) {
					t.Errorf("%s is %q", name, value)
				}
				continue
			}
			if _, ok := a.Inputs[in[1]]; !ok {
				t.Errorf("%s: there is no input %s", name, in[1])
			}
			if want := "INPUT_" + strings.ToUpper(strings.ReplaceAll(in[1], "-", "_")); name != want {
				t.Errorf("the input %s is %s, want %s", in[1], name, want)
			}
			used[in[1]] = true
		}
	}
	for name, in := range a.Inputs {
		if !used[name] || in.Description == "" || in.Required == (in.Default != nil) {
			t.Errorf("input %s: used %t, %+v", name, used[name], in)
		}
	}
	if got := a.Outputs["status"].Value; got != "${{ steps.check.outputs.status || '2' }}" {
		t.Errorf("status is %q", got)
	}
	if got := a.Outputs["outcome"].Value; got != "${{ steps.check.outputs.outcome || 'error' }}" {
		t.Errorf("outcome is %q", got)
	}
	if got := a.Outputs["report"].Value; got != "${{ steps.check.outputs.report }}" {
		t.Errorf("report is %q", got)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range a.Inputs {
		if !bytes.Contains(readme, []byte("\n| `"+name+"` |")) {
			t.Errorf("README.md does not list the input %s", name)
		}
	}
}

// act runs the action as a runner does and returns whether it failed, and its
// outputs.
func act(t *testing.T, r *runner, with map[string]string) (failed bool, outputs map[string]string) {
	t.Helper()
	var a composite
	document(t, "action.yml", &a)
	inputs := map[string]string{}
	for name, in := range a.Inputs {
		if in.Default != nil {
			inputs[name] = *in.Default
		}
	}
	maps.Copy(inputs, with)
	steps := map[string]map[string]string{}
	evaluate := func(value string) string {
		if m := inputValue.FindStringSubmatch(value); m != nil {
			return inputs[m[1]]
		}
		m := stepValue.FindStringSubmatch(value)
		if got := steps[m[1]][m[2]]; got != "" {
			return got
		}
		return m[3]
	}
	r.env["GITHUB_ACTION_PATH"] = filepath.Dir(script(t, "action.yml"))
	base := maps.Clone(r.env)
	for _, s := range a.Runs.Steps {
		if failed {
			break
		}
		r.env = maps.Clone(base)
		for name, value := range s.Env {
			r.env[name] = evaluate(value)
		}
		r.put("commands/OUTPUT", "")
		status, out := r.run("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", r.put("commands/step.sh", s.Run+"\n"))
		t.Logf("%s: status %d\n%s", s.ID, status, out)
		failed = status != 0
		steps[s.ID] = r.outputs()
		if folder := strings.TrimSpace(r.get("commands/PATH")); folder != "" {
			r.path = folder + ":" + r.path
		}
	}
	outputs = map[string]string{}
	for name, o := range a.Outputs {
		outputs[name] = evaluate(o.Value)
	}
	return failed, outputs
}

func TestAction(t *testing.T) {
	t.Parallel()
	a := released(t)
	runs := recorded(t, a)
	for _, c := range []struct {
		name    string
		with    map[string]string
		failed  bool
		outputs map[string]string
	}{
		{"accepted", nil, false, map[string]string{"status": "0", "outcome": "accepted"}},
		{"rejected", map[string]string{"intents": "rejected"}, true, map[string]string{"status": "1", "outcome": "rejected"}},
		{"report only", map[string]string{"intents": "rejected", "report-only": "true"}, false, map[string]string{"status": "0", "outcome": "rejected"}},
		{"nothing to check", map[string]string{"intents": ""}, true, map[string]string{"status": "2", "outcome": "error"}},
		{"not installed", map[string]string{"sha256": sum(nil)}, true, map[string]string{"status": "2", "outcome": "error"}},
		{"no version", map[string]string{"version": ""}, true, map[string]string{"status": "2", "outcome": "error"}},
		{"suite", map[string]string{"mode": "suite"}, true, map[string]string{"status": "1", "outcome": "rejected", "report": "runs"}},
		{"suite, accepted", map[string]string{"mode": "suite", "limits": "max-regressions=1"}, false, map[string]string{"status": "0", "outcome": "accepted", "report": "runs"}},
		{"suite without runs", map[string]string{"mode": "suite", "runs": "nowhere"}, true, map[string]string{"status": "2", "outcome": "error"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			place := mirror(t, a.version, a.name, a.bytes)
			with := map[string]string{"version": a.version, "sha256": sum(a.bytes) + "  " + a.name + "\n", "base-url": place["INPUT_BASE_URL"]}
			maps.Copy(with, c.with)
			r := newRunner(t, nil)
			r.put("work/intents/a.json", allowed)
			r.put("work/rejected/a.json", refused)
			copied(t, r, runs)
			r.command("fiador", "echo another fiador is on PATH; exit 0")
			failed, outputs := act(t, r, with)
			if folder, ok := strings.CutPrefix(outputs["report"], filepath.Join(r.dir, "work")+"/"); ok {
				outputs["report"] = folder
			}
			if outputs["report"] == "" {
				delete(outputs, "report")
			}
			if failed != c.failed || !maps.Equal(outputs, c.outputs) {
				t.Errorf("failed %t, outputs %v; want %t, %v", failed, outputs, c.failed, c.outputs)
			}
		})
	}
}

func TestShellcheck(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck is not installed")
	}
	args := []string{"install.sh", "check.sh", "../.ci/release", "../.ci/release-twice", "../.ci/first-hour"}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHooks runs what .pre-commit-hooks.yaml says as pre-commit does: the entry,
// the arguments, the names of files.
func TestHooks(t *testing.T) {
	t.Parallel()
	a := released(t)
	type hook struct {
		ID, Name, Description, Entry, Language, Files, Exclude string
		Args, Types                                            []string
		PassFilenames                                          *bool `json:"pass_filenames"`
		AlwaysRun                                              bool  `json:"always_run"`
		RequireSerial                                          bool  `json:"require_serial"`
	}
	var hooks []hook
	document(t, "../.pre-commit-hooks.yaml", &hooks)
	if len(hooks) != 2 || hooks[0].ID != "fiador-check" || hooks[1].ID != "fiador-policy-test" {
		t.Fatalf("%+v", hooks)
	}
	for _, h := range hooks {
		if h.Name == "" || h.Description == "" || h.Language != "golang" || !strings.HasPrefix(h.Entry, "fiador ") {
			t.Errorf("%+v", h)
		}
	}

	check := hooks[0]
	if check.AlwaysRun || !check.RequireSerial || check.PassFilenames != nil || check.Types == nil || len(check.Types) > 0 {
		t.Errorf("%+v", check)
	}
	files, exclude := regexp.MustCompile(check.Files), regexp.MustCompile(check.Exclude)
	for name, want := range map[string]bool{
		"intents/a.json": true, "intents/b/c.json": true, "x/intents/a.jsonl": true, "intents/a.ndjson": true, "intents/a.JSON": true,
		".fiador/profile/intents/a.json": false, "x/.fiador/profile/intents/a.json": false, "x.fiador/intents/a.json": true,
		"--policy=dev/intents/a.json": true, "intents/README.md": false, "intents.json": false, "my-intents/a.json": false, "a.json": false,
	} {
		if got := files.MatchString(name) && !exclude.MatchString(name); got != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
	// The arguments end with "--": no name of a file is a flag.
	for _, c := range []struct {
		files  []string
		status int
	}{
		{[]string{"intents/a.json"}, 0},
		{[]string{"intents/a.json", "intents/b.json"}, 1},
		{[]string{"--policy=x/intents/a.json", "intents/b.json"}, 1},
		{[]string{"--report-only", "intents/b.json"}, 2},
		{nil, 2},
	} {
		r := newRunner(t, nil)
		r.put("work/intents/a.json", allowed)
		r.put("work/intents/b.json", refused)
		r.put("work/--policy=x/intents/a.json", allowed)
		r.put("work/x/intents/a.json", `{"name":"x","extends":"dev","allowed_commands":["curl"]}`)
		argv := append(append(strings.Fields(check.Entry), check.Args...), c.files...)
		if status, out := r.run(append([]string{a.program}, argv[1:]...)...); status != c.status {
			t.Errorf("%v: status %d, want %d:\n%s", c.files, status, c.status, out)
		}
	}

	test := hooks[1]
	if !test.AlwaysRun || test.PassFilenames == nil || *test.PassFilenames || test.Files != "" {
		t.Errorf("%+v", test)
	}
	r := newRunner(t, nil)
	argv := append(append([]string{a.program}, strings.Fields(test.Entry)[1:]...), test.Args...)
	if status, out := r.run(argv...); status != 2 {
		t.Errorf("without a profile: status %d\n%s", status, out)
	}
	if status, out := r.run(a.program, "init"); status != 0 {
		t.Fatalf("status %d\n%s", status, out)
	}
	if status, out := r.run(argv...); status != 0 {
		t.Errorf("with a profile: status %d\n%s", status, out)
	}
}
