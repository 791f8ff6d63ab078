package verify_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"crypto/sha256"
	"encoding/hex"

	"github.com/fiador/fiador/evidence/suitedir"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/trial"
	"github.com/fiador/fiador/kernel/trial/verify"
)

// memory reads files of a map.
type memory fstest.MapFS

func (m memory) Read(name string, most int64) ([]byte, error) {
	f, there := m[name]
	if !there || int64(len(f.Data)) > most {
		return nil, errors.New(name + ": cannot be read")
	}
	return f.Data, nil
}

func (m memory) Hash(name string, most int64) (string, int64, error) {
	b, err := m.Read(name, most)
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:]), int64(len(b)), err
}

// directoryVector is one directory of directories.json.
type directoryVector struct {
	Name       string                     `json:"name"`
	Why        string                     `json:"why"`
	Base       string                     `json:"base"`
	Files      map[string]json.RawMessage `json:"files"`
	Others     []string                   `json:"others"`
	Set        map[string]json.RawMessage `json:"set"`
	Remove     []string                   `json:"remove"`
	Sealed     bool                       `json:"sealed"`
	Violations [][3]string                `json:"violations"`
}

func directoryVectors(t *testing.T) []directoryVector {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "..", "..", "specs", "vectors", "suite", "directories.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []directoryVector `json:"vectors"`
	}
	if err := json.Unmarshal(src, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

// content returns the bytes of a file of a directoryVector.
func content(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	var file struct {
		JSON   json.RawMessage `json:"json"`
		Base64 []byte          `json:"base64"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if file.JSON == nil {
		return file.Base64
	}
	return artifact(t, decoded(t, string(file.JSON)))
}

func artifact(t *testing.T, value any) []byte {
	t.Helper()
	b, _, err := canon.Artifact(value)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// files returns the files of a directoryVector.
func files(t *testing.T, all []directoryVector, v directoryVector) memory {
	t.Helper()
	m := memory{}
	if v.Base != "" {
		i := slices.IndexFunc(all, func(one directoryVector) bool { return one.Name == v.Base })
		if i < 0 {
			t.Fatalf("there is no directoryVector %s", v.Base)
		}
		m = files(t, all, all[i])
	}
	for name, raw := range v.Files {
		m[name] = &fstest.MapFile{Data: content(t, raw)}
	}
	for _, place := range slices.Sorted(maps.Keys(v.Set)) {
		change(t, m, place, v.Set[place])
	}
	for _, place := range v.Remove {
		change(t, m, place, nil)
	}
	return m
}

// change sets the value at FILE#POINTER, or removes it, or removes a FILE.
func change(t *testing.T, m memory, place string, raw json.RawMessage) {
	t.Helper()
	name, pointer, inFile := strings.Cut(place, "#")
	if m[name] == nil {
		t.Fatalf("there is no file %s", name)
	}
	if !inFile {
		delete(m, name)
		return
	}
	var root any
	d := json.NewDecoder(strings.NewReader(string(m[name].Data)))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	i := strings.LastIndexByte(pointer, '/')
	parent, ok := canon.Lookup(root, pointer[:i])
	last := strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer[i+1:])
	if !ok {
		t.Fatalf("nothing at %s", place)
	}
	switch parent := parent.(type) {
	case map[string]any:
		if delete(parent, last); raw != nil {
			parent[last] = decoded(t, string(raw))
		}
	case []any:
		n, err := strconv.Atoi(last)
		if err != nil || n > len(parent) {
			t.Fatalf("no element %s", place)
		}
		if n == len(parent) {
			grown, _ := json.Marshal(append(parent, decoded(t, string(raw))))
			change(t, m, name+"#"+pointer[:i], grown)
			return
		}
		parent[n] = decoded(t, string(raw))
	}
	m[name] = &fstest.MapFile{Data: artifact(t, root)}
}

func verdictOf(t *testing.T, m memory, others ...string) verify.Verdict {
	t.Helper()
	var links []verify.Entry
	for _, name := range others {
		links = append(links, verify.Entry{Name: name, What: "is a symbolic link"})
	}
	verdict, err := suitedir.New(m).Verify(slices.Sorted(maps.Keys(m)), links)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

func triples(list []verify.Violation) [][3]string {
	out := [][3]string{}
	for _, v := range list {
		out = append(out, [3]string{v.Rule, v.Path, v.Pointer})
	}
	return out
}

// TestDirectoryVectors: each directory breaks the rules that its directoryVector lists, and each rule is
// broken by a directory.
func TestDirectoryVectors(t *testing.T) {
	all := directoryVectors(t)
	broken, valid := map[string]bool{}, 0
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			got := verdictOf(t, files(t, all, v), v.Others...)
			if !slices.Equal(triples(got.Violations), v.Violations) {
				t.Errorf("got  %q\nwant %q\n%+v", triples(got.Violations), v.Violations, got.Violations)
			}
			if got.Sealed != v.Sealed || got.OK() != (len(v.Violations) == 0) || v.Why == "" {
				t.Errorf("sealed %t, valid %t", got.Sealed, got.OK())
			}
			for _, one := range got.Violations {
				if one.Msg == "" || strings.Contains(one.Msg, "%!") {
					t.Errorf("message %q", one.Msg)
				}
			}
		})
		for _, one := range v.Violations {
			broken[one[0]] = true
		}
		if len(v.Violations) == 0 {
			valid++
		}
	}
	for i, id := range rules(t) {
		if !broken[id] || id != "SU"+strconv.Itoa(i+1) {
			t.Errorf("rule %s is broken by no directoryVector, or has no place", id)
		}
		delete(broken, id)
	}
	if len(broken) > 0 || valid < 8 {
		t.Errorf("%d valid directories; rules without a record: %v", valid, broken)
	}
}

// TestDirectorySpoilt: no value of a document stops Verify, and under a seal no value of a document
// but run.json can be another.
func TestDirectorySpoilt(t *testing.T) {
	all := directoryVectors(t)
	i := slices.IndexFunc(all, func(v directoryVector) bool { return v.Name == "sealed" })
	base := files(t, all, all[i])
	spoilt := 0
	for name, file := range base {
		if !strings.HasSuffix(name, ".json") || name == "evaluation.json" || name == "signature.json" {
			continue
		}
		for _, pointer := range pointers("", decoded(t, string(file.Data))) {
			for _, to := range []string{"null", "-1.5", `"/x"`, `"x"`, "[]", "[[1]]", "{}", `{"kind":[]}`} {
				m := maps.Clone(base)
				change(t, m, name+"#"+pointer, json.RawMessage(to))
				if string(m[name].Data) != string(file.Data) && name != trial.RunFile && verdictOf(t, m).OK() {
					t.Errorf("%s#%s can be %s", name, pointer, to)
				} else {
					verdictOf(t, m)
				}
				spoilt++
			}
		}
	}
	if spoilt < 1000 {
		t.Errorf("only %d documents", spoilt)
	}
}

// pointers returns the pointers of all values beneath a value.
func pointers(at string, value any) (list []string) {
	switch value := value.(type) {
	case map[string]any:
		for name, one := range value {
			p := canon.Pointer(at, name)
			list = append(append(list, p), pointers(p, one)...)
		}
	case []any:
		for i, one := range value {
			p := at + "/" + strconv.Itoa(i)
			list = append(append(list, p), pointers(p, one)...)
		}
	}
	return list
}

// TestManyViolations: the first violations are reported, and the others are counted.
func TestManyViolations(t *testing.T) {
	ids := []string{}
	for i := range 3000 {
		ids = append(ids, "c"+strconv.Itoa(i))
	}
	list, _ := json.Marshal(ids)
	all := directoryVectors(t)
	i := slices.IndexFunc(all, func(v directoryVector) bool { return v.Name == "no case" })
	m := files(t, all, all[i])
	change(t, m, "run.json#/selected_case_ids", list)
	got := verdictOf(t, m)
	if len(got.Violations) != verify.MaxViolations || got.More != 2000 || got.OK() {
		t.Errorf("%d violations and %d more", len(got.Violations), got.More)
	}
}

// TestLongNames: a long name over many values is not copied for each of them, and the pointer of
// the path is cut.
func TestLongNames(t *testing.T) {
	all := directoryVectors(t)
	m := files(t, all, all[0])
	empty := strings.Repeat("{},", 20000) + "{}"
	change(t, m, "ticket_ok.json#/events/0/"+strings.Repeat("k", 100_000), json.RawMessage("["+empty+`,{"path":"/x"}]`))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := verdictOf(t, m)
	runtime.ReadMemStats(&after)
	if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 200 {
		t.Errorf("%d MiB were allocated", made)
	}
	if len(got.Violations) != 1 || got.Violations[0].Rule != "SU20" || len(got.Violations[0].Pointer) > 260 {
		t.Errorf("%.1000v", got)
	}
}

// TestManyValues: a document of more values than any case has is not read.
func TestManyValues(t *testing.T) {
	m := memory{"run.json": {Data: []byte("[" + strings.Repeat("0,", 2_000_000) + "0]")}}
	got := verdictOf(t, m).Violations
	if len(got) != 1 || got[0].Rule != "SU1" || !strings.Contains(got[0].Msg, "more than 2000000 values") {
		t.Errorf("%+v", got)
	}
}

// TestUnreadableFile: a file that cannot be read is an error, whatever the rules say.
func TestUnreadableFile(t *testing.T) {
	all := directoryVectors(t)
	m := files(t, all, all[0])
	names := slices.Sorted(maps.Keys(m))
	for _, name := range names {
		without := maps.Clone(m)
		delete(without, name)
		if _, err := suitedir.New(without).Verify(names, nil); err == nil {
			t.Errorf("%s is not there when it is read, and there is no error", name)
		}
	}
}

// TestVerdictOnCores: a verdict and its error do not depend on the number of cores.
func TestVerdictOnCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	m := memory{}
	for i := range 200 {
		m["c"+strconv.Itoa(i)+".json"] = &fstest.MapFile{Data: []byte(`{"schema_version":"case.v1","c` + strconv.Itoa(i) + strings.Repeat("}", i%2))}
	}
	names := slices.Sorted(maps.Keys(m))
	delete(m, names[150])
	delete(m, names[50])
	var want verify.Verdict
	for _, cores := range []int{1, 2, 3, 8} {
		runtime.GOMAXPROCS(cores)
		got, err := suitedir.New(m).Verify(names, nil)
		if err == nil || !strings.HasPrefix(err.Error(), names[50]+":") {
			t.Errorf("%d cores: the error is %v, want the one of %s", cores, err, names[50])
		}
		if cores == 1 {
			want = got
		}
		if len(got.Violations) < len(names) || !reflect.DeepEqual(got, want) {
			t.Errorf("%d cores: %v, want %v", cores, got, want)
		}
	}
}

// TestVersionDirectoryFixtures: the directories that keep the contract are valid, and those of the
// tool that does not are not.
func TestVersionDirectoryFixtures(t *testing.T) {
	root := rehearsal.NeedFixture(t, "agent-qa-toolkit")
	for dir, valid := range map[string]bool{"minimal-v1/baseline/r1": true, "minimal-v1/new/r1": true, "demo/runs/baseline/demo": false, "demo/runs/new/demo": false} {
		m := memory{}
		folder := os.DirFS(filepath.Join(root, filepath.FromSlash(dir)))
		err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(folder, path)
			m[path] = &fstest.MapFile{Data: b}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		got := verdictOf(t, m)
		if got.OK() != valid || got.Sealed {
			t.Errorf("%s: %+v", dir, got.Violations)
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			named := slices.ContainsFunc(got.Violations, func(v verify.Violation) bool { return v.Path == name })
			if named == valid && name != trial.EvaluationFile {
				t.Errorf("%s/%s has a violation: %t", dir, name, named)
			}
		}
	}
}

// FuzzVerify: no text of a case stops Verify.
func FuzzVerify(f *testing.F) {
	run := `{"schema_version":"run.v1","run_id":"r","version":"new","generated_at":"2026-01-02","base_url":"u","cases_path":"c","out_dir":".","selected_case_ids":["a"],"runner_version":"1","artifacts":{}}`
	f.Add(`{"schema_version":"case.v1","case_id":"a","version":"new","status":"ok"}`)
	f.Fuzz(func(t *testing.T, text string) {
		verdictOf(t, memory{"run.json": {Data: []byte(run)}, "a.json": {Data: []byte(text)}, "assets/manifest.json": {Data: []byte(text)}})
	})
}

// rules returns the ids of the rules in the order of the page, which says of each what is true.
func rules(t *testing.T) (ids []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "specs", "suite.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| rule | what is true |\n|---|---|\n")
	table, _, ends := strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		row := strings.Split(strings.Trim(line, "|\n"), "|")
		if len(row) != 2 || len(strings.TrimSpace(row[1])) == 0 {
			t.Errorf("%q is no row of a rule and what is true", line)
		}
		ids = append(ids, strings.TrimSpace(row[0]))
	}
	if !found || !ends || len(ids) < 26 {
		t.Fatalf("the page has %d rules", len(ids))
	}
	return ids
}

func decoded(t *testing.T, src string) any {
	t.Helper()
	doc, err := canon.Parse([]byte(src), 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return doc.Value()
}
