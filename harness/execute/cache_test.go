package execute

import (
	"reflect"
	"testing"

	"github.com/fiador/fiador/harness/change"
	"github.com/fiador/fiador/harness/sandbox"
	"github.com/fiador/fiador/kernel/canon"
)

// TestCacheKey: every member of the key counts.
func TestCacheKey(t *testing.T) {
	hash := func(k cacheKey) canon.ContentHash {
		_, h, err := canon.Artifact(k)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	file := keyFile{"a", change.KindFile, canon.Sum(nil), false, ""}
	base := cacheKey{"a", "b", "c", []keyFile{file}, []keyFile{file}, sandbox.Full, sandbox.Limits{}, 1, []string{"p"}}
	seen := map[canon.ContentHash]string{hash(base): "the key itself"}
	changed := func(name string, k cacheKey) {
		h := hash(k)
		if seen[h] != "" {
			t.Errorf("%s does not count: same as %s", name, seen[h])
		}
		seen[h] = name
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[cacheKey]()) {
		k := base
		switch v := reflect.ValueOf(&k).Elem().FieldByIndex(f.Index); v.Kind() {
		case reflect.String:
			v.SetString("other")
		case reflect.Int64:
			v.SetInt(2)
		case reflect.Struct:
			for i := range v.NumField() {
				other := base
				switch m := reflect.ValueOf(&other).Elem().FieldByIndex(f.Index).Field(i); m.Kind() {
				case reflect.Bool:
					m.SetBool(true)
				default:
					m.SetInt(7)
				}
				changed(f.Name+"."+v.Type().Field(i).Name, other)
			}
			continue
		case reflect.Slice:
			if f.Name == "Protected" {
				v.Set(reflect.ValueOf([]string{"q"}))
				break
			}
			v.Set(reflect.ValueOf([]keyFile{}))
			changed(f.Name, k)
			for _, m := range reflect.VisibleFields(reflect.TypeFor[keyFile]()) {
				other := file
				switch v := reflect.ValueOf(&other).Elem().FieldByIndex(m.Index); v.Kind() {
				case reflect.String:
					v.SetString("other")
				case reflect.Bool:
					v.SetBool(true)
				default:
					t.Fatal(m.Name)
				}
				v.Set(reflect.ValueOf([]keyFile{other}))
				changed(f.Name+"."+m.Name, k)
			}
			continue
		default:
			t.Fatal(f.Name)
		}
		changed(f.Name, k)
	}
}
