package kernel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCommandVectors(t *testing.T) {
	vectors := detectVectors(t, "command.json", 20, 20)
	vectors = append(vectors, detectVectors(t, "network.json", 20, 20)...)
	vectors = append(vectors, detectVectors(t, "argument.json", 20, 20)...)
	for _, v := range vectors {
		got := []string{}
		for _, f := range commandFaults(v.Argv, v.Stdin, &budget{maxSteps}) {
			text := f.code
			if f.code != FindCmdPath && f.code != FindCmdCharacter {
				text = fmt.Sprintf("%s %d %s", f.code, f.arg, f.value)
			}
			got = append(got, text)
		}
		checkVector(t, v, got)
	}
}

func TestCommandCharacterValue(t *testing.T) {
	for name, want := range map[string]string{
		"":           "",
		"no de":      "no de",
		"n\u043ede":  `n\u043ede`,
		"node\u202e": `node\u202e`,
		"a\nb":       `a\nb`,
		`a "b"`:      `a \"b\"`,
		"\xff":       `\xff`,
	} {
		got := commandFaults([]string{name}, false, &budget{maxSteps})
		if len(got) != 1 || got[0] != (argFault{FindCmdCharacter, 0, want}) {
			t.Errorf("%q: got %v, want %s", name, got, want)
		}
	}
	if got := commandFaults(nil, true, &budget{maxSteps}); got != nil {
		t.Errorf("an empty argv has faults: %v", got)
	}
}

// TestEveryTableEntryFires proves that no entry of the published tables is
// there for show.
func TestEveryTableEntryFires(t *testing.T) {
	fires := func(code string, argv ...string) {
		t.Helper()
		if !slices.ContainsFunc(commandFaults(argv, false, &budget{maxSteps}), func(f argFault) bool { return f.code == code }) {
			t.Errorf("%q has no %s", argv, code)
		}
	}
	for _, name := range fields(shells) {
		fires(FindCmdShell, name, "x")
		fires(FindCmdShell, "env", name)
	}
	for _, name := range fields(wrappers) {
		fires(FindCmdWrapper, name, "x")
	}
	for _, p := range interpreters {
		for _, name := range fields(p.names) {
			for _, option := range fields(p.code + " " + p.codeSubs) {
				fires(FindInlineCode, name, option, "x")
				fires(FindInlineCode, name, "--unheard-of", option, "x")
				fires(FindInlineCode, "npx", name, option, "x")
			}
			for _, option := range fields(p.value) {
				for _, code := range fields(p.code) {
					fires(FindInlineCode, name, option, "x", code, "x")
				}
			}
			for _, module := range fields(p.modules) {
				fires(FindInlineCode, name, string(p.module), module)
				fires(FindInlineCode, name, string(p.module)+module)
			}
		}
	}
	for _, r := range runners {
		for _, name := range fields(r.names) {
			for _, option := range fields(r.always) {
				fires(FindInlineCode, name, option, "x")
			}
			start := []string{name}
			if subs := fields(r.subs); len(subs) > 0 {
				start = append(start, subs[0])
			}
			for _, option := range fields(r.code) {
				fires(FindInlineCode, append(start, option, "x")...)
			}
			fires(FindInlineCode, append(start, "node", "-e", "x")...)
			for _, operands := range fields(r.stores) {
				fires(FindInlineCode, append([]string{name}, strings.Split(operands, ":")...)...)
			}
			for _, sub := range fields(r.calls) {
				fires(FindInlineCode, name, sub, "x", fields(r.code)[0], "x")
			}
			checkShell(t, r, start)
		}
	}
}

// checkShell: a runner that opens a shell says so with and without stdin, and
// behind each of its options, unless that prints something and ends.
func checkShell(t *testing.T, r runner, start []string) {
	t.Helper()
	if !r.shell {
		return
	}
	opens := func(want bool, argv ...string) {
		t.Helper()
		for _, stdin := range []bool{false, true} {
			got := commandFaults(argv, stdin, &budget{maxSteps})
			if is := len(got) == 1 && got[0] == (argFault{FindInlineCode, 0, "stdin"}); is != want {
				t.Errorf("%q: %v", argv, got)
			}
		}
	}
	opens(true, start...)
	opens(true, append(start, "--")...)
	for _, flag := range fields(r.flag) {
		if r.value.has(flag) || r.code.has(flag) {
			continue
		}
		ends := r.end.has(flag)
		opens(!ends, append(start, flag)...)
		opens(true, append(start, flag, "false")...)
		opens(false, append(start, flag, "tool")...)
	}
	for _, option := range fields(r.value) {
		opens(true, append(start, option, "x")...)
		opens(false, append(start, option, "x", "tool")...)
	}
}

// TestScriptOperandEndsOptions proves for every interpreter that an option
// behind the script is the script's own.
func TestScriptOperandEndsOptions(t *testing.T) {
	for _, p := range interpreters {
		if p.text || p.loose {
			continue
		}
		for _, name := range fields(p.names) {
			for _, option := range fields(p.code) {
				if got := commandFaults([]string{name, "script", option, "x"}, true, &budget{maxSteps}); got != nil {
					t.Errorf("%s script %s: %v", name, option, got)
				}
			}
			for _, flag := range fields(p.flag) {
				if got := commandFaults([]string{name, flag, "script", "-e"}, true, &budget{maxSteps}); got != nil {
					t.Errorf("%s %s script -e: %v", name, flag, got)
				}
			}
			for _, option := range fields(p.value) {
				value := "x"
				if p.builtin != "" && p.loads.has(option) {
					value = fields(p.builtin)[0]
				}
				if got := commandFaults([]string{name, option, value, "script", "-e"}, false, &budget{maxSteps}); got != nil {
					t.Errorf("%s %s x script -e: %v", name, option, got)
				}
			}
		}
	}
}

func TestDetectorTables(t *testing.T) {
	tables := DetectorTables()
	for _, name := range []string{"control_paths", "reserved_roots", "shells", "wrappers", "runners", "interpreters",
		"inline_code", "network_needed", "path_arguments", "placeholder_words", "contradiction_terms"} {
		list := tables[name]
		if len(list) == 0 || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("table %q is empty, unsorted or has an entry twice", name)
		}
	}
	if len(tables) != 12 {
		t.Errorf("%d tables, want 12", len(tables))
	}
	for _, entry := range []string{"node -e", "node --import", "python -c", "npx -c", "npx STDIN", "npm config set", "node STDIN",
		"node --test-reporter", "awk PROGRAM"} {
		if !slices.Contains(tables["inline_code"], entry) {
			t.Errorf("inline_code lacks %q", entry)
		}
	}
	tables["shells"][0] = "changed"
	tables["control_paths"][0] = "changed"
	if DetectorTables()["control_paths"][0] == "changed" {
		t.Error("the tables can be changed from outside")
	}
}

func fields(list words) []string {
	var all []string
	for _, entry := range eachWith("x", list) {
		all = append(all, entry[2:])
	}
	return all
}
