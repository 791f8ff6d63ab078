// Package contract holds what the code execution contract says about one
// execution, as data and as total functions over values: the limits, the access
// levels, the input checks IV-01 to IV-05 and the meaning of exit codes. It knows
// no policy; a profile chooses within these bounds. The page for people is
// specs/execution.md, held to this package by TestPage.
//
// # Limits
//
// Each limit has a least and a greatest value, and mostly a default. A value
// outside of them is an error, never clamped. Limits lists them
// (TestLimitVectors).
//
// # Access levels
//
// An FSLevel says what a command can read and write. Nobody names one: ProfileAccess
// says which a built-in profile gives.
//
// # Input checks
//
//	IV-01  CheckCommand      the command's name is in the allowlist
//	IV-02  CheckArgument     what a shell would read is not handed to one
//	IV-03  CheckPath         a path is relative and stays beneath its folder
//	IV-04  CheckEnvironment  every variable is one that is allowed
//
// A check refuses and never repairs: nothing is escaped, stripped or truncated,
// so that what runs is what was decided. Text with NUL, where the system would
// cut it, and text that is not UTF-8 is refused everywhere. Each check has
// vectors in specs/vectors/execution/iv.json (TestInputVectors).
//
// # Exit codes
//
// Interpret says what an exit code means and what to do next, for 0 to 255
// (TestExitCodeVectors).
package contract

// Limit is one bounded number. A value outside [Min, Max] is an error, never
// clamped. A Default outside of them says that the limit has none.
type Limit struct {
	Default, Min, Max int
}

// Holds says whether v lies within the limit.
func (l Limit) Holds(v int) bool { return v >= l.Min && v <= l.Max }

// HasDefault says whether the limit has a default.
func (l Limit) HasDefault() bool { return l.Holds(l.Default) }

// TimeoutMS is the wall time of one execution in milliseconds
// (code execution contract, "Default Limits").
func TimeoutMS() Limit { return Limit{Default: 30000, Min: 1000, Max: 600000} }

// MemoryMB is the memory of one execution in MiB (code execution contract, "Default
// Limits").
func MemoryMB() Limit { return Limit{Default: 512, Min: 64, Max: 4096} }

// CPUCores is the number of logical cores of one execution
// (code execution contract, "Default Limits").
func CPUCores() Limit { return Limit{Default: 1, Min: 1, Max: 4} }

// MaxChildren is how many child processes an execution may have at once
// (code execution contract, "Default Limits").
func MaxChildren() Limit { return Limit{Default: 10, Min: 0, Max: 100} }

// MaxOutputFiles is how many output files a profile may allow. It has no
// default: a profile says it.
func MaxOutputFiles() Limit { return Limit{Min: 1, Max: 10000} }

// MaxTotalOutputBytes is how many bytes of output files a profile may allow
// together. It has no default: a profile says it.
func MaxTotalOutputBytes() Limit { return Limit{Min: 1024, Max: 1073741824} }

// StdoutBytes is how much of standard output is kept: its first bytes. More is
// read and counted, not kept (code execution contract, "Output Capture").
func StdoutBytes() Limit { return Limit{Default: 1048576, Min: 1024, Max: 1048576} }

// StderrBytes is how much of standard error is kept: its first bytes. More is
// read and counted, not kept (code execution contract, "Output Capture").
func StderrBytes() Limit { return Limit{Default: 262144, Min: 1024, Max: 262144} }

// OutputFilesBytes is how many bytes the output files of an execution request
// may have together (code execution contract, "Output Capture"). An intent that
// runs has its profile's total instead.
func OutputFilesBytes() Limit { return Limit{Default: 10485760, Min: 1024, Max: 10485760} }

// ArtifactsBytes is how many bytes the artifacts of an execution request may
// have together (code execution contract, "Output Capture").
func ArtifactsBytes() Limit { return Limit{Default: 10485760, Min: 1024, Max: 10485760} }

// StdinBytes is how many bytes a command may get on standard input (code
// execution contract, IV-05).
func StdinBytes() Limit { return Limit{Default: 1048576, Min: 0, Max: 1048576} }

// InputFiles is how many input files may be staged for one execution (code
// execution contract, IV-05).
func InputFiles() Limit { return Limit{Default: MaxInputs, Min: 0, Max: MaxInputs} }

// InputFilesBytes is how many bytes these files may have together (code
// execution contract, IV-05).
func InputFilesBytes() Limit { return Limit{Default: 67108864, Min: 0, Max: 67108864} }

// KeptBytes is how much of each stream is kept under a policy that allows total
// bytes of output: the contract's limit, or the total where that is smaller.
func KeptBytes(total int) (stdout, stderr int) {
	total = max(total, 0)
	return min(StdoutBytes().Default, total), min(StderrBytes().Default, total)
}

// NamedLimit is a limit with what one says of it.
type NamedLimit struct {
	Name   string // as in a profile or a request, such as timeout_ms
	Limit  Limit
	Unit   string // ms, MiB, bytes, cores, processes, files
	Clause string // of the code execution contract, or what else sets it
}

// Limits lists the limits of an execution, in the order of specs/execution.md.
// Those of an intent are the constants below.
func Limits() []NamedLimit {
	const (
		defaults = "Default Limits"
		capture  = "Output Capture"
		profile  = "policy profile"
		inputs   = "IV-05"
	)
	return []NamedLimit{
		{"timeout_ms", TimeoutMS(), "ms", defaults},
		{"memory_mb", MemoryMB(), "MiB", defaults},
		{"cpu_cores", CPUCores(), "cores", defaults},
		{"max_children", MaxChildren(), "processes", defaults},
		{"max_output_files", MaxOutputFiles(), "files", profile},
		{"max_total_output_bytes", MaxTotalOutputBytes(), "bytes", profile},
		{"stdout_bytes", StdoutBytes(), "bytes", capture},
		{"stderr_bytes", StderrBytes(), "bytes", capture},
		{"output_files_bytes", OutputFilesBytes(), "bytes", capture},
		{"artifacts_bytes", ArtifactsBytes(), "bytes", capture},
		{"stdin_bytes", StdinBytes(), "bytes", inputs},
		{"input_files", InputFiles(), "files", inputs},
		{"input_files_bytes", InputFilesBytes(), "bytes", inputs},
	}
}

// The limits of an intent. Beyond one of them it is not an intent (RUN_E003).
const (
	MaxGoalRunes       = 65536 // characters of the goal
	MaxConstraints     = 1000  // constraints
	MaxConstraintRunes = 8192  // characters of one constraint
	MaxActions         = 256   // actions
	MaxInputs          = 1000  // declared inputs
	MaxOutputs         = 10000 // declared outputs
	MaxPathRunes       = 1024  // characters of a path
	MaxArgs            = 1024  // words of one argv
	MaxArgRunes        = 131072
	MaxEnv             = 64 // environment names of one action
	MaxRiskTags        = 32 // risk tags of one action

	// MaxStringBytes is the most that one argument, or one variable as NAME=VALUE, may
	// have. A kernel with the smallest pages starts no command with more: MAX_ARG_STRLEN
	// is 32 pages of 4096 bytes, and the NUL at the end counts.
	MaxStringBytes = 32*4096 - 1
)
