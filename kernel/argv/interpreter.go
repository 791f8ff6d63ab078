package argv

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/pathname"
	"github.com/fiador/fiador/kernel/text"
)

// interpreter is the published table of one interpreter, or of several interpreters
// that read their options alike.
type interpreter struct {
	names  text.Words
	code   text.Words // options that carry code, or load code before the script
	value  text.Words // options that take a value
	flag   text.Words // options that take no value
	rest   text.Words // one-letter options; a value, if given, is attached
	end    text.Words // options or operands; behind one, no program is read from stdin
	script text.Words // options whose value is the script

	module  text.Words // options whose value is a module to run; they are the last options
	modules text.Words // modules that take code from their arguments or from stdin
	risky   text.Words // settings that load code, anywhere in an option's value
	loads   text.Words // options that load their value as code; the value may be a file
	builtin text.Words // if not empty, the only values that may be loaded

	paths text.Words // options whose value is a path; if there are any, the script is a path too
	each  text.Words // options; behind one, every operand is a script

	subs     text.Words // operands; behind one, more options follow
	codeSubs text.Words // operands that carry code
	nested   text.Words // operands; behind one, another command follows
	debugs   text.Words // those of subs that take commands from stdin

	cluster   bool // one-letter options may be combined, and a value may be attached
	dashValue bool // the value of an option may begin with a dash
	fold      bool // underscores in long options are dashes
	text      bool // the first operand is the program's text
	data      bool // stdin is data, never the program
	loose     bool // operands are no scripts: the program may still come from stdin
	passes    bool // arguments behind "--" belong to the program; none of them is the script
}

var interpreters = []interpreter{
	{
		names: "node babel-node coffee electron esno nodejs ts-node ts-node-esm ts-node-script tsx",
		code: `-e --eval -p --print -pe -r --require -i --interactive --import --loader --experimental-loader
			--test-global-setup --snapshot-blob --build-snapshot-config --openssl-config --experimental-policy
			--env-file --env-file-if-exists --experimental-config-file --experimental-default-config-file`,
		value: nodeValue, flag: nodeFlag, paths: nodePaths, each: "--test", fold: true,
		loads: "--test-reporter", builtin: "dot junit lcov spec tap",
		end:  "-h --help -v --version --completion-bash --v8-options --test --run --prof-process --build-sea --experimental-sea-config",
		subs: "inspect debug watch", debugs: "inspect debug",
	},
	{
		names: "deno",
		code:  "-e --eval --eval-file --import --preload --require --env-file --env",
		loads: "-c --config --import-map",
		value: "-c --config --import-map --lock --cert --location --seed -L --log-level --ext --filter --host --port",
		flag: `-A --allow-all --allow-env --allow-ffi --allow-import --allow-net --allow-read --allow-run --allow-sys --allow-write
			-R -W -N -E -S -I -P -q --quiet --check --no-check --watch --unstable -r --reload --no-lock --frozen --cached-only
			--no-config --no-prompt --no-remote --no-npm --node-modules-dir --inspect --inspect-brk --inspect-wait`,
		end: "-h --help -V --version bench check task test", subs: "bench check run serve task test", codeSubs: "eval repl", fold: true,
	},
	{
		names: "bun",
		code:  "-e --eval -p --print -r --preload --require --import -c --config --env-file",
		value: "--cwd -d --define -l --loader --tsconfig-override --conditions --main-fields --port --filter -F",
		flag:  "-b --bun --hot --watch --silent --smol -i --no-install --inspect --inspect-brk --inspect-wait --if-present",
		end:   "-h --help -v --version --revision test", subs: "run test", codeSubs: "exec repl", nested: "x",
	},
	{
		names: "python ipython jython micropython pypy pythonw py", cluster: true, dashValue: true,
		code:  "-c -i",
		value: "-W -X -Q --check-hash-based-pycs",
		flag:  "-b -B -d -E -I -J -O -P -q -R -s -S -t -u -v -x",
		end:   "-h -? -V --help --help-all --help-env --help-xoptions --version",
		// A module is a file; the modules of this list run code from their arguments or
		// from stdin.
		module: "-m", modules: "IPython asyncio bdb code codeop doctest idlelib pdb profile runpy sqlite3 timeit trace xonsh",
		risky: "presite",
	},
	{
		names: "perl", cluster: true, dashValue: true,
		code:  "-e -E -M -m -d -F",
		value: "-I", rest: "-i -C -D -x",
		flag: "-a -c -f -g -l -n -p -s -S -t -T -u -U -w -W -X",
		end:  "-v -V -h -? --help --version",
	},
	{
		names: "ruby jruby irb mruby truffleruby", cluster: true, dashValue: true,
		code:  "-e -r",
		value: "-C -E -I -X --encoding --external-encoding --internal-encoding --enable --disable --backtrace-limit",
		rest:  "-F -i -x",
		flag:  "-a -c -d -h -l -n -p -s -S -v -w -y -K -T -U -W --debug --verbose --jit --yjit --parser --dump",
		end:   "--help --version --copyright",
	},
	{
		names: "php php-cgi", cluster: true, dashValue: true, passes: true,
		code:   "-r -B -R -E -a --run --process-begin --process-code --process-end --interactive -c --php-ini -z --zend-extension",
		value:  "-d --define -S --server -t --docroot --rf --rc --re --rz --ri",
		flag:   "-C -e -H -l --syntax-check -n --no-php-ini -q -s -w --strip --no-header",
		end:    "-h -i -m -v -? --help --info --modules --version --ini -S --server --rf --rc --re --rz --ri",
		script: "-f --file -F --process-file",
		risky:  "auto_prepend_file auto_append_file extension zend_extension ffi.preload opcache.preload",
	},
	{names: "lua luajit texlua", code: "-e -l -i -j", flag: "-E -W -v -b", value: "-O"},
	{names: "rscript", code: "-e", value: "-g --gui", flag: "--vanilla --verbose --no-init-file --no-environ", end: "--version --help"},
	{
		names: "r", code: "-e -d --debugger", value: "-g --gui --encoding", script: "-f --file", loose: true,
		flag: "--vanilla --no-save --no-restore --save --slave --no-echo -s -q --quiet --silent --verbose --no-environ --no-init-file",
		end:  "--args --version --help -h cmd",
	},
	{names: "tclsh jimsh wish", value: "-encoding"},
	{names: "expect", code: "-c -i", value: "-D", flag: "-b -d -n -N -v", script: "-f", end: "-v"},
	{names: "osascript", code: "-e -i", value: "-l -s", flag: "-ss -se -so -sh"},
	{
		names: "awk gawk mawk nawk original-awk goawk", text: true, data: true, cluster: true, dashValue: true,
		code:   "-e --source -D --debug",
		value:  "-v --assign -F --field-separator -i --include -l --load -W",
		loads:  "-i --include -l --load",
		rest:   "-d -L -o -p",
		flag:   "-b -c -C -g -h -I -k -M -n -N -O -P -r -s -S -t -V",
		script: "-f --file -E --exec",
		end:    "-h -V --help --version",
	},
	{names: "julia", code: "-e -E --eval --print -L --load -i", value: "-J --sysimage -t --threads -p --procs -C --machine-file", end: "-v --version -h --help"},
	{names: "elixir iex", code: "-e --eval --rpc-eval -r -pr -S", value: "-pa -pz --name --sname --cookie --erl", end: "-v --version -h --help"},
	{names: "erl", code: "-eval -run -s", flag: "-noshell -noinput", value: "-pa -pz -sname -name -config -setcookie", end: "-version"},
	{names: "clojure clj groovy kotlin scala raku rakudo swift", code: "-e -ne -pe --eval -m -M -i", end: "-v -version --version -h -help --help"},
	{names: "d8 js qjs hermes mongosh crystal octave", code: "-e --eval -i --interactive -I --include", codeSubs: "eval", end: "-v --version -h --help"},
	{names: "ghc ghci runghc runhaskell ocaml", code: "-e", end: "--version --help"},
	{names: "guile racket", code: "-c -e -l -i -r -t -u -k --eval --load --require", script: "-s", end: "-v --version -h --help"},
	{names: "clisp ecl emacs sbcl", code: "-x -eval --eval -l --load -f --funcall", script: "--script", flag: "--batch -batch -Q -q --non-interactive", end: "--version --help"},
	{names: "ex nvim vi view vim vimdiff", code: "-c --cmd -S -s -es -Es", data: true, end: "--version -h --help"},
	{names: "jshell", loose: true},
}

// nodeValue and nodeFlag are the options of Node.js with and without a value. The value
// is the next argument unless "=" attaches it. nodePaths are the options whose value
// names a path that is written or read. Of the flags of V8 only the common ones are
// known.
const (
	nodeValue text.Words = `--allow-fs-read --allow-fs-write --build-sea -C --conditions --cpu-prof-dir
		--cpu-prof-interval --cpu-prof-name --debug-port --diagnostic-dir --disable-proto --disable-warning
		--dns-result-order --experimental-default-type --experimental-sea-config --experimental-test-isolation --heap-prof-dir
		--heap-prof-interval --heap-prof-name --heapsnapshot-near-heap-limit --heapsnapshot-signal --icu-data-dir
		--input-type --inspect-port --inspect-publish-uid --localstorage-file --max-http-header-size
		--network-family-autoselection-attempt-timeout --policy-integrity --redirect-warnings
		--report-dir --report-directory --report-filename --report-signal --run --secure-heap --secure-heap-min
		--security-revert --security-reverts --test-concurrency --test-coverage-branches --test-coverage-exclude
		--test-coverage-functions --test-coverage-include --test-coverage-lines --test-isolation --test-name-pattern
		--test-reporter --test-reporter-destination --test-shard --test-skip-pattern --test-timeout --title
		--tls-cipher-list --tls-keylog --trace-event-categories --trace-event-file-pattern --trace-require-module
		--unhandled-rejections --use-largepages --v8-pool-size --watch-kill-signal --watch-path`
	nodePaths text.Words = `--build-sea --cpu-prof-dir --cpu-prof-name --diagnostic-dir --experimental-sea-config --heap-prof-dir
		--heap-prof-name --icu-data-dir --localstorage-file --logfile --redirect-code-traces-to --redirect-warnings --report-dir
		--report-directory --report-filename --test-reporter-destination --tls-keylog --trace-event-file-pattern
		--trace-turbo-path --watch-path`
	nodeFlag text.Words = `--abort-on-uncaught-exception --addons --allow-addons --allow-child-process --allow-natives-syntax
		--allow-net --allow-wasi --allow-worker --build-snapshot -c --check --cpu-prof --deprecation
		--disable-wasm-trap-handler --disallow-code-generation-from-strings --enable-etw-stack-walking --enable-fips
		--enable-network-family-autoselection --enable-source-maps --entry-url --experimental-abortcontroller
		--experimental-detect-module --experimental-eventsource --experimental-fetch --experimental-global-customevent
		--experimental-global-webcrypto --experimental-import-meta-resolve --experimental-json-modules
		--experimental-modules --experimental-network-imports --experimental-network-inspection
		--experimental-permission --experimental-print-required-tla --experimental-repl-await
		--experimental-require-module --experimental-shadow-realm --experimental-sqlite --experimental-strip-types
		--experimental-test-coverage --experimental-test-module-mocks --experimental-transform-types
		--experimental-vm-modules --experimental-wasm-modules --experimental-webcrypto --experimental-websocket
		--experimental-webstorage --experimental-worker --expose-gc --expose-internals --extra-info-on-fatal-exception
		--force-context-aware --force-fips --frozen-intrinsics --global-search-paths --harmony --heap-prof
		--insecure-http-parser --inspect --inspect-brk --inspect-wait --interpreted-frames-native-stack --jitless
		--napi-modules --network-family-autoselection --node-snapshot --openssl-legacy-provider
		--openssl-shared-config --pending-deprecation --perf-basic-prof --perf-prof --permission --preserve-symlinks
		--preserve-symlinks-main --prof --report-compact --report-exclude-network --report-on-fatalerror
		--report-on-signal --report-uncaught-exception --strip-types --test-force-exit --test-only
		--test-update-snapshots --throw-deprecation --tls-max-v1.2 --tls-max-v1.3 --tls-min-v1.0 --tls-min-v1.1
		--tls-min-v1.2 --tls-min-v1.3 --trace-atomics-wait --trace-deopt --trace-deprecation --trace-exit --trace-gc
		--trace-opt --trace-promises --trace-sigint --trace-sync-io --trace-tls --trace-uncaught --trace-warnings
		--track-heap-objects --use-bundled-ca --use-openssl-ca --use-system-ca --verify-base-objects --warnings --watch
		--watch-preserve-output --zero-fill-buffers`
)

// reading is the state of reading one interpreter's options.
type reading struct {
	interpreter
	*Budget
	argv   []string
	i      int
	ended  bool // an option was read behind which stdin is no program
	never  bool // an option of end was negated
	named  bool // an option named the script
	unsure bool // the next operand may be an option's value
	debug  bool // commands are read from stdin, with any script
	all    bool // every operand is a script

	found []Fault // faults of the paths that the arguments name
}

// read returns the index of the command that the interpreter starts, or -1 if it starts
// no command. It also returns the argument that carries code, and the faults of the
// named paths.
func (p interpreter) read(argv []string, at int, hasStdin bool, b *Budget) (int, *Fault, []Fault) {
	r := &reading{interpreter: p, Budget: b, argv: argv, i: at + 1}
	next, found := r.run()
	if found != nil || next >= 0 {
		return next, found, r.found
	}
	open := !p.data && !r.named && (!r.ended || r.never) && r.i >= len(argv)
	if hasStdin && (open || r.debug) {
		return -1, &Fault{finding.InlineCode, at, "stdin"}, r.found
	}
	return -1, nil, r.found
}

// run reads up to the script. Without a script it leaves i at the end of argv.
func (r *reading) run() (int, *Fault) {
	for ; r.i < len(r.argv) && r.spend(r.argv[r.i]); r.i++ {
		arg := r.argv[r.i]
		if arg == "--" {
			if r.i+1 < len(r.argv) && !r.named && !r.passes {
				r.i++
				if arg = r.argv[r.i]; r.debugs.Has(arg) {
					r.debug = true
					continue
				}
				return -1, r.operand(arg)
			}
			r.i = len(r.argv)
			return -1, nil
		}
		if len(arg) > 1 && arg[0] == '-' {
			found, done := r.option(arg)
			if found || done {
				return -1, r.faultIf(found, r.argv[min(r.i, len(r.argv)-1)])
			}
			continue
		}
		if next, found, done := r.plain(arg); done {
			return next, found
		}
	}
	return -1, nil
}

// plain reads an argument that is no option. done says that no further argument is
// read.
func (r *reading) plain(arg string) (next int, found *Fault, done bool) {
	maybe := r.unsure
	r.unsure = false
	switch {
	case r.codeSubs.Has(arg):
		return -1, r.faultIf(true, arg), true
	case r.nested.Has(arg):
		return nextProgram(r.argv, r.i+1, r.Budget), nil, true
	case r.subs.Has(arg):
		r.ended = r.ended || r.end.Has(arg)
		r.debug = r.debug || r.debugs.Has(arg)
	case r.loose && r.end.Has(strings.ToLower(arg)):
		return -1, nil, true
	case notAFile(arg):
		return -1, r.operand(arg), true
	case maybe, r.loose:
		r.program(r.i)
	case r.named:
		return -1, nil, true
	case r.nested != "" && isProgram(arg) && !startsWrapper(arg):
		return r.i, nil, true
	default:
		return -1, r.operand(arg), true
	}
	return -1, nil, false
}

func (r *reading) faultIf(found bool, value string) *Fault {
	if !found {
		return nil
	}
	return &Fault{finding.InlineCode, min(r.i, len(r.argv)-1), value}
}

// operand checks the first operand, which is the script.
func (r *reading) operand(arg string) *Fault {
	for i := r.i; i < len(r.argv) && (i == r.i || r.all && r.spend(r.argv[i])); i++ {
		if i == r.i || !strings.HasPrefix(r.argv[i], "-") {
			r.program(i)
		}
	}
	return r.faultIf(r.text && !r.named || notAFile(arg), arg)
}

// program checks an operand as the path of a script.
func (r *reading) program(i int) {
	if r.paths != "" && !notAFile(r.argv[i]) {
		r.found = append(r.found, argumentPaths(i, r.argv[i])...)
	}
}

// argumentPaths returns the faults of a path in an argument. Here the path may be a
// folder, or a name that no action could write. Of a URL of a file its path is checked.
func argumentPaths(i int, path string) []Fault {
	if hasScheme(path, "file") {
		_, path, _ = strings.Cut(path, ":")
		path = unescape(path)
	}
	var list []Fault
	for _, f := range pathname.Faults(path) {
		if f.Code != finding.PathForm && f.Code != finding.PathReserved {
			list = append(list, Fault{f.Code, i, f.Value})
		}
	}
	return list
}

// notAFile says whether a script's name is stdin ("-" or the empty name), an open
// descriptor, or a URL that carries or fetches code.
func notAFile(arg string) bool {
	return arg == "-" || arg == "" || isStream(arg) || hasScheme(arg, "blob data http https")
}

// hasScheme says whether s is a URL of one of the schemes.
func hasScheme(s string, schemes text.Words) bool {
	scheme, _, ok := strings.Cut(s, ":")
	return ok && schemes.Has(strings.ToLower(strings.TrimSpace(text.DropInvisible(scheme))))
}

// isStream says whether a path, or a URL of a file, leads to stdin or an open
// descriptor. It checks the path as it is spelled and with ".." resolved. It also finds
// the environment and the arguments of a process, which Linux shows as files.
func isStream(arg string) bool {
	path := arg
	if hasScheme(arg, "file") {
		_, path, _ = strings.Cut(arg, ":")
		path = strings.ReplaceAll(path, `\`, "/")
	}
	bare, _, _ := strings.Cut(path, "?")
	bare, _, _ = strings.Cut(bare, "#")
	for _, p := range []string{path, bare, unescape(bare)} {
		if p = pathname.Clean(p); isStreamPath(p) || isStreamPath(resolved(p)) {
			return true
		}
	}
	return false
}

func isStreamPath(path string) bool {
	dir, last, _ := pathname.CutLast(path)
	_, parent, _ := pathname.CutLast(dir)
	switch {
	case !strings.Contains(dir, "/"):
		return false
	case parent == "dev" && last == "stdin", parent == "fd" && last != "" && strings.Trim(last, "0123456789") == "":
		return true
	}
	return strings.HasPrefix(path, "/proc/") && (last == "environ" || last == "cmdline")
}

// resolved returns a clean path without ".." and without the segments that ".."
// cancels. It drops a ".." that leads out of a relative path, for the path may begin
// anywhere.
func resolved(path string) string {
	if !strings.Contains(path, "..") {
		return path
	}
	var list []string
	for seg := range strings.SplitSeq(path, "/") {
		switch {
		case seg != "..":
			list = append(list, seg)
		case len(list) > 0:
			list = list[:len(list)-1]
		}
	}
	return "/" + strings.Join(list, "/")
}

// unescape decodes the percent-encoding of s, as for the path of a URL.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// option reads one option. found says whether the option carries code, and done whether
// the options end here.
func (r *reading) option(arg string) (found, done bool) {
	r.unsure = false
	name, value, attached := strings.Cut(arg, "=")
	if r.fold && strings.HasPrefix(name, "--") {
		name = strings.ReplaceAll(name, "_", "-")
	}
	long := strings.HasPrefix(name, "--")
	if r.code.Has(name) || long && !r.fold && carries(r.code, r.value+" "+r.flag, name) {
		return true, true
	}
	if !attached && !long && len(arg) > 2 && !r.known(name) {
		if r.cluster {
			return r.letters(arg)
		}
		if r.code.Has(arg[:2]) {
			return true, true
		}
	}
	if !long && attached && len(name) > 2 && r.cluster {
		return r.letters(arg)
	}
	r.ended = r.ended || r.end.Has(name)
	positive := "--" + strings.TrimPrefix(name, "--no-")
	if long && positive != name && r.end.Has(positive) {
		r.never = true
	}
	if attached && hasScheme(value, "blob data") {
		return true, true
	}
	r.all = r.all || r.each.Has(name)
	if r.paths.Has(name) && attached {
		r.found = append(r.found, argumentPaths(r.i, value)...)
	} else if r.paths.Has(name) && r.i+1 < len(r.argv) {
		r.found = append(r.found, argumentPaths(r.i+1, r.argv[r.i+1])...)
	}
	switch {
	case r.value.Has(name), r.script.Has(name), r.module.Has(name):
		return r.takes(name, value, attached)
	case attached, r.flag.Has(name), r.end.Has(name), long && (r.flag.Has(positive) || r.end.Has(positive)):
	default:
		r.unsure = true
	}
	return false, false
}

func (r *reading) known(name string) bool {
	return r.value.Has(name) || r.flag.Has(name) || r.end.Has(name) || r.script.Has(name)
}

// takes reads the value of an option: the attached value or the next argument.
func (r *reading) takes(name, value string, attached bool) (found, done bool) {
	if !attached {
		if r.i+1 >= len(r.argv) {
			return false, false
		}
		value = r.argv[r.i+1]
		if strings.HasPrefix(value, "-") && value != "-" && !r.dashValue {
			return false, false
		}
		r.i++
	}
	switch {
	case !attached && value == "-" && !r.dashValue, hasScheme(value, "blob data"):
		// In some versions of an interpreter the option takes no value, and then "-" is
		// the script.
		return true, true
	case r.module.Has(name):
		module, _, _ := strings.Cut(value, ".")
		return r.modules.Has(module), true
	case r.script.Has(name):
		r.named = true
		found = notAFile(value)
	case r.loads.Has(name):
		found = notAFile(value) || r.builtin != "" && !r.builtin.Has(value)
	default:
		found = slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(value), notOfName), r.risky.Has)
	}
	return found, found
}

// notOfName says whether r cannot be part of a setting's name.
func notOfName(r rune) bool {
	return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
}

// letters reads combined one-letter options. Some interpreters read more options behind
// white space in the same argument, and letters does so for all.
func (r *reading) letters(arg string) (found, done bool) {
	for piece := range strings.FieldsSeq(arg) {
		if piece[0] != '-' {
			continue
		}
		for k := 1; k < len(piece) && piece[k] != ':'; k++ {
			name, after := "-"+piece[k:k+1], piece[k+1:]
			switch {
			case r.code.Has(name):
				return true, true
			case r.value.Has(name), r.script.Has(name), r.module.Has(name):
				if found, done = r.takes(name, after, after != ""); done {
					return found, done
				}
				k = len(piece)
			case r.rest.Has(name) && piece[k-1] != '0':
				k = len(piece)
			case r.end.Has(name):
				r.ended = true
			case r.flag.Has(name), piece[k] >= '0' && piece[k] <= '9':
			default:
				r.unsure = true
			}
		}
	}
	return false, false
}
