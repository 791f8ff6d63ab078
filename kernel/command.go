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

// has says whether word is one of the words. A word with white space in it is
// none.
func (l words) has(word string) bool {
	if word == "" || len(word) > 64 || strings.ContainsAny(word, " \t\n") {
		return false
	}
	for from := 0; ; {
		i := strings.Index(string(l[from:]), word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || l[start-1] <= ' ') && (end == len(l) || l[end] <= ' ') {
			return true
		}
		from = start + 1
	}
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
	shells words // operands behind which a command line, or a shell, follows
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
		names: "npm", subs: "exec exe x", must: true, shells: "edit explo explor explore",
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
			if i++; !behind && i < len(argv) && r.subs.has(argv[i]) {
				behind = true
				i++
			}
			if first < 0 && behind && i < len(argv) {
				first = i
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
		case !behind && r.shells.has(arg):
			return -1, &argFault{FindInlineCode, i, arg}
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
		"wrappers":            strings.Fields(string(wrappers)),
		"placeholder_words":   placeholderTable(),
		"contradiction_terms": contradictionTable(),
	}
	for w := range strings.FieldsSeq(string(findStarts)) {
		tables["wrappers"] = append(tables["wrappers"], "find "+w)
	}
	for _, r := range runners {
		tables["runners"] = append(tables["runners"], strings.Fields(string(r.names))...)
		tables["inline_code"] = append(tables["inline_code"], eachWith(r.names, r.code+" "+r.always+" "+r.shells)...)
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
