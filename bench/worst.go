package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// worst is an intent within the limits of the schema on which a detector or the
// policy spends as much time as we know how.
type worst struct {
	name string
	src  []byte
}

// mostOfSmall is how many times as long as a small intent no intent may take.
const mostOfSmall = 80

// fullBytes is how large these intents are: the limit, less a little.
const fullBytes = 1<<20 - 512

// worstIntents are the intents of the benchmark, by name.
func worstIntents() []worst {
	var list []worst
	for _, part := range [][]worst{worstCommands(), worstPaths(), worstTexts(), worstShapes()} {
		list = append(list, part...)
	}
	return list
}

// worstCommands returns intents with the arguments that take the reader of commands
// longest.
func worstCommands() []worst {
	argvs := func(name string, words ...string) worst { return worst{name, manyArgv(words)} }
	return []worst{
		argvs("npx that may start npx either way", "npx", "--z", "npx"),
		argvs("npm exec that may start npm exec either way", "npm", "exec", "--z", "npm"),
		argvs("npx with unknown options", "npx", "--zz", "-zz"),
		argvs("npx with shortened options", "npx", "--reg", "--pre"),
		argvs("npm exec with letters", "npm", "exec", "-ddd"),
		argvs("npm options with no-", "npm", "--no-no-x"),
		argvs("pnpm run of pnpm", "pnpm", "run", "--z", "pnpm"),
		argvs("yarn run of yarn", "yarn", "run", "--z", "yarn"),
		argvs("uv run behind uv run", "uv", "run", "--z", "uv"),
		argvs("env before env", "env"),
		argvs("env before what is no program", "env", "a"),
		argvs("timeout, nice and what is no program", "timeout", "nice", "zz"),
		argvs("node with unknown options", "node", "--z"),
		argvs("node with options of V8", "node", "--z=1", "--no-zz"),
		argvs("python with letters", "python", "-bq"),
		argvs("perl with letters", "perl", "-lw"),
		argvs("deno that may start deno", "deno", "run", "--z", "deno"),
		argvs("php with settings", "php", "-d", "a=b"),
		argvs("find without -exec", "find", "a"),
		{"one option of 128 KiB, eight times", longArgs("perl", strings.Repeat("-lw ", 32000))},
		{"paths of 128 KiB with .., eight times", longArgs("node", strings.Repeat("../", 43000)+"x")},
	}
}

// manyArgv repeats words in 256 argvs of at most 1024 words, up to the limit.
func manyArgv(words []string) []byte {
	each := fullBytes/256 - 40
	var argv []string
	for n := 0; len(argv) < 1024; {
		w := words[len(argv)%len(words)]
		if n += len(w) + 3; n > each {
			break
		}
		argv = append(argv, w)
	}
	var actions []any
	for range 256 {
		actions = append(actions, map[string]any{"kind": "run", "argv": argv})
	}
	return intentOf(map[string]any{"actions": actions})
}

func longArgs(name, arg string) []byte {
	var actions []any
	for range 8 {
		actions = append(actions, map[string]any{"kind": "run", "argv": []string{name, arg}})
	}
	return intentOf(map[string]any{"actions": actions})
}

// worstPaths are many paths, deep ones, and ones that meet.
func worstPaths() []worst {
	outputs := func(n int, path func(int) string) []byte {
		var list []string
		for i := range n {
			list = append(list, path(i))
		}
		return intentOf(map[string]any{"outputs": list, "actions": []any{runTrue()}})
	}
	both := map[string]any{"actions": []any{runTrue()}}
	var in, out []string
	for i := range 500 {
		in = append(in, "out/"+deep(500, i))
		out = append(out, "out/"+deep(500, i+1000))
	}
	both["inputs"], both["outputs"] = in, out
	return []worst{
		{"256 writes, each in the way of the next", manyWrites(func(i int) string { return "out" + strings.Repeat("/a", i+1) })},
		{"256 writes in 400 folders", manyWrites(func(i int) string { return "out/" + deep(400, i) })},
		{"256 writes to one path", manyWrites(func(int) string { return "out/a" })},
		{"256 writes in folders that some write takes", manyWrites(func(i int) string { return "out" + strings.Repeat("/a", 1+i*7%500) })},
		{"10000 outputs", outputs(10000, func(i int) string { return fmt.Sprintf("out/%d", i) })},
		{"10000 outputs outside the write roots", outputs(10000, func(i int) string { return fmt.Sprintf("src/%d", i) })},
		{"10000 outputs that differ in case", outputs(10000, func(i int) string { return fmt.Sprintf("out/%s%d", []string{"a", "A"}[i%2], i/2) })},
		{"10000 outputs with every fault", outputs(10000, func(i int) string { return fmt.Sprintf(`/../.git\%d/`+"\u202e ", i) })},
		{"1000 deep outputs", outputs(1000, func(i int) string { return "out/" + deep(500, i) })},
		{"deep inputs and deep outputs", intentOf(both)},
	}
}

func deep(n, i int) string { return strings.Repeat("a/", n) + fmt.Sprint(i) }

func manyWrites(path func(int) string) []byte {
	var actions []any
	for i := range 256 {
		actions = append(actions, map[string]any{"kind": "write", "path": path(i), "content": ""})
	}
	return intentOf(map[string]any{"actions": actions})
}

// worstTexts are goals and constraints that the detectors of text read longest.
func worstTexts() []worst {
	goal := func(name, piece string) worst {
		return worst{name, intentOf(map[string]any{
			"goal": strings.Repeat(piece, 65536/len([]rune(piece))), "actions": []any{runTrue()},
		})}
	}
	many := func(name string, n int, text func(int) string) worst {
		var list []string
		size := 0
		for i := 0; i < n; i++ {
			c := text(i)
			if size += len(c) + 3; size > fullBytes-200 {
				break
			}
			list = append(list, c)
		}
		return worst{name, intentOf(map[string]any{"constraints": list, "actions": []any{runTrue()}})}
	}
	sides := []string{"stateless", "stateful"}
	number := func(pattern string, n int) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			fmt.Fprintf(&b, pattern, i)
		}
		return b.String()[:n]
	}
	return []worst{
		goal("a goal of <", "<"),
		goal("a goal of <a", "<a "),
		goal("a goal of {{", "{{a "),
		goal("a goal of brackets", "[a "),
		goal("a goal of to be", "to be decided a "),
		goal("a goal of back-ticks", "` `` ``` "),
		goal("a goal of letters of full width", "\uff34\uff22\uff24 "),
		{"a goal of distinct placeholders", intentOf(map[string]any{"goal": number("<a%d> ", 65530), "actions": []any{runTrue()}})},
		many("constraints of distinct placeholders", 1000, func(i int) string { return number(fmt.Sprintf("<n%d-%%d> ", i), 1000) }),
		many("1000 constraints that contradict each other", 1000, func(i int) string {
			return fmt.Sprintf("It must be %s. Note %d", sides[i%2], i)
		}),
		many("constraints of sentences that contradict each other", 1000, func(i int) string {
			return fmt.Sprint(i, ". ") + strings.Repeat("Be "+sides[i%2]+". ", 64)
		}),
		many("constraints with a clash for every service", 1000, func(i int) string {
			return number("s%d is "+sides[i%2]+". ", 1000) + fmt.Sprint(i)
		}),
		many("constraints of plain statements", 1000, func(i int) string {
			not := []string{"", "not "}[i%2]
			return number("You must "+not+"go%d. ", 1000) + fmt.Sprint(i)
		}),
		many("sentences of 40 words", 1000, func(i int) string {
			return strings.Repeat(strings.Repeat("blocking if ", 20)+". ", 4) + fmt.Sprint(i)
		}),
		many("sentences of 40 terms", 1000, func(i int) string {
			return strings.Repeat("public local empty safe online cached signed typed sorted atomic bounded lossy opaque lazy eager hidden stateless. ", 9) + fmt.Sprint(i)
		}),
	}
}

// worstShapes have many members of other kinds.
func worstShapes() []worst {
	var tagged, env, guarded, calls []any
	var outside []string
	for i := range 10000 {
		outside = append(outside, fmt.Sprintf("o%d", i))
	}
	for range 256 {
		var tags []string
		for k := range 32 {
			tags = append(tags, fmt.Sprintf("T%d", k))
		}
		names, loading := map[string]any{}, map[string]any{}
		for k := range 64 {
			names[fmt.Sprintf("N%d", k)] = ""
			loading[fmt.Sprintf("LD_%d", k)] = ""
		}
		tagged = append(tagged, map[string]any{"kind": "run", "argv": []string{"node", "a.js"}, "risk_tags": tags, "risk_level": "unknown"})
		env = append(env, map[string]any{"kind": "run", "argv": []string{"node", "a.js"}, "env": names})
		guarded = append(guarded, map[string]any{"kind": "run", "argv": []string{"node", "a.js"}, "env": loading})
		calls = append(calls, map[string]any{"kind": "call", "tool_id": "t", "adapter_id": "a", "params": map[string]any{}})
	}
	return []worst{
		{"256 actions of 32 risk tags", intentOf(map[string]any{"actions": tagged})},
		{"256 actions of 64 environment names", intentOf(map[string]any{"actions": env})},
		{"256 actions of 64 guarded environment names", intentOf(map[string]any{"actions": guarded})},
		{"64 environment names each, and 10000 outputs outside the write roots", intentOf(map[string]any{"actions": env, "outputs": outside})},
		{"256 calls", intentOf(map[string]any{"actions": calls})},
		{"a context of small numbers", []byte(`{"goal":"g","context":{"a":[1` + strings.Repeat(",1", fullBytes/2-20) + `]},"actions":[{"kind":"run","argv":["node","a.js"]}]}`)},
		{"a context of empty objects", []byte(`{"goal":"g","context":{"a":[{}` + strings.Repeat(",{}", fullBytes/3-20) + `]},"actions":[{"kind":"run","argv":["node","a.js"]}]}`)},
	}
}

func runTrue() any { return map[string]any{"kind": "run", "argv": []string{"node", "a.js"}} }

// intentOf adds a goal where there is none.
func intentOf(doc map[string]any) []byte {
	if doc["goal"] == nil {
		doc["goal"] = "Do what the actions say"
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		panic(err) // a map of texts and lists has a JSON form
	}
	return b.Bytes()
}

// slowest has the times of the worst intents. Each time is a multiple of the time of a
// small intent, under the profile that takes longest.
type slowest struct {
	small time.Duration
	rows  []slowRow
}

type slowRow struct {
	name, policy string
	bytes        int
	ratio        float64
}

// worstRounds are how often each of them is decided; the fastest counts.
const worstRounds = 3

// worst times whole processes. One fails that takes more than mostOfSmall times as
// long as a small intent.
func (r *report) worst(ctx context.Context, t tools, dir string, log io.Writer) error {
	fmt.Fprintln(log, "timing the intents that take longest")
	run := func(policy, file string, rounds int) (time.Duration, error) {
		best := time.Hour
		for range rounds {
			cmd := exec.CommandContext(ctx, t.fiador, "run", "--policy", policy, file)
			start := time.Now()
			if err := cmd.Run(); cmd.ProcessState == nil {
				return 0, err
			}
			best = min(best, time.Since(start))
		}
		return best, nil
	}
	file := filepath.Join(dir, "worst.json")
	if err := os.WriteFile(file, bytes.TrimSpace(sized(1<<10)), 0o600); err != nil {
		return err
	}
	var err error
	if r.slow.small, err = run(profileName, file, 21); err != nil {
		return err
	}
	for _, w := range worstIntents() {
		if err := os.WriteFile(file, w.src, 0o600); err != nil {
			return err
		}
		row := slowRow{name: w.name, bytes: len(w.src)}
		for _, policy := range []string{"strict", "default", "dev"} {
			took, err := run(policy, file, worstRounds)
			if err != nil {
				return err
			}
			if ratio := float64(took) / float64(r.slow.small); ratio > row.ratio {
				row.ratio, row.policy = ratio, policy
			}
		}
		if row.ratio > mostOfSmall {
			return fmt.Errorf("%s takes %.1f times as long as a small intent; the most is %d", w.name, row.ratio, mostOfSmall)
		}
		r.slow.rows = append(r.slow.rows, row)
	}
	return nil
}

// markdown is the section of the results.
func (s slowest) markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## The worst intents\n\n`fiador run`, whole process, as a multiple of that of an intent of 1 KiB under `default` (%s) in the same run. Of %d rounds the fastest, "+
		"under the profile that takes longest. No intent may take more than %d times as long.\n\n| intent | bytes | profile | times |\n|---|--:|---|--:|\n",
		s.small.Round(100*time.Microsecond), worstRounds, mostOfSmall)
	for _, row := range s.rows {
		fmt.Fprintf(&b, "| %s | %d | %s | %.1f |\n", row.name, row.bytes, row.policy, row.ratio)
	}
	return b.Bytes()
}
