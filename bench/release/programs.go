package main

import (
	"os"
	"path/filepath"
	"slices"
)

// program is a program of a release.
type program struct {
	name     string
	env      []string // the platform, as variables of go
	dir, pkg string   // folder with a go.mod, and the package in it
	link     string   // flags of the linker
}

// bare leaves symbols out. The programs beside fiador have no need for them, and a shim is sent
// to a cluster.
const bare = "-s -w"

// programNames are the programs of archives, without the suffix of Windows.
func programNames() []string {
	names := []string{"fiador", "fiador-ledgerd", "fiador-remote", "safe-run"}
	for _, p := range shims() {
		names = append(names, p.name)
	}
	return names
}

// shims are the programs for workers. They name no commit, so that one that is built from the
// same source is the same, and a cluster that knows it needs no other.
func shims() []program {
	var list []program
	for _, arch := range []string{"amd64", "arm64"} {
		list = append(list, program{"fiador-shim-linux-" + arch, []string{"GOOS=linux", "GOARCH=" + arch}, ".", "./cmd/fiador-shim", bare})
	}
	return list
}

// build returns the bytes of a program.
func (r *release) build(p program) ([]byte, error) {
	out := filepath.Join(r.dir, "program")
	if _, err := r.output(append(slices.Clone(p.env), "go", "build", "-C", p.dir, "-trimpath", "-buildvcs=false", "-ldflags="+p.link, "-o", out, p.pkg)...); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	return b, os.Remove(out)
}

// workers writes each shim as a file of its own beside the archives that have it: a checksum of
// the release then says which bytes a cluster may be sent.
func (r *release) workers() error {
	for _, p := range shims() {
		modules, err := r.linked([]program{p})
		if err != nil {
			return err
		}
		b, err := r.build(p)
		if err != nil {
			return err
		}
		if err := r.put(p.name, b, modules...); err != nil {
			return err
		}
	}
	return nil
}
