package contract

import (
	"cmp"
	"strconv"
	"strings"
)

// NetLevel is a level of access to the network (code execution contract, "Network Access
// Levels"). The zero value is no level.
type NetLevel string

// The network levels, from narrow to wide.
const (
	Offline  NetLevel = "offline"  // nothing
	Registry NetLevel = "registry" // the listed registries
	API      NetLevel = "api"      // the listed hosts, and the listed registries
	Open     NetLevel = "open"     // everything that the machine can reach
)

// NetworkLevel returns the level of a profile. allow is its allow_network; hosts and
// registries are its lists. Without a list nothing is reached: an open network is asked for
// in so many words.
func NetworkLevel(allow bool, hosts AllowList, registries []string) NetLevel {
	switch {
	case !allow:
		return Offline
	case hosts.All:
		return Open
	case len(hosts.Names) > 0:
		return API
	case len(registries) > 0:
		return Registry
	}
	return Offline
}

// Host is an entry of a list of hosts. Entries are written "host", "host:port", "*.host"
// and "private:host:port", in lower case.
type Host struct {
	Name    string // "*.host" is each name that has one label more than host
	Port    int    // 0: the entry has none
	Private bool   // also at an address of this machine or of a private network
}

// httpsPort is the port of an allowed host whose entry has none.
const httpsPort = 443

// MaxHostBytes is the greatest length of the name of a host.
const MaxHostBytes = 253

// HostName returns the form in which the name of a host is compared: lower case, without
// one dot at its end. It returns false for text that is no name of a host: each label has
// 1 to 63 ASCII letters, digits and hyphens, with no hyphen at its ends, and the last label
// begins with a letter. An address is no name.
func HostName(s string) (string, bool) {
	if strings.ContainsFunc(s, func(r rune) bool { return r > '~' }) { // some become ASCII in lower case
		return "", false
	}
	s = strings.TrimSuffix(strings.ToLower(s), ".")
	last := ""
	for last = range strings.SplitSeq(s, ".") {
		strange := strings.ContainsFunc(last, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
		if strange || last == "" || len(last) > 63 || last[0] == '-' || last[len(last)-1] == '-' {
			return "", false
		}
	}
	return s, len(s) <= MaxHostBytes && last[0] >= 'a'
}

// ParseHost reads an entry of a list of hosts, and returns what is wrong, or "".
func ParseHost(entry string) (h Host, wrong string) {
	rest, private := strings.CutPrefix(entry, "private:")
	name, port, has := strings.Cut(rest, ":")
	base, wild := strings.CutPrefix(name, "*.")
	clean, ok := HostName(base)
	h = Host{Name: name, Private: private}
	if has {
		h.Port, _ = strconv.Atoi(port)
	}
	switch {
	case !ok || clean != base:
		return Host{}, "not the name of a host in lower case"
	case wild && (has || private || !strings.Contains(base, ".")):
		return Host{}, `"*." stands before a name with a dot, and without a port`
	case private && !has:
		return Host{}, `"private:" needs a port, as in private:host:8443`
	case has && (strconv.Itoa(h.Port) != port || h.Port < 1 || h.Port > 65535):
		return Host{}, "the port is not a number from 1 to 65535"
	}
	return h, ""
}

// ParseHosts reads a list of hosts. It returns the index of the first wrong entry and what
// is wrong with it, or "".
func ParseHosts(entries []string) (list []Host, at int, wrong string) {
	for at, entry := range entries {
		h, wrong := ParseHost(entry)
		if wrong != "" {
			return nil, at, wrong
		}
		list = append(list, h)
	}
	return list, 0, ""
}

// names says whether the entry names a host.
func (h Host) names(name string) bool {
	label, below := strings.CutSuffix(name, strings.TrimPrefix(h.Name, "*"))
	return h.Name == name || strings.HasPrefix(h.Name, "*.") && below && label != "" && !strings.Contains(label, ".")
}

// port returns the port of an allowed host.
func (h Host) port() int { return cmp.Or(h.Port, httpsPort) }

// HostWithin says whether a list with the entry by allows everything that a list with entry
// allows. An entry that cannot be read is within none.
func HostWithin(entry, by string) bool {
	h, wrong := ParseHost(entry)
	b, wrongBy := ParseHost(by)
	return wrong == "" && wrongBy == "" && b.names(h.Name) && b.port() == h.port() && (b.Private || !h.Private)
}

// Hosts are the hosts that a command may reach: those of Allow that are not in Deny. The
// zero value allows none.
type Hosts struct{ Allow, Deny []Host }

// Within returns the hosts of h that a list allows too. What h denies stays denied.
func (h Hosts) Within(list []Host) Hosts {
	both := Hosts{Deny: h.Deny}
	for _, a := range h.Allow {
		for _, b := range list {
			name := a.Name
			if a.names(b.Name) {
				name = b.Name
			} else if !b.names(a.Name) {
				continue
			}
			if a.port() == b.port() {
				both.Allow = append(both.Allow, Host{name, a.port(), a.Private && b.Private})
			}
		}
	}
	return both
}

// Allows says whether a port of a host may be reached, and whether it may be reached at an
// address of this machine or of a private network. name is in the form of HostName. An
// entry of Allow without a port is about port 443; one of Deny is about every port.
func (h Hosts) Allows(name string, port int) (private, ok bool) {
	for _, d := range h.Deny {
		if d.names(name) && (d.Port == 0 || d.Port == port) {
			return false, false
		}
	}
	for _, a := range h.Allow {
		if a.names(name) && a.port() == port {
			private, ok = private || a.Private, true
		}
	}
	return private, ok
}
