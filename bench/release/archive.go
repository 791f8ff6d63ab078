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
		case slices.Contains(programNames(), base):
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

// platform builds the programs for OS/ARCH and writes their archives and, for Linux, the
// image, what --remote needs and the ledger server: archives of their own, because deciding
// works without them.
func (r *release) platform(platform string, manual tree) error {
	system, arch, _ := strings.Cut(platform, "/")
	suffix := ""
	if system == "windows" {
		suffix = ".exe"
	}
	env := []string{"GOOS=" + system, "GOARCH=" + arch}
	licence, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return err
	}
	commit := "-X github.com/fiador/fiador/cmd/fiador/build.commit=" + r.commit
	programs := []program{{"fiador" + suffix, env, ".", "./cmd/fiador", commit}}
	t := tree{"LICENSE": licence}
	maps.Copy(t, manual)
	if system == "linux" {
		programs = append(programs, program{"safe-run", env, ".", "./cmd/safe-run", commit})
	} else {
		delete(t, "man/safe-run.1")
	}
	name := fmt.Sprintf("_%s_%s_%s", r.version(), system, arch)
	modules, err := r.archive("fiador"+name+".tar.gz", t, thirdParty, programs)
	if err != nil {
		return err
	}
	if system != "linux" {
		return nil // commands are sent to workers, and servers run, on Linux alone
	}
	if err := r.image("fiador"+name+".oci.tar", arch, t, modules); err != nil {
		return err
	}
	helper := program{"fiador-remote", env, "cmd/fiador-remote", ".", bare}
	if _, err = r.archive("fiador-remote"+name+".tar.gz", tree{"LICENSE": licence}, thirdPartyRemote, append(shims(), helper)); err != nil {
		return err
	}
	server := program{"fiador-ledgerd", env, "cmd/fiador-ledgerd", ".", bare}
	_, err = r.archive("fiador-ledgerd"+name+".tar.gz", tree{"LICENSE": licence}, thirdPartyLedgerd, []program{server})
	return err
}

// archive adds programs and the licences of what they link to a tree, and writes its archive.
func (r *release) archive(name string, t tree, licences string, programs []program) ([]module, error) {
	modules, err := r.linked(programs)
	if err != nil {
		return nil, err
	}
	t[licences] = licencesOf(modules)
	for _, p := range programs {
		if t[p.name], err = r.build(p); err != nil {
			return nil, err
		}
	}
	b, err := r.tar(t)
	if err != nil {
		return nil, err
	}
	if b, err = zipped(b); err != nil {
		return nil, err
	}
	return modules, r.put(name, b, modules...)
}
