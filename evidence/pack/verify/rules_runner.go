package verify

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/kernel/canon"
)

// runnerRules are the rules for a runner.json that is an object.
//
//	RN1   runner_schema_version is 1.0.0
//	RN2   runner_id is "runner_", 8 digits, "_", 6 digits, "_", and one or more of a to z
//	      and 0 to 9; runner_version is a text and not empty
//	RN3   platform.os is linux, darwin or win32; platform.arch is x64, arm64 or ia32;
//	      platform.node_version is a text that begins with "v"
//	RN4   sandbox.backend is process, container, vm or none; sandbox.isolation_level is
//	      strict, standard or none; where it is none, the backend is none
//	RN5   limits.timeout_ms is 1000 to 600000, max_output_files 1 to 10000,
//	      max_total_output_bytes 1024 to 1073741824; max_memory_bytes and max_cpu_seconds
//	      are 1 or more where they are there. All are whole numbers
//	RN6   commands.allowlist and commands.blocklist are lists of texts in ascending order
//	      that share none; commands.shell is a text and not empty; warnings is a list of
//	      texts in ascending order where it is there
//	RN7   write_roots is a list of texts in ascending order; none begins with a slash, a
//	      backslash or a letter and a colon, or has a segment ".."
//	RN8   context.working_dir is "."; context.env_allowlist is a list of texts in ascending
//	      order
//	RN9   timing.started_at and timing.completed_at are times of RFC 3339 that end in "Z",
//	      the second not before the first; timing.duration_ms is a whole number of 0 or
//	      more that is within 1 ms of the time between them; timing.phases, where it is
//	      there, is a list of objects; name of each is a text, and not before that of the
//	      one ahead of it
//	RN10  exit.code is a whole number from 0 to 255; exit.signal, where it is there, is one
//	      or more of A to Z and 0 to 9; exit.oom_killed and exit.timeout_killed are
//	      booleans
//	RN11  runner_hash, where it is there, is the hash of the canonical form, without LF, of
//	      the document without peak_memory_bytes, runner_hash, runner_id and timing
//	RN12  reading and writing the document loses nothing (roundTrip)
//
// Texts are in the order of UTF-16 code units. RN11 is not looked at where RN12 is broken.
func (v *verifier) runnerRules() {
	runner := v.object(pack.RunnerFile)
	if runner == nil {
		return
	}
	const here = pack.RunnerFile + "#/"
	v.must(text(runner, "runner_schema_version") == pack.RunnerVersion, "RN1", here+"runner_schema_version", "not %s", pack.RunnerVersion)
	v.must(isRunnerID(text(runner, "runner_id")), "RN2", here+"runner_id", "not runner_, 8 digits, _, 6 digits, _ and letters or digits")
	v.must(text(runner, "runner_version") != "", "RN2", here+"runner_version", "missing or empty")
	v.part("RN3", runner, "platform", v.runnerPlatform)
	v.part("RN4", runner, "sandbox", v.runnerSandbox)
	v.part("RN5", runner, "limits", v.runnerLimits)
	if _, ok := runner["warnings"]; ok {
		v.sortedTexts("RN6", pack.RunnerFile, runner, "warnings")
	}
	v.part("RN6", runner, "commands", v.runnerCommands)
	v.writeRoots(runner)
	v.part("RN8", runner, "context", v.runnerContext)
	v.part("RN9", runner, "timing", v.runnerTiming)
	v.part("RN10", runner, "exit", v.runnerExit)
	v.runnerWhole(runner)
}

// maxRunnerID is the maximum length of the id of a runner, in bytes: 64 after its time.
const maxRunnerID = len("runner_00000000_000000_") + 64

func isRunnerID(id string) bool {
	rest, ok := strings.CutPrefix(id, "runner_")
	if !ok || len(id) > maxRunnerID || len(rest) < len("00000000_000000_0") || rest[8] != '_' || rest[15] != '_' {
		return false
	}
	return onlyOf(rest[:8], asciiDigit) && onlyOf(rest[9:15], asciiDigit) &&
		onlyOf(rest[16:], func(c byte) bool { return asciiDigit(c) || c >= 'a' && c <= 'z' })
}

func asciiDigit(c byte) bool { return c >= '0' && c <= '9' }

func onlyOf(s string, is func(byte) bool) bool {
	for i := range len(s) {
		if !is(s[i]) {
			return false
		}
	}
	return true
}

// part checks a member that must be an object. Any other value breaks the given rule.
func (v *verifier) part(rule string, runner map[string]any, name string, check func(map[string]any)) {
	if obj, ok := runner[name].(map[string]any); ok {
		check(obj)
	} else {
		v.add(rule, pack.At(pack.RunnerFile, name), "missing or not an object")
	}
}

// oneOf notes a violation of a rule if a member of a part is none of some texts.
func (v *verifier) oneOf(rule string, obj map[string]any, part, name string, texts ...string) string {
	if s := text(obj, name); slices.Contains(texts, s) {
		return s
	}
	v.add(rule, pack.At(pack.RunnerFile, part, name), "none of %s", strings.Join(texts, ", "))
	return ""
}

func (v *verifier) runnerPlatform(p map[string]any) {
	v.oneOf("RN3", p, "platform", "os", "linux", "darwin", "win32")
	v.oneOf("RN3", p, "platform", "arch", "x64", "arm64", "ia32")
	v.must(strings.HasPrefix(text(p, "node_version"), "v"), "RN3", pack.RunnerFile+"#/platform/node_version", "does not begin with v")
}

func (v *verifier) runnerSandbox(s map[string]any) {
	backend := v.oneOf("RN4", s, "sandbox", "backend", "process", "container", "vm", "none")
	level := v.oneOf("RN4", s, "sandbox", "isolation_level", "strict", "standard", "none")
	v.must(level != "none" || backend == "" || backend == "none", "RN4", pack.RunnerFile+"#/sandbox/backend", "%s without isolation", backend)
}

// runnerLimits checks RN5.
func (v *verifier) runnerLimits(limits map[string]any) {
	for _, l := range []struct {
		name     string
		min, max int64
		optional bool
	}{
		{"timeout_ms", 1000, 600_000, false},
		{"max_output_files", 1, 10_000, false},
		{"max_total_output_bytes", 1024, 1 << 30, false},
		{"max_memory_bytes", 1, canon.MaxSafeInteger, true},
		{"max_cpu_seconds", 1, canon.MaxSafeInteger, true},
	} {
		value, there := limits[l.name]
		if n, ok := canon.Whole(value); (there || !l.optional) && (!ok || n < l.min || n > l.max) {
			v.add("RN5", pack.At(pack.RunnerFile, "limits", l.name), "not a whole number from %d to %d", l.min, l.max)
		}
	}
}

// runnerCommands checks RN6.
func (v *verifier) runnerCommands(c map[string]any) {
	v.sortedTexts("RN6", pack.RunnerFile, c, "commands", "allowlist")
	v.sortedTexts("RN6", pack.RunnerFile, c, "commands", "blocklist")
	allowed, _ := c["allowlist"].([]any)
	blocked, _ := c["blocklist"].([]any)
	known := make(map[string]bool, len(allowed))
	for _, one := range allowed {
		if s, ok := one.(string); ok {
			known[s] = true
		}
	}
	for i, one := range blocked {
		if s, ok := one.(string); ok && known[s] {
			v.add("RN6", pack.At(pack.RunnerFile, "commands", "blocklist", strconv.Itoa(i)), "%s is allowed as well", pack.Quoted(s))
		}
	}
	v.must(text(c, "shell") != "", "RN6", pack.RunnerFile+"#/commands/shell", "missing or empty")
}

// writeRoots checks RN7.
func (v *verifier) writeRoots(runner map[string]any) {
	v.sortedTexts("RN7", pack.RunnerFile, runner, "write_roots")
	list, _ := runner["write_roots"].([]any)
	for i, one := range list {
		if s, ok := one.(string); ok && (pack.IsAbsolute(s) || strings.HasPrefix(s, `\`) || pack.HasParent(s)) {
			v.add("RN7", pack.At(pack.RunnerFile, "write_roots", strconv.Itoa(i)), "%s is not relative", pack.Quoted(s))
		}
	}
}

func (v *verifier) runnerContext(c map[string]any) {
	v.must(text(c, "working_dir") == ".", "RN8", pack.RunnerFile+"#/context/working_dir", "not .")
	v.sortedTexts("RN8", pack.RunnerFile, c, "context", "env_allowlist")
}

// runnerTiming checks RN9.
func (v *verifier) runnerTiming(timing map[string]any) {
	start, startOK := v.runnerTime(timing, "started_at")
	end, endOK := v.runnerTime(timing, "completed_at")
	ms, msOK := canon.Whole(timing["duration_ms"])
	switch {
	case !msOK || ms < 0:
		v.add("RN9", pack.At(pack.RunnerFile, "timing", "duration_ms"), "not a whole number of 0 or more")
	case !startOK || !endOK:
	case end.Before(start):
		v.add("RN9", pack.At(pack.RunnerFile, "timing", "completed_at"), "before started_at")
	case !withinMS(end.Sub(start), ms):
		v.add("RN9", pack.At(pack.RunnerFile, "timing", "duration_ms"), "%d, and %s lie between the times", ms, end.Sub(start))
	}
	v.phases(timing)
}

// withinMS says whether a duration differs from a number of milliseconds by at most one.
func withinMS(d time.Duration, ms int64) bool {
	const millisecond = int64(time.Millisecond)
	if ms > 1<<62/millisecond {
		return false
	}
	diff := int64(d) - ms*millisecond
	return diff >= -millisecond && diff <= millisecond
}

// runnerTime returns a time of the timing.
func (v *verifier) runnerTime(timing map[string]any, name string) (time.Time, bool) {
	t, ok := zuluTime(timing[name])
	v.must(ok, "RN9", pack.At(pack.RunnerFile, "timing", name), "not a time that ends in Z")
	return t, ok
}

// zuluTime reads a time of RFC 3339 that ends in "Z". Every digit must be in its place.
func zuluTime(v any) (time.Time, bool) {
	s, _ := v.(string)
	const layout = "2006-01-02T15:04:05"
	if len(s) <= len(layout) || s[13] != ':' || s[len(layout)] != '.' && s[len(layout)] != 'Z' || !strings.HasSuffix(s, "Z") {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil
}

func (v *verifier) phases(timing map[string]any) {
	value, there := timing["phases"]
	list, ok := value.([]any)
	v.must(ok || !there, "RN9", pack.RunnerFile+"#/timing/phases", "not a list")
	last := ""
	for i, one := range list {
		phase, _ := one.(map[string]any)
		name, ok := phase["name"].(string)
		switch {
		case !ok:
			v.add("RN9", pack.At(pack.RunnerFile, "timing", "phases", strconv.Itoa(i)), "not an object with a name")
			continue
		case canon.Compare(last, name) > 0:
			v.add("RN9", pack.At(pack.RunnerFile, "timing", "phases", strconv.Itoa(i)), "%s stands behind %s", pack.Quoted(name), pack.Quoted(last))
		}
		last = name
	}
}

// runnerExit checks RN10.
func (v *verifier) runnerExit(exit map[string]any) {
	const here = pack.RunnerFile + "#/exit/"
	code, ok := canon.Whole(exit["code"])
	v.must(ok && code >= 0 && code <= 255, "RN10", here+"code", "not a whole number from 0 to 255")
	if _, there := exit["signal"]; there {
		s := text(exit, "signal")
		named := s != "" && onlyOf(s, func(c byte) bool { return asciiDigit(c) || c >= 'A' && c <= 'Z' })
		v.must(named, "RN10", here+"signal", "not of upper-case letters and digits")
	}
	for _, name := range []string{"oom_killed", "timeout_killed"} {
		_, ok := exit[name].(bool)
		v.must(ok, "RN10", here+name, "neither true nor false")
	}
}

// runnerWhole checks RN11 and RN12.
func (v *verifier) runnerWhole(runner map[string]any) {
	if fault := v.doc(pack.RunnerFile).roundTrip(); fault != "" {
		v.add("RN12", pack.RunnerFile, "%s", fault)
		return
	}
	given, ok := runner["runner_hash"]
	if !ok {
		return
	}
	want, err := runnerHash(runner)
	same := err == nil && given == any(string(want))
	v.must(same, "RN11", pack.RunnerFile+"#/runner_hash", "not the hash of the document without what another run changes")
}

// runnerHash returns the hash of the members of a runner.json that describe the machine
// and the sandbox. Another run there gives the same hash (RN11).
func runnerHash(runner map[string]any) (canon.ContentHash, error) {
	stays := make(map[string]any, len(runner))
	for name, value := range runner {
		switch name {
		case "peak_memory_bytes", "runner_hash", "runner_id", "timing":
		default:
			stays[name] = value
		}
	}
	text, err := canon.Canonical(stays)
	if err != nil {
		return "", err
	}
	return canon.Sum(text), nil
}
