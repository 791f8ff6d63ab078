// Package intents writes the intents of tests as texts. Tests alone import it.
package intents

import (
	"encoding/json"
	"strings"
)

const Simple = `{"goal":"g","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":""}]}`

// Sh returns a run action of a shell script.
func Sh(script string) string {
	b, err := json.Marshal([]string{"sh", "-c", script})
	if err != nil {
		panic(err)
	}
	return `{"kind":"run","argv":` + string(b) + `}`
}

func Write(path, content string) string {
	b, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return `{"kind":"write","path":"` + path + `","content":` + string(b) + `}`
}

func Program(path, content string) string {
	return strings.TrimSuffix(Write(path, content), "}") + `,"executable":true}`
}

func Argv(words ...string) string {
	b, err := json.Marshal(words)
	if err != nil {
		panic(err)
	}
	return `{"kind":"run","argv":` + string(b) + `}`
}

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
