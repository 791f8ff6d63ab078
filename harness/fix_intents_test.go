package harness

import (
	"encoding/json"
	"strings"
)

const simple = `{"goal":"g","constraints":["c"],"actions":[{"kind":"write","path":"out/a","content":""}]}`

// sh is a run action of a shell script.
func sh(script string) string {
	b, err := json.Marshal([]string{"sh", "-c", script})
	if err != nil {
		panic(err)
	}
	return `{"kind":"run","argv":` + string(b) + `}`
}

func write(path, content string) string {
	b, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return `{"kind":"write","path":"` + path + `","content":` + string(b) + `}`
}

func program(path, content string) string {
	return strings.TrimSuffix(write(path, content), "}") + `,"executable":true}`
}

func argv(words ...string) string {
	b, err := json.Marshal(words)
	if err != nil {
		panic(err)
	}
	return `{"kind":"run","argv":` + string(b) + `}`
}

func actions(list ...string) string { return `"actions":[` + strings.Join(list, ",") + `]` }

// call is a call action through an adapter.
func call(adapter, params string) string {
	return `{"kind":"call","tool_id":"t","adapter_id":"` + adapter + `","params":` + params + `}`
}

// Intents of every outcome under the default profile.
const (
	allowedHere = simple
	askedHere   = `{"goal":"Deploy to <environment>","constraints":["c"]}`
	refusedHere = `{"goal":"g","constraints":["c"],"actions":[{"kind":"write","path":"/etc/passwd","content":""}]}`
)
