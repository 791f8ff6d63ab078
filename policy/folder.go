package policy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/profiles"
)

// Folder is a folder with policy files. Messages name it Show, or Dir if Show is empty.
type Folder struct {
	FS   fs.FS
	Dir  string
	Show string
}

// File returns the name of a file of the folder in messages.
func (f Folder) File(rel string) string {
	show := cmp.Or(f.Show, f.Dir)
	switch {
	case rel == "":
		return show
	case show == ".":
		return rel
	}
	return strings.TrimSuffix(show, "/") + "/" + rel
}

func (f Folder) errorf(rel, msg string) *Error {
	return &Error{Kind: KindModule, File: f.File(rel), Msg: msg}
}

// Prefixes of packages whose last part the layer's modules choose.
const (
	PrefixOrg  = "gate.org."
	PrefixRepo = "gate.repo."
	PrefixUser = "gate.user."
	PrefixAny  = "gate."
)

// LoadLayer reads the modules of a layer: every *.rego below the folder that is not a
// *_test.rego, in the order of their paths. It skips names that begin with "..". pkg is
// the layer's package, or a prefix such as PrefixOrg; with a prefix, the first module
// names the package. Module names begin with the package's own path, as in
// "org/acme/deploy.rego". The last module of the built-in layer is the file of its records.
//
// A folder without modules gives a layer without modules, which New refuses.
func LoadLayer(f Folder, pkg string, lim Limits) (Layer, error) {
	l, err := f.layer(pkg, lim)
	if err == nil {
		err = f.checkTests(lim)
	}
	if err != nil {
		return Layer{}, err
	}
	return l, nil
}

// layer is LoadLayer without the tests. Beside an error, the layer has the modules that could
// be read.
func (f Folder) layer(pkg string, lim Limits) (l Layer, err error) {
	files, err := f.rego(lim.orDefault(), func(name string) bool { return !isTest(name) })
	defer func() {
		prefix := strings.ReplaceAll(strings.TrimPrefix(l.Package, "gate."), ".", "/")
		for i, m := range l.Modules {
			l.Modules[i].Name, l.Modules[i].File = prefix+"/"+m.Name, f.File(m.Name)
		}
	}()
	if err != nil {
		return Layer{Modules: files}, err
	}
	if records := path.Base(profiles.RecordsModule); pkg == Builtin && f.Has(records) {
		src, err := f.Read(records, "records", lim.orDefault().ModuleBytes)
		if err != nil {
			return Layer{Modules: files}, err
		}
		files = append(files, Module{Name: records, Source: src})
	}
	if !strings.HasSuffix(pkg, ".") {
		return Layer{Package: pkg, Modules: files}, nil
	}
	if len(files) == 0 && pkg == PrefixUser {
		return Layer{}, nil // a profile may be data alone
	}
	if len(files) == 0 {
		return Layer{}, f.errorf("", "no policy module (*.rego) is in this folder")
	}
	stated := statedPackage(files[0].Source)
	if !strings.HasPrefix(stated, pkg) || !validPackage(stated) {
		return Layer{Modules: files}, f.errorf(files[0].Name, "package "+canon.Quote(stated)+" must be "+pkg+"NAME")
	}
	return Layer{Package: stated, Modules: files}, nil
}

// LoadTests reads every *_test.rego below the folder. Each module has the name of its
// file.
func LoadTests(f Folder, lim Limits) ([]Module, error) {
	files, err := f.rego(lim.orDefault(), isTest)
	for i, m := range files {
		files[i].Name = f.File(m.Name)
	}
	return files, err
}

// checkTests refuses a test file with one of the rules through which a layer answers,
// because a decision never asks such a rule. It skips a file that cannot be parsed; the
// tests report it.
func (f Folder) checkTests(lim Limits) error {
	tests, err := LoadTests(f, lim)
	if err != nil {
		return err
	}
	for _, m := range tests {
		mod, err := ast.ParseModuleWithOpts(m.Name, string(m.Source), ast.ParserOptions{RegoVersion: ast.RegoV1})
		if err != nil {
			continue
		}
		for _, r := range mod.Rules {
			if rule := r.Head.Ref()[0].Value.String(); IsAnswer(rule) {
				e := m.Errorf(r.Location.Row, "rule %q stands in a test file, which never decides; move it to a module", rule)
				e.File = m.Name
				return e
			}
		}
	}
	return nil
}

func isTest(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), "_test.rego")
}

// rego reads the Rego files below the folder whose names keep accepts, by path.
func (f Folder) rego(lim Limits, keep func(name string) bool) ([]Module, error) {
	var modules []Module
	total := 0
	err := fs.WalkDir(f.FS, f.Dir, func(name string, d fs.DirEntry, err error) error {
		rel := name
		if f.Dir != "." {
			rel = strings.TrimPrefix(strings.TrimPrefix(name, f.Dir), "/")
		}
		if err != nil {
			return f.errorf(rel, "policy folder cannot be read")
		}
		if strings.HasPrefix(d.Name(), "..") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.Type()&fs.ModeSymlink != 0 {
			info, err := fs.Stat(f.FS, name)
			switch {
			case err != nil:
				return f.errorf(rel, "a link that leads nowhere or out of the folder: put the file here")
			case info.IsDir():
				return f.errorf(rel, "a link to a folder is not followed: put the files here")
			}
		}
		if d.IsDir() || !strings.HasSuffix(strings.ToLower(name), ".rego") || !keep(name) {
			return nil
		}
		src, err := f.Read(rel, "module", lim.ModuleBytes)
		if err != nil {
			return err
		}
		if total += len(src); total > lim.BundleBytes {
			e := f.errorf("", "the modules have more than "+strconv.Itoa(lim.BundleBytes)+" bytes together")
			e.Kind = KindLimit
			return e
		}
		modules = append(modules, Module{Name: rel, Source: src})
		return nil
	})
	if _, own := errors.AsType[*Error](err); err != nil && !own {
		err = f.errorf("", "policy folder cannot be read")
	}
	slices.SortFunc(modules, func(a, b Module) int { return strings.Compare(a.Name, b.Name) })
	return modules, err
}

// Has says whether the folder has an entry.
func (f Folder) Has(rel string) bool {
	_, err := fs.Stat(f.FS, path.Join(f.Dir, rel))
	return !errors.Is(err, fs.ErrNotExist)
}

// Read reads a file of at most most bytes. what names the file in messages. It reads only
// regular files: opening a pipe could wait forever.
func (f Folder) Read(rel, what string, most int) ([]byte, error) {
	name := path.Join(f.Dir, rel)
	info, err := fs.Stat(f.FS, name)
	switch {
	case err != nil:
		return nil, f.errorf(rel, what+" cannot be read")
	case !info.Mode().IsRegular():
		return nil, f.errorf(rel, what+" is not a regular file")
	case info.Size() > int64(most):
		e := f.errorf(rel, fmt.Sprintf("%s has %d bytes; the limit is %d", what, info.Size(), most))
		e.Kind = KindLimit
		return nil, e
	}
	src, err := fs.ReadFile(f.FS, name)
	if err != nil {
		return nil, f.errorf(rel, what+" cannot be read")
	}
	return src, nil
}

// statedPackage returns the package that a module's first statement names, as it is
// written. The parser decides whether the name is valid.
func statedPackage(src []byte) string {
	for line := range strings.Lines(strings.TrimPrefix(string(src), "\ufeff")) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if line == "" {
			continue
		}
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ';' })
		if len(words) > 1 && words[0] == "package" {
			return words[1]
		}
		break
	}
	return ""
}
