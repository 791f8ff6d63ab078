package contract

import (
	"slices"
	"strings"
)

// FSLevel is how much of the file system a command is given (code execution
// contract, "Filesystem Access Levels"). Each level gives what those before it
// give. The zero value is no level and gives nothing.
type FSLevel string

// The file system levels, from narrow to wide.
const (
	Minimal  FSLevel = "minimal"
	Standard FSLevel = "standard"
	Extended FSLevel = "extended"
	Elevated FSLevel = "elevated"
)

// FSLevels lists the file system levels, from narrow to wide.
func FSLevels() []FSLevel { return []FSLevel{Minimal, Standard, Extended, Elevated} }

// FSAccess is what a command can read and write beside what every program needs
// to start (the system's programs and libraries, read-only, and an /etc and /tmp
// of its own). The zero value is nothing.
type FSAccess struct {
	Level       FSLevel
	WorkRead    bool // the working directory
	WorkWrite   bool
	TreeRead    bool // the tree that the intent is about
	DepsRead    bool // dependency folders that the caller names
	OutputWrite bool // output folders outside the working directory
	SystemRead  bool // other system paths that the caller names
	NamedWrite  bool // other paths that the caller names, one by one
}

// Reads names what can be read: work, tree, deps, system.
func (a FSAccess) Reads() []string {
	return words([]string{"work", "tree", "deps", "system"}, a.WorkRead, a.TreeRead, a.DepsRead, a.SystemRead)
}

// Writes names what can be written: work, output, named.
func (a FSAccess) Writes() []string {
	return words([]string{"work", "output", "named"}, a.WorkWrite, a.OutputWrite, a.NamedWrite)
}

func words(list []string, has ...bool) []string {
	out := []string{}
	for i, word := range list {
		if has[i] {
			out = append(out, word)
		}
	}
	return out
}

// Access is what the level gives, approved or not; nothing for what is no level.
// Grant is for use.
func (l FSLevel) Access() FSAccess {
	switch l {
	case Minimal:
		return FSAccess{Level: l, WorkRead: true}
	case Standard:
		return FSAccess{Level: l, WorkRead: true, WorkWrite: true, TreeRead: true}
	case Extended:
		return FSAccess{Level: l, WorkRead: true, WorkWrite: true, TreeRead: true, DepsRead: true, OutputWrite: true}
	case Elevated:
		return FSAccess{Level: l, WorkRead: true, WorkWrite: true, TreeRead: true, DepsRead: true, OutputWrite: true, SystemRead: true, NamedWrite: true}
	}
	return FSAccess{}
}

// NeedsApproval says whether the level is given only to a request that somebody
// has approved.
func (l FSLevel) NeedsApproval() bool { return l == Elevated }

// Grant is Access for a request that is approved or not. The error is a
// *LevelError.
func (l FSLevel) Grant(approved bool) (FSAccess, error) {
	if _, err := ParseFSLevel(string(l)); err != nil {
		return FSAccess{}, err
	}
	if l.NeedsApproval() && !approved {
		return FSAccess{}, unapproved("file system", string(l))
	}
	return l.Access(), nil
}

// ParseFSLevel reads the name of a file system level, in lower case. The error is
// a *LevelError.
func ParseFSLevel(name string) (FSLevel, error) {
	return parseLevel("file system", name, FSLevels())
}

// ProfileAccess is what a run under a built-in profile is given; false for a name
// that is none of theirs. strict reads what Minimal reads, and writes into its
// working directory as every profile does: that is a staged copy, of which only
// what the policy allows is applied afterwards.
func ProfileAccess(profile string) (FSAccess, bool) {
	switch profile {
	case "strict":
		a := Minimal.Access()
		a.WorkWrite = true
		return a, true
	case "default":
		return Standard.Access(), true
	case "dev":
		return Extended.Access(), true
	}
	return FSAccess{}, false
}

// NetworkLevel is what a command can reach (code execution contract, "Network
// Access Levels"). The zero value is no level and reaches nothing.
type NetworkLevel string

// The network levels, from narrow to wide. Registry and API are names of the
// contract for which nothing here can keep the promise; they are refused.
const (
	Offline  NetworkLevel = "offline"  // nothing
	Registry NetworkLevel = "registry" // package registries
	API      NetworkLevel = "api"      // hosts of an allowlist
	Open     NetworkLevel = "open"     // anything
)

// NetworkLevels lists the network levels, from narrow to wide.
func NetworkLevels() []NetworkLevel { return []NetworkLevel{Offline, Registry, API, Open} }

// NetworkAccess is what a command is given of the network. The zero value is
// nothing.
type NetworkAccess struct {
	Level   NetworkLevel
	Enabled bool // anything can be reached
	Logged  bool // that it was given has to be recorded
}

// NeedsApproval says whether the level is given only to a request that somebody
// has approved.
func (l NetworkLevel) NeedsApproval() bool { return l == Open }

// Supported says whether the level is one that can be kept to here.
func (l NetworkLevel) Supported() bool { return l == Offline || l == Open }

// Grant is what the level gives a request with the given hosts to allow and to
// deny, approved or not. A list of hosts is refused, for nothing here filters by
// host; only what Offline should deny is denied already. The error is a
// *LevelError.
func (l NetworkLevel) Grant(allow, deny []string, approved bool) (NetworkAccess, error) {
	if _, err := ParseNetworkLevel(string(l)); err != nil {
		return NetworkAccess{}, err
	}
	switch {
	case !l.Supported():
		return NetworkAccess{}, &LevelError{Fault: UnsupportedLevel, Level: string(l), Msg: "network level " + quote(string(l)) + " is not supported",
			Hint: `use "offline", and bring what is needed as input files`}
	case len(allow) > 0 || len(deny) > 0 && l != Offline:
		return NetworkAccess{}, &LevelError{Fault: UnsupportedLevel, Level: string(l), Msg: "lists of hosts are not supported",
			Hint: `use "offline" without hosts, and bring what is needed as input files`}
	case l.NeedsApproval() && !approved:
		return NetworkAccess{}, unapproved("network", string(l))
	}
	return NetworkAccess{Level: l, Enabled: l == Open, Logged: l == Open}, nil
}

// ParseNetworkLevel reads the name of a network level, in lower case. The error
// is a *LevelError.
func ParseNetworkLevel(name string) (NetworkLevel, error) {
	return parseLevel("network", name, NetworkLevels())
}

// ProfileNetwork is the network level of a profile, given its allow_network: a
// profile that allows the network is the approval that Open needs.
func ProfileNetwork(allowNetwork bool) NetworkLevel {
	if allowNetwork {
		return Open
	}
	return Offline
}

// LevelFault says why a level is refused.
type LevelFault string

// The reasons.
const (
	UnknownLevel     LevelFault = "unknown"     // no level of that name
	UnsupportedLevel LevelFault = "unsupported" // a level or list of hosts that cannot be kept to
	UnapprovedLevel  LevelFault = "unapproved"  // a level that needs an approval it does not have
)

// LevelError is a level that is refused. Fault and Level are stable, the words
// are not.
type LevelError struct {
	Fault LevelFault
	Level string // as it was given
	Msg   string // what is wrong
	Hint  string // a thing to do
}

func (e *LevelError) Error() string { return e.Msg }

func parseLevel[L ~string](kind, name string, levels []L) (L, error) {
	if slices.Contains(levels, L(name)) {
		return L(name), nil
	}
	var known []string
	for _, l := range levels {
		known = append(known, string(l))
	}
	return "", &LevelError{Fault: UnknownLevel, Level: name, Msg: kind + " level " + quote(name) + " is unknown",
		Hint: "use one of " + strings.Join(known, ", ")}
}

func unapproved(kind, level string) *LevelError {
	return &LevelError{Fault: UnapprovedLevel, Level: level, Msg: kind + " level " + quote(level) + " needs an approval",
		Hint: "have the request approved, or use a narrower level"}
}
