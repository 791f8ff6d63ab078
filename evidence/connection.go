package evidence

// Connection is one connection that a command asked the proxy of its sandbox for.
type Connection struct {
	Action   int    `json:"action"`   // number of the action, from 0 on
	Name     string `json:"name"`     // of the host in lower case; empty if the request names none
	Port     int    `json:"port"`     // 0 if the request names no host
	Sent     int64  `json:"sent"`     // bytes to the host
	Received int64  `json:"received"` // bytes from the host
	Verdict  string `json:"verdict"`  // one of Verdicts
}

// MaxConnections is the largest number of connections of one execution.
const MaxConnections = 4096

// The verdicts on a connection. Only one that was passed on has sent and received bytes.
const (
	Passed            = "passed"
	RefusedRequest    = "not a CONNECT request"
	RefusedName       = "not the name of a host"
	RefusedUnlisted   = "not a listed host"
	RefusedAddress    = "not an address that may be reached"
	RefusedNotTLS     = "not TLS"
	RefusedServerName = "TLS for another name"
	Unreachable       = "no connection to the host"
	Unfinished        = "no handshake in time"
)

// Verdicts lists the verdicts on a connection.
func Verdicts() []string {
	return []string{Passed, RefusedRequest, RefusedName, RefusedUnlisted, RefusedAddress, RefusedNotTLS, RefusedServerName, Unreachable, Unfinished}
}
