package result

import (
	"strconv"
	"strings"
)

// SchemaVersion is the version of the RunResult format (RS1).
const SchemaVersion = "1.1.0"

// ContractVersion is the version of the contract's RunResult. That version has no
// policy_provenance and no execution_mode.
const ContractVersion = "1.0.0"

// Edition says how a version of the format relates to SchemaVersion.
type Edition int

// The editions. A Later edition has the same major version, and may have members that
// this program does not know.
const (
	Foreign Edition = iota
	Contract
	Current
	Later
)

// EditionOf returns the edition of a run_schema_version.
func EditionOf(version string) Edition {
	switch version {
	case SchemaVersion:
		return Current
	case ContractVersion:
		return Contract
	}
	given, ok := numbers(version)
	current, _ := numbers(SchemaVersion)
	if ok && given[0] == current[0] && (given[1] > current[1] || given[1] == current[1] && given[2] > current[2]) {
		return Later
	}
	return Foreign
}

// numbers reads MAJOR.MINOR.PATCH, where each part is a number without a leading zero.
func numbers(version string) (n [3]int, ok bool) {
	parts := strings.Split(version, ".")
	if len(parts) != len(n) {
		return n, false
	}
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 31)
		if err != nil || strconv.FormatUint(v, 10) != p {
			return n, false
		}
		n[i] = int(v)
	}
	return n, true
}

// SinceContract returns the members of SchemaVersion that ContractVersion does not
// have.
func SinceContract() []string { return []string{"execution_mode", "policy_provenance"} }
