# What the profile agent asks beyond the built-in policy and profile.json. The commands of
# a normal day pass; a question stops the agent, and its user decides.
package gate.user.agent

import future.keywords.not

# The subcommands of a normal day. Those of git only read.
routine := {
	"cargo": {"bench", "build", "check", "clippy", "doc", "fmt", "metadata", "run", "test", "tree"},
	"git": {
		"blame", "cat-file", "describe", "diff", "grep", "log", "ls-files", "ls-tree", "merge-base",
		"rev-list", "rev-parse", "shortlog", "show", "status",
	},
	"go": {"build", "doc", "fix", "fmt", "generate", "list", "mod", "run", "test", "tool", "version", "vet"},
	"npm": {"ci", "explain", "list", "ls", "outdated", "run", "run-script", "start", "test", "view"},
}

# Whole commands that pass besides.
whole := {
	["git", "branch"], ["git", "branch", "-a"], ["git", "branch", "--show-current"], ["git", "remote", "-v"],
	["git", "stash", "list"], ["git", "tag"], ["git", "worktree", "list"], ["go", "env"], ["npm", "install"],
}

modules := {"black", "compileall", "json.tool", "mypy", "pytest", "ruff", "unittest"}

# Targets of make and scripts of npm that reach beyond the project.
releases := {"deploy", "install", "publish", "release", "uninstall", "upload"}

# The beginnings of options that write a file or start a program.
options := {
	"find": {"-delete", "-fls", "-fprint"},
	"git": {"-O", "--ext-diff", "--open-files-in-pager", "--output", "--textconv"},
	"go": {"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"},
	"rg": {"--hostname-bin", "--pre"},
	"sort": {"-o", "--compress-program", "--output"},
	"tree": {"-o"},
}

runs := [e | some e in input.effects; e.kind == "run"]

# METADATA
# title: Line that is not made of plain words
# description: Of a line with an expansion, a redirection or a keyword nobody can say what it starts
# custom:
#   id: LINE_NOT_PLAIN
#   fix: write plain words joined by && or |, and use the tools of the client to write files
clarify contains {
	"id": "LINE_NOT_PLAIN",
	"path": e.pointer,
	"question": "Should the shell run this? Plain words without > 2>&1 $ * ~ or keywords are decided one by one.",
	"options": ["yes, the user runs it", "no, plain words will do"],
} if {
	some e in runs
	e.command in {"bash", "sh"}
	not script(e)
}

# script holds for a shell that runs a file of the project.
script(e) if regex.match(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`, e.argv[1])

# METADATA
# title: Command beyond a normal day
# description: It changes history, dependencies or machines, or writes where its name does not say so
# custom:
#   id: COMMAND_ASKS
#   fix: ask the user to run it
clarify contains {
	"id": "COMMAND_ASKS",
	"path": e.pointer,
	"question": sprintf("Should the agent run %q?", [substring(concat(" ", e.argv), 0, 120)]),
	"options": ["yes, the user runs it", "no"],
} if {
	some e in runs
	asks(e)
}

asks(e) if {
	subcommands := routine[e.command]
	not subcommand(e) in subcommands
	not e.argv in whole
}

asks(e) if {
	some arg in e.argv
	some option in options[e.command]
	startswith(arg, option)
}

asks(e) if {
	e.command in {"make", "npm"}
	some arg in e.argv
	arg in releases
	not e.argv in whole
}

asks(e) if {
	e.command == "python3"
	e.argv[1] == "-m"
	not e.argv[2] in modules
}

# The language of sed writes files and starts programs; lines by their numbers do neither.
asks(e) if {
	e.command == "sed"
	not lines(e)
}

asks(e) if {
	e.command in {"mkdir", "touch"}
	some arg in e.argv
	regex.match(`^/|(^|/)\.\.(/|$)`, arg)
}

lines(e) if {
	e.argv[1] == "-n"
	regex.match(`^[0-9]+(,[0-9$]+)?p$`, e.argv[2])
	rest := array.slice(e.argv, 3, count(e.argv))
	every arg in rest { not startswith(arg, "-") }
}

# subcommand returns the word after the name of a command, and "" where there is none.
subcommand(e) := e.argv[2] if {
	e.argv[1] == "--no-pager"
} else := e.argv[1] if {
	e.argv[1]
} else := ""
