package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// seed makes every run write the same folder.
const seed = 20260601

// shards is how many subfolders share the intents of a folder, so that a part
// of the folder has a name of its own.
const shards = 20

// Words of the generated intents. No detector and no rule of rules.go is about any
// of them.
var (
	subjects = []string{
		"documentation site", "release notes", "price list", "glossary", "start page", "tutorial", "test report",
		"style guide", "route map", "parts catalogue", "calendar", "photo index", "reading list", "sitemap",
	}
	occasions = []string{
		"the spring release", "the new menu", "the print edition", "the support team", "the mobile layout",
		"the French edition", "the next sprint", "the yearly review", "the partner portal", "the first customers",
	}
	demands = []string{
		"every page links back to the index", "the notes fit on one page", "the old file stays until the new one is complete",
		"headings keep their order", "the text is in plain English", "tables have at most six columns",
		"file names are in lower case", "the build ends without a warning", "dates are written as in 2026-03-14",
		"images have a caption",
	}
	scripts = []string{"build.js", "check-links.js", "render.js", "collect.js", "minify.js", "toc.js", "spell.js", "merge.js"}
	tasks   = []string{"test", "lint", "format", "docs", "stats", "icons"}
	areas   = []string{"site", "notes", "pages", "assets", "data", "print", "feeds", "index"}
	roots   = []string{"out", "dist", "build", "tmp"}
	lines   = []string{
		"The start is faster, and the index lists every page.",
		"Tables can be sorted by each of their columns.",
		"A link that leads nowhere is shown in the margin.",
		"The search finds words of two letters and more.",
		"Pictures load when they come into view.",
		"The menu keeps its place when the window is narrow.",
	}
)

// draft is an intent that is being written, with its own source of choices: the
// n-th intent is the same in a folder of any size.
type draft struct {
	intent
	rnd *rand.Rand
	n   int
}

func (d *draft) one(of []string) string { return of[d.rnd.IntN(len(of))] }

// file is a path below a write root that no other file of the intent has.
func (d *draft) file(ext string) string {
	return fmt.Sprintf("%s/%s/%s-%d%s", d.one(roots), d.one(areas), d.one(areas), len(d.Actions), ext)
}

func (d *draft) act(action map[string]any) { d.Actions = append(d.Actions, action) }

func (d *draft) write(path string) {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %d\n\n", d.one(subjects), d.n)
	for range 2 + d.rnd.IntN(4) {
		b.WriteString(d.one(lines) + "\n")
	}
	d.act(map[string]any{"kind": "write", "path": path, "content": b.String()})
}

func (d *draft) run(argv ...string) {
	action := map[string]any{"kind": "run", "argv": argv}
	if d.rnd.IntN(3) == 0 {
		action["timeout_ms"] = 10000 * (1 + d.rnd.IntN(5))
	}
	d.act(action)
}

// ordinary is an intent that the default profile allows and no rule of rules.go
// is about.
func ordinary(n int) *draft {
	d := &draft{rnd: rand.New(rand.NewPCG(seed, uint64(n))), n: n}
	d.Goal = fmt.Sprintf("Build the %s for %s and write the %s of edition %d", d.one(subjects), d.one(occasions), d.one(subjects), n)
	for _, k := range d.rnd.Perm(len(demands))[:1+d.rnd.IntN(3)] {
		d.Constraints = append(d.Constraints, demands[k])
	}
	for range 1 + d.rnd.IntN(3) {
		path := d.file(".md")
		d.write(path)
		d.Outputs = append(d.Outputs, path)
	}
	for range 1 + d.rnd.IntN(2) {
		d.run("node", "scripts/"+d.one(scripts), "--out", d.one(roots)+"/"+d.one(areas))
	}
	if d.rnd.IntN(2) == 0 {
		d.run("npm", "run", d.one(tasks))
	}
	for k := range d.rnd.IntN(4) {
		d.Inputs = append(d.Inputs, fmt.Sprintf("src/%s/part-%d.md", d.one(areas), k))
	}
	return d
}

// spoilt are the ways in which a generated intent is not allowed by the default
// profile, each with the percentage of intents that have it.
var spoilt = []struct {
	percent int
	spoil   func(*draft)
}{
	{4, func(d *draft) { d.run("curl", "-o", d.file(".tgz"), "example.com/"+d.one(areas)+".tgz") }},
	{3, func(d *draft) { d.write("src/" + d.one(areas) + "/index.md") }},
	{2, func(d *draft) { d.write(".github/workflows/" + d.one(areas) + ".yml") }},
	{2, func(d *draft) { d.write("out/../../" + d.one(areas) + ".md") }},
	{2, func(d *draft) { d.run("node", "-e", "require('./scripts/"+d.one(scripts)+"')") }},
	{4, func(d *draft) { d.Goal += ", owner TBD" }},
	{3, func(d *draft) { d.Outputs = append(d.Outputs, d.file(".pdf")) }},
}

// against are additions to intents that the default profile allows. Each addition breaks
// a rule of rules.go.
var against = []struct {
	percent int
	add     func(*draft)
}{
	{2, func(d *draft) { d.run("npm", d.one([]string{"publish", "unpublish", "deprecate"}), "--tag", "next") }},
	{2, func(d *draft) { d.write(d.one(roots[:2]) + "/billing/invoices/list.md") }},
	{1, func(d *draft) { d.Goal += ", then rotate the signing keys" }},
}

// generated is the n-th intent of a folder: about 1 KiB.
func generated(n int) []byte {
	d := ordinary(n)
	lot := d.rnd.IntN(100)
	for _, s := range spoilt {
		if lot >= 0 && lot < s.percent {
			s.spoil(d)
		}
		lot -= s.percent
	}
	for _, a := range against {
		if lot >= 0 && lot < a.percent {
			a.add(d)
		}
		lot -= a.percent
	}
	return d.bytes()
}

// shardName is where the n-th of total intents lies, below the folder.
func shardName(n, total int) string { return fmt.Sprintf("%02d", n*shards/total) }

// below are the paths of the first of so many shards of a folder.
func below(folder string, count int) []string {
	paths := make([]string, count)
	for k := range paths {
		paths[k] = fmt.Sprintf("%s/%02d", folder, k)
	}
	return paths
}

// addFolder writes so many intents below "intents", and the policy input of each
// below "inputs" under the same name. It returns the bytes of both.
func (s *scene) addFolder(total int) (intents, inputs int, err error) {
	for _, dir := range slices.Concat(below("intents", shards), below("inputs", shards)) {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o700); err != nil {
			return 0, 0, err
		}
	}
	for n := range total {
		src := generated(n)
		in, err := s.question(src)
		if err != nil {
			return 0, 0, fmt.Errorf("intent %d: %w", n, err)
		}
		input, err := canon.Canonical(in.Document())
		if err != nil {
			return 0, 0, fmt.Errorf("intent %d: %w", n, err)
		}
		name := filepath.Join(shardName(n, total), fmt.Sprintf("%05d.json", n))
		if err := s.write(filepath.Join("intents", name), src); err != nil {
			return 0, 0, err
		}
		if err := s.write(filepath.Join("inputs", name), input); err != nil {
			return 0, 0, err
		}
		intents, inputs = intents+len(src), inputs+len(input)
	}
	return intents, inputs, nil
}
