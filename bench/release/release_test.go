package main

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/ledger"
)

// TestRefused: what cannot become a release is refused before anything is built, and
// nothing is left. TestRelease* of package action hold what a release is.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	tag := "v" + kernel.Version
	source := filepath.Join(dir, "source")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", source, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private, public, err := ledger.GenerateKey(strings.NewReader(strings.Repeat("k", 64)), "example.com/release")
	if err != nil {
		t.Fatal(err)
	}
	key, pub := put("key", private+"\n"), put("pub", public+"\n")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "a")
	// A setting hides no change.
	git("config", "status.showUntrackedFiles", "no")
	git("config", "core.excludesFile", put("hidden", "changed\n"))
	put("source/changed", "x")
	out := filepath.Join(dir, "out")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"usage:", nil},
		{"usage:", []string{tag}},
		{"unknown flag", []string{tag, out, "--sign"}},
		{`is "` + tag + `", and not "v9.9.9"`, []string{"v9.9.9", out}},
		{`, and not "` + kernel.Version + `"`, []string{kernel.Version, out}},
		{"exists: name a new folder", []string{tag, dir}},
		{"exists: name a new folder", []string{tag, key}},
		{`no release for "plan9/amd64"`, []string{tag, out, "linux/amd64", "plan9/amd64"}},
		{"the work tree differs from its commit", []string{tag, out, "--key", key}},
		{`SOURCE_DATE_EPOCH "yesterday" is not a number`, []string{tag, out, "--trial"}},
		{"this is the public key", []string{tag, out, "--trial", "--key", pub}},
		{"no such file", []string{tag, out, "--trial", "--key", filepath.Join(dir, "none")}},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", map[bool]string{true: "yesterday"}[strings.HasPrefix(c.want, "SOURCE_DATE_EPOCH")])
		err := run(append([]string{"--source", source}, c.args...))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{filepath.Join(dir, "hidden"), key, pub, source}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q is there, and not %q", left, want)
	}
}

// TestPrograms: every program of an archive can be executed where it is unpacked, with the suffix
// of Windows too, and nothing else can.
func TestPrograms(t *testing.T) {
	files := tree{"LICENSE": nil, "man/fiador.1": nil, "completions/fiador.bash": nil}
	for _, name := range []string{"fiador", "fiador.exe", "safe-run", "fiador-ledgerd", "fiador-remote", "fiador-shim-linux-amd64", "fiador-shim-linux-arm64"} {
		files[name] = []byte{0}
	}
	b, err := new(release).tar(files)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for r := tar.NewReader(bytes.NewReader(b)); ; seen++ {
		h, err := r.Next()
		if err != nil {
			break
		}
		if want := map[bool]int64{true: 0o755, false: 0o644}[h.Size == 1]; h.Mode != want {
			t.Errorf("%s has mode %o, want %o", h.Name, h.Mode, want)
		}
	}
	if seen != len(files) {
		t.Errorf("%d files of %d", seen, len(files))
	}
}

// TestIdentified: the words of a licence name it, and an unknown text has no name.
func TestIdentified(t *testing.T) {
	bsd := "Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided"
	for text, want := range map[string]string{
		"Apache License\n  Version 2.0, January 2004\n":                                    "Apache-2.0",
		"Permission is hereby granted, free of charge, to any person obtaining a copy\nof": "MIT",
		bsd: "BSD-2-Clause",
		bsd + " names of its contributors may be used to endorse or promote products derived from\nthis software without":                              "BSD-3-Clause",
		"MIT and Apache. Permission is hereby granted, free of charge, to any person obtaining a copy\nLicensed under the Apache License, Version 2.0": "Apache-2.0 MIT",
		"Copyright (c) 2014 HashiCorp, Inc.\n\nMozilla Public License, version 2.0\n":                                                                  "MPL-2.0",
		"All rights reserved.": "",
	} {
		if got := strings.Join(identified(text), " "); got != want {
			t.Errorf("%q is %q, and not %q", text, got, want)
		}
	}
}
