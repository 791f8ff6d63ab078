package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/receipt"
	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/specs/specstest"
)

var update = flag.Bool("update", false, "write what is found into the vectors, and lay them out")

const (
	vectorDir = "../../../specs/vectors/work"
	forgeries = vectorDir + "/forgeries.json"
)

// vector is one element of forgeries.json.
type vector struct {
	Name    string   `json:"name"`
	Why     string   `json:"why"`
	Base    string   `json:"base"`
	Changes []change `json:"changes"`
	Faults  []string `json:"faults"` // members and files that do not hold, sorted
}

// change is one step of a vector.
type change struct {
	Set    string          `json:"set,omitempty"` // FILE, or FILE#POINTER
	To     json.RawMessage `json:"to,omitempty"`
	From   string          `json:"from,omitempty"`   // instead of to: what another receipt has there
	Remove string          `json:"remove,omitempty"` // FILE, or FILE#POINTER
	Indent string          `json:"indent,omitempty"` // FILE
	Rehash []string        `json:"rehash,omitempty"`
}

// draft is the folder of a receipt: a text, or the value of an object, by file.
type draft map[string]any

// genuine returns the folders of receipts.json.
func genuine(t testing.TB) map[string]json.RawMessage {
	t.Helper()
	var file struct {
		Receipts map[string]json.RawMessage `json:"receipts"`
	}
	text, err := os.ReadFile(vectorDir + "/receipts.json")
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil || len(file.Receipts) < 4 {
		t.Fatal(len(file.Receipts), err)
	}
	return file.Receipts
}

func draftOf(t testing.TB, base json.RawMessage) draft {
	t.Helper()
	d := draft{}
	dec := json.NewDecoder(bytes.NewReader(base))
	dec.UseNumber()
	if err := dec.Decode((*map[string]any)(&d)); err != nil {
		t.Fatal(err)
	}
	return d
}

// text returns a file.
func (d draft) text(name string) ([]byte, error) {
	if text, ok := d[name].(string); ok {
		return []byte(text), nil
	}
	b, err := canon.Canonical(d[name])
	return append(b, '\n'), err
}

// at changes the value at FILE or FILE#POINTER. nil: it goes.
func (d draft) at(place string, to any) error {
	name, pointer, deep := strings.Cut(place, "#/")
	if !deep {
		if d[name] = to; to == nil {
			delete(d, name)
		}
		return nil
	}
	value, err := changed(d[name], strings.Split(pointer, "/"), to)
	d[name] = value
	return err
}

// changed returns v with another value, or none, on the way.
func changed(v any, way []string, to any) (any, error) {
	if len(way) == 0 {
		return to, nil
	}
	name := strings.NewReplacer("~1", "/", "~0", "~").Replace(way[0])
	switch v := v.(type) {
	case map[string]any:
		sub, err := changed(v[name], way[1:], to)
		if v[name] = sub; sub == nil {
			delete(v, name)
		}
		return v, err
	case []any:
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 || i > len(v) {
			return v, fmt.Errorf("no element %q", name)
		}
		if i == len(v) {
			v = append(v, nil)
		}
		if v[i], err = changed(v[i], way[1:], to); v[i] == nil {
			v = slices.Delete(v, i, i+1)
		}
		return v, err
	}
	return v, fmt.Errorf("no member %q", name)
}

// value returns the value at FILE or FILE#POINTER.
func (d draft) value(place string) any {
	name, pointer, deep := strings.Cut(place, "#/")
	v := d[name]
	for step := range strings.SplitSeq(pointer, "/") {
		switch in := v.(type) {
		case map[string]any:
			if deep {
				v = in[step]
			}
		case []any:
			i, _ := strconv.Atoi(step)
			v = in[i]
		}
	}
	return v
}

// do makes one change.
func (d draft) do(t testing.TB, c change) error {
	switch {
	case c.From != "":
		return d.at(c.Set, draftOf(t, genuine(t)[c.From]).value(c.Set))
	case c.Set != "":
		var to any
		dec := json.NewDecoder(bytes.NewReader(c.To))
		dec.UseNumber()
		if err := dec.Decode(&to); err != nil {
			return err
		}
		return d.at(c.Set, to)
	case c.Remove != "":
		return d.at(c.Remove, nil)
	case c.Indent != "":
		text, err := d.text(c.Indent)
		var b bytes.Buffer
		err = errors.Join(err, json.Indent(&b, text, "", "  "))
		d[c.Indent] = b.String()
		return err
	}
	for _, what := range c.Rehash {
		if err := d.rehash(what); err != nil {
			return err
		}
	}
	return nil
}

// rehash makes hashes anew: "item", "streams" and "pack" those of the files, "receipt" the three of
// the receipt itself.
func (d draft) rehash(what string) error {
	hash := func(name string) string {
		text, _ := d.text(name)
		return receipt.Sum(text).String()
	}
	r, ok := d[receipt.ReceiptFile].(map[string]any)
	if !ok {
		return errors.New("RECEIPT.json is a text")
	}
	switch what {
	case "item":
		r["core"].(map[string]any)["item_hash"] = hash(receipt.ItemFile)
	case "streams":
		streams := r["ephemeral"].(map[string]any)["streams"].(map[string]any)
		for name := range streams {
			streams[name] = hash(name)
		}
	case "pack":
		packed := map[string]any{}
		for name := range d {
			if file, ok := strings.CutPrefix(name, receipt.PackFolder+"/"); ok {
				packed[file] = hash(name)
			}
		}
		if e, ok := r["ephemeral"].(map[string]any); ok {
			e["pack"] = packed
		}
	case "receipt":
		core, err := canon.Canonical(r["core"])
		if err != nil {
			return err
		}
		r["core_hash"] = receipt.Sum(append(core, '\n')).String()
		link := map[string]any{"core_hash": r["core_hash"], "ephemeral": r["ephemeral"]}
		if r["previous"] != nil {
			link["previous"] = r["previous"]
		}
		whole, err := canon.Canonical(link)
		if err != nil {
			return err
		}
		h := receipt.Sum(append(whole, '\n'))
		b := h[:16:16]
		b = append([]byte{}, b...)
		b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
		r["receipt_hash"] = h.String()
		r["receipt_id"] = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	default:
		return fmt.Errorf("no hash %q", what)
	}
	return nil
}

// faults verifies the folder. It returns the members and files that do not hold, sorted.
func (d draft) faults(t testing.TB, dir string) []string {
	t.Helper()
	for name := range d {
		text, err := d.text(name)
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	_, faults, err := Folder(dir)
	if err != nil {
		return []string{"no answer"}
	}
	list := []string{}
	for _, f := range faults {
		list = append(list, f.Path)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestGenuine: the receipts that runs have left hold.
func TestGenuine(t *testing.T) {
	set := specstest.NewSpecs(t)
	for name, base := range genuine(t) {
		d := draftOf(t, base)
		if got := d.faults(t, t.TempDir()); len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
		text, err := d.text(receipt.ReceiptFile)
		if err != nil {
			t.Fatal(err)
		}
		specstest.Valid(t, set, "work-receipt", text)
		if err := d.rehash("receipt"); err != nil {
			t.Fatal(err)
		}
		if again, _ := d.text(receipt.ReceiptFile); !bytes.Equal(again, text) {
			t.Errorf("%s: the hashes of the receipt are others", name)
		}
	}
}

// TestVectors: each forgery has the faults that it names.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile(forgeries)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About   string   `json:"about"`
		Vectors []vector `json:"vectors"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	bases, seen := genuine(t), map[string]bool{}
	for i, v := range file.Vectors {
		if seen[v.Name] || v.Name == "" || v.Why == "" || len(v.Changes) == 0 {
			t.Errorf("the name %q is taken, or something is missing", v.Name)
		}
		seen[v.Name] = true
		d := draftOf(t, bases[v.Base])
		for k, c := range v.Changes {
			if err := d.do(t, c); err != nil {
				t.Fatalf("%s: change %d: %v", v.Name, k, err)
			}
		}
		got := d.faults(t, t.TempDir())
		if *update {
			file.Vectors[i].Faults = got
		} else if !slices.Equal(got, v.Faults) {
			t.Errorf("%s: %q, want %q", v.Name, got, v.Faults)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{\n \"about\": %s,\n \"vectors\": [", specstest.Encode(t, file.About))
	for i, v := range file.Vectors {
		fmt.Fprintf(&b, "%s\n  {\"name\": %s,\n   \"why\": %s,\n   \"base\": %s,\n   \"changes\": [", strings.Repeat(",", min(i, 1)),
			specstest.Encode(t, v.Name), specstest.Encode(t, v.Why), specstest.Encode(t, v.Base))
		for k, c := range v.Changes {
			b.WriteString(strings.Repeat(",", min(k, 1)) + "\n    " + specstest.Encode(t, c))
		}
		fmt.Fprintf(&b, "],\n   \"faults\": %s}", specstest.Encode(t, v.Faults))
	}
	b.WriteString("\n ]\n}\n")
	if *update {
		if err := os.WriteFile(forgeries, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if b.String() != string(text) {
		t.Errorf("%s is not laid out as go test ./evidence/receipt/verify -run Vectors -update does", forgeries)
	}
}

// TestEveryFileCounts: a file that is gone, cut, longer, or a link to what it was is a fault.
func TestEveryFileCounts(t *testing.T) {
	for name, base := range genuine(t) {
		for file := range draftOf(t, base) {
			for how, change := range map[string]func(path string) error{
				"gone":   os.Remove,
				"cut":    func(path string) error { return os.WriteFile(path, []byte("{"), 0o644) },
				"longer": func(path string) error { return appendTo(path, " ") },
				"a link": func(path string) error {
					away := filepath.Join(t.TempDir(), "was")
					return errors.Join(os.Rename(path, away), os.Symlink(away, path))
				},
			} {
				if how == "a link" && runtime.GOOS == "windows" {
					continue // not everybody may make one there
				}
				dir := t.TempDir()
				draftOf(t, base).faults(t, dir)
				if err := change(filepath.Join(dir, filepath.FromSlash(file))); err != nil {
					t.Fatal(err)
				}
				if _, faults, err := Folder(dir); err == nil && len(faults) == 0 {
					t.Errorf("%s: %s is %s, and nothing is found", name, file, how)
				}
			}
		}
	}
}

func appendTo(path, text string) error {
	b, err := os.ReadFile(path)
	return errors.Join(err, os.WriteFile(path, append(b, text...), 0o644))
}

// free lists what can be changed in a receipt, and what can be removed, without a fault, if the
// hashes of the receipt are made anew: nothing else in the folder has it.
func free() []string {
	return []string{
		"changed core/base", "changed core/scratch/N", "changed ephemeral/head", "changed previous",
		"removed core/scratch/N", "removed ephemeral/head", "removed previous",
	}
}

// TestOnlyTheListIsFree changes each value of each receipt into others of the same form, removes
// each member and each element, and makes the hashes of the receipt anew. Each change is found,
// but for those in free.
func TestOnlyTheListIsFree(t *testing.T) {
	rehearsal.NotUnderRace(t, rehearsal.Inputs)
	found, missed := 0, map[string]string{}
	for name, base := range genuine(t) {
		dir := t.TempDir()
		try := func(what string, way []string, to any) {
			d := draftOf(t, base)
			if err := errors.Join(d.at(receipt.ReceiptFile+"#/"+strings.Join(way, "/"), to), d.rehash("receipt")); err != nil {
				t.Fatal(err)
			}
			if len(d.faults(t, dir)) > 0 {
				found++
				return
			}
			place := slices.Clone(way)
			for i, step := range place {
				if _, err := strconv.Atoi(step); err == nil {
					place[i] = "N"
				}
			}
			missed[what+" "+strings.Join(place, "/")] = fmt.Sprintf("%s: %v", name, to)
		}
		visit(draftOf(t, base)[receipt.ReceiptFile], nil, func(way []string, old any) {
			if len(way) == 1 && way[0] != "previous" {
				return // the hashes of the receipt, or all of a part
			}
			for _, to := range others(old) {
				try("changed", way, to)
			}
			try("removed", way, nil)
		})
	}
	for _, place := range free() {
		if missed[place] == "" {
			t.Errorf("%s: it is found", place)
		}
		delete(missed, place)
	}
	for place, how := range missed {
		t.Errorf("%s: nothing is found: %s", place, how)
	}
	if found < 400 {
		t.Errorf("%d changes were found", found)
	}
}

// visit visits every value beneath v.
func visit(v any, way []string, each func(way []string, v any)) {
	if len(way) > 0 {
		each(way, v)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			visit(v[name], append(slices.Clone(way), strings.ReplaceAll(name, "/", "~1")), each)
		}
	case []any:
		for i, w := range v {
			visit(w, append(slices.Clone(way), strconv.Itoa(i)), each)
		}
	}
}

// others returns values of the same form: another digit, one more and one less, the other
// members of the lists that a receipt has, another text.
func others(v any) (list []any) {
	if n, ok := v.(json.Number); ok {
		n, _ := n.Int64()
		if n == 0 {
			return []any{1}
		}
		return []any{n + 1, n - 1}
	}
	text, ok := v.(string)
	if !ok {
		return nil
	}
	for _, names := range [][]string{
		{"success", "failure", "denied", "timeout"}, {"create", "modify", "delete"}, {"100644", "100755", "120000"},
		{"complete", "reported", "none"}, {"full", "confined", "none"}, {"overlay in memory", "copy", "direct"}, {"dev", "default", "strict"},
	} {
		if slices.Contains(names, text) {
			for _, name := range names {
				if name != text {
					list = append(list, name)
				}
			}
		}
	}
	b := []byte(text)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] >= '0' && b[i] <= '9' {
			b[i] = '0' + (b[i]-'0'+1)%10
			return append(list, string(b))
		}
	}
	return append(list, text+"x")
}
