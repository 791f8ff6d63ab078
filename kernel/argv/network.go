package argv

import (
	"strings"

	"github.com/fiador/fiador/kernel/finding"
	"github.com/fiador/fiador/kernel/text"
)

// registry lists the uses of a package manager that need a network.
type registry struct {
	names    text.Words
	asks     text.Words // sub-commands that ask a registry; "npm:publish" is two operands
	packages text.Words // sub-commands whose operands name packages
	starts   text.Words // sub-commands whose first operand names the package to start
	option   text.Words // options whose value names a package
	through  text.Words // operands; behind one, another sub-command follows
	within   text.Words // like through, with a name before the sub-command
	short    bool       // three letters or more of its name identify a sub-command
	itself   bool       // the first operand names a package
}

// registries are the package managers whose sub-commands are known. The lists asks
// leave out every sub-command whose packages may come from a cache (install, update,
// dlx).
var registries = []registry{
	{
		names: "npm", short: true, option: "--package", starts: "exec exe x",
		asks: `access add-user adduser audit author deprecate dist-tag dist-tags doctor find hook info login logout ogr org outdated owner
			ping profile publish s se search show star stars team token trust undeprecate unpublish unstar v view whoami`,
		packages: `add cache ci cit clean-install clean-install-test cre crea create creat i ic in init inn inni innit ins inst insta instal install
			install-ci-test install-clean install-test isnt isnta isntal isntall isntall-clean it link ln pack sit udpate up update upgrade`,
	},
	{names: "npx pnpx bunx", itself: true, option: "--package -p"},
	{
		names: "pnpm", option: "--package", starts: "dlx", through: "recursive multi m",
		asks: `access adduser audit deprecate dist-tag dist-tags find hook info login logout org outdated owner ping profile
			publish s se search self-update show star stars team token undeprecate unpublish unstar v view whoami`,
		packages: "add create fetch i install link ln pack up update upgrade",
	},
	{
		names: "yarn yarnpkg", option: "--package -p", starts: "dlx", through: "global workspaces foreach", within: "workspace",
		asks: `audit dist-tag info login logout outdated owner publish tag team upgrade-interactive policies:set-version
			npm:audit npm:info npm:login npm:logout npm:publish npm:tag npm:whoami`,
		packages: "add create init link pack up upgrade",
	},
}

// operand is an argument of a runner that is no option. perhaps says that it may be the
// value of the option before it.
type operand struct {
	at      int
	perhaps bool
}

// network returns a fault for each of a runner's arguments that needs a network.
func (s *starting) network() []Fault {
	var g registry
	for _, r := range registries {
		if r.names.Has(s.name) {
			g = r
		}
	}
	if g.names == "" || s.ended && !s.never {
		return nil
	}
	if g.through != "" {
		s.rest()
	}
	list := s.packages
	remote := func(operands []operand) {
		for _, o := range operands {
			if s.spend(s.argv[o.at]) && isRemote(s.argv[o.at]) {
				list = append(list, Fault{finding.NetworkNeeded, o.at, s.argv[o.at]})
			}
		}
	}
	for k := 0; k < len(s.operands); k++ {
		o, rest := s.operands[k], s.operands[k+1:]
		sub := s.argv[o.at]
		known := func(l text.Words) bool { return l.Has(sub) || g.short && len(sub) > 2 && l.Starts(sub) }
		switch {
		case g.itself:
			remote(s.operands[k : k+1])
		case known(g.packages):
			remote(rest)
		case known(g.asks):
			list = append(list, Fault{finding.NetworkNeeded, o.at, sub})
		case g.starts.Has(sub):
			remote(rest[:min(1, len(rest))])
		case len(rest) > 0 && g.asks.Has(sub+":"+s.argv[rest[0].at]):
			list = append(list, Fault{finding.NetworkNeeded, rest[0].at, s.argv[rest[0].at]})
		}
		if g.within.Has(sub) {
			k++
		} else if !o.perhaps && !g.through.Has(sub) {
			break
		}
	}
	return list
}

// rest takes the arguments behind a command as operands. They are operands if the
// command is a sub-command of the runner.
func (s *starting) rest() {
	for ; s.i < len(s.argv) && s.spend(s.argv[s.i]); s.i++ {
		if !strings.HasPrefix(s.argv[s.i], "-") {
			s.operands = append(s.operands, operand{at: s.i})
		}
	}
}

// remoteSchemes are the schemes of packages that are fetched from an address of their
// own.
const remoteSchemes text.Words = "bitbucket ftp gist git git+ftp git+http git+https git+rsync git+ssh github gitlab http https sftp ssh"

// isRemote says whether a package is named by a URL or a git address, with or without
// "name@" in front. A name, a version, a file or an alias ("npm:name") is not remote.
func isRemote(spec string) bool {
	if hasScheme(spec, remoteSchemes) {
		return true
	}
	if user, rest, ok := strings.Cut(spec, "@"); ok {
		if host, path, ok := strings.Cut(rest, ":"); ok && path != "" && !strings.Contains(user, "/") && (user == "git" || strings.Contains(host, ".")) {
			return true
		}
	}
	// The first "@" of "@scope/name@…" belongs to the name.
	if _, rest, ok := strings.Cut(strings.TrimPrefix(spec, "@"), "@"); ok {
		return isRemote(rest)
	}
	return isHosted(spec)
}

// isHosted says whether a package is "owner/name", the short form of a repository.
func isHosted(spec string) bool {
	spec, _, _ = strings.Cut(spec, "#")
	owner, name, ok := strings.Cut(spec, "/")
	if !ok || owner == "" || name == "" || strings.ContainsAny(owner, ".~@:") || strings.ContainsAny(name, "/:") {
		return false
	}
	name = strings.ToLower(name)
	return !strings.HasSuffix(name, ".tgz") && !strings.HasSuffix(name, ".tar.gz") && !strings.HasSuffix(name, ".tar")
}
