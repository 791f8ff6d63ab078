package verify

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/policy/profile"
	"github.com/fiador/fiador/profiles"
	"github.com/fiador/fiador/specs"
	"github.com/fiador/fiador/specs/specstest"
)

var (
	updateVectors = flag.Bool("update", false, "write what is found into the vectors, and lay them out")
	layOut        = flag.String("lay-out", "", "new `folder` for the archive of every vector, each named after its vector")
)

const vectorDir = "../../../specs/vectors/pack"

// A packVector is one element of a file of specs/vectors/pack. README.md there describes
// its members.
type packVector struct {
	Name       string           `json:"name"`
	Why        string           `json:"why"`
	Base       string           `json:"base"`
	Changes    []change         `json:"changes"`
	Structural []pack.Violation `json:"structural"`
	Strict     []pack.Violation `json:"strict"`
	NotChecked bool             `json:"not_checked"`
}

type packVectors struct {
	path    string
	About   string        `json:"about"`
	Vectors []*packVector `json:"vectors"`
}

// basePacks are the packs of base.json.
func basePacks(t testing.TB) map[string]json.RawMessage {
	t.Helper()
	var base struct {
		About string                     `json:"about"`
		Runs  map[string]json.RawMessage `json:"runs"` // for people, and for TestBasePacksAreRuns of package harness
		Packs map[string]json.RawMessage `json:"packs"`
	}
	readVectors(t, filepath.Join(vectorDir, "base.json"), &base)
	return base.Packs
}

// readVectors reads a file, which must be plain ASCII without unknown members.
func readVectors(t testing.TB, path string, to any) []byte {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(src, func(c byte) bool { return c >= 0x7f || c < 0x20 && c != '\n' }); i >= 0 {
		t.Errorf("%s: byte %d is not plain ASCII", path, i)
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return src
}

// allVectors reads every file except the base packs. Each must have the layout of
// -update.
func allVectors(t testing.TB) []*packVectors {
	t.Helper()
	paths, err := filepath.Glob(vectorDir + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var files []*packVectors
	for _, path := range paths {
		if filepath.Base(path) == "base.json" {
			continue
		}
		f := &packVectors{path: path}
		src := readVectors(t, path, f)
		if !*updateVectors && !bytes.Equal(src, f.text(t)) {
			t.Errorf("%s is not laid out as go test ./evidence/pack/verify -run Vectors -update does", path)
		}
		for _, v := range f.Vectors {
			if v.Name == "" || v.Why == "" || seen[v.Name] {
				t.Errorf("%s: the name %q is taken, or it or the reason is empty", path, v.Name)
			}
			seen[v.Name] = true
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		t.Fatal("no vectors")
	}
	return files
}

// TestVectors: every vector has the violations that it names, at both levels, read from
// memory, from a folder and from an archive.
func TestVectors(t *testing.T) {
	if *updateVectors {
		renewVectors(t)
	}
	r := vectorRun{base: basePacks(t), options: builtin(t)}
	for _, f := range allVectors(t) {
		for _, v := range f.Vectors {
			t.Run(v.Name, func(t *testing.T) { r.check(t, v) })
		}
		if *updateVectors {
			if err := os.WriteFile(f.path, f.text(t), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBasePacksHold: the packs at the beginning of vectors break no rule.
func TestBasePacksHold(t *testing.T) {
	r := vectorRun{base: basePacks(t), options: builtin(t)}
	for name := range r.base {
		t.Run(name, func(t *testing.T) { r.check(t, &packVector{Base: name}) })
	}
}

// vectorRun has the settings for running vectors.
type vectorRun struct {
	base    map[string]json.RawMessage
	options Options // of the strict level
}

func (r vectorRun) apply(t testing.TB, v *packVector) *draft {
	t.Helper()
	d, err := newDraft(r.base[v.Base])
	if err != nil {
		t.Fatalf("base %q: %v", v.Base, err)
	}
	for i, c := range v.Changes {
		if err := d.do(c); err != nil {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	return d
}

func (r vectorRun) check(t *testing.T, v *packVector) {
	d := r.apply(t, v)
	archive := d.archive(t)
	archived, err := pack.ReadArchive(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	if *layOut != "" {
		file := filepath.Join(*layOut, url.PathEscape(v.Name)+".tar.gz")
		if err := errors.Join(os.MkdirAll(*layOut, 0o755), os.WriteFile(file, archive, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if *updateVectors && v.Name != "" {
		v.Structural = Pack(archived, Options{Level: pack.Structural}).Violations
		full := Pack(archived, r.options)
		v.Strict, v.NotChecked = full.Violations, len(full.NotChecked) > 0
	}
	r.verify(t, v, archived)
	if len(d.twice) == 0 && !slices.ContainsFunc(d.extra, func(e pack.Entry) bool { return strings.Contains(e.Name, "/") }) {
		dir := t.TempDir()
		d.folder(t, dir)
		p, err := pack.ReadFolder(dir)
		if err != nil {
			t.Fatal(err)
		}
		r.verify(t, v, p)
	}
	if len(d.twice) == 0 && len(d.extra) == 0 && d.fill == 0 {
		r.verify(t, v, d.inMemory(t))
	}
}

func (r vectorRun) verify(t *testing.T, v *packVector, p *pack.Pack) {
	t.Helper()
	got := Pack(p, Options{Level: pack.Structural})
	sameViolations(t, pack.Structural, got.Violations, v.Structural)
	if got.NotChecked != nil {
		t.Errorf("structural: not checked: %q", got.NotChecked)
	}
	got = Pack(p, r.options)
	sameViolations(t, pack.Strict, got.Violations, v.Strict)
	if (len(got.NotChecked) > 0) != v.NotChecked {
		t.Errorf("strict: not checked: %q", got.NotChecked)
	}
}

func sameViolations(t *testing.T, level pack.Level, got, want []pack.Violation) {
	t.Helper()
	for _, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("%s: not expected: %+v", level, g)
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s: not found: %+v", level, w)
		}
	}
	if !t.Failed() && !slices.Equal(got, want) {
		t.Errorf("%s: the same in another order: %+v", level, got)
	}
}

// builtin returns the options with all facts about the built-in profiles.
func builtin(t testing.TB) Options {
	t.Helper()
	set, err := specs.New()
	if err != nil {
		t.Fatal(err)
	}
	contracts, whole := map[string]*kernel.PolicyProfile{}, map[string]*kernel.Profile{}
	for _, name := range []string{"strict", "default", "dev"} {
		p, err := profile.Load(profiles.FS(), name, set)
		if err != nil {
			t.Fatal(err)
		}
		c := p.Contract()
		contracts[name], whole[name] = &c, &p
	}
	return Options{
		Profile: func(name string) *kernel.PolicyProfile { return contracts[name] },
		Whole:   func(name string) *kernel.Profile { return whole[name] },
	}
}

// at returns the options at a level.
func (o Options) at(level pack.Level) Options {
	o.Level = level
	return o
}

// inMemory returns the pack of the files alone.
func (d *draft) inMemory(t testing.TB) *pack.Pack {
	t.Helper()
	return pack.Of(d.files(t))
}

func (d *draft) mustText(t testing.TB, name string) []byte {
	t.Helper()
	b, err := d.text(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fillers returns the names of the empty files that fill a pack.
func (d *draft) fillers() []string {
	var list []string
	for i := len(d.names()) + len(d.extra); i < d.fill; i++ {
		list = append(list, fmt.Sprintf("fill-%03d", len(list)))
	}
	return list
}

func (d *draft) folder(t *testing.T, dir string) {
	t.Helper()
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range d.names() {
		write(name, d.mustText(t, name))
	}
	for _, name := range d.fillers() {
		write(name, nil)
	}
	for _, e := range d.extra {
		path := filepath.Join(dir, e.Name)
		var err error
		switch e.Kind {
		case pack.KindFile:
			write(e.Name, nil)
			err = os.Truncate(path, e.Size)
		case pack.KindLink:
			err = os.Symlink(filepath.Join("..", e.Name), path)
		case pack.KindFolder:
			err = os.Mkdir(path, 0o700)
		default:
			err = makeOther(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (d *draft) archive(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	add := func(h tar.Header, content []byte) {
		h.Mode, h.Size = 0o644, int64(len(content))
		if !utf8.ValidString(h.Name) {
			h.Format = tar.FormatGNU
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range d.names() {
		add(tar.Header{Name: name, Typeflag: tar.TypeReg}, d.mustText(t, name))
	}
	for _, name := range d.fillers() {
		add(tar.Header{Name: name, Typeflag: tar.TypeReg}, nil)
	}
	for _, e := range d.extra {
		switch e.Kind {
		case pack.KindFile:
			add(tar.Header{Name: e.Name, Typeflag: tar.TypeReg}, make([]byte, e.Size))
		case pack.KindLink:
			add(tar.Header{Name: e.Name, Typeflag: tar.TypeSymlink, Linkname: "../" + e.Name}, nil)
		case pack.KindFolder:
			add(tar.Header{Name: e.Name + "/", Typeflag: tar.TypeDir}, nil)
		default:
			add(tar.Header{Name: e.Name, Typeflag: tar.TypeFifo}, nil)
		}
	}
	for _, name := range d.twice {
		add(tar.Header{Name: name, Typeflag: tar.TypeReg}, d.mustText(t, name))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// text returns the file as -update writes it: a line for each step and each violation.
func (f *packVectors) text(t testing.TB) []byte {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "{\n \"about\": %s,\n \"vectors\": [", specstest.Encode(t, f.About))
	for i, v := range f.Vectors {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  {\"name\": %s,\n   \"why\": %s,\n   \"base\": %s", specstest.Encode(t, v.Name), specstest.Encode(t, v.Why), specstest.Encode(t, v.Base))
		if len(v.Changes) > 0 {
			b.WriteString(",\n   \"changes\": ")
			writeList(t, &b, v.Changes)
		}
		b.WriteString(",\n   \"structural\": ")
		writeList(t, &b, v.Structural)
		b.WriteString(",\n   \"strict\": ")
		writeList(t, &b, v.Strict)
		if v.NotChecked {
			b.WriteString(",\n   \"not_checked\": true")
		}
		b.WriteString("}")
	}
	b.WriteString("\n ]\n}\n")
	return []byte(b.String())
}

func writeList[T any](t testing.TB, b *strings.Builder, list []T) {
	t.Helper()
	b.WriteString("[")
	for i := range list {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n    " + specstest.Encode(t, &list[i]))
	}
	b.WriteString("]")
}

// TestEveryRuleHasARecord: each rule has one record. Each rule of the structural level
// has a vector that breaks only this rule at that level. Two rules cannot be broken
// without another one.
func TestEveryRuleHasARecord(t *testing.T) {
	alone, broken := map[string]bool{}, map[string]bool{}
	for _, f := range allVectors(t) {
		for _, v := range f.Vectors {
			if id := onlyRule(v.Structural); id != "" {
				alone[id] = true
			}
			for _, found := range slices.Concat(v.Structural, v.Strict) {
				broken[found.Rule] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.ID == "" || r.Title == "" || r.Description == "" || seen[r.ID] {
			t.Errorf("rule %q has two records, or an empty member", r.ID)
		}
		seen[r.ID] = true
		switch {
		case r.Level == pack.Structural && !alone[r.ID]:
			t.Errorf("rule %s: no vector breaks it alone", r.ID)
		case r.Level == pack.Strict && !broken[r.ID]:
			t.Errorf("rule %s: no vector breaks it", r.ID)
		}
	}
	for id := range broken {
		if !seen[id] {
			t.Errorf("rule %s has no record", id)
		}
	}
}

// onlyRule returns the one rule that the violations are about. Equal or descending
// positions (MI8, MI9, TI9) always break MI5 or TI5 too.
func onlyRule(list []pack.Violation) string {
	ids := map[string]bool{}
	for _, v := range list {
		ids[v.Rule] = true
	}
	if ids["MI8"] || ids["MI9"] {
		delete(ids, "MI5")
	}
	if ids["TI9"] {
		delete(ids, "TI5")
	}
	if len(ids) != 1 {
		return ""
	}
	for id := range ids {
		return id
	}
	return ""
}

// TestRuleTable: docs/pack-rules.md names, for each rule that Verify checks, the vector
// that breaks it with the fewest violations. With -update the test writes the page.
func TestRuleTable(t *testing.T) {
	least := map[string]*packVector{}
	for _, f := range allVectors(t) {
		for _, v := range f.Vectors {
			for _, found := range v.Strict {
				if best := least[found.Rule]; best == nil || len(v.Strict) < len(best.Strict) {
					least[found.Rule] = v
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString("# Rules of run packs\n\nWhat holds in every valid pack, and which of [the vectors](../specs/vectors/pack/README.md) breaks it with the fewest violations.\n" +
		"`fiador explain RULE` says why each is there. A test writes this page (`go test ./evidence/pack/verify -run RuleTable -update`).\n")
	for _, part := range []struct {
		level pack.Level
		title string
	}{
		{pack.Structural, "Structural: presence, shapes and references"},
		{pack.Strict, "Strict: what is recomputed, besides"},
		{sign.WithKeys, "With keys: `--key` and `--ledger-key`"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n", part.title)
		if part.level == sign.WithKeys {
			b.WriteString("A vector would need a private key that everybody has; the tests of `evidence/pack/sign` make keys of their own.\n\n| rule | holds in a pack |\n|---|---|\n")
		} else {
			b.WriteString("| rule | holds in a pack | vector |\n|---|---|---|\n")
		}
		for _, r := range Rules() {
			switch v := least[r.ID]; {
			case r.Level != part.level:
			case part.level == sign.WithKeys:
				fmt.Fprintf(&b, "| %s | %s |\n", r.ID, r.Title)
			case v == nil:
				t.Errorf("rule %s: no vector", r.ID)
			default:
				fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, r.Title, v.Name)
			}
		}
	}
	path := filepath.Join("..", "..", "..", "docs", "pack-rules.md")
	if *updateVectors {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page, err := os.ReadFile(path); err != nil || string(page) != b.String() {
		t.Errorf("%s is stale: run go test ./evidence/pack/verify -run RuleTable -update (%v)", path, err)
	}
}
