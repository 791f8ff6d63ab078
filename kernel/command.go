package kernel

import (
	"slices"
	"strconv"
	"strings"
)

// The command detector reads an argv as the program that it names would, as far
// as needed to see whether the code that runs is a file or part of the argv.
// Its findings, in the order in which they are reported:
//
//	command_path       argv[0] contains a slash or backslash, or is "." or ".."
//	command_character  argv[0] is empty or has a character outside 0x21 to 0x7e
//	command_shell      a shell runs
//	command_wrapper    a program runs that is there to start another
//	inline_code        an interpreter gets code from an argument or from stdin,
//	                   or is told to load other code before the script
//
// Names are compared in lower case, without folder, Windows extension and
// version ("python3.12" is python). What follows a wrapper (env, xargs) or a
// runner (npx, npm exec) is read as a command of its own, its finding pointing
// at its own argument.
//
// An interpreter's options are read up to its first operand, the script; what
// follows is the script's own. An option that no table knows may or may not
// take the next argument as its value, so that argument is not taken for the
// script, and reading goes on to the one after it. Tools whose arguments are a
// language of their own but that are no interpreters (sed, git, make, tar) are
// in no table: allowing one of them is allowing what it can run.

// argFault is a finding about an argv: its code, the index of the argument it
// fired on (of the program's name for stdin), and the text.
type argFault struct {
	code  string
	arg   int
	value string
}

// words is a closed list of words, separated by white space.
type words string

func (l words) has(word string) bool {
	for w := range strings.FieldsSeq(string(l)) {
		if w == word {
			return true
		}
	}
	return false
}

const (
	shells words = `ash bash busybox cmd csh dash elvish fish ion ksh ksh93 lksh mksh nu oksh osh pdksh posh
		powershell pwsh rbash rc rksh rzsh sash sh tcsh toybox xonsh yash ysh zsh`

	wrappers words = `arch builtin bwrap capsh catchsegv chroot chrt chpst command concurrently cpulimit cross-env
		cross-env-shell daemonize dbus-run-session doas dotenv eatmydata entr env eval exec faketime fakeroot firejail
		flatpak-spawn flock gdb gtimeout ionice ld.so linux32 linux64 lldb ltrace nice nodemon nohup nsenter numactl
		nsjail parallel perf pkexec proot prlimit rlwrap run0 runcon runuser screen script setarch setpriv setsid softlimit ssh start-stop-daemon
		stdbuf strace su sudo systemd-run taskset time timeout tmux torsocks tsocks unbuffer unshare valgrind watch
		watchexec xargs xvfb-run`

	// findStarts are the options with which find starts programs.
	findStarts words = "-exec -execdir -ok -okdir"
)

// runner is a program that starts the command its operands name, the way a
// shell in the project's folder would.
type runner struct {
	names  words
	subs   words // operands that come before the command
	must   bool  // only behind one of subs is there a command
	code   words // options that carry a command line, or name a program
	always words // like code, and behind every other sub-command too
	value  words // options whose value is the next argument
	flag   words // options without a value

	// scripts are what may start a script of the project: a wrapper's name
	// behind them, or behind no sub-command, is only a script's.
	scripts words
}

var runners = []runner{
	{
		names: "npm", subs: "exec exe x", must: true,
		code:   "-c --call",
		always: "--node-options --script-shell --shell --editor --viewer --git",
		value:  npmValue, flag: npmFlag,
	},
	{
		names: "npx pnpx", code: "-c --call --shell-mode --node-arg -n",
		always: "--node-options --script-shell --shell --editor --viewer --git",
		value:  npmValue + " -p", flag: npmFlag,
	},
	{
		names: "pnpm", subs: "exec dlx run", scripts: "run pnpm", code: "-c --shell-mode",
		always: "--node-options --script-shell --shell-emulator",
		value:  "-C --dir -F --filter --filter-prod --package --reporter --loglevel --workspace-concurrency",
		flag:   "-r --recursive -w --workspace-root -s --silent --parallel --stream --if-present",
	},
	{names: "yarn yarnpkg", subs: "exec dlx run", scripts: "run yarn yarnpkg", always: "--use-yarnrc --script-shell", value: "--cwd -p --package", flag: "-s --silent -q --quiet -T -B"},
	{names: "bunx", value: "-p --package --cwd -c --config", flag: "--bun -b --verbose --silent --no-install"},
	{names: "uv", subs: "run", must: true, value: "-p --python --with --with-editable --with-requirements --extra --group --env-file --directory --project --package -m --module", flag: "--no-sync --frozen --locked --isolated --offline -q --quiet -v --verbose"},
	{names: "uvx", value: "-p --python --with --from --index", flag: "--isolated --offline -q -v"},
	{names: "pipx poetry pdm hatch rye pixi", subs: "run", must: true, value: "-C --directory -P --project --spec --pip-args", flag: "-q -v -n"},
	{names: "bundle bundler", subs: "exec", must: true, flag: "--keep-file-descriptors"},
	{names: "corepack", flag: "--version"},
}

// npmValue and npmFlag are npm's options that take the next argument, and that
// do not.
const (
	npmValue = ` --access --audit-level --auth-type --before --ca --cache --cafile --cert --cidr --cpu --depth --diff
		--fetch-retries --fetch-timeout --globalconfig --heading --https-proxy --include --install-strategy --key --libc
		--local-address --location --lockfile-version --loglevel --logs-dir --logs-max --maxsockets --message -m --noproxy
		--omit --only --os --otp --pack-destination --package --prefix -C --preid --proxy --registry --reg --sbom-format
		--scope --searchlimit --tag --tag-version-prefix --umask --user-agent --userconfig --which --workspace -w`
	npmFlag = ` --all -a --audit --no-audit --bin-links --no-bin-links --color --no-color --commit-hooks --no-commit-hooks
		-d -dd -ddd --dev --dry-run --engine-strict --force -f --foreground-scripts --fund --no-fund --global -g --help -h -H
		--if-present --ignore-scripts --include-workspace-root --install-links --json --legacy-peer-deps --link --local --long -l --no
		--no-install --no-yes -n --offline --optional --no-optional --package-lock --no-package-lock --package-lock-only
		--parseable -p --porcelain --prefer-dedupe --prefer-offline --prefer-online --production --prod --progress
		--no-progress --quiet -q --readonly --save -S --no-save --save-dev -D --save-exact -E --save-optional -O --save-peer
		--save-prod -P --silent -s --strict-ssl --timing --unicode --update-notifier --no-update-notifier --usage
		--verbose --version -v --workspaces --ws -y --yes`
)

// isShell, isWrapper and findInterpreter look a folded base name up, as it is
// and without its version.
func isShell(name string) (string, bool) {
	return lookUp(name, shells.has)
}

func isWrapper(name string) (string, bool) {
	if strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") {
		return "ld.so", true
	}
	return lookUp(name, wrappers.has)
}

func findInterpreter(name string) (interpreter, bool) {
	var found interpreter
	_, ok := lookUp(name, func(name string) bool {
		i := slices.IndexFunc(interpreters, func(p interpreter) bool { return p.names.has(name) })
		if i >= 0 {
			found = interpreters[i]
		}
		return i >= 0
	})
	return found, ok
}

func findRunner(name string) (runner, bool) {
	i := slices.IndexFunc(runners, func(r runner) bool { return r.names.has(name) })
	if i < 0 {
		return runner{}, false
	}
	return runners[i], true
}

func lookUp(name string, has func(string) bool) (string, bool) {
	if has(name) {
		return name, true
	}
	bare := trimVersion(name)
	return bare, bare != name && bare != "" && has(bare)
}

// trimVersion drops what makes a versioned name: "python3.12t", "node-20",
// "lua5.4", "node@20".
func trimVersion(name string) string {
	if at := strings.IndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	const digits = "0123456789.-_"
	if n := len(name); n > 1 && strings.IndexByte("dmtu", name[n-1]) >= 0 && strings.IndexByte(digits, name[n-2]) >= 0 {
		name = name[:n-1]
	}
	return strings.TrimRight(name, digits)
}

// baseName is the folded name that the tables know a program by.
func baseName(arg string) string {
	if i := strings.LastIndexAny(arg, `/\`); i >= 0 {
		arg = arg[i+1:]
	}
	if len(arg) > 64 {
		return ""
	}
	name := foldSegment(arg)
	for _, ext := range []string{".exe", ".cmd", ".bat", ".com", ".ps1"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// maxNesting bounds how many wrappers and runners may start each other before
// the rest counts as wrapped too deep to tell.
const maxNesting = 8

// commandFaults are the faults of an argv. hasStdin says whether the intent
// gives the command standard input.
func commandFaults(argv []string, hasStdin bool) []argFault {
	if len(argv) == 0 {
		return nil
	}
	var list []argFault
	name := argv[0]
	if strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		list = append(list, argFault{FindCmdPath, 0, name})
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		list = append(list, argFault{FindCmdCharacter, 0, strconv.QuoteToASCII(name[:min(len(name), 80)])})
	}
	list = append(list, startFaults(argv, hasStdin)...)
	slices.SortStableFunc(list, func(a, b argFault) int { return commandRank(a.code) - commandRank(b.code) })
	return list
}

func commandRank(code string) int {
	return slices.Index([]string{FindCmdPath, FindCmdCharacter, FindCmdShell, FindCmdWrapper, FindInlineCode}, code)
}

// startFaults follows the chain of programs that an argv starts.
func startFaults(argv []string, hasStdin bool) []argFault {
	var list []argFault
	at := 0
	for depth := 0; at < len(argv); depth++ {
		name := baseName(argv[at])
		if shell, ok := isShell(name); ok {
			return append(list, argFault{FindCmdShell, at, shell})
		}
		wrapper, wraps := isWrapper(name)
		if depth == maxNesting {
			return append(list, argFault{FindCmdWrapper, at, name})
		}
		from := at + 1
		if name == "find" {
			if i := slices.IndexFunc(argv[at:], findStarts.has); i >= 0 {
				wrapper, wraps, from = "find "+argv[at+i], true, at+i+1
			}
		}
		var next int
		if wraps {
			list = append(list, argFault{FindCmdWrapper, at, wrapper})
			next = nextProgram(argv, from)
		} else if r, ok := findRunner(name); ok {
			var found *argFault
			if next, found = r.read(argv, at); found != nil {
				return append(list, *found)
			}
		} else if p, ok := findInterpreter(name); ok {
			var found *argFault
			if next, found = p.read(argv, at, hasStdin); found != nil {
				return append(list, *found)
			}
		} else {
			return list
		}
		if next < 0 {
			return list
		}
		at = next
	}
	return list
}

// nextProgram is the index of the first argument that names a shell, wrapper,
// runner or interpreter, or -1.
func nextProgram(argv []string, from int) int {
	for i := from; i < len(argv); i++ {
		if isProgram(argv[i]) {
			return i
		}
	}
	return -1
}

func isProgram(arg string) bool {
	if strings.HasPrefix(arg, "-") {
		return false
	}
	name := baseName(arg)
	if _, ok := isShell(name); ok {
		return true
	}
	if _, ok := isWrapper(name); ok {
		return true
	}
	if _, ok := findRunner(name); ok {
		return true
	}
	_, ok := findInterpreter(name)
	return ok || name == "find"
}

// read returns the index of the command that a runner starts, -1 if it starts
// none, or what carries code in its own options.
func (r runner) read(argv []string, at int) (int, *argFault) {
	behind := !r.must // whether a command may follow
	other := false    // behind a sub-command that starts no command
	unsure := false   // whether the next operand may be an option's value
	first := -1
	via := baseName(argv[at])
	for i := at + 1; i < len(argv); i++ {
		arg := argv[i]
		if arg == "--" {
			if first < 0 && behind && i+1 < len(argv) {
				first = i + 1
			}
			break
		}
		if strings.HasPrefix(arg, "-") && len(arg) > 1 {
			name, _, attached := strings.Cut(arg, "=")
			name = longForm(name)
			if carries(r.always, name) || !other && (carries(r.code, name) || r.clustered(name, arg)) {
				return -1, &argFault{FindInlineCode, i, arg}
			}
			if !attached && r.value.has(name) {
				i++
				continue
			}
			unsure = !attached && !r.flag.has(name)
			continue
		}
		maybe := unsure
		unsure = false
		switch {
		case other || first >= 0:
		case r.subs.has(arg) && (!behind || !r.must):
			behind, via = true, arg
		case maybe && !isProgram(arg):
		case !behind:
			other = true
		case isLine(arg):
			return -1, &argFault{FindInlineCode, i, arg}
		case r.scripts.has(via) && startsWrapper(arg):
			return -1, nil
		default:
			// npm reads its own options behind the command as well.
			if first = i; !r.must {
				return first, nil
			}
		}
	}
	return first, nil
}

func startsWrapper(arg string) bool {
	_, ok := isWrapper(baseName(arg))
	return ok
}

// longForm gives an npm option its two dashes: "-call" is "--call".
func longForm(name string) string {
	bare := strings.TrimLeft(name, "-")
	if len(bare) < 2 || strings.HasPrefix(name, "--") && !strings.HasPrefix(name, "---") {
		return name
	}
	return "--" + bare
}

// clustered says whether a cluster of one-letter options carries -c.
func (r runner) clustered(name, arg string) bool {
	if !r.code.has("-c") || strings.HasPrefix(arg, "--") || len(arg) < 3 || len(arg) > 8 {
		return false
	}
	return strings.Contains(arg, "c") && strings.Trim(arg, "-acdfghlnpqsvyBCDEHOPSw") == ""
}

// carries says whether name is in the list, or shortens a long one of it.
func carries(list words, name string) bool {
	for w := range strings.FieldsSeq(string(list)) {
		if w == name || len(name) >= 5 && strings.HasPrefix(name, "--") && strings.HasPrefix(w, name) {
			return true
		}
	}
	return false
}

// isLine says whether an operand is a command line rather than a name.
func isLine(arg string) bool { return strings.ContainsAny(arg, " \t\r\n;|&$`<>()") }

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
		names: "php php-cgi", cluster: true, dashValue: true,
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
			if r.i+1 < len(argv) && !r.named {
				r.i++
				return -1, r.operand(argv[r.i])
			}
			break
		}
		if len(arg) > 1 && arg[0] == '-' {
			found, done := r.option(arg)
			if found || done {
				return -1, r.faultIf(found, arg)
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

// notAFile says whether a script's name stands for stdin, an open descriptor,
// or a URL that carries or fetches code.
func notAFile(arg string) bool {
	if arg == "-" {
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

// DetectorTables are the closed lists of the detectors by name, each sorted, so
// that a specification can be checked against them: control_paths,
// reserved_roots, shells, wrappers, runners, interpreters, inline_code ("node
// -e", and what stands for itself in capitals), placeholder_words and
// contradiction_terms ("stateless / stateful").
func DetectorTables() map[string][]string {
	tables := map[string][]string{
		"control_paths":       slices.Clone(controlPaths),
		"reserved_roots":      slices.Clone(reservedRoots),
		"shells":              strings.Fields(string(shells)),
		"wrappers":            append(strings.Fields(string(wrappers)), "ld.so"),
		"placeholder_words":   placeholderTable(),
		"contradiction_terms": contradictionTable(),
	}
	for w := range strings.FieldsSeq(string(findStarts)) {
		tables["wrappers"] = append(tables["wrappers"], "find "+w)
	}
	for _, r := range runners {
		tables["runners"] = append(tables["runners"], strings.Fields(string(r.names))...)
		tables["inline_code"] = append(tables["inline_code"], eachWith(r.names, r.code+" "+r.always)...)
	}
	for _, p := range interpreters {
		tables["interpreters"] = append(tables["interpreters"], strings.Fields(string(p.names))...)
		tables["inline_code"] = append(tables["inline_code"], p.table()...)
	}
	for _, list := range tables {
		slices.Sort(list)
	}
	return tables
}

// table lists what counts as inline code for the interpreter's names.
func (p interpreter) table() []string {
	list := eachWith(p.names, p.code+" "+p.codeSubs)
	for w := range strings.FieldsSeq(string(p.modules)) {
		for name := range strings.FieldsSeq(string(p.names)) {
			list = append(list, name+" "+string(p.module)+" "+w)
		}
	}
	if p.text {
		list = append(list, eachWith(p.names, "PROGRAM")...)
	}
	if !p.data {
		list = append(list, eachWith(p.names, "STDIN")...)
	}
	return list
}

func eachWith(names, options words) []string {
	var list []string
	for name := range strings.FieldsSeq(string(names)) {
		for option := range strings.FieldsSeq(string(options)) {
			list = append(list, name+" "+option)
		}
	}
	return list
}
