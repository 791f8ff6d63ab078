// Package pathname finds the faults of a path as text, and never looks at a file system.
// It owns the clean form of a path, its folding, and the lists of control paths.
package pathname

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/text"
)

// The path detector examines a path as text and never looks at a file system. It
// reports each finding at most once, in this order:
//
//	path_absolute   a leading "/" or "\", a leading "~", or a drive letter "C:"
//	path_traversal  a ".." segment between slashes of either kind
//	path_backslash  a backslash
//	path_character  a control, invisible, format or bidirectional character, a
//	                line or paragraph separator, a noncharacter, invalid UTF-8
//	path_form       no file name is left, a trailing slash, not NFC, more than
//	                1024 bytes or 255 in a segment, white space (White_Space of
//	                Unicode) at an end of the path, a segment with ":" or ending
//	                in a space or dot, a device name of Windows
//	path_reserved   the first segment, case-folded, is one that a bundle reserves
//	path_control    the path is, or is beneath, a control path
//	agent_instructions  a write to a file that coding agents read as instructions,
//	                or beneath such a folder
//
// A control path is a file or folder that switches checks, hooks or pipelines on or
// off. It is also a file that a tool runs without a request: when a folder is opened or
// entered, when a change is pushed, or when the tool is started for another purpose.
// The detector finds a control path at any depth, case-folded, with both kinds of
// slash, and under its short name on NTFS ("git~1"). It ignores what file systems
// ignore: invisible characters, trailing dots and spaces, a stream suffix.

const (
	maxPathBytes    = 1024
	maxSegmentBytes = 255
)

// Fault is a finding about a path: its code, and the text that the detector found.
type Fault struct{ Code, Value string }

// controlPaths are the control paths, folded, grouped by purpose.
var controlPaths = slices.Concat(
	// Version control: hooks, filters that run on checkout, other repositories.
	strings.Fields(`.git .gitattributes .gitconfig .gitmodules .bzr .hg .hgrc .jj .pijul .sl .svn .arcconfig _darcs _fossil_
		.fslckout .gclient .lfsconfig .p4config .repo`),
	// Policy layers and settings of this gate.
	strings.Fields(`.fiador`),
	// Hooks, and files that hooks run.
	strings.Fields(`.githooks .git-hooks .husky .huskyrc .huskyrc.cjs .huskyrc.js .huskyrc.json .huskyrc.yaml .huskyrc.yml
		husky.config.cjs husky.config.js .lefthook .lefthook-local .lefthook-local.json .lefthook-local.jsonc
		.lefthook-local.toml .lefthook-local.yaml .lefthook-local.yml .lefthook.json .lefthook.jsonc .lefthook.toml
		.lefthook.yaml .lefthook.yml lefthook-local.json lefthook-local.jsonc lefthook-local.toml lefthook-local.yaml
		lefthook-local.yml lefthook.json lefthook.jsonc lefthook.toml lefthook.yaml lefthook.yml .simple-git-hooks.cjs
		.simple-git-hooks.js .simple-git-hooks.json .simple-git-hooks.mjs simple-git-hooks.cjs simple-git-hooks.js
		simple-git-hooks.json simple-git-hooks.mjs .local-overcommit.yml .overcommit.yml .pre-commit-config.yaml
		.pre-commit-config.yml .pre-commit-hooks.yaml prek.toml .captainhook.json captainhook.json grumphp.yaml
		grumphp.yml hk.local.pkl hk.pkl .rusty-hook.toml .lintstagedrc .lintstagedrc.cjs .lintstagedrc.js
		.lintstagedrc.json .lintstagedrc.mjs .lintstagedrc.yaml .lintstagedrc.yml lint-staged.config.cjs
		lint-staged.config.js lint-staged.config.mjs git-hooks .lintstagedrc.cts .lintstagedrc.mts
		.lintstagedrc.ts lint-staged.config.cts lint-staged.config.mts lint-staged.config.ts .moon .nano-staged.cjs
		.nano-staged.js .nano-staged.json .nano-staged.mjs .nanostagedrc nano-staged.cjs nano-staged.js nano-staged.json
		nano-staged.mjs .trunk grumphp.yaml.dist grumphp.yml.dist whisky.json`),
	// Files that say who must approve a change, and settings of tools that merge it.
	strings.Fields(`codeowners .asf.yaml .bulldozer.yml .github/settings.yml .gitlab/security-policies .mergify .mergify.yml
		.github/mergify.yml .policy.yml .aviator bors.toml .coderabbit.yaml .coderabbit.yml .kodiak.toml .pr_agent.toml
		.renovaterc .renovaterc.json .renovaterc.json5 renovate.json renovate.json5`),
	// Pipelines, and the steps that they run. .ci is a pipeline by custom, in this
	// project too.
	strings.Fields(`.github/actions .github/hooks .github/workflows .gitea .forgejo .gitlab-ci.yaml .gitlab-ci.yml .gitlab/ci
		action.yaml action.yml .ci .appveyor.yml .azure-pipelines .azure-pipelines.yml .build.yml .buildkite .builds
		.circleci .cirrus.star .cirrus.yml .codefresh .drone.jsonnet .drone.star .drone.yml .harness
		.onedev-buildspec.yml .prow .prow.yaml .readthedocs.yaml .readthedocs.yml .scrutinizer.yml .semaphore
		.shippable.yml .teamcity .tekton .travis.yml .vela.yaml .vela.yml .woodpecker .woodpecker.yaml .woodpecker.yml
		.zuul.d .zuul.yaml appveyor.yml azure-pipelines.yaml azure-pipelines.yml bitbucket-pipelines.yml bitrise.yml
		buildkite.json buildkite.yaml buildkite.yml buildspec.yml cloudbuild.json cloudbuild.yaml cloudbuild.yml
		codefresh.yml codemagic.yaml codeship-services.yml codeship-steps.yml jenkinsfile readthedocs.yml
		screwdriver.yaml shippable.yml wercker.yml zuul.d zuul.yaml .azuredevops .codecatalyst .gitlab/agents
		.lighthouse .spacelift .terrateam .vsts-ci.yml atlantis.yaml ci_scripts digger.yaml digger.yml env0.yaml
		env0.yml jenkins-x.yml`),
	// Builds on hosting services, which a push starts.
	strings.Fields(`.platform .platform.app.yaml .upsun amplify.yml heroku.yml netlify.toml render.yaml vercel.json .do
		.ebextensions apphosting.yaml apprunner.yaml appspec.yaml appspec.yml nixpacks.toml procfile railpack.json
		railway.json railway.toml vercel.ts`),
	// Settings, hooks and servers that coding agents obey.
	strings.Fields(`.agent .agents .aider.conf.yml .amazonq .amp .augment .claude .claude.json .claude.local .claude.local.json
		.cline .clinerules/hooks .codeium .codex .codex.local .continue .copilot .copilot.local .crush .crush.json
		crush.json .cursor .cursor.local .devin .factory .gemini .gemini.local .goose .junie .kilocode .kilocodemodes
		.kiro .mcp.json .mcp.local.json .opencode .openhands .qwen .roo .roomodes .trae .windsurf .zencoder
		opencode.json opencode.jsonc .adal .aider-desk .aider.model.settings.yml .autohand .bob .claude-plugin
		.codeartsdoer .codebuddy .codemaker .codestudio .codewhale .commandcode .continuerc.json .cortex .cursor-plugin
		.forge .github/copilot .github/extensions .github/lsp.json .github/mcp.json .github/plugin .gitlab/duo .grok
		.hermes .iflow .kilo .kimi .kode .lingma .lsp.json .mux .neovate .openclaw .pi .pochi .qoder .rovodev .tabnine
		.vibe .warp .zcode codebuff.json firebender.json forge.yaml lsp.json`),
	// Commands that run when a folder is opened or entered.
	strings.Fields(`.devcontainer .devcontainer.json .devfile.yaml devfile.yaml .autoenv .autoenv.zsh .codesandbox .direnv .envrc
		.gitpod.dockerfile .gitpod.yml .idx .mise .mise.local.toml .mise.toml mise/config.toml mise.local.toml mise.toml
		.config/mise .ona .prototools .replit replit.nix .stackblitzrc .tool-versions .autoenv.leave .autoenv_leave.zsh
		_opam hermit.hcl conductor.json .flox mise/config.local.toml .rtx.toml .rvmrc .shadowenv.d .vfox.toml
		vfox.toml`),
	// Tasks, plugins and language servers that editors start.
	strings.Fields(`.dir-locals-2.el .dir-locals.el .exrc .externaltoolbuilders .fleet .helix .idea .lapce .lazy.lua .luarc.json
		.luarc.jsonc .lvimrc .nova .nvim.lua .nvimrc .rust-analyzer.toml rust-analyzer.toml .theia .vimrc .vs .vscode
		.ycm_extra_conf.py .zed .bloop .bsp buildserver.json .factorypath .gvimrc _exrc _gvimrc _vimrc hie.yaml
		.kateproject .metals .neoconf.json .nvim omnisharp.json .project .ropeproject .ruby-lsp .settings
		.solargraph.yml .sourcekit-lsp .tm_properties .vim`),
	// Files that tools run at every call, or run in place of themselves.
	strings.Fields(`.npmrc .yarnrc .yarnrc.yml .yarn/plugins .yarn/releases .pnp.cjs .pnp.js .pnp.loader.mjs .pnpmfile.cjs
		.pnpmfile.mjs pnpmfile.cjs pnpmfile.js pnpmfile.mjs .bunfig.toml bunfig.toml .bundle .cargo rust-toolchain
		rust-toolchain.toml .bazeliskrc .bazelrc .bazelversion tools/bazel .buckconfig .buckconfig.local
		.pants.bootstrap .pants.rc .mvn gradle/wrapper .jvmopts .sbtopts .terraform .ansible.cfg ansible.cfg .aqua.yaml
		.aqua.yml aqua.yaml aqua.yml .buckconfig.d .corepack.env .latexmkrc latexmkrc lean-toolchain .pdm-python
		.plzconfig .pnp.data.json pnpm-workspace.yaml .yarn/sdks`),
	// Files that interpreters, debuggers and shells run when they start.
	strings.Fields(`sitecustomize.py usercustomize.py .pdbrc .gdbearlyinit .gdbinit .lldbinit .ghci .irbrc .ocamlinit .octaverc
		.perldb .pryrc .rdata .renviron .rprofile .rspec .bash_login .bash_logout .bash_profile .bashrc .profile .zlogin
		.zlogout .zprofile .zshenv .zshrc .ssh .bash_aliases .byebugrc .config/autostart .config/environment.d
		.config/fish .config/git .config/nushell .config/powershell .config/systemd .cshrc .iex.exs _irbrc irb.rc
		jupyter_config.py jupyter_lab_config.py jupyter_notebook_config.py jupyter_server_config.py .kshrc .login
		.logout microsoft.powershell_profile.ps1 .mkshrc .pdbrc.py profile.ps1 .proverc .psysh.php .rdbgrc .rdbgrc.rb
		.shrc startup.m .tcshrc .user.ini .valgrindrc .xinitrc .xprofile .xsession .xsessionrc`),
)

// agentPaths are files, and folders of files, that coding agents read as instructions
// or as lists of files to ignore, folded. A tool runs no code from them.
var agentPaths = strings.Fields(`
	.agent.md .agents.md .airules .augment-guidelines .augmentrules .clinerules .continuerules .cursorrules
	.github/agents .github/chatmodes .github/copilot-instructions.md .github/instructions .github/prompts
	.github/skills .goosehints .instructions.md .kilocoderules .openhands_instructions .roorules .rules .traerules
	.windsurfrules agent.md agents.local.md agents.md agents.override.md claude.local.md claude.md codex.md
	copilot-instructions.md crush.md gemini.local.md gemini.md jules.md opencode.md qwen.md replit.md skill.md
	warp.md .aiassistant .aiderignore .aiexclude .aiignore .augmentignore .blackboxrules .clineignore .codeiumignore
	.continueignore .copilotignore .crushignore .cursorignore .cursorindexingignore .geminiignore .gooseignore
	.kilocodeignore .llmrules .opencodeignore .qwenignore .rooignore .ruler .rulesync .voidrules codebuddy.md
	grok.md iflow.md`)

// reservedRoots are the top folders that a bundle fills itself (specs/bundle.md).
var reservedRoots = []string{"calls", "commands", "context"}

// deviceNames are names that open a device on Windows, with any extension. Another
// check finds COM and LPT with a digit.
const deviceNames text.Words = "con prn aux nul conin$ conout$ clock$"

// Tables returns the lists of this detector by name.
func Tables() map[string][]string {
	return map[string][]string{
		"control_paths":  slices.Clone(controlPaths),
		"agent_paths":    slices.Clone(agentPaths),
		"reserved_roots": slices.Clone(reservedRoots),
	}
}

// Clean returns the lexical clean form of a path. It drops empty and "." segments, and
// keeps a leading slash and ".." segments. Only "/" separates. The path of the folder
// itself ("", ".", "./") becomes "". Clean is idempotent.
func Clean(p string) string {
	if isCleanPath(p) {
		return p
	}
	var b strings.Builder
	b.Grow(len(p))
	if strings.HasPrefix(p, "/") {
		b.WriteByte('/')
	}
	first := true
	for seg := range strings.SplitSeq(p, "/") {
		if seg == "" || seg == "." {
			continue
		}
		if !first {
			b.WriteByte('/')
		}
		b.WriteString(seg)
		first = false
	}
	return b.String()
}

// isCleanPath says whether Clean changes nothing.
func isCleanPath(p string) bool {
	rest := strings.TrimPrefix(p, "/")
	if rest == "" {
		return true
	}
	for seg := range strings.SplitSeq(rest, "/") {
		if seg == "" || seg == "." {
			return false
		}
	}
	return true
}

// Faults returns the faults of a path, in the order of the list above.
func Faults(p string) []Fault {
	var list []Fault
	add := func(code, value string, ok bool) {
		if ok {
			list = append(list, Fault{code, value})
		}
	}
	var room, foldedRoom [16]string // most paths need no allocation for their segments
	segments := room[:0]
	for seg := range strings.FieldsFuncSeq(p, isSlash) {
		segments = append(segments, seg)
	}
	printable := text.IsPrintable(p)
	add(finding.PathAbsolute, p, isAbsolute(p))
	add(finding.PathTraversal, p, hasTraversal(segments))
	add(finding.PathBackslash, p, strings.Contains(p, `\`))
	add(finding.PathCharacter, p, !printable && (strings.ContainsFunc(p, text.IsHostile) || !utf8.ValidString(p)))
	add(finding.PathForm, p, !wellFormed(p, segments) || !printable && !norm.NFC.IsNormalString(p))
	root, reserved := reservedRoot(segments)
	add(finding.PathReserved, root, reserved)
	folded := appendFolded(foldedRoom[:0], segments)
	control, ok := controls.find(folded)
	add(finding.PathControl, control, ok)
	agent, ok := agents.find(folded)
	add(finding.AgentPath, agent, ok)
	return list
}

// View is the kernel's view of the path of a file that an execution left or removed.
type View struct {
	Fault   string // code of the first finding about the form, or empty
	Control string // the control path that the path is or lies beneath, or empty
	Leads   bool   // the path's last segment is the first of a control path of two segments
	Folded  string // equal for two paths that differ in case alone
}

// Inspect examines, as text, a path that was found after an execution. The roots that a
// bundle reserves are no fault here, for the files of a command are no part of a
// bundle. Folded has as many segments as the path.
func Inspect(path string) View {
	segments := strings.FieldsFunc(path, isSlash)
	out := View{Folded: Fold(path)}
	for _, f := range Faults(path) {
		switch f.Code {
		case finding.PathReserved, finding.AgentPath:
		case finding.PathControl:
			out.Control = f.Value
		default:
			out.Fault = cmp.Or(out.Fault, f.Code)
		}
	}
	if len(segments) > 0 {
		last := FoldSegment(segments[len(segments)-1])
		out.Leads = slices.ContainsFunc(controls.headed(last), func(c control) bool { return c.tail != "" })
	}
	return out
}

// Fold returns equal texts for two paths that differ in case alone. The result has as
// many segments as the path.
func Fold(path string) string { return strings.Map(leastFold, foldName(path)) }

// leastFold returns the least of the characters that differ from r in case alone.
func leastFold(r rune) rune {
	if r < utf8.RuneSelf {
		return unicode.ToUpper(r)
	}
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

func isAbsolute(p string) bool {
	return p != "" && (isSlash(rune(p[0])) || p[0] == '~' || HasDrive(p))
}

// HasDrive says whether a path begins with a drive letter of Windows and a colon.
func HasDrive(path string) bool {
	return len(path) > 1 && path[1] == ':' && path[0]|0x20 >= 'a' && path[0]|0x20 <= 'z'
}

// hasTraversal also finds a ".." that invisible characters, a trailing space or a third
// dot hide: some file systems drop these, and ".." remains.
func hasTraversal(segments []string) bool {
	return slices.ContainsFunc(segments, func(seg string) bool {
		if !strings.Contains(seg, ".") {
			return false
		}
		bare := strings.TrimRight(text.DropInvisible(seg), " ")
		return len(bare) >= 2 && strings.Trim(bare, ".") == ""
	})
}

// wellFormed says whether a path has none of the faults of path_form, but for NFC.
// segments are the parts of the path between slashes of either kind.
func wellFormed(p string, segments []string) bool {
	if len(p) > maxPathBytes || strings.HasSuffix(p, "/") || strings.HasSuffix(p, `\`) {
		return false
	}
	if first, _ := utf8.DecodeRuneInString(p); unicode.IsSpace(first) {
		return false
	}
	if last, _ := utf8.DecodeLastRuneInString(p); unicode.IsSpace(last) {
		return false
	}
	named := false
	for _, seg := range segments {
		if seg == "." || seg == ".." {
			continue
		}
		named = true
		if len(seg) > maxSegmentBytes || strings.ContainsRune(seg, ':') ||
			strings.HasSuffix(seg, " ") || strings.HasSuffix(seg, ".") || isDevice(seg) {
			return false
		}
	}
	last := len(segments) - 1
	return named && segments[last] != "." && segments[last] != ".."
}

// isDevice says whether a segment is the name of a Windows device, with any extension: CON,
// NUL, COM1, LPT¹.
func isDevice(seg string) bool {
	name, _, _ := strings.Cut(seg, ".")
	name = strings.TrimRight(foldName(name), " ")
	if deviceNames.Has(name) {
		return true
	}
	digit, ok := strings.CutPrefix(name, "com")
	if !ok {
		digit, ok = strings.CutPrefix(name, "lpt")
	}
	if !ok {
		return false
	}
	switch digit {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return true
	}
	return false
}

// reservedRoot returns the first segment other than ".", folded, and whether a bundle
// reserves it.
func reservedRoot(segments []string) (string, bool) {
	i := slices.IndexFunc(segments, func(seg string) bool { return seg != "." })
	if i < 0 {
		return "", false
	}
	root := FoldSegment(segments[i])
	return root, slices.Contains(reservedRoots, root)
}

// appendFolded appends the folded segments that are not empty.
func appendFolded(folded, segments []string) []string {
	for _, seg := range segments {
		if seg = FoldSegment(seg); seg != "" {
			folded = append(folded, seg)
		}
	}
	return folded
}

// find returns the first path of the list that the folded segments name or lead
// beneath.
func (x controlIndex) find(folded []string) (string, bool) {
	for i := range folded {
		for _, c := range x.headed(folded[i]) {
			if c.tail == "" || i+1 < len(folded) && sameName(folded[i+1], c.tail) {
				return c.path, true
			}
		}
	}
	return "", false
}

// FoldSegment returns a segment as a lenient file system reads it: without invisible
// characters, stream suffix, trailing dots and spaces, and in one case.
func FoldSegment(seg string) string {
	seg = text.DropInvisible(seg)
	if name, _, ok := strings.Cut(seg, ":"); ok {
		seg = name
	}
	return foldName(strings.TrimRight(seg, ". "))
}

// foldName returns s in lower case. A character that equals ASCII letters but for case
// becomes these letters: U+017F is s, U+212A is k, U+FB01 is fi.
func foldName(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf || r >= 'A' && r <= 'Z' }) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		folded := ""
		if r >= utf8.RuneSelf {
			folded = foldsToASCII[r]
		}
		if folded == "" {
			b.WriteRune(unicode.ToLower(r))
		}
		b.WriteString(folded)
	}
	return b.String()
}

// foldsToASCII holds the full case folding of each character outside ASCII whose folding
// is ASCII letters. It never changes.
var foldsToASCII = map[rune]string{
	0x17f: "s", 0x212a: "k", 0x130: "i", 0x131: "i", 0xdf: "ss", 0x1e9e: "ss",
	0xfb00: "ff", 0xfb01: "fi", 0xfb02: "fl", 0xfb03: "ffi", 0xfb04: "ffl", 0xfb05: "st", 0xfb06: "st",
}

// control is a control path, and the part behind its first segment.
type control struct{ path, tail string }

// controls and agents index the lists by the spellings of first segments. They never
// change.
var controls, agents = indexControls(controlPaths), indexControls(agentPaths)

// controlIndex finds control paths by their first segment, in the order of the list.
type controlIndex struct {
	named map[string][]control    // by the first segment
	short map[[2]string][]control // by the short name of the first segment, as shortName returns it
}

func indexControls(paths []string) controlIndex {
	x := controlIndex{make(map[string][]control, len(paths)), make(map[[2]string][]control, len(paths))}
	all := make([]control, len(paths))
	for i, path := range paths {
		head, tail, _ := strings.Cut(path, "/")
		all[i] = control{path, tail}
		// Every program builds this index at start; most lists are slices of all,
		// without a copy.
		own := all[i : i+1 : i+1]
		x.named[head] = joined(x.named[head], own)
		if stem, ext, ok := shortName(head); ok {
			key := [2]string{stem, ext}
			x.short[key] = joined(x.short[key], own)
		}
	}
	return x
}

// joined returns both lists in one. If the first list is empty, it returns the second
// list itself.
func joined(a, b []control) []control {
	if len(a) == 0 {
		return b
	}
	return append(a, b...)
}

// headed returns the control paths whose first segment matches a folded segment
// (sameName).
func (x controlIndex) headed(seg string) []control {
	if list, ok := x.named[seg]; ok {
		return list
	}
	if stem, ext, ok := cutShort(seg); ok {
		return x.short[[2]string{stem, ext}]
	}
	return nil
}

// sameName says whether a folded segment is the control name, or its short name on
// NTFS. A short name has up to six letters or digits, "~", a digit, and three letters
// of the extension.
func sameName(seg, control string) bool {
	if seg == control {
		return true
	}
	stem, ext, ok := cutShort(seg)
	if !ok {
		return false
	}
	s, e, ok := shortName(control)
	return ok && stem == s && ext == e
}

// cutShort returns the part before the first "~" of a short name, and the part behind
// the digit that follows.
func cutShort(seg string) (stem, ext string, ok bool) {
	tilde := strings.IndexByte(seg, '~')
	if tilde < 1 || tilde+1 >= len(seg) || seg[tilde+1] < '1' || seg[tilde+1] > '9' {
		return "", "", false
	}
	return seg[:tilde], seg[tilde+2:], true
}

// shortName returns the short name of a control name, in the parts that cutShort
// returns. ok is false for a name that NTFS need not shorten.
func shortName(control string) (stem, ext string, ok bool) {
	stem = strings.TrimPrefix(control, ".")
	if dot := strings.LastIndexByte(stem, '.'); dot >= 0 {
		stem, ext = stem[:dot], stem[dot:]
	}
	if control[0] != '.' && len(stem) <= 8 && len(ext) <= 4 {
		return "", "", false
	}
	return stem[:min(6, len(stem))], ext[:min(4, len(ext))], true
}

// CutLast cuts a path at its last slash. Without a slash, ok is false and name is the
// path.
func CutLast(path string) (dir, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}
