package kernel

import "strings"

// interpreter is the published table of one interpreter, or of several that
// read their options alike.
type interpreter struct {
	names  words
	code   words // options that carry code, or load it before the script
	value  words // options that take a value
	flag   words // options that take none
	rest   words // one-letter options whose value, if there is one, is attached
	end    words // options, or operands, behind which no program is read from stdin
	script words // options whose value is the script

	module  words // options whose value is a module to run; they end the options
	modules words // modules that take code from their arguments or from stdin
	risky   words // settings that load code, given as an option's value up to "="

	subs     words // operands behind which more options follow
	codeSubs words // operands that carry code
	nested   words // operands behind which another command follows

	cluster   bool // one-letter options may stand together, a value may be attached
	dashValue bool // the value of an option may begin with a dash
	fold      bool // underscores in long options are dashes
	text      bool // the first operand is the program's text
	data      bool // stdin is data, never the program
	loose     bool // operands are not scripts: stdin is the program all the same
	passes    bool // what follows "--" is for the program, and is not the script
}

var interpreters = []interpreter{
	{
		names: "node babel-node coffee electron esno nodejs ts-node ts-node-esm ts-node-script tsx",
		code: `-e --eval -p --print -pe -r --require -i --interactive --import --loader --experimental-loader
			--test-global-setup`,
		value: nodeValue, flag: nodeFlag, fold: true,
		end:  "-h --help -v --version --completion-bash --v8-options --test --run --prof-process --build-sea --experimental-sea-config",
		subs: "inspect debug watch",
	},
	{
		names: "deno",
		code:  "-e --eval --eval-file --import --preload --require",
		value: "-c --config --import-map --lock --cert --location --seed -L --log-level --ext --filter --host --port",
		flag: `-A --allow-all --allow-env --allow-ffi --allow-import --allow-net --allow-read --allow-run --allow-sys --allow-write
			-R -W -N -E -S -I -P -q --quiet --check --no-check --watch --unstable -r --reload --no-lock --frozen --cached-only
			--no-config --no-prompt --no-remote --no-npm --node-modules-dir --inspect --inspect-brk --inspect-wait`,
		end: "-h --help -V --version bench check test", subs: "bench check run serve test", codeSubs: "eval repl", fold: true,
	},
	{
		names: "bun",
		code:  "-e --eval -p --print -r --preload --require --import",
		value: "--cwd -c --config -d --define -l --loader --env-file --tsconfig-override --conditions --main-fields --port --filter -F",
		flag:  "-b --bun --hot --watch --silent --smol -i --no-install --inspect --inspect-brk --inspect-wait --if-present",
		end:   "-h --help -v --version --revision test", subs: "run test", codeSubs: "exec repl", nested: "x",
	},
	{
		names: "python ipython jython micropython pypy pythonw py", cluster: true, dashValue: true,
		code:  "-c -i",
		value: "-W -X -Q --check-hash-based-pycs",
		flag:  "-b -B -d -E -I -J -O -P -q -R -s -S -t -u -v -x",
		end:   "-h -? -V --help --help-all --help-env --help-xoptions --version",
		// A module is a file; these few are code in another dress.
		module: "-m", modules: "IPython asyncio bdb code codeop doctest idlelib pdb profile runpy sqlite3 timeit trace xonsh",
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
		code:   "-r -B -R -E -a --run --process-begin --process-code --process-end --interactive",
		value:  "-c --php-ini -d --define -S --server -t --docroot -z --zend-extension --rf --rc --re --rz --ri",
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

// nodeValue and nodeFlag are the options of Node.js that take a value, the next
// argument unless "=" attaches it, and those that take none. Flags of V8 are
// unknown but for the common ones.
const (
	nodeValue words = `--allow-fs-read --allow-fs-write --build-sea --build-snapshot-config -C --conditions --cpu-prof-dir
		--cpu-prof-interval --cpu-prof-name --debug-port --diagnostic-dir --disable-proto --disable-warning
		--dns-result-order --env-file --env-file-if-exists --es-module-specifier-resolution --experimental-config-file
		--experimental-default-type --experimental-policy --experimental-sea-config --experimental-test-isolation --heap-prof-dir
		--heap-prof-interval --heap-prof-name --heapsnapshot-near-heap-limit --heapsnapshot-signal --icu-data-dir
		--input-type --inspect-port --inspect-publish-uid --localstorage-file --max-http-header-size
		--network-family-autoselection-attempt-timeout --openssl-config --policy-integrity --redirect-warnings
		--report-dir --report-directory --report-filename --report-signal --run --secure-heap --secure-heap-min
		--security-revert --snapshot-blob --test-concurrency --test-coverage-branches --test-coverage-exclude
		--test-coverage-functions --test-coverage-include --test-coverage-lines --test-isolation --test-name-pattern
		--test-reporter --test-reporter-destination --test-shard --test-skip-pattern --test-timeout --title
		--tls-cipher-list --tls-keylog --trace-event-categories --trace-event-file-pattern --trace-require-module
		--unhandled-rejections --use-largepages --v8-pool-size --watch-kill-signal --watch-path`
	nodeFlag words = `--abort-on-uncaught-exception --addons --allow-addons --allow-child-process --allow-natives-syntax
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

// reading is where the reading of one interpreter's options stands.
type reading struct {
	interpreter
	argv   []string
	i      int
	ended  bool // an option behind which stdin is no program
	named  bool // an option named the script
	unsure bool // the next operand may be an option's value
}

// read returns the index of the command that the interpreter starts in its
// turn, -1 if it starts none, or the argument that carries code.
func (p interpreter) read(argv []string, at int, hasStdin bool) (int, *argFault) {
	r := &reading{interpreter: p, argv: argv}
	for r.i = at + 1; r.i < len(argv); r.i++ {
		arg := argv[r.i]
		if arg == "--" {
			if r.i+1 < len(argv) && !r.named && !p.passes {
				r.i++
				return -1, r.operand(argv[r.i])
			}
			break
		}
		if len(arg) > 1 && arg[0] == '-' {
			found, done := r.option(arg)
			if found || done {
				return -1, r.faultIf(found, argv[min(r.i, len(argv)-1)])
			}
			continue
		}
		maybe := r.unsure
		r.unsure = false
		switch {
		case p.codeSubs.has(arg):
			return -1, r.faultIf(true, arg)
		case p.nested.has(arg):
			return nextProgram(argv, r.i+1), nil
		case p.subs.has(arg):
			r.ended = r.ended || p.end.has(arg)
		case p.loose && p.end.has(strings.ToLower(arg)):
			return -1, nil
		case notAFile(arg):
			return -1, r.operand(arg)
		case maybe, p.loose:
		case r.named:
			return -1, nil
		case p.nested != "" && isProgram(arg) && !startsWrapper(arg):
			return r.i, nil
		default:
			return -1, r.operand(arg)
		}
	}
	if hasStdin && !p.data && !r.ended && !r.named {
		return -1, &argFault{FindInlineCode, at, "stdin"}
	}
	return -1, nil
}

func (r *reading) faultIf(found bool, value string) *argFault {
	if !found {
		return nil
	}
	return &argFault{FindInlineCode, min(r.i, len(r.argv)-1), value}
}

// operand judges the first operand, the script.
func (r *reading) operand(arg string) *argFault {
	return r.faultIf(r.text && !r.named || notAFile(arg), arg)
}

// notAFile says whether a script's name stands for stdin (the empty name does), an open descriptor,
// or a URL that carries or fetches code.
func notAFile(arg string) bool {
	if arg == "-" || arg == "" {
		return true
	}
	path := CleanPath(strings.TrimPrefix(arg, "file://"))
	dir, last, _ := cutLast(path)
	if last == "stdin" && (dir == "/dev" || strings.HasSuffix(dir, "/dev")) {
		return true
	}
	if (dir == "/dev/fd" || strings.HasSuffix(dir, "/fd")) && last != "" && strings.Trim(last, "0123456789") == "" {
		return true
	}
	scheme, _, ok := strings.Cut(arg, ":")
	return ok && words("blob data http https").has(strings.ToLower(strings.TrimSpace(scheme)))
}

// option reads one option: whether it carries code, and whether it ends the
// options without doing so.
func (r *reading) option(arg string) (found, done bool) {
	r.unsure = false
	name, value, attached := strings.Cut(arg, "=")
	if r.fold && strings.HasPrefix(name, "--") {
		name = strings.ReplaceAll(name, "_", "-")
	}
	long := strings.HasPrefix(name, "--")
	if r.code.has(name) || long && !r.fold && carries(r.code, name) {
		return true, true
	}
	if !attached && !long && len(arg) > 2 && !r.known(name) {
		if r.cluster {
			return r.letters(arg)
		}
		if r.code.has(arg[:2]) {
			return true, true
		}
	}
	if !long && attached && len(name) > 2 && r.cluster {
		return r.letters(arg)
	}
	r.ended = r.ended || r.end.has(name)
	positive := "--" + strings.TrimPrefix(name, "--no-")
	switch {
	case r.value.has(name), r.script.has(name), r.module.has(name):
		return r.takes(name, value, attached)
	case attached, r.flag.has(name), r.end.has(name), long && r.flag.has(positive):
	default:
		r.unsure = true
	}
	return false, false
}

func (r *reading) known(name string) bool {
	return r.value.has(name) || r.flag.has(name) || r.end.has(name) || r.script.has(name)
}

// takes reads the value of an option, attached or the next argument.
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
	case r.module.has(name):
		module, _, _ := strings.Cut(value, ".")
		return r.modules.has(module), true
	case r.script.has(name):
		r.named = true
		found = notAFile(value)
	default:
		setting, _, _ := strings.Cut(strings.ToLower(value), "=")
		found = r.risky.has(strings.TrimSpace(setting))
	}
	return found, found
}

// letters reads one-letter options that stand together. An interpreter that
// reads on behind white space in the same argument is read on as well.
func (r *reading) letters(arg string) (found, done bool) {
	for piece := range strings.FieldsSeq(arg) {
		if piece[0] != '-' {
			continue
		}
		for k := 1; k < len(piece) && piece[k] != ':'; k++ {
			name, after := "-"+piece[k:k+1], piece[k+1:]
			switch {
			case r.code.has(name):
				return true, true
			case r.value.has(name), r.script.has(name), r.module.has(name):
				if found, done = r.takes(name, after, after != ""); done {
					return found, done
				}
				k = len(piece)
			case r.rest.has(name) && piece[k-1] != '0':
				k = len(piece)
			case r.end.has(name):
				r.ended = true
			case r.flag.has(name), piece[k] >= '0' && piece[k] <= '9':
			default:
				r.unsure = true
			}
		}
	}
	return false, false
}
