package contract

// FSLevel is a level of access to the file system (code execution contract, "Filesystem
// Access Levels"). Each level includes the levels before it. The zero value is no level
// and gives no access.
type FSLevel string

// The file system levels, from narrow to wide.
const (
	Minimal  FSLevel = "minimal"
	Standard FSLevel = "standard"
	Extended FSLevel = "extended"
	Elevated FSLevel = "elevated"
)

// FSAccess is what a command can read and write, beside the files that every program
// needs. These are the system's programs and libraries, read-only, and an /etc and /tmp
// of its own. The zero value gives nothing more.
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

// Access returns the access of the level; an unknown level gives none.
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

// ProfileAccess returns the access of a run under a built-in profile, and false for any
// other name. strict reads what Minimal reads. Under every profile a run writes into
// its working directory. That directory is a staged copy, and only the changes that the
// policy allows are applied afterwards.
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
