package argv

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fiador/fiador/harness/rehearsal"
	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/specs/vectors/detect"
)

func TestCommandVectors(t *testing.T) {
	vectors := detect.Read(t, "command.json", 20, 20)
	vectors = append(vectors, detect.Read(t, "network.json", 20, 20)...)
	vectors = append(vectors, detect.Read(t, "argument.json", 20, 20)...)
	for _, v := range vectors {
		got := []string{}
		for _, f := range Faults(v.Argv, v.Stdin, NewBudget()) {
			text := f.Code
			if f.Code != finding.CmdPath && f.Code != finding.CmdCharacter {
				text = fmt.Sprintf("%s %d %s", f.Code, f.Arg, f.Value)
			}
			got = append(got, text)
		}
		v.Check(t, got)
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
		got := Faults([]string{name}, false, NewBudget())
		if len(got) != 1 || got[0] != (Fault{finding.CmdCharacter, 0, want}) {
			t.Errorf("%q: got %v, want %s", name, got, want)
		}
	}
	if got := Faults(nil, true, NewBudget()); got != nil {
		t.Errorf("an empty argv has faults: %v", got)
	}
}

// TestEveryTableEntryFires proves that every entry of the published tables has an
// effect.
func TestEveryTableEntryFires(t *testing.T) {
	fires := func(code string, argv ...string) {
		t.Helper()
		if !slices.ContainsFunc(Faults(argv, false, NewBudget()), func(f Fault) bool { return f.Code == code }) {
			t.Errorf("%q has no %s", argv, code)
		}
	}
	for _, name := range strings.Fields(string(shells)) {
		fires(finding.CmdShell, name, "x")
		fires(finding.CmdShell, "env", name)
	}
	for _, name := range strings.Fields(string(wrappers)) {
		fires(finding.CmdWrapper, name, "x")
	}
	for _, p := range interpreters {
		for _, name := range strings.Fields(string(p.names)) {
			for _, option := range strings.Fields(string(p.code + " " + p.codeSubs)) {
				fires(finding.InlineCode, name, option, "x")
				fires(finding.InlineCode, name, "--unheard-of", option, "x")
				fires(finding.InlineCode, "npx", name, option, "x")
			}
			for _, option := range strings.Fields(string(p.value)) {
				for _, code := range strings.Fields(string(p.code)) {
					fires(finding.InlineCode, name, option, "x", code, "x")
				}
			}
			for _, module := range strings.Fields(string(p.modules)) {
				fires(finding.InlineCode, name, string(p.module), module)
				fires(finding.InlineCode, name, string(p.module)+module)
			}
		}
	}
	for _, r := range runners {
		for _, name := range strings.Fields(string(r.names)) {
			for _, option := range strings.Fields(string(r.always)) {
				fires(finding.InlineCode, name, option, "x")
			}
			start := []string{name}
			if subs := strings.Fields(string(r.subs)); len(subs) > 0 {
				start = append(start, subs[0])
			}
			for _, option := range strings.Fields(string(r.code)) {
				fires(finding.InlineCode, append(start, option, "x")...)
			}
			fires(finding.InlineCode, append(start, "node", "-e", "x")...)
			for _, operands := range strings.Fields(string(r.stores)) {
				fires(finding.InlineCode, append([]string{name}, strings.Split(operands, ":")...)...)
			}
			for _, sub := range strings.Fields(string(r.calls)) {
				fires(finding.InlineCode, name, sub, "x", strings.Fields(string(r.code))[0], "x")
			}
			checkShell(t, r, start)
		}
	}
}

// checkShell checks that a runner which opens a shell has the finding, with and without
// stdin. It has the finding behind each of its options too, unless the option prints
// something and ends.
func checkShell(t *testing.T, r runner, start []string) {
	t.Helper()
	if !r.shell {
		return
	}
	opens := func(want bool, argv ...string) {
		t.Helper()
		for _, stdin := range []bool{false, true} {
			got := Faults(argv, stdin, NewBudget())
			if is := len(got) == 1 && got[0] == (Fault{finding.InlineCode, 0, "stdin"}); is != want {
				t.Errorf("%q: %v", argv, got)
			}
		}
	}
	opens(true, start...)
	opens(true, append(start, "--")...)
	for _, flag := range strings.Fields(string(r.flag)) {
		if r.value.Has(flag) || r.code.Has(flag) {
			continue
		}
		ends := r.end.Has(flag)
		opens(!ends, append(start, flag)...)
		opens(true, append(start, flag, "false")...)
		opens(false, append(start, flag, "tool")...)
	}
	for _, option := range strings.Fields(string(r.value)) {
		opens(true, append(start, option, "x")...)
		opens(false, append(start, option, "x", "tool")...)
	}
}

// TestScriptOperandEndsOptions proves for every interpreter that an option behind the
// script belongs to the script.
func TestScriptOperandEndsOptions(t *testing.T) {
	for _, p := range interpreters {
		if p.text || p.loose {
			continue
		}
		for _, name := range strings.Fields(string(p.names)) {
			for _, option := range strings.Fields(string(p.code)) {
				if got := Faults([]string{name, "script", option, "x"}, true, NewBudget()); got != nil {
					t.Errorf("%s script %s: %v", name, option, got)
				}
			}
			for _, flag := range strings.Fields(string(p.flag)) {
				if got := Faults([]string{name, flag, "script", "-e"}, true, NewBudget()); got != nil {
					t.Errorf("%s %s script -e: %v", name, flag, got)
				}
			}
			for _, option := range strings.Fields(string(p.value)) {
				value := "x"
				if p.builtin != "" && p.loads.Has(option) {
					value = strings.Fields(string(p.builtin))[0]
				}
				if got := Faults([]string{name, option, value, "script", "-e"}, false, NewBudget()); got != nil {
					t.Errorf("%s %s x script -e: %v", name, option, got)
				}
			}
		}
	}
}

// TestArgvIsLinear: the detector is linear in long arguments and in many.
func TestArgvIsLinear(t *testing.T) {
	detect.Slowly(t, func(s string) {
		Faults([]string{s}, true, NewBudget())
		Faults([]string{"perl", "-" + s, s}, true, NewBudget())
	})
	for _, unit := range []string{"-x", "npx", "env", "find", "-exec", "node", "a", "--", "-", "inspect", "--title"} {
		argv := slices.Repeat([]string{unit}, 50_000)
		for _, name := range []string{"node", "npx", "env", "find", "npm", "perl", "awk", "bun", "yarn"} {
			rehearsal.Again(t, 3, func(int) string {
				start := time.Now()
				Faults(append([]string{name}, argv...), true, NewBudget())
				if took := time.Since(start); took > 10*time.Second {
					return fmt.Sprintf("%q and many %q took %v", name, unit, took)
				}
				return ""
			})
		}
	}
}

func FuzzArgv(f *testing.F) {
	for _, v := range detect.Read(f, "command.json", 1, 1) {
		f.Add(strings.Join(v.Argv, "\n"), v.Stdin)
	}
	f.Add("../\xff\x00/", false)
	f.Fuzz(func(t *testing.T, a string, stdin bool) {
		argv := strings.Split(a, "\n")
		faults := Faults(argv, stdin, NewBudget())
		if !slices.Equal(faults, Faults(argv, stdin, NewBudget())) {
			t.Error("command faults are not stable")
		}
		for i, f := range faults {
			if f.Arg < 0 || f.Arg >= len(argv) {
				t.Errorf("argument %d of %d", f.Arg, len(argv))
			}
			if i > 0 && commandRank(faults[i-1].Code) > commandRank(f.Code) {
				t.Errorf("%v before %v", faults[i-1], f)
			}
			if f.Code == finding.CmdCharacter && (!utf8.ValidString(f.Value) || strings.ContainsFunc(f.Value, func(r rune) bool { return r < 0x20 || r > 0x7e })) {
				t.Errorf("unsafe value %q", f.Value)
			}
		}
	})
}

// TestBudget: a command that takes too many steps to read has a finding.
func TestBudget(t *testing.T) {
	nested := slices.Repeat([]string{"npm", "exec", "--z"}, 341)
	steps := NewBudget()
	last := Faults(nested, false, steps)
	if f := last[len(last)-1]; f.Code != finding.CmdUnread || f.Arg != 0 || f.Value != "npm" {
		t.Errorf("the last fault is %v", f)
	}
	if left := steps.steps; left < -MaxSteps/10 {
		t.Errorf("%d steps were taken", MaxSteps-left)
	}
	long := append([]string{"npm", "run", "build"}, slices.Repeat([]string{"--x"}, 1021)...)
	if got := Faults(long, false, NewBudget()); len(got) != 0 {
		t.Errorf("1024 arguments alone: %v", got)
	}
}
