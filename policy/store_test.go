package policy

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
)

// read returns the text of a document of a store, or of its error.
func read(store storage.Store, path ...string) string {
	v, err := storage.ReadOne(context.Background(), store, path)
	if err != nil {
		return err.Error()
	}
	return v.(ast.Value).String()
}

// TestLazyStore: more documents are made once, when the first of them is read, and never
// for the profile. All reads together see what NewStore holds.
func TestLazyStore(t *testing.T) {
	profile := []byte(`{"name":"p"}`)
	made := 0
	documents := map[string]any{"records": map[string]any{"A": "a"}}
	store, err := newLazyStore(profile, func() (map[string]any, error) { made++; return documents, nil })
	if err != nil {
		t.Fatal(err)
	}
	all, err := NewStore(profile, documents)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []storage.Path{{"profile"}, {"profile", "name"}, {"profile", "none"}} {
		if got, want := read(store, path...), read(all, path...); got != want || made != 0 {
			t.Errorf("%q is %s, want %s; made %d times", path, got, want, made)
		}
	}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for _, path := range []storage.Path{{"records"}, {"records", "A"}, {"none"}, {}, {"profile"}} {
				if got, want := read(store, path...), read(all, path...); got != want {
					t.Errorf("%q is %s, want %s", path, got, want)
				}
			}
		})
	}
	if readers.Wait(); made != 1 {
		t.Errorf("made %d times", made)
	}
	broken, err := newLazyStore(profile, func() (map[string]any, error) { return nil, errors.New("broken") })
	if err != nil || read(broken, "profile", "name") != `"p"` || read(broken, "records") != "broken" {
		t.Errorf("%v, %s, %s", err, read(broken, "profile", "name"), read(broken, "records"))
	}
}
