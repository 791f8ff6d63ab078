package evidence

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
)

// Status is how far a clause is enforced.
type Status string

// The states of a clause, from strong to weak.
const (
	Enforced Status = "enforced"
	Partial  Status = "partial"
	Absent   Status = "absent"
)

// Clause is one promise of a sandbox, the mechanism behind it, and how far that reaches.
type Clause struct {
	Clause    string `json:"clause"`
	Mechanism string `json:"mechanism"`
	Status    Status `json:"status"`
}

// The names of the clauses.
const (
	ClauseTimeout   = "timeout"
	ClauseMemory    = "memory"
	ClauseProcesses = "processes"
	ClauseFork      = "allow_fork"
	ClauseCPU       = "cpu_cores"
	ClauseFiles     = "files"
	ClauseDisk      = "disk"
	ClauseNetwork   = "network"
	ClauseProcs     = "other processes"
	ClauseKernel    = "kernel"
	ClauseStreams   = "streams"
	ClauseEnv       = "environment"
	ClauseMetadata  = "metadata"
)

// Mechanism is what enforces a clause, or fails to.
type Mechanism int

// The mechanisms, by clause.
const (
	TimeoutNamespace Mechanism = iota
	TimeoutSubreaper
	MemoryCgroup
	MemoryFull     // watched, with file systems in memory
	MemoryConfined // watched, with the temporary folder
	MemoryNone     // watched
	ProcessesFilter
	ProcessesCgroup
	ProcessesNamespace
	ProcessesOwnID
	ProcessesUser
	ForkAllowed
	ForkFilter
	ForkNone
	CPUCgroup
	CPUFilter
	CPUAffinity
	FilesNamespace
	FilesNoLandlock
	FilesLandlock
	FilesLandlockTruncate
	FilesNone
	DiskOverlay
	DiskCopy
	DiskDirect
	NetworkAllowed
	NetworkNamespace
	NetworkProxy
	NetworkFilter
	NetworkNone
	ProcsNamespace
	ProcsLandlock
	ProcsSignals
	ProcsNone
	KernelFilter
	KernelCapabilities
	StreamsKept
	EnvMade
	MetadataNamespace
	MetadataOwnID
	MetadataFilter
	MetadataNone
)

// isolations are those at which a mechanism can be the one of its clause.
type isolations uint8

const (
	full isolations = 1 << iota
	confined
	none

	apart = full | confined
	alone = confined | none
	every = full | confined | none
)

// Parts of what mechanisms say.
const (
	byFilter      = "seccomp: fork, vfork and clone of a process"
	tasks         = " of # processes and threads, which count alike"
	watchedMemory = "RLIMIT_DATA for each process, a look ten times a second at what all of them have together, page tables and buffers of sockets included"
	noShared      = "no memory that is shared without a file; not bounded: what is taken between two looks, other memory of the kernel"
)

// mechanisms say of each mechanism its clause, at which isolations it can stand, how far
// it reaches, and what it is. # stands for a number.
var mechanisms = [...]struct {
	clause string
	at     isolations
	status Status
	prose  string
}{
	TimeoutNamespace:      {ClauseTimeout, full, Enforced, "pid namespace: SIGTERM, then SIGKILL to process 1"},
	TimeoutSubreaper:      {ClauseTimeout, alone, Partial, "subreaper that kills what descends from it"},
	MemoryCgroup:          {ClauseMemory, every, Enforced, "cgroup for the total, RLIMIT_DATA for each process"},
	MemoryFull:            {ClauseMemory, full, Partial, watchedMemory + ", sizes of the file systems in memory, " + noShared},
	MemoryConfined:        {ClauseMemory, confined, Partial, watchedMemory + ", the same for the temporary folder where it is in memory, " + noShared},
	MemoryNone:            {ClauseMemory, none, Partial, watchedMemory + "; not bounded: shared memory of every kind, the temporary folder where it is in memory"},
	ProcessesFilter:       {ClauseProcesses, apart, Enforced, byFilter},
	ProcessesCgroup:       {ClauseProcesses, every, Partial, "pids cgroup" + tasks},
	ProcessesNamespace:    {ClauseProcesses, full, Partial, "RLIMIT_NPROC in the user namespace" + tasks},
	ProcessesOwnID:        {ClauseProcesses, alone, Partial, "RLIMIT_NPROC of an id of its own" + tasks},
	ProcessesUser:         {ClauseProcesses, alone, Partial, "RLIMIT_NPROC" + tasks + ", above what the user ran at the start"},
	ForkAllowed:           {ClauseFork, every, Enforced, "forking is allowed"},
	ForkFilter:            {ClauseFork, apart, Enforced, byFilter},
	ForkNone:              {ClauseFork, none, Absent, "none"},
	CPUCgroup:             {ClauseCPU, every, Enforced, "affinity and cgroup quota"},
	CPUFilter:             {ClauseCPU, apart, Enforced, "affinity, which seccomp keeps as it is"},
	CPUAffinity:           {ClauseCPU, none, Partial, "affinity, which a command can widen"},
	FilesNamespace:        {ClauseFiles, full, Enforced, "mount namespace that shows what is allowed, and Landlock"},
	FilesNoLandlock:       {ClauseFiles, full, Partial, "mount namespace that shows what is allowed; no Landlock"},
	FilesLandlock:         {ClauseFiles, confined, Partial, "Landlock #: not the mode and times of files"},
	FilesLandlockTruncate: {ClauseFiles, confined, Partial, "Landlock #, truncate by seccomp: not the mode and times of files"},
	FilesNone:             {ClauseFiles, none, Absent, "none"},
	DiskOverlay:           {ClauseDisk, every, Enforced, "overlay in a tmpfs of limited size and inodes"},
	DiskCopy:              {ClauseDisk, every, Partial, "RLIMIT_FSIZE for each file of a copy; the total is judged afterwards"},
	DiskDirect:            {ClauseDisk, every, Partial, "RLIMIT_FSIZE for each file; direct writes are not judged"},
	NetworkAllowed:        {ClauseNetwork, every, Enforced, "the host's network, as asked for"},
	NetworkNamespace:      {ClauseNetwork, full, Enforced, "network namespace with loopback alone; socket families by seccomp"},
	NetworkProxy:          {ClauseNetwork, full, Enforced, "network namespace with loopback alone; TLS to the listed hosts through a proxy outside; socket families by seccomp"},
	NetworkFilter:         {ClauseNetwork, confined, Enforced, "seccomp: no sockets"},
	NetworkNone:           {ClauseNetwork, none, Absent, "none"},
	ProcsNamespace:        {ClauseProcs, full, Enforced, "pid namespace, no ptrace"},
	ProcsLandlock:         {ClauseProcs, confined, Enforced, "Landlock and seccomp: no ptrace, no signals to outside"},
	ProcsSignals:          {ClauseProcs, confined, Partial, "Landlock and seccomp: no ptrace; signals to the user's processes are possible"},
	ProcsNone:             {ClauseProcs, none, Absent, "none"},
	KernelFilter:          {ClauseKernel, apart, Enforced, "no capabilities, no_new_privs, seccomp"},
	KernelCapabilities:    {ClauseKernel, none, Partial, "no capabilities, no_new_privs"},
	StreamsKept:           {ClauseStreams, every, Enforced, "the first bytes are kept, the rest is read and counted"},
	EnvMade:               {ClauseEnv, every, Enforced, "made from nothing"},
	MetadataNamespace:     {ClauseMetadata, full, Enforced, "mount namespace: what may not be written is read-only"},
	MetadataOwnID:         {ClauseMetadata, confined, Partial, "an id of its own, which owns no file outside; seccomp: no change of owners and extended attributes"},
	MetadataFilter:        {ClauseMetadata, confined, Absent, "none for modes and times of the user's files, wherever they are; seccomp: no change of owners and extended attributes"},
	MetadataNone:          {ClauseMetadata, none, Absent, "none"},
}

// Clause is the clause of a mechanism whose text has no number.
func (m Mechanism) Clause() Clause {
	row := mechanisms[m]
	return Clause{row.clause, row.prose, row.status}
}

// With is the clause of a mechanism with a number.
func (m Mechanism) With(n int) Clause {
	c := m.Clause()
	c.Mechanism = strings.Replace(c.Mechanism, "#", strconv.Itoa(n), 1)
	return c
}

// Clauses are the names of all clauses, in the order in which documents list them.
func Clauses() []string {
	var list []string
	for _, row := range mechanisms {
		list = append(list, row.clause)
	}
	return slices.Compact(list)
}

// Mechanisms are those that can stand at an isolation.
func Mechanisms(at kernel.Isolation) []Mechanism {
	bit := map[kernel.Isolation]isolations{kernel.IsolationFull: full, kernel.IsolationConfined: confined, kernel.IsolationNone: none}[at]
	var list []Mechanism
	for m, row := range mechanisms {
		if row.at&bit != 0 {
			list = append(list, Mechanism(m))
		}
	}
	return list
}

// Statuses are those that a clause can have at an isolation, from strong to weak.
func Statuses(clause string, at kernel.Isolation) []Status {
	var list []Status
	for _, m := range Mechanisms(at) {
		if c := m.Clause(); c.Clause == clause {
			list = append(list, c.Status)
		}
	}
	order := []Status{Enforced, Partial, Absent}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return slices.Compact(list)
}

// Holds says whether a mechanism of this version gives the clause its status.
func (c Clause) Holds() bool {
	return c.HoldsAt(kernel.IsolationFull) || c.HoldsAt(kernel.IsolationConfined) || c.HoldsAt(kernel.IsolationNone)
}

// HoldsAt says whether a mechanism that can stand at an isolation gives the clause its status.
func (c Clause) HoldsAt(at kernel.Isolation) bool {
	text := numberless(c.Mechanism)
	return slices.ContainsFunc(Mechanisms(at), func(m Mechanism) bool {
		row := m.With(0)
		return row.Clause == c.Clause && row.Status == c.Status && numberless(row.Mechanism) == text
	})
}

// numberless is a text with N for each number in it.
func numberless(text string) string {
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	var b strings.Builder
	for i := range len(text) {
		switch {
		case !digit(text[i]):
			b.WriteByte(text[i])
		case i == 0 || !digit(text[i-1]):
			b.WriteByte('N')
		}
	}
	return b.String()
}

// Tier is how documents name an isolation: by a level, and by what isolates.
type Tier struct {
	Isolation      kernel.Isolation
	Level, Backend string
}

// Tiers are the tiers from strong to weak.
func Tiers() []Tier {
	return []Tier{
		{kernel.IsolationFull, "strict", "container"},
		{kernel.IsolationConfined, "standard", "process"},
		{kernel.IsolationNone, "none", "none"},
	}
}

// TierAt is the tier of an isolation.
func TierAt(i kernel.Isolation) Tier {
	return pick(func(t Tier) bool { return t.Isolation == i })
}

// TierNamed is the tier of a level, and the zero value for a level that is none.
func TierNamed(level string) Tier {
	return pick(func(t Tier) bool { return t.Level == level })
}

func pick(is func(Tier) bool) Tier {
	for _, t := range Tiers() {
		if is(t) {
			return t
		}
	}
	return Tier{}
}
