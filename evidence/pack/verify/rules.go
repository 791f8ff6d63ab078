package verify

import (
	"slices"

	"github.com/fiador/fiador/evidence/pack"
	"github.com/fiador/fiador/evidence/pack/sign"
)

// Rules returns the records of all rules: of the structural level, of the strict level,
// and of the rules that need a key (TestEveryRuleHasARecord).
func Rules() []pack.Rule { return slices.Concat(structuralRules(), strictRules(), sign.Rules()) }

func structuralRules() []pack.Rule {
	var list []pack.Rule
	for _, r := range [][3]string{
		{"BS1", "the bundle has a schema version", "A reader has to know by which version a bundle is to be read"},
		{"BS3", "outputs are sorted by path", "One plan has one order, so that equal plans have equal bytes"},
		{"BS4", "constraints are sorted", "The order of constraints means nothing, so a node has them in one order only"},
		{"BS5", "questions are sorted by priority, the highest first, then by id", "Who answers sees what matters most first, and equal plans have equal bytes"},
		{"BS6", "terminal nodes are sorted by id", "One plan has one order, so that equal plans have equal bytes"},
		{"BS7", "no output path leads out of the tree", "An absolute path, a \"..\" or a backslash could name a file that is not beneath the folder where a plan is carried out"},
		{"BS8", "the bundle can be written again without loss", "A number that no double holds, or text that JSON for interchange does not, is something else to each reader"},
		{"MI1", "the recording has a version of three numbers", "A reader has to know by which version a recording is to be read"},
		{"MI2", "the recording names its adapter and model", "An answer without who gave it proves nothing"},
		{"MI3", "the mode is record or replay", "Whether a model answered or a recording did has to be said"},
		{"MI4", "there are at most 10 000 interactions", "What is read is bounded"},
		{"MI5", "i is the position of an interaction", "A gap or a second one of a number is a call that was taken away or put in"},
		{"MI6", "hashes are \"sha256:\" and 64 lower-case hexadecimal digits", "A hash of another form is found by nothing"},
		{"MI7", "the response hash is that of the response", "A response that was changed is no longer what the model said"},
		{"MI8", "no two interactions have one prompt hash and position", "A replay has one answer for each call"},
		{"MI9", "interactions ascend", "They stand in the order of the calls"},
		{"MI11", "no response has more than 1 000 000 bytes, and all together 100 000 000", "What is read is bounded"},
		{"PK1", "the files that the outcome demands are there", "A pack proves a run to whoever has nothing else"},
		{"PK2", "there is no other file", "What no rule looks at would be carried along unseen"},
		{"PK3", "run.json has its members and a known outcome", "There is no fourth outcome that a reader could take for a permission"},
		{"PK4", "bundle.json is a JSON object", "Nothing can be said of a plan that cannot be read"},
		{"PK5", "run.json names the bundle that is there", "The decision is about one plan, byte for byte"},
		{"PK6", "there is no link", "A link means something else wherever the pack is taken"},
		{"PK7", "names are clean and unique", "A name with a slash or a control character is another file on another system; of two files of one name each reader sees another"},
		{"PK8", "the other files are JSON objects, and policy.json is the policy of run.json", "What an optional file says counts as much as if it were mandatory"},
		{"PK9", "ledger lines are records of a run, all sealed or none", "A line that has lost its seal cannot be held against any ledger; entries of a server have no seals"},
		{"PK11", "meta.json is JSON", "It is free, but a signature in it has to be found"},
		{"PK12", "there are only regular files, and none is over its limit", "Folders, devices and pipes harm who reads them; what is read is bounded"},
		{"PS1", "the patch has a schema version", "A reader has to know by which version a patch is to be read"},
		{"PS2", "an operation creates, modifies or deletes", "There is no fourth operation that one tool knows and another does not"},
		{"PS3", "no path of the patch is absolute", "A patch is carried out beneath a folder that whoever carries it out chooses"},
		{"PS4", "paths of the patch are clean", "A path that systems read differently, or that leads out of the folder, is another file there"},
		{"PS5", "a path has one operation", "Of two operations on one file the last one would count, and whoever reads the first is misled"},
		{"PS6", "contents are there where a file is written, and are text", "A NUL or half a character is kept by some tools and dropped by others"},
		{"PS7", "total_bytes is true and at most 52 428 800", "A reader can make room, and refuse, before it reads the contents"},
		{"PS8", "operations are sorted by order, then path", "One patch has one order, so that equal patches have equal bytes"},
		{"PS9", "no operation makes a link", "A link leads out of the folder, whatever its own path is"},
		{"RN1", "the version of runner.json is 1.0.0", "A reader has to know by which version it is to be read"},
		{"RN2", "the runner has an id and a version", "What ran has to have a name"},
		{"RN3", "the platform is a known one", "Names of systems and machines are those that every reader knows"},
		{"RN4", "the sandbox is a known one, and none isolates nothing", "A backend without isolation would read as a sandbox"},
		{"RN5", "limits are within their bounds", "A limit that no policy can have was not enforced"},
		{"RN6", "lists of commands are sorted and share nothing", "A command that is allowed and blocked is neither"},
		{"RN7", "write roots are sorted and relative", "A root of another machine means nothing here, and leaks"},
		{"RN8", "the working folder is \".\" and environment names are sorted", "Paths of the machine stay there"},
		{"RN9", "times are UTC and agree", "A duration that its two times contradict was not measured"},
		{"RN10", "the end is an exit code, a signal, and two facts", "What ended a command has to be told apart"},
		{"RN11", "runner_hash is the hash of what another run does not change", "Two runs on one machine can be told by one value, if it is true"},
		{"RN12", "runner.json can be written again without loss", "A number that no double holds, or text that JSON for interchange does not, is something else to each reader"},
		{"TI1", "the recording of services has a version of three numbers", "A reader has to know by which version a recording is to be read"},
		{"TI2", "each attempt names its action and its adapter", "An answer without who asked for it proves nothing"},
		{"TI3", "the mode is record or replay", "Whether a service answered or a recording did has to be said"},
		{"TI4", "there are at most 10 000 attempts", "What is read is bounded"},
		{"TI5", "i is the position of an attempt", "A gap or a second one of a number is an attempt that was taken away or put in"},
		{"TI6", "hashes are \"sha256:\" and 64 lower-case hexadecimal digits", "A hash of another form is found by nothing"},
		{"TI7", "the response hash is that of the response", "A response that was changed is no longer what the service said"},
		{"TI8", "attempts of an adapter for an action are counted from 1", "A replay has one answer for each attempt"},
		{"TI9", "attempts ascend", "They stand in the order in which they were made"},
		{"TI10", "a failed attempt has no response, and an answered one no trait of a failure", "What failed and was answered at once would be read in two ways"},
		{"TI11", "no response has more than 1 000 000 bytes, and all together 100 000 000", "What is read is bounded"},
	} {
		list = append(list, pack.Rule{ID: r[0], Level: pack.Structural, Title: r[1], Description: r[2]})
	}
	return list
}
