package pathname

import (
	"slices"
	"strings"
)

// known is a folded path of one or two segments, and why it is in the list.
type known struct {
	path    string
	purpose purpose
}

// purpose is what the files at a known path do. All are control paths but those of guide.
type purpose uint8

const (
	version  purpose = iota // version control: hooks, filters that run on checkout, other repositories
	gate                    // policy layers and settings of this gate
	hook                    // hooks, and files that hooks run
	review                  // files that say who must approve a change, and settings of tools that merge it
	pipeline                // pipelines, and the steps that they run; .ci is a pipeline by custom, in this project too
	host                    // builds on hosting services, which a push starts
	agent                   // settings, hooks and servers that coding agents obey
	entry                   // commands that run when a folder is opened or entered
	editor                  // tasks, plugins and language servers that editors start
	tool                    // files that tools run at every call, or run in place of themselves
	startup                 // files that interpreters, debuggers and shells run when they start

	// Files, and folders of files, that coding agents read as instructions or as lists of
	// files to ignore. A tool runs no code from them.
	guide
)

// Tables returns the lists of this detector by name.
func Tables() map[string][]string {
	tables := map[string][]string{"reserved_roots": slices.Clone(reservedRoots)}
	for _, row := range paths {
		for _, k := range row {
			name := "control_paths"
			if k.purpose == guide {
				name = "agent_paths"
			}
			tables[name] = append(tables[name], k.path)
		}
	}
	return tables
}

// find returns the first control path that the folded segments name or lead beneath, and
// the first path of instructions for agents. Either is empty if there is none.
func find(folded []string) (control, instructions string) {
	for i, seg := range folded {
		for _, k := range near(seg) {
			found := &control
			if k.purpose == guide {
				found = &instructions
			}
			if *found == "" && k.holds(folded[i:]) {
				*found = k.path
			}
		}
	}
	return control, instructions
}

// holds says whether folded segments begin with the path.
func (k known) holds(folded []string) bool {
	head, tail, two := strings.Cut(k.path, "/")
	return sameName(folded[0], head) && (!two || len(folded) > 1 && sameName(folded[1], tail))
}

// leads says whether a folded segment is the first of a control path of two segments.
func leads(seg string) bool {
	return slices.ContainsFunc(near(seg), func(k known) bool {
		head, _, two := strings.Cut(k.path, "/")
		return two && k.purpose != guide && sameName(seg, head)
	})
}

// near returns the part of the list that has every path whose first segment matches a
// folded segment (sameName).
func near(seg string) []known {
	stem := strings.TrimPrefix(seg, ".")
	stem = stem[:min(len(stem), shortStem)]
	if tilde := strings.IndexByte(stem, '~'); tilde >= 0 {
		stem = stem[:tilde]
	}
	if stem == "" || int(stem[0]) >= len(paths) {
		return nil
	}
	row := paths[stem[0]]
	from, end := 0, len(row)
	for from < end {
		if middle := (from + end) / 2; strings.TrimPrefix(row[middle].path, ".") < stem {
			from = middle + 1
		} else {
			end = middle
		}
	}
	for end < len(row) && row[end].begins(stem) {
		end++
	}
	return row[from:end]
}

// begins says whether a path begins with a stem. Behind a stem that is not cut, the name
// ends or has an extension.
func (k known) begins(stem string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(k.path, "."), stem)
	return ok && (len(stem) == shortStem || rest == "" || rest[0] <= '/')
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

// shortStem is how many characters of a name a short name keeps.
const shortStem = 6

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
	return stem[:min(shortStem, len(stem))], ext[:min(4, len(ext))], true
}

// paths are the known paths, by their first character behind a leading dot. A row is
// sorted by the first six characters behind the dot, for a short name has no more of them.
// Of two paths with one short name, find returns the first. The list is a literal of
// constants that the compiler lays out, so that no start of a program builds it.
var paths = [...][]known{
	'_': {
		{"_darcs", version}, {"_exrc", editor}, {"_fossil_", version}, {"_gvimrc", editor}, {"_irbrc", startup},
		{"_opam", entry}, {"_vimrc", editor},
	},
	'a': {
		{"action.yaml", pipeline}, {"action.yml", pipeline}, {".adal", agent}, {".agent", agent}, {".agent.md", guide},
		{"agent.md", guide}, {".agents", agent}, {".agents.md", guide}, {"agents.local.md", guide}, {"agents.md", guide},
		{"agents.override.md", guide}, {".aiassistant", guide}, {".aider-desk", agent}, {".aider.conf.yml", agent},
		{".aider.model.settings.yml", agent}, {".aiderignore", guide}, {".aiexclude", guide}, {".aiignore", guide},
		{".airules", guide}, {".amazonq", agent}, {".amp", agent}, {"amplify.yml", host}, {".ansible.cfg", tool},
		{"ansible.cfg", tool}, {"apphosting.yaml", host}, {"apprunner.yaml", host}, {"appspec.yaml", host},
		{"appspec.yml", host}, {".appveyor.yml", pipeline}, {"appveyor.yml", pipeline}, {".aqua.yaml", tool},
		{"aqua.yaml", tool}, {".aqua.yml", tool}, {"aqua.yml", tool}, {".arcconfig", version}, {".asf.yaml", review},
		{"atlantis.yaml", pipeline}, {".augment", agent}, {".augment-guidelines", guide}, {".augmentignore", guide},
		{".augmentrules", guide}, {".autoenv", entry}, {".autoenv.leave", entry}, {".autoenv.zsh", entry},
		{".autoenv_leave.zsh", entry}, {".autohand", agent}, {".aviator", review}, {".azure-pipelines", pipeline},
		{"azure-pipelines.yaml", pipeline}, {".azure-pipelines.yml", pipeline}, {"azure-pipelines.yml", pipeline},
		{".azuredevops", pipeline},
	},
	'b': {
		{".bash_aliases", startup}, {".bash_login", startup}, {".bash_logout", startup}, {".bash_profile", startup},
		{".bashrc", startup}, {".bazeliskrc", tool}, {".bazelrc", tool}, {".bazelversion", tool},
		{"bitbucket-pipelines.yml", pipeline}, {"bitrise.yml", pipeline}, {".blackboxrules", guide}, {".bloop", editor},
		{".bob", agent}, {"bors.toml", review}, {".bsp", editor}, {".buckconfig", tool}, {".buckconfig.d", tool},
		{".buckconfig.local", tool}, {".build.yml", pipeline}, {".buildkite", pipeline}, {"buildkite.json", pipeline},
		{"buildkite.yaml", pipeline}, {"buildkite.yml", pipeline}, {".builds", pipeline}, {"buildserver.json", editor},
		{"buildspec.yml", pipeline}, {".bulldozer.yml", review}, {".bundle", tool}, {".bunfig.toml", tool},
		{"bunfig.toml", tool}, {".byebugrc", startup}, {".bzr", version},
	},
	'c': {
		{".captainhook.json", hook}, {"captainhook.json", hook}, {".cargo", tool}, {".ci", pipeline},
		{"ci_scripts", pipeline}, {".circleci", pipeline}, {".cirrus.star", pipeline}, {".cirrus.yml", pipeline},
		{".claude", agent}, {".claude-plugin", agent}, {".claude.json", agent}, {".claude.local", agent},
		{".claude.local.json", agent}, {"claude.local.md", guide}, {"claude.md", guide}, {".cline", agent},
		{".clineignore", guide}, {".clinerules", guide}, {".clinerules/hooks", agent}, {"cloudbuild.json", pipeline},
		{"cloudbuild.yaml", pipeline}, {"cloudbuild.yml", pipeline}, {".codeartsdoer", agent}, {".codebuddy", agent},
		{"codebuddy.md", guide}, {"codebuff.json", agent}, {".codecatalyst", pipeline}, {".codefresh", pipeline},
		{"codefresh.yml", pipeline}, {".codeium", agent}, {".codeiumignore", guide}, {"codemagic.yaml", pipeline},
		{".codemaker", agent}, {"codeowners", review}, {".coderabbit.yaml", review}, {".coderabbit.yml", review},
		{".codesandbox", entry}, {"codeship-services.yml", pipeline}, {"codeship-steps.yml", pipeline},
		{".codestudio", agent}, {".codewhale", agent}, {".codex", agent}, {".codex.local", agent}, {"codex.md", guide},
		{".commandcode", agent}, {"conductor.json", entry}, {".config/autostart", startup},
		{".config/environment.d", startup}, {".config/fish", startup}, {".config/git", startup}, {".config/mise", entry},
		{".config/nushell", startup}, {".config/powershell", startup}, {".config/systemd", startup},
		{".continue", agent}, {".continuerules", guide}, {".continueignore", guide}, {".continuerc.json", agent},
		{".copilot", agent}, {"copilot-instructions.md", guide}, {".copilot.local", agent}, {".copilotignore", guide},
		{".corepack.env", tool}, {".cortex", agent}, {".crush", agent}, {".crush.json", agent}, {"crush.json", agent},
		{"crush.md", guide}, {".crushignore", guide}, {".cshrc", startup}, {".cursor", agent}, {".cursor-plugin", agent},
		{".cursor.local", agent}, {".cursorrules", guide}, {".cursorignore", guide}, {".cursorindexingignore", guide},
	},
	'd': {
		{".devcontainer", entry}, {".devcontainer.json", entry}, {".devfile.yaml", entry}, {"devfile.yaml", entry},
		{".devin", agent}, {"digger.yaml", pipeline}, {"digger.yml", pipeline}, {".dir-locals-2.el", editor},
		{".dir-locals.el", editor}, {".direnv", entry}, {".do", host}, {".drone.jsonnet", pipeline},
		{".drone.star", pipeline}, {".drone.yml", pipeline},
	},
	'e': {
		{".ebextensions", host}, {"env0.yaml", pipeline}, {"env0.yml", pipeline}, {".envrc", entry}, {".exrc", editor},
		{".externaltoolbuilders", editor},
	},
	'f': {
		{".factory", agent}, {".factorypath", editor}, {".fiador", gate}, {"firebender.json", agent}, {".fleet", editor},
		{".flox", entry}, {".forge", agent}, {"forge.yaml", agent}, {".forgejo", pipeline}, {".fslckout", version},
	},
	'g': {
		{".gclient", version}, {".gdbearlyinit", startup}, {".gdbinit", startup}, {".gemini", agent},
		{".gemini.local", agent}, {"gemini.local.md", guide}, {"gemini.md", guide}, {".geminiignore", guide},
		{".ghci", startup}, {".git", version}, {".git-hooks", hook}, {"git-hooks", hook}, {".gitattributes", version},
		{".gitconfig", version}, {".gitea", pipeline}, {".githooks", hook}, {".github/actions", pipeline},
		{".github/agents", guide}, {".github/chatmodes", guide}, {".github/copilot", agent},
		{".github/copilot-instructions.md", guide}, {".github/extensions", agent}, {".github/hooks", pipeline},
		{".github/instructions", guide}, {".github/lsp.json", agent}, {".github/mcp.json", agent},
		{".github/mergify.yml", review}, {".github/plugin", agent}, {".github/prompts", guide},
		{".github/settings.yml", review}, {".github/skills", guide}, {".github/workflows", pipeline},
		{".gitlab-ci.yaml", pipeline}, {".gitlab-ci.yml", pipeline}, {".gitlab/agents", pipeline},
		{".gitlab/ci", pipeline}, {".gitlab/duo", agent}, {".gitlab/security-policies", review},
		{".gitmodules", version}, {".gitpod.dockerfile", entry}, {".gitpod.yml", entry}, {".goose", agent},
		{".goosehints", guide}, {".gooseignore", guide}, {"gradle/wrapper", tool}, {".grok", agent}, {"grok.md", guide},
		{"grumphp.yaml", hook}, {"grumphp.yaml.dist", hook}, {"grumphp.yml", hook}, {"grumphp.yml.dist", hook},
		{".gvimrc", editor},
	},
	'h': {
		{".harness", pipeline}, {".helix", editor}, {".hermes", agent}, {"hermit.hcl", entry}, {"heroku.yml", host},
		{".hg", version}, {".hgrc", version}, {"hie.yaml", editor}, {"hk.local.pkl", hook}, {"hk.pkl", hook},
		{".husky", hook}, {"husky.config.cjs", hook}, {"husky.config.js", hook}, {".huskyrc", hook},
		{".huskyrc.cjs", hook}, {".huskyrc.js", hook}, {".huskyrc.json", hook}, {".huskyrc.yaml", hook},
		{".huskyrc.yml", hook},
	},
	'i': {
		{".idea", editor}, {".idx", entry}, {".iex.exs", startup}, {".iflow", agent}, {"iflow.md", guide},
		{".instructions.md", guide}, {"irb.rc", startup}, {".irbrc", startup},
	},
	'j': {
		{"jenkins-x.yml", pipeline}, {"jenkinsfile", pipeline}, {".jj", version}, {"jules.md", guide}, {".junie", agent},
		{"jupyter_config.py", startup}, {"jupyter_lab_config.py", startup}, {"jupyter_notebook_config.py", startup},
		{"jupyter_server_config.py", startup}, {".jvmopts", tool},
	},
	'k': {
		{".kateproject", editor}, {".kilo", agent}, {".kilocode", agent}, {".kilocoderules", guide},
		{".kilocodeignore", guide}, {".kilocodemodes", agent}, {".kimi", agent}, {".kiro", agent}, {".kode", agent},
		{".kodiak.toml", review}, {".kshrc", startup},
	},
	'l': {
		{".lapce", editor}, {".latexmkrc", tool}, {"latexmkrc", tool}, {".lazy.lua", editor}, {"lean-toolchain", tool},
		{".lefthook", hook}, {".lefthook-local", hook}, {".lefthook-local.json", hook}, {"lefthook-local.json", hook},
		{".lefthook-local.jsonc", hook}, {"lefthook-local.jsonc", hook}, {".lefthook-local.toml", hook},
		{"lefthook-local.toml", hook}, {".lefthook-local.yaml", hook}, {"lefthook-local.yaml", hook},
		{".lefthook-local.yml", hook}, {"lefthook-local.yml", hook}, {".lefthook.json", hook}, {"lefthook.json", hook},
		{".lefthook.jsonc", hook}, {"lefthook.jsonc", hook}, {".lefthook.toml", hook}, {"lefthook.toml", hook},
		{".lefthook.yaml", hook}, {"lefthook.yaml", hook}, {".lefthook.yml", hook}, {"lefthook.yml", hook},
		{".lfsconfig", version}, {".lighthouse", pipeline}, {".lingma", agent}, {"lint-staged.config.cjs", hook},
		{"lint-staged.config.cts", hook}, {"lint-staged.config.js", hook}, {"lint-staged.config.mjs", hook},
		{"lint-staged.config.mts", hook}, {"lint-staged.config.ts", hook}, {".lintstagedrc", hook},
		{".lintstagedrc.cjs", hook}, {".lintstagedrc.cts", hook}, {".lintstagedrc.js", hook},
		{".lintstagedrc.json", hook}, {".lintstagedrc.mjs", hook}, {".lintstagedrc.mts", hook},
		{".lintstagedrc.ts", hook}, {".lintstagedrc.yaml", hook}, {".lintstagedrc.yml", hook}, {".lldbinit", startup},
		{".llmrules", guide}, {".local-overcommit.yml", hook}, {".login", startup}, {".logout", startup},
		{".lsp.json", agent}, {"lsp.json", agent}, {".luarc.json", editor}, {".luarc.jsonc", editor},
		{".lvimrc", editor},
	},
	'm': {
		{".mcp.json", agent}, {".mcp.local.json", agent}, {".mergify", review}, {".mergify.yml", review},
		{".metals", editor}, {"microsoft.powershell_profile.ps1", startup}, {".mise", entry},
		{".mise.local.toml", entry}, {"mise.local.toml", entry}, {".mise.toml", entry}, {"mise.toml", entry},
		{"mise/config.toml", entry}, {"mise/config.local.toml", entry}, {".mkshrc", startup}, {".moon", hook},
		{".mux", agent}, {".mvn", tool},
	},
	'n': {
		{".nano-staged.cjs", hook}, {"nano-staged.cjs", hook}, {".nano-staged.js", hook}, {"nano-staged.js", hook},
		{".nano-staged.json", hook}, {"nano-staged.json", hook}, {".nano-staged.mjs", hook}, {"nano-staged.mjs", hook},
		{".nanostagedrc", hook}, {".neoconf.json", editor}, {".neovate", agent}, {"netlify.toml", host},
		{"nixpacks.toml", host}, {".nova", editor}, {".npmrc", tool}, {".nvim", editor}, {".nvim.lua", editor},
		{".nvimrc", editor},
	},
	'o': {
		{".ocamlinit", startup}, {".octaverc", startup}, {"omnisharp.json", editor}, {".ona", entry},
		{".onedev-buildspec.yml", pipeline}, {".openclaw", agent}, {".opencode", agent}, {"opencode.json", agent},
		{"opencode.jsonc", agent}, {"opencode.md", guide}, {".opencodeignore", guide}, {".openhands", agent},
		{".openhands_instructions", guide}, {".overcommit.yml", hook},
	},
	'p': {
		{".p4config", version}, {".pants.bootstrap", tool}, {".pants.rc", tool}, {".pdbrc", startup},
		{".pdbrc.py", startup}, {".pdm-python", tool}, {".perldb", startup}, {".pi", agent}, {".pijul", version},
		{".platform", host}, {".platform.app.yaml", host}, {".plzconfig", tool}, {".pnp.cjs", tool},
		{".pnp.data.json", tool}, {".pnp.js", tool}, {".pnp.loader.mjs", tool}, {"pnpm-workspace.yaml", tool},
		{".pnpmfile.cjs", tool}, {"pnpmfile.cjs", tool}, {"pnpmfile.js", tool}, {".pnpmfile.mjs", tool},
		{"pnpmfile.mjs", tool}, {".pochi", agent}, {".policy.yml", review}, {".pr_agent.toml", review},
		{".pre-commit-config.yaml", hook}, {".pre-commit-config.yml", hook}, {".pre-commit-hooks.yaml", hook},
		{"prek.toml", hook}, {"procfile", host}, {".profile", startup}, {"profile.ps1", startup}, {".project", editor},
		{".prototools", entry}, {".proverc", startup}, {".prow", pipeline}, {".prow.yaml", pipeline},
		{".pryrc", startup}, {".psysh.php", startup},
	},
	'q': {
		{".qoder", agent}, {".qwen", agent}, {"qwen.md", guide}, {".qwenignore", guide},
	},
	'r': {
		{"railpack.json", host}, {"railway.json", host}, {"railway.toml", host}, {".rdata", startup},
		{".rdbgrc", startup}, {".rdbgrc.rb", startup}, {".readthedocs.yaml", pipeline}, {".readthedocs.yml", pipeline},
		{"readthedocs.yml", pipeline}, {"render.yaml", host}, {".renovaterc.json", review},
		{".renovaterc.json5", review}, {"renovate.json", review}, {"renovate.json5", review}, {".renovaterc", review},
		{".renviron", startup}, {".replit", entry}, {"replit.md", guide}, {"replit.nix", entry}, {".repo", version},
		{".roo", agent}, {".rooignore", guide}, {".roomodes", agent}, {".roorules", guide}, {".ropeproject", editor},
		{".rovodev", agent}, {".rprofile", startup}, {".rspec", startup}, {".rtx.toml", entry}, {".ruby-lsp", editor},
		{".ruler", guide}, {".rules", guide}, {".rulesync", guide}, {".rust-analyzer.toml", editor},
		{"rust-analyzer.toml", editor}, {"rust-toolchain", tool}, {"rust-toolchain.toml", tool},
		{".rusty-hook.toml", hook}, {".rvmrc", entry},
	},
	's': {
		{".sbtopts", tool}, {"screwdriver.yaml", pipeline}, {".scrutinizer.yml", pipeline}, {".semaphore", pipeline},
		{".settings", editor}, {".shadowenv.d", entry}, {".shippable.yml", pipeline}, {"shippable.yml", pipeline},
		{".shrc", startup}, {".simple-git-hooks.cjs", hook}, {"simple-git-hooks.cjs", hook},
		{".simple-git-hooks.js", hook}, {"simple-git-hooks.js", hook}, {".simple-git-hooks.json", hook},
		{"simple-git-hooks.json", hook}, {".simple-git-hooks.mjs", hook}, {"simple-git-hooks.mjs", hook},
		{"sitecustomize.py", startup}, {"skill.md", guide}, {".sl", version}, {".solargraph.yml", editor},
		{".sourcekit-lsp", editor}, {".spacelift", pipeline}, {".ssh", startup}, {".stackblitzrc", entry},
		{"startup.m", startup}, {".svn", version},
	},
	't': {
		{".tabnine", agent}, {".tcshrc", startup}, {".teamcity", pipeline}, {".tekton", pipeline}, {".terraform", tool},
		{".terrateam", pipeline}, {".theia", editor}, {".tm_properties", editor}, {".tool-versions", entry},
		{"tools/bazel", tool}, {".trae", agent}, {".traerules", guide}, {".travis.yml", pipeline}, {".trunk", hook},
	},
	'u': {
		{".upsun", host}, {".user.ini", startup}, {"usercustomize.py", startup},
	},
	'v': {
		{".valgrindrc", startup}, {".vela.yaml", pipeline}, {".vela.yml", pipeline}, {"vercel.json", host},
		{"vercel.ts", host}, {".vfox.toml", entry}, {"vfox.toml", entry}, {".vibe", agent}, {".vim", editor},
		{".vimrc", editor}, {".voidrules", guide}, {".vs", editor}, {".vscode", editor}, {".vsts-ci.yml", pipeline},
	},
	'w': {
		{".warp", agent}, {"warp.md", guide}, {"wercker.yml", pipeline}, {"whisky.json", hook}, {".windsurf", agent},
		{".windsurfrules", guide}, {".woodpecker", pipeline}, {".woodpecker.yaml", pipeline},
		{".woodpecker.yml", pipeline},
	},
	'x': {
		{".xinitrc", startup}, {".xprofile", startup}, {".xsession", startup}, {".xsessionrc", startup},
	},
	'y': {
		{".yarn/plugins", tool}, {".yarn/releases", tool}, {".yarn/sdks", tool}, {".yarnrc", tool},
		{".yarnrc.yml", tool}, {".ycm_extra_conf.py", editor},
	},
	'z': {
		{".zcode", agent}, {".zed", editor}, {".zencoder", agent}, {".zlogin", startup}, {".zlogout", startup},
		{".zprofile", startup}, {".zshenv", startup}, {".zshrc", startup}, {".zuul.d", pipeline}, {"zuul.d", pipeline},
		{".zuul.yaml", pipeline}, {"zuul.yaml", pipeline},
	},
}
