package outbound

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fiador/fiador/lazy"
)

// Dialer connects to hosts by their names.
type Dialer struct {
	// Lookup returns the addresses of a name; nil asks the system.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
}

// ErrAddress says that a name leads only to addresses that may not be reached.
var ErrAddress = errors.New("the name leads to an address that may not be reached")

// Dial connects to a port of a host over TCP. It connects only to public addresses, and with
// private also to addresses of this machine and of private networks (Allowed). The check is
// made with the address that the connection goes to, so a name whose addresses change gains
// nothing. If every address is refused, the error is ErrAddress. ctx has a deadline, which
// the addresses share.
func (d Dialer) Dial(ctx context.Context, name string, port int, private bool) (net.Conn, error) {
	return d.dial(ctx, name, port, func(a netip.Addr) bool { return Allowed(a, private) })
}

// dial connects to the addresses of a name that are allowed.
func (d Dialer) dial(ctx context.Context, name string, port int, allowed func(netip.Addr) bool) (net.Conn, error) {
	lookup := d.Lookup
	if lookup == nil {
		lookup = lookupSystem
	}
	list, err := lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	err = ErrAddress
	for i, a := range list {
		if !allowed(a) {
			continue
		}
		dialer := net.Dialer{ControlContext: control(allowed, ErrAddress)}
		if end, has := ctx.Deadline(); has {
			dialer.Timeout = time.Until(end) / time.Duration(len(list)-i)
		}
		var c net.Conn
		if c, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(a.String(), strconv.Itoa(port))); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// control checks the address that a connection goes to.
func control(allowed func(netip.Addr) bool, refusal error) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(to.Addr()) {
			return refusal
		}
		return nil
	}
}

// lookupSystem asks the resolver of the system, which tries no search domain for a name with
// a dot. It answers addresses of version 4 in the form of version 6.
func lookupSystem(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	list, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	for i, a := range list {
		list[i] = a.Unmap()
	}
	return list, err
}

// Allowed says whether a connection may go to an address: a public unicast address, and
// with private also a loopback address, a private address (RFC 1918) or a unique local one.
// It refuses addresses of links, those at which clouds publish metadata of a machine, and
// every form of version 6 that has an address of version 4 in it.
func Allowed(a netip.Addr, private bool) bool {
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	switch {
	case a.Zone() != "" || a.Is4In6() || slices.Contains(metadata.Get(), a):
		return false
	case a.IsLoopback() || a.IsPrivate():
		return private
	case a.Is4():
		return !slices.ContainsFunc(special4.Get(), in)
	}
	return slices.ContainsFunc(global6.Get(), in) && !slices.ContainsFunc(special6.Get(), in)
}

// metadata are the addresses outside of links at which clouds publish metadata.
var metadata = lazy.Value[[]netip.Addr]{Make: func() []netip.Addr {
	return addresses(
		"168.63.129.16",      // Azure
		"fd00:ec2::254",      // AWS
		"fd20:ce::254",       // Google Cloud
		"fd00:c1::a9fe:a9fe", // Oracle Cloud
		"fd00:42::42",        // Scaleway
	)
}}

// special4 are the addresses of version 4 that are not public unicast ones (IANA, "IPv4
// Special-Purpose Address Registry"), without those that Allowed names.
var special4 = lazy.Value[[]netip.Prefix]{Make: func() []netip.Prefix {
	return prefixes("0.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3")
}}

// global6 are the addresses of version 6 that IANA gives out as public unicast ones.
// special6 are those of them that are not: protocols (Teredo among them), documentation,
// and 6to4. NAT64 lies outside of global6.
var (
	global6  = lazy.Value[[]netip.Prefix]{Make: func() []netip.Prefix { return prefixes("2000::/3") }}
	special6 = lazy.Value[[]netip.Prefix]{Make: func() []netip.Prefix { return prefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20") }}
)

func addresses(list ...string) (all []netip.Addr) {
	for _, s := range list {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

func prefixes(list ...string) (all []netip.Prefix) {
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}
