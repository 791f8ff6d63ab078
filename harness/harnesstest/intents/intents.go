// Package intents writes the intents of tests as texts. Tests alone import it.
package intents

import (
	"encoding/json"
	"strings"
)

// Simple is an intent with one write action, which the default profile allows.
const Simple = `{"goal":"g","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":""}]}`

// Sh returns a run action of a shell script.
func Sh(script string) string { return Argv("sh", "-c", script) }

// Write returns a write action. path needs no escape in JSON.
func Write(path, content string) string {
	return `{"kind":"write","path":"` + path + `","content":` + encode(content) + `}`
}

// Program returns a write action of an executable file.
func Program(path, content string) string {
	return strings.TrimSuffix(Write(path, content), "}") + `,"executable":true}`
}

// Argv returns a run action of these words.
func Argv(words ...string) string { return `{"kind":"run","argv":` + encode(words) + `}` }

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Actions returns the member "actions" of an intent.
func Actions(list ...string) string { return `"actions":[` + strings.Join(list, ",") + `]` }

// Call returns a call action through an adapter.
func Call(adapter, params string) string {
	return `{"kind":"call","tool_id":"t","adapter_id":"` + adapter + `","params":` + params + `}`
}

// Intents of every outcome under the default profile.
const (
	AllowedHere = Simple
	AskedHere   = `{"goal":"Deploy to <environment>","constraints":["c"]}`
	RefusedHere = `{"goal":"g","constraints":["c"],"actions":[{"kind":"write","path":"/etc/passwd","content":""}]}`
)
