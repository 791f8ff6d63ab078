package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/cmd/fiador/all"
	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/cmd/fiador/manual"
)

// tree is the content of an archive by name. Programs can be executed. A folder ends with a
// slash, and has no bytes.
type tree map[string][]byte

// tar returns the archive of a tree, in the order of names.
func (r *release) tar(t tree) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(t[name])), ModTime: r.at, Format: tar.FormatUSTAR, Typeflag: tar.TypeReg}
		switch base := strings.TrimSuffix(filepath.Base(name), ".exe"); {
		case name == "tmp/":
			h.Mode, h.Typeflag = 0o1777, tar.TypeDir
		case strings.HasSuffix(name, "/"):
			h.Mode, h.Typeflag = 0o755, tar.TypeDir
		case base == "fiador" || base == "safe-run":
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(t[name]); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func zipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// manual returns the man pages and the shell completions.
func (r *release) manual() (tree, error) {
	t := tree{}
	root := cli.Root(&cli.App{}, all.Commands(&cli.App{})...)
	for _, p := range manual.Pages(root) {
		t["man/"+p.File()] = p.Man(r.version(), r.at.Format("2006-01-02"))
	}
	var bash, zsh, fish, power bytes.Buffer
	err := cmp.Or(root.GenBashCompletionV2(&bash, true), root.GenZshCompletion(&zsh), root.GenFishCompletion(&fish, true), root.GenPowerShellCompletionWithDesc(&power))
	t["completions/fiador.bash"], t["completions/_fiador"] = bash.Bytes(), zsh.Bytes()
	t["completions/fiador.fish"], t["completions/fiador.ps1"] = fish.Bytes(), power.Bytes()
	return t, err
}

// platform builds the programs for OS/ARCH and writes their archive and, for Linux, the
// image.
func (r *release) platform(platform string, manual tree) error {
	system, arch, _ := strings.Cut(platform, "/")
	programs, suffix := []string{"fiador"}, ""
	switch system {
	case "linux":
		programs = append(programs, "safe-run")
	case "windows":
		suffix = ".exe"
	}
	env := []string{"GOOS=" + system, "GOARCH=" + arch}
	licence, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return err
	}
	modules, err := r.linked(env, programs)
	if err != nil {
		return err
	}
	t := tree{"LICENSE": licence, thirdParty: licencesOf(modules)}
	maps.Copy(t, manual)
	if len(programs) == 1 {
		delete(t, "man/safe-run.1")
	}
	out := filepath.Join(r.dir, "program")
	for _, p := range programs {
		if _, err := r.output(append(env, "go", "build", "-trimpath", "-buildvcs=false",
			"-ldflags=-X github.com/fiador/fiador/cmd/fiador/build.commit="+r.commit, "-o", out, "./cmd/"+p)...); err != nil {
			return err
		}
		if t[p+suffix], err = os.ReadFile(out); err != nil {
			return err
		}
		if err := os.Remove(out); err != nil {
			return err
		}
	}
	b, err := r.tar(t)
	if err != nil {
		return err
	}
	if b, err = zipped(b); err != nil {
		return err
	}
	name := fmt.Sprintf("fiador_%s_%s_%s", r.version(), system, arch)
	if err := r.put(name+".tar.gz", b, modules...); err != nil || system != "linux" {
		return err
	}
	return r.image(name+".oci.tar", arch, t, modules)
}
