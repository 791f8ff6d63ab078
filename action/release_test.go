//go:build linux

package action_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/dsse"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/ledger"
)

// unpacked reads a tar archive, and demands that nothing in it depends on the machine.
func unpacked(t *testing.T, b []byte) map[string]*member {
	t.Helper()
	got := map[string]*member{}
	last := ""
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name <= last || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.UTC().Format("2006-01-02T15:04:05Z") != "2026-01-02T03:04:05Z" {
			t.Errorf("%s after %s: %+v", h.Name, last, h)
		}
		last = h.Name
		got[h.Name] = &member{*h, string(text)}
	}
}

func gunzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if z.Name != "" || !z.ModTime.IsZero() {
		t.Errorf("the compressed file has the name %q and the time %s", z.Name, z.ModTime)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// in reads a file of the release.
func (a archive) in(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (a archive) image() string { return strings.TrimSuffix(a.name, ".tar.gz") + ".oci.tar" }

// TestReleaseChecksums: checksums.txt has every file that can be downloaded, but itself and
// what proves it.
func TestReleaseChecksums(t *testing.T) {
	t.Parallel()
	a := released(t)
	files, err := os.ReadDir(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode() != 0o644 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
		if !strings.HasPrefix(f.Name(), "checksums.txt") {
			fmt.Fprintf(&want, "%s  %s\n", sum(a.in(t, f.Name())), f.Name())
		}
	}
	if got := string(a.in(t, "checksums.txt")); got != want.String() || strings.Count(got, "\n") != 9 {
		t.Errorf("checksums.txt is\n%sand not\n%s", got, want.String())
	}
}

// TestReleaseArchive: the archive has the programs, which name the commit, licences of all
// that they link, man pages and completions. Its init writes the commit into a job.
func TestReleaseArchive(t *testing.T) {
	t.Parallel()
	a := released(t)
	got := unpacked(t, gunzipped(t, a.bytes))
	for name, want := range map[string]string{
		"fiador": "\x7fELF", "safe-run": "\x7fELF", "LICENSE": "Apache License", "completions/fiador.bash": "__start_fiador",
		"completions/_fiador": "#compdef fiador", "completions/fiador.fish": "complete -c fiador", "completions/fiador.ps1": "Register-ArgumentCompleter",
		"man/fiador.1": ".SH COMMANDS", "man/fiador-run.1": ".SH EXIT STATUS", "man/fiador-ledger-list.1": ".SH OPTIONS",
		"man/safe-run.1": `.TH SAFE-RUN 1 2026-01-02 "fiador ` + kernel.Version + `"`,
	} {
		m := got[name]
		if m == nil || !strings.Contains(m.text, want) {
			t.Errorf("%s is not there, or lacks %q", name, want)
			continue
		}
		if program := strings.HasPrefix(want, "\x7f"); m.Mode != map[bool]int64{true: 0o755, false: 0o644}[program] {
			t.Errorf("%s has mode %o", name, m.Mode)
		}
	}
	out, err := exec.Command(a.program, "version").Output()
	if err != nil || !strings.Contains(string(out), "\ncommit "+a.commit+"\n") {
		t.Errorf("%s, %v", out, err)
	}
	plan, err := exec.Command(a.program, "init", "--dry-run", "--format", "json", t.TempDir()).Output()
	if err != nil || !bytes.Contains(plan, []byte("fiador/fiador/action@"+a.commit+`\n`)) {
		t.Errorf("init names another revision of the action than %s: %v\n%s", a.commit, err, plan)
	}
	result, err := exec.Command("sh", "-c", `printf %s "$1" | "$2" run -`, "sh", allowed, a.program).Output()
	if err != nil || !bytes.Contains(result, []byte(`"BUNDLE"`)) || bytes.Contains(result, []byte(a.commit)) {
		t.Errorf("the commit is in the result: %s, %v", result, err)
	}
	hasLicences(t, got["THIRD_PARTY_LICENSES.txt"].text, a.program)
}

// TestReleaseInstalls: the action installs the release by the block that the release has,
// and decides with it.
func TestReleaseInstalls(t *testing.T) {
	t.Parallel()
	a := released(t)
	var steps []struct {
		Uses string
		With map[string]string
	}
	document(t, filepath.Join(a.dir, "action-block.yml"), &steps)
	if len(steps) != 1 || steps[0].Uses != "fiador/fiador/action@"+a.commit {
		t.Fatalf("%+v", steps)
	}
	for outcome, intent := range map[string]string{"accepted": allowed, "rejected": refused, "error": unlawful} {
		r := newRunner(t, nil)
		r.put("work/intents/a.json", intent)
		with := maps.Clone(steps[0].With)
		with["base-url"] = fileURL(filepath.Dir(a.dir))
		if _, outputs := act(t, r, with); outputs["outcome"] != outcome {
			t.Errorf("outputs %v, want %s", outputs, outcome)
		}
	}
}

// TestReleaseFormula: Ruby reads the formula, which names the archive and its hash.
func TestReleaseFormula(t *testing.T) {
	t.Parallel()
	a := released(t)
	want := fmt.Sprintf("      url \"https://github.com/fiador/fiador/releases/download/%s/%s\"\n      sha256 %q\n", a.version, a.name, sum(a.bytes))
	if got := string(a.in(t, "fiador.rb")); strings.Count(got, want) != 1 || strings.Count(got, "url ") != 1 {
		t.Errorf("%s lacks %s", got, want)
	}
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("ruby is not installed")
	}
	if out, err := exec.Command("ruby", "-wc", filepath.Join(a.dir, "fiador.rb")).CombinedOutput(); err != nil || string(out) != "Syntax OK\n" {
		t.Errorf("%s, %v", out, err)
	}
}

// TestReleaseSBOM: the document has the members that SPDX 2.3 requires, with values of the
// forms that it requires, and names what is linked.
func TestReleaseSBOM(t *testing.T) {
	t.Parallel()
	a := released(t)
	var doc struct {
		SPDXVersion, DataLicense, SPDXID, Name, DocumentNamespace string

		CreationInfo struct {
			Created  string
			Creators []string
		}
		Packages []struct {
			SPDXID, Name, VersionInfo, DownloadLocation, LicenseDeclared, LicenseConcluded, CopyrightText, SourceInfo, PrimaryPackagePurpose string

			FilesAnalyzed *bool
			Checksums     []struct{ Algorithm, ChecksumValue string }
			ExternalRefs  []struct{ ReferenceCategory, ReferenceType, ReferenceLocator string }
		}
		Relationships []struct{ SPDXElementID, RelationshipType, RelatedSPDXElement string }
	}
	if err := json.Unmarshal(a.in(t, "fiador_"+kernel.Version+".spdx.json"), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" || doc.SPDXID != "SPDXRef-DOCUMENT" || doc.Name == "" || !strings.HasSuffix(doc.DocumentNamespace, a.commit) ||
		doc.CreationInfo.Created != "2026-01-02T03:04:05Z" || len(doc.CreationInfo.Creators) == 0 {
		t.Errorf("%+v", doc)
	}
	id := regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	ids := map[string]string{doc.SPDXID: ""}
	for _, p := range doc.Packages {
		if _, twice := ids[p.SPDXID]; twice || !id.MatchString(p.SPDXID) || p.Name == "" || p.VersionInfo == "" || p.DownloadLocation == "" || p.LicenseDeclared == "" ||
			p.LicenseConcluded == "" || p.CopyrightText == "" || p.FilesAnalyzed == nil || *p.FilesAnalyzed {
			t.Errorf("%+v", p)
		}
		ids[p.SPDXID] = p.Name
		switch p.PrimaryPackagePurpose {
		case "ARCHIVE", "CONTAINER", "FILE":
			if len(p.Checksums) != 1 || p.Checksums[0].Algorithm != "SHA256" || p.Checksums[0].ChecksumValue != sum(a.in(t, p.Name)) {
				t.Errorf("%+v", p)
			}
		default:
			ids[p.SPDXID] = strings.TrimSuffix(p.Name+" "+p.VersionInfo+" "+p.SourceInfo, " ")
			if len(p.ExternalRefs) != 1 || p.ExternalRefs[0].ReferenceType != "purl" || !strings.HasPrefix(p.ExternalRefs[0].ReferenceLocator, "pkg:golang/"+p.Name+"@") ||
				p.LicenseDeclared == "NOASSERTION" {
				t.Errorf("%+v", p)
			}
		}
	}
	contained := map[string][]string{}
	for _, r := range doc.Relationships {
		if _, ok := ids[r.RelatedSPDXElement]; !ok || !slices.Contains([]string{"DESCRIBES", "GENERATED_FROM", "CONTAINS"}, r.RelationshipType) {
			t.Errorf("%+v", r)
		}
		if r.RelationshipType == "CONTAINS" {
			contained[ids[r.SPDXElementID]] = append(contained[ids[r.SPDXElementID]], ids[r.RelatedSPDXElement])
		}
	}
	contains(t, a, contained)
}

// TestReleaseSignature: openssl verifies the signature with the public key of the signer,
// and no changed text. The envelope has the same signature.
func TestReleaseSignature(t *testing.T) {
	t.Parallel()
	a := released(t)
	sums := a.in(t, "checksums.txt")
	public, err := os.ReadFile(a.public)
	if err != nil || !bytes.Equal(public, a.in(t, "checksums.txt.pem")) {
		t.Errorf("the key of the release is not that of the signer: %v", err)
	}
	verifier, err := os.ReadFile(filepath.Join(filepath.Dir(a.public), "release.pub"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ledger.ParseVerifier(strings.TrimSpace(string(verifier)))
	if err != nil {
		t.Fatal(err)
	}
	v, err := canon.Parse(a.in(t, "checksums.txt.dsse.json"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	e, faults := dsse.Read(v.Value(), "text/vnd.fiador.checksums", 1<<20)
	if len(faults) > 0 || !bytes.Equal(e.Payload, sums) {
		t.Fatal(faults)
	}
	if _, err := e.Check(key); err != nil || !bytes.Equal(e.Signatures[0].Sig, a.in(t, "checksums.txt.sig")) {
		t.Error(err)
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	verify := func(text []byte) error {
		file := filepath.Join(t.TempDir(), "signed")
		if err := os.WriteFile(file, dsse.Encoding("text/vnd.fiador.checksums", text), 0o644); err != nil {
			t.Fatal(err)
		}
		return exec.Command("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", a.public, "-rawin", "-in", file, "-sigfile", filepath.Join(a.dir, "checksums.txt.sig")).Run()
	}
	if err := verify(sums); err != nil {
		t.Errorf("openssl does not verify the signature: %v", err)
	}
	if changed := bytes.Replace(sums, []byte("fiador.rb"), []byte("fiador.rc"), 1); verify(changed) == nil {
		t.Error("openssl verifies a changed text")
	}
}

// TestReleaseWorkflow: the workflow calls .ci/release on a tag, can write nothing but the
// release, and uses actions by their commits alone.
func TestReleaseWorkflow(t *testing.T) {
	t.Parallel()
	var w struct {
		On struct {
			Push struct{ Tags []string }
		}
		Permissions map[string]string
		Jobs        map[string]struct {
			Permissions map[string]string
			Steps       []step
		}
	}
	document(t, "../.github/workflows/release.yml", &w)
	job := w.Jobs["release"]
	if !slices.Equal(w.On.Push.Tags, []string{"v*"}) || len(w.Permissions) > 0 || len(w.Jobs) != 1 || !maps.Equal(job.Permissions, map[string]string{"contents": "write"}) {
		t.Errorf("%+v", w)
	}
	calls := ""
	for _, s := range job.Steps {
		calls += s.Run
		if s.Uses != "" && !regexp.MustCompile("^actions/[a-z-]+@[0-9a-f]{40}$").MatchString(s.Uses) {
			t.Errorf("%s is not pinned by its commit", s.Uses)
		}
		if strings.Contains(s.Run, "${{") {
			t.Errorf("an expression is text of a script: %s", s.Run)
		}
	}
	if !strings.Contains(calls, `.ci/release "$GITHUB_REF_NAME" "$RUNNER_TEMP/dist" --key `) {
		t.Error(calls)
	}
}

// TestInstallingPage: the blocks of docs/installing.md that need no network run in the folder
// of a release.
func TestInstallingPage(t *testing.T) {
	t.Parallel()
	a := released(t)
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	page, err := os.ReadFile("../docs/installing.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("0.1.0", kernel.Version, "linux_amd64", "linux_"+runtime.GOARCH).Replace(string(page))
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindAllStringSubmatch(text, -1)
	if len(blocks) != 5 {
		t.Fatalf("%d blocks", len(blocks))
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(a.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "checksums.txt.pem"), filepath.Join(dir, "release.pem")); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, b := range blocks {
		cmd := exec.Command("sh", "-ec", b[1])
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s\n%v\n%s", b[1], err, out)
		}
		said.Write(out)
	}
	for _, want := range []string{"Signature Verified Successfully\n", a.name + ": OK\n", a.remote() + ": OK\n", a.ledgerd() + ": OK\n", "fiador-ledgerd serve STORAGE", shims()[0] + ": OK\n" + shims()[1] + ": OK\n", "commit " + a.commit + "\n"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, said.String())
		}
	}
}

// layout is what a reader of an image needs of its documents.
type layout struct {
	MediaType string
	Manifests []blob
	Config    blob
	Layers    []blob
}

type blob struct {
	MediaType, Digest string
	Size              int
	Annotations       map[string]string
	Platform          map[string]string
}

// imageLayer reads the image as its readers do: every digest, size and type is right, and
// no blob is there that nothing names. It returns the layer and what the image starts.
func imageLayer(t *testing.T, a archive) (layer []byte, entrypoint []string) {
	t.Helper()
	got := unpacked(t, a.in(t, a.image()))
	read := func(name string, v any) {
		if err := json.Unmarshal([]byte(got[name].text), v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	named := map[string]bool{"oci-layout": true, "index.json": true, "manifest.json": true, "blobs/": true, "blobs/sha256/": true}
	check := func(b blob, mediaType string) string {
		name := "blobs/sha256/" + strings.TrimPrefix(b.Digest, "sha256:")
		m := got[name]
		if m == nil || "sha256:"+sum([]byte(m.text)) != b.Digest || len(m.text) != b.Size || b.MediaType != "application/vnd.oci.image."+mediaType {
			t.Fatalf("%+v", b)
		}
		named[name] = true
		return name
	}
	if text := got["oci-layout"].text; text != `{"imageLayoutVersion":"1.0.0"}` {
		t.Error(text)
	}
	var index, manifest layout
	read("index.json", &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != kernel.Version || index.Manifests[0].Platform["architecture"] != runtime.GOARCH {
		t.Fatalf("%+v", index)
	}
	read(check(index.Manifests[0], "manifest.v1+json"), &manifest)
	if len(manifest.Layers) != 1 {
		t.Fatalf("%+v", manifest)
	}
	var config struct {
		OS, Architecture, Created string
		Config                    struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
		RootFS struct {
			Type    string
			DiffIDs []string `json:"diff_ids"`
		}
	}
	configName, layerName := check(manifest.Config, "config.v1+json"), check(manifest.Layers[0], "layer.v1.tar+gzip")
	read(configName, &config)
	layer = gunzipped(t, []byte(got[layerName].text))
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || config.Created != "2026-01-02T03:04:05Z" || config.Config.User != "65532:65532" ||
		config.Config.Labels["org.opencontainers.image.revision"] != a.commit || !slices.Equal(config.RootFS.DiffIDs, []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}) {
		t.Errorf("%+v", config)
	}
	var docker []struct {
		Config           string
		RepoTags, Layers []string
	}
	read("manifest.json", &docker)
	if len(docker) != 1 || docker[0].Config != configName || !slices.Equal(docker[0].Layers, []string{layerName}) {
		t.Errorf("%+v", docker)
	}
	for name := range got {
		if !named[name] {
			t.Errorf("nothing names %s", name)
		}
	}
	return layer, config.Config.Entrypoint
}

// TestReleaseImage: the image is whole, has no shell and no file that others can change,
// and has certificates. Another program reads it in both its forms.
func TestReleaseImage(t *testing.T) {
	t.Parallel()
	a := released(t)
	layer, _ := imageLayer(t, a)
	files := unpacked(t, layer)
	for name, m := range files {
		if m.Typeflag != tar.TypeReg && m.Typeflag != tar.TypeDir || m.Mode&0o022 != 0 && name != "tmp/" || m.Mode&0o111 != 0 && m.Typeflag == tar.TypeReg && !strings.HasPrefix(name, "usr/local/bin/") {
			t.Errorf("%s: %+v", name, m.Header)
		}
		if parent := filepath.Dir(strings.TrimSuffix(name, "/")) + "/"; parent != "./" && files[parent] == nil {
			t.Errorf("%s has no folder", name)
		}
	}
	program, err := os.ReadFile(a.program)
	if err != nil || files["usr/local/bin/fiador"].text != string(program) {
		t.Errorf("the program is not that of the archive: %v", err)
	}
	roots := 0
	for rest := []byte(files["etc/ssl/certs/ca-certificates.crt"].text); ; roots++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
	}
	if roots < 80 {
		t.Errorf("only %d certificates", roots)
	}
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("skopeo is not installed")
	}
	file := filepath.Join(a.dir, a.image())
	for _, from := range []string{"oci-archive:" + file + ":" + kernel.Version, "docker-archive:" + file + ":fiador:" + kernel.Version} {
		out, err := exec.Command("skopeo", "--insecure-policy", "copy", from, "dir:"+t.TempDir()).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestImageDecides: the layer alone, unpacked and mounted so that nobody can write, decides
// as any user, and standard input is all that it needs.
func TestImageDecides(t *testing.T) {
	t.Parallel()
	a := released(t)
	layer, entrypoint := imageLayer(t, a)
	if os.Getuid() != 0 {
		t.Skip("only root can enter another root folder")
	}
	dir := t.TempDir()
	unpack := exec.Command("tar", "-xpf", "-", "-C", dir)
	unpack.Stdin = bytes.NewReader(layer)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const enter = `mount --bind "$2" "$2" && mount -o remount,bind,ro "$2" || exit 77
dir=$2 user=$1
shift 2
exec env -i "$(command -v chroot)" --userspec="$user" "$dir" "$@"`
	for _, user := range []string{"65532:65532", "65534:65534", "12345:54321", "0:0"} {
		for want, intent := range []string{allowed, refused, unlawful} {
			cmd := exec.Command("unshare", slices.Concat([]string{"--mount", "sh", "-c", enter, "sh", user, dir}, entrypoint, []string{"run", "-"})...)
			cmd.Stdin = strings.NewReader(intent)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 || strings.Contains(stderr.String(), "unshare failed") {
				t.Skipf("no mount can be made here: %v %s", err, stderr.String())
			}
			if got := cmd.ProcessState.ExitCode(); got != want || (want == 2) != (stdout.Len() == 0) || (want == 2) != strings.Contains(stderr.String(), `"code":"RUN_E003"`) {
				t.Errorf("user %s: exit code %d, want %d\n%s%s", user, got, want, stdout.String(), stderr.String())
			}
		}
	}
}
