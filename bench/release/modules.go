package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The files with the licences of everything that is linked. Archives that are unpacked into one
// folder keep all.
const (
	thirdParty        = "THIRD_PARTY_LICENSES.txt"
	thirdPartyRemote  = "THIRD_PARTY_LICENSES_REMOTE.txt"
	thirdPartyLedgerd = "THIRD_PARTY_LICENSES_LEDGERD.txt"
)

// module is a module that a program links, or the standard library.
type module struct {
	path, version string
	sum           string   // as in go.sum
	licence       string   // SPDX expression
	texts         []string // of its licence files
}

// ours is the path of Fiador's module, from which the modules of some programs link packages.
const ours = "github.com/fiador/fiador"

// stdlib is the name that scanners know the standard library by.
const stdlib = "stdlib"

// linked returns the modules with packages that programs link, by path and version. Their
// licence files are those of the folders of these packages, and of the folders above them.
func (r *release) linked(programs []program) ([]module, error) {
	format := `{{if .Standard}}` + stdlib + `{{"\t"}}{{"\t"}}{{"\t"}}{{else}}{{with .Module}}{{if not (or .Main (eq .Path "` + ours + `"))}}{{.Path}}{{"\t"}}{{.Version}}{{"\t"}}{{.Sum}}{{"\t"}}{{.Dir}}{{end}}{{end}}{{end}}{{"\t"}}{{.Dir}}`
	var lines []string
	for _, p := range programs {
		out, err := r.output(append(slices.Clone(p.env), "go", "list", "-C", p.dir, "-deps", "-f", format, p.pkg)...)
		if err != nil {
			return nil, err
		}
		lines = append(lines, strings.Split(out, "\n")...)
	}
	seen := map[string]bool{}
	found := map[string]*module{}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		if f[0] == "" { // a package of ours
			continue
		}
		id := f[0] + f[1]
		m := found[id]
		if m == nil {
			m = &module{path: f[0], version: f[1], sum: f[2]}
			found[id] = m
		}
		if m.path == stdlib {
			continue
		}
		for dir := f[4]; strings.HasPrefix(dir, f[3]) && !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			if err := m.licences(dir); err != nil {
				return nil, err
			}
		}
	}
	if err := r.standard(found[stdlib]); err != nil {
		return nil, err
	}
	var list []module
	for _, m := range found {
		if m.licence == "" || m.version == "" || m.path != stdlib && m.sum == "" {
			return nil, fmt.Errorf("licence %q, version %q or sum %q of module %s is not known", m.licence, m.version, m.sum, m.path)
		}
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b module) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.version, b.version))
	})
	return list, nil
}

// standard completes the standard library from the folder of Go.
func (r *release) standard(m *module) error {
	out, err := r.output("go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	root, version, _ := strings.Cut(out, "\n")
	m.version = strings.TrimPrefix(version, "go")
	return m.licences(root)
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// licences adds the licence files of a folder.
func (m *module) licences(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !licenceFile.MatchString(f.Name()) || f.IsDir() || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
		if slices.Contains(m.texts, text) {
			continue
		}
		m.texts = append(m.texts, text)
		slices.Sort(m.texts)
		ids := append(strings.Fields(strings.ReplaceAll(m.licence, " AND ", " ")), identified(text)...)
		slices.Sort(ids)
		m.licence = strings.Join(slices.Compact(ids), " AND ")
	}
	return nil
}

// identified returns the SPDX identifiers of the licences that a text grants. Their words
// tell them apart.
func identified(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	var ids []string
	for _, c := range []struct{ id, has, lacks string }{
		{"Apache-2.0", "Apache License Version 2.0, January 2004", ""},
		{"Apache-2.0", "Licensed under the Apache License, Version 2.0", ""},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", ""},
		{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose with or without fee", ""},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee", ""},
		{"BSD-3-Clause", "to endorse or promote products derived from this software without", ""},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms, with or without modification, are permitted", "to endorse or promote products derived from this software without"},
		{"CC0-1.0", "Creative Commons Legal Code CC0 1.0 Universal", ""},
		{"MPL-2.0", "Mozilla Public License Version 2.0", ""},
		{"MPL-2.0", "Mozilla Public License, version 2.0", ""},
	} {
		if strings.Contains(text, c.has) && (c.lacks == "" || !strings.Contains(text, c.lacks)) && !slices.Contains(ids, c.id) {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// licencesOf returns the licences of modules as one text.
func licencesOf(list []module) []byte {
	var b bytes.Buffer
	b.WriteString("Fiador is linked from these modules, unchanged. The name of a module is the address of its source, and its\nversion the tag there. The licence of each stands below its name.\n")
	for _, m := range list {
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, m.licence, strings.Join(m.texts, "\n\n"+strings.Repeat("-", 80)+"\n\n"))
	}
	return b.Bytes()
}

// moduleOf returns a module that only the image has, by its path in the benchmark's go.mod.
func (r *release) moduleOf(path string) (module, error) {
	out, err := r.output("go", "-C", "bench", "list", "-m", "-f", "{{.Version}}\t{{.Sum}}\t{{.Dir}}", path)
	if err != nil {
		return module{}, err
	}
	f := strings.Split(out, "\t")
	m := module{path: path, version: f[0], sum: f[1]}
	err = m.licences(f[2])
	if err == nil && m.licence == "" {
		err = errors.New("no licence is known of " + path)
	}
	return m, err
}
