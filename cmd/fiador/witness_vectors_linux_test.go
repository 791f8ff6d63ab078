package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/kernel/canon"
)

// The witness of the vectors that no command reads directly: each is put into a document
// that a command reads. The vectors in execution/iv.json, limits.json, levels.json,
// exit-codes.json and plans/ describe results of functions that no command prints alone.
// Their own tests check them.

// readVectors reads a file of specs/vectors.
func readVectors(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "specs", "vectors", name))
	if err = errors.Join(err, json.Unmarshal(b, into)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// detectVectors checks an intent for each vector of specs/vectors/detect.
func (w *witness) detectVectors(t *testing.T, temp string) {
	for _, name := range []string{"argument", "command", "contradiction", "network", "path", "placeholder"} {
		var vectors []struct {
			Argv             []string
			Stdin            bool
			Path, Text, A, B string
		}
		readVectors(t, "detect/"+name+".json", &vectors)
		dir := filepath.Join(temp, "detect", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var paths []string
		for i, v := range vectors {
			intent := map[string]any{"goal": "Say what this is"}
			switch {
			case v.Argv != nil && v.Stdin:
				intent["actions"] = []any{map[string]any{"kind": "run", "argv": v.Argv, "stdin": "x"}}
			case v.Argv != nil:
				intent["actions"] = []any{map[string]any{"kind": "run", "argv": v.Argv}}
			case v.A != "":
				intent["constraints"] = []string{v.A, v.B}
			case v.Text != "":
				intent["goal"] = v.Text
			default:
				intent["actions"] = []any{map[string]any{"kind": "write", "path": v.Path, "content": "x"}}
			}
			b, err := json.Marshal(intent)
			path := filepath.Join(dir, fmt.Sprintf("%03d.json", i))
			if err = errors.Join(err, os.WriteFile(path, b, 0o600)); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
		for _, policy := range []string{"default", "dev"} {
			args := append([]string{"check", "--format", "human", "--policy", policy}, paths...)
			w.in("vector/detect", "check "+name+" --policy "+policy, args...)
		}
	}
}

// resultVectors verifies the documents of specs/vectors/result.
func (w *witness) resultVectors(t *testing.T, temp string) {
	var file struct {
		Bases   map[string]json.RawMessage
		Vectors []struct {
			Name, Base, Bytes string
			Set               map[string]any
			Remove            []string
		}
	}
	readVectors(t, "result/invariants.json", &file)
	at := func(doc map[string]any, pointer string) (map[string]any, string) {
		parts := strings.Split(pointer, "/")[1:]
		for _, part := range parts[:len(parts)-1] {
			doc = doc[part].(map[string]any)
		}
		return doc, parts[len(parts)-1]
	}
	path := filepath.Join(temp, "result.json")
	for _, v := range file.Vectors {
		var doc map[string]any
		if err := json.Unmarshal(file.Bases[v.Base], &doc); err != nil {
			t.Fatal(err)
		}
		for _, pointer := range slices.Sorted(maps.Keys(v.Set)) {
			in, name := at(doc, pointer)
			in[name] = v.Set[pointer]
		}
		for _, pointer := range v.Remove {
			in, name := at(doc, pointer)
			delete(in, name)
		}
		b, _, err := canon.Artifact(doc)
		if v.Bytes != "" { // any spelling that is not canonical
			b = bytes.Replace(b, []byte("{"), []byte("{ "), 1)
		}
		if err = errors.Join(err, os.WriteFile(path, b, 0o600)); err != nil {
			t.Fatal(err)
		}
		w.in("vector/result", "verify: "+v.Name, "verify", path)
		w.in("vector/result", "digest: "+v.Name, "digest", path)
	}
}

// requestVectors gives exec the faulty requests of specs/vectors/execution. The other
// requests would run a command.
func (w *witness) requestVectors(t *testing.T, temp string) {
	var file struct {
		Vectors []struct {
			Name   string
			Text   string   `json:"request_text"`
			Base64 []byte   `json:"request_base64"`
			Repeat longText `json:"request_repeat"`
			Expect struct{ Error string }
		}
	}
	readVectors(t, "execution/requests.json", &file)
	for _, v := range file.Vectors {
		if v.Expect.Error == "" {
			continue
		}
		kind, _, _ := strings.Cut(v.Name, "_")
		path := filepath.Join(temp, "request."+kind)
		if err := os.WriteFile(path, []byte(v.Text+string(v.Base64)+v.Repeat.text()), 0o600); err != nil {
			t.Fatal(err)
		}
		w.in("vector/request", "exec --request: "+v.Name, "exec", "--policy", "dev", "--work", temp, "--request", path)
	}
}
