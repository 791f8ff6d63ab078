package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/verify"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
)

// packProfile is the profile of all runs that are executed.
const packProfile = "dev"

func executeFlags() []string { return []string{"--mode", "execute-sandbox", "--policy", packProfile} }

// packScene is a folder with packs of the real program. Paths in it are relative to it:
// those of thousands of files have to fit into one command line.
type packScene struct {
	scene
	tools    tools
	sum      string // program
	profiles map[string]kernel.Profile
}

func newPackScene(ctx context.Context, dir string, t tools) (*packScene, error) {
	sum, err := exec.LookPath(sumWay)
	if err != nil {
		return nil, fmt.Errorf("what packs are held against: %w", err)
	}
	set, err := specs.New()
	if err != nil {
		return nil, err
	}
	s := &packScene{scene: scene{dir: dir, set: set}, tools: t, sum: sum, profiles: map[string]kernel.Profile{}}
	for _, name := range []string{profileName, packProfile} {
		gate, err := harness.OpenGate(ctx, harness.Sources{Builtin: profiles.FS(), Profile: name}, set, policy.DefaultLimits())
		if err != nil {
			return nil, err
		}
		s.profiles[name] = gate.Profile
	}
	return s, nil
}

// pageIntent is an intent that is executed: it writes a program that writes two files.
// No two are alike.
func pageIntent(n int) []byte {
	in := small()
	in.Inputs, in.Outputs = nil, []string{"out/page.html", "out/page.css"}
	in.Actions = []map[string]any{
		{"kind": "write", "path": "build/page.sh", "content": fmt.Sprintf(
			"mkdir -p out\nprintf '<ul><li>release %d</li></ul>\\n' >out/page.html\nprintf 'body { margin: %dpx }\\n' >out/page.css\n", n, n)},
		{"kind": "run", "argv": []string{"sh", "build/page.sh"}},
	}
	return in.bytes()
}

// manyFilesIntent returns an intent that writes a script and runs it. Together they change
// so many files, each of about size bytes.
func manyFilesIntent(files, size int) []byte {
	in := small()
	in.Inputs, in.Outputs = nil, nil
	in.Actions = []map[string]any{
		{"kind": "write", "path": "build/many.sh", "content": fmt.Sprintf(
			"mkdir -p out\ni=1\nwhile [ $i -lt %d ]; do\nprintf 'part %%d\\n%%s' $i '%s' >out/part-$i.txt\ni=$((i + 1))\ndone\n", files, source(size))},
		{"kind": "run", "argv": []string{"sh", "build/many.sh"}},
	}
	return in.bytes()
}

// source returns n bytes of text like that of a program: lines of different lengths, some
// with indentation or quotes.
func source(n int) string {
	const lines = "func release(name string) error {\n" +
		"\tif name == \"\" {\n\t\treturn errors.New(\"the release has no name\")\n\t}\n" +
		"\treturn publish(name, time.Now())\n}\n\n" +
		"// publish writes the index and every page that it lists, and leaves no half of them.\n"
	return strings.Repeat(lines, n/len(lines)+1)[:n]
}

// runPack writes PACK.json and has the program make PACK of it.
func (s *packScene) runPack(ctx context.Context, pack string, src []byte, flags ...string) error {
	if err := s.write(pack+".json", src); err != nil {
		return err
	}
	return s.do(ctx, append([]string{s.tools.fiador, "run", pack + ".json", "--pack", pack}, flags...)...)
}

// do runs a command that has to succeed.
func (s *packScene) do(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, s.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv[1:], " "), err, out)
	}
	return nil
}

// addPacks makes a folder of packs: some by as many runs, and the others as copies.
func (s *packScene) addPacks(ctx context.Context, folder string, z packSizes, src func(int) []byte, flags []string) (list []string, err error) {
	if err := os.Mkdir(filepath.Join(s.dir, folder), 0o700); err != nil {
		return nil, err
	}
	for i := range z.packs {
		name := fmt.Sprintf("%s/%04d", folder, i)
		list = append(list, name)
		if i < z.distinct {
			err = s.runPack(ctx, name, src(i), flags...)
		} else {
			err = os.CopyFS(filepath.Join(s.dir, name), os.DirFS(filepath.Join(s.dir, list[i%z.distinct])))
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// addArchives makes an archive of each pack.
func (s *packScene) addArchives(ctx context.Context, folder string, packs []string, z packSizes) (list []string, err error) {
	if err := os.Mkdir(filepath.Join(s.dir, folder), 0o700); err != nil {
		return nil, err
	}
	var made [][]byte
	for i, p := range packs {
		name := fmt.Sprintf("%s/%04d.tar.gz", folder, i)
		list = append(list, name)
		if i >= z.distinct {
			if err := s.write(name, made[i%z.distinct]); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.do(ctx, s.tools.fiador, "pack", "archive", p, name); err != nil {
			return nil, err
		}
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return nil, err
		}
		made = append(made, b)
	}
	return list, nil
}

// prove makes sure that all packs are valid, and that the last one is not with another
// bit in its bundle: what is timed is a verification.
func (s *packScene) prove(ctx context.Context, packs []string) error {
	valid, err := s.verdicts(ctx, packs)
	if err != nil {
		return err
	}
	if len(valid) != len(packs) || slices.Contains(valid, false) {
		return fmt.Errorf("of %d packs not all are valid: %t", len(packs), valid)
	}
	last := packs[len(packs)-1:]
	name := last[0] + "/" + pack.BundleFile
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	other := bytes.Clone(text)
	other[len(other)/2] ^= 1
	if err := s.write(name, other); err != nil {
		return err
	}
	valid, err = s.verdicts(ctx, last)
	if err := errors.Join(err, s.write(name, text)); err != nil {
		return err
	}
	if len(valid) != 1 || valid[0] {
		return fmt.Errorf("another bit in %q was not found", name)
	}
	return nil
}

// verdicts says of each pack whether it is valid.
func (s *packScene) verdicts(ctx context.Context, packs []string) (valid []bool, err error) {
	out, err := s.output(ctx, s.verify(packWay, packs, "--format", "json"))
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var v struct{ Valid bool }
		if err := json.Unmarshal(line, &v); err != nil {
			return nil, fmt.Errorf("no verdict: %s", line)
		}
		valid = append(valid, v.Valid)
	}
	return valid, nil
}

// filesOf are the files of packs, with their bytes in all.
func (s *packScene) filesOf(packs []string) (files []string, size int64, err error) {
	for _, p := range packs {
		list, err := os.ReadDir(filepath.Join(s.dir, p))
		if err != nil {
			return nil, 0, err
		}
		for _, d := range list {
			info, err := d.Info()
			if err != nil {
				return nil, 0, err
			}
			files, size = append(files, p+"/"+d.Name()), size+info.Size()
		}
	}
	return files, size, nil
}

// operations makes sure that the patch of a pack has so many.
func (s *packScene) operations(name string, want int) error {
	p, err := pack.Open(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	patch, err := p.Patch()
	switch {
	case err != nil:
		return err
	case patch == nil || len(patch.Operations) != want:
		return fmt.Errorf("the patch of %q does not have %d operations", name, want)
	}
	return nil
}

// insideOf times what a process does with one pack, without its start.
func (s *packScene) insideOf(name string, files []string) ([]timing, error) {
	dir := filepath.Join(s.dir, name)
	p, err := pack.Open(dir)
	if err != nil {
		return nil, err
	}
	o := verify.Options{Profile: func(name string) *kernel.PolicyProfile {
		p, known := s.profiles[name]
		if !known {
			return nil
		}
		c := p.Contract()
		return &c
	}, Whole: func(name string) *kernel.Profile {
		p, known := s.profiles[name]
		if !known {
			return nil
		}
		return &p
	}}
	verified := func() error {
		if v := verify.Pack(p, o); !v.OK() {
			return fmt.Errorf("pack %q: %v %v", name, v.Violations, v.NotChecked)
		}
		return nil
	}
	return timedAll([]step{
		{"read", func() error { _, err := pack.Open(dir); return err }},
		{"verify", verified},
		{"SHA-256 of the same bytes, Go's", func() error {
			for _, e := range p.Entries {
				sha256.Sum256(e.Text)
			}
			return nil
		}},
	})
}
