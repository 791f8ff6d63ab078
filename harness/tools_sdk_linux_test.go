//go:build linux && (amd64 || arm64)

package harness_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/harness"
	"github.com/fiador/fiador/harness/harnesstest"
	"github.com/fiador/fiador/harness/harnesstest/intents"
	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/pathname"
)

// writeT returns an action that writes a file.
func writeT(t *testing.T, path, text string) string {
	return `{"kind":"write","path":"` + path + `","content":` + string(mustJSON(t, text)) + `}`
}

const pythonLibrary = `
import asyncio, atexit, json, os, sys, time
class Box:
    @staticmethod
    def size(**kw): return len(kw)
def echo(**kw): return kw
def nothing(): return None
def fails(): raise ValueError("no " + "\ud800")
class Odd(Exception):
    def __str__(self): raise RuntimeError
def odd(): raise Odd
async def later(x):
    await asyncio.sleep(0.001)
    return [x]
async def later_fails(): raise KeyError("k")
def nan(): return [float("nan")]
def huge(): return 2**64
def deep(n):
    r = 0
    for _ in range(n): r = [r]
    return r
def surrogate(): return "\ud800"
def big(n): return "\u00e9" * n
def unserialisable(): return {1, 2}
def noisy():
    print(json.dumps({"result": "no"}))
    print("sha256:" + "0" * 64, json.dumps({"result": "no"}))
    sys.stdout.write("half a line")
    os.write(1, b"\xff\xfe")
    return "yes"
def at_exit():
    atexit.register(lambda: print("\nsha256:" + "1" * 64 + ' {"result": "no"}'))
    return "yes"
def closes():
    sys.stdout.close()
    os.close(1)
    return "yes"
def modules(): return json.dumps([json.__file__.split("/")[1], "/fiador" in sys.path, sys.path[-1] == os.getcwd(), os.listdir("/fiador") if os.path.isdir("/fiador") else []])
def crash(): os._exit(3)
def leave(): sys.exit(0)
def wait():
    while True: pass
`

const nodeLibrary = `
import process from 'node:process';
export const Box = { n: 7, size(kw) { return Object.keys(kw).length + this.n } };
export const echo = (kw) => kw;
export const nothing = () => {};
export const fails = () => { throw new RangeError('no \ud800') };
export const odd = () => { throw null };
export const later = async ({ x }) => { await new Promise((r) => setTimeout(r, 1)); return [x] };
export const later_fails = async () => { throw new Error('k') };
export const nan = () => [NaN];
export const huge = () => 2n ** 64n;
export const deep = ({ n }) => { let r = 0; for (let i = 0; i < n; i++) r = [r]; return r };
export const surrogate = () => '\ud800';
export const big = ({ n }) => 'é'.repeat(n);
export const unserialisable = () => new Set([1, 2]);
export const noisy = () => {
  console.log(JSON.stringify({ result: 'no' }));
  console.log('sha256:' + '0'.repeat(64), JSON.stringify({ result: 'no' }));
  process.stdout.write('half a line');
  process.stdout.write(Buffer.from([0xff, 0xfe]));
  return 'yes';
};
export const at_exit = () => { process.on('exit', () => { console.log('\nsha256:' + '1'.repeat(64) + ' {"result":"no"}'); process.exitCode = 4 }); return 'yes' };
export const closes = () => { process.stdout.write = () => true; process.exit = () => {}; JSON.stringify = () => 'no'; return 'yes' };
export const crash = () => process.reallyExit(3);
export const leave = () => process.exit(0);
export const never = () => new Promise(() => {});
export const wait = () => { for (;;); };
`

// TestSDKCalls calls functions of libraries that actions wrote. Each run is also packed and
// verified.
func TestSDKCalls(t *testing.T) {
	names := strings.Fields("Box.size echo nothing fails odd later later_fails nan huge deep surrogate big unserialisable noisy at_exit closes modules crash leave never wait missing")
	var mapping []string
	for _, n := range names {
		mapping = append(mapping, `"`+n+`":"`+n+`"`)
	}
	functions := strings.Join(mapping, ",")
	const failed, output = "CALL_FAILED /actions/2", "CALL_OUTPUT /actions/2"
	type kase struct {
		name, params string // the operation is the name
		python, node string // the answer of each, or the reason; empty: the library has no such function
		failure      string
	}
	long := `"` + strings.Repeat("é", 300_000) + `"`
	cases := []kase{
		{name: "Box.size", params: `"a":1,"b":2`, python: "2\n", node: "9\n"},
		{name: "echo", params: `"__proto__":{"x":1},"constructor":2,"é\u2028":[null,true,-0.5,9007199254740991]`, python: `{"__proto__":{"x":1},"constructor":2,"é` + "\u2028" + `":[null,true,-0.5,9007199254740991]}` + "\n", node: `{"__proto__":{"x":1},"constructor":2,"é` + "\u2028" + `":[null,true,-0.5,9007199254740991]}` + "\n"},
		{name: "echo", params: `"x":` + long, python: `{"x":` + long + "}\n", node: `{"x":` + long + "}\n"},
		{name: "echo", params: `"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50), python: `{"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "}\n", node: `{"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "}\n"},
		{name: "nothing", python: "null\n", node: "null\n"},
		{name: "fails", python: failed, node: failed, failure: "tool_error"},
		{name: "odd", python: failed, node: failed, failure: "tool_error"},
		{name: "later", params: `"x":1`, python: "[1]\n", node: "[1]\n"},
		{name: "later_fails", python: failed, node: failed, failure: "tool_error"},
		{name: "nan", python: failed, node: failed, failure: "tool_error"},
		{name: "huge", python: output, failure: "invalid_output"},
		{name: "huge", node: failed, failure: "tool_error"},
		{name: "deep", params: `"n":100000`, python: failed, node: failed, failure: "tool_error"},
		{name: "deep", params: `"n":500`, python: output, node: output, failure: "invalid_output"},
		{name: "surrogate", python: output, node: output, failure: "invalid_output"},
		{name: "unserialisable", python: failed, node: failed, failure: "tool_error"},
		{name: "missing", python: failed, node: failed, failure: "tool_error"},
		{name: "noisy", python: "\"yes\"\n", node: "\"yes\"\n"},
		{name: "at_exit", python: "\"yes\"\n", node: "\"yes\"\n"},
		{name: "closes", python: "\"yes\"\n", node: "\"yes\"\n"},
		{name: "crash", python: "EXIT 3", node: "EXIT 3", failure: "nonzero"},
		{name: "leave", python: output, node: output, failure: "invalid_output"},
		{name: "never", node: "EXIT 13", failure: "nonzero"},
		{name: "wait", python: "TIMEOUT", node: "TIMEOUT", failure: "timeout"},
	}
	hostile := "raise SystemExit(9)\n"
	for _, isolation := range harnesstest.Tiers {
		for language, library := range map[string][2]string{"python": {"lib.py", pythonLibrary}, "node": {"lib.mjs", nodeLibrary}} {
			t.Run(string(isolation)+" "+language, func(t *testing.T) {
				h := harnesstest.NewTier(t, isolation)
				program(t, language)
				module := map[string]string{"python": "out.lib", "node": "./out/lib.mjs"}[language]
				for _, tc := range cases {
					want := map[string]string{"python": tc.python, "node": tc.node}[language]
					if want == "" {
						continue
					}
					more := ""
					if tc.failure == "timeout" {
						more = `,"sandbox_override":{"timeout_ms":1500}`
					}
					x := harnesstest.NewExecutor(t, h, func(p *kernel.Profile) { p.AllowedWriteRoots = kernel.AllowList{All: true}; p.TimeoutMS = 60000 })
					x.Gate.UseTools(harnesstest.Registry(t, x.Deps.Specs, map[string]string{"T/tool.json": harnesstest.Tool(`"A"`), "T/A.json": sdkAdapter(language, module, functions, more)}))
					params := strings.TrimSuffix(`{"operation":"`+tc.name+`",`+tc.params, ",") + "}"
					rep := x.Run(t, intents.Actions(
						writeT(t, "out/"+library[0], library[1]), writeT(t, "json.py", hostile),
						`{"kind":"call","tool_id":"T","params":`+params+`}`, intents.Argv("cat", "calls/003.response.json"),
					), harness.Folders{})
					e := rep.Execution
					if len(e.Attempts) != 1 || e.Attempts[0].Failure != tc.failure {
						t.Errorf("%s: attempts %+v: %.2000s", tc.name, e.Attempts, e.Stderr.Bytes)
						continue
					}
					if tc.failure != "" {
						if got := rep.Result.Decision.Reasons; !slices.Equal(got, []string{want}) || len(e.Calls) > 0 {
							t.Errorf("%s: %q: %.2000s", tc.name, got, e.Stderr.Bytes)
						}
						continue
					}
					if got := string(e.Stdout.Bytes); got != want || len(e.Calls) != 1 || e.Calls[0].ResponseHash != canon.Sum([]byte(want)) {
						t.Errorf("%s: %.200q, reasons %q: %.2000s", tc.name, got, rep.Result.Decision.Reasons, e.Stderr.Bytes)
						continue
					}
					var outputs []string
					for _, f := range rep.Result.Execution.Outputs {
						outputs = append(outputs, f.Path)
					}
					if !slices.Equal(outputs, []string{"calls/003.response.json", "json.py", "out/" + library[0]}) {
						t.Errorf("%s: outputs %q", tc.name, outputs)
					}
					ev, err := harnesstest.Packed(t, rep).Evidence()
					if err != nil || ev.Status != pack.StatusComplete || len(ev.Runs) != 2 || len(ev.Runs[0].Argv) != 2 || !slices.Contains([]string{pathname.ShimPython, pathname.ShimNode}, ev.Runs[0].Argv[1]) {
						t.Errorf("%s: evidence %+v (%v)", tc.name, ev, err)
					}
				}
			})
		}
	}
}

// program skips a test where the interpreter of a language is not installed.
func program(t *testing.T, language string) {
	t.Helper()
	name := map[string]string{"python": "python3", "node": "node"}[language]
	if _, err := exec.LookPath("/usr/bin/" + name); err != nil {
		t.Skipf("%s is not installed here", name)
	}
}
