// Package remotes has the flags that let commands be executed on a worker instead of here.
package remotes

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/fiador/fiador/cmd/fiador/cli"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/remote"
	"github.com/fiador/fiador/harness/runerr"
	"github.com/fiador/fiador/harness/sandbox"
)

// Flags name the document of a remote execution, and the program that speaks to the server.
type Flags struct {
	file, helper string
	there        bool // the command has the flags
}

// Variable names the document where the flag does not.
const Variable = "FIADOR_REMOTE"

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	f.there = true
	cmd.Flags().StringVar(&f.file, "remote", "", "document of a build cluster whose workers execute the commands (default: "+Variable+"; none: they are executed here)")
	cmd.Flags().StringVar(&f.helper, "remote-helper", "", "program that speaks to the cluster (default: fiador-remote beside fiador)")
}

// Given says whether the flag is given. The variable alone does not count.
func (f *Flags) Given() bool { return f.file != "" || f.helper != "" }

// Use lets deps execute on a worker, if a document is named. The caller calls leave at the end.
func (f *Flags) Use(ctx context.Context, a *cli.App, deps *harness.Deps) (leave func(), err error) {
	p, err := f.Open(ctx, a)
	if err != nil || p == nil {
		return func() {}, err
	}
	deps.Place = p
	return func() { _ = p.Close() }, nil
}

// Open opens the place, or returns nil if no document is named.
func (f *Flags) Open(ctx context.Context, a *cli.App) (*remote.Place, error) {
	name := f.file
	if f.there {
		name = cmp.Or(name, a.Env(Variable))
	}
	if name == "" {
		if f.helper != "" {
			return nil, cli.Usage("name the document of the cluster with --remote", "--remote-helper without --remote")
		}
		return nil, nil
	}
	form := remote.Form()
	src, err := a.ReadUpTo(ctx, name, form.MaxBytes, form.TooLarge)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, runerr.Internal("the program does not know where it is", err)
	}
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, runerr.Internal("the folder of the document is not known", err)
	}
	config, err := remote.ReadConfig(a.Specs, src.Path, src.Bytes, dir, program)
	if err != nil {
		return nil, err
	}
	helper := f.helper
	if helper == "" {
		helper = filepath.Join(filepath.Dir(program), "fiador-remote")
		if runtime.GOOS == "windows" {
			helper += ".exe"
		}
	} else if helper, err = filepath.Abs(helper); err != nil {
		return nil, runerr.Internal("the helper's folder is not known", err)
	}
	id, err := harness.NewRunID(a.Now(), a.Rand)
	if err != nil {
		return nil, err
	}
	return &remote.Place{Config: config, Helper: helper, Env: a.Env, RunID: id}, nil
}

// Health is the server of a cluster, the machine of one worker, and the shim that it was sent.
type Health struct {
	LowAPI        string `json:"low_api"`
	HighAPI       string `json:"high_api"`
	MaxBatchBytes int64  `json:"max_batch_bytes"`
	OS            string `json:"os"`
	Arch          string `json:"arch"`
	KernelRelease string `json:"kernel_release"`
	ShimSHA256    string `json:"shim_sha256"` // as in the checksums of a release
}

// Probe tries each isolation on a worker, or here if no document is named.
func (f *Flags) Probe(ctx context.Context, a *cli.App) ([]sandbox.Probe, *Health, error) {
	place, err := f.Open(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	if place == nil {
		host := sandbox.NewHost("")
		defer host.Close()
		return host.Probe(ctx), nil, nil
	}
	defer place.Close()
	probes, server, machine, shim, err := place.Probe(ctx)
	return probes, &Health{server.LowAPI, server.HighAPI, server.MaxBatchBytes, machine.OS, machine.Arch, machine.KernelRelease, shim}, err
}
