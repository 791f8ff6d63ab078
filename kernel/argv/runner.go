package argv

import (
	"strings"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/text"
)

// runner is a program that starts the command named by its operands, as a shell in the
// project's folder would.
type runner struct {
	names  text.Words
	subs   text.Words // operands that come before the command
	must   bool       // a command follows only behind one of subs
	shells text.Words // operands; behind one, a command line or a shell follows
	stores text.Words // operands that store a script or a shell; "config:set" is two operands
	calls  text.Words // operands that start no command, but obey the options in code
	code   text.Words // options that carry a command line, or name a program
	always text.Words // like code, also behind every other sub-command
	value  text.Words // options whose value is the next argument
	flag   text.Words // options without a value
	end    text.Words // options; with one, nothing runs
	paths  text.Words // options whose value is a path

	// scripts are the sub-commands that may start a script of the project, and the
	// runner's own name where it may do so without a sub-command. Behind one of
	// scripts, the name of a wrapper is only the name of a script.
	scripts text.Words

	nopt  bool // options are read as npm reads them
	shell bool // a shell starts where no command follows
}

var runners = []runner{
	{
		names: "npm", subs: "exec exe x", must: true, nopt: true, shell: true,
		shells: "ed edi edit explo explor explore",
		stores: "set set-script config:set config:edit confi:set confi:edit conf:set conf:edit con:set con:edit c:set c:edit pkg:set pk:set",
		calls:  "init ini inn inni innit create creat crea cre cr",
		code:   "-c --call", always: npmAlways, value: npmValue, flag: npmFlag, end: npmEnd, paths: npmPaths,
	},
	{
		names: "npx pnpx", code: "-c --call --shell-mode --node-arg -n", nopt: true, shell: true,
		always: npmAlways, value: npmValue + " -p", flag: npmFlag, end: npmEnd, paths: npmPaths,
	},
	{
		names: "pnpm", subs: "exec dlx run", scripts: "run pnpm", code: "-c --shell-mode", nopt: true,
		stores: "set config:set c:set pkg:set",
		always: `--node-options --script-shell --shell-emulator --pnpmfile --global-pnpmfile --userconfig --globalconfig
			--init-module --node-gyp`,
		value: "-C --dir -F --filter --filter-prod --package --reporter --loglevel --workspace-concurrency",
		flag:  "-r --recursive -w --workspace-root -s --silent --parallel --stream --if-present",
		paths: "-C --dir --cafile --lockfile-dir --modules-dir --pack-destination --prefix --state-dir --store-dir --virtual-store-dir",
	},
	{
		names: "yarn yarnpkg", subs: "exec dlx run", scripts: "run yarn yarnpkg", stores: "set config:set plugin:import",
		always: "--use-yarnrc --script-shell", value: "--cwd -p --package", flag: "-s --silent -q --quiet -T -B",
		paths: "--cache-folder --cafile --cwd --global-folder --link-folder --modules-folder --out --preferred-cache-folder",
	},
	{names: "bunx", value: "-p --package --cwd", code: "-c --config --env-file", flag: "--bun -b --verbose --silent --no-install"},
	{names: "uv", subs: "run", must: true, code: "--env-file", value: "-p --python --with --with-editable --with-requirements --extra --group --directory --project --package -m --module", flag: "--no-sync --frozen --locked --isolated --offline -q --quiet -v --verbose"},
	{names: "uvx", value: "-p --python --with --from --index", code: "--env-file", flag: "--isolated --offline -q -v"},
	{names: "pipx poetry pdm hatch rye pixi", subs: "run", must: true, value: "-C --directory -P --project --spec --pip-args", flag: "-q -v -n"},
	{names: "bundle bundler", subs: "exec", must: true, flag: "--keep-file-descriptors"},
	{names: "corepack", flag: "--version"},
}

// npmAlways are npm's options that name a program, or a file that may name a program.
// npmValue are the options that take the next argument, and npmFlag those that do not.
// An option that only some versions of npm have is in neither list.
const (
	npmAlways text.Words = `--node-options --script-shell --shell --editor --viewer --browser --git --userconfig --globalconfig --init-module
		--init.module --node-gyp`
	npmValue text.Words = ` --access --allow-directory --allow-file --allow-git --allow-remote --allow-scripts --also
		--audit-level --auth-type --before --ca --cache --cache-max --cache-min --cafile --cert --cidr --cpu --depth --diff --diff-dst-prefix --diff-src-prefix --diff-unified --enjoy-by --expect-result-count --fetch-retries
		--fetch-retry-factor --fetch-retry-maxtimeout --fetch-retry-mintimeout --fetch-timeout --heading --https-proxy
		--include --init-author-email --init-author-name --init-author-url --init-license --init-version --install-strategy
		--key --libc --local-address --location --lockfile-version --loglevel --logs-dir --logs-max --maxsockets --message
		-m --noproxy --omit --only --os --otp -L --pack-destination --package --prefix -C --preid --proxy --provenance-file
		--registry --reg --replace-registry-host --save-prefix --sbom-format --sbom-type --scope --searchexclude --searchlimit
		--searchopts --searchstaleness --tag --tag-version-prefix --umask --user-agent --which --workspace -w -e`
	npmFlag text.Words = ` --all -a --allow-same-version --audit --no-audit --bin-links --no-bin-links --color --no-color
		--commit-hooks --no-commit-hooks -d -dd -ddd --desc --description --dev --diff-ignore-all-space --diff-name-only
		--diff-no-prefix --diff-text --dry-run --engine-strict --force -f --foreground-scripts --format-package-lock --fund
		--no-fund --git-tag-version --no-git-tag-version --global -g --global-style --help -h -H -? --if-present
		--ignore-scripts --include-attestations --include-staged --include-workspace-root --install-links --iwr --json
		--legacy-bundling --legacy-peer-deps --link --local --long -l --no --no-install --no-yes -n --offline
		--omit-lockfile-registry-resolved --optional --no-optional --package-lock --no-package-lock --package-lock-only
		--parseable -p --porcelain --prefer-dedupe --prefer-offline --prefer-online --production --prod --progress
		--no-progress --provenance --quiet -q --read-only --readonly --rebuild-bundle --save -S --no-save --save-bundle -B
		--save-dev -D --save-exact -E --save-optional -O --save-peer --save-prod -P --shrinkwrap --silent -s
		--sign-git-commit --sign-git-tag --strict-peer-deps --strict-ssl --timing --unicode --update-notifier
		--no-update-notifier --usage --verbose --version --versions -v --workspaces --workspaces-update --ws -y --yes`
	npmPaths text.Words = "--cache --cafile --certfile --global-prefix --keyfile --local-prefix --logs-dir --pack-destination --prefix -C --provenance-file --workspace -w"

	npmEnd text.Words = "--version --versions -v --usage --help -h -H -?"

	// npmSingles are the letters that may be combined behind one dash. npmLiterals are
	// the values that an option without a value still takes.
	npmSingles             = "dqsnacfgLlmpCSBDEOP?Hhvwy"
	npmLiterals text.Words = "true false null always"
)

// starting is the state of reading one runner's arguments.
type starting struct {
	runner
	*Budget
	known text.Words // value and flag
	argv  []string
	name  string
	i     int

	behind  bool   // a command may follow
	sub     bool   // one of subs was read
	other   bool   // a sub-command was read that starts no command
	settled bool   // one of calls was read
	pair    string // the first operand of a pair of stores
	via     string // the name of the program or sub-command that starts the command
	plain   bool   // "--" was read
	unsure  bool   // the next operand may be an option's value
	literal bool   // the next operand is an option's value if it is one of npmLiterals
	skipped bool   // an operand was read as a value
	ended   bool   // an option was read with which nothing runs
	never   bool   // an option of end was negated or may have another value

	operands []operand
	packages []Fault // packages that options name and that are fetched from an address of their own
	named    []Fault // paths that options name

	first   int // index of the command
	perhaps int // index of an operand that is the command or an option's value
}

// read returns the index of the command that a runner starts, and the index of an
// operand that may be the command instead. Each is -1 if there is none. The result found
// is the runner's own argument that carries code; also lists the other faults of the
// runner's arguments.
func (r runner) read(argv []string, at int, hasStdin bool, b *Budget) (next, perhaps int, found *Fault, also []Fault) {
	s := &starting{runner: r, Budget: b, known: r.value + " " + r.flag, argv: argv, name: baseName(argv[at]), i: at + 1, behind: !r.must, via: baseName(argv[at]), first: -1, perhaps: -1}
	for done := false; s.i < len(argv) && !done && s.spend(argv[s.i]); s.i++ {
		arg := argv[s.i]
		switch {
		case !s.plain && isDashes(arg) && (s.nopt || arg == "--"):
			s.plain, s.unsure, s.literal = true, false, false
		case !s.plain && len(arg) > 1 && arg[0] == '-':
			found = s.option(arg)
		default:
			if !s.literal || !npmLiterals.Has(arg) {
				s.operands = append(s.operands, operand{s.i, s.unsure})
			}
			done, found = s.operand(arg)
		}
		if found != nil {
			return -1, -1, found, append(s.named, s.network()...)
		}
	}
	also = append(s.named, s.network()...)
	if s.first < 0 {
		s.first, s.perhaps = s.perhaps, -1
	}
	open := s.shell && s.behind && s.first < 0 && (!s.ended || s.never)
	if open && (hasStdin || !s.skipped) {
		return -1, -1, &Fault{finding.InlineCode, at, "stdin"}, also
	}
	return s.first, s.perhaps, nil, also
}

// option reads one option, and its value.
func (s *starting) option(arg string) *Fault {
	valued := s.unsure // the argument may be the value of the option before it
	s.unsure, s.literal = false, false
	fault := &Fault{finding.InlineCode, s.i, arg}
	o := s.parse(arg)
	s.look(o)
	switch {
	case carries(s.always, s.known, o.name), s.nopt && o.negated() && carries(s.always, s.known, o.yes) && o.valued():
		return fault
	case s.other:
	case carries(s.code, s.known, o.name) || strings.Contains(o.letters, "c") && s.code.Has("-c"):
		return fault
	case s.nopt && s.hidesOwn(o):
		return fault
	case s.nopt && s.hidesNext(o):
		return &Fault{finding.InlineCode, s.i + 1, o.next}
	}
	if s.end.Has(o.name) {
		s.ended = true
		s.never = s.never || valued || o.attached && o.value != "true" || npmLiterals.Has(o.next)
	} else if o.negated() && carries(s.end, "", o.yes) {
		s.never = true
	}
	switch {
	case o.attached:
	case s.takes(o.name):
		if o.more && !isDashes(o.next) {
			s.i++
		}
	case s.isFlag(o):
		s.literal = s.nopt
	default:
		s.unsure = true
	}
	return nil
}

// look checks the path or the package that an option names.
func (s *starting) look(o given) {
	value, at := o.value, s.i
	if !o.attached {
		value, at = o.next, s.i+1
	}
	if value == "" {
		return
	}
	if carries(s.runner.paths, s.known, o.name) {
		s.named = append(s.named, argumentPaths(at, value)...)
	}
	for _, g := range registries {
		if g.names.Has(s.name) && carries(g.option, s.known, o.name) && isRemote(value) {
			s.packages = append(s.packages, Fault{finding.NetworkNeeded, at, value})
		}
	}
}

// given is an option as argv has it, with the argument behind it.
type given struct {
	name, yes, letters string // yes is the name without "no-"
	value              string
	attached           bool // the value is attached to the option
	next               string
	more               bool // there is a next argument
}

func (s *starting) parse(arg string) given {
	var o given
	o.name, o.value, o.attached = strings.Cut(arg, "=")
	o.name, o.letters = s.spelled(o.name)
	o.yes = positive(o.name)
	if o.more = s.i+1 < len(s.argv); o.more {
		o.next = s.argv[s.i+1]
	}
	return o
}

func (o given) negated() bool { return o.yes != o.name }

// valued says whether npm takes a value for a negated option whose positive form takes
// one: "--no-script-shell x" sets script-shell to x.
func (o given) valued() bool {
	short := len(o.next) > 1 && o.next[0] == '-' && o.next[1] != '-'
	return o.attached || o.more && !short && !npmLiterals.Has(o.next)
}

func (s *starting) isFlag(o given) bool {
	return s.flag.Has(o.name) || s.nopt && s.flag.Has(o.yes)
}

// hidesOwn says whether npm reads the attached value as a separate argument. npm does
// so for an option without a value, and for a value that begins with a dash.
func (s *starting) hidesOwn(o given) bool {
	if strings.Trim(o.name, "-") == "" {
		return true
	}
	if !o.attached {
		return false
	}
	if s.takes(o.name) {
		return strings.HasPrefix(o.value, "-")
	}
	return (s.isFlag(o) || o.negated()) && !npmLiterals.Has(o.value)
}

// hidesNext says whether the next argument is an option that npm may read as the value
// of this one. The answer depends on the option and the version of npm.
func (s *starting) hidesNext(o given) bool {
	if o.attached || len(o.next) < 2 || o.next[0] != '-' || isDashes(o.next) {
		return false
	}
	if s.takes(o.name) {
		return true
	}
	name, _ := s.spelled(o.next)
	return s.shell && !s.isFlag(o) && s.takes(name)
}

func isDashes(arg string) bool { return len(arg) > 1 && strings.Trim(arg, "-") == "" }

// takes says whether an option takes the next argument as its value. npm accepts an
// unambiguous beginning of an option's name.
func (s *starting) takes(name string) bool {
	if s.value.Has(name) {
		return true
	}
	return s.nopt && !s.flag.Has(name) && carries(s.value, "", name) && !carries(s.flag, "", name)
}

// spelled returns an option's name as the tables spell it, and the letters of a
// cluster. npm ignores the number of dashes: "-call" is "--call", and "--yc" is "-yc".
func (s *starting) spelled(name string) (full, letters string) {
	if !s.nopt {
		return longForm(name), ""
	}
	bare := strings.TrimLeft(name, "-")
	bare = strings.TrimPrefix(bare, "config.")
	if len(bare) < 2 {
		return "-" + bare, bare
	}
	full = "--" + bare
	if s.value.Has(full) || s.flag.Has(full) || s.always.Has(full) || s.code.Has(full) {
		return full, ""
	}
	if strings.Trim(bare, npmSingles) == "" {
		if last := "-" + bare[len(bare)-1:]; last != "-p" {
			return last, bare
		}
		return full, bare // npx reads a single -p as another option
	}
	if !strings.HasPrefix(name, "--") && !carries(s.known, "", full) {
		return full, bare
	}
	return full, ""
}

// positive returns a long option's name without any "no-" at its start.
func positive(name string) string {
	bare, ok := strings.CutPrefix(name, "--")
	for ok && len(bare) > 3 && strings.EqualFold(bare[:3], "no-") {
		bare = bare[3:]
	}
	if !ok {
		return name
	}
	return "--" + bare
}

// operand reads an argument that is no option. done says that no further argument is
// read.
func (s *starting) operand(arg string) (done bool, found *Fault) {
	maybe := s.unsure
	value := s.literal && npmLiterals.Has(arg)
	s.unsure, s.literal = false, false
	if value || s.other || s.settled || s.first >= 0 {
		return false, nil
	}
	fault := &Fault{finding.InlineCode, s.i, arg}
	if !s.sub && s.pair != "" {
		if s.stores.Has(s.pair + ":" + arg) {
			return false, fault
		}
		s.other = !maybe
		return false, nil
	}
	switch {
	case s.subs.Has(arg) && (!s.behind || !s.must):
		s.behind, s.sub, s.via = true, true, arg
	case !s.behind && s.shells.Has(arg), !s.sub && s.stores.Has(arg):
		return false, fault
	case !s.sub && arg != "" && s.stores.Starts(arg+":"):
		s.pair = arg
	case !s.behind && s.calls.Has(arg):
		s.settled = true
	case maybe:
		if s.perhaps < 0 && s.behind && isProgram(arg) {
			s.perhaps = s.i
		} else {
			s.skipped = true
		}
	case !s.behind:
		s.other = true
	case isLine(arg), notAFile(arg):
		return false, fault
	case s.scripts.Has(s.via) && startsWrapper(arg):
		return true, nil
	default:
		// npm also reads its own options behind the command.
		s.first = s.i
		return !s.must || !s.nopt || s.plain, nil
	}
	return false, nil
}

func startsWrapper(arg string) bool {
	_, ok := isWrapper(baseName(arg))
	return ok
}

// longForm returns the name of an option with two dashes: "-call" becomes "--call".
func longForm(name string) string {
	bare := strings.TrimLeft(name, "-")
	if len(bare) < 2 || strings.HasPrefix(name, "--") && !strings.HasPrefix(name, "---") {
		return name
	}
	return "--" + bare
}

// carries says whether name is in the list, or is the beginning of a long name in it. A
// known name does not count as a beginning.
func carries(list, known text.Words, name string) bool {
	if list.Has(name) {
		return true
	}
	if len(name) < 4 || !strings.HasPrefix(name, "--") || known.Has(name) {
		return false
	}
	return list.Starts(name)
}

// isLine says whether an operand is a command line and not a name.
func isLine(arg string) bool { return strings.ContainsAny(arg, " \t\r\n;|&$`<>()") }
