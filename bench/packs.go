package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// packSizes are the sizes at which packs are verified.
type packSizes struct {
	packs      int   // in a folder
	distinct   int   // of them; the others are copies
	operations int   // of a large patch
	contents   []int // bytes of each file of a large patch
	rounds     int
	reproduced int // rounds of one run and its reproduction
}

func fullPacks(rounds int) packSizes {
	return packSizes{1000, 10, 1000, []int{1_000, 10_000, 40_000}, rounds, rounds}
}

func quickPacks() packSizes { return packSizes{20, 3, 40, []int{1_000, 10_000}, 2, 2} }

// The commands that are compared.
const (
	packWay    = "fiador pack verify"
	looseWay   = "fiador pack verify --level structural"
	archiveWay = "fiador pack verify, archives"
	sumWay     = "sha256sum"
	runWay     = "fiador run"
	runPackWay = "fiador run --pack"
	againWay   = "fiador reproduce"
)

// packed has the measurements of packs.
type packed struct {
	sizes  packSizes
	on     string // file system
	sums   string // whose sha256sum it is
	many   []manyPacks
	large  []largePack
	repeat []series
}

// manyPacks has the measurements of a folder of packs.
type manyPacks struct {
	what  string
	files int
	bytes int64
	runs  []series
}

// largePack has the measurements of one pack with a large patch.
type largePack struct {
	content int // bytes of each file
	bytes   int64
	runs    []series
	inside  []timing
}

// packing fills the report's part about packs.
func (r *report) packing(ctx context.Context, t tools, dir string, z packSizes, log io.Writer) error {
	dir = filepath.Join(dir, "packs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s, err := newPackScene(ctx, dir, t)
	if err != nil {
		return err
	}
	m := &packed{sizes: z, on: fileSystem(dir), sums: "of unknown version"}
	if out, err := exec.CommandContext(ctx, s.sum, "--version").Output(); err == nil {
		m.sums, _, _ = strings.Cut(strings.TrimPrefix(string(out), "sha256sum "), "\n")
	}
	r.packed = m
	for _, part := range []struct {
		what string
		do   func(context.Context, *packScene) error
	}{{"many packs", m.verifyMany}, {"large packs", m.verifyLarge}, {"reproduction", m.reproduce}} {
		fmt.Fprintf(log, "timing packs: %s\n", part.what)
		if err := part.do(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return nil
}

// verifyMany times folders of packs: all executed, and all plan-only.
func (m *packed) verifyMany(ctx context.Context, s *packScene) error {
	for _, k := range []struct {
		what   string
		folder string
		src    func(n int) []byte
		flags  []string
	}{
		{"executed", "e", pageIntent, executeFlags()},
		{"plan-only", "p", func(int) []byte { return sized(1 << 10) }, nil},
	} {
		list, err := s.addPacks(ctx, k.folder, m.sizes, k.src, k.flags)
		if err != nil {
			return fmt.Errorf("%s: %w", k.what, err)
		}
		if err := s.prove(ctx, list); err != nil {
			return fmt.Errorf("%s: %w", k.what, err)
		}
		archives, err := s.addArchives(ctx, k.folder+"a", list, m.sizes)
		if err != nil {
			return fmt.Errorf("%s: %w", k.what, err)
		}
		files, bytes, err := s.filesOf(list)
		if err != nil {
			return err
		}
		runs, err := s.sideBySide(ctx, []command{
			s.verify(packWay, list), s.verify(looseWay, list, "--level", "structural"), s.verify(archiveWay, archives), s.digest(files),
			{nothingWay, []string{s.tools.empty}, 0},
		}, m.sizes.rounds)
		if err != nil {
			return err
		}
		m.many = append(m.many, manyPacks{k.what, len(files), bytes, runs})
	}
	return nil
}

// verifyLarge times packs whose patch has many operations.
func (m *packed) verifyLarge(ctx context.Context, s *packScene) error {
	for i, size := range m.sizes.contents {
		pack := fmt.Sprintf("large-%d", i)
		if err := s.runPack(ctx, pack, manyFilesIntent(m.sizes.operations, size), executeFlags()...); err != nil {
			return err
		}
		if err := s.operations(pack, m.sizes.operations); err != nil {
			return err
		}
		list := []string{pack}
		if err := s.prove(ctx, list); err != nil {
			return err
		}
		files, bytes, err := s.filesOf(list)
		if err != nil {
			return err
		}
		runs, err := s.sideBySide(ctx, []command{
			s.verify(packWay, list), s.verify(looseWay, list, "--level", "structural"), s.digest(files),
			{versionWay, []string{s.tools.fiador, "version"}, 0}, {nothingWay, []string{s.tools.empty}, 0},
		}, m.sizes.rounds)
		if err != nil {
			return err
		}
		inside, err := s.insideOf(pack, files)
		if err != nil {
			return err
		}
		m.large = append(m.large, largePack{size, bytes, runs, inside})
	}
	return nil
}

// reproduce times a run, the same with its pack, and its reproduction.
func (m *packed) reproduce(ctx context.Context, s *packScene) error {
	const pack = "again"
	src := sized(1 << 10)
	if err := s.runPack(ctx, pack, src); err != nil {
		return err
	}
	list := []command{
		{runWay, []string{s.tools.fiador, "run", pack + ".json"}, 0},
		{runPackWay, []string{s.tools.fiador, "run", pack + ".json", "--pack", "new"}, 0},
		s.verify(packWay, []string{pack}),
		{againWay, []string{s.tools.fiador, "reproduce", pack, "--intent", pack + ".json"}, 0},
		{nothingWay, []string{s.tools.empty}, 0},
	}
	var err error
	m.repeat, err = s.sideBySide(ctx, list, m.sizes.reproduced)
	return err
}

// sideBySide times commands; what one of them leaves is taken away.
func (s *packScene) sideBySide(ctx context.Context, list []command, rounds int) ([]series, error) {
	var names []string
	for _, c := range list {
		names = append(names, c.name)
	}
	return backAndForth(names, min(2, rounds), rounds, func(i int) (sample, error) {
		x, err := s.once(ctx, s.tools, list[i])
		return x, errors.Join(err, os.RemoveAll(filepath.Join(s.dir, "new")))
	})
}

func (s *packScene) verify(name string, packs []string, flags ...string) command {
	return command{name, slices.Concat([]string{s.tools.fiador, "pack", "verify"}, flags, packs), 0}
}

func (s *packScene) digest(files []string) command {
	return command{sumWay, append([]string{s.sum}, files...), 0}
}
