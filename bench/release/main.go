// Command release writes all files of a release into a new folder; .ci/release calls it and
// says how. The bytes depend on the source, its commit, the version of Go and the key.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/fiador/fiador/cmd/fiador/cli/ledgers"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/ledger"
)

const usage = "usage: .ci/release VERSION DIR [--key FILE] [--trial] [OS/ARCH...]"

// platforms are what a release is built for.
var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64", "windows/amd64"}

// release is one release as it is made.
type release struct {
	source string // folder of the source
	tag    string // v0.1.0
	commit string // empty in a trial
	at     time.Time
	key    *ledger.Signer // nil: nothing is signed

	dir   string // what is made stands here until it is complete
	files []file // everything that can be downloaded, but the checksums
}

// file is a file of the release.
type file struct {
	name, sha256 string
	modules      []module // what an archive or an image contains
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	flags := pflag.NewFlagSet("release", pflag.ContinueOnError)
	flags.Usage = func() {}
	source := flags.String("source", "", "")
	keyFile := flags.String("key", "", "")
	trial := flags.Bool("trial", false, "")
	if err := flags.Parse(args); err != nil || flags.NArg() < 2 {
		return errors.Join(err, errors.New(usage))
	}
	r := &release{source: *source, tag: flags.Arg(0), at: time.Unix(0, 0).UTC()}
	if want := "v" + kernel.Version; r.tag != want {
		return fmt.Errorf("the version of the source is %q, and not %q", want, r.tag)
	}
	wanted := platforms
	if more := flags.Args()[2:]; len(more) > 0 {
		wanted = more
	}
	for _, p := range wanted {
		if !slices.Contains(platforms, p) {
			return fmt.Errorf("there is no release for %q: one of %s", p, strings.Join(platforms, ", "))
		}
	}
	dir, err := filepath.Abs(flags.Arg(1)) // Go builds in another folder
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%q exists: name a new folder", dir)
	}
	if !*trial {
		if err := r.committed(); err != nil {
			return err
		}
	}
	if err := r.dated(); err != nil {
		return err
	}
	if flags.Changed("key") {
		if r.key, err = ledgers.ReadKey(*keyFile); err != nil {
			return err
		}
	}
	return r.write(dir, wanted)
}

// committed takes the commit of the source, and refuses a work tree that differs from it.
func (r *release) committed() error {
	changed, err := r.output("git", "-c", "core.excludesFile=/dev/null", "status", "--porcelain", "--untracked-files=all") // no setting hides a file
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the work tree differs from its commit: commit it, or give --trial for a release that is not published\n%s", changed)
	}
	if r.commit, err = r.output("git", "rev-parse", "HEAD"); err != nil {
		return err
	}
	seconds, err := r.output("git", "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	return r.clock(seconds)
}

// dated takes the time of SOURCE_DATE_EPOCH, if it is set.
func (r *release) dated() error {
	if seconds := os.Getenv("SOURCE_DATE_EPOCH"); seconds != "" {
		if r.clock(seconds) != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", seconds)
		}
	}
	return nil
}

func (r *release) clock(seconds string) error {
	n, err := strconv.ParseInt(seconds, 10, 64)
	r.at = time.Unix(n, 0).UTC()
	return err
}

// write makes the folder of the release. It has its name only when it is complete.
func (r *release) write(dir string, wanted []string) (err error) {
	if r.dir, err = os.MkdirTemp(filepath.Dir(dir), ".release-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	manual, err := r.manual()
	if err != nil {
		return err
	}
	for _, p := range slices.Sorted(slices.Values(wanted)) {
		if err := r.platform(p, manual); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	for _, step := range []func() error{r.workers, r.formula, r.block, r.sbom, r.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return err
	}
	if err := os.Rename(r.dir, dir); err != nil {
		return err
	}
	if r.key == nil {
		fmt.Fprintln(os.Stderr, "release: nothing is signed, because --key names no key")
	}
	if r.commit == "" {
		fmt.Fprintln(os.Stderr, "release: a trial: it names no commit, and is not to be published")
	}
	return nil
}

// put adds a file to the release.
func (r *release) put(name string, b []byte, modules ...module) error {
	h := sha256.Sum256(b)
	r.files = append(r.files, file{name, hex.EncodeToString(h[:]), modules})
	return r.save(name, b)
}

func (r *release) save(name string, b []byte) error {
	path := filepath.Join(r.dir, name)
	return errors.Join(os.WriteFile(path, b, 0o644), os.Chmod(path, 0o644))
}

// version returns the version as file names have it: 0.1.0.
func (r *release) version() string { return r.tag[1:] }

// url returns where a file of the release is published.
func (r *release) url(name string) string {
	return "https://github.com/fiador/fiador/releases/download/" + r.tag + "/" + name
}

// named returns the files of the release whose names begin and end so.
func (r *release) named(prefix, suffix string) []file {
	return slices.DeleteFunc(slices.Clone(r.files), func(f file) bool {
		return !strings.HasPrefix(f.name, prefix) || !strings.HasSuffix(f.name, suffix)
	})
}

// output returns what a command prints in the folder of the source, with further variables
// of the environment, such as GOOS=linux, before it.
func (r *release) output(argv ...string) (string, error) {
	n := slices.IndexFunc(argv, func(word string) bool { return !strings.Contains(word, "=") })
	cmd := exec.Command(argv[n], argv[n+1:]...)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "LC_ALL=C", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=")
	cmd.Env = append(cmd.Env, argv[:n]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
