package contract

import (
	"slices"
	"strings"

	"github.com/fiador/fiador/kernel/canon"
)

// MaxEnvNameBytes is the greatest length of the name of an environment variable.
const MaxEnvNameBytes = 128

// GuardedNames is a group of environment names that no list of allowed names can allow.
type GuardedNames struct {
	Why   string // what a variable of the group controls
	Names string // separated by spaces, sorted; a name that ends in "*" is a prefix
}

// guarded are the names of variables that decide what code runs. The names of compilers
// (CC, CXX, RUSTC) are left out, because builds use these names to choose a compiler.
var guarded = []GuardedNames{
	{"which libraries are loaded into a program",
		"DYLD_* GCONV_PATH GETCONF_DIR GIO_EXTRA_MODULES GLIBC_TUNABLES GTK_MODULES GTK_PATH LD_* LOCPATH NLSPATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES"},
	{"where programs are found, and what a shell runs first",
		"BASHOPTS BASH_ENV BASH_LOADABLES_PATH CDPATH ENV FPATH IFS PATH PROMPT_COMMAND PS4 SHELL SHELLOPTS ZDOTDIR"},
	{"what an interpreter loads, and the options that it takes",
		`AWKLIBPATH AWKPATH BUNDLE_GEMFILE BUN_INSPECT_PRELOAD BUN_OPTIONS CAML_LD_LIBRARY_PATH CLASSPATH CORECLR_* COR_* DOTNET_ADDITIONAL_DEPS
		DOTNET_ROOT* DOTNET_SHARED_STORE DOTNET_STARTUP_HOOKS ELIXIR_ERL_OPTIONS EMACSLOADPATH ERL_* GEM_HOME GEM_PATH GUILE_LOAD_COMPILED_PATH GUILE_LOAD_PATH
		JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS JULIA_DEPOT_PATH JULIA_LOAD_PATH JULIA_PROJECT LUA_CPATH* LUA_INIT* LUA_PATH*
		NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE PERL5DB PERL5LIB PERL5OPT PERL5SHELL PERLLIB PHPRC PHP_INI_SCAN_DIR PYTHONBREAKPOINT
		PYTHONEXECUTABLE PYTHONHOME PYTHONINSPECT PYTHONPATH PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTHONSTARTUP PYTHONUSERBASE PYTHONWARNINGS
		RUBYLIB RUBYOPT RUBYSHELL R_ENVIRON R_ENVIRON_USER R_HOME R_LIBS R_LIBS_SITE R_LIBS_USER R_PROFILE R_PROFILE_USER TCLLIBPATH
		_JAVA_OPTIONS`},
	{"which other program a tool starts, and with which options",
		`BROWSER CARGO_BUILD_* CARGO_ENCODED_RUSTFLAGS CARGO_TARGET_* CVS_RSH EDITOR EXINIT GIT_ASKPASS GIT_EDITOR GIT_EXEC_PATH
		GIT_EXTERNAL_DIFF GIT_PAGER GIT_PROXY_COMMAND GIT_SEQUENCE_EDITOR GIT_SSH GIT_SSH_COMMAND GNUMAKEFLAGS GOENV GOFLAGS GOROOT GOTOOLCHAIN
		GRADLE_OPTS LESSCLOSE LESSOPEN MAKEFILES MAKEFLAGS MANPAGER MAVEN_ARGS MAVEN_OPTS MFLAGS PAGER RSYNC_RSH RUSTC_WORKSPACE_WRAPPER RUSTC_WRAPPER
		RUSTFLAGS SBT_OPTS SSH_ASKPASS SUDO_ASKPASS TAR_OPTIONS VIMINIT VISUAL`},
	{"where a program looks for its settings",
		`CARGO_HOME CURL_HOME GIT_COMMON_DIR GIT_CONFIG* GIT_DIR GIT_TEMPLATE_DIR GNUPGHOME HOME NPM_CONFIG_* PIP_CONFIG_FILE WGETRC
		XDG_CONFIG_DIRS XDG_CONFIG_HOME XDG_DATA_DIRS XDG_DATA_HOME YARN_* npm_config_* pnpm_config_*`},
}

// IsGuarded says whether an environment name is one that no profile can allow. Names are
// compared exactly. Names that npm reads are compared in any case, as npm does.
func IsGuarded(name string) bool {
	return slices.ContainsFunc(guarded, func(g GuardedNames) bool {
		for entry := range strings.FieldsSeq(g.Names) {
			if prefix, ok := strings.CutSuffix(entry, "*"); entry == name || ok && strings.HasPrefix(name, prefix) {
				return true
			}
		}
		return false
	}) || strings.HasPrefix(strings.ToLower(name), "npm_config_")
}

// CheckEnvironment is IV-04: every variable of env, the object at the pointer at, must
// be allowed by name, compared exactly. A variable that is not allowed is refused and
// never stripped: without the variable, another command would run than the one that was
// decided on. Guarded names are never allowed. A name is a letter or "_", and
// then letters, digits and "_", at most MaxEnvNameBytes in all. A value has no NUL and
// is UTF-8, and NAME=VALUE has at most MaxStringBytes. The violations are sorted by
// name, one for each variable.
func CheckEnvironment(at string, env map[string]string, allowed AllowList) []Violation {
	return checkVariables(at, env, func(name string) (msg, hint string) {
		switch {
		case IsGuarded(name):
			return "can decide what code runs, and is never allowed", "leave the variable out"
		case !allowed.All && !allowed.names(name):
			return "is not allowed", "leave the variable out, or allow it by name"
		}
		return "", ""
	})
}

// CheckVariables makes the checks of IV-04 that need no allowlist.
func CheckVariables(at string, env map[string]string) []Violation {
	return checkVariables(at, env, func(string) (msg, hint string) { return "", "" })
}

// checkVariables checks the form of each name and value. refused says what else is wrong
// with a name, or "". A name without a proper form is reported for its form alone.
func checkVariables(at string, env map[string]string, refused func(name string) (msg, hint string)) []Violation {
	var list []Violation
	for _, name := range canon.Names(env) {
		msg, hint := refused(name)
		if !isEnvName(name) {
			msg, hint = "has no proper name", "use letters, digits and _, the first no digit, 128 at most"
		} else if msg == "" {
			msg, hint = unpassable(name + "=" + env[name])
		}
		if msg != "" {
			list = append(list, Violation{
				ID: IV04, Pointer: canon.Pointer(at, strings.ToValidUTF8(name, "\ufffd")),
				Msg: "environment variable " + quote(name) + " " + msg, Hint: hint,
			})
		}
	}
	return list
}

// isEnvName says whether a name is a letter or "_", and then letters, digits and "_", at
// most MaxEnvNameBytes in all.
func isEnvName(name string) bool {
	if name == "" || len(name) > MaxEnvNameBytes || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		letter := r|0x20 >= 'a' && r|0x20 <= 'z'
		return !letter && r != '_' && (r < '0' || r > '9')
	})
}
